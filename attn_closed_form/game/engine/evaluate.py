"""Mean values of a game under a law, within `tol`: exact, in O(L m d).

**Theorem** (docs/theory/two-integrals.md). Let f = N/D be a head, every player present with
probability p, independently. A rule of exponentials, 1/D = sum_l w_l e^(-lam_l D)
(`exponential_sums.py`), makes means of f sums of products over the players. With the letters of
`terms.py`, for one node lam,

    E_p[f]  = sum_l P num
    Delta_j = E_p[f | j present] - E_p[f | j absent] = sum_l P [ X_j num + Z_j ]
    I_ij    = second difference in i, j              = sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ]

with X = (x - y) sigma and Z = S sigma^2.

A **statistic** is one of these, and a **law** (`laws.py`) what is done with it as a function of p.
`evaluate` is the driver: the game's budget, terms, nodes p, sums, and the way back to the game's
units.

Coalitions without any mass count as `base` in the sums. What is missing is `empty_excess` times the
probability that all players are absent but the k players of a k-th difference, with the sign of a
difference: (-1)^k empty_mass(d - k).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..._arrays import usual_float_errors
from ..._types import Array
from ..game_sum import GameSum
from .budget import Budget, Computation
from .engine_game import EngineGame, Game
from .kernels import MATRIX_PLAYERS, sum_in_pairs
from .laws import Batch, Law, Nodes
from .rounding import MOST_TERMS
from .series import series_length, sums_by_series
from .terms import AtProbability, Terms, terms_of


class Statistic(NamedTuple):
    """The quantity that is averaged: a k-th difference of E_p[f].

    players : k, the players that are fixed
    axes : of players that the result has
    amplification : factor by which an error of a mean difference is multiplied
    sums : from terms, a batch of nodes and whether products go through logarithms, to weighted sums
        over the nodes
    """

    players: int
    axes: int
    amplification: float
    sums: Callable[[Terms, Batch, bool], Array]


@usual_float_errors
def evaluate(
    game: Game | GameSum, law: Law, statistic: Statistic, tol: float, amplification: float = 1.0
) -> Array:
    """Compute the statistic's mean under the law, with |error| <= tol / amplification * max|f| or a
    ToleranceError.

    Parameters
    ----------
    game : PooledGame, LinkedGame, or a sum of them
    law : the law over p
    statistic : MEAN, FIRST, PAIRS or `row(player)`
    tol : relative accuracy
    amplification : factor by which the caller multiplies the result's error

    Returns
    -------
    () for MEAN, (d,) for FIRST and a row, (d, d) for PAIRS; the diagonal of second differences has
    no meaning

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> from .laws import Point
    >>> game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> round(float(evaluate(game, Point(0.5), MEAN, 1e-10)), 6)  # the mean of 0, 1/2, 3/2, 4/3
    0.833333
    >>> evaluate(game, Point(0.5), FIRST, 1e-10).round(6)  # Banzhaf values
    array([0.166667, 1.166667])
    """
    k = statistic.players
    d = game.d
    constant_mass = law.empty_mass(0) if k == 0 else 0.0
    if isinstance(game, GameSum):
        return game.combine(
            lambda part, part_tol: evaluate(part, law, statistic, part_tol),
            of_constant=np.full((d,) * statistic.axes, constant_mass),
            growth=law.total * 2.0**k,  # a k-th difference has 2^k values
            tol=tol / amplification,
        )
    amplification *= law.total * statistic.amplification
    computation = Computation(game, tol, amplification, extra_ulps=law.extra_ulps)
    zero = np.zeros((d,) * statistic.axes)
    if k > d:
        return zero
    parts = batch_sums(
        computation.engine, computation.budget, law, statistic.sums, differences=k > 0
    )
    sums = sum_in_pairs(parts, zero)
    empty_mass = (-1) ** k * law.empty_mass(d - k)
    return computation.finish(sums, empty_mass, constant_mass)


def batch_sums(
    game: EngineGame,
    goal: Budget,
    law: Nodes,
    sums: Callable[[Terms, Batch, bool], Array],
    differences: bool = True,
) -> Iterator[Array]:
    """Yield the sums of every batch of every chunk of terms, in units of 2^exponent."""
    for terms in terms_of(game, goal):
        for batch in law.batches(terms, goal.p_error, differences):
            yield sums(terms, batch, goal.precise).real


# --- sums over terms and nodes --------------------------------------------------------------------


class BatchPart(NamedTuple):
    """A part of a batch: some terms at some of its nodes, and which they are."""

    terms: Terms
    at: AtProbability
    nodes: slice
    which: slice

    def of(self, weights: Array) -> Array:
        """Return the weights of this part from those of the batch, (..., m, r) or, equal for all
        terms, (..., m, 1).
        """
        if weights.shape[-1] == 1:
            return weights[..., self.nodes, :]
        return weights[..., self.nodes, self.which]


def parts_of(terms: Terms, p: Array, precise: bool) -> Iterator[BatchPart]:
    """Yield the terms at nodes p (m, r) or (m, 1) in parts of few terms, or of one term and few
    nodes.

    Working arrays stay small. `sigma` of a part is used up before the next one is made.
    """
    m = len(p)
    r, _, d = terms.factor.shape
    fit_into_memory = terms.batch_elements // (m * d)
    terms_at_once = max(1, min(r, MOST_TERMS, fit_into_memory))
    nodes_at_once = m
    if m * d > terms.batch_elements:
        nodes_at_once = max(1, terms.batch_elements // d)
    for first in range(0, r, terms_at_once):
        which = slice(None)
        if terms_at_once < r:
            which = slice(first, first + terms_at_once)
        some_terms = terms.pick(which)
        for start in range(0, m, nodes_at_once):
            nodes = slice(start, start + nodes_at_once)
            some_p = p[nodes]
            if p.shape[1] > 1:
                some_p = p[nodes, which]
            yield BatchPart(
                terms=some_terms,
                at=some_terms.at_probability(some_p, precise),
                nodes=nodes,
                which=which,
            )


def weighted_sums(
    terms: Terms,
    batch: Batch,
    precise: bool,
    mean_weights: Array | None,
    first_weights: Array | None,
) -> tuple[Array, Array]:
    """Sum E_p[f] (a,) and Delta_j (b, d) over terms and nodes, for sets of weights (a, m, r) and
    (b, m, r), or none.

    The weights may be (a, m, 1) if they are equal for all terms, like those of the batch.
    """
    terms = terms.pick(batch.terms)
    # Up to MATRIX_PLAYERS players, matrix products are faster than any series.
    if terms.factor.shape[2] > MATRIX_PLAYERS:
        J = series_length(terms, batch.p)
        if J:
            return sums_by_series(terms, batch.p, mean_weights, first_weights, J)
    mean = np.zeros(0)
    first = np.zeros(0)
    for part in parts_of(terms, batch.p, precise):
        P, num, sigma, vanishing = part.at
        P_num = P * num
        products = None
        if vanishing is not None:
            products = vanishing.products()
        if mean_weights is not None:
            weights = part.of(mean_weights)
            of_nodes = np.add.reduce(weights * P_num, axis=2)
            mean_part = np.add.reduce(of_nodes, axis=1)
            if vanishing is not None and products is not None:
                mean_part = mean_part + vanishing.weights_at(weights, P.shape) @ products[0]
            mean = mean + mean_part if mean.size else mean_part
        if first_weights is not None:
            weights = part.of(first_weights)
            first_part = first_differences(
                part.terms, by_X=weights * P_num, by_Z=weights * P, sigma=sigma
            )
            if vanishing is not None and products is not None:
                first_part += vanishing.weights_at(weights, P.shape) @ products[1]
            first = np.add(first, first_part, out=first_part) if first.size else first_part
    return mean, first


def first_differences(terms: Terms, by_X: Array, by_Z: Array, sigma: Array) -> Array:
    """Return (b, d) sums over nodes and terms of by_X X_j + by_Z Z_j, weights (b, m, r); squares
    `sigma` in place.
    """
    X = [terms.add_nodes(weights, sigma) for weights in by_X]
    sigma *= sigma
    out = np.empty((len(by_X), sigma.shape[2]), dtype=sigma.dtype)
    for k, weights in enumerate(by_Z):
        Z = terms.add_nodes(weights, sigma)
        Z *= terms.S
        X[k] *= terms.difference
        Z += X[k]
        np.add.reduce(Z, axis=0, out=out[k])
    return out


# --- statistics -----------------------------------------------------------------------------------


def weighted_mean(terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return the () weighted sum of E_p[f]."""
    means, _ = weighted_sums(
        terms, batch, precise, mean_weights=batch.weights[None], first_weights=None
    )
    return means[0]


