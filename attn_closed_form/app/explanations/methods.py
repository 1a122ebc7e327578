"""The table of explanation methods, with the function by which each method scores the players of an
`Evidence`.

Every view reads this table; a new method is one more entry. Game methods (LIME, Shapley values,
...) need only the game, so every explainable model has them. If the game is only fitted to the
model, as for a transformer, methods that need only values of coalitions evaluate the model itself.
The other methods need the inside of the model (attention, gradients), which scores units; the score
of a player is the sum over its units.

**SLALOM of several heads.** The model of Leemann et al. 2025, f = sum_j softmax(s)_j v_j, is a game
with one head, whose values and importances are read off. With K heads we report the SLALOM that
gives every player its true share of this prediction: with alpha_j^(i) the share of player j in head
i and v_j^(i) its value there,

    importance_j = log (1/K) sum_i alpha_j^(i)   (centered, sum s = 0)     value_j = sum_i alpha v / sum_i alpha + b
    linear_j     = (1/K) sum_i alpha_j^(i) (v_j^(i) - f_i),

with b the bias of the output (softmax weights add up to one, so a SLALOM carries it in its values).
The last is the derivative of f by the weight of player j in the softmax, and needs no pooling of
the heads. It is the true derivative, not Eq. 65 as printed, which omits f.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from ..._arrays import did_you_mean, softmax
from ..._types import Array
from ...game.engine.budget import ToleranceError
from ...game.game_sum import GameSum
from ...game.values import banzhaf, leave_one_out, shapley
from ...lime.cost import lime_cost
from ...lime.limit import lime_limit
from ...reasons.curves import flip_order
from ..models.protocol import NOT_POOLED, NotPooledError
from ..models.scale import LOGIT, ExplainedScale
from .answers import decision_of
from .evidence import Evidence, Scored

Kind = Literal["signed", "unsigned", "log"]
Accuracy = Literal["closed form", "guaranteed", "estimate", "sampled"]
Family = Literal["attention", "derivatives", "attributions", "slalom", "orders"]


# Title of each family of methods, the meaning of its numbers, and their limits.
FAMILIES: dict[Family, tuple[str, str]] = {
    "attributions": (
        "Exact attributions",
        "The effect of adding or removing a player, averaged over subsets of the other players. If "
        "players interact, one number per player is not the whole story.",
    ),
    "derivatives": (
        "Derivatives",
        "The effect of a small change of an embedding. A removal is not a small change, so these "
        "are not its effect.",
    ),
    "attention": (
        "Attention",
        "The weights of the players in the mean. Attention has no sign and no class: it does not "
        "show which class a player supports.",
    ),
    "slalom": (
        "SLALOM",
        "The value of each player, and the logarithm of its weight (importance). Neither alone is "
        "the player's effect.",
    ),
    "orders": (
        "Orders of removal",
        "The order of removal that changes the prediction fastest. These numbers rank players; "
        "they do not add up.",
    ),
}


@dataclass(frozen=True)
class Method:
    """One entry of the table.

    Attributes
    ----------
    name, label : name for `explain(..., methods=[name])`, and the same name as the views print it
    family : a key of `FAMILIES`
    kind : "signed"; "unsigned" (no score is below 0, so none shows a direction); "log" (the
        logarithm of a weight)
    accuracy : "closed form" (exact up to float64's rounding), "guaranteed" (a proven bound),
        "estimate" (refined until two rules agree), "sampled"
    needs : "game", which every explainable model has; "model", for values of coalitions, which come
        from the model itself if its game is only fitted to it; or "inside", which some models lack
    score : function Evidence -> Scored, or None if the model lacks what it needs; by default
        `Model.inside`
    forecasts : whether minus the score forecasts by how much the prediction changes when the player
        is removed
    alias : a short name that is also accepted
    """

    name: str
    label: str
    family: Family
    kind: Kind
    accuracy: Accuracy
    needs: Literal["game", "model", "inside"]
    summary: str
    score: Callable[[Evidence], Scored | None] = field(default=None)  # type: ignore[assignment]
    forecasts: bool = False
    alias: str | None = None

    def __post_init__(self) -> None:
        if self.score is None:
            object.__setattr__(self, "score", partial(_inside, self.name))

    @property
    def on_logits(self) -> bool:
        """Whether the scores belong to the logit on every scale, because the model computes it
        internally.
        """
        return self.family != "attributions"

    def strength(self, scores: Array) -> Array:
        """Scale scores to [-1, 1] for colors: relative to the largest, or logs between minimum and
        maximum.
        """
        if self.kind == "log":
            shifted = scores - scores.min()
            return _relative_to(np.ptp(scores), shifted)
        return _relative_to(np.abs(scores).max(initial=0.0), scores)


def _relative_to(largest: float, scores: Array) -> Array:
    """Divide scores by the largest, or return zeros if it is 0."""
    if largest > 0:
        return scores / largest
    return np.zeros_like(scores)


def _inside(name: str, evidence: Evidence) -> Scored | None:
    """Return the model's internal scores by this name, summed over the units of each player."""
    scores = evidence.inside(name)
    if scores is None:
        return None
    # Some scores start from another input, such as integrated gradients; they come with its logit.
    base = evidence.absent_logit
    if isinstance(scores, tuple):
        scores, base = scores
    return Scored(evidence.pool(scores), base)


def _guaranteed(name: str, function: Callable[[Any, float], Array], evidence: Evidence) -> Scored:
    """Compute scores of the game with a guaranteed error."""
    scores, error = evidence.guaranteed(function, name)
    if evidence.exact or not evidence.is_pooled:
        base = evidence.baseline
    else:
        base = evidence.pooled_base
    return Scored(scores=scores, baseline=base, error=error)


def _lime(evidence: Evidence) -> Scored:
    if not evidence.is_pooled:
        raise NotPooledError(f"lime: {NOT_POOLED}")
    fit, error = evidence.guaranteed(lambda game, tol: lime_limit(game, tol=tol), "lime")
    return Scored(scores=fit.coef, baseline=float(fit.intercept), error=error)


def _sampled_lime(evidence: Evidence) -> Scored:
    """Estimate the coefficients of LIME as the package does, with their standard errors."""
    fit = evidence.sampled_lime(1)[0]
    return Scored(
        fit.coef,
        float(fit.intercept),
        standard_error=fit.standard_error,
        model_calls=evidence.model.samples,
    )


def _sampled_shapley(evidence: Evidence) -> Scored:
    """Estimate the Shapley values of the model itself."""
    sample = evidence.model_game.shapley()
    return Scored(
        sample.values,
        evidence.baseline,
        standard_error=sample.standard_error,
        model_calls=sample.calls,
    )


def _leave_one_out_scores(evidence: Evidence) -> Scored:
    """Compute the change of the prediction when each player alone is removed."""
    if evidence.exact and not isinstance(evidence.game, GameSum):
        return Scored(leave_one_out(evidence.game), evidence.baseline)
    d = evidence.d
    without_one = ~np.eye(d, dtype=bool)
    changes = evidence.prediction - evidence.model_game.value(without_one)
    # Nothing is sampled, so the standard errors are zero. The calls are those for the text and for
    # each removal.
    return Scored(changes, evidence.baseline, standard_error=np.zeros(d), model_calls=d + 1)


def _slalom_value(evidence: Evidence) -> Scored:
    """Return the value of every player in the softmax-weighted mean, with pooled heads."""
    # Shares among the heads are computed from logs, so that a player whose attention underflows
    # still has a value.
    share = softmax(evidence.shares.T).T
    heads = len(share)
    # The values of the game are divided by the number of heads, those of a SLALOM are not. A SLALOM
    # has no bias, and its weights add up to 1, so every value carries the bias.
    values = heads * (share * evidence.pooled.v).sum(axis=0) + evidence.pooled.bias
    return Scored(values, evidence.pooled_base)


def _slalom_importance(evidence: Evidence) -> Scored:
    # Importances are defined up to a constant, which the mean 0 fixes.
    s = np.logaddexp.reduce(evidence.shares, axis=0)
    return Scored(s - s.mean(), evidence.pooled_base)


def _slalom_linear(evidence: Evidence) -> Scored:
    """Return the derivative of the prediction by the weight of every player."""
    game = evidence.pooled
    alpha = np.exp(evidence.shares)
    # What the players do not have belongs to the background, such as a class token.
    background = 1.0 - alpha.sum(axis=1, keepdims=True)
    f = (alpha * game.v).sum(axis=1, keepdims=True) + background * game.v_background[:, None]
    # This is a derivative at the whole input, so its baseline is the prediction itself.
    return Scored((alpha * (game.v - f)).sum(axis=0), evidence.logit)


def _flip_order(evidence: Evidence) -> Scored:
    """Rank the players by the order in which their removal flips the prediction."""
    decision = decision_of(evidence)
    # The order is that of removals from the prediction, which for classes is a probability.
    scale = LOGIT
    if decision.sides is not None:
        scale = ExplainedScale("probability", evidence.model.temperature)
    return Scored(flip_order(decision.game, scale=scale.of), evidence.pooled_base)


def _single(evidence: Evidence) -> Scored:
    """Return the prediction for every player alone."""
    # Without a background and with deleted players, a player alone has all the mass.
    if evidence.has_reasons and evidence.pooled.can_be_empty:
        game = evidence.pooled
        # With one player all softmax weights are 1, so the values of the heads are added.
        return Scored(game.v.sum(axis=0) + game.bias, evidence.absent_logit)
    alone = evidence.logits_of(np.eye(evidence.d, dtype=bool))
    return Scored(alone, evidence.absent_logit, model_calls=evidence.d)


# How the summaries cite the paper on attention.
_P1 = "Lopardo et al. 2024"
# How the summaries cite the paper on SLALOM.
_P2 = "Leemann et al. 2025"

# Every method, in the order of the views.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="shapley",
            label="Shapley",
            family="attributions",
            kind="signed",
            accuracy="guaranteed",
            needs="game",
            summary="exact Shapley value: mean change over all orders of adding the players",
            score=partial(_guaranteed, "shapley", shapley),
            forecasts=True,
        ),
        Method(
            name="lime",
            label="LIME",
            family="attributions",
            kind="signed",
            accuracy="guaranteed",
            needs="game",
            summary="limit of LIME with 5000 samples: with the package's defaults if the model "
            "has one head and no positions, otherwise with absent words replaced by [UNK] (its "
            "bow=False) and on logits",
            score=_lime,
            forecasts=True,
        ),
        Method(
            name="banzhaf",
            label="Banzhaf",
            family="attributions",
            kind="signed",
            accuracy="guaranteed",
            needs="game",
            summary="exact Banzhaf value: mean change over all subsets of the other players",
            score=partial(_guaranteed, "banzhaf", banzhaf),
            forecasts=True,
        ),
        Method(
            name="leave-one-out",
            label="Leave-one-out",
            family="attributions",
            kind="signed",
            accuracy="closed form",
            needs="model",
            summary="change of the prediction when this player alone is removed",
            score=_leave_one_out_scores,
            forecasts=True,
            alias="loo",
        ),
        Method(
            name="shapley-sampled",
            label="Shapley (sampled)",
            family="attributions",
            kind="signed",
            accuracy="sampled",
            needs="model",
            summary="Shapley values of the model, estimated from pairs of random coalitions with "
            "control variates",
            score=_sampled_shapley,
            forecasts=True,
        ),
        Method(
            name="lime-sampled",
            label="LIME (sampled)",
            family="attributions",
            kind="signed",
            accuracy="sampled",
            needs="model",
            summary="LIME with random samples as the lime package draws them, 5000 or the model's "
            "budget",
            score=_sampled_lime,
            forecasts=True,
        ),
        Method(
            name="gradient-mean",
            label="Gradient-mean",
            family="derivatives",
            kind="signed",
            accuracy="closed form",
            needs="inside",
            summary=f"mean coordinate of the gradient with respect to the embedding ({_P1}, "
            "Theorem 4.1)",
            alias="g-avg",
        ),
        Method(
            name="gradient-l1",
            label="Gradient-l1",
            family="derivatives",
            kind="unsigned",
            accuracy="closed form",
            needs="inside",
            summary=f"L1 norm of the gradient ({_P1}, section 4.1); it has no sign",
            alias="g-l1",
        ),
        Method(
            name="gradient-l2",
            label="Gradient-l2",
            family="derivatives",
            kind="unsigned",
            accuracy="closed form",
            needs="inside",
            summary=f"L2 norm of the gradient ({_P1}, section 4.1); it has no sign",
            alias="g-l2",
        ),
        Method(
            name="gradient-x-input",
            label="Gradient-x-input",
            family="derivatives",
            kind="signed",
            accuracy="closed form",
            needs="inside",
            summary=f"gradient times input ({_P1}, section 4.1): effect of a small change, not of "
            "a removal",
            alias="gxi",
        ),
        Method(
            name="integrated-gradients",
            label="Integrated gradients",
            family="derivatives",
            kind="signed",
            accuracy="estimate",
            needs="inside",
            summary="integrated gradients from a document of [UNK] (Sundararajan et al. 2017)",
            forecasts=True,
            alias="ig",
        ),
        Method(
            name="lrp",
            label="LRP",
            family="derivatives",
            kind="signed",
            accuracy="closed form",
            needs="inside",
            summary="layer-wise relevance propagation (Achtibat et al. 2024), without the share "
            "of [CLS]",
        ),
        Method(
            name="alpha-mean",
            label="Alpha-mean",
            family="attention",
            kind="unsigned",
            accuracy="closed form",
            needs="inside",
            summary=f"attention, mean over heads ({_P1}, Eq. 10); it has no sign and no class",
            alias="alpha-avg",
        ),
        Method(
            name="alpha-max",
            label="Alpha-max",
            family="attention",
            kind="unsigned",
            accuracy="closed form",
            needs="inside",
            summary=f"attention, maximum over heads ({_P1}, Eq. 11); it has no sign and no class",
        ),
        Method(
            name="slalom-value",
            label="SLALOM value",
            family="slalom",
            kind="signed",
            accuracy="closed form",
            needs="game",
            summary=f"the value v of the player in the softmax-weighted mean ({_P2}, Eq. 6)",
            score=_slalom_value,
        ),
        Method(
            name="slalom-importance",
            label="SLALOM importance",
            family="slalom",
            kind="log",
            accuracy="closed form",
            needs="game",
            summary=f"the logarithm s of the player's weight in the softmax ({_P2}, Eq. 6)",
            score=_slalom_importance,
        ),
        Method(
            name="slalom-linear",
            label="SLALOM linear",
            family="slalom",
            kind="signed",
            accuracy="closed form",
            needs="game",
            summary=f"derivative of the prediction by the player's weight ({_P2}, section 5.4, "
            "corrected)",
            score=_slalom_linear,
            forecasts=True,
        ),
        Method(
            name="flip-order",
            label="Flip order",
            family="orders",
            kind="signed",
            accuracy="closed form",
            needs="game",
            summary="order of removal: weight times (value - threshold), as in the contrastive "
            "reason",
            score=_flip_order,
        ),
        Method(
            name="single",
            label="Single",
            family="orders",
            kind="signed",
            accuracy="closed form",
            needs="model",
            summary="the prediction for the player alone, all others absent",
            score=_single,
        ),
    )
}

