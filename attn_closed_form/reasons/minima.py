"""The minimum of each head over the coalitions near a given one, certified, as the basis of bounds and reasons.

**One head** (`head_minima`). "f(S) >= theta" is linear in the coalition S. With the terms x_j = a_j (v_j - theta) for a
player that is present and y_j = b_j (v'_j - theta) for one that is absent,

    f(S) >= theta for every S    if and only if    c_0 (v_0 - theta) + sum_j min(x_j, y_j) >= 0,

and if the left side is negative, the coalition that attains it has a smaller value, which is the next theta
(Dinkelbach, 1967: a handful of steps, each O(d)). A limit on the number of players that change sides selects those
with the largest gains.

**Several heads** (`proved_above`) need a finer proof that every coalition is above a goal than the sum of the heads'
minima. `docs/theory/deletion-floor.md` has its three steps; the code uses its letters rho, U and mu.

**Rounding.** The proof is the sign of a sum of floating-point terms. Each carries a relative error below
(750 + d) ulps: 750 for an exponential of at most 745 in absolute value, d for the sum. So theta is accepted only if the
sum exceeds that share of the sum of absolute terms, and the claim holds in exact arithmetic on the game's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._types import Array, Masks
from ..game.links import LinkedGame
from ..game.pooled_game import LOG_RANGE_PLAIN, PooledGame

ULP = float(np.finfo(np.float64).eps)
# Terms below this share of the largest mass may underflow; `pool` allows for them.
LOST = 1e-290
# Multipliers of the dual, relative to one over the spread of the values; zero is the bound without any condition.
MU = np.concatenate([[0.0], np.geomspace(3e-2, 1e3, 11)])


def check_pooled(game: object) -> None:
    """Raise a TypeError unless the game is a `PooledGame`; bounds of a linked game follow from the game inside."""
    if not isinstance(game, PooledGame):
        if isinstance(game, LinkedGame):
            hint = "; pass its `game`, and apply the link to the result"
        else:
            hint = ""
        raise TypeError(f"game: expected a PooledGame, got {type(game).__name__}{hint}")


def mirrored(game: PooledGame) -> PooledGame:
    """Return the game with the opposite sign."""
    signed = ("v", "v_absent", "v_background", "bias", "empty_value")
    return replace(game, **{name: -getattr(game, name) for name in signed})


def value_error(game: PooledGame) -> float:
    """Return the largest possible rounding error of `game.value`."""
    largest = np.maximum(np.abs(game.v).max(axis=1), np.abs(game.v_absent).max(axis=1))
    largest = np.maximum(largest, np.abs(game.v_background))
    return float(2 * relative_error(game.d) * largest.sum() + 2 * ULP * abs(game.bias))


def relative_error(d: int) -> float:
    """Return the relative error of a sum of d exponentials times values (module docstring)."""
    return (750 + d) * ULP


def total(game: PooledGame, bound: Array) -> Array:
    """Sum the heads' bounds (n, H) and the bias, rounded down."""
    size = np.abs(bound).sum(axis=-1) + abs(game.bias)
    return bound.sum(axis=-1) + game.bias - (game.H + 2) * ULP * size


class HeadMinima(NamedTuple):
    """Proved lower bounds of the heads (n, H) and the choices (n, H, d) at which they are taken, True for present."""

    bound: Array
    present: Masks


