"""The moments of f that LIME's regression needs (`regression.py`), accurate enough for `tol`, in
one of two ways.

1. **A rule in p for the kernel**, O(L m d). E_p[f] and Delta_j(p), p the probability of being
   present, make

       E_p[f Z_j] = p (E_p[f] + (1-p) Delta_j(p)),   Z_j = 1 - W_j,

   and `KernelLaw` (`law.py`) turns sums over sizes into sums over nodes p.
2. **The recursion over sizes** (`game/by_size.py`), O(L d^2), if the kernel is so narrow that no
   rule keeps the digits, if rounding leaves too little of `tol`, or if some term has no rule.

`plan_rules` decides, and `cost.py` knows the cost of either way before it is taken.

**Errors.** A coefficient is E[psi f'] with a known function psi, so a relative error eps of 1/D,
and the rounding of the sums, are multiplied by `Regression.value_factor` or `rounding_factor`;
`budget` gives them most of `tol`. The rule in p has the rest, and its errors of different moments
share nothing (`moment_factor`). For the rules in p the sums of moduli that the rounding is relative
to are those of the rules' weights, which are positive or nearly so. f(all), which the intercept
begins with and f' is relative to, and the regression itself have separate rounding errors,
`Regression.extra_ulps`; that of an `empty_value` far from all values is relative to it,
`Regression.nobody_factor`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from .._types import Array
from ..game.by_size import centered_moments
from ..game.engine.budget import Budget, ToleranceError, find_budget, in_units
from ..game.engine.engine_game import EngineGame, Game
from ..game.engine.evaluate import weighted_sums
from ..game.engine.exponential_sums import EPS_MIN
from ..game.engine.kernels import sum_in_pairs
from ..game.engine.laws import Batch
from ..game.engine.rounding import FACTOR, LIME_EMPTY, LIME_MIXED_SIGNS, PRECISE, ULP
from ..game.engine.terms import Terms, terms_of
from .kernel import LimeSettings, relative_kernel
from .law import Assignment, KernelLaw
from .regression import Known, Moments, Regression, regression
from .rules import GROUPS

# Weight of the grand coalition, in units of pi(1), beyond which no rule in p is accurate enough: a
# rule has this weight in its sums and has to take it off again, which costs as many digits (e^25 of
# the e^36 that float64 has). It only saves time: `Regression.extra_ulps` counts the digits, so the
# budget refuses such rules in any case.
LARGEST_GRAND_WEIGHT = math.exp(25.0)
# Tuning: elements (terms times players) up to which the terms of a plan are kept until they are
# summed. Those of larger games are computed twice, which costs little next to their sums and no
# memory.
KEPT_ELEMENTS = 1 << 18


class RulePlan(NamedTuple):
    """Everything that the sums by rules in p need, found before the first of them is computed."""

    engine: EngineGame
    goal: Budget
    assignments: list[Assignment]  # one per chunk of terms
    kept: list[Terms]  # the terms themselves, if they are few

    @property
    def steps(self) -> float:
        """The number of terms, times nodes, times players, that are added up."""
        nodes = sum(assignment.nodes for assignment in self.assignments)
        return float(nodes) * self.engine.d

    def chunks(self) -> Iterator[tuple[Terms, Assignment]]:
        """Yield every chunk of terms with its assignment."""
        terms = self.kept or terms_of(self.engine, self.goal)
        yield from zip(terms, self.assignments, strict=True)


def plan_rules(
    game: Game,
    fit: Regression,
    settings: LimeSettings,
    tol: float,
    groups: tuple[tuple[int, ...], ...] = GROUPS,
) -> RulePlan | None:
    """Return a rule in p, of some groups of them, for every term of a game, or None if these cannot
    keep `tol`.
    """
    if fit.at_all > LARGEST_GRAND_WEIGHT:
        return None
    amplification = rule_factor(fit, settings)
    engine = game.engine_game(2 * tol / amplification)
    goal = rule_budget(engine, fit, settings, tol)
    if isinstance(goal, ToleranceError):
        return None
    law = KernelLaw(game.d, settings.kernel_width)
    allowed = allowed_error(goal, fit)
    assignments: list[Assignment] = []
    kept: list[Terms] = []
    elements = 0
    for terms in terms_of(engine, goal):
        assignment = law.assign(terms, allowed, groups)
        if not assignment.is_accurate:
            return None
        assignments.append(assignment)
        elements += terms.weight.size * game.d
        if elements <= KEPT_ELEMENTS:
            kept.append(terms)
    if len(kept) < len(assignments):
        kept = []
    return RulePlan(engine, goal, assignments, kept)


def moments_by_rule(plan: RulePlan, fit: Regression) -> Moments:
    """Compute the moments by the rules of a plan in O(L m d)."""
    engine = plan.engine
    sums_of = partial(rule_sums, fit.absent_share)
    parts = (
        sums_of(terms, batch, plan.goal.precise).real
        for terms, assignment in plan.chunks()
        for batch in assignment.batches()
    )
    known = known_of(engine)
    sums = sum_in_pairs(parts, np.zeros(2 + engine.d))
    sums = np.ldexp(sums, engine.exponent - known.exponent)
    return moments_of_sums(fit, sums[:2], delta=sums[2:], known=known)


def moments_by_recursion(linked: Game, fit: Regression, tol: float) -> Moments:
    """Compute the moments by the recursion over sizes in O(L d^2), for any kernel."""
    weights = np.stack([fit.drawn, fit.drawn * fit.deviation])
    factor = recursion_factor(fit)
    game = linked.engine_game(2 * tol / factor)
    goal = recursion_budget(game, fit, tol)
    known = known_of(game)
    shift = game.exponent - known.exponent
    moments = centered_moments(game, weights, goal)
    mean, present = (np.ldexp(x, shift) for x in moments)
    of_nobody = weights[:, -1] * known.nobody
    of_everybody = np.array([fit.level, fit.balance]) * known.above
    mean += of_nobody - of_everybody
    # E[pi W_j f] = E[pi f] - E[pi Z_j f], and the common part of all players drops out of
    # `individual`.
    return Moments(
        mean=float(mean[0]),
        shared=float(mean[1]),
        individual=present.mean() - present,
        known=known,
    )


def rule_sums(absent_share: float, terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return (2 + d,) sums over nodes for `moments_of_sums`: of E_p[f] with two weights, and of
    every Delta_j(p).
    """
    _, p, weights = batch
    off_center = weights * (1 - p - absent_share)
    mean_weights = np.stack([weights, off_center])
    first_weights = weights * p * (1 - p)
    mean, first = weighted_sums(
        terms, batch, precise, mean_weights, first_weights=first_weights[None]
    )
    return np.concatenate([mean, first[0]])


