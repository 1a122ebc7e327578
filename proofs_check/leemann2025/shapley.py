"""P2, Appendix B.7, second half, and Appendix A: Shapley values of SLALOM.

They are checked against their definition, the mean marginal contribution over all orders of
arrival. The empty coalition of a SLALOM has no value by Eq. 4 (0/0); F(empty) = 0 is used unless a
check says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import comb

import numpy as np

from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    shapley_by_orders,
    slalom,
    slalom_game,
    subsets,
    worst,
)
from proofs_check.registry import CONDITION, CORRECTED, MISPRINT, WRONG, Outcome, statement
from proofs_check.tolerances import EXACT, SUMMATION

N = len(MASSES)

#: The smallest game in which the binomial of Eq. 66 differs from its inverse (comb(2, 1) = 2).
TINY = slalom_game((Fraction(1),) * 3, (Fraction(1), Fraction(0), Fraction(0)))


def _shapley_sum(
    weights: Sequence[Fraction], i: int, n: int, F: Callable[[Iterable[int]], Fraction]
) -> Fraction:
    """(1/n) sum over S without i of weights[|S|] (F(S + i) - F(S))."""
    others = [j for j in range(n) if j != i]
    return sum((weights[len(S)] * (F((*S, i)) - F(S)) for S in subsets(others)), Fraction(0)) / n


@statement(
    paper="P2",
    ref="Eq. 66",
    claim="the Shapley value as a weighted sum over coalitions",
    assumptions="a value for the empty coalition, which Eq. 4 does not give",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="phi(i) = (1/n) sum_S binom(n-1, |S|) (F(S + i) - F(S))",
    corrected=(
        "phi(i) = (1/n) sum_S binom(n-1, |S|)^(-1) (F(S + i) - F(S)), S over the subsets of [n] "
        "without i."
    ),
    consequence="With the binomial itself the values do not add up to F(all) - F(empty) from three "
    "tokens on. The inverse is missing in Eq. 67 and 68 as well.",
)
def eq_66(perturb: float = 0.0) -> Outcome:
    """Against the mean over all orders, n = 1 .. 4 with several values of the empty coalition."""
    right = []
    printed = []
    for n in range(1, N + 1):
        for empty in (Fraction(0), Fraction(2, 3)):
            game = slalom_game(MASSES[:n], VALUES[:n], empty)
            for i, phi in enumerate(shapley_by_orders(game, n)):
                binomials = [Fraction(comb(n - 1, k)) for k in range(n)]
                inverse = [(1 + Fraction(perturb)) / c for c in binomials]
                right.append(_shapley_sum(inverse, i, n, game) - phi)
                printed.append(_shapley_sum(binomials, i, n, game) - phi)
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "three tokens, s = 0, v = 1, 0, 0, F(empty) = 0, so F = 1/|S| if the first is in S and 0 "
        "else. phi(1) = (1/3)(1 + (1/2)(1/2 + 1/2) + 1/3) = 11/18; printed (1/3)(1 + 2 (1/2 + 1/2) "
        "+ 1/3) = 10/9.",
        detail="phi = (11/18, -5/36, -5/36) sums to F(all) = 1/3: "
        + str(shapley_by_orders(TINY, 3)),
    )


@statement(
    paper="P2",
    ref="Eq. 67-68",
    claim="F(S + i) - F(S) = alpha_i (v_i - F(S + i))/(1 - alpha_i)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed=(
        "with alpha_i, defined above Eq. 62 as the weight of token i in the whole sequence, for "
        "every S"
    ),
    corrected="alpha_i is the weight of i in the coalition, exp(s_i)/sum over S + i of exp(s_j), "
    "and S is not empty; the empty coalition contributes v_i - F(empty).",
    consequence="With the weight in the whole sequence only S = all others is right; with the "
    "weight in the coalition S = empty is 0/0.",
)
def eq_67_68(perturb: float = 0.0) -> Outcome:
    """Every i and every S of the four-token game; F(empty) = 2/3 for the empty one."""
    empty = Fraction(2, 3)
    game = slalom_game(MASSES, VALUES, empty)
    right = []
    printed = []
    for i, v in enumerate(VALUES):
        for S in subsets([j for j in range(N) if j != i]):
            larger = (*S, i)
            marginal = game(larger) - game(S)
            if not S:
                right.append((v - empty) - marginal)
                continue
            in_coalition = MASSES[i] / sum(MASSES[j] for j in larger)
            in_sequence = MASSES[i] / sum(MASSES)
            gap = v - game(larger)
            right.append(
                (1 + Fraction(perturb)) * in_coalition * gap / (1 - in_coalition) - marginal
            )
            printed.append(in_sequence * gap / (1 - in_sequence) - marginal)
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "three tokens, s = 0, v = 1, 0, 0, i = 1, S = {2}: F(12) - F(2) = 1/2. In the coalition "
        "alpha = 1/2: (1/2)(1 - 1/2)/(1/2) = 1/2. In the whole sequence alpha = 1/3: (1/3)(1 - "
        "1/2)/(2/3) = 1/4.",
    )


@statement(
    paper="P2",
    ref="Eq. 69",
    claim="the chain for the Shapley value ends in alpha_i (v_i - F(1))/(1 - alpha_i)",
    assumptions="two tokens or more",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=WRONG,
    printed="alpha_i (v_i - F(1))/(1 - alpha_i) as the last line of the chain for phi(i)",
    corrected="That expression is F(all) - F(all without i), the leave-one-out value: the term S = "
    "all others of Eq. 68.",
    consequence="Read as phi(i) it is not the Shapley value. On its own it is useful: "
    "leave-one-out costs O(1) a token.",
)
def eq_69(perturb: float = 0.0) -> Outcome:
    """Against leave-one-out (right) and against the Shapley value (printed)."""
    game = slalom_game(MASSES, VALUES)
    F = slalom(range(N), MASSES, VALUES)
    right = []
    printed = []
    for i, phi in enumerate(shapley_by_orders(game, N)):
        a = MASSES[i] / sum(MASSES)
        last_line = a * (VALUES[i] - F) / (1 - a)
        right.append(
            (1 + Fraction(perturb)) * last_line - (F - game([j for j in range(N) if j != i]))
        )
        printed.append(last_line - phi)
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "two tokens, s = 0, v = 1, 0, F(empty) = 0: Eq. 69 gives (1/2)(1 - 1/2)/(1/2) = 1/2 = "
        "F(12) - F(2) for the first; its Shapley value is (1 + 1/2)/2 = 3/4.",
    )


def shapley_by_integral(g: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Shapley values of SLALOM in polynomial time: 1/D = int exp(-lam D) dlam makes the sum over
    coalitions a product.

    phi_i = int_0^1 dp (E_p[f, i present] - E_p[f, i absent]), each other token present with
    probability p. Gauss-Legendre in p is exact with n/2 nodes (a polynomial of degree n - 1);
    trapezoidal rule in log lam.
    """
    n = len(g)
    nodes, weights = np.polynomial.legendre.leggauss(n // 2 + 1)
    x = np.arange(-46.0, 6.0, 0.04)
    lam = np.exp(x) / g.min()
    gone = np.exp(-np.outer(lam, g))
    phi = np.zeros(n)
    for p, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        factor = p * gone + 1 - p
        for i in range(n):
            others = np.arange(n) != i
            product = factor[:, others].prod(axis=1)
            rest = (p * g[others] * v[others] * gone[:, others] / factor[:, others]).sum(axis=1)
            integrand = product * (gone[:, i] * (g[i] * v[i] + rest) - rest)
            phi[i] += w * 0.04 * (integrand * lam).sum()
    return phi


def shapley_by_counting(g: Sequence[int], v: Sequence[int]) -> tuple[list[Fraction], int]:
    """Exact Shapley values for integer masses and values, and the number of table cells visited (no
    enumeration).

    Coalitions are grouped by size and total mass; a cell holds how many there are and the sum of
    their numerators.
    """
    n = len(g)
    phi = []
    visited = 0
    for i in range(n):
        table: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (1, 0)}
        for k in range(n):
            if k == i:
                continue
            grown = dict(table)
            for (size, mass), (count, top) in table.items():
                old = grown.get((size + 1, mass + g[k]), (0, 0))
                grown[size + 1, mass + g[k]] = (old[0] + count, old[1] + top + g[k] * v[k] * count)
            table = grown
            visited += len(table)
        total = Fraction(0)
        for (size, mass), (count, top) in table.items():
            marginal = Fraction(top + g[i] * v[i] * count, mass + g[i]) - (
                Fraction(top, mass) if mass else 0
            )
            total += marginal / comb(n - 1, size)
        phi.append(total / n)
    return phi, visited


