"""What LIME's limit costs, known before it starts.

The two ways of `moments.py` cost L m d (a rule with m nodes for each of L terms) and L d^2 (the
recursion over sizes). L is counted and m is estimated from the bounds of the terms: a rule that is
exact below degree N is accurate enough if

    sum_{n >= N} c_n delta_n <= allowed,     delta_n about twice the sum of the weights,

with c_n of `rules.py`. A Gauss rule needs N/2 nodes; it exists up to about 1.5 sqrt(d) nodes.
Beyond, a rule needs N. On games of 60 to 3,000 players the estimate is between 0.8 and 1.7 times
the nodes that are used.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Literal, NamedTuple

import numpy as np

from .._arrays import positive, usual_float_errors
from .._errors import CostError
from .._types import Array, Ids
from ..game.by_size import MOST_SECONDS, RECURSION_SECONDS, StepSeconds
from ..game.engine.bounds import THETA, log_bound
from ..game.engine.budget import ToleranceError
from ..game.engine.engine_game import Game
from ..game.engine.terms import Terms, terms_of
from .kernel import Features, LimeSettings, as_features, check_settings
from .law import KernelLaw, largest_on_reals
from .moments import (
    LARGEST_GRAND_WEIGHT,
    RulePlan,
    allowed_error,
    recursion_budget,
    recursion_factor,
    rule_budget,
    rule_factor,
)
from .regression import Regression, regression
from .rules import COUNTS, LOG_PRESENT, LONGEST_RULE, longest_of
from .size_moments import last_degree

Route = Literal["rule", "recursion"]

# Tuning: one step of a rule is a term at a node for a player.
RULE_SECONDS = StepSeconds(real=1.1e-8, complex=4.5e-8)

# Tuning: up to this number of players every game of a few heads takes less than a second, and is
# not examined.
FEW_PLAYERS = 100


class LimeCost(NamedTuple):
    """The predicted cost of `lime_limit`.

    Attributes
    ----------
    route : "rule" for rules in p, "recursion" for the recursion over sizes
    terms : L, the number of terms of the game
    steps : terms times nodes times players, or terms times pairs of players
    seconds : predicted time on one core of a laptop of 2022. The count stops at MOST_SECONDS:
        beyond, `terms`, `steps` and `seconds` are lower bounds
    """

    route: Route
    terms: int
    steps: float
    seconds: float


@usual_float_errors
def lime_cost(
    game: Game,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    features: Features | None = None,
) -> LimeCost:
    """Predict what `lime_limit` costs with the same arguments, without computing it.

    Use it to leave LIME out where it would take too long. `lime_limit` raises a CostError if the
    predicted time is more than a minute.

    Parameters
    ----------
    game, kernel_width, ridge, num_samples, tol, features : as in `lime_limit`

    Returns
    -------
    LimeCost(route, terms, steps, seconds)
        the route that `lime_limit` would take, and the seconds that it would need; nothing is
        computed

    Raises
    ------
    ToleranceError
        if `tol` cannot be guaranteed in float64 for this game

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> rng = np.random.default_rng(0)
    >>> s, v = rng.normal(size=(2, 300))
    >>> cost = lime_cost(PooledGame.from_scores(s, v, s_background=0.0, v_background=0.0))
    >>> cost.route, cost.terms, cost.seconds < 1.0
    ('rule', 26, True)
    """
    settings = check_settings(kernel_width, ridge, num_samples)
    tol = positive("tol", tol)
    k = as_features(features, game.d).size
    if game.d == 1:
        return LimeCost(route="rule", terms=0, steps=0.0, seconds=0.0)
    return predicted_cost(game, regression(game.d, settings, k), settings, tol)


def check_cost(game: Game, fit: Regression, settings: LimeSettings, tol: float) -> Route:
    """Return the cheaper route that keeps `tol`, or raise a CostError if it would take too long."""
    return _affordable(game.d, predicted_cost(game, fit, settings, tol))


def check_plan_cost(plan: RulePlan) -> None:
    """Raise a CostError if the sums of a plan would take too long."""
    terms = sum(assignment.terms.size for assignment in plan.assignments)
    seconds = plan.steps * RULE_SECONDS.of(plan.engine)
    _affordable(
        plan.engine.d, LimeCost(route="rule", terms=terms, steps=plan.steps, seconds=seconds)
    )


def check_recursion_cost(game: Game, fit: Regression, tol: float) -> None:
    """Raise a CostError if the recursion over sizes would take too long."""
    _affordable(game.d, _recursion_cost(game, fit, tol))


def _affordable(d: int, cost: LimeCost) -> Route:
    """Return the route, or raise an error if it takes too long."""
    if cost.seconds <= MOST_SECONDS:
        return cost.route
    raise CostError(
        f"game: LIME's limit of {d:,} players would take more than {MOST_SECONDS:.0f} seconds (at "
        f"least {cost.steps:.1e} steps, by the {cost.route}). Use a larger tol or fewer players, "
        f"or estimate it with lime_sample",
        cost.seconds,
    )


def predicted_cost(game: Game, fit: Regression, settings: LimeSettings, tol: float) -> LimeCost:
    """Return the cost of rules in p where every term seems to have one, otherwise that of the
    recursion.
    """
    if fit.at_all <= LARGEST_GRAND_WEIGHT:
        cost = _rule_cost(game, fit, settings, tol)
        if cost is not None:
            return cost
    return _recursion_cost(game, fit, tol)


def _rule_cost(game: Game, fit: Regression, settings: LimeSettings, tol: float) -> LimeCost | None:
    """Return the cost of rules in p, or None if they cannot keep `tol` or if some term has none."""
    d = game.d
    engine = game.engine_game(2 * tol / rule_factor(fit, settings))
    goal = rule_budget(engine, fit, settings, tol)
    if isinstance(goal, ToleranceError):
        return None
    law = KernelLaw(d, settings.kernel_width)
    allowed = allowed_error(goal, fit)
    steps = 0.0
    seconds = 0.0
    number = 0
    longest = 0
    for terms in terms_of(engine, goal):
        nodes = predicted_nodes(law, terms, allowed)
        if nodes.size:
            longest = max(longest, int(nodes.max()))
        if longest > min(LONGEST_RULE, last_degree(d, LONGEST_RULE) + 1):
            return None
        number += terms.weight.size
        steps += float(nodes.sum()) * d
        seconds = steps * RULE_SECONDS.of(engine)
        if seconds > MOST_SECONDS:
            break
    return LimeCost(
        route="rule", terms=number, steps=steps, seconds=seconds + build_seconds(d, longest)
    )


def _recursion_cost(game: Game, fit: Regression, tol: float) -> LimeCost:
    """Return the cost of the recursion over sizes, or raise a ToleranceError if it cannot keep
    `tol`.
    """
    engine = game.engine_game(2 * tol / recursion_factor(fit))
    goal = recursion_budget(engine, fit, tol)
    pairs = float(game.d) ** 2
    seconds = 0.0
    number = 0
    for terms in terms_of(engine, goal):
        number += terms.weight.size
        seconds = number * pairs * RECURSION_SECONDS.of(engine)
        if seconds > MOST_SECONDS:
            break
    return LimeCost(route="recursion", terms=number, steps=number * pairs, seconds=seconds)


def predicted_nodes(law: KernelLaw, terms: Terms, allowed: float) -> Ids:
    """Return about how many nodes the terms of a chunk that matter will have, (n,).

    `allowed` is the error of all terms of the game together. Numbers are rounded up to one of
    COUNTS; LONGEST_RULE + 1 means that there is probably no rule.
    """
    allowed = allowed * terms.sums.share / terms.weight.size
    largest = law.total_weight * largest_on_reals(terms)
    which = np.flatnonzero(largest > allowed)
    degree = _needed_degree(log_bound(terms.sums)[which], law, allowed)
    # Gauss rules for LIME's kernel exist up to about this many nodes per sqrt(d)
    # (docs/theory/rules-in-p.md).
    gauss_per_root = 1.5
    has_gauss_rule = degree / 2 <= gauss_per_root * math.sqrt(law.d)
    nodes = np.where(has_gauss_rule, degree / 2, degree)
    if last_degree(law.d, LONGEST_RULE) == law.d:
        # Few players have all moments, and the longest of their rules is exact or nearly so.
        existing = [count for count in COUNTS if count <= law.d + 1]
        nodes = np.minimum(nodes, existing[-1])
    counts = np.array([*COUNTS, LONGEST_RULE + 1])
    index = np.searchsorted(counts, nodes)
    return counts[np.minimum(index, counts.size - 1)]


def _needed_degree(log_bounds: Array, law: KernelLaw, allowed: float) -> Array:
    """Return (n,) degrees N below which a rule has to be exact, from the sum of the module
    docstring.

    The factor sqrt(2n+1) is taken at the last degree that is in use, about 12 sqrt(d).
    """
    last = 12 * math.sqrt(law.d)
    log_degree = math.log(2 * last + 1) / 2
    log_delta = math.log(2 * law.total_weight)
    log_first = -np.log(-np.expm1(-2 * THETA))
    log_second = -np.log(-np.expm1(-THETA))
    log_ratio = log_bounds + LOG_PRESENT + (log_first + log_second)
    log_ratio += math.log(2) / 2 + log_degree + log_delta - math.log(allowed)
    degree: Array = (log_ratio / THETA).min(axis=1)
    return np.maximum(degree, 2.0)


def build_seconds(d: int, longest: int) -> float:
    """Return about how long it takes to build all rules up to this number of nodes for the first
    time.
    """
    if not longest:
        return 0.0
    moments = last_degree(d, longest_of((longest,)))
    built = sum(COUNTS[: bisect_left(COUNTS, longest) + 1])
    # Tuning: seconds for building a rule with m nodes from N moments, per m N. Rules are cached, so
    # this is the cost for the first document with this number of words.
    rule_seconds = 2.5e-6
    # Tuning: seconds for the N moments of d players, per N d.
    moment_seconds = 4e-7
    return moments * (rule_seconds * built + moment_seconds * d)
