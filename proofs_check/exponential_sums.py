"""A proof, in ball arithmetic, that a sum of exponentials is 1/x to a stated relative error on [1, R].

Cover [1, R] by intervals [a, b] with b <= 2a. On each, e(x) = x sum_i w_i e^(-lam_i x) - 1 is entire. On the Bernstein
ellipse with cosh(theta) = 5/2 the real part of x stays above (a+b)/2 - 5/4 (b-a) > 0 and |x| below (a+b)/2 + 5/4
(b-a), so |e| <= M, the product of the second with the sum at the first, plus 1. Its Chebyshev expansion cut after
degree n leaves at most r = 2 M e^(-n theta) / (e^theta - 1). A polynomial of degree n that is at most B in modulus at
N > n Chebyshev points is at most B / cos(pi n / (2 N)) between them (Ehlich and Zeller, 1964). Hence

    max |e| <= (max_i |e(x_i)| + r) / cos(pi n / (2 N)) + r,

where the right-hand side is evaluated in balls. Imports nothing from the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

# Bits of the balls, and Chebyshev points per degree.
PRECISION, OVERSAMPLING = 96, 3


def proved_bound(lam: Sequence[float], w: Sequence[float], log_range: float, expected: float = 1e-15) -> float:
    """Upper bound, proved, of |x sum w e^(-lam x) - 1| for x in [1, e^log_range]; lam, w are exact float64 numbers.

    `expected` is a guess at the bound, which sets the degree; a wrong one makes the bound larger, not wrong.
    """
    from flint import arb, ctx

    before, ctx.prec = ctx.prec, PRECISION
    try:
        nodes = [arb(float(x)) for x in lam]
        weights = [arb(float(x)) for x in w]
        e_theta = arb(5) / 2 + (arb(25) / 4 - 1).sqrt()
        degree = math.ceil(math.log(1e4 / expected) / math.acosh(2.5))
        count = OVERSAMPLING * degree
        slack = 1 / (arb.pi() * degree / (2 * count)).cos()
        points = [(arb.pi() * (2 * i + 1) / (2 * count)).cos() for i in range(count)]
        pieces = max(1, math.ceil(log_range / math.log(2) + 1e-9))
        edges = [(arb(log_range) * k / pieces).exp() for k in range(pieces + 1)]
        worst = arb(0)
        for a, b in pairwise(edges):
            middle, half = (a + b) / 2, (b - a) / 2
            least, most = middle - arb(5) / 2 * half, middle + arb(5) / 2 * half
            M = most * sum((u * (-y * least).exp() for y, u in zip(nodes, weights, strict=True)), arb(0)) + 1
            rest = 2 * M / e_theta**degree / (e_theta - 1)
            largest = arb(0)
            for point in points:
                x = middle + half * point
                value = x * sum((u * (-y * x).exp() for y, u in zip(nodes, weights, strict=True)), arb(0)) - 1
                largest = largest.max(abs(value))
            worst = worst.max((largest + rest) * slack + rest)
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before
