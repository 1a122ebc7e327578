"""Sampled LIME: against scikit-learn on the same draws, its limit, and its own predicted spread."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit, lime_sample
from attn_closed_form.lime import lime_samples_needed
from attn_closed_form.lime.kernel import kernel
from attn_closed_form.lime.sampled import draw_samples, standard_errors
from tests.lime import oracle
from tests.lime_games import score_game
from tests.oracles import checks


@checks(lime_sample, by="another package")
@pytest.mark.parametrize("features", [None, [4, 0, 2]])
@pytest.mark.parametrize("ridge", [1.0, 0.0])
def test_the_fit_is_that_of_scikit_learn(ridge, features):
    linear_model = pytest.importorskip(
        "sklearn.linear_model", reason="scikit-learn comes with lime"
    )
    game = score_game(7)
    run = lime_sample(game, num_samples=200, ridge=ridge, seed=3, features=features)
    masks, sizes = draw_samples(np.random.default_rng(3), 200, 7)
    weights = kernel(7, 25.0)[sizes]
    f = game.value(masks)
    X = masks[:, features or range(7)].astype(float)
    fit = linear_model.Ridge(alpha=ridge).fit(X, f, sample_weight=weights)
    np.testing.assert_allclose(run.coef[features or range(7)], fit.coef_, rtol=1e-9, atol=1e-12)
    assert run.intercept == pytest.approx(fit.intercept_, rel=1e-9)
    assert run.score == pytest.approx(fit.score(X, f, sample_weight=weights), rel=1e-9)
    assert np.count_nonzero(run.coef) == (3 if features else 7)


def test_draws_are_lime_draws():
    masks, sizes = draw_samples(np.random.default_rng(0), 30_001, 5)
    assert masks[0].all()
    assert (masks.sum(axis=1) == 5 - sizes).all()
    counts = np.bincount(sizes[1:], minlength=6)
    assert counts[0] == 0
    # Binomial(30,000, 1/5): standard deviation 69; five of them.
    assert np.abs(counts[1:] - 6000).max() < 350
    pairs = masks[sizes == 3].astype(float)
    together = pairs.T @ pairs / len(pairs)  # two of five present: 2/5 each, 1/10 a pair
    np.testing.assert_allclose(together, np.where(np.eye(5), 0.4, 0.1), atol=0.035)


@checks(lime_sample, by="more digits")
def test_runs_scatter_around_the_limit():
    game = score_game(8)
    runs = [lime_sample(game, num_samples=1500, seed=seed) for seed in range(60)]
    coef, intercept, _ = oracle.lime(game, num_samples=1500)
    for name, limit in (("coef", coef), ("intercept", intercept)):
        values = np.array([getattr(run, name) for run in runs])
        error = values.std(axis=0, ddof=1) / np.sqrt(60)
        # Nine numbers, 60 runs: 4.5 standard errors is a chance of about 3e-4 (Student), with fixed
        # seeds.
        assert (np.abs(values.mean(axis=0) - limit) < 4.5 * error).all()
    other = lime_limit(game, kernel_width=np.inf, num_samples=1500).coef
    coef = np.array([run.coef for run in runs])
    assert (np.abs(coef.mean(axis=0) - other) > 10 * coef.std(axis=0, ddof=1) / np.sqrt(60)).any()


@pytest.mark.parametrize(
    ("d", "kind", "kernel_width", "accuracy"),
    [(8, "unk", 25.0, 0.02), (30, "deleted", 25.0, 0.04), (12, "unk", np.inf, 0.03)],
)
def test_samples_needed(d, kind, kernel_width, accuracy):
    game = score_game(d, kind=kind)
    n = lime_samples_needed(game, accuracy, kernel_width=kernel_width)
    assert 10 * d < n < 200_000
    limit = lime_limit(game, kernel_width, num_samples=n).coef
    errors = [
        np.abs(lime_sample(game, n, kernel_width, seed=seed).coef - limit).max()
        / np.abs(limit).max()
        for seed in range(40)
    ]
    # The mean of 40 errors that scatter by a third of their size is good to 5 %; the estimate
    # itself to about 5 %.
    assert 0.85 * accuracy < np.mean(errors) < 1.15 * accuracy


def test_constant_game_and_edges():
    constant = PooledGame.from_scores([0.0, 1.0], [2.0, 2.0], s_background=0.0, v_background=2.0)
    run = lime_sample(constant, num_samples=50, seed=0)
    np.testing.assert_allclose(run.coef, 0.0, atol=1e-14)
    assert run.intercept == pytest.approx(2.0)
    zero = PooledGame.from_scores([0.0, 1.0], [0.0, 0.0], s_background=0.0, v_background=0.0)
    assert lime_sample(zero, num_samples=50, seed=0).score == 1.0
    assert lime_samples_needed(constant, 0.01) == 2
    assert lime_samples_needed(score_game(1), 0.01) == 2
    # An accuracy that any sample has: the document and one more row.
    assert lime_samples_needed(score_game(5), 1e6) == 2
    assert lime_sample(score_game(1), num_samples=50, seed=0).coef.shape == (1,)


def test_seed_decides():
    game = score_game(5)
    assert (
        lime_sample(game, 100, seed=1).coef.tolist() == lime_sample(game, 100, seed=1).coef.tolist()
    )
    assert (
        lime_sample(game, 100, seed=1).coef.tolist() != lime_sample(game, 100, seed=2).coef.tolist()
    )
    with pytest.raises(ValueError, match="num_samples"):
        lime_sample(game, 1)
    with pytest.raises(ValueError, match=r"^accuracy: "):
        lime_samples_needed(game, 0)


def test_the_standard_error_of_a_run_is_the_spread_of_the_runs():
    rng = np.random.default_rng(5)
    game = PooledGame.from_scores(
        rng.normal(size=6), rng.normal(size=6), s_background=0.0, v_background=0.0
    )
    runs = [lime_sample(game, num_samples=400, seed=seed, errors=True) for seed in range(300)]
    spread = np.std([run.coef for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
    assert np.allclose(claimed, spread, rtol=0.15)
    assert lime_sample(game, num_samples=400, seed=0).standard_error is None


# With two features and a constant.
@pytest.mark.parametrize(("rows", "left"), [(3, 1), (4, 1), (5, 2)])
def test_the_standard_error_counts_the_rows_that_are_left_over(rows, left):
    X = np.array([[1, 1], [0, 1], [1, 0], [0, 0], [1, 1]], dtype=bool)[:rows]
    pull = np.array([0.5, -1.0, 2.0, 0.25, -0.5])[:rows]
    centered = X - X.mean(axis=0)
    gram = centered.T @ centered + np.eye(2)
    scores = centered * pull[:, None]
    sandwich = np.diag(np.linalg.inv(gram) @ scores.T @ scores @ np.linalg.inv(gram))
    found = standard_errors(X, X.mean(axis=0), pull, gram, np.array([2, 0]), 3)
    assert found[1] == 0
    np.testing.assert_allclose(found[[2, 0]], np.sqrt(sandwich * rows / left), rtol=1e-12)
