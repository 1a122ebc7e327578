"""The moments of f that LIME's regression needs (`regression.py`), accurate enough for `tol`, in one of two ways.

1. **A rule in p for the kernel**, O(L m d). E_p[f] and Delta_j(p), p the probability of being present, make

       E_p[f Z_j] = p (E_p[f] + (1-p) Delta_j(p)),   Z_j = 1 - W_j,

   and `KernelLaw` turns sums over sizes into sums over nodes p. A term (a node lam of a head) uses the shortest rule
   of `ladder` that is accurate enough for it or, if players are deleted, a `tilted_rule` made for it alone.
2. **The recursion over sizes** (`game/by_size.py`), O(L d^2), if a term has neither, or if the kernel is so narrow that
   no rule keeps the digits.

**Errors.** A coefficient is E[psi f'] with a known function psi, so a relative error eps of 1/D, and the rounding of
the sums, are multiplied by `Regression.value_factor` or `rounding_factor`; `budget` gives them most of `tol`. The rule
in p has the rest, and its errors of different moments share nothing (`moment_factor`). For the rules in p the
sums of moduli that the rounding is relative to are those of the rules' weights, which are positive or nearly so.
f(all), which the intercept begins with and f' is relative to, and the regression itself have separate
rounding errors, `Regression.extra_ulps`; that of an `empty_value` far from all values is relative to it,
`Regression.nobody_factor`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids
from ..game.by_size import centered_moments
from ..game.engine.bounds import log_bound
from ..game.engine.budget import Budget, ToleranceError, budget, in_units
from ..game.engine.engine_game import EngineGame, Game
from ..game.engine.evaluate import batch_sums, weighted_sums
from ..game.engine.exponential_sums import EPS_MIN
from ..game.engine.kernels import sum_in_pairs
from ..game.engine.laws import Batch
from ..game.engine.rounding import FACTOR, LIME_EMPTY, MOST_NODES, PRECISE, ULP
from ..game.engine.terms import Terms, terms_of
from .kernel import Settings, relative_kernel
from .regression import Known, Moments, Regression, regression
from .rules import (
    GROUPS,
    MIXED_SIGNS,
    NoRuleError,
    SizeRule,
    TiltedTerm,
    ladder,
    rule_errors,
    size_moments,
    tilted_rule,
)

# Number of players from which the recursion over sizes warns about its time, and the time for a term and a pair.
WARN_FROM = 2000
SECONDS_PER_STEP = 3e-8
# Number of deleted players from which making a rule for each term costs less than long rules for all terms.
TILTED_FROM = 1000
# Elements (terms times players times nodes) that cost as much as one more call of the engine.
GROUP_ELEMENTS = 6_000
# Weight of the grand coalition, in units of pi(1), beyond which no rule in p is accurate enough for a narrow kernel.
NARROWEST = math.exp(25.0)


def find_moments(game: Game, fit: Regression, settings: Settings, tol: float) -> Moments:
    """Compute the moments, accurate enough for `tol`, in the cheapest way."""
    try:
        return moments_by_rule(game, fit, settings, tol)
    except ToleranceError:
        return moments_by_recursion(game, fit, tol)


def moments_by_recursion(linked: Game, fit: Regression, tol: float) -> Moments:
    """Compute the moments by the recursion over sizes in O(L d^2), for any kernel."""
    weights = np.stack([fit.drawn, fit.drawn * fit.deviation])
    factor = max(
        fit.value_factor(),
        fit.rounding_factor(fit.level, float(np.abs(weights[1]).sum()), 2 * fit.level),
    )
    game = linked.engine_game(2 * tol / factor)
    goal = _budget(game, fit, tol, factor, 0.0, plain=True)
    if game.d >= WARN_FROM:
        seconds = (
            sum(terms.weight.size for terms in terms_of(game, goal, 1 << 16))
            * game.d**2
            * SECONDS_PER_STEP
        )
        warnings.warn(
            f"no rule in p has a proven error with these settings, so LIME's limit uses the recursion over all pairs "
            f"of {game.d:,} players: about {seconds:,.0f} seconds and {game.d**2 * 16 / 1e9:.1f} GB",
            RuntimeWarning,
            stacklevel=3,
        )
    known = known_of(game)
    mean, present = (
        np.ldexp(x, game.exponent - known.exponent) for x in centered_moments(game, weights, goal)
    )
    mean += weights[:, -1] * known.nobody - np.array([fit.level, fit.balance]) * known.above
    # E[pi W_j f] = E[pi f] - E[pi Z_j f], and the common part of all players drops out of `individual`.
    return Moments(float(mean[0]), float(mean[1]), present.mean() - present, known)


def moments_by_rule(linked: Game, fit: Regression, settings: Settings, tol: float) -> Moments:
    """Compute the moments by rules in p in O(L m d), or raise a NoRuleError if one is missing."""
    if fit.at_all > NARROWEST:
        raise NoRuleError("the kernel is too narrow for a rule in p")
    game = linked.engine_game(2 * tol / rule_factor(fit, settings))
    goal = _rule_budget(game, fit, settings, tol)
    allowed = goal.p_error * goal.amplification / fit.moment_factor()
    law = KernelLaw(game.d, settings.kernel_width)
    parts = batch_sums(
        game, goal._replace(p_error=allowed), law, partial(rule_sums, fit.absent_share)
    )
    known = known_of(game)
    sums = np.ldexp(sum_in_pairs(parts, np.zeros(2 + game.d)), game.exponent - known.exponent)
    return moments_of_sums(fit, sums[:2], sums[2:], known)


def rule_sums(absent_share: float, terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return (2 + d,) sums over nodes for `moments_of_sums`: of E_p[f] with two weights, and of every Delta_j(p)."""
    _, p, weights = batch
    mean_weights = np.stack([weights, weights * (1 - p - absent_share)])
    first_weights = (weights * p * (1 - p))[None]
    mean, first = weighted_sums(terms, batch, precise, mean_weights, first_weights)
    return np.concatenate([mean, first[0]])