def head_minima(
    game: PooledGame, base: Masks, movable: Masks, limit: int | None = None, exactly: bool = False
) -> HeadMinima:
    """Compute the minimum of each head over the coalitions that differ from `base` only in movable players.

    `base` and `movable` are (n, d), and `limit` is the largest number of players that may change sides, or with
    `exactly` the number of players that do, out of all. Coalitions without any mass are excluded; the caller handles
    `empty_value`.
    """
    states = _States.of(game, base, movable)
    least = states.least_value()
    flipped = np.zeros(states.base.shape, dtype=bool)
    smallest, *_ = states.pool(flipped, np.zeros(least.shape), np.full(least.shape, -np.inf))
    if exactly:  # then `base` itself is not among the coalitions
        smallest = np.full(least.shape, np.inf)
    if limit is None and np.isneginf(np.minimum(states.base, states.flip)).all():
        theta = least  # if a head may lose all other mass, its least value is its minimum
    else:
        theta = np.maximum(
            np.where(
                np.isinf(smallest), np.maximum(states.v_base, states.v_flip).max(axis=-1), smallest
            ),
            least,
        )
    done = np.zeros(theta.shape, dtype=bool)
    while not done.all():
        candidate, log_slip = states.choose(theta, limit, exactly)
        value, excess, margin = states.pool(candidate, theta, log_slip)
        # The last theta is below the minimum by a margin, and its choice may be another one: keep the best.
        better = value < smallest
        flipped = np.where(better[..., None], candidate, flipped)
        smallest = np.where(better, value, smallest)
        done |= (excess >= margin) | (theta <= least)
        # Dinkelbach's next theta is theta + excess, the value of the chosen coalition; a slightly smaller value can be
        # proved.
        lower = np.minimum(theta + excess - 1.5 * margin, np.nextafter(theta, -np.inf))
        theta = np.where(done, theta, np.maximum(lower, least))
    return HeadMinima(theta, base[:, None, :] ^ flipped[..., :-1])


