"""Certified reasons in plain English.

`reasons/` computes sets of players with certified values and writes no prose; the sentences about them are here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...reasons.reasons import ContrastiveReason, Reason, SufficientReason

# Tuning: a sentence names at most this many players, about two lines of a report; all are in `players`.
MOST_NAMES = 24

# The names of the two sides of a threshold: below it and above it, such as ("ham", "spam").
Sides = tuple[str, str]


def reason_sentence(
    reason: SufficientReason | ContrastiveReason,
    labels: Sequence[str] | None = None,
    things: str = "words",
    sides: Sides | None = None,
    value: str | None = None,
) -> str:
    """Describe a certified reason in plain English.

    Parameters
    ----------
    reason : result of `sufficient_reason` or `contrastive_reason`
    labels : names of the players; those of the game by default
    things : word for the players, in the plural
    sides : names of the two sides, below the threshold and above it, such as ("ham", "spam")
    value : text of the certified value, such as "71 %"; by default a number with two decimals

    Returns
    -------
    str : one to three sentences

    Examples
    --------
    >>> from attn_closed_form import PooledGame, contrastive_reason, sufficient_reason
    >>> game = PooledGame.from_scores([0.0, 0.0, 0.0], [4.0, 1.0, -2.0], s_background=0.0, v_background=0.0,
    ...                               labels=["superb", "fine", "dull"])
    >>> print(reason_sentence(sufficient_reason(game)))
    One of 3 words suffices: superb. No matter which of the other words are removed, the prediction stays positive
    (at least +0.67). No smaller set suffices.
    >>> print(reason_sentence(contrastive_reason(game)))
    Without this one of 3 words the prediction is negative (-0.33): superb. No smaller set does that.
    """
    names = _names(reason, labels or reason.labels)
    if isinstance(reason, SufficientReason):
        does = "suffices"
        certified = f"{reason.worst:+.2f}" if value is None else value
        text = _what_suffices(reason, names, things, sides, certified)
    else:
        does = "does that"
        certified = f"{reason.after:+.2f}" if value is None else value
        text = _what_flips(reason, names, things, sides, certified)
    if not reason.players:
        return text
    if reason.minimal:
        return f"{text} No smaller set {does}."
    return f"{text} At least {reason.lower_bound} are needed; whether a smaller set {does} is not known."


def _what_suffices(
    reason: SufficientReason, names: str, things: str, sides: Sides | None, certified: str
) -> str:
    """Say which players keep the prediction on its side."""
    if reason.prediction > reason.threshold:
        limit = "at least"
    else:
        limit = "at most"
    side = _side(reason, reason.prediction, sides)
    stays = f"the prediction stays {side} ({limit} {certified})"
    if not reason.players:
        return f"None of the {reason.d} {things} is needed: no matter which of them are removed, {stays}."
    if reason.size > 1:
        suffice = f"These {reason.size} of {reason.d} {things} suffice"
    else:
        suffice = f"One of {reason.d} {things} suffices"
    return f"{suffice}: {names}. No matter which of the other {things} are removed, {stays}."


def _what_flips(
    reason: ContrastiveReason, names: str, things: str, sides: Sides | None, certified: str
) -> str:
    """Say which players move the prediction to the other side when they are removed."""
    if reason.players is None:
        if reason.minimal:
            side = _side(reason, reason.prediction, sides)
            return (
                f"No removal of {things} takes the prediction to the other side: it stays {side}."
            )
        return f"No removal of {things} that takes the prediction to the other side was found."
    if reason.size > 1:
        those = f"these {reason.size}"
    else:
        those = "this one"
    side = _side(reason, reason.after, sides)
    return (
        f"Without {those} of {reason.d} {things} the prediction is {side} ({certified}): {names}."
    )


def _names(reason: Reason, labels: Sequence[str]) -> str:
    """List the names of the players, at most `MOST_NAMES` of them."""
    names = [str(labels[j]) for j in reason.players or ()]
    text = ", ".join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        return f"{text} and {len(names) - MOST_NAMES} others"
    return text


def _side(reason: Reason, value: float, sides: Sides | None) -> str:
    """Name the side of a value, by default "positive", "negative", "above 1.5" or "below 1.5"."""
    above = value > reason.threshold
    if sides is not None:
        return sides[above]
    if reason.threshold == 0:
        return "positive" if above else "negative"
    return f"{'above' if above else 'below'} {reason.threshold:g}"