# Tuning: predicted seconds beyond which LIME is not among the default methods. The other methods of
# a text take less.
LIME_SECONDS = 1.0
# Methods that sample are too slow for the live page, and orders are not attributions.
DEFAULT_METHODS = tuple(
    name
    for name, method in METHODS.items()
    if method.accuracy != "sampled" and method.family != "orders"
)


def default_methods(evidence: Evidence) -> tuple[Method, ...]:
    """Return the default methods of one input: the exact ones, or the sampled headline if nothing
    is exact.
    """
    if evidence.exact and evidence.is_pooled:
        methods = as_methods(None)
        if lime_is_quick(evidence):
            return methods
        return tuple(method for method in methods if method.name != "lime")
    chosen = [METHODS[evidence.headline]]
    if not evidence.is_pooled:
        return (*chosen, *_without_a_game(evidence))
    for name in DEFAULT_METHODS:
        method = METHODS[name]
        # The other game methods would explain the fitted game instead of the model.
        if method.needs != "game" or method.family == "slalom":
            chosen.append(method)
    return tuple(chosen)


def _without_a_game(evidence: Evidence) -> list[Method]:
    """Return the default methods that need no pooled game, for a model with a tail."""
    # A tail that is any function has no gradient.
    gradients = getattr(evidence.model.tail, "gradient", None) is not None
    methods = [METHODS[name] for name in DEFAULT_METHODS if METHODS[name].needs != "game"]
    return [method for method in methods if gradients or not method.name.startswith("gradient")]


