"""The search for a cheapest set of players whose removal takes the prediction below the threshold."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .._types import Array, Masks
from .bounds import lowest
from .cover import Cover
from .head_minima import head_minima, slopes, total
from .joint_bounds import proved_above
from .search import ROUNDS, Search
from .small_games import ENUMERATED, Cheapest, cheapest_flip

# Most coalitions that a search for a smaller set by exchange of one player looks at.
EXCHANGES = 4_000


class ContrastiveSearch(Search):
    """Sets that flip the prediction."""

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
            best = self._exchange(self.prune(best, self.flip_margin), lower)
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
