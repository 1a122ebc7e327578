"""What a fit asks and says: replaced and special tokens, warnings that matter, scores with their errors."""

import warnings

import numpy as np
import pytest

from attn_closed_form import Slalom, SlalomWarning, fit_slalom, load_demo_model, shapley
from attn_closed_form.models.classifier import predict_many
from attn_closed_form.slalom import Optimum
from attn_closed_form.slalom.fit import MATTERS, _warn_undetermined
from benchmarks.p2_solvers import Alternation

CLS, SEP, MASK = 101, 102, 103


class Recorded:
    """A black box that keeps what it was asked."""

    def __init__(self, f):
        self.f, self.asked = f, []

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
    found = fit_slalom(f, document, num_samples=600, replacement=MASK)
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
    assert shapley(game).sum() == pytest.approx(float(truth.predict([5, 9, 7]) - truth.predict([MASK] * 3)))
    with pytest.raises(ValueError, match="tokens: expected ids of this SLALOM"):
        truth.game([5, 9, 7], absent=8)


# --- special tokens


def test_special_tokens_stay_and_are_the_background():
    document = np.array([CLS, 5, 9, 14, SEP, 21, 30, 9, SEP])
    truth = slalom([5, 9, 14, 21, 30, CLS, SEP], seed=1)
    f = Recorded(truth.predict_many)
    found = fit_slalom(f, document, num_samples=600, special=(CLS, SEP))
    for asked in f.asked:
        assert [token for token in asked if token > 100] == [CLS, SEP, SEP] and len(asked) > 3
    assert found.slalom.ids.tolist() == [5, 9, 14, 21, 30]
    # One [CLS] and two [SEP] are the background: masses add up, and their values are averaged by mass.
    mass = np.exp(truth.s[truth.index([CLS, SEP, SEP])])
    shift = truth.s[:5].mean()
    assert found.slalom.s_background == pytest.approx(np.log(mass.sum()) - shift, abs=1e-6)
    value = mass @ truth.v[truth.index([CLS, SEP, SEP])] / mass.sum()
    assert float(found.slalom.v_background) == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found.slalom.v, truth.v[:5], atol=1e-6)
    assert found.fresh_mse < 1e-15 and found.fresh_mse_any_size < 1e-15


def test_special_and_replaced_tokens_together():
    document = np.array([CLS, 5, 9, 14, 21])
    truth = slalom([5, 9, 14, 21, CLS, MASK], seed=2)
    f = Recorded(truth.predict_many)
    found = fit_slalom(f, document, num_samples=400, special=[CLS], replacement=MASK)
    assert all(asked[0] == CLS and len(asked) == 5 for asked in f.asked)
    assert found.slalom.ids.tolist() == [5, 9, 14, 21, MASK] and found.fresh_mse < 1e-15


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replacement": 1.5}, ValueError, "replacement: expected the id of a token or None, got 1.5"),
        ({"replacement": True}, ValueError, "replacement: expected the id of a token or None, got True"),
        (
            {"replacement": CLS, "special": [CLS]},
            ValueError,
            "replacement: expected an id that is not special, got 101",
        ),
        ({"special": "cls"}, TypeError, "special: expected a collection of ids, got 'cls'"),
        ({"special": 101}, TypeError, "special: expected a collection of ids, got 101"),
        ({"special": [5, 9, CLS]}, ValueError, "special: expected at least one other token"),
        (
            {"special": [CLS], "solver": Optimum(background=False)},
            ValueError,
            "special: expected a solver with a backg",
        ),
        ({"special": [CLS], "solver": Alternation()}, ValueError, "special: expected a solver with a background"),
    ],
)
def test_impossible_tokens_are_errors(options, error, message):
    with pytest.raises(error, match=message):
        fit_slalom(slalom([5, 9, CLS]).predict_many, [CLS, 5, 9], **options)


def test_special_tokens_that_do_not_occur_change_nothing():
    truth = slalom([5, 9, 14])
    runs = [fit_slalom(truth.predict_many, [5, 9, 14, 9], special=ids) for ids in ((), (CLS,))]
    assert (runs[0].slalom.s == runs[1].slalom.s).all() and runs[1].slalom.s_background == -np.inf


# --- warnings


def test_a_warning_only_where_undetermined_importances_matter():
    """Tokens 1 and 2 move the output; token 3 has a vanishing mass, and nobody needs its importance."""
    light = Slalom([1, 2, 3], [2.0, 2.0, -9.0], [1.0, -1.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_undetermined(light, (3,))
    with pytest.warns(
        SlalomWarning, match=r"importance of 2 of 3 tokens, which make up 50% of the effects \(ids 1, 3\)"
    ):
        _warn_undetermined(light, (1, 3))
    assert 0 < MATTERS < 0.5


def test_the_warning_is_one_line_and_says_what_to_do():
    many = Slalom(np.arange(8), np.zeros(8), np.arange(8.0))
    with pytest.warns(SlalomWarning) as caught:
        _warn_undetermined(many, tuple(range(7)))
    (message,) = [str(warning.message) for warning in caught]
    assert "\n" not in message and "(ids 0, 1, 2, 3, 4, ...)" in message
    assert "raise num_samples, or read their effect (slalom_linearized)" in message


def test_the_default_fit_of_the_shipped_model_does_not_warn_of_what_does_not_matter():
    model = load_demo_model()
    document = model.vocabulary.encode(
        "The plot is thin and the first half drags, but the leads are wonderful together"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlalomWarning)
        fit_slalom(lambda sequences: predict_many(model.weights, sequences)[:, 0], document, num_samples=1500)
