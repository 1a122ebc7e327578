"""Reasons and scores of sentences in a terminal: paragraphs of plain English, then one line per sentence."""

from __future__ import annotations

import textwrap

from ..explanations.explanation import Explanations
from .sanitize import elide, visible, width

NUMBER = 8


def reasons_text(found: Explanations, columns: int = 80) -> str:
    """The range of the prediction, and the sentences of a text with their scores; the answer has the reasons.

    >>> from attn_closed_form import load_demo_model
    >>> found = load_demo_model().explain("A slow start. A wonderful film!", "shapley")
    >>> print(reasons_text(found).splitlines()[-1])  # doctest: +ELLIPSIS
    +...  A wonderful film!
    """
    why = found.reasons()
    found_bounds = why.bounds
    span = f"from {found_bounds.proved_min:+.2f} to {found_bounds.proved_max:+.2f}"
    paragraphs = [f"Over all choices of {why.things} the prediction goes {span}."]
    blocks = ["\n".join(textwrap.wrap(visible(text), max(20, columns))) for text in paragraphs]
    if found.evidence.units.text is not None:
        blocks.append("\n".join(_sentence_lines(found, columns)))
    return "\n\n".join(blocks)


def _sentence_lines(found: Explanations, columns: int) -> list[str]:
    scores = found.sentences()
    lines = []
    for label, score in zip(scores.labels, scores.scores, strict=True):
        text = elide(" ".join(visible(label).split()), max(20, columns - NUMBER - 1))
        lines.append(f"{score:+.4f}".rjust(NUMBER - 1) + "  " + text if width(text) else f"{score:+.4f}")
    return lines
