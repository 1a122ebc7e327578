"""The error function of arrays, without SciPy: the rational approximations of W. J. Cody.

W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of Computation 23
(1969), 631-637. Three ranges of |x|: up to 0.46875 erf itself, up to 4 and beyond the complement
times e^(x^2). The result is within four ulps of the exact value (`tests/test_erf.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._types import Array


class Rational(NamedTuple):
    """A rational function, both polynomials with the highest power first."""

    numerator: tuple[float, ...]
    denominator: tuple[float, ...]

    def at(self, x: Array) -> Array:
        """Evaluate the function by Horner's rule."""
        return _polynomial(self.numerator, x) / _polynomial(self.denominator, x)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


# Ends of the three ranges of |x|, from the paper; beyond the last one erf is 1 to the last bit.
ENDS = (0.46875, 4.0, 6.0)
# All coefficients are those of the paper. For |x| up to the first end: erf(x) / x, as a function of
# x^2.
SMALL_RANGE = Rational(
    numerator=(
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    denominator=(
        1.0,
        2.36012909523441209e1,
        2.44024637934444173e2,
        1.28261652607737228e3,
        2.84423683343917062e3,
    ),
)
# Up to the second end: e^(x^2) erfc(|x|), as a function of |x|.
MIDDLE_RANGE = Rational(
    numerator=(
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    denominator=(
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
# Up to the third end: a part of |x| e^(x^2) erfc(|x|) - 1 / sqrt(pi), as a function of 1 / x^2.
LARGE_RANGE = Rational(
    numerator=(
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    denominator=(
        1.0,
        2.56852019228982242e0,
        1.87295284992346047e0,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)


def erf(x: Array) -> Array:
    """Compute the error function of every element.

    Examples
    --------
    >>> erf(np.array([-10.0, 0.0, 0.5, 2.0])).round(6)
    array([-1.      ,  0.      ,  0.5205  ,  0.995322])
    """
    x = np.asarray(x, dtype=np.float64)
    size = np.abs(x)
    small_end, middle_end, large_end = ENDS
    is_small = size <= small_end
    is_middle = (size > small_end) & (size <= middle_end)
    is_large = (size > middle_end) & (size < large_end)
    result = np.array(np.sign(x))
    small = x[is_small]
    result[is_small] = small * SMALL_RANGE.at(small * small)
    middle = size[is_middle]
    complement = np.exp(-middle * middle) * MIDDLE_RANGE.at(middle)
    result[is_middle] *= 1 - complement
    large = size[is_large]
    inverse = 1 / (large * large)
    correction = inverse * LARGE_RANGE.at(inverse)
    leading = np.exp(-large * large) / large
    complement = leading * (1 / math.sqrt(math.pi) - correction)
    result[is_large] *= 1 - complement
    return result
