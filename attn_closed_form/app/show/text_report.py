"""The report of a text: the answer, the text in color, how its words add up, and the certified
reasons.

The predicted class among three or more is explained against its runner-up, because that probability
has exact values, and the logit of one class is defined only up to a shift that all classes share.
"""

from __future__ import annotations

from functools import partial

from ..explanations.answers import strongest_units
from ..explanations.explain import against_runner_up, for_output, is_mirrored, runner_up_of
from ..explanations.explanation import Explanations
from ..models.scale import percent
from . import figures
from .colored import is_long, scored_rows, sentence_table, text_block, text_of
from .figures import MOST_CLASSES
from .page import LONGEST_LABEL, bullets, details, note, section, waterfall_of
from .report_parts import both_scales, classes_of, headline_of
from .sanitize import escape, prose


def text_answer(explanations: Explanations, in_notebook: bool = False) -> str:
    """Return the first screen: class, probability, colored words, how they add up, and the
    certified reasons.
    """
    e = figures.leader(explanations)
    parts = [headline_of(explanations, in_notebook=in_notebook), classes_of(explanations)]
    told = figures.notice(explanations)
    # Nothing else would be true of a text without a known word.
    if told:
        parts.append(f'<p class="notice">{escape(told)}</p>')
        parts.append(text_of(e, in_notebook, 0))
        return "".join(parts)
    # The question behind "why this class?" is "why not the next one?", and that has exact values.
    subject = against_runner_up(explanations)
    if subject is not explanations:
        parts.append(f"<h2>{escape(_title_of_pair(explanations))}</h2>")
    parts.append(note(subject.explained))
    parts.append(note(_about_passages(subject)))
    parts.append(note(figures.saturation(subject), strong=True))
    parts.append(text_block(subject, 0, in_notebook))
    if e.method == explanations.evidence.headline:
        body = partial(_sum_and_reasons, of=explanations)
        parts += [both_scales(subject, body), _strongest(subject), _other_classes(explanations)]
    if subject is not explanations:
        # The class alone comes after the pair, because its values are sampled or on another scale.
        parts.append(_logit_part(explanations, in_notebook))
    return "".join(parts)


def texts_of_page(explanations: Explanations) -> list[Explanations]:
    """Return the explanations whose texts the script recolors, in the order of the page."""
    subject = against_runner_up(explanations)
    if subject is explanations or figures.notice(explanations):
        return [explanations]
    return [subject, explanations]


def _title_of_pair(explanations: Explanations) -> str:
    """Return the heading of the class against its runner-up."""
    pair = runner_up_of(explanations)
    assert pair is not None
    best, second = pair
    return f"Why {best} and not {second}, the runner-up"


def _logit_part(explanations: Explanations, in_notebook: bool) -> str:
    """Return the explanation of the logit of the predicted class by every method, folded."""
    e = figures.leader(explanations)
    what = explanations.scale.of_output(explanations.output).removeprefix("the ")
    body = note(explanations.explained) + text_block(explanations, 1, in_notebook)
    if e.method == explanations.evidence.headline:
        body += waterfall_of(e)
    title = what[0].upper() + what[1:]
    if explanations.scale.in_percent:
        return section(title, figures.sampling(e), body, "h2")
    return details(title, body)


def _sum_and_reasons(subject: Explanations, of: Explanations) -> str:
    """Return how the words of the subject add up, and the reasons for the prediction."""
    e = figures.leader(subject)
    things = subject.evidence.target.players
    if e.error is not None:
        accuracy = (
            f"Exact Shapley values of the {e.scale.name}, each with a guaranteed error of at most "
            f"{e.error:.0e}."
        )
    else:
        accuracy = f"{figures.sampling(e)}. The thin lines show the standard errors."
    text = f"{accuracy} The baseline is the prediction with all {things} absent."
    bars = section("How it adds up", text, waterfall_of(e), "h2")
    sentences = ""
    if not is_long(subject):
        table = sentence_table(subject)
        if table:
            meaning = (
                "Owen values: the scores of the words in a sentence add up to the score of the "
                "sentence."
            )
            sentences = section("Sentences", meaning, table, "h2")
    # The reasons for one class among several hold against all others, not only against the
    # runner-up.
    reasons = _reasons(subject if against_runner_up(of) is of else of)
    return f'<div class="two">{bars}{reasons}</div>{sentences}'


