"""Answers beyond scores: certified reasons, removal curves, and scores of sentences and of the words inside them.

**Reasons** (`reasons/`) explain why the prediction is on its side of a threshold: 50 % for a probability, 0 for one
logit. For one class among several, the question is whether it stays ahead of the strongest other class, so the game is
the margin between the two. With three classes or more a third one may overtake both, so the sentences name the two.

**Groups** have Owen values (`game/owen.py`) of the finest players (tokens, instances): the members of another group
(the sentence of a token, the region of an instance) enter as a block. The score of a group is the sum over its members,
which is its Shapley value in the game of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._arrays import plain
from ..._types import Array, Ids, Span
from ...game.owen import owen
from ...game.pooled_game import PooledGame
from ...reasons.bounds import Bounds, bounds
from ...reasons.by_size import bounds_by_size
from ...reasons.curves import RemovalCurves, removal_curves
from ...reasons.reasons import (
    ContrastiveReason,
    SufficientReason,
    contrastive_reason,
    sufficient_reason,
)
from ..models.scale import LOGIT, PLAIN, ExplainedScale
from ..models.sentences import sentence_numbers
from .evidence import Evidence

# The fields of bounds and reasons that are logits.
LOGITS = {"attained_min", "attained_max", "proved_min", "proved_max", "worst", "after"}
# Numbers of absent players at which removal orders are compared with the best possible ones.
SIZES = 100
# The quantity in the reasons for one class among several.
DIFFERENCE = "the difference of the two logits"


@dataclass(frozen=True, eq=False)
class Reasons:
    """Certified statements about all coalitions of the players.

    Reasons and bounds are computed on logits. Sentences and `to_dict` report them on the explained scale: a probability
    rises with its logit, so a bound on one is a bound on the other.

    Attributes
    ----------
    game : the game whose sign is the side of the prediction
    sufficient, contrastive : the two reasons; None if the prediction equals the threshold up to rounding
    sides : names of the sides below and above the threshold
    things : word for the players, such as "words"
    names : the names of the players
    threshold : the value between the two sides, on the explained scale
    quantity : name of the explained quantity, such as "the probability of positive"
    scale : the explained scale
    """

    game: PooledGame
    sufficient: SufficientReason | None
    contrastive: ContrastiveReason | None
    sides: tuple[str, str] | None
    things: str
    names: tuple[str, ...]
    threshold: float
    quantity: str
    scale: ExplainedScale = LOGIT

    @cached_property
    def bounds(self) -> Bounds:
        """The minimum and the maximum prediction over all coalitions, computed on first use."""
        return bounds(self.game)

    def sentences(self) -> list[str]:
        """Return the reasons in plain English, one string each."""
        from ..show.sentences import reason_sentence

        if self.sufficient is None or self.contrastive is None:
            level = self._level(self.threshold)
            return [f"The prediction is {level}, which is on neither side, so no reason exists."]
        upper = self.sufficient.prediction < self.sufficient.threshold
        worst, after = self.scale.of([self.sufficient.worst, self.contrastive.after]).tolist()
        if self.quantity == DIFFERENCE:
            of = f" for {DIFFERENCE}"
        else:
            of = ""
        flipped = f"{self.scale.bound(after, upper)}{of}"
        if (
            self.scale.link is not None
        ):  # after the flip another class is predicted, so the number needs a name
            flipped = f"{self.quantity.removeprefix('the ')}: {flipped}"
        sides = self.sides
        if self.scale.link is not None and (
            sides is None or self.threshold != self.scale.threshold
        ):
            sides = f"below {self._level(self.threshold)}", f"above {self._level(self.threshold)}"
        return [
            reason_sentence(
                self.sufficient, self.names, self.things, sides, self.scale.bound(worst, upper) + of
            ),
            reason_sentence(self.contrastive, self.names, self.things, sides, flipped),
        ]

    def _level(self, value: float) -> str:
        if self.scale.link is None:
            return f"{value:g}"
        return self.scale.level(value)

    def range_sentence(self) -> str:
        """State the minimum and the maximum prediction over all coalitions in plain English."""
        low, high = self.scale.of([self.bounds.proved_min, self.bounds.proved_max]).tolist()
        span = f"from {self.scale.bound(low, upper=False)} to {self.scale.bound(high, upper=True)}"
        return f"Over all subsets of the {self.things}, {self.quantity} ranges {span}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers for JSON."""

        def scaled(
            part: Bounds | SufficientReason | ContrastiveReason | None,
        ) -> dict[str, Any] | None:
            numbers = {} if part is None else part.to_dict()
            return {
                name: float(self.scale.of(x)) if name in LOGITS else x
                for name, x in numbers.items()
            } or None

        return {
            "scale": self.scale.name,
            "threshold": self.threshold,
            "sides": plain(self.sides),
            "bounds": scaled(self.bounds),
            "sufficient": scaled(self.sufficient),
            "contrastive": scaled(self.contrastive),
            "sentences": self.sentences(),
        }


