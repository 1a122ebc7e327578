"""A bound of each term of the engine for complex p, which decides how many nodes in p it needs.

With c = cosh(theta), on the Bernstein ellipse with parameter e^theta around an interval of p a term
is at most

    M = w e^(-lam D_0) e^T [ |n_0| + b sum_k (x_k |A_k| + y_k |B_k|) ],

with b the largest of |p|, |1 - p| and 1, and T = sum over two groups of n log(1 + u mean(g)), g =
|x - y|: the n players that are heavy when present, with u how far the ellipse reaches beyond 0, and
those that are light, with u how far it reaches beyond 1. For Delta_j and I_ij the bracket may be
replaced by max_k |x_k - y_k| [ ... ] + 2 max_k (x_k |A_k| + y_k |B_k|).

For complex terms the product of all |Y_k| is at most (1 + H/d)^(d/2), H a bound of the sum of all
|Y_k|^2 - 1 on the ellipse. Proofs: docs/theory/bounds-of-the-engine.md, "Terms".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._types import Array

# The ellipses to try. The bound holds for each of them, so they are tuning: a finer grid saves no
# node, and beyond theta = 4 a polynomial needs so few nodes that the factor e^(n theta) of the
# bound decides.
THETA = np.geomspace(0.02, 4.0, 16)
# The smallest number whose logarithm is taken; a smaller sum has no influence on any result.
TINY = np.finfo(float).tiny
# Maximum number of players omitted from a product: two in I_ij, and the player of the numerator.
PLAYERS_OMITTED = 3


class ComplexSums(NamedTuple):
    """Sums over the players of complex terms, (2, r): those that are heavy when present, then those
    that are light.
    """

    first: Array  # sum of g, complex
    second: Array  # sum of |g|^2


class TermSums(NamedTuple):
    """The sums that a law may use, one entry per term, (r,) each. The first three bound the
    numerators.
    """

    weight: Array  # w e^(-lam D_0)
    background: Array  # |n_0|
    players: Array  # sum over the players of x |A| + y |B|
    heavy: Array  # sum of 1 - x: over the players that are heavy when present
    light: Array  # sum of 1 - y: over those that are light when present
    players_heavy: Array  # the number of these players
    players_light: Array
    largest_change: Array  # largest |x - y| of a player
    largest_player: Array  # largest x |A| + y |B| of a player
    share: float  # share of these terms in all terms, and of the allowed error
    complex_sums: ComplexSums | None = None  # for complex terms; the other sums are then of moduli


def term_sums(
    weight: Array,
    n_0: Array,
    factor: Array,
    T: Array,
    largest_change: Array,
    players_light: Array,
    share: float,
) -> TermSums:
    """Return the sums of terms with these arrays, named as in `Terms` and `TermSums`; complex ones
    by their moduli.

    Sums of 1 - x are taken as d minus the sum of x: their rounding, d ulps, is negligible in the
    bounds.
    """
    r, _, d = factor.shape
    each = np.abs(T[:, 0])
    each += np.abs(T[:, 1])
    # One sum over (2 r) rows is twice as fast as two sums over r rows.
    rows = factor.reshape(2 * r, d)
    factor_sums = np.add.reduce(rows, axis=1).reshape(r, 2)
    change = np.maximum(d - factor_sums, 0.0)
    return TermSums(
        weight=weight,
        background=np.abs(n_0),
        players=np.add.reduce(each, axis=1),
        heavy=change[:, 0],
        light=change[:, 1],
        players_heavy=d - players_light,
        players_light=players_light,
        largest_change=largest_change,
        largest_player=np.maximum.reduce(each, axis=1),
        share=share,
    )


def complex_term_sums(
    weight: Array,
    n_0: Array,
    factor: Array,
    T: Array,
    largest_change: Array,
    players_light: Array,
    share: float,
) -> TermSums:
    """Return the sums of complex terms."""
    change = 1 - factor
    squares = change.real**2 + change.imag**2
    complex_sums = ComplexSums(
        first=np.add.reduce(change, axis=2).T,
        second=np.add.reduce(squares, axis=2).T,
    )
    moduli = term_sums(
        weight=np.abs(weight),
        n_0=n_0,
        factor=np.abs(factor),
        T=T,
        largest_change=largest_change,
        players_light=players_light,
        share=share,
    )
    return moduli._replace(complex_sums=complex_sums)


class Interval(NamedTuple):
    """The interval on which a term matters: p_0, p_1 (r,); terms that never matter have p_0 =
    p_1.
    """

    first: Array
    last: Array


# All of [0, 1], for every term.
WHOLE = Interval(np.zeros(1), np.ones(1))


def log_bound(
    sums: TermSums, interval: Interval = WHOLE, differences: bool = False, theta: Array = THETA
) -> Array:
    """Return the (r, n) log of the bound M of each term on the ellipses `theta` (n,) around its
    interval.

    With `differences` the smaller one that holds for Delta_j and I_ij, but not for E_p[f].
    """
    # Terms are the rows, and the ellipses are the columns.
    first = interval.first[:, None]
    last = interval.last[:, None]
    largest_change = sums.largest_change[:, None]
    middle = (first + last) / 2
    half = (last - first) / 2
    reach = half * np.cosh(theta)
    left = middle - reach
    right = middle + reach
    furthest = np.maximum(right, 1 - left)
    bracket = furthest * sums.players[:, None]
    bracket += sums.background[:, None]
    if differences:
        bracket *= largest_change
        # Once would do: of the two players of I_ij the sum above holds b >= 1/2 of each. Twice is
        # simpler to prove.
        bracket += 2 * sums.largest_player[:, None]
    bracket *= sums.weight[:, None]
    np.maximum(bracket, TINY, out=bracket)
    log_M = np.log(bracket, out=bracket)
    if sums.complex_sums is not None:
        omitted = PLAYERS_OMITTED * np.minimum(1.0, 2 * furthest * largest_change)
        H = _largest_on_ellipse(sums.complex_sums, middle, half, theta) + omitted
        players = sums.players_heavy + sums.players_light
        d = players[:, None]
        mean_growth = np.maximum(H / d, -1 + TINY)
        return log_M + d / 2 * np.log1p(mean_growth)
    log_M += _log_product(sums.players_heavy, sums.heavy, -left)
    if sums.light.any():
        log_M += _log_product(sums.players_light, sums.light, right - 1)
    return log_M


def _log_product(n: Array, total: Array, reach: Array) -> Array:
    """Return the log of the largest product of |Y_k| of a group on ellipses that extend beyond [0,
    1] by `reach`.
    """
    mean = total / np.maximum(n, 1.0)
    outside = np.maximum(reach, 0.0)
    mean_of_log = np.log1p(outside * mean[:, None])
    return n[:, None] * mean_of_log


def _largest_on_ellipse(sums: ComplexSums, m: Array, c: Array, theta: Array) -> Array:
    """Return a bound on H of the module docstring on ellipses `theta` (n,) with centers m and half
    lengths c (r, 1).

    On the ellipse p = m + a cos(phi) + i b sin(phi), and the sum is k_0 + k_1 cos(phi) + k_2
    sin(phi) + k_3 cos(phi)^2, of which the last three are at most nu + k_3 + k_1^2 / (4 nu) + k_2^2
    / (4 (nu + k_3)) for any nu > 0.
    """
    # The sums of g and |g|^2 over the heavy group and over the light one.
    (G1, G2) = sums.first[:, :, None]
    (M1, M2) = sums.second[:, :, None]
    M = M1 + M2
    a = c * np.cosh(theta)
    b = c * np.sinh(theta)
    n = 1 - m
    squares = m * m * M1 + n**2 * M2
    means = m * G1.real + n * G2.real
    k_0 = squares - 2 * means + b * b * M
    slope = m * M1 - n * M2 - G1.real + G2.real
    k_1 = (2 * a) * slope
    k_2 = (2 * b) * (G1.imag - G2.imag)
    k_3 = c * c * M
    k_1_part = k_1 * k_1 / 4
    k_2_part = k_2 * k_2 / 4
    # The best nu makes the derivative zero: nu^2 = k_1_part + k_2_part (nu / (nu + k_3))^2.
    nu = np.sqrt(k_1_part + k_2_part) + TINY
    # Tuning: steps of the fixed-point iteration towards the best nu. Any nu gives a bound.
    nu_steps = 3
    for _ in range(nu_steps):
        ratio = nu / (nu + k_3)
        nu = np.sqrt(k_1_part + k_2_part * ratio**2) + TINY
    linear = k_0 + nu + k_3
    return linear + k_1_part / nu + k_2_part / (nu + k_3)
