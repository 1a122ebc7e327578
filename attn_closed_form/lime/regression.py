"""The part of LIME's limit that does not depend on the model: a weighted ridge regression on random subsets.

Let W_j = 1 if player j is *absent*, W_bar the mean of all W_j, and q_s the weight of the samples in which s of d
players are absent: the document itself has q_0 = 1/n and s = 1..d has q_s = (n-1)/(n d) pi(s), `kernel.py`. With rho =
ridge/n,

    A = sum q_s,   w = sum q_s s/d / A,   B = sum q_s s(d-s) / (d(d-1)),   V = sum q_s (s/d - w)^2,

and f' = f - f(everyone), so that the document's own row adds nothing to any moment of f',

    mean = E[pi f'],   shared = E[pi (W_bar - w) f'],   individual_j = E[pi (W_j - W_bar) f'].

Symmetry leaves a matrix a I + b 11^T to invert. On k features (k = d: all of them), m the mean of their individual_j,

    slope  = (shared + m) / (k V + (1 - k/d) B + rho),
    coef_j = -(individual_j - m) / (B + rho) - slope,      intercept = f(everyone) + mean / A + (1 - w) k slope.

This is the formula of the lime package's normal equations in terms of Z_j = 1 - W_j, written so that no small number is
the difference of large ones. Why that matters: for a narrow kernel all q_s but q_0 are tiny, and so is everything that
decides the coefficients. Here every sum is over s >= 1 alone, and all weights are divided by pi(1), which cancels in
the coefficients: a narrow kernel is no harder than a wide one, and its limit, leave-one-out, is found.

w and V are taken about the size with the largest weight. Each is then wrong by a few ulps of a sum of q_s |s - s_0|,
which is at most the sum of q_s (s - s_0)^2 that V is made of, as sizes are whole numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .kernel import Settings, log_kernel

# Exponent beyond which the weight of the document over pi(1) counts as infinite: e^-600 is no digit of anything.
LARGEST_EXPONENT = 600.0


class Moments(NamedTuple):
    """The moments of f' = f - f(everyone) that decide the coefficients; see the module docstring."""

    mean: float
    shared: float
    individual: Array  # (d,), adds up to zero
    everyone: float  # f(everyone)


class Regression(NamedTuple):
    """Weights of the sizes in units of pi(1), and what follows from them for k features of d."""

    drawn: Array  # (d+1,) q_s of the samples that are drawn; drawn[0] = 0
    document: float  # q_0
    deviation: Array  # (d+1,) s/d - w
    total: float  # A
    absent_share: float  # w
    individual_denominator: float  # B + rho
    shared_denominator: float  # k V + (1 - k/d) B + rho
    k: int
    log_unit: float  # log pi(1), in whose units all weights are

    @property
    def d(self) -> int:
        """Number of players."""
        return self.drawn.size - 1

    def solve(self, moments: Moments, chosen: NDArray[np.intp]) -> tuple[Array, float]:
        """Coefficients of the k chosen features and the intercept."""
        individual = moments.individual[chosen]
        middle = float(individual.mean()) if self.k < self.d else 0.0
        slope = (moments.shared + middle) / self.shared_denominator
        coef = -((individual - middle) / self.individual_denominator + slope)
        intercept = moments.everyone + moments.mean / self.total + (1 - self.absent_share) * self.k * slope
        return coef, float(intercept)

    def value_factor(self, weights: Array | None = None) -> float:
        """What an error of every coalition's f' is multiplied by, at most, in a coefficient or the intercept.

        Parameters
        ----------
        weights : (d+1,) weights with which the values are summed, `drawn` by default
        """
        q = self.drawn if weights is None else weights
        absent = np.arange(self.d + 1) / self.d
        # E|W_j - W_bar| given s, and E|mean of the chosen W - w|, or a bound of it.
        individual = 2 * absent * (1 - absent) * self.d / max(self.d - 1, 1)
        shared = np.abs(self.deviation)
        if self.k < self.d:
            shared = (1 - absent) * self.absent_share + absent * (1 - self.absent_share)
        coef = individual / self.individual_denominator + shared / self.shared_denominator
        intercept = 1 / self.total + (1 - self.absent_share) * self.k * shared / self.shared_denominator
        return float(max(q @ coef, q @ intercept))

    def moment_factor(self) -> float:
        """What errors of E[pi f'] and of every E[pi Z_j f'], Z_j = 1 - W_j, that share nothing are multiplied by."""
        slope = (2 - self.absent_share + (0 if self.k == self.d else 2)) / self.shared_denominator
        return max(2 / self.individual_denominator + slope, self._through_slope(1.0, slope))

    def rounding_factor(self, mean: float, shared: float, individual: float) -> float:
        """What a relative error of every value is multiplied by, given what it is multiplied by in each moment."""
        slope = (shared + (0 if self.k == self.d else individual)) / self.shared_denominator
        return max(individual / self.individual_denominator + slope, self._through_slope(mean, slope))

    def _through_slope(self, mean: float, slope: float) -> float:
        """Error of the intercept from one of `mean` and one of the slope."""
        return mean / self.total + (1 - self.absent_share) * self.k * slope


@lru_cache(maxsize=512)
def regression(d: int, settings: Settings, k: int) -> Regression:
    """The regression on k of d features.

    >>> found = regression(2, Settings(25.0, 1.0, 5000), 2)
    >>> found.drawn.round(2), round(found.absent_share, 3)
    (array([0., 1., 0.]), 0.5)
    """
    width, ridge, n = settings
    log_pi = log_kernel(d, width)
    drawn = np.zeros(d + 1)
    drawn[1:] = np.exp(log_pi[1:] - log_pi[1])
    document = rho = 0.0
    if n is not None:
        # In units of (n-1)/(n d) pi(1).
        unit = d / (n - 1) * float(np.exp(min(-log_pi[1], LARGEST_EXPONENT)))
        document, rho = unit, ridge * unit
    s = np.arange(d + 1)
    q = drawn.copy()
    q[0] = document
    total = float(q.sum())
    offset = s - int(np.argmax(q))
    middle = float(q @ offset) / total
    deviation = (offset - middle) / d
    V = float(q @ deviation**2)
    B = float(q @ (s * (d - s))) / (d * (d - 1)) if d > 1 else 0.0
    shared = k * V + (1 - k / d) * B + rho
    individual = B + rho if d > 1 else shared
    if not (individual > 0 and shared > 0):
        raise ValueError(
            f"kernel_width: {width:g} gives all samples but those with one player absent a weight of zero, so the "
            "coefficients are not determined; expected a wider kernel, or num_samples and not None"
        )
    drawn.flags.writeable = deviation.flags.writeable = False
    absent_share = (int(np.argmax(q)) + middle) / d
    return Regression(drawn, document, deviation, total, absent_share, individual, shared, k, float(log_pi[1]))