@dataclass(frozen=True, eq=False)
class _States:
    """Log-masses and values of every player in its base state and in the other one, (..., H, d+1).

    A player that may not move has one state, and so has the background, which is the last player.
    """

    base: Array
    flip: Array
    v_base: Array
    v_flip: Array

    @classmethod
    def of(cls, game: PooledGame, base: Masks, movable: Masks) -> _States:
        back = game.s_background[:, None]
        v_back = game.v_background[:, None]
        s, s_absent = (np.concatenate([logs, back], axis=1) for logs in (game.s, game.s_absent))
        v, v_absent = (
            np.concatenate([values, v_back], axis=1) for values in (game.v, game.v_absent)
        )
        last = np.ones((*base.shape[:-1], 1), dtype=bool)
        present = np.concatenate([base, last], axis=-1)[..., None, :]
        flipped = np.concatenate([base ^ movable, last], axis=-1)[..., None, :]
        states = (
            (s, s_absent, present),
            (s, s_absent, flipped),
            (v, v_absent, present),
            (v, v_absent, flipped),
        )
        return cls(*(np.where(mask, there, absent) for there, absent, mask in states))

    @cached_property
    def scaled(self) -> tuple[Array, Array, Array]:
        """Return the larger of each player's two log-masses, and both masses relative to it."""
        unit = np.maximum(self.base, self.flip)
        unit = np.where(unit == -np.inf, 0.0, unit)
        return unit, np.exp(self.base - unit), np.exp(self.flip - unit)

    def least_value(self) -> Array:
        """Return the (n, H) smallest values with any mass, which no coalition can be below."""
        base = np.where(self.base == -np.inf, np.inf, self.v_base)
        flip = self.v_flip
        return np.minimum(base, np.where(self.flip == -np.inf, np.inf, flip)).min(axis=-1)

    def choose(self, theta: Array, limit: int | None, exactly: bool) -> tuple[Masks, Array]:
        """Return the (n, H, d+1) mask of players that change sides to minimize the sum of terms.

        Also return (n, H) the log of the largest error of this sum from rounding that exchanged two players.
        """
        unit, base, flip = self.scaled
        x = base * (self.v_base - theta[..., None])
        y = flip * (self.v_flip - theta[..., None])
        gain = x - y
        # If both sides are equal the lighter one is taken, so that a large mass cannot hide the other players.
        better = (gain > 0) | ((gain == 0) & (flip < base))
        if limit is None:
            return better, np.full(theta.shape, -np.inf)
        error = relative_error(0) * (np.abs(x) + np.abs(y))
        floor = unit.min() - 800.0  # below the logarithm of every gain
        if exactly:  # gains below zero are ranked too, and the logarithms of both signs are distances from the floor
            error = error * (1 + (unit.max() - floor) / 100)
        with np.errstate(divide="ignore", invalid="ignore"):
            signs = (-1, 0, 1)
            if exactly:
                gains = (gain + sign * error for sign in signs)
                low, rank, high = (
                    np.where(g == 0, 0, np.sign(g) * (unit - floor + np.log(np.abs(g))))
                    for g in gains
                )
                rank[..., -1] = high[..., -1] = -np.inf  # the background does not change
                better = np.True_
            else:
                low, _, high = (unit + np.log(np.maximum(gain + sign * error, 0)) for sign in signs)
                rank = np.where(better, unit + np.log(np.abs(gain)), -np.inf)
            log_error = unit + np.log(error)
        flipped = better & _largest(rank, limit)
        # Each chosen player that another one might outrank contributes its own error and that of the worst such rival.
        left = ~flipped & (exactly | (self.base != self.flip) | (self.v_base != self.v_flip))
        challenger = np.where(left, high, -np.inf).max(axis=-1, keepdims=True)
        doubtful = flipped & (low < challenger)
        rivals = left & (high > np.where(flipped, low, np.inf).min(axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            other = np.where(rivals, log_error, -np.inf).max(axis=-1) + np.log(
                doubtful.sum(axis=-1)
            )
        return flipped, np.logaddexp(
            _log_sum(np.where(doubtful, log_error, -np.inf)), other
        ) + np.log(2.0)

    def pool(self, flipped: Masks, theta: Array, log_slip: Array) -> tuple[Array, Array, Array]:
        """Return the mean value, the mean of value minus theta, and its rounding error, each (n, H)."""
        log_mass = np.where(flipped, self.flip, self.base)
        top = log_mass.max(axis=-1)
        empty = top == -np.inf
        top = np.where(empty, 0.0, top)
        masses = np.exp(log_mass - top[..., None])
        off = np.where(flipped, self.v_flip, self.v_base) - theta[..., None]
        mass = np.where(empty, 1.0, masses.sum(axis=-1))
        terms = masses * off
        size = np.abs(terms).sum(axis=-1)
        with np.errstate(over="ignore"):
            slip = np.exp(log_slip - top)
        lost = LOST * np.abs(off).max(axis=-1)
        margin = np.where(empty, 0.0, 2 * relative_error(flipped.shape[-1]) * size + lost + slip)
        excess = terms.sum(axis=-1) / mass
        return np.where(empty, np.inf, theta + excess), excess, margin / mass


def _largest(x: Array, limit: int) -> Masks:
    """Return whether each entry is among the `limit` largest of the last axis; ties go to the first."""
    order = np.argsort(-x, axis=-1, kind="stable")
    chosen = np.zeros(x.shape, dtype=bool)
    np.put_along_axis(chosen, order[..., :limit], True, axis=-1)
    return chosen


def _log_sum(logs: Array) -> Array:
    """Compute the log-sum-exp over the last axis, or -inf if it is empty."""
    top = logs.max(axis=-1)
    safe = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logs - safe[..., None]).sum(axis=-1)) + safe


def slopes(game: PooledGame, present: Masks, theta: Array | None = None) -> Array:
    """Return the (H, d) effects of the players' presence on the linear form (N_h - theta_h D_h) / D_h at a coalition.

    `present` is (d,), or (H, d) for one coalition per head; `theta` (H,) is the value of each head there unless given.
    """
    log_mass = np.where(present, game.s, game.s_absent)
    top = np.maximum(log_mass.max(axis=1), game.s_background)
    top = np.where(top == -np.inf, np.maximum(game.s.max(axis=1), game.s_background), top)
    mass = np.exp(log_mass - top[:, None])
    back = np.exp(game.s_background - top)
    D = mass.sum(axis=1) + back
    D = np.where(D == 0, 1.0, D)
    if theta is None:
        theta = (
            (mass * np.where(present, game.v, game.v_absent)).sum(axis=1) + back * game.v_background
        ) / D
    a, b = (np.exp(np.minimum(s - top[:, None], 600.0)) for s in (game.s, game.s_absent))
    change = a * (game.v - theta[:, None]) - b * (game.v_absent - theta[:, None])
    return change / D[:, None]


