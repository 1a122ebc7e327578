"""Shapley values of a game with a tail, from random orders of its players, with standard errors.

The Shapley value of a player is its mean change of f over all orders in which the players can
enter. Every order is drawn with its reverse, because a player that enters early in one enters late
in the other, and the mean of the two changes varies less.

**Controls.** A game c whose Shapley values are known exactly and whose changes resemble those of f
does not have to be sampled: the values of f are those of f - sum_i b_i c_i, which vary less, plus
b_i times the exact values. A control is a function of one direction of the pooled vector, c =
link(theta @ h):

1. without a link, a pooled game with any number of heads, such as a logit or the best linear fit to
   the tail;
2. with one head, a linked game, such as the probability of a class against one rival. Where only
   two classes matter, this is f itself.

The coefficients b, and theta, are fitted to orders and coalitions that are not used again. The
estimate is therefore unbiased for a fixed number of orders. Orders are added until the largest
standard error is small enough, which depends on the orders drawn; `benchmarks/tails.py` measures
that the errors still have the stated size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._types import Array, Ids
from .links import Link, LinkedGame
from .tails import TailGame
from .values import shapley

# Without `max_error`, the largest standard error is at most this share of the largest value.
RELATIVE_ERROR = 0.005
# Singular values of the fits below this share of the largest one count as zero.
FIT_CUTOFF = 1e-8


class OrderSample(NamedTuple):
    """Estimates (Q, d) with standard errors (Q, d), and the number of values of the game that they
    took.
    """

    values: Array
    standard_error: Array
    calls: int


class Control(NamedTuple):
    """A function of one direction of the pooled vector; with a link, only for games with one
    head.
    """

    direction: Array  # (C,)
    link: Link | None = None

    def of_vectors(self, vectors: Array) -> Array:
        """Compute the values (...) of the control from pooled vectors (..., C)."""
        values = vectors @ self.direction
        if self.link is None:
            return values
        return self.link(values)

    def exact_values(self, game: TailGame) -> Array:
        """Compute the Shapley values (d,) of the control."""
        pooled = game.direction(self.direction)
        # Relative accuracy of the exact values of a control, far below any standard error.
        control_tol = 1e-8
        if self.link is None:
            return shapley(pooled, control_tol)
        return shapley(LinkedGame(pooled, self.link), control_tol)


@dataclass(frozen=True)
class ClassProbability:
    """The tail of a classifier: the probability of one class, the softmax of logits divided by a
    temperature.

    Examples
    --------
    >>> ClassProbability(0)(np.array([[0.0, 0.0], [np.log(3.0), 0.0]])).round(3)
    array([0.5 , 0.75])
    """

    output: int
    temperature: float = 1.0

    def __call__(self, logits: Array) -> Array:
        """Compute the probabilities (n,) from logits (n, C)."""
        scaled = (logits - logits[:, self.output, None]) / self.temperature
        # The largest exponent is 0 or more, because the class itself has 0; e^700 still fits into
        # float64.
        return np.asarray(1 / np.exp(np.minimum(scaled, 700.0)).sum(axis=1))

    def controls(self, game: TailGame) -> list[Control]:
        """Return the logits of all classes and, with one head, the class against each rival."""
        C = game.scores.bias.size
        axes = np.eye(C)
        controls = [Control(axes[c]) for c in range(C)]
        if len(game.scores.s) == 1:
            for rival in range(C):
                margin = (axes[self.output] - axes[rival]) / self.temperature
                if rival != self.output and _fits_link(game, margin):
                    controls.append(Control(margin, Link("sigmoid")))
        return controls


@dataclass(frozen=True, eq=False)
class LinkedDirection:
    """A link of one direction of the pooled vector, such as the probability of one of two classes.

    With several heads it has no exact values. Its direction has, and resembles it.

    Examples
    --------
    >>> LinkedDirection(np.array([1.0, -1.0]), Link("sigmoid"))(np.array([[0.5, 0.5]]))
    array([0.5])
    """

    direction: Array  # (C,)
    link: Link

    def __call__(self, vectors: Array) -> Array:
        """Compute the values (n,) from pooled vectors (n, C)."""
        return self.link(vectors @ self.direction)

    def controls(self, game: TailGame) -> list[Control]:
        """Return the direction without its link."""
        return [Control(self.direction)]


def default_controls(game: TailGame, rng: np.random.Generator) -> list[Control]:
    """Return the controls that the tail names, or the best linear fit to each of its outputs."""
    named = getattr(game.tail, "controls", None)
    if named is not None:
        return list(named(game))
    grand = np.ones((1, game.d), dtype=bool)
    predictions = np.atleast_2d(game.tail(game.pooled(grand)))
    outputs = predictions.shape[-1]
    return [Control(fitted_direction(game, q, rng)) for q in range(outputs)]


def _fits_link(game: TailGame, direction: Array) -> bool:
    """Return whether a direction has a range for which `links.py` has poles for the logistic
    function.
    """
    scores = game.scores
    of_rows = direction[scores.output]
    bias = direction @ scores.bias
    states = [scores.v, scores.v_background[:, None]]
    if scores.v_absent is not None:
        states.append(scores.v_absent)
    largest = max(float(np.abs(of_rows @ state + bias).max()) for state in states)
    # A logistic function of a larger argument is not used as a control; the table of `links.py`
    # ends at 64.
    largest_logit = 60.0
    return largest < largest_logit


def sample_orders(
    game: TailGame,
    controls: Sequence[Control],
    max_error: float | None,
    most_values: int,
    seed: int | np.random.Generator | None,
    relative_error: float = RELATIVE_ERROR,
) -> OrderSample:
    """Estimate the Shapley values of every output of the tail.

    Parameters
    ----------
    game : the game
    controls : functions of the pooled vector with exact Shapley values
    max_error : largest standard error that is wanted, or None for `relative_error` times the
        largest value
    most_values : number of values of the game after which no more orders are drawn
    seed : anything that `numpy.random.default_rng` accepts
    """
    rng = np.random.default_rng(seed)
    d = game.d
    # Tuning: orders (each with its reverse) to which the coefficients are fitted.
    pilot_orders = 48
    changes, of_controls = _changes(game, controls, _random_orders(rng, pilot_orders, d))
    coefficients = _fitted_coefficients(changes, of_controls)
    shape = changes.shape[1:]
    exact = np.zeros(shape)
    if controls:
        values_of_controls = [control.exact_values(game) for control in controls]
        exact = coefficients @ np.stack(values_of_controls)
    numbers_per_order = (d + 1) * max(1, len(game.scores.v))
    # Tuning: elements (orders times players times pooled numbers) of one batch, which about fits
    # into a core's cache.
    order_elements = 1 << 18
    batch = max(1, order_elements // numbers_per_order)
    total = np.zeros(shape)
    squares = np.zeros(shape)
    # The changes are averaged relative to those of the pilot orders, so that their squares keep
    # their digits.
    center = (changes - _explained(coefficients, of_controls)).mean(axis=0)
    count = 0
    # Tuning: from fewer orders, a standard error would itself be off by more than 10%.
    least_orders = 96
    while True:
        orders = _random_orders(rng, batch, d)
        changes, of_controls = _changes(game, controls, orders)
        left = changes - _explained(coefficients, of_controls) - center
        total += left.sum(axis=0)
        squares += (left**2).sum(axis=0)
        count += len(orders)
        if count < least_orders:
            continue
        mean = total / count
        # Rounding can push the difference below zero if all orders agree.
        variance_of_sample = np.maximum(squares / count - mean**2, 0.0)
        variance = variance_of_sample * count / (count - 1)
        error = np.sqrt(variance / count)
        values = exact + center + mean
        if max_error is None:
            limit = relative_error * float(np.abs(values).max())
        else:
            limit = max_error
        calls = 2 * (count + pilot_orders) * (d + 1)
        if float(error.max()) <= limit or calls >= most_values:
            return OrderSample(values=values, standard_error=error, calls=calls)


def fitted_direction(game: TailGame, output: int, rng: np.random.Generator) -> Array:
    """Return the direction (C,) of the pooled vector in which the tail is fitted best by a linear
    function.

    The coalitions have random sizes, because the Shapley value of a player gives every size the
    same weight.
    """
    C = game.scores.bias.size
    # Tuning: coalitions to which the direction is fitted, per pooled number.
    coalitions_per_number = 8
    # Tuning: more coalitions hardly change the direction.
    most_coalitions = 2048
    count = min(most_coalitions, coalitions_per_number * (C + 4))
    # A probability for every coalition makes all sizes equally likely.
    draws = rng.random((count, game.d))
    masks = draws < rng.random((count, 1))
    vectors = game.pooled(masks)
    of_outputs = np.asarray(game.tail(vectors)).reshape(count, -1)
    predictions = of_outputs[:, output]
    columns = np.concatenate([np.ones((count, 1)), vectors], axis=1)
    return np.linalg.lstsq(columns, predictions, rcond=FIT_CUTOFF)[0][1:]


def _random_orders(rng: np.random.Generator, count: int, d: int) -> Ids:
    """Draw `count` orders of d players (count, d)."""
    in_order = np.tile(np.arange(d), (count, 1))
    return rng.permuted(in_order, axis=1)


def _changes(game: TailGame, controls: Sequence[Control], orders: Ids) -> tuple[Array, Array]:
    """Return the mean changes over each order and its reverse: of the game (n, Q, d), of the
    controls (n, k, d).
    """
    n, d = orders.shape
    sums: Array | float = 0.0
    for direction in (orders, orders[:, ::-1]):
        vectors = game.pooled_along(direction)
        rows = vectors.reshape(n * (d + 1), -1)
        predictions = np.asarray(game.tail(rows))
        columns = [predictions.reshape(n, d + 1, -1)]
        columns += [control.of_vectors(vectors)[:, :, None] for control in controls]
        steps = np.diff(np.concatenate(columns, axis=2), axis=1)
        sums = sums + _by_player(steps, direction)
    changes = np.asarray(sums) / 2
    Q = changes.shape[1] - len(controls)
    return changes[:, :Q], changes[:, Q:]


def _by_player(changes: Array, orders: Ids) -> Array:
    """Turn changes (n, d, k) in the order of entering into changes (n, k, d) in the order of the
    players.
    """
    out = np.empty_like(changes)
    row = np.arange(len(orders))
    out[row[:, None], orders] = changes
    return out.transpose(0, 2, 1)


def _fitted_coefficients(changes: Array, of_controls: Array) -> Array:
    """Fit the coefficients (Q, k) of the controls to changes (n, Q, d), relative to their means
    over the orders.
    """
    n, Q, d = changes.shape
    k = of_controls.shape[1]
    if k == 0:
        return np.zeros((Q, 0))
    columns = of_controls - of_controls.mean(axis=0)
    targets = changes - changes.mean(axis=0)
    X = columns.transpose(0, 2, 1).reshape(n * d, k)
    Y = targets.transpose(0, 2, 1).reshape(n * d, Q)
    return np.linalg.lstsq(X, Y, rcond=FIT_CUTOFF)[0].T


def _explained(coefficients: Array, of_controls: Array) -> Array:
    """Return the part (n, Q, d) of the changes that the controls explain."""
    return np.einsum("qk,nkd->nqd", coefficients, of_controls)
