"""Shapley values from sampled orders: unbiased, efficient, with a standard error that is one."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form.game.sampled import shapley_sample


def game_of(d, seed=0):
    rng = np.random.default_rng(seed)
    return PooledGame.from_scores(rng.normal(size=d), rng.normal(size=d), empty_value=0.3)


def test_the_values_add_up_whatever_the_number_of_orders():
    game = game_of(9)
    found = shapley_sample(game, num_calls=1, seed=0, proxy=False)
    everybody, nobody = game.value(np.ones(9, dtype=bool)), game.value(np.zeros(9, dtype=bool))
    assert found.values.sum() == pytest.approx(everybody - nobody, abs=1e-12)
    assert found.calls == 2 + 4 * 8


def test_the_standard_error_is_the_spread_of_the_runs():
    game = game_of(8)
    runs = [shapley_sample(game, num_calls=600, seed=seed) for seed in range(300)]
    spread = np.std([run.values for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
    assert np.allclose(claimed, spread, rtol=0.15)
    off = np.mean([run.values for run in runs], axis=0) - shapley(game)
    assert (np.abs(off) < 4.5 * spread / np.sqrt(len(runs))).all()


def test_a_linear_game_needs_two_pairs_only():
    class Linear:
        d = 6

        def value(self, present):
            return present @ np.arange(6.0) + 1

    found = shapley_sample(Linear(), num_calls=1, seed=3)
    assert np.allclose(found.values, np.arange(6.0)) and np.allclose(found.standard_error, 0)


def test_one_player_gets_everything():
    found = shapley_sample(PooledGame.from_scores([0.0], [2.5], empty_value=1.0))
    assert found.values.tolist() == [1.5] and found.calls == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_the_budget_is_a_positive_integer(wrong):
    with pytest.raises(ValueError, match="num_calls: expected"):
        shapley_sample(game_of(3), num_calls=wrong)
