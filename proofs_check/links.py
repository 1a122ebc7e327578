"""A proof, in ball arithmetic, that a sum of simple fractions is the logistic function to a stated
error on [-R, R].

Both 1/(1 + e^-f) - 1/2 and sum_m r_m f / (f^2 + y_m^2) are odd, so [0, R] is enough. Cover it by
intervals of half length at most 1. On each, the difference e(f) is analytic inside the Bernstein
ellipse with cosh(theta) = 5/2, whose points have |Im f| <= 2.3 < pi. There |tanh(f/2)| <= tan(1.15)
where that is above 1, and |f^2 + y^2| >= (y - 2.3)^2, so |e| <= M. The rest of the argument is that
of `exponential_sums.py`: the Chebyshev expansion cut after degree n leaves at most r = 2 M e^(-n
theta) / (e^theta - 1), and a polynomial of degree n that is at most B in modulus at N > n Chebyshev
points is at most B / cos(pi n / (2 N)) between them (Ehlich and Zeller, 1964). Imports nothing from
the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .exponential_sums import OVERSAMPLING, PRECISION

# Half axis of the ellipse in the imaginary direction, at half length 1: sinh(theta) = sqrt(21)/2,
# rounded up.
HEIGHT = 2.3


def proved_sigmoid_bound(
    y: Sequence[float], r: Sequence[float], R: float, expected: float = 1e-15
) -> float:
    """Upper bound, proved, of |1/(1 + e^-f) - 1/2 - sum r f / (f^2 + y^2)| on [-R, R]; y, r are
    exact float64 numbers.

    `expected` is a guess at the bound, which sets the degree; a wrong one makes the bound larger,
    not wrong.
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


# Half length of the intervals on which an even part of an activation is compared with its
# fractions: short enough that the ellipse stays below the poles and below the singularities of the
# function, which are at least 0.8 from the line.
EVEN_HALF_LENGTH = 0.25
# Arcs that cover a quarter of an ellipse, each enclosed in one ball.
ARCS = 24


def even_part(kind: str, x: Any) -> Any:
    """The even part of an activation at a real or complex ball."""
    from flint import arb

    if kind == "x tanh":
        return x * (x / 2).tanh() / 2
    if kind == "log cosh":
        return (2 * (x / 2).cosh()).log()
    if kind == "x erf":
        return x * (x / arb(2).sqrt()).erf() / 2
    if kind == "x tanh cubic":
        cubic = x + arb("0.044715") * x * x * x
        return x * (cubic * (2 / arb.pi()).sqrt()).tanh() / 2
    raise ValueError(f"kind: unknown, {kind!r}")


def proved_even_bound(
    kind: str,
    constant: float,
    z: Sequence[complex],
    residue: Sequence[complex],
    R: float,
    expected: float = 1e-15,
) -> float:
    """Upper bound, proved, of |even part - constant - Re sum residue / (x - z)| on [-R, R], for
    exact float64 numbers.

    The argument is that of `proved_sigmoid_bound`, with shorter intervals, and with M from balls
    that cover the ellipse. The fractions have to be even, too, which is so if poles come in pairs
    z, -conj(z) with residues r, -conj(r), or lie on the imaginary axis with imaginary residues;
    both are checked.
    """
    from flint import acb, arb, ctx

    _check_even(z, residue)
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        poles = [
            (acb(a.real, a.imag), acb(b.real, b.imag)) for a, b in zip(z, residue, strict=True)
        ]
        pieces = max(1, math.ceil(R / (2 * EVEN_HALF_LENGTH)))
        half = arb(R) / (2 * pieces)
        cosh_theta = arb(5) / 2
        sinh_theta = (cosh_theta**2 - 1).sqrt()
        e_theta = cosh_theta + sinh_theta
        degree = math.ceil(math.log(1e4 / expected) / math.acosh(2.5))
        count = OVERSAMPLING * degree
        slack = 1 / (arb.pi() * degree / (2 * count)).cos()
        points = [(arb.pi() * (2 * i + 1) / (2 * count)).cos() for i in range(count)]
        worst = arb(0)
        for k in range(pieces):
            middle = (2 * k + 1) * half
            M = _largest_on_ellipse(kind, middle, half, cosh_theta, sinh_theta)
            for a, b in poles:
                M += abs(b) / (abs(a.imag) - half * sinh_theta)
            M += abs(arb(constant))
            rest = 2 * M / e_theta**degree / (e_theta - 1)
            largest = arb(0)
            for point in points:
                x = middle + half * point
                value = arb(constant) - even_part(kind, x)
                for a, b in poles:
                    value += (b / (x - a)).real
                largest = largest.max(abs(value))
            worst = worst.max((largest + rest) * slack + rest)
        return math.nextafter(float(worst.upper()), math.inf)
    finally:
        ctx.prec = before


def _largest_on_ellipse(kind: str, middle: Any, half: Any, cosh_theta: Any, sinh_theta: Any) -> Any:
    """A bound on the even part on an ellipse around the interval, from balls that cover its
    boundary.
    """
    from flint import acb, arb

    largest = arb(0)
    # The function is real on the real line, so the upper half of the ellipse is enough.
    for i in range(2 * ARCS):
        angle = arb.pi() * (arb(2 * i + 1) / (4 * ARCS) + arb(0, 1 / (4 * ARCS) + 1e-9))
        x = acb(middle + half * cosh_theta * angle.cos(), half * sinh_theta * angle.sin())
        largest = largest.max(abs(even_part(kind, x)).abs_upper())
    if not largest.is_finite():
        raise ValueError(f"kind: {kind!r} could not be enclosed on the ellipse around {middle}")
    return largest


def _check_even(z: Sequence[complex], residue: Sequence[complex]) -> None:
    """Raise an error unless the fractions are even and every pole leaves room for the ellipse."""
    given = set(zip(z, residue, strict=True))
    for a, b in given:
        if a.imag < 2.5 * EVEN_HALF_LENGTH:
            raise ValueError(f"z: expected poles further from the real line, got {a}")
        if (-a.conjugate(), -b.conjugate()) not in given:
            raise ValueError(f"z, residue: expected an even function, but {a} has no mirror image")
