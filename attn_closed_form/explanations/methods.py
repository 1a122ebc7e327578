"""The table of explanation methods, one entry per method.

`explain`, the command line, the report, the plots, the page and the corpus read this one table; a new method is one
more entry. A method scores the *players* of an `Evidence`. Game methods (LIME, Shapley values, ...) need nothing but
the game, so every explainable model has them. The others need the inside of the model (attention, gradients), which
scores units, and a player's score is the sum over its units.

**SLALOM of several heads.** The model of Leemann et al. 2025, F = sum_j softmax(s)_j v_j, is a game with one head,
whose values and importances are read off. With K heads we report the one SLALOM that gives every player its true
share of this prediction: with alpha_j^(i) the share of player j in head i and v_j^(i) its value there,

    importance_j = log (1/K) sum_i alpha_j^(i)   (centred, sum s = 0)      value_j = sum_i alpha v / sum_i alpha + b
    linear_j     = (1/K) sum_i alpha_j^(i) (v_j^(i) - f_i),

with b the bias of the output (softmax weights add up to one, so a SLALOM carries it in its values). The last is the
derivative of f by the weight of player j in the softmax, and needs no pooling of the heads. It is the true derivative,
not Eq. 65 as printed, which leaves out f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._types import Array
from ..game.pooled_game import PooledGame
from ..game.shapley import banzhaf, leave_one_out, shapley
from ..lime.limit import lime_limit
from .evidence import Evidence, Scored

Kind = Literal["signed", "unsigned", "log"]
Accuracy = Literal["closed form", "guaranteed", "estimate", "sampled"]
Family = Literal["attention", "derivatives", "attributions", "slalom"]


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
    needs : "game", which every explainable model has, or "inside", which some models lack
    summary : one line
    score : Evidence -> Scored, or None where the model lacks what the method needs
    forecasts : whether minus the score says by how much the prediction changes when the player goes
    """

    name: str
    label: str
    family: Family
    kind: Kind
    accuracy: Accuracy
    needs: Literal["game", "inside"]
    summary: str
    score: Callable[[Evidence], Scored | None]
    forecasts: bool = False

    def strength(self, scores: Array) -> Array:
        """How strongly to colour each score, in [-1, 1]: relative to the largest; logs between least and most.

        >>> METHODS["shapley"].strength(np.array([2.0, -4.0, 0.0]))
        array([ 0.5, -1. ,  0. ])
        """
        if self.kind == "log":
            spread = np.ptp(scores)
            return (scores - scores.min()) / spread if spread > 0 else np.zeros_like(scores)
        most = np.abs(scores).max(initial=0.0)
        return scores / most if most > 0 else np.zeros_like(scores)


def _inside(name: str) -> Callable[[Evidence], Scored | None]:
    """What the model says of each unit under this name, summed over the units of a player."""

    def score(evidence: Evidence) -> Scored | None:
        found = evidence.inside(name)
        if found is None:
            return None
        scores, base = found if isinstance(found, tuple) else (found, evidence.absent_value)
        return Scored(evidence.pool(scores), base)

    return score


def _guaranteed(name: str, function: Callable[[PooledGame, float], Array]) -> Callable[[Evidence], Scored]:
    def score(evidence: Evidence) -> Scored:
        scores, error = evidence.guaranteed(function, name)
        return Scored(scores, evidence.absent_value, error)

    return score


def _lime(evidence: Evidence) -> Scored:
    fit, error = evidence.guaranteed(lambda game, tol: lime_limit(game, tol=tol), "lime")
    return Scored(fit.coef, float(fit.intercept), error)


def _lime_sampled(evidence: Evidence) -> Scored:
    fit = evidence.sampled_lime(1)[0]
    return Scored(fit.coef, float(fit.intercept))


def _slalom_value(evidence: Evidence) -> Scored:
    # Shares among the heads, from logs: a player whose attention underflows in every head has a value all the same.
    logs = evidence.shares
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    values = len(share) * (share * evidence.game.v).sum(axis=0) + evidence.game.bias
    return Scored(values, evidence.absent_value)


def _slalom_importance(evidence: Evidence) -> Scored:
    logs = evidence.shares
    most = logs.max(axis=0)
    s = most + np.log(np.exp(logs - most).mean(axis=0))
    return Scored(s - s.mean(), evidence.absent_value)


def _slalom_linear(evidence: Evidence) -> Scored:
    game, alpha = evidence.game, np.exp(evidence.shares)
    rest = 1.0 - alpha.sum(axis=1, keepdims=True)
    f = (alpha * game.v).sum(axis=1, keepdims=True) + rest * game.v_background[:, None]
    return Scored((alpha * (game.v - f)).sum(axis=0), evidence.prediction)


