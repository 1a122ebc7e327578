"""LIME's settings: the kernel that weighs the samples, and the checks of `kernel_width`, `ridge` and `num_samples`.

The lime package weighs a sample with s of d features absent by its cosine distance to the document, times 100:

    pi(s) = exp(-D^2 / (2 kernel_width^2)),    D = 100 (1 - sqrt(1 - s/d)) = 100 (s/d) / (1 + sqrt(1 - s/d)).

The second form of D does not cancel. Logarithms are kept in extended precision where the platform has it, because a
narrow kernel has logarithms of thousands, whose last digit would be the twelfth of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array

EXTENDED = np.longdouble
# A narrower kernel than this is the same: of two numbers of absent players the smaller one has all the weight.
NARROWEST_WIDTH = 1e-100


class Settings(NamedTuple):
    """Checked settings of LIME's regression."""

    kernel_width: float
    ridge: float
    num_samples: int | None


def check_settings(kernel_width: Any, ridge: Any, num_samples: Any) -> Settings:
    """The three settings as numbers; the error names the one that is wrong.

    >>> check_settings(25, 1, 5000)
    Settings(kernel_width=25.0, ridge=1.0, num_samples=5000)
    >>> check_settings(25, 1, 2.5)
    Traceback (most recent call last):
    ValueError: num_samples: expected an integer of at least 2, or None, got 2.5
    """
    width = _number("kernel_width", kernel_width, "a positive number or inf", lambda x: x > 0)
    penalty = _number("ridge", ridge, "a finite number >= 0", lambda x: 0 <= x < math.inf)
    if num_samples is None:
        return Settings(width, penalty, None)
    if not isinstance(num_samples, Integral) or isinstance(num_samples, bool) or num_samples < 2:
        raise ValueError(f"num_samples: expected an integer of at least 2, or None, got {num_samples!r}")
    return Settings(width, penalty, int(num_samples))


def check_tol(tol: Any, name: str = "tol") -> float:
    """`tol` as a positive, finite number."""
    return _number(name, tol, "a positive number", lambda x: 0 < x < math.inf)


def _number(name: str, value: Any, expected: str, fits: Callable[[float], bool]) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not fits(float(value)):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return float(value)


def kernel(d: int, kernel_width: float) -> Array:
    """Weight of a sample with s = 0..d of d features absent, (d+1,).

    >>> kernel(2, 25.0).round(3)
    array([1.   , 0.503, 0.   ])
    """
    return np.exp(log_kernel(d, kernel_width)).astype(np.float64)


def log_kernel(d: int, kernel_width: float) -> NDArray[Any]:
    """Logarithm of `kernel` in extended precision, (d+1,)."""
    s = np.arange(d + 1)
    absent, present = s.astype(EXTENDED) / d, (d - s).astype(EXTENDED) / d
    distance = 100 * absent / (1 + np.sqrt(present))
    exponent: NDArray[Any] = -((distance / EXTENDED(max(kernel_width, NARROWEST_WIDTH))) ** 2) / 2
    return exponent
