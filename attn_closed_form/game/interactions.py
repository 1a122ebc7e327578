"""Shapley interactions of pairs of players: the whole table, or the row of one player at the cost of Shapley values.

The Shapley interaction index (Grabisch and Roubens, 1999) of i and j is the mean of the second difference f(S + i + j)
- f(S + i) - f(S + j) + f(S) over sizes, then over coalitions S without i and j. Like the Shapley value it is an
integral over coin flips,

    I_ij = int_0^1 E_p[second difference in i, j] dp = int_0^1 sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ] dp

in the notation of `engine.py`: O(L m d^2) for all pairs, and O(L m d) for one i, where it reads as a sum of X_j and
Z_j with the weights P (num X_i + Z_i) and P X_i. Both keep |error| <= tol * max|f|.
"""

from __future__ import annotations

import numpy as np

from .._types import Array
from .budget import Budget, budget
from .engine import Plan, Rows, change, flip, parts, rows_of
from .node_counts import uniform_plan
from .pooled_game import PooledGame
from .shapley import shapley

# A second difference has twice the terms of a first one.
AMPLIFICATION = 2.0


def shapley_interactions(game: PooledGame, tol: float = 1e-10) -> Array:
    """Shapley interaction index of every pair, Shapley values on the diagonal. |error| <= tol * max|f| guaranteed.

    Returns
    -------
    (d, d) float64, symmetric

    Raises
    ------
    ToleranceError
        if float64 cannot keep `tol` for this game

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> shapley_interactions(game).round(6)      # 4/3 - 1/2 - 3/2 + 0 off the diagonal
    array([[ 0.166667, -0.666667],
           [-0.666667,  1.166667]])
    """
    d = game.d
    goal = budget(game, tol, AMPLIFICATION)
    out = np.zeros((d, d))
    if d > 1:
        out = integrate_pairs(game, goal, uniform_plan(d, goal.p_error))
        out += game.empty_excess / (d - 1)
    np.fill_diagonal(out, shapley(game, tol))
    return out


def integrate_pairs(game: PooledGame, goal: Budget, plan: Plan) -> Array:
    """(d, d) weighted sums over p of the mean second differences, with the plan's first weights for differences.

    The diagonal means nothing, and nobody without any mass counts as `game.base`: the caller puts that right.
    """
    d = game.d
    out = np.zeros((d, d))
    for rows in rows_of(game, goal):
        for batch in plan(rows.sums):
            for here, part in parts(rows, batch):
                P, num, sigma = flip(here, part.p, goal.precise)
                P = P * part.w_delta[0]
                X, Z = _signed(here, sigma)
                right = X * (P * num / 2)[:, :, None]
                Z *= P[:, :, None]
                right += Z
                for left, other in zip(X, right, strict=True):  # node by node: long sums would lose digits
                    out += left.T @ other
    out += out.T
    return np.ldexp(out, game.exponent)


def interactions_of(game: PooledGame, player: int, tol: float = 1e-10) -> Array:
    """Shapley interactions of one player with every other one, O(L m d). |error| <= tol * max|f| guaranteed.

    Parameters
    ----------
    game : PooledGame
    player : index of the player
    tol : relative accuracy

    Returns
    -------
    (d,) float64, with 0 at the place of `player` itself

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, -2.0], v=[1.0, -1.0, 4.0], s_background=0.5, v_background=0.0)
    >>> row = interactions_of(game, 1)
    >>> bool(np.allclose(row[[0, 2]], shapley_interactions(game)[1, [0, 2]], rtol=0, atol=1e-9))
    True
    """
    d = game.d
    if not 0 <= player < d:
        raise ValueError(f"player: expected an index in 0..{d - 1}, got {player}")
    goal = budget(game, tol, AMPLIFICATION)
    out = np.zeros(d)
    if d == 1:
        return out
    plan = uniform_plan(d, goal.p_error)
    for rows in rows_of(game, goal):
        for batch in plan(rows.sums):
            for here, part in parts(rows, batch):
                P, num, sigma = flip(here, part.p, goal.precise)
                P = P * part.w_delta[0]
                X, Z = _signed(here, sigma, player)
                out += change(here, (P * (num * X + Z))[None], (P * X)[None], sigma)[0]
    out = np.ldexp(out, game.exponent) + game.empty_excess / (d - 1)
    out[player] = 0.0
    return out


def _signed(rows: Rows, sigma: Array, player: int | None = None) -> tuple[Array, Array]:
    """X and Z of all players (m, r, d), or of one (m, r), with the sign of present minus absent."""
    pick = slice(None) if player is None else player
    sigma = sigma[:, :, pick]
    return rows.difference[:, pick] * sigma, rows.S[:, pick] * sigma * sigma
