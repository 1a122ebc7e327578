"""Answers beyond scores: certified reasons, removal curves, and scores of sentences and of the
words inside them.

**Reasons** (`reasons/`) explain why the prediction is on its side of a threshold: 50% for a
probability, 0 for one logit. A class among several is predicted while its margin over every other
class is above 0, so each of these margins is a game, and a reason holds for all of them. A class
that is not predicted is compared with the predicted one alone.

**Groups** have Owen values (`game/owen.py`) of the finest players (tokens, instances): the members
of another group (the sentence of a token, the region of an instance) enter as a block. The score of
a group is the sum over its members, which is its Shapley value in the game of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import plain
from ..._types import Array, Ids, Span
from ...game.owen import owen
from ...game.pooled_game import PooledGame
from ...game.values import shapley
from ...reasons.bounds import Bounds, bounds
from ...reasons.by_size import bounds_by_size
from ...reasons.curves import RemovalCurves, removal_curves
from ...reasons.reasons import (
    ContrastiveReason,
    SufficientReason,
    contrastive_reason,
    contrastive_reason_of_any,
    sufficient_reason,
    sufficient_reason_of_all,
)
from ...reasons.search import UndecidedError
from ..models.protocol import NOT_POOLED, NotPooledError
from ..models.scale import LOGIT, PLAIN, ExplainedScale
from ..models.sentences import sentence_numbers
from ..models.target import Target
from .evidence import PASSAGES, Evidence

# Tuning: players up to which members of groups have scores of their own; Owen values of 2,000
# players in 120 groups take about a second (benchmarks/probes).
MOST_MEMBERS = 2000
# The fields of bounds and reasons that are logits, which `to_dict` converts to the explained scale.
LOGITS = {"attained_min", "attained_max", "proved_min", "proved_max", "worst", "after"}
# The names of the two sides of a threshold: below it and above it.
Sides = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Certified:
    """The two reasons of one game and threshold, and the range of the game.

    Attributes
    ----------
    game : a game of logits
    sufficient, contrastive : the two reasons; None if the prediction equals the threshold up to
        rounding
    """

    game: PooledGame
    sufficient: SufficientReason | None
    contrastive: ContrastiveReason | None

    @classmethod
    def of(cls, game: PooledGame, threshold: float) -> Certified:
        """Find the reasons for the side of the threshold on which the prediction is."""
        try:
            sufficient = sufficient_reason(game, threshold)
            contrastive = contrastive_reason(game, threshold)
        except UndecidedError:
            return cls(game, None, None)
        return cls(game, sufficient, contrastive)

    @classmethod
    def of_all(cls, game: PooledGame, margins: Sequence[PooledGame], threshold: float) -> Certified:
        """Find the reasons for a class that is ahead of all others, from its margins; `game` is the
        smallest one.
        """
        try:
            sufficient = sufficient_reason_of_all(margins, threshold)
            contrastive = contrastive_reason_of_any(margins, threshold)
        except UndecidedError:
            return cls(game, None, None)
        return cls(game, sufficient, contrastive)

    @cached_property
    def bounds(self) -> Bounds:
        """The minimum and the maximum prediction over all coalitions, computed on first use."""
        return bounds(self.game)


@dataclass(frozen=True, eq=False, repr=False)
class Reasons:
    """Certified statements about all coalitions of the players.

    Reasons and bounds are computed on logits, once for a probability and its logit. Sentences and
    `to_dict` report them on the explained scale: a probability rises with its logit, so a bound on
    one is a bound on the other.

    Attributes
    ----------
    certified : the reasons and the range of the game whose sign is the side of the prediction
    sides : names of the sides below and above the threshold
    things : word for the players, such as "words"
    names : the names of the players
    threshold : the value between the two sides, on the explained scale
    output : name of the explained output; None if the game is the margin of one class over its
        strongest rival
    scale : the explained scale
    rivals : for a predicted class among several, the other classes, which `rival` of a reason
        counts; otherwise empty
    chance : for such a class, the scale of its probability where only it and one other class are
        possible
    """

    certified: Certified
    sides: Sides | None
    things: str
    names: tuple[str, ...]
    threshold: float
    output: str | None
    scale: ExplainedScale = LOGIT
    rivals: tuple[str, ...] = ()
    chance: ExplainedScale = LOGIT

    @property
    def game(self) -> PooledGame:
        """The game whose sign is the side of the prediction."""
        return self.certified.game

    @property
    def sufficient(self) -> SufficientReason | None:
        """A set that keeps the prediction on its side; None if the prediction equals the threshold
        up to rounding.
        """
        return self.certified.sufficient

    @property
    def contrastive(self) -> ContrastiveReason | None:
        """A set whose removal flips the prediction; None if the prediction equals the threshold up
        to rounding.
        """
        return self.certified.contrastive

    @property
    def bounds(self) -> Bounds:
        """The minimum and the maximum prediction over all coalitions."""
        return self.certified.bounds

    def sentences(self) -> list[str]:
        """Return the reasons in plain English, one string each."""
        from ..show.sentences import reasons_sentences

        return reasons_sentences(self)

    def __repr__(self) -> str:
        """Return the sentences, one per line.

        >>> from attn_closed_form import load_demo_model
        >>> load_demo_model().explain("A fine film", "shapley").reasons()  # doctest: +ELLIPSIS
        “fine” alone is enough: whichever of the other 2 words are removed, the prediction stays positive (at least 61.2%).
        Removing “fine” changes the prediction to negative (probability of positive: 49.9%).
        """  # noqa: E501
        return "\n".join(self.sentences())

    def range_sentence(self) -> str:
        """State the minimum and the maximum prediction over all coalitions in plain English."""
        from ..show.sentences import range_sentence

        return range_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers for JSON."""
        return {
            "scale": self.scale.name,
            "threshold": self.threshold,
            "sides": plain(self.sides),
            "rivals": list(self.rivals),
            "bounds": self._scaled(self.bounds),
            "sufficient": self._scaled(self.sufficient),
            "contrastive": self._scaled(self.contrastive),
            "sentences": self.sentences(),
        }

    def _scaled(
        self, part: Bounds | SufficientReason | ContrastiveReason | None
    ) -> dict[str, Any] | None:
        """Return the numbers of a part, with its logits on the explained scale."""
        if part is None:
            return None
        numbers = part.to_dict()
        for name in LOGITS & numbers.keys():
            numbers[name] = float(self.scale.of(numbers[name]))
        return numbers