def moments_of_sums(fit: Regression, total: Array, delta: Array, known: Known) -> Moments:
    """Return the moments from the sums over nodes, total (2,) and delta (d,), in the units of `known`.

    The sums of a rule weight the grand coalition by pi(0), and do not use `empty_value` for the empty one.
    """
    nobody = float(fit.drawn[-1]) * known.nobody
    middle = float(delta.mean())
    off = fit.absent_share * fit.at_all - fit.balance
    return Moments(
        mean=float(total[0]) + nobody - known.above * (fit.at_all + fit.level),
        shared=float(total[1]) - middle + (1 - fit.absent_share) * nobody + known.above * off,
        individual=middle - delta,
        known=known,
    )


def known_of(game: EngineGame) -> Known:
    """Return the values of the grand and the empty coalition, in units such that neither exceeds 1."""
    excess = game.empty_excess
    if excess:
        exponent = max(game.exponent, math.frexp(excess)[1])
    else:
        exponent = game.exponent
    above = math.ldexp(float(game.grand_means.sum()), game.exponent - exponent)
    return Known(above, math.ldexp(excess, -exponent), game.base, exponent)


# --- budgets ------------------------------------------------------------------------------------------------------


def rule_factor(fit: Regression, settings: Settings) -> float:
    """Return the factor by which errors of f are multiplied in sums by a rule in p."""
    return max(rule_factors(fit.d, settings, fit.k))


@lru_cache(maxsize=512)
def rule_factors(d: int, settings: Settings, k: int) -> tuple[float, float]:
    """Return the factors by which a relative error of f, and one of the sums over nodes, are multiplied."""
    fit = regression(d, settings, k)
    q = relative_kernel(d, settings.kernel_width)
    s = np.arange(d + 1)
    # Nodes p with the rule's weights spread about the sizes; |1 - p - w| has the mean square of |s/d - w| at most.
    level = float(q.sum())
    difference = 2 * float((q * s * (d - s)).sum()) / (d * max(d - 1, 1))
    spread = math.sqrt(level * float(q @ fit.deviation**2))
    return fit.value_factor(q), MIXED_SIGNS * fit.rounding_factor(
        level, spread + difference, 2 * difference
    )


