"""Certified reasons: a smallest set of players that suffices, and a smallest set whose removal flips.

A set R of players **suffices** if every coalition S that contains R has its prediction strictly on the same side of the
threshold as the whole: each of the other players may be present or absent. R **flips** the prediction if everybody but
R has a prediction strictly on the other side.

With one head "f(S) > theta" is linear in S (`minima.py`), with r_j = a_j (v_j - theta) - b_j (v'_j - theta) as the
effect of player j. So the smallest set that suffices takes the largest positive r_j until the worst case holds, and the
smallest set that flips takes the largest r_j until the sum is negative: both greedy choices are optimal.

With several heads a set is still proved to suffice by the sum of the heads' minima, and to flip by its value. The lower
bound on the size comes from the same minima under a limit on the number of players that change sides:

- R flips only if some head-wise removal of at most |R| players takes the sum of the heads below theta;
- R suffices only if f(M + R) > theta for any fixed coalition M, and a limit on |R| bounds f(M + R) from above. M keeps
  the players that oppose the prediction and leaves out those that support it.

Where the lower bound meets the size, the reason is `minimal`. Anchors (Ribeiro et al., 2018) estimate this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..game.pooled_game import PooledGame
from .search import ContrastiveSearch, Search, Smallest, SufficientSearch

Sides = tuple[str, str]


@dataclass(frozen=True)
class Reason:
    """What the two kinds of reason share.

    Attributes
    ----------
    players : the players of the set, in the order of the game; None if there is no such set or none was found
    lower_bound : int
        Certified: no set with fewer players will do. d + 1 means that there is no such set at all.
    prediction, threshold : float
        Of the whole game, and what it is compared with.
    d : number of players of the game
    labels : names of the game's players
    """

    players: tuple[int, ...] | None
    lower_bound: int
    prediction: float
    threshold: float
    d: int
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of players of the set; d + 1 without a set."""
        return self.d + 1 if self.players is None else len(self.players)

    @property
    def minimal(self) -> bool:
        """Whether no smaller set exists; without players, whether it is proved that there is no set."""
        return self.lower_bound == self.size

    def _side(self, value: float, sides: Sides | None) -> str:
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

    def _smaller(self, does: str) -> str:
        if self.minimal:
            return f"No smaller set {does}."
        return f"At least {self.lower_bound} are needed; whether a smaller set {does} is not known."

    def _to_dict(self, kind: str, **fields: float) -> dict[str, object]:
        players = None if self.players is None else list(self.players)
        shared = {"players": players, "lower_bound": self.lower_bound, "minimal": self.minimal}
        return {"kind": kind, **shared, **fields}


@dataclass(frozen=True)
class SufficientReason(Reason):
    """Players that keep the prediction on its side no matter which of the others are absent.

    Attributes
    ----------
    worst : float
        Certified: every coalition that contains the players has a prediction at least (for one above the threshold) or
        at most (for one below) this.
    """

    worst: float

    def sentence(self, labels: Sequence[str] | None = None, things: str = "words", sides: Sides | None = None) -> str:
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
            return f"None of the {self.d} {things} is needed: no matter which of them are removed, {stays}."
        these, suffice = ("These", "suffice") if self.size > 1 else ("This", "suffices")
        text = f"{these} {self.size} of {self.d} {things} {suffice}: {self._names(labels)}. "
        return f"{text}No matter which of the other {things} are removed, {stays}. {self._smaller('suffices')}"

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON."""
        return self._to_dict("sufficient", worst=self.worst)


@dataclass(frozen=True)
class ContrastiveReason(Reason):
    """Players without whom the prediction is on the other side.

    Attributes
    ----------
    after : float
        The prediction without the players; without players, the least (or greatest) that the search met.
    """

    after: float

    def sentence(self, labels: Sequence[str] | None = None, things: str = "words", sides: Sides | None = None) -> str:
        """The reason in plain English; arguments as for `SufficientReason.sentence`."""
        if self.players is None:
            if self.minimal:
                side = self._side(self.prediction, sides)
                return f"No removal of {things} takes the prediction to the other side: it stays {side}."
            return f"No removal of {things} that takes the prediction to the other side was found."
        those = f"these {self.size}" if self.size > 1 else "this one"
        text = f"Without {those} of {self.d} {things} the prediction is {self._side(self.after, sides)}"
        return f"{text} ({self.after:+.2f}): {self._names(labels)}. {self._smaller('does that')}"

    def to_dict(self) -> dict[str, object]:
        """Plain numbers for JSON."""
        return self._to_dict("contrastive", after=self.after)


def sufficient_reason(game: PooledGame, threshold: float = 0.0) -> SufficientReason:
    """A smallest set of players that keeps the prediction on its side of the threshold without any of the others.

    Every coalition that contains the set is meant: each of the other players may be present or absent. One head: the
    set is a smallest one. Several: it is proved to suffice, with a lower bound on the size; see the module docstring.

    Parameters
    ----------
    game : PooledGame
    threshold : float

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
    This 1 of 3 words suffices: superb. No matter which of the other words are removed, the prediction stays positive
    (at least +0.67). No smaller set suffices.
    """
    search = SufficientSearch.of(game, threshold)
    return SufficientReason(**_fields(search, smallest := search.smallest()), worst=search.sign * smallest.value)


def contrastive_reason(game: PooledGame, threshold: float = 0.0) -> ContrastiveReason:
    """A smallest set of players without whom the prediction is on the other side of the threshold.

    The arguments, the guarantee and the error are those of `sufficient_reason`.

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> print(contrastive_reason(game).sentence())
    Without this one of 3 words the prediction is negative (-0.33): superb. No smaller set does that.
    """
    search = ContrastiveSearch.of(game, threshold)
    return ContrastiveReason(**_fields(search, smallest := search.smallest()), after=search.sign * smallest.value)


def _fields(search: Search, smallest: Smallest) -> dict[str, Any]:
    """The fields that both kinds have."""
    return {
        "players": None if smallest.chosen is None else tuple(np.flatnonzero(smallest.chosen).tolist()),
        "lower_bound": min(smallest.lower, search.size(smallest.chosen)),
        "prediction": search.sign * search.prediction,
        "threshold": search.sign * search.theta,
        "d": search.game.d,
        "labels": search.game.labels,
    }
