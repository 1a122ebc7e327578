"""How the methods of the table score the players of an `Evidence`.

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

from collections.abc import Callable

import numpy as np

from .._types import Array
from ..game.pooled_game import PooledGame
from ..game.shapley import leave_one_out
from ..game.shapley_sampled import shapley_sample
from ..lime.limit import lime_limit
from .evidence import Evidence, Scored


def inside(name: str) -> Callable[[Evidence], Scored | None]:
    """What the model says of each unit under this name, summed over the units of a player."""

    def score(evidence: Evidence) -> Scored | None:
        found = evidence.inside(name)
        if found is None:
            return None
        scores, base = found if isinstance(found, tuple) else (found, evidence.absent_value)
        return Scored(evidence.pool(scores), base)

    return score


def guaranteed(name: str, function: Callable[[PooledGame, float], Array]) -> Callable[[Evidence], Scored]:
    """A function of the game with its guarantee."""

    def score(evidence: Evidence) -> Scored:
        scores, error = evidence.guaranteed(function, name)
        return Scored(scores, evidence.absent_value, error)

    return score


def lime(evidence: Evidence) -> Scored:
    """What LIME converges to."""
    fit, error = evidence.guaranteed(lambda game, tol: lime_limit(game, tol=tol), "lime")
    return Scored(fit.coef, float(fit.intercept), error)


def sampled_lime(evidence: Evidence) -> Scored:
    """One run of LIME on the model itself."""
    fit = evidence.sampled_lime(1)[0]
    return Scored(fit.coef, float(fit.intercept), None, fit.standard_error, _calls(evidence, evidence.samples))


def sampled_shapley(evidence: Evidence) -> Scored:
    """Shapley values of the model itself from sampled orders."""
    found = shapley_sample(evidence.asked, evidence.samples, seed=evidence.settings.seed)
    nobody = float(evidence.asked.value(np.zeros((1, evidence.game.d), dtype=bool))[0])
    return Scored(found.values, nobody, None, found.standard_error, _calls(evidence, found.calls))


def leave_one_out_scores(evidence: Evidence) -> Scored:
    """The change of the prediction of the model itself when each player alone goes."""
    if evidence.fit is None:
        return Scored(leave_one_out(evidence.game), evidence.absent_value)
    d = evidence.game.d
    values = evidence.asked.value(~np.eye(d, dtype=bool))
    nobody = float(evidence.asked.value(np.zeros((1, d), dtype=bool))[0])
    return Scored(evidence.prediction - values, nobody, None, np.zeros(d), d + 1)


def _calls(evidence: Evidence, calls: int) -> int | None:
    return None if evidence.fit is None else calls


def slalom_value(evidence: Evidence) -> Scored:
    """What each player says."""
    # Shares among the heads, from logs: a player whose attention underflows in every head has a value all the same.
    logs = evidence.shares
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    values = len(share) * (share * evidence.game.v).sum(axis=0) + evidence.game.bias
    return Scored(values, evidence.absent_value)


def slalom_importance(evidence: Evidence) -> Scored:
    """How loudly each player says it."""
    logs = evidence.shares
    most = logs.max(axis=0)
    s = most + np.log(np.exp(logs - most).mean(axis=0))
    return Scored(s - s.mean(), evidence.absent_value)


def slalom_linear(evidence: Evidence) -> Scored:
    """The derivative of the prediction by each player's weight."""
    game, alpha = evidence.game, np.exp(evidence.shares)
    rest = 1.0 - alpha.sum(axis=1, keepdims=True)
    f = (alpha * game.v).sum(axis=1, keepdims=True) + rest * game.v_background[:, None]
    return Scored((alpha * (game.v - f)).sum(axis=0), evidence.prediction)
