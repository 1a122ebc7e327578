"""The bounds that choose rules in p, each in a case that uses it up."""

import math

import numpy as np
import pytest
from numpy.polynomial import chebyshev, legendre

from attn_closed_form import PooledGame, ToleranceError, lime_limit
from attn_closed_form.game.engine.bounds import THETA
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.rounding import FACTOR, LIME_MIXED_SIGNS, PRECISE, ULP
from attn_closed_form.game.engine.terms import terms_of
from attn_closed_form.lime.kernel import LimeSettings
from attn_closed_form.lime.law import DECAY, KernelLaw, largest_on_reals
from attn_closed_form.lime.moments import budget_of_fit, rule_budget, rule_factors
from attn_closed_form.lime.regression import regression
from attn_closed_form.lime.rules import LOG_PRESENT, ladder
from attn_closed_form.lime.size_moments import (
    MOMENT_BITS,
    WEIGHT_BITS,
    as_floats,
    legendre_values,
    size_moments,
    whole,
)
from tests.lime_games import score_game

pytestmark = pytest.mark.usual_errors


def errors_of_degrees(d, width, rule, longest):
    """What the rule makes of every Legendre polynomial, minus what the kernel makes of it."""
    moments = size_moments(d, width, longest)
    P = legendre_values(rule.p, len(moments.nu))
    return as_floats(moments.nu - whole(rule.weights, WEIGHT_BITS) @ P, MOMENT_BITS)


@pytest.mark.parametrize("m", [4, 7, 10, 14])
@pytest.mark.parametrize(("d", "width"), [(60, 25.0), (60, 8.0), (200, 25.0), (30, 12.0)])
def test_chebyshev_polynomials_use_the_error_of_a_rule_up(d, width, m):
    """Of the first degree n that the rule does not have: T_n is cosh(n theta) on the ellipse and 1
    on [0, 1].
    """
    only = ladder(d, width, (m,))
    (rule,) = only.rules
    delta = errors_of_degrees(d, width, rule, m)
    n = int(np.flatnonzero(np.abs(delta) > 1e-12 * delta.size)[0])
    coefficients = legendre.poly2leg(chebyshev.cheb2poly(np.eye(n + 1)[n]))
    error = abs(float(coefficients @ delta[: n + 1]))
    log_bound = np.log(np.cosh(n * THETA)) - LOG_PRESENT
    _, bound = only.choose(log_bound[None], np.ones(1), 0.0)
    assert 0.6 < error / bound[0] <= 1


@pytest.mark.parametrize(("d", "width", "m"), [(60, 25.0, 2), (60, 5.0, 4), (100, 12.0, 7)])
def test_every_degree_is_in_the_error_of_a_rule(d, width, m):
    """The sum over all degrees that are not exact, also beyond the moments that a short rule is
    compared with.
    """
    (rule,) = ladder(d, width, (m,)).rules
    few = len(errors_of_degrees(d, width, rule, m))
    delta = np.abs(errors_of_degrees(d, width, rule, 54))
    n = np.arange(delta.size)
    assert few < delta.size
    exact = int(np.flatnonzero(delta > 1e-12 * delta.size)[0])
    terms = np.sqrt(2 * (2 * n + 1)) * np.exp(-np.outer(THETA, n)) * delta
    sums = terms[:, exact:].sum(axis=1) / -np.expm1(-2 * THETA)
    assert (sums <= np.exp(rule.log_error) * (1 + 1e-9)).all()
    # What is beyond the few moments is most of it on the smallest ellipses, so leaving it out would
    # be seen.
    beyond = terms[:, few:].sum(axis=1) / -np.expm1(-2 * THETA)
    assert (beyond / sums).max() > 0.5


