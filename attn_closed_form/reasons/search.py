"""The search for certified reasons: candidates from linear forms, each judged by a proof.

With one head "f(S) > theta" is linear in S (`game/extrema.py`), with r_j = a_j (v_j - theta) - b_j
(v'_j - theta) as the effect of player j. So the smallest set that suffices takes the largest
positive r_j until the worst case holds, and the smallest set that flips takes the largest r_j until
the sum is negative: both greedy choices are optimal.

With several heads a set is still proved to suffice by the sum of the heads' minima, and to flip by
its value. The lower bound on the size comes from the same minima under a limit on the number of
players that change sides:

- R flips only if some head-wise removal of at most |R| players takes the sum of the heads below
  theta;
- R suffices only if f(M + R) > theta for any fixed coalition M, and a limit on |R| bounds f(M + R)
  from above. M keeps the players that oppose the prediction and leaves out those that support it.

A bad candidate costs size, never correctness, because a set is kept only if its proof holds with
the margin of rounding. The reasons of small games come from all their coalitions and are exactly
smallest. A value within rounding of the threshold counts for neither side: the set is then not
claimed, but it bounds the size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np

from .._arrays import all_coalitions
from .._types import Array, Ids, Masks
from ..game.extrema import HeadMinima, head_minima
from ..game.pooled_game import PooledGame
from .bounds import ENUMERATED, lowest
from .heads import check_pooled, mirrored, proved_above, raised, slopes, total, value_error

# Tuning: number of times that the order of the players is recomputed from the last coalition.
REORDERINGS = 4


class UndecidedError(ValueError):
    """Error for a prediction that equals the threshold up to rounding, so that it is on neither
    side.
    """


class Smallest(NamedTuple):
    """A set (None if there is none), its certified value, and the lower bound on the sizes of such
    sets.
    """

    players: Masks | None
    value: float
    lower_bound: int


@dataclass(frozen=True, eq=False)
class Search:
    """A game whose whole is strictly above the threshold; mirrored if it was below (sign -1)."""

    game: PooledGame
    theta: float
    sign: float
    prediction: float

    @classmethod
    def of(cls, game: PooledGame, threshold: float) -> Self:
        """Check the arguments, and mirror the game if the whole is below the threshold."""
        check_pooled(game)
        if not np.isfinite(threshold):
            raise ValueError(f"threshold: expected a finite number, got {threshold}")
        prediction = float(game.value(np.ones(game.d, dtype=bool)))
        if abs(prediction - threshold) <= value_error(game):
            raise UndecidedError(
                f"threshold: the prediction equals {prediction:g}, so it is on neither side"
            )
        if prediction > threshold:
            return cls(game, float(threshold), 1.0, prediction)
        return cls(mirrored(game), -float(threshold), -1.0, -prediction)

    def smallest(self) -> Smallest:
        """Return the smallest set that the search finds."""
        raise NotImplementedError

    @cached_property
    def all(self) -> Masks:
        """The (d,) mask of all players."""
        return np.ones(self.game.d, dtype=bool)

    @cached_property
    def error(self) -> float:
        """The largest rounding error of a value."""
        return value_error(self.game)

    def size(self, chosen: Masks | None) -> int:
        """Return the number of players of a set, or d + 1 for None."""
        if chosen is None:
            return self.game.d + 1
        return int(chosen.sum())

    def enumerated(self) -> tuple[Array, Array]:
        """Return the values of all coalitions, and their rounding errors."""
        values = self.game.value(all_coalitions(self.game.d))
        error = np.full(len(values), self.error)
        if self.game.can_be_empty:
            # The value of the empty coalition is a given number.
            error[0] = 0.0
        return values, error

    def smallest_of_all(
        self, value: Array, certain: Masks, possible: Masks, direction: float
    ) -> Smallest:
        """Return the smallest certain set in the order of `all_coalitions`, and of several the
        furthest on its side.
        """
        masks = all_coalitions(self.game.d)
        size = masks.sum(axis=1)
        lower = int(size.min(where=possible, initial=self.size(None)))
        if not certain.any():
            return Smallest(players=None, value=float(value.min()), lower_bound=lower)
        smallest = certain & (size == size[certain].min())
        distance = np.where(smallest, direction * value, -np.inf)
        furthest = int(np.argmax(distance))
        return Smallest(players=masks[furthest], value=float(value[furthest]), lower_bound=lower)

    def lower_bound(self, impossible: Callable[[int], bool], upper: int) -> int:
        """Return the smallest size that is not proved impossible, at most `upper`."""
        if impossible(upper - 1):
            return upper
        return _bisected(-1, upper - 1, lambda size: not impossible(size))

    def first(self, order: Ids, holds: Callable[[Masks], bool], below: int) -> Masks | None:
        """Return the mask of the shortest prefix of `order`, below `below` players, found by
        bisection to hold.
        """
        rank = np.full(self.game.d, self.game.d)
        rank[order] = np.arange(order.size)
        longest = min(order.size, below - 1)
        if longest <= 0 or not holds(rank < longest):
            return None
        shortest = _bisected(0, longest, lambda size: holds(rank < size))
        return rank < shortest


def _bisected(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number found between `low` and `high` for which `holds`; it holds for
    `high`.
    """
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, eq=False)
class SufficientSearch(Search):
    """The search for sets that suffice: all coalitions that contain them are above the
    threshold.
    """

    known: dict[bytes, HeadMinima] = field(default_factory=dict)

    def smallest(self) -> Smallest:
        """Return a set that suffices, its guaranteed value, and the lower bound on the size of such
        sets.
        """
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        nobody = ~self.all
        if self.suffices(nobody):
            return Smallest(players=nobody, value=self.guaranteed(nobody), lower_bound=0)
        best = self.all
        for _ in range(REORDERINGS):
            start = nobody if best.all() else best
            gain = self.effects(start).sum(axis=0)
            order = np.argsort(-gain, kind="stable")
            shorter = self.first(order, self.suffices, self.size(best))
            if shorter is None:
                break
            best = shorter
        # The players that oppose the prediction where the set is present.
        harm = self.effects(best).sum(axis=0) < 0
        lower = self.lower_bound(partial(self.impossible, harm), self.size(best))
        return Smallest(players=best, value=self.guaranteed(best), lower_bound=lower)

    def _by_enumeration(self) -> Smallest:
        """Find the smallest set by enumeration, from one pass over the players that checks all
        supersets.
        """
        least, possible = self.superset_minima()
        return self.smallest_of_all(least, least > self.theta, possible, direction=1.0)

    def superset_minima(self) -> tuple[Array, Masks]:
        """Return a lower bound on the supersets of every coalition, and whether all may be above
        the threshold.
        """
        value, error = self.enumerated()
        least = value - error
        possible = value + error > self.theta
        index = np.arange(len(value))
        for j in range(self.game.d):
            without = index[index >> j & 1 == 0]
            joined = without | (1 << j)
            least[without] = np.minimum(least[without], least[joined])
            possible[without] &= possible[joined]
        return least, possible

    def heads(self, chosen: Masks) -> HeadMinima:
        """Return the heads' minima over the coalitions that contain the set, computed once per
        set.
        """
        key = chosen.tobytes()
        if key not in self.known:
            self.known[key] = head_minima(self.game, self.all, ~chosen)
        return self.known[key]

    def worst(self, chosen: Masks) -> float:
        """Return a proved lower bound on all coalitions that contain the set."""
        least = total(self.game, self.heads(chosen).bound)
        if self.game.can_be_empty and not chosen.any():
            return min(least, self.game.empty_value)
        # The value of the grand coalition is known more accurately than from the sum of the heads.
        if chosen.all():
            return max(least, self.prediction - self.error)
        return least

    def suffices(self, chosen: Masks) -> bool:
        """Return whether the set is proved to suffice."""
        if self.worst(chosen) > self.theta:
            return True
        if self.game.can_be_empty and not chosen.any() and self.game.empty_value <= self.theta:
            return False
        above = float(np.nextafter(self.theta, np.inf))
        return proved_above(
            self.game, self.all, movable=~chosen, goal=above, bound=self.heads(chosen).bound
        )

    def extended(self, chosen: Masks) -> Masks:
        """Add the players with the largest effects until the set suffices."""
        effect = self.effects(chosen).sum(axis=0)
        gain = np.where(chosen, -np.inf, effect)
        others = self.game.d - int(chosen.sum())
        order = np.argsort(-gain, kind="stable")[:others]
        added = self.first(order, lambda more: self.suffices(chosen | more), self.game.d + 1)
        if added is None:
            return self.all
        return chosen | added

    def effects(self, chosen: Masks) -> Array:
        """Return the (H, d) effects of the players at the heads' worst coalitions with the set, at
        the threshold.
        """
        heads = self.heads(chosen)
        missing = self.theta - self.game.bias - heads.bound.sum()
        theta = heads.bound + missing / self.game.H
        return slopes(self.game, heads.present, theta)

    def guaranteed(self, chosen: Masks) -> float:
        """Return the largest value that a few bisections prove for every coalition that contains
        the set.
        """
        heads = self.heads(chosen)
        just_above = float(np.nextafter(self.theta, np.inf))
        proved = max(self.worst(chosen), just_above)
        attained = heads.present | chosen
        if self.game.can_be_empty:
            attained = attained[attained.any(axis=1)]
        high = self.prediction
        if attained.size:
            least_attained = float(self.game.value(attained).min())
            high = min(high, least_attained)
        if self.game.can_be_empty and not chosen.any():
            high = min(high, self.game.empty_value)
        # Tuning: bisections for the value that a sufficient set guarantees. Each halves the gap to
        # the attained value.
        guarantees = 5
        bisections = guarantees if self.game.H > 1 else 0
        return raised(
            self.game,
            self.all,
            movable=~chosen,
            bound=heads.bound,
            low=proved,
            high=high,
            bisections=bisections,
        )

    def impossible(self, base: Masks, K: int) -> bool:
        """Return whether it is proved, by f(`base` + R) <= theta, that no set R of at most K
        players suffices.
        """
        if K < 0:
            return True
        if K == 0 and self.game.can_be_empty:
            # Nobody suffices only if the empty coalition, whose value is given, is above.
            if self.game.empty_value <= self.theta:
                return True
            if not base.any():
                return False
        return proved_above(mirrored(self.game), base, movable=~base, goal=-self.theta, limit=K)


