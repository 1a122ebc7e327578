"""A classifier of texts: names, probabilities, its own tokenizer, and what it refuses."""

import numpy as np
import pytest

from attn_closed_form import TextClassifier, explain, load_demo_model, load_model, predict
from attn_closed_form.app.models.text import Token, Vocabulary
from attn_closed_form.attention import random_weights

WORDS = ["[CLS]", "[UNK]", "a", "fine", "film"]
WEIGHTS = random_weights(seed=0, D=5, C=3)


def test_probabilities_are_a_softmax_with_the_temperature():
    texts = ["a fine film", "film", "unheard"]
    model = TextClassifier(WEIGHTS, Vocabulary(WORDS), ("x", "y", "z"), temperature=2.0)
    logits = np.array([predict(WEIGHTS, model.vocabulary.encode(text)) for text in texts])
    expected = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(texts), expected, rtol=1e-14)
    assert model.predict(texts).tolist() == [("x", "y", "z")[i] for i in logits.argmax(axis=1)]
    found = model.explain("a fine film", "leave-one-out")
    np.testing.assert_allclose(list(found.probabilities.values()), expected[0], rtol=1e-14)
    assert found.prediction == pytest.approx(expected[0].max(), rel=1e-14)
    # Explanations of the logits are not divided by it.
    of_logits = model.explain("a fine film", "leave-one-out", scale="logit")
    assert of_logits.prediction == pytest.approx(logits[0].max(), rel=1e-14)


def test_the_shipped_model_names_its_sides():
    model = load_demo_model()
    chances = model.predict_proba(["A wonderful film.", "A waste of time."])
    assert model.outputs == ("negative", "positive") and chances[0, 1] > 0.5 > chances[1, 1]
    positive, negative = (
        model.explain("A wonderful film.", "shapley", output=name)
        for name in ("positive", "negative")
    )
    np.testing.assert_allclose(positive["shapley"].scores, -negative["shapley"].scores, atol=1e-9)


def test_a_tokenizer_of_ones_own():
    def letters(text):
        return [Token(character, i, i + 1) for i, character in enumerate(text) if character.strip()]

    model = TextClassifier(
        WEIGHTS, Vocabulary(["[CLS]", "[UNK]", "a", "b", "c"]), tokenizer=letters
    )
    e = model.explain("ab c", "leave-one-out")["leave-one-out"]
    assert e.labels == ("a", "b", "c") and e.spans[2] == ((3, 4),)


def test_special_words_may_be_spelt_differently(tmp_path):
    vocabulary = Vocabulary(["[cls]", "UNK", "a", "fine", "film"], cls="[cls]", unk="UNK")
    model = TextClassifier(WEIGHTS, vocabulary, ("x", "y", "z"), 1.5, card={"accuracy": 0.5})
    assert model.explain("odd film", "leave-one-out")["leave-one-out"].labels == ("UNK", "film")
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert (again.outputs, again.temperature, again.card) == (
        ("x", "y", "z"),
        1.5,
        {"accuracy": 0.5},
    )
    assert again.vocabulary.unk_id == 1 and again.explain("odd film", "loo")["loo"].labels == (
        "UNK",
        "film",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((WEIGHTS, Vocabulary(WORDS), ("x",)), "^outputs: "),
        (
            (WEIGHTS, Vocabulary(WORDS), ("x", "x", "y")),
            "^outputs: ",
        ),
        (
            (WEIGHTS, Vocabulary(WORDS), ("x", "y", "z"), 0.0),
            "^temperature: ",
        ),
        ((WEIGHTS, Vocabulary(WORDS[:4])), "^vocabulary: "),
        ((random_weights(seed=0, D=5, T_max=1), Vocabulary(WORDS)), "T_max = 1"),
        (
            (WEIGHTS, Vocabulary(["[UNK]", "[CLS]", *WORDS[2:]])),
            "^vocabulary: ",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(*arguments)


@pytest.mark.parametrize("vocabulary", [WORDS, dict.fromkeys(WORDS, 0), None])
def test_a_vocabulary_of_another_type_is_named(vocabulary):
    with pytest.raises(TypeError, match=r"^vocabulary: "):
        TextClassifier(WEIGHTS, vocabulary)


def test_swapped_arguments_are_named():
    with pytest.raises(TypeError, match=r"^weights: "):
        TextClassifier(Vocabulary(WORDS), WEIGHTS)
    with pytest.raises(TypeError, match=r"^model: "):
        explain(WEIGHTS, "a fine film")
    with pytest.raises(TypeError, match=r"^model: "):
        explain(lambda documents: np.zeros(len(documents)), "a fine film")
    with pytest.raises(TypeError, match=r"^text: "):
        load_demo_model().explain(None)
    with pytest.raises(TypeError, match=r"^inputs: "):
        load_demo_model().predict("a fine film")


def test_a_model_that_reads_every_word_once(tmp_path):
    """Repeating words changes nothing: not the prediction, not the explanation, not after
    loading.
    """
    vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "dull", "film", "fine"])
    weights = random_weights(0, D=6, T_max=None, C=2)
    model = TextClassifier(weights, vocabulary, ("0", "1"), distinct_words=True, labels=(0, 1))
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    once = "a fine dull film"
    repeated = "A fine, fine dull film: dull, a fine film"
    texts = [once, "", repeated, "odd odd words", "odd words"]
    for classifier in (model, loaded):
        logits = classifier.predict_logits(texts)
        assert np.array_equal(logits[0], logits[2]) and np.array_equal(logits[3], logits[4])
        units = classifier.read_many([once, repeated])
        assert [list(each.labels) for each in units] == [["a", "fine", "dull", "film"]] * 2
        assert units[1].spans[3] == (18, 22)
        values = [classifier.explain(text, "shapley")["shapley"].scores for text in texts[:3:2]]
        assert np.array_equal(*values)
        assert classifier.predict(texts).dtype == np.int64
    plain = TextClassifier(weights, vocabulary, ("0", "1"))
    assert not np.array_equal(plain.predict_logits([repeated]), model.predict_logits([repeated]))
