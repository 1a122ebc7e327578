"""Output for a terminal: the answer, one row per method in color or with marks, and the card of a
model.

With color, a word is vermilion (raises the prediction), blue (lowers it) or gray (no sign), and
stronger words are bold, underlined, or in reverse. Without color, marks follow the word: + to ++++
for, - to ---- against, * to **** without sign. Both use one scale. Files may come from untrusted
sources, so every text goes through `visible`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from ..explanations.answers import scale_of_groups
from ..explanations.comparison import Comparison
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from ..models.scale import percent
from ..models.text import tokenize
from ..models.text_classifier import TextClassifier
from . import figures
from .bars import Bar
from .comparison_report import changes_figure, comparison_headline, shared_end
from .sanitize import elide, fitted_lines, output_name, visible, width
from .waterfall import waterfall

# Ends a color.
RESET = "\x1b[0m"
# Tuning: longer labels of bars and names of rows are shortened in the middle.
BAR_LABEL_COLUMNS = 24
# A bar in color is made of blocks.
BAR = "█"
# The colors of words and bars among the 256 of a terminal. Letters have them, not backgrounds: a
# light background would glare on a dark terminal, and most for the weakest words. These three have
# a contrast of at least 3.8 with black and with white.
TERMINAL = {"for": 166, "against": 32, "unsigned": 244}
# How the levels 1 to 4 are told apart on any background: plain, bold, bold and underlined, and with
# the color behind the letters.
LEVEL_STYLES = ("", "1;", "1;4;", "1;7;")

Printed = tuple[str, int]  # a word as it is printed, and the columns that it takes


def use_color(stream: TextIO, choice: str = "auto") -> bool:
    """Decide whether to color the output: "always", "never", or by NO_COLOR, FORCE_COLOR, TERM and
    `stream`.
    """
    if choice != "auto":
        return choice == "always"
    # The conventions of no-color.org and of most tools: NO_COLOR wins over FORCE_COLOR.
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def answer(explanations: Explanations, columns: int = 80, color: bool = False) -> str:
    r"""Format the answer: the prediction, the words behind it, how they add up, and the certified
    reasons.

    >>> from attn_closed_form import load_demo_model
    >>> explanations = load_demo_model().explain("A fine film", "shapley")
    >>> print("\n\n".join(answer(explanations, columns=60).split("\n\n")[:3]))
    This text is rated positive: 61%
    Explained: the probability of positive, in percentage
    points.
    <BLANKLINE>
    A fine++++ film
    ++++ raises positive, ---- lowers it
    <BLANKLINE>
    baseline         50.0%
    fine      +11.3 points  ++++++++++++++++++++++++++++++++++
    a           0.0 points
    film        0.0 points
    positive         61.3%
    """
    # Begins bold text.
    bold = "\x1b[1m"
    e = figures.leader(explanations)
    fit = explanations.fit
    evidence = explanations.evidence
    headline = _prose(figures.full_headline(explanations), columns)
    if color:
        headline = f"{bold}{headline}{RESET}"
    blocks = [f"{headline}\n{_prose(explanations.explained, columns)}"]
    # Before the words, because it says how to read their numbers.
    if saturated := figures.saturation(explanations):
        blocks.append(_prose(saturated, columns))
    # Colors and reasons would explain what does not depend on the words.
    if told := figures.notice(explanations):
        return "\n\n".join([*blocks, _prose(told, columns)])
    blocks.append(f"{_wrap(_words(e, color), columns)}\n{_meaning([e], color, columns)}")
    sentences = []
    if e.method == evidence.headline:
        blocks.append(_bars(waterfall(e).bars, columns, color))
        sentences.append(figures.sampling(e))
    if evidence.model.surrogate is not None or not evidence.is_pooled:
        sentences += explanations.checked_reasons()
    if e.method == evidence.headline and evidence.has_reasons:
        sentences += explanations.reasons().sentences()
    if fit is not None:
        # The verdict on a fitted game belongs to its scores, not to the model's values above.
        sentences += [fit.verdict(), *fit.sentences()]
    return "\n\n".join([*blocks, *(_prose(text, columns) for text in sentences if text)])


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells, the first column left-aligned and the others right-aligned.

    >>> print(aligned([["class", "F1"], ["ham", "66.7%"]]))
    class      F1
    ham    66.7%
    """
    first, *others = (max(map(width, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *cells in rows:
        numbers = (f"  {cell:>{size}}" for cell, size in zip(cells, others, strict=True))
        lines.append((_padded(name, first) + "".join(numbers)).rstrip())
    return "\n".join(lines)


def _bars(steps: Sequence[Bar], columns: int, color: bool) -> str:
    """Format the steps of a waterfall, one line each."""
    # Tuning: the columns of the longest bar, if there is room for it.
    longest_bar = 40
    labels = [elide(step.label, BAR_LABEL_COLUMNS) for step in steps]
    pad = max(map(width, labels))
    # Numbers are right-aligned, so that their decimals are below each other.
    numbers = max(len(step.text) for step in steps)
    # Two spaces between the columns, and two at the end, so that no bar touches the edge.
    room = min(longest_bar, max(4, columns - pad - numbers - 6))
    longest = max(step.right - step.left for step in steps) or 1.0
    lines = []
    for label, step in zip(labels, steps, strict=True):
        length = round(room * (step.right - step.left) / longest)
        # A bar of no length would still switch the color on and off.
        if color and length:
            bar = f"\x1b[38;5;{TERMINAL[step.kind]}m{BAR * length}{RESET}"
        elif step.kind == "for":
            bar = "+" * length
        else:
            bar = "-" * length
        lines.append(f"{_padded(label, pad)}  {step.text:>{numbers}}  {bar}".rstrip())
        if step.note:
            lines.append(_prose(f"({step.note})", columns))
    return "\n".join(lines)


def comparison_text(comparison: Comparison, columns: int = 80, color: bool = False) -> str:
    """Format a comparison: both predictions, both texts, and the difference word by word."""
    blocks = [_prose(comparison_headline(comparison), columns)]
    blocks.append(_prose(comparison.first.explained, columns))
    for name, e in zip(comparison.names, (comparison.first, comparison.second), strict=True):
        text = _wrap(_words(e, color, shared_end(comparison)), columns)
        blocks.append(f"{_prose(visible(name), columns)}:\n{text}")
    blocks[-1] += f"\n{_meaning([comparison.first], color, columns)}"
    blocks.append(_bars(changes_figure(comparison).bars, columns, color))
    return "\n\n".join(blocks)


def table(explanations: Explanations, columns: int = 80, color: bool = False) -> str:
    r"""Format one row per method, by family, with a legend; methods with the same colors share a
    row.

    >>> from attn_closed_form import ScoreTable
    >>> scores = {"label": ["x", "y"], "s": [0.0, 1.0], "v": [1.0, -2.0]}
    >>> print(table(ScoreTable().explain(scores, ["shapley", "banzhaf"])).split("\n\n")[0])
    Shapley, Banzhaf
                     x++ y----
    """
    # Tuning: the minimum width of a table of words; narrower terminals wrap it themselves.
    narrowest = 36
    # Tuning: the columns of a method's name left of its words.
    label_columns = 20
    families = figures.method_rows(explanations)
    room = max(columns, narrowest)
    # On a narrow terminal, the words are below the name of their method.
    if room >= 2 * label_columns + 20:
        indent = label_columns + 2
    else:
        indent = 2
    blocks = []
    for family in families:
        lines = []
        if len(families) > 1:
            lines.append(_prose(f"{family.title}. {family.meaning}", columns))
        for row in family.rows:
            words = _wrap(_words(explanations[row.methods[0]], color), room, indent)
            # Words follow the title, or start below it if the title is long or the terminal narrow.
            if width(row.title) <= indent - 2:
                # The title takes the place of the blanks before the first line of words.
                lines.append(_padded(row.title, indent) + words[indent:])
            else:
                lines += [_prose(row.title, room), words]
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, _legend(list(explanations.values()), color, columns)])


def _words(e: Explanation, color: bool, largest: float | None = None) -> list[Printed]:
    """Format the words of a text; the strongest color belongs to the score `largest`, if it is
    given.
    """
    # Tuning: a longer word is shortened in the middle, so that it fits into one line.
    word_columns = 40
    text = figures.colored_text(e, largest)
    words = []
    # Tuning: characters of a text that fit into about three screens.
    most_characters = 6000
    shown = [piece for piece in text.pieces if piece.player is not None]
    used = 0
    for number, piece in enumerate(shown):
        assert piece.player is not None  # the others are left out above
        if used > most_characters:
            words += _plain(f"… {len(shown) - number:,} more are in the report")
            break
        word = elide(visible(piece.text), word_columns)
        if text.unknown[piece.player]:
            word += "[UNK]"
        words.append(printed_word(word, text.levels[piece.player], text.signed, color))
        used += width(word)
    if text.unseen:
        words += _plain(f"… {text.unseen} more not read")
    return words


def _plain(text: str) -> list[Printed]:
    return [(word, width(word)) for word in visible(text).split()]


def printed_word(word: str, level: int, signed: bool, color: bool) -> Printed:
    """Return a word with its color, or with its mark if there are no colors."""
    if not color:
        marked = word + mark(level, signed)
        return marked, width(marked)
    if level == 0:
        return word, width(word)
    side = "unsigned"
    if signed:
        side = "for" if level > 0 else "against"
    style = LEVEL_STYLES[abs(level) - 1]
    painted = f"\x1b[{style}38;5;{TERMINAL[side]}m{word}{RESET}"
    return painted, width(word)


def mark(level: int, signed: bool) -> str:
    """Return the marks of a level: ++, ---, or ** without a sign."""
    if not signed:
        sign = "*"
    elif level > 0:
        sign = "+"
    else:
        sign = "-"
    return sign * abs(level)


def _wrap(words: Iterable[Printed], columns: int, indent: int = 0) -> str:
    """Wrap words into lines of at most `columns`."""
    lines = [""]
    used = 0
    for printed, taken in words:
        if used and indent + used + 1 + taken > columns:
            lines.append("")
            used = 0
        if used:
            lines[-1] += " "
            used += 1
        lines[-1] += printed
        used += taken
    return "\n".join(" " * indent + line for line in lines)


def _prose(text: str, columns: int) -> str:
    return _wrap(_plain(text), columns)


def _meaning(rows: Sequence[Explanation], color: bool, columns: int) -> str:
    """Explain the colors or marks of words in one line."""

    def sample(level: int, signed: bool) -> Printed:
        word = " word " if color else ""
        return printed_word(word, level, signed, color)

    words = []
    signed = [row for row in rows if row.info.kind == "signed"]
    if signed:
        output = elide(output_name(signed[0].output), BAR_LABEL_COLUMNS)
        words += [sample(4, True), *_plain(f"raises {output},"), sample(-4, True)]
        words += _plain("lowers it")
    if len(signed) < len(rows):
        if signed:
            # A comma instead of the end of the sentence, because one more meaning follows.
            words[-1:] = _plain("it,")
        words += [sample(4, False), *_plain("strong, without sign")]
    return _wrap(words, columns)


def _legend(rows: Sequence[Explanation], color: bool, columns: int) -> str:
    """Explain the colors, and state the errors of the methods."""
    lines = [_meaning(rows, color, columns)]
    errors = {row.title: row.error for row in rows if row.error is not None}
    if errors:
        lines.append(
            _prose(f"guaranteed error: {max(errors.values()):.0e} ({', '.join(errors)})", columns)
        )
    lines += [_prose(text, columns) for text in filter(None, map(figures.sampling, rows))]
    if any(any(row.unknown) for row in rows):
        lines.append(
            _prose("[UNK]: not in the vocabulary; the model cannot tell these words apart", columns)
        )
    return "\n".join(lines)


def numbers(explanations: Explanations, top: int, columns: int = 80) -> str:
    """Format the scores of the `top` strongest players of the leading method in every method.

    If the methods do not fit side by side in `columns`, they are split into several blocks.
    """
    order = figures.strongest_players(explanations, top)
    names = figures.names(explanations.evidence)
    labels = ["", *(elide(names[j], BAR_LABEL_COLUMNS) for j in order)]
    # Each block is a list of table columns, of which the labels are the first.
    blocks = [[labels]]
    used = max(map(width, labels))
    for explanation in explanations.values():
        scale = explanation.scale
        cells = [scale.digits(explanation.scores[j], "+.6g") for j in order]
        column = [scale.titled(explanation.method), *cells]
        needed = 2 + max(map(width, column))
        # A table that is wider than the terminal would be broken in the middle of numbers. There
        # is at least one method per block, however narrow the terminal is.
        if len(blocks[-1]) > 1 and used + needed > columns:
            blocks.append([labels])
            used = max(map(width, labels))
        blocks[-1].append(column)
        used += needed
    tables = [aligned(list(zip(*block, strict=True))) for block in blocks]
    return "\n\n".join(tables)


def reasons_text(explanations: Explanations, columns: int = 80) -> str:
    """Format the range of the prediction, and the sentences of a text with their scores.

    >>> from attn_closed_form import load_demo_model
    >>> explanations = load_demo_model().explain("A slow start. A wonderful film!", "shapley")
    >>> print(reasons_text(explanations).splitlines()[-1])  # doctest: +ELLIPSIS
    +...  A wonderful film!
    """
    lines = [_prose(explanations.reasons().range_sentence(), max(20, columns))]
    if explanations.evidence.units.text is not None:
        lines += ["", groups_text(explanations, "sentences", columns)]
    return "\n".join(lines)


def groups_text(explanations: Explanations, grouping: str, columns: int = 80) -> str:
    """Format the scores of groups such as sentences, one line each."""
    groups = explanations.grouped(grouping)
    scale = scale_of_groups(explanations.scale, groups)
    changes = [scale.change(score) for score in groups.scores]
    room = max(map(len, changes))
    lines = []
    for number, label in zip(changes, groups.labels, strict=True):
        shown = elide(visible(label).strip(), max(20, columns - room - 2))
        lines.append(f"{number:>{room}}  {shown}".rstrip())
    return "\n".join(lines)


def methods_table(columns: int = 240) -> str:
    """Format the table of methods, with the summary of each in the last column."""
    lines = []
    for method in METHODS.values():
        name = method.name
        if method.alias:
            name += f" ({method.alias})"
        head = f"{name:<25} {method.label:<20} {method.accuracy:<11} "
        if columns < 2 * len(head):
            # A narrow terminal has the facts below the name.
            lines += [name, f"  {method.label} ({method.accuracy}): {method.summary}"]
        else:
            lines.append(head + " " + method.summary)
    return fitted_lines("\n".join(lines), columns)


# The sizes on the card of a model, by the letters of the papers.
MODEL_SIZES = {
    "D": "words in the vocabulary",
    "T_max": "positions: [CLS] and the first words of a text",
    "K": "attention heads",
    "C": "outputs",
    "d_e": "size of an embedding",
    "d_att": "size of keys and queries",
    "d_out": "size of values",
}
# Tuning: the number of classes that a card lists, about a screen.
MOST_LISTED = 40
# Tuning: the columns of the name of a class on a card.
NAME_COLUMNS = 32


def scores_table(scores: Mapping[str, Any]) -> str:
    """Format accuracy, macro-F1 and one line per class, from the `scores` that the trainer stores
    in a model file.

    >>> line = {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "texts": 4}
    >>> print(scores_table({"accuracy": 0.75, "macro_f1": 2 / 3, "classes": {"ham": line}}))
    accuracy 75.0%, macro-F1 66.7%
    <BLANKLINE>
    class  precision   recall      F1  texts
    ham       50.0%  100.0%  66.7%      4
    """
    rows = [["class", "precision", "recall", "F1", "texts"]]
    classes = list(scores["classes"].items())
    for name, row in classes[:MOST_LISTED]:
        shares = (percent(float(row[kind])) for kind in ("precision", "recall", "f1"))
        rows.append([elide(visible(str(name)), NAME_COLUMNS), *shares, f"{int(row['texts']):,}"])
    if len(classes) > MOST_LISTED:
        more = f"\nand {len(classes) - MOST_LISTED:,} more classes"
    else:
        more = ""
    total = (
        f"accuracy {percent(float(scores['accuracy']))}, macro-F1 "
        f"{percent(float(scores['macro_f1']))}"
    )
    return f"{total}\n\n{aligned(rows)}{more}"


def baseline_line(model: TextClassifier) -> str:
    """Return the prediction for a text without words, next to the share of that class among the
    training texts, if the card has it.
    """
    baseline = model.predict_proba([""])[0]
    largest = int(baseline.argmax())
    name = elide(visible(model.outputs[largest]), NAME_COLUMNS)
    # What the model says without words is where every waterfall of it begins.
    line = f"{name}, {percent(float(baseline[largest]))}, if all words are absent"
    prior = (model.card or {}).get("prior")
    if isinstance(prior, list) and len(prior) == len(baseline):
        line += f"; the class prior is {percent(float(prior[largest]))}"
    return line


def model_card(model: TextClassifier, source: str, columns: int = 240) -> str:
    """Format the card of a model that was read from `source`."""
    card = model.card or {}
    parts = [_facts(model, source)]
    # What the trainer stored; parts of an unexpected form are omitted.
    if isinstance(card.get("data"), str):
        parts.append(f"trained on   {elide(visible(card['data']), 80)}")
    for name, title in (("held_out", "held-out"), ("test", "test")):
        try:
            parts.append(_measured(card, name, title))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue
    for name in ("settings", "versions"):
        entries = card.get(name)
        if isinstance(entries, dict) and entries:
            parts.append(f"\n{name:<11}  {_pairs(entries)}")
    return fitted_lines("\n".join(parts), columns)


def _facts(model: TextClassifier, source: str) -> str:
    """Return the lines about the model itself."""
    # What the tokenizer of the package reads.
    words_read = (
        "lower-case words with their accents, ratings such as 8/10, ! and ?, emoji, single "
        "characters of Chinese, Japanese and Thai; other punctuation and HTML tags are not read"
    )
    # The same line for a model of texts that are split already, or with a tokenizer of the user.
    other_tokens = (
        "the words between spaces, or those of the tokenizer that the model was trained with"
    )
    if model.tokenizer is tokenize:
        tokens = words_read
    else:
        tokens = other_tokens
    weights = model.weights
    parameters = sum(array.size for array in weights.arrays().values())
    classes = ", ".join(elide(visible(name), NAME_COLUMNS) for name in model.outputs[:MOST_LISTED])
    if len(model.outputs) > MOST_LISTED:
        classes += f" and {len(model.outputs) - MOST_LISTED:,} more"
    # Special tokens are not words of a text, so the first words on the card leave them out.
    special = (weights.cls, weights.unk)
    words = [word for i, word in enumerate(model.vocabulary) if i not in special]
    lines = [
        f"model        {visible(source)}",
        f"classes      {classes}",
        f"temperature  {model.temperature:.4g} (divides the logits in probabilities)",
    ]
    for name, meaning in MODEL_SIZES.items():
        size = getattr(weights, name)
        if size is not None:
            lines.append(f"{name:<11}  {size:<9,} {meaning}")
    if weights.T_max is None:
        lines.append("length       any       number of words: the model has no positions")
    lines += [
        f"parameters   {parameters:,}",
        f"tokens       {tokens}",
        f"first words  {' '.join(elide(visible(word), NAME_COLUMNS) for word in words[:12])} …",
        f"baseline     {baseline_line(model)}",
    ]
    return "\n".join(lines)


def _measured(card: Mapping[str, Any], name: str, title: str) -> str:
    """Return the table of scores on some texts. A card of an unexpected form raises an error."""
    scores = card[name]
    refit = ""
    # The stored model was trained again on all texts.
    if name == "held_out" and "refit" in card:
        texts = int(card["refit"]["texts"])
        epochs = int(card["refit"]["epochs"])
        refit = f", before training once more on all {texts:,} texts for {epochs} epochs"
    return f"\nOn {int(scores['texts']):,} {title} texts{refit}:\n{scores_table(scores)}"


def _pairs(entries: Mapping[str, Any]) -> str:
    """Return names with their values, separated by commas."""
    shown = []
    for name, value in entries.items():
        shown.append(f"{elide(visible(str(name)), 32)} {elide(visible(str(value)), 32)}")
    return elide(", ".join(shown), 1000)
