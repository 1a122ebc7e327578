"""Rules in p for LIME's kernel: a few nodes replace the sum over sizes, with a proved error.

A rule has nodes p_i and weights omega_i with the first moments of the kernel (`size_moments.py`),
and serves every term of a game. With |E_p[h]| <= M on the Bernstein ellipse e^theta around [0, 1],
and <= B on [0, 1], its error is at most sum_{n<=d} c_n delta_n,

    c_n = min(sqrt(2(2n+1)) M e^(-n theta) / (1 - e^(-2 theta)), sqrt(2n+1) B),
    delta_n = |nu_n - sum_i omega_i P_n(1 - 2p_i)|, or at most sum|omega| + |r| |Q_n| beyond the
              last moment.

r is the part of the kernel beyond the last moment. Instead of |r| |Q_n|, which grows fast with n,
it may count as sqrt(d+1) |r| B once.

The accuracy of the construction does not matter, because the bound compares the finished rule with
the moments. Proofs: docs/theory/rules-in-p.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._legendre import legendre_rule
from .._types import Array, Ids
from ..game.engine.bounds import THETA
from ..game.engine.rounding import LIME_MIXED_SIGNS, LIME_MOMENT
from .size_moments import (
    LEGENDRE_BITS,
    MOMENT_BITS,
    WEIGHT_BITS,
    SizeMoments,
    Whole,
    as_floats,
    legendre_values,
    size_moments,
    whole,
)

# Tuning: numbers of nodes that are tried. They are few, because terms with the same number are
# evaluated together, and grow by a fifth. A group is built together; a long rule takes up to half a
# second to build, so long ones are built one by one, when a term needs them.
GROUPS: tuple[tuple[int, ...], ...] = (
    (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    (17, 20, 24, 28),
    (33, 39, 46, 54),
    *((count,) for count in (64, 76, 90, 110, 130, 155, 185, 220, 260, 310, 370, 440)),
)
# Tuning: rules with at least this many nodes are compared with the same moments, which take longer
# than the rules, and have the second bound on the remainder, which is hardly ever smaller for
# shorter ones.
LONG_RULE = 64
# The groups of short rules.
SHORT_GROUPS = tuple(group for group in GROUPS if group[-1] < LONG_RULE)
# The numbers of nodes of all groups.
COUNTS = tuple(count for group in GROUPS for count in group)
# The number of nodes of the longest rule.
LONGEST_RULE = COUNTS[-1]
# Added to the bound of E_p[f], it also bounds E_p[f 1{j present}]: (1 + cosh theta) / 2, see
# `game/engine/bounds.py`.
LOG_PRESENT = np.log((1 + np.cosh(THETA)) / 2)


class SizeRule(NamedTuple):
    """A rule for q = `relative_kernel`, with its error for moments that are exact up to rounding
    and for others.
    """

    p: Array  # (m,) probability of being *present*
    weights: Array  # (m,)
    # (3, 1, len(THETA)): logs of the sum of c_n delta_n / M over the n for which the rule is not
    # exact, of the same without |r|, and of the same over the n for which the rule is exact.
    log_sums: Array
    rounding: float  # sum of sqrt(2n+1) delta_n over the n for which the rule is exact
    remainder: float  # sqrt(d+1) |r|

    @property
    def log_error(self) -> Array:
        """(len(THETA),) over the n for which the rule is not exact."""
        return self.log_sums[0, 0]

    @property
    def log_smooth(self) -> Array:
        """(len(THETA),) the same without |r|."""
        return self.log_sums[1, 0]

    @property
    def log_rounding(self) -> Array:
        """(len(THETA),) over the n for which the rule is exact."""
        return self.log_sums[2, 0]


class Ladder(NamedTuple):
    """The rules of one number of players, shortest first, with their errors side by side."""

    rules: tuple[SizeRule, ...]
    log_error: Array  # (len(THETA), 1, rules)
    log_smooth: Array  # (len(THETA), 1, rules)
    log_rounding: Array  # (len(THETA), 1, rules)
    rounding: Array  # (rules,)
    remainder: Array  # (rules,)

    def choose(self, log_bound: Array, B: Array, allowed: float) -> tuple[Ids, Array]:
        """Return for each of r terms the shortest rule with an error below `allowed` (or the best
        rule), and its error.

        `log_bound` (r, len(THETA)) is that of `game/engine/bounds.py`, and `B` (r,) bounds the
        terms on [0, 1].
        """
        # The thetas are the first axis here: a minimum over a short last axis takes five times as
        # long.
        by_theta = np.ascontiguousarray((log_bound + LOG_PRESENT).T)
        log_M = by_theta[:, :, None]
        truncation = _exp(np.minimum.reduce(self.log_error + log_M, axis=0))
        rounding = np.multiply.outer(B, self.rounding)
        errors = truncation + rounding
        no_rule = np.logical_and.reduce(errors > allowed, axis=1)
        (bad,) = no_rule.nonzero()
        if bad.size:
            # The other forms of both parts take longer, and are rarely smaller.
            log_M = log_M[:, bad]
            truncation = truncation[bad]
            if self.rules[-1].p.size >= LONG_RULE:
                smooth = _exp(np.minimum.reduce(self.log_smooth + log_M, axis=0))
                smooth += np.multiply.outer(B[bad], self.remainder)
                truncation = np.minimum(truncation, smooth)
            by_ellipse = _exp(np.minimum.reduce(self.log_rounding + log_M, axis=0))
            errors[bad] = truncation + np.minimum(by_ellipse, rounding[bad])
        good = errors <= allowed
        shortest = good.argmax(axis=1)
        best = errors.argmin(axis=1)
        has_rule = np.logical_or.reduce(good, axis=1)
        index = np.where(has_rule, shortest, best)
        every_term = np.arange(index.size)
        return index, errors[every_term, index]


def rule_errors(rule: SizeRule, log_bound: Array, B: Array) -> Array:
    """Return the error (r,) of one rule for each of r terms, whose bounds are those of
    `Ladder.choose`.
    """
    log_M = log_bound + LOG_PRESENT
    # All three sums at once: there are few terms, and every operation has its price.
    truncation, smooth, rounding = _exp(np.minimum.reduce(rule.log_sums + log_M, axis=2))
    if rule.p.size >= LONG_RULE:
        truncation = np.minimum(truncation, smooth + B * rule.remainder)
    return truncation + np.minimum(B * rule.rounding, rounding)


def _exp(x: Array) -> Array:
    """Return e^x of the logarithm of an error bound."""
    # The exponent of an error bound above which the bound is useless in any case, so that exp
    # cannot overflow.
    largest_log_error = 300.0
    return np.exp(np.minimum(x, largest_log_error))


@lru_cache(maxsize=512)
def ladder(d: int, kernel_width: float, counts: tuple[int, ...] = COUNTS) -> Ladder:
    """Return all existing rules with one of `counts` nodes.

    >>> rule = ladder(6, np.inf, (3,)).rules[0]  # a uniform size on 0..6 is p uniform on [0, 1]
    >>> bool(np.isclose(rule.p @ rule.weights, sum(m / 6 for m in range(7))))
    True
    """
    moments = size_moments(d, kernel_width, longest_of(counts))
    rules = tuple(_size_rule(moments, m) for m in counts if m <= len(moments.nu))
    return Ladder(
        rules=rules,
        log_error=_side_by_side([rule.log_error for rule in rules]),
        log_smooth=_side_by_side([rule.log_smooth for rule in rules]),
        log_rounding=_side_by_side([rule.log_rounding for rule in rules]),
        rounding=np.array([rule.rounding for rule in rules]),
        remainder=np.array([rule.remainder for rule in rules]),
    )


def _side_by_side(columns: list[Array]) -> Array:
    """Return arrays (len(THETA),) of the rules as one array (len(THETA), 1, rules)."""
    table = np.stack(columns, axis=1)
    return np.ascontiguousarray(table[:, None])


def longest_of(counts: tuple[int, ...]) -> int:
    """Return the number of nodes of the longest rule that has the same moments as a group."""
    if counts[-1] < LONG_RULE:
        return counts[-1]
    return LONGEST_RULE


def _size_rule(moments: SizeMoments, m: int) -> SizeRule:
    """Build a rule with m nodes, and the bounds of its error."""
    p, exact = _nodes_of(moments, m)
    P = legendre_values(p, moments.rounded.size)
    weights = _weights_at(moments, P[:, :exact])
    delta = _moment_errors(moments, weights, P)
    # The logs of sum c_n delta_n / M, for the degrees that the rule has, then for the others up to
    # the last moment.
    decay = np.exp(-np.outer(THETA, np.arange(delta.size)))
    parts = decay * delta
    of_exact = parts[:, :exact].sum(axis=1)
    of_others = parts[:, exact:].sum(axis=1)
    log_factor = np.log(2) / 2 - np.log(-np.expm1(-2 * THETA))
    with np.errstate(divide="ignore"):
        log_rounding = np.log(of_exact) + log_factor
        log_truncation = np.log(of_others) + log_factor
    # Beyond the last moment there are the rule and the remainder of the kernel.
    log_rule_weights, log_remainder = moments.log_beyond
    size = float(np.abs(weights).sum())
    log_size = np.log(size)
    log_rule_beyond = log_size + log_rule_weights
    log_beyond = np.logaddexp(log_rule_beyond, log_remainder)
    log_error = np.logaddexp(log_truncation, log_beyond + log_factor)
    log_smooth = np.logaddexp(log_truncation, log_rule_beyond + log_factor)
    if not moduli_are_counted(moments.kernel, p, weights):
        # Too much would cancel: this rule is never chosen.
        log_error[:] = np.inf
        log_smooth[:] = np.inf
    log_sums = np.stack([log_error, log_smooth, log_rounding])[:, None]
    for array in (p, weights, log_sums):
        array.flags.writeable = False
    return SizeRule(
        p=p,
        weights=weights,
        log_sums=log_sums,
        rounding=float(delta[:exact].sum()),
        remainder=moments.remainder,
    )


def moduli_are_counted(q: Array, p: Array, weights: Array) -> bool:
    """Whether sums over nodes lose no more to rounding than `moments.rule_factors` counts, given q
    (d+1,).

    Rounding is relative to sums of |omega|, |omega| p (1-p) and |omega| |1-p-w|, which the budget
    takes from the sizes: LIME_MIXED_SIGNS times sum q, sum q s(d-s) / (d(d-1)), and the root of sum
    q times sum q (s/d - w)^2. By Cauchy and Schwarz the last one holds if sum |omega| (1-p-w)^2 <=
    LIME_MIXED_SIGNS sum q (s/d - w)^2 for every w.

    >>> q = np.ones(3)
    >>> moduli_are_counted(q, np.array([0.25, 0.75]), np.array([1.5, 1.5]))
    True
    >>> moduli_are_counted(q, np.array([0.25, 0.5, 0.75]), np.array([2.5, -2.0, 2.5]))
    False
    """
    d = q.size - 1
    s = np.arange(d + 1)
    share = s / d
    moduli = np.abs(weights)
    absent = 1 - p
    pairs_that_differ = float(q @ (s * (d - s)))
    moving = LIME_MIXED_SIGNS * pairs_that_differ / (d * (d - 1))
    if moduli @ (p * absent) > moving:
        return False
    # The spare sum is square - 2 w first + w^2 level.
    # What the sizes have more than the rule, for the powers 0, 1 and 2 of s/d and 1 - p.
    level = LIME_MIXED_SIGNS * float(q.sum()) - float(moduli.sum())
    first = LIME_MIXED_SIGNS * float(q @ share) - float(moduli @ absent)
    square = LIME_MIXED_SIGNS * float(q @ share**2) - float(moduli @ absent**2)
    # The quadratic form in (1, w) is nowhere negative.
    return min(level, square) >= 0 and level * square >= first**2


def _nodes_of(moments: SizeMoments, m: int) -> tuple[Array, int]:
    """Return the m nodes of a rule, and the number of moments that its weights are made for.

    They are those of the Gauss rule if it exists, which has 2m moments, otherwise Gauss-Legendre
    nodes.
    """
    nu = moments.rounded
    if 2 * m < nu.size:
        p = gauss_nodes(nu, m)
        if p is not None and p[0] > 0 and p[-1] < 1:
            return _polished_nodes(moments, p), 2 * m
    nodes, _ = legendre_rule(m)
    return nodes.copy(), m


def _moment_errors(moments: SizeMoments, weights: Array, P: Whole) -> Array:
    """Return upper bounds on delta_n, times sqrt(2n+1), for every moment."""
    size = float(np.abs(weights).sum())
    missing = moments.nu - whole(weights, WEIGHT_BITS) @ P
    delta = np.abs(as_floats(missing, MOMENT_BITS))
    delta += LIME_MOMENT * (size + float(moments.rounded[0]))
    delta *= np.sqrt(2 * np.arange(delta.size) + 1)
    return delta


def _weights_at(moments: SizeMoments, P: Whole) -> Array:
    """Return weights (m,) with the first moments, given the Legendre polynomials (m, exact) at the
    nodes.

    They are found by least squares, and refined once with a residual in integers.
    """
    exact = P.shape[1]
    system = as_floats(P, LEGENDRE_BITS)
    weights = _least_squares(system, moments.rounded[:exact])
    missing = moments.nu[:exact] - whole(weights, WEIGHT_BITS) @ P
    return weights + _least_squares(system, as_floats(missing, MOMENT_BITS))


def _polished_nodes(moments: SizeMoments, p: Array) -> Array:
    """Return the nodes of a Gauss rule after a step of Newton's method for nodes and weights
    together.

    The slope of a Legendre polynomial is 2 p (1 - p) dP_n/dp = (n + 1) (P_{n+1} - (1 - 2p) P_n).
    """
    m = p.size
    exact = 2 * m
    P = legendre_values(p, exact + 1)
    values = as_floats(P, LEGENDRE_BITS)
    current = values[:, :-1]
    following = values[:, 1:]
    weights = _least_squares(current, moments.rounded[:exact])
    missing = moments.nu[:exact] - whole(weights, WEIGHT_BITS) @ P[:, :-1]
    residual = as_floats(missing, MOMENT_BITS)
    x = 1 - 2 * p
    n = np.arange(exact)
    slope = (n + 1) * (following - x[:, None] * current)
    factor = weights / (2 * p * (1 - p))
    by_node = slope * factor[:, None]
    step = _least_squares(np.concatenate([current, by_node]), residual)
    moved: Array = np.clip(p + step[m:], 0.0, 1.0)
    return moved


def _least_squares(values: Array, moments: Array) -> Array:
    """Return least-squares weights for values (m, n) of polynomials at nodes and their moments
    (n,).
    """
    weights: Array = np.asarray(np.linalg.lstsq(values.T, moments, rcond=None)[0])
    return weights


def gauss_nodes(nu: Array, m: int) -> Array | None:
    """Return the (m,) nodes of the Gauss rule with moments nu_n = Lambda[P_n(1 - 2p)], or None if
    there is none.

    This is the modified Chebyshev algorithm (Sack and Donovan, 1972). It finds the recurrence of
    the polynomials that are orthogonal for Lambda; the nodes are the eigenvalues of its matrix. The
    rule exists while Lambda is positive on squares of degree below m.

    >>> gauss_nodes(np.eye(1, 4)[0], 2).round(6)  # Legendre's own moments give Gauss-Legendre
    array([0.211325, 0.788675])
    """
    # Legendre's recurrence in p: up P_{n+1} = (up + down - p) P_n - down P_{n-1}.
    count = 2 * m
    n = np.arange(float(count))
    odd = 2 * n + 1
    up = (n + 1) * (n + 1) / (odd * (2 * n + 2))
    down = n * n / (np.maximum(2 * n, 1.0) * odd)
    # Monic polynomials pi_{k+1} = (p - center_k) pi_k - product_k pi_{k-1} have the same moments
    # but for factors.
    center = up + down
    product = np.concatenate([[0.0], up[:-1] * down[1:]])
    leading = np.concatenate([[1.0], np.cumprod(-up[:-1])])
    before = np.zeros(count)
    current = nu[:count] * leading
    if not current[0] > 0:
        return None
    # The matrix of the recurrence: its diagonal, and the squares beside it.
    diagonal = [center[0] + current[1] / current[0]]
    squares = [current[0]]
    for i in range(1, m):
        k = slice(i, count - i)
        shifted = np.append(current, 0.0)[i + 1 : count - i + 1]
        following = np.zeros(count)
        moved = (diagonal[-1] - center[k]) * current[k]
        following[k] = shifted - moved - squares[-1] * before[k]
        following[k] += product[k] * current[i - 1 : count - i - 1]
        if not following[i] > 0:
            return None
        ratio = following[i + 1] / following[i]
        ratio_before = current[i] / current[i - 1]
        diagonal.append(center[i] + ratio - ratio_before)
        squares.append(following[i] / current[i - 1])
        before = current
        current = following
    side = np.sqrt(squares[1:])
    matrix = np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1)
    return np.linalg.eigvalsh(matrix)
