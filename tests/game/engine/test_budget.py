"""The budget: its parts add up to what tol allows, neither more nor much less."""

import math

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game import by_size
from attn_closed_form.game.engine.budget import ToleranceError, budget
from attn_closed_form.game.engine.exponential_sums import EPS_MIN
from attn_closed_form.game.engine.rounding import ULP
from tests.problems import random_game


class Size:
    """What a budget needs to know of a game."""

    exponent = 0
    positive = True
    engine_share = 1.0
    extra_ulps = 0.0
    known_error = 0.0
    grand_error = 0.0

    def __init__(self, d, scale, spread):
        self.d = d
        self.scale = scale
        self.half_range = np.array([spread])

    def least_tol(self, amplification):
        return 0.0

    def engine_game(self, tol):
        return self


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("scale", "spread", "d", "amplification"), [(1.0, 1.0, 10, 1.0), (0.3, 7.0, 500, 3.0)]
)
def test_the_parts_add_up(plain, scale, spread, d, amplification):
    """An error of 1/D counts twice the spread, a last addition counts relative to max|f|."""
    game = Size(d, scale, spread)
    precise = set()
    for tol in ULP * np.geomspace(1e3, 1e9, 40):
        try:
            goal = budget(game, float(tol), amplification, plain, extra_ulps=3.0, constants=2.0)
        except ToleranceError:
            continue
        rounding = 403 * ULP + (0 if goal.precise else 10 * d * ULP)
        inside = amplification * (2 * spread * (goal.eps + rounding) + goal.p_error)
        outside = 8 * ULP * scale + 8 * ULP * 2.0
        assert inside + outside <= tol * scale * (1 + 1e-9)
        assert inside + outside >= tol * scale * (1 - 1e-9) or goal.eps == 0.01
        assert goal.eps >= EPS_MIN
        precise.add(goal.precise)
    assert precise == ({False} if plain else {False, True})


@pytest.mark.subnormals
def test_what_is_lost_among_the_smallest_numbers():
    """8 times the smallest number, in units of 2^exponent: the loss of the last additions if values
    are tiny.
    """
    game = Size(3, 1.0, 1.0)
    game.exponent = -1050
    lost = 8 * 2.0 ** (-1074 + 1050)
    for tol in (1e-6, 1e-4):
        goal = budget(game, tol)
        rounding = 400 * ULP + (0 if goal.precise else 10 * 3 * ULP)
        inside = 2 * (goal.eps + rounding) + goal.p_error
        assert inside + 8 * ULP + lost == pytest.approx(tol, rel=1e-9)
    with pytest.raises(ToleranceError):
        budget(game, lost)


def test_the_spread_is_not_below_the_sum_of_the_half_ranges():
    """The sum over heads is rounded, and the budget takes a little more."""
    game = Size(3, 1.0, 1.0)
    rng = np.random.default_rng(0)
    below = 0
    for _ in range(50):
        game.half_range = rng.uniform(size=1000)
        below += float(game.half_range.sum()) < math.fsum(game.half_range)
        assert budget(game, 1e-6).spread >= math.fsum(game.half_range)
    assert below


def test_the_recursion_over_sizes_says_that_its_products_are_plain():
    game = random_game(0, 200, 1, "deleted+background", 1.0)
    for tol in np.geomspace(1e-13, 1e-10, 100):
        try:
            budget(game, tol)
        except ToleranceError:
            continue
        break
    with pytest.raises(ToleranceError):
        budget(game, tol, plain=True)
    with pytest.raises(ToleranceError):
        by_size.expected_value_by_size(game, tol)


def test_everybody_and_nobody_are_values_of_the_game():
    for seed in range(4):
        game = random_game(seed, 9, 2, "replaced+background", 2.0)
        found = by_size.expected_value_by_size(game, tol=1e-6)
        assert found[[0, -1]].tolist() == game.value([[True] * 9, [False] * 9]).tolist()


def test_the_coalitions_that_are_tried_for_a_large_value():
    """All, none, all that raise f, all that lower it, the one that raises it most, and the one that
    lowers it most.
    """
    game = PooledGame.from_scores(
        [0.0] * 5, [3.0, 1.0, 2.0, 0.0, 5.0], s_background=0.0, v_background=0.0
    )
    tried = [set(np.flatnonzero(row).tolist()) for row in game.extreme_coalitions()]
    assert tried == [{0, 1, 2, 3, 4}, set(), {0, 4}, {1, 2, 3}, {4}, {3}]
    # The value of those above the center, (3 + 5) / 3, is the largest: the bound is at most that,
    # and hardly less.
    assert 8 / 3 * (1 - 1e-12) <= np.ldexp(game.scale, game.exponent) <= 8 / 3


def test_a_player_raises_f_by_what_it_has_over_its_absence():
    """Mass times value, in both heads; alone it is the value that counts."""
    s = [[0.0, 0.0, -5.0], [0.0, 0.0, 0.0]]
    v = [[1.0, 2.0, -9.0], [0.0, 0.0, 1.0]]
    v_absent = [[0.0, 9.0, 0.0], [0.0, 0.0, 0.0]]
    game = PooledGame.from_scores(s, v, np.zeros((2, 3)), v_absent)
    tried = [set(np.flatnonzero(row).tolist()) for row in game.extreme_coalitions()]
    assert tried == [{0, 1, 2}, set(), {0, 2}, {1}, {1}, {2}]


def test_what_is_known_of_the_largest_value_is_below_it():
    """For a constant there is no spread to take rounding from."""
    game = PooledGame.from_scores([0.0, 1.0], [1.0, 1.0])
    assert 1 - 1e-14 < np.ldexp(game.scale, game.exponent) < 1
