"""The text of a report in color: word by word, or sentence by sentence with a bar beside each.

The script of a report (`static/report.js`) recolors the same text by another method, and lights up
the words of a reason. `text_data` has what it needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._types import Array
from ..explanations.answers import GroupScores, grouping_of
from ..explanations.evidence import PASSAGES
from ..explanations.explanation import Explanation, Explanations
from ..models.scale import ExplainedScale
from . import figures
from .figures import LEVELS, TextPiece
from .page import track_of
from .sanitize import elide, escape, output_name, prose, script_json

# Tuning: longer words are shortened in the middle, so that no text can bloat the page.
LONGEST_WORD = 60
# Tuning: the same for a sentence or a turn that is one piece of the text.
LONGEST_PASSAGE = 4000
# Tuning: the same for what is between words.
LONGEST_GAP = 48
# Tuning: a text of more words is colored by sentence first, and is not repeated for every method.
MANY_WORDS = 60
# Tuning: a text of more units scrolls in a box, so that what follows it is found. It would be more
# than twenty screens long.
MANY_UNITS = 10_000
# Line breaks of HTML, which data sets of reviews contain, are shown as line breaks.
LINE_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)
# A line break as it is shown in a text.
SHOWN_BREAK = '<br><small aria-hidden="true">↵</small> '


def is_long(explanations: Explanations) -> bool:
    """Return whether a text is too long to be repeated for every method."""
    return explanations.evidence.d > MANY_WORDS


def text_block(explanations: Explanations, number: int = 0, in_notebook: bool = False) -> str:
    """Return the colored text with its switch of methods, its legend, and what the colors mean.

    `number` counts the texts of a page that the script recolors, in the order of their data.
    """
    e = figures.leader(explanations)
    sentences = None
    # A notebook has no script that could color the words on demand, so it shows them at once.
    if is_long(explanations) and not in_notebook:
        sentences = sentence_scores(explanations)
    switch = ""
    if not in_notebook and (len(explanations) > 1 or sentences is not None):
        switch = _switch(explanations, number, sentences is not None)
    if sentences is None:
        text = text_of(e, in_notebook, number)
        legend = legend_cells(e.scores, e.info.kind != "unsigned", e)
        about = _meaning_of_colors(e)
    else:
        text = _text_by_sentence(e, sentences, number)
        legend = legend_cells(sentences.scores, True, e)
        about = _meaning_of_sentence_colors(e)
    tools = f"<div class=tools>{switch}{legend_of(legend, e.scale, number)}</div>"
    # Paper does not have the hint, and the cells of a notebook have no script.
    hint = "Hover, tap or use the arrow keys on a word for its numbers."
    if in_notebook:
        hint = "Hover over a word for its number."
    meaning = f"{prose(about)} <span class=screen>{hint}</span>"
    return f'{tools}{text}<p class="note">{meaning}</p>'


def text_of(e: Explanation, in_notebook: bool, number: int | None = None) -> str:
    """Return the colored text as a block; one with a number has a script."""
    live = ""
    if number is not None:
        live = f' data-text="{number}"'
    kind = "text live" if number is not None else "text"
    if len(e.evidence.units.labels) > MANY_UNITS:
        kind += " box"
    return f'<div class="{kind}"{live} dir="auto">{colored(e, in_notebook)}</div>'


def colored(
    e: Explanation,
    with_tips: bool,
    largest: float | None = None,
    marked: frozenset[int] = frozenset(),
) -> str:
    """Return the text with one <i> per unit that the model reads, and the number of other units.

    The strongest color belongs to the score `largest`, by default the largest of the text. Players
    in `marked` are outlined.
    """
    text = figures.colored_text(e, largest)
    # A sentence is shown whole, because it is a piece of text and not a word.
    longest = LONGEST_WORD
    if e.evidence.target.players in PASSAGES:
        longest = LONGEST_PASSAGE
    pieces = e.evidence.of_input("escaped pieces", lambda: _escaped(text.pieces, longest))
    # A word that occurs several times has one player, so its tag is made once.
    tags = []
    for j, (level, unknown) in enumerate(zip(text.levels, text.unknown, strict=True)):
        tip = ""
        if with_tips:
            tip = f' title="{_tip(e, j)}"'
        tags.append(f"<i{_class_of(level, text.signed, unknown, j in marked)}{tip}>")
    parts = []
    for piece, player in pieces:
        if player is None:
            parts.append(piece)
        else:
            parts.append(f"{tags[player]}{piece}</i>")
    parts.append(_end_of_text(text))
    return "".join(parts)


def _end_of_text(text: figures.ColoredText) -> str:
    """Return what follows the last word that the model reads."""
    # A model with positions reads only so many words. The rest is counted instead of shown, because
    # a text may be very long.
    if text.unseen:
        return f" <small>… {text.unseen:,} more not read</small>"
    return escape(text.tail, LONGEST_GAP)


def _escaped(
    pieces: Sequence[TextPiece], longest: int = LONGEST_WORD
) -> list[tuple[str, int | None]]:
    """Return pieces of a text, escaped, with their players; gaps have none."""
    escaped: list[tuple[str, int | None]] = []
    for piece in pieces:
        if piece.player is not None:
            escaped.append((escape(piece.text, longest), piece.player))
            continue
        lines = LINE_BREAK.split(piece.text)
        shown = [escape(line, LONGEST_GAP) for line in lines]
        escaped.append((SHOWN_BREAK.join(shown), None))
    return escaped


def _class_of(level: int, signed: bool, unknown: bool, marked: bool = False) -> str:
    """Return the class attribute of a word."""
    classes = []
    if level:
        classes.append(_side(level, signed) + str(abs(level)))
    if unknown:
        classes.append("k")
    if marked:
        classes.append("only")
    if not classes:
        return ""
    if len(classes) == 1:
        return f" class={classes[0]}"
    return f' class="{" ".join(classes)}"'


def _side(level: int, signed: bool) -> str:
    """Return the letter of a color: p for, n against, u without a sign."""
    if not signed:
        return "u"
    if level > 0:
        return "p"
    return "n"


def _tip(e: Explanation, player: int) -> str:
    """Return what a word shows under the pointer in a notebook."""
    tip = e.scale.change(e.scores[player], ".4g")
    if e.unknown[player]:
        tip += ", not in the vocabulary"
    return tip


# Sentences.


def sentence_scores(explanations: Explanations) -> GroupScores | None:
    """Return the scores of the sentences of a text; None for one sentence, or for a model without
    exact values.
    """
    evidence = explanations.evidence
    # Sentences of sentences or of turns would say nothing new.
    if evidence.target.players in PASSAGES:
        return None
    # Owen values of sentences need an exact game of the model itself.
    if evidence.units.text is None or not evidence.exact or not evidence.is_pooled:
        return None
    if evidence.model.surrogate is not None:
        return None
    # The score of a single sentence is the whole change of the prediction, which the waterfall
    # shows.
    if len(grouping_of(evidence, "sentences").labels) < 2:
        return None
    return explanations.sentences()


def sentence_table(explanations: Explanations) -> str:
    """Return the contribution of each sentence as a bar beside it."""
    scores = sentence_scores(explanations)
    if scores is None:
        return ""
    texts = [_without_breaks(label) for label in scores.labels]
    return f'<ul class="sentences">{scored_rows(scores.scores, explanations.scale, texts)}</ul>'


def _text_by_sentence(e: Explanation, scores: GroupScores, number: int) -> str:
    """Return the whole text, one row per sentence; its words are colored on demand."""
    text = figures.colored_text(e)
    texts = []
    # The words carry no color of their own here: the sentence has it, until a method is chosen.
    for pieces in pieces_of_sentences(text.pieces, scores):
        shown = ""
        for piece, player in _escaped(pieces):
            if player is None:
                shown += piece
            else:
                shown += f"<i{_class_of(0, True, text.unknown[player])}>{piece}</i>"
        # Every sentence has a row, so a line break after it would only add an empty line.
        texts.append(shown.removesuffix(SHOWN_BREAK))
    texts[-1] += _end_of_text(text)
    rows = scored_rows(scores.scores, e.scale, texts)
    return f'<ul class="sentences live" data-text="{number}">{rows}</ul>'


def pieces_of_sentences(pieces: Sequence[TextPiece], scores: GroupScores) -> list[list[TextPiece]]:
    """Divide the pieces of a text among its sentences."""
    assert scores.spans is not None  # the groups are sentences
    starts = [start for start, _ in scores.spans]
    divided: list[list[TextPiece]] = [[] for _ in starts]
    current = 0
    at = 0
    for piece in pieces:
        end = at + len(piece.text)
        # What is between words may hold the end of a sentence and the beginning of the next one.
        while current + 1 < len(starts) and starts[current + 1] < end:
            cut = max(starts[current + 1] - at, 0)
            if cut:
                divided[current].append(TextPiece(piece.text[:cut], None))
                piece = TextPiece(piece.text[cut:], piece.player)
                at += cut
            current += 1
        divided[current].append(piece)
        at = end
    return divided


def scored_rows(scores: Array, scale: ExplainedScale, texts: Sequence[str]) -> str:
    """Return one row per sentence or other part of a text: its score, its bar and its text, which
    is HTML.
    """
    # All scores may be zero.
    largest = float(np.abs(scores).max()) or 1.0
    rows = ""
    levels = figures.levels(scores / largest).tolist()
    for score, level, text in zip(scores.tolist(), levels, texts, strict=True):
        kind = "for" if score >= 0 else "against"
        # Zero is in the middle of the track, and the longest bar ends at one of its ends.
        left, right = sorted((0.5, 0.5 + 0.5 * score / largest))
        color = f" {_side(level, True)}{abs(level)}" if level else ""
        rows += (
            f"<li><span class=score>{prose(scale.column(score))}</span>"
            f'<span class=track style="--zero:50%">{track_of(kind, left, right)}</span>'
            f'<span class="t{color}" dir=auto>{text}</span></li>'
        )
    return rows


def _without_breaks(label: str) -> str:
    """Return a sentence, escaped, with a space for each line break of HTML."""
    return escape(LINE_BREAK.sub(" ", label))


# The switch, the legend, and the data of the script.


def _switch(explanations: Explanations, number: int, has_sentences: bool) -> str:
    """Return the choice of the method that colors the text, which the script turns on."""
    # The choice of the switch that colors sentences instead of words.
    by_sentence = "sentences"
    leading = figures.leader(explanations).method
    # Without the script nothing could be chosen, so the switch stays hidden until the script runs.
    options = ""
    if has_sentences:
        options += f"<option value={by_sentence} selected>sentence</option>"
    for index, e in enumerate(explanations.values()):
        selected = ""
        if e.method == leading and not has_sentences:
            selected = " selected"
        title = escape(f"word: {e.title}" if has_sentences else e.title)
        options += f"<option value={index}{selected}>{title}</option>"
    return (
        f'<label class="switch by" data-by="{number}" hidden>Color by '
        f"<select>{options}</select></label>"
    )


def _meaning_of_colors(e: Explanation) -> str:
    """Explain the colors of words."""
    if e.info.kind == "signed":
        raised = output_name(e.output)
        text = f"Colored by {e.title}: orange raises {raised}, blue (underlined) lowers it."
    else:
        text = f"Colored by {e.title}, which has no sign."
    return text + _about_unknown_words(e)


def _meaning_of_sentence_colors(e: Explanation) -> str:
    """Explain the colors of sentences."""
    unit = str(e.scale.unit["change"]).strip()
    numbers = f"numbers are {unit}" if unit else f"numbers are on the scale of the {e.scale.name}"
    return (
        f"Colored by sentence: orange raises {output_name(e.output)}, blue (underlined) lowers "
        f"it; {numbers}. They are Owen values: the scores of the words in a sentence add up to the "
        "score of the sentence."
    )


def _about_unknown_words(e: Explanation) -> str:
    """Explain gray words, if there are any."""
    if not any(e.unknown):
        return ""
    return " Gray words are not in the vocabulary: the model cannot tell them apart."


def legend_cells(scores: Array, has_sign: bool, e: Explanation) -> list[tuple[str, str]]:
    """Return pairs (color, number): the scores at which the colors begin."""
    largest = float(np.abs(scores).max(initial=0.0))
    # Logarithms of weights have no zero that a color could stand for.
    if e.info.kind == "log" or largest == 0:
        return []

    def cell(side: str, level: int, sign: int) -> tuple[str, str]:
        score = sign * LEVELS[level - 1] * largest
        return f"{side}{level}", e.scale.digits(score, "+.2g")

    rising = range(1, len(LEVELS) + 1)
    if not has_sign:
        return [("", "0"), *(cell("u", level, 1) for level in rising)]
    below = [cell("n", level, -1) for level in reversed(rising)]
    above = [cell("p", level, 1) for level in rising]
    return [*below, ("", "0"), *above]


def legend_of(cells: Sequence[tuple[str, str]], scale: ExplainedScale, number: int) -> str:
    """Return the colors with the scores at which they begin."""
    if not cells:
        return ""
    unit = str(scale.unit["change"]).strip() or scale.name
    title = escape(f"Colors and the scores at which they begin, in {unit}")
    spans = ""
    for color, text in cells:
        kind = f' class="{color}"' if color else ""
        spans += f"<span{kind}>{prose(text)}</span>"
    body = f"{spans} <small>{escape(unit)}</small>"
    return f'<p class="legend" data-legend="{number}" role="img" aria-label="{title}">{body}</p>'


def text_data(explanations: Explanations) -> dict[str, Any]:
    """Return the data of the script: the scores of every method with four digits, their colors and
    their legends.
    """
    rows = list(explanations.values())
    return {
        "labels": [e.scale.titled(e.title) for e in rows],
        "signed": [int(e.info.kind == "signed" and e.trusted) for e in rows],
        "players": [elide(name, LONGEST_WORD) for name in figures.names(explanations.evidence)],
        "player": [place.player for place in rows[0].occurrences],
        # Four digits are what a tip can show; all digits would make the page larger.
        "scores": [[float(e.scale.digits(score, ".4g")) for score in e.scores] for e in rows],
        "levels": [figures.levels(e.strength).tolist() for e in rows],
        "legends": [legend_cells(e.scores, e.info.kind == "signed", e) for e in rows],
        "units": [str(e.scale.unit["change"]).strip() or e.scale.name for e in rows],
    }


def script_data(texts: Sequence[Explanations]) -> str:
    """Return the script element with the data of each text of the page."""
    data = script_json([text_data(explanations) for explanations in texts])
    return f'<script type="application/json" id="data">{data}</script>'