@pytest.mark.parametrize("allowed", [1e-3, 1e-6, 1e-9])
def test_no_rule_is_chosen_whose_error_is_above_the_allowed_one(allowed):
    some = ladder(60, 25.0, (2, 4, 6, 8, 10, 12, 14))
    log_bound = np.log(np.cosh(np.outer([3.0, 8.0, 20.0], THETA)))
    log_bound += np.log([[1e-6], [1e-3], [1.0]])
    ones = np.full(3, 1e-6)
    _, best = some.choose(log_bound, ones, 0.0)
    _, error = some.choose(log_bound, ones, allowed)
    assert (error <= np.maximum(allowed, best)).all()
    assert (best <= allowed).any()


def test_a_rule_whose_error_is_just_above_the_allowed_one_is_not_chosen():
    counts = (2, 4, 6, 8, 10, 12, 14)
    log_bound = np.log(np.cosh(np.outer([3.0, 8.0, 20.0], THETA)))
    ones = np.full(3, 1e-6)
    every = ladder(60, 25.0, counts)
    shorter = 0
    for m in counts:
        _, errors = ladder(60, 25.0, (m,)).choose(log_bound, ones, 0.0)
        for term, error in enumerate(errors.tolist()):
            alone = log_bound[[term]]
            allowed = error / 1.5
            _, chosen = every.choose(alone, ones[:1], allowed)
            _, best = every.choose(alone, ones[:1], 0.0)
            assert chosen <= max(allowed, best)
            shorter += bool(best <= allowed)
    assert shorter > 5


@pytest.mark.parametrize("d", [1, 2, 6, 30])
@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
def test_terms_reach_their_bound_on_the_reals(d, kind):
    """E_p[f], and E_p[f Z_j] = p times the mean with j present, on a grid of p with both ends."""
    reached = 0.0
    game = score_game(d, H=1, kind=kind, spread=3.0)
    for terms in terms_of(game, budget(game, 1e-9)):
        bound = largest_on_reals(terms)
        x = terms.factor[:, 0]
        y = terms.factor[:, 1]
        for p in np.linspace(0, 1, 41):
            Y = p * x + (1 - p) * y
            shares = p * terms.T[:, 0] + (1 - p) * terms.T[:, 1]
            for j in (None, 0, d - 1):
                factors = Y.copy()
                numerators = shares.copy()
                scale = 1.0
                if j is not None:
                    factors[:, j] = x[:, j]
                    numerators[:, j] = terms.T[:, 0, j]
                    scale = p
                mean = terms.n_0 * np.prod(factors, axis=1)
                for k in range(d):
                    mean += numerators[:, k] * np.prod(np.delete(factors, k, axis=1), axis=1)
                ratio = scale * terms.weight * np.abs(mean) / np.maximum(bound, 1e-290)
                reached = max(reached, float(ratio.max()))
                assert (ratio <= 1 + 1e-12).all()
    # One player without a background has the same value in every coalition with any mass, and no
    # term.
    if (d, kind) != (1, "empty"):
        assert reached > 0.15


def test_a_heavy_player_uses_the_decay_of_a_term_up():
    """One player with 1 - x next to 1: E_p[f] at p = 1 is all of its numerator, and e^2 / G does
    not reduce it.
    """
    game = PooledGame.from_scores([0.0], [1.0], s_background=-6.0, v_background=0.0)
    reached = []
    for terms in terms_of(game, budget(game, 1e-9)):
        real = terms.weight * np.abs(terms.T[:, 0, 0] + terms.n_0)
        bound = largest_on_reals(terms)
        assert (real <= bound * (1 + 1e-12)).all()
        steep = terms.sums.heavy > 0.9
        reached += (real / np.maximum(bound, 1e-290))[steep].tolist()
    assert max(reached) > 0.5


def test_the_decay_of_a_term_has_the_factor_that_it_states():
    """A decay below 1 has G > e^2, and p e^(-p (G - 2)) <= 1 / (e (G - 2)) is what is needed."""
    G = np.geomspace(DECAY, 1e6, 1000)
    needed = 1 / (math.e * (G - 2))
    assert 14 <= float((DECAY / G / needed).min()) < 15


