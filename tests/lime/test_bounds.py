"""The bounds behind LIME's guarantee: each is at least what it bounds, and not absurdly more."""

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from attn_closed_form.game.engine.rounding import LIME_MEAN_SIZE, LIME_MIXED_SIGNS, ULP
from attn_closed_form.lime.kernel import LimeSettings, kernel, relative_kernel
from attn_closed_form.lime.moments import rule_factor, rule_factors
from attn_closed_form.lime.regression import regression, weights_of
from attn_closed_form.lime.rules import ladder


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("width", [25.0, 20.0])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 2), (5, 5), (5, 3), (6, 1)])
def test_an_error_of_every_value_is_multiplied_by_no_more_than_the_factor(d, k, width, ridge):
    """The regression over all coalitions is linear in the values: the sum of the moduli of its row
    is the worst.
    """
    n = 50
    masks = np.array(
        [[j not in a for j in range(d)] for s in range(d + 1) for a in combinations(range(d), s)]
    )
    absent = d - masks.sum(axis=1)
    q = (n - 1) / (n * d) * kernel(d, width)
    q[0] = 1 / n
    w = np.array([q[s] / comb(d, s) for s in absent])
    X = masks[:, :k].astype(float)
    centered = X - w @ X / w.sum()
    rows = np.linalg.solve(
        (centered * w[:, None]).T @ centered + ridge / n * np.eye(k), (centered * w[:, None]).T
    )
    intercept = w / w.sum() - (w @ X / w.sum()) @ rows
    worst = max(np.abs(rows[:, 1:]).sum(axis=1).max(), np.abs(intercept[1:]).sum())
    factor = regression(d, LimeSettings(width, ridge, n), k).value_factor()
    assert worst * (1 - 1e-9) <= factor <= 3.01 * worst


@pytest.mark.parametrize("width", [25.0, 5.0])
@pytest.mark.parametrize("d", [12, 60])
def test_what_the_rounding_of_a_sum_over_nodes_is_multiplied_by(d, width):
    """Against the sums of a rule itself: level, share, and differences, which count twice."""
    fit = regression(d, LimeSettings(width, 1.0, 5000), d)
    rule = ladder(d, width, (12,)).rules[0]
    level = rule.weights.sum()
    difference = 2 * (rule.weights * rule.p * (1 - rule.p)).sum()
    share = (rule.weights * np.abs(1 - rule.p - fit.absent_share)).sum()
    least = fit.rounding_factor(level, share + difference, 2 * difference)
    assert (
        least
        <= rule_factors(d, LimeSettings(width, 1.0, 5000), d)[1]
        <= 1.5 * LIME_MIXED_SIGNS * least
    )
    assert rule_factor(fit, LimeSettings(width, 1.0, 5000)) >= max(least, fit.value_factor())


@pytest.mark.parametrize("width", [25.0, 60.0, 4.0])
def test_the_rounding_of_the_mean_size(width):
    """The distance of w from the heaviest size, in rational numbers: its error is relative to the
    mean distance.
    """
    worst = 0.0
    for d in range(5, 40):
        settings = LimeSettings(width, 1.0, 5000)
        fit = regression(d, settings, d)
        q = [Fraction(float(x)) for x in fit.drawn]
        q[0] = Fraction(weights_of(d, settings).document)
        heaviest = q.index(max(q))
        total = sum(q)
        exact = sum(x * (s - heaviest) for s, x in enumerate(q)) / total / d
        error = abs(Fraction(float(-fit.deviation[heaviest])) - exact)
        allowed = LIME_MEAN_SIZE / 2 * ULP * fit.offset / fit.total
        worst = max(worst, float(error) / allowed)
    assert 0.15 < worst <= 1


def test_what_is_cached_cannot_be_written_to():
    fit = regression(4, LimeSettings(25.0, 1.0, 5000), 4)
    rule = ladder(4, 25.0).rules[0]
    for array in (fit.drawn, fit.deviation, relative_kernel(4, 25.0), rule.p, rule.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
