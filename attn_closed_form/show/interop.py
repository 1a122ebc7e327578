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

    `values` (d,), `base_values` a float, `data` the words each with a space behind it (shap joins them without one),
    `feature_names` the words alone.
    """
    shap = _package("shap")
    names = [visible(token) for token in explanation.labels]
    return shap.Explanation(
        values=np.array(explanation.scores),
        base_values=explanation.base_value,
        data=np.array([f"{name} " for name in names], dtype=object),
        feature_names=names,
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


def to_shapiq(explanation: Explanation, order: int = 1) -> Any:
    """A `shapiq.InteractionValues` of the players.

    Parameters
    ----------
    explanation : Shapley ("SV" in shapiq) or Banzhaf ("BV") values
    order : 2 adds the exact Shapley interactions of all pairs (index "SII"), for Shapley explanations
    """
    index = {"shapley": "SV", "banzhaf": "BV"}.get(explanation.method)
    if index is None:
        raise ValueError(
            f"explanation: expected method 'shapley' or 'banzhaf', which shapiq has an index for, "
            f"got {explanation.method!r}"
        )
    if order not in (1, 2) or (order == 2 and explanation.method != "shapley"):
        raise ValueError(
            f"order: expected 1, or 2 for an explanation by 'shapley', got {order} for {explanation.method!r}"
        )
    shapiq = _package("shapiq")
    d = len(explanation.labels)
    values: dict[tuple[int, ...], float] = {(): explanation.base_value}
    values |= {(j,): float(score) for j, score in enumerate(explanation.scores)}
    if order == 2:
        pairs = explanation.interactions()
        values |= {(i, j): float(pairs[i, j]) for i in range(d) for j in range(i + 1, d)}
    return shapiq.InteractionValues(
        values=np.array(list(values.values())),
        index=index if order == 1 else "SII",
        max_order=order,
        min_order=0,
        n_players=d,
        interaction_lookup={players: i for i, players in enumerate(values)},
        estimated=False,
        baseline_value=explanation.base_value,
    )
