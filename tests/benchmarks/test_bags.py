"""The rivals and measures of the benchmark of bags are what they say."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, bounds_by_size, shapley
from benchmarks.bag_training import FOLDS, folds
from benchmarks.bags import Case, measure, permutation_sampling, summarise


@pytest.fixture
def game():
    rng = np.random.default_rng(0)
    return PooledGame.from_scores(
        s=rng.normal(size=5), v=rng.normal(size=5), bias=0.3, empty_value=0.3
    )


def test_sampled_orders_converge_to_the_shapley_values(game):
    found, count = permutation_sampling(game, 0.3, np.random.default_rng(1))
    assert count > 500
    np.testing.assert_allclose(found, shapley(game), atol=6 * np.abs(game.v).max() / np.sqrt(count))
    # Every order adds up.
    assert found.sum() == pytest.approx(game.value(np.ones(5, dtype=bool)) - 0.3)
    assert permutation_sampling(game, 0.0, np.random.default_rng(1))[1] == 1


def test_measures_know_the_truth(game):
    truth = np.array([1, 0, 0, -1, 0])
    case = Case(np.zeros((5, 2)), 1, None, None, truth)
    perfect = measure(case, truth + 0.01 * np.arange(5), bounds_by_size(game), game, towards=1)
    assert perfect["auroc for"] == perfect["auroc against"] == perfect["auroc sign"] == 1
    assert (
        measure(case, -truth.astype(float), bounds_by_size(game), game, towards=1)["auroc sign"]
        == 0
    )
    assert (
        measure(case, -truth.astype(float), bounds_by_size(game), game, towards=0)["auroc sign"]
        == 1
    )
    attention = np.array([0.5, 0.1, 0.1, 0.5, 0.1])  # looks at both, and cannot tell them apart
    blind = measure(case, attention, bounds_by_size(game), game, towards=1)
    assert blind["auroc sign"] == 0.5 and blind["auroc for"] == blind["auroc against"] == 0.875


def test_shares_of_the_best_possible(game):
    case = Case(np.zeros((5, 2)), 1, None, None)
    limits = bounds_by_size(game)
    mass = np.exp(game.s[0])
    order = measure(case, mass * (game.v[0] + game.bias), limits, game, 1)
    for name in ("deletion, share of the best possible", "insertion, share of the best possible"):
        assert order[name] <= 1 + 1e-12
        assert measure(case, np.zeros(5), limits, game, 1)[name] < order[name]


def test_folds_spread_the_classes():
    labels = np.repeat([0, 1], [26, 32])
    fold = folds(labels, seed=3)
    assert sorted(np.bincount(fold)) == [5, 5, 6, 6, 6, 6, 6, 6, 6, 6] and fold.max() == FOLDS - 1
    for label in (0, 1):
        counts = np.bincount(fold[labels == label], minlength=FOLDS)
        assert np.ptp(counts) <= 1


def test_winners_are_the_best_and_those_within_two_standard_errors():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=50)
    columns = {
        "good": 1 + noise,
        "as good": 1 + noise + 0.5 * rng.normal(size=50),
        "random": noise - 3,
    }
    found = {
        name: [{"drop": x, "loss": -x, "best drop": 9.0} for x in values]
        for name, values in columns.items()
    }
    rows, winners = summarise("digits", found)
    assert {row["method"] for row in rows} == set(columns) and [
        row["measure"] for row in winners
    ] == ["drop", "loss"]
    for row in winners:
        assert {row["best"], row["within two standard errors"]} == {"good", "as good"}
