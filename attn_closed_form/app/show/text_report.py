"""The report of a text: the answer, the text in color, how its words add up, reasons, sentences and
other methods.
"""

from __future__ import annotations

import re
from typing import Any

from ..explanations.answers import grouping_of
from ..explanations.explain import for_output, is_mirrored
from ..explanations.explanation import Explanation, Explanations
from ..models.scale import percent
from . import figures
from .figures import LEVELS, MOST_CLASSES, PLANE, SLALOM
from .page import (
    LONGEST_LABEL,
    LONGEST_SENTENCE,
    bullets,
    details,
    note,
    section,
    svg,
    svg_text,
    table_of,
    waterfall_of,
)
from .report_parts import both_scales, classes_of, headline_of
from .sanitize import elide, escape, prose, script_json

# Tuning: longer words are shortened in the middle, so that no text can bloat the page.
LONGEST_WORD = 60
# Tuning: the same for what is between words.
LONGEST_GAP = 48
# Tuning: beyond this number of sentences their scores are left to `found.sentences()`.
MOST_SENTENCES = 40
# Tuning: beyond this number of words, sentences come before words, and methods share one text
# instead of one each.
MANY_WORDS = 60
# Line breaks of HTML, which data sets of reviews contain, are shown as line breaks.
LINE_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)


def text_answer(explanations: Explanations, in_notebook: bool = False) -> str:
    """Return the first screen: class, probability, colored words, how they add up, and the
    certified reasons.
    """
    e = figures.leader(explanations)
    parts = [headline_of(explanations), classes_of(explanations)]
    told = figures.notice(explanations)
    if told:
        parts.append(f'<p class="notice">{escape(told)}</p>')
        parts.append(_text_of(e, in_notebook))
        return "".join(parts)
    against = _runner_up(explanations)
    if against:
        what = explanations.scale.of_output(explanations.output).removeprefix("the ")
        parts += [against, f"<h2>{escape(what[0].upper() + what[1:])}</h2>"]
    parts.append(note(explanations.explained))
    if len(explanations) > 1 and not in_notebook:
        parts.append(_switch(explanations))
    parts += [_text_of(e, in_notebook), _legend(e), note(_explained_colors(e, in_notebook))]
    if e.method == explanations.evidence.headline:
        parts += [both_scales(explanations, _sum_and_reasons), _other_classes(explanations)]
    return "".join(parts)


def text_data(explanations: Explanations) -> dict[str, Any]:
    """Return the data of the script: the scores of every method with four digits, and their
    colors.
    """
    rows = list(explanations.values())
    return {
        "labels": [e.scale.titled(e.title) for e in rows],
        "signed": [int(e.info.kind == "signed" and e.trusted) for e in rows],
        "players": [elide(name, LONGEST_WORD) for name in figures.names(explanations.evidence)],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(e.scale.digits(score, ".4g")) for score in e.scores] for e in rows],
        "levels": [figures.levels(e.strength).tolist() for e in rows],
    }


def script_data(explanations: Explanations) -> str:
    """Return the script element with the data."""
    data = script_json(text_data(explanations))
    return f'<script type="application/json" id="data">{data}</script>'


def is_long(explanations: Explanations) -> bool:
    """Return whether a text is too long to be repeated for every method."""
    return explanations.evidence.d > MANY_WORDS


def _switch(explanations: Explanations) -> str:
    """Return the choice of the method that colors the text, which the script turns on."""
    leading = figures.leader(explanations).method
    options = ""
    for number, e in enumerate(explanations.values()):
        selected = " selected" if e.method == leading else ""
        options += f"<option value={number}{selected}>{escape(e.title)}</option>"
    return f'<label class="switch" id="by" hidden>Color by <select>{options}</select></label>'


def _explained_colors(e: Explanation, in_notebook: bool) -> str:
    """Explain the colors of a text."""
    if e.info.kind == "signed":
        text = f"Colored by {e.title}: orange raises {e.output}, blue (underlined) lowers it."
    else:
        text = f"Colored by {e.title}, which has no sign."
    if in_notebook:
        text += " Hover over a word for its number."
    else:
        text += " Hover, tap or use the arrow keys on a word for its numbers."
    if any(e.unknown):
        text += " Gray words are not in the vocabulary: the model cannot tell them apart."
    return text


