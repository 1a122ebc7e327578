"""Several heads: rounding of the sums of the heads in exact arithmetic, on constructed worst
cases.
"""

from fractions import Fraction

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game.engine.rounding import EXTREMUM_SUM, ULP, VALUE_BIAS
from attn_closed_form.game.extrema import relative_error
from attn_closed_form.reasons.heads import proved_above, ratio_ranges, total, value_error

# The first number is above 1, where floats are 2 ulps apart; each of six others takes almost one
# ulp from it, and every partial sum is rounded back. NumPy adds up to seven numbers one by one.
NUMBERS = np.array([1 + 2.0**-40, *[-ULP * (1 - 2.0**-10)] * 6])


def constant_heads(bias=0.0):
    """A game with seven heads, each of which has the same value in every coalition with any
    mass.
    """
    values = np.repeat(NUMBERS[:, None], 3, axis=1)
    return PooledGame.from_scores(np.zeros((7, 3)), values, bias=bias)


def exact(numbers):
    return sum(map(Fraction, np.asarray(numbers, dtype=float).tolist()))


def test_the_sum_of_the_heads_is_rounded_down():
    """Six ulps are lost. The allowance of 18 is three times that, and a third of it would not be
    enough.
    """
    assert NUMBERS.sum() == NUMBERS[0]
    lost = Fraction(float(NUMBERS.sum())) - exact(NUMBERS)
    low = total(constant_heads(), NUMBERS)
    assert Fraction(low) <= exact(NUMBERS)
    allowance = Fraction(float(NUMBERS.sum())) - Fraction(low)
    assert lost > allowance / 4


def test_no_goal_above_the_sum_of_the_heads_is_proved():
    """The exact value is nearly six ulps below zero and the goal 5.5; the sums are rounded to zero
    and to six.
    """
    game = constant_heads(bias=-float(NUMBERS[0]))
    goal = -5.5 * ULP
    assert exact([*NUMBERS, game.bias]) < Fraction(goal)
    everybody = np.ones(3, dtype=bool)
    assert not proved_above(game, everybody, everybody, goal)
    assert proved_above(game, everybody, everybody, -100 * ULP)


def test_the_ranges_of_the_ratios_are_not_too_narrow():
    """With thresholds of zero, the ratios of the heads are the numbers above, whose sum loses six
    ulps.
    """
    theta = np.zeros(7)
    bound = -np.abs(NUMBERS)
    rho, highest, _ = ratio_ranges(bound, theta)
    exact_rho = [Fraction(float(b)) for b in bound]
    for h in range(7):
        assert Fraction(float(rho[h])) <= exact_rho[h]
        others = -(sum(exact_rho) - exact_rho[h])
        assert Fraction(float(highest[h])) >= others


def test_the_sum_of_the_lowest_ratios_is_compared_with_more_than_its_rounding():
    """The bounds are such that the lowest ratios are the numbers above, whose sum loses six ulps;
    `blur` has 32.
    """
    bound = -NUMBERS[:1] * np.eye(7)[0]
    _, _, blur = ratio_ranges(bound, np.zeros(7))
    bound[1:] = blur + NUMBERS[1:]
    rho, _, blur = ratio_ranges(bound, np.zeros(7))
    lost = abs(exact(rho) - Fraction(float(rho.sum())))
    assert lost <= Fraction(blur)
    assert lost > Fraction(blur) / 10  # so a tenth of it fails


def test_the_highest_ratio_is_above_what_the_others_leave():
    """One large and six small numbers, in the order in which all roundings go down."""
    bound = -NUMBERS[0] * np.ones(7)
    bound[1:] = -ULP * (1 + 2.0**-10)
    _, highest, _ = ratio_ranges(bound, np.zeros(7))
    others = exact(bound[1:])
    assert Fraction(float(highest[0])) >= -others


def test_the_highest_ratio_of_two_heads_is_above_minus_the_other_one():
    """A large and a small ratio, whose difference loses digits of the small one, in one of two
    directions.
    """
    rng = np.random.default_rng(0)
    for small in rng.uniform(1e-4, 1e-3, 200):
        bound = np.array([-1.0, -small])
        _, highest, _ = ratio_ranges(bound, np.zeros(2))
        assert Fraction(float(highest[0])) >= Fraction(float(small))


def test_the_error_of_a_value_covers_its_rounding():
    """Values that cancel: the error of a value, in exact arithmetic, is a part of what is claimed.

    A value has d + 3 ulps here, because all masses are 1. The claim also covers masses with 750
    ulps, twice.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        v = rng.normal(size=40) * 10.0 ** rng.integers(0, 9, 40)
        game = PooledGame.from_scores(np.zeros(40), v, bias=float(rng.normal()))
        everybody = np.ones(40, dtype=bool)
        exactly = exact(v) / 40 + Fraction(game.bias)
        error = abs(Fraction(float(game.value(everybody))) - exactly)
        assert error <= Fraction(value_error(game))
    assert value_error(game) >= 2 * 750 * ULP * np.abs(v).max()
    assert value_error(game) >= EXTREMUM_SUM * relative_error(40) * np.abs(v).max()


def test_the_error_of_a_value_adds_up_over_heads():
    v = np.array([[3.0, -1.0], [0.5, 2.0]])
    game = PooledGame.from_scores(np.zeros((2, 2)), v, bias=7.0)
    expected = EXTREMUM_SUM * relative_error(2) * (3.0 + 2.0) + VALUE_BIAS * ULP * 7.0
    assert value_error(game) == pytest.approx(expected, rel=1e-12, abs=0)
