"""Shapley values from sampled orders: unbiased, efficient, with a standard error that is one."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form.game.links import Link
from attn_closed_form.game.sampled import fit_head, shapley_sample
from tests import enumeration


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


def six_heads(d, seed=0):
    """Heads that nearly agree, as those of a trained model do."""
    rng = np.random.default_rng(seed)
    s, v = rng.normal(size=d) + 0.2 * rng.normal(size=(6, d)), rng.normal(size=d) + 0.1 * rng.normal(size=(6, d))
    return PooledGame.from_scores(s, v * 4 / 6, 0.0, 0.0, 1.0, 0.0)


def test_a_fitted_head_shrinks_the_variance_of_probabilities():
    """Against enumeration: no bias, an honest standard error, and far less variance than plain orders."""
    game = six_heads(7)
    exact = enumeration.shapley(Probability(game))
    plain, ours = (
        [shapley_sample(game, 800, seed, link="sigmoid", proxy=proxy) for seed in range(60)] for proxy in (False, True)
    )
    errors = np.array([run.values for run in ours]) - exact
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in ours], axis=0))
    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(60)).all()
    assert np.allclose(claimed, errors.std(axis=0), rtol=0.35)
    assert np.square(np.array([run.values for run in plain]) - exact).mean() > 100 * np.square(errors).mean()


class Probability:
    """The logistic function of a game with several heads, for the enumeration alone."""

    def __init__(self, game):
        self.game, self.d, self.link = game, game.d, Link("sigmoid")


def test_a_fit_is_the_game_where_it_has_one_head():
    game = PooledGame.from_scores([0.0, 1.0, -1.0, 0.5, 0.2], [1.0, -1.0, 2.0, 0.0, 3.0], 0.3, 0.1)
    masks = np.random.default_rng(1).random((200, 5)) < 0.5
    fitted = fit_head(masks, game.value(masks))
    assert np.allclose(fitted.value(masks), game.value(masks), atol=1e-4)
    linear = fit_head(masks[:8], game.value(masks[:8]))
    assert linear.H == 1 and linear.d == 5