class ContrastiveSearch(Search):
    """The search for sets that flip: all other players together are below the threshold."""

    def smallest(self) -> Smallest:
        """Return a set whose removal flips (or None), the value without it, and the lower bound on
        the size.
        """
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        _, low = lowest(self.game)
        best: Masks | None = None
        if self.flips(~low):
            best = ~low
        present = self.all
        for _ in range(REORDERINGS):
            shorter = self._flip_from(present, self.size(best))
            if shorter is None:
                break
            best = shorter
            present = ~shorter
        remaining = low if best is None else ~best
        value = float(self.game.value(remaining))
        return Smallest(
            players=best,
            value=value,
            lower_bound=self.lower_bound(self.impossible, self.size(best)),
        )

    def _by_enumeration(self) -> Smallest:
        """Find the smallest set by enumeration."""
        # Reversed, row k has the value without the players of row k.
        value, error = (numbers[::-1] for numbers in self.enumerated())
        certain = value + error < self.theta
        possible = value - error < self.theta
        return self.smallest_of_all(value, certain, possible, direction=-1.0)

    def flips(self, removed: Masks) -> bool:
        """Return whether the removal is proved to flip the prediction."""
        return bool(self.game.value(~removed) < self.theta - self.error)

    def _flip_from(self, present: Masks, below: int) -> Masks | None:
        """Return the shortest removal of fewer than `below` players in the order of the effects at
        a coalition.
        """
        theta = None
        if self.game.H == 1:
            theta = np.array([self.theta - self.game.bias])
        effect = slopes(self.game, present, theta).sum(axis=0)
        order = np.argsort(-effect, kind="stable")
        supporting = order[effect[order] > 0]
        return self.first(supporting, self.flips, below)

    def impossible(self, K: int) -> bool:
        """Return whether it is proved that no removal of at most K players flips the prediction."""
        if K < 0:
            return True
        if self.game.can_be_empty and self.game.d <= K and self.game.empty_value < self.theta:
            return False
        return proved_above(self.game, self.all, movable=self.all, goal=self.theta, limit=K)
