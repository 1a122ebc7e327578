"""Shapley values by sampled orders, for whatever can only be asked: a black box, or a game as a comparison.

Castro, Gomez, Tejada 2009: in a random order of the players, each gets what it changes when it joins; the mean over
orders is the Shapley value. Every order is walked in both directions (antithetic pairs, Mitchell et al. 2022), which
cancels what is linear, and the pairs are independent, so that their spread gives the standard error.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .._types import Array, Masks

# The fewest pairs of orders that have a spread.
LEAST_PAIRS = 2


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
    game: Playable, num_calls: int = 2000, seed: int | np.random.Generator | None = None
) -> ShapleySample:
    """Shapley values from random orders of the players.

    Parameters
    ----------
    game : anything with `d` and `value(masks)`, such as a PooledGame
    num_calls : about how many coalitions to ask, d - 1 per order and two for all orders together; at least four orders
        are walked, whatever it says
    seed : anything that `numpy.random.default_rng` takes

    Returns
    -------
    ShapleySample; the values add up to f of everybody minus f of nobody, whatever the number of orders

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, 0.5], v=[1.0, -1.0, 2.0])
    >>> found = shapley_sample(game, num_calls=2000, seed=0)
    >>> bool((np.abs(found.values - shapley(game)) < 5 * found.standard_error).all())
    True
    """
    d = game.d
    if isinstance(num_calls, bool) or not isinstance(num_calls, int | np.integer) or num_calls < 1:
        raise ValueError(f"num_calls: expected an integer of at least 1, got {num_calls!r}")
    if d == 1:
        nobody, everybody = game.value(np.array([[False], [True]]))
        return ShapleySample(np.array([everybody - nobody]), np.zeros(1), 2)
    pairs = max(LEAST_PAIRS, (num_calls - 2) // (2 * (d - 1)))
    rng = np.random.default_rng(seed)
    forward = np.argsort(rng.random((pairs, d)), axis=1)
    orders = np.stack([forward, forward[:, ::-1]], axis=1).reshape(-1, d)
    rank = np.argsort(orders, axis=1)
    masks = rank[:, None, :] < np.arange(1, d)[None, :, None]
    ends = np.array([np.zeros(d, dtype=bool), np.ones(d, dtype=bool)])
    values = np.asarray(game.value(np.concatenate([ends, masks.reshape(-1, d)])))
    path = np.empty((len(orders), d + 1))
    path[:, 0], path[:, -1] = values[:2]
    path[:, 1:-1] = values[2:].reshape(len(orders), d - 1)
    change = np.take_along_axis(np.diff(path, axis=1), rank, axis=1)
    of_pairs = change.reshape(pairs, 2, d).mean(axis=1)
    error = of_pairs.std(axis=0, ddof=1) / np.sqrt(pairs)
    return ShapleySample(of_pairs.mean(axis=0), error, len(values))
