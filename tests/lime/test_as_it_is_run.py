"""The lime package with every default, on the shipped model's probabilities: its runs scatter about
the limit.
"""

import warnings

import numpy as np
import pytest

from attn_closed_form import lime_limit, load_demo_model
from attn_closed_form.lime import lime_features

pytest.importorskip("lime", reason="pip install lime")

from benchmarks.lime_defaults import TEXTS, package_runs, word_game

# Some thirty numbers, each the mean of RUNS: seven standard errors is a chance of about 1e-3 each
# (Student).
RUNS = 5
STANDARD_ERRORS = 7.0


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS[:2])
def test_the_limit_is_that_of_the_package_with_its_defaults(text):
    model = load_demo_model()
    game, words = word_game(model, text)
    limit = lime_limit(game)
    rows, sets = package_runs(model, text, words, RUNS, 6)
    error = rows.std(axis=0, ddof=1) / np.sqrt(RUNS)
    assert (np.abs(rows.mean(axis=0) - limit.coef) < STANDARD_ERRORS * error).all()
    # On the logit, or for words that leave a gap behind, it is another explanation.
    assert (np.abs(rows.mean(axis=0) - lime_limit(game.game).coef) > STANDARD_ERRORS * error).any()
    chosen = {words[j] for j in lime_features(game, 6)}
    assert np.mean([len(chosen & few) for few in sets]) >= 5


def test_the_whole_is_the_probability_of_the_model():
    """What the game says of everybody and of nobody is `predict_proba` of the text and of no
    text.
    """
    model = load_demo_model()
    for text in TEXTS[:5]:
        game, words = word_game(model, text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            everybody, nobody = model.predict_proba([text, ""])[:, 1]
        values = game.value([[True] * len(words), [False] * len(words)])
        np.testing.assert_allclose(values, [everybody, nobody], rtol=0, atol=1e-12)
