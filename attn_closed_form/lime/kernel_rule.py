"""Weights on coalition sizes as a rule in p: few nodes, with an error bound.

E_p[h], the mean of a function h of coalitions when every player is absent with probability p, is a polynomial in p of
degree d at most. A weight q_s on the number s of absent players turns it into Lambda = sum_s q_s E[h | s absent], the
linear functional p^k -> sum_s q_s (s)_k / (d)_k (falling factorials). With x = 1 - 2p it sends the Legendre polynomial
P_n(x) to nu_n = sum_s q_s Q_n(s), Q_n the Hahn (discrete Legendre) polynomial, for n <= d, by three-term recurrence

    (n+1)(d-n) Q_{n+1} = (2n+1)(d-2s) Q_n - n(d+n+1) Q_{n-1}.

Nodes and weights with sum_i omega_i P_n(x_i) = nu_n for n < N replace a sum over d + 1 sizes by m evaluations:
- Gauss: from nu_0 .. nu_{2m-1} by the modified Chebyshev algorithm (Sack and Donovan, 1972), N = 2m. It exists while
  Lambda is positive on polynomials of that degree; for LIME's kernel that is up to about m = 1.5 sqrt(d).
- else Gauss-Legendre nodes, weights w_i sum_{n<m} (2n+1) P_n(x_i) nu_n, N = m.

**The error.** Let |E_p[h]| <= M on the Bernstein ellipse e^theta, so that its Chebyshev coefficients are at most
2 M e^(-k theta). P_n is orthogonal to T_k for k < n and for k - n odd, and int T_k^2 <= 1 for k >= 1, so its Legendre
coefficients are at most c_n = sqrt(2(2n+1)) M e^(-n theta) / (1 - e^(-2 theta)), and

    |error| <= sum_{n<=d} c_n delta_n,   delta_n = |nu_n - sum_i omega_i P_n(x_i)|,

with the best theta in each of a few ranges of n, or with c_n = sqrt(2n+1) B, B the bound on [0, 1]. Up to n = N_MAX the
delta_n are computed; the recurrence loses digits like u e^(n^2/d) (measured, with room), which is added. Beyond,
delta_n <= sum|omega| + |r| |Q_n| with Euclidean norms, r what is left of q without its components along Q_0 .. Q_N_MAX,
and |Q_n|^2 = (d+1)/(2n+1) prod_{k<=n} (d+1+k)/(d+1-k).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..game.node_counts import COSH, THETA
from ..game.quadrature import legendre_count

# Sums over sizes and their recurrence run in extended precision where the platform has it.
EXTENDED = np.longdouble
UNIT = float(np.finfo(EXTENDED).eps)
# Largest loss u e^(n^2/d) that is let in.
LOSS = 10.0
# Largest relative mismatch of a moment that counts as rounding.
ROUNDED = 1e-13
# From the bound on differences to one on E_p[f 1{j present}] and E_p[f], see the head of `engine.py`.
LOG_PRESENT = np.log((1 + COSH) / 2) - 0.5


class NoRuleError(ArithmeticError):
    """No rule in p can be vouched for; the recursion over sizes serves."""


class SizeMoments(NamedTuple):
    """nu (N+1,), the part of nu_0 that rounding may have put into each (N+1,), log|Q_n| (d+1,), and |r|."""

    nu: Array
    loss: Array
    log_norm: Array
    rest: float


class SizeRule(NamedTuple):
    """Nodes p, the probability of being *present*, and weights, (m,) each; error of a head: see `size_error`.

    log_table (ranges, len(THETA)): logarithm of sum_n c_n delta_n / M over each range of n.
    log_plain (ranges,): the same with c_n / B.
    """

    p: Array
    weights: Array
    log_table: Array
    log_plain: Array


def kernel(d: int, kernel_width: float) -> Array:
    """Lime's weight of a sample with s = 0..d of d features absent: exp(-(100 (1 - sqrt(1 - s/d)))^2 / (2 width^2)).

    100 (1 - sqrt(1 - s/d)) is the package's distance, the cosine distance to the document times 100.

    >>> kernel(2, 25.0).round(3)
    array([1.   , 0.503, 0.   ])
    """
    distance = 100 * (1 - np.sqrt(1 - np.arange(d + 1) / d))
    return np.exp(-((distance / kernel_width) ** 2) / 2)


@lru_cache(maxsize=256)
def size_moments(d: int, kernel_width: float) -> SizeMoments:
    """Moments nu_n of q_s = kernel(s) / d, s = 0..d, for n up to N_MAX = sqrt(d ln(LOSS / u)) or d."""
    q: NDArray[Any] = kernel(d, kernel_width).astype(EXTENDED) / d
    k = np.arange(1, d + 1)
    log_norm = np.concatenate([[0.0], np.cumsum(np.log((d + 1 + k) / (d + 1 - k)))]) / 2
    log_norm += np.log((d + 1) / (2 * np.arange(d + 1) + 1)) / 2
    N = min(d, int(np.sqrt(d * np.log(LOSS / UNIT))))
    loss = UNIT * np.exp(np.arange(N + 1) ** 2 / d)
    slope: NDArray[Any] = d - 2 * np.arange(d + 1).astype(EXTENDED)
    before, Q = 0 * slope, 0 * slope + 1
    nu = np.empty(N + 1)
    rest = q.copy()
    for n in range(N + 1):
        moment = q @ Q
        nu[n] = moment
        rest -= moment * np.exp(-2 * log_norm[n]) * Q
        if n < N:
            before, Q = Q, ((2 * n + 1) * slope * Q - n * (d + n + 1) * before) / ((n + 1) * (d - n))
    doubt = np.abs(nu) @ (loss * np.exp(-log_norm[: N + 1]))  # r is made of rounded Q_n
    return SizeMoments(nu, loss, log_norm, float(np.sqrt(rest @ rest)) + float(doubt))


@lru_cache(maxsize=2048)
def size_rule(d: int, kernel_width: float, m: int) -> SizeRule | None:
    """Rule with m nodes for q_s = kernel(s) / d; None if the moments do not reach that far.

    >>> rule = size_rule(6, np.inf, 3)      # s uniform on 0..6 is p uniform on [0, 1]
    >>> bool(np.isclose(rule.p @ rule.weights, sum(1 - s / 6 for s in range(7)) / 6))
    True
    """
    moments = size_moments(d, kernel_width)
    gauss = _gauss(moments.nu, m) if 2 * m <= moments.nu.size else None
    found = gauss or (_interpolatory(moments.nu, m) if m <= moments.nu.size else None)
    if found is None:
        return None
    x, weights = found
    rule = SizeRule((1 + x) / 2, weights, *_log_tables(d, moments, x, weights))
    for array in rule:
        array.flags.writeable = False
    return rule


def size_error(rule: SizeRule, log_bound: Array, B: float) -> float:
    """Error of the rule for E_p[f] and E_p[f 1{j present}], from `engine.log_bound` and |f| <= B."""
    log_errors = (rule.log_table + (log_bound + LOG_PRESENT)).min(axis=1)
    return float(np.exp(np.minimum(log_errors, rule.log_plain + np.log(B))).sum())


def size_count(d: int, kernel_width: float, log_bound: Array, B: float, allowed: float) -> int:
    """Fewest nodes, or a few more, whose `size_error` is allowed; NoRuleError if there is no such rule."""
    m, last = min(d + 1, legendre_count(log_bound, THETA, allowed)), np.inf
    while (found := size_rule(d, kernel_width, m)) is not None:
        error = size_error(found, log_bound, B)
        if error <= allowed:
            return m
        if error >= last:
            break
        m, last = min(d + 1, m + 1 + m // 8), error
    raise NoRuleError


def _gauss(nu: Array, m: int) -> tuple[Array, Array] | None:
    """Gauss nodes in x and weights from 2m Legendre moments, or None where Lambda is not positive."""
    n = np.arange(1.0, 2 * m)
    leading = np.concatenate([[1.0], np.cumprod((2 * n - 1) / n)])  # of P_n: the algorithm wants monic polynomials
    b = np.concatenate([[0.0], n**2 / (4 * n**2 - 1)])
    before, now = np.zeros(2 * m), nu[: 2 * m] / leading
    alpha, beta = [now[1] / now[0]], [now[0]]
    for i in range(1, m):
        k = np.arange(i, 2 * m - i)
        new = np.zeros(2 * m)
        new[k] = np.append(now, 0.0)[k + 1] - alpha[-1] * now[k] - beta[-1] * before[k] + b[k] * now[k - 1]
        if not new[i] > 0:
            return None
        alpha.append(new[i + 1] / new[i] - now[i] / now[i - 1])
        beta.append(new[i] / now[i - 1])
        before, now = now, new
    side = np.sqrt(beta[1:])
    x, V = np.linalg.eigh(np.diag(alpha) + np.diag(side, 1) + np.diag(side, -1))
    return (x, nu[0] * V[0] ** 2) if np.abs(x).max() <= 1 else None


def _interpolatory(nu: Array, m: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(m)
    n = np.arange(m)
    return x, w / 2 * (np.polynomial.legendre.legvander(x, m - 1) @ ((2 * n + 1) * nu[:m]))


def _log_tables(d: int, moments: SizeMoments, x: Array, weights: Array) -> tuple[Array, Array]:
    """The error bound's sums over ranges of n, a row each, for every theta and for c_n <= sqrt(2n+1) B."""
    N = moments.nu.size - 1
    alias = weights @ np.polynomial.legendre.legvander(x, N)
    gap = np.abs(moments.nu - alias)
    # Where the rule is exact the gap is rounding of the weights, which the rounding budget of `accuracy` covers.
    wrong = np.flatnonzero(gap > ROUNDED * moments.nu[0])
    exact = int(wrong[0]) if wrong.size else N + 1
    gap[:exact] = 0.0
    log_delta = np.log(gap + moments.loss * moments.nu[0])
    if d > N:
        tail = np.logaddexp(np.log(np.abs(weights).sum()), np.log(moments.rest) + moments.log_norm[N + 1 :])
        log_delta = np.append(log_delta, tail)
    n = np.arange(d + 1)
    log_terms = (log_delta + np.log(2 * n + 1) / 2)[:, None] - n[:, None] * np.append(THETA, 0.0)
    starts = _ranges(exact, d)
    top = np.maximum.reduceat(log_terms, starts, axis=0)
    shift = np.repeat(top, np.diff(np.append(starts, d + 1)), axis=0)
    log_sums = top + np.log(np.add.reduceat(np.exp(log_terms - shift), starts, axis=0))
    return log_sums[:, :-1] + np.log(2) / 2 - np.log(-np.expm1(-2 * THETA)), log_sums[:, -1]


def _ranges(exact: int, d: int) -> NDArray[np.intp]:
    """First n of each range: two where the rule is exact, then ever longer ones."""
    starts = [0, exact // 2, exact]
    while starts[-1] <= d:
        starts.append(starts[-1] + max(4, starts[-1] // 3))
    return np.unique([start for start in starts if start <= d])
