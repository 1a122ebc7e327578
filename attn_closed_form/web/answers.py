"""What the API says: an explanation with the effect of removing players, and the interactions of one player."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..explanations.explain import explain_units
from ..explanations.explanation import Explanation, Explanations, shared_dict
from ..explanations.methods import FAMILIES, METHODS, Method
from ..game.interactions import interactions_of
from ..models.protocol import Model
from ..show.palette import levels
from .fields import MAX_BYTES, MAX_CHARACTERS, Question, Refusal, find_player


def model_answer(model: Model, name: str) -> dict[str, Any]:
    """Everything about the model that the page has to know before the first word."""
    return {
        "name": name,
        "model": repr(model),
        "outputs": list(model.outputs),
        "players": list(model.groupings),
        "absent": list(model.absences),
        "limits": {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS},
        "families": FAMILIES,
        "methods": [method_answer(method) for method in METHODS.values()],
    }


def method_answer(method: Method) -> dict[str, Any]:
    """A row of the table of methods."""
    fields = ("name", "label", "family", "kind", "accuracy", "summary", "forecasts")
    return {field: getattr(method, field) for field in fields}


def explain_answer(model: Model, asked: Question) -> dict[str, Any]:
    """Scores of every player by every method asked, and what removing players does.

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> answer = explain_answer(load_demo_model(), Question("A fine film", (METHODS["leave-one-out"],), removed=(1,)))
    >>> answer["labels"], answer["removal"]["players"]
    (['a', 'fine', 'film'], [1])
    >>> bool(np.isclose(answer["removal"]["change"], -answer["methods"]["leave-one-out"]["scores"][1]))
    True
    """
    found = _found(model, asked)
    removed = sorted({find_player("removed", named, found.evidence.spans) for named in asked.removed})
    return {
        **shared_dict(found.evidence),
        "methods": {name: _method_scores(e) for name, e in found.items()},
        "removal": _removal(found, removed) if removed else None,
    }


def _found(model: Model, asked: Question) -> Explanations:
    if isinstance(asked.raw, str) and model.reads != "a text":
        # Such a model takes a string for the path of a file; nobody may open files of this machine by asking.
        raise Refusal(422, f"text: expected `input` with {model.reads}, which this model reads, got a text", "text")
    try:
        return explain_units(model, model.read(asked.raw), asked.methods, asked.settings)
    except (ValueError, TypeError, OSError) as error:
        raise Refusal(422, str(error), str(error).partition(":")[0]) from None


def _method_scores(e: Explanation) -> dict[str, Any]:
    return {**e.own_dict(), "kind": e.info.kind, "family": e.info.family, "levels": levels(e.strength).tolist()}


def _removal(found: Explanations, removed: list[int]) -> dict[str, Any]:
    """The prediction without the players, and what each forecast made of it: minus the sum of their scores."""
    evidence = found.evidence
    present = np.ones(evidence.game.d, dtype=bool)
    present[removed] = False
    prediction = float(evidence.game.value(present))
    change = prediction - evidence.prediction
    said = {name: -float(e.scores[removed].sum()) for name, e in found.items() if e.info.forecasts}
    return {
        "players": removed,
        "prediction": prediction,
        "change": change,
        "forecasts": {name: {"change": guess, "error": guess - change} for name, guess in said.items()},
    }


def why_answer(model: Model, asked: Question) -> dict[str, Any]:
    """Reasons that are proved, and what each sentence contributes.

    >>> from attn_closed_form import load_demo_model
    >>> answer = why_answer(load_demo_model(), Question("A slow start. A wonderful film!", ()))
    >>> len(answer["reasons"]["sentences"]), len(answer["sentences"]["scores"])
    (2, 2)
    """
    found = _found(model, asked._replace(methods=()))
    text = found.evidence.units.text is not None
    return {"reasons": found.reasons().to_dict(), "sentences": found.sentences().to_dict() if text else None}


def interactions_answer(model: Model, asked: Question) -> dict[str, Any]:
    """Shapley interactions of one player with every other one; null at its own place."""
    evidence = _found(model, asked._replace(methods=())).evidence
    i = find_player("player", asked.player, evidence.spans)
    row, error = evidence.guaranteed(lambda game, tol: interactions_of(game, i, tol))
    return {
        "player": i,
        "labels": list(evidence.labels),
        "interactions": [None if j == i else value for j, value in enumerate(row.tolist())],
        "error": error,
    }
