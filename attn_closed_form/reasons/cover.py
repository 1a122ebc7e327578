"""The cheapest set of items whose gains exceed a need: greedy for equal costs, a knapsack for whole numbers.

With equal costs the largest gains first are optimal. With costs that are whole numbers, best[c], the most that can be
gained for a cost of at most c, follows item by item (Bellman, 1957): best[c] <- max(best[c], best[c - cost_j] + g_j).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Array, Masks

# Entries of the table of choices; beyond, the knapsack is not solved exactly.
TABLE_ENTRIES = 50_000_000


def is_whole(cost: Array) -> bool:
    """Whether the costs are whole numbers, and few enough for the table.

    >>> is_whole(np.array([1.0, 3.0])), is_whole(np.array([0.5]))
    (True, False)
    """
    return bool((cost == np.round(cost)).all() and (cost.sum() + 1) * cost.size <= TABLE_ENTRIES)


@dataclass(frozen=True, eq=False)
class Cover:
    """The most that can be gained for every cost, and by which items.

    Attributes
    ----------
    best : (C+1,) most gain for a cost of at most 0..C
    taken : (d, C+1) whether item j is taken at that cost, among the items up to j
    cost : (d,) whole numbers
    """

    best: Array
    taken: Masks
    cost: Array

    @classmethod
    def of(cls, gain: Array, cost: Array) -> Cover:
        """Solve the knapsack for every cost at once, in O(d C).

        >>> cover = Cover.of(np.array([3.0, 2.0, 2.0]), np.array([3.0, 2.0, 1.0]))
        >>> cover.best, cover.items(3)
        (array([0., 2., 2., 4., 5., 5., 7.]), array([False,  True,  True]))
        """
        C = int(cost.sum())
        best = np.zeros(C + 1)
        taken = np.zeros((gain.size, C + 1), dtype=bool)
        for j in np.flatnonzero(gain > 0):
            c = int(cost[j])
            with_j = best[: C + 1 - c] + gain[j]
            taken[j, c:] = with_j > best[c:]
            best[c:] = np.maximum(best[c:], with_j)
        return cls(best, taken, cost)

    def items(self, c: int) -> Masks:
        """(d,) the items that gain `best[c]`."""
        chosen = np.zeros(self.cost.size, dtype=bool)
        for j in range(self.cost.size - 1, -1, -1):
            if self.taken[j, c]:
                chosen[j] = True
                c -= int(self.cost[j])
        return chosen
