"""P2, Section 5.2 and Appendix B.6: s and v are unique, and 2|V| - 1 queries find them (Prop. 5.2).

Importances enter as masses exp(s), so that Eq. 45 to 56 become statements about quotients of
rational numbers: "log x = y" is checked as "x = exp(y)". With d and eta as logarithms of quotients,
a sign is an inverse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    matrix_rank,
    sequences,
    slalom,
    slalom_jacobian_row,
    worst,
)
from proofs_check.registry import CONDITION, CORRECTED, MISPRINT, Outcome, statement
from proofs_check.tolerances import ALGEBRA, EXACT

#: Pairs (tau, reference) of tokens with different values, as Eq. 52 needs them.
PAIRS = [(a, b) for a, b in itertools.permutations(range(4), 2) if VALUES[a] != VALUES[b]]


def _share(tau: int, ref: int) -> Fraction:
    """g(tau, ref) of Eq. 52, from three outputs of the model."""
    G_tau = slalom((tau,), MASSES, VALUES)
    G_ref = slalom((ref,), MASSES, VALUES)
    return (slalom((tau, ref), MASSES, VALUES) - G_ref) / (G_tau - G_ref)


@statement(
    paper="P2",
    ref="Sec. 5.1 (uniqueness)",
    claim="once sum s = gamma is fixed, SLALOM's parameters are unique: 2|V| - 1 of them are free",
    assumptions="not all values equal (Prop. 5.2 says so, Section 5.1 does not); with equal values "
    "only v is determined",
    method="exact rational enumeration",
)
def sec_5_1_unique(perturb: float = 0.0) -> Outcome:
    """Exact rank of the derivatives of F on all sequences of length up to 2 by (s, v); |V| if all
    values are equal.
    """
    differences = []
    for size in range(2, 6):
        g = [Fraction(k + 2, 2 * k + 1) for k in range(size)]
        non_constant = [Fraction(1), Fraction(-2), Fraction(1), Fraction(1, 2), Fraction(1)][:size]
        cases: tuple[tuple[Sequence[Fraction], int], ...] = (
            (non_constant, 2 * size - 1),
            ([Fraction(3)] * size, size),
        )
        for v, free in cases:
            rank = matrix_rank(slalom_jacobian_row(tokens, g, v) for tokens in sequences(size, 2))
            differences.append(rank - (1 + Fraction(perturb)) * free)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 45-54",
    claim="the share of tau in the pair is (G(tau, ref) - G(ref))/(G(tau) - G(ref)) =: g; 1/g = 1 "
    "+ exp(s(ref) - s(tau))",
    assumptions="v(tau) != v(ref)",
    method="exact rational enumeration",
)
def eq_45_54(perturb: float = 0.0) -> Outcome:
    """All pairs with different values."""
    scale = 1 + Fraction(perturb)
    differences = [_share(a, b) - scale * MASSES[a] / (MASSES[a] + MASSES[b]) for a, b in PAIRS]
    differences += [1 / _share(a, b) - 1 - scale * MASSES[b] / MASSES[a] for a, b in PAIRS]
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 55",
    claim="the difference of importances is a logarithm of the share",
    assumptions="v(tau) != v(ref)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="log(1/g(tau, ref) - 1) = s(tau) - s(ref) =: d(tau, ref)",
    corrected="-log(1/g(tau, ref) - 1) = s(tau) - s(ref), that is d(tau, ref) = log(g/(1 - g)).",
    consequence="With the printed sign and values that differ from that of the reference theta, "
    "every importance comes out mirrored at s(theta): important tokens seem unimportant.",
)
def eq_55(perturb: float = 0.0) -> Outcome:
    """Both sides exponentiated."""
    right = [
        1 / (1 / _share(a, b) - 1) - (1 + Fraction(perturb)) * MASSES[a] / MASSES[b]
        for a, b in PAIRS
    ]
    printed = [(1 / _share(a, b) - 1) - MASSES[a] / MASSES[b] for a, b in PAIRS]
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "s(tau) = ln 3, s(ref) = 0, v = 1, 0: G(tau, ref) = 3/4, so g = 3/4 and log(4/3 - 1) = -ln "
        "3 = -1.0986, but s(tau) - s(ref) = +1.0986.",
    )


@statement(
    paper="P2",
    ref="Eq. 56",
    claim=(
        "if tau was compared with theta-hat, its importance relative to theta follows from that of "
        "theta-hat"
    ),
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="eta(tau) = d(tau, theta-hat) - d(theta-hat, theta)",
    corrected=(
        "eta(tau) = d(tau, theta-hat) + d(theta-hat, theta), as the middle expression of Eq. 56 "
        "has it."
    ),
    consequence="Tokens that share the value of theta, in practice all neutral ones, come out "
    "wrong by 2 (s(theta-hat) - s(theta)).",
)
def eq_56(perturb: float = 0.0) -> Outcome:
    """All triples of tokens, exponentiated: d is a quotient of masses."""
    right = []
    printed = []
    for tau, hat, theta in itertools.permutations(range(4), 3):
        d_tau = MASSES[tau] / MASSES[hat]
        d_hat = MASSES[hat] / MASSES[theta]
        right.append(d_tau * d_hat - (1 + Fraction(perturb)) * MASSES[tau] / MASSES[theta])
        printed.append(d_tau / d_hat - MASSES[tau] / MASSES[theta])
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "s(theta) = 0, s(theta-hat) = 1, s(tau) = 0: d(tau, theta-hat) = -1, d(theta-hat, theta) = "
        "1. Printed: -1 - 1 = -2; right: -1 + 1 = 0 = s(tau) - s(theta).",
    )


@statement(
    paper="P2",
    ref="Eq. 57-58",
    claim="the normalization gives s(theta)",
    assumptions="sum s = gamma, eta(tau) = s(tau) - s(theta)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="sum (eta + s(theta)) = 0, hence s(theta) = (sum eta)/|V|",
    corrected="sum (eta + s(theta)) = gamma, hence s(theta) = (gamma - sum eta)/|V|.",
    consequence="The sign is lost on solving Eq. 57, and the constant gamma that Section 5.1 and "
    "Prop. 5.2 allow is taken as 0. All importances shift by a constant, so predictions survive; "
    "the recovered s is not the true one.",
)
def eq_57_58(perturb: float = 0.0) -> Outcome:
    """Rational importances, |V| = 2 .. 5, several gamma."""
    right = []
    printed = []
    for size, gamma in itertools.product(range(2, 6), (Fraction(0), Fraction(1), Fraction(-7, 3))):
        s = [Fraction(3 * k * k - 5, k + 2) for k in range(size)]
        s = [x + (gamma - sum(s)) / size for x in s]
        eta = [x - s[0] for x in s]
        right.append((1 + Fraction(perturb)) * (gamma - sum(eta)) / size - s[0])
        printed.append(sum(eta) / size - s[0])
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "V = {theta, tau}, s = (1, -1), gamma = 0: eta = (0, -2). Printed: s(theta) = -2/2 = -1; "
        "right: (0 + 2)/2 = 1.",
    )


def recover(
    query: Callable[[tuple[int, ...]], Fraction], vocabulary: int, printed: bool = False
) -> tuple[list[float], list[Fraction]]:
    """Appendix B.6 step by step: eta(tau) relative to theta = 0, and v; corrected, or to the
    letter.

    >>> eta, v = recover(
    ...     lambda t: slalom(t, (Fraction(1), Fraction(3)), (Fraction(0), Fraction(1))), 2
    ... )
    >>> round(math.exp(eta[1]), 12), v
    (3.0, [Fraction(0, 1), Fraction(1, 1)])
    """
    v = [query((tau,)) for tau in range(vocabulary)]
    theta = 0
    theta_hat = next(tau for tau in range(vocabulary) if v[tau] != v[theta])
    eta = [0.0] * vocabulary
    d_hat = 0.0
    for tau in [theta_hat, *(t for t in range(1, vocabulary) if t != theta_hat)]:
        ref = theta if v[tau] != v[theta] else theta_hat
        share = (query((tau, ref)) - v[ref]) / (v[tau] - v[ref])
        d = math.log(1 / share - 1) * (1 if printed else -1)
        if tau == theta_hat:
            d_hat = d
        if ref == theta:
            eta[tau] = d
        elif printed:
            eta[tau] = d - d_hat
        else:
            eta[tau] = d + d_hat
    return eta, v


@statement(
    paper="P2",
    ref="Prop. 5.2",
    claim="2|V| - 1 queries, single tokens and pairs, recover s and v of any non-constant SLALOM",
    assumptions="the steps of Appendix B.6 with Eq. 55, 56 and 58 corrected; exact outputs. (The "
    "proposition calls the normalization constant tau and the model F; gamma and G are meant.)",
    method="exact rational enumeration",
)
def prop_5_2(perturb: float = 0.0) -> Outcome:
    """Several vocabularies with ties among the values; importances, values and the number of
    queries.
    """
    gamma = 0.7
    differences: list[float] = []
    mirrored = 0.0
    for size in range(2, 9):
        g = [Fraction(3 * k + 2, k * k + 1) for k in range(size)]
        v = [Fraction((k * k) % 5 - 2, 3) for k in range(size)]
        s = [math.log(x) for x in g]
        s = [x + (gamma - sum(s)) / size for x in s]
        asked: list[tuple[int, ...]] = []

        def query(
            tokens: tuple[int, ...], g: list[Any] = g, v: list[Any] = v, asked: list[Any] = asked
        ) -> Fraction:
            asked.append(tokens)
            return slalom(tokens, g, v)

        eta, values = recover(query, size)
        differences += [
            len(asked) - (1 + perturb) * (2 * size - 1),
            float(max(map(len, asked)) > 2),
        ]
        differences += [float(a - b) for a, b in zip(values, v, strict=True)]
        theta = (gamma - sum(eta)) / size
        differences += [theta + e - x for e, x in zip(eta, s, strict=True)]
        eta, _ = recover(query, size, printed=True)
        mirrored = max(mirrored, *(abs(theta + e - x) for e, x in zip(eta, s, strict=True)))
    return Outcome(
        worst(differences),
        ALGEBRA,
        detail=(
            "with Eq. 55 and 56 as printed the recovered importances are off by up to "
            f"{mirrored:.3g}"
        ),
    )
