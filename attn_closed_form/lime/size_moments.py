"""Moments of LIME's kernel along the Hahn polynomials, in integers: what a rule in p is compared
with.

A weight q_m on the number m of present players, m = 0..d, is the functional Lambda = sum_m q_m E[h
| m present] on functions h of coalitions. E_p[h], the mean when every player is present with
probability p, is a polynomial in p, and Lambda maps the Legendre polynomial P_n(1 - 2p) to

    nu_n = sum_m q_m Q_n(m),

Q_n the Hahn polynomials (`docs/theory/rules-in-p.md`, "Moments along the Hahn polynomials").
Everything is computed in Python's integers, so that the comparison does not depend on how a rule
was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..game.engine.bounds import THETA
from .kernel import relative_kernel

# Binary digits of the integers. The weights of a rule are multiples of 2^-107 of their sizes (53
# bits below the 2^-54 that still matters), so 160 bits truncate nothing that counts.
WEIGHT_BITS = 160
# Q_n(m) reaches 2^63 (LARGEST_LOG_NORM) and is used to 2^-137 of that: more than the digits of a
# weight.
HAHN_BITS = 200
# P_n is at most 1 at a node, and a node is truncated after these bits, which changes P_n by n (n+1)
# 2^-90 at most.
LEGENDRE_BITS = 90
# Nor beyond this degree, where the bound on the rounding of their recurrence would leave float64.
MOST_MOMENTS = 600
# A sum of products of weights and Legendre polynomials is in units of 2^-MOMENT_BITS.
MOMENT_BITS = WEIGHT_BITS + LEGENDRE_BITS
# Room in the remainder |r|^2 for the rounding of its sum: 2^-188 A^2, A the sum of the weights. In
# units of 2^-(2 WEIGHT_BITS + 2 HAHN_BITS) that is A^2 2^(HAHN_BITS + 12). This is generous: the
# rounding that was measured up to 60 players is at most 2^-15 of this room.
REMAINDER_ROOM_BITS = HAHN_BITS + 12
# A step of a recurrence divides once and shifts at most once, and each rounds down: less than three
# units.
UNITS_PER_STEP = 3

Whole = NDArray[Any]  # array of Python's integers


class SizeMoments(NamedTuple):
    """nu_n for n = 0..N: as integers in units of 2^-(WEIGHT_BITS + LEGENDRE_BITS), and rounded
    (N+1,).

    `log_beyond` (2, len(THETA)) has logs of the sums of sqrt(2n+1) e^(-n theta) and of the same
    times |r| |Q_n|, n > N.
    """

    kernel: Array  # (d+1,) the weights q_s of s *absent* players
    nu: Whole
    rounded: Array
    residual: float  # |r|, the norm of the part of q beyond Q_N
    remainder: float  # sqrt(d+1) |r|, which bounds the sum of all |r_m|
    log_beyond: Array


def size_moments(d: int, kernel_width: float, longest: int) -> SizeMoments:
    """Compute the moments of `relative_kernel` that rules with up to `longest` nodes are compared
    with, and |r|.

    >>> moments = size_moments(6, np.inf, 20)  # constant weights have no component but the first
    >>> [abs(round(float(x), 12)) for x in moments.rounded]
    [7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    return _size_moments(d, kernel_width, last_degree(d, longest))


@lru_cache(maxsize=512)
def _size_moments(d: int, kernel_width: float, N: int) -> SizeMoments:
    """Compute the moments up to degree N."""
    kernel = relative_kernel(d, kernel_width)
    q = whole(kernel[::-1], WEIGHT_BITS)
    nu = _along_hahn_polynomials(q, d, N)
    residual = _remainder(q, nu, d)
    log_rule, log_kernel = _log_beyond(d, N)
    # From units of Hahn polynomials to those of Legendre polynomials.
    excess_bits = HAHN_BITS - LEGENDRE_BITS
    whole_nu = np.array([moment >> excess_bits for moment in nu], dtype=object)
    return SizeMoments(
        kernel=kernel,
        nu=whole_nu,
        rounded=as_floats(whole_nu, MOMENT_BITS),
        residual=residual,
        remainder=float(np.sqrt(d + 1)) * residual * (1 + 1e-12),
        log_beyond=np.stack([log_rule, np.log(residual) + log_kernel]),
    )


def _along_hahn_polynomials(q: Whole, d: int, N: int) -> list[int]:
    """Return the sums of q_m Q_n(m) over the sizes m, for n = 0..N, in units of both."""
    # Q_n(d-m) = (-1)^n Q_n(m), so sums over half of the sizes are enough.
    half = d // 2 + 1
    first = q[:half]
    mirrored = q[::-1][:half].copy()
    if d % 2 == 0:
        mirrored[-1] = 0
    of_even = first + mirrored
    of_odd = first - mirrored
    slope = np.array([d - 2 * m for m in range(half)], dtype=object)
    steps = []
    for n in range(N):
        fall = n * (d + n + 1)
        rise = (n + 1) * (d - n)
        steps.append((fall, rise))
    nu = []
    for n, Q in enumerate(polynomials(slope, 0, steps, bits=HAHN_BITS)):
        folded = of_odd if n % 2 else of_even
        nu.append(int(folded @ Q))
    return nu


def _log_beyond(d: int, N: int) -> tuple[Array, Array]:
    """Return the logs of the sums of sqrt(2n+1) e^(-n theta) and of the same times |Q_n|, N < n <=
    d, one for each theta: what no moment shows.
    """
    degrees = np.arange(N + 1, d + 1)
    log_root = np.log(2 * degrees + 1) / 2
    log_terms = log_root[:, None] - np.outer(degrees, THETA)
    log_norm = _log_norms(d)[degrees]
    with_norm = log_terms + log_norm[:, None]
    log_rule = np.logaddexp.reduce(log_terms, axis=0, initial=-np.inf)
    log_kernel = np.logaddexp.reduce(with_norm, axis=0, initial=-np.inf)
    return log_rule, log_kernel


@lru_cache(maxsize=512)
def last_degree(d: int, longest: int) -> int:
    """Return N, the degree of the last moment for rules with up to `longest` nodes of d players.

    >>> last_degree(5, 440), last_degree(200, 440)
    (5, 126)
    """
    # Hahn polynomials are used up to the degree at which their norm, which bounds them, is e^43 <
    # 2^63.
    largest_log_norm = 43.0
    too_large = _log_norms(d) > largest_log_norm
    within_digits = int(np.searchsorted(too_large, True)) - 1
    # A Gauss rule is exact below twice the number of its nodes; a few more moments show how it
    # continues.
    return min(d, 2 * longest + 4, MOST_MOMENTS, within_digits)


def _log_norms(d: int) -> Array:
    """Return the (d+1,) logs of |Q_n|; |Q_n|^2 = (d+1)/(2n+1) prod_{k<=n} (d+1+k)/(d+1-k)."""
    n = np.arange(d + 1)
    k = n[1:]
    log_ratios = np.log((d + 1 + k) / (d + 1 - k))
    log_products = np.concatenate([[0.0], np.cumsum(log_ratios)])
    log_norm = log_products / 2
    log_norm += np.log((d + 1) / (2 * n + 1)) / 2
    return log_norm


def _remainder(q: Whole, nu: Sequence[int], d: int) -> float:
    """Return an upper bound on |r|, |r|^2 = |q|^2 - sum nu_n^2 / |Q_n|^2 (Parseval).

    All terms are in units of 2^-(2 WEIGHT_BITS + 2 HAHN_BITS).
    """
    square = int(q @ q) << 2 * HAHN_BITS
    inverse = (1 << 2 * HAHN_BITS) // (d + 1)  # 1 / |Q_n|^2
    for n, moment in enumerate(nu):
        if n:
            rise = (2 * n + 1) * (d + 1 - n)
            fall = (2 * n - 1) * (d + 1 + n)
            inverse = inverse * rise // fall
        square -= moment * moment * inverse >> 2 * HAHN_BITS
    room = sum(q.tolist()) ** 2 << REMAINDER_ROOM_BITS
    return isqrt(max(square, 0) + room) / (1 << WEIGHT_BITS + HAHN_BITS)


def polynomials(
    slope: Whole, shift: int, steps: Sequence[tuple[int, int]], bits: int
) -> Iterator[Whole]:
    """Yield p_0 = 1, p_1, ... in units of 2^-bits, each correct to two units.

    With x = slope / 2^shift, c p_{n+1} = (2n+1) x p_n - b p_{n-1}; `steps` has (b, c) for n = 0, 1,
    ..., and |x| is at most (b + c) / (2n+1).
    """
    # The error of p_n in units: every step adds its own rounding and passes on the errors of the
    # two before.
    error_before = 0.0
    error = 0.0
    for b, c in steps:
        ratio = b / c
        next_error = (ratio + 1) * error + ratio * error_before + UNITS_PER_STEP
        error_before = error
        error = next_error
    spare = ceil(log2(error + 1))
    before = 0 * slope
    current = before + (1 << bits + spare)
    yield current >> spare
    for n, (b, c) in enumerate(steps):
        product = slope * current
        if shift:
            product = product >> shift
        numerator = (2 * n + 1) * product - b * before
        following = numerator // c
        before = current
        current = following
        yield current >> spare


def legendre_values(p: Array, count: int) -> Whole:
    """Compute the (m, count) values P_n(1 - 2p) for n < count in units of 2^-LEGENDRE_BITS."""
    slope = (1 << LEGENDRE_BITS) - 2 * whole(p, LEGENDRE_BITS)
    steps = [(n, n + 1) for n in range(count - 1)]
    columns = list(polynomials(slope, LEGENDRE_BITS, steps, bits=LEGENDRE_BITS))
    return np.stack(columns, axis=1)


def whole(x: Array, bits: int) -> Whole:
    """Round to integers in units of 2^-bits."""
    in_units = np.ldexp(x, bits)
    return np.array([int(y) for y in in_units.tolist()], dtype=object)


def as_floats(x: Whole, bits: int) -> Array:
    """Convert integers in units of 2^-bits to floats."""
    return np.ldexp(x.astype(np.float64), -bits)
