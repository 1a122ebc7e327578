"""A model card for the terminal: what a model file says about its model.

Everything in a file may come from a stranger, so every text goes through `visible`, and a card of another shape than
ours is left out rather than trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..models.text_classifier import TextClassifier
from .sanitize import elide, visible, width

SIZES = {
    "D": "words in the vocabulary",
    "T_max": "positions: [CLS] and the first words of a text",
    "K": "attention heads",
    "C": "outputs",
    "d_e": "size of an embedding",
    "d_att": "size of keys and queries",
    "d_out": "size of values",
}
TOKENS = (
    "lower-case words with their accents, ratings such as 8/10, ! and ?, emoji, single characters of Chinese, Japanese "
    "and Thai; other punctuation and HTML tags are not read"
)
MOST_CLASSES = 40
LONGEST_NAME = 32


def scores_table(scores: Mapping[str, Any]) -> str:
    """Accuracy, macro-F1, and one line per class; `scores` as the trainer keeps them in a model file.

    >>> line = {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "texts": 4}
    >>> print(scores_table({"accuracy": 0.75, "macro_f1": 2 / 3, "classes": {"ham": line}}))
    accuracy 75.0 %, macro-F1 66.7 %
    <BLANKLINE>
    class  precision  recall     F1   texts
    ham       50.0 %   100 %  66.7 %       4
    """
    lines = [f"accuracy {_percent(scores['accuracy'])}, macro-F1 {_percent(scores['macro_f1'])}", ""]
    classes = list(scores["classes"].items())
    names = [elide(visible(str(name)), LONGEST_NAME) for name, _ in classes[:MOST_CLASSES]]
    wide = max(width(name) for name in ["class", *names])
    lines.append(f"{'class':<{wide}}  precision  recall     F1   texts")
    for name, (_, row) in zip(names, classes, strict=False):
        cells = f"{_percent(row['precision']):>9}  {_percent(row['recall']):>6}  {_percent(row['f1']):>6}"
        lines.append(f"{name}{' ' * (wide - width(name))}  {cells}  {int(row['texts']):>6,}")
    if len(classes) > MOST_CLASSES:
        lines.append(f"and {len(classes) - MOST_CLASSES:,} more classes")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "100 %" if float(share) == 1 else f"{100 * float(share):.1f} %"


def model_card(model: TextClassifier, source: str) -> str:
    """The card of a model that was read from `source`."""
    w, card = model.weights, model.card or {}
    parameters = sum(array.size for array in w.arrays().values())
    shown = ", ".join(elide(visible(name), LONGEST_NAME) for name in model.outputs[:MOST_CLASSES])
    more = f" and {len(model.outputs) - MOST_CLASSES:,} more" if len(model.outputs) > MOST_CLASSES else ""
    words = [word for i, word in enumerate(model.vocabulary) if i not in (w.cls, w.unk)]
    lines = [
        f"model        {visible(source)}",
        f"classes      {shown}{more}",
        f"temperature  {model.temperature:.4g} (divides the logits in probabilities; explanations are of the logits)",
        *(f"{name:<11}  {getattr(w, name):<9,} {meaning}" for name, meaning in SIZES.items()),
        f"parameters   {parameters:,}",
        f"tokens       {TOKENS}",
        f"first words  {' '.join(elide(visible(word), LONGEST_NAME) for word in words[:12])} …",
    ]
    return "\n".join([*lines, *_trained(card)])


def _trained(card: Mapping[str, Any]) -> list[str]:
    """What the trainer noted, part by part; a part of another shape is left out."""
    lines = []
    if isinstance(card.get("data"), str):
        lines.append(f"trained on   {elide(visible(card['data']), 80)}")
    for part, title in (("held_out", "held-out"), ("test", "test")):
        try:
            scores = card[part]
            lines.append(
                f"\nOn {int(scores['texts']):,} {title} texts{_before_refit(card, part)}:\n{scores_table(scores)}"
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue
    for part in ("settings", "versions"):
        if isinstance(card.get(part), dict) and card[part]:
            pairs = ", ".join(
                f"{elide(visible(str(k)), 32)} {elide(visible(str(v)), 32)}" for k, v in card[part].items()
            )
            lines.append(f"\n{part:<11}  {elide(pairs, 1000)}")
    return lines


def _before_refit(card: Mapping[str, Any], part: str) -> str:
    """What the scores are of, where the model of the file was trained once more on all texts."""
    if part != "held_out" or "refit" not in card:
        return ""
    again = card["refit"]
    return f", before training once more on all {int(again['texts']):,} texts for {int(again['epochs'])} epochs"
