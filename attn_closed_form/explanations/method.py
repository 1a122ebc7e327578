"""A method of the table `METHODS`, and the families that the methods come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._types import Array
from .evidence import Evidence, Scored

Kind = Literal["signed", "unsigned", "log"]
Accuracy = Literal["closed form", "guaranteed", "estimate", "sampled"]
Family = Literal["attention", "derivatives", "attributions", "slalom"]


# What the methods of a family have in common: a title, what their numbers mean, and when not to trust them.
FAMILIES: dict[Family, tuple[str, str]] = {
    "attributions": (
        "Exact attributions",
        "What adding or removing a player does to the prediction, averaged over coalitions of the others. Where "
        "players need each other, one number per player cannot tell the whole story.",
    ),
    "derivatives": (
        "Derivatives",
        "What a small change of an embedding does. A removal is no small change: do not read these as its effect.",
    ),
    "attention": (
        "Attention",
        "Where the model looks. It has no sign and knows no class: it does not say what a player argues for.",
    ),
    "slalom": (
        "SLALOM",
        "What a player says (value) and how loudly it says it (importance, a logarithm). Neither alone is its effect.",
    ),
}


@dataclass(frozen=True)
class Method:
    """One entry of the table.

    Attributes
    ----------
    name : as in `explain(..., methods=[name])`
    label : as the papers write it
    family : "attention", "derivatives", "attributions" (what a removal does), "slalom"
    kind : "signed"; "unsigned" (no score is below 0 and none says in which direction); "log" (a logarithm of a weight)
    accuracy : "closed form" (exact up to float64's rounding), "guaranteed" (a proven bound), "estimate" (refined until
        two rules agree), "sampled"
    needs : "game", which every explainable model has; "model", values of coalitions, which a model whose game is only
        fitted to it gives itself; or "inside", which some models lack
    summary : one line
    score : Evidence -> Scored, or None where the model lacks what the method needs
    forecasts : whether minus the score says by how much the prediction changes when the player goes
    """

    name: str
    label: str
    family: Family
    kind: Kind
    accuracy: Accuracy
    needs: Literal["game", "model", "inside"]
    summary: str
    score: Callable[[Evidence], Scored | None]
    forecasts: bool = False

    def strength(self, scores: Array) -> Array:
        """How strongly to colour each score, in [-1, 1]: relative to the largest; logs between least and most.

        >>> from attn_closed_form import METHODS
        >>> METHODS["shapley"].strength(np.array([2.0, -4.0, 0.0]))
        array([ 0.5, -1. ,  0. ])
        """
        if self.kind == "log":
            spread = np.ptp(scores)
            return (scores - scores.min()) / spread if spread > 0 else np.zeros_like(scores)
        most = np.abs(scores).max(initial=0.0)
        return scores / most if most > 0 else np.zeros_like(scores)