def reasons(evidence: Evidence, threshold: float | None = None) -> Reasons:
    """Compute bounds, a sufficient and a contrastive reason for the prediction's side of the
    threshold.

    The threshold is on the explained scale, by default 50% or a logit of 0.
    """
    if evidence.target.against_rest and evidence.model.surrogate is None:
        # The log-odds against several classes are not a pooled game; the logit of the class takes
        # their place.
        evidence = evidence.on(evidence.target.pooled)
    decision = decision_of(evidence)
    scale = evidence.scale
    # A link rises, so a threshold on the probability is one on the logit.
    if threshold is None:
        threshold = scale.threshold
    theta = scale.logit_of(float(threshold))
    sides = decision.sides
    rivals = rivals_of(evidence, theta)
    if rivals:
        # The side below the threshold for a predicted class among several.
        other_class = "another class"
        sides = (other_class, evidence.target.output)
    # Cached with the input and not with the evidence: the probability and its logit share reasons.
    certified = evidence.units.cached(
        ("reasons", theta, rivals, *decision.target.game_key),
        lambda: _certified(evidence, decision.game, rivals, theta),
    )
    output: str | None = evidence.target.output
    if decision.is_margin:
        output = None
    outputs = evidence.model.outputs
    return Reasons(
        certified=certified,
        sides=sides,
        things=evidence.target.players,
        names=evidence.names,
        threshold=float(threshold),
        output=output,
        scale=scale,
        rivals=tuple(outputs[c] for c in rivals),
        chance=ExplainedScale("probability", float(evidence.model.temperature)),
    )


def _certified(
    evidence: Evidence, game: PooledGame, rivals: Sequence[int], theta: float
) -> Certified:
    """Return the reasons for the side of a game, or for a class that is ahead of all its rivals."""
    if not rivals:
        return Certified.of(game, theta)
    target = evidence.target.pooled
    identity = np.eye(len(evidence.logits))
    margins = []
    # The margin over a rival is the difference of two logits, which is a pooled game, too.
    for rival in rivals:
        # The coefficient of the explained class is 1, so the rival gets -1.
        direction = np.asarray(target.coefficients) - identity[rival]
        margin = replace(target, coefficients=tuple(direction.tolist()))
        margins.append(evidence.model.pooled_game(evidence.units, margin))
    return Certified.of_all(game, margins, theta)


