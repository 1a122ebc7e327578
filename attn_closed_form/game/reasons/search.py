"""The search behind `reasons.py`: find a small set, prove what it claims, bound the size from below.

Every candidate comes from a linear form, is judged by a proof (`head_minima`) or by its value, and is kept only if the
judgement holds with the margin of rounding. So a bad candidate costs size, never truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..._types import Array, Ids, Masks
from ..pooled_game import PooledGame
from .bounds import lowest
from .cover import Cover, is_whole
from .head_minima import head_minima, mirrored, relative_error, slopes, total, value_error
from .joint_bounds import proved_above
from .small_games import ENUMERATED, Cheapest, cheapest_flip, cheapest_sufficient

# How often the order of the players is taken anew from the coalition that the last one led to.
ROUNDS = 4
# Most coalitions that a search for a smaller set by exchange of one player looks at.
EXCHANGES = 4_000
BISECTIONS = 40
# Bisections for the value that a sufficient set guarantees.
GUARANTEES = 5

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
    def of(cls, game: PooledGame, threshold: float, cost: ArrayLike | None) -> Search:
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

    # Sets that suffice.

    def worst(self, chosen: Masks, bound: Array | None = None) -> Array:
        """(n,) proved lower bounds of all coalitions that contain the sets (n, d); `bound` are the heads' if known."""
        if bound is None:
            bound = head_minima(self.game, np.ones_like(chosen), ~chosen).bound
        found = total(self.game, bound)
        if self.game.can_be_empty:
            found = np.where(chosen.any(axis=1), found, np.minimum(found, self.game.empty_value))
        # Everybody is one coalition, whose value is known better than by the sum of the heads.
        return np.where(chosen.all(axis=1), np.maximum(found, self.prediction - self.error), found)

    def suffices(self, chosen: Masks) -> bool:
        """Whether the set is proved to suffice."""
        bound = head_minima(self.game, self.all[None], ~chosen[None]).bound
        if self.worst(chosen[None], bound)[0] > self.theta:
            return True
        if self.game.can_be_empty and not chosen.any() and self.game.empty_value <= self.theta:
            return False
        return proved_above(self.game, self.all, ~chosen, float(np.nextafter(self.theta, np.inf)), bound=bound[0])

    def effects(self, chosen: Masks) -> Array:
        """(H, d) effects of the players at the heads' worst coalitions that contain the set, at the threshold."""
        heads = head_minima(self.game, self.all[None], ~chosen[None])
        theta = heads.bound[0] + (self.theta - self.game.bias - heads.bound[0].sum()) / self.game.H
        return slopes(self.game, heads.present[0], theta)

    def sufficient(self) -> Cheapest:
        """A set that suffices, what it guarantees, and its lower bound."""
        if self.game.d <= ENUMERATED:
            return cheapest_sufficient(self.game, self.theta, self.cost)
        nobody = ~self.all
        if self.suffices(nobody):
            return Cheapest(nobody, self.guaranteed(nobody), 0.0)
        best = self._knapsack_sufficient() if self.knapsack else self.all
        for _ in range(ROUNDS):
            gain = self.effects(best if best.sum() < self.game.d else nobody).sum(axis=0)
            found = self.first(np.argsort(-gain / self.cost, kind="stable"), self.suffices, self.price(best))
            if found is None:
                break
            best = found
        impossible = self.cannot_suffice(best)
        lower = self.lower_bound(impossible, self.price(best))
        if lower < self.price(best):
            shrunk = self._prune(best, lambda masks: self.worst(masks) - self.theta)
            if self.price(shrunk) < self.price(best):
                best, impossible = shrunk, self.cannot_suffice(shrunk)
                lower = max(lower, self.lower_bound(impossible, self.price(best)))
        return Cheapest(best, self.guaranteed(best), lower)

    def guaranteed(self, chosen: Masks) -> float:
        """The greatest value that a few bisections prove for every coalition that contains a set that suffices."""
        heads = head_minima(self.game, self.all[None], ~chosen[None])
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

    def cannot_suffice(self, chosen: Masks) -> Test:
        """A proof, for a cost K, that no set of at most that cost suffices."""
        harm = self.effects(chosen).sum(axis=0) < 0
        bases = np.unique(np.stack([harm, harm & ~chosen]), axis=0)
        cover = self._sufficient_cover() if self.knapsack else None

        def impossible(K: float) -> bool:
            if K < 0:
                return True
            if cover is not None and cover[0].best[min(int(K), cover[0].best.size - 1)] < cover[1]:
                return True
            if self.game.can_be_empty and self.cost.min() > K and self.game.empty_value <= self.theta:
                return True
            usable = bases if not self.game.can_be_empty or self.cost.min() <= K else bases[bases.any(axis=1)]
            if not usable.size:
                return False
            heads = head_minima(self.opposite, usable, ~usable, np.full(len(usable), K), self.cost)
            if (-total(self.opposite, heads.bound) <= self.theta).any():
                return True
            return any(
                proved_above(self.opposite, base, ~base, -self.theta, K, self.cost, bound)
                for base, bound in zip(usable, heads.bound, strict=True)
            )

        return impossible

    def _sufficient_cover(self) -> tuple[Cover, float, float]:
        """The knapsack of gains, the gain below which no set suffices and the one above which a set does."""
        x, y, z, margin = self.linear()
        need = -(z + float(np.minimum(x, y).sum()))
        return Cover.of(np.maximum(x - y, 0), self.cost), need - margin, need + margin

    def _knapsack_sufficient(self) -> Masks:
        cover, _, enough = self._sufficient_cover()
        found = cover.items(int(np.argmax(cover.best > enough))) if cover.best[-1] > enough else self.all
        return found if self.suffices(found) else self.all

    def _prune(self, chosen: Masks, margin: Callable[[Masks], Array]) -> Masks:
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

    # Sets that flip.

    def flip_margin(self, removed: Masks) -> Array:
        """(n,) how far the prediction without the sets (n, d) is proved to be below the threshold."""
        return self.theta - self.error - self.game.value(~removed)

    def flips(self, removed: Masks) -> bool:
        """Whether the removal is proved to flip the prediction."""
        return bool(self.flip_margin(removed[None])[0] > 0)

    def contrastive(self) -> Cheapest:
        """A set whose removal flips (None if none was found), the value without it, and its lower bound."""
        if self.game.d <= ENUMERATED:
            return cheapest_flip(self.game, self.theta, self.cost)
        best = self._knapsack_contrastive() if self.knapsack else None
        if best is None:
            _, mask = lowest(self.game)
            best = ~mask if self.flips(~mask) else None
        present = self.all
        for _ in range(ROUNDS):
            found = self._flip_from(present, self.price(best))
            if found is None:
                break
            best, present = found, ~found
        lower = self.lower_bound(self.cannot_flip, self.price(best))
        if best is not None and lower < self.price(best):
            best = self._exchange(self._prune(best, self.flip_margin), lower)
        after = ~best if best is not None else lowest(self.game)[1]
        return Cheapest(best, float(self.game.value(after)), lower)

    def _flip_from(self, present: Masks, below: float) -> Masks | None:
        """The shortest removal in the order of the effects at a coalition that costs less than `below`."""
        effect = slopes(self.game, present)
        if self.game.H == 1:
            effect = slopes(self.game, present, np.array([self.theta - self.game.bias]))
        order = np.argsort(-effect.sum(axis=0) / self.cost, kind="stable")
        return self.first(order[effect.sum(axis=0)[order] > 0], self.flips, below)

    def cannot_flip(self, K: float) -> bool:
        """A proof that no removal of at most this cost flips the prediction."""
        if K < 0:
            return True
        if self.game.can_be_empty and self.cost.sum() <= K and self.game.empty_value < self.theta:
            return False
        if self.knapsack:
            cover, least, _ = self._contrastive_cover
            if cover.best[min(int(K), cover.best.size - 1)] < least:
                return True
        heads = head_minima(self.game, self.all[None], self.all[None], np.array([K]), self.cost)
        if total(self.game, heads.bound)[0] >= self.theta:
            return True
        return proved_above(self.game, self.all, self.all, self.theta, K, self.cost, heads.bound[0])

    @cached_property
    def _contrastive_cover(self) -> tuple[Cover, float, float]:
        x, y, z, margin = self.linear()
        need = z + float(x.sum())
        return Cover.of(np.maximum(x - y, 0), self.cost), need - margin, need + margin

    def _knapsack_contrastive(self) -> Masks | None:
        cover, _, enough = self._contrastive_cover
        if not cover.best[-1] > enough:
            return None
        found = cover.items(int(np.argmax(cover.best > enough)))
        return found if self.flips(found) else None

    def _exchange(self, removed: Masks, lower: float) -> Masks:
        """One player fewer, by leaving out two members and taking in another, as long as that flips too."""
        while self.price(removed) > lower:
            members, others = np.flatnonzero(removed), np.flatnonzero(~removed)
            pairs = [(i, j) for n, i in enumerate(members) for j in members[:n]]
            if not pairs or not others.size or len(pairs) * others.size > EXCHANGES:
                break
            masks = np.repeat(removed[None], len(pairs) * others.size, axis=0)
            rows = np.arange(len(masks))
            out = np.repeat(np.array(pairs), others.size, axis=0)
            masks[rows[:, None], out] = False
            masks[rows, np.tile(others, len(pairs))] = True
            margin = np.where(masks @ self.cost < self.price(removed), self.flip_margin(masks), -np.inf)
            if not margin.max() > 0:
                break
            removed = masks[np.argmax(margin)]
        return removed
