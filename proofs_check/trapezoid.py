"""A proof, in ball arithmetic, of the error of the trapezoidal rule for 1/x
(`game/engine/exponential_sums.py`).

With t -> t - ln x the integrand depends on the one number c = e^(1/2) x/R in (0, e^(1/2)]:

    g(t) = phi' e^(-phi),   phi(t) = exp(t - c e^(-t)),   int g = 1,

an entire function. Let N(a, c) be the integral of |g| along Im t = a = pi/2 - delta. The
trapezoidal rule with step h errs by at most 2 N / (e^(2 pi a / h) - 1) (Trefethen and Weideman,
2014, theorem 5.1). With u = c e^(-x), at t = x + i a,

    |phi| = exp(x - u sin delta),   Re phi = |phi| sin(delta - u cos delta),
    |g|   = |phi| sqrt(1 + 2 u sin delta + u^2) e^(-Re phi).

The integral over a middle part is enclosed by Arb for c in small balls that cover (0, e^(1/2)].
Left of it, -Re phi <= c, so

    int |g| <= e^c e^(-z) (e^x + c ln(1 + 1/z)),   z = c e^(-x) sin delta   (from E_1(z) <= e^(-z) ln(1 + 1/z));

right of it u is below some small number and int |g| <= (1 + u) e^(-kappa e^x) / kappa,
kappa = e^(-u) sin(delta - u).

The rule is used with eps = 10^(-k/8), k = 8..110, and h = pi^2 / ln(1400 / eps). `step_bound`
proves the step error for one k; `ends_bound` bounds what is dropped at both ends. `python -m
proofs_check.trapezoid` does all of them (about a minute).
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import Any

CONSTANT = 1400
LEVELS = range(8, 111)
PRECISION = 64


def step(k: int) -> Any:
    """The step h for eps = 10^(-k/8), a ball."""
    from flint import arb

    return arb.pi() ** 2 / (arb(CONSTANT) / epsilon(k)).log()


def epsilon(k: int) -> Any:
    """10^(-k/8), a ball."""
    from flint import arb

    return (-arb(10).log() * k / 8).exp()


def balls_of_c() -> list[tuple[float, float]]:
    """Intervals that cover [0, e^(1/2)]."""
    edges = [0.0, 0.004]
    end = math.exp(0.5) * (1 + 1e-7)
    while edges[-1] < end:
        edges.append(min(end, max(edges[-1] * 1.02, edges[-1] + 0.004)))
    return list(pairwise(edges))


def line_integral(delta: Any, lo: float, hi: float) -> Any:
    """Upper bound of N(pi/2 - delta, c) for every c in [lo, hi]."""
    from flint import acb, arb

    c = arb((lo + hi) / 2, (hi - lo) / 2 * (1 + 1e-6) + 1e-18)
    sine = delta.sin()
    cosine = delta.cos()
    top = arb(hi)
    if lo > 0:
        left = math.log(max(hi, 1e-3) * float(sine) / 12)
    else:
        left = -8.0
    right = math.log(30 / float(sine))

    def size_of_g(x: Any, analytic: bool) -> Any:
        u = acb(c) * (-x).exp()
        phi = (x - u * acb(sine)).exp()
        root = (1 + 2 * u * acb(sine) + u * u).sqrt(analytic=analytic)
        return phi * root * (-phi * (acb(arb.pi() / 2 - delta) + u * acb(cosine)).cos()).exp()

    middle = acb.integral(
        size_of_g,
        arb(left),
        arb(right),
        rel_tol=arb(2) ** -12,
        abs_tol=arb(2) ** -12,
        eval_limit=200_000,
    ).real
    if lo > 0:
        z = arb(lo) * (-arb(left)).exp() * sine
        below = top.exp() * (-z).exp() * (arb(left).exp() + top * (1 + 1 / z).log())
    else:
        below = top.exp() * (arb(left).exp() + top * (1 + arb(left).exp() / (top * sine)).log())
    u = top * (-arb(right)).exp()
    kappa = (-u).exp() * (delta - u).sin()
    above = (1 + u) * (-arb(right).exp() * kappa).exp() / kappa
    return middle + below + above


def step_bound(k: int) -> float:
    """Proved upper bound of the step error over eps = 10^(-k/8), for every range and every x in
    it.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
    try:
        h = step(k)
        delta = arb(float((h / (2 * arb.pi()) * (1 if k > 40 else arb(5) / 4)).mid()))
        a = arb.pi() / 2 - delta
        worst = arb(0)
        for lo, hi in balls_of_c():
            worst = worst.max(line_integral(delta, lo, hi))
        return float((2 * worst / ((2 * arb.pi() * a / h).exp() - 1) / epsilon(k)).upper())
    finally:
        ctx.prec = before


def ends_bound(k: int) -> tuple[float, float]:
    """Upper bounds, over eps, of what is dropped at the right and at the left end.

    Right: lam x > cut. The first dropped term is at most h cut (1 + squeeze) e^(-cut),
    squeeze <= e^(1/2) / cut, and the rest is below the integral, e^(-cut). Left: w R = h e^(1/2)
    (1 + 1/y) e^(-y) <= eps/16 with y = e^(t0 - t), which every step to the left multiplies by e^h;
    the terms are summed until they vanish.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = PRECISION
    try:
        eps = epsilon(k)
        h = step(k)
        cut = (8 / eps).log()
        cut = cut + cut.log()
        right = (h * cut * (1 + arb(0.5).exp() / cut) + 1) * (-cut).exp() / eps
        # The y with w R = eps/16 is at least ln(16 h / eps), since (1 + 1/y) e^(1/2) > 1; larger y
        # give smaller terms.
        y = (16 * h / eps).log()
        left = arb(1) / 16
        term = arb(1)
        for _ in range(20):
            y = y * h.exp()
            term = h * arb(0.5).exp() * (1 + 1 / y) * (-y).exp() / eps
            left += term
        return float(right.upper()), float((left + 2 * term).upper())
    finally:
        ctx.prec = before


def main() -> int:
    """Prove the rule for every eps in use, and print a line for each."""
    good = True
    for k in LEVELS:
        error = step_bound(k)
        (right, left) = ends_bound(k)
        total = error + right + left
        good &= total <= 0.9
        print(
            f"eps = 10^-{k / 8:.3f}: steps {error:.3f}, right end {right:.3f}, left end "
            f"{left:.3f}, in all {total:.3f}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