def rivals_of(evidence: Evidence, theta: float) -> tuple[int, ...]:
    """Return the other classes if the explained output is the predicted one of three or more,
    otherwise nothing.

    This needs classes that exclude each other, and a margin over each of at least `theta`.
    """
    model = evidence.model
    logits = evidence.logits
    direction = np.asarray(evidence.target.pooled.coefficients)
    # Labels with separate probabilities do not compete, and neither do plain numbers.
    exclusive = model.loss not in PLAIN and model.loss != "sigmoid"
    is_class = np.count_nonzero(direction) == 1 and direction.max() == 1
    if len(logits) < 3 or evidence.target.against_rest or not exclusive or not is_class:
        return ()
    explained = int(np.argmax(direction))
    others = tuple(c for c in range(len(logits)) if c != explained)
    margin = logits[explained] - np.max(logits[list(others)])
    # If a rival is ahead, or the margin is below the threshold, the game of the decision is used
    # alone.
    if margin < 0 or margin < theta:
        return ()
    return others


class CheckedSet(NamedTuple):
    """A set of players, chosen by score, and the output of the model without it or with it alone.

    `removed` tells which of the two: the prediction flips without the set, or the set alone keeps
    it.
    """

    players: tuple[int, ...]
    removed: bool
    output: float


def checked_sets(evidence: Evidence, scores: Array) -> list[CheckedSet]:
    """Find sets of players, chosen by score, that flip or keep the prediction when the model is
    run.

    This is for models without certified reasons, such as a transformer. Smaller sets may exist. The
    list is empty on the logit scale. If the prediction without any player is on the same side, the
    empty set would keep it, so only a set that flips it is reported.
    """
    prediction = evidence.prediction
    half = evidence.scale.threshold
    if evidence.scale.link is None or prediction == half:
        return []
    # Scores times `side` are positive for players that support the prediction.
    side = float(np.sign(prediction - half))
    order = np.argsort(-side * scores, kind="stable")
    # The inverse of the order: the place of each player in it.
    rank = np.argsort(order, kind="stable")
    supporting = int((side * scores > 0).sum())
    steps = np.arange(1, supporting + 1)
    if not steps.size:
        return []
    # Row k has the k + 1 strongest players. The model evaluates all rows, and their complements.
    chosen = rank[None, :] < steps[:, None]
    outputs = evidence.model_game.value(np.concatenate([~chosen, chosen]))
    without, alone = np.split(outputs, 2)
    found = []
    flips = side * (without - half) < 0
    if flips.any():
        # argmax finds the first True, which is the smallest of these sets.
        k = int(flips.argmax())
        found.append(
            CheckedSet(
                players=tuple(order[: k + 1].tolist()), removed=True, output=float(without[k])
            )
        )
    keeps = side * (alone - half) > 0
    kept_by_nobody = side * (evidence.baseline - half) > 0
    if keeps.any() and not kept_by_nobody:
        k = int(keeps.argmax())
        found.append(
            CheckedSet(
                players=tuple(order[: k + 1].tolist()), removed=False, output=float(alone[k])
            )
        )
    return found


class Decision(NamedTuple):
    """The game whose sign is the side of the prediction, and the names of the two sides, or None if
    they have none.

    `is_margin` tells that the game is the margin of the explained class over its strongest rival.
    """

    target: Target
    game: PooledGame
    sides: Sides | None
    is_margin: bool = False


