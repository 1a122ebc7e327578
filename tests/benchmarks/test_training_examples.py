"""What the comparisons of training examples rest on: KNN-Shapley, sampling and the area under a curve."""

import itertools
import math

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from benchmarks.training_examples import area_under_curve, flip, knn_shapley, permutation_values


@pytest.mark.parametrize("k", [1, 3, 7, 9])
def test_knn_shapley_is_that_of_enumeration(k):
    rng = np.random.default_rng(k)
    n = 7
    X = rng.normal(size=(n, 2))
    y = rng.integers(0, 2, size=n)
    x = rng.normal(size=2)
    order = np.argsort(np.square(X - x).sum(axis=1))

    def utility(chosen):
        nearest = [i for i in order if i in chosen][:k]
        return sum(y[i] == 1 for i in nearest) / k

    expected = np.zeros(n)
    for j, size in itertools.product(range(n), range(n)):
        for others in itertools.combinations([i for i in range(n) if i != j], size):
            change = utility({*others, j}) - utility(set(others))
            expected[j] += change / (n * math.comb(n - 1, size))
    np.testing.assert_allclose(knn_shapley(X, y, x[None], [1], k), expected, atol=1e-12)


def test_permutations_come_close_and_truncation_keeps_the_sum():
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=11), rng.random(11), empty_value=0.5)
    found, orders = permutation_values(game, 0.3, seed=0)
    assert orders > 1000
    np.testing.assert_allclose(found, shapley(game), atol=6 * 0.5 / math.sqrt(orders))
    everybody = float(game.value(np.ones(11, dtype=bool))) - 0.5
    truncated, _ = permutation_values(game, 0.05, seed=0, truncate=0.01)
    assert found.sum() == pytest.approx(everybody) and abs(truncated.sum() - everybody) <= 0.01


def test_area_under_the_curve_by_pairs():
    suspicion = np.array([0.3, 0.1, 0.3, 0.9])
    wrong = np.array([True, False, False, True])
    pairs = [(a > b) + 0.5 * (a == b) for a in suspicion[wrong] for b in suspicion[~wrong]]
    assert area_under_curve(suspicion, wrong) == pytest.approx(np.mean(pairs))


def test_every_flipped_label_is_wrong():
    y = np.repeat(["a", "b", "c"], 20)
    noisy, wrong = flip(y, 0)
    assert wrong.sum() == 6 and ((noisy != y) == wrong).all()
