"""Rules in p for LIME's kernel: a few nodes replace the sum over sizes, with a proved error.

E_p[h], the mean of a function h of coalitions when every player is present with probability p, is a polynomial in p of
degree d at most. A weight q_m on the number m of present players turns it into the linear functional Lambda = sum_m q_m
E[h | m present]. `docs/theory/rules-in-p.md` has the proofs of what follows.

- `size_moments`: nu_n = Lambda[P_n(1 - 2p)] = sum_m q_m Q_n(m), P_n Legendre and Q_n Hahn polynomials, and |r|, the
  norm of what is left of q beyond the last of them; all in integers.
- `ladder`: nodes and weights with the first moments of q = `relative_kernel`, which serve every term. With |E_p[h]|
  <= M on the Bernstein ellipse e^theta, and <= B on [0, 1], the error is at most sum_{n<=d} c_n delta_n,

      c_n = min(sqrt(2(2n+1)) M e^(-n theta) / (1 - e^(-2 theta)), sqrt(2n+1) B),
      delta_n = |nu_n - sum_i omega_i P_n(1 - 2p_i)|, or at most sum|omega| + |r| |Q_n| beyond the last moment.

- `tilted_rule`: a rule for one term, a product of E_k = e^(-lam gap_k) times a numerator, where every player is heavier
  when present. Divided by t^m, t the mean of the E_k, the term has the polynomial h~(p), |h~(p)| <= M(rho) for |p| <=
  rho, and Lambda has the moments mu_k = sum_m q_m t^m (m)_k / (d)_k:

      M(rho) = 2 e B e^(S rho^2/2) (c_0 + (1 + rho) lo + rho hi / t) max(1, rho max_k E_k/t),
      |error| <= sum_k min_rho M(rho) rho^-k (|mu_k - sum_i omega_i p_i^k| + its rounding).

The accuracy of the construction does not matter: both bounds compare the finished rule with the moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._legendre import legendre_rule
from .._types import Array, Ids
from ..game.engine.bounds import THETA
from ..game.engine.budget import ToleranceError
from ..game.engine.rounding import FACTOR, PRECISE, ULP
from .kernel import relative_kernel

# Numbers of nodes that are tried. They are few, because terms with the same number are evaluated together. Most
# games only need the first group; longer rules take longer to build.
GROUPS = (
    (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    (17, 20, 24, 28),
    (33, 39, 46, 54),
    (64, 76, 90, 110),
    (130, 155, 185, 220),
    (260, 310, 370, 440),
)
COUNTS = tuple(m for group in GROUPS for m in group)
# Added to the bound of E_p[f] it also bounds E_p[f 1{j present}]; see `game/engine/bounds.py`.
LOG_PRESENT = np.log((1 + np.cosh(THETA)) / 2)
# Binary digits of the integers: of weights, of Hahn polynomials, and of Legendre polynomials at nodes.
WEIGHT_BITS = 160
HAHN_BITS = 200
LEGENDRE_BITS = 90
# Hahn polynomials are used up to the degree at which their norm, which bounds them, is e^43 < 2^63, and up to this one,
# beyond which the bound of the rounding of their recurrence would leave float64.
LARGEST_LOG_NORM = 43.0
MOST_MOMENTS = 600
# The rounding error of a moment of a rule from the integers, relative to the sums of weights.
HIDDEN = 2.0**-70
# Maximum number of nodes that are tried, and of Taylor coefficients that are examined one by one beyond them.
MOST_TILTED_NODES = 40
BEYOND = 40
# Numbers of nodes beyond the requested degree that are tried for interpolatory rules.
MORE_NODES = (0, 2, 5, 9, 14)
# The largest beta: the mean of p is practically 0 by then, and squares of larger ones would overflow float64.
LARGEST_BETA = 1e100
# The log of (1 - p + p/t)^d, which a weight carries against an equally small term, stays below this.
LARGEST_LOG_FACTOR = 600.0
# Weights of both signs do no harm if sum |omega| p^k is at most this times sum omega p^k, k = 0, 1, 2. Otherwise a rule
# for every term is not used, and the error of a rule for one term includes the rounding of the cancellation.
MIXED_SIGNS = 1.25

Whole = NDArray[Any]  # array of Python's integers


class NoRuleError(ToleranceError):
    """No rule in p has a proven error."""


# --- rules for every term -----------------------------------------------------------------------------------------


class SizeRule(NamedTuple):
    """A rule for q = `relative_kernel`, with its error for moments that are exact up to rounding and for others."""

    p: Array  # (m,) probability of being *present*
    weights: Array  # (m,)
    log_error: Array  # (len(THETA),) log of the sum of c_n delta_n / M over the n for which the rule is not exact
    log_rounding: Array  # (len(THETA),) the same over the others
    rounding: float  # sum of sqrt(2n+1) delta_n over them


class Ladder(NamedTuple):
    """The rules of one number of players, shortest first, with their errors side by side."""

    rules: tuple[SizeRule, ...]
    log_error: Array  # (len(THETA), 1, rules)
    log_rounding: Array  # (len(THETA), 1, rules)
    rounding: Array  # (rules,)

    def choose(self, log_bound: Array, B: Array, allowed: float) -> tuple[Ids, Array]:
        """Return for each of r terms the shortest rule with an error below `allowed` (or the best rule), and its error.

        `log_bound` (r, len(THETA)) is that of `game/engine/bounds.py`, and `B` (r,) bounds the terms on [0, 1].
        """
        # The thetas are the first axis here: a minimum over a short last axis takes five times as long.
        log_M = np.ascontiguousarray((log_bound + LOG_PRESENT).T)[:, :, None]
        elsewhere = _exp((self.log_error + log_M).min(axis=0))
        errors = elsewhere + np.multiply.outer(B, self.rounding)
        bad = np.flatnonzero((errors > allowed).all(axis=1))
        if bad.size:
            rounding = _exp((self.log_rounding + log_M[:, bad]).min(axis=0))
            errors[bad] = np.minimum(errors[bad], elsewhere[bad] + rounding)
        good = errors <= allowed
        index = np.where(good.any(axis=1), good.argmax(axis=1), errors.argmin(axis=1))
        return index, errors[np.arange(index.size), index]


def rule_errors(rule: SizeRule, log_bound: Array, B: Array) -> Array:
    """Return the error (r,) of one rule for each of r terms, whose bounds are those of `Ladder.choose`."""
    log_M = log_bound + LOG_PRESENT
    elsewhere = _exp((rule.log_error + log_M).min(axis=1))
    rounding = _exp((rule.log_rounding + log_M).min(axis=1))
    return elsewhere + np.minimum(B * rule.rounding, rounding)


def _exp(x: Array) -> Array:
    return np.exp(np.minimum(x, 300.0))


@lru_cache(maxsize=512)
def ladder(d: int, kernel_width: float, counts: tuple[int, ...] = COUNTS) -> Ladder:
    """Return all existing rules with one of `counts` nodes.

    >>> rule = ladder(6, np.inf, (3,)).rules[0]     # a uniform size on 0..6 is p uniform on [0, 1]
    >>> bool(np.isclose(rule.p @ rule.weights, sum(m / 6 for m in range(7))))
    True
    """
    moments = size_moments(d, kernel_width, counts[-1])
    rules = tuple(_size_rule(moments, m) for m in counts if m <= len(moments.nu))
    return Ladder(
        rules,
        np.ascontiguousarray(np.stack([rule.log_error for rule in rules], axis=1)[:, None]),
        np.ascontiguousarray(np.stack([rule.log_rounding for rule in rules], axis=1)[:, None]),
        np.array([rule.rounding for rule in rules]),
    )


def _size_rule(moments: SizeMoments, m: int) -> SizeRule:
    """Build a rule with m nodes: the Gauss rule if it exists, otherwise one with Gauss-Legendre nodes."""
    nu = moments.rounded
    bits = WEIGHT_BITS + LEGENDRE_BITS
    p = gauss_nodes(nu, *jacobi(0.0, 2 * m), m) if 2 * m < nu.size else None
    exact = 2 * m
    if p is None or not (p[0] > 0 and p[-1] < 1):
        p = legendre_rule(m)[0].copy()
        exact = m
    if exact > m:
        # A step of Newton's method for nodes and weights: 2 p (1 - p) dP_n/dp = (n + 1) (P_{n+1} - (1 - 2p) P_n)
        P = legendre_values(p, exact + 1)
        values = as_floats(P, LEGENDRE_BITS)
        weights = least_squares(values[:, :-1], nu[:exact])
        residual = as_floats(moments.nu[:exact] - whole(weights, WEIGHT_BITS) @ P[:, :-1], bits)
        slope = np.arange(1, exact + 1) * (values[:, 1:] - (1 - 2 * p)[:, None] * values[:, :-1])
        system = np.concatenate([values[:, :-1], slope * (weights / (2 * p * (1 - p)))[:, None]])
        p = np.clip(p + least_squares(system, residual)[m:], 0.0, 1.0)
    # The weights for the rounded nodes, and their errors.
    P = legendre_values(p, nu.size)
    system = as_floats(P[:, :exact], LEGENDRE_BITS)
    weights = least_squares(system, nu[:exact])
    residual = as_floats(moments.nu[:exact] - whole(weights, WEIGHT_BITS) @ P[:, :exact], bits)
    weights = weights + least_squares(system, residual)
    size, degrees = float(np.abs(weights).sum()), np.arange(nu.size)
    delta = np.abs(as_floats(moments.nu - whole(weights, WEIGHT_BITS) @ P, bits)) + HIDDEN * (
        size + float(nu[0])
    )
    delta *= np.sqrt(2 * degrees + 1)
    terms = np.exp(-np.outer(THETA, degrees)) * delta
    factor = np.log(2) / 2 - np.log(-np.expm1(-2 * THETA))
    with np.errstate(divide="ignore"):
        log_rounding, known = (
            np.log(part.sum(axis=1)) + factor for part in (terms[:, :exact], terms[:, exact:])
        )
    log_error = np.logaddexp(
        known, np.logaddexp(np.log(size) + moments.log_beyond[0], moments.log_beyond[1]) + factor
    )
    powers = p[:, None] ** np.arange(3)
    if not (np.abs(weights) @ powers <= MIXED_SIGNS * (weights @ powers)).all():
        log_error[:] = np.inf  # too much would cancel: this rule is never chosen
    rule = SizeRule(p, weights, log_error, log_rounding, float(delta[:exact].sum()))
    for array in rule[:4]:
        array.flags.writeable = False
    return rule


# --- moments along the Hahn polynomials ----------------------------------------------------------------------------


class SizeMoments(NamedTuple):
    """nu_n for n = 0..N: as integers in units of 2^-(WEIGHT_BITS + LEGENDRE_BITS), and rounded (N+1,).

    `log_beyond` (2, len(THETA)) has logs of the sums of sqrt(2n+1) e^(-n theta) and of the same times |r| |Q_n|, n > N.
    """

    nu: Whole
    rounded: Array
    residual: float  # |r|
    log_beyond: Array


@lru_cache(maxsize=512)
def size_moments(d: int, kernel_width: float, longest: int = COUNTS[-1]) -> SizeMoments:
    """Compute the moments of `relative_kernel` and |r|.

    >>> moments = size_moments(6, np.inf)       # constant weights have no component but the first
    >>> [abs(round(float(x), 12)) for x in moments.rounded]
    [7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    k = np.arange(1, d + 1)
    log_norm = np.concatenate([[0.0], np.cumsum(np.log((d + 1 + k) / (d + 1 - k)))]) / 2
    log_norm += np.log((d + 1) / (2 * np.arange(d + 1) + 1)) / 2
    N = min(
        d,
        2 * longest + 4,
        MOST_MOMENTS,
        int(np.searchsorted(log_norm > LARGEST_LOG_NORM, True)) - 1,
    )
    q = whole(relative_kernel(d, kernel_width)[::-1], WEIGHT_BITS)  # exact down to 2^-107
    half = d // 2 + 1
    mirrored = q[::-1][:half].copy()
    if d % 2 == 0:
        mirrored[-1] = 0
    folded = [q[:half] + mirrored, q[:half] - mirrored]  # Q_n(d-m) = (-1)^n Q_n(m)
    slope = np.array([d - 2 * m for m in range(half)], dtype=object)
    steps = [(n * (d + n + 1), (n + 1) * (d - n)) for n in range(N)]
    hahn = polynomials(slope, 0, steps, HAHN_BITS)
    nu = [int(folded[n % 2] @ Q) for n, Q in enumerate(hahn)]
    # |r|^2 = |q|^2 - sum nu_n^2 / |Q_n|^2, in units of 2^-(2 WEIGHT_BITS + 2 HAHN_BITS)
    left = int(q @ q) << 2 * HAHN_BITS
    inverse = (1 << 2 * HAHN_BITS) // (d + 1)  # 1 / |Q_n|^2
    for n, moment in enumerate(nu):
        if n:
            inverse = inverse * (2 * n + 1) * (d + 1 - n) // ((2 * n - 1) * (d + 1 + n))
        left -= moment * moment * inverse >> 2 * HAHN_BITS
    slack = sum(q.tolist()) ** 2 << HAHN_BITS + 12
    residual = isqrt(max(left, 0) + slack) / (1 << WEIGHT_BITS + HAHN_BITS)
    more = np.arange(N + 1, d + 1)
    decay = np.log(2 * more + 1)[:, None] / 2 - np.outer(more, THETA)
    beyond = [
        np.logaddexp.reduce(part, axis=0, initial=-np.inf)
        for part in (decay, decay + log_norm[more, None])
    ]
    whole_nu = np.array([moment >> HAHN_BITS - LEGENDRE_BITS for moment in nu], dtype=object)
    rounded = as_floats(whole_nu, WEIGHT_BITS + LEGENDRE_BITS)
    return SizeMoments(
        whole_nu, rounded, residual, np.stack([beyond[0], np.log(residual) + beyond[1]])
    )


def polynomials(
    slope: Whole, shift: int, steps: Sequence[tuple[int, int]], bits: int
) -> Iterator[Whole]:
    """Yield p_0 = 1, p_1, ... in units of 2^-bits, each correct to two units.

    With x = slope / 2^shift, c p_{n+1} = (2n+1) x p_n - b p_{n-1}; `steps` has (b, c) for n = 0, 1, ..., and |x| is at
    most (b + c) / (2n+1).
    """
    error_before = 0.0
    error = 0.0
    for b, c in steps:
        error_before, error = error, (b / c + 1) * error + b / c * error_before + 3
    spare = ceil(log2(error + 1))
    before = 0 * slope
    now = 0 * slope + (1 << bits + spare)
    yield now >> spare
    for n, (b, c) in enumerate(steps):
        if shift:
            product = slope * now >> shift
        else:
            product = slope * now
        before, now = now, ((2 * n + 1) * product - b * before) // c
        yield now >> spare


def legendre_values(p: Array, count: int) -> Whole:
    """Compute the (m, count) values P_n(1 - 2p) for n < count in units of 2^-LEGENDRE_BITS."""
    slope = (1 << LEGENDRE_BITS) - 2 * whole(p, LEGENDRE_BITS)
    steps = [(n, n + 1) for n in range(count - 1)]
    return np.stack(list(polynomials(slope, LEGENDRE_BITS, steps, LEGENDRE_BITS)), axis=1)


def whole(x: Array, bits: int) -> Whole:
    """Round to integers in units of 2^-bits."""
    return np.array([int(y) for y in np.ldexp(x, bits).tolist()], dtype=object)


def as_floats(x: Whole, bits: int) -> Array:
    """Convert integers in units of 2^-bits to floats."""
    return np.ldexp(x.astype(np.float64), -bits)


# --- a rule for one term ------------------------------------------------------------------------------------------


class TiltedTerm(NamedTuple):
    """The data of one lambda for the bound: masses in the units of the lambda rule, times its weight e^(-lam D_0)."""

    t: float  # mean of E_k
    S: float  # sum of (E_k / t - 1)^2
    largest: float  # max of E_k / t
    background: float  # c_0
    light: float  # sum of lo_k
    heavy: float  # sum of hi_k E_k
    B: float  # largest |value|


def tilted_rule(
    kernel_present: Array, term: TiltedTerm, allowed: float
) -> tuple[Array, Array] | None:
    """Return nodes p and weights (m,) of the shortest rule with an error of at most `allowed`, or None.

    `kernel_present` (d+1,) has the weight q_m of m = 0..d players present. An example is equal players, whose term at
    size m is E^m times a numerator m.

    >>> d, E = 5000, 0.7
    >>> q = np.full(d + 1, 1 / d)
    >>> p, weights = tilted_rule(q, TiltedTerm(E, 0.0, 1.0, 0.0, 0.0, d * E, 1.0), 1e-10)
    >>> h = d * p * E * (1 - p * (1 - E)) ** (d - 1)
    >>> m = np.arange(d + 1)
    >>> bool(abs(weights @ h - q @ (m * E**m)) < 1e-10), p.size < 6
    (True, True)
    """
    d = kernel_present.size - 1
    tail = _tail(kernel_present, term, allowed / 16)
    if tail[1] <= allowed:  # the empty coalition alone matters
        return np.zeros(1), kernel_present[:1].copy()
    if not term.t > 0:
        return None
    M = int(np.count_nonzero(tail[1:] > allowed / 8))  # sizes beyond M are left out
    m = np.arange(M + 1)
    q = kernel_present[: M + 1] * np.exp(m * np.log(term.t))
    mu = np.empty(min(d, MOST_TILTED_NODES + BEYOND) + 1)
    part = q.copy()
    for k in range(mu.size):  # sum_m q_m (m)_k / (d)_k
        mu[k] = part.sum()
        part *= np.maximum(m - k, 0) / max(d - k, 1)
    taylor = np.exp(np.minimum(_log_taylor(term, mu.size, d), 600.0))
    left = np.cumsum((taylor * mu)[::-1])[::-1]
    fit = np.flatnonzero(4 * left <= allowed)
    if fit.size:
        degree = max(1, int(fit[0]))
    else:
        degree = mu.size
    for p, omega in _rules(q, d, mu, degree):
        if _error(d, M, mu, taylor, term, p, omega) <= allowed * 7 / 8:
            tilt = p * (1 / term.t - 1)
            log_factor = d * np.log1p(tilt)
            if log_factor.max() < LARGEST_LOG_FACTOR:
                return (p / term.t) / (1 + tilt), omega * np.exp(log_factor)
    return None


def _tail(kernel_present: Array, term: TiltedTerm, negligible: float) -> Array:
    """Return bounds on the contribution of sizes from m on, sums of q_m B [(c_0 + lo) t^m + (m/d) hi t'^(m-1)], up to
    some last m.

    By Maclaurin's inequality the mean of a product of m of the d factors is at most t^m, and that of m - 1 of all
    factors but one at most t'^(m-1), t' = t d/(d-1). Sizes beyond the last m add at most `negligible`, which is in the
    bounds: for them the largest q is in place of every q_m, and the series are geometric.
    """
    d = kernel_present.size - 1
    most = term.B * float(kernel_present.max())
    t, near = term.t, min(term.t * d / max(d - 1, 1), 1.0)
    fixed = term.background + term.light
    moving = term.heavy / d
    last = 1
    rest = np.inf
    while last < d:
        if near < 1 - 1e-12:
            rest = fixed * t ** (last + 1) / (1 - t)
            rest += moving * near**last * (last + 1 - last * near) / (1 - near) ** 2
        if most * rest <= negligible:
            break
        last = min(d, last + 1 + last // 8)
    m = np.arange(last + 1)
    sizes = (
        kernel_present[: last + 1]
        * term.B
        * (fixed * t**m + moving * m * near ** np.maximum(m - 1, 0))
    )
    return np.asarray(np.cumsum(sizes[::-1])[::-1] + (negligible if last < d else 0.0))


def _radius(term: TiltedTerm, k: NDArray[Any]) -> Array:
    """Return the radius that minimizes e^(S rho^2 / 2) rho^-k, or a large one if S is nearly 0."""
    return np.sqrt(np.maximum(k, 0.25) / max(term.S, 1e-6))


def _log_taylor(term: TiltedTerm, count: int, d: int) -> Array:
    """Return the logs of the bounds M(rho) rho^-k on |h~_k|, k < count."""
    k = np.arange(count)
    rho = _radius(term, k)
    rho[0] = 0.0
    # The factors' first-order terms add up to zero but for rounding, d ulps of each.
    growth = term.S * rho**2 / 2 + 4 * d * ULP * (1 + term.largest) * rho
    mass = term.background + (1 + rho) * term.light + rho * term.heavy / term.t
    with np.errstate(divide="ignore", invalid="ignore"):
        majorant = (
            np.log(2 * term.B)
            + 1
            + growth
            + np.log(mass)
            + np.log(np.maximum(1.0, rho * term.largest))
        )
        taylor: Array = majorant - np.where(k > 0, k * np.log(rho), 0.0)
    return taylor


def _error(
    d: int, M: int, mu: Array, taylor: Array, term: TiltedTerm, p: Array, omega: Array
) -> float:
    """Return the bound of the module docstring, or inf if the rule cannot be trusted."""
    k = np.arange(mu.size)
    if not ((p > 0).all() and (p < 1).all()):
        return np.inf
    powers = p[:, None] ** k
    sums = omega @ powers
    moduli = np.abs(omega) @ powers
    rounding = ULP * ((3 * k + 4 + 20) * mu + (k + p.size + 2) * moduli)
    error = float(taylor @ (np.abs(mu - sums) + rounding))
    if not (moduli[:3] <= MIXED_SIGNS * sums[:3]).all():
        error += (
            ULP * (PRECISE + FACTOR * d) * float(taylor @ moduli)
        )  # the rounding of terms that cancel
    # Beyond the last coefficient the terms fall at least geometrically.
    rho = float(_radius(term, k[-1:])[0])
    top = float(p.max()) / rho
    ratio = M / d / rho if mu[-1] > 0 else 0.0
    if not max(top, ratio) < 1:
        return np.inf
    return error + float(taylor[-1] * (mu[-1] * ratio / (1 - ratio) + moduli[-1] * top / (1 - top)))


def _rules(q: Array, d: int, mu: Array, degree: int) -> Iterator[tuple[Array, Array]]:
    """Yield rules to try, exact below about `degree`: Gauss rules, then Gauss-Jacobi nodes, shortest first."""
    first = min((degree + 1) // 2, MOST_TILTED_NODES)
    count = max(2 * first + 4, min(degree + MORE_NODES[-1], MOST_TILTED_NODES))
    with np.errstate(over="ignore", invalid="ignore"):
        beta, nu = _jacobi_moments(q, d, mu, count)
    if not np.isfinite(nu).all():  # a functional that is almost all at 0
        return
    up, down = jacobi(beta, count)
    for N in range(first, min(first + 2, count // 2) + 1):
        p = gauss_nodes(nu, up, down, N)
        if p is not None:
            yield p, least_squares(jacobi_values(p, up, down, 2 * N), nu[: 2 * N])
    for N in (
        degree + more for more in MORE_NODES if degree + more <= min(count, MOST_TILTED_NODES)
    ):
        p = gauss_nodes(np.eye(1, 2 * N)[0], *jacobi(beta, 2 * N), N)
        if p is not None:
            yield p, least_squares(jacobi_values(p, up, down, N), nu[:N])


def _jacobi_moments(q: Array, d: int, mu: Array, count: int) -> tuple[float, Array]:
    """Return beta, which fits the mean of p, and the (count,) moments of the Jacobi polynomials.

    These are sums of q_m Q_i(m; 0, beta, d), 0 for i > d.
    """
    if mu[1] > mu[0] / LARGEST_BETA:
        beta = max(0.0, float(mu[0] / mu[1]) - 2)
    else:
        beta = LARGEST_BETA
    up, down = jacobi(beta, count)
    n = np.arange(count)
    m = np.arange(q.size)
    climb = up * (d - n)
    fall = down * (n + beta + d + 1)
    nu = np.zeros(count)
    change = 0.0 * m
    now = 0.0 * m + 1
    for i in range(min(count, d + 1)):
        nu[i] = (q * now).sum()
        if i < d:
            change = (fall[i] * change - m * now) / climb[i]
            now = now + change
    return beta, nu


# --- nodes and weights -----------------------------------------------------------------------------------------------


def least_squares(values: Array, moments: Array) -> Array:
    """Return least-squares weights for values (m, n) of polynomials at nodes and their moments (n,)."""
    weights: Array = np.asarray(np.linalg.lstsq(values.T, moments, rcond=None)[0])
    return weights


def jacobi(beta: float, count: int) -> tuple[Array, Array]:
    """Return (up, down), (count,) each, of up P_{n+1} = (up + down - p) P_n - down P_{n-1}, P_n(0) = 1.

    These are the Jacobi polynomials for the weight (1 - p)^beta on [0, 1]: Legendre's at 1 - 2p for beta = 0.
    """
    n = np.arange(float(count))
    up = (n + beta + 1) * (n + 1) / ((2 * n + beta + 1) * (2 * n + beta + 2))
    down = n * (n + beta) / (np.maximum(2 * n + beta, 1.0) * (2 * n + beta + 1))
    return up, down


def jacobi_values(p: Array, up: Array, down: Array, count: int) -> Array:
    """Compute the (m, count) values P_n(p_i) for n < count."""
    values = np.ones((p.size, count))
    change = 0 * p
    for n in range(count - 1):
        change = (down[n] * change - p * values[:, n]) / up[n]
        values[:, n + 1] = values[:, n] + change
    return values


def gauss_nodes(nu: Array, up: Array, down: Array, m: int) -> Array | None:
    """Return the (m,) nodes of the Gauss rule with moments nu_n = Lambda[P_n], or None if Lambda is not positive.

    This is the modified Chebyshev algorithm (Sack and Donovan, 1972).

    >>> gauss_nodes(np.eye(1, 4)[0], *jacobi(0.0, 4), 2).round(6)     # Legendre's own moments give Gauss-Legendre
    array([0.211325, 0.788675])
    """
    # Monic polynomials pi_{k+1} = (p - center_k) pi_k - product_k pi_{k-1} have the same moments but for factors.
    center = up + down
    product = np.concatenate([[0.0], up[:-1] * down[1:]])
    before = np.zeros(2 * m)
    now = nu[: 2 * m] * np.concatenate([[1.0], np.cumprod(-up[: 2 * m - 1])])
    if not now[0] > 0:
        return None
    alpha = [center[0] + now[1] / now[0]]
    beta = [now[0]]
    for i in range(1, m):
        k = np.arange(i, 2 * m - i)
        new = np.zeros(2 * m)
        new[k] = (
            np.append(now, 0.0)[k + 1] - (alpha[-1] - center[k]) * now[k] - beta[-1] * before[k]
        )
        new[k] += product[k] * now[k - 1]
        if not new[i] > 0:
            return None
        alpha.append(center[i] + new[i + 1] / new[i] - now[i] / now[i - 1])
        beta.append(new[i] / now[i - 1])
        before = now
        now = new
    side = np.sqrt(beta[1:])
    return np.linalg.eigvalsh(np.diag(alpha) + np.diag(side, 1) + np.diag(side, -1))
