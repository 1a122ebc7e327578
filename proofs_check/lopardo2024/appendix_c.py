"""P1, appendix C: the proof of Proposition B.1 (the law of |S|, Eq. 32 to 35)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .. import brute_force as bf
from .. import long_documents
from ..registry import CORRECTED, WRONG, Outcome, one_plus, statement
from ..tolerances import EXACT, EXPONENT
from .appendix_b import RATE
from .lime_section import largest, random_game
from .theorem_5_1 import GROWTH, HEADS


@statement(
    paper="P1",
    ref="Appendix C, size law",
    claim="E[. | l kept] = (1/d) sum_{s=0}^{d-1} E_s[. | l kept] by the law of total expectation",
    assumptions="s uniform in {1, ..., d}, S uniform of size s (section 5.1)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=WRONG,
    printed="P(|S| = s | l not in S) = 1/d for s = 0, ..., d-1.",
    corrected=(
        "P(|S| = s | l not in S) = 2(d-s)/(d(d-1)) for s = 1, ..., d-1: by Bayes, keeping l is "
        "(d-s)/d likely at size s, and s = 0 is never drawn."
    ),
    consequence=(
        "Keeping a word makes small removals likelier. Eqs. 29 to 31 and the constant of Theorem "
        "5.1 inherit the slip."
    ),
)
def size_law(perturb: float = 0.0) -> Outcome:
    """The conditional law, and the expectation of an arbitrary function with either weights."""
    error = []
    printed = []
    for d in (2, 3, 4, 5, 6):
        law = bf.sampling_law(d)
        value = random_game(d, seed=50 + d)
        kept = bf.probability(law, bf.kept(1))
        exact = bf.expectation(law, value, bf.kept(1))
        right = wrong = Fraction(0)
        for s in range(0, d):
            of_size = {S: p for S, p in law.items() if len(S) == s}
            found = bf.probability(of_size, bf.kept(1)) / kept
            if s:
                claimed = one_plus(perturb) * Fraction(2 * (d - s), d * (d - 1))
            else:
                claimed = Fraction(0)
            error.append(found - claimed)
            printed.append(found - Fraction(1, d))
            mean = bf.expectation(bf.fixed_size_law(d, s), value, bf.kept(1))
            right = right + claimed * mean
            wrong = wrong + mean / d
        error.append(right - exact)
        printed.append(wrong - exact)
    return Outcome(
        largest(error),
        EXACT,
        largest(printed),
        counterexample=(
            "d = 2. Sets drawn: {1}, {2} with probability 1/4 each, {1,2} with 1/2. Word 1 is kept "
            "only by {2}: given that, |S| = 1 for certain, and 2(2-1)/(2 1) = 1. Printed: 1/2 for "
            "|S| = 1 and 1/2 for |S| = 0, which cannot occur."
        ),
    )


def _given_size(
    document: long_documents.LongDocument, s: int, kept: int
) -> tuple[np.ndarray, np.ndarray]:
    """Removals and their law given |S| = s and a word of kind `kept` kept."""
    r, p = document.removals()
    chosen = r.sum(axis=0) == s
    weight = p[chosen] * (document.n[kept] - r[kept][chosen])
    return r[:, chosen], weight / weight.sum()


@statement(
    paper="P1",
    ref="Eq. 32",
    claim=(
        "given |S| = s and l kept, E[X/Y] = E[X]/E[Y] + O(T_max^{-3/2}), X = G_t V_t, Y = sum_u G_u"
    ),
    assumptions="d = T = T_max^eps, c <= g <= C, |v| <= C",
    method="growth rate",
)
def eq_32(perturb: float = 0.0) -> Outcome:
    """Fitted exponents at s = d/2, t = l and t != l."""
    excess = 0.0
    lines = []
    for eps, sizes in GROWTH.items():
        errors: list[list[float]] = [[], []]
        documents = long_documents.growing_documents(eps, sizes, **HEADS[0])
        for document in documents:
            for kept in (0, 1):
                r, p = _given_size(document, document.d // 2, kept)
                Y = document.denominator(r)
                if kept == 0:
                    X = np.full_like(Y, document.g[0] * document.v[0])
                else:
                    X = document.summand(r, 0) * Y
                errors[kept].append(float(abs(p @ (X / Y) - (1 + perturb) * (p @ X) / (p @ Y))))
        slopes = [long_documents.growth_exponent([x.T_max for x in documents], e) for e in errors]
        excess = max(excess, *(slope - RATE for slope in slopes))
        lines.append(f"eps {eps}: {slopes[0]:.2f}, {slopes[1]:.2f}")
    return Outcome(excess, EXPONENT, detail="fitted exponents; " + "; ".join(lines))


#: A document for enumeration: five distinct words, two padded positions, all masses different.
XI: list[int | None] = [1, 2, 3, 4, 5, None, None]
G = [Fraction(x, 4) for x in (3, 7, 5, 2, 9, 4, 4)]
G_H = [Fraction(x, 4) for x in (6, 1, 8, 5, 3, 4, 4)]
V = [Fraction(x) for x in (2, -1, 3, 5, -4, 1, 1)]
V_H = [Fraction(x) for x in (1, 2, -2, 1, 3, 1, 1)]


def mixture(u: int, whole: Fraction, replaced: Fraction) -> bf.Value:
    """The random variable that is `whole` if the word at index u is kept, else `replaced`."""
    return lambda S: replaced if XI[u] in S else whole


@statement(
    paper="P1",
    ref="Eq. 33",
    claim=(
        "E_s[g_t v_t 1{xi_t kept} + g_{h,t} v_{h,t} 1{xi_t removed} | l kept] = g_t v_t if xi_t = l"
    ),
    method="exact rational enumeration",
)
def eq_33(perturb: float = 0.0) -> Outcome:
    """All words, all sizes."""
    error = []
    for s in range(1, 5):
        law = bf.fixed_size_law(5, s)
        for t in range(5):
            found = bf.expectation(
                law,
                mixture(t, G[t] * V[t], G_H[t] * V_H[t]),
                bf.kept(t + 1),
            )
            error.append(found - one_plus(perturb) * G[t] * V[t])
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Eq. 34",
    claim=(
        "E_s[G_u | l kept] = (1 - s/(d-1)) g_u + s/(d-1) g_{h,u} for u != t, and the sum of all as "
        "displayed below it"
    ),
    assumptions="distinct words; padding has g = g_h",
    method="exact rational enumeration",
)
def eq_34(perturb: float = 0.0) -> Outcome:
    """Every position, and the whole denominator with its last term s/(d-1) (g_t - g_{h,t})."""
    d = 5
    error = []
    for s in range(1, d):
        law = bf.fixed_size_law(d, s)
        x = Fraction(s, d - 1)
        for kept in range(d):
            total = Fraction(0)
            for u in range(len(XI)):
                found = bf.expectation(law, mixture(u, G[u], G_H[u]), bf.kept(kept + 1))
                total += found
                if u != kept:
                    error.append(found - one_plus(perturb) * ((1 - x) * G[u] + x * G_H[u]))
            A = sum(G, Fraction(0))
            B = sum(G_H, Fraction(0))
            error.append(
                total - one_plus(perturb) * ((1 - x) * A + x * B + x * (G[kept] - G_H[kept]))
            )
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Eq. 35",
    claim="dropping s/(d-1) (g_t - g_{h,t}) from the denominator costs O(T_max^{-3/2}) for one t",
    assumptions="d = T = T_max^eps, c <= g <= C, |v| <= C",
    method="growth rate",
)
def eq_35(perturb: float = 0.0) -> Outcome:
    """Fitted exponents at s = d/2; they are -2, and T_max of these make the term that Theorem 5.1
    lacks.
    """
    excess = 0.0
    lines = []
    for eps, sizes in GROWTH.items():
        documents = long_documents.growing_documents(eps, sizes, **HEADS[0])
        errors = []
        for document in documents:
            s = document.d // 2
            x = s / (document.d - 1)
            r, p = _given_size(document, s, 0)
            own = document.g[0] * document.v[0]
            approximation = (1 + perturb) * own / ((1 - x) * document.A + x * document.B)
            errors.append(float(abs(p @ (own / document.denominator(r)) - approximation)))
        slope = long_documents.growth_exponent([document.T_max for document in documents], errors)
        excess = max(excess, slope - RATE)
        lines.append(f"eps {eps}: {slope:.2f}")
    return Outcome(excess, EXPONENT, detail="fitted exponents; " + "; ".join(lines))
