"""LIME's exact limit for a batch of games: the core's rules in p, one per game, evaluated on the device.

The rule depends on the number of players (`attn_closed_form/lime/kernel_rule.py`), so every game brings its own nodes,
padded with nodes of no weight to the longest of the batch. What remains after the sums is a few numbers per game, done
on the host by the core's own `Regression`. Which LIME: that of the lime package with `bow=False`, as in the core.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import LimeCoefficients
from attn_closed_form._types import Array
from attn_closed_form.game.budget import Budget
from attn_closed_form.game.engine import RowSums
from attn_closed_form.game.node_counts import total_log_bound
from attn_closed_form.lime.kernel import check_settings, check_tol
from attn_closed_form.lime.kernel_rule import NoRuleError, SizeRule, ladder
from attn_closed_form.lime.moments import NARROWEST, finish, rule_amplification
from attn_closed_form.lime.regression import Regression, regression

from .budgets import Summary, games_at_once, plan_batch, slack, sums_of
from .exact import weighted_sums
from .game_batch import GameBatch

# Node counts are rounded up to a multiple of this, so that batches alike share one compiled program.
NODES = 8
NO_RULE = "no rule in p can be vouched for with these settings; use attn_closed_form.lime_limit"


class LimeBatch(NamedTuple):
    """LIME's limit of every game; `problems` has a reason for each game whose coefficients are NaN."""

    limits: list[LimeCoefficients]
    problems: dict[int, str]


@partial(jax.jit, static_argnums=0)
def _map_own(chunk: int, batch: GameBatch, lam: Any, w: Any, p: Any, w_E: Any, w_D: Any) -> Any:
    """`weighted_sums` of every game with its own nodes p."""
    return jax.lax.map(lambda own: weighted_sums(own[0], lam, w, *own[1:]), (batch, p, w_E, w_D), batch_size=chunk)


def lime_limit(
    batch: GameBatch,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    chunk: int | None = None,
) -> LimeBatch:
    """LIME's limit for every game, as `attn_closed_form.lime_limit`: |error| <= tol * max|f|, or a problem.

    A game of one player, and one that has no rule in p, is left to the core, and `problems` says so.
    """
    settings, tol, size = check_settings(kernel_width, ridge, num_samples), check_tol(tol), games_at_once(batch, chunk)
    sizes = np.asarray(batch.players)
    found = [regression(int(d), settings, int(d)) if d > 1 else None for d in sizes]
    goals = plan_batch(batch, tol, [rule_amplification(one, settings) if one else 1.0 for one in found])
    sums, problems = sums_of(batch, goals, size), dict(goals.problems)
    rules: list[SizeRule | None] = []
    for i, (one, goal) in enumerate(zip(found, goals.budgets, strict=True)):
        rule = _rule(one, kernel_width, goal, sums(i), slack(batch)) if one and goal else None
        if rule is None:
            problems.setdefault(i, NO_RULE)
        rules.append(rule)
    longest = max((rule.p.size for rule in rules if rule), default=1)
    m = -(-longest // NODES) * NODES
    p, w_E, w_D = np.full((sizes.size, m), 0.5), np.zeros((sizes.size, m, 2)), np.zeros((sizes.size, m))
    for i, (rule, one) in enumerate(zip(rules, found, strict=True)):
        if rule and one:
            nodes, weights = rule.p, rule.weights
            p[i, : nodes.size] = nodes
            w_E[i, : nodes.size] = np.stack([weights, weights * (1 - nodes - one.absent_share)], axis=1)
            w_D[i, : nodes.size] = weights * nodes * (1 - nodes)
    own = (jnp.asarray(x, batch.s.dtype) for x in (p, w_E, w_D))
    level, delta = (np.asarray(x, np.float64) for x in _map_own(size, batch, goals.lam, goals.w, *own))
    exponent = np.asarray(batch.exponent)
    limits = [
        _finish(one, level[i], delta[i, : sizes[i]], goals.about, i, int(exponent[i]))
        if rule and one
        else LimeCoefficients(np.full(int(sizes[i]), np.nan), np.nan)
        for i, (rule, one) in enumerate(zip(rules, found, strict=True))
    ]
    return LimeBatch(limits, problems)


def _rule(found: Regression, kernel_width: float, goal: Budget, sums: RowSums, more: float) -> SizeRule | None:
    """The shortest rule that keeps the game's share of the error, or None."""
    unit = found.d * math.exp(-found.log_unit)
    allowed = goal.p_error * goal.amplification / (unit * found.moment_factor())
    largest = math.exp(2 + more) * float((sums.weight * (sums.background + sums.players)).sum())
    if found.log_unit < NARROWEST:
        return None
    try:
        rules = ladder(found.d, kernel_width)
    except NoRuleError:
        return None
    index, errors = rules.choose((total_log_bound(sums) + more)[None], np.array([largest]), allowed)
    return rules.rules[int(index[0])] if errors[0] <= allowed else None


def _finish(found: Regression, level: Array, delta: Array, about: Summary, i: int, exponent: int) -> LimeCoefficients:
    unit = found.d * math.exp(-found.log_unit)
    rest = float(about.everyone[i]), float(about.base[i]), float(about.nobody[i])
    coef, intercept = found.solve(finish(found, unit, unit * level, unit * delta, *rest), np.arange(delta.size))
    return LimeCoefficients(np.ldexp(coef, exponent), math.ldexp(intercept, exponent))
