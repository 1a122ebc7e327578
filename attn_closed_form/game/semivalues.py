"""Semivalues: the mean change that a player makes, with any weighting of the sizes of the coalitions that it joins.

A semivalue (Dubey, Neyman and Weber, 1981) draws the size of a coalition S of the others from some law, then S
uniformly:

    phi_j = sum_s q_s E[ f(S + j) - f(S) | |S| = s ],        s = 0 .. d-1.

Where q is a mixture of binomial laws, q_s = int C(d-1, s) p^s (1-p)^(d-1-s) rho(p) dp, this is int Delta_j(p) rho(p)
dp with Delta_j from `engine.py`, at the cost of Shapley values:

- `semivalue(game, alpha, beta)`: Beta Shapley of Kwon and Zou (2022), in their convention: rho(p) is the Beta(beta,
  alpha) density, proportional to p^(beta-1) (1-p)^(alpha-1). Beta(1, 1) are Shapley values; a large alpha puts the
  weight on small coalitions, as in their Beta(16, 1), a large beta on large ones. Their weight of size s is B(s +
  beta, d - 1 - s + alpha) / B(alpha, beta) for each coalition, which is that integral.
- `weighted_banzhaf(game, p)`: all of rho at one p; 1/2 gives Banzhaf values, 1 leave-one-out.
- `semivalue_by_size(game, q)`: any q, also with negative entries, by the recursion over sizes, O(L d^2) (`by_size.py`).

**Nodes.** For whole alpha, beta >= 1 the density is a polynomial: Gauss-Legendre as for Shapley values, on the
interval of p where a row counts. On a Bernstein ellipse e^theta around a part of [0, 1] both |p| and |1 - p| are at
most (1 + cosh theta)/2 <= e^theta, so a density of degree n and constant C multiplies the bound by at most C e^(n
theta), which n/2 more nodes and C times less allowed error make up for. Else Gauss-Jacobi: with a positive weight of
total 1, m nodes err by at most 4 M e^(-2 m theta) / (1 - e^(-theta)) where |Delta_j| <= M on the ellipse (both the
integral and the rule of a Chebyshev polynomial are at most 1), and ceil(d/2) nodes are exact.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array
from .budget import budget
from .by_size import centred_moments
from .densities import Density, density_plan
from .engine import Plan, RowSums, integrate
from .node_counts import THETA, fixed_plan, gauss_count, shared_plan, total_log_bound
from .pooled_game import PooledGame
from .shapley import leave_one_out

LOG_GAUSS_FACTOR = np.log(4 / -np.expm1(-THETA))
# Error of a Gauss-Jacobi rule for a polynomial within 1, measured: at most 2e-13 for 200 nodes and alpha, beta from
# 1e-8 to 1e6. It is the only constant behind `tol` that is measured; whole alpha and beta have no use for it.
JACOBI_ERROR = 4e-13
# Whole parameters up to this sum are taken as polynomials.
LARGEST_DEGREE = 64
# Players of one block of single-player coalitions.
SINGLES = 1_000


def semivalue(game: PooledGame, alpha: float = 1.0, beta: float = 1.0, tol: float = 1e-10) -> Array:
    """Beta(alpha, beta)-Shapley values, |error| <= tol * max|f| guaranteed.

    Parameters
    ----------
    game : PooledGame
    alpha, beta : positive; (1, 1) are Shapley values, alpha > beta favours small coalitions (Kwon and Zou, 2022)
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
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> semivalue(game, 1, 1).round(6), semivalue(game, 16, 1).round(6)      # joins nobody more often: 1/2 and 3/2
    (array([0.166667, 1.166667]), array([0.460784, 1.460784]))
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected a positive number, got {value}")
    density = _polynomial(float(alpha), float(beta))
    if density is not None:
        goal = budget(game, tol)
        plan = density_plan(game.d, goal.p_error, density)
    else:
        goal = budget(game, tol, doubt=JACOBI_ERROR)
        plan = _jacobi_plan(game.d, float(alpha), float(beta), goal.p_error)
    _, phi = integrate(game, goal, plan)
    return phi.sum(axis=0) - game.empty_excess * _alone(game.d, float(alpha), float(beta))


def _alone(d: int, alpha: float, beta: float) -> float:
    """Probability of joining nobody: the product of (alpha + i) / (alpha + beta + i), i < d - 1, through logarithms.

    >>> round(_alone(4, 1.0, 1.0), 12)
    0.25
    """
    i = np.arange(d - 1)
    return float(np.exp(np.log1p(-beta / (alpha + beta + i)).sum()))


def _polynomial(alpha: float, beta: float) -> Density | None:
    """The Beta(beta, alpha) density if it is a polynomial of moderate degree."""
    if not (alpha.is_integer() and beta.is_integer() and alpha + beta <= LARGEST_DEGREE):
        return None
    # 1 / B(alpha, beta), a whole number
    constant = float((alpha + beta - 1) * math.comb(int(alpha + beta) - 2, int(alpha) - 1))

    def density(p: Array) -> Array:
        return constant * p ** (beta - 1) * (1 - p) ** (alpha - 1)

    return Density(density, math.log(constant), int(alpha + beta - 2))


