"""Explanations as the objects of other packages, so that their plots and tools can be used on exact numbers.

Each package is imported when it is asked for; one that is missing is an `ImportError` that names the extra to install.
What carries over is what the other format can hold: shap and lime draw any signed scores, but their sums mean something
only for methods that add up (`base_value + sum = prediction` for Shapley values and integrated gradients).
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ..game.interactions import constant_of, interactions
from .sanitize import visible

if TYPE_CHECKING:
    from ..explanations.explanation import Explanation


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{package} could not be imported ({error}); install it with: pip install 'attn-closed-form[interop]'"
        ) from None


def to_shap(explanation: Explanation) -> Any:
    """A one-row `shap.Explanation`, which `shap.plots.text`, `.bar` and `.waterfall` draw.

    Of a text, one entry per token in the order of the text, with the punctuation behind it: `shap.plots.text` shows
    the text as it was given. A word's score is shared equally among its occurrences, so that sums stay what they are.
    """
    shap = _package("shap")
    places = explanation.occurrences
    counts = np.bincount([place.player for place in places], minlength=len(explanation.labels))
    players = np.array([place.player for place in places])
    ends = [place.start for place in places[1:]] + [len(explanation.text)]
    first = explanation.text[: places[0].start]
    pieces = [explanation.text[place.start : end] for place, end in zip(places, ends, strict=True)]
    pieces[0] = first + pieces[0]
    return shap.Explanation(
        values=explanation.scores[players] / counts[players],
        base_values=explanation.base_value,
        data=np.array(["".join(map(visible, piece)) for piece in pieces], dtype=object),
        feature_names=[visible(explanation.labels[j]) for j in players],
    )


def to_lime(explanation: Explanation) -> Any:
    """A lime `Explanation` in regression mode: f is a score, not a probability.

    `as_list`, `as_map`, `as_html` and `as_pyplot_figure` work; label 1 holds the scores, label 0 their negatives, as in
    lime's own regression explanations.
    """
    lime = _package("lime.explanation")
    made = lime.Explanation(_lime_mapper(explanation), mode="regression", random_state=0)
    scores, base = explanation.scores, explanation.base_value
    order = np.argsort(-np.abs(scores), kind="stable")
    made.local_exp = {
        1: [(int(j), float(scores[j])) for j in order],
        0: [(int(j), -float(scores[j])) for j in order],
    }
    made.intercept = {1: base, 0: -base}
    made.local_pred = np.array([base + float(scores.sum())])
    made.predicted_value = explanation.prediction
    ends = (base + scores[scores < 0].sum(), base + scores[scores > 0].sum(), explanation.prediction)
    made.min_value, made.max_value = float(min(ends)), float(max(ends))
    return made


def _lime_mapper(explanation: Explanation) -> Any:
    """Link for lime between feature ids and the text, with the spans that we know instead of lime's own splitting."""
    lime = _package("lime.explanation")
    text = "".join(visible(character) for character in explanation.text)  # one for one, so that spans stay valid

    class SpanMapper(lime.DomainMapper):  # type: ignore[name-defined]
        def map_exp_ids(self, exp: Any, positions: bool = False, **_: Any) -> list[tuple[str, float]]:
            return [(self._name(j, positions), weight) for j, weight in exp]

        def _name(self, j: int, positions: bool) -> str:
            word = visible(explanation.labels[j])
            starts = "-".join(str(start) for start, _ in explanation.spans[j])
            return f"{word}_{starts}" if positions else word

        def visualize_instance_html(
            self, exp: Any, label: int, div_name: str, exp_object_name: str, text: bool = True, opacity: bool = True
        ) -> str:
            if not text:
                return ""
            weight = dict(exp)
            places = [
                (_markless(raw[place.start : place.end]), _utf16(raw[: place.start]), weight[place.player])
                for place in explanation.occurrences
                if place.player in weight
            ]
            arguments = (json.dumps(places), str(label), json.dumps(_markless(raw)), div_name, json.dumps(opacity))
            return f"\n{exp_object_name}.show_raw_text({', '.join(arguments)});\n"

    raw = text
    return SpanMapper()


def _markless(text: str) -> str:
    """As lime does: its page sets the text as HTML, so what could be markup is shown as |."""
    return text.translate(str.maketrans("<>&", "|||"))


def _utf16(text: str) -> int:
    """Length as JavaScript counts it: two for an emoji."""
    return len(text.encode("utf-16-le")) // 2


# Indices of order two that shapiq knows, by the method that their single players belong to.
SHAPIQ_INDICES = {"shapley": ("SV", "SII", "STII", "FSII"), "banzhaf": ("BV", "BII", "FBII")}


def to_shapiq(explanation: Explanation, order: int = 1, index: str | None = None) -> Any:
    """A `shapiq.InteractionValues` of the players.

    Parameters
    ----------
    explanation : Shapley ("SV" in shapiq) or Banzhaf ("BV") values
    order : 2 adds the exact interactions of all pairs
    index : of order two: "SII" (the default), "STII" or "FSII" of a Shapley explanation, "BII" (the default) or "FBII"
        of a Banzhaf one; single players get what the index gives them (`game/interactions.py`)
    """
    known = SHAPIQ_INDICES.get(explanation.method)
    if known is None:
        raise ValueError(
            f"explanation: expected method 'shapley' or 'banzhaf', which shapiq has an index for, "
            f"got {explanation.method!r}"
        )
    if order not in (1, 2):
        raise ValueError(f"order: expected 1 or 2, got {order}")
    name = known[order - 1] if index is None else index
    if name not in (known[:1] if order == 1 else known[1:]):
        expected = known[0] if order == 1 else ", ".join(known[1:])
        raise ValueError(f"index: expected {expected} for order {order} of {explanation.method!r}, got {index!r}")
    shapiq = _package("shapiq")
    d = len(explanation.labels)
    base, singles = explanation.base_value, explanation.scores
    pairs: dict[tuple[int, ...], float] = {}
    if order == 2:
        table = interactions(explanation.game, name)
        base, singles = constant_of(explanation.game, name, table), np.diagonal(table)
        pairs = {(i, j): float(table[i, j]) for i in range(d) for j in range(i + 1, d)}
    values: dict[tuple[int, ...], float] = {
        (): base,
        **{(j,): float(score) for j, score in enumerate(singles)},
        **pairs,
    }
    return shapiq.InteractionValues(
        values=np.array(list(values.values())),
        index=name,
        max_order=order,
        min_order=0,
        n_players=d,
        interaction_lookup={players: i for i, players in enumerate(values)},
        estimated=False,
        baseline_value=base,
    )
