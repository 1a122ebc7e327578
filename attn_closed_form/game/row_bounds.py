"""Rigorous bounds of a row (a node lam of a head) for complex p: what the number of nodes in p follows from.

For complex p on the Bernstein ellipse with parameter e^theta, c = cosh(theta), around an interval [p_0, p_1], with g_k
= |x_k - y_k|: |Y_k|^2 = 1 - 2 Re(q) g_k + |q|^2 g_k^2. The logarithm is concave, so for a group of n players with the
same q

    sum_k log|Y_k| <= (n/2) log A,   A = 1 - 2 Re(q) mean(g) + |q|^2 mean(g^2).

On the ellipse |q|^2, and with it A, is a convex function of the real part x of p, so below the straight line A_0 + A_1
t through its values at the two ends x = left (t = 0) and right (t = 1), where p is real. There are two groups: players
that are heavy when present (q = p) and players that are light (q = 1 - p), with a line B_0 + B_1 t. The sum of the two
logarithms of lines is concave in t and largest where its derivative, a linear function over a positive one, vanishes,
or at an end.

Leaving out k <= 3 players of n: the others' |Y|^2 add up to n A at most, so their product is at most (n A / (n -
k))^((n-k)/2) <= e^(k/2) A^((n-3)/2) max(1, A)^(3/2).

Where one of the groups hardly changes it is simpler to bound the players one by one. Each |Y_k| of a heavy player is
largest at the left end of the ellipse, where it is 1 + u g_k, u = -left, or less than 1: between the ends |Y_k|^2 is
convex in x, and at the right end it is smaller by (right - left) g (2 - (left + right) g) >= 0. For a light player it
is the right end, with u = right - 1. With u at least 0 any players may be left out, and a group's product is at most
(1 + u mean(g))^n.

With C = e^(3/2), or 1 if bounded one by one, a row of Delta_j or I_ij is at most

    M = C w e^(-lam D_0) e^T [ |n_0| + b sum_k (x_k |A_k| + y_k |B_k|) ],  b the largest of |p| and |1 - p|, at least 1,

T the logarithm of the product. In Delta_j and I_ij the bracket has a factor |x_j - y_j|, but for a player's own terms,
so there it may be replaced by max_k |x_k - y_k| [ ... ] + 2 max_k (x_k |A_k| + y_k |B_k|), which is much smaller where
no player dominates. For E_p[f] C = e^(3/2), or e^(1/2) one by one: more than is needed, so that E_p[f 1{j present}] =
p E_p[f | j present], where two players at most are left out, is below e^(-1/2) (1 + c)/2 M.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array
from .rows import RowSums

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
    """Log of the bound M of each row on the ellipses `theta` (n,) or (r, n) around its interval, (r, n).

    With `differences` the smaller one that holds for Delta_j and I_ij, but not for E_p[f].
    """
    middle = (interval.first + interval.last)[:, None] / 2
    reach = (interval.last - interval.first)[:, None] / 2 * np.cosh(theta)
    left, right = middle - reach, middle + reach
    mass = np.maximum(right, 1 - left) * sums.players[:, None]
    mass += sums.background[:, None]
    if differences and sums.largest_change is not None and sums.largest_player is not None:
        mass *= sums.largest_change[:, None]
        mass += 2 * sums.largest_player[:, None]
    mass *= sums.weight[:, None]
    growth = np.log(np.maximum(mass, TINY, out=mass), out=mass)
    if sums.heavy_squares is not None and sums.light_squares is not None:
        growth += _growth(sums, sums.heavy_squares, sums.light_squares, left, right)
        growth += LEFT_OUT / 2
        return growth
    growth += _one_by_one(sums.players_heavy, sums.heavy, -left)
    if sums.light.any():
        growth += _one_by_one(sums.players_light, sums.light, right - 1)
    return growth if differences else growth + 0.5


def _one_by_one(n: Array, total: Array, reach: Array) -> Array:
    """Log of the largest product of any of the |Y_k| of a group, its ellipses reaching beyond [0, 1] by `reach`."""
    return n[:, None] * np.log1p(np.maximum(reach, 0.0) * (total / np.maximum(n, 1.0))[:, None])


def _growth(sums: RowSums, heavy_squares: Array, light_squares: Array, left: Array, right: Array) -> Array:
    """Log of the largest product of all but LEFT_OUT of the |Y_k| on ellipses from `left` to `right`, (r, n)."""
    ends = np.empty((2, 2, *left.shape))  # left, right; heavy, light
    ends[0, 0], ends[1, 0] = left, right
    np.subtract(1.0, ends[:, 0], out=ends[:, 1])
    n, mean, square = np.empty((3, 2, sums.heavy.size, 1))
    n[0, :, 0], n[1, :, 0] = sums.players_heavy, sums.players_light
    mean[0, :, 0], mean[1, :, 0] = sums.heavy, sums.light
    square[0, :, 0], square[1, :, 0] = heavy_squares, light_squares
    count = np.maximum(n, 1.0)
    square /= count
    mean /= count
    mean *= 2
    # Mean |Y|^2 of the group at both ends.
    A = ends * square
    A -= mean
    A *= ends
    A += 1
    slack = LEFT_OUT / 2 * np.log(np.maximum(np.maximum(A[0], A[1]), 1.0))
    exponent = np.maximum(n - LEFT_OUT, 0.0) / 2
    top = _largest_sum(exponent, A)
    top *= exponent
    top += slack
    return top[0] + top[1]


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
