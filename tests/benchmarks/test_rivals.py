"""The rivals that benchmarks compare with are what they claim to be."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit
from benchmarks.faithfulness import strict_fidelity
from benchmarks.papers.lime_runs import lime_by_masks
from benchmarks.papers.rivals import slalom_fidel, with_background
from benchmarks.papers.text_models import train_batch
from jax_model.training.batches import Documents

TOKENS = np.array([3, 5, 7, 11, 13])


def game():
    rng = np.random.default_rng(4)
    return PooledGame.from_scores(
        rng.normal(size=5), rng.normal(size=5), s_background=0.5, v_background=-0.3
    )


@pytest.mark.filterwarnings("ignore")
def test_lime_is_the_packages_and_nears_its_limit():
    pytest.importorskip("lime")
    one = game()
    runs = np.array([lime_by_masks(one.value, 5, 2000, seed) for seed in range(8)])
    limit = lime_limit(one, num_samples=2000).coef
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert (np.abs(runs.mean(axis=0) - limit) < 5 * error).all()
    assert np.abs(runs.mean(axis=0) - 1.5 * limit).max() > 5 * error.max()


def test_a_slalom_with_background_recovers_a_game_that_has_one_and_a_plain_one_does_not():
    one = game()
    found = with_background(slalom_fidel(one.value, TOKENS, 200, 0, background=True), TOKENS, 0.0)
    plain = slalom_fidel(one.value, TOKENS, 200, 0).game(TOKENS)
    errors = strict_fidelity(one, 5, [found.surrogate, plain.value], removals=(1, 2, 3))
    assert errors[0].max() < 1e-12
    assert errors[1].min() > 1e-8
    # Scores are derivatives of f by a soft presence: alpha_i (v_i - f).
    mass = np.exp(np.r_[one.s[0], one.s_background])
    f = one.value(np.ones(5, dtype=bool))
    np.testing.assert_allclose(found.scores, (mass / mass.sum())[:5] * (one.v[0] - f), atol=1e-6)


def test_training_batches_keep_cls_and_the_order_of_what_is_left():
    ids = np.arange(10, 210, dtype=np.int32)
    documents = Documents(ids, np.array([0, 30, 200]), np.array([0.0, 1.0], np.float32))
    rng = np.random.default_rng(0)
    for step in range(5):
        batch, labels = train_batch(documents, 0, 8, rng, step)
        assert (batch[:, 0] == 0).all() and set(labels) <= {0.0, 1.0}
        for row in batch:
            body = row[1:][row[1:] >= 0]
            assert (np.diff(body) > 0).all()
            assert (row[1 + body.size :] == -1).all()
