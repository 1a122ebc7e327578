"""The table of explanation methods: for each its name, label, kind, accuracy, one-line description and function.

`explanation.py`, the command line, the report and the plots read this one table; a new method is one more entry.
A method scores the *players* of a `Case`. Game methods (LIME, Shapley, ...) do so by themselves; attention and
gradients score positions, and a word's score is the sum over its occurrences.

**SLALOM of several heads.** P2's model F = sum_j softmax(s)_j v_j is P1's with one head (see `collapse.py`), where
value and importance are read off the weights. With K heads we report the one SLALOM that gives every player its true
share of this prediction: with alpha_j^(i) the attention that player j gets in head i and v_j^(i) its value there,

    importance_j = log (1/K) sum_i alpha_j^(i)   (centred, sum s = 0)      value_j = sum_i alpha v / sum_i alpha + b
    linear_j     = (1/K) sum_i alpha_j^(i) (v_j^(i) - f_i),

with b the bias of the output (softmax weights add up to one, so a SLALOM carries it in its values). The last is the
derivative of f by the weight of player j in the softmax, and needs no pooling of the heads. It is the true derivative,
not P2's Eq. 65 as printed, which leaves out f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._types import Array, Ids
from ..classifier.attention import alpha_avg, alpha_max
from ..classifier.gradient import gradient_l1, gradient_l2, gradient_mean, gradient_times_input, integrated_gradients
from ..classifier.predict import predict
from ..classifier.weights import AttentionWeights
from ..game.pooled_game import PooledGame
from ..game.shapley import banzhaf, leave_one_out, shapley
from ..lime.limit import lime_limit
from ..lime.sampled import lime_sample
from .case import Case, Scored

Kind = Literal["signed", "unsigned", "log"]
Accuracy = Literal["closed form", "guaranteed", "estimate", "sampled"]


@dataclass(frozen=True)
class Method:
    """One entry of the table.

    Attributes
    ----------
    name : as in `explain(..., methods=[name])`
    label : as the papers write it
    kind : "signed"; "unsigned" (no score is below 0 and none says in which direction); "log" (a logarithm of a weight)
    accuracy : "closed form" (exact up to float64's rounding), "guaranteed" (a proven bound), "estimate" (refined until
        two rules agree), "sampled"
    summary : one line
    score : Case -> Scored
    """

    name: str
    label: str
    kind: Kind
    accuracy: Accuracy
    summary: str
    score: Callable[[Case], Scored]

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


def _of_positions(function: Callable[[AttentionWeights, Ids], Array]) -> Callable[[Case], Scored]:
    return lambda case: Scored(case.pool(function(case.weights, case.ids)), case.nobody)


def _of_output(function: Callable[[AttentionWeights, Ids, int], Array]) -> Callable[[Case], Scored]:
    return lambda case: Scored(case.pool(function(case.weights, case.ids, case.output)), case.nobody)


def _integrated_gradients(case: Case) -> Scored:
    scores = integrated_gradients(case.weights, case.ids, case.output, tol=max(case.tol, 1e-12))
    everyone_unknown = np.full_like(case.ids, case.weights.unk)
    return Scored(case.pool(scores), float(predict(case.weights, everyone_unknown)[case.output]))


def _guaranteed(function: Callable[[PooledGame, float], Array]) -> Callable[[Case], Scored]:
    def score(case: Case) -> Scored:
        scores, error = case.loosened(function)
        return Scored(scores, case.nobody, error)

    return score


def _lime(case: Case) -> Scored:
    fit, error = case.loosened(lambda game, tol: lime_limit(game, tol=tol))
    return Scored(fit.coef, float(fit.intercept), error)


def _lime_sampled(case: Case) -> Scored:
    fit = lime_sample(case.game, seed=case.seed)
    return Scored(fit.coef, float(fit.intercept))


def _slalom_value(case: Case) -> Scored:
    alpha, v = case.shares
    mass = alpha.mean(axis=0)
    # A player whose attention underflows in every head has a value all the same: the plain mean of its heads'.
    share = np.where(mass > 0, alpha / np.where(mass > 0, mass, 1.0), 1.0)
    return Scored((share * v).sum(axis=0) + case.game.bias, case.nobody)


def _slalom_importance(case: Case) -> Scored:
    game = case.game
    top = np.maximum(game.s.max(axis=1), game.s_background)[:, None]
    total = np.exp(game.s - top).sum(axis=1, keepdims=True) + np.exp(game.s_background[:, None] - top)
    log_alpha = game.s - top - np.log(total)  # not log(alpha): that underflows for scores of 1e4
    most = log_alpha.max(axis=0)
    s = most + np.log(np.exp(log_alpha - most).mean(axis=0))
    return Scored(s - s.mean(), case.nobody)


def _slalom_linear(case: Case) -> Scored:
    alpha, v = case.shares
    game = case.game
    rest = 1.0 - alpha.sum(axis=1, keepdims=True)
    f = (alpha * v).sum(axis=1, keepdims=True) + rest * game.v_background[:, None]
    return Scored((alpha * (v - f)).sum(axis=0), case.prediction)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "alpha-avg",
            "α-avg",
            "unsigned",
            "closed form",
            "attention of [CLS], mean over heads (P1 Eq. 10)",
            _of_positions(alpha_avg),
        ),
        Method(
            "alpha-max",
            "α-max",
            "unsigned",
            "closed form",
            "attention of [CLS], largest over heads (P1 Eq. 11)",
            _of_positions(alpha_max),
        ),
        Method(
            "g-avg",
            "G-avg",
            "signed",
            "closed form",
            "mean coordinate of the gradient by the embedding (P1 Theorem 4.1)",
            _of_output(gradient_mean),
        ),
        Method(
            "g-l1",
            "G-l1",
            "unsigned",
            "closed form",
            "L1 norm of the gradient (P1 section 4.1)",
            _of_output(gradient_l1),
        ),
        Method(
            "g-l2",
            "G-l2",
            "unsigned",
            "closed form",
            "L2 norm of the gradient (P1 section 4.1)",
            _of_output(gradient_l2),
        ),
        Method(
            "gxi",
            "G×I",
            "signed",
            "closed form",
            "gradient times input (P1 section 4.1)",
            _of_output(gradient_times_input),
        ),
        Method(
            "ig",
            "IG",
            "signed",
            "estimate",
            "integrated gradients from the document of [UNK] (Sundararajan et al., 2017)",
            _integrated_gradients,
        ),
        Method(
            "lime",
            "LIME",
            "signed",
            "guaranteed",
            "what LIME with 5000 samples converges to, without sampling (P1 section 5, corrected)",
            _lime,
        ),
        Method(
            "lime-sampled",
            "LIME (sampled)",
            "signed",
            "sampled",
            "LIME as the lime package runs it: 5000 random samples",
            _lime_sampled,
        ),
        Method(
            "shapley",
            "Shapley",
            "signed",
            "guaranteed",
            "exact Shapley value: mean change over all orders of adding words",
            _guaranteed(shapley),
        ),
        Method(
            "banzhaf",
            "Banzhaf",
            "signed",
            "guaranteed",
            "exact Banzhaf value: mean change over all subsets of the other words",
            _guaranteed(banzhaf),
        ),
        Method(
            "loo",
            "Leave-one-out",
            "signed",
            "closed form",
            "change of the prediction when this word alone goes",
            lambda case: Scored(leave_one_out(case.game), case.nobody),
        ),
        Method(
            "slalom-value",
            "SLALOM value",
            "signed",
            "closed form",
            "what the word says on its own (P2 Eq. 6, v)",
            _slalom_value,
        ),
        Method(
            "slalom-importance",
            "SLALOM import.",
            "log",
            "closed form",
            "how loudly it says it: log of its weight in the softmax (P2 Eq. 6, s)",
            _slalom_importance,
        ),
        Method(
            "slalom-linear",
            "SLALOM linear",
            "signed",
            "closed form",
            "derivative of the prediction by the word's weight (P2 section 5.4, corrected)",
            _slalom_linear,
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
