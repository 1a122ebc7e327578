"""The factors by which LIME's regression and its rules multiply errors, each against a case that
reaches it.
"""

import numpy as np
import pytest

from attn_closed_form.game.engine.bounds import THETA
from attn_closed_form.game.engine.budget import Budget
from attn_closed_form.lime.kernel import LimeSettings
from attn_closed_form.lime.moments import allowed_error, moments_of_sums
from attn_closed_form.lime.regression import Known, Moments, regression
from attn_closed_form.lime.rules import LOG_PRESENT

# The largest ratio of the factor to what these cases reach. With some of the features the mean of
# their moments is bounded by the largest of them, which is up to four times as much.
CASES = [(5, 5, 25.0, 1.9), (40, 40, 25.0, 1.9), (5, 3, 25.0, 4.0), (12, 1, 60.0, 4.0)]


def change(fit, moments):
    """The largest change of a coefficient or the intercept that changes of the moments make."""
    coef, intercept = fit.solve(moments, np.arange(fit.k))
    return max(float(np.abs(coef).max()), abs(intercept))


def test_a_player_that_is_present_multiplies_the_bound_by_the_largest_p():
    """p on the ellipse around [0, 1] is at most (1 + cosh theta) / 2 in modulus, at its right
    end.
    """
    p = 0.5 + 0.5 * np.cosh(THETA[:, None] + 1j * np.linspace(0, 2 * np.pi, 101))
    np.testing.assert_allclose(np.exp(LOG_PRESENT), np.abs(p).max(axis=1), rtol=1e-12)


@pytest.mark.parametrize(("d", "k", "width", "ratio"), CASES)
def test_a_change_of_the_empty_coalition(d, k, width, ratio):
    fit = regression(d, LimeSettings(width, 1.0, 50), k)
    known = Known(above=0.0, nobody=1.0, base=0.0, exponent=0)
    reached = change(fit, moments_of_sums(fit, np.zeros(2), np.zeros(d), known))
    assert reached * (1 - 1e-9) <= fit.nobody_factor() <= ratio * reached


@pytest.mark.parametrize(("d", "k", "width", "ratio"), CASES)
def test_independent_errors_of_the_moments(d, k, width, ratio):
    """Errors of 1 of E[pi f'] and of -1 of every E[pi (1 - W_j) f'], or all but one, and of the
    opposite signs.
    """
    fit = regression(d, LimeSettings(width, 1.0, 50), k)
    known = Known(above=0.0, nobody=0.0, base=0.0, exponent=0)
    reached = []
    for first in (-1.0, 1.0):
        of_players = np.full(d, -1.0)
        of_players[0] = first
        shared = (1 - fit.absent_share) - of_players.mean()
        individual = of_players.mean() - of_players
        reached.append(change(fit, Moments(1.0, shared, individual, known)))
    factor = fit.moment_factor()
    assert max(reached) * (1 - 1e-9) <= factor <= ratio * max(reached)


def test_the_error_of_the_rule_is_that_of_a_result():
    """The allowed error of every moment, times the factor to a result, is the rule's share of the
    caller's tol.
    """
    fit = regression(6, LimeSettings(25.0, 1.0, 50), 6)
    goal = Budget(eps=1e-12, p_error=3e-11, scale=1.0, spread=1.0, precise=False, amplification=7.0)
    assert allowed_error(goal, fit) * fit.moment_factor() == pytest.approx(
        7 * 3e-11, rel=1e-12, abs=0
    )
