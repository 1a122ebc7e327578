"""Interaction indices of order two, beside the Shapley interactions of `interactions.py`, from the same second
differences.

With I_ij(p) the mean second difference of players i and j when every other player is present with probability p, and
Delta_i(p) the mean first difference (`engine.py`), each index is an integral over p with a polynomial weight:

| index | pairs | single players |
|---|---|---|
| SII, Shapley interaction (Grabisch and Roubens, 1999) | int I_ij dp | Shapley values, int Delta_i dp |
| BII, Banzhaf interaction (same) | I_ij(1/2) | Banzhaf values, Delta_i(1/2) |
| STII, Shapley-Taylor (Sundararajan et al., 2020) | int 2 (1-p) I_ij dp | f(i) - f(nobody) |
| FSII, faithful Shapley (Tsai et al., 2023) | int 6 p (1-p) I_ij dp | int (4 - 6 p) Delta_i dp |
| FBII, faithful Banzhaf (same) | I_ij(1/2) | Delta_i(1/2) - 1/2 sum_j I_ij(1/2) |

The papers print sums over coalitions. Ours follow from the Moebius coefficients m(T) of the game, in which Delta_i(p)
is sum over T with i of m(T) p^(t-1): for STII, 2 t! (n-1-t)! / n! is int 2 (1-p) p^t (1-p)^(n-2-t) dp; for FSII the
printed coefficient of m(T) for a single player is -2 (t-2) / (t (t+1)) = 4/t - 6/(t+1), and for a pair 6 / (t (t+1)).
FBII is the best approximation of order two over all coalitions alike, which is the projection on products of x_i -
1/2. STII and FSII add up: f(nobody) plus all singles plus all pairs is f(all).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Array
from .budget import budget
from .densities import Density, density_plan
from .engine import Plan, integrate
from .interactions import AMPLIFICATION, integrate_pairs, shapley_interactions
from .node_counts import fixed_plan
from .pooled_game import PooledGame
from .semivalues import single_values
from .shapley import banzhaf

INDICES = ("SII", "BII", "STII", "FSII", "FBII")
# |density| <= C e^(degree theta) on the ellipses around [0, 1], since |p| and |1 - p| are at most e^theta there.
TAYLOR = Density(lambda p: 2 * (1 - p), float(np.log(2.0)), 1)
FAITHFUL_PAIR = Density(lambda p: 6 * p * (1 - p), float(np.log(6.0)), 2)
FAITHFUL_SINGLE = Density(lambda p: 4 - 6 * p, float(np.log(6.0)), 1)
# int |4 - 6 p| dp: what an error of Delta_i(p) becomes.
FAITHFUL_SINGLE_SIZE = 5 / 3


@dataclass(frozen=True, eq=False)
class Interactions:
    """An index of order two.

    Attributes
    ----------
    index : its name
    constant : f(nobody), or the constant of the fit for "FBII"
    singles : (d,)
    pairs : (d, d), symmetric, zero on the diagonal
    """

    index: str
    constant: float
    singles: Array
    pairs: Array


def interactions(game: PooledGame, index: str = "SII", tol: float = 1e-10) -> Interactions:
    """An interaction index of all pairs and single players, |error| <= tol * max|f| guaranteed for each of them.

    The constant of "FBII" is a sum over all pairs, and d times less accurate.

    Parameters
    ----------
    game : PooledGame
    index : "SII", "BII", "STII", "FSII" or "FBII"; see the module docstring
    tol : relative accuracy

    Raises
    ------
    ToleranceError
        if float64 cannot keep `tol` for this game

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> found = interactions(game, "FSII")
    >>> bool(np.isclose(found.constant + found.singles.sum() + found.pairs.sum() / 2, game.value([True, True])))
    True
    """
    if index not in INDICES:
        raise ValueError(f"index: expected one of {', '.join(INDICES)}, got {index!r}")
    nobody = float(game.value(np.zeros(game.d, dtype=bool)))
    if index == "SII":
        pairs = shapley_interactions(game, tol)
        singles = np.diagonal(pairs).copy()
        np.fill_diagonal(pairs, 0.0)
        return Interactions(index, nobody, singles, pairs)
    # Pairs first: they need more of `tol` than singles, so the tol that their error names works for both.
    if index == "BII":
        pairs = _half(game, tol, AMPLIFICATION)
        return Interactions(index, nobody, banzhaf(game, tol), pairs)
    if index == "STII":
        pairs = _integral(game, tol, TAYLOR, 2 / game.d)
        return Interactions(index, nobody, single_values(game) - nobody, pairs)
    if index == "FSII":
        pairs = _integral(game, tol, FAITHFUL_PAIR, 6 / (game.d * (game.d + 1)))
        return Interactions(index, nobody, _faithful_singles(game, tol), pairs)
    return _faithful_banzhaf(game, tol)


def _integral(game: PooledGame, tol: float, density: Density, alone: float) -> Array:
    """(d, d) int density(p) I_ij(p) dp; densities are positive, with integral 1; `alone` is int density (1-p)^(d-2)."""
    goal = budget(game, tol, AMPLIFICATION)
    pairs = _pairs(game, tol, AMPLIFICATION, density_plan(game.d, goal.p_error, density))
    return _with_nobody(game, pairs, alone)


def _half(game: PooledGame, tol: float, amplification: float) -> Array:
    """(d, d) I_ij(1/2)."""
    pairs = _pairs(game, tol, amplification, fixed_plan([0.5], w_delta=[[1.0]]))
    return _with_nobody(game, pairs, float(np.ldexp(1.0, 2 - game.d)))


def _pairs(game: PooledGame, tol: float, amplification: float, plan: Plan) -> Array:
    if game.d == 1:
        return np.zeros((1, 1))
    return integrate_pairs(game, budget(game, tol, amplification), plan)


def _with_nobody(game: PooledGame, pairs: Array, weight: float) -> Array:
    """Put right what the engine takes the value of nobody for, where nobody has no mass; zero on the diagonal."""
    if game.d > 1:
        pairs = pairs + game.empty_excess * weight
    np.fill_diagonal(pairs, 0.0)
    return pairs


def _faithful_singles(game: PooledGame, tol: float) -> Array:
    """(d,) int (4 - 6 p) Delta_i(p) dp."""
    goal = budget(game, tol, FAITHFUL_SINGLE_SIZE)
    _, singles = integrate(game, goal, density_plan(game.d, goal.p_error, FAITHFUL_SINGLE))
    # int (4 - 6 p) (1-p)^(d-1) dp = 6/(d+1) - 2/d
    return singles.sum(axis=0) - game.empty_excess * (6 / (game.d + 1) - 2 / game.d)


def _faithful_banzhaf(game: PooledGame, tol: float) -> Interactions:
    """The projection on order two: b_i (x_i - 1/2) and I_ij (x_i - 1/2)(x_j - 1/2), multiplied out."""
    d = game.d
    pairs = _half(game, tol, AMPLIFICATION * max(1.0, d / 2))
    goal = budget(game, tol, float(d))
    mean, delta = integrate(game, goal, fixed_plan([0.5], w_mean=[[1.0]], w_delta=[[1.0]]))
    first = delta.sum(axis=0) - np.ldexp(game.empty_excess, 1 - d)
    whole = game.base + float(mean.sum()) + float(np.ldexp(game.empty_excess, -d))
    constant = whole - float(first.sum()) / 2 + float(pairs.sum()) / 8
    return Interactions("FBII", constant, first - pairs.sum(axis=1) / 2, pairs)