def _rule_budget(game: EngineGame, fit: Regression, settings: Settings, tol: float) -> Budget:
    """Return the budget of `rule_factor`, or one with more of the error for 1/D if rounding needs little of it."""
    values, sums = rule_factors(fit.d, settings, fit.k)
    if sums > values:
        goal = _budget(game, fit, tol, values, fit.at_all)
        product = 0.0 if goal.precise else FACTOR * game.d
        rounding = ULP * (PRECISE + product + game.extra_ulps)
        eps = goal.eps - (sums / values - 1) * rounding
        if eps > max(goal.eps / 2, EPS_MIN) and goal.spread > 0:
            return goal._replace(eps=eps)
    return _budget(game, fit, tol, max(values, sums), fit.at_all)


def _budget(
    game: EngineGame,
    fit: Regression,
    tol: float,
    factor: float,
    at_all: float,
    plain: bool = False,
) -> Budget:
    """Return the budget if errors of f are multiplied by `factor`; `budget` assumes twice the error of f."""
    nobody = LIME_EMPTY * fit.nobody_factor() * in_units(abs(game.empty_excess), game.exponent)
    return budget(game, tol, factor / 2, plain, fit.extra_ulps(factor, at_all), nobody)


# --- LIME's law of sizes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelLaw:
    """LIME's weights of s absent players, `relative_kernel`, as nodes and weights in p."""

    d: int
    width: float

    def batches(self, terms: Terms, allowed: float, differences: bool = False) -> list[Batch]:
        """Return each term with the shortest rule that is accurate enough for E_p[f], E_p[f Z_j] and Delta_j."""
        each = allowed * terms.sums.share / terms.sums.weight.size
        real = largest_on_reals(terms)
        shared = partial(self._shared, log_bound(terms.sums), real, each)
        tilted = partial(self._tilted, terms, each)
        first = 1 if self.d >= TILTED_FROM else 4
        makers = [partial(shared, GROUPS[:first]), tilted, partial(shared, GROUPS[first:])]
        if terms.masses.some_light or terms.sums.complex_sums is not None:
            makers = [partial(shared, GROUPS)]
        batches: list[Batch] = []
        left = np.flatnonzero(_sizes(self.d, self.width)[1] * real > each)
        for maker in makers:
            if left.size:
                made, done = maker(left)
                batches = batches + made
                left = left[~done]
        if left.size:
            raise NoRuleError(
                f"{left.size} terms of the game have no rule in p that is accurate enough"
            )
        return batches

    def _shared(
        self,
        log_bounds: Array,
        real: Array,
        allowed: float,
        groups: tuple[tuple[int, ...], ...],
        which: Ids,
    ) -> tuple[list[Batch], NDArray[np.bool_]]:
        """Return batches of the terms for which a rule of these groups of `ladder` suffices, and a mask of them."""
        index = np.full(which.size, -1)
        errors = np.full(which.size, np.inf)
        rules = list[SizeRule]()
        for counts in groups:
            left = np.flatnonzero(errors > allowed)
            if left.size and counts[0] <= len(size_moments(self.d, self.width, counts[-1]).nu):
                some = ladder(self.d, self.width, counts)
                level, error = some.choose(log_bounds[which[left]], real[which[left]], allowed)
                better = error < errors[left]
                index[left[better]] = len(rules) + level[better]
                errors[left[better]] = error[better]
                rules += some.rules
        # Terms may exceed their share of the error if others compensate for it.
        done = errors <= (allowed if errors.mean() > allowed else np.inf)
        which = which[done]
        index = index[done]
        errors = errors[done]
        batches: list[Batch] = []
        levels = np.unique(index).tolist()
        for level, longer in zip_longest(levels, levels[1:]):
            group = np.flatnonzero(index == level)
            rule = rules[level]
            if longer is not None:
                # A group of few terms joins those with more nodes, because one more group would cost more. The error
                # of a longer rule is not always smaller: from the point where a Gauss rule no longer exists, rules
                # have Gauss-Legendre nodes, which are exact to half the degree.
                more_nodes = rules[longer].p.size - rule.p.size
                joined = errors.copy()
                joined[group] = rule_errors(
                    rules[longer], log_bounds[which[group]], real[which[group]]
                )
                is_cheaper = group.size * self.d * more_nodes <= GROUP_ELEMENTS
                if is_cheaper and joined.sum() <= max(allowed * which.size, errors.sum()):
                    index[group] = longer
                    errors = joined
                    continue
            p = rule.p[:, None]
            weights = rule.weights[:, None]
            for start in range(0, len(p), MOST_NODES):
                part = slice(start, start + MOST_NODES)
                batches.append(Batch(which[group], p[part], weights[part]))
        return batches, done

    def _tilted(
        self, terms: Terms, allowed: float, which: Ids
    ) -> tuple[list[Batch], NDArray[np.bool_]]:
        """Return batches of the terms for which a rule can be made, one for each, and a mask of them."""
        q = _sizes(self.d, self.width)[0]
        done = np.zeros(which.size, dtype=bool)
        by_count: dict[int, list[tuple[int, Array, Array]]] = {}
        for k, i in enumerate(which.tolist()):
            rule = tilted_rule(q, tilted_term(terms, i), allowed)
            if rule is not None:
                done[k] = True
                by_count.setdefault(rule[0].size, []).append((i, *rule))
        batches = []
        for group in by_count.values():
            own, p, weights = zip(*group, strict=True)
            batches.append(Batch(np.array(own), np.stack(p, axis=1), np.stack(weights, axis=1)))
        return batches, done


