"""Figures of one text for papers and slides: the colored text, the waterfall, and the sentences.

They show the same data as the report (`figures.py`). Every title says what is shown and which color
raises the output, so no figure needs a legend. Words against the output are also underlined, so
that a gray print shows the sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..explanations.explanation import Explanation, Explanations
from . import figures
from .bars import Bar
from .drawing import import_matplotlib, plain_words, rgb
from .figures import AGAINST, FOR, UNSIGNED
from .sanitize import elide, output_name, visible
from .waterfall import waterfall

# Points per inch.
POINTS = 72
# The size of the letters of a text, and the height of its lines, in points.
LETTER_SIZE = 10
# The height of a line, in points: its letters, and room for underlines.
LINE_HEIGHT = 19.0
# The room around a text, in points.
PADDING = 10.0
# Tuning: a longer word is shortened in the middle.
LONGEST_DRAWN_WORD = 40
# A line break of HTML, or of the text.
ANY_LINE_BREAK = re.compile(r"(?:<br\s*/?>|\n)(?:<br\s*/?>|\s)*", re.IGNORECASE)
# Tuning: the number of sentences in a figure, and of characters of each.
MOST_BARS = 20


class PlacedWord(NamedTuple):
    """A word of a text with its place in points: x from the left, and the number of its line."""

    text: str
    x: float
    line: int
    width: float
    level: int


@cache
def _text_to_path() -> Any:
    """Return what measures texts without drawing them."""
    return import_matplotlib("textpath").TextToPath()


def text_width(text: str, size: float = LETTER_SIZE, bold: bool = False) -> float:
    """Return the width of a text in points."""
    if not text:
        return 0.0
    weight = "bold" if bold else "normal"
    font = import_matplotlib("font_manager").FontProperties(size=size, weight=weight)
    # Trailing spaces count, so a mark is put after the text and its width subtracted.
    measure = _text_to_path().get_text_width_height_descent
    with_mark, _, _ = measure(f"{text}|", font, False)
    mark, _, _ = measure("|", font, False)
    return float(with_mark - mark)


def placed_words(e: Explanation, width: float) -> list[PlacedWord]:
    """Break a text into lines of at most `width` points; line breaks of the text are kept."""
    text = figures.colored_text(e)
    pieces: list[tuple[str, int]] = []
    for piece in text.pieces:
        if piece.player is None:
            pieces.append((piece.text, 0))
        else:
            pieces.append(
                (elide(visible(piece.text), LONGEST_DRAWN_WORD), text.levels[piece.player])
            )
    # What the model does not read follows without color.
    pieces.append((text.tail, 0))
    words = []
    x = 0.0
    line = 0
    for part, level in _words_of(pieces):
        if part == "\n":
            line += 1 if x else 0
            x = 0.0
            continue
        taken = text_width(part)
        # A space at the end of a line may hang over its edge.
        if x and x + text_width(part.rstrip()) > width:
            line += 1
            x = 0.0
        if not x and not part.strip():
            continue  # a line does not begin with a space
        words.append(PlacedWord(text=part, x=x, line=line, width=taken, level=level))
        x += taken
    return words


def _words_of(pieces: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    r"""Yield words with their levels, spaces as parts of their own, and "\n" for line breaks."""
    for text, level in pieces:
        if level:
            yield text, level
            continue
        for number, row in enumerate(ANY_LINE_BREAK.split(text)):
            if number:
                yield "\n", 0
            for part in re.findall(r"\s+|\S+", row):
                yield elide(visible(part), LONGEST_DRAWN_WORD), 0


def text_size(explanations: Explanations, inches: float) -> tuple[float, float]:
    """Return the size of the figure of a text, in inches."""
    words = placed_words(figures.leader(explanations), inches * POINTS - 2 * PADDING)
    lines = 1 + max((word.line for word in words), default=0)
    # Three lines more: the headline, the meaning of the colors, and a gap.
    return inches, ((lines + 3) * LINE_HEIGHT + 2 * PADDING) / POINTS


def plot_text(explanations: Explanations, ax: Any) -> None:
    """Draw the text with the colors of its words, below a headline and the meaning of the
    colors.
    """
    e = figures.leader(explanations)
    wide, high = (POINTS * inches for inches in ax.figure.get_size_inches())
    # The text has the whole picture, because it needs no axes.
    ax.set_position((0, 0, 1, 1))
    ax.set(xlim=(0, wide), ylim=(high, 0))
    ax.axis("off")
    top = PADDING + LINE_HEIGHT
    # Letters of a headline, which become smaller if it is too long.
    head = figures.headline(explanations)
    size = min(12.0, 12.0 * (wide - 2 * PADDING) / text_width(head, 12, bold=True))
    ax.text(PADDING, top, *plain_words([head], 200), fontsize=size, weight="bold")
    words = placed_words(e, wide - 2 * PADDING)
    key = _meaning_of_colors(e)
    x = 0.0
    for word in key:
        taken = text_width(word.text)
        # The key is painted like the text, so that it needs no patches and labels of its own.
        _draw_word(ax, word._replace(x=x, width=taken), top, e)
        x += taken
    for word in words:
        _draw_word(ax, word, top=top + 2.5 * LINE_HEIGHT, e=e)


def _meaning_of_colors(e: Explanation) -> list[PlacedWord]:
    """Return a line that says what the colors mean, painted in them."""
    output = elide(output_name(e.output), LONGEST_DRAWN_WORD)
    if e.info.kind != "signed" or not e.trusted:
        parts = [(f"{e.title}: ", 0), ("strong", 4), (", without sign", 0)]
    else:
        parts = [
            (f"{e.title}: ", 0),
            (f"raises {output}", 3),
            (" and ", 0),
            (f"lowers {output}", -3),
        ]
    return [PlacedWord(text=text, x=0.0, line=1, width=0.0, level=level) for text, level in parts]


def _draw_word(ax: Any, word: PlacedWord, top: float, e: Explanation) -> None:
    """Draw a word, and its color behind it."""
    # The width of the underline of a word against the output, by level, in points.
    underlines = (0.7, 1.1, 1.5, 2.0)
    # The strength of the colors of the levels 1 to 4 on white, as in the report on paper.
    color_strengths = (0.16, 0.30, 0.45, 0.62)
    left = PADDING + word.x
    baseline = top + word.line * LINE_HEIGHT
    if word.level:
        if e.info.kind != "signed" or not e.trusted:
            color = UNSIGNED
        elif word.level > 0:
            color = FOR
        else:
            color = AGAINST
        strength = color_strengths[abs(word.level) - 1]
        patches = import_matplotlib("patches")
        # The box of a word: from above its letters to below its baseline, in points.
        box = patches.Rectangle(
            (left - 0.8, baseline - 10.5), word.width + 1.6, 14.0, color=rgb(color), alpha=strength
        )
        box.set_linewidth(0)
        ax.add_patch(box)
        if word.level < 0 and color == AGAINST:
            ends = [left - 0.8, left + word.width + 0.8]
            line = underlines[abs(word.level) - 1]
            ax.plot(ends, [baseline + 3.5] * 2, color=rgb(AGAINST), linewidth=line)
    # matplotlib would read what is between two dollar signs as a formula.
    ax.text(left, baseline, word.text.replace("$", r"\$"), fontsize=LETTER_SIZE)


def headline_explanation(explanations: Explanations) -> Explanation:
    """Return the explanation whose scores add up to the prediction, or raise an error if it was not
    computed.
    """
    name = explanations.evidence.headline
    # Only scores that add up to the prediction make a waterfall.
    if name not in explanations:
        raise ValueError(
            f"figure: expected the method {name!r} among the explanations, got "
            f"{', '.join(explanations)}"
        )
    return explanations[name]


def waterfall_size(explanations: Explanations, inches: float) -> tuple[float, float]:
    """Return the size of the figure of a waterfall, in inches."""
    bars = waterfall(headline_explanation(explanations)).bars
    # The title and the axis take an inch, and a bar with its label about a quarter of one.
    return inches, 1.0 + 0.27 * len(bars)


def plot_waterfall(explanations: Explanations, ax: Any) -> None:
    """Draw how the scores add up, from the baseline at the top to the prediction at the bottom."""
    e = headline_explanation(explanations)
    steps = waterfall(e)
    # The axis of matplotlib goes upwards, and the baseline belongs on top.
    places = np.arange(len(steps.bars))[::-1].tolist()
    for place, bar in zip(places, steps.bars, strict=True):
        _draw_step(ax, place, bar)
    for place, bar in zip(places[:-1], steps.bars[:-1], strict=True):
        # A thin line from the end of a bar to the start of the next one.
        # The sum so far is where the bar ends, which is on the left of a bar that lowers it.
        end = bar.left if bar.kind == "against" else bar.right
        ax.plot([end, end], [place - 0.36, place - 1 + 0.36], color="0.6", linewidth=0.6)
    labels = plain_words((bar.label for bar in steps.bars), 28)
    ax.set_yticks(places, labels, fontsize=8.5)
    for label, bar in zip(ax.get_yticklabels(), steps.bars, strict=True):
        if bar.kind == "end":
            label.set_fontweight("bold")
    at = [position for position, _ in steps.ticks]
    ax.set_xticks(at, [text.replace("-", "\N{MINUS SIGN}") for _, text in steps.ticks], fontsize=8)
    # Room for the numbers right of the bars.
    ax.set_xlim(0, 1.2)
    ax.set_ylim(-0.7, len(places) - 0.4)
    ax.tick_params(length=0)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_bounds(0, 1)
    ax.spines["bottom"].set_color("0.6")
    ax.set_title(
        *plain_words([_how_scores_add_up(explanations)], 120), fontsize=9.5, loc="left", wrap=True
    )


def _how_scores_add_up(explanations: Explanations) -> str:
    """State what a waterfall shows."""
    things = explanations.evidence.target.players
    what = explanations.scale.of_output(visible(explanations.output))
    return f"How the {things} move {what}: orange raises it, blue lowers it"


def _draw_step(ax: Any, place: int, bar: Bar) -> None:
    """Draw one bar of a waterfall and its number."""
    bold = "normal"
    if bar.kind == "end":
        ax.plot([bar.left] * 2, [place - 0.36, place + 0.36], color="black", linewidth=2)
        bold = "bold"
    else:
        color = rgb(FOR if bar.kind == "for" else AGAINST)
        ax.barh(place, bar.right - bar.left, left=bar.left, color=color, height=0.72)
    end = bar.right
    if bar.error:
        # The interval is around the end at which the sum arrives.
        tip = bar.right if bar.kind == "for" else bar.left
        ax.plot([tip - bar.error, tip + bar.error], [place] * 2, color="black", linewidth=1)
        end = max(end, tip + bar.error)
    number = bar.text.replace("-", "\N{MINUS SIGN}")
    options = {"textcoords": "offset points", "va": "center", "fontsize": 8.5, "weight": bold}
    ax.annotate(number, (end, place), (5, 0), **options)


def sentences_size(explanations: Explanations, inches: float) -> tuple[float, float]:
    """Return the size of the figure of sentences, in inches."""
    rows = min(MOST_BARS, len(explanations.sentences().labels))
    # The title and the axis take an inch, and a sentence somewhat more than a bar of one line.
    return inches, 1.0 + 0.29 * rows


def plot_sentences(explanations: Explanations, ax: Any) -> None:
    """Draw the score of each sentence next to it, in the order of the text; the strongest ones of a
    long text.
    """
    # Tuning: the number of characters of a sentence next to its bar.
    longest_bar_label = 62
    sentences = explanations.sentences()
    scale = explanations.scale
    scores = np.asarray(sentences.scores)
    # The strongest sentences in the order of the text, so that they still read as a text.
    shown = np.sort(np.argsort(-np.abs(scores), kind="stable")[:MOST_BARS])
    places = np.arange(len(shown))[::-1]
    largest = float(np.abs(scores[shown]).max(initial=0.0)) or 1.0
    for place, j in zip(places.tolist(), shown.tolist(), strict=True):
        score = float(scores[j])
        ax.barh(place, score, color=rgb(FOR if score >= 0 else AGAINST), height=0.7)
        offset = 4 if score >= 0 else -4
        side = "left" if score >= 0 else "right"
        number = scale.change(score, "+.2f").replace("-", "\N{MINUS SIGN}")
        options = {"textcoords": "offset points", "va": "center", "fontsize": 8, "ha": side}
        ax.annotate(number, (score, place), (offset, 0), **options)
    texts = [ANY_LINE_BREAK.sub(" ", sentences.labels[j]).strip() for j in shown.tolist()]
    ax.set_yticks(places, plain_words(texts, longest_bar_label), fontsize=8)
    ax.axvline(0, color="0.3", linewidth=0.8)
    # Room for the numbers on the sides that have bars.
    left = 1.75 if scores[shown].min(initial=0.0) < 0 else 0.02
    right = 1.75 if scores[shown].max(initial=0.0) > 0 else 0.02
    ax.set_xlim(-left * largest, right * largest)
    ax.set_ylim(-0.8, len(shown) - 0.2)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
    what = scale.of_output(visible(explanations.output))
    title = f"How the sentences move {what}: orange raises it, blue lowers it"
    if len(shown) < len(scores):
        title += f"\n(the {len(shown)} strongest of {len(scores)} sentences)"
    # The title is above the sentences, too, not only above the bars.
    ax.figure.suptitle(title.replace("$", r"\$"), fontsize=9.5, x=0.01, ha="left")