def _about_passages(explanations: Explanations) -> str:
    """Say what a long text is divided into; "" if its players were chosen, or if it is short."""
    evidence = explanations.evidence
    units = evidence.units
    players = evidence.target.players
    kinds = evidence.model.groupings
    if players == kinds[0] or evidence.model.default_players(units) != players:
        return ""
    return (
        f"The text has {len(units.labels):,} {kinds[0]}, so its {evidence.d:,} {players} are "
        f"explained and colored. It scrolls, and on paper only its beginning is shown. The "
        f"strongest {kinds[0]} follow below it. The option --players {kinds[0]} explains every "
        f"one of them, which takes minutes."
    )


def _strongest(explanations: Explanations) -> str:
    """Return the strongest tokens of a text that is explained by its sentences, each in its
    context.
    """
    evidence = explanations.evidence
    strongest = strongest_units(evidence)
    if strongest is None:
        return ""
    units = evidence.units
    text = units.shown_text
    # Tuning: characters of the text on both sides of a token.
    context = 60
    texts = []
    for unit in strongest.units.tolist():
        start, end = units.shown_spans[unit]
        before = escape(text[max(0, start - context) : start])
        after = escape(text[end : end + context])
        texts.append(f"… {before}<b>{escape(text[start:end], LONGEST_LABEL)}</b>{after} …")
    what = evidence.model.groupings[0]
    logit = (evidence.target.logit or evidence.target).scale
    meaning = (
        f"The {len(texts)} of {strongest.of:,} {what} with the largest exact Shapley values of "
        f"the {logit.name} of {explanations.output}, each with a guaranteed error of at most "
        f"{strongest.error:.0e}."
    )
    rows = scored_rows(strongest.scores, logit, texts)
    return section(f"The strongest {what}", meaning, f'<ul class="sentences">{rows}</ul>', "h2")


def _reasons(explanations: Explanations) -> str:
    """Return the certified reasons, or what was checked with the model."""
    evidence = explanations.evidence
    # Certified reasons need a pooled game; sets that were run are called what they are.
    if evidence.model.surrogate is not None or not evidence.is_pooled:
        checked = explanations.checked_reasons()
        if not checked:
            return ""
        return f"<section><h2>Checked with the model</h2>{bullets(checked)}</section>"
    reasons = bullets(explanations.reasons().sentences())
    return f"<section><h2>Certified reasons</h2>{reasons}</section>"


def _other_classes(explanations: Explanations) -> str:
    """Return the other classes, each with its words and its waterfall; one can be open at a
    time.
    """
    chances = explanations.probabilities or {}
    output = explanations.output
    if len(explanations.evidence.logits) < 2 or output not in chances:
        return ""
    # The other one of two classes has the same scores with the opposite sign.
    if all(is_mirrored(explanations, name) for name in chances if name != output):
        return ""
    ranked = sorted(chances, key=lambda name: -chances[name])[:MOST_CLASSES]
    pair = runner_up_of(explanations)
    parts = []
    for name in ranked:
        if name == output or (pair is not None and name in pair):
            continue
        against = pair is not None and "," not in name
        asked = f"margin:{output},{name}" if against else name
        e = figures.leader(for_output(explanations, asked))
        title = f"{escape(name, LONGEST_LABEL)}, {prose(percent(chances[name]))}"
        if against:
            title = f"{escape(output, LONGEST_LABEL)} against {escape(name, LONGEST_LABEL)}"
            title += prose(f": {e.scale.level(e.prediction)}")
        elif e.scale.link is None:
            title += prose(f" (logit {e.prediction:+.4f})")
        body = text_of(e, in_notebook=True) + waterfall_of(e)
        parts.append(f"<details name=class><summary>{title}</summary>{body}</details>")
    if not parts:
        return ""
    return f"<section class=others><h2>The other classes</h2>{''.join(parts)}</section>"