def weighted_first_differences(terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return the (d,) weighted sums of Delta_j."""
    _, differences = weighted_sums(
        terms, batch, precise, mean_weights=None, first_weights=batch.weights[None]
    )
    return differences[0]


def weighted_pairs(terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return the (d, d) weighted sums of I_ij, half of them by a matrix product and the rest by
    symmetry.
    """
    d = terms.factor.shape[2]
    half = np.zeros((d, d), dtype=terms.factor.dtype)
    exact = np.zeros((d, d), dtype=terms.factor.dtype)
    for part in parts_of(terms.pick(batch.terms), batch.p, precise):
        P, num, sigma, vanishing = part.at
        weights = part.of(batch.weights)
        if vanishing is not None:
            chosen = vanishing.weights_at(weights, P.shape)
            exact += np.stack([chosen @ vanishing.second_differences(i) for i in range(d)])
        P = P * weights
        # I_ij is X_i (P num X_j / 2 + P Z_j) plus the same with i and j exchanged.
        X = part.terms.difference * sigma
        right = part.terms.S * sigma * sigma
        right *= P[:, :, None]
        right += X * (P * num / 2)[:, :, None]
        # Node by node, then part by part: long sums would lose digits.
        nodes = np.zeros_like(half)
        for X_node, right_node in zip(X, right, strict=True):
            nodes += X_node.T @ right_node
        half += nodes
    half += half.T
    return half + exact


def row(player: int) -> Statistic:
    """Return the statistic of the (d,) second differences of one player with every other player."""

    def sums(terms: Terms, batch: Batch, precise: bool) -> Array:
        total = np.zeros(terms.factor.shape[2], dtype=terms.factor.dtype)
        for part in parts_of(terms.pick(batch.terms), batch.p, precise):
            P, num, sigma, vanishing = part.at
            weights = part.of(batch.weights)
            if vanishing is not None:
                chosen = vanishing.weights_at(weights, P.shape)
                total += chosen @ vanishing.second_differences(player)
            P = P * weights
            sigma_i = sigma[:, :, player]
            X_i = part.terms.difference[:, player] * sigma_i
            Z_i = part.terms.S[:, player] * sigma_i * sigma_i
            by_X = P * (num * X_i + Z_i)
            by_Z = P * X_i
            differences = first_differences(
                part.terms, by_X=by_X[None], by_Z=by_Z[None], sigma=sigma
            )
            total += differences[0]
        return total

    return Statistic(players=2, axes=1, amplification=2.0, sums=sums)


# The mean, whose error is at most that of a difference.
MEAN = Statistic(players=0, axes=0, amplification=1.0, sums=weighted_mean)
# A first difference is what `budget` counts in.
FIRST = Statistic(players=1, axes=1, amplification=1.0, sums=weighted_first_differences)
# A second difference has twice the terms of a first one.
PAIRS = Statistic(players=2, axes=2, amplification=2.0, sums=weighted_pairs)