def reasons(evidence: Evidence, threshold: float | None = None) -> Reasons:
    """Compute bounds, a sufficient and a contrastive reason for the prediction's side of the threshold.

    The threshold is on the explained scale, by default 50 % or a logit of 0.
    """
    evidence = evidence.on_logit
    game, sides = directed(evidence)
    sufficient = None
    contrastive = None
    scale = evidence.scale
    if threshold is None:
        threshold = scale.threshold
    else:
        threshold = float(threshold)
    theta = scale.logit_of(threshold)
    try:
        sufficient = sufficient_reason(game, theta)
        contrastive = contrastive_reason(game, theta)
    except ValueError as error:
        if "neither side" not in str(error):
            raise
    # For one class among several, the number is the margin over its strongest rival.
    if game is evidence.pooled:
        quantity = scale.of_output(evidence.settings.output)
    else:
        quantity = DIFFERENCE
    things = evidence.settings.players
    names = evidence.names
    return Reasons(game, sufficient, contrastive, sides, things, names, threshold, quantity, scale)


def checked_reasons(evidence: Evidence, scores: Array) -> list[str]:
    """Describe sets of players, chosen by score, that flip or keep the prediction when the model is run.

    This is for models without certified reasons, such as a transformer. Each sentence reports the output of the model
    for the set that it names; smaller sets may exist. The list is empty on the logit scale.
    """
    level = evidence.scale.level
    things = evidence.settings.players
    prediction = evidence.prediction
    half = evidence.scale.threshold
    if evidence.scale.link is None or prediction == half:
        return []
    side = 1.0 if prediction > half else -1.0
    rank = np.argsort(np.argsort(-side * scores, kind="stable"), kind="stable")
    steps = np.arange(1, int((side * scores > 0).sum()) + 1)
    if not steps.size:
        return []
    first = rank[None, :] < steps[:, None]
    without, alone = np.split(evidence.value(np.concatenate([~first, first])), 2)
    sentences = []
    for values, holds, text in (
        (without, side * (without - half) < 0, "Without {} the output is {} instead of {}"),
        (
            alone,
            side * (alone - half) > 0,
            "With {} alone, all others absent, the output is {}; with everything {}",
        ),
    ):
        if holds.any():
            k = int(holds.argmax())
            names = ", ".join(f"“{evidence.names[j]}”" for j in np.argsort(rank)[: k + 1])
            count = f"{names} ({k + 1} of {evidence.d} {things})"
            sentences.append(
                f"{text.format(count, level(float(values[k])), level(prediction))}. "
                "This was checked by running the model; smaller sets may exist."
            )
    return sentences


