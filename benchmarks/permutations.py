"""Permutation sampling of Shapley values: the plain method that `shapley_sample` is compared with.

Random orders of the players are walked forward and backward (Castro, Gomez and Tejada 2009;
antithetic pairs, Mitchell et al. 2022). The spread over the pairs of walks gives the standard
error.
"""

from __future__ import annotations

import numpy as np

from attn_closed_form._types import Array, Ids
from attn_closed_form.game.links import Link
from attn_closed_form.game.sampled import Playable, ShapleySample

# The minimum number of pairs of orders, whose spread is a standard error.
MIN_ORDERS = 2


def permutation_sample(
    game: Playable, num_calls: int, seed: int | None = None, link: str | Link | None = None
) -> ShapleySample:
    """Shapley values from random orders: two calls, and d - 1 for each order, at least four
    orders.
    """
    d = game.d
    rng = np.random.default_rng(seed)
    function = Link(link) if isinstance(link, str) else link
    rank = _ranks(rng, max(MIN_ORDERS, (num_calls - 2) // (2 * (d - 1))), d)
    walks = (rank[:, None, :] < np.arange(1, d)[None, :, None]).reshape(-1, d)
    masks = np.concatenate([np.zeros((1, d), dtype=bool), np.ones((1, d), dtype=bool), walks])
    values = np.asarray(game.value(masks), dtype=np.float64)
    return ShapleySample(*_walk(function(values) if function else values, rank), len(masks))


def _ranks(rng: np.random.Generator, pairs: int, d: int) -> Ids:
    """(2 pairs, d) when each player comes, in random orders and their reverses, one after the
    other.
    """
    forward = np.argsort(rng.random((pairs, d)), axis=1)
    return np.argsort(np.stack([forward, forward[:, ::-1]], axis=1).reshape(-1, d), axis=1)


def _walk(values: Array, rank: Ids) -> tuple[Array, Array]:
    """Mean changes and their standard errors (d,), from values of nobody, of everybody, and along
    each order.
    """
    orders, d = rank.shape
    path = np.empty((orders, d + 1))
    path[:, 0], path[:, -1] = values[:2]
    path[:, 1:-1] = values[2:].reshape(orders, d - 1)
    change = np.take_along_axis(np.diff(path, axis=1), rank, axis=1)
    of_pairs = change.reshape(-1, 2, d).mean(axis=1)
    return of_pairs.mean(axis=0), of_pairs.std(axis=0, ddof=1) / np.sqrt(len(of_pairs))
