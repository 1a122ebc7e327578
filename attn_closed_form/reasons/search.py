"""The search behind `reasons.py`: find a small set, prove what it claims, bound the size from below.

Every candidate comes from a linear form, is judged by a proof (`minima.py`) or by its value, and is kept only if the
judgment holds with the margin of rounding. A bad candidate therefore costs size, never correctness. The reasons of
small games come from all their coalitions and are exactly smallest. A value within rounding of the threshold counts for
neither side: the set is then not claimed, but it bounds the size.

The size d + 1 means "no set at all".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from .._types import Array, Ids, Masks
from ..game.pooled_game import PooledGame
from .bounds import ENUMERATED, all_coalitions, lowest
from .minima import HeadMinima, head_minima, mirrored, proved_above, slopes, total, value_error

# How often the order of the players is taken anew from the coalition that the last one led to.
ROUNDS = 4
# Bisections for the value that a sufficient set guarantees.
GUARANTEES = 5
# Most coalitions that a search for a smaller set by exchange of one player evaluates.
EXCHANGES = 4_000


class Smallest(NamedTuple):
    """The smallest set (None if there is none), the certified value that goes with it, and the lower bound on sizes."""

    chosen: Masks | None
    value: float
    lower: int


@dataclass(frozen=True, eq=False)
class Search:
    """A game whose whole is strictly above the threshold; mirrored if it was below (sign -1)."""

    game: PooledGame
    theta: float
    sign: float
    prediction: float

    @classmethod
    def of(cls, game: PooledGame, threshold: float) -> Self:
        """Check the arguments and put the whole above the threshold."""
        if not np.isfinite(threshold):
            raise ValueError(f"threshold: expected a finite number, got {threshold}")
        prediction = float(game.value(np.ones(game.d, dtype=bool)))
        if abs(prediction - threshold) <= value_error(game):
            raise ValueError(f"threshold: the prediction is {prediction:g} itself, so it is on neither side")
        sign = 1.0 if prediction > threshold else -1.0
        return cls(game if sign > 0 else mirrored(game), sign * float(threshold), sign, sign * prediction)

    @cached_property
    def all(self) -> Masks:
        """(d,) everybody."""
        return np.ones(self.game.d, dtype=bool)

    @cached_property
    def error(self) -> float:
        """What rounding can do to a value."""
        return value_error(self.game)

    def size(self, chosen: Masks | None) -> int:
        """Number of players of a set; d + 1 for none."""
        return self.game.d + 1 if chosen is None else int(chosen.sum())

    def enumerated(self) -> tuple[Masks, Array, Array]:
        """All coalitions, their values, and what rounding can do to each."""
        masks = all_coalitions(self.game.d)
        error = np.full(len(masks), self.error)
        if self.game.can_be_empty:  # the value of nobody is a given number
            error[0] = 0.0
        return masks, self.game.value(masks), error

    def lower_bound(self, impossible: Callable[[int], bool], upper: int) -> int:
        """The least size that is not proved impossible, at most `upper`."""
        low, high = -1, upper - 1
        if impossible(high):
            return upper
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if impossible(middle) else (low, middle)
        return low + 1

    def first(self, order: Ids, holds: Callable[[Masks], bool], below: int) -> Masks | None:
        """The shortest prefix of `order` that a bisection finds to hold, as a mask; None if the longest does not.

        Only prefixes of fewer than `below` players count.
        """
        rank = np.full(self.game.d, self.game.d)
        rank[order] = np.arange(order.size)
        low, high = 0, min(order.size, below - 1)
        if high <= 0 or not holds(rank < high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(rank < middle) else (middle, high)
        return rank < high

    def prune(self, chosen: Masks, margin: Callable[[Masks], Array]) -> Masks:
        """Leave out members while the margin stays positive, the one that leaves most of it first."""
        while chosen.any():
            members = np.flatnonzero(chosen)
            masks = np.repeat(chosen[None], members.size, axis=0)
            masks[np.arange(members.size), members] = False
            margins = margin(masks)
            if not margins.max() > 0:
                break
            chosen = masks[np.argmax(margins)]
        return chosen


def _smallest(masks: Masks, allowed: Masks, margin: Array) -> int:
    """The smallest of the allowed sets; of several, the one that is furthest on its side."""
    size = masks.sum(axis=1)
    smallest = allowed & (size == size[allowed].min())
    return int(np.argmax(np.where(smallest, margin, -np.inf)))


class SufficientSearch(Search):
    """Sets that suffice: all coalitions that contain them are above the threshold."""

    def smallest(self) -> Smallest:
        """A set that suffices, what it guarantees, and the lower bound on the size of such sets."""
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        nobody = ~self.all
        if self.suffices(nobody):
            return Smallest(nobody, self.guaranteed(nobody), 0)
        best = self.all
        for _ in range(ROUNDS):
            gain = self.effects(nobody if best.all() else best).sum(axis=0)
            shorter = self.first(np.argsort(-gain, kind="stable"), self.suffices, self.size(best))
            if shorter is None:
                break
            best = shorter
        lower = self.lower_bound(self.impossible(best), self.size(best))
        if lower < self.size(best):
            pruned = self.prune(best, lambda masks: self.worst(masks) - self.theta)
            if self.size(pruned) < self.size(best):
                best = pruned
                lower = max(lower, self.lower_bound(self.impossible(best), self.size(best)))
        return Smallest(best, self.guaranteed(best), lower)

    def _by_enumeration(self) -> Smallest:
        """A set suffices if all coalitions that contain it do: one pass over the players collects them."""
        masks, value, error = self.enumerated()
        least, possible = value - error, value + error > self.theta
        index = np.arange(len(masks))
        for j in range(self.game.d):
            without = index[~masks[:, j]]
            least[without] = np.minimum(least[without], least[without | (1 << j)])
            possible[without] &= possible[without | (1 << j)]
        k = _smallest(masks, least > self.theta, least)
        return Smallest(masks[k], float(least[k]), int(masks[possible].sum(axis=1).min()))

    @cached_property
    def _heads(self) -> dict[bytes, HeadMinima]:
        return {}

    def heads(self, chosen: Masks) -> HeadMinima:
        """The heads' minima over the coalitions that contain the set, computed once per set."""
        key = chosen.tobytes()
        if key not in self._heads:
            self._heads[key] = head_minima(self.game, self.all[None], ~chosen[None])
        return self._heads[key]

    def worst(self, chosen: Masks, bound: Array | None = None) -> Array:
        """(n,) proved lower bounds of all coalitions that contain the sets (n, d); `bound` are the heads' if known."""
        if bound is None:
            bound = head_minima(self.game, np.ones_like(chosen), ~chosen).bound
        least = total(self.game, bound)
        if self.game.can_be_empty:
            least = np.where(chosen.any(axis=1), least, np.minimum(least, self.game.empty_value))
        # Everybody is one coalition, whose value is known better than by the sum of the heads.
        return np.where(chosen.all(axis=1), np.maximum(least, self.prediction - self.error), least)

    def suffices(self, chosen: Masks) -> bool:
        """Whether the set is proved to suffice."""
        bound = self.heads(chosen).bound
        if self.worst(chosen[None], bound)[0] > self.theta:
            return True
        if self.game.can_be_empty and not chosen.any() and self.game.empty_value <= self.theta:
            return False
        return proved_above(self.game, self.all, ~chosen, float(np.nextafter(self.theta, np.inf)), bound=bound[0])

    def effects(self, chosen: Masks) -> Array:
        """(H, d) effects of the players at the heads' worst coalitions that contain the set, at the threshold."""
        heads = self.heads(chosen)
        theta = heads.bound[0] + (self.theta - self.game.bias - heads.bound[0].sum()) / self.game.H
        return slopes(self.game, heads.present[0], theta)

    def guaranteed(self, chosen: Masks) -> float:
        """The greatest value that a few bisections prove for every coalition that contains a set that suffices."""
        heads = self.heads(chosen)
        proved = max(float(self.worst(chosen[None], heads.bound)[0]), float(np.nextafter(self.theta, np.inf)))
        attained = heads.present[0] | chosen
        if self.game.can_be_empty:
            attained = attained[attained.any(axis=1)]
        high = min(self.prediction, float(self.game.value(attained).min())) if attained.size else self.prediction
        if self.game.can_be_empty and not chosen.any():
            high = min(high, self.game.empty_value)
        for _ in range(GUARANTEES if self.game.H > 1 else 0):
            middle = (proved + high) / 2
            fine = proved_above(self.game, self.all, ~chosen, middle, bound=heads.bound[0])
            proved, high = (middle, high) if fine else (proved, middle)
        return proved

    def impossible(self, chosen: Masks) -> Callable[[int], bool]:
        """A test that proves, for a number K, that no set of at most K players suffices.

        R suffices only if f(M + R) > theta for any fixed coalition M. Two are tried: the players whose effect is
        negative where the chosen set is present, with and without the chosen set's own.
        """
        game, opposite = self.game, mirrored(self.game)
        harm = self.effects(chosen).sum(axis=0) < 0
        bases = np.unique(np.stack([harm, harm & ~chosen]), axis=0)

        def test(K: int) -> bool:
            if K < 0:
                return True
            if game.can_be_empty and K == 0 and game.empty_value <= self.theta:
                return True
            usable = bases if not game.can_be_empty or K > 0 else bases[bases.any(axis=1)]
            if not usable.size:
                return False
            heads = head_minima(opposite, usable, ~usable, K)
            if (-total(opposite, heads.bound) <= self.theta).any():
                return True
            return any(
                proved_above(opposite, base, ~base, -self.theta, K, bound)
                for base, bound in zip(usable, heads.bound, strict=True)
            )

        return test