def _jacobi_plan(d: int, alpha: float, beta: float, allowed: float) -> Plan:
    """The plan for int Delta_j(p) rho(p) dp by Gauss-Jacobi nodes."""

    def rule(sums: RowSums) -> tuple[Array, None, Array]:
        needed = gauss_count(total_log_bound(sums), math.log(allowed * sums.share), LOG_GAUSS_FACTOR)
        p, w = jacobi_rule(alpha, beta, min((d + 1) // 2, needed))
        return p, None, w[None]

    return shared_plan(rule)


@lru_cache(maxsize=256)
def jacobi_rule(alpha: float, beta: float, m: int) -> tuple[Array, Array]:
    """Gauss nodes and weights (m,) on [0, 1] for the Beta(beta, alpha) density, by Golub and Welsch (1969).

    >>> p, w = jacobi_rule(2.0, 1.0, 3)      # density 2 (1 - p)
    >>> bool(np.isclose(w.sum(), 1)), bool(np.isclose(w @ p**5, 2 / 6 - 2 / 7))
    (True, True)
    """
    # The Jacobi polynomials on [-1, 1] for (1 - x)^(alpha-1) (1 + x)^(beta-1).
    a, b = alpha - 1, beta - 1
    n = np.arange(m)
    twice = 2 * n + a + b
    with np.errstate(divide="ignore", invalid="ignore"):
        diagonal = (b * b - a * a) / (twice * (twice + 2))
        k, t = n[1:], twice[1:]
        squares = 4 * k * (k + a) * (k + b) * (k + a + b) / (t * t * (t + 1) * (t - 1))
    diagonal[0] = (b - a) / (a + b + 2)  # the general formula is 0/0 for a + b = 0
    if m > 1:  # and for a + b = -1
        squares[0] = 4 * (1 + a) * (1 + b) / ((a + b + 2) ** 2 * (a + b + 3))
    side = np.sqrt(squares)
    x, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    nodes, weights = (x + 1) / 2, vectors[0] ** 2
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def weighted_banzhaf(game: PooledGame, p: float = 0.5, tol: float = 1e-10) -> Array:
    """Weighted Banzhaf values: every other player is present with probability p. |error| <= tol * max|f| guaranteed.

    Parameters
    ----------
    game : PooledGame
    p : from 0 (joins nobody) over 1/2 (Banzhaf values) to 1 (leave-one-out)
    tol : relative accuracy

    Returns
    -------
    (d,) float64

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> weighted_banzhaf(game, 0.0), weighted_banzhaf(game, 0.5).round(6)
    (array([0.5, 1.5]), array([0.166667, 1.166667]))
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p: expected a probability, got {p}")
    if p in (0, 1):
        budget(game, tol, plain=True)  # sums over d players as they stand
    if p == 1:
        return leave_one_out(game)
    if p == 0:
        return single_values(game) - game.value(np.zeros(game.d, dtype=bool))
    _, delta = integrate(game, budget(game, tol), fixed_plan([p], w_delta=[[1.0]]))
    return delta.sum(axis=0) - game.empty_excess * (1 - p) ** (game.d - 1)


def single_values(game: PooledGame) -> Array:
    """(d,) the value of each player alone.

    >>> single_values(PooledGame.from_scores(s=[0.0, 5.0], v=[1.0, 3.0]))
    array([1., 3.])
    """
    out = np.empty(game.d)
    players = np.arange(game.d)
    for start in range(0, game.d, SINGLES):
        block = players[start : start + SINGLES]
        out[block] = game.value(block[:, None] == players)
    return out


def semivalue_by_size(game: PooledGame, q: ArrayLike, tol: float = 1e-10) -> Array:
    """The semivalue with weight q_s on coalitions of s others: |error| <= tol * max|f| * sum|q| guaranteed. O(L d^2).

    With M_j(a) = E[f 1{j present} | a absent] and M(a) = E[f | a absent] a coalition of s others that j joins has d -
    s - 1 absent of d, so E[f(S + j)] = M_j(d-s-1) d/(s+1), and E[f(S)] = (M(d-s) - M_j(d-s)) d/(d-s).

    Parameters
    ----------
    game : PooledGame
    q : (d,) weight of each number s = 0 .. d-1 of others that are present; any sign, any sum
    tol : relative accuracy

    Returns
    -------
    (d,) float64

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> semivalue_by_size(game, [1.0, 0.0]), semivalue_by_size(game, [0.5, 0.5]).round(6)
    (array([0.5, 1.5]), array([0.166667, 1.166667]))
    """
    d = game.d
    weights = np.asarray(q, dtype=np.float64)
    if weights.shape != (d,) or not np.isfinite(weights).all():
        raise ValueError(
            f"q: expected {d} finite weights, for 0..{d - 1} other players present, got shape {weights.shape}"
        )
    size = float(np.abs(weights).sum())
    if size == 0:
        return np.zeros(d)
    s = np.arange(d)
    joined, before = np.zeros(d + 1), np.zeros(d + 1)
    joined[d - 1 - s] = weights / size * d / (s + 1)
    before[d - s] = weights / size * d / (d - s)
    # M_j(a) carries the probability that j is present, so only the difference M - M_j is multiplied up in the end.
    goal = budget(game, tol, 1 + float(np.abs(before).sum()), plain=True)
    mean, present = centred_moments(game, np.stack([joined + before, before]), goal)
    return size * (np.ldexp(present - mean[1], game.exponent) - before[-1] * game.empty_excess)
