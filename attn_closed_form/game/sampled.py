"""Shapley values by sampled orders, for what has no closed form: black boxes, and probabilities of several heads.

Castro, Gomez, Tejada 2009: in a random order of the players, each gets what it changes when it joins; the mean over
orders is the Shapley value. Every order is walked in both directions (antithetic pairs, Mitchell et al. 2022), which
cancels what is linear, and the pairs are independent, so that their spread gives the standard error.

**A fitted head as control variate.** Near a text most models are close to a pooled game with one head, whose value is a
ratio of linear functions of the presence vector z,

    f(z) = (n_0 + A.z) / (1 + delta.z),

and whose Shapley values are exact, through a link as well (`links.py`). `fit_head` fits it to values at sampled
coalitions by reweighted least squares (Sanathanan and Koerner, 1963). Only the difference between the game and the fit
is then sampled, which is small where the fit is good. The orders come in two halves: the fit of each half is the
control variate of the other, so the estimate has no bias.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .._arrays import whole
from .._types import Array, Ids, Masks
from .budget import ToleranceError
from .links import Link
from .pooled_game import PooledGame
from .values import shapley

# The fewest pairs of orders that have a spread, and that each half of a sample with a fit needs.
LEAST_PAIRS = 2
# Steps of the reweighted least squares, and its penalty relative to the mean square of a column.
FIT_STEPS, FIT_PENALTY = 8, 1e-8
# A ratio is fitted to at least this many coalitions per coefficient; below, a linear function.
LEAST_SAMPLES = 1.5
# The denominator of a fit stays above this for every coalition.
LEAST_DENOMINATOR = 0.1
# Relative accuracy of the fit's own Shapley values: far below any standard error.
FIT_TOL = 1e-6
# Half a difference for the slope of a link, and the least weight of a coalition in a fit relative to the largest.
HALF_STEP, LEAST_WEIGHT = 1e-4, 0.05


class Playable(Protocol):
    """What can be asked for the values of coalitions: d players, and `value` of masks (n, d) -> (n,)."""

    @property
    def d(self) -> int: ...  # noqa: D102

    def value(self, present: Masks) -> Array: ...  # noqa: D102


class ShapleySample(NamedTuple):
    """Estimates (d,), their standard errors (d,), and the number of coalitions that were asked."""

    values: Array
    standard_error: Array
    calls: int


def shapley_sample(
    game: Playable,
    num_calls: int = 2000,
    seed: int | np.random.Generator | None = None,
    link: str | Link | None = None,
    proxy: bool = True,
) -> ShapleySample:
    """Shapley values from random orders of the players, with standard errors: estimates, not exact values.

    Parameters
    ----------
    game : anything with `d` and `value(masks)`, such as a PooledGame
    num_calls : about how many coalitions to ask, d - 1 per order and two for all orders together; at least four orders
        are walked, or eight with a proxy
    seed : anything that `numpy.random.default_rng` takes
    link : the values of a function of the game, such as "sigmoid" for the probability; see `PooledGame.through`
    proxy : whether a fitted head is the control variate; see the module docstring

    Returns
    -------
    ShapleySample; the values add up to the value of everybody minus that of nobody

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, 0.5], v=[1.0, -1.0, 2.0])
    >>> sample = shapley_sample(game, num_calls=2000, seed=0, proxy=False)
    >>> bool((np.abs(sample.values - shapley(game)) < 5 * sample.standard_error).all())
    True
    >>> two_heads = PooledGame.from_scores([[0.0, 1.0, 0.5], [1.0, 0.0, -1.0]], [[1.0, -1.0, 2.0], [0.5, 1.0, -1.0]])
    >>> probability = shapley_sample(two_heads, num_calls=2000, seed=0, link="sigmoid")
    >>> bool(probability.standard_error.max() < 1e-3)
    True
    """
    d, num_calls = game.d, whole("num_calls", num_calls)
    function = Link(link) if isinstance(link, str) else link
    rng = np.random.default_rng(seed)
    ends = np.array([np.zeros(d, dtype=bool), np.ones(d, dtype=bool)])
    if d == 1:
        raw = np.asarray(game.value(ends), dtype=np.float64)
        nobody, everybody = function(raw) if function else raw
        return ShapleySample(np.array([everybody - nobody]), np.zeros(1), 2)
    pairs = max(LEAST_PAIRS * (1 + proxy), (num_calls - 2) // (2 * (d - 1)))
    rank = _ranks(rng, pairs, d)
    masks = np.concatenate([ends, (rank[:, None, :] < np.arange(1, d)[None, :, None]).reshape(-1, d)])
    values = np.asarray(game.value(masks), dtype=np.float64)
    linked = function(values) if function else values
    if not proxy:
        return ShapleySample(*_walk(linked, rank), len(values))
    weights = _slopes(function, values) if function else np.ones(len(values))
    # Orders of the first half, then of the second; a pair is never torn apart.
    half = pairs // 2 * 2
    halves = (slice(0, half), slice(half, 2 * pairs))
    estimates, squares = [], []
    for ours, others in (halves, halves[::-1]):
        seen = np.concatenate([[0, 1], 2 + _rows(others, d)])
        exact, off = np.zeros(d), linked
        try:
            fitted = fit_head(masks[seen], values[seen], weights[seen])
            model = fitted.through(function.name, function.scale, function.target) if function else fitted
            exact, off = shapley(model, FIT_TOL), linked - model.value(masks)
        except (ToleranceError, ValueError):
            pass  # no fit, or one whose values cannot be exact: the plain sample of this half
        mean, error = _walk(off[np.concatenate([[0, 1], 2 + _rows(ours, d)])], rank[ours])
        estimates.append(exact + mean)
        squares.append(error**2)
    share = np.array([half, 2 * pairs - half]) / (2 * pairs)
    return ShapleySample(share @ np.stack(estimates), np.sqrt(share**2 @ np.stack(squares)), len(values))


def _ranks(rng: np.random.Generator, pairs: int, d: int) -> Ids:
    """(2 pairs, d) when each player comes, in random orders and their reverses, one after the other."""
    forward = np.argsort(rng.random((pairs, d)), axis=1)
    return np.argsort(np.stack([forward, forward[:, ::-1]], axis=1).reshape(-1, d), axis=1)


def _rows(orders: slice, d: int) -> Ids:
    """Where the coalitions of these orders are, d - 1 each."""
    return np.arange(orders.start * (d - 1), orders.stop * (d - 1))


def _walk(values: Array, rank: Ids) -> tuple[Array, Array]:
    """Mean changes and their standard errors (d,), from values of nobody, of everybody, and along each order."""
    orders, d = rank.shape
    path = np.empty((orders, d + 1))
    path[:, 0], path[:, -1] = values[:2]
    path[:, 1:-1] = values[2:].reshape(orders, d - 1)
    change = np.take_along_axis(np.diff(path, axis=1), rank, axis=1)
    of_pairs = change.reshape(-1, 2, d).mean(axis=1)
    return of_pairs.mean(axis=0), of_pairs.std(axis=0, ddof=1) / np.sqrt(len(of_pairs))


def _slopes(link: Link, values: Array) -> Array:
    """How much the link makes of an error of each value, relative to the largest."""
    change = np.abs(link(values + HALF_STEP) - link(values - HALF_STEP))
    largest = float(change.max())
    return change / largest + LEAST_WEIGHT if 0 < largest < np.inf else np.ones(len(values))


def fit_head(present: Masks, values: Array, weights: Array | None = None) -> PooledGame:
    """The one-head game that fits values (n,) at coalitions (n, d) best; a linear one where there are few.

    `weights` (n,) multiply the errors.

    >>> game = PooledGame.from_scores([0.0, 1.0, 0.5], [1.0, -1.0, 2.0], s_background=0.0, v_background=0.3)
    >>> masks = np.random.default_rng(0).random((60, 3)) < 0.5
    >>> bool(np.allclose(fit_head(masks, game.value(masks)).value(masks), game.value(masks), atol=1e-6))
    True
    """
    Z = present.astype(np.float64)
    n, d = Z.shape
    w = np.ones(n) if weights is None else weights
    level = float(values.mean())
    y = values - level
    ones = np.concatenate([np.ones((n, 1)), Z], axis=1)
    D, delta = np.ones(n), np.zeros(d)
    top = _least_squares(ones, y, w)
    best = float(np.square(w * (ones @ top - y)).mean()), top, delta
    for _ in range(FIT_STEPS if n >= LEAST_SAMPLES * (2 * d + 1) else 0):
        delta = _least_squares(np.concatenate([ones, -y[:, None] * Z], axis=1), y, w / D)[d + 1 :]
        below = float(np.maximum(-delta, 0.0).sum())
        if below > 1 - LEAST_DENOMINATOR:
            delta[delta < 0] *= (1 - LEAST_DENOMINATOR) / below
        np.add(1.0, Z @ delta, out=D)
        top = _least_squares(ones / D[:, None], y, w)
        best = min(best, (float(np.square(w * (ones @ top / D - y)).mean()), top, delta), key=lambda fit: fit[0])
    _, top, delta = best
    return _head(level, top[0], top[1:], delta)


def _least_squares(X: Array, y: Array, w: Array) -> Array:
    rows = w[:, None] * X
    gram = rows.T @ rows
    gram.flat[:: len(gram) + 1] += FIT_PENALTY * np.trace(gram) / len(gram)
    return np.asarray(np.linalg.solve(gram, rows.T @ (w * y)), dtype=np.float64)


def _head(level: float, n_0: float, A: Array, delta: Array) -> PooledGame:
    """The game of level + (n_0 + A.z) / (1 + delta.z): absent players have the value `level` and part of the mass 1."""
    b = np.maximum(-delta, 0.0)
    room = (1 - float(b.sum())) / 2
    total = float(np.abs(A).sum())
    # Both states of a player get a common mass, so that no value is far beyond the others.
    common = room * (np.abs(A) / total if total else 0.0) + room * 1e-3 / A.size
    a, b = np.maximum(delta, 0.0) + common, b + common
    c_0 = 1 - float(b.sum())
    return PooledGame.from_scores(
        np.log(a), level + A / a, np.log(b), np.full(A.size, level), float(np.log(c_0)), level + n_0 / c_0
    )
