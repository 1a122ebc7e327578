"""P1, appendix D: the lemmas (expected ratio, an integral, conditional moments, probabilities; Eq.
36 to 38); and E.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .. import brute_force as bf
from ..registry import CONDITION, CORRECTED, NOT_CHECKABLE, SLIP, Outcome, one_plus, statement
from ..tolerances import EXACT, EXTENDED, INEQUALITY
from .lime_section import largest


def _ratio_gap(X: np.ndarray, Y: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    """|E[X/Y] - E[X]/E[Y]| and Var(Y), free of cancellation: by the identity below Eq. 36."""
    EX = p @ X
    EY = p @ Y
    dX = X - EX
    dY = Y - EY
    return float(abs(p @ (dY * (EX * dY - dX * EY) / (Y * EY**2)))), float(p @ dY**2)


@statement(
    paper="P1",
    ref="Lemma D.1",
    claim="|E[X/Y] - E[X]/E[Y]| <= C Var(Y)/(c^3 n^3) + C^2 sqrt(Var(Y))/(c^2 n^2)",
    assumptions="|X| <= C, c n <= Y <= C n almost surely",
    method="sampling",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="The second term is C^2 sqrt(Var(Y))/(c^2 n^2).",
    corrected=(
        "The second term is C sqrt(Var(Y))/(c^2 n^2): |E[(Y-EY)(X-EX)/(Y EY)]| <= sqrt(Var X Var "
        "Y)/(c n)^2, without a further C, and sqrt(Var X) <= C by Popoviciu."
    ),
    consequence=(
        "The printed bound is too small for C < 1 (and needlessly large for C > 1). The rates that "
        "follow from it stand."
    ),
)
def lemma_d_1(perturb: float = 0.0) -> Outcome:
    """2,000 random three-point laws and a family that attains the bound in the limit; error:
    largest excess over 1.
    """
    rng = np.random.default_rng(36)
    worst = worst_printed = -math.inf
    cases = []
    for _ in range(2000):
        c = rng.uniform(0.05, 2.0)
        C = c * (1 + rng.uniform(0, 3))
        cases.append((rng.uniform(-C, C, 3), rng.uniform(c, C, 3), rng.dirichlet(np.ones(3)), c, C))
    for delta in (1e-1, 1e-3, 1e-4):
        c = 0.1
        C = c * (1 + delta)
        cases.append((np.array([C, -C]), np.array([c, C]), np.array([0.5, 0.5]), c, C))
    for X, Y, p, c, C in cases:
        gap, variance = _ratio_gap(X, Y, p)
        first = C * variance / c**3
        second = C * math.sqrt(variance) / c**2
        worst = max(worst, gap / ((1 - perturb) * (first + second)) - 1)
        worst_printed = max(worst_printed, gap / (first + C * second) - 1)
    return Outcome(
        max(0.0, worst),
        INEQUALITY,
        worst_printed,
        counterexample=(
            "n = 1, c = 0.1, C = 0.11. (X, Y) = (0.11, 0.1) or (-0.11, 0.11), each with "
            "probability 1/2: E[X] = 0, E[X/Y] = (1.1 - 1)/2 = 0.05, Var(Y) = 0.000025. Printed "
            "bound: 0.11 0.000025/0.001 + 0.0121 0.005/0.01 = 0.00275 + 0.00605 = 0.0088. "
            "Corrected: 0.00275 + 0.11 0.005/0.01 = 0.05775."
        ),
    )


@statement(
    paper="P1",
    ref="Eq. 36",
    claim="x/y = x0/y0 + (x-x0)/y0 - (y-y0) x0/y0^2 + (y-y0)(x0 (y-y0) - (x-x0) y0)/(y y0^2)",
    assumptions="y, y0 not 0",
    method="exact rational enumeration",
)
def eq_36(perturb: float = 0.0) -> Outcome:
    """A grid of rationals: an identity between polynomials of low degree after multiplication."""
    values = [Fraction(k, 3) for k in (1, 2, 4, 7)]
    error = []
    for x in values:
        for x0 in values:
            for y in values:
                for y0 in values:
                    last = (y - y0) * (x0 * (y - y0) - (x - x0) * y0) / (y * y0 * y0)
                    error.append(
                        x0 / y0
                        + (x - x0) / y0
                        - (y - y0) * x0 / y0**2
                        + one_plus(perturb) * last
                        - x / y
                    )
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Lemma D.2",
    claim="int_0^1 x dx/(1+ax) = (a - log(a+1))/a^2 = 1/2 - a/3 + O(a^2)",
    assumptions="a > 0; it holds, and is used, for a > -1",
    method="extended precision",
)
def lemma_d_2(perturb: float = 0.0) -> Outcome:
    """Sixty digits against the series sum (-a)^k/(k+2); the remainder stays below a^2/4 for a >
    0.
    """
    error = Decimal(0)
    with decimal.localcontext() as context:
        context.prec = 60
        factor = 1 + Decimal(str(perturb))
        for a in (Decimal("0.4"), Decimal("0.1"), Decimal("0.01"), Decimal("-0.3")):
            closed = factor * (a - (1 + a).ln()) / a**2
            series = sum(((-a) ** k / (k + 2) for k in range(400)), Decimal(0))
            error = max(error, abs(closed / series - 1))
            remainder = (closed - (Decimal("0.5") - a / 3)) / a**2
            if a > 0 and not 0 < remainder <= Decimal("0.25"):
                error = max(error, Decimal(1))
    return Outcome(float(error), EXTENDED)


#: Coefficients a_i, b_i of H_S = sum_i a_i 1{i kept} + b_i 1{i removed}, six of each.
A_I = [Fraction(x, 3) for x in (5, 1, 8, 2, 13, 4)]
B_I = [Fraction(x, 3) for x in (2, 7, 1, 6, 3, 11)]


def _sum_of(n: int, power: int = 1) -> bf.Value:
    """H_S, or a power of it, for the first n coefficients."""
    return lambda S: (
        sum((B_I[i - 1] if i in S else A_I[i - 1] for i in range(1, n + 1)), Fraction(0)) ** power
    )


@statement(
    paper="P1",
    ref="Lemma D.3 (expectation)",
    claim="E_s[H_S | l kept] = (n-1-s)/(n-1) sum a + s/(n-1) sum b + s/(n-1) (a_l - b_l)",
    method="exact rational enumeration",
)
def lemma_d_3_expectation(perturb: float = 0.0) -> Outcome:
    """All n up to 6, all s and l."""
    error = []
    for n in range(2, 7):
        for s in range(1, n):
            for kept in range(1, n + 1):
                found = bf.expectation(bf.fixed_size_law(n, s), _sum_of(n), bf.kept(kept))
                x = Fraction(s, n - 1)
                own = x * (A_I[kept - 1] - B_I[kept - 1])
                claimed = (1 - x) * sum(A_I[:n]) + x * sum(B_I[:n]) + one_plus(perturb) * own
                error.append(found - claimed)
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Lemma D.3 (variance)",
    claim=(
        "Var_s(H_S | l kept) = n s (n-s-1)/((n-1)(n-2)) [Var^(a-b) - (a_l - b_l - "
        "mean(a-b))^2/(n-1)]"
    ),
    assumptions="n >= 3; Var^ is called the empirical variance and not defined",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=SLIP,
    printed=(
        "Var^ without a definition; H_S 'as before', although the paper (other than the slides) "
        "has not defined it."
    ),
    corrected=(
        "Var^ must be (1/n) sum (x_i - mean)^2. With the unbiased 1/(n-1) the formula is false. "
        "H_S = sum_i {a_i 1{i kept} + b_i 1{i removed}}."
    ),
    consequence="None for the order O(n) that the proof needs.",
)
def lemma_d_3_variance(perturb: float = 0.0) -> Outcome:
    """All n from 3 to 6, all s and l, with either reading of the empirical variance."""
    error = []
    printed = []
    for n in range(3, 7):
        gap = [a - b for a, b in zip(A_I[:n], B_I[:n], strict=True)]
        mean = sum(gap, Fraction(0)) / n
        squares = sum(((x - mean) ** 2 for x in gap), Fraction(0))
        for s in range(1, n):
            law = bf.fixed_size_law(n, s)
            for kept in range(1, n + 1):
                H = _sum_of(n)
                given = bf.kept(kept)
                second = bf.expectation(law, _sum_of(n, power=2), given)
                found = second - bf.expectation(law, H, given) ** 2
                factor = Fraction(n * s * (n - s - 1), (n - 1) * (n - 2))
                own = (gap[kept - 1] - mean) ** 2 / (n - 1)
                error.append(found - one_plus(perturb) * factor * (squares / n - own))
                printed.append(found - factor * (squares / (n - 1) - own))
    return Outcome(
        largest(error),
        EXACT,
        largest(printed),
        counterexample=(
            "n = 3, a = (0, 0, 3), b = 0, s = 1, l = 1 kept: H_S is 3 or 0 with probability 1/2 "
            "each, variance 9/4. Mean 1, sum of squares 6. With 1/n: 3 1 1/(2 1) [6/3 - (0-1)^2/2] "
            "= (3/2)(3/2) = 9/4. With 1/(n-1): (3/2)(6/2 - 1/2) = 15/4."
        ),
    )


@statement(
    paper="P1",
    ref="Lemma D.4 (Eq. 37)",
    claim=(
        "the five probabilities P_s(a kept), P_s(a, b kept), P_s(a kept, b removed), ... of Eq. 37"
    ),
    assumptions="a, b, c distinct elements of {1, ..., n}",
    method="exact rational enumeration",
)
def lemma_d_4(perturb: float = 0.0) -> Outcome:
    """All n from 3 to 7 and all s."""
    error = []
    k = one_plus(perturb)
    for n in range(3, 8):
        for s in range(n + 1):
            law = bf.fixed_size_law(n, s)
            claims = [
                (lambda S: 1 not in S, Fraction(n - s, n)),
                (lambda S: not S & {1, 2}, Fraction((n - s) * (n - 1 - s), n * (n - 1))),
                (lambda S: 1 not in S and 2 in S, Fraction(s * (n - s), n * (n - 1))),
                (
                    lambda S: not S & {1, 2, 3},
                    Fraction((n - s) * (n - s - 1) * (n - s - 2), n * (n - 1) * (n - 2)),
                ),
                (
                    lambda S: 2 in S and not S & {1, 3},
                    Fraction(s * (n - s - 1) * (n - s), n * (n - 1) * (n - 2)),
                ),
            ]
            error += [bf.probability(law, event) - k * value for event, value in claims]
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Lemma D.5 (Eq. 38)",
    claim=(
        "P_s(a kept | l kept) = (n-1-s)/(n-1), P_s(a removed | l kept) = s/(n-1), and for two "
        "words kept"
    ),
    assumptions="a, b, l distinct elements of {1, ..., n}; s < n",
    method="exact rational enumeration",
)
def lemma_d_5(perturb: float = 0.0) -> Outcome:
    """All n from 3 to 7 and all s < n; l = 3."""
    error = []
    k = one_plus(perturb)
    for n in range(3, 8):
        for s in range(n):
            law = bf.fixed_size_law(n, s)
            kept = bf.probability(law, lambda S: 3 not in S)
            claims = [
                (lambda S: not S & {1, 3}, Fraction(n - 1 - s, n - 1)),
                (lambda S: 1 in S and 3 not in S, Fraction(s, n - 1)),
                (
                    lambda S: not S & {1, 2, 3},
                    Fraction((n - s - 1) * (n - s - 2), (n - 1) * (n - 2)),
                ),
            ]
            error += [bf.probability(law, event) / kept - k * value for event, value in claims]
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Appendix E",
    claim=(
        "on a six-layer model LIME and first-layer attention correlate at -0.424, in absolute "
        "values at 0.672"
    ),
    method="none",
    verdict=NOT_CHECKABLE,
    reason=(
        "A measurement on one document and one trained six-layer model, for which the paper states "
        "no formula."
    ),
)
def appendix_e(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    raise NotImplementedError
