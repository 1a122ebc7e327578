"""Laws: linear functionals on functions of p, and the number of nodes that each needs for an allowed error.

A mean over coalitions whose size is drawn from some law, then the coalition uniformly, is a functional on polynomials
in p, the probability that a player is present. Shapley values are int Delta_j(p) dp, Banzhaf values Delta_j(1/2), Beta
Shapley values an integral with a density, LIME's moments a sum over sizes (`lime/moments.py`). A `Law` gives nodes and
weights for the terms of a game (`terms.py`), how much it multiplies an error by (`total`), and `alone(n)`, what it
makes of (1 - p)^n, the probability that n other players are all absent.

**Nodes.** Mean values under coin flips are polynomials in p, so Gauss-Legendre with ceil(d/2) nodes is exact for
Shapley values of d players. Far fewer suffice: for a function bounded by M inside the Bernstein ellipse with parameter
rho = e^theta around [0, 1], m nodes err by at most (32/15) M e^(-2 m theta) / (1 - e^(-2 theta)) (Trefethen,
Approximation Theory and Approximation Practice, theorem 19.3). `terms.py` supplies M. All terms of a chunk have the
same number of nodes, the smallest for which their errors add up to no more than the allowed one. A linked game has many
more terms, so there each term has as many nodes as it needs, rounded up to one of COUNTS.

**Densities.** A density of degree n whose coefficients add up to C in modulus multiplies M by at most C e^(n theta):
n/2 more nodes and C times less allowed error make up for that. Its rounding at rounded nodes is at most 4 (n + 4) ulps.

**Short intervals.** For real p a term of Delta_j or I_ij is at most e^LOG_LEFT_OUT w e^(-lam D_0) e^(-X) [ |n_0| +
sum_k (x_k |A_k| + y_k |B_k|) ] with X = p sum_heavy g + (1 - p) sum_light g. If X is above some tau the term cannot
matter, so only an interval of p counts, on which 15 to 25 Gauss-Legendre nodes are enough for any d. A term with X >
tau everywhere is left out. Proofs: docs/theory/bounds-of-the-engine.md, "Laws".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ..._legendre import legendre_rule
from ..._types import Array, Ids
from .terms import THETA, TINY, Interval, Terms, TermSums, log_bound

# Share of a term's error for the part outside its interval.
OUTSIDE = 0.125
LOG_OUTSIDE = math.log(OUTSIDE)
LOG_INSIDE = math.log(1 - OUTSIDE)
# Log of the factor for omitting three players from a product next to e^(-X), with a margin for the rounding of X.
LOG_LEFT_OUT = 3 + 1e-6
# Part of a term's decay beyond which its interval is shortened, and a decay up to which that is not looked into.
LONGER = 1.25
SHORT_DECAY = 16.0
# Shortest interval: shorter ones would bring nodes so near to 0 or 1 that 1/Y overflows.
SHORTEST = 1e-6
# Number of nodes of one batch, which, with the terms of a chunk, bounds the number of sequential additions.
MOST_NODES = 64
# Numbers of nodes for the terms of a linked game: few, because terms with equal numbers are computed together.
COUNTS = np.array([3, 6, 9, 12, 15, 18, 22, 28, 40, 58, 70])


class Batch(NamedTuple):
    """Terms (indices into a chunk) with m nodes p and weights each, both (m, r), or (m, 1) if all have the same."""

    terms: Ids | slice
    p: Array
    weights: Array


class Nodes(Protocol):
    """Anything with nodes and weights for the terms of a game."""

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Return nodes and weights for which the total error of all terms of the game is at most `allowed`.

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
    def rounding(self) -> float:
        """Relative error of the weights, in ulps, beyond that of a Gauss-Legendre rule."""
        ...

    def alone(self, n: int) -> float:
        """Apply the law to (1 - p)^n."""
        ...


@dataclass(frozen=True)
class Point:
    """All weight at one p, strictly between 0 and 1."""

    p: float
    total: ClassVar[float] = 1.0
    rounding: ClassVar[float] = 0.0

    def alone(self, n: int) -> float:
        """Return (1 - p)^n."""
        return (1 - self.p) ** n

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Return one node, without error."""
        return [Batch(slice(None), np.array([[self.p]]), np.ones((1, 1)))]


