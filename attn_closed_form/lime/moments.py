"""The moments of f that LIME's regression needs (`regression.py`), good enough for `tol`: two ways to them.

1. **A rule in p for the kernel**, O(L m d). E_p[f] and Delta_j(p), p the probability of being present, make

       E_p[f Z_j] = p (E_p[f] + (1-p) Delta_j(p)),   Z_j = 1 - W_j,

   and `KernelLaw` turns sums over sizes into sums over nodes p. Every term (a node lam of a head) has the shortest rule
   of `rules.py` that is good enough for it; a term without one, as where thousands of players are deleted, has a
   rule made for it.
2. **The recursion over sizes** (`game/by_size.py`), O(L d^2), where a term has neither, or the kernel is so narrow that
   no rule keeps the digits.

**Errors.** A coefficient is E[psi f'] with a known function psi, so a relative error eps of 1/D, and the rounding of
the sums, are multiplied by `Regression.value_factor` or `rounding_factor`; `budget` gives them half of `tol`. The rule
in p has the other half, and its errors of different moments share nothing (`moment_factor`). For the rules in p the
sums of moduli that the rounding is relative to are those of the rules' weights, which are positive or nearly so.
f(everyone), which the intercept begins with and f' is relative to, and the regression itself have rounding of their
own, `Regression.doubt`; that of an `empty_value` far from all values is relative to it, `Regression.nobody_factor`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest

import numpy as np

from .._types import Array, Ids
from ..game.budget import FACTOR, PRECISE, ULP, Budget, ToleranceError, budget, in_units
from ..game.by_size import centred_moments
from ..game.evaluate import batch_sums, sum_in_pairs, weighted_sums
from ..game.laws import Batch
from ..game.pooled_game import PooledGame
from ..game.terms import Terms, log_bound, terms_of
from .kernel import Settings, kernel
from .regression import Known, Moments, Regression, regression
from .rules import MIXED_SIGNS, NoRuleError, TiltedTerm, ladder, tilted_rule

# Players from which the recursion over sizes says how long it will take, and its time for a term and a pair of players.
WARN_FROM, SECONDS_PER_STEP = 2000, 3e-8
# A rule with more nodes than LONG_RULE over the number of players is long: making one for the term costs less. One of
# up to SHORT_RULE nodes is never long.
LONG_RULE, SHORT_RULE = 25_000, 8
# Elements (terms times players times nodes) that take as long as one more call of the engine.
GROUP_ELEMENTS = 6_000
# Logarithm of pi(1) below which no rule in p can have the digits that a narrow kernel needs.
NARROWEST = -25.0


def find_moments(game: PooledGame, fit: Regression, settings: Settings, tol: float) -> Moments:
    """The moments, good enough for `tol`, by the cheapest way that is."""
    try:
        return moments_by_rule(game, fit, settings, tol)
    except (NoRuleError, ToleranceError):
        return moments_by_recursion(game, fit, tol)


def moments_by_recursion(game: PooledGame, fit: Regression, tol: float) -> Moments:
    """The moments by the recursion over sizes: O(L d^2), for any kernel."""
    weights = np.stack([fit.drawn, fit.drawn * fit.deviation])
    deviation = float(np.abs(weights[1]).sum())
    factor = max(fit.value_factor(), fit.rounding_factor(fit.level, deviation, 2 * fit.level))
    goal = _budget(game, fit, tol, factor, 0.0, plain=True)
    if game.d >= WARN_FROM:
        seconds = sum(terms.weight.size for terms in terms_of(game, goal, 1 << 16)) * game.d**2 * SECONDS_PER_STEP
        warnings.warn(
            f"no rule in p can be vouched for with these settings, so LIME's limit takes the recursion over all pairs "
            f"of {game.d:,} players: about {seconds:,.0f} seconds and {game.d**2 * 16 / 1e9:.1f} GB",
            RuntimeWarning,
            stacklevel=3,
        )
    known = known_of(game)
    mean, present = (np.ldexp(x, game.exponent - known.exponent) for x in centred_moments(game, weights, goal))
    mean += weights[:, -1] * known.nobody - np.array([fit.level, fit.balance]) * known.above
    # E[pi W_j f] = E[pi f] - E[pi Z_j f], and what all players have in common drops out of `individual`.
    return Moments(float(mean[0]), float(mean[1]), present.mean() - present, known)


def moments_by_rule(game: PooledGame, fit: Regression, settings: Settings, tol: float) -> Moments:
    """The moments by rules in p: O(L m d). NoRuleError if one is missing."""
    if fit.log_unit < NARROWEST:
        raise NoRuleError
    unit = game.d * math.exp(-fit.log_unit)  # from weights kernel(s) / d to those in units of pi(1)
    goal = _rule_budget(game, fit, settings, tol)
    # In units of the rule's weights: what the moments may be wrong by.
    allowed = goal.p_error * goal.amplification / (unit * fit.moment_factor())
    law = KernelLaw(game.d, settings.kernel_width)
    parts = batch_sums(game, goal._replace(p_error=allowed), law, partial(rule_sums, fit.absent_share))
    sums = sum_in_pairs(parts, np.zeros(2 + game.d))
    known = known_of(game)
    sums = np.ldexp(unit * sums, game.exponent - known.exponent)
    return finish(fit, sums[:2], sums[2:], known)


def rule_sums(absent_share: float, terms: Terms, batch: Batch, precise: bool) -> Array:
    """(2 + d,) sums of E_p[f] with the weights w and w (1 - p - absent_share), of Delta_j with w p (1 - p)."""
    mean, first = weighted_sums(
        terms,
        batch,
        precise,
        lambda p, weights: np.stack([weights, weights * (1 - p - absent_share)]),
        lambda p, weights: (weights * p * (1 - p))[None],
    )
    return np.concatenate([mean, first[0]])


def known_of(game: PooledGame) -> Known:
    """Values of everyone and of nobody, in units in which neither is above 1."""
    excess = game.empty_excess
    exponent = max(game.exponent, math.frexp(excess)[1]) if excess else game.exponent
    above = math.ldexp(float(game.everyone_means.sum()), game.exponent - exponent)
    return Known(above, math.ldexp(excess, -exponent), game.base, exponent)


def finish(fit: Regression, total: Array, delta: Array, known: Known) -> Moments:
    """Moments from the sums of a rule, `rule_sums` in the units of `known`, with everyone and nobody put right."""
    above, at_all, w = known.above, math.exp(-fit.log_unit), fit.absent_share
    nobody = float(fit.drawn[-1]) * known.nobody
    middle = float(delta.mean())
    off = w * at_all - fit.balance
    return Moments(
        mean=float(total[0]) + nobody - above * (at_all + fit.level),
        shared=float(total[1]) - middle + (1 - w) * nobody + above * off,
        individual=middle - delta,
        known=known,
    )


@lru_cache(maxsize=512)
def _kernel_moments(d: int, width: float) -> tuple[Array, Array]:
    """The weights kernel(s) / d of a rule and the same times s (d-s) / (d (d-1))."""
    q, s = kernel(d, width) / d, np.arange(d + 1)
    return q, q * (s * (d - s) / (d * max(d - 1, 1)))


def rule_factor(fit: Regression, settings: Settings) -> float:
    """What errors of f are multiplied by in sums by a rule in p with the weights kernel(s) / d."""
    return max(_rule_factors(fit.d, settings, fit.k))


def _rule_budget(game: PooledGame, fit: Regression, settings: Settings, tol: float) -> Budget:
    """The budget of `rule_factor`, or one with more of the error for 1/D, since rounding takes little of it."""
    values, sums = _rule_factors(fit.d, settings, fit.k)
    at_all = math.exp(-fit.log_unit)
    if sums > values:
        goal = _budget(game, fit, tol, values, at_all)
        rounding = ULP * (PRECISE + (0.0 if goal.precise else FACTOR * game.d))
        eps = goal.eps - (sums / values - 1) * rounding
        if eps > goal.eps / 2 and goal.spread > 0:
            return goal._replace(eps=eps)
    return _budget(game, fit, tol, max(values, sums), at_all)


@lru_cache(maxsize=512)
def _rule_factors(d: int, settings: Settings, k: int) -> tuple[float, float]:
    """What a relative error of f, and one of the sums over nodes, is multiplied by."""
    fit = regression(d, settings, k)
    unit = d * math.exp(-fit.log_unit)
    q, mixed = _kernel_moments(d, settings.kernel_width)
    # Nodes p with the rule's weights spread about the sizes; |1 - p - w| has the mean square of |s/d - w| at most.
    level, difference = float(q.sum()), 2 * float(mixed.sum())
    spread = math.sqrt(level * float(q @ fit.deviation**2))
    rounding = MIXED_SIGNS * fit.rounding_factor(level, spread + difference, 2 * difference)
    return unit * fit.value_factor(q), unit * rounding


def _budget(game: PooledGame, fit: Regression, tol: float, factor: float, at_all: float, plain: bool = False) -> Budget:
    """The budget where errors of f are multiplied by `factor`: `budget` reckons with twice the error of f."""
    nobody = 8 * fit.nobody_factor() * in_units(abs(game.empty_excess), game.exponent)
    return budget(game, tol, factor / 2, plain, fit.doubt(factor, at_all), nobody)


@dataclass(frozen=True)
class KernelLaw:
    """LIME's weights kernel(s) / d of s absent players, as nodes and weights in p."""

    d: int
    width: float

    def batches(self, terms: Terms, allowed: float, differences: bool = False) -> list[Batch]:
        """Every term with the shortest rule good enough for E_p[f], E_p[f Z_j] and Delta_j; NoRuleError without one."""
        rules, sums = ladder(self.d, self.width), terms.sums
        share = allowed * sums.share
        each = share / (1.001 * sums.weight.size)
        real = _largest(terms)
        index, errors = rules.choose(log_bound(sums), real, each)
        needed = real * rules.total > each
        batches: list[Batch] = []
        if not terms.masses.some_light:
            long = rules.counts[index] > max(LONG_RULE / self.d, SHORT_RULE)
            alone = needed & (long | (errors > each))
            if alone.any():
                batches, made = self._tilted(terms, np.flatnonzero(alone), each)
                needed[made] = False
        # Terms that are left out or have their own rule may make their part of the error.
        if errors[needed].sum() + np.count_nonzero(~needed) * each > share:
            raise NoRuleError
        index[~needed] = -1
        # A group of few terms joins those with more nodes: one more group would cost more.
        levels: list[int] = np.unique(index[index >= 0]).tolist()
        first = 0
        for level, longer in zip_longest(levels, levels[1:]):
            which = np.flatnonzero((index >= first) & (index <= level))
            if longer is None or which.size * self.d * (rules.counts[longer] - rules.counts[level]) > GROUP_ELEMENTS:
                rule = rules.rules[level]
                batches.append(Batch(which, rule.p[:, None], rule.weights[:, None]))
                first = level + 1
        return batches

    def _tilted(self, terms: Terms, which: Ids, allowed: float) -> tuple[list[Batch], list[int]]:
        """Batches of terms that have a rule made for them, and which terms they are."""
        q = np.ascontiguousarray(_kernel_moments(self.d, self.width)[0][::-1])
        by_count: dict[int, list[tuple[int, Array, Array]]] = {}
        for i in which.tolist():
            E, piece, weight = terms.factor[i, 0], int(terms.own[i]), float(terms.weight[i])
            t = float(E.mean())
            B = float(terms.masses.half_range[piece])
            absent = float(np.abs(terms.masses.V[piece, 1]).sum()) / B
            relative = E / t if t > 0 else E
            term = TiltedTerm(
                t=t,
                S=float(((relative - 1) ** 2).sum()) * (1 + 1e-9),
                largest=float(relative.max()),
                background=weight * float(terms.sums.background[i]) / B,
                light=weight * absent,
                heavy=weight * max(0.0, float(terms.sums.players[i]) / B - absent),
                B=B,
            )
            rule = tilted_rule(q, term, allowed)
            if rule is not None:
                by_count.setdefault(rule.p.size, []).append((i, rule.p, rule.weights * np.exp(rule.log_factor)))
        batches = []
        for group in by_count.values():
            numbers, p, weights = zip(*group, strict=True)
            batches.append(Batch(np.array(numbers), np.stack(p, axis=1), np.stack(weights, axis=1)))
        return batches, [i for group in by_count.values() for i, _, _ in group]


def _largest(terms: Terms) -> Array:
    """(r,) a bound of each term of E_p[f] and of E_p[f Z_j] for p in [0, 1].

    Every player left out of the product costs at most a factor e beside e^(-p G), G the sum of 1 - E. Where all
    players are heavier when present, x A comes with a factor p, and p e^(-p G) <= min(1, 1/G).
    """
    sums = terms.sums
    if terms.masses.some_light:
        return math.exp(2) * sums.weight * (sums.background + sums.players)
    absent = np.add.reduce(np.abs(terms.masses.V[:, 1]), axis=1)[terms.own]
    always = sums.background + absent
    moving = np.maximum(sums.players - absent, 0.0)
    return math.exp(2) * sums.weight * (always + moving * np.minimum(1.0, 1 / np.maximum(sums.heavy, 1e-300)))
