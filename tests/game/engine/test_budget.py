"""The budget: its parts add up to what tol allows, neither more nor much less; masses are right to a few ulps."""

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game import by_size
from attn_closed_form.game.engine.budget import (
    FLOAT32,
    FLOAT64,
    Facts,
    ToleranceError,
    _probes,
    budget,
    budget_of,
    largest_known_value,
)
from attn_closed_form.game.pooled_game import exp_difference
from tests.problems import random_game


@pytest.mark.parametrize("arithmetic", [FLOAT64, FLOAT32], ids=lambda a: a.name)
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("scale", "spread", "d", "amplification"), [(1.0, 1.0, 10, 1.0), (0.3, 7.0, 500, 3.0)]
)
def test_the_parts_add_up(arithmetic, plain, scale, spread, d, amplification):
    """An error of 1/D counts twice the spread, a last addition counts relative to max|f|."""
    ulp = arithmetic.ulp
    facts = Facts(scale, spread, d, 0, doubt=3 * ulp, constants=2.0)
    precise = set()
    for tol in ulp * np.geomspace(1e3, 1e9, 40):
        try:
            found = budget_of(facts, tol, amplification, plain, arithmetic)
        except ToleranceError:
            continue
        rounding = 403 * ulp + (0 if found.precise else 10 * d * ulp)
        inside = amplification * (2 * spread * (found.eps + rounding) + found.p_error)
        outside = 8 * ulp * scale + 8 * ulp * 2.0
        assert inside + outside <= tol * scale * (1 + 1e-9)
        assert inside + outside >= tol * scale * (1 - 1e-9) or found.eps == 0.01
        assert found.eps >= arithmetic.eps_min
        precise.add(found.precise)
    assert precise == ({False} if plain else {False, True})


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


@pytest.mark.parametrize("unit", [0.1, -17.3, 1e4 + 0.7, -1e6 + 0.3])
def test_masses_are_right_however_large_the_scores(unit):
    """The difference of two scores is rounded; its exponential must not show it."""
    mpmath = pytest.importorskip("mpmath", reason="pip install mpmath")
    s = unit + np.array([-200.0, -30.0, -1.0, 0.0, 0.7, 20.0, 150.0]) / 3 + 0.01
    found = exp_difference(np.append(s, -unit), np.full(8, unit))[:7]
    with mpmath.workdps(50):
        exact = [float(mpmath.exp(mpmath.mpf(float(a)) - mpmath.mpf(unit))) for a in s]
    np.testing.assert_allclose(found, exact, rtol=1e-15)


def test_the_coalitions_that_are_tried_for_a_large_value():
    """All, none, all that raise f, all that lower it, the one that raises it most, and the one that lowers it most."""
    game = PooledGame.from_scores(
        [0.0] * 5, [3.0, 1.0, 2.0, 0.0, 5.0], s_background=0.0, v_background=0.0
    )
    tried = [set(np.flatnonzero(row).tolist()) for row in _probes(game)]
    assert tried == [{0, 1, 2, 3, 4}, set(), {0, 4}, {1, 2, 3}, {4}, {3}]
    # The value of those above the center, (3 + 5) / 3, is the largest: the bound is at most that, and hardly less.
    assert 8 / 3 * (1 - 1e-12) <= np.ldexp(largest_known_value(game), game.exponent) <= 8 / 3


def test_a_player_raises_f_by_what_it_has_over_its_absence():
    """Mass times value, in both heads; alone it is the value that counts."""
    s = [[0.0, 0.0, -5.0], [0.0, 0.0, 0.0]]
    v = [[1.0, 2.0, -9.0], [0.0, 0.0, 1.0]]
    v_absent = [[0.0, 9.0, 0.0], [0.0, 0.0, 0.0]]
    game = PooledGame.from_scores(s, v, np.zeros((2, 3)), v_absent)
    tried = [set(np.flatnonzero(row).tolist()) for row in _probes(game)]
    assert tried == [{0, 1, 2}, set(), {0, 2}, {1}, {1}, {2}]


def test_what_is_known_of_the_largest_value_is_below_it():
    """For a constant there is no spread to take rounding from."""
    game = PooledGame.from_scores([0.0, 1.0], [1.0, 1.0])
    assert 1 - 1e-14 < np.ldexp(largest_known_value(game), game.exponent) < 1
