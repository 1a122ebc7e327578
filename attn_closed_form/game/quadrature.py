"""Two quadrature rules with stated errors: one for 1/D, one for polynomials in p.

**The lambda rule.** 1/D = int_0^inf e^(-lam D) dlam turns a ratio of sums over players into products over players.
Substituting lam = exp(t - e^(-(t - t0))) / D_min and taking equal steps h in t gives nodes and weights with

    | D sum_l w_l e^(-lam_l D) - 1 | <= eps        for every D in [D_min, D_max].

Why, with R = D_max / D_min and t0 = 1/2 - ln R, an eps for each of three errors:
1. Steps. By Poisson's formula the trapezoid rule errs by the Fourier transform of the integrand at 2 pi k / h; the
   integrand is analytic for |Im t| < pi/2, so that is C exp(-pi^2 / h). C < 130 (largest over D and R: 110).
2. Right end. The nodes with lam D_min > cut add less than h cut e^(-cut) e^h.
3. Left end. Weights fall doubly exponentially; all that lie below w D_max = eps/16 add up to less than eps/4.
`tests/test_quadrature.py` measures the largest error for R from 1 to 1e30 and eps from 1e-3 to EPS_MIN.

A relative error eps of 1/D is a relative error eps of every coalition's value, so it moves no difference of two
mean values of f by more than 2 eps max|f|: that is what turns eps into a guarantee for Shapley values and the rest.

**The p rule.** Mean values under coin flips are polynomials in p, so Gauss-Legendre with ceil(d/2) nodes is exact for
Shapley values of d players. Far fewer serve: for a function bounded by M inside the Bernstein ellipse with
parameter rho = e^theta around [0, 1], m nodes err by at most (32/15) M e^(-2 m theta) / (1 - e^(-2 theta))
(Trefethen, Approximation Theory and Approximation Practice, theorem 19.3). `engine.py` supplies M.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .._types import Array

# Smallest eps that the lambda rule can keep in float64: its own sum of some hundred terms rounds at about 1e-15.
EPS_MIN = 2e-14
# Constant of the step error, see the module's head.
STEP_CONSTANT = 130.0
T0 = 0.5


class ToleranceError(ValueError):
    """The asked accuracy cannot be guaranteed in float64."""


def lambda_rule(log_range: float, eps: float) -> tuple[Array, Array]:
    """Logarithms of nodes and weights for 1/D with relative error at most `eps` for D in [1, exp(log_range)].

    Parameters
    ----------
    log_range : ln R, at least 0; huge ranges are fine, since everything stays in logs
    eps : wanted relative error, between EPS_MIN and 0.1

    Returns
    -------
    log_lam, log_w : (L,), lam ascending; for D in [D_min, R D_min] divide both by D_min

    Examples
    --------
    >>> log_lam, log_w = lambda_rule(np.log(10.0), 1e-12)
    >>> D = np.linspace(1.0, 10.0, 5)
    >>> error = D * np.exp(log_w - np.exp(log_lam) * D[:, None]).sum(axis=1) - 1
    >>> bool(np.abs(error).max() < 1e-12)
    True
    """
    if not EPS_MIN <= eps <= 0.1:
        raise ToleranceError(f"eps: expected a relative error between {EPS_MIN:g} and 0.1, got {eps:g}")
    if not (np.isfinite(log_range) and log_range >= 0):
        raise ValueError(f"log_range: expected a finite number >= 0, got {log_range}")
    # Rounded to the safe side, so that games of like range share a cached rule.
    return _lambda_rule(np.ceil(2 * log_range) / 2, 10 ** (np.floor(8 * np.log10(eps)) / 8))


@lru_cache(maxsize=512)
def _lambda_rule(log_range: float, eps: float) -> tuple[Array, Array]:
    h = np.pi**2 / np.log(2 * STEP_CONSTANT / eps)
    cut = np.log(8 / eps)
    cut += np.log(cut)  # so that h cut e^(-cut) stays below eps / 4
    t0 = T0 - log_range
    lowest = t0 - np.log(80.0 + np.log(1 / eps))
    t = np.arange(np.floor(lowest / h), np.ceil((np.log(cut) + 1.5) / h) + 1) * h
    squeeze = np.exp(-(t - t0))
    log_lam = t - squeeze
    log_w = np.log(h) + log_lam + np.log1p(squeeze)
    keep = (log_lam <= np.log(cut)) & (log_w + log_range >= np.log(eps / 16))
    nodes, weights = log_lam[keep], log_w[keep]
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


@lru_cache(maxsize=512)
def legendre_rule(m: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1], each (m,): exact for polynomials of degree below 2m.

    >>> p, w = legendre_rule(3)
    >>> bool(np.isclose(w @ p**5, 1 / 6))
    True
    """
    x, w = np.polynomial.legendre.leggauss(m)
    nodes, weights = (x + 1) / 2, w / 2
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def legendre_error(log_bound: Array, theta: Array, m: int) -> float:
    """Error of `legendre_rule(m)` for a function with modulus at most exp(log_bound) in the ellipses e^theta.

    >>> theta = np.array([1.0])
    >>> legendre_error(np.zeros(1), theta, 20) < 1e-15
    True
    """
    return float(np.exp(np.min(log_bound - 2 * m * theta + _log_factor(theta.tobytes()))))


def legendre_count(log_bound: Array, theta: Array, allowed: float) -> int:
    """Fewest nodes for which `legendre_error` is at most `allowed`.

    >>> legendre_count(np.zeros(2), np.array([0.5, 1.0]), 1e-10)
    12
    """
    needed = (log_bound + _log_factor(theta.tobytes()) - math.log(allowed)) / (2 * theta)
    return max(1, math.ceil(needed.min()))


@lru_cache(maxsize=16)
def _log_factor(theta: bytes) -> Array:
    """Log of (32/15) / (1 - e^(-2 theta))."""
    return np.log(32 / 15) - np.log1p(-np.exp(-2 * np.frombuffer(theta)))