def _legend(e: Explanation) -> str:
    """Return the colors with the scores at which they begin."""
    largest = float(abs(e.scores).max(initial=0.0))
    if e.info.kind == "log" or largest == 0:
        return ""

    def cell(side: str, level: int, sign: int) -> str:
        score = sign * LEVELS[level - 1] * largest
        return f'<span class="{side}{level}">{prose(e.scale.digits(score, "+.2g"))}</span>'

    rising = range(1, len(LEVELS) + 1)
    zero = "<span>0</span>"
    if e.info.kind == "signed":
        cells = [cell("n", level, -1) for level in reversed(rising)]
        cells.append(zero)
        cells += [cell("p", level, 1) for level in rising]
    else:
        cells = [zero]
        cells += [cell("u", level, 1) for level in rising]
    unit = str(e.scale.unit["change"]).strip() or e.scale.name
    title = escape(f"Colors and the scores at which they begin, in {unit}")
    body = f"{''.join(cells)} <small>{escape(unit)}</small>"
    return f'<p class="legend" role="img" aria-label="{title}">{body}</p>'


def _sum_and_reasons(explanations: Explanations) -> str:
    """Return how the words add up, and the reasons; of a long text, the sentences first."""
    e = figures.leader(explanations)
    evidence = explanations.evidence
    things = evidence.target.players
    if e.error is not None:
        accuracy = (
            f"Exact Shapley values of the {e.scale.name}, each with a guaranteed error of at most "
            f"{e.error:.0e}."
        )
    else:
        accuracy = f"{figures.sampling(e)}. The thin lines show the standard errors."
    text = f"{accuracy} The baseline is the prediction with all {things} absent."
    bars = section("How it adds up", text, waterfall_of(e), "h2")
    if evidence.exact:
        reasons = bullets(explanations.reasons().sentences())
        why = f"<section><h2>Certified reasons</h2>{reasons}</section>"
        sentences = _sentences(explanations)
    else:
        why = ""
        sentences = ""
    if evidence.model.surrogate is not None:
        checked = explanations.checked_reasons()
        if checked:
            why = f"<section><h2>Checked with the model</h2>{bullets(checked)}</section>"
    if is_long(explanations):
        return f'{sentences}<div class="two">{bars}{why}</div>'
    return f'<div class="two">{bars}{why}</div>{sentences}'


def _sentences(explanations: Explanations) -> str:
    """Return the contribution of each sentence as a bar beside it; nothing for one sentence, or too
    many.
    """
    units = explanations.evidence.units
    if units.text is None:
        return ""
    count = len(grouping_of(explanations.evidence, "sentences").labels)
    if not 1 < count <= MOST_SENTENCES:
        return ""
    scores = explanations.sentences()
    largest = float(abs(scores.scores).max()) or 1.0
    rows = ""
    for score, label in zip(scores.scores.tolist(), scores.labels, strict=True):
        kind = "for" if score >= 0 else "against"
        start, end = sorted((0.5, 0.5 + 0.5 * score / largest))
        bar = (
            f'<b class={kind} style="left:{100 * start:.1f}%;width:{100 * (end - start):.1f}%"></b>'
        )
        rows += (
            f"<tr><td>{prose(explanations.scale.change(score))}</td>"
            f'<td class="track" style="--zero:50%">{bar}</td>'
            f"<td class=t dir=auto>{_with_breaks(escape(label, LONGEST_SENTENCE))}</td></tr>"
        )
    text = "Owen values: the scores of the words in a sentence add up to the score of the sentence."
    table = f'<table class="n sentences"><tbody>{rows}</tbody></table>'
    return section("Sentences", text, table, "h2")


def _with_breaks(escaped: str) -> str:
    """Replace the line breaks of HTML in an escaped text by a space."""
    return LINE_BREAK.sub(" ", escaped.replace("&lt;br", "<br").replace("/&gt;", "/>"))


def _text_of(e: Explanation, in_notebook: bool) -> str:
    """Return the colored text as a block."""
    return f'<div class="text live" dir="auto">{_colored(e, in_notebook)}</div>'


