"""A rule in p for one lambda where every player is heavier when present: a few nodes, however many players there are.

For one node lam of the rule for 1/D, a coalition's term is a product over players, a factor E_k = e^(-lam gap_k) for
each that is present, times a numerator. Let t be the mean of the E_k, and A_m the mean of such a term h over the
coalitions of m present players. The wanted sum over sizes, with q_m = kernel / d, is sum_m q_m A_m = sum_m (q_m t^m)
(A_m / t^m).

**Tilting.** Dividing A_m by t^m turns every E_k into r_k = E_k / t, whose mean is 1. So the polynomial
h~(p) = sum_m C(d,m) p^m (1-p)^(d-m) A_m / t^m has factors 1 + p (r_k - 1), and for complex |p| <= rho

    |prod_k (1 + p (r_k - 1))| <= e^(S rho^2 / 2),    S = sum_k (r_k - 1)^2,

because log|1 + z| <= Re z + |z|^2 / 2 and the terms Re z add up to zero. Leaving out one factor costs at most e^(1/2).
With c_0 the background's mass, lo and hi = sum of hi_k E_k the players', and |value| <= B, both h and h 1{j present}
have

    |h~(p)| <= M(rho) = 2 e B e^(S rho^2/2) (c_0 + (1 + rho) lo + rho hi / t) max(1, rho max_k r_k),

so their Taylor coefficients are at most min over rho of M(rho) rho^-k. Where thousands of players are deleted, S rho^2
is small over the whole range of p that counts, and the coefficients fall so fast that ten of them do.

**The rule.** The weights q~_m = q_m t^m make the functional p^k -> mu_k = sum_m q~_m (m)_k / (d)_k (falling
factorials), a sum of positive terms. Its Gauss rule comes from its moments along the Jacobi polynomials for the weight
(1 - p)^beta with the same mean, which the functional turns into Hahn polynomials Q_n(m; 0, beta, d). Where there is
none, Gauss-Jacobi nodes and interpolatory weights serve. How well they were made does not matter: the finished rule is
compared with the mu_k,

    |error| <= sum_k |h~_k| (|mu_k - sum_i omega_i p_i^k| + its rounding).

Sizes beyond M are left out: by Maclaurin's inequality the mean of a product of m factors E_k is at most t^m.

**Back.** h~(p) = (1 - p + p/t)^d E_p'[h] with p' = (p/t) / (1 - p + p/t): a rule for p' with the ordinary engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..game.budget import FACTOR, PRECISE, ULP
from .gauss import gauss_rule
from .kernel import EXTENDED

# Most nodes that are tried, and Taylor coefficients that are looked at one by one beyond them.
MOST_NODES, BEYOND = 40, 40
# Nodes that interpolatory rules may have more than the degree that is asked for.
STEPS = (0, 2, 5, 9, 14)
# Beyond it the mean of p is next to nothing, and squares would leave float64.
LARGEST_BETA = 1e100
# Weights of both signs are no matter where sum |omega| p^k is at most this times sum omega p^k, k = 0, 1, 2. Elsewhere
# the rounding of what cancels counts as an error of the rule.
MIXED_SIGNS = 1.25


class TiltedTerm(NamedTuple):
    """What the bound needs of one lambda: masses in the units of the lambda rule, times its weight e^(-lam D_0)."""

    t: float  # mean of E_k
    S: float  # sum of (E_k / t - 1)^2
    largest: float  # max of E_k / t
    background: float  # c_0
    light: float  # sum of lo_k
    heavy: float  # sum of hi_k E_k
    B: float  # largest |value|


class TiltedRule(NamedTuple):
    """Nodes p, the probability of being present, and weights with the factor (1 - p + p/t)^d in logs; all (m,)."""

    p: Array
    weights: Array
    log_factor: Array


def tilted_rule(kernel_present: Array, term: TiltedTerm, allowed: float) -> TiltedRule | None:
    """The shortest rule found whose error is at most `allowed`, or None.

    Parameters
    ----------
    kernel_present : (d+1,) weight q_m of m = 0..d players present
    term : of one lambda
    allowed : largest error of a sum over sizes of q_m A_m

    Examples
    --------
    Equal players, whose A_m is known: E^m times a numerator m.

    >>> d, E = 5000, 0.7
    >>> q = np.full(d + 1, 1 / d)
    >>> rule = tilted_rule(q, TiltedTerm(E, 0.0, 1.0, 0.0, 0.0, d * E, 1.0), 1e-10)
    >>> numerator = d * rule.p * E / (1 - rule.p * (1 - E))
    >>> h = numerator * np.exp(rule.log_factor + d * np.log1p(-rule.p * (1 - E)))
    >>> m = np.arange(d + 1)
    >>> bool(abs(rule.weights @ h - q @ (m * E**m)) < 1e-10), rule.p.size < 6
    (True, True)
    """
    d = kernel_present.size - 1
    if _rest(d, term, float(kernel_present.max()), 0) <= allowed:  # nobody alone counts
        return TiltedRule(np.zeros(1), kernel_present[:1].copy(), np.zeros(1))
    M = _last_size(d, term, float(kernel_present.max()), allowed / 8)
    m = np.arange(M + 1)
    q = kernel_present[: M + 1] * np.exp(m * np.log(term.t))
    mu = _moments(q, d, min(d, MOST_NODES + BEYOND) + 1)
    taylor = np.exp(np.minimum(_log_taylor(term, mu.size, d), 600.0))
    left = np.cumsum((taylor * mu)[::-1])[::-1]
    fit = np.flatnonzero(4 * left <= allowed)
    degree = max(1, int(fit[0])) if fit.size else mu.size
    for p, omega in _rules(q, d, mu, degree):
        if _error(d, mu, taylor, term, p, omega, M / d) <= allowed * 7 / 8:
            tilt = p * (1 / term.t - 1)
            return TiltedRule((p / term.t) / (1 + tilt), omega, d * np.log1p(tilt))
    return None


def _last_size(d: int, term: TiltedTerm, most: float, allowed: float) -> int:
    """Fewest sizes M, or a few more, whose rest is allowed."""
    M = 1
    while d > M and _rest(d, term, most, M) > allowed:
        M = min(d, M + 1 + M // 8)
    return M


def _rest(d: int, term: TiltedTerm, most: float, M: int) -> float:
    """Bound of what sizes above M add: sum_{m>M} most B [(c_0 + lo) t^m + (m/d) hi t'^(m-1)], t' = t d/(d-1)."""
    t, near = term.t, term.t * d / max(d - 1, 1)
    if near >= 1 - 1e-12:
        return np.inf
    fixed = most * term.B * (term.background + term.light)
    moving = most * term.B * term.heavy / d
    return fixed * t ** (M + 1) / (1 - t) + moving * near**M * (M + 1 - M * near) / (1 - near) ** 2


def _moments(q: Array, d: int, count: int) -> Array:
    """mu_k = sum_m q_m (m)_k / (d)_k for k < count, each a sum of positive terms."""
    m = np.arange(q.size)
    mu, part = np.empty(count), q.copy()
    for k in range(count):
        mu[k] = part.sum()
        part *= np.maximum(m - k, 0) / max(d - k, 1)
    return mu


def _radius(term: TiltedTerm, k: NDArray[Any]) -> Array:
    """The radius that makes e^(S rho^2 / 2) rho^-k least, or a large one where S does not say."""
    return np.sqrt(np.maximum(k, 0.25) / max(term.S, 1e-6))


def _log_majorant(term: TiltedTerm, rho: Array, d: int) -> Array:
    """Log of M(rho); the terms Re z add up to zero but for rounding, d ulps of each."""
    growth = term.S * rho**2 / 2 + 4 * d * ULP * (1 + term.largest) * rho
    mass = term.background + (1 + rho) * term.light + rho * term.heavy / term.t
    with np.errstate(divide="ignore"):
        found: Array = np.log(2 * term.B) + 1 + growth + np.log(mass) + np.log(np.maximum(1.0, rho * term.largest))
    return found


def _log_taylor(term: TiltedTerm, count: int, d: int) -> Array:
    """Log of the bounds on |h~_k|, k < count."""
    k = np.arange(count)
    rho = _radius(term, k)
    rho[0] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return _log_majorant(term, rho, d) - np.where(k > 0, k * np.log(rho), 0.0)


def _error(d: int, mu: Array, taylor: Array, term: TiltedTerm, p: Array, omega: Array, last: float) -> float:
    """The bound of the module docstring, or inf where the rule is not to be trusted."""
    k = np.arange(mu.size)
    if not ((p > 0).all() and (p < 1).all()):
        return np.inf
    powers = p[:, None] ** k
    sums, sizes = omega @ powers, np.abs(omega) @ powers
    rounding = ULP * ((3 * k + 4 + 20) * mu + (k + p.size + 2) * sizes)
    found = float(taylor @ (np.abs(mu - sums) + rounding))
    if not (sizes[:3] <= MIXED_SIGNS * sums[:3]).all():
        found += ULP * (PRECISE + FACTOR * d) * float(taylor @ sizes)  # the rounding of terms that cancel
    # Beyond the last coefficient the terms fall at least geometrically.
    rho = float(_radius(term, k[-1:])[0])
    top = float(p.max()) / rho
    ratio = last / rho if mu[-1] > 0 else 0.0
    if not max(top, ratio) < 1:
        return np.inf
    return found + float(taylor[-1] * (mu[-1] * ratio / (1 - ratio) + sizes[-1] * top / (1 - top)))


def _rules(q: Array, d: int, mu: Array, degree: int) -> Iterator[tuple[Array, Array]]:
    """Rules to try, the shortest first, that are exact below `degree` or a little more: nodes p and weights.

    Gauss rules where there are any, else nodes of Gauss and Jacobi with interpolatory weights.
    """
    beta = max(0.0, float(mu[0] / mu[1]) - 2) if mu[1] > mu[0] / LARGEST_BETA else LARGEST_BETA
    first = min((degree + 1) // 2, MOST_NODES)
    count = max(2 * first + 4, min(degree + STEPS[-1], MOST_NODES))
    n = np.arange(count + 1.0)
    up = (n + beta + 1) * (n + 1) / ((2 * n + beta + 1) * (2 * n + beta + 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.where(n == 0, 0.0, n * (n + beta) / ((2 * n + beta) * (2 * n + beta + 1)))
    nu = _hahn_moments(q, d, beta, up, down, count)
    centre, product = up + down, np.concatenate([[0.0], up[:-1] * down[1:]])
    monic = nu * np.concatenate([[1.0], np.cumprod(-up[: count - 1])])
    for N in range(first, min(first + 2, count // 2) + 1):
        found = gauss_rule(monic, centre, product, N)
        if found is not None:
            yield found
    for N in (degree + more for more in STEPS if degree + more <= min(count, MOST_NODES)):
        side = np.sqrt(product[1:N])
        p, V = np.linalg.eigh(np.diag(centre[:N]) - np.diag(side, 1) - np.diag(side, -1))
        before, now, density, norm = 0 * p, 0 * p + 1, 0 * p, 1.0
        for i in range(N):
            density += nu[i] * now / norm
            before, now = now, ((up[i] + down[i] - p) * now - down[i] * before) / up[i]
            norm *= down[i + 1] / up[i]
        yield p, V[0] ** 2 * density


def _hahn_moments(q: Array, d: int, beta: float, up: Array, down: Array, count: int) -> Array:
    """Sums of q_m Q_n(m; 0, beta, d), n < count: what the functional makes of the Jacobi polynomials; 0 for n > d."""
    m: NDArray[Any] = np.arange(q.size).astype(EXTENDED)
    weights: NDArray[Any] = q.astype(EXTENDED)
    n = np.arange(up.size)
    climb, fall = up * (d - n), down * (n + beta + d + 1)
    before, now = 0 * m, 0 * m + 1
    nu = np.zeros(count)
    for i in range(min(count, d + 1)):
        nu[i] = float(weights @ now)
        if i < d:
            before, now = now, ((climb[i] + fall[i] - m) * now - fall[i] * before) / climb[i]
    return nu
