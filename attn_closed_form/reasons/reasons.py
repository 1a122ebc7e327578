"""Certified reasons: a smallest set of players that suffices, and a smallest set whose removal
flips.

A set R of players **suffices** if every coalition S that contains R has its prediction strictly on
the same side of the threshold as the whole: each of the other players may be present or absent. R
**flips** the prediction if the coalition without R has its prediction strictly on the other side.

One class among several is ahead of all others if its margin over each of them is above zero. These
margins are several games of the same players. A set suffices if it suffices in all of them, and it
flips the class if it flips one of them.

`search.py` has the search and its proofs, and `joint.py` that for several games. If the lower bound
on the size equals the size, the reason is `minimal`. Anchors (Ribeiro et al., 2018) estimate such
sets from samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._arrays import usual_float_errors
from .._types import Masks
from ..game.pooled_game import PooledGame
from .joint import JointSearch
from .search import ContrastiveSearch, SufficientSearch


@dataclass(frozen=True)
class Reason:
    """Base class of the two kinds of reasons.

    Attributes
    ----------
    players : the players of the set, in the order of the game; None if there is no such set or none
        was found
    lower_bound : certified lower bound on the size of such sets; d + 1 means that there is none
    prediction, threshold : prediction of the whole game, and the threshold that it is compared
        with; of several games, the prediction nearest to the threshold
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
        """Whether no smaller set exists; without players, whether it is proved that there is no
        set.
        """
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

    Attributes
    ----------
    worst : a certified value: every coalition that contains the players has a prediction of at
        least (or, below the threshold, at most) this; of several games, in each of them
    rival : number of the game that `worst` belongs to; the one that comes closest among several
        games
    """

    worst: float
    rival: int = 0

    kind = "sufficient"
    certified = "worst"


@dataclass(frozen=True)
class ContrastiveReason(Reason):
    """Players whose removal moves the prediction to the other side.

    Attributes
    ----------
    after : the prediction without the players; if there are none, the minimum (or maximum) that the
        search reached
    rival : number of the game that `after` belongs to; the one with the smallest value among
        several games
    """

    after: float
    rival: int = 0

    kind = "contrastive"
    certified = "after"


@usual_float_errors
def sufficient_reason(game: PooledGame, threshold: float = 0.0) -> SufficientReason:
    """Find a smallest set of players that keeps the prediction on its side of the threshold without
    any other player.

    With one head, the set is a smallest one. With several heads, the set is proved to suffice, and
    `lower_bound` says how many players every such set needs.

    Parameters
    ----------
    game : PooledGame of d players
    threshold : the value that separates the two sides

    Returns
    -------
    SufficientReason, with the players, the certified value `worst` and the lower bound on the size

    Raises
    ------
    UndecidedError, a ValueError
        if the prediction equals the threshold up to rounding, so that it is on neither side

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0],
    ...     [4.0, 1.0, -2.0],
    ...     s_background=0.0,
    ...     v_background=0.0,
    ...     labels=["superb", "fine", "dull"],
    ... )
    >>> reason = sufficient_reason(game)
    >>> reason.players, reason.minimal
    ((0,), True)
    >>> round(reason.worst, 2)  # no coalition with player 0 has a smaller value
    0.67
    """
    search = SufficientSearch.of(game, threshold)
    players, value, lower = search.smallest()
    return SufficientReason(
        players=_players(players),
        lower_bound=min(lower, search.size(players)),
        prediction=search.sign * search.prediction,
        threshold=search.sign * search.theta,
        d=game.d,
        labels=game.labels,
        worst=search.sign * value,
    )


@usual_float_errors
def contrastive_reason(game: PooledGame, threshold: float = 0.0) -> ContrastiveReason:
    """Find a smallest set of players whose removal moves the prediction to the other side of the
    threshold.

    The guarantee and the error are those of `sufficient_reason`.

    Parameters
    ----------
    game : PooledGame of d players
    threshold : the value that separates the two sides

    Returns
    -------
    ContrastiveReason, with the players, the prediction `after` their removal and the lower bound on
    the size

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0],
    ...     [4.0, 1.0, -2.0],
    ...     s_background=0.0,
    ...     v_background=0.0,
    ...     labels=["superb", "fine", "dull"],
    ... )
    >>> reason = contrastive_reason(game)
    >>> reason.players, reason.minimal, round(reason.after, 2)  # the value without player 0
    ((0,), True, -0.33)
    """
    search = ContrastiveSearch.of(game, threshold)
    players, value, lower = search.smallest()
    return ContrastiveReason(
        players=_players(players),
        lower_bound=min(lower, search.size(players)),
        prediction=search.sign * search.prediction,
        threshold=search.sign * search.theta,
        d=game.d,
        labels=game.labels,
        after=search.sign * value,
    )


@usual_float_errors
def sufficient_reason_of_all(
    games: Sequence[PooledGame], threshold: float = 0.0
) -> SufficientReason:
    """Find a small set of players that keeps the predictions of several games above the threshold.

    With the margins of a class over each other class as games and a threshold of 0, the set
    guarantees the class, no matter which other players are removed. The set is a smallest one up to
    12 players. With more players, it is a smallest one if `minimal` is true, and otherwise this is
    not known.

    Parameters
    ----------
    games : PooledGames of the same d players, whose predictions with all players are above the
        threshold
    threshold : the value that the predictions stay above

    Returns
    -------
    SufficientReason, whose `rival` is the number of the game that comes closest to the threshold

    Examples
    --------
    >>> over_trade = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0
    ... )
    >>> over_crops = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0], [-1.0, 3.0, 1.0], s_background=0.0, v_background=0.0
    ... )
    >>> reason = sufficient_reason_of_all([over_trade, over_crops])
    >>> reason.players, reason.minimal, reason.rival, round(reason.worst, 2)
    ((0, 1), True, 1, 0.67)
    """
    search = JointSearch.of(games, threshold)
    found = search.sufficient()
    return SufficientReason(
        players=_players(found.players),
        lower_bound=found.lower_bound,
        prediction=search.prediction,
        threshold=float(threshold),
        d=games[0].d,
        labels=games[0].labels,
        worst=found.value,
        rival=found.rival,
    )


@usual_float_errors
def contrastive_reason_of_any(
    games: Sequence[PooledGame], threshold: float = 0.0
) -> ContrastiveReason:
    """Find a smallest set of players whose removal moves the prediction of any of several games
    below the threshold.

    With the margins of a class over each other class as games and a threshold of 0, the removal
    changes the class.

    Parameters
    ----------
    games : PooledGames of the same d players, whose predictions with all players are above the
        threshold
    threshold : the value that one of the predictions has to fall below

    Returns
    -------
    ContrastiveReason, whose `rival` is the number of the game with the smallest prediction without
    the players

    Examples
    --------
    >>> over_trade = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0
    ... )
    >>> over_crops = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0], [-1.0, 3.0, 1.0], s_background=0.0, v_background=0.0
    ... )
    >>> reason = contrastive_reason_of_any([over_trade, over_crops])
    >>> reason.players, reason.minimal, reason.rival, round(reason.after, 2)
    ((0,), True, 0, -0.33)
    """
    search = JointSearch.of(games, threshold)
    found = search.contrastive()
    return ContrastiveReason(
        players=_players(found.players),
        lower_bound=found.lower_bound,
        prediction=search.prediction,
        threshold=float(threshold),
        d=games[0].d,
        labels=games[0].labels,
        after=found.value,
        rival=found.rival,
    )


def _players(chosen: Masks | None) -> tuple[int, ...] | None:
    """Return the numbers of the players of a mask."""
    if chosen is None:
        return None
    return tuple(np.flatnonzero(chosen).tolist())