def _colored(e: Explanation, with_tips: bool) -> str:
    """Return the text with one <i> per unit that the model reads, and the number of other units."""
    text = figures.colored_text(e)
    pieces = e.evidence.of_input("escaped pieces", lambda: _escaped_pieces(e))
    tags = []
    for j, (level, unknown) in enumerate(zip(text.levels, text.unknown, strict=True)):
        tip = ""
        if with_tips:
            tip = f' title="{_tip(e, j)}"'
        tags.append(f"<i{_class_of(level, text.signed, unknown)}{tip}>")
    parts = []
    for piece, player in pieces:
        if player is None:
            parts.append(piece)
        else:
            parts.append(f"{tags[player]}{piece}</i>")
    if text.unseen:
        parts.append(f" <small>… {text.unseen:,} more not read</small>")
    else:
        parts.append(escape(text.tail, LONGEST_GAP))
    return "".join(parts)


def _escaped_pieces(e: Explanation) -> list[tuple[str, int | None]]:
    """Return the pieces of the text, escaped, with their players; gaps have none."""
    pieces: list[tuple[str, int | None]] = []
    for piece in figures.colored_text(e).pieces:
        if piece.player is not None:
            pieces.append((escape(piece.text, LONGEST_WORD), piece.player))
            continue
        lines = LINE_BREAK.split(piece.text)
        shown = [escape(line, LONGEST_GAP) for line in lines]
        pieces.append(('<br><small aria-hidden="true">↵</small> '.join(shown), None))
    return pieces


def _class_of(level: int, signed: bool, unknown: bool) -> str:
    """Return the class attribute of a word."""
    classes = []
    if level:
        side = "u"
        if signed:
            side = "p" if level > 0 else "n"
        classes.append(f"{side}{abs(level)}")
    if unknown:
        classes.append("k")
    if not classes:
        return ""
    if len(classes) == 1:
        return f" class={classes[0]}"
    return f' class="{" ".join(classes)}"'


def _tip(e: Explanation, player: int) -> str:
    """Return what a word shows under the pointer in a notebook."""
    tip = e.scale.change(e.scores[player], ".4g")
    if e.unknown[player]:
        tip += ", not in the vocabulary"
    return tip


def _other_classes(explanations: Explanations) -> str:
    """Return the other classes, each with its words and its waterfall; one can be open at a
    time.
    """
    chances = explanations.probabilities or {}
    output = explanations.output
    if len(explanations.evidence.logits) < 2 or output not in chances:
        return ""
    if all(is_mirrored(explanations, name) for name in chances if name != output):
        return ""
    ranked = sorted(chances, key=lambda name: -chances[name])[:MOST_CLASSES]
    parts = []
    for name in ranked:
        if name == output:
            continue
        e = figures.leader(for_output(explanations, name))
        title = f"{escape(name, LONGEST_LABEL)}, {prose(percent(chances[name]))}"
        if e.scale.link is None:
            title += prose(f" (logit {e.prediction:+.4f})")
        body = _text_of(e, in_notebook=True) + waterfall_of(e)
        parts.append(f"<details name=class><summary>{title}</summary>{body}</details>")
    return f"<h2>The other classes</h2>{''.join(parts)}"


def _runner_up(explanations: Explanations) -> str:
    """Return the predicted class against the runner-up, for a softmax of three classes or more.

    The logit of one class is defined only up to a shift that all share; its difference to another
    has a meaning, and for one head the probability of the class where only the two are possible has
    exact values.
    """
    evidence = explanations.evidence
    chances = explanations.probabilities or {}
    if len(chances) < 3 or evidence.model.loss != "softmax" or not evidence.exact:
        return ""
    best, second = sorted(chances, key=lambda name: -chances[name])[:2]
    if explanations.output != best:
        return ""
    if "," in best + second:  # the name of a margin is split at its comma
        return ""
    margin = for_output(explanations, f"margin:{best},{second}")
    e = figures.leader(margin)
    body = f'<div class="text" dir="auto">{_colored(e, with_tips=True)}</div>{waterfall_of(e)}'
    return section(f"{best} against the runner-up {second}", margin.explained, body, "h2")


