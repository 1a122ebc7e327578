"""P2, Appendix C.1: SLALOM for several classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from proofs_check.leemann2025.forms import (
    MASSES,
    matrix_rank,
    sequences,
    slalom,
    slalom_jacobian_row,
    worst,
)
from proofs_check.registry import CORRECTED, MISPRINT, Outcome, statement
from proofs_check.tolerances import ALGEBRA, EXACT

#: Values of three classes for the four tokens; the columns sum to zero (Eq. 71).
CLASS_VALUES = (
    (Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(0)),
    (Fraction(1, 3), Fraction(2), Fraction(-3, 2), Fraction(4, 5)),
    (Fraction(-4, 3), Fraction(-1), Fraction(1), Fraction(-4, 5)),
)


def _log_probabilities(scores: Sequence[Fraction]) -> list[float]:
    """Eq. 73, logarithms."""
    top = max(scores)
    log_sum = float(top) + math.log(sum(math.exp(x - top) for x in scores))
    return [float(x) - log_sum for x in scores]


@statement(
    paper="P2",
    ref="Eq. 71",
    claim="sum_c v_c(tau) = 0 is a normalization: any v_c can be shifted to it without changing a "
    "probability of Eq. 73",
    method="extended precision",
)
def eq_71(perturb: float = 0.0) -> Outcome:
    """v_c(tau) + u(tau) gives the same class probabilities as v_c(tau), every sequence of length up
    to 3.
    """
    u = (Fraction(2), Fraction(-1, 3), Fraction(5), Fraction(1, 7))
    differences = []
    for tokens in sequences(4, 3):
        plain = _log_probabilities([slalom(tokens, MASSES, v) for v in CLASS_VALUES])
        shifted = _log_probabilities(
            [
                slalom(tokens, MASSES, [a + b for a, b in zip(v, u, strict=True)])
                for v in CLASS_VALUES
            ]
        )
        differences += [a - (1 + perturb) * b for a, b in zip(shifted, plain, strict=True)]
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Eq. 72",
    claim="what the score F_c of class c is, in terms of the class probabilities of Eq. 73",
    assumptions="sum_c v_c(tau) = 0 (Eq. 71)",
    method="extended precision",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="F_c(t) = log(p(y=1|t)/p(y=0|t)) = sum_i alpha_i(t) v_c(t_i)",
    corrected="F_c(t) = log p(y=c|t) - (1/|Y|) sum_c' log p(y=c'|t) = sum_i alpha_i(t) v_c(t_i), "
    "the centered log-probability.",
    consequence="The middle expression is left over from Eq. 4 and does not depend on c. For two "
    "classes F_1 is *half* the log-odds: the two-class SLALOM of Eq. 4 is v = v_1 - v_0 = 2 v_1.",
)
def eq_72(perturb: float = 0.0) -> Outcome:
    """Three classes for the corrected form; two classes for the printed one, the only case in which
    it could hold.
    """
    right = []
    printed = []
    for tokens in sequences(4, 3):
        scores = [slalom(tokens, MASSES, v) for v in CLASS_VALUES]
        logs = _log_probabilities(scores)
        right += [
            log - sum(logs) / 3 - (1 + perturb) * float(F)
            for log, F in zip(logs, scores, strict=True)
        ]
        F_1 = scores[0]
        log_0, log_1 = _log_probabilities([-F_1, F_1])
        printed.append(log_1 - log_0 - float(F_1))
    return Outcome(
        worst(right),
        ALGEBRA,
        worst(printed),
        "two classes, one token, v_1 = 1, v_0 = -1: F_1 = 1, F_0 = -1, Eq. 73 gives p(1)/p(0) = "
        "e^1/e^-1, so log-odds 2, but F_1 = 1.",
    )


@statement(
    paper="P2",
    ref="Below Eq. 73",
    claim="the number of free parameters of the multi-class SLALOM",
    assumptions="Eq. 70 and 71",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="(|Y| - 1)|V| - 1 free parameters, for two classes 2|V| - 1",
    corrected="|Y||V| - 1: (|Y| - 1)|V| for the values and |V| - 1 for the importances. For two "
    "classes 2|V| - 1, as the sentence itself says.",
    consequence=(
        "The printed formula counts the values alone, less one; for two classes it gives |V| - 1."
    ),
)
def below_eq_73(perturb: float = 0.0) -> Outcome:
    """Exact rank of the derivatives of all F_c - F_0 by (s, v_0, ..., v_{Y-1}) on all sequences of
    length up to 2.
    """
    right = []
    printed = []
    for classes, size in itertools.product((2, 3, 4), (2, 3)):
        g = [Fraction(k + 2, 2 * k + 1) for k in range(size)]
        v = [
            [Fraction((3 * c + k) ** 2 % 7 - 3, c + 2) for k in range(size)] for c in range(classes)
        ]
        rows = []
        for tokens in sequences(size, 2):
            parts = [slalom_jacobian_row(tokens, g, v_c) for v_c in v]
            for c in range(1, classes):
                by_s = [a - b for a, b in zip(parts[c][:size], parts[0][:size], strict=True)]
                by_v = [[Fraction(0)] * size for _ in range(classes)]
                by_v[c] = parts[c][size:]
                by_v[0] = [-x for x in parts[0][size:]]
                rows.append(by_s + [x for block in by_v for x in block])
        rank = matrix_rank(rows)
        right.append(rank - (1 + Fraction(perturb)) * (classes * size - 1))
        printed.append(Fraction(rank - ((classes - 1) * size - 1)))
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "|Y| = 2, |V| = 2: s(a) - s(b), v(a), v(b) are 3 free numbers = 2*2 - 1; printed (2 - 1)*2 "
        "- 1 = 1.",
    )
