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
from .engine import Batch, Plan, RowSums
from .quadrature import legendre_rule, log_legendre_factor
from .row_bounds import COSH, THETA, TINY, Interval, log_bound

LOG_FACTOR = log_legendre_factor(THETA)
# The same for single rows, whose intervals are short enough for large ellipses.
ROW_THETA = np.geomspace(0.2, 3.0, 10)
ROW_FACTOR = log_legendre_factor(ROW_THETA)
# Multiple of its part of the error that a row of a large problem is given before rounding up.
MORE_PARTS = 4.0
# Part of a row's error that what lies outside of its interval may make.
OUTSIDE = 0.125
# Shortest interval: shorter ones would bring nodes so near to 0 or 1 that 1/Y overflows.
SHORTEST = 1e-6
# Rows with like numbers of nodes go through together: each number is rounded up to one of these.
LEVELS = np.unique(np.round(np.geomspace(1, 4000, 60)).astype(int))
# Below this many elements there are two levels at most; the second must save BATCH_COST elements.
FEW_ELEMENTS, BATCH_COST = 200_000, 25_000


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
    log_allowed = math.log(allowed) + math.log(sums.share / sums.weight.size) if allowed > 0 else -math.inf
    interval = relevant_interval(sums, log_allowed + math.log(OUTSIDE))
    length = interval.last - interval.first
    with np.errstate(divide="ignore"):
        log_error = log_bound(sums, interval, ROW_THETA, differences=True) + np.log(length)[:, None]
    log_error += ROW_FACTOR - (log_allowed + math.log(1 - OUTSIDE))
    log_error /= 2 * ROW_THETA
    best = log_error.argmin(axis=1)
    needed, rate = log_error[np.arange(best.size), best], 2 * ROW_THETA[best]
    exact = (d + 1) // 2
    counts = _rounded_up(needed, rate, exact, d)
    counts[length <= 0] = 0
    return interval, counts


def _rounded_up(needed: Array, rate: Array, exact: int, d: int) -> Ids:
    """Whole numbers of nodes, so that all rows together make no more than their allowed error.

    A row with m nodes makes e^(rate (needed - m)) times its part. Rounding up leaves much of it unused. In a small
    problem, where all rows go through together, the largest number is lowered as long as the sum of what the rows make
    is no more than one part each; in a large one every row is given several parts, as long as the same holds.
    """

    def fits(counts: Array) -> bool:
        made = np.where(counts < exact, np.exp(np.minimum(rate * (needed - counts), 50.0)), 0.0)
        return bool(np.add.reduce(made) <= needed.size)

    counts = np.minimum(np.maximum(np.ceil(needed), 1.0), exact)
    if float(np.add.reduce(counts)) * d > FEW_ELEMENTS:
        more = np.minimum(np.maximum(np.ceil(needed - math.log(MORE_PARTS) / rate), 1.0), exact)
        return (more if fits(more) else counts).astype(np.intp)
    most = float(np.maximum.reduce(counts))
    while most > 1 and fits(lower := np.minimum(counts, most - 1)):
        counts, most = lower, most - 1
    return counts.astype(np.intp)


def relevant_interval(sums: RowSums, log_allowed: float) -> Interval:
    """Where the row may be above e^log_allowed (r,); see the module docstring, "Short intervals"."""
    size = np.log(np.maximum(sums.weight * (sums.background + sums.players), TINY)) + 2
    tau = np.maximum(size - log_allowed, 0.0)
    slope = sums.heavy - sums.light
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cross = (tau - sums.light) / slope
    first = np.where((sums.light > tau) & (slope < 0), np.minimum(np.maximum(cross, 0.0), 1 - SHORTEST), 0.0)
    last = np.where((sums.heavy > tau) & (slope > 0), np.minimum(np.maximum(cross, SHORTEST), 1.0), 1.0)
    nowhere = (sums.light >= tau) & (sums.heavy >= tau)
    return Interval(np.where(nowhere, 0.0, first), np.where(nowhere, 0.0, last))


def batches(interval: Interval, counts: Ids, d: int) -> list[Batch]:
    """Rows of like numbers of nodes together, with the nodes of each row in its own interval."""
    found = []
    levels = _levels(counts, d)
    length_of = interval.last - interval.first
    for m in sorted(set(levels.tolist())):
        (rows,) = ((levels == m) & (counts > 0)).nonzero()
        if not rows.size:
            continue
        which = slice(None) if rows.size == counts.size else rows
        x, w = legendre_rule(m)
        first, length = interval.first[which], length_of[which]
        p = first + length * x[:, None]
        weights = length * w[:, None]
        found.append(Batch(which, p, np.zeros((0, x.size, 1)), weights[None]))
    return found


def _levels(counts: Ids, d: int) -> Ids:
    """Numbers of nodes rounded up to a few levels: as few as the cost of a batch of its own suggests."""
    table = np.bincount(counts)
    if int(table @ np.arange(table.size)) * d > FEW_ELEMENTS:
        return LEVELS[np.searchsorted(LEVELS, counts)] if table.size <= LEVELS[-1] else counts
    # Two levels, the lower one where it saves most.
    most = table.size - 1
    saved = np.cumsum(table) * (most - np.arange(table.size))
    split = int(saved.argmax())
    if saved[split] * d < BATCH_COST or split == 0:
        return np.full_like(counts, most)
    return np.where(counts <= split, split, most)


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
