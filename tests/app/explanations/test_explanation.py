"""Explanations say what the methods say, about the right places of the text."""

import dataclasses
import gc
import json
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attn_closed_form as acf
from attn_closed_form import METHODS, TruncationWarning, explain, load_demo_model
from attn_closed_form.app.explanations.explanation import Explanations
from attn_closed_form.app.explanations.methods import DEFAULT_METHODS
from attn_closed_form.app.models.text import tokenize
from attn_closed_form.attention import (
    alpha_avg,
    alpha_max,
    classifier_lrp,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    pooled_game,
)
from attn_closed_form.game.sampled import shapley_sample
from attn_closed_form.slalom.readoff import slalom_from_weights
from tests import enumeration
from tests.texts import HOSTILE, REVIEW, long_text, model_for, six_heads
from tests.tolerances import assert_algebraic, assert_difference

POSITION_METHODS = {
    "alpha-mean": alpha_avg,
    "alpha-max": alpha_max,
    "gradient-mean": gradient_mean,
    "gradient-l1": gradient_l1,
    "gradient-l2": gradient_l2,
    "gradient-x-input": gradient_times_input,
    "integrated-gradients": integrated_gradients,
    "lrp": classifier_lrp,
}
GAME_METHODS = {
    "shapley": acf.shapley,
    "banzhaf": acf.banzhaf,
    "leave-one-out": acf.leave_one_out,
    "lime": lambda game: acf.lime_limit(game).coef,
    "lime-sampled": lambda game: acf.lime_sample(game, seed=0).coef,
    "shapley-sampled": lambda game: shapley_sample(game, 5000, seed=0).values,
}
CLOSED_FORMS = [name for name in GAME_METHODS if name != "shapley-sampled"]


def test_every_method_is_compared_and_all_but_the_sampled_ones_are_run_by_default():
    others = {"slalom-value", "slalom-importance", "slalom-linear", "flip-order", "single"}
    assert {*POSITION_METHODS, *GAME_METHODS, *others} == set(METHODS)
    assert set(METHODS) - set(DEFAULT_METHODS) == {
        "lime-sampled",
        "shapley-sampled",
        "flip-order",
        "single",
    }


@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_single_is_the_prediction_for_the_player_alone(absent):
    options = {"absent": absent, "output": 2, "scale": "logit"}
    e = explain(model_for(REVIEW, C=3), REVIEW, "single", **options)["single"]
    assert_algebraic(e.scores, e.game.value(np.eye(e.game.d, dtype=bool)), scale=4.0)


