"""Explanations in a terminal: the answer first, then one row per method, in colour or in marks.

With colour, a word's background is vermilion (raises the prediction), blue (lowers it) or grey (no sign), stronger for
stronger words. Without, marks follow the word: +, ++, +++, ++++ for, - to ---- against, * to **** without sign. Both
use one scale.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import FAMILIES, METHODS
from .answer import families, leader, sampling, verdict, waterfall
from .palette import TERMINAL, levels
from .sanitize import elide, visible, width

RESET = "\x1b[0m"
LABEL_COLUMNS = 15
LONGEST_WORD = 40
NUMBER_COLUMNS = 17
NARROWEST = 36
BAR = "█"


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
    >>> print(headline(load_demo_model().explain("A fine film", "leave-one-out")))
    positive, 65 % (logit +0.6245)
    """
    said = verdict(found)
    if said.probability is None:
        return f"{visible(said.name)} {said.logit:+.4f}"
    explained = "logit" if said.output == said.name else f"logit of {visible(said.output)}"
    return f"{visible(said.name)}, {100 * said.probability:.0f} % ({explained} {said.logit:+.4f})"


def answer(found: Explanations, columns: int = 80, colour: bool = False) -> str:
    r"""The answer: what the model said, the words that made it, how they add up, and the reasons that are proved.

    >>> from attn_closed_form import load_demo_model
    >>> found = load_demo_model().explain("A fine film", "shapley")
    >>> print("\n\n".join(answer(found, columns=60).split("\n\n")[:3]))
    positive, 65 % (logit +0.6245)
    <BLANKLINE>
    A fine++++ film+
    <BLANKLINE>
    no word known  -0.0176
    fine           +0.4954  ++++++++++++++++++++++++++++++++++
    film           +0.1255  +++++++++
    a              +0.0213  +
    positive       +0.6245
    """
    e = leader(found)
    blocks = [headline(found), "\n".join(_wrap(_pieces(e, colour), columns))]
    fit = found.evidence.fit
    if fit is not None:
        blocks += ["\n".join(_prose(visible(text), columns)) for text in fit.sentences()]
    if e.method == "shapley":
        blocks.append("\n".join(_waterfall(e, columns, colour)))
        of = "" if fit is None else f"Of the {fit.name}: "
        blocks += ["\n".join(_prose(of + visible(text), columns)) for text in found.reasons().sentences()]
    return "\n\n".join(blocks)


def _waterfall(e: Explanation, columns: int, colour: bool) -> list[str]:
    steps = waterfall(e)
    names = [elide(visible(step.label), 24) for step in steps]
    pad = max(map(width, names))
    room = min(40, max(4, columns - pad - 13))
    most = max(abs(step.change) for step in steps) or 1.0
    lines = []
    for name, step in zip(names, steps, strict=True):
        shown = step.change if step.players else step.end
        length = round(room * abs(step.change) / most)
        bar = _bar(length, step.change > 0, colour) if step.players and length else ""
        lines.append(f"{name}{' ' * (pad - width(name))}  {shown:+.4f}  {bar}".rstrip())
    return lines


def _bar(length: int, raises: bool, colour: bool) -> str:
    if not colour:
        return ("+" if raises else "-") * length
    return f"\x1b[38;5;{TERMINAL['for' if raises else 'against'][3]}m{BAR * length}{RESET}"


def table(found: Explanations, columns: int = 80, colour: bool = False) -> str:
    r"""One row per method, by family, wrapped to `columns`, with a legend; methods that look alike share a row.

    >>> from attn_closed_form import Scores
    >>> found = Scores().explain({"label": ["x", "y"], "s": [0.0, 1.0], "v": [1.0, -2.0]}, ["shapley", "banzhaf"])
    >>> print(table(found).split("\n\n")[0])
    Shapley, Banzhaf
                     x++ y----
    """
    blocks = []
    grouped = families(found)
    for family, rows in grouped.items():
        title, meaning = FAMILIES[family]
        lines = _prose(f"{title}. {meaning}", columns) if len(grouped) > 1 else []
        for row in rows:
            label = ", ".join(found[name].title for name in row.methods)
            lines += _labelled(label, _pieces(row.explanation, colour), max(columns, NARROWEST))
        blocks.append("\n".join(lines))
    blocks.append("\n".join(_legend(list(found.values()), colour, columns)))
    return "\n\n".join(blocks)