def decision_of(evidence: Evidence) -> Decision:
    """Return the game behind a prediction, whose sign is its side, for reasons and flip orders."""
    model = evidence.model
    outputs = model.outputs
    target = evidence.target.pooled
    if model.loss in PLAIN or (len(outputs) == 1 and model.loss != "sigmoid"):
        return Decision(target=target, game=evidence.pooled, sides=None)
    direction = np.asarray(target.coefficients)
    # One logit is the log-odds of the second class against the first.
    if len(evidence.logits) == 1:
        direction = direction * [-1.0, 1.0]
    is_class = np.count_nonzero(direction) == 1
    if evidence.target.against_rest or (is_class and model.loss == "sigmoid"):
        # Above 0, this class is more probable than not.
        name = outputs[int(np.argmax(direction))]
        return Decision(target=target, game=evidence.pooled, sides=(f"not {name}", name))
    game = evidence.pooled
    # A class is predicted while it is ahead of its strongest rival.
    if is_class:
        # A class is not its own rival.
        others = np.where(direction > 0, -np.inf, evidence.logits)
        rival = int(np.argmax(others))
        direction = direction - np.eye(len(evidence.logits))[rival]
        target = replace(target, coefficients=tuple(direction.tolist()))
        game = model.pooled_game(evidence.units, target)
    above = outputs[int(np.argmax(direction))]
    below = outputs[int(np.argmin(direction))]
    sides = (below, above)
    # Only with two classes is each side the name of a class.
    if len(outputs) > 2:
        sides = (f"{below} over {above}", f"{above} over {below}")
    return Decision(target, game, sides, is_margin=is_class)


def removal_curves_of(evidence: Evidence, scores: Array) -> RemovalCurves:
    """Compute deletion and insertion curves of scores on the explained scale, with certified
    bounds, at 100 sizes.

    The probability of one class among several is not a function of its logit; the curves are then
    those of the logit, on the scale `evidence.target.pooled.scale`.
    """
    evidence = evidence.on(evidence.target.pooled)
    # Tuning: the number of sizes at which removal orders are compared with the best possible ones;
    # smooth to the eye.
    curve_sizes = 100
    # A small input has fewer sizes than this.
    sizes = np.unique(np.linspace(0, evidence.d, curve_sizes + 1).round()).astype(np.intp)
    limits = evidence.units.cached(
        ("bounds by size", *evidence.target.pooled.game_key),
        lambda: bounds_by_size(evidence.pooled, sizes),
    )
    return removal_curves(evidence.pooled, scores, scale=evidence.scale.of, bounds=limits)


@dataclass(frozen=True, eq=False, repr=False)
class GroupScores:
    """Scores of groups of units, and scores of the units that add up to them.

    Attributes
    ----------
    labels : the names of the groups; the text of a sentence
    scores : (M,) score of each group: its Shapley value in the game of groups
    numbers : (n,) the group of each unit
    unit_scores : (n,) Owen values of the units; None for an input of thousands of units, whose
        groups alone have scores
    baseline : the prediction with every unit absent
    error : guaranteed bound on the error of each unit score
    scale : the scale of the scores, "probability" or "logit"
    spans : character span of each group; None without a text
    """

    labels: tuple[str, ...]
    scores: Array
    numbers: Ids
    unit_scores: Array | None
    baseline: float
    error: float
    spans: tuple[Span, ...] | None = None
    scale: str = "logit"

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers for JSON."""
        return plain(self.__dict__)

    def __repr__(self) -> str:
        """Return one line per group, in the order of the input.

        >>> from attn_closed_form import load_demo_model
        >>> load_demo_model().explain("A slow start. A wonderful film!", "shapley").sentences()
        GroupScores(probability):
          -18.3 points  A slow start.
          +45.5 points  A wonderful film!
        """
        change = ExplainedScale(self.scale).change
        lines = (
            f"\n  {change(score)}  {label}"
            for score, label in zip(self.scores, self.labels, strict=True)
        )
        return f"GroupScores({self.scale}):{''.join(lines)}"


class Grouping(NamedTuple):
    """The groups of the units: the number of each unit's group, the names, and the spans of
    sentences.
    """

    numbers: Ids
    labels: tuple[str, ...]
    spans: tuple[Span, ...] | None = None


def grouping_of(evidence: Evidence, name: str) -> Grouping:
    """Return a grouping of the input by name: one of the model's, or "sentences"; cached."""
    units = evidence.units
    # Sentences of a text have spans, also where they are a grouping of the model.
    if name == "sentences" and units.text is not None and units.spans is not None:
        return units.cached("sentences", lambda: _sentences(units.text or "", units.spans or ()))
    if name in units.groups:
        return Grouping(*units.players(name))
    names = list(units.groups)
    if units.text is not None:
        names.append("sentences")
    raise ValueError(f"grouping: expected one of {', '.join(names)}, got {name!r}")