def test_flip_order_is_the_order_of_the_contrastive_reason_and_needs_no_player_more():
    """One head: no set smaller than the first prefix of the order that flips the call does that."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        s = rng.normal(size=11)
        v = rng.normal(size=11) + 0.8
        model = acf.BagClassifier.from_attention(
            s, np.stack([-v, v + 0.3], axis=1), bias=[0.1, 0.4]
        )
        found = explain(model, model.bag, "flip-order", output=1)
        reason = found.reasons().contrastive
        if found.probabilities["1"] <= 0.5 or reason.players is None:
            continue
        order = np.argsort(-found["flip-order"].scores)
        flipped = [
            found.reasons().game.value(~np.isin(np.arange(11), order[:k])) < 0 for k in range(12)
        ]
        assert flipped.index(True) == len(reason.players)


@pytest.mark.parametrize(
    ("alias", "name"),
    [("alpha-avg", "alpha-mean"), ("g-avg", "gradient-mean"), ("g-l1", "gradient-l1"), ("g-l2", "gradient-l2"),
     ("gxi", "gradient-x-input"), ("ig", "integrated-gradients"), ("loo", "leave-one-out")],
)  # fmt: skip
def test_a_short_name_is_accepted_and_the_long_one_is_returned(alias, name):
    found = explain(load_demo_model(), "A fine film", [alias, name])
    assert list(found) == [name] and found[alias] is found[name]
    with pytest.raises(KeyError):
        found["shapley"]


@pytest.mark.parametrize("name", POSITION_METHODS)
def test_scores_of_positions_are_those_of_the_function_and_words_add_them_up(name):
    text = "film bad film fine bad film"
    model = model_for(text)
    weights = model.weights
    vocabulary = model.vocabulary
    direct = POSITION_METHODS[name](weights, vocabulary.encode(text))
    scores = explain(model, text, name, players="positions", output=1)[name].scores
    # Attention is computed from the scores of the units, in another order.
    if name in ("alpha-mean", "alpha-max"):
        assert_algebraic(scores, direct)
    else:
        assert np.array_equal(scores, direct)
    words = explain(model, text, name, output=1)[name]
    assert words.labels == ("film", "bad", "fine")
    assert_algebraic(words.scores, [direct[[0, 2, 5]].sum(), direct[[1, 4]].sum(), direct[3]])


@pytest.mark.parametrize(
    "name", [*CLOSED_FORMS, pytest.param("shapley-sampled", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_scores_of_games_are_those_of_the_game(name, players, absent):
    model = model_for(REVIEW, C=3)
    weights = model.weights
    vocabulary = model.vocabulary
    options = {"players": players, "absent": absent, "output": 2, "scale": "logit"}
    e = explain(model, REVIEW, name, **options)[name]
    game = pooled_game(weights, vocabulary.encode(REVIEW), players, absent, output=2)
    assert np.array_equal(e.scores, GAME_METHODS[name](game))
    assert_algebraic(e.prediction, acf.predict(weights, vocabulary.encode(REVIEW))[2], scale=4.0)


@pytest.mark.parametrize("name", ["shapley", "integrated-gradients"])
@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("make", [load_demo_model, six_heads])
def test_scores_that_should_add_up_do(name, players, make):
    model = make()
    weights = model.weights
    vocabulary = model.vocabulary
    e = explain(model, REVIEW, name, players=players, output="positive")[name]
    assert abs(e.baseline + e.scores.sum() - e.prediction) < 1e-8
    # Without positions words are deleted, but gradients have no path to there.
    deleted = weights.T_max is None and name == "shapley"
    if deleted:
        nobody = []
    else:
        nobody = np.full(len(vocabulary.encode(REVIEW)), weights.unk)
    logit = acf.predict(weights, nobody)[0]
    if e.scale.name == "probability":
        expected = 1 / (1 + np.exp(-logit / model.temperature))
    else:
        expected = logit
    assert (e.scale.name == "probability") == (make is load_demo_model and name == "shapley")
    assert_algebraic(e.baseline, expected, scale=1.0)


@pytest.mark.parametrize("name", ["shapley", "banzhaf"])
@pytest.mark.parametrize("tol", [1e-10, 1e-3])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_the_guaranteed_error_holds_against_enumeration(name, tol, absent):
    model = model_for("a fine film but not a good one")
    e = explain(model, "a fine film but not a good one", name, absent=absent, tol=tol)[name]
    exact = getattr(enumeration, name)(e.game)
    assert 0 < e.error <= tol * np.abs(enumeration.values(e.game)).max()
    assert np.abs(e.scores - exact).max() <= e.error


def test_a_tolerance_beyond_float64_is_loosened_and_the_error_says_so():
    model = model_for("a fine film")
    with pytest.warns(acf.ToleranceWarning, match=r"^shapley: "):
        strict = explain(model, "a fine film", "shapley", tol=1e-18)["shapley"]
    normal = explain(model, "a fine film", "shapley")["shapley"]
    assert 1e-15 < strict.error / (normal.error * 1e10) < 1e-10
    assert np.abs(strict.scores - enumeration.shapley(strict.game)).max() <= strict.error


def test_only_guaranteed_methods_claim_an_error():
    model = model_for(REVIEW)
    for name, e in explain(model, REVIEW, "all").items():
        assert (e.error is not None) == (METHODS[name].accuracy == "guaranteed"), name


def test_spans_point_at_every_occurrence():
    text = "Film, a FILM; not a film? Café!"
    model = model_for(text)
    e = explain(model, text, "shapley")["shapley"]
    assert [[text[a:b] for a, b in spans] for spans in e.spans] == [
        ["Film", "FILM", "film"], ["a", "a"], ["not"], ["?"], ["Café"], ["!"],
    ]  # fmt: skip
    assert [text[p.start : p.end] for p in e.occurrences] == [
        "Film",
        "a",
        "FILM",
        "not",
        "a",
        "film",
        "?",
        "Café",
        "!",
    ]
    assert [e.labels[p.player] for p in e.occurrences] == [
        "film",
        "a",
        "film",
        "not",
        "a",
        "film",
        "?",
        "café",
        "!",
    ]


def test_words_outside_the_vocabulary_are_one_player_called_unk():
    model = model_for("fine film")
    e = explain(model, "zyx film wvu", "shapley")["shapley"]
    assert e.labels == ("[UNK]", "film") and e.unknown == (True, False)
    assert len(e.spans[0]) == 2
    assert e.scores[0] == 0  # [UNK] in the place of [UNK] changes nothing
    apart = explain(model, "zyx film wvu", "alpha-mean", players="positions")["alpha-mean"]
    assert apart.labels == ("[UNK]", "film", "[UNK]")


def test_what_the_model_cannot_see_is_said_and_marked():
    text = long_text(100)
    model = model_for(text, T_max=32)
    weights = model.weights
    vocabulary = model.vocabulary
    with pytest.warns(TruncationWarning, match=r"100 tokens.*room for 31.*last 69"):
        e = explain(model, text, "shapley")["shapley"]
    assert len(e.unseen) == 69 and len(e.occurrences) == 31
    assert text[e.unseen[0][0] :].split() == text.split()[31:]
    seen = acf.predict(weights, vocabulary.encode(" ".join(text.split()[:31])))
    assert e.prediction == pytest.approx(seen[0], rel=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty text"),
        (" \n", "only white space"),
        ("... <br/> ;", "at least one word, got '... <br/> ;'"),
    ],
)
def test_a_text_without_words_is_an_error_that_says_so(text, message):
    model = model_for("film")
    with pytest.raises(ValueError, match=r"^text: ") as error:
        explain(model, text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": "shap"}, "^methods: "),
        ({"methods": []}, "^methods: "),
        ({"players": "letters"}, "^players: "),
        ({"absent": "gone"}, "^absent: "),
        ({"output": 2}, "^output: "),
        ({"tol": 0.0, "methods": "shapley"}, "^tol: "),
    ],
)
def test_wrong_arguments_are_named(options, message):
    model = model_for("film")
    with pytest.raises(ValueError, match=message):
        explain(model, "film", **options)


def test_a_vocabulary_of_another_model_is_an_error():
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        acf.TextClassifier(model_for("film").weights, model_for("fine film").vocabulary)


def test_one_head_without_positions_is_the_slalom_of_the_weights():
    model = model_for(REVIEW, K=1)
    weights = model.weights
    vocabulary = model.vocabulary
    weights = dataclasses.replace(weights, W_p=np.zeros_like(weights.W_p))
    model = acf.TextClassifier(weights, vocabulary)
    found = explain(
        model, REVIEW, ["slalom-value", "slalom-importance"], players="positions", output=1
    )
    slalom = slalom_from_weights(weights).slalom
    at = np.searchsorted(slalom.ids, vocabulary.encode(REVIEW))
    s = slalom.s[at]
    v = np.ravel(slalom.v)[at]
    assert_algebraic(found["slalom-value"].scores, v, scale=10.0, condition=4)
    assert_algebraic(found["slalom-importance"].scores, s - s.mean(), scale=10.0, condition=4)


@pytest.mark.parametrize("players", ["words", "positions"])
def test_slalom_of_several_heads_gives_everyone_their_share_and_the_true_derivative(players):
    model = model_for(REVIEW, K=3)
    found = explain(
        model, REVIEW, ["slalom-value", "slalom-importance", "slalom-linear"], players=players
    )
    value, importance, linear = (e.scores for e in found.values())
    assert abs(importance.sum()) < 1e-12
    game = found["slalom-value"].game
    alpha = np.exp(
        game.s - np.logaddexp(np.logaddexp.reduce(game.s, axis=1), game.s_background)[:, None]
    )
    weight = np.exp(importance) / np.exp(importance).sum() * alpha.mean(axis=0).sum()
    assert_algebraic(
        weight * (value - game.bias), (alpha * game.v).sum(axis=0), scale=1.0, condition=8
    )

    def f(j, shift):
        s = np.array(game.s)
        s[:, j] += shift
        return dataclasses.replace(game, s=s).value(np.ones(game.d, dtype=bool))

    h = 1e-3
    slope = [
        (8 * (f(j, h) - f(j, -h)) - (f(j, 2 * h) - f(j, -2 * h))) / (12 * h) for j in range(game.d)
    ]
    assert_difference(linear, slope, scale=1.0)


def test_huge_scores_give_finite_answers():
    model = model_for(REVIEW, score_scale=2e4)
    for name, e in explain(model, REVIEW, "all").items():
        assert np.isfinite(e.scores).all(), name
        assert np.abs(e.strength).max() <= 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_explained_by_every_method(name):
    model = model_for("fine film bad")
    found = explain(model, HOSTILE[name], "all")
    again = json.loads(json.dumps(found.to_dict()))
    assert again["text"] == HOSTILE[name]
    for method, e in found.items():
        assert np.isfinite(e.scores).all()
        assert again["methods"][method]["scores"] == e.scores.tolist()


FINE_FILM_BAD = model_for("fine film bad")


@given(st.text(max_size=60))
def test_any_text_is_explained_or_has_no_words(text):
    model = FINE_FILM_BAD
    if not tokenize(text):
        with pytest.raises(ValueError, match=r"^text: "):
            explain(model, text)
        return
    e = explain(model, text, "shapley")["shapley"]
    assert [(p.start, p.end) for p in e.occurrences] == [(t.start, t.end) for t in tokenize(text)]


def test_explanations_are_read_only_also_after_pickling():
    model = model_for(REVIEW)
    explanations = explain(model, REVIEW, "shapley")
    e = explanations["shapley"]
    for one in (e, pickle.loads(pickle.dumps(e))):
        np.testing.assert_array_equal(one.scores, e.scores)
        for array in (one.scores, one.evidence.logits):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.method = "lime"


def test_an_explanation_is_plain_data():
    model = model_for(REVIEW)
    e = explain(model, REVIEW, "shapley")["shapley"]
    again = json.loads(json.dumps(e.to_dict()))
    assert again["scores"] == e.scores.tolist() and again["labels"] == list(e.labels)
    assert again["spans"][0] == [list(span) for span in e.spans[0]]
    with pytest.raises(ValueError, match="read-only"):
        e.scores[0] = 1.0
    with pytest.raises(ValueError, match=r"^scores: "):
        dataclasses.replace(e, scores=e.scores[1:])
    strongest = max(range(len(e.labels)), key=lambda j: abs(e.scores[j]))
    assert e.top(1) == [(e.labels[strongest], e.scores[strongest])]
    assert np.array_equal(e.interactions(), acf.interactions(e.game))


@pytest.mark.parametrize("scale", ["logit", "probability"])
def test_explanations_are_freed_without_the_garbage_collector(scale):
    explanations = load_demo_model().explain(
        "A fine, fine film", ["shapley", "lime", "gradient-l2"], scale=scale
    )
    kept = [weakref.ref(explanations.evidence), weakref.ref(explanations.evidence.pooled)]
    gc.disable()
    try:
        del explanations  # a reference cycle would keep the arrays of every row of a corpus
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


def test_printing_explanations_shows_the_answer():
    found = load_demo_model().explain("A fine film", "shapley")
    text = str(found)
    assert "baseline" in text and "fine" in text and found.explained.split()[0] in text
    assert max(map(len, text.splitlines())) <= 80
    assert str(Explanations(found.evidence)) == "{}"
