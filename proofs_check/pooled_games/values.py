"""Semivalues, Owen values and interaction indices as integrals over independent coin flips."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

from proofs_check.leemann2025.forms import worst
from proofs_check.pooled_games.games import (
    GROUPS,
    HEADS,
    F,
    N,
    beta,
    by_orders,
    change,
    coalitions,
    integral,
    moebius,
    orders_by_group,
    others,
    size_law,
)
from proofs_check.registry import OURS, Outcome, one_plus, statement
from proofs_check.tolerances import EXACT

PAIRS = list(itertools.combinations(range(N), 2))


@statement(
    paper=OURS,
    ref="Shapley values",
    claim=(
        "the mean over all orders is int_0^1 E_p[f(S + j) - f(S)] dp, S drawn by coins with "
        "probability p"
    ),
    method="exact rational enumeration",
)
def shapley(perturb: float = 0.0) -> Outcome:
    """All 120 orders of five players against the integral of a polynomial."""
    gaps = []
    for head in HEADS:
        exact = by_orders(head.value, itertools.permutations(range(N)))
        for j in range(N):
            found = integral(head.value, [j], lambda s, r: beta(s + 1, r + 1))
            gaps.append(one_plus(perturb) * found - exact[j])
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Beta Shapley values",
    claim=(
        "in Kwon and Zou's Beta(alpha, beta) others are present with p of density ~ p^(beta-1) "
        "(1-p)^(alpha-1)"
    ),
    assumptions=(
        "whole alpha, beta; their weight of s others is B(s + beta, n-1-s + alpha) / B(alpha, beta)"
    ),
    method="exact rational enumeration",
)
def beta_shapley(perturb: float = 0.0) -> Outcome:
    """The printed weights against the polynomial density, expanded by the binomial theorem and
    integrated.
    """
    gaps = []
    for alpha, b in ((1, 1), (4, 1), (1, 3), (2, 5)):
        for s in range(N):
            r = N - 1 - s
            printed = beta(s + b, r + alpha) / beta(alpha, b)
            # int p^(s+b-1) (1-p)^(r+alpha-1) dp, term by term
            power = r + alpha - 1
            terms = sum((F((-1) ** k * comb(power, k), s + b + k) for k in range(power + 1)), F(0))
            gaps.append(one_plus(perturb) * terms / beta(b, alpha) - printed)
        total = sum(
            (comb(N - 1, s) * beta(s + b, N - 1 - s + alpha) / beta(alpha, b) for s in range(N)),
            F(0),
        )
        gaps.append(total - 1)
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Semivalues by size",
    claim=(
        "E[f(S+j)] = M_j(n-s-1) n/(s+1) and E[f(S)] = (M(n-s) - M_j(n-s)) n/(n-s) over coalitions "
        "S of s others"
    ),
    assumptions="M(a) = E[f | a absent], M_j(a) = E[f 1{j present} | a absent]",
    method="exact rational enumeration",
)
def by_size(perturb: float = 0.0) -> Outcome:
    """Every j and s of the three games."""
    gaps = []
    for head in HEADS:
        for j, s in itertools.product(range(N), range(N)):

            def mean(absent: int, player: int | None, f=head.value) -> Fraction:  # type: ignore[no-untyped-def]
                chosen = [T for T in coalitions(range(N)) if len(T) == N - absent]
                return sum((f(T) for T in chosen if player is None or player in T), F(0)) / len(
                    chosen
                )

            S = [T for T in coalitions(others(j)) if len(T) == s]
            joined = sum((head.value(T | {j}) for T in S), F(0)) / len(S)
            before = sum((head.value(T) for T in S), F(0)) / len(S)
            gaps.append(one_plus(perturb) * mean(N - s - 1, j) * F(N, s + 1) - joined)
            gaps.append(
                one_plus(perturb) * (mean(N - s, None) - mean(N - s, j)) * F(N, N - s) - before
            )
    return Outcome(worst(gaps), EXACT)


def _owen(f, j: int) -> Fraction:  # type: ignore[no-untyped-def]
    """The double integral over p (other groups as wholes) and q (other members of the own
    group).
    """
    own = next(group for group in GROUPS if j in group)
    rest = [group for group in GROUPS if group != own]
    members = [k for k in own if k != j]
    total = F(0)
    for wholes in itertools.product((False, True), repeat=len(rest)):
        present = frozenset(
            k for group, here in zip(rest, wholes, strict=True) if here for k in group
        )
        m = sum(wholes)
        for T in coalitions(members):
            weight = beta(m + 1, len(rest) - m + 1) * beta(len(T) + 1, len(members) - len(T) + 1)
            total += weight * change(f, present | T, j)
    return total


@statement(
    paper=OURS,
    ref="Owen values",
    claim=(
        "the mean over orders that keep groups together is int int E_{p,q}[f(S + j) - f(S)] dp dq"
    ),
    assumptions=(
        "other groups present as wholes with probability p, other members of j's group with "
        "probability q"
    ),
    method="exact rational enumeration",
)
def owen(perturb: float = 0.0) -> Outcome:
    """Five players in groups of two, one and two."""
    gaps = []
    for head in HEADS:
        exact = by_orders(head.value, orders_by_group())
        gaps += [one_plus(perturb) * _owen(head.value, j) - exact[j] for j in range(N)]
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Owen values (groups)",
    claim="the Owen values of a group's members add up to its Shapley value in the game of groups",
    method="exact rational enumeration",
)
def owen_groups(perturb: float = 0.0) -> Outcome:
    """Shapley values of three groups by all six orders."""
    gaps = []
    for head in HEADS:
        total = [F(0)] * len(GROUPS)
        for order in itertools.permutations(range(len(GROUPS))):
            here: frozenset[int] = frozenset()
            for g in order:
                total[g] += (head.value(here | set(GROUPS[g])) - head.value(here)) / 6
                here |= set(GROUPS[g])
        for g, group in enumerate(GROUPS):
            gaps.append(one_plus(perturb) * sum(_owen(head.value, j) for j in group) - total[g])
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Owen values (factorization)",
    claim=(
        "for a product over players the mean over p and q is (int prod_T Y_T dp) (int prod_k Y_k "
        "dq)"
    ),
    assumptions=(
        "Y_T(p) = p a_T + (1-p) b_T for wholes, Y_k(q) = q x_k + (1-q) y_k for members of one group"
    ),
    method="exact rational enumeration",
)
def owen_factors(perturb: float = 0.0) -> Outcome:
    """Products of rational factors in the place of e^(-lam mass): groups of the others, members of
    the first.
    """
    x = [F(1, k + 2) for k in range(N)]
    y = [F(k + 1, k + 4) for k in range(N)]
    own = GROUPS[0]
    rest = GROUPS[1:]
    joint = F(0)
    over_p = F(0)
    over_q = F(0)
    for wholes in itertools.product((False, True), repeat=len(rest)):
        m = sum(wholes)
        outer = beta(m + 1, len(rest) - m + 1)
        for group, here in zip(rest, wholes, strict=True):
            for k in group:
                outer *= x[k] if here else y[k]
        over_p += outer
        for T in coalitions(own):
            inner = beta(len(T) + 1, len(own) - len(T) + 1)
            for k in own:
                inner *= x[k] if k in T else y[k]
            joint += outer * inner
    for T in coalitions(own):
        inner = beta(len(T) + 1, len(own) - len(T) + 1)
        for k in own:
            inner *= x[k] if k in T else y[k]
        over_q += inner
    return Outcome(worst([one_plus(perturb) * over_p * over_q - joint]), EXACT)


@statement(
    paper=OURS,
    ref="Shapley-Taylor interactions",
    claim=(
        "of order two: (2/n) sum_T binom(n-1, t)^(-1) (second difference) is int 2 (1-p) I_ij(p) dp"
    ),
    method="exact rational enumeration",
)
def shapley_taylor(perturb: float = 0.0) -> Outcome:
    """Every pair of the three games; then f(nobody), singles and pairs add up to f(all)."""
    gaps = []
    for head in HEADS:
        f = head.value
        pairs = F(0)
        for i, j in PAIRS:
            printed = sum(
                (
                    F(2, N) * size_law(N - 1, len(T)) * change(f, T, i, j)
                    for T in coalitions(others(i, j))
                ),
                F(0),
            )
            found = one_plus(perturb) * integral(f, [i, j], lambda s, r: 2 * beta(s + 1, r + 2))
            gaps.append(found - printed)
            pairs += found
        nobody: frozenset[int] = frozenset()
        gaps.append(
            f(nobody) + sum(change(f, nobody, i) for i in range(N)) + pairs - f(frozenset(range(N)))
        )
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Faithful Shapley interactions",
    claim="of order two: pairs int 6 p (1-p) I_ij dp, singles int (4 - 6 p) Delta_i dp",
    assumptions=(
        "Tsai et al. (2023): m(T) enters a pair with 6/(t (t+1)), a single with -2 (t-2)/(t (t+1)) "
        "for t > 2"
    ),
    method="exact rational enumeration",
)
def faithful_shapley(perturb: float = 0.0) -> Outcome:
    """Moebius coefficients by definition against the integrals."""
    gaps = []
    for head in HEADS:
        m = moebius(head.value)
        for i, j in PAIRS:
            printed = sum((m[T] * F(6, len(T) * (len(T) + 1)) for T in m if {i, j} <= T), F(0))
            found = integral(head.value, [i, j], lambda s, r: 6 * beta(s + 2, r + 2))
            gaps.append(one_plus(perturb) * found - printed)
        for i in range(N):
            printed = m[frozenset({i})]
            printed += sum(
                (
                    m[T] * F(-2 * (len(T) - 2), len(T) * (len(T) + 1))
                    for T in m
                    if i in T and len(T) > 2
                ),
                F(0),
            )
            found = integral(
                head.value, [i], lambda s, r: 4 * beta(s + 1, r + 1) - 6 * beta(s + 2, r + 1)
            )
            gaps.append(one_plus(perturb) * found - printed)
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Faithful Banzhaf interactions",
    claim=(
        "the best fit of order two over all coalitions has pairs I_ij(1/2) and singles Delta_i - "
        "(1/2) sum_j I_ij"
    ),
    assumptions="both at p = 1/2; best in the mean square",
    method="exact rational enumeration",
)
def faithful_banzhaf(perturb: float = 0.0) -> Outcome:
    """The residual is orthogonal to every function of order two."""
    gaps = []
    everyone = list(coalitions(range(N)))
    for head in HEADS:
        half = {pair: integral(head.value, pair, lambda s, r: F(1, 2 ** (s + r))) for pair in PAIRS}
        first = [integral(head.value, [i], lambda s, r: F(1, 2 ** (s + r))) for i in range(N)]
        single = [
            first[i] - sum((x for pair, x in half.items() if i in pair), F(0)) / 2 for i in range(N)
        ]
        mean = sum(map(head.value, everyone), F(0)) / len(everyone)
        constant = mean - sum(first) / 2 + sum(half.values()) / 4
        scale = one_plus(perturb)

        def residual(  # type: ignore[no-untyped-def]
            S: frozenset[int], head=head, c=constant, b=single, pairs=half, scale=scale
        ) -> Fraction:
            fit = (
                c
                + sum((b[i] for i in S), F(0))
                + sum((x for (i, j), x in pairs.items() if {i, j} <= S), F(0))
            )
            return scale * fit - head.value(S)

        for T in [frozenset(), *(frozenset({i}) for i in range(N)), *map(frozenset, PAIRS)]:
            gaps.append(sum((residual(S) for S in everyone if T <= S), F(0)))
    return Outcome(worst(gaps), EXACT)
