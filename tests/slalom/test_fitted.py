"""What a fit asks and says: replaced and special tokens, warnings that matter, scores with their
errors.
"""

import warnings

import numpy as np
import pytest

from attn_closed_form import Slalom, SlalomWarning, fit_slalom, load_demo_model, shapley
from attn_closed_form.attention import predict_many
from attn_closed_form.slalom import Deletions
from attn_closed_form.slalom.fit import MATTERS, warn_undetermined

CLS = 101
SEP = 102
MASK = 103


class Recorded:
    """A black box that keeps what it was asked."""

    def __init__(self, f):
        self.f = f
        self.asked = []

    def __call__(self, sequences):
        self.asked += [sequence.tolist() for sequence in sequences]
        return self.f(sequences)


def slalom(ids, seed=0, **background):
    rng = np.random.default_rng(seed)
    return Slalom(ids, rng.normal(size=len(ids)), rng.normal(size=len(ids)), **background)


# --- replaced tokens


def test_a_token_in_the_place_of_absent_ones_gets_scores():
    document = np.array([5, 9, 14, 21, 30, 9, 7])
    truth = slalom([5, 7, 9, 14, 21, 30, MASK])
    f = Recorded(truth.predict_many)
    found = fit_slalom(f, document, kind=Deletions(replacement=MASK), num_samples=600)
    assert all(len(asked) == 7 for asked in f.asked)
    assert all(a in (d, MASK) for asked in f.asked for a, d in zip(asked, document, strict=True))
    assert max(asked.count(MASK) for asked in f.asked) == 6
    assert found.slalom.ids.tolist() == truth.ids.tolist()
    np.testing.assert_allclose(found.slalom.s, truth.s, atol=1e-6)
    np.testing.assert_allclose(found.slalom.v, truth.v, atol=1e-6)


def test_the_game_of_a_document_with_replaced_tokens():
    truth = slalom([5, 7, 9, MASK], s_background=0.3, v_background=2.0)
    game = truth.game([5, 9, 7], absent=MASK)
    for present in ([True, False, True], [False] * 3, [True] * 3):
        expected = truth.predict(np.where(present, [5, 9, 7], MASK))
        assert float(game.value(present)) == pytest.approx(float(expected), abs=1e-12)
    assert shapley(game).sum() == pytest.approx(
        float(truth.predict([5, 9, 7]) - truth.predict([MASK] * 3))
    )
    with pytest.raises(ValueError, match="tokens"):
        truth.game([5, 9, 7], absent=8)


@pytest.mark.parametrize("replacement", [1.5, True])
def test_an_impossible_replacement_is_an_error(replacement):
    with pytest.raises(
        ValueError, match=f"replacement: expected the id of a token or None, got {replacement}"
    ):
        Deletions(replacement=replacement)


def test_special_tokens_that_the_black_box_adds_are_the_background():
    document = np.array([5, 9, 14, 21, 30, 9])
    truth = slalom([5, 9, 14, 21, 30, CLS, SEP], seed=1)
    found = fit_slalom(
        lambda asked: truth.predict_many([np.r_[CLS, ids, SEP] for ids in asked]),
        document,
        num_samples=600,
    )
    mass = np.exp(truth.s[truth.index([CLS, SEP])])
    assert found.slalom.s_background == pytest.approx(
        np.log(mass.sum()) - truth.s[:5].mean(), abs=1e-6
    )
    value = mass @ truth.v[truth.index([CLS, SEP])] / mass.sum()
    assert float(found.slalom.v_background) == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found.slalom.v, truth.v[:5], atol=1e-6)
    assert found.fresh_mse < 1e-15 and found.fresh_mse_any_size < 1e-15


# --- warnings


def test_a_warning_only_where_undetermined_importances_matter():
    """Tokens 1 and 2 move the output; token 3 has a vanishing mass, and nobody needs its
    importance.
    """
    light = Slalom([1, 2, 3], [2.0, 2.0, -9.0], [1.0, -1.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_undetermined(light, (3,))
    with pytest.warns(
        SlalomWarning,
        match=r"importance of 2 of 3 tokens, which make up 50% of the effects \(ids 1, 3\)",
    ):
        warn_undetermined(light, (1, 3))
    assert 0 < MATTERS < 0.5


def test_the_warning_is_one_line_and_says_what_to_do():
    many = Slalom(np.arange(8), np.zeros(8), np.arange(8.0))
    with pytest.warns(SlalomWarning) as caught:
        warn_undetermined(many, tuple(range(7)))
    (message,) = [str(warning.message) for warning in caught]
    assert "\n" not in message and "(ids 0, 1, 2, 3, 4, ...)" in message
    assert "raise num_samples, or use their effect (slalom_linearized)" in message


def test_the_default_fit_of_the_shipped_model_does_not_warn_of_what_does_not_matter():
    model = load_demo_model()
    document = model.vocabulary.encode(
        "The plot is thin and the first half drags, but the leads are wonderful together"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlalomWarning)
        fit_slalom(
            lambda sequences: predict_many(model.weights, sequences)[:, 0],
            document,
            num_samples=1500,
        )
