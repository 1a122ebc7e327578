"""Removing players: curves in the order of the scores, and what happens without some players."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...reasons.curves import RemovalCurves
from ..explanations.answers import removal_curves_of
from ..explanations.explanation import Explanations
from ..explanations.methods import METHODS
from .figures import names

# The orders of removal whose curves are drawn; tables list all orders.
DRAWN = ("flip-order", "shapley", "leave-one-out", "alpha-mean")


def from_middle(value: float, largest: float) -> float:
    """Return the place of a value on the scale from -largest to largest, in unit coordinates."""
    if largest > 0:
        return 0.5 + 0.5 * value / largest
    return 0.5


def effect_bar(value: float, largest: float) -> dict[str, Any]:
    """Return a bar from the middle of the scale from -largest to largest, in unit coordinates."""
    at = from_middle(value, largest)
    kind = "for" if value >= 0 else "against"
    return {"kind": kind, "left": min(0.5, at), "right": max(0.5, at)}


def share_of_best(share: float, heads: int) -> str:
    """Format the share of the best possible order; with several heads only a bound on the best is
    known.
    """
    if math.isnan(share):
        return "–"
    # With several heads the best order is only bounded, so the share is at least this much.
    if heads > 1:
        return f"at least {share:.1%}"
    return f"{share:.1%}"


def removal_curves(explanations: Explanations) -> dict[str, RemovalCurves]:
    """Return the removal curves of every method, and of the flip order."""
    evidence = explanations.evidence
    flip = "flip-order"
    scores = {method: e.scores for method, e in explanations.items()}
    if (scored := METHODS[flip].score(evidence)) is not None:
        scores.setdefault(flip, scored.scores)
    return {method: removal_curves_of(evidence, each) for method, each in scores.items()}


def removal(explanations: Explanations, players: ArrayLike) -> dict[str, Any]:
    """Compare the prediction without some players with the forecast of each method, minus the sum
    of their scores.

    A forecast is on the scale of the method's scores. `did` is the actual change, `error` the
    difference, `bar` the bar of the forecast and `mark` the place of the actual change; bars of one
    scale are comparable.

    >>> from attn_closed_form import load_demo_model
    >>> without = removal(load_demo_model().explain("A fine film", ["shapley", "loo"]), [1])
    >>> without["names"], [forecast["method"] for forecast in without["forecasts"]]
    (['fine'], ['shapley', 'leave-one-out'])
    """
    evidence = explanations.evidence
    removed = sorted(set(np.asarray(players, dtype=np.intp).tolist()))
    # The model is run without these players; nothing is predicted from the scores.
    present = np.ones(evidence.d, dtype=bool)
    present[removed] = False
    logit = float(evidence.model.value(evidence.units, evidence.target.pooled, present[None])[0])
    prediction = float(evidence.model_game.value(present[None])[0])
    # Shapley values, LIME and the linear SLALOM come first, because most readers look for them.
    ranked = sorted(explanations, key=lambda name: name not in ("shapley", "lime", "slalom-linear"))
    rows = [explanations[name] for name in ranked if METHODS[name].forecasts]
    guesses = [-float(e.scores[removed].sum()) for e in rows]
    changes = []
    for e in rows:
        after = logit if e.on_logits else prediction
        changes.append(after - e.prediction)
    largest: dict[str, float] = {}
    for e, *both in zip(rows, guesses, changes, strict=True):
        largest[e.scale.name] = max(largest.get(e.scale.name, 0.0), *map(abs, both))
    forecasts = [
        {
            "method": e.method,
            "title": e.title,
            "scale": e.scale.name,
            "change": guess,
            "did": did,
            "error": guess - did,
            "bar": effect_bar(guess, largest[e.scale.name]),
            "mark": from_middle(did, largest[e.scale.name]),
        }
        for e, guess, did in zip(rows, guesses, changes, strict=True)
    ]
    return {
        "players": removed,
        "names": [names(evidence)[j] for j in removed],
        "prediction": prediction,
        "change": prediction - evidence.prediction,
        "forecasts": forecasts,
    }
