"""Rigorous bounds of a row (a node lam of a head) for complex p: what the number of nodes in p follows from.

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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array
from .engine import RowSums

# Ellipses that are tried.
THETA = np.geomspace(0.02, 3.2, 16)
COSH = np.cosh(THETA)
# Players that a term of a second difference leaves out of the product, at the most.
LEFT_OUT = 3
TINY = np.finfo(float).tiny


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
