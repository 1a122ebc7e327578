"""Reasons of small games, from all their coalitions: exactly smallest whatever the heads and the costs.

A set suffices if all coalitions that contain it do, which one pass over the players makes of the list of coalitions. A
value within rounding of the threshold is counted for neither side: then the set is not claimed, but bounds the cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array, Masks
from ..game.pooled_game import PooledGame
from .head_minima import value_error

# Up to this many players all coalitions are looked at.
ENUMERATED = 12


class Cheapest(NamedTuple):
    """The cheapest set (None if there is none), the proved value that goes with it, and the lower bound on its cost."""

    chosen: Masks | None
    value: float
    lower: float


def all_coalitions(d: int) -> Masks:
    """(2^d, d) row k holds the bits of k."""
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)


def cheapest_sufficient(game: PooledGame, theta: float, cost: Array) -> Cheapest:
    """The cheapest set such that every coalition that contains it is above theta."""
    masks = all_coalitions(game.d)
    value, error = game.value(masks), _errors(game)
    least = value - error
    possible = value + error > theta
    index = np.arange(len(masks))
    for j in range(game.d):
        without = index[~masks[:, j]]
        least[without] = np.minimum(least[without], least[without | (1 << j)])
        possible[without] &= possible[without | (1 << j)]
    price = masks @ cost
    k = _cheapest(price, least > theta, least)
    return Cheapest(masks[k], float(least[k]), float(price[possible].min()))


def cheapest_flip(game: PooledGame, theta: float, cost: Array) -> Cheapest:
    """The cheapest set such that everybody else is below theta."""
    masks = all_coalitions(game.d)
    value, error = game.value(masks)[::-1], _errors(game)[::-1]  # row k: without the players of row k
    price = masks @ cost
    certain, possible = value + error < theta, value - error < theta
    lower = float(price[possible].min()) if possible.any() else np.inf
    if not certain.any():
        return Cheapest(None, float(value.min()), lower)
    k = _cheapest(price, certain, -value)
    return Cheapest(masks[k], float(value[k]), lower)


def _cheapest(price: Array, allowed: Masks, margin: Array) -> int:
    """The cheapest of the allowed sets; of several, the one that is furthest on its side."""
    cheapest = allowed & (price == price[allowed].min())
    return int(np.argmax(np.where(cheapest, margin, -np.inf)))


def _errors(game: PooledGame) -> Array:
    """What rounding can do to each value; the value of nobody is a given number where nobody has no mass."""
    error = np.full(2**game.d, value_error(game))
    if game.can_be_empty:
        error[0] = 0.0
    return error