@statement(
    paper="P2",
    ref="Below Eq. 69",
    claim="computing the Shapley values of a SLALOM remains usually intractable and needs sampling",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=WRONG,
    changes="The Shapley values of a SLALOM can be computed in polynomial time, without sampling.",
    printed=(
        "'computing this sum remains usually intractable, as the number of coalitions grows "
        "exponentially'"
    ),
    corrected="True of a general game, not of SLALOM. 1/D = int_0^inf exp(-lambda D) dlambda makes "
    "the sum over coalitions a product over tokens under a double integral; for integer masses a "
    "table of (size, mass) counts gives exact fractions.",
    consequence="Exact Shapley values of a fitted SLALOM cost O(n) an integrand evaluation, "
    "milliseconds for hundreds of tokens; no sampling is needed.",
)
def below_eq_69(perturb: float = 0.0) -> Outcome:
    """Integral and table against all orders (n = 6); the table at n = 24 against the integral and
    efficiency.
    """
    g: tuple[int, ...] = (3, 1, 2, 5, 1, 4)
    v: tuple[int, ...] = (1, -2, 0, 3, 4, -1)
    exact = shapley_by_orders(slalom_game([Fraction(x) for x in g], [Fraction(x) for x in v]), 6)
    table, _ = shapley_by_counting(g, v)
    scale = 1 + perturb
    differences: list[float] = [float(a - b) for a, b in zip(table, exact, strict=True)]
    differences += list(
        _minus(scale * shapley_by_integral(np.array(g, float), np.array(v, float)), exact)
    )
    n = 24
    g = tuple(1 + k % 3 for k in range(n))
    v = tuple(k * k % 7 - 3 for k in range(n))
    large, visited = shapley_by_counting(g, v)
    differences.append(
        float(sum(large) - slalom(range(n), [Fraction(x) for x in g], [Fraction(x) for x in v]))
    )
    differences += list(
        _minus(scale * shapley_by_integral(np.array(g, float), np.array(v, float)), large)
    )
    terms = n * 2 ** (n - 1)
    return Outcome(
        worst(differences),
        SUMMATION,
        terms / visited - 1,
        "two tokens, exp(s) = 1, 2, v = 1, 0: by enumeration phi(1) = (1 + 1/3)/2 = 2/3. For "
        "integer masses put x = e^-lambda, 1/D = int_0^1 x^(D-1) dx: phi(1) = int_0^1 dp int_0^1 "
        "dx (1 - p + p x^2) = int_0^1 (1 - p + p/3) dp = 2/3, one product over the other tokens "
        "under the integral instead of a sum over coalitions.",
        detail=f"n = {n}: exact fractions from {visited} table cells, where Eq. 66 has {terms} "
        "terms; printed_error is the excess of the second number over the first.",
    )


def _minus(numbers: np.ndarray, exact: Iterable[Fraction]) -> np.ndarray:
    return numbers - np.array([float(x) for x in exact])


@statement(
    paper="P2",
    ref="Fig. 7",
    claim="the Shapley values of a linear model are its weights, 1.5 for 'perfect' at every length",
    assumptions="absent tokens are deleted, F(empty) = b",
    method="exact rational enumeration",
)
def fig_7(perturb: float = 0.0) -> Outcome:
    """All orders, up to five copies of a token of weight 3/2, and mixed sequences."""
    differences = []
    for w in ([Fraction(3, 2)] * 5, [Fraction(3, 2), Fraction(-1), Fraction(0), Fraction(3, 5)]):
        for n in range(1, len(w) + 1):
            phi = shapley_by_orders(lambda S, w=w: Fraction(1, 3) + sum(w[j] for j in S), n)  # type: ignore[misc]
            differences += [a - (1 + Fraction(perturb)) * b for a, b in zip(phi, w, strict=False)]
    return Outcome(
        worst(differences),
        EXACT,
        detail="a SLALOM on k copies of tau has Shapley values v(tau)/k with F(empty) = 0: the "
        "shape of Figure 7's curves",
    )
