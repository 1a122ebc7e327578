"""The official lime package on real text, through a real classifier_fn: its mean is our limit."""

import re
import warnings

import numpy as np
import pytest

from attn_closed_form import AttentionWeights, lime_limit
from attn_closed_form.attention import pooled_game, predict_many, random_weights
from tests.oracles import checks

TEXT = (
    "The film is slow at first, but the last hour is a joy: the cast is warm and the film is never "
    "dull."
)
MASK = "UNKWORDZ"
# Some twenty numbers, each the mean of RUNS: five standard errors is a chance of about 2e-4
# (Student); seeds are fixed.
STANDARD_ERRORS = 5.0
RUNS = 40
SAMPLES = 600


def make(positions: bool):
    words = re.findall(r"\w+", TEXT)
    vocabulary = {"[CLS]": 0, MASK: 1} | {
        word: i + 2 for i, word in enumerate(dict.fromkeys(words))
    }
    weights = random_weights(
        2, D=len(vocabulary), d_e=13, T_max=31, K=3, d_att=5, d_out=7, score_scale=1.5
    )
    if not positions:
        weights = AttentionWeights(**(weights.arrays() | {"W_p": np.zeros_like(weights.W_p)}))
    tokens = [vocabulary[word] for word in words]

    def classifier_fn(texts):
        return predict_many(
            weights, [[vocabulary[word] for word in re.findall(r"\w+", text)] for text in texts]
        )

    return weights, tokens, classifier_fn


def runs(bow, classifier_fn, d, **arguments):
    """(RUNS, d + 1) coefficients and intercepts, and the scores."""
    pytest.importorskip("lime", reason="pip install lime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lime.lime_text import LimeTextExplainer

    rows = []
    scores = []
    for seed in range(RUNS):
        explainer = LimeTextExplainer(
            bow=bow, mask_string=MASK, feature_selection="none", random_state=seed, **arguments
        )
        explanation = explainer.explain_instance(
            TEXT, classifier_fn, labels=(0,), num_features=d, num_samples=SAMPLES
        )
        row = np.empty(d + 1)
        for j, coefficient in explanation.local_exp[0]:
            row[j] = coefficient
        row[d] = explanation.intercept[0]
        rows.append(row)
        scores.append(explanation.score)
    return np.array(rows), np.array(scores)


def deviation(rows, limit):
    """Largest deviation of the mean from the limit, in standard errors."""
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    return (np.abs(rows.mean(axis=0) - np.append(limit.coef, limit.intercept)) / error).max()


@checks(lime_limit, by="another package")
def test_masked_positions():
    weights, tokens, classifier_fn = make(positions=True)
    game = pooled_game(weights, tokens, players="positions", absent="unk")
    rows, scores = runs(False, classifier_fn, game.d)
    assert deviation(rows, lime_limit(game, num_samples=SAMPLES)) < STANDARD_ERRORS
    # The oracle can fail: none of these is what the package estimates.
    assert (
        deviation(rows, lime_limit(game, kernel_width=np.inf, num_samples=SAMPLES))
        > 2 * STANDARD_ERRORS
    )
    assert deviation(rows, lime_limit(game, ridge=30.0, num_samples=SAMPLES)) > 2 * STANDARD_ERRORS
    assert (
        deviation(rows, lime_limit(pooled_game(weights, tokens, absent="deleted")))
        > 2 * STANDARD_ERRORS
    )
    # Our own sampler reports the same R^2, within the scatter of both means.
    from attn_closed_form import lime_sample

    ours = np.array([lime_sample(game, SAMPLES, seed=seed).score for seed in range(RUNS)])
    scatter = np.hypot(ours.std(ddof=1), scores.std(ddof=1)) / np.sqrt(RUNS)
    assert abs(ours.mean() - scores.mean()) < 4 * scatter


@checks(lime_limit, by="another package")
@pytest.mark.slow  # forty runs of the package
def test_bag_of_words_on_a_model_without_positions():
    """The package deletes words; without positions, padding fills their place, so they turn to
    [UNK].
    """
    weights, tokens, classifier_fn = make(positions=False)
    game = pooled_game(weights, tokens, players="words", absent="unk")
    rows, _ = runs(True, classifier_fn, game.d)
    assert deviation(rows, lime_limit(game, num_samples=SAMPLES)) < STANDARD_ERRORS
    assert (
        deviation(rows, lime_limit(pooled_game(weights, tokens, "words", "deleted")))
        > 2 * STANDARD_ERRORS
    )


@pytest.mark.slow  # forty runs of the package
def test_another_kernel_width():
    weights, tokens, classifier_fn = make(positions=True)
    game = pooled_game(weights, tokens)
    rows, _ = runs(False, classifier_fn, game.d, kernel_width=10)
    assert (
        deviation(rows, lime_limit(game, kernel_width=10.0, num_samples=SAMPLES)) < STANDARD_ERRORS
    )