def _sentences(text: str, spans: tuple[Span, ...]) -> Grouping:
    numbers, sentences = sentence_numbers(text, spans)
    labels = tuple(text[start:end] for start, end in sentences)
    return Grouping(numbers=numbers, labels=labels, spans=tuple(sentences))


def group_scores(evidence: Evidence, grouping: str = "sentences") -> GroupScores:
    """Compute Owen values of units in groups: the "sentences" of a text, or a grouping of the model
    such as "regions".

    As many players as possible are used; all units of a player must be in one group. Of an input of
    thousands of players only the groups have scores: Owen values of the members take as long as the
    number of groups times the number of terms.
    """
    if not evidence.is_pooled:
        raise NotPooledError(
            f"grouping: {NOT_POOLED}; with players={grouping!r} these methods give each group one "
            "score"
        )
    groups = grouping_of(evidence, grouping)
    if not evidence.exact and evidence.has_reasons and evidence.target.logit is not None:
        # Values of groups are exact for the logit where the probability has none.
        evidence = evidence.on(evidence.target.logit)
    evidence = _with_finest_players(evidence)
    # A player is in the group of its first unit, and the check below finds players in several.
    player_of = evidence.player_of
    first_unit = np.unique(player_of, return_index=True)[1]
    group_of_player = groups.numbers[first_unit]
    if not np.array_equal(group_of_player[player_of], groups.numbers):
        raise ValueError(
            "grouping: a player has units in several groups; expected every player inside one group"
        )
    unit_scores: Array | None = None
    if evidence.d > MOST_MEMBERS:
        order = np.argsort(group_of_player, kind="stable")
        ends = np.cumsum(np.bincount(group_of_player))
        players_of_groups = [group.tolist() for group in np.split(order, ends[:-1])]
        scores, error = evidence.guaranteed(
            lambda game, tol: shapley(game.merge(players_of_groups), tol), grouping
        )
    else:
        members, error = evidence.guaranteed(
            lambda game, tol: owen(game, group_of_player, tol), grouping
        )
        # Units that share a player share its score equally.
        unit_scores = (members / np.bincount(player_of))[player_of]
        of_units = np.bincount(groups.numbers, weights=unit_scores, minlength=len(groups.labels))
        scores = of_units.astype(np.float64)
    base = evidence.baseline
    scale = evidence.scale
    # Without exact values on the explained scale, Owen values are those of the (fitted) logit.
    if not evidence.exact:
        base = evidence.pooled_base
        scale = LOGIT
    return GroupScores(
        labels=groups.labels,
        scores=scores,
        numbers=groups.numbers,
        unit_scores=unit_scores,
        baseline=base,
        error=error,
        spans=groups.spans,
        scale=scale.name,
    )


class StrongestUnits(NamedTuple):
    """The units with the largest values of the logit, strongest first, and how many units there
    are.
    """

    units: Ids
    scores: Array
    error: float
    of: int


def strongest_units(evidence: Evidence) -> StrongestUnits | None:
    """Compute the exact values of the logit for each unit of an input whose players are passages;
    None for other players, and for a logit without exact values.
    """
    if evidence.target.players not in PASSAGES or not evidence.has_reasons:
        return None
    logit = evidence.target.logit or evidence.target
    finest = _with_finest_players(evidence.on(logit))
    scores, error = finest.guaranteed(lambda game, tol: shapley(game, tol), "strongest units")
    # Tuning: as many units as a reader looks through.
    shown_units = 20
    players = np.argsort(-np.abs(scores), kind="stable")[:shown_units]
    first_unit = np.unique(finest.player_of, return_index=True)[1]
    return StrongestUnits(
        units=first_unit[players], scores=scores[players], error=error, of=finest.d
    )


def scale_of_groups(explained: ExplainedScale, scores: GroupScores) -> ExplainedScale:
    """Return the scale of the scores of groups: the explained one, or the logit where the
    probability has no exact values.
    """
    if scores.scale == explained.name:
        return explained
    return LOGIT


def _with_finest_players(evidence: Evidence) -> Evidence:
    """Return the evidence with the grouping that has the most players."""
    groups = evidence.units.groups
    names = [name for name in evidence.model.groupings if name in groups]
    # Players are numbered from 0, so the largest number tells how many there are.
    finest = max(names, key=lambda name: int(np.max(groups[name])))
    if finest == evidence.target.players:
        return evidence
    return evidence.on(evidence.target.with_players(finest))
