"""Is every coalition above a goal? A proof for several heads that is finer than the sum of their minima.

f(S) - goal = sum_h r_h with r_h = X_h / D_h, where X_h = N_h - theta_h D_h and D_h are linear in the coalition S and
the theta_h add up to the goal (less the bias). Suppose some S has sum_h r_h < 0. Then

1. each r_h is at least rho_h, the head's own minimum less theta_h (`head_minima.py`), and so at most
   rho'_h = -sum of the other heads' rho;
2. r_h <= rho'_h is linear in S, so the masses D_h of such coalitions lie in an interval [L_h, U_h], from the Lagrange
   dual of "least D_h subject to that": max over mu >= 0 of min_S (D_h + mu (X_h - rho'_h D_h)), player by player;
3. (r_h - rho_h) D_h <= (r_h - rho_h) U_h and (rho'_h - r_h) D_h >= (rho'_h - r_h) L_h (McCormick, 1976), that is

       r_h >= rho_h + (X_h - rho_h D_h) / U_h,          r_h >= rho'_h - (rho'_h D_h - X_h) / L_h:

   both, and every mean of the two, are linear in S, so the sum over heads is least for each player on its own.

If that least sum is not negative, no such S exists. Heads that nearly agree make [L_h, U_h] narrow, and then the mean
loses little. A limit on the cost of the players that leave a coalition is handled as in `head_minima.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array, Masks
from ..game.pooled_game import LOG_RANGE_PLAIN, PooledGame
from .head_minima import head_minima, relative_error

# Multipliers of the dual, relative to one over the spread of the values; zero is the interval without any condition.
MU = np.concatenate([[0.0], np.geomspace(3e-2, 1e3, 11)])
# Weights of the second of McCormick's two lines.
MIX = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
ROUNDS = 4


class _Parts(NamedTuple):
    """Masses and values of the players in their base state and in the other one, (H, d); of the background, (H,)."""

    base: Array
    flip: Array
    v_base: Array
    v_flip: Array
    back: Array
    v_back: Array
    limit: float | None
    price: Array


def proved_above(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    goal: float,
    limit: float | None = None,
    cost: Array | None = None,
    bound: Array | None = None,
) -> bool:
    """Whether every coalition that differs from `base` (d,) in movable players only is proved to be at least `goal`.

    Coalitions without any mass are left out. False means "not proved", not "false". `bound` (H,) are the heads' minima
    where they are known.

    Examples
    --------
    >>> game = PooledGame.from_scores([[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]])
    >>> both = np.array([True, True])
    >>> proved_above(game, both, both, 1.9), proved_above(game, both, both, 3.1)
    (True, False)
    """
    if bound is None:
        limits = None if limit is None else np.array([limit])
        bound = head_minima(game, base[None], movable[None], limits, cost).bound[0]
    slack = (game.H + 4) * 2.0**-52 * (np.abs(bound).sum() + abs(game.bias) + abs(goal))
    missing = goal - game.bias - bound.sum() + slack
    if missing <= 0:
        return True
    parts = _parts(game, base, movable, limit, cost)
    if game.H == 1 or parts is None:
        return False
    # Start from the heads' minima with the missing part shared alike, then from the coalition that was least.
    theta = bound + missing / game.H
    for _ in range(ROUNDS):
        least, flipped = _least_sum(parts, theta, bound)
        if least >= 0:
            return True
        values = _values(parts, flipped)
        if values.sum() + game.bias < goal:
            return False
        theta = np.maximum(values + (goal - game.bias + slack - values.sum()) / game.H, bound)
        theta += (goal - game.bias + slack - theta.sum()) / game.H
    return False


def _parts(game: PooledGame, present: Masks, movable: Masks, limit: float | None, cost: Array | None) -> _Parts | None:
    """The parts in units of each head's largest mass; None where masses leave float64."""
    logs = np.concatenate([game.s, game.s_absent, game.s_background[:, None]], axis=1)
    top = logs.max(axis=1)
    if (top - np.where(np.isneginf(logs), np.inf, logs).min(axis=1)).max() > LOG_RANGE_PLAIN:
        return None
    a, b = np.exp(game.s - top[:, None]), np.exp(game.s_absent - top[:, None])
    base, v_base = np.where(present, a, b), np.where(present, game.v, game.v_absent)
    flip, v_flip = np.where(present, b, a), np.where(present, game.v_absent, game.v)
    return _Parts(
        base=base,
        flip=np.where(movable, flip, base),
        v_base=v_base,
        v_flip=np.where(movable, v_flip, v_base),
        back=np.exp(game.s_background - top),
        v_back=game.v_background,
        limit=limit,
        price=np.ones(game.d) if cost is None else cost,
    )


