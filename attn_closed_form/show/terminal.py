"""Explanations in a terminal: Figure 1 of Lopardo et al. 2024, one row per method, in colour or in marks.

With colour, a word's background is blue (for), orange (against) or purple (no sign), stronger for stronger words.
Without, marks follow the word: +, ++, +++, ++++ for, - to ---- against, * to **** without sign. Both use one scale.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from .palette import AGAINST, FOR, OPACITY, UNSIGNED, levels, mix
from .sanitize import elide, visible, width

RESET = "\x1b[0m"
LABEL_COLUMNS = 15
LONGEST_WORD = 40
NUMBER_COLUMNS = 17


def use_colour(stream: TextIO, choice: str = "auto") -> bool:
    """Whether to colour what goes to `stream`: "always", "never", or by NO_COLOR, FORCE_COLOR, TERM and the stream."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def headline(found: Explanations) -> str:
    """What the model said, in one line.

    >>> from attn_closed_form import load_demo_model
    >>> print(headline(load_demo_model().explain("A fine film", "loo")))
    positive, 65 % (logit +0.6245; -0.0176 with every player absent)
    """
    evidence = found.evidence
    values = f"{evidence.prediction:+.4f}; {evidence.absent_value:+.4f} with every player absent"
    chances = evidence.probabilities
    if chances is None:
        return f"{visible(found.output)} {values}"
    best = max(chances, key=lambda name: chances[name])
    explained = "logit" if found.output == best else f"explained: {visible(found.output)}, logit"
    return f"{visible(best)}, {chances[best]:.0%} ({explained} {values})".replace("%", " %", 1)


def table(found: Explanations, columns: int = 80, colour: bool = False) -> str:
    r"""One row per method, wrapped to `columns`, with a legend.

    >>> from attn_closed_form import Scores
    >>> found = Scores().explain({"label": ["x", "y"], "s": [0.0, 1.0], "v": [1.0, -2.0]}, ["shapley", "alpha-avg"])
    >>> print(table(found).split("\n\n")[0])
    Shapley          x++ y----
    α-avg            x** y****
    """
    rows = list(found.values())
    lines = [line for row in rows for line in _row(row, max(columns, LABEL_COLUMNS + 20), colour)]
    return "\n".join([*lines, "", *_legend(rows, colour)])


def _row(row: Explanation, columns: int, colour: bool) -> list[str]:
    signed = row.info.kind == "signed"
    level = levels(row.strength)
    pieces = []
    for place in row.occurrences:
        word = elide(visible(row.text[place.start : place.end]), LONGEST_WORD)
        if row.unknown[place.player]:
            word += "[UNK]"
        pieces.append(_piece(word, int(level[place.player]), signed, colour))
    if row.unseen:
        more = f"… {len(row.unseen)} more not seen"
        pieces += [(part, width(part)) for part in more.split(" ")]
    return _wrap(row.info.label, pieces, columns)


def _piece(word: str, level: int, signed: bool, colour: bool) -> tuple[str, int]:
    """A word as it is printed, and the columns that it takes."""
    if colour:
        return paint(word, level, signed), width(word)
    marked = word + mark(level, signed)
    return marked, width(marked)


def mark(level: int, signed: bool) -> str:
    """The marks of a level: ++, ---, or ** where there is no sign.

    >>> mark(2, True), mark(-3, True), mark(1, False)
    ('++', '---', '*')
    """
    return ("*" if not signed else "+" if level > 0 else "-") * abs(level)


def paint(word: str, level: int, signed: bool) -> str:
    """The word on a background of its level; black on a light colour reads on dark and light terminals alike."""
    if level == 0:
        return word
    hue = UNSIGNED if not signed else FOR if level > 0 else AGAINST
    red, green, blue = mix(hue, OPACITY[abs(level)])
    return f"\x1b[38;5;16;48;5;{_nearest(red, green, blue)}m{word}{RESET}"


def _nearest(red: int, green: int, blue: int) -> int:
    """The nearest of the 6 x 6 x 6 colours that every 256-colour terminal has."""
    steps = (0, 95, 135, 175, 215, 255)
    r, g, b = (min(range(6), key=lambda i: abs(steps[i] - c)) for c in (red, green, blue))
    return 16 + 36 * r + 6 * g + b


def _wrap(label: str, pieces: Sequence[tuple[str, int]], columns: int) -> list[str]:
    """Words in lines of at most `columns`, indented under the label."""
    indent = LABEL_COLUMNS + 2
    lines, used = [label + " " * (indent - width(label))], indent
    fresh = True
    for printed, taken in pieces:
        if not fresh and used + 1 + taken > columns:
            lines.append(" " * indent)
            used, fresh = indent, True
        lines[-1] += printed if fresh else " " + printed
        used += taken + (0 if fresh else 1)
        fresh = False
    return lines


def _legend(rows: Sequence[Explanation], colour: bool) -> list[str]:
    def sample(level: int, signed: bool) -> str:
        return paint(" word ", level, signed) if colour else mark(level, signed)

    parts = []
    if any(row.info.kind == "signed" for row in rows):
        parts.append(f"{sample(4, True)} raises the prediction, {sample(-4, True)} lowers it")
    if any(row.info.kind != "signed" for row in rows):
        parts.append(f"{sample(4, False)} strong, without sign")
    lines = ["; ".join(parts)]
    bounds = {row.error for row in rows if row.error is not None}
    if bounds:
        names = ", ".join(row.info.label for row in rows if row.error is not None)
        lines.append(f"guaranteed error: {max(bounds):.0e} ({names})")
    if any(any(row.unknown) for row in rows):
        lines.append("[UNK]: not in the vocabulary; the model cannot tell these words apart")
    return lines


def numbers(found: Explanations, top: int, columns: int = 80) -> str:
    """The `top` strongest players of the first method, with their scores in every method: plain columns.

    Where the methods do not fit side by side in `columns`, blocks of them follow each other.
    """
    explanations = list(found.values())
    first = explanations[0]
    order = sorted(range(len(first.labels)), key=lambda j: -abs(first.strength[j]))[:top]
    names = [elide(visible(first.labels[j]), 24) for j in order]
    pad = max(map(width, names))
    fitting = max(1, (columns - pad) // (NUMBER_COLUMNS + 2))
    blocks = []
    for start in range(0, len(explanations), fitting):
        part = explanations[start : start + fitting]
        lines = [" " * pad + "".join(f"  {e.method:>{NUMBER_COLUMNS}}" for e in part)]
        lines += [
            name + " " * (pad - width(name)) + "".join(f"  {e.scores[j]:>+{NUMBER_COLUMNS}.6g}" for e in part)
            for name, j in zip(names, order, strict=True)
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def methods_table() -> str:
    """The table of methods, one line per method."""
    return "\n".join(f"{m.name:<18} {m.label:<15} {m.accuracy:<12} {m.summary}" for m in METHODS.values())
