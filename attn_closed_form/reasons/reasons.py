"""Certified reasons: a smallest set of players that suffices, and a smallest set whose removal flips.

A set R of players **suffices** if every coalition S that contains R has its prediction strictly on the same side of the
threshold as the whole: each of the other players may be present or absent. R **flips** the prediction if the coalition
without R has its prediction strictly on the other side.

With one head "f(S) > theta" is linear in S (`minima.py`), with r_j = a_j (v_j - theta) - b_j (v'_j - theta) as the
effect of player j. So the smallest set that suffices takes the largest positive r_j until the worst case holds, and the
smallest set that flips takes the largest r_j until the sum is negative: both greedy choices are optimal.

With several heads a set is still proved to suffice by the sum of the heads' minima, and to flip by its value. The lower
bound on the size comes from the same minima under a limit on the number of players that change sides:

- R flips only if some head-wise removal of at most |R| players takes the sum of the heads below theta;
- R suffices only if f(M + R) > theta for any fixed coalition M, and a limit on |R| bounds f(M + R) from above. M keeps
  the players that oppose the prediction and leaves out those that support it.

If the lower bound equals the size, the reason is `minimal`. Anchors (Ribeiro et al., 2018) estimate this.

Every candidate comes from a linear form, is judged by a proof (`minima.py`) or by its value, and is kept only if the
judgment holds with the margin of rounding. A bad candidate therefore costs size, never correctness. The reasons of
small games come from all their coalitions and are exactly smallest. A value within rounding of the threshold counts for
neither side: the set is then not claimed, but it bounds the size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np

from .._types import Array, Ids, Masks
from ..game.pooled_game import PooledGame
from .bounds import ENUMERATED, all_coalitions, lowest
from .minima import (
    HeadMinima,
    check_pooled,
    head_minima,
    mirrored,
    proved_above,
    raised,
    slopes,
    total,
    value_error,
)

# Number of times that the order of the players is recomputed from the last coalition.
ROUNDS = 4
# Bisections for the value that a sufficient set guarantees.
GUARANTEES = 5

# A set (None if there is none), the certified value that goes with it, and the lower bound on the sizes of such sets.
Smallest = tuple[Masks | None, float, int]


@dataclass(frozen=True)
class Reason:
    """Base class of the two kinds of reasons.

    Attributes
    ----------
    players : the players of the set, in the order of the game; None if there is no such set or none was found
    lower_bound : certified lower bound on the size of such sets; d + 1 means that there is none
    prediction, threshold : prediction of the whole game, and the threshold that it is compared with
    d : number of players of the game
    labels : names of the game's players
    """

    players: tuple[int, ...] | None
    lower_bound: int
    prediction: float
    threshold: float
    d: int
    labels: tuple[str, ...]

    # The kind of reason, and the name of its certified value.
    kind: ClassVar[str]
    certified: ClassVar[str]

    @property
    def size(self) -> int:
        """Number of players of the set; d + 1 without a set."""
        if self.players is None:
            return self.d + 1
        return len(self.players)

    @property
    def minimal(self) -> bool:
        """Whether no smaller set exists; without players, whether it is proved that there is no set."""
        return self.lower_bound == self.size

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers for JSON."""
        if self.players is None:
            players = None
        else:
            players = list(self.players)
        shared = {
            "kind": self.kind,
            "players": players,
            "lower_bound": self.lower_bound,
            "minimal": self.minimal,
        }
        return {**shared, self.certified: getattr(self, self.certified)}


@dataclass(frozen=True)
class SufficientReason(Reason):
    """Players that keep the prediction on its side no matter which other players are absent.

    `worst` is certified: every coalition that contains the players has a prediction at least (or, below the threshold,
    at most) this.
    """

    worst: float

    kind = "sufficient"
    certified = "worst"


@dataclass(frozen=True)
class ContrastiveReason(Reason):
    """Players whose removal moves the prediction to the other side.

    `after` is the prediction without the players; if there are none, the minimum (or maximum) that the search reached.
    """

    after: float

    kind = "contrastive"
    certified = "after"


def sufficient_reason(game: PooledGame, threshold: float = 0.0) -> SufficientReason:
    """Find a smallest set of players that keeps the prediction on its side of the threshold without any other player.

    With one head, the set is a smallest one. With several, it is proved to suffice, with a lower bound on the size. A
    prediction that equals the threshold up to rounding is on neither side and raises a ValueError.

    Parameters
    ----------
    game : PooledGame of d players
    threshold : the value that separates the two sides

    Returns
    -------
    SufficientReason, with the players, the certified value `worst` and the lower bound on the size

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> reason = sufficient_reason(game)
    >>> reason.players, reason.minimal
    ((0,), True)
    >>> round(reason.worst, 2)  # no coalition with player 0 has a smaller value
    0.67
    """
    return SufficientReason(*SufficientSearch.of(game, threshold).fields())


