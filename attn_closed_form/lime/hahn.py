"""Moments of LIME's kernel along the Hahn (discrete Legendre) polynomials, with a proved error.

Q_n(s) = Q_n(s; 0, 0, d) on s = 0..d has Q_0 = 1, Q_n(0) = 1 and, with x = 1 - 2s/d,

    c_n Q_{n+1} = (b_n + c_n) x Q_n - b_n Q_{n-1},     b_n = n (d+n+1),   c_n = (n+1)(d-n),

and squared Euclidean norm |Q_n|^2 = (d+1)/(2n+1) prod_{k<=n} (d+1+k)/(d+1-k). Wanted: nu_n = sum_s q_s Q_n(s).

**Up to EXACT_BELOW players** the recurrence runs in whole numbers, Q_n times a power of two that is large enough for
the worst growth of its rounding, e_{n+1} <= (b_n + c_n)/c_n e_n + b_n/c_n e_{n-1} + 1. The nu_n are then exact.

**Beyond**, it runs in extended precision. A perturbation of size eta at step j travels as a solution y of the
recurrence with y_j = 0, y_{j+1} = eta. Put a_n = c_n (y_{n+1} - x y_n), which is also b_n (x y_n - y_{n-1}). The
energy of two neighbours, y_n^2 + y_{n+1}^2 - 2 x y_n y_{n+1}, is (a_n/c_n)^2 + (1-x^2) y_n^2, and that of the pair
before is (a_n/b_n)^2 + (1-x^2) y_n^2. So the root of the energy, eta at the start, grows by max(1, b_n/c_n) at most in
a step; and |y_{n+1}| <= |y_n| + |a_n|/c_n <= |y_n| + root, while |y_n| sqrt(1-x^2) <= root. With growth_n =
prod_{k<=n} max(1, b_k/c_k), which stays 1 up to n = sqrt(d/2) and is about e^(n^2/d) later, |y_n| <= min(n,
1/sqrt(1-x^2)) growth_n eta. A step rounds by six operations, half an ulp each, on terms of at most ((b_n + c_n) |Q_n|
+ b_n |Q_{n-1}|) / c_n. That makes the error of Q_n at most

    min(n, 1/sqrt(1-x^2)) growth_n sum_{j<n} 3 u max_s ((b_j + c_j) |Q_j| + b_j |Q_{j-1}|) / c_j .

What is left of q beyond Q_N has |r|^2 = |q|^2 - sum_{n<=N} nu_n^2 / |Q_n|^2 (Parseval).
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .kernel import EXTENDED, log_kernel

UNIT = float(np.finfo(EXTENDED).eps)
EXACT_BELOW = 400
# Degrees that are looked at: enough for the rules that `kernel_rule.py` makes of them.
MOST_DEGREES = 112
# Bits kept beyond the growth of rounding in the whole-number recurrence, and for the weights.
SPARE_BITS, WEIGHT_BITS = 160, 160


class SizeMoments(NamedTuple):
    """nu_n for n = 0..N (N+1,) in extended precision, a bound of the error of each, log |Q_n| for n = 0..d, and |r|."""

    nu: NDArray[Any]
    error: Array
    log_norm: Array
    residual: float


@lru_cache(maxsize=512)
def size_moments(d: int, kernel_width: float) -> SizeMoments:
    """Moments of q_s = kernel(s) / d, s = 0..d.

    >>> found = size_moments(6, np.inf)       # constant weights have no component but the first
    >>> [abs(round(float(x), 12)) for x in found.nu]
    [1.166666666667, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    k = np.arange(1, d + 1)
    log_norm = np.concatenate([[0.0], np.cumsum(np.log((d + 1 + k) / (d + 1 - k)))]) / 2
    log_norm += np.log((d + 1) / (2 * np.arange(d + 1) + 1)) / 2
    q: NDArray[Any] = np.exp(log_kernel(d, kernel_width)) / d
    degrees = min(d, MOST_DEGREES)
    made = _exact if d <= EXACT_BELOW else _extended
    nu, error, residual = made(q, degrees)
    for array in (nu, error, log_norm):
        array.flags.writeable = False
    return SizeMoments(nu, error, log_norm, residual)


def _exact(q: NDArray[Any], N: int) -> tuple[NDArray[Any], Array, float]:
    """nu, its error (the last rounding only) and |r|, in whole numbers."""
    d = q.size - 1
    N = min(N, 24 + 5 * isqrt(d))
    growth = [0.0, 1.0]
    for n in range(N):
        b, c = n * (d + n + 1), (n + 1) * (d - n)
        growth.append((b + c) / c * growth[-1] + b / c * growth[-2] + 1)
    one = 1 << (SPARE_BITS + int(log2(growth[-1])) + 1)
    weight = [int(x) for x in np.ldexp(q, WEIGHT_BITS)]  # longer than the mantissa: nothing is lost down to 2^-96
    half = d // 2 + 1
    s = np.arange(half)
    sums = [weight[i] + weight[d - i] if 2 * i != d else weight[i] for i in range(half)]
    differences = [weight[i] - weight[d - i] for i in range(half)]
    folded = [np.array(sums, dtype=object), np.array(differences, dtype=object)]  # Q_n(d-s) = (-1)^n Q_n(s)
    slope = np.array([int(x) for x in d - 2 * s], dtype=object)
    before, now = np.array([0] * half, dtype=object), np.array([one] * half, dtype=object)
    nu = []
    for n in range(N + 1):
        nu.append(int(folded[n % 2] @ now) // one)
        if n < N:
            new = ((2 * n + 1) * slope * now - n * (d + n + 1) * before) // ((n + 1) * (d - n))
            before, now = now, new
    left = sum(w * w for w in weight) << WEIGHT_BITS
    inverse = (1 << 2 * WEIGHT_BITS) // (d + 1)  # 1 / |Q_0|^2
    for n, moment in enumerate(nu):
        if n:
            inverse = inverse * (2 * n + 1) * (d + 1 - n) // ((2 * n - 1) * (d + 1 + n))
        left -= moment * moment * inverse >> WEIGHT_BITS
    slack = 1 << WEIGHT_BITS + 40  # the whole numbers above were rounded down a few hundred times
    residual = float(np.sqrt(np.ldexp(float(max(left, 0) + slack), -3 * WEIGHT_BITS)))
    high = [moment >> (WEIGHT_BITS - 50) for moment in nu]  # two floats hold more than extended precision does
    low = [moment - (part << (WEIGHT_BITS - 50)) for moment, part in zip(nu, high, strict=True)]
    values = np.array(high, dtype=np.float64).astype(EXTENDED) * EXTENDED(2.0**-50)
    values = values + np.ldexp(np.array(low, dtype=np.float64), -WEIGHT_BITS)
    return values, UNIT * np.abs(values).astype(np.float64) + 2.0**-76, residual


def _extended(q: NDArray[Any], N: int) -> tuple[NDArray[Any], Array, float]:
    """nu, its error and |r| by the recurrence in extended precision."""
    d = q.size - 1
    N = min(N, isqrt(10 * d))
    half = d // 2 + 1
    x: NDArray[Any] = (d - 2 * np.arange(half).astype(EXTENDED)) / d
    mirror = q[::-1][:half]
    folded = [q[:half] + mirror, q[:half] - mirror]  # Q_n(d-s) = (-1)^n Q_n(s)
    if d % 2 == 0:
        folded[0][-1] /= 2
    weights = folded[0].astype(np.float64)
    with np.errstate(divide="ignore"):
        gain = 1 / np.sqrt(np.maximum(1 - x.astype(np.float64) ** 2, 0.0))
    summing = (16 + log2(d)) * UNIT  # of a pairwise sum over s
    before, now = 0 * x, 0 * x + 1
    nu, error = np.empty(N + 1, dtype=EXTENDED), np.empty(N + 1)
    growth, steps, was, largest = 1.0, 0.0, 0.0, 1.0
    left, doubt = q @ q, d * UNIT * float(q @ q)
    inverse = 1 / EXTENDED(d + 1)  # 1 / |Q_n|^2
    for n in range(N + 1):
        nu[n] = np.add.reduce(folded[n % 2] * now)
        error[n] = growth * steps * float(weights @ np.minimum(n, gain)) + float(weights.sum()) * summing * largest
        inverse *= EXTENDED((2 * n + 1) * (d + 1 - n)) / EXTENDED((2 * n - 1) * (d + 1 + n)) if n else 1
        left -= nu[n] * nu[n] * inverse
        size = abs(float(nu[n]))
        doubt += float(inverse) * (error[n] * (2 * size + error[n]) + 4 * (n + 2) * UNIT * size**2)
        if n < N:
            b, c = n * (d + n + 1), (n + 1) * (d - n)
            steps += 3 * UNIT * ((b + c) * largest + b * was) / c
            growth *= max(1.0, b / c)
            before, now = now, (EXTENDED(b + c) / EXTENDED(c)) * x * now - EXTENDED(b) / EXTENDED(c) * before
            was, largest = largest, float(np.abs(now).max())
    return nu, error, float(np.sqrt(max(float(left), 0.0) + doubt))