class ContrastiveSearch(Search):
    """Sets that flip: everybody else together is below the threshold."""

    def smallest(self) -> Smallest:
        """A set whose removal flips (None if the search ends without one), the value without it, the lower bound."""
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        _, low = lowest(self.game)
        best = ~low if self.flips(~low) else None
        present = self.all
        for _ in range(ROUNDS):
            shorter = self._flip_from(present, self.size(best))
            if shorter is None:
                break
            best, present = shorter, ~shorter
        lower = self.lower_bound(self.impossible, self.size(best))
        if best is not None and lower < self.size(best):
            best = self._exchange(self.prune(best, self.flip_margin), lower)
        return Smallest(best, float(self.game.value(low if best is None else ~best)), lower)

    def _by_enumeration(self) -> Smallest:
        masks, value, error = self.enumerated()
        value, error = value[::-1], error[::-1]  # row k: without the players of row k
        certain, possible = value + error < self.theta, value - error < self.theta
        lower = int(masks[possible].sum(axis=1).min()) if possible.any() else self.size(None)
        if not certain.any():
            return Smallest(None, float(value.min()), lower)
        k = _smallest(masks, certain, -value)
        return Smallest(masks[k], float(value[k]), lower)

    def flip_margin(self, removed: Masks) -> Array:
        """(n,) how far the prediction without the sets (n, d) is proved to be below the threshold."""
        return self.theta - self.error - self.game.value(~removed)

    def flips(self, removed: Masks) -> bool:
        """Whether the removal is proved to flip the prediction."""
        return bool(self.flip_margin(removed[None])[0] > 0)

    def _flip_from(self, present: Masks, below: int) -> Masks | None:
        """The shortest removal of fewer than `below` players in the order of the effects at a coalition."""
        theta = np.array([self.theta - self.game.bias]) if self.game.H == 1 else None
        effect = slopes(self.game, present, theta).sum(axis=0)
        order = np.argsort(-effect, kind="stable")
        return self.first(order[effect[order] > 0], self.flips, below)

    def impossible(self, K: int) -> bool:
        """A proof that no removal of at most K players flips the prediction."""
        if K < 0:
            return True
        if self.game.can_be_empty and self.game.d <= K and self.game.empty_value < self.theta:
            return False
        heads = head_minima(self.game, self.all[None], self.all[None], K)
        if total(self.game, heads.bound)[0] >= self.theta:
            return True
        return proved_above(self.game, self.all, self.all, self.theta, K, heads.bound[0])

    def _exchange(self, removed: Masks, lower: int) -> Masks:
        """One player fewer, by leaving out two members and taking in another, as long as that flips too."""
        while self.size(removed) > lower:
            members, others = np.flatnonzero(removed), np.flatnonzero(~removed)
            pairs = [(i, j) for n, i in enumerate(members) for j in members[:n]]
            if not pairs or not others.size or len(pairs) * others.size > EXCHANGES:
                break
            masks = np.repeat(removed[None], len(pairs) * others.size, axis=0)
            rows = np.arange(len(masks))
            masks[rows[:, None], np.repeat(np.array(pairs), others.size, axis=0)] = False
            masks[rows, np.tile(others, len(pairs))] = True
            margin = self.flip_margin(masks)
            if not margin.max() > 0:
                break
            removed = masks[np.argmax(margin)]
        return removed
