"""Laws: linear functionals on functions of p, and the number of nodes that each needs for an
allowed error.

A mean over coalitions whose size is drawn from some law, then the coalition uniformly, is a
functional on polynomials in p, the probability that a player is present. Shapley values are int
Delta_j(p) dp, Banzhaf values Delta_j(1/2), Beta Shapley values an integral with a density, LIME's
moments a sum over sizes (`lime/moments.py`).

**Nodes.** Delta_j is a polynomial of degree d - 1, so Gauss-Legendre with ceil(d/2) nodes is exact.
Far fewer suffice: for a function bounded by M inside the Bernstein ellipse with parameter e^theta
around [0, 1], m nodes err by at most (32/15) M e^(-2 m theta) / (1 - e^(-2 theta)) (Trefethen,
Approximation Theory and Approximation Practice, theorem 19.3). `bounds.py` has M.

**Short intervals.** For real p a term of Delta_j or I_ij is at most e^LOG_OMITTED w e^(-lam D_0)
e^(-X) [ |n_0| + sum_k (x_k |A_k| + y_k |B_k|) ] with X = p sum_heavy g + (1 - p) sum_light g. If X
is above some tau the term cannot matter, so only an interval of p counts, on which 15 to 25 nodes
are enough for any d. Proofs: docs/theory/bounds-of-the-engine.md, "Laws".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ..._legendre import legendre_rule
from ..._types import Array, Ids, Masks
from .bounds import PLAYERS_OMITTED, THETA, TINY, Interval, TermSums, log_bound
from .rounding import DENSITY_FIXED_DEGREES, DENSITY_PER_DEGREE, LOG_DECAY_ROOM, MOST_NODES
from .terms import Terms

# Tuning: the share of a term's error for the part outside its interval; the rest is for the rule
# inside.
OUTSIDE = 0.125
# Leaving a player out of a product costs at most a factor e next to e^(-X).
LOG_OMITTED = PLAYERS_OMITTED + LOG_DECAY_ROOM
# Tuning: numbers of nodes for the terms of a linked game. They are few, because terms with equal
# numbers are computed together, and grow by a fifth, which wastes a tenth of the nodes on average
# (benchmarks/probability).
LINKED_COUNTS = np.array([3, 6, 9, 12, 15, 18, 22, 28, 40, 58, 70])


class Batch(NamedTuple):
    """Terms (indices into a chunk) with m nodes p and weights each, both (m, r), or (m, 1) if all
    have the same.
    """

    terms: Ids | slice
    p: Array
    weights: Array


class Nodes(Protocol):
    """Anything with nodes and weights for the terms of a game."""

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Return nodes and weights for which the total error of all terms of the game is at most
        `allowed`.

        With `differences`, they are for Delta_j and I_ij, otherwise for E_p[f].
        """
        ...


class Law(Nodes, Protocol):
    """A linear functional on functions of p."""

    @property
    def total(self) -> float:
        """The factor by which an error of every value at p is multiplied, at most."""
        ...

    @property
    def extra_ulps(self) -> float:
        """Relative error of the weights, in ulps, beyond that of a Gauss-Legendre rule."""
        ...

    def empty_mass(self, n: int) -> float:
        """Apply the law to (1 - p)^n, the probability that n other players are all absent."""
        ...