def lime_is_quick(evidence: Evidence) -> bool:
    """Return whether LIME's limit of this input takes no more than about LIME_SECONDS."""
    tol = evidence.target.tol
    game = evidence.game
    if isinstance(game, GameSum):
        return False
    while True:
        try:
            return lime_cost(game, tol=tol).seconds <= LIME_SECONDS
        except ToleranceError as error:
            # `Evidence.guaranteed` uses a looser tol, too. If none is known, LIME is tried.
            if not tol < error.smallest <= 1:
                return True
            tol = error.smallest


def find_method(name: str) -> Method | None:
    """Return the method with this name or alias, or None."""
    if name in METHODS:
        return METHODS[name]
    for method in METHODS.values():
        if method.alias == name:
            return method
    return None


def as_methods(methods: str | Iterable[str] | None) -> tuple[Method, ...]:
    """Check method names: None for the default set, "all", one name, or several in order."""
    if methods is None:
        names = list(DEFAULT_METHODS)
    elif methods == "all":
        names = list(METHODS)
    elif isinstance(methods, str):
        names = [methods]
    else:
        names = list(methods)
    if not names:
        raise ValueError("methods: expected at least one name, got none")
    table = {}
    for name in names:
        method = None
        if isinstance(name, str):
            method = find_method(name)
        if method is None:
            raise ValueError(
                f"methods: expected names among {', '.join(METHODS)}; got "
                f"{name!r}{did_you_mean(name, METHODS)}"
            )
        # A dict keeps the order, and a method that is named twice or by its alias occurs once.
        table[method.name] = method
    return tuple(table.values())
