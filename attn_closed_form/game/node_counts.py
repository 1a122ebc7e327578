"""How many nodes in p every row (a node lam of a head) needs, and the plans that follow from it.

`row_bounds.py` bounds a row on ellipses around an interval of p, which turns an allowed error into a number of
Gauss-Legendre nodes.

**Short intervals.** For real p the row is at most e^2 B w e^(-lam D_0) e^(-X) [ c_0 + sum_k (lo_k + hi_k E_k) ] with X
= p sum_heavy g + (1 - p) sum_light g, a linear function. Where X is above some tau the row cannot matter, so only an
interval of p counts, on which 15 to 25 Gauss-Legendre nodes suffice whatever d is. A row with X > tau everywhere is
left out.

Every row may make the same part of the allowed error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array, Ids
from .engine import Batch, Plan
from .quadrature import legendre_rule, log_legendre_factor
from .row_bounds import COSH, THETA, TINY, Interval, log_bound
from .rows import RowSums

LOG_FACTOR = log_legendre_factor(THETA)
# Ellipses that are tried for single rows: these multiples of a guess, within limits.
MULTIPLES, LEAST_THETA, MOST_THETA = np.array([0.7, 0.9, 1.1, 1.4]), 0.1, 4.0
# Number of nodes that the guess is made for.
USUAL_COUNT = 9.0
# Multiple of its part of the error that a row of a large problem is given before rounding up.
MORE_PARTS = 4.0
# Part of a row's error that what lies outside of its interval may make.
OUTSIDE = 0.125
LOG_OUTSIDE, LOG_INSIDE = math.log(OUTSIDE), math.log(1 - OUTSIDE)
# Log of what leaving two players out of a product costs beside e^(-X), and a little for the rounding of X.
LOG_LEFT_OUT = 2 + 1e-6
# Part of a row's decay beyond which its interval is shortened, and a decay up to which that is not looked into.
LONGER, SHORT_DECAY = 1.25, 16.0
# Shortest interval: shorter ones would bring nodes so near to 0 or 1 that 1/Y overflows.
SHORTEST = 1e-6
# Rows with like numbers of nodes go through together; a batch of its own must save this many elements.
BATCH_COST = 30_000


__all__ = [
    "COSH",
    "THETA",
    "Interval",
    "fixed_plan",
    "gauss_count",
    "legendre_counts",
    "log_bound",
    "shared_plan",
    "total_log_bound",
    "uniform_plan",
]


def uniform_plan(d: int, allowed: float) -> Plan:
    """The plan for integrals over p in [0, 1] of Delta_j or I_ij, polynomials of degree below d: Gauss-Legendre.

    Parameters
    ----------
    d : number of players
    allowed : error that all rows together may make
    """

    def plan(sums: RowSums) -> list[Batch]:
        interval, counts = legendre_counts(sums, d, allowed)
        return batches(interval, counts, d)

    return plan


def legendre_counts(sums: RowSums, d: int, allowed: float) -> tuple[Interval, Ids]:
    """The interval of each row and its number of nodes, (r,); 0 for a row that may be left out."""
    log_allowed = math.log(allowed * sums.share / sums.weight.size) if allowed > 0 else -math.inf
    interval = relevant_interval(sums, log_allowed + LOG_OUTSIDE)
    length = interval.last - interval.first
    shortest = float(np.minimum.reduce(length))
    log_inside = log_allowed + (LOG_INSIDE if shortest < 1 else 0.0)
    theta = row_thetas(sums, length)
    needed = log_bound(sums, interval, theta, differences=True)
    needed += log_legendre_factor(theta)
    needed += (np.log(np.maximum(length, TINY)) - log_inside)[:, None]
    rate = 2 * theta
    needed /= rate
    best = needed.argmin(axis=1) + np.arange(0, needed.size, needed.shape[1])
    counts = _rounded_up(needed.reshape(-1)[best], rate.reshape(-1)[best], (d + 1) // 2, d)
    if shortest <= 0:
        counts[length <= 0] = 0
    return interval, counts


def row_thetas(sums: RowSums, length: Array) -> Array:
    """(r, 4) ellipses around intervals of these lengths, near to where m = USUAL_COUNT nodes have the least error.

    With X the sum of g over n players the product grows like (1 + u X/n)^n, u = length (cosh(theta) - 1) / 2, and the
    error shrinks by e^(-2 m theta): the two balance near sinh(theta) = 4 m (1 - length X / 2n) / (length X (1 - 2m/n)).
    """
    X = np.maximum(length * (sums.heavy + sums.light), 1e-9)
    n = float(sums.players_heavy[0] + sums.players_light[0])
    # Few players: their product never grows as fast as the nodes gain.
    slope = max(1 - 2 * USUAL_COUNT / n, 0.1)
    theta = np.arcsinh((4 * USUAL_COUNT / slope) / X - 2 * USUAL_COUNT / (slope * n))
    return np.minimum(np.maximum(theta[:, None] * MULTIPLES, LEAST_THETA), MOST_THETA)


def _rounded_up(needed: Array, rate: Array, exact: int, d: int) -> Ids:
    """Whole numbers of nodes, so that all rows together make no more than their allowed error.

    A row with m nodes makes e^(rate (needed - m)) times its part. Rounding up leaves much of it unused. Where all rows
    can as well have the same number, it is the smallest for which the sum of what they make is one part each; elsewhere
    every row is given several parts, as long as the same holds.
    """

    def made(counts: Array | float) -> Array:
        return np.exp(np.minimum(rate * (needed - counts), 50.0))

    counts = np.minimum(np.maximum(np.ceil(needed), 1.0), exact)
    total, most = float(np.add.reduce(counts)), float(np.maximum.reduce(counts))
    if (most * counts.size - total) * d >= BATCH_COST:
        more = np.minimum(np.maximum(np.ceil(needed - math.log(MORE_PARTS) / rate), 1.0), exact)
        fits = np.add.reduce(np.where(more < exact, made(more), 0.0)) <= needed.size
        return (more if fits else counts).astype(np.intp)
    while most > 1 and np.add.reduce(made(most - 1)) <= needed.size:
        most -= 1
    return np.full(counts.size, int(most))


def relevant_interval(sums: RowSums, log_allowed: float) -> Interval:
    """Where the row may be above e^log_allowed (r,); see the module docstring, "Short intervals"."""
    if max(float(np.maximum.reduce(sums.heavy)), float(np.maximum.reduce(sums.light))) <= SHORT_DECAY:
        return Interval(np.zeros(sums.weight.size), np.ones(sums.weight.size))
    size = np.log(np.maximum(sums.weight * (sums.background + sums.players), TINY))
    tau = np.maximum(size + (LOG_LEFT_OUT - log_allowed), 0.0)
    # An interval that is hardly shorter saves nothing.
    if not (np.maximum(sums.heavy, sums.light) > LONGER * tau).any():
        return Interval(np.zeros(tau.size), np.ones(tau.size))
    first, last, slope = np.zeros(tau.size), np.ones(tau.size), sums.heavy - sums.light
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cross = (tau - sums.light) / slope
    for end, beyond, limits in ((last, sums.heavy, (SHORTEST, 1.0)), (first, sums.light, (0.0, 1 - SHORTEST))):
        cut = beyond > LONGER * tau
        if cut.any():
            cut &= slope > 0 if end is last else slope < 0
            end[cut] = np.minimum(np.maximum(cross[cut], limits[0]), limits[1])
    nowhere = np.minimum(sums.heavy, sums.light) >= tau
    if nowhere.any():
        first[nowhere] = last[nowhere] = 0.0
    return Interval(first, last)


def batches(interval: Interval, counts: Ids, d: int) -> list[Batch]:
    """Rows of like numbers of nodes together, with the nodes of each row in its own interval."""
    found = []
    low, high = int(np.minimum.reduce(counts)), int(np.maximum.reduce(counts))
    levels = counts if low == high else _levels(counts, d)
    length_of = interval.last - interval.first
    for m in [high] if low == high else sorted(set(levels.tolist())):
        which: Ids | slice = slice(None)
        if low != high:
            which = ((levels == m) & (counts > 0)).nonzero()[0]
        if m == 0 or not counts[which].size:
            continue
        x, w = legendre_rule(m)
        length = length_of[which]
        p = length * x[:, None]
        p += interval.first[which]
        found.append(Batch(which, p, np.zeros((0, x.size, 1)), (length * w[:, None])[None]))
    return found


def _levels(counts: Ids, d: int) -> Ids:
    """Numbers of nodes rounded up to a few levels: as few as the cost of a batch of its own suggests."""
    most = int(np.maximum.reduce(counts))
    levels = np.full_like(counts, most)
    if (most * counts.size - int(np.add.reduce(counts))) * d < BATCH_COST:
        return levels
    present, how_often = np.unique(counts[counts > 0], return_counts=True)
    up_to = np.cumsum(how_often)  # how many rows have at most so many nodes
    level = most
    for count, rows in zip(present[-2::-1].tolist(), up_to[-2::-1].tolist(), strict=True):
        if rows * (level - count) * d >= BATCH_COST:
            level = count
            levels[counts <= level] = level
    return levels


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
