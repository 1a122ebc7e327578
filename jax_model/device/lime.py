"""LIME's exact limit for a batch of games: the core's rules in p, one per game, evaluated on the device.

The rule depends on the number of players (`attn_closed_form/lime/rules.py`), so every game brings its own nodes,
padded with nodes of no weight to the longest of the batch. What remains after the sums is a few numbers per game, done
on the host by the core's own `Regression`. Which LIME: that of the lime package with `bow=False`, as in the core.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attn_closed_form import LimeCoefficients
from attn_closed_form._types import Array
from attn_closed_form.game.budget import Budget
from attn_closed_form.game.terms import log_bound
from attn_closed_form.lime.kernel import Settings, check_settings, check_tol
from attn_closed_form.lime.moments import NARROWEST, finish, rule_factor
from attn_closed_form.lime.regression import Known, Regression, regression
from attn_closed_form.lime.rules import NoRuleError, SizeRule, ladder

from .budgets import Goals, Summary, plan_batch, slack, sums_of
from .exact import weighted_sums
from .game_batch import GameBatch
from .loops import each_game, mesh_of, placed

# Lists of nodes are filled up to a multiple of this, so that batches alike share one compiled program.
NODES = 16
NO_RULE = "no rule in p can be vouched for with these settings; use attn_closed_form.lime_limit"


class LimeBatch(NamedTuple):
    """LIME's limit of every game; `problems` has a reason for each game whose coefficients are NaN."""

    limits: list[LimeCoefficients]
    problems: dict[int, str]


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
    settings, tol = check_settings(kernel_width, ridge, num_samples), check_tol(tol)
    sizes = np.asarray(batch.players)
    found = [_regression(int(d), settings) for d in sizes]
    goals = _plan(batch, found, settings, tol)
    problems = dict(goals.problems)
    rules: list[SizeRule | None] = [None] * sizes.size
    for i, *bounds in zip(goals.kept, *_bounds(batch, goals, chunk), strict=True):
        one, goal = found[i], goals.budgets[i]
        rules[i] = _rule(one, kernel_width, goal, *bounds) if one and goal else None
    problems |= {i: NO_RULE for i, rule in enumerate(rules) if rule is None and i not in problems and sizes[i]}
    longest = max((rule.p.size for rule in rules if rule), default=1)
    m = -(-longest // NODES) * NODES
    p, w_E, w_D = np.full((sizes.size, m), 0.5), np.zeros((sizes.size, m, 2)), np.zeros((sizes.size, m))
    for i, (rule, one) in enumerate(zip(rules, found, strict=True)):
        if rule and one:
            nodes, weights = rule.p, rule.weights
            p[i, : nodes.size] = nodes
            w_E[i, : nodes.size] = np.stack([weights, weights * (1 - nodes - one.absent_share)], axis=1)
            w_D[i, : nodes.size] = weights * nodes * (1 - nodes)
    own = [placed(mesh_of(batch), x.astype(batch.s.dtype)) for x in (p, w_E, w_D)]
    sums = each_game(weighted_sums, batch, (goals.lam, goals.w, longest), *own, chunk=chunk)
    level, delta = (np.asarray(x, np.float64) for x in sums)
    exponent = np.asarray(batch.exponent)
    limits = [
        _finish(one, level[i], delta[i, : sizes[i]], _known(goals.about, i), int(exponent[i]))
        if rule and one
        else LimeCoefficients(np.full(int(sizes[i]), np.nan), np.nan)
        for i, (rule, one) in enumerate(zip(rules, found, strict=True))
    ]
    return LimeBatch(limits, problems)


def _bounds(batch: GameBatch, goals: Goals, chunk: int | None) -> tuple[Array, Array]:
    """Of every game that has a budget: logarithms of its bound on ellipses (n, thetas), and its bound on reals (n,)."""
    n, more = len(goals.kept), slack(batch)
    if not n:
        return np.zeros((0, 1)), np.zeros(0)
    sums = sums_of(batch, goals, chunk)
    rows = log_bound(sums)
    largest = math.exp(2 + more) * (sums.weight * (sums.background + sums.players)).reshape(n, -1).sum(axis=1)
    return np.logaddexp.reduce(rows.reshape(n, -1, rows.shape[1]), axis=1) + more, largest


def _rule(found: Regression, kernel_width: float, goal: Budget, log_bounds: Array, largest: float) -> SizeRule | None:
    """The shortest rule that keeps the game's share of the error, or None."""
    unit = found.d * math.exp(-found.log_unit)
    allowed = goal.p_error * goal.amplification / (unit * found.moment_factor())
    try:
        rules = ladder(found.d, kernel_width)
    except NoRuleError:
        return None
    index, errors = rules.choose(log_bounds[None], np.array([largest]), allowed)
    return rules.rules[int(index[0])] if errors[0] <= allowed else None


def _regression(d: int, settings: Settings) -> Regression | None:
    """The regression of d players, or None where no rule in p can have the digits that it needs."""
    found = regression(d, settings, d) if d > 1 else None
    return found if found and found.log_unit >= NARROWEST else None


def _plan(batch: GameBatch, found: list[Regression | None], settings: Settings, tol: float) -> Goals:
    """Budgets of the games, as `attn_closed_form/lime/moments.py` has them."""
    factors = [rule_factor(one, settings) if one else 2.0 for one in found]
    return plan_batch(
        batch,
        tol,
        [factor / 2 for factor in factors],
        [
            one.doubt(factor, math.exp(-one.log_unit)) if one else 0.0
            for one, factor in zip(found, factors, strict=True)
        ],
        [1 + 8 * one.nobody_factor() if one else 1.0 for one in found],
        in_type=False,
    )


def _known(about: Summary, i: int) -> Known:
    """Of game i, in the units of the batch."""
    return Known(float(about.above[i]), float(about.nobody[i]), float(about.base[i]), 0)


def _finish(found: Regression, level: Array, delta: Array, known: Known, exponent: int) -> LimeCoefficients:
    unit = found.d * math.exp(-found.log_unit)
    coef, intercept = found.solve(finish(found, unit * level, unit * delta, known), np.arange(delta.size))
    return LimeCoefficients(np.ldexp(coef, exponent), math.ldexp(intercept, exponent))
