"""Rules in p for LIME's kernel: a few nodes replace the sum over sizes, with a proved error.

E_p[h], the mean of a function h of coalitions when every player is absent with probability p, is a polynomial in p of
degree d at most. A weight q_s on the number s of absent players turns it into the linear functional Lambda = sum_s q_s
E[h | s absent]. `docs/theory/rules-in-p.md` has the proofs of what follows.

- `size_moments`: nu_n = Lambda[P_n(1 - 2p)] = sum_s q_s Q_n(s), P_n Legendre and Q_n Hahn polynomials, and |r|, the
  norm of what is left of q beyond the last of them. Exact up to EXACT_BELOW players; beyond, with a bound of the error.
- `size_rule`: nodes and weights with the first moments of q_s = kernel(s) / d, which serve every term. With |E_p[h]|
  <= M on the Bernstein ellipse e^theta, and <= B on [0, 1], the error is at most sum_{n<=d} c_n delta_n,

      c_n = min(sqrt(2(2n+1)) M e^(-n theta) / (1 - e^(-2 theta)), sqrt(2n+1) B),
      delta_n = |nu_n - sum_i omega_i P_n(x_i)|, or at most sum|omega| + |r| |Q_n| beyond the last moment.

- `tilted_rule`: a rule for one term, a product of E_k = e^(-lam gap_k) times a numerator, where every player is heavier
  when present. Divided by t^m, t the mean of the E_k and m the number of present players, the term has the polynomial
  h~(p), |h~(p)| <= M(rho) for |p| <= rho, and Lambda has the moments mu_k = sum_m q_m t^m (m)_k / (d)_k:

      M(rho) = 2 e B e^(S rho^2/2) (c_0 + (1 + rho) lo + rho hi / t) max(1, rho max_k E_k/t),
      |error| <= sum_k min_rho M(rho) rho^-k (|mu_k - sum_i omega_i p_i^k| + its rounding).

How well a rule was made does not matter: both bounds compare the finished rule with the moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids
from ..game.budget import FACTOR, PRECISE, ULP
from ..game.terms import COSH, THETA
from .kernel import EXTENDED, log_kernel

# Numbers of nodes that are tried: terms with equal numbers go through the engine together, so they are few.
COUNTS = (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 20, 24, 28, 33, 39, 46, 54)
# Added to the bound of E_p[f] it also bounds E_p[f 1{j present}]; see `game/terms.py`.
LOG_PRESENT = np.log((1 + COSH) / 2)
UNIT = float(np.finfo(EXTENDED).eps)
EXACT_BELOW = 400
# Degrees that are looked at: enough for the longest of COUNTS.
MOST_DEGREES = 112
# Bits kept beyond the growth of rounding in the whole-number recurrence, and for the weights.
SPARE_BITS, WEIGHT_BITS = 160, 160
# Most nodes that are tried, and Taylor coefficients that are looked at one by one beyond them.
MOST_TILTED_NODES, BEYOND = 40, 40
# Nodes that interpolatory rules may have more than the degree that is asked for.
MORE_NODES = (0, 2, 5, 9, 14)
# Beyond it the mean of p is next to nothing, and squares would leave float64.
LARGEST_BETA = 1e100
# Weights of both signs are no matter where sum |omega| p^k is at most this times sum omega p^k, k = 0, 1, 2. Elsewhere
# the rounding of what cancels counts as an error of the rule.
MIXED_SIGNS = 1.25


class NoRuleError(ArithmeticError):
    """No rule in p can be vouched for."""


class SizeRule(NamedTuple):
    """A rule for q_s = kernel(s) / d.

    `log_error` has the log of the sum of c_n delta_n / M over the n for which the rule is exact but for rounding, over
    the other moments that are known, and over all beyond.
    """

    p: Array  # (m,) probability of being *present*
    weights: Array  # (m,)
    log_error: Array  # (3, len(THETA))
    rounding: float  # sum of sqrt(2n+1) delta_n where the rule is exact; times B it bounds the error there, too


@lru_cache(maxsize=4096)
def size_rule(d: int, kernel_width: float, m: int) -> SizeRule | None:
    """Rule with m nodes, or None if the moments do not reach that far.

    >>> rule = size_rule(6, np.inf, 3)      # s uniform on 0..6 is p uniform on [0, 1]
    >>> bool(np.isclose(rule.p @ rule.weights, sum(1 - s / 6 for s in range(7)) / 6))
    True
    """
    nu = size_moments(d, kernel_width).nu
    if m > nu.size:
        return None
    plain, n = nu.astype(np.float64), np.arange(1.0, 2 * m)
    nodes, exact = None, 2 * m
    if 2 * m <= nu.size:
        leading = np.concatenate([[1.0], np.cumprod((2 * n - 1) / n)])  # of P_n
        product = np.concatenate([[0.0], n**2 / (4 * n**2 - 1)])
        nodes = gauss_rule(plain[: 2 * m] / leading, np.zeros(2 * m), product, m)
    if nodes is None or not np.abs(nodes[0]).max() <= 1:
        x, w = np.polynomial.legendre.leggauss(m)
        vander = np.polynomial.legendre.legvander(x, m - 1)
        nodes, exact = (x, w / 2 * (vander @ ((2 * np.arange(m) + 1) * plain[:m]))), m
    p, weights = _polish(nu, *nodes, exact)
    rule = SizeRule(p, weights, *_errors(d, kernel_width, p, weights, exact))
    for array in rule[:3]:
        array.flags.writeable = False
    return rule


class Ladder(NamedTuple):
    """The rules of one number of players, shortest first, with their errors side by side."""

    rules: tuple[SizeRule, ...]
    counts: Ids  # (rules,) their numbers of nodes
    log_error: Array  # (rules, 3, len(THETA))
    log_both: Array  # (len(THETA), 1, rules) the second and the third of these added up
    rounding: Array  # (rules,)
    total: float  # the largest sum of a rule's |weights|

    def choose(self, log_bound: Array, B: Array, allowed: float) -> tuple[Ids, Array]:
        """For each of r terms the shortest rule with an error below `allowed`, or else the best one; and its error.

        `log_bound` (r, len(THETA)) is that of `game/terms.py`, and `B` (r,) bounds the terms on [0, 1].
        """
        shifted = log_bound + LOG_PRESENT
        # The thetas are the first axis here: a minimum over a short last axis takes five times as long.
        table = (self.log_both + np.ascontiguousarray(shifted.T)[:, :, None]).min(axis=0)
        errors = np.exp(np.minimum(table, 300.0))
        errors += np.multiply.outer(B, self.rounding)
        good = errors <= allowed
        index = good.argmax(axis=1)
        rows = np.arange(index.size)
        bad = np.flatnonzero(~good[rows, index])
        if bad.size:
            # These have a closer look: a theta of its own for each of the three sums.
            parts = np.exp(np.minimum((self.log_error + shifted[bad, None, None, :]).min(axis=3), 300.0))
            first = np.minimum(parts[..., 0], np.multiply.outer(B[bad], self.rounding))
            errors[bad] = first + parts[..., 1:].sum(axis=2)
            good = errors[bad] <= allowed
            index[bad] = np.where(good.any(axis=1), good.argmax(axis=1), errors[bad].argmin(axis=1))
        return index, errors[rows, index]


@lru_cache(maxsize=512)
def ladder(d: int, kernel_width: float, counts: tuple[int, ...] = COUNTS) -> Ladder:
    """All rules with one of `counts` nodes that exist."""
    rules = [rule for m in counts if m <= d + 1 and (rule := size_rule(d, kernel_width, m))]
    if not rules:
        raise NoRuleError
    log_error = np.stack([rule.log_error for rule in rules])
    return Ladder(
        tuple(rules),
        np.array([rule.p.size for rule in rules]),
        log_error,
        np.ascontiguousarray(np.logaddexp(log_error[:, 1], log_error[:, 2]).T[:, None, :]),
        np.array([rule.rounding for rule in rules]),
        max(float(np.abs(rule.weights).sum()) for rule in rules),
    )


def _polish(nu: NDArray[Any], x: Array, weights: Array, exact: int) -> tuple[Array, Array]:
    """Nodes p = (1 + x) / 2 in float64 and weights, after Newton steps towards the moments nu_n, n < exact."""
    p = (1 + x) / 2
    for moving in (True, True, False):  # the last step, for the rounded nodes, is for the weights alone
        moving &= exact == 2 * x.size
        nodes: NDArray[Any] = 2 * p.astype(EXTENDED) - 1
        P = _legendre(nodes, exact)
        residual = (nu[:exact] - weights @ P[:, :exact]).astype(np.float64)
        system = P[:, :exact].T.astype(np.float64)
        if moving:
            # (1 - x^2) P_n' = (n + 1) (x P_n - P_{n+1})
            slope = np.arange(1.0, exact + 1) * (nodes[:, None] * P[:, :-1] - P[:, 1:]) / (1 - nodes[:, None] ** 2)
            system = np.concatenate([system, (2 * weights[:, None] * slope).T.astype(np.float64)], axis=1)
        step = np.linalg.lstsq(system, residual, rcond=None)[0]
        if not np.abs(step).max() < 1e-9:
            break
        weights = weights + step[: x.size]
        if moving:
            p = np.clip(p + step[x.size :], 0.0, 1.0)
    return p, weights


def _errors(d: int, kernel_width: float, p: Array, weights: Array, exact: int) -> tuple[Array, float]:
    """The error's sums over n, see `SizeRule`."""
    moments = size_moments(d, kernel_width)
    N = moments.nu.size - 1
    n = np.arange(N + 1)
    nodes: NDArray[Any] = 2 * p.astype(EXTENDED) - 1
    size = float(np.abs(weights).sum())
    reach = 1 / np.sqrt(np.maximum(1 - nodes.astype(np.float64) ** 2, 1e-300))
    recurrence = 5.5 * n * (np.abs(weights) @ np.minimum(n / 2, reach[:, None]))
    hidden = moments.error + UNIT * (recurrence + p.size * size + 2 * np.abs(moments.nu).astype(np.float64))
    delta = np.abs(moments.nu - weights @ _legendre(nodes, N)).astype(np.float64) + hidden
    root = np.sqrt(2 * n + 1)
    rounding = float(root[:exact] @ delta[:exact])
    factor = np.log(2) / 2 - np.log(-np.expm1(-2 * THETA))
    log_error = np.full((3, THETA.size), -np.inf)
    with np.errstate(divide="ignore", under="ignore"):
        terms = np.exp(-np.outer(n, THETA)) * (root * delta)[:, None]
        log_error[0] = np.log(terms[:exact].sum(axis=0)) + factor
        log_error[1] = np.log(terms[exact:].sum(axis=0)) + factor
        if d > N:
            log_error[2] = _log_tail(d, N, moments.log_norm, moments.residual, size) + factor
    return log_error, rounding