def text_methods(explanations: Explanations, in_notebook: bool = False) -> str:
    """Return one colored text per method, by family."""
    parts = []
    for family in figures.method_rows(explanations):
        rows = ""
        for row in family.rows:
            words = _colored(explanations[row.methods[0]], in_notebook)
            title = f'<th scope=row title="{escape(row.summary)}">{escape(row.title)}</th>'
            rows += f'<tr>{title}<td dir="auto">{words}</td></tr>'
        table = f'<div class="live"><table class="words"><tbody>{rows}</tbody></table></div>'
        parts.append(section(family.title, family.meaning, table))
    return details("Other methods", "".join(parts))


def surrogate_of(explanations: Explanations) -> str:
    """Return what is known about the game that is fitted to a transformer, apart from the values of
    the model itself.
    """
    fit = explanations.fit
    if fit is None:
        return ""
    body = note(fit.verdict(), strong=True)
    body += "".join(note(sentence) for sentence in fit.sentences())
    return section(f"The {fit.name}", "", body, "h2")


def numbers_of(explanations: Explanations) -> str:
    """Return a table of the strongest players in every method."""
    rows = list(explanations.values())
    order = figures.strongest_players(explanations)
    names = figures.names(explanations.evidence)
    cells = []
    for j in order:
        numbers = []
        for e in rows:
            digits = ".3g" if e.info.kind == "unsigned" else "+.3g"
            numbers.append(e.scale.digits(e.scores[j], digits))
        cells.append((names[j], numbers))
    things = explanations.evidence.target.players
    titles = [e.scale.titled(e.title) for e in rows]
    table = table_of([things.removesuffix("s"), *titles], cells)
    title = figures.leader(explanations).title
    text = f"The {len(order)} strongest {things} by {title}; scroll sideways for more methods."
    return details("The numbers", note(text) + table)


def slalom_plane_of(explanations: Explanations) -> str:
    """Return the SLALOM plane, if the methods that it shows were run."""
    figure = figures.slalom_plane(explanations)
    if figure is None:
        return ""
    left = 44
    top = 8
    wide, high = PLANE
    bottom = top + high

    def x(unit: float) -> float:
        return left + unit * wide

    def y(unit: float) -> float:
        return bottom - unit * high

    body = [
        f'<path class="a" d="M{left} {y(figure.zero):.1f}h{wide:g}M{left} '
        f'{top}v{high:g}h{wide:g}"/>'
    ]
    body += [
        svg_text(x(at), bottom + 14, prose(f"{number:g}"), "middle")
        for at, number in figure.across.ticks
    ]
    body += [
        svg_text(left - 5, y(at) + 4, prose(f"{number:g}"), "end") for at, number in figure.up.ticks
    ]
    body.append(svg_text(x(0.5), bottom + 30, "importance s (log weight)", "middle"))
    body.append(
        f'<text transform="translate(10 {y(0.5):g}) rotate(-90)" text-anchor="middle">value '
        "v</text>"
    )
    trusted = explanations[SLALOM[0]].trusted
    sides: dict[bool, list[str]] = {True: [], False: []}
    players = figures.names(explanations.evidence)
    value = explanations[SLALOM[0]].scores
    importance = explanations[SLALOM[1]].scores
    for name, s, v, across, up in zip(players, importance, value, figure.x, figure.y, strict=True):
        tip = f"<title>{escape(name, LONGEST_LABEL)} s={s:.3g} v={v:.3g}</title>"
        sides[v >= 0].append(f'<circle cx="{x(across):.1f}" cy="{y(up):.1f}" r="4">{tip}</circle>')
    for positive, dots in sides.items():
        kind = "for" if positive else "against"
        if not trusted:
            kind = "gray"
        body.append(f'<g class="{kind}">{"".join(dots)}</g>')
    body += [
        svg_text(x(label.x), y(label.y), escape(label.text), label.anchor)
        for label in figure.labels
    ]
    things = explanations.evidence.target.players
    text = (
        f"Value and importance (log weight) of the {things}. Those on the right have the most "
        "weight."
    )
    drawn = svg(480, 340, body, "Value of each word against its importance")
    title = "SLALOM plane" if trusted else "SLALOM plane (poor fit)"
    return details(title, note(text) + drawn)