def _pieces(e: Explanation, colour: bool) -> list[tuple[str, int]]:
    """The words as they are printed, each with the columns that it takes."""
    signed = e.info.kind == "signed"
    level = levels(e.strength)
    pieces = []
    for place in e.occurrences:
        word = elide(visible(e.text[place.start : place.end]), LONGEST_WORD)
        if e.unknown[place.player]:
            word += "[UNK]"
        pieces.append(_piece(word, int(level[place.player]), signed, colour))
    if e.unseen:
        pieces += [(part, width(part)) for part in f"… {len(e.unseen)} more not seen".split(" ")]
    return pieces


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
    scale = TERMINAL["unsigned" if not signed else "for" if level > 0 else "against"]
    return f"\x1b[38;5;16;48;5;{scale[abs(level) - 1]}m{word}{RESET}"


def _wrap(pieces: Iterable[tuple[str, int]], columns: int, indent: int = 0) -> list[str]:
    """Words in lines of at most `columns`."""
    lines, used, fresh = [" " * indent], indent, True
    for printed, taken in pieces:
        if not fresh and used + 1 + taken > columns:
            lines.append(" " * indent)
            used, fresh = indent, True
        lines[-1] += printed if fresh else " " + printed
        used += taken + (0 if fresh else 1)
        fresh = False
    return lines


def _prose(text: str, columns: int) -> list[str]:
    return _wrap([(word, width(word)) for word in text.split()], columns)


def _labelled(label: str, pieces: Sequence[tuple[str, int]], columns: int) -> list[str]:
    """Words behind a label; under it where the label is long or the terminal narrow."""
    indent = LABEL_COLUMNS + 2 if columns >= 2 * LABEL_COLUMNS + 20 else 2
    lines = _wrap(pieces, columns, indent)
    if width(label) > indent - 2:
        return [*_prose(label, columns), *lines]
    return [label + " " * (indent - width(label)) + lines[0][indent:], *lines[1:]]


def _legend(rows: Sequence[Explanation], colour: bool, columns: int) -> list[str]:
    def sample(level: int, signed: bool) -> tuple[str, int]:
        plain = " word " if colour else mark(level, signed)
        return (paint(plain, level, signed) if colour else plain), width(plain)

    def words(text: str) -> list[tuple[str, int]]:
        return [(word, width(word)) for word in text.split()]

    pieces = []
    if any(row.info.kind == "signed" for row in rows):
        pieces += [sample(4, True), *words("raises the prediction,"), sample(-4, True), *words("lowers it")]
    if any(row.info.kind != "signed" for row in rows):
        pieces += [sample(4, False), *words("strong, without sign")]
    lines = _wrap(pieces, columns)
    bounds = {row.error for row in rows if row.error is not None}
    if bounds:
        names = ", ".join(row.title for row in rows if row.error is not None)
        lines += _prose(f"guaranteed error: {max(bounds):.0e} ({names})", columns)
    lines += [line for row in rows if sampling(row) for line in _prose(sampling(row), columns)]
    if any(any(row.unknown) for row in rows):
        lines += _prose("[UNK]: not in the vocabulary; the model cannot tell these words apart", columns)
    return lines


def numbers(found: Explanations, top: int, columns: int = 80) -> str:
    """The `top` strongest players of the leading method, with their scores in every method: plain columns.

    Where the methods do not fit side by side in `columns`, blocks of them follow each other.
    """
    explanations = list(found.values())
    first = leader(found)
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
    names = {m.name: f"{m.name} ({m.alias})" if m.alias else m.name for m in METHODS.values()}
    return "\n".join(f"{names[m.name]:<25} {m.label:<17} {m.accuracy:<11} {m.summary}" for m in METHODS.values())