def test_a_term_just_above_its_share_is_kept_and_one_just_below_is_left_out():
    game = score_game(81, H=1, kind="empty", spread=3.0)
    law = KernelLaw(81, 25.0)
    tried = 0
    for terms in terms_of(game, budget(game, 1e-11)):
        size = law.total_weight * largest_on_reals(terms)
        number = int(np.argsort(size)[size.size // 2])
        if size[number] == 0:
            continue
        of_game = terms.sums.weight.size / terms.sums.share
        for factor, kept in ((1 / 1.5, True), (1.5, False)):
            assignment = law.assign(terms, factor * float(size[number]) * of_game)
            assert (number in assignment.terms.tolist()) is kept
            tried += 1
    assert tried >= 2


@pytest.mark.parametrize("allowed", [1e-3, 1e-5, 1e-9])
def test_terms_that_are_left_out_are_below_their_share(allowed):
    """Each term may have its share of the allowed error, and no more is left out."""
    game = score_game(81, H=1, kind="empty", spread=3.0)
    law = KernelLaw(81, 25.0)
    largest = 0.0
    for terms in terms_of(game, budget(game, 1e-11)):
        assignment = law.assign(terms, allowed)
        share = allowed * terms.sums.share / terms.sums.weight.size
        assert assignment.allowed == pytest.approx(share, rel=1e-12, abs=0)
        size = law.total_weight * np.delete(largest_on_reals(terms), assignment.terms)
        assert (size <= share).all()
        largest = max(largest, float(size.max(initial=0.0)) / share)
    assert largest > 0.2


@pytest.mark.parametrize(("d", "width", "tol"), [(10, 10.0, 1e-11), (40, 60.0, 1e-12)])
def test_the_rounding_of_sums_is_taken_from_what_is_left_for_values(d, width, tol):
    """`values` times eps and `sums` times the rounding, together, are what `values` alone would
    have of both.
    """
    settings = LimeSettings(width, 1.0, 5000)
    fit = regression(d, settings, d)
    values, sums = rule_factors(d, settings, d)
    assert sums > 2 * values
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(
        rng.normal(size=d), rng.normal(size=d), s_background=0.0, v_background=0.0
    )
    alone = budget_of_fit(game, fit, tol, values, fit.at_all)
    goal = rule_budget(game, fit, settings, tol)
    rounding = ULP * (PRECISE + (0.0 if goal.precise else FACTOR * d))
    together = values * goal.eps + sums * rounding
    assert together <= values * (alone.eps + rounding) * (1 + 1e-9)
    assert alone.eps - goal.eps > 0.04 * alone.eps
    # Without the split, `sums` would count for both.
    assert goal.eps > 1.5 * budget_of_fit(game, fit, tol, sums, fit.at_all).eps


def test_weights_of_both_signs_count_in_the_rounding():
    """The factor of the sums has the same constant that decides which rules are taken, so a larger
    one is no danger.
    """
    settings = LimeSettings(25.0, 1.0, 5000)
    fit = regression(30, settings, 30)
    for (rule,) in (ladder(30, 25.0, (m,)).rules for m in (4, 9, 14)):
        moduli = np.abs(rule.weights) @ rule.p
        assert moduli <= LIME_MIXED_SIGNS * (rule.weights @ rule.p)
    level = float(fit.level + fit.at_all)
    assert rule_factors(30, settings, 30)[1] >= LIME_MIXED_SIGNS * fit.rounding_factor(level, 0, 0)


def test_one_player_has_the_rounding_of_two_values():
    """Forty ulps: eight of the last additions, and 32 of two values, their change, the quotient and
    the intercept.
    """
    game = PooledGame.from_scores([0.0], [1e-13], s_background=0.0, v_background=0.0, bias=1.0)
    with pytest.raises(ToleranceError) as error:
        lime_limit(game, tol=1e-17)
    assert 40 * ULP <= error.value.smallest <= 44 * ULP