_P1 = "Lopardo et al. 2024"
_P2 = "Leemann et al. 2025"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "alpha-avg",
            "α-avg",
            "attention",
            "unsigned",
            "closed form",
            "inside",
            f"attention, mean over heads ({_P1}, Eq. 10); it has no sign and knows no class",
            _inside("alpha-avg"),
        ),
        Method(
            "alpha-max",
            "α-max",
            "attention",
            "unsigned",
            "closed form",
            "inside",
            f"attention, largest over heads ({_P1}, Eq. 11); it has no sign and knows no class",
            _inside("alpha-max"),
        ),
        Method(
            "g-avg",
            "G-avg",
            "derivatives",
            "signed",
            "closed form",
            "inside",
            f"mean coordinate of the gradient by the embedding ({_P1}, Theorem 4.1)",
            _inside("g-avg"),
        ),
        Method(
            "g-l1",
            "G-l1",
            "derivatives",
            "unsigned",
            "closed form",
            "inside",
            f"L1 norm of the gradient ({_P1}, section 4.1); it has no sign",
            _inside("g-l1"),
        ),
        Method(
            "g-l2",
            "G-l2",
            "derivatives",
            "unsigned",
            "closed form",
            "inside",
            f"L2 norm of the gradient ({_P1}, section 4.1); it has no sign",
            _inside("g-l2"),
        ),
        Method(
            "gxi",
            "G×I",
            "derivatives",
            "signed",
            "closed form",
            "inside",
            f"gradient times input ({_P1}, section 4.1); says what a small change does, not a removal",
            _inside("gxi"),
        ),
        Method(
            "ig",
            "IG",
            "derivatives",
            "signed",
            "estimate",
            "inside",
            "integrated gradients from the document of [UNK] (Sundararajan et al. 2017)",
            _inside("ig"),
            forecasts=True,
        ),
        Method(
            "lime",
            "LIME",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "what LIME with 5000 samples converges to when absent words become [UNK] in place (lime's bow=False)",
            _lime,
            forecasts=True,
        ),
        Method(
            "lime-sampled",
            "LIME (sampled)",
            "attributions",
            "signed",
            "sampled",
            "game",
            "LIME with 5000 random samples, as the lime package draws them with bow=False",
            _lime_sampled,
            forecasts=True,
        ),
        Method(
            "shapley",
            "Shapley",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "exact Shapley value: mean change over all orders of adding the players",
            _guaranteed("shapley", shapley),
            forecasts=True,
        ),
        Method(
            "banzhaf",
            "Banzhaf",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "exact Banzhaf value: mean change over all subsets of the other players",
            _guaranteed("banzhaf", banzhaf),
            forecasts=True,
        ),
        Method(
            "loo",
            "Leave-one-out",
            "attributions",
            "signed",
            "closed form",
            "game",
            "change of the prediction when this player alone goes",
            lambda evidence: Scored(leave_one_out(evidence.game), evidence.absent_value),
            forecasts=True,
        ),
        Method(
            "slalom-value",
            "SLALOM value",
            "slalom",
            "signed",
            "closed form",
            "game",
            f"what the player says on its own ({_P2}, Eq. 6, v)",
            _slalom_value,
        ),
        Method(
            "slalom-importance",
            "SLALOM import.",
            "slalom",
            "log",
            "closed form",
            "game",
            f"how loudly it says it: log of its weight in the softmax ({_P2}, Eq. 6, s)",
            _slalom_importance,
        ),
        Method(
            "slalom-linear",
            "SLALOM linear",
            "slalom",
            "signed",
            "closed form",
            "game",
            f"derivative of the prediction by the player's weight ({_P2}, section 5.4, corrected)",
            _slalom_linear,
            forecasts=True,
        ),
    )
}

# All but what samples: fast enough to follow someone who types.
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if method.accuracy != "sampled")


def as_methods(methods: str | Iterable[str] | None) -> tuple[Method, ...]:
    """Checked methods: None for the default set, "all", one name, or several in the wanted order.

    >>> [method.label for method in as_methods(["shapley", "alpha-avg"])]
    ['Shapley', 'α-avg']
    """
    if methods is None:
        methods = DEFAULT_METHODS
    names = (list(METHODS) if methods == "all" else [methods]) if isinstance(methods, str) else list(methods)
    for name in names:
        if name not in METHODS:
            raise ValueError(f"methods: expected names among {', '.join(METHODS)}; got {name!r}")
    if not names:
        raise ValueError("methods: expected at least one name, got none")
    return tuple(METHODS[name] for name in dict.fromkeys(names))
