"""Small pooled games with rational masses, and their values by definition; nothing of the core is
imported.

A head is a list of (a, v, b, w): mass and value of each player when present, and when absent; and a
background (c, u).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import comb, factorial
from typing import NamedTuple

F = Fraction
Coalition = frozenset[int]
Value = Callable[[Coalition], Fraction]
ZERO = F(0)


class Player(NamedTuple):
    """Mass and value when present, mass and value when absent."""

    a: Fraction
    v: Fraction
    b: Fraction
    w: Fraction


class Head(NamedTuple):
    """Players and background (mass, value)."""

    players: tuple[Player, ...]
    c: Fraction
    u: Fraction

    def terms(self, S: Coalition, theta: Fraction = ZERO) -> tuple[Fraction, Fraction]:
        """Numerator less theta times the denominator, and the denominator, of a coalition."""
        N = self.c * (self.u - theta)
        D = self.c
        for j, p in enumerate(self.players):
            mass, value = (p.a, p.v) if j in S else (p.b, p.w)
            N = N + mass * (value - theta)
            D = D + mass
        return N, D

    def value(self, S: Coalition) -> Fraction:
        """The pooled mean of a coalition."""
        N, D = self.terms(S)
        return N / D


#: Five players, replaced when absent: masses and values without any pattern.
REPLACED = Head(
    (
        Player(F(3, 2), F(1), F(1, 3), F(-1, 2)),
        Player(F(2, 5), F(-2), F(1), F(1, 4)),
        Player(F(1), F(3, 2), F(2), F(0)),
        Player(F(7, 3), F(-1, 2), F(1, 2), F(1)),
        Player(F(1, 4), F(4), F(3, 4), F(-1)),
    ),
    F(1, 2),
    F(1, 3),
)
#: The same players deleted when absent, with and without a background.
DELETED = Head(tuple(Player(p.a, p.v, F(0), F(0)) for p in REPLACED.players), F(1, 2), F(1, 3))
#: A second head that nearly agrees with the first.
SECOND = Head(
    tuple(
        Player(p.a + F(k, 10), p.v - F(k, 8), p.b, p.w + F(1, 9))
        for k, p in enumerate(REPLACED.players)
    ),
    F(2, 3),
    F(1, 5),
)
N = len(REPLACED.players)
HEADS = (REPLACED, DELETED, SECOND)
THRESHOLDS = (F(-3, 4), F(-1, 5), F(0), F(2, 7), F(3, 4))
GROUPS = ((0, 3), (1,), (2, 4))


def coalitions(players: Sequence[int]) -> Iterator[Coalition]:
    """Every subset."""
    for k in range(len(players) + 1):
        for S in itertools.combinations(players, k):
            yield frozenset(S)


def others(*without: int) -> list[int]:
    """The players but those."""
    return [j for j in range(N) if j not in without]


def change(f: Value, S: Coalition, *players: int) -> Fraction:
    """First difference of f in one player, second difference in two, at the coalition S."""
    total = F(0)
    for T in coalitions(players):
        total += (-1) ** (len(players) - len(T)) * f(S | T)
    return total


def beta(a: int, b: int) -> Fraction:
    """int_0^1 p^(a-1) (1-p)^(b-1) dp for whole a, b."""
    return F(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))


def integral(f: Value, players: Sequence[int], density: Callable[[int, int], Fraction]) -> Fraction:
    """The integral of rho(p) E_p[difference], with density(s, r) = int rho(p) p^s (1-p)^r dp, r
    others absent.
    """
    rest = others(*players)
    total = F(0)
    for S in coalitions(rest):
        total += density(len(S), len(rest) - len(S)) * change(f, S, *players)
    return total


def by_orders(f: Value, orders: Iterator[tuple[int, ...]]) -> list[Fraction]:
    """Mean change that each player makes over orders of arrival."""
    total = [F(0)] * N
    count = 0
    for order in orders:
        here: Coalition = frozenset()
        for j in order:
            total[j] += f(here | {j}) - f(here)
            here |= {j}
        count += 1
    return [x / count for x in total]


def orders_by_group() -> Iterator[tuple[int, ...]]:
    """The orders in which the members of a group come one after another."""
    for arrival in itertools.permutations(GROUPS):
        for within in itertools.product(*(itertools.permutations(group) for group in arrival)):
            yield tuple(itertools.chain(*within))


def moebius(f: Value) -> dict[Coalition, Fraction]:
    """m(T) with f(S) the sum of m(T) over T in S."""
    return {T: change(f, frozenset(), *T) for T in coalitions(range(N))}


def size_law(n: int, s: int) -> Fraction:
    """One over the number of coalitions of s among n."""
    return F(1, comb(n, s))