def contrastive_reason(game: PooledGame, threshold: float = 0.0) -> ContrastiveReason:
    """Find a smallest set of players whose removal moves the prediction to the other side of the threshold.

    The guarantee and the error are those of `sufficient_reason`.

    Parameters
    ----------
    game : PooledGame of d players
    threshold : the value that separates the two sides

    Returns
    -------
    ContrastiveReason, with the players, the prediction `after` their removal and the lower bound on the size

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> reason = contrastive_reason(game)
    >>> reason.players, reason.minimal, round(reason.after, 2)  # the value without player 0
    ((0,), True, -0.33)
    """
    return ContrastiveReason(*ContrastiveSearch.of(game, threshold).fields())


# The search


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
            raise ValueError(
                f"threshold: the prediction equals {prediction:g}, so it is on neither side"
            )
        sign = 1.0 if prediction > threshold else -1.0
        return cls(
            game if sign > 0 else mirrored(game), sign * float(threshold), sign, sign * prediction
        )

    def fields(
        self,
    ) -> tuple[tuple[int, ...] | None, int, float, float, int, tuple[str, ...], float]:
        """Return the fields of a reason, in their order, with the certified value last."""
        chosen, value, lower = self.smallest()
        if chosen is None:
            players = None
        else:
            players = tuple(np.flatnonzero(chosen).tolist())
        lower = min(lower, self.size(chosen))
        prediction = self.sign * self.prediction
        threshold = self.sign * self.theta
        return (
            players,
            lower,
            prediction,
            threshold,
            self.game.d,
            self.game.labels,
            self.sign * value,
        )

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
        if self.game.can_be_empty:  # the value of the empty coalition is a given number
            error[0] = 0.0
        return values, error

    def smallest_of_all(
        self, value: Array, certain: Masks, possible: Masks, direction: float
    ) -> Smallest:
        """Return the smallest certain set in the order of `all_coalitions`, and of several the furthest on its side."""
        masks = all_coalitions(self.game.d)
        size = masks.sum(axis=1)
        lower = int(size.min(where=possible, initial=self.size(None)))
        if not certain.any():
            return None, float(value.min()), lower
        smallest = certain & (size == size[certain].min())
        k = int(np.argmax(np.where(smallest, direction * value, -np.inf)))
        return masks[k], float(value[k]), lower

    def lower_bound(self, impossible: Callable[[int], bool], upper: int) -> int:
        """Return the smallest size that is not proved impossible, at most `upper`."""
        if impossible(upper - 1):
            return upper
        return _bisected(-1, upper - 1, lambda size: not impossible(size))

    def first(self, order: Ids, holds: Callable[[Masks], bool], below: int) -> Masks | None:
        """Return the mask of the shortest prefix of `order`, below `below` players, found by bisection to hold."""
        rank = np.full(self.game.d, self.game.d)
        rank[order] = np.arange(order.size)
        longest = min(order.size, below - 1)
        if longest <= 0 or not holds(rank < longest):
            return None
        return rank < _bisected(0, longest, lambda size: holds(rank < size))