def _log_tail(d: int, N: int, log_norm: Array, residual: float, size: float) -> Array:
    """Log of the sum over n = N+1 .. d of sqrt(2n+1) (size + |r| |Q_n|) e^(-n theta), from the ends of ranges."""
    edges = [N + 1]
    while edges[-1] <= d:
        edges.append(edges[-1] + max(1, edges[-1] // 16))
    ends = np.minimum(np.array(edges[1:]) - 1, d)
    starts = np.array(edges[:-1])
    log_count = np.log(ends - starts + 1.0) + np.log(2 * ends + 1) / 2

    def log_term(n: Array) -> Array:
        return np.logaddexp(np.log(size), np.log(residual) + log_norm[n])[:, None] - np.outer(n, THETA)

    logs = log_count[:, None] + np.maximum(log_term(starts), log_term(ends))
    top = logs.max(axis=0)
    total: Array = top + np.log(np.exp(logs - top).sum(axis=0))
    return total


def _legendre(x: NDArray[Any], N: int) -> NDArray[Any]:
    """P_n(x_i) for n = 0..N, (m, N+1), in extended precision."""
    out = np.ones((x.size, N + 1), dtype=EXTENDED)
    if N:
        out[:, 1] = x
    for n in range(1, N):
        out[:, n + 1] = ((2 * n + 1) * x * out[:, n] - n * out[:, n - 1]) / (n + 1)
    return out


# --- moments along the Hahn polynomials ----------------------------------------------------------------------------


class SizeMoments(NamedTuple):
    """nu_n for n = 0..N (N+1,) in extended precision, a bound of the error of each, log |Q_n| for n = 0..d, and |r|."""

    nu: NDArray[Any]
    error: Array
    log_norm: Array
    residual: float


@lru_cache(maxsize=512)
def size_moments(d: int, kernel_width: float) -> SizeMoments:
    """Moments of q_s = kernel(s) / d, s = 0..d.

    >>> moments = size_moments(6, np.inf)       # constant weights have no component but the first
    >>> [abs(round(float(x), 12)) for x in moments.nu]
    [1.166666666667, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    k = np.arange(1, d + 1)
    log_norm = np.concatenate([[0.0], np.cumsum(np.log((d + 1 + k) / (d + 1 - k)))]) / 2
    log_norm += np.log((d + 1) / (2 * np.arange(d + 1) + 1)) / 2
    q: NDArray[Any] = np.exp(log_kernel(d, kernel_width)) / d
    degrees = min(d, MOST_DEGREES)
    made = _exact if d <= EXACT_BELOW else _extended
    nu, error, residual = made(q, degrees)
    for array in (nu, error, log_norm):
        array.flags.writeable = False
    return SizeMoments(nu, error, log_norm, residual)


def _exact(q: NDArray[Any], N: int) -> tuple[NDArray[Any], Array, float]:
    """nu, its error (the last rounding only) and |r|, in whole numbers."""
    d = q.size - 1
    N = min(N, 24 + 5 * isqrt(d))
    growth = [0.0, 1.0]
    for n in range(N):
        b, c = n * (d + n + 1), (n + 1) * (d - n)
        growth.append((b + c) / c * growth[-1] + b / c * growth[-2] + 1)
    one = 1 << (SPARE_BITS + int(log2(growth[-1])) + 1)
    weight = [int(x) for x in np.ldexp(q, WEIGHT_BITS)]  # longer than the mantissa: nothing is lost down to 2^-96
    half = d // 2 + 1
    s = np.arange(half)
    sums = [weight[i] + weight[d - i] if 2 * i != d else weight[i] for i in range(half)]
    differences = [weight[i] - weight[d - i] for i in range(half)]
    folded = [np.array(sums, dtype=object), np.array(differences, dtype=object)]  # Q_n(d-s) = (-1)^n Q_n(s)
    slope = np.array([int(x) for x in d - 2 * s], dtype=object)
    before, now = np.array([0] * half, dtype=object), np.array([one] * half, dtype=object)
    nu = []
    for n in range(N + 1):
        nu.append(int(folded[n % 2] @ now) // one)
        if n < N:
            new = ((2 * n + 1) * slope * now - n * (d + n + 1) * before) // ((n + 1) * (d - n))
            before, now = now, new
    left = sum(w * w for w in weight) << WEIGHT_BITS
    inverse = (1 << 2 * WEIGHT_BITS) // (d + 1)  # 1 / |Q_0|^2
    for n, moment in enumerate(nu):
        if n:
            inverse = inverse * (2 * n + 1) * (d + 1 - n) // ((2 * n - 1) * (d + 1 + n))
        left -= moment * moment * inverse >> WEIGHT_BITS
    slack = 1 << WEIGHT_BITS + 40  # the whole numbers above were rounded down a few hundred times
    residual = float(np.sqrt(np.ldexp(float(max(left, 0) + slack), -3 * WEIGHT_BITS)))
    high = [moment >> (WEIGHT_BITS - 50) for moment in nu]  # two floats hold more than extended precision does
    low = [moment - (part << (WEIGHT_BITS - 50)) for moment, part in zip(nu, high, strict=True)]
    values = np.array(high, dtype=np.float64).astype(EXTENDED) * EXTENDED(2.0**-50)
    values = values + np.ldexp(np.array(low, dtype=np.float64), -WEIGHT_BITS)
    return values, UNIT * np.abs(values).astype(np.float64) + 2.0**-76, residual


def _extended(q: NDArray[Any], N: int) -> tuple[NDArray[Any], Array, float]:
    """nu, its error and |r| by the recurrence in extended precision."""
    d = q.size - 1
    N = min(N, isqrt(10 * d))
    half = d // 2 + 1
    x: NDArray[Any] = (d - 2 * np.arange(half).astype(EXTENDED)) / d
    mirror = q[::-1][:half]
    folded = [q[:half] + mirror, q[:half] - mirror]  # Q_n(d-s) = (-1)^n Q_n(s)
    if d % 2 == 0:
        folded[0][-1] /= 2
    weights = folded[0].astype(np.float64)
    with np.errstate(divide="ignore"):
        gain = 1 / np.sqrt(np.maximum(1 - x.astype(np.float64) ** 2, 0.0))
    summing = (16 + log2(d)) * UNIT  # of a pairwise sum over s
    before, now = 0 * x, 0 * x + 1
    nu, error = np.empty(N + 1, dtype=EXTENDED), np.empty(N + 1)
    growth, steps, was, largest = 1.0, 0.0, 0.0, 1.0
    left, doubt = q @ q, d * UNIT * float(q @ q)
    inverse = 1 / EXTENDED(d + 1)  # 1 / |Q_n|^2
    for n in range(N + 1):
        nu[n] = np.add.reduce(folded[n % 2] * now)
        error[n] = growth * steps * float(weights @ np.minimum(n, gain)) + float(weights.sum()) * summing * largest
        inverse *= EXTENDED((2 * n + 1) * (d + 1 - n)) / EXTENDED((2 * n - 1) * (d + 1 + n)) if n else 1
        left -= nu[n] * nu[n] * inverse
        size = abs(float(nu[n]))
        doubt += float(inverse) * (error[n] * (2 * size + error[n]) + 4 * (n + 2) * UNIT * size**2)
        if n < N:
            b, c = n * (d + n + 1), (n + 1) * (d - n)
            steps += 3 * UNIT * ((b + c) * largest + b * was) / c
            growth *= max(1.0, b / c)
            before, now = now, (EXTENDED(b + c) / EXTENDED(c)) * x * now - EXTENDED(b) / EXTENDED(c) * before
            was, largest = largest, float(np.abs(now).max())
    return nu, error, float(np.sqrt(max(float(left), 0.0) + doubt))


# --- a rule for one term ------------------------------------------------------------------------------------------


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
    """The shortest rule found for which the sum over sizes has an error of at most `allowed`, or None.

    `kernel_present` (d+1,) has the weight q_m of m = 0..d players present. An example is equal players, whose
    term at size m is E^m times a numerator m.

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
    most = float(kernel_present.max())
    if _rest(d, term, most, 0) <= allowed:  # nobody alone counts
        return TiltedRule(np.zeros(1), kernel_present[:1].copy(), np.zeros(1))
    M = 1  # sizes beyond M are left out
    while d > M and _rest(d, term, most, M) > allowed / 8:
        M = min(d, M + 1 + M // 8)
    m = np.arange(M + 1)
    q = kernel_present[: M + 1] * np.exp(m * np.log(term.t))
    mu, part = np.empty(min(d, MOST_TILTED_NODES + BEYOND) + 1), q.copy()
    for k in range(mu.size):  # sums of positive terms
        mu[k] = part.sum()
        part *= np.maximum(m - k, 0) / max(d - k, 1)
    taylor = np.exp(np.minimum(_log_taylor(term, mu.size, d), 600.0))
    left = np.cumsum((taylor * mu)[::-1])[::-1]
    fit = np.flatnonzero(4 * left <= allowed)
    degree = max(1, int(fit[0])) if fit.size else mu.size
    for p, omega in _rules(q, d, mu, degree):
        if _error(d, mu, taylor, term, p, omega, M / d) <= allowed * 7 / 8:
            tilt = p * (1 / term.t - 1)
            return TiltedRule((p / term.t) / (1 + tilt), omega, d * np.log1p(tilt))
    return None


def _rest(d: int, term: TiltedTerm, most: float, M: int) -> float:
    """Bound of what sizes above M add: sum_{m>M} most B [(c_0 + lo) t^m + (m/d) hi t'^(m-1)], t' = t d/(d-1)."""
    t, near = term.t, term.t * d / max(d - 1, 1)
    if near >= 1 - 1e-12:
        return np.inf
    fixed = most * term.B * (term.background + term.light)
    moving = most * term.B * term.heavy / d
    return fixed * t ** (M + 1) / (1 - t) + moving * near**M * (M + 1 - M * near) / (1 - near) ** 2


def _radius(term: TiltedTerm, k: NDArray[Any]) -> Array:
    """The radius that makes e^(S rho^2 / 2) rho^-k least, or a large one where S does not say."""
    return np.sqrt(np.maximum(k, 0.25) / max(term.S, 1e-6))


def _log_taylor(term: TiltedTerm, count: int, d: int) -> Array:
    """Log of the bounds M(rho) rho^-k on |h~_k|, k < count."""
    k = np.arange(count)
    rho = _radius(term, k)
    rho[0] = 0.0
    # The factors' first-order terms add up to zero but for rounding, d ulps of each.
    growth = term.S * rho**2 / 2 + 4 * d * ULP * (1 + term.largest) * rho
    mass = term.background + (1 + rho) * term.light + rho * term.heavy / term.t
    with np.errstate(divide="ignore", invalid="ignore"):
        majorant = np.log(2 * term.B) + 1 + growth + np.log(mass) + np.log(np.maximum(1.0, rho * term.largest))
        taylor: Array = majorant - np.where(k > 0, k * np.log(rho), 0.0)
    return taylor


def _error(d: int, mu: Array, taylor: Array, term: TiltedTerm, p: Array, omega: Array, last: float) -> float:
    """The bound of the module docstring, or inf where the rule is not to be trusted."""
    k = np.arange(mu.size)
    if not ((p > 0).all() and (p < 1).all()):
        return np.inf
    powers = p[:, None] ** k
    sums, sizes = omega @ powers, np.abs(omega) @ powers
    rounding = ULP * ((3 * k + 4 + 20) * mu + (k + p.size + 2) * sizes)
    error = float(taylor @ (np.abs(mu - sums) + rounding))
    if not (sizes[:3] <= MIXED_SIGNS * sums[:3]).all():
        error += ULP * (PRECISE + FACTOR * d) * float(taylor @ sizes)  # the rounding of terms that cancel
    # Beyond the last coefficient the terms fall at least geometrically.
    rho = float(_radius(term, k[-1:])[0])
    top = float(p.max()) / rho
    ratio = last / rho if mu[-1] > 0 else 0.0
    if not max(top, ratio) < 1:
        return np.inf
    return error + float(taylor[-1] * (mu[-1] * ratio / (1 - ratio) + sizes[-1] * top / (1 - top)))


def _rules(q: Array, d: int, mu: Array, degree: int) -> Iterator[tuple[Array, Array]]:
    """Rules to try, exact below `degree` or a little more: Gauss rules, then Gauss-Jacobi nodes, shortest first."""
    beta = max(0.0, float(mu[0] / mu[1]) - 2) if mu[1] > mu[0] / LARGEST_BETA else LARGEST_BETA
    first = min((degree + 1) // 2, MOST_TILTED_NODES)
    count = max(2 * first + 4, min(degree + MORE_NODES[-1], MOST_TILTED_NODES))
    n = np.arange(count + 1.0)
    up = (n + beta + 1) * (n + 1) / ((2 * n + beta + 1) * (2 * n + beta + 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.where(n == 0, 0.0, n * (n + beta) / ((2 * n + beta) * (2 * n + beta + 1)))
    # What the functional makes of the Jacobi polynomials: sums of q_m Q_i(m; 0, beta, d), 0 for i > d.
    m: NDArray[Any] = np.arange(q.size).astype(EXTENDED)
    weights: NDArray[Any] = q.astype(EXTENDED)
    climb, fall = up * (d - n), down * (n + beta + d + 1)
    before, now = 0 * m, 0 * m + 1
    nu = np.zeros(count)
    for i in range(min(count, d + 1)):
        nu[i] = float(weights @ now)
        if i < d:
            before, now = now, ((climb[i] + fall[i] - m) * now - fall[i] * before) / climb[i]
    centre, product = up + down, np.concatenate([[0.0], up[:-1] * down[1:]])
    monic = nu * np.concatenate([[1.0], np.cumprod(-up[: count - 1])])
    for N in range(first, min(first + 2, count // 2) + 1):
        rule = gauss_rule(monic, centre, product, N)
        if rule is not None:
            yield rule
    for N in (degree + more for more in MORE_NODES if degree + more <= min(count, MOST_TILTED_NODES)):
        side = np.sqrt(product[1:N])
        p, V = np.linalg.eigh(np.diag(centre[:N]) - np.diag(side, 1) - np.diag(side, -1))
        before, now, density, norm = 0 * p, 0 * p + 1, 0 * p, 1.0
        for i in range(N):
            density += nu[i] * now / norm
            before, now = now, ((up[i] + down[i] - p) * now - down[i] * before) / up[i]
            norm *= down[i + 1] / up[i]
        yield p, V[0] ** 2 * density


def gauss_rule(nu: Array, centre: Array, product: Array, m: int) -> tuple[Array, Array] | None:
    """Nodes and weights, (m,) each, from 2m moments of monic polynomials; None where Lambda is not positive on squares.

    The modified Chebyshev algorithm (Sack and Donovan, 1972) for pi_{k+1} = (x - centre_k) pi_k - product_k pi_{k-1}.

    >>> x, w = gauss_rule(np.array([2.0, 0.0, 0.0, 0.0]), np.zeros(4), np.array([0, 1 / 3, 4 / 15, 9 / 35]), 2)
    >>> x.round(6), w.round(6)              # Legendre's own moments give Gauss-Legendre
    (array([-0.57735,  0.57735]), array([1., 1.]))
    """
    before, now = np.zeros(2 * m), nu[: 2 * m].astype(float)
    if not now[0] > 0:
        return None
    alpha, beta = [centre[0] + now[1] / now[0]], [now[0]]
    for i in range(1, m):
        k = np.arange(i, 2 * m - i)
        new = np.zeros(2 * m)
        new[k] = np.append(now, 0.0)[k + 1] - (alpha[-1] - centre[k]) * now[k] - beta[-1] * before[k]
        new[k] += product[k] * now[k - 1]
        if not new[i] > 0:
            return None
        alpha.append(centre[i] + new[i + 1] / new[i] - now[i] / now[i - 1])
        beta.append(new[i] / now[i - 1])
        before, now = now, new
    side = np.sqrt(beta[1:])
    x, V = np.linalg.eigh(np.diag(alpha) + np.diag(side, 1) + np.diag(side, -1))
    return x, nu[0] * V[0] ** 2