def tilted_term(terms: Terms, i: int) -> TiltedTerm:
    """Return the data of a term for a tilted rule."""
    E = terms.factor[i, 0]
    piece = int(terms.piece_of[i])
    weight = float(terms.weight[i])
    B = float(terms.masses.half_range[piece])
    t = float(E.mean())
    absent = float(np.abs(terms.masses.V[piece, 1]).sum()) / B
    relative = E / t if t else E
    return TiltedTerm(
        t=t,
        S=float(((relative - 1) ** 2).sum()) * (1 + 1e-9),
        largest=float(relative.max()),
        background=weight * float(terms.sums.background[i]) / B,
        light=weight * absent,
        heavy=weight * max(0.0, float(terms.sums.players[i]) / B - absent),
        B=B,
    )


@lru_cache(maxsize=64)
def _sizes(d: int, width: float) -> tuple[Array, float]:
    """Return the weights of m = 0..d present players, and their sum."""
    q = np.ascontiguousarray(relative_kernel(d, width)[::-1])
    return q, float(q.sum())


def largest_on_reals(terms: Terms) -> Array:
    """Return a (r,) bound on each term of E_p[f] and of E_p[f Z_j] for p in [0, 1], and on its means over any size.

    The product over players is at most 1. If all players are heavier when present, it is at most e^2 e^(-p G), G the
    sum of 1 - E, even with two players left out of it; x A comes with a factor p, and p e^(-p G) <= 1/G. For m present
    players the product is at most t^m by Maclaurin's inequality, and m/d has the place of p.
    """
    sums = terms.sums
    if terms.masses.some_light:
        return sums.weight * (sums.background + sums.players)
    absent = np.add.reduce(np.abs(terms.masses.V[:, 1]), axis=1)[terms.piece_of]
    moving = np.maximum(sums.players - absent, 0.0) * np.minimum(
        1.0, math.exp(2) / np.maximum(sums.heavy, 1e-300)
    )
    return sums.weight * (sums.background + absent + moving)
