"""A proof, in ball arithmetic, that a sum of simple fractions is the logistic function to a stated error on [-R, R].

Both 1/(1 + e^-f) - 1/2 and sum_m r_m f / (f^2 + y_m^2) are odd, so [0, R] is enough. Cover it by intervals of half
length at most 1. On each, the difference e(f) is analytic inside the Bernstein ellipse with cosh(theta) = 5/2, whose
points have |Im f| <= 2.3 < pi. There |tanh(f/2)| <= tan(1.15) where that is above 1, and |f^2 + y^2| >= (y - 2.3)^2,
so |e| <= M. The rest of the argument is that of `exponential_sums.py`: the Chebyshev expansion cut after degree n
leaves at most r = 2 M e^(-n theta) / (e^theta - 1), and a polynomial of degree n that is at most B in modulus at N > n
Chebyshev points is at most B / cos(pi n / (2 N)) between them (Ehlich and Zeller, 1964). Imports nothing from the
package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .exponential_sums import OVERSAMPLING, PRECISION

# Half axis of the ellipse in the imaginary direction, at half length 1: sinh(theta) = sqrt(21)/2, rounded up.
HEIGHT = 2.3


def proved_sigmoid_bound(
    y: Sequence[float], r: Sequence[float], R: float, expected: float = 1e-15
) -> float:
    """Upper bound, proved, of |1/(1 + e^-f) - 1/2 - sum r f / (f^2 + y^2)| on [-R, R]; y, r are exact float64 numbers.

    `expected` is a guess at the bound, which sets the degree; a wrong one makes the bound larger, not wrong.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
    try:
        poles = [(arb(float(a)), arb(float(b))) for a, b in zip(y, r, strict=True)]
        if min(float(a) for a in y) <= HEIGHT:
            raise ValueError("y: expected poles further than 2.3 from the real line")
        e_theta = arb(5) / 2 + (arb(25) / 4 - 1).sqrt()
        degree = math.ceil(math.log(1e4 / expected) / math.acosh(2.5))
        count = OVERSAMPLING * degree
        slack = 1 / (arb.pi() * degree / (2 * count)).cos()
        points = [(arb.pi() * (2 * i + 1) / (2 * count)).cos() for i in range(count)]
        pieces = max(1, math.ceil(R / 2))
        half = arb(R) / (2 * pieces)
        M = arb(R + HEIGHT + 3) * sum((abs(b) / (a - arb(HEIGHT)) ** 2 for a, b in poles), arb(0))
        M += arb(HEIGHT / 2).tan().max(arb(1)) / 2
        rest = 2 * M / e_theta**degree / (e_theta - 1)
        worst = arb(0)
        for k in range(pieces):
            middle = (2 * k + 1) * half
            largest = arb(0)
            for point in points:
                f = middle + half * point
                value = (
                    f * sum((b / (f * f + a * a) for a, b in poles), arb(0)) - (f / 2).tanh() / 2
                )
                largest = largest.max(abs(value))
            worst = worst.max((largest + rest) * slack + rest)
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before
