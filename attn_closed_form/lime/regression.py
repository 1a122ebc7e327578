"""The part of LIME's limit that does not depend on the model: a weighted ridge regression on random
subsets.

Let W_j = 1 if player j is *absent*, W_bar the mean of all W_j, and q_s the weight of the samples in
which s of d players are absent: the document itself has q_0 = 1/n and s = 1..d has q_s = (n-1)/(n
d) pi(s), `kernel.py`. With rho = ridge/n,

    A = sum q_s,   w = sum q_s s/d / A,   B = sum q_s s(d-s) / (d(d-1)),   V = sum q_s (s/d - w)^2,

and f' = f - f(all), so that the row of the document adds nothing to any moment of f',

    mean = E[pi f'],   shared = E[pi (W_bar - w) f'],   individual_j = E[pi (W_j - W_bar) f'].

Symmetry leaves a matrix a I + b 11^T to invert. On k features (k = d: all of them), m the mean of
their individual_j,

    slope  = (shared + m) / (k V + (1 - k/d) B + rho),
    coef_j = -(individual_j - m) / (B + rho) - slope,
    intercept = f(all) + mean / A + (1 - w) k slope.

This is the formula of the lime package's normal equations in terms of Z_j = 1 - W_j, written so
that no small number is the difference of large ones. Why that matters: for a narrow kernel all q_s
but q_0 are tiny, and so is everything that decides the coefficients. Here every sum is over s >= 1
alone, and all weights are divided by pi(1), which cancels in the coefficients: a narrow kernel is
as easy as a wide one, and its limit, leave-one-out, is found. Moments have the constant of f
subtracted and are in units of a power of two, so large constants and tiny values cost no digits.

Weights beyond float64, and the rounding that `extra_ulps` has: docs/theory/rules-in-p.md, "The
regression".
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..game.engine.budget import finite
from ..game.engine.rounding import LIME_GRAND, LIME_MEAN_SIZE, LIME_SUMS
from .kernel import LARGEST_EXPONENT, LOG_BITS, WIDE, LimeSettings, log_kernel, relative_kernel


class Known(NamedTuple):
    """Values of f that need no sums over coalitions."""

    above: float  # f(all) - base, in units of 2^exponent
    nobody: float  # f(empty) minus the value that the engine uses, in units of 2^exponent
    base: float  # the constant, as it is
    exponent: int


class Moments(NamedTuple):
    """The moments of f' = f - f(all) that decide the coefficients, in the units of `known`."""

    mean: float
    shared: float
    individual: Array  # (d,), adds up to zero
    known: Known


class Regression(NamedTuple):
    """Weights of the sizes in units of pi(1), and derived quantities for k features of d."""

    drawn: Array  # (d+1,) q_s of the samples that are drawn; drawn[0] = 0
    level: float  # their sum
    balance: float  # the sum of drawn * deviation
    deviation: Array  # (d+1,) s/d - w
    total: float  # A
    absent_share: float  # w
    individual_denominator: float  # B + rho
    shared_denominator: float  # k V + (1 - k/d) B + rho
    k: int
    at_all: float  # pi(0), the weight of the grand coalition in a rule in p
    offset: float  # sum of q_s |s - s_0| / d, which the rounding of w is relative to

    @property
    def d(self) -> int:
        """Number of players."""
        return self.drawn.size - 1

    def solve(self, moments: Moments, chosen: NDArray[np.intp]) -> tuple[Array, float]:
        """Return the coefficients of the k chosen features and the intercept."""
        individual = moments.individual[chosen]
        middle = 0.0
        if self.k < self.d:
            middle = float(individual.mean())
        slope = (moments.shared + middle) / self.shared_denominator
        coef = -((individual - middle) / self.individual_denominator + slope)
        known = moments.known
        present_share = 1 - self.absent_share
        of_players = present_share * self.k * slope
        excess = known.above + moments.mean / self.total + of_players
        with np.errstate(over="ignore", invalid="ignore"):
            coef = np.ldexp(coef, known.exponent)
            intercept = known.base + np.ldexp(excess, known.exponent)
        return finite(coef), float(finite(intercept))

    def value_factor(self, weights: Array | None = None) -> float:
        """Return the largest factor from an error of every coalition's f' to one of a coefficient
        or the intercept.

        `weights` (d+1,) are the weights of the sizes in the sums, by default `drawn`.
        """
        if weights is None:
            q = self.drawn
        else:
            q = weights
        absent = np.arange(self.d + 1) / self.d
        # E|W_j - W_bar| given s, and E|mean of the chosen W - w|, or a bound of it.
        differ = 2 * absent * (1 - absent)
        individual = differ * self.d / max(self.d - 1, 1)
        shared = np.abs(self.deviation)
        if self.k < self.d:
            present_share = 1 - self.absent_share
            shared = (1 - absent) * self.absent_share + absent * present_share
        slope = float(q @ shared) / self.shared_denominator
        of_mean = float(q.sum())
        of_individual = float(q @ individual)
        return self._propagated(of_mean, slope, of_individual)

    def extra_ulps(self, factor: float, at_all: float) -> float:
        """Return the rounding bound of f(all) and of the regression, in ulps of the spread of f,
        for `budget`.

        `factor` is what `budget` multiplies errors of values by, and `at_all` the weight of f(all)
        that is in the sums over f and has to be taken off.
        """
        of_grand = self.grand_factor(at_all)
        mean_offset = self.offset * self.level / self.total
        slope_of_size = mean_offset / self.shared_denominator
        of_mean_size = self._propagated(0.0, slope_of_size)
        return LIME_SUMS + (LIME_GRAND * of_grand + LIME_MEAN_SIZE * of_mean_size) / factor

    def grand_factor(self, at_all: float) -> float:
        """Return the largest factor from an error of f(all) to one of a coefficient or the
        intercept.
        """
        slope = abs(self.absent_share * at_all - self.balance) / self.shared_denominator
        # f(all) is in the intercept itself, too.
        mean = self.total + at_all + self.level
        return self._propagated(mean, slope)

    def nobody_factor(self) -> float:
        """Return the largest factor from a change of f(empty) to one of a coefficient or the
        intercept.
        """
        weight = float(self.drawn[-1])
        moment = weight * float(self.deviation[-1]) + self.offset * (weight / self.total)
        return self._propagated(weight, moment / self.shared_denominator)

    def moment_factor(self) -> float:
        """Return the factor from independent errors of E[pi f'] and every E[pi (1 - W_j) f'] to
        those of the result.
        """
        return self.rounding_factor(1.0, 2 - self.absent_share, 2.0)

    def rounding_factor(self, mean: float, shared: float, individual: float) -> float:
        """Return the factor from a relative error of every value to the result, given the factors
        of the moments.
        """
        # The mean of the chosen `individual` is 0 if all are chosen.
        middle = 0.0
        if self.k < self.d:
            middle = individual
        slope = (shared + middle) / self.shared_denominator
        return self._propagated(mean, slope, individual)

    def _propagated(self, mean: float, slope: float, individual: float = 0.0) -> float:
        """Return the larger error of a coefficient and of the intercept, given those of the three
        moments.
        """
        coef = individual / self.individual_denominator + slope
        present_share = 1 - self.absent_share
        intercept = mean / self.total + present_share * self.k * slope
        return max(coef, intercept)


