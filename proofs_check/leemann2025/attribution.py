"""P2, Section 5.4 and Appendix B.7, first half: derivatives of the soft-removal model and the
linearized scores.

Derivatives are exact: forward-mode dual numbers over ``Fraction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    sequences,
    slalom,
    subsets,
    worst,
)
from proofs_check.registry import CORRECTED, WRONG, Outcome, statement
from proofs_check.tolerances import EXACT

N = len(MASSES)
ONES = (Fraction(1),) * N


@dataclass(frozen=True)
class Dual:
    """value + derivative * epsilon, exactly.

    >>> Dual(Fraction(3), Fraction(1)) / Dual(Fraction(2), Fraction(1))
    Dual(value=Fraction(3, 2), slope=Fraction(-1, 4))
    """

    value: Fraction
    slope: Fraction = Fraction(0)

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)

    def __truediv__(self, other: Dual) -> Dual:
        quotient = self.value / other.value
        return Dual(quotient, (self.slope - quotient * other.slope) / other.value)


def soft_removal(
    lam: Sequence[Fraction], i: int | None = None, tokens: Sequence[int] = range(N)
) -> Dual:
    """F(lambda) of Eq. 5 and 59 with its derivative by lambda_i."""
    top = Dual(Fraction(0))
    bottom = Dual(Fraction(0))
    for j, t in enumerate(tokens):
        weight = Dual(lam[j], Fraction(int(j == i))) * Dual(MASSES[t])
        top = top + weight * Dual(VALUES[t])
        bottom = bottom + weight
    return top / bottom


@statement(
    paper="P2",
    ref="Eq. 5, 59",
    claim="lambda_i = 0 gives SLALOM on the sequence without token i",
    assumptions="at least one token stays",
    method="exact rational enumeration",
)
def eq_59(perturb: float = 0.0) -> Outcome:
    """All removals from all sequences of length up to 4 over three tokens, duplicates included."""
    differences = []
    for tokens in sequences(3, 4):
        for kept in subsets(range(len(tokens))):
            if kept:
                lam = [Fraction(int(j in kept)) for j in range(len(tokens))]
                shorter = slalom([tokens[j] for j in kept], MASSES, VALUES)
                differences.append(
                    soft_removal(lam, None, tokens).value - (1 + Fraction(perturb)) * shorter
                )
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 60-61",
    claim="the derivative of the soft-removal model by lambda_i",
    assumptions="any lambda >= 0 with a positive denominator, not only lambda = 1 as the text says",
    method="autodiff",
)
def eq_60_61(perturb: float = 0.0) -> Outcome:
    """Exact dual numbers at lambda = 1 and at another rational point."""
    differences = []
    for lam in (ONES, (Fraction(1, 3), Fraction(2), Fraction(0), Fraction(5, 7))):
        bottom = sum(x * g for x, g in zip(lam, MASSES, strict=True))
        for i in range(N):
            others = [j for j in range(N) if j != i]
            first = MASSES[i] * VALUES[i] * sum(lam[j] * MASSES[j] for j in others) / bottom**2
            second = MASSES[i] * sum(lam[j] * MASSES[j] * VALUES[j] for j in others) / bottom**2
            differences.append(
                soft_removal(lam, i).slope - (1 + Fraction(perturb)) * (first - second)
            )
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 62-64",
    claim="at lambda = 1 the derivative is alpha_i (v_i - F(1))",
    method="autodiff",
)
def eq_62_64(perturb: float = 0.0) -> Outcome:
    """The three lines against exact dual numbers."""
    F = soft_removal(ONES).value
    scale = 1 + Fraction(perturb)
    differences = []
    for i, v in enumerate(VALUES):
        a = MASSES[i] / sum(MASSES)
        lines = (a * (v * (1 - a) - (F - a * v)), a * ((v - a * v) - (F - a * v)), a * (v - F))
        differences += [soft_removal(ONES, i).slope - scale * line for line in lines]
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 65",
    claim=(
        "the derivatives are proportional to a score of each token, which ranks the tokens ('lin')"
    ),
    method="autodiff",
    verdict=CORRECTED,
    kind=WRONG,
    changes=(
        "The linearized scores (all 'lin' columns) are not the derivative that they are introduced "
        "as; signs and ranks can differ."
    ),
    printed="dF/dlambda_i at 1 is proportional to v(t_i) exp(s(t_i)) (also in Section 5.4)",
    corrected="dF/dlambda_i at 1 is proportional to exp(s(t_i)) (v(t_i) - F(1)). F(1) does not "
    "depend on i but is subtracted, so it cannot be dropped; the printed form is right if F(1) = 0 "
    "(or if all values are equal: then every derivative is 0).",
    consequence="The linearized scores (all 'lin' columns; the authors' code computes the printed "
    "form) are not derivatives of F. A constant model gets non-zero scores, and adding a constant "
    "to all values, which moves no derivative, changes the ranking. Signs and ranks can be "
    "reversed.",
)
def eq_65(perturb: float = 0.0) -> Outcome:
    """Cross products of derivatives and scores vanish for proportional vectors."""
    F = soft_removal(ONES).value
    slopes = [soft_removal(ONES, i).slope for i in range(N)]
    corrected = [g * (v - (1 + Fraction(perturb)) * F) for g, v in zip(MASSES, VALUES, strict=True)]
    printed = [g * v for g, v in zip(MASSES, VALUES, strict=True)]

    def off(scores: Sequence[Fraction]) -> float:
        return worst(
            slopes[i] * scores[j] - slopes[j] * scores[i] for i in range(N) for j in range(N)
        )

    return Outcome(
        off(corrected),
        EXACT,
        off(printed),
        "two tokens, exp(s) = 4, 1 and v = 1, 2: F(1) = 6/5. Derivatives: (4/5)(1 - 6/5) = -4/25 "
        "and (1/5)(2 - 6/5) = 4/25. Printed scores: 4 and 2, both positive and in the opposite "
        "order. With v = 1, 1 the model is constant, the derivatives are 0, 0 and the printed "
        "scores 4, 1.",
    )
