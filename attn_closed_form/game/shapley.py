"""Exact Shapley values, Banzhaf values and interactions of a softmax-pooled game, in polynomial time.

"Draw a size uniformly, then a coalition of that size" is a mixture over p ~ U[0, 1] of independent coin flips, so

    Shapley_j = int_0^1 Delta_j(p) dp,     Banzhaf_j = Delta_j(1/2),     I_ij = int_0^1 E_p[second difference] dp

with Delta_j from `engine.py`. A sum over 2^d coalitions becomes O(L m d): L nodes in lambda, m in p. P2 (appendix
B.7) calls this sum intractable. What the answer guarantees: |error| <= tol * max|f|, the maximum over all coalitions.
"""

from __future__ import annotations

import numpy as np

from .._types import Array
from .engine import accuracy, centre, flip, integrate, legendre_nodes, parts, plan
from .pooled_game import PooledGame
from .quadrature import legendre_rule


def shapley(game: PooledGame, tol: float = 1e-10) -> Array:
    """Shapley values, |error| <= tol * max|f| guaranteed.

    Parameters
    ----------
    game : PooledGame
    tol : relative accuracy; a looser one is faster

    Returns
    -------
    (d,) float64

    Raises
    ------
    ToleranceError
        if float64 cannot keep `tol` for this game

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, -2.0], v=[1.0, -1.0, 4.0], s_background=0.5, v_background=0.0)
    >>> phi = shapley(game)
    >>> bool(np.isclose(phi.sum(), game.value([True] * 3) - game.value([False] * 3)))
    True
    """
    _, phi = integrate(game, _shapley_rule, legendre_nodes(game.d), accuracy(game, tol))
    return phi[0] - _empty_excess(game) / game.d


def _shapley_rule(m: int) -> tuple[Array, Array, Array]:
    p, w = legendre_rule(m)
    return p, np.zeros((0, m)), w[None]


def banzhaf(game: PooledGame, tol: float = 1e-10) -> Array:
    """Banzhaf values, Delta_j(1/2): mean change over all coalitions alike. |error| <= tol * max|f| guaranteed.

    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> banzhaf(game).round(6)      # ((1/2 - 0) + (4/3 - 3/2)) / 2, ((3/2 - 0) + (4/3 - 1/2)) / 2
    array([0.166667, 1.166667])
    """
    half = np.array([0.5])

    def rule(m: int) -> tuple[Array, Array, Array]:
        return half, np.zeros((0, 1)), np.ones((1, 1))

    _, delta = integrate(game, rule, 1, accuracy(game, tol))
    return delta[0] - _empty_excess(game) * 2.0 ** (1 - game.d)


def leave_one_out(game: PooledGame) -> Array:
    """f(all) - f(all but j), (d,): exact up to rounding, O(d).

    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0])
    >>> leave_one_out(game)
    array([-1.,  1.])
    """
    middle = centre(game)[:, None]
    top = np.maximum(np.maximum(game.s, game.s_absent).max(axis=1), game.s_background)[:, None]
    a, b = np.exp(game.s - top), np.exp(game.s_absent - top)
    c0 = np.exp(game.s_background[:, None] - top)
    v, v_absent, v0 = game.v - middle, game.v_absent - middle, game.v_background[:, None] - middle
    # Sums over the others are taken from both sides, not by subtraction: nothing cancels when one player is all.
    D = c0 + _others(a) + b
    N = c0 * v0 + _others(a * v) + b * v_absent
    if (D == 0).any():  # every other player's mass underflows beside j's, or j is the only one
        return _leave_one_out_by_masks(game)
    F = (c0 * v0 + (a * v).sum(axis=1, keepdims=True)) / (c0 + a.sum(axis=1, keepdims=True))
    return (F - N / D).sum(axis=0)


def _leave_one_out_by_masks(game: PooledGame) -> Array:
    others = ~np.eye(game.d, dtype=bool)
    return game.value(np.ones(game.d, dtype=bool)) - game.value(others)


def _others(x: Array) -> Array:
    """Sum over all but j, (H, d)."""
    zero = np.zeros((x.shape[0], 1))
    before = np.concatenate([zero, np.cumsum(x, axis=1)[:, :-1]], axis=1)
    after = np.concatenate([np.cumsum(x[:, ::-1], axis=1)[:, -2::-1], zero], axis=1)
    return before + after


def shapley_interactions(game: PooledGame, tol: float = 1e-10) -> Array:
    """Shapley interaction index of every pair (Grabisch and Roubens, 1999), Shapley values on the diagonal.

    I_ij is the mean of f(S + i + j) - f(S + i) - f(S + j) + f(S) over sizes, then coalitions S without i and j.
    |error| <= tol * max|f| guaranteed.

    Returns
    -------
    (d, d) float64, symmetric

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> shapley_interactions(game).round(6)      # 4/3 - 1/2 - 3/2 + 0 off the diagonal
    array([[ 0.166667, -0.666667],
           [-0.666667,  1.166667]])
    """
    out = np.zeros((game.d, game.d))
    if game.d > 1:
        # A second difference has twice the terms of a first one, which is what `accuracy` reckons with.
        for head, m, pieces in plan(game, accuracy(game, tol / 2), legendre_nodes(game.d)):
            p, w = legendre_rule(m)
            total = np.zeros_like(out)
            for piece, part in parts(pieces, m):
                at = flip(head, piece, p[part])
                P = at.P * w[part, None]
                right = at.X * (P * at.num / 2)[:, :, None]
                at.Z[...] *= P[:, :, None] * at.dV
                right += at.Z
                total += at.X.reshape(-1, game.d).T @ right.reshape(-1, game.d)
            sign = np.where(head.present_is_light, 1.0, -1.0)
            out += sign[:, None] * total * sign
        out += out.T
        out += _empty_excess(game) / (game.d - 1)
    np.fill_diagonal(out, shapley(game, tol))
    return out


def _empty_excess(game: PooledGame) -> float:
    """f(nobody) minus what the engine takes it for, where nobody has no mass: the engine's 0 is the heads' centre."""
    return game.empty_value - game.bias - float(centre(game).sum()) if game.can_be_empty else 0.0
