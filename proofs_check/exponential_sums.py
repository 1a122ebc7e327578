"""A proof, in ball arithmetic, that a sum of exponentials is 1/x to a stated relative error on [1,
R].

Cover [1, R] by intervals [a, b] with b <= 2a. On each, e(x) = x sum_i w_i e^(-lam_i x) - 1 is
entire. On the Bernstein ellipse with cosh(theta) = 5/2 the real part of x stays above (a+b)/2 - 5/4
(b-a) > 0 and |x| below (a+b)/2 + 5/4 (b-a), so |e| <= M, the product of the second with the sum at
the first, plus 1. Its Chebyshev expansion cut after degree n leaves at most r = 2 M e^(-n theta) /
(e^theta - 1). A polynomial of degree n that is at most B in modulus at N > n Chebyshev points is at
most B / cos(pi n / (2 N)) between them (Ehlich and Zeller, 1964). Hence

    max |e| <= (max_i |e(x_i)| + r) / cos(pi n / (2 N)) + r,

where the right-hand side is evaluated in balls.

**Sectors.** For |arg w| <= angle and 1 <= Re w <= R the error e(w) is largest on the boundary of
that region, and its conjugate has the same modulus. The boundary is made of a ray and of two
vertical sides. On the ray w = e^zeta with zeta from 0 to ln R beside -ln cos(angle) + i angle.
Pieces of half length h = 0.35 (pi/2 - angle), or less, keep the ellipse, which reaches 5/2 h along
the line and sinh(theta) h < 2.3 h across it, where |arg w| <= angle + 2.3 h < pi/2. A side at Re
w = r is cut into pieces of half length h = 0.35 r, or less, whose ellipses stay at real parts above
r - 2.3 h > 0. Hence |e| <= M there with the largest |w| and the smallest real part.

Imports nothing from the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

# Bits of the balls, and Chebyshev points per degree.
PRECISION = 96
OVERSAMPLING = 3
# Half length of a piece of a sector's boundary, as a part of what is left of pi/2; and the ratio of
# neighbors in a grid of real numbers.
PIECE = 0.35
RATIO = 1.02


def proved_bound(
    lam: Sequence[float], w: Sequence[float], log_range: float, expected: float = 1e-15
) -> float:
    """Upper bound, proved, of |x sum w e^(-lam x) - 1| for x in [1, e^log_range]; lam, w are exact
    float64 numbers.

    `expected` is a guess at the bound, which sets the degree; a wrong one makes the bound larger,
    not wrong.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
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
            middle = (a + b) / 2
            half = (b - a) / 2
            least = middle - arb(5) / 2 * half
            most = middle + arb(5) / 2 * half
            M = (
                most
                * sum((u * (-y * least).exp() for y, u in zip(nodes, weights, strict=True)), arb(0))
                + 1
            )
            rest = 2 * M / e_theta**degree / (e_theta - 1)
            largest = arb(0)
            for point in points:
                x = middle + half * point
                value = (
                    x
                    * sum((u * (-y * x).exp() for y, u in zip(nodes, weights, strict=True)), arb(0))
                    - 1
                )
                largest = largest.max(abs(value))
            worst = worst.max((largest + rest) * slack + rest)
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before


def proved_sector_bound(
    lam: Sequence[float],
    w: Sequence[float],
    log_range: float,
    angle: float,
    expected: float = 1e-15,
) -> float:
    """Upper bound, proved, of |z sum w e^(-lam z) - 1| for |arg z| <= angle and 1 <= Re
    z <= e^log_range.

    `expected` is a guess at the bound, which sets the degree; a wrong one makes the bound larger,
    not wrong.
    """
    from flint import acb, arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
    try:
        pairs = [(arb(float(y)), arb(float(u))) for y, u in zip(lam, w, strict=True)]
        e_theta = arb(5) / 2 + (arb(25) / 4 - 1).sqrt()
        degree = math.ceil(math.log(1e4 / expected) / math.acosh(2.5))
        count = OVERSAMPLING * degree
        slack = 1 / (arb.pi() * degree / (2 * count)).cos()
        points = [(arb.pi() * (2 * i + 1) / (2 * count)).cos() for i in range(count)]
        along = arb(5) / 2
        across = arb(23) / 10
        # Points z of every piece of the boundary, and the smallest real part and the largest
        # modulus on its ellipse.
        boundary: list[tuple[list[acb], arb, arb]] = []
        pieces = max(1, math.ceil(log_range / (2 * PIECE * (math.pi / 2 - angle))))
        half = arb(log_range) / (2 * pieces)
        for k in range(pieces):
            middle = (2 * k + 1) * half - arb(angle).cos().log()
            top = arb(angle) + across * half
            least = (middle - along * half).exp() * top.cos()
            most = (middle + along * half).exp()
            boundary.append(
                ([acb(middle + half * point, angle).exp() for point in points], least, most)
            )
        height = arb(angle).tan()
        pieces = max(1, math.ceil(math.tan(angle) / (2 * PIECE)))
        half = height / (2 * pieces)
        for side in (arb(1), arb(log_range).exp()):
            for k in range(pieces):
                middle = (2 * k + 1) * half
                least = side * (1 - across * half)
                most = side * (1 + across * half + middle + along * half)
                boundary.append(
                    ([acb(side, side * (middle + half * point)) for point in points], least, most)
                )
        worst = arb(0)
        for places, least, most in boundary:
            M = most * sum((u * (-y * least).exp() for y, u in pairs), arb(0)) + 1
            rest = 2 * M / e_theta**degree / (e_theta - 1)
            largest = arb(0)
            for z in places:
                largest = largest.max(
                    abs(z * sum((u * (-y * z).exp() for y, u in pairs), acb(0)) - 1)
                )
            worst = worst.max((largest + rest) * slack + rest)
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before


def proved_moduli(lam: Sequence[float], w: Sequence[float], log_range: float) -> float:
    """Upper bound, proved, of x sum w e^(-lam x) and x^2 sum w lam e^(-lam x), x real in [1,
    e^log_range].

    Both sums fall in x, so x is taken from the right end of an interval and the sums from the left
    one.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
    try:
        pairs = [(arb(float(y)), arb(float(u))) for y, u in zip(lam, w, strict=True)]
        worst = arb(0)
        for k in range(math.ceil(log_range / math.log(RATIO)) + 1):
            x = arb(RATIO) ** k
            terms = [(y, u * (-y * x).exp()) for y, u in pairs]
            beyond = x * RATIO
            worst = worst.max(beyond * sum((e for _, e in terms), arb(0)))
            worst = worst.max(beyond**2 * sum((y * e for y, e in terms), arb(0)))
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before