@dataclass(frozen=True)
class Point:
    """All weight at one p, strictly between 0 and 1."""

    p: float
    total: ClassVar[float] = 1.0
    extra_ulps: ClassVar[float] = 0.0

    def empty_mass(self, n: int) -> float:
        """Return (1 - p)^n."""
        return (1 - self.p) ** n

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Return one node, without error."""
        node = np.array([[self.p]])
        return [Batch(terms=slice(None), p=node, weights=np.ones((1, 1)))]


@dataclass(frozen=True)
class Density:
    """The density sum of c p^a (1-p)^b over `powers` = ((c, a, b), ...), integers, with respect to
    dp on [0, 1].

    `total` is the integral of its modulus. A density of degree n whose coefficients add up to C in
    modulus multiplies the bound M by at most C e^(n theta): n/2 more nodes and C times less allowed
    error make up for that.

    >>> Density(((1, 0, 0),)).empty_mass(3)  # int (1-p)^3 dp
    0.25
    """

    powers: tuple[tuple[int, int, int], ...]
    total: float = 1.0

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return max(a + b for _, a, b in self.powers)

    @property
    def extra_ulps(self) -> float:
        """Of a rounded p and of powers of p and 1 - p, relative to the sum of the moduli of the
        powers' integrals.
        """
        if self.degree == 0:
            return 0.0
        positive = tuple((abs(c), a, b) for c, a, b in self.powers)
        moduli = Density(positive).empty_mass(0)
        return DENSITY_PER_DEGREE * (self.degree + DENSITY_FIXED_DEGREES) * moduli / self.total

    def empty_mass(self, n: int) -> float:
        """Compute int rho (1 - p)^n dp, from int p^a (1-p)^b dp = 1 / ((a + b + 1) C(a + b, a)) in
        integers.
        """
        integrals = []
        for c, a, b in self.powers:
            degree = a + b + n
            integrals.append(c / ((degree + 1) * math.comb(degree, a)))
        return math.fsum(integrals)

    def at(self, p: Array) -> Array | float:
        """Return the density at nodes p."""
        return sum(float(c) * p**a * (1 - p) ** b for c, a, b in self.powers)

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Return Gauss-Legendre nodes on the interval of each term; see the module docstring."""
        sums = terms.sums
        size = sum(abs(c) for c, _, _ in self.powers)
        players = sums.players_heavy + sums.players_light
        degree = int(np.maximum.reduce(players))
        if differences:
            degree -= 1
        interval, counts = legendre_count(
            sums, degree, allowed=allowed / size, differences=differences
        )
        length = interval.last - interval.first
        matters = length > 0
        batches = []
        for m in np.unique(counts[matters]).tolist():
            chosen = np.flatnonzero((counts == m) & matters)
            which: Ids | slice = slice(None)
            if chosen.size < length.size:
                which = chosen
            x, w = legendre_rule(m + (self.degree + 1) // 2)
            p = length[which] * x[:, None]
            p += interval.first[which]
            weights = length[which] * w[:, None]
            if self.degree:
                weights *= self.at(p)
            for start in range(0, len(p), MOST_NODES):
                part = slice(start, start + MOST_NODES)
                batches.append(Batch(terms=which, p=p[part], weights=weights[part]))
        return batches


# The law of Shapley values: every size of a coalition is equally likely.
UNIFORM = Density(((1, 0, 0),))


def legendre_count(
    sums: TermSums, degree: int, allowed: float, differences: bool
) -> tuple[Interval, Ids]:
    """Return the interval of each term, and the (r,) numbers of nodes on it for polynomials of this
    degree.

    Terms of a chunk have the same number of nodes, the smallest for which their errors add up to no
    more than the allowed one. A linked game has many more terms, so there each term has as many as
    it needs, rounded up to one of LINKED_COUNTS.
    """
    r = sums.weight.size
    log_allowed = -math.inf
    if allowed > 0:
        log_allowed = math.log(allowed * sums.share / r)
    interval = relevant_interval(sums, log_allowed + math.log(OUTSIDE))
    length = interval.last - interval.first
    log_inside = log_allowed
    if float(np.minimum.reduce(length)) < 1:
        log_inside += math.log(1 - OUTSIDE)
    # Nodes for every theta: log of M times the factor of the theorem, over the allowed error,
    # divided by 2 theta.
    needed = log_bound(sums, interval, differences)
    needed += log_legendre_factor(THETA)
    log_length = np.log(np.maximum(length, TINY))
    needed += (log_length - log_inside)[:, None]
    needed /= 2 * THETA
    best = needed.argmin(axis=1)
    least = needed[np.arange(r), best]
    exact = degree // 2 + 1
    if sums.complex_sums is not None:
        return interval, _linked_counts(least, exact)
    rate = 2 * THETA[best]
    return interval, np.full(r, _common_count(least, rate, exact))


def _linked_counts(least: Array, exact: int) -> Ids:
    """Return at least `least` nodes for each term (r,), rounded up to one of LINKED_COUNTS, and at
    most `exact`.
    """
    place = np.searchsorted(LINKED_COUNTS, least)
    counts = LINKED_COUNTS[np.minimum(place, LINKED_COUNTS.size - 1)]
    counts = np.where(least > counts, exact, counts)
    return np.minimum(counts, exact)


def _common_count(least: Array, rate: Array, exact: int) -> int:
    """Return the smallest m for all terms, each of which would need `least` nodes (r,) alone.

    A term with m nodes makes e^(rate (least - m)) times its part: most make less, and others may
    make more.
    """
    r = least.size
    enough = min(float(np.maximum.reduce(least)), exact)
    m = int(min(max(math.ceil(enough), 1), exact))
    while m > 1:
        # Beyond e^50, no sum is small enough.
        exponent = np.minimum(rate * (least - (m - 1)), 50.0)
        parts = np.exp(exponent)
        if np.add.reduce(parts) > r:
            break
        m -= 1
    return m


def log_legendre_factor(theta: Array) -> Array:
    """Compute the log of (32/15) / (1 - e^(-2 theta))."""
    log_rest = np.log(-np.expm1(-2 * theta))
    return np.log(32 / 15) - log_rest


def relevant_interval(sums: TermSums, log_allowed: float) -> Interval:
    """Return the interval on which a term may exceed e^log_allowed (r,); see "Short intervals"
    above.
    """
    r = sums.weight.size
    whole = Interval(np.zeros(r), np.ones(r))
    largest_heavy = float(np.maximum.reduce(sums.heavy))
    largest_light = float(np.maximum.reduce(sums.light))
    # Tuning: a decay up to which no interval is shortened, because the whole of [0, 1] needs as few
    # nodes.
    short_decay = 16.0
    if max(largest_heavy, largest_light) <= short_decay:
        return whole
    size = sums.weight * (sums.background + sums.players)
    log_size = np.log(np.maximum(size, TINY))
    tau = np.maximum(log_size + (LOG_OMITTED - log_allowed), 0.0)
    # Tuning: an interval is shortened if a term decays by more than this multiple of tau; a hardly
    # shorter one saves no node.
    worth_cutting = 1.25
    # X is sums.light at p = 0 and sums.heavy at p = 1; it crosses tau where X(p) = light + p (heavy
    # - light).
    cut_last = sums.heavy > worth_cutting * tau
    cut_first = sums.light > worth_cutting * tau
    if not (cut_last | cut_first).any():
        return whole
    slope = sums.heavy - sums.light
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        crossing = (tau - sums.light) / slope
    first, last = whole
    # Tuning: shortest interval. Shorter ones would bring nodes so near to 0 or 1 that 1/Y
    # overflows.
    shortest_interval = 1e-6
    _clip(last, cut_last & (slope > 0), crossing, least=shortest_interval, most=1.0)
    _clip(first, cut_first & (slope < 0), crossing, least=0.0, most=1 - shortest_interval)
    nowhere = np.minimum(sums.heavy, sums.light) >= tau
    first[nowhere] = 0.0
    last[nowhere] = 0.0
    return Interval(first, last)


def _clip(end: Array, where: Masks, crossing: Array, least: float, most: float) -> None:
    """Move some ends of intervals to the crossing, within [least, most]."""
    end[where] = np.minimum(np.maximum(crossing[where], least), most)
