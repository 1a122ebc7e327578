"""Reasons that are proved: a smallest set of players that suffices, and a smallest set whose removal flips.

A set R of players **suffices** if every coalition S that contains R has its prediction strictly on the same side of the
threshold as the whole: whatever becomes of the others, each may be present or absent. R **flips** the prediction if
everybody but R has a prediction strictly on the other side.

With one head "f(S) > theta" is linear in S (`head_minima.py`), with r_j = a_j (v_j - theta) - b_j (v'_j - theta) as the
effect of player j. So the smallest set that suffices takes the largest positive r_j until the worst case holds, and the
smallest set that flips takes the largest r_j until the sum is negative: both greedy choices are optimal.

With several heads a set is still proved to suffice by the sum of the heads' minima, and to flip by its value. The lower
bound on the size comes from the same minima under a limit on the number of players that change sides:
- R flips only if some head-wise removal of at most |R| players takes the sum of the heads below theta;
- R suffices only if f(M + R) > theta for any fixed coalition M, and a limit on |R| bounds f(M + R) from above. M keeps
  the players that speak against the prediction and leaves out those that speak for it.
Where the lower bound meets the size, the reason is `minimal`. Anchors (Ribeiro et al., 2018) estimate this.

With costs "smallest" means cheapest. For one head and whole numbers this is a knapsack (`cover.py`), solved exactly;
otherwise the fractional knapsack bounds the cost from below, and `minimal` says whether the bound is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..game.pooled_game import PooledGame
from .contrastive import ContrastiveSearch
from .search import Search
from .small_games import Cheapest
from .sufficient import SufficientSearch


@dataclass(frozen=True)
class Reason:
    """What the two kinds of reason share.

    Attributes
    ----------
    players : the players of the set, in the order of the game; None if there is no such set or none was found
    cost : float
        Their cost, which is their number unless costs were given; infinite without players.
    lower_bound : float
        Proved: no set with a lower cost will do.
    minimal : bool
        Whether cost and lower bound meet: no cheaper set exists. Without players: proved that there is no set at all.
    prediction, threshold : float
        Of the whole game, and what it is compared with.
    d : number of players of the game
    labels : names of the game's players
    """

    players: tuple[int, ...] | None
    cost: float
    lower_bound: float
    minimal: bool
    prediction: float
    threshold: float
    d: int
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of players of the set."""
        return len(self.players or ())

    def _side(self, value: float, sides: tuple[str, str] | None) -> str:
        """The name of the side that a value is on; without names "positive", "negative", "above 1.5" or "below 1.5"."""
        above = value > self.threshold
        if sides is not None:
            return sides[above]
        if self.threshold == 0:
            return "positive" if above else "negative"
        return f"{'above' if above else 'below'} {self.threshold:g}"

    def _names(self, labels: Sequence[str] | None) -> str:
        names = self.labels if labels is None else labels
        return ", ".join(str(names[j]) for j in self.players or ())

    def _fields(self) -> dict[str, object]:
        return {
            "players": None if self.players is None else list(self.players),
            "cost": self.cost if np.isfinite(self.cost) else None,
            "lower_bound": self.lower_bound if np.isfinite(self.lower_bound) else None,
            "minimal": self.minimal,
        }