def proved_above(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    goal: float,
    limit: int | None = None,
    bound: Array | None = None,
) -> bool:
    """Return whether every coalition that differs from `base` (d,) only in movable players is proved to be >= `goal`.

    Coalitions without any mass are excluded. False means "not proved", not "false". `bound` (H,) are the heads' minima
    if they are known.
    """
    if bound is None:
        bound = head_minima(game, base[None], movable[None], limit).bound[0]
    slack = (game.H + 4) * ULP * (np.abs(bound).sum() + abs(game.bias) + abs(goal))
    missing = goal - game.bias - bound.sum() + slack
    if missing <= 0:
        return True
    states = plain_states(game, base, movable)
    if game.H == 1 or states is None:
        return False
    theta = bound + missing / game.H  # the heads' minima with the missing part shared equally
    blur = 16 * ULP * float(np.abs(theta).sum() + np.abs(bound).sum())
    rho = bound - theta - blur
    highest = np.maximum(rho - rho.sum(), rho) + blur
    mass = np.stack([states.base, states.flip])
    x = np.stack([states.v_base, states.v_flip]) - theta[:, None]
    mu = MU[:, None] / np.maximum(np.abs(x[0, :, :-1]).max(axis=1), 1e-300)
    U = -_least(mass[:, None] * (mu[..., None] * (x - highest[:, None])[:, None] - 1), limit).max(
        axis=0
    )
    if (U <= 0).any():
        return True
    terms = mass * (x - rho[:, None]) / U[:, None]
    size = np.abs(terms).sum(axis=1)
    return bool(_least(terms.sum(axis=1), limit, size) + rho.sum() >= blur)


def _least(terms: Array, limit: int | None, size: Array | None = None) -> Array:
    """Return the smallest sum over the choices of each player between two terms, (2, ..., d+1), minus rounding.

    Rounding is relative to the terms, or to `size` if a term is itself a sum with cancellation.
    """
    base, flip = terms
    gain = np.maximum(base - flip, 0.0)
    if limit is not None:
        gain = np.where(_largest(gain, limit), gain, 0.0)
    error = (
        4
        * relative_error(base.shape[-1])
        * (np.abs(terms) if size is None else size).sum(axis=(0, -1))
    )
    least: Array = base.sum(axis=-1) - gain.sum(axis=-1) - error
    return least


def raised(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    bound: Array,
    low: float,
    high: float,
    bisections: int,
) -> float:
    """Return the largest goal between the proved `low` and `high` that a few bisections prove with `proved_above`."""
    for _ in range(bisections):
        middle = (low + high) / 2
        fine = proved_above(game, base, movable, middle, bound=bound)
        if fine:
            low, high = (middle, high)
        else:
            low, high = (low, middle)
    return low


def plain_states(game: PooledGame, present: Masks, movable: Masks) -> _States | None:
    """Return the states with masses relative to each head's largest instead of logs, or None if they overflow."""
    states = _States.of(game, present, movable)
    logs = np.stack([states.base, states.flip])
    top = logs.max(axis=(0, 2), keepdims=True)
    if (
        top - np.where(logs == -np.inf, np.inf, logs).min(axis=(0, 2), keepdims=True)
    ).max() > LOG_RANGE_PLAIN:
        return None
    base, flip = np.exp(logs - top)
    return _States(base, flip, states.v_base, states.v_flip)
