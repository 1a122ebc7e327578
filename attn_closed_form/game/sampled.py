"""Shapley values from sampled coalitions, for transformers and for probabilities of several heads
or classes.

Written over coalitions S of size s, the Shapley value of player j in a game v with d players is

    phi_j = (v(N) - v(0)) / d + E [ W_j(S) v(S) ],   W_j(S) = (d [j in S] - s) / (s (d - s) q_s),

where S has the size s with probability q_s and is uniform among the sets of that size. Every S is
drawn with its complement, so only half the difference of the two values counts, and interactions of
an even number of players cancel. With q_s proportional to 1 / sqrt(s (d - s)) all coalitions have
the same weight |W(S)|. The mean over pairs is unbiased, and the spread over pairs gives the
standard error.

**Control variates.** A part of v that can be predicted, and whose Shapley values are known exactly,
is not sampled. There are two such parts.

1. *A fitted head.* A pooled game with one head is a ratio of linear functions of the presence
   vector z, f(z) = (n_0 + A.z) / (1 + delta.z), and has exact Shapley values, through a link as
   well (`links.py`). `fit_head` fits it by reweighted least squares (Sanathanan and Koerner, 1963)
   to one half of the pairs for use on the other. It explains nearly everything for pooled games
   with several heads.
2. *Kernel regression* of the remainder, with z in {-1, 1}^d and

       k(z, z') = sinh(tau sum_i w_i z_i z'_i) / sinh(tau),

   which contains the effects of single players and all odd interactions, stronger among players
   with strong effects of their own: w_i comes from a ridge regression. exp is a product over
   players, so the Shapley values of sinh are an integral over p of a polynomial, by Gauss-Legendre
   nodes. Each pair is predicted from all other pairs (leave-one-out in closed form).

Each prediction is made without the value that it is subtracted from, so the estimate stays
unbiased, except for the choice of tau and of the ridge, which is made on the same pairs. On
transformers the kernel regression is better than the fitted head alone, than orders of players, and
than KernelSHAP at every budget that was measured (`benchmarks/RESULTS.md`). If all 2^d coalitions
fit in the budget, nothing is sampled.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from .._arrays import all_coalitions, usual_float_errors, whole
from .._types import Array, Masks
from .engine.budget import ToleranceError
from .links import Link, LinkedGame
from .orders import default_controls, sample_orders
from .pooled_game import PooledGame
from .tails import TailGame
from .values import shapley


class HeadFit(NamedTuple):
    """How a head is fitted to values of coalitions."""

    steps: int  # of the reweighted least squares
    penalty: float  # relative to the mean square of a column; small enough not to bias the fit
    samples: float  # coalitions per coefficient; with fewer, a linear function is fitted
    least_denominator: float  # for every coalition
    least_weight: float  # of a coalition, relative to the largest
    half_step: float  # half a difference for the slope of a link
    tols: tuple[float, float]  # of the fit's Shapley values: requested, and the largest accepted


# Tuning: a fit only has to explain most of the values, because what it leaves is sampled. Its
# Shapley values are far more accurate than any standard error.
HEAD_FIT = HeadFit(
    steps=8,
    penalty=1e-8,
    samples=1.5,
    least_denominator=0.1,
    least_weight=0.05,
    half_step=1e-4,
    tols=(1e-8, 1e-6),
)


class KernelSearch(NamedTuple):
    """How the kernel of a regression is chosen."""

    taus: tuple[float, ...]
    ridges: tuple[float, ...]  # relative to the mean square of the kernel
    pairs: int  # on which both are chosen; their cost grows with the cube
    first_ridge: float  # of the regression that finds the weights of the players
    equal_weight: float  # the part of the mean weight that every player gets


# Tuning: the best of them on two transformers and on pooled games (benchmarks/RESULTS.md).
KERNEL_SEARCH = KernelSearch(
    taus=(1.0, 3.0, 6.0),
    ridges=(1e-4, 1e-2, 0.1, 0.3),
    pairs=400,
    first_ridge=0.02,
    equal_weight=0.3,
)
# A regression inflates the variance by n over its degrees of freedom, at most by 1 / MIN_FREEDOM.
# With this bound two standard errors covered 94 to 97% of the exact values on two transformers, at
# 10 to 100 calls per word.
MIN_FREEDOM = 2 / 3
# A game minus a control variate: half the differences of pairs (n,), and the values (n, d) that are
# known. The known values of a pair are those of the control variate that was made without it, plus
# equal shares of its error in the value of the grand coalition.
Remainder = tuple[Array, Array]


class Playable(Protocol):
    """A game that gives the values of coalitions: d players, and `value` of masks (n, d) ->
    (n,).
    """

    @property
    def d(self) -> int: ...  # noqa: D102

    def value(self, present: Masks) -> Array: ...  # noqa: D102


class ShapleySample(NamedTuple):
    """Estimates (d,), their standard errors (d,), and the number of coalitions that were
    evaluated.
    """

    values: Array
    standard_error: Array
    calls: int


@usual_float_errors
def shapley_sample(
    game: Playable | TailGame,
    num_calls: int = 2000,
    seed: int | np.random.Generator | None = None,
    link: str | Link | None = None,
    max_error: float | None = None,
    most_calls: int | None = None,
) -> ShapleySample:
    """Estimate Shapley values from random coalitions or orders, with standard errors.

    A `TailGame` is sampled along orders of its players (`game/orders.py`), where values are cheap;
    every other game is sampled by pairs of coalitions. The same seed gives the same answer on every
    run.

    Parameters
    ----------
    game : a TailGame, or anything with `d` and `value(masks)`, such as a PooledGame
    num_calls : the number of coalitions to evaluate, at least ten of them; with `max_error`, the
        number to begin with. If 2^d is not larger, all coalitions are evaluated once, and the
        standard errors are 0
    seed : anything that `numpy.random.default_rng` accepts
    link : explain a function of the game, such as "sigmoid" for the probability; see
        `PooledGame.through`
    max_error : the largest standard error that is wanted. The number of coalitions is doubled until
        it is reached. For a TailGame it is 0.5% of the largest value by default
    most_calls : the number of values after which the estimate is returned with the error that it
        has: by default 64 times `num_calls` for coalitions, and 24,000,000 values for orders

    Returns
    -------
    ShapleySample; the values add up to the value of the grand coalition minus that of the empty one

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> rng = np.random.default_rng(0)
    >>> game = PooledGame.from_scores(s=rng.normal(size=(2, 12)), v=rng.normal(size=(2, 12)))
    >>> sample = shapley_sample(game, num_calls=1000, seed=0)
    >>> sample.values[:3].round(3), sample.standard_error[:3].round(3), sample.calls
    (array([ 0.184, -0.09 , -0.139]), array([0.008, 0.005, 0.005]), 1000)
    >>> shapley(game)[:3].round(3)
    array([ 0.184, -0.089, -0.138])
    >>> probability = shapley_sample(game, num_calls=1000, seed=0, link="sigmoid")
    >>> probability.values[:3].round(3)
    array([ 0.043, -0.02 , -0.03 ])
    """
    d = game.d
    num_calls = whole("num_calls", num_calls)
    function = Link(link) if isinstance(link, str) else link
    rng = np.random.default_rng(seed)
    if isinstance(game, TailGame):
        return _sample_of_tail(game, max_error, most_calls, rng)
    if d == 1 or (d < 40 and 2**d <= num_calls):
        everything = all_coalitions(d)
        _, values = _evaluated(game, everything, function)
        return ShapleySample(
            values=_enumerated(everything, values), standard_error=np.zeros(d), calls=2**d
        )
    if most_calls is None:
        # Tuning: the most that the first number of calls is multiplied by.
        more_calls = 64
        most_calls = more_calls * num_calls
    grand = np.ones(d, dtype=bool)
    ends = np.stack([~grand, grand])
    ends_raw, ends_linked = _evaluated(game, ends, function)
    # The minimum number of pairs of coalitions, whose spread is a standard error.
    min_pairs = 4
    pairs = max(min_pairs, (num_calls - 2) // 2)
    chosen, weights = draw_pairs(rng, pairs, d)
    raw, linked = _evaluated(game, np.concatenate([chosen, ~chosen]), function)
    while True:
        sample = _estimate(
            masks=np.concatenate([ends, chosen, ~chosen]),
            weights=weights,
            raw=np.concatenate([ends_raw, raw]),
            linked=np.concatenate([ends_linked, linked]),
            function=function,
        )
        precise = max_error is None or float(sample.standard_error.max()) <= max_error
        if precise or 2 * sample.calls > most_calls:
            return sample
        more, more_weights = draw_pairs(rng, len(chosen), d)
        more_raw, more_linked = _evaluated(game, np.concatenate([more, ~more]), function)
        raw = _interleaved(raw, more_raw)
        linked = _interleaved(linked, more_linked)
        chosen = np.concatenate([chosen, more])
        weights = np.concatenate([weights, more_weights])


def _evaluated(game: Playable, present: Masks, function: Link | None) -> tuple[Array, Array]:
    """Return the values of coalitions, and those of the link, which are the same without one."""
    values = np.asarray(game.value(present), dtype=np.float64)
    if function is None:
        return values, values
    return values, function(values)


def _sample_of_tail(
    game: TailGame, max_error: float | None, most_calls: int | None, rng: np.random.Generator
) -> ShapleySample:
    """Estimate the Shapley values (d,) of a tail with one output, or (Q, d) of one with several."""
    d = game.d
    grand = np.ones((1, d), dtype=bool)
    of_grand = np.asarray(game.tail(game.pooled(grand)))
    has_several_outputs = of_grand.ndim == 2
    # Players up to which all coalitions of a game with a tail are evaluated instead: 65,536 values
    # take some 50 ms.
    enumerated_players = 16
    if d <= enumerated_players:
        everything = all_coalitions(d)
        values = game.value(everything).reshape(2**d, -1)
        exact = np.stack([_enumerated(everything, column) for column in values.T])
        sample = ShapleySample(values=exact, standard_error=np.zeros_like(exact), calls=2**d)
    else:
        if most_calls is None:
            # Default limit of the refinement: values along orders, some ten seconds of work.
            most_order_values = 24_000_000
            most_calls = most_order_values
        # Tuning: for a larger standard error, exact values of logistic units take longer than the
        # orders that they save (benchmarks/tails).
        rough_error = 2e-3
        is_rough = max_error is not None and max_error >= rough_error
        controls = default_controls(game, rng, with_units=not is_rough)
        of_orders = sample_orders(game, controls, max_error, most_values=most_calls, seed=rng)
        sample = ShapleySample(of_orders.values, of_orders.standard_error, of_orders.calls)
    if has_several_outputs:
        return sample
    return sample._replace(values=sample.values[0], standard_error=sample.standard_error[0])


def _interleaved(values: Array, more: Array) -> Array:
    """Append to values of coalitions and then complements those of more coalitions and then
    complements.
    """
    chosen, complements = np.split(values, 2)
    more_chosen, more_complements = np.split(more, 2)
    return np.concatenate([chosen, more_chosen, complements, more_complements])


def _estimate(
    masks: Masks, weights: Array, raw: Array, linked: Array, function: Link | None
) -> ShapleySample:
    """Estimate the values from those of the empty and the grand coalition, of coalitions and of
    complements.
    """
    n, d = weights.shape
    chosen = masks[2 : 2 + n]
    signs = np.where(chosen, 1.0, -1.0)
    nothing_known = _remainder(linked, np.zeros(d))
    parts = [nothing_known, *_beyond_fitted_heads(masks, raw, linked, link=function)]
    kernels = [
        _choose_kernel(signs[: KERNEL_SEARCH.pairs], odd[: KERNEL_SEARCH.pairs]) for odd, _ in parts
    ]
    best = int(np.argmin([kernel.score for kernel in kernels]))
    (odd, known) = parts[best]
    terms = np.empty((n, d))
    inflation = np.empty(n)
    # Pairs of one kernel regression: a few seconds of work.
    max_block = 1500
    blocks = -(-n // max_block)
    for block in np.array_split(np.arange(n), blocks):
        values, left, inflation[block] = leave_one_out_regression(
            signs[block], odd[block], kernels[best]
        )
        sampled_part = weights[block] * left[:, None]
        without_mean = known[block] + values - values.mean()
        terms[block] = without_mean + sampled_part
    variance = inflation.mean() * terms.var(axis=0, ddof=1)
    return ShapleySample(
        values=terms.mean(axis=0),
        standard_error=np.sqrt(variance / n),
        calls=len(masks),
    )


def _enumerated(masks: Masks, values: Array) -> Array:
    """Compute the (d,) Shapley values from the values (2^d,) of all coalitions (2^d, d)."""
    d = masks.shape[1]
    size = masks.sum(axis=1)
    counts_of_size = [math.comb(d, k) for k in range(d + 1)]
    number = np.array(counts_of_size, dtype=np.float64)
    shares = values / number[size]
    present = np.divide(shares, size, out=np.zeros_like(shares), where=size > 0)
    absent = np.divide(shares, d - size, out=np.zeros_like(shares), where=size < d)
    return np.asarray(masks.T @ present - (~masks).T @ absent)


def draw_pairs(rng: np.random.Generator, pairs: int, d: int) -> tuple[Masks, Array]:
    """Draw random coalitions (pairs, d) and their weights W (pairs, d); the complements have the
    weights -W.

    The sizes are stratified: their numbers differ from their expectations by less than 1.
    """
    sizes = np.arange(1, d)
    q = 1 / np.sqrt(sizes * (d - sizes))
    q /= q.sum()
    levels = (rng.random() + np.arange(pairs)) / pairs
    boundaries = np.cumsum(q)[:-1]
    places = np.searchsorted(boundaries, levels, side="right")
    size = sizes[rng.permutation(places)][:, None]
    order = np.argsort(rng.random((pairs, d)), axis=1)
    rank = np.argsort(order, axis=1)
    chosen: Masks = rank < size
    probability = size * (d - size) * q[size - 1]
    return chosen, (d * chosen - size) / probability


def _remainder(left: Array, known: Array) -> Remainder:
    """Return the remainder from values of the empty and the grand coalition, of coalitions and of
    complements.
    """
    empty, grand = left[:2]
    chosen, complements = np.split(left[2:], 2)
    values = known + (grand - empty) / known.size
    odd = (chosen - complements) / 2
    return odd, np.tile(values, (chosen.size, 1))


def _beyond_fitted_heads(
    masks: Masks, raw: Array, linked: Array, link: Link | None
) -> list[Remainder]:
    """Return the remainders of fitted heads, each fitted to one half of the pairs and used on the
    other; [] if none.
    """
    pairs = (len(masks) - 2) // 2
    weights = np.ones(len(raw))
    if link is not None:
        weights = _slopes(link, raw)
    halves = np.array_split(np.arange(pairs), 2)
    odd = []
    known = []
    for ours, others in (halves, halves[::-1]):
        rows = np.concatenate([[0, 1], 2 + others, 2 + pairs + others])
        try:
            head = fit_head(masks[rows], raw[rows], weights[rows])
            fitted = head if link is None else LinkedGame(head, link)
            left = linked - fitted.value(masks)
            differences, values = _remainder(left, _accurate(fitted))
        except (ToleranceError, ValueError):  # no fit, or one whose values cannot be exact
            return []
        odd.append(differences[ours])
        known.append(values[ours])
    return [(np.concatenate(odd), np.concatenate(known))]


def _accurate(fitted: PooledGame | LinkedGame) -> Array:
    """Compute the Shapley values of a fit as accurately as possible."""
    wanted, accepted = HEAD_FIT.tols
    try:
        return shapley(fitted, wanted)
    except ToleranceError:
        return shapley(fitted, accepted)


class SinhKernel(NamedTuple):
    """The weights (d,) of the players, tau and ridge of a kernel regression, and its leave-one-out
    error.
    """

    score: float
    weights: Array
    tau: float
    ridge: float

    def between(self, signs: Array) -> Array:
        """Compute the (n, n) kernel of coalitions (n, d)."""
        products = self.tau * (signs * self.weights) @ signs.T
        return np.asarray(np.sinh(products) / np.sinh(self.tau))


def _choose_kernel(signs: Array, odd: Array) -> SinhKernel:
    """Return the kernel with the smallest leave-one-out error."""
    n, d = signs.shape
    gram = signs.T @ signs
    gram.flat[:: d + 1] += KERNEL_SEARCH.first_ridge * n
    effects = np.abs(np.linalg.solve(gram, signs.T @ odd))
    if not effects.any():
        return SinhKernel(
            score=0.0,
            weights=np.full(d, 1 / d),
            tau=KERNEL_SEARCH.taus[0],
            ridge=KERNEL_SEARCH.ridges[-1],
        )
    effects += KERNEL_SEARCH.equal_weight * effects.mean()
    weights = effects / effects.sum()
    trials = []
    for tau in KERNEL_SEARCH.taus:
        kernel = SinhKernel(score=0.0, weights=weights, tau=tau, ridge=0.0)
        matrix = kernel.between(signs)
        for ridge in KERNEL_SEARCH.ridges:
            inverse = np.linalg.inv(matrix + ridge * np.eye(n))
            left = inverse @ odd / np.diag(inverse)
            trials.append(kernel._replace(score=float(left @ left), ridge=ridge))
    return min(trials, key=lambda kernel: kernel.score)


def leave_one_out_regression(
    signs: Array, odd: Array, kernel: SinhKernel
) -> tuple[Array, Array, float]:
    """Return (d,) Shapley values of the kernel regression, (n,) leave-one-out residuals, and the
    inflation.

    The values are means over the regressions without one pair, whose coefficients are a - a_i
    C^-1_i / C^-1_ii with C the kernel matrix plus the ridge. The variance of what is left is
    inflated by n over the degrees of freedom.
    """
    n = len(odd)
    C = kernel.between(signs) + kernel.ridge * np.eye(n)
    inverse = np.linalg.inv(C)
    coefficients = inverse @ odd
    left = coefficients / np.diag(inverse)
    mean_coefficients = coefficients - inverse @ left / n
    values = shapley_of_sinh(signs, kernel.tau * kernel.weights, mean_coefficients)
    freedom = kernel.ridge * float(np.trace(inverse)) / n
    inflation = 1 / max(freedom, MIN_FREEDOM)
    return values / np.sinh(kernel.tau), left, inflation


def shapley_of_sinh(signs: Array, theta: Array, coefficients: Array) -> Array:
    """Compute the (d,) Shapley values of sum_n c_n sinh(sum_i theta_i z_i z_ni) over z in {-1,
    1}^d.

    If each player is present with probability p, the mean of exp(theta_i z_i z_ni) is cosh theta_i
    (1 + x r_ni) with x = 2 p - 1 and r_ni = tanh(theta_i) z_ni; the values are integrals over p of
    differences of products of these.

    >>> signs, z = np.array([[1.0, 1.0, -1.0]]), np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    >>> values, theta = (
    ...     shapley_of_sinh(signs, np.array([0.5, 1.0, 0.2]), np.ones(1)),
    ...     np.array([0.5, 1.0, 0.2]),
    ... )
    >>> bool(np.isclose(values.sum(), np.diff(np.sinh((z * theta) @ signs[0]))[0]))
    True
    """
    slopes = np.tanh(theta) * signs
    scale = float(np.prod(np.cosh(theta)))
    values = np.zeros(len(theta))
    exact = len(theta) // 2 + 1
    # Gauss-Legendre nodes: exact to rounding for tau <= 6, whose integrand grows like exp(6 x).
    most_nodes = 16
    nodes, weights = np.polynomial.legendre.leggauss(min(most_nodes, exact))
    for x, weight in zip(nodes, weights, strict=True):
        # The two terms of sinh.
        for factors in (1 + x * slopes, 1 - x * slopes):
            products = coefficients * factors.prod(axis=1)
            values += weight / 2 * scale * products @ (slopes / factors)
    return values


def _slopes(link: Link, values: Array) -> Array:
    """Return the slope of the link at each value, relative to the largest."""
    above = link(values + HEAD_FIT.half_step)
    below = link(values - HEAD_FIT.half_step)
    change = np.abs(above - below)
    largest = float(change.max())
    if 0 < largest < np.inf:
        return change / largest + HEAD_FIT.least_weight
    return np.ones(len(values))


def fit_head(present: Masks, values: Array, weights: Array | None = None) -> PooledGame:
    """Fit a one-head game to values (n,) at coalitions (n, d), or a linear one if there are few.

    `weights` (n,) multiply the errors.

    >>> game = PooledGame.from_scores(
    ...     [0.0, 1.0, 0.5], [1.0, -1.0, 2.0], s_background=0.0, v_background=0.3
    ... )
    >>> masks = np.random.default_rng(0).random((60, 3)) < 0.5
    >>> bool(
    ...     np.allclose(
    ...         fit_head(masks, game.value(masks)).value(masks), game.value(masks), atol=1e-6
    ...     )
    ... )
    True
    """
    Z = present.astype(np.float64)
    n, d = Z.shape
    if weights is None:
        weights = np.ones(n)
    level = float(values.mean())
    y = values - level
    ones = np.concatenate([np.ones((n, 1)), Z], axis=1)
    D = np.ones(n)
    best_delta = np.zeros(d)
    # The numerators n_0 and A.
    best_top = _least_squares(ones, y, weights)
    smallest = _mean_square(weights * (ones @ best_top - y))
    steps = HEAD_FIT.steps
    if n < HEAD_FIT.samples * (2 * d + 1):
        steps = 0
    for _ in range(steps):
        both = np.concatenate([ones, -y[:, None] * Z], axis=1)
        delta = _least_squares(both, y, weights / D)[d + 1 :]
        below = float(np.maximum(-delta, 0.0).sum())
        if below > 1 - HEAD_FIT.least_denominator:
            delta[delta < 0] *= (1 - HEAD_FIT.least_denominator) / below
        D = 1.0 + Z @ delta
        top = _least_squares(ones / D[:, None], y, weights)
        error = _mean_square(weights * (ones @ top / D - y))
        if error < smallest:
            smallest = error
            best_top = top
            best_delta = delta
    return _head(level, best_top[0], A=best_top[1:], delta=best_delta)


def _mean_square(residuals: Array) -> float:
    return float(np.square(residuals).mean())


def _least_squares(X: Array, y: Array, w: Array) -> Array:
    """Solve a weighted least squares problem with a small penalty."""
    rows = w[:, None] * X
    gram = rows.T @ rows
    mean_diagonal = HEAD_FIT.penalty * np.trace(gram) / len(gram)
    gram.flat[:: len(gram) + 1] += mean_diagonal
    moments = rows.T @ (w * y)
    return np.asarray(np.linalg.solve(gram, moments), dtype=np.float64)


def _head(level: float, n_0: float, A: Array, delta: Array) -> PooledGame:
    """Build the game level + (n_0 + A.z) / (1 + delta.z), in which absent players have the value
    `level`.
    """
    b = np.maximum(-delta, 0.0)
    room = (1 - float(b.sum())) / 2
    total = float(np.abs(A).sum())
    # Both states of a player get a common mass, so that no value is far beyond the others.
    shares = np.zeros(A.size)
    if total:
        shares = np.abs(A) / total
    common = room * shares + room * 1e-3 / A.size
    a = np.maximum(delta, 0.0) + common
    b = b + common
    c_0 = 1 - float(b.sum())
    return PooledGame.from_scores(
        s=np.log(a),
        v=level + A / a,
        s_absent=np.log(b),
        v_absent=np.full(A.size, level),
        s_background=float(np.log(c_0)),
        v_background=level + n_0 / c_0,
    )
