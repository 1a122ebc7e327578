"""LIME's settings: the kernel that weighs the samples, and the checks of the arguments of all
functions of LIME.

The lime package weights a sample with s of d features absent by its cosine distance to the
document, times 100:

    pi(s) = exp(-D^2 / (2 kernel_width^2)),    D = 100 (1 - sqrt(1 - s/d)).

A narrow kernel has logarithms of thousands, whose last digit in float64 would be the twelfth of the
weight. They are therefore integers, in units of 2^-LOG_BITS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import check, number
from .._types import Array

Features = Sequence[int] | NDArray[np.intp]

# Fractional bits of a logarithm. Those of the narrowest kernels have 60 bits before the point, so
# that 128 bits leave more after it than the weights have digits.
LOG_BITS = 128
# A weight with a larger one counts as e^600, next to which all other weights vanish: no digit of a
# result changes (docs/theory/rules-in-p.md, "The regression"), and its product with a value still
# fits into float64.
LARGEST_EXPONENT = 600
# Exponentials beyond the range or the precision of float64: forty digits, and the widest range of
# exponents.
WIDE = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX)


class LimeSettings(NamedTuple):
    """Checked settings of LIME's regression."""

    kernel_width: float
    ridge: float
    num_samples: int | None


def check_settings(kernel_width: Any, ridge: Any, num_samples: Any) -> LimeSettings:
    """Return the three settings as numbers, or raise an error that names the wrong one.

    >>> check_settings(25, 1, 5000)
    LimeSettings(kernel_width=25.0, ridge=1.0, num_samples=5000)
    >>> check_settings(25, 1, 2.5)
    Traceback (most recent call last):
    ValueError: num_samples: expected an integer of at least 2, or None, got 2.5
    """
    width = number("kernel_width", kernel_width, "a positive number or inf", lambda x: x > 0)
    penalty = number("ridge", ridge, "a finite number >= 0", lambda x: 0 <= x < math.inf)
    if num_samples is None:
        return LimeSettings(kernel_width=width, ridge=penalty, num_samples=None)
    is_integer = isinstance(num_samples, Integral) and not isinstance(num_samples, bool)
    is_enough = is_integer and num_samples >= 2
    check("num_samples", is_enough, "an integer of at least 2, or None", repr(num_samples))
    return LimeSettings(kernel_width=width, ridge=penalty, num_samples=int(num_samples))


def as_features(features: Features | None, d: int) -> NDArray[np.intp]:
    """Return the checked indices of the players in the surrogate model, by default all of them."""
    if features is None:
        return np.arange(d)
    raw: NDArray[Any] = np.asarray(features)
    is_list = raw.ndim == 1 and raw.size > 0 and raw.dtype.kind in "iu"
    check("features", is_list, "a nonempty sequence of indices of players", repr(features))
    are_players = raw.min() >= 0 and raw.max() < d
    are_distinct = np.unique(raw).size == raw.size
    check(
        "features",
        are_players and are_distinct,
        f"distinct indices in 0..{d - 1}",
        raw.tolist(),
    )
    return raw.astype(np.intp)


def kernel(d: int, kernel_width: float) -> Array:
    """Compute the (d+1,) weights of samples with s = 0..d of d features absent.

    >>> kernel(2, 25.0).round(3)
    array([1.   , 0.503, 0.   ])
    """
    return exponential(log_kernel(d, kernel_width))


@lru_cache(maxsize=64)
def relative_kernel(d: int, kernel_width: float) -> Array:
    """Return the (d+1,) `kernel` divided by its entry for one absent feature, at most e^600;
    read-only.
    """
    logs = log_kernel(d, kernel_width)
    weights = exponential([log - logs[1] for log in logs])
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=8)
def log_kernel(d: int, kernel_width: float) -> tuple[int, ...]:
    """Compute the (d+1,) logarithms of `kernel` in units of 2^-LOG_BITS."""
    if math.isinf(kernel_width):
        return (0,) * (d + 1)
    one = 1 << LOG_BITS
    # Kernels narrower than this over d give the same results: D of one absent player is at least
    # 50/d, so pi(1) is below e^-10^8, and of two numbers of absent players the smaller one has all
    # the weight, for any number of samples that fits into memory.
    narrowest_width = 3e-3
    top, bottom = max(kernel_width, narrowest_width / d).as_integer_ratio()
    # D^2 / (2 width^2) = 100^2 / 2 (1 - sqrt(1 - s/d))^2 / (top / bottom)^2.
    factor = 5000 * bottom**2
    divisor = top**2 << LOG_BITS
    logs = []
    for present in range(d, -1, -1):
        # The root of the share of the features that are present.
        root = math.isqrt((present << 2 * LOG_BITS) // d)
        logs.append(-((one - root) ** 2 * factor // divisor))
    return tuple(logs)


def exponential(logs: Sequence[int]) -> Array:
    """Compute e^x to 0.7 ulps for x in units of 2^-LOG_BITS, between the exponents above.

    It is e^h + e^h (e^r - 1) with h a multiple of 1/32 and r < 1/32.
    """
    # The table has e to multiples of 2^-5: the rest is below 1/32, so that the four ulps of its
    # `expm1` are an eighth of an ulp of the result.
    table_bits = 5
    shift = LOG_BITS - table_bits
    # A weight with a smaller logarithm counts as 0: it is below the smallest number of float64.
    least_log_weight = -800
    least = least_log_weight << LOG_BITS
    largest = LARGEST_EXPONENT << LOG_BITS
    clipped = [min(max(log, least), largest) for log in logs]
    # h in steps of 1/32, and the rest r.
    steps_of_sizes = [log >> shift for log in clipped]
    steps, index = np.unique(steps_of_sizes, return_inverse=True)
    low_bits = (1 << shift) - 1
    one = 1 << LOG_BITS
    low = np.array([(log & low_bits) / one for log in clipped])
    # e^h as a float, and what e^h has beyond it.
    rounded = np.empty(steps.size)
    beyond = np.empty(steps.size)
    with localcontext(WIDE):
        for i, step in enumerate(steps.tolist()):
            h = Decimal(step) / (1 << table_bits)
            power = h.exp()
            rounded[i] = float(power)
            beyond[i] = float(power - Decimal(float(power)))
    high = rounded[index]
    correction = high * np.expm1(low) + beyond[index]
    return np.asarray(high + correction)
