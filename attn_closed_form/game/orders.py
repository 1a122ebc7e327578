"""Shapley values of a game with a tail, from random orders of its players, with standard errors.

The Shapley value of a player is its mean change of f over all orders in which the players can
enter. Every order is drawn with its reverse, because a player that enters early in one enters late
in the other, and the mean of the two changes varies less.

**Places.** The first players to enter change f most. Coalitions of none and of one player are
computed exactly, and the other places of an order are divided into levels, whose orders are cut
into short windows (`Level`). Orders are added to the level that reduces the largest error most.

**Controls.** A game c whose Shapley values are known exactly and whose changes resemble those of f
does not have to be sampled: the values of f are those of f - c, which vary less, plus the exact
values of c. Here c is a weighted sum of functions of single directions of the pooled vector:

1. lines theta @ h, which are pooled games with any number of heads, such as a logit or the best
   linear fit to the tail;
2. with one head, logistic units 1 / (1 + exp(-(theta @ h + b))), so that c is a network with one
   hidden layer, whose values are exact (`hidden_layer.py`). The probability of a class is the
   logistic function of its logit minus the log-sum-exp of the others; a *tangent* of the
   log-sum-exp makes this a unit of one direction.

The weights of the sum are fitted to the changes along pilot orders, and the units are drawn, before
any order of the estimate. The estimate is therefore unbiased for a fixed number of orders. Orders
are added until the largest standard error is small enough, which depends on the orders drawn;
`benchmarks/tails.py` measures that the errors still have the stated size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._types import Array, Ids
from .game_sum import GameSum
from .hidden_layer import HiddenLayer, hidden_layer_game
from .links import Link, LinkedGame
from .tails import TailGame
from .values import shapley

# Without `max_error`, the largest standard error is at most this share of the largest value.
RELATIVE_ERROR = 0.005
# Accuracy of the values of lines relative to the largest, far below any standard error.
LINE_TOL = 1e-8
# Accuracy of the values of units relative to the largest value of their sum, which is about 1 for a
# probability: far below the default standard error of 5e-4.
UNIT_TOL = 5e-7
# The largest argument of a logistic unit; the table of `links.py` ends at 64.
LARGEST_ARGUMENT = 60.0
# Singular values of the fits below this share of the largest one count as zero.
FIT_CUTOFF = 1e-8
# The same for fits with logistic units, which resemble each other: with less, large coefficients of
# opposite signs cost the exact values their digits.
UNIT_CUTOFF = 3e-4


class OrderSample(NamedTuple):
    """Estimates (Q, d) with standard errors (Q, d), and the number of values of the game that they
    took.
    """

    values: Array
    standard_error: Array
    calls: int


@dataclass(frozen=True, eq=False)
class Controls:
    """Functions of single directions of the pooled vector: L lines and, for games with one head, K
    logistic units.

    Attributes
    ----------
    lines : (L, C) directions
    weight, bias : (K, C) and (K,) of the units

    Examples
    --------
    >>> Controls(np.eye(2), np.array([[1.0, -1.0]]), np.zeros(1))(np.array([[2.0, 2.0]]))
    array([[2. , 2. , 0.5]])
    """

    lines: Array
    weight: Array
    bias: Array

    @classmethod
    def of_lines(cls, lines: Array) -> Controls:
        """Return controls without units."""
        return cls(lines, np.zeros((0, lines.shape[1])), np.zeros(0))

    @property
    def count(self) -> int:
        """Number of functions, L + K."""
        return len(self.lines) + len(self.bias)

    def __call__(self, vectors: Array) -> Array:
        """Compute the functions (n, L + K) of pooled vectors (n, C)."""
        return np.concatenate([vectors @ self.lines.T, self._units(vectors)], axis=1)

    def weighted(self, vectors: Array, coefficients: Array) -> Array:
        """Compute the weighted sums (n, Q) with coefficients (Q, L + K) at pooled vectors (n,
        C).
        """
        of_lines, of_units = np.split(coefficients, [len(self.lines)], axis=1)
        # Sums without BLAS, which would start its other cores for so little.
        sums = np.einsum("nc,qc->nq", vectors, of_lines @ self.lines)
        if len(self.bias):
            sums += np.einsum("nk,qk->nq", self._units(vectors), of_units)
        return np.asarray(sums)

    def exact_values(self, game: TailGame, coefficients: Array) -> tuple[Array, Array]:
        """Compute the Shapley values (Q, d) of the weighted sums, and the accuracy (Q,) that those
        of the units are guaranteed to have.
        """
        of_lines, of_units = np.split(coefficients, [len(self.lines)], axis=1)
        values = np.zeros((len(coefficients), game.d))
        accuracy = np.zeros(len(coefficients))
        for q in range(len(coefficients)):
            if len(self.lines):
                values[q] += shapley(game.direction(of_lines[q] @ self.lines), LINE_TOL)
            if of_units[q].any():
                network = self._network(game, of_units[q])
                values[q] += shapley(network, UNIT_TOL)
                # The errors may add up over the players, and `missing` shares out their sum.
                accuracy[q] = 2 * UNIT_TOL * network.scale
        ends = self.weighted(game.pooled([[False] * game.d, [True] * game.d]), coefficients)
        # The values add up to the change from nobody to everybody, whatever their accuracy.
        missing = ends[1] - ends[0] - values.sum(axis=1)
        return values + missing[:, None] / game.d, accuracy

    def have_exact_values(self, game: TailGame, coefficients: Array) -> bool:
        """Whether the values of the units, weighted with coefficients (Q, L + K), can be computed
        with the accuracy that is wanted.
        """
        of_units = coefficients[:, len(self.lines) :]
        networks = [self._network(game, row) for row in of_units if row.any()]
        return all(network.can_keep(UNIT_TOL) for network in networks)

    def _network(self, game: TailGame, coefficients: Array) -> GameSum:
        """Return a weighted sum of the units, with coefficients (K,), as a game with exact
        values.
        """
        layer = HiddenLayer(self.weight, self.bias, "sigmoid", coefficients[None], np.zeros(1))
        return hidden_layer_game(TailGame(game.scores, layer))

    def _units(self, vectors: Array) -> Array:
        # Tuning: rows of one product, small enough that OpenBLAS computes it on one core; starting
        # the others takes longer than the product.
        block_rows = 512
        arguments = np.empty((len(vectors), len(self.bias)))
        for start in range(0, len(vectors), block_rows):
            rows = slice(start, start + block_rows)
            np.matmul(vectors[rows], self.weight.T, out=arguments[rows])
        arguments += self.bias
        # e^700 still fits into float64.
        return np.asarray(1 / (1 + np.exp(np.minimum(-arguments, 700.0))))


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

    def controls(self, game: TailGame, rng: np.random.Generator) -> Controls:
        """Return the logits of all classes and, with one head, logistic units that resemble the
        probability.

        The first units are the probabilities of the class against each rival. At the logits of a
        coalition, the log-sum-exp of the rivals has a tangent, whose slopes are their shares in the
        softmax without the class. The other units are logistic functions of the class's logit minus
        such a tangent. They vary in their shares, steepness and shift, which lets the fit bend
        between the tangents.
        """
        lines = np.eye(game.scores.bias.size)
        if len(game.scores.s) > 1:
            return Controls.of_lines(lines)
        against_rivals = np.delete(lines[self.output] - lines, self.output, axis=0)
        weight = against_rivals / self.temperature
        bias = np.zeros(len(weight))
        # Tuning: on documents of R8 with up to 262 words, tangents reduce the error; with a
        # thousand players their exact values take longer than the orders that they save
        # (benchmarks/tails).
        most_players = 512
        if game.d <= most_players:
            of_tangents, bias_of_tangents = self._tangents(game, rng)
            weight = np.concatenate([weight, of_tangents])
            bias = np.concatenate([bias, bias_of_tangents])
        return Controls(lines, *_in_reach(game, weight, bias))

    def _tangents(self, game: TailGame, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw directions (K, C) and constants (K,) of logistic units from tangents of the
        log-sum-exp.
        """
        # Tuning: about the least time to a standard error of 0.05 points on documents of R8; 8 to
        # 48 units take about as long (benchmarks/tails).
        units = 16
        # Tuning: coalitions along random orders from which the tangents are drawn.
        coalitions = 1024
        orders = _random_orders(rng, coalitions // game.d, game.d)
        vectors = game.pooled_along(orders).reshape(-1, game.scores.bias.size)
        probability = self(vectors)
        # Tuning: the weight of a saturated prediction, so that a game without others has units too.
        least_weight = 1e-4
        importance = probability * (1 - probability) + least_weight
        chosen = rng.choice(len(vectors), units, p=importance / importance.sum())
        logits = vectors[chosen] / self.temperature
        rivals = np.delete(logits, self.output, axis=1)
        # Tuning: factors of the rivals' logits in the shares and of the argument of a unit, and the
        # spread of the shifts of the argument; 1, 1 and 0 are a tangent itself.
        sharpness = rng.choice([0.5, 1.0, 2.0], units)
        steepness = rng.choice([0.6, 1.0, 1.6], units)
        shift = 0.5 * rng.normal(size=units)
        shares = np.exp(sharpness[:, None] * (rivals - rivals.max(axis=1, keepdims=True)))
        shares /= shares.sum(axis=1, keepdims=True)
        direction = np.insert(-shares, self.output, 1.0, axis=1)
        weight = steepness[:, None] * direction
        margin = logits[:, self.output] - np.logaddexp.reduce(rivals, axis=1)
        bias = steepness * margin + shift - (weight * logits).sum(axis=1)
        return weight / self.temperature, bias


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

    def controls(self, game: TailGame, rng: np.random.Generator) -> Controls:
        """Return the direction without its link."""
        return Controls.of_lines(self.direction[None])


def default_controls(game: TailGame, rng: np.random.Generator, with_units: bool = True) -> Controls:
    """Return the controls that the tail names, or the best linear fit to each of its outputs;
    `with_units=False` leaves logistic units out, whose exact values take time.
    """
    if isinstance(game.tail, ClassProbability) and not with_units:
        return Controls.of_lines(np.eye(game.scores.bias.size))
    named = getattr(game.tail, "controls", None)
    if named is not None:
        return named(game, rng)
    grand = np.ones((1, game.d), dtype=bool)
    predictions = np.atleast_2d(game.tail(game.pooled(grand)))
    outputs = predictions.shape[-1]
    directions = [fitted_direction(game, q, rng) for q in range(outputs)]
    return Controls.of_lines(np.stack(directions))


def _in_reach(game: TailGame, weight: Array, bias: Array) -> tuple[Array, Array]:
    """Return logistic units with exact values, (K, C) and (K,): where an argument weight @ h + bias
    of some coalition is beyond the table of poles, it is scaled down.
    """
    ones = np.ones((1, len(bias)))
    layer = HiddenLayer(weight, bias, "sigmoid", ones, np.zeros(1))
    network = hidden_layer_game(TailGame(game.scores, layer))
    units = [unit for _, unit in network.parts if isinstance(unit, LinkedGame)]
    largest = np.array([max(map(abs, unit.range)) for unit in units])
    factor = np.minimum(1.0, LARGEST_ARGUMENT / largest)
    return factor[:, None] * weight, factor * bias


def sample_orders(
    game: TailGame,
    controls: Controls | None,
    max_error: float | None,
    most_values: int,
    seed: int | np.random.Generator | None,
    relative_error: float = RELATIVE_ERROR,
) -> OrderSample:
    """Estimate the Shapley values of every output of the tail.

    Parameters
    ----------
    game : the game
    controls : functions of the pooled vector whose sums have exact Shapley values; None samples
        the tail as it is
    max_error : largest standard error that is wanted, or None for `relative_error` times the
        largest value
    most_values : number of values of the game after which no more orders are drawn
    seed : anything that `numpy.random.default_rng` accepts
    """
    rng = np.random.default_rng(seed)
    d = game.d
    if controls is None:
        controls = Controls.of_lines(np.zeros((0, game.scores.bias.size)))
    # Tuning: orders (each with its reverse) to which the coefficients are fitted.
    least_pilot_orders = 8
    orders_per_control = 4
    # Tuning: values of the game along pilot orders beyond which there are no more than the least.
    pilot_values = 20_000
    wanted_orders = min(orders_per_control * controls.count, pilot_values // (d + 1))
    pilot_orders = max(least_pilot_orders, wanted_orders)
    known = _known_sizes(game)
    pilot = _random_orders(rng, pilot_orders, d)
    fit = _fitted(game, controls, pilot, _weights_of_places(d, known))
    left_of_tail = Remainder(game, fit)
    # What is left for the sampled sizes, shared out equally; the samples are of its differences.
    ends = left_of_tail(game.pooled([[False] * d, [True] * d]))
    equal_shares = (ends[1] - ends[0])[:, None] / d
    of_known = _centered(values_of_known_sizes(game, left_of_tail, known))
    levels = [
        Level(first, length, rows_of_order=2 * math.ceil(d / length) * (length + 1))
        for first, length in places_of_sizes(d, known)
    ]
    numbers_per_row = max(1, len(game.scores.v) + len(fit.controls.bias))
    # Tuning: elements (rows times pooled numbers) of one batch, which about fits into a core's
    # cache.
    batch_elements = 1 << 18
    # Tuning: orders of each level from which its variance is known roughly.
    least_of_level = 8
    # Tuning: with fewer degrees of freedom, a standard error would itself be off by more than 13%.
    least_freedom = 30
    calls = 2 * pilot_orders * (d + 1) + _rows_of_known_sizes(d, known)
    values = fit.exact + equal_shares + of_known
    if not levels:
        error = np.broadcast_to(fit.accuracy[:, None], values.shape)
        return OrderSample(values=values, standard_error=error, calls=calls)
    level = levels[0]
    while True:
        batch = max(1, batch_elements // (numbers_per_row * level.rows_of_order // 2))
        # No more than twice as many orders at a time: a rough answer needs few.
        batch = min(batch, max(least_of_level, level.count))
        level.add(_centered(level.changes(game, left_of_tail, _random_orders(rng, batch, d))))
        calls += batch * level.rows_of_order
        unfinished = [each for each in levels if each.count < least_of_level]
        if unfinished:
            level = unfinished[0]
            continue
        variances = [each.variance / each.count for each in levels]
        error = np.sqrt(sum(variances)) + fit.accuracy[:, None]
        estimate = values + sum(each.mean for each in levels)
        if max_error is None:
            limit = relative_error * float(np.abs(estimate).max())
        else:
            limit = max_error
        level, freedom = _least_known(levels)
        if freedom < least_freedom:
            continue
        if float(error.max()) <= limit or calls >= most_values:
            return OrderSample(values=estimate, standard_error=error, calls=calls)
        # The level in which the next order takes most from the largest error, per value of the
        # game.
        worst = np.unravel_index(int(error.argmax()), error.shape)
        gains = [
            float(variance[worst]) / (each.count * each.rows_of_order)
            for variance, each in zip(variances, levels, strict=True)
        ]
        level = levels[int(np.argmax(gains))]


def _least_known(levels: list[Level]) -> tuple[Level, float]:
    """Return the level whose variance has the largest error, and the degrees of freedom of the sum
    of all variances, each the mean over the players (Welch-Satterthwaite).
    """
    parts = np.array([float(level.variance.mean()) / level.count for level in levels])
    errors = parts**2 / np.array([level.count - 1 for level in levels])
    if not errors.any():
        return levels[0], math.inf
    return levels[int(np.argmax(errors))], float(parts.sum() ** 2 / errors.sum())


# --- places in an order ---------------------------------------------------------------------------


class Level:
    """The changes of a game for players that enter at the places from `first` to `length` - 1 of an
    order, as a running mean and variance.

    Most of the variance is made by the first players to enter, whose masses are a large part of
    the sum. An order of d players is therefore divided into windows of `length`, each of which is
    the beginning of a separate order, so that every player is among the first once. The last
    window is filled up with the first players of the order. Summed over the W windows, the change
    of a player has the mean W / d times the sum over the places of its mean change there, so the
    part of its Shapley value is 1 / W of that.
    """

    def __init__(self, first: int, length: int, rows_of_order: int) -> None:
        self.first = first
        self.length = length
        self.rows_of_order = rows_of_order
        self.count = 0
        self.mean: Array = np.zeros(())
        self._squares: Array = np.zeros(())

    @property
    def variance(self) -> Array:
        """The variance (Q, d) of the changes along one order."""
        return self._squares / (self.count - 1)

    def add(self, sample: Array) -> None:
        """Add changes (n, Q, d) to the mean and to the sum of squares about it (Chan et al.
        1983).
        """
        n = len(sample)
        mean = sample.mean(axis=0)
        squares = ((sample - mean) ** 2).sum(axis=0)
        total = self.count + n
        difference = mean - self.mean
        self._squares = self._squares + squares + difference**2 * (self.count * n / total)
        self.mean = self.mean + difference * (n / total)
        self.count = total

    def changes(self, game: TailGame, function: Callable[[Array], Array], orders: Ids) -> Array:
        """Return the parts (n, Q, d) of the values that are made at these places, along orders (n,
        d); each window is followed forwards and backwards.
        """
        n, d = orders.shape
        windows = math.ceil(d / self.length)
        filled = np.concatenate([orders, orders[:, : windows * self.length - d]], axis=1)
        beginnings = filled.reshape(n * windows, self.length)
        parts: Array | float = 0.0
        for direction in (beginnings, beginnings[:, ::-1]):
            changes = _changes_at_places(game, function, direction)
            changes[:, : self.first] = 0.0
            if direction is not beginnings:
                changes = changes[:, ::-1]
            parts = parts + changes
        by_place = np.asarray(parts).reshape(n, windows * self.length, -1)
        out = _by_player(by_place[:, :d], orders)
        again = filled[:, d:]
        rows = np.arange(n)[:, None]
        # The players of the last window that are also in the first one, each once in both.
        out[rows, :, again] += by_place[:, d:]
        return out / (2 * windows)


def _known_sizes(game: TailGame) -> int:
    """Return for how many sizes of coalitions, 0 and 1, the changes of all players are computed
    exactly: all pairs of players if they are few.
    """
    d = game.d
    # Tuning: elements (pairs times pooled numbers) up to which all pairs take less time than the
    # orders that they save.
    pair_elements = 1 << 20
    pairs = d * (d - 1) // 2
    if d < 3:
        return 1
    return 2 if pairs * len(game.scores.v) <= pair_elements else 1


def _rows_of_known_sizes(d: int, known: int) -> int:
    """Return the values of the game for the sizes that are computed exactly."""
    return d + 1 if known == 1 else 3 * d * (d - 1) // 2


def values_of_known_sizes(game: TailGame, function: Callable[[Array], Array], known: int) -> Array:
    """Return the parts (Q, d) of the values that are made when the first `known` players enter."""
    d = game.d
    singles = np.arange(d)[:, None]
    first = _changes_at_places(game, function, singles)[:, 0]
    parts = first / d
    if known == 2:
        i, j = np.triu_indices(d, 1)
        nobody_and_one = function(game.pooled_along(singles).reshape(2 * d, -1))
        alone = nobody_and_one.reshape(d, 2, -1)[:, 1]
        # Tuning: pairs of one batch, whose arrays about fit into a core's cache.
        pairs_at_once = 1 << 13
        second = np.zeros_like(first)
        for start in range(0, i.size, pairs_at_once):
            part = slice(start, start + pairs_at_once)
            both = np.stack([i[part], j[part]], axis=1)
            vectors = game.pooled_along(both)[:, 2]
            together = function(vectors)
            np.add.at(second, j[part], together - alone[i[part]])
            np.add.at(second, i[part], together - alone[j[part]])
        parts = parts + second / (d * (d - 1))
    return np.asarray(parts.T)


def places_of_sizes(d: int, known: int) -> list[tuple[int, int]]:
    """Return the first place and the length of the windows of each level, which together have every
    place that is not known once.
    """
    # Tuning: the lengths of windows grow by this factor, and the longest ones are half an order or
    # less (benchmarks/tails).
    growth = 6
    levels = []
    first = known
    length = 2 * growth
    while 2 * length <= d:
        levels.append((first, length))
        first = length
        length *= growth
    if first < d:
        levels.append((first, d))
    return levels


def _weights_of_places(d: int, known: int) -> Array:
    """Return the weights (d,) of changes at each place in the fit of the controls.

    The windows of a level of length b divide the variance of one order by d / b, so that changes at
    its places count sqrt(b / d) times as much as those of a whole order.
    """
    weights = np.zeros(d)
    for first, length in places_of_sizes(d, known):
        weights[first:length] = math.sqrt(length / d)
    return weights


def _centered(parts: Array) -> Array:
    """Subtract the mean over the players: what all values add up to is known."""
    return parts - parts.mean(axis=-1, keepdims=True)


def _changes_at_places(
    game: TailGame, function: Callable[[Array], Array], beginnings: Ids
) -> Array:
    """Return the changes (n, m, k) of a function of pooled vectors along the first m players of n
    orders.
    """
    n, m = beginnings.shape
    vectors = game.pooled_along(beginnings)
    values = function(vectors.reshape(n * (m + 1), -1)).reshape(n, m + 1, -1)
    return np.diff(values, axis=1)


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


class FittedControls(NamedTuple):
    """Controls with their coefficients (Q, k), the exact values (Q, d) of the weighted sums, and
    the accuracy (Q,) of these.
    """

    controls: Controls
    coefficients: Array
    exact: Array
    accuracy: Array


@dataclass(frozen=True, eq=False)
class Remainder:
    """What a weighted sum of controls leaves of a tail, (n, Q)."""

    game: TailGame
    fit: FittedControls

    def __call__(self, vectors: Array) -> Array:
        """Compute the predictions of (n, m) pooled vectors without the fitted controls, (n, Q)."""
        predictions = np.asarray(self.game.tail(vectors)).reshape(len(vectors), -1)
        return predictions - self.fit.controls.weighted(vectors, self.fit.coefficients)


def _changes(
    game: TailGame, function: Callable[[Array], Array], orders: Ids, weights: Array
) -> Array:
    """Return the mean changes (n, k, d) of a function of pooled vectors, (rows, C) -> (rows, k),
    over each order and its reverse, with weights (d,) of the places.
    """
    sums: Array | float = 0.0
    for direction in (orders, orders[:, ::-1]):
        changes = _changes_at_places(game, function, direction)
        changes *= weights[:, None]
        sums = sums + _by_player(changes, direction)
    return np.asarray(sums) / 2


def _by_player(changes: Array, orders: Ids) -> Array:
    """Turn changes (n, d, k) in the order of entering into changes (n, k, d) in the order of the
    players.
    """
    out = np.empty_like(changes)
    row = np.arange(len(orders))
    out[row[:, None], orders] = changes
    return out.transpose(0, 2, 1)


def _fitted(game: TailGame, controls: Controls, pilot: Ids, weights: Array) -> FittedControls:
    """Fit the coefficients of the controls to the changes along pilot orders, without the units
    where their values cannot be computed with the accuracy that is wanted.
    """

    def tail_and_controls(vectors: Array) -> Array:
        predictions = np.asarray(game.tail(vectors)).reshape(len(vectors), -1)
        return np.concatenate([predictions, controls(vectors)], axis=1)

    changes = _changes(game, tail_and_controls, pilot, weights)
    Q = changes.shape[1] - controls.count
    cutoff = UNIT_CUTOFF if len(controls.bias) else FIT_CUTOFF
    coefficients = _fitted_coefficients(changes[:, :Q], changes[:, Q:], cutoff)
    if len(controls.bias) and not controls.have_exact_values(game, coefficients):
        return _fitted(game, Controls.of_lines(controls.lines), pilot, weights)
    exact, accuracy = controls.exact_values(game, coefficients)
    return FittedControls(controls, coefficients, exact, accuracy)


def _fitted_coefficients(changes: Array, of_controls: Array, cutoff: float) -> Array:
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
    lengths = np.linalg.norm(X, axis=0)
    lengths[lengths == 0] = 1.0
    scaled = np.linalg.lstsq(X / lengths, Y, rcond=cutoff)[0]
    return np.asarray((scaled / lengths[:, None]).T)