def moments_of_sums(fit: Regression, total: Array, delta: Array, known: Known) -> Moments:
    """Return the moments from the sums over nodes, total (2,) and delta (d,), in the units of
    `known`.

    The sums of a rule weight the grand coalition by pi(0), and do not use `empty_value` for the
    empty one.
    """
    nobody = float(fit.drawn[-1]) * known.nobody
    middle = float(delta.mean())
    of_mean, of_shared = total.tolist()
    off = fit.absent_share * fit.at_all - fit.balance
    return Moments(
        mean=of_mean + nobody - known.above * (fit.at_all + fit.level),
        shared=of_shared - middle + (1 - fit.absent_share) * nobody + known.above * off,
        individual=middle - delta,
        known=known,
    )


def known_of(game: EngineGame) -> Known:
    """Return the values of the grand and the empty coalition, in units such that neither exceeds
    1.
    """
    excess = game.empty_excess
    if excess:
        exponent = max(game.exponent, math.frexp(excess)[1])
    else:
        exponent = game.exponent
    above_in_units = float(game.grand_means.sum())
    above = math.ldexp(above_in_units, game.exponent - exponent)
    return Known(
        above=above, nobody=math.ldexp(excess, -exponent), base=game.base, exponent=exponent
    )


# --- budgets --------------------------------------------------------------------------------------