@dataclass(frozen=True)
class Density:
    """The density sum of c p^a (1-p)^b over `powers` = ((c, a, b), ...), integers, with respect to dp on [0, 1].

    `total` is the integral of its modulus.

    >>> Density(((1, 0, 0),)).alone(3)      # int (1-p)^3 dp
    0.25
    """

    powers: tuple[tuple[int, int, int], ...]
    total: float = 1.0

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return max(a + b for _, a, b in self.powers)

    @property
    def rounding(self) -> float:
        """Of a rounded p and of powers of p and 1 - p, relative to the sum of the moduli of the powers' integrals."""
        if self.degree == 0:
            return 0.0
        moduli = Density(tuple((abs(c), a, b) for c, a, b in self.powers)).alone(0)
        return 4.0 * (self.degree + 4) * moduli / self.total

    def alone(self, n: int) -> float:
        """Compute int rho (1 - p)^n dp, from int p^a (1-p)^b dp = 1 / ((a + b + 1) C(a + b, a)) in integers."""
        return math.fsum(c / ((a + b + n + 1) * math.comb(a + b + n, a)) for c, a, b in self.powers)

    def batches(self, terms: Terms, allowed: float, differences: bool = True) -> list[Batch]:
        """Use Gauss-Legendre nodes on the interval of each term; see the module docstring."""
        size = sum(abs(c) for c, _, _ in self.powers)
        degree = (
            int(np.maximum.reduce(terms.sums.players_heavy + terms.sums.players_light))
            - differences
        )
        interval, counts = legendre_count(terms.sums, degree, allowed / size, differences)
        length = interval.last - interval.first
        batches = []
        for m in np.unique(counts[length > 0]).tolist():
            here = np.flatnonzero((counts == m) & (length > 0))
            which: Ids | slice = here if here.size < length.size else slice(None)
            x, w = legendre_rule(m + (self.degree + 1) // 2)
            p = length[which] * x[:, None]
            p += interval.first[which]
            weights = length[which] * w[:, None]
            if self.degree:
                weights *= sum(float(c) * p**a * (1 - p) ** b for c, a, b in self.powers)
            parts = [slice(start, start + MOST_NODES) for start in range(0, len(p), MOST_NODES)]
            batches += [Batch(which, p[part], weights[part]) for part in parts]
        return batches


UNIFORM = Density(((1, 0, 0),))


def legendre_count(
    sums: TermSums, degree: int, allowed: float, differences: bool
) -> tuple[Interval, Ids]:
    """Return the interval of each term, and the (r,) numbers of nodes on it for polynomials of this degree."""
    r = sums.weight.size
    if allowed > 0:
        log_allowed = math.log(allowed * sums.share / r)
    else:
        log_allowed = -math.inf
    interval = relevant_interval(sums, log_allowed + LOG_OUTSIDE)
    length = interval.last - interval.first
    log_inside = log_allowed + (LOG_INSIDE if float(np.minimum.reduce(length)) < 1 else 0.0)
    needed = log_bound(sums, interval, differences)
    needed += log_legendre_factor(THETA)
    needed += (np.log(np.maximum(length, TINY)) - log_inside)[:, None]
    needed /= 2 * THETA
    best = needed.argmin(axis=1)
    least = needed[np.arange(r), best]
    rate = 2 * THETA[best]
    exact = degree // 2 + 1
    if sums.turn is not None:
        counts = COUNTS[np.minimum(np.searchsorted(COUNTS, least), COUNTS.size - 1)]
        return interval, np.minimum(np.where(least > counts, exact, counts), exact)
    m = int(min(max(math.ceil(min(float(np.maximum.reduce(least)), exact)), 1), exact))
    # A term with m nodes makes e^(rate (least - m)) times its part: most make less, and others may make more.
    while m > 1 and np.add.reduce(np.exp(np.minimum(rate * (least - (m - 1)), 50.0))) <= r:
        m -= 1
    return interval, np.full(r, m)


def relevant_interval(sums: TermSums, log_allowed: float) -> Interval:
    """Return the interval on which a term may exceed e^log_allowed (r,); see "Short intervals" above."""
    if (
        max(float(np.maximum.reduce(sums.heavy)), float(np.maximum.reduce(sums.light)))
        <= SHORT_DECAY
    ):
        return Interval(np.zeros(sums.weight.size), np.ones(sums.weight.size))
    size = np.log(np.maximum(sums.weight * (sums.background + sums.players), TINY))
    tau = np.maximum(size + (LOG_LEFT_OUT - log_allowed), 0.0)
    # An interval that is hardly shorter saves nothing.
    if not (np.maximum(sums.heavy, sums.light) > LONGER * tau).any():
        return Interval(np.zeros(tau.size), np.ones(tau.size))
    first = np.zeros(tau.size)
    last = np.ones(tau.size)
    slope = sums.heavy - sums.light
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cross = (tau - sums.light) / slope
    for end, beyond, limits in (
        (last, sums.heavy, (SHORTEST, 1.0)),
        (first, sums.light, (0.0, 1 - SHORTEST)),
    ):
        cut = beyond > LONGER * tau
        if cut.any():
            cut &= slope > 0 if end is last else slope < 0
            end[cut] = np.minimum(np.maximum(cross[cut], limits[0]), limits[1])
    nowhere = np.minimum(sums.heavy, sums.light) >= tau
    if nowhere.any():
        first[nowhere] = last[nowhere] = 0.0
    return Interval(first, last)


def log_legendre_factor(theta: Array) -> Array:
    """Compute the log of (32/15) / (1 - e^(-2 theta))."""
    return np.log(32 / 15) - np.log(-np.expm1(-2 * theta))
