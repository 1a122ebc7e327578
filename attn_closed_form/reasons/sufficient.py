"""The search for a cheapest set of players that suffices: all coalitions that contain it are above the threshold."""

from __future__ import annotations

import numpy as np

from .._types import Array, Masks
from .cover import Cover
from .head_minima import head_minima, slopes, total
from .joint_bounds import proved_above
from .search import ROUNDS, Search, Test
from .small_games import ENUMERATED, Cheapest, cheapest_sufficient

# Bisections for the value that a sufficient set guarantees.
GUARANTEES = 5


class SufficientSearch(Search):
    """Sets that suffice."""

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
            shrunk = self.prune(best, lambda masks: self.worst(masks) - self.theta)
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