def rule_factor(fit: Regression, settings: LimeSettings) -> float:
    """Return the factor by which errors of f are multiplied in sums by a rule in p."""
    return max(rule_factors(fit.d, settings, fit.k))


@lru_cache(maxsize=512)
def rule_factors(d: int, settings: LimeSettings, k: int) -> tuple[float, float]:
    """Return the factors by which a relative error of f, and one of the sums over nodes, are
    multiplied.
    """
    fit = regression(d, settings, k)
    q = relative_kernel(d, settings.kernel_width)
    s = np.arange(d + 1)
    # Nodes p with the rule's weights spread about the sizes; |1 - p - w| has the mean square of
    # |s/d - w| at most.
    level = float(q.sum())
    pairs = float((q * s * (d - s)).sum())
    difference = 2 * pairs / (d * max(d - 1, 1))
    variance = float(q @ fit.deviation**2)
    spread = math.sqrt(level * variance)
    of_sums = fit.rounding_factor(level, spread + difference, 2 * difference)
    return fit.value_factor(q), LIME_MIXED_SIGNS * of_sums


def allowed_error(goal: Budget, fit: Regression) -> float:
    """Return the allowed error of the rule in p for every moment.

    `p_error` is that of a result, and the errors of different moments share nothing.
    """
    return goal.p_error * goal.amplification / fit.moment_factor()


def recursion_factor(fit: Regression) -> float:
    """Return the factor by which errors of f are multiplied in sums over sizes."""
    off_center = float(np.abs(fit.drawn * fit.deviation).sum())
    of_sums = fit.rounding_factor(fit.level, off_center, 2 * fit.level)
    return max(fit.value_factor(), of_sums)


def recursion_budget(game: EngineGame, fit: Regression, tol: float) -> Budget:
    """Return the budget of the recursion, whose products are plain, or raise a ToleranceError."""
    parts = budget_of_fit(game, fit, tol, factor=recursion_factor(fit), at_all=0.0, plain=True)
    if isinstance(parts, ToleranceError):
        raise parts
    return parts


def rule_budget(
    game: EngineGame, fit: Regression, settings: LimeSettings, tol: float
) -> Budget | ToleranceError:
    """Return the budget of rules in p, or, as a value, the error that names the smallest tol that
    they can keep.

    If rounding needs little, more of the error is left for 1/D than `rule_factor` alone would give
    it.
    """
    values, sums = rule_factors(fit.d, settings, fit.k)
    if sums <= values:
        return budget_of_fit(game, fit, tol, factor=values, at_all=fit.at_all)
    goal = budget_of_fit(game, fit, tol, factor=values, at_all=fit.at_all)
    if isinstance(goal, Budget) and goal.spread > 0:
        product = 0.0 if goal.precise else FACTOR * game.d
        rounding = ULP * (PRECISE + product + game.extra_ulps)
        eps = goal.eps - (sums / values - 1) * rounding
        if eps > max(goal.eps / 2, EPS_MIN):
            return goal._replace(eps=eps)
    return budget_of_fit(game, fit, tol, factor=sums, at_all=fit.at_all)


def budget_of_fit(
    game: EngineGame,
    fit: Regression,
    tol: float,
    factor: float,
    at_all: float,
    plain: bool = False,
) -> Budget | ToleranceError:
    """Return the budget if errors of f are multiplied by `factor`; `budget` assumes twice the error
    of f.
    """
    excess = in_units(abs(game.empty_excess), game.exponent)
    empty_weight = fit.nobody_factor()
    of_grand = fit.grand_factor(at_all) * game.grand_error
    return find_budget(
        game,
        tol,
        amplification=factor / 2,
        plain=plain,
        extra_ulps=fit.extra_ulps(factor, at_all),
        constants=LIME_EMPTY * empty_weight * excess,
        known_error=(1 + empty_weight) * game.known_error + of_grand,
    )