def directed(evidence: Evidence) -> tuple[PooledGame, tuple[str, str] | None]:
    """Return the game whose sign is the side of the prediction, and the names of the two sides."""
    outputs = evidence.model.outputs
    logits = evidence.logits
    game = evidence.pooled
    direction = np.asarray(evidence.settings.coefficients)
    if evidence.model.loss in PLAIN or (len(outputs) == 1 and evidence.model.loss != "sigmoid"):
        return game, None
    if len(logits) == 1:  # the log-odds of the second class
        direction = direction * [-1.0, 1.0]
    one_class = np.count_nonzero(direction) == 1
    if evidence.settings.rest or (one_class and evidence.model.loss == "sigmoid"):
        name = outputs[int(np.argmax(direction))]  # above 0, this class is more probable than not
        return game, (f"not {name}", name)
    if one_class:
        rival = int(np.argmax(np.where(direction > 0, -np.inf, logits)))
        direction = direction - np.eye(len(logits))[rival]
        settings = replace(evidence.settings, coefficients=tuple(direction.tolist()))
        game = replace(evidence.model.game(evidence.units, settings), labels=evidence.labels)
    above = outputs[int(np.argmax(direction))]
    below = outputs[int(np.argmin(direction))]
    return game, (f"{below} over {above}", f"{above} over {below}") if len(outputs) > 2 else (
        below,
        above,
    )


def removal_curves_of(evidence: Evidence, scores: Array) -> RemovalCurves:
    """Compute deletion and insertion curves of scores on the explained scale, with certified bounds, at 100 sizes."""
    sizes = np.unique(np.linspace(0, evidence.d, SIZES + 1).round()).astype(np.intp)
    limits = evidence.cached("bounds by size", lambda: bounds_by_size(evidence.pooled, sizes))
    return removal_curves(evidence.pooled, scores, scale=evidence.scale.of, bounds=limits)


@dataclass(frozen=True, eq=False, repr=False)
class GroupScores:
    """Scores of groups of units, and scores of the units that add up to them.

    Attributes
    ----------
    labels : the names of the groups; the text of a sentence
    scores : (M,) score of each group: its Shapley value in the game of groups
    numbers : (n,) the group of each unit
    unit_scores : (n,) Owen values of the units
    base_value : the prediction with every unit absent
    error : guaranteed bound on the error of each unit score
    scale : the scale of the scores, "probability" or "logit"
    spans : character span of each group; None without a text
    """

    labels: tuple[str, ...]
    scores: Array
    numbers: Ids
    unit_scores: Array
    base_value: float
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
          -17.1 points  A slow start.
          +59.2 points  A wonderful film!
        """
        change = ExplainedScale(self.scale).change
        lines = (
            f"\n  {change(score)}  {label}"
            for score, label in zip(self.scores, self.labels, strict=True)
        )
        return f"GroupScores({self.scale}):{''.join(lines)}"


def group_scores(evidence: Evidence, grouping: str = "sentences") -> GroupScores:
    """Compute Owen values of units in groups: the "sentences" of a text, or a grouping of the model such as "regions".

    As many players as possible are used; all units of a player must be in one group.
    """
    units = evidence.units
    spans = None
    if grouping in units.groups:
        numbers, labels = units.players(grouping)
    elif grouping == "sentences" and units.text is not None and units.spans is not None:
        numbers, sentences = sentence_numbers(units.text, units.spans)
        spans = tuple(sentences)
        labels = tuple(units.text[start:end] for start, end in sentences)
    else:
        known = [*units.groups, *(["sentences"] if units.text is not None else [])]
        raise ValueError(f"grouping: expected one of {', '.join(known)}, got {grouping!r}")
    names = [name for name in evidence.model.groupings if name in units.groups]
    finest = max(names, key=lambda name: int(np.max(units.groups[name])))
    if finest != evidence.settings.players:
        settings = replace(evidence.settings, players=finest)
        evidence = Evidence(evidence.model, units, settings, evidence.logits)
    player_of = evidence.player_of
    groups = numbers[np.unique(player_of, return_index=True)[1]]
    if not np.array_equal(groups[player_of], numbers):
        raise ValueError(
            "grouping: a player has units in several groups; expected every player inside one group"
        )
    members, error = evidence.guaranteed(lambda game, tol: owen(game, groups, tol), grouping)
    # Units that share a player share its score equally.
    unit_scores = (members / np.bincount(player_of))[player_of]
    scores = np.bincount(numbers, weights=unit_scores, minlength=len(labels)).astype(np.float64)
    if evidence.exact:
        base, scale = (evidence.absent_value, evidence.scale)
    else:
        base, scale = (evidence.pooled_base, LOGIT)
    return GroupScores(labels, scores, numbers, unit_scores, base, error, spans, scale.name)
