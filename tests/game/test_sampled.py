"""Shapley values from sampled coalitions: unbiased, efficient, with standard errors that are
true.
"""

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form.game import sampled
from attn_closed_form.game.links import Link
from attn_closed_form.game.sampled import draw_pairs, fit_head, shapley_of_sinh, shapley_sample
from benchmarks.permutations import permutation_sample
from tests import enumeration


def game_of(d, seed=0):
    rng = np.random.default_rng(seed)
    return PooledGame.from_scores(rng.normal(size=d), rng.normal(size=d), empty_value=0.3)


METHODS = [permutation_sample, shapley_sample]


@pytest.mark.parametrize(
    ("calls", "method", "made"),
    [(1, permutation_sample, 2 + 4 * 8), (1, shapley_sample, 10), (300, shapley_sample, 300)],
)
def test_the_values_add_up_at_every_budget(calls, method, made):
    game = game_of(9)
    found = method(game, num_calls=calls, seed=0)
    everybody = game.value(np.ones(9, dtype=bool))
    nobody = game.value(np.zeros(9, dtype=bool))
    assert found.values.sum() == pytest.approx(everybody - nobody, abs=1e-12)
    assert found.calls == made


class Rough:
    """A smooth function of the presence of 10 players, with interactions of every order; no pooled
    game.
    """

    d = 10

    def value(self, present):
        z = present @ np.random.default_rng(5).normal(size=(10, 4))
        return np.tanh(z) @ np.array([1.0, -0.5, 0.7, 0.3]) + np.sin(2 * z[..., 0])


@pytest.mark.slow  # hundreds of fits
@pytest.mark.parametrize("method", METHODS)
def test_the_standard_error_is_the_spread_of_the_runs(method):
    game = Rough()
    runs = [method(game, num_calls=400, seed=seed) for seed in range(150)]
    spread = np.std([run.values for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
    assert (claimed > 0.8 * spread).all() and (claimed < 1.7 * spread).all()
    off = np.mean([run.values for run in runs], axis=0) - enumeration.shapley(game)
    assert (np.abs(off) < 4.5 * spread / np.sqrt(len(runs))).all()
    errors = np.array([run.values for run in runs]) - enumeration.shapley(game)
    covered = np.abs(errors) <= 2 * np.array([run.standard_error for run in runs])
    assert 0.9 < covered.mean() < 0.99


def test_control_variates_beat_plain_orders_on_a_game_that_is_not_pooled():
    game = Rough()
    exact = enumeration.shapley(Rough())
    plain, ours = (
        np.mean([np.square(method(game, 200, seed).values - exact) for seed in range(40)])
        for method in METHODS
    )
    assert ours < 0.5 * plain


def test_all_coalitions_are_evaluated_where_they_fit_in_the_budget():
    found = shapley_sample(Rough(), num_calls=2**10, seed=0)
    assert found.calls == 2**10 and not found.standard_error.any()
    assert np.allclose(found.values, enumeration.shapley(Rough()), atol=1e-12)


def test_coalitions_have_the_weights_of_the_definition():
    """Weighted by W, the mean over many coalitions and their complements is the Shapley value
    without the two ends.
    """
    chosen, weights = draw_pairs(np.random.default_rng(0), 200_000, 5)
    assert np.allclose(weights.sum(axis=1), 0) and np.allclose(
        np.square(weights).sum(axis=1).std(), 0
    )
    game = game_of(5)
    ends = (game.value(np.ones(5, dtype=bool)) - game.value(np.zeros(5, dtype=bool))) / 5
    terms = weights * (game.value(chosen) - game.value(~chosen))[:, None] / 2
    assert np.abs(ends + terms.mean(axis=0) - shapley(game)).max() < 5 * terms.std() / np.sqrt(
        len(terms)
    )


def test_values_of_the_kernel_are_those_of_enumeration():
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], size=(3, 7))
    theta = rng.random(7)
    c = rng.normal(size=3)

    class Sinh:
        d = 7

        def value(self, present):
            return np.sinh((2.0 * present - 1) * theta @ signs.T) @ c

    assert np.allclose(
        shapley_of_sinh(signs, theta, c), enumeration.shapley(Sinh()).astype(float), atol=1e-12
    )


