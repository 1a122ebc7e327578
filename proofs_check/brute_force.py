"""Enumeration over subsets in exact rational arithmetic, against which the statements of the papers
are checked.

`tests/proofs_check/test_against_the_core.py` compares the library's closed forms with it as well.

Plain loops over the 2^d subsets with ``fractions.Fraction``, in the papers' own indexing: words are
1, ..., d, positions 1, ..., T_max, and S is the set of *removed* words (P1, section 5.1). Nothing
here is fast, nothing is shared with the rest of the project, and there is nothing to import but the
standard library.

Symbols: xi[t] the word at position t (None: padding, which is never removed), g[t] and v[t] the
exponential of the attention logit and the value of the token there, g_h[t] and v_h[t] those of
[UNK] in its place (P1, Eq. 18 and 26). Position t is item t - 1 of a list.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Removed = frozenset[int]
Value = Callable[[Removed], Fraction]
Vector = list[Fraction]


def subsets(d: int) -> Iterator[Removed]:
    """All subsets of {1, ..., d}, the small ones first.

    Examples
    --------
    >>> [sorted(S) for S in subsets(2)]
    [[], [1], [2], [1, 2]]
    """
    for size in range(d + 1):
        for members in itertools.combinations(range(1, d + 1), size):
            yield frozenset(members)


def sampling_law(d: int) -> dict[Removed, Fraction]:
    """P(S) of P1, section 5.1: s uniform in {1, ..., d}, then S uniform among the subsets of size
    s.

    Examples
    --------
    >>> law = sampling_law(2)
    >>> law[frozenset({1})], law[frozenset({1, 2})], law.get(frozenset())
    (Fraction(1, 4), Fraction(1, 2), None)
    """
    return {S: Fraction(1, d * math.comb(d, len(S))) for S in subsets(d) if S}


def fixed_size_law(n: int, s: int) -> dict[Removed, Fraction]:
    """P_s(S) of P1, appendix D: S uniform among the subsets of {1, ..., n} of size s."""
    return {S: Fraction(1, math.comb(n, s)) for S in subsets(n) if len(S) == s}


def kept(word: int) -> Callable[[Removed], bool]:
    """The event that `word` is not removed.

    Examples
    --------
    >>> kept(1)(frozenset({2})), kept(1)(frozenset({1, 2}))
    (True, False)
    """
    return lambda S: word not in S


def probability(law: dict[Removed, Fraction], event: Callable[[Removed], bool]) -> Fraction:
    """P(event)."""
    return sum((p for S, p in law.items() if event(S)), Fraction(0))


def expectation(
    law: dict[Removed, Fraction], value: Value, given: Callable[[Removed], bool] = lambda S: True
) -> Fraction:
    """E[value(S) | given].

    Examples
    --------
    >>> expectation(sampling_law(3), lambda S: Fraction(len(S)))
    Fraction(2, 1)
    """
    total = sum((p * value(S) for S, p in law.items() if given(S)), Fraction(0))
    return total / probability(law, given)


def attention_value(
    S: Removed,
    xi: Sequence[int | None],
    g: Sequence[Fraction],
    v: Sequence[Fraction],
    g_h: Sequence[Fraction],
    v_h: Sequence[Fraction],
) -> Fraction:
    """f(X) = sum_t A_t V_t for one head (P1, Eq. 26 to 28), the words in S being replaced by [UNK].

    Examples
    --------
    >>> one, two = Fraction(1), Fraction(2)
    >>> attention_value(
    ...     frozenset({1}),
    ...     [1, 2, None],
    ...     [two, two, one],
    ...     [one, one, 0 * one],
    ...     [one] * 3,
    ...     [0 * one] * 3,
    ... )
    Fraction(1, 2)
    """
    numerator = Fraction(0)
    denominator = Fraction(0)
    for t in range(1, len(xi) + 1):
        removed = xi[t - 1] in S
        G = g_h[t - 1] if removed else g[t - 1]
        V = v_h[t - 1] if removed else v[t - 1]
        numerator += G * V
        denominator += G
    return numerator / denominator


def solve(matrix: Sequence[Vector], right: Vector) -> Vector:
    """Gauss-Jordan elimination, exact; raises ``ZeroDivisionError`` on a singular matrix.

    Examples
    --------
    >>> solve([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(3)]], [Fraction(3), Fraction(4)])
    [Fraction(1, 1), Fraction(1, 1)]
    """
    n = len(right)
    rows = [[*row, right[i]] for i, row in enumerate(matrix)]
    for column in range(n):
        pivot = next((i for i in range(column, n) if rows[i][column] != 0), None)
        if pivot is None:
            raise ZeroDivisionError(f"matrix is singular in column {column}")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        rows[column] = [entry / head for entry in rows[column]]
        for i in range(n):
            if i != column and rows[i][column] != 0:
                factor = rows[i][column]
                rows[i] = [
                    entry - factor * lead for entry, lead in zip(rows[i], rows[column], strict=True)
                ]
    return [row[n] for row in rows]


def lime_limit(
    d: int,
    value: Value,
    weight: Callable[[int], Fraction] = lambda s: Fraction(1),
    ridge: Fraction = Fraction(0),
    penalize_intercept: bool = False,
    intercept: bool = True,
    law: dict[Removed, Fraction] | None = None,
) -> Vector:
    """Minimizer of E[pi (f - beta_0 - beta.Z)^2] + ridge |beta|^2: P1, Eq. 16 over all samples at
    once.

    Parameters
    ----------
    weight : the kernel pi as a function of the number of removed words
    penalize_intercept : whether beta_0 is in the penalty
    intercept : False leaves beta_0 out of the model

    Returns
    -------
    [beta_0, beta_1, ..., beta_d]; beta_0 is 0 without intercept.

    Examples
    --------
    >>> lime_limit(3, lambda S: Fraction(2 if 1 not in S else 0))
    [Fraction(0, 1), Fraction(2, 1), Fraction(0, 1), Fraction(0, 1)]
    """
    columns = list(range(0 if intercept else 1, d + 1))
    gram = [[Fraction(0)] * len(columns) for _ in columns]
    right = [Fraction(0)] * len(columns)
    for S, p in (law or sampling_law(d)).items():
        z = [Fraction(1 if j == 0 or j not in S else 0) for j in columns]
        mass = p * weight(len(S))
        for a in range(len(columns)):
            right[a] += mass * z[a] * value(S)
            for b in range(len(columns)):
                gram[a][b] += mass * z[a] * z[b]
    for a, j in enumerate(columns):
        if j > 0 or penalize_intercept:
            gram[a][a] += ridge
    beta = solve(gram, right)
    return beta if intercept else [Fraction(0), *beta]


def shapley(d: int, value: Value) -> Vector:
    """Shapley values of the players 1, ..., d; `value` takes the set of *absent* players.

    Examples
    --------
    >>> shapley(2, lambda S: Fraction(3 if not S else 1 if S == {2} else 0))
    [Fraction(2, 1), Fraction(1, 1)]
    """
    phi = [Fraction(0)] * d
    for j in range(1, d + 1):
        for S in subsets(d):
            if j not in S:
                present_others = d - len(S) - 1
                share = Fraction(
                    math.factorial(present_others) * math.factorial(len(S)), math.factorial(d)
                )
                phi[j - 1] += share * (value(S) - value(S | {j}))
    return phi


def shapley_interaction(d: int, value: Value, i: int, j: int) -> Fraction:
    """Shapley interaction index of the players i and j; `value` takes the set of *absent* players.

    The mean over the sizes 0, ..., d - 2, and over all coalitions of that size without i and j, of
    what the two gain by joining together beyond what each gains alone.

    Examples
    --------
    >>> shapley_interaction(2, lambda S: Fraction(0 if S else 4), 1, 2)
    Fraction(4, 1)
    """
    total = Fraction(0)
    for S in subsets(d):
        if i not in S and j not in S:
            share = Fraction(1, (d - 1) * math.comb(d - 2, len(S)))
            total += share * (value(S) - value(S | {i}) - value(S | {j}) + value(S | {i, j}))
    return total


def banzhaf(d: int, value: Value) -> Vector:
    """Banzhaf values of the players 1, ..., d; `value` takes the set of *absent* players.

    Examples
    --------
    >>> banzhaf(2, lambda S: Fraction(0 if S else 4))
    [Fraction(2, 1), Fraction(2, 1)]
    """
    phi = [Fraction(0)] * d
    for j in range(1, d + 1):
        for S in subsets(d):
            if j not in S:
                phi[j - 1] += Fraction(1, 2 ** (d - 1)) * (value(S) - value(S | {j}))
    return phi