def _bisected(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number found between `low` and `high` for which `holds`; it holds for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low, high = (low, middle)
        else:
            low, high = (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class SufficientSearch(Search):
    """The search for sets that suffice: all coalitions that contain them are above the threshold."""

    known: dict[bytes, HeadMinima] = field(default_factory=dict)

    def smallest(self) -> Smallest:
        """Return a set that suffices, its guaranteed value, and the lower bound on the size of such sets."""
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        nobody = ~self.all
        if self.suffices(nobody):
            return nobody, self.guaranteed(nobody), 0
        best = self.all
        for _ in range(ROUNDS):
            gain = self.effects(nobody if best.all() else best).sum(axis=0)
            shorter = self.first(np.argsort(-gain, kind="stable"), self.suffices, self.size(best))
            if shorter is None:
                break
            best = shorter
        harm = (
            self.effects(best).sum(axis=0) < 0
        )  # the players that oppose the prediction where the set is present
        return (
            best,
            self.guaranteed(best),
            self.lower_bound(partial(self.impossible, harm), self.size(best)),
        )

    def _by_enumeration(self) -> Smallest:
        """Find the smallest set by enumeration, from one pass over the players that checks all supersets."""
        value, error = self.enumerated()
        least = value - error
        possible = value + error > self.theta
        index = np.arange(len(value))
        for j in range(self.game.d):
            without = index[index >> j & 1 == 0]
            least[without] = np.minimum(least[without], least[without | (1 << j)])
            possible[without] &= possible[without | (1 << j)]
        return self.smallest_of_all(least, least > self.theta, possible, 1.0)

    def heads(self, chosen: Masks) -> HeadMinima:
        """Return the heads' minima over the coalitions that contain the set, computed once per set."""
        if (key := chosen.tobytes()) not in self.known:
            self.known[key] = head_minima(self.game, self.all[None], ~chosen[None])
        return self.known[key]

    def worst(self, chosen: Masks) -> float:
        """Return a proved lower bound on all coalitions that contain the set."""
        least = float(total(self.game, self.heads(chosen).bound)[0])
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
        return proved_above(self.game, self.all, ~chosen, above, bound=self.heads(chosen).bound[0])

    def effects(self, chosen: Masks) -> Array:
        """Return the (H, d) effects of the players at the heads' worst coalitions with the set, at the threshold."""
        heads = self.heads(chosen)
        theta = heads.bound[0] + (self.theta - self.game.bias - heads.bound[0].sum()) / self.game.H
        return slopes(self.game, heads.present[0], theta)

    def guaranteed(self, chosen: Masks) -> float:
        """Return the largest value that a few bisections prove for every coalition that contains the set."""
        heads = self.heads(chosen)
        proved = max(self.worst(chosen), float(np.nextafter(self.theta, np.inf)))
        attained = heads.present[0] | chosen
        if self.game.can_be_empty:
            attained = attained[attained.any(axis=1)]
        if attained.size:
            high = min(self.prediction, float(self.game.value(attained).min()))
        else:
            high = self.prediction
        if self.game.can_be_empty and not chosen.any():
            high = min(high, self.game.empty_value)
        bisections = GUARANTEES if self.game.H > 1 else 0
        return raised(self.game, self.all, ~chosen, heads.bound[0], proved, high, bisections)

    def impossible(self, base: Masks, K: int) -> bool:
        """Return whether it is proved, by f(`base` + R) <= theta, that no set R of at most K players suffices."""
        if K < 0:
            return True
        if (
            K == 0
            and self.game.can_be_empty
            and (self.game.empty_value <= self.theta or not base.any())
        ):
            return self.game.empty_value <= self.theta
        return proved_above(mirrored(self.game), base, ~base, -self.theta, K)


class ContrastiveSearch(Search):
    """The search for sets that flip: all other players together are below the threshold."""

    def smallest(self) -> Smallest:
        """Return a set whose removal flips (or None), the value without it, and the lower bound on the size."""
        if self.game.d <= ENUMERATED:
            return self._by_enumeration()
        _, low = lowest(self.game)
        best = ~low if self.flips(~low) else None
        present = self.all
        for _ in range(ROUNDS):
            shorter = self._flip_from(present, self.size(best))
            if shorter is None:
                break
            best = shorter
            present = ~shorter
        value = float(self.game.value(low if best is None else ~best))
        return best, value, self.lower_bound(self.impossible, self.size(best))

    def _by_enumeration(self) -> Smallest:
        value, error = (
            numbers[::-1] for numbers in self.enumerated()
        )  # row k: without the players of row k
        return self.smallest_of_all(
            value, value + error < self.theta, value - error < self.theta, -1.0
        )

    def flips(self, removed: Masks) -> bool:
        """Return whether the removal is proved to flip the prediction."""
        return bool(self.game.value(~removed) < self.theta - self.error)

    def _flip_from(self, present: Masks, below: int) -> Masks | None:
        """Return the shortest removal of fewer than `below` players in the order of the effects at a coalition."""
        if self.game.H == 1:
            theta = np.array([self.theta - self.game.bias])
        else:
            theta = None
        effect = slopes(self.game, present, theta).sum(axis=0)
        order = np.argsort(-effect, kind="stable")
        return self.first(order[effect[order] > 0], self.flips, below)

    def impossible(self, K: int) -> bool:
        """Return whether it is proved that no removal of at most K players flips the prediction."""
        if K < 0:
            return True
        if self.game.can_be_empty and self.game.d <= K and self.game.empty_value < self.theta:
            return False
        return proved_above(self.game, self.all, self.all, self.theta, K)
