"""Exact Shapley values, Banzhaf values and leave-one-out differences of a softmax-pooled game, in polynomial time.

"Draw a size uniformly, then a coalition of that size" is a mixture over p ~ U[0, 1] of independent coin flips, so

    Shapley_j = int_0^1 Delta_j(p) dp,     Banzhaf_j = Delta_j(1/2)

with Delta_j from `engine.py` (Shapley, 1953; Banzhaf, 1965). A sum over 2^d coalitions becomes O(L m d): L nodes in
lambda, m in p. P2 (appendix B.7) calls this sum intractable. What the answer guarantees: |error| <= tol * max|f|, the
maximum over all coalitions (`docs/what-tol-guarantees.md`).
"""

from __future__ import annotations

import numpy as np

from .._types import Array
from .budget import budget
from .engine import integrate
from .node_counts import fixed_plan, uniform_plan
from .pooled_game import PooledGame

# Beside a mass of 1, what the others hold must be at least this for their mean to have all of its digits.
LEAST_MASS = 1e-200


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
    goal = budget(game, tol)
    _, phi = integrate(game, goal, uniform_plan(game.d, goal.p_error))
    return np.add.reduce(phi, axis=0) - game.empty_excess / game.d


def banzhaf(game: PooledGame, tol: float = 1e-10) -> Array:
    """Banzhaf values, Delta_j(1/2): mean change over all coalitions alike. |error| <= tol * max|f| guaranteed.

    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> banzhaf(game).round(6)      # ((1/2 - 0) + (4/3 - 3/2)) / 2, ((3/2 - 0) + (4/3 - 1/2)) / 2
    array([0.166667, 1.166667])
    """
    _, delta = integrate(game, budget(game, tol), fixed_plan([0.5], w_delta=[[1.0]]))
    return np.add.reduce(delta, axis=0) - np.ldexp(game.empty_excess, 1 - game.d)


def leave_one_out(game: PooledGame) -> Array:
    """f(all) - f(all but j), (d,): exact up to rounding, O(d).

    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0])
    >>> leave_one_out(game)
    array([-1.,  1.])
    """
    v, v_absent, v_background = game._centred
    a, b, c0 = game.masses
    n0 = (c0 * v_background)[:, None]
    # Sums over the others are taken from both sides, not by subtraction: nothing cancels when one player is all.
    D = c0[:, None] + _others(a) + b
    N = n0 + _others(a * v) + b * v_absent
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = np.ldexp((game.everyone_means[:, None] - N / D).sum(axis=0), game.exponent)
    # Where a player holds nearly all of the mass of a head, what is left is too small for these units of mass.
    alone = np.flatnonzero((D < LEAST_MASS).any(axis=0))
    if alone.size:
        without = np.ones((alone.size, game.d), dtype=bool)
        without[np.arange(alone.size), alone] = False
        out[alone] = game.value(np.ones(game.d, dtype=bool)) - game.value(without)
    return out


def _others(x: Array) -> Array:
    """Sum over all but j, (H, d)."""
    zero = np.zeros((x.shape[0], 1))
    before = np.concatenate([zero, np.cumsum(x, axis=1)[:, :-1]], axis=1)
    after = np.concatenate([np.cumsum(x[:, ::-1], axis=1)[:, -2::-1], zero], axis=1)
    return before + after
