"""How many nodes in p: rigorous bounds for each row (a node lam of a head), and the plans that follow from them.

For complex p on the Bernstein ellipse with parameter e^theta, c = cosh(theta), around an interval [p_0, p_1], with g_k
= 1 - E_k: |Y_k|^2 = 1 - 2 Re(q) g + |q|^2 g^2, hence log|prod Y| <= sum_k (-Re(q) g_k + |q|^2 g_k^2 / 2), which is
convex in the real part of p on the ellipse and so largest at one of its two ends on the real axis. Each player alone
has |Y_k| <= 1 + a g_k, where a is how far the ellipse reaches beyond 0 (heavy when present) or 1 (light when present),
and sum_k log(1 + a g_k) <= n log(1 + a sum g / n); the smaller of the two bounds is taken. Leaving out a player costs
at most a factor e^(1/2). With that, and |V| <= B mass (B: half the range of the values), a row of Delta_j or I_ij is
at most

    M = e^(3/2) B w e^(-lam D_0) e^T [ c_0 + (c + 3)/2 sum_k (lo_k + hi_k E_k) ].

The same M bounds the row of E_p[f], where one player at most is left out and q, 1 - q are at most (1 + c)/2; and
E_p[f 1{j present}] = p E_p[f | j present], where two are, is at most e^(-1/2) (1 + c)/2 M.

**Short intervals.** For real p the row is at most e^2 B w e^(-lam D_0) e^(-X) [ c_0 + sum_k (lo_k + hi_k E_k) ] with X
= p sum_heavy g + (1 - p) sum_light g, a linear function. Where X is above some tau the row cannot matter, so only an
interval of p counts, on which 15 to 25 Gauss-Legendre nodes suffice whatever d is. A row with X > tau everywhere is
left out.

Every row may make the same part of the allowed error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array, Ids
from .engine import Batch, Plan, RowSums
from .quadrature import legendre_rule, log_legendre_factor

# Ellipses that are tried.
THETA = np.geomspace(0.02, 3.2, 16)
COSH = np.cosh(THETA)
LOG_FACTOR = log_legendre_factor(THETA)
# Part of a row's error that what lies outside of its interval may make.
OUTSIDE = 0.125
# Shortest interval: shorter ones would bring nodes so near to 0 or 1 that 1/Y overflows.
SHORTEST = 1e-6
TINY = np.finfo(float).tiny
# Rows with like numbers of nodes go through together: each number is rounded up to one of these.
LEVELS = np.unique(np.round(np.geomspace(1, 4000, 60)).astype(int))


class Interval(NamedTuple):
    """Where a row counts: p_0, p_1 (r,); rows that count nowhere have p_0 = p_1."""

    first: Array
    last: Array


WHOLE = Interval(np.zeros(1), np.ones(1))


def log_bound(sums: RowSums, interval: Interval = WHOLE) -> Array:
    """Log of the bound M of each row on the ellipses THETA around its interval, (r, len(THETA))."""
    middle = (interval.first + interval.last)[:, None] / 2
    reach = (interval.last - interval.first)[:, None] / 2 * COSH
    left, right = middle - reach, middle + reach
    heavy, light = sums.heavy[:, None], sums.light[:, None]
    heavy_half, light_half = sums.heavy_squares[:, None] / 2, sums.light_squares[:, None] / 2
    at_left = left * (left * heavy_half - heavy) + (1 - left) * ((1 - left) * light_half - light)
    at_right = right * (right * heavy_half - heavy) + (1 - right) * ((1 - right) * light_half - light)
    one_by_one = _grown(sums.players_heavy, heavy, -left) + _grown(sums.players_light, light, right - 1)
    growth = np.minimum(np.maximum(at_left, at_right), one_by_one)
    mass = sums.background[:, None] + (COSH + 3) / 2 * sums.players[:, None]
    return growth + np.log(np.maximum(sums.weight[:, None] * mass, TINY)) + 1.5


def _grown(players: Array, total: Array, reach: Array) -> Array:
    """The bound n log(1 + a sum g / n) on sum_k log|Y_k|, or -|a| sum g where the ellipse stays inside."""
    n = np.maximum(players, 1.0)[:, None]
    return np.where(reach > 0, n * np.log1p(np.maximum(reach, 0.0) * total / n), 0.0)


def uniform_plan(d: int, allowed: float) -> Plan:
    """The plan for integrals over p in [0, 1] of Delta_j or I_ij, polynomials of degree below d: Gauss-Legendre.

    Parameters
    ----------
    d : number of players
    allowed : error that all rows together may make
    """

    def plan(sums: RowSums) -> list[Batch]:
        interval, counts = legendre_counts(sums, d, allowed)
        return _batches(interval, counts)

    return plan


class Density(NamedTuple):
    """A polynomial in p that an integrand is multiplied by.

    of : from nodes p to its values
    log_constant : log of a C with |density| <= C on [0, 1] and <= C e^(degree theta) on the ellipses e^theta around it
    degree : of the polynomial
    """

    of: Callable[[Array], Array]
    log_constant: float
    degree: int


def density_plan(d: int, allowed: float, density: Density) -> Plan:
    """`uniform_plan` with a polynomial density: degree / 2 more nodes, and a smaller error by its constant.

    Both |p| and |1 - p| are at most (1 + cosh theta)/2 <= e^theta on an ellipse around a part of [0, 1], so a product
    of `degree` such factors grows by e^(degree theta) at the most, which is what that many more nodes shrink it by.
    """

    def plan(sums: RowSums) -> list[Batch]:
        interval, counts = legendre_counts(sums, d, allowed * math.exp(-density.log_constant))
        counts[counts > 0] += (density.degree + 1) // 2
        return [batch._replace(w_delta=batch.w_delta * density.of(batch.p)) for batch in _batches(interval, counts)]

    return plan


def legendre_counts(sums: RowSums, d: int, allowed: float) -> tuple[Interval, Ids]:
    """The interval of each row and its number of nodes, (r,); 0 for a row that may be left out."""
    log_allowed = math.log(allowed) + math.log(sums.share / sums.weight.size) if allowed > 0 else -math.inf
    interval = relevant_interval(sums, log_allowed + math.log(OUTSIDE))
    length = interval.last - interval.first
    with np.errstate(divide="ignore"):
        log_length = np.log(length)[:, None]
    log_error = log_bound(sums, interval) + LOG_FACTOR + log_length - (log_allowed + math.log(1 - OUTSIDE))
    needed = (log_error / (2 * THETA)).min(axis=1)
    exact = (d + 1) // 2
    counts = np.ceil(np.clip(needed, 1, exact)).astype(np.intp)
    counts[length <= 0] = 0
    return interval, counts


def relevant_interval(sums: RowSums, log_allowed: float) -> Interval:
    """Where the row may be above e^log_allowed (r,); see the module docstring, "Short intervals"."""
    size = np.log(np.maximum(sums.weight * (sums.background + sums.players), TINY)) + 2
    tau = np.maximum(size - log_allowed, 0.0)
    slope = sums.heavy - sums.light
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cross = (tau - sums.light) / slope
    first = np.where((sums.light > tau) & (slope < 0), np.clip(cross, 0.0, 1 - SHORTEST), 0.0)
    last = np.where((sums.heavy > tau) & (slope > 0), np.clip(cross, SHORTEST, 1.0), 1.0)
    nowhere = (sums.light >= tau) & (sums.heavy >= tau)
    return Interval(np.where(nowhere, 0.0, first), np.where(nowhere, 0.0, last))


def _batches(interval: Interval, counts: Ids) -> list[Batch]:
    """Rows of like numbers of nodes together, with the nodes of each row in its own interval."""
    found = []
    levels = LEVELS[np.searchsorted(LEVELS, counts)] if counts.max(initial=0) <= LEVELS[-1] else counts
    for m in np.unique(levels[counts > 0]).tolist():
        rows = np.flatnonzero((levels == m) & (counts > 0))
        x, w = legendre_rule(m)
        first, length = interval.first[rows], (interval.last - interval.first)[rows]
        p = first + length * x[:, None]
        weights = length * w[:, None]
        found.append(Batch(rows, p, np.zeros((0, x.size, 1)), weights[None]))
    return found


def fixed_plan(p: ArrayLike, w_mean: ArrayLike | None = None, w_delta: ArrayLike | None = None) -> Plan:
    """The plan with the same nodes p for every row.

    Parameters
    ----------
    p : (m,) probabilities of being present, strictly between 0 and 1
    w_mean : (a, m) weights of E_p[f]; none by default
    w_delta : (b, m) weights of Delta_j(p); none by default
    """
    return shared_plan(lambda sums: (p, w_mean, w_delta))


def shared_plan(
    rule: Callable[[RowSums], tuple[ArrayLike, ArrayLike | None, ArrayLike | None]],
) -> Plan:
    """The plan with one rule per chunk of rows: from `RowSums` to nodes and weights as `fixed_plan` takes them."""

    def plan(sums: RowSums) -> list[Batch]:
        p, w_mean, w_delta = rule(sums)
        nodes = np.asarray(p, dtype=np.float64)
        weights = [
            np.zeros((0, nodes.size, 1)) if w is None else np.asarray(w, dtype=np.float64)[:, :, None]
            for w in (w_mean, w_delta)
        ]
        return [Batch(np.arange(sums.weight.size), nodes[:, None], *weights)]

    return plan


def total_log_bound(sums: RowSums) -> Array:
    """Log of the bound M of all rows of a chunk together on the ellipses THETA around [0, 1], (len(THETA),)."""
    return np.logaddexp.reduce(log_bound(sums), axis=0)


def gauss_count(log_bounds: Array, log_allowed: float | Array, factor: Array = LOG_FACTOR) -> int:
    """Fewest nodes of a Gauss rule on [0, 1] for a function below e^log_bounds on the ellipses THETA.

    `factor` is the logarithm of the rule's constant; Gauss-Legendre's by default.
    """
    needed = (log_bounds + factor - log_allowed) / (2 * THETA)
    return max(1, math.ceil(needed.min(axis=-1).max()))