def _least(parts: _Parts, base: Array, flip: Array, back: Array) -> tuple[Array, Array]:
    """Least sum (...) over the choices of each player between two terms (..., d), less rounding; and the choice."""
    gain = np.maximum(base - flip, 0.0)
    share = (gain > 0).astype(np.float64)
    if parts.limit is not None:
        order = np.argsort(-gain / parts.price, axis=-1)
        room = (parts.limit - np.cumsum(parts.price[order], axis=-1)) / parts.price[order] + 1
        np.put_along_axis(share, order, np.clip(room, 0.0, 1.0), axis=-1)
        share *= gain > 0
    size = (np.abs(base) + np.abs(flip)).sum(axis=-1) + np.abs(back)
    error = 4 * relative_error(base.shape[-1]) * size
    return base.sum(axis=-1) + back - (gain * share).sum(axis=-1) - error, share


def _masses(parts: _Parts, tau: Array, spread: Array) -> tuple[Array, Array]:
    """L and U (H,): enclose the mass of every coalition whose head has a mean of at most tau."""
    out = []
    for sign in (1.0, -1.0):
        mu = MU[:, None, None] / spread[:, None]
        base = parts.base * (sign + mu * (parts.v_base - tau[:, None]))
        flip = parts.flip * (sign + mu * (parts.v_flip - tau[:, None]))
        back = parts.back * (sign + mu[..., 0] * (parts.v_back - tau))
        out.append(sign * _least(parts, base, flip, back)[0].max(axis=0))
    return np.maximum(out[0], 0.0), out[1]


def _least_sum(parts: _Parts, theta: Array, bound: Array) -> tuple[float, Array]:
    """Lower bound of sum_h r_h over the coalitions where it might be negative, and the choice (d,) that attains it."""
    blur = 16 * 2.0**-52 * float(np.abs(theta).sum() + np.abs(bound).sum())
    low = bound - theta - blur
    high = np.maximum(-(low.sum() - low), low) + blur
    spread = np.maximum(np.abs(parts.v_base - theta[:, None]).max(axis=1), 1e-300)
    L, U = _masses(parts, theta + high, spread)
    if (L > U).any():
        return 0.0, np.zeros(parts.price.size)
    mix = np.where(L > 0, MIX[:, None], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        over_L = np.where(L > 0, 1 / np.maximum(L, 1e-300), 0.0)
    on_X = (1 - mix) / U + mix * over_L
    on_D = -(1 - mix) * low / U - mix * high * over_L
    constant = (1 - mix) * low + mix * high

    def terms(mass: Array, v: Array) -> Array:
        return np.einsum("kh,h...->k...", on_X, mass * (v - theta.reshape(-1, *[1] * (mass.ndim - 1)))) + np.einsum(
            "kh,h...->k...", on_D, mass
        )

    least, share = _least(
        parts, terms(parts.base, parts.v_base), terms(parts.flip, parts.v_flip), terms(parts.back, parts.v_back)
    )
    least = least + constant.sum(axis=1) - blur
    best = int(np.argmax(least))
    return float(least[best]), share[best]


def _values(parts: _Parts, share: Array) -> Array:
    """(H,) means of the heads where the players with a share above one half have changed sides."""
    flipped = share > 0.5
    mass = np.where(flipped, parts.flip, parts.base)
    value = np.where(flipped, parts.v_flip, parts.v_base)
    D = mass.sum(axis=1) + parts.back
    return ((mass * value).sum(axis=1) + parts.back * parts.v_back) / np.where(D == 0, 1.0, D)
