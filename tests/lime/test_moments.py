"""The two ways to LIME's moments: against each other, and against a sum over sizes that is known in
closed form.
"""

from math import fsum

import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit
from attn_closed_form.lime.kernel import LimeSettings, kernel
from attn_closed_form.lime.moments import (
    KEPT_ELEMENTS,
    moments_by_recursion,
    moments_by_rule,
    plan_rules,
)
from attn_closed_form.lime.regression import regression
from tests.lime_games import score_game
from tests.profiles import mostly_slow


@pytest.mark.parametrize("spread", [0.5, 3.0])
@pytest.mark.parametrize("background", mostly_slow([2.0, None], 1))
@pytest.mark.usual_errors
def test_the_recursion_agrees_at_six_hundred_deleted_players(spread, background):
    rng = np.random.default_rng(0)
    d = 600
    game = PooledGame.from_scores(
        rng.normal(size=d) * spread,
        rng.normal(size=d) + 1,
        s_background=background,
        v_background=None if background is None else 0.3,
    )
    settings = LimeSettings(25.0, 1.0, 5000)
    fit = regression(d, settings, d)
    fast = fit.solve(moments_by_rule(plan_rules(game, fit, settings, 1e-10), fit), np.arange(d))
    slow = fit.solve(moments_by_recursion(game, fit, 1e-6), np.arange(d))
    scale = np.abs(game.value(np.ones(d, dtype=bool)))
    assert np.abs(fast[0] - slow[0]).max() < 1e-6 * scale
    assert abs(fast[1] - slow[1]) < 1e-6 * scale
    assert np.abs(slow[0]).max() > 1e-4 * scale


@pytest.mark.parametrize(
    ("d", "kernel_width"), mostly_slow([(400, 25.0), (900, 5.0), (1_500, 25.0)], 1)
)
def test_one_of_two_values_among_many_equal_players(d, kernel_width):
    """A share of the players has value 1, the rest 0, all the same mass: f of m present is
    hypergeometric.

    E[f | m] = r / d for every m > 0, with r players of value 1, and E[f Z_j | m] = ((m-1)/(d-1)
    (r - y_j) + y_j) / d. So the coefficients are those of a linear function of the Z_j / m, which
    are sums over m of known weights.
    """
    ones = d // 4
    y = np.repeat([1.0, 0.0], [ones, d - ones])
    game = PooledGame.from_scores(np.full(d, 0.7), y)
    limit = lime_limit(game, kernel_width)
    n = 5000
    m = np.arange(d + 1)
    pi = kernel(d, kernel_width)[::-1]
    q = (n - 1) / (n * d) * pi
    q[d] = 1 / n
    f = np.where(m > 0, ones / d, 0.0)
    total = fsum(q)
    share = fsum(q * m / d) / fsum(q)
    shared = fsum(q * (m / d - share) * f)
    B = fsum(q * m * (d - m)) / (d * (d - 1))
    V = fsum(q * (m / d - share) ** 2)
    # E[f (Z_j - Z_bar) | m] = (y_j - ones/d) (1 - (m-1)/(d-1)) / d for m > 0.
    individual = fsum(np.where(m > 0, q * (1 - (m - 1) / (d - 1)), 0.0)) / d * (y - ones / d)
    slope = shared / (d * V + 1 / n)
    expected = individual / (B + 1 / n) + slope
    assert np.abs(limit.coef - expected).max() <= 1e-10
    assert abs(limit.intercept - (fsum(q * f) / total - share * d * slope)) <= 1e-10
    assert np.ptp(expected) > 1e-6


@pytest.mark.usual_errors
def test_terms_that_are_kept_and_terms_that_are_computed_again_give_the_same_moments():
    d = 2000
    game = score_game(d, H=20, kind="unk")
    settings = LimeSettings(25.0, 1.0, 5000)
    fit = regression(d, settings, d)
    plan = plan_rules(game, fit, settings, 1e-10)
    assert not plan.kept and 20 * 9 * d > KEPT_ELEMENTS, "so large that the terms are not kept"
    again = moments_by_rule(plan, fit)
    kept = moments_by_rule(plan._replace(kept=[terms for terms, _ in plan.chunks()]), fit)
    assert again.mean == kept.mean and (again.individual == kept.individual).all()


def test_a_kernel_that_is_too_narrow_has_no_plan():
    settings = LimeSettings(1.0, 1.0, 5000)
    assert plan_rules(score_game(6), regression(6, settings, 6), settings, 1e-10) is None


def test_a_tol_that_rounding_uses_up_has_no_plan():
    settings = LimeSettings(25.0, 1.0, 5000)
    assert plan_rules(score_game(6), regression(6, settings, 6), settings, 1e-17) is None