@lru_cache(maxsize=512)
def regression(d: int, settings: LimeSettings, k: int) -> Regression:
    """Return the regression on k of d features.

    >>> fit = regression(2, LimeSettings(25.0, 1.0, 5000), 2)
    >>> fit.drawn.round(2), round(fit.absent_share, 3)
    (array([0., 1., 0.]), 0.5)
    """
    weights = weights_of(d, settings)
    s = np.arange(d + 1)
    drawn = weights.drawn
    q = drawn.copy()
    q[0] = weights.document
    total = math.fsum(q)
    heaviest = int(np.argmax(q))
    offset = s - heaviest
    middle = math.fsum(q * offset) / total
    deviation = (offset - middle) / d
    V = math.fsum(q * deviation**2)
    if d > 1:
        B = math.fsum(q * (s * (d - s))) / (d * (d - 1))
    else:
        B = V
    drawn.flags.writeable = deviation.flags.writeable = False
    return Regression(
        drawn=drawn,
        level=math.fsum(drawn),
        balance=math.fsum(drawn * deviation),
        deviation=deviation,
        total=total,
        absent_share=(heaviest + middle) / d,
        individual_denominator=B + weights.penalty,
        shared_denominator=k * V + (1 - k / d) * B + weights.shared_penalty,
        k=k,
        at_all=weights.at_all,
        offset=float((q * np.abs(offset)).sum()) / d,
    )


class Weights(NamedTuple):
    """Weights in units of pi(1)."""

    drawn: Array  # (d+1,) q_s of the samples that are drawn
    at_all: float  # pi(0)
    document: float  # q_0
    penalty: float  # rho as it is added to B
    shared_penalty: float  # rho as it is added to V


def weights_of(d: int, settings: LimeSettings) -> Weights:
    """Return the weights of the samples with s of d players absent."""
    width, ridge, n = settings
    drawn = relative_kernel(d, width).copy()
    at_all = float(drawn[0])
    drawn[0] = 0.0
    with localcontext(WIDE):
        logs = log_kernel(d, width)[:3]
        pi = [(Decimal(log) / (1 << LOG_BITS)).exp() for log in logs]
        # q_0 / q_1 = (1/n) / ((n-1)/(n d) pi(1)), for n to infinity 0.
        document = Decimal(0)
        if n:
            document = Decimal(d) / (n - 1) / pi[1]
        largest = Decimal(LARGEST_EXPONENT).exp()
        # If q_0 and q_2 are both below e^-600, slopes depend on their ratio alone, so both are
        # multiplied by the same number.
        lift = Decimal(1)
        if d > 1:
            top = max(document, pi[2] / pi[1])
            if top * largest < 1:
                lift = 1 / (top * largest)
                drawn[2:] = 0.0
                drawn[2] = float(pi[2] / pi[1] * lift)
        penalty = document * Decimal(ridge)
        return Weights(
            drawn=drawn,
            at_all=at_all,
            document=float(min(document * lift, largest)),
            penalty=float(min(penalty, largest)),
            shared_penalty=float(min(document * lift * Decimal(ridge), largest)),
        )
