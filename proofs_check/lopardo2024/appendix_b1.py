"""P1, appendix B.1: must the words be distinct, and the authors' experiment."""

from __future__ import annotations

import math

import numpy as np

from .. import long_documents
from ..registry import CORRECTED, NOT_CHECKABLE, WRONG, Outcome, statement
from ..tolerances import EXPONENT
from .theorem_5_1 import HEADS


@statement(
    paper="P1",
    ref="Appendix B.1, repeated words",
    claim=(
        "with many identical tokens Theorem 5.1 is no longer true, e.g. for two groups of "
        "identical tokens"
    ),
    assumptions="T = T_max^eps; d = 2 words with T/2 occurrences each; the corrected theorem",
    method="growth rate",
    verdict=CORRECTED,
    kind=WRONG,
    changes=(
        "Theorem 5.1, once corrected, holds for repeated words as well, which is more than the "
        "paper claims."
    ),
    printed=(
        "'If many tokens are identical, this is no longer true: consider, for instance, the "
        "extreme case of two groups of identical tokens' (section 6 and B.1); conjectured for "
        "small multiplicities only."
    ),
    corrected=(
        "No distinctness is needed: beta_j = sum_{t: xi_t = j} w_t with relative error "
        "O(T_max^{eps-1}), for any multiplicities, the two groups included. What matters is "
        "T/T_max, not d/T."
    ),
    consequence=(
        "The variance of the denominator does grow, to O(T^2), but Lemma D.1 divides it by "
        "T_max^3: the bound is O(T^2/T_max^3 + T/T_max^2) = O(T_max^{eps-2}) a position still. The "
        "conjecture of B.1 can be a remark."
    ),
)
def repeated_words(perturb: float = 0.0) -> Outcome:
    """Relative error for d = 2 and d = sqrt(T): a group of equal tokens acts as one word of their
    joint mass.
    """
    worst = 0.0
    slopes = []
    lines = []
    for eps in (0.3, 0.5, 0.7):
        for groups in ("two", "root"):
            errors = []
            T_max = []
            for T in (16, 64, 256) if eps < 0.5 else (64, 256, 1024, 4096):
                if groups == "two":
                    n = [1, 1]
                else:
                    n = [math.isqrt(T) // 2] * 2
                times = T // sum(n)
                g = [times * x for x in HEADS[0]["g"]]
                g_h = [times * x for x in HEADS[0]["g_h"]]
                positions = round(T ** (1 / eps))
                document = long_documents.LongDocument(
                    n, g, HEADS[0]["v"], g_h, HEADS[0]["v_h"], positions - T, 1.0, 0.3
                )
                exact = long_documents.lime_limit(document)
                difference = long_documents.first_order(document, 1 + perturb) - exact
                errors.append(float(np.max(np.abs(difference)) / np.max(np.abs(exact))))
                T_max.append(positions)
            slope = long_documents.growth_exponent(T_max, errors)
            slopes.append(slope)
            worst = max(worst, abs(slope - (eps - 1)))
            lines.append(f"eps {eps}, {groups}: {slope:.3f}")
    return Outcome(
        worst,
        EXPONENT,
        printed_error=-min(slopes),
        counterexample=(
            "Two words, 50 occurrences each, 9,900 padded positions, T_max = 10,000. Word 1: g = "
            "2, v = 1; word 2: g = 1, v = -1; [UNK] and padding: g = 1, v = 0. LIME has d = 2, so "
            "beta_1 = f(1 kept) - f(none kept) = 100/10,050 - 0 = 0.009950. Corrected theorem: F = "
            "50/10,050, 50 [2 (1 - F) + F]/10,050 = 0.009926, 0.25% off."
        ),
        detail="fitted exponents of the relative error; " + "; ".join(lines),
    )


@statement(
    paper="P1",
    ref="Appendix B.1, experiment",
    claim=(
        "the norm-2 error between LIME and Eq. 19 over the IMDB test set is 0.808 on average, with "
        "deviation 0.219"
    ),
    method="none",
    verdict=NOT_CHECKABLE,
    reason=(
        "A measurement on the authors' trained weights, which are not part of this project. "
        "benchmarks/papers/paper1_lime.py repeats it on a model that is trained as appendix F says."
    ),
)
def experiment(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    raise NotImplementedError
