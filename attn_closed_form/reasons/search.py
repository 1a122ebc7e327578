"""The search behind `reasons.py`: find a small set, prove what it claims, bound the size from below.

Every candidate comes from a linear form, is judged by a proof (`head_minima`) or by its value, and is kept only if the
judgement holds with the margin of rounding. So a bad candidate costs size, never truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array, Ids, Masks
from ..game.pooled_game import PooledGame
from .cover import is_whole
from .head_minima import mirrored, relative_error, value_error

# How often the order of the players is taken anew from the coalition that the last one led to.
ROUNDS = 4
BISECTIONS = 40

Test = Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Search:
    """A game whose whole is strictly above the threshold; mirrored if it was below (sign -1)."""

    game: PooledGame
    theta: float
    cost: Array
    sign: float
    prediction: float

    @classmethod
    def of(cls, game: PooledGame, threshold: float, cost: ArrayLike | None) -> Self:
        """Check the arguments and put the whole above the threshold."""
        if not np.isfinite(threshold):
            raise ValueError(f"threshold: expected a finite number, got {threshold}")
        prices = np.ones(game.d) if cost is None else np.asarray(cost, dtype=np.float64)
        if prices.shape != (game.d,) or not (np.isfinite(prices) & (prices > 0)).all():
            raise ValueError(f"cost: expected {game.d} positive numbers, one per player, got {cost!r}")
        prediction = float(game.value(np.ones(game.d, dtype=bool)))
        if abs(prediction - threshold) <= value_error(game):
            raise ValueError(f"threshold: the prediction is {prediction:g} itself, so it is on neither side")
        sign = 1.0 if prediction > threshold else -1.0
        return cls(game if sign > 0 else mirrored(game), sign * float(threshold), prices, sign, sign * prediction)

    @cached_property
    def all(self) -> Masks:
        """(d,) everybody."""
        return np.ones(self.game.d, dtype=bool)

    @cached_property
    def opposite(self) -> PooledGame:
        """The mirrored game, whose minima are this one's maxima."""
        return mirrored(self.game)

    @cached_property
    def error(self) -> float:
        """What rounding can do to a value."""
        return value_error(self.game)

    @cached_property
    def whole(self) -> bool:
        """Whether all costs are whole numbers."""
        return bool((self.cost == np.round(self.cost)).all())

    @cached_property
    def knapsack(self) -> bool:
        """Whether the cheapest set can be found exactly, and greed does not find it anyway."""
        return self.game.H == 1 and is_whole(self.cost) and bool((self.cost != self.cost[0]).any())

    def price(self, chosen: Masks | None) -> float:
        """Cost of a set; infinite for none."""
        return np.inf if chosen is None else float(self.cost[chosen].sum())

    def lower_bound(self, impossible: Test, upper: float) -> float:
        """The least cost that is not proved impossible; `upper` itself where everything below it is."""
        most = min(upper, float(self.cost.sum()) + 1)
        if impossible(np.floor(np.nextafter(most, 0)) if self.whole else np.nextafter(most, 0)):
            return upper
        low, high = (-1.0, np.floor(np.nextafter(most, 0))) if self.whole else (0.0, most)
        if not self.whole and not impossible(0.0):
            return 0.0
        for _ in range(BISECTIONS):
            middle = np.floor((low + high) / 2) if self.whole else (low + high) / 2
            if middle <= low:
                break
            low, high = (middle, high) if impossible(middle) else (low, middle)
        return float(low + 1 if self.whole else low)

    def first(self, order: Ids, holds: Callable[[Masks], bool], below: float) -> Masks | None:
        """The shortest prefix of `order` that a bisection finds to hold, as a mask; None if the longest does not.

        Only prefixes that cost less than `below` count.
        """
        rank = np.full(self.game.d, self.game.d)
        rank[order] = np.arange(order.size)
        low, high = 0, int(np.searchsorted(np.cumsum(self.cost[order]), below))
        if high == 0 or not holds(rank < high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(rank < middle) else (middle, high)
        return rank < high

    def linear(self, head: int = 0) -> tuple[Array, Array, float, float]:
        """Terms of the one head at the threshold: present (d,), absent (d,), background, and their rounding."""
        game = self.game
        theta = self.theta - game.bias
        top = max(float(np.maximum(game.s, game.s_absent).max()), float(game.s_background[head]))
        x = np.exp(game.s[head] - top) * (game.v[head] - theta)
        y = np.exp(game.s_absent[head] - top) * (game.v_absent[head] - theta)
        z = float(np.exp(game.s_background[head] - top) * (game.v_background[head] - theta))
        size = float((np.abs(x) + np.abs(y)).sum()) + abs(z)
        return x, y, z, 4 * relative_error(game.d) * size

    def prune(self, chosen: Masks, margin: Callable[[Masks], Array]) -> Masks:
        """Leave out members, the dearest that can go first, while the margin stays positive."""
        while chosen.any():
            members = np.flatnonzero(chosen)
            masks = np.repeat(chosen[None], members.size, axis=0)
            masks[np.arange(members.size), members] = False
            left = margin(masks)
            if not (left > 0).any():
                break
            keep = np.where(left > 0, self.cost[members], -1.0)
            dearest = keep == keep.max()
            chosen = masks[np.flatnonzero(dearest)[np.argmax(left[dearest])]]
        return chosen