@dataclass(frozen=True)
class SufficientReason(Reason):
    """Players that keep the prediction on its side whatever becomes of the others.

    Attributes
    ----------
    worst : float
        Proved: every coalition that contains the players has a prediction at least (for one above the threshold) or at
        most (for one below) this.
    """

    worst: float

    def sentence(
        self, labels: Sequence[str] | None = None, things: str = "words", sides: tuple[str, str] | None = None
    ) -> str:
        """The reason in plain English.

        Parameters
        ----------
        labels : names of the players; those of the game by default
        things : what the players are, in the plural
        sides : names of the two sides, below the threshold and above it, such as ("ham", "spam")
        """
        limit = "at least" if self.prediction > self.threshold else "at most"
        stays = f"the prediction stays {self._side(self.prediction, sides)} ({limit} {self.worst:+.2f})"
        if not self.players:
            return f"None of the {self.d} {things} is needed: whatever becomes of them, {stays}."
        verb = "These" if self.size > 1 else "This"
        text = f"{verb} {self.size} of {self.d} {things} suffice{'s' * (self.size == 1)}: {self._names(labels)}. "
        return f"{text}Whatever becomes of the others, {stays}. {_smaller(self, 'suffices')}"

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON."""
        return {"kind": "sufficient", **self._fields(), "worst": self.worst}


@dataclass(frozen=True)
class ContrastiveReason(Reason):
    """Players without whom the prediction is on the other side.

    Attributes
    ----------
    after : float
        The prediction without the players; without players, the least (or greatest) that was found.
    """

    after: float

    def sentence(
        self, labels: Sequence[str] | None = None, things: str = "words", sides: tuple[str, str] | None = None
    ) -> str:
        """The reason in plain English; arguments as for `SufficientReason.sentence`."""
        if self.players is None:
            here = self._side(self.prediction, sides)
            if self.minimal:
                return f"No removal of {things} takes the prediction to the other side: it stays {here}."
            return f"No removal of {things} that takes the prediction to the other side was found."
        side = self._side(self.after, sides)
        those = f"these {self.size}" if self.size > 1 else "this one"
        text = f"Without {those} of {self.d} {things} the prediction is {side} ({self.after:+.2f}): "
        return f"{text}{self._names(labels)}. {_smaller(self, 'does that')}"

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON."""
        return {"kind": "contrastive", **self._fields(), "after": self.after}


def _smaller(reason: Reason, does: str) -> str:
    smaller = "smaller" if reason.cost == reason.size else "cheaper"
    if reason.minimal:
        return f"No {smaller} set {does}."
    return f"A set of cost {reason.lower_bound:g} or more is needed; whether a {smaller} one {does} is not known."


def sufficient_reason(game: PooledGame, threshold: float = 0.0, cost: ArrayLike | None = None) -> SufficientReason:
    """A smallest set of players that keeps the prediction on its side of the threshold whatever becomes of the others.

    Every coalition that contains the set is meant: each of the other players may be present or absent. One head: the
    set is a smallest one. Several: it is proved to suffice, with a lower bound on the size; see the module docstring.

    Parameters
    ----------
    game : PooledGame
    threshold : float
    cost : (d,) positive costs of the players; one each by default

    Raises
    ------
    ValueError
        if the prediction is the threshold itself, up to rounding, and so on neither side

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> reason = sufficient_reason(game)
    >>> reason.players, reason.minimal
    ((0,), True)
    >>> print(reason.sentence())
    This 1 of 3 words suffices: superb. Whatever becomes of the others, the prediction stays positive (at least +0.67).
    No smaller set suffices.
    """
    search = SufficientSearch.of(game, threshold, cost)
    found = search.sufficient()
    return SufficientReason(**_shared(search, found), worst=search.sign * found.value)


def contrastive_reason(game: PooledGame, threshold: float = 0.0, cost: ArrayLike | None = None) -> ContrastiveReason:
    """A smallest set of players without whom the prediction is on the other side of the threshold.

    The arguments, the guarantee and the error are those of `sufficient_reason`.

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> print(contrastive_reason(game).sentence())
    Without this one of 3 words the prediction is negative (-0.33): superb. No smaller set does that.
    """
    search = ContrastiveSearch.of(game, threshold, cost)
    found = search.contrastive()
    return ContrastiveReason(**_shared(search, found), after=search.sign * found.value)


def _shared(search: Search, found: Cheapest) -> dict[str, Any]:
    """The fields that both kinds have."""
    chosen, lower = found.chosen, found.lower
    price = search.price(chosen)
    return {
        "players": None if chosen is None else tuple(np.flatnonzero(chosen).tolist()),
        "cost": price,
        "lower_bound": min(lower, price),
        "minimal": bool(lower >= price * (1 - 1e-13)),  # sums of costs round
        "prediction": search.sign * search.prediction,
        "threshold": search.sign * search.theta,
        "d": search.game.d,
        "labels": search.game.labels,
    }
