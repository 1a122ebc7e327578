"""What is explained, and certified reasons, in plain English.

`reasons/` computes sets of players with certified values and writes no prose; the sentences about
them are here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...reasons.reasons import ContrastiveReason, Reason, SufficientReason
from ..explanations.answers import CheckedSet, Reasons, Sides
from ..explanations.evidence import Evidence
from ..models.scale import ExplainedScale
from ..models.target import Target
from .sanitize import output_name

# Tuning: up to this many names begin the sentence; more follow it.
FEW_NAMES = 5

# The quantity in the reasons for one class among several.
DIFFERENCE = "the difference of the two logits"


def explained_sentence(target: Target) -> str:
    """State what is explained, and why it is not the probability if one might expect that.

    >>> from attn_closed_form import load_demo_model
    >>> explained_sentence(load_demo_model().explain("A fine film", "shapley").target)
    'Explained: the probability of positive, in percentage points.'
    """
    what = target.scale.of_output(target.output)
    if target.scale.in_percent:
        what += ", in percentage points"
    if target.note:
        what += f"; {target.note}"
    return f"Explained: {what}."


def reason_sentence(
    reason: SufficientReason | ContrastiveReason,
    labels: Sequence[str] | None = None,
    things: str = "words",
    sides: Sides | None = None,
    value: str | None = None,
    other: str = "the other side",
    strengths: Sequence[float] | None = None,
) -> str:
    """Describe a certified reason in plain English.

    Parameters
    ----------
    reason : result of `sufficient_reason` or `contrastive_reason`
    labels : names of the players; those of the game by default
    things : word for the players, in the plural
    sides : names of the two sides, below the threshold and above it, such as ("ham", "spam")
    value : text of the certified value, such as "71%"; by default a number with two decimals
    other : where a removal would take the prediction, such as "another class"
    strengths : one number per player; a long list of names has the largest first

    Returns
    -------
    str : one to three sentences

    Examples
    --------
    >>> from attn_closed_form import PooledGame, contrastive_reason, sufficient_reason
    >>> game = PooledGame.from_scores(
    ...     [0.0, 0.0, 0.0],
    ...     [4.0, 1.0, -2.0],
    ...     s_background=0.0,
    ...     v_background=0.0,
    ...     labels=["superb", "fine", "dull"],
    ... )
    >>> print(reason_sentence(sufficient_reason(game)))
    “superb” alone is enough: whichever of the other 2 words are removed, the prediction stays
    positive (at least +0.67).
    >>> print(reason_sentence(contrastive_reason(game)))
    Removing “superb” changes the prediction to negative (-0.33).
    """
    members = list(reason.players or ())
    if strengths is not None and len(members) > FEW_NAMES:
        # Readers look at the first names of a long list, so the strongest come first.
        members.sort(key=lambda j: -strengths[j])
    shown = [f"“{(labels or reason.labels)[j]}”" for j in members]
    if isinstance(reason, SufficientReason):
        certified = f"{reason.worst:+.2f}" if value is None else value
        text = _what_suffices(reason, shown, things, sides, certified)
        smaller = "No smaller set is enough."
        needed = "are needed"
    else:
        certified = f"{reason.after:+.2f}" if value is None else value
        text = _what_flips(reason, shown, things, sides, certified, other)
        smaller = "No smaller removal does that."
        needed = "must be removed"
    # The next sentence is about smaller sets.
    if not reason.players or reason.size == 1:
        return text  # nothing is smaller than one player
    if reason.minimal:
        return f"{text} {smaller}"
    return (
        f"{text} At least {reason.lower_bound} {needed}; whether fewer than {reason.size} are "
        "enough is not known."
    )


def reasons_sentences(reasons: Reasons) -> list[str]:
    """Return the certified reasons of an explanation, one string each, with their values on the
    explained scale.
    """
    scale = reasons.scale
    sufficient = reasons.sufficient
    contrastive = reasons.contrastive
    if sufficient is None or contrastive is None:
        level = _threshold(reasons)
        return [f"The prediction is {level}, which is on neither side, so no reason exists."]
    worst, after = scale.of([sufficient.worst, contrastive.after]).tolist()
    # For a prediction below the threshold, the worst case is the largest value.
    is_upper_bound = sufficient.prediction < sufficient.threshold
    kept = scale.bound(worst, is_upper_bound)
    flipped = _written_after(scale, after, reasons.threshold)
    if reasons.rivals:
        return _among_classes(reasons, sufficient, contrastive)
    if reasons.output is None:
        kept += f" for {DIFFERENCE}"
        flipped += f" for {DIFFERENCE}"
    if scale.link is not None:
        # After the flip another class is predicted, so the number needs a name.
        flipped = f"{_quantity(reasons).removeprefix('the ')}: {flipped}"
    sides = reasons.sides
    has_own_threshold = reasons.threshold != scale.threshold
    # Without names, the sides are the ranges below and above the threshold.
    if scale.link is not None and (sides is None or has_own_threshold):
        sides = (f"below {_threshold(reasons)}", f"above {_threshold(reasons)}")
    strengths = _strengths(reasons, sufficient)
    return [
        reason_sentence(
            sufficient, reasons.names, reasons.things, sides, value=kept, strengths=strengths
        ),
        reason_sentence(
            contrastive, reasons.names, reasons.things, sides, value=flipped, strengths=strengths
        ),
    ]


def _strengths(reasons: Reasons, reason: SufficientReason) -> list[float]:
    """Return how much the removal of each player alone moves the logit away from its side."""
    side = np.sign(reason.prediction - reason.threshold)
    return (side * reasons.game.leave_one_out()).tolist()


def _written_after(scale: ExplainedScale, value: float, threshold: float) -> str:
    """Write the prediction without a set, which is exact and therefore rounded like any other.

    It is not written like the threshold, on whose other side it is.
    """
    if scale.link is None:
        return scale.bound(value, upper=False)
    if scale.level(value) == scale.level(threshold):
        return scale.bound(value, upper=value > threshold)
    return scale.level(value)


def _among_classes(
    reasons: Reasons,
    sufficient: SufficientReason,
    contrastive: ContrastiveReason,
) -> list[str]:
    """Return the reasons for one class among several, with the class that comes closest.

    Their values are probabilities of the class where only it and one other class are possible.
    """
    assert reasons.sides is not None  # classes have names
    other, predicted = reasons.sides
    worst, after = reasons.chance.of([sufficient.worst, contrastive.after]).tolist()
    closest = reasons.rivals[sufficient.rival]
    kept = f"{reasons.chance.bound(worst, upper=False)} against {closest}, which comes closest"
    winner = reasons.rivals[contrastive.rival]
    written = _written_after(reasons.chance, after, reasons.chance.threshold)
    flipped = f"{predicted} against {winner}: {written}"
    names = reasons.names
    sides = (winner, predicted)
    strengths = _strengths(reasons, sufficient)
    return [
        reason_sentence(
            sufficient, names, reasons.things, reasons.sides, value=kept, strengths=strengths
        ),
        reason_sentence(
            contrastive,
            names,
            reasons.things,
            sides,
            value=flipped,
            other=other,
            strengths=strengths,
        ),
    ]


def range_sentence(reasons: Reasons) -> str:
    """State the minimum and the maximum prediction over all coalitions."""
    scale = reasons.scale
    low, high = scale.of([reasons.bounds.proved_min, reasons.bounds.proved_max]).tolist()
    span = f"from {scale.bound(low, upper=False)} to {scale.bound(high, upper=True)}"
    return f"Over all subsets of the {reasons.things}, {_quantity(reasons)} ranges {span}."


def checked_sentences(evidence: Evidence, sets: Sequence[CheckedSet]) -> list[str]:
    """Describe sets of players for which the model was run."""
    level = evidence.scale.level
    whole = level(evidence.prediction)
    what = evidence.scale.of_output(evidence.target.output)
    things = evidence.target.players
    sentences = []
    for checked in sets:
        names = _listed([f"“{evidence.names[j]}”" for j in checked.players])
        size = len(checked.players)
        output = level(checked.output)
        count = f" ({size} of {evidence.d} {things})" if size > 1 else ""
        # The words were chosen by score and not certified, so the sentence says what was run.
        if checked.removed:
            text = f"Without {names}{count}, {what} is {output} instead of {whole}."
        else:
            text = (
                f"With {names}{count} alone and all other {things} absent, {what} is {output}; "
                f"with everything, it is {whole}."
            )
        text += " This was checked by running the model"
        if size > 1:
            text += "; smaller sets may exist"
        sentences.append(f"{text}.")
    return sentences


def _threshold(reasons: Reasons) -> str:
    """Write the threshold on the explained scale."""
    if reasons.scale.link is None:
        return f"{reasons.threshold:g}"
    return reasons.scale.level(reasons.threshold)


def _quantity(reasons: Reasons) -> str:
    """Name the quantity that the reasons are about."""
    if reasons.rivals and reasons.sides is not None:
        return f"the logit of {reasons.sides[1]} minus that of the runner-up"
    if reasons.output is None:
        return DIFFERENCE
    return reasons.scale.of_output(reasons.output)


def _what_suffices(
    reason: SufficientReason, names: list[str], things: str, sides: Sides | None, certified: str
) -> str:
    """Say which players keep the prediction on its side."""
    if reason.prediction > reason.threshold:
        limit = "at least"
    else:
        limit = "at most"
    side = _side(reason, reason.prediction, sides)
    stays = f"the prediction stays {side} ({limit} {certified})"
    if reason.d == 1 and not names:
        return f"Nothing is needed: even without the only {things.removesuffix('s')}, {stays}."
    if not names:
        return (
            f"No {things.removesuffix('s')} is needed: whichever of the {reason.d} {things} are "
            f"removed, {stays}."
        )
    if reason.d == 1:
        return f"The only {things.removesuffix('s')} is needed: {names[0]}. With it, {stays}."
    if reason.size == reason.d:
        return f"All {reason.d} {things} together are enough: {_listed(names)}. With them, {stays}."
    # "The other 1 words" would be wrong grammar.
    others = reason.d - reason.size
    if others == 1:
        removed = f"even without the other one of the {things}"
    else:
        removed = f"whichever of the other {others} {things} are removed"
    if len(names) == 1:
        return f"{names[0]} alone is enough: {removed}, {stays}."
    if len(names) <= FEW_NAMES:
        return f"{_listed(names)} are enough: {removed}, {stays}."
    count = f"{reason.size} of {reason.d} {things} are enough"
    return f"{count}: {removed}, {stays}. They are {_listed(names)}."


def _what_flips(
    reason: ContrastiveReason,
    names: list[str],
    things: str,
    sides: Sides | None,
    certified: str,
    other: str,
) -> str:
    """Say which players move the prediction to the other side when they are removed."""
    if reason.players is None:
        if reason.minimal:
            side = _side(reason, reason.prediction, sides)
            return f"No removal of {things} takes the prediction to {other}: it stays {side}."
        return f"No removal of {things} that takes the prediction to {other} was found."
    side = _side(reason, reason.after, sides)
    flips = f"changes the prediction to {side} ({certified})"
    if reason.d == 1:
        return f"Removing the only {things.removesuffix('s')}, {names[0]}, {flips}."
    if reason.size == reason.d:
        return f"Removing all {reason.d} {things} {flips}."
    if len(names) <= FEW_NAMES:
        return f"Removing {_listed(names)} {flips}."
    return f"Removing {reason.size} of {reason.d} {things} {flips}. They are {_listed(names)}."


def _listed(names: list[str]) -> str:
    """List names in a sentence, at most `most_names` of them."""
    # Tuning: a sentence names at most this many players, about two lines of a report; all are in
    # `players`.
    most_names = 12
    if len(names) > most_names:
        others = len(names) - most_names
        return f"{', '.join(names[:most_names])} and {others} other{'s' if others > 1 else ''}"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _side(reason: Reason, value: float, sides: Sides | None) -> str:
    """Name the side of a value, by default "positive", "negative", "above 1.5" or "below 1.5"."""
    above = value > reason.threshold
    if sides is not None:
        return output_name(sides[above])
    if reason.threshold == 0:
        return "positive" if above else "negative"
    return f"{'above' if above else 'below'} {reason.threshold:g}"
