"""LIME's kernel as a rule in p: a few nodes replace the sum over sizes, with a proved error.

E_p[h], the mean of a function h of coalitions when every player is absent with probability p, is a polynomial in p of
degree d at most. A weight q_s on the number s of absent players turns it into Lambda = sum_s q_s E[h | s absent], the
linear functional p^k -> sum_s q_s (s)_k / (d)_k (falling factorials). With x = 1 - 2p it sends the Legendre polynomial
P_n(x) to nu_n = sum_s q_s Q_n(s), Q_n the Hahn polynomial (`hahn.py`), for n <= d. Nodes and weights with
sum_i omega_i P_n(x_i) = nu_n for n < N replace a sum over d + 1 sizes by m evaluations:
- Gauss: from nu_0 .. nu_{2m-1} (`gauss.py`), N = 2m. It exists while Lambda is positive on polynomials of
  that degree; for LIME's kernel that is up to about m = 1.5 sqrt(d).
- else Gauss-Legendre nodes, weights w_i sum_{n<m} (2n+1) P_n(x_i) nu_n, N = m.
How well they were made does not matter: the bound below compares the finished rule with the nu_n.

**The error.** Let |E_p[h]| <= M on the Bernstein ellipse e^theta, so that its Chebyshev coefficients are at most 2 M
e^(-k theta). P_n is orthogonal to T_k for k < n and for k - n odd, and int T_k^2 <= 1 for k >= 1, so its Legendre
coefficients are at most c_n = sqrt(2(2n+1)) M e^(-n theta) / (1 - e^(-2 theta)), or sqrt(2n+1) B, B the bound on [0,
1]:

    |error| <= sum_{n<=d} c_n delta_n,   delta_n = |nu_n - sum_i omega_i P_n(x_i)|.

Up to the last moment that `hahn.py` has, delta_n is computed, and what rounding can hide is added: the error of nu_n,
and that of P_n by its recurrence, at most 5.5 n u min(n/2, 1/sqrt(1-x^2)) (the argument of `hahn.py` with b_n = n and
c_n = n + 1, where the energy never grows). Beyond, delta_n <= sum|omega| + |r| |Q_n|, r what is left of q. As log|Q_n|
is convex in n, so is the bound of a term, and the largest of a range of n is at one of its ends.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids
from ..game.node_counts import COSH, THETA
from .gauss import gauss_rule
from .hahn import UNIT, size_moments
from .kernel import EXTENDED

# Numbers of nodes that are tried: rows with equal numbers go through the engine together, so they are few.
COUNTS = (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 20, 24, 28, 33, 39, 46, 54)
# Added to a bound on differences it bounds E_p[f 1{j present}] and E_p[f]; see the docstring of `node_counts.py`.
LOG_PRESENT = np.log((1 + COSH) / 2) - 0.5


# A rule of up to this many nodes is never long.
SHORT_RULE = 8


class NoRuleError(ArithmeticError):
    """No rule in p can be vouched for."""


class SizeRule(NamedTuple):
    """A rule for q_s = kernel(s) / d.

    p (m,) : the probability of being *present* weights (m,) log_error (3, len(THETA)) : log of the sum of c_n delta_n
    / M over the n for which the rule is exact but for rounding,
        over the other moments that are known, and over the rest
    rounding : the sum of sqrt(2n+1) delta_n where the rule is exact; times B it bounds the error there, too
    """

    p: Array
    weights: Array
    log_error: Array
    rounding: float


@lru_cache(maxsize=4096)
def size_rule(d: int, kernel_width: float, m: int) -> SizeRule | None:
    """Rule with m nodes, or None if the moments do not reach that far.

    >>> rule = size_rule(6, np.inf, 3)      # s uniform on 0..6 is p uniform on [0, 1]
    >>> bool(np.isclose(rule.p @ rule.weights, sum(1 - s / 6 for s in range(7)) / 6))
    True
    """
    nu = size_moments(d, kernel_width).nu
    plain = nu.astype(np.float64)
    gauss = _gauss(plain, m) if 2 * m <= nu.size else None
    exact = 2 * m if gauss else m
    found = gauss or (_interpolatory(plain, m) if m <= nu.size else None)
    if found is None:
        return None
    p, weights = _polish(nu, *found, exact)
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
        """For every row the shortest rule with an error below `allowed`, or else the best one; and its error.

        Parameters
        ----------
        log_bound : (rows, len(THETA)), as of `node_counts.py`, for the ellipses THETA
        B : (rows,) bound on [0, 1]
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
            errors[bad] = np.minimum(parts[..., 0], np.multiply.outer(B[bad], self.rounding)) + parts[..., 1:].sum(
                axis=2
            )
            good = errors[bad] <= allowed
            index[bad] = np.where(good.any(axis=1), good.argmax(axis=1), errors[bad].argmin(axis=1))
        return index, errors[rows, index]

    def last_within(self, nodes: float) -> int:
        """Index of the longest rule with at most `nodes` nodes, or SHORT_RULE if that is more."""
        return int(np.searchsorted(self.counts, max(nodes, SHORT_RULE), side="right")) - 1


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


def _gauss(nu: Array, m: int) -> tuple[Array, Array] | None:
    """Gauss nodes in x and weights from 2m Legendre moments, or None where there is no such rule."""
    n = np.arange(1.0, 2 * m)
    leading = np.concatenate([[1.0], np.cumprod((2 * n - 1) / n)])  # of P_n
    product = np.concatenate([[0.0], n**2 / (4 * n**2 - 1)])
    found = gauss_rule(nu[: 2 * m] / leading, np.zeros(2 * m), product, m)
    return found if found and np.abs(found[0]).max() <= 1 else None


def _interpolatory(nu: Array, m: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(m)
    n = np.arange(m)
    return x, w / 2 * (np.polynomial.legendre.legvander(x, m - 1) @ ((2 * n + 1) * nu[:m]))


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
