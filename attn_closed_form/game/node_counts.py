"""How many nodes in p: rigorous bounds for each row (a node lam of a head), and the plans that follow from them.

For complex p on the Bernstein ellipse with parameter e^theta, c = cosh(theta), around an interval [p_0, p_1], with g_k
= 1 - E_k: |Y_k|^2 = 1 - 2 Re(q) g_k + |q|^2 g_k^2. The logarithm is concave, so for a group of n players with the same
q

    sum_k log|Y_k| <= (n/2) log A,   A = 1 - 2 Re(q) mean(g) + |q|^2 mean(g^2).

On the ellipse |q|^2, and with it A, is a convex function of the real part x of p, so below the straight line A_0 + A_1
t through its values at the two ends x = left (t = 0) and right (t = 1), where p is real. There are two groups: players
that are heavy when present (q = p) and players that are light (q = 1 - p), with a line B_0 + B_1 t. The sum of the two
logarithms of lines is concave in t and largest where its derivative, a linear function over a positive one, vanishes,
or at an end.

Leaving out k <= 3 players of n: the others' |Y|^2 add up to n A at most, so their product is at most (n A / (n -
k))^((n-k)/2) <= e^(k/2) A^((n-3)/2) max(1, A)^(3/2). With that, and |V| <= B mass (B: half the range of the values), a
row of Delta_j or I_ij is at most

    M = e^(3/2) B w e^(-lam D_0) e^T [ c_0 + b sum_k (lo_k + hi_k E_k) ],  b the largest of |p| and |1 - p|, at least 1,

T the logarithm of the product. In Delta_j and I_ij the bracket has a factor G_j, but for the player's own mass, so
there it may be replaced by max_k G_k [ ... ] + 2 max_k (lo_k + hi_k E_k), which is much smaller where no player
dominates. The first M bounds the row of E_p[f], where one player at most is left out; and E_p[f 1{j present}] = p
E_p[f | j present], where two are, is at most e^(-1/2) (1 + c)/2 M.

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
# The same for single rows, whose intervals are short enough for large ellipses.
ROW_THETA = np.geomspace(0.2, 3.0, 10)
ROW_FACTOR = log_legendre_factor(ROW_THETA)
# Players that a term of a second difference leaves out of the product, at the most.
LEFT_OUT = 3
# Multiples of its part of the error that a row is given before rounding up.
MORE_PARTS = (8.0, 3.0, 1.0)
# Part of a row's error that what lies outside of its interval may make.
OUTSIDE = 0.125
# Shortest interval: shorter ones would bring nodes so near to 0 or 1 that 1/Y overflows.
SHORTEST = 1e-6
TINY = np.finfo(float).tiny
# Rows with like numbers of nodes go through together: each number is rounded up to one of these.
# Below this many elements there are two levels at most; the second must save BATCH_COST elements.
FEW_ELEMENTS, BATCH_COST = 200_000, 25_000
LEVELS = np.unique(np.round(np.geomspace(1, 4000, 60)).astype(int))


class Interval(NamedTuple):
    """Where a row counts: p_0, p_1 (r,); rows that count nowhere have p_0 = p_1."""

    first: Array
    last: Array


WHOLE = Interval(np.zeros(1), np.ones(1))


def log_bound(sums: RowSums, interval: Interval = WHOLE, theta: Array = THETA, differences: bool = False) -> Array:
    """Log of the bound M of each row on the ellipses `theta` around its interval, (r, len(theta)).

    With `differences` the smaller one that holds for Delta_j and I_ij, but not for E_p[f].
    """
    middle = (interval.first + interval.last)[:, None] / 2
    reach = (interval.last - interval.first)[:, None] / 2 * np.cosh(theta)
    left, right = middle - reach, middle + reach
    growth = _growth(sums, left, right)
    mass = sums.background[:, None] + np.maximum(right, 1 - left) * sums.players[:, None]
    if differences and sums.largest_change is not None and sums.largest_player is not None:
        mass *= sums.largest_change[:, None]
        mass += 2 * sums.largest_player[:, None]
    mass *= sums.weight[:, None]
    growth += np.log(np.maximum(mass, TINY, out=mass), out=mass)
    growth += LEFT_OUT / 2
    return growth


def _growth(sums: RowSums, left: Array, right: Array) -> Array:
    """Log of the largest product of all but LEFT_OUT of the |Y_k| on ellipses from `left` to `right`, (r, n)."""
    some_light = bool(sums.light.any())
    groups = 2 if some_light else 1  # heavy, light
    table = np.array(
        [
            [sums.players_heavy, sums.players_light],
            [sums.heavy, sums.light],
            [sums.heavy_squares, sums.light_squares],
        ]
    )[:, :groups, :, None]
    n = table[0]
    mean, square = table[1:] / np.maximum(n, 1.0)
    ends = np.empty((2, groups, *left.shape))
    ends[0, 0], ends[1, 0] = left, right
    if some_light:
        ends[:, 1] = 1 - ends[:, 0]
    # Mean |Y|^2 of the group at both ends.
    A = ends * square
    A -= 2 * mean
    A *= ends
    A += 1
    top = np.log(np.maximum(np.maximum(A[0], A[1]), TINY))
    slack = LEFT_OUT / 2 * np.maximum(top, 0.0)
    exponent = np.maximum(n - LEFT_OUT, 0.0) / 2
    if some_light and min(sums.light.max(), sums.heavy.max()) >= 1:
        top = _largest_sum(exponent, A)
    # With one group, or one that hardly changes, each has its largest value at an end.
    return np.add.reduce(exponent * top + slack, axis=0)


def _largest_sum(exponent: Array, A: Array) -> Array:
    """Logarithms (2, r, n) of two lines at the t in [0, 1] where exponent_0 log A_0 + exponent_1 log A_1 is largest.

    A (2, 2, r, n) are the values of both lines at t = 0 and t = 1.
    """
    start, slope = A[0], A[1] - A[0]
    rate = exponent[0] * slope[0] * start[1] + exponent[1] * slope[1] * start[0]  # of the sum at t = 0, times A_0 A_1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = -rate / (slope[0] * slope[1] * (exponent[0] + exponent[1]))
    # Where both lines rise or fall, or one is flat, the largest value is at an end.
    inside = np.isfinite(t) & (slope[0] * slope[1] < 0)
    t = np.where(inside, np.clip(t, 0.0, 1.0), rate > 0)
    return np.log(np.maximum(start + t * slope, TINY))


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
    counts = _rounded_up(needed, rate, exact)
    counts[length <= 0] = 0
    return interval, counts


def _rounded_up(needed: Array, rate: Array, exact: int) -> Ids:
    """Whole numbers of nodes, so that all rows together make no more than their allowed error.

    A row with m nodes makes e^(rate (needed - m)) times its part. Rounding up leaves much of it unused, so every row is
    first given several parts, as long as the sum of what they make is no more than one part each.
    """
    for parts in MORE_PARTS:
        counts = np.minimum(np.maximum(np.ceil(needed - math.log(parts) / rate), 1.0), exact)
        made = np.where(counts < exact, np.exp(np.minimum(rate * (needed - counts), 50.0)), 0.0)
        if np.add.reduce(made) <= needed.size:
            break
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