def test_a_linear_game_is_recovered():
    class Linear:
        d = 12

        def value(self, present):
            return present @ np.arange(12.0) + 1

    found = shapley_sample(Linear(), num_calls=200, seed=3)
    assert np.abs(found.values - np.arange(12.0)).max() < 1e-3
    flat = shapley_sample(
        type("Flat", (Linear,), {"value": lambda self, present: np.full(len(present), 2.0)})(), 100
    )
    assert not flat.values.any() and not flat.standard_error.any()


def test_one_player_gets_everything():
    found = shapley_sample(PooledGame.from_scores([0.0], [2.5], empty_value=1.0))
    assert found.values.tolist() == [1.5] and found.calls == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_the_budget_is_a_positive_integer(wrong):
    with pytest.raises(ValueError, match="num_calls"):
        shapley_sample(game_of(3), num_calls=wrong)


def six_heads(d, seed=0):
    """Heads that nearly agree, as those of a trained model do."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=d) + 0.2 * rng.normal(size=(6, d))
    v = rng.normal(size=d) + 0.1 * rng.normal(size=(6, d))
    return PooledGame.from_scores(s, v * 4 / 6, 0.0, 0.0, 1.0, 0.0)


@pytest.mark.slow  # hundreds of fits
def test_a_fitted_head_shrinks_the_variance_of_probabilities():
    """Against enumeration: no bias, an honest standard error, and far less variance than plain
    orders.
    """
    game = six_heads(10)
    exact = enumeration.shapley(Probability(game))
    # The size of the plain error needs fewer runs than the bias of ours.
    plain, ours = (
        [method(game, 800, seed, link="sigmoid") for seed in range(count)]
        for method, count in zip(METHODS, (15, 60), strict=True)
    )
    errors = np.array([run.values for run in ours]) - exact
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in ours], axis=0))
    assert (np.abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(60)).all()
    assert np.allclose(claimed, errors.std(axis=0).astype(float), rtol=0.5)
    assert (
        np.square(np.array([run.values for run in plain]) - exact).mean()
        > 100 * np.square(errors).mean()
    )


class Probability:
    """The logistic function of a game with several heads, for the enumeration alone."""

    def __init__(self, game):
        self.game = game
        self.d = game.d
        self.link = Link("sigmoid")


def test_a_fit_is_the_game_where_it_has_one_head():
    game = PooledGame.from_scores([0.0, 1.0, -1.0, 0.5, 0.2], [1.0, -1.0, 2.0, 0.0, 3.0], 0.3, 0.1)
    masks = np.random.default_rng(1).random((200, 5)) < 0.5
    fitted = fit_head(masks, game.value(masks))
    assert np.allclose(fitted.value(masks), game.value(masks), atol=1e-4)
    linear = fit_head(masks[:8], game.value(masks[:8]))
    assert linear.H == 1 and linear.d == 5


def test_the_inflation_of_a_regression_is_that_of_its_freedom():
    """1 with a ridge that leaves nothing fitted, and at most 3/2 however much is fitted."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(12, 5))
    odd = rng.normal(size=12)
    found = []
    for ridge in (1e6, 1e-9):
        kernel = sampled.SinhKernel(tau=1.0, weights=np.full(5, 0.2), ridge=ridge, score=0.0)
        found.append(sampled.leave_one_out_regression(signs, odd, kernel)[2])
    assert found == pytest.approx([1.0, 1.5], rel=1e-5)


def test_the_inflation_is_in_the_standard_error(monkeypatch):
    game = Rough()
    plain = shapley_sample(game, 60, seed=0)
    regress = sampled.leave_one_out_regression

    def inflated(*arguments):
        values, left, inflation = regress(*arguments)
        return values, left, 4 * inflation

    monkeypatch.setattr(sampled, "leave_one_out_regression", inflated)
    again = shapley_sample(game, 60, seed=0)
    np.testing.assert_allclose(again.standard_error, 2 * plain.standard_error, rtol=1e-12)
    assert (plain.standard_error > 0).all()
