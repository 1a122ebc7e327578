"""`AttentionTextClassifier` is an estimator of scikit-learn: its checks, its tools, and what is our
own.
"""

import pickle
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags

from attn_closed_form import load_model
from attn_closed_form.app.models.text import Token
from jax_model import AttentionTextClassifier
from tests.profiles import mostly_slow

WORDS = [["goal", "match"], ["tariff", "export"], ["wheat", "corn"]]


def topics(n=60, classes=3, seed=0):
    """n texts, of which one word tells the class, and class numbers."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    texts = []
    for label in labels:
        words = [
            *rng.choice(["the", "news", "of", "today"], rng.integers(2, 6)),
            rng.choice(WORDS[label]),
        ]
        texts.append(" ".join(rng.permutation(words)))
    return texts, labels


@pytest.fixture(scope="module")
def fitted():
    texts, labels = topics()
    return AttentionTextClassifier().fit(texts, np.array(["sport", "trade", "crops"])[labels])


with warnings.catch_warnings():
    # scikit-learn warns that it cannot make texts up for its other checks; the tests below repeat
    # them with texts.
    warnings.simplefilter("ignore", SkipTestWarning)
    every_check = estimator_checks.parametrize_with_checks([AttentionTextClassifier()])


@every_check
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_tags_say_what_it_reads():
    tags = get_tags(AttentionTextClassifier())
    assert (
        tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array
    )
    assert is_classifier(AttentionTextClassifier()) and tags.target_tags.required


@pytest.mark.slow
def test_probabilities_are_in_the_order_of_the_classes(fitted):
    assert fitted.classes_.tolist() == ["crops", "sport", "trade"] == list(fitted.model_.outputs)
    texts, labels = topics(seed=1)
    chances = fitted.predict_proba(texts)
    assert chances.shape == (60, 3) and chances.dtype == np.float64
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[chances.argmax(axis=1)], fitted.predict(texts))
    assert fitted.score(texts, np.array(["sport", "trade", "crops"])[labels]) > 0.9
    np.testing.assert_array_equal(
        fitted.decision_function(texts).argmax(axis=1), chances.argmax(axis=1)
    )


@pytest.mark.slow
def test_integer_labels_of_two_classes_and_columns_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    texts, labels = topics(40, classes=2)
    frame = pandas.DataFrame(
        {"text": texts, "label": np.where(labels == 1, 7, -3)}, index=np.arange(40)[::-1]
    )
    model = AttentionTextClassifier().fit(frame["text"], frame["label"])
    assert model.classes_.tolist() == [-3, 7] and model.predict(["export"]).dtype == np.int64
    assert model.predict(["export", "goal"]).tolist() == [7, -3] and model.decision_function(
        ["export"]
    ).shape == (1,)
    found = model.explain("the export", "shapley", output=-3)["shapley"]
    assert found.output == "-3" and dict(found.top(2))["export"] < 0


@pytest.mark.slow
def test_the_same_texts_give_the_same_file_and_fit_starts_anew(fitted, tmp_path):
    texts, labels = topics()
    other = clone(fitted).set_params(validation=0.3).fit(texts[:40], labels[:40] % 2)
    assert other.classes_.tolist() == [0, 1]
    other.set_params(validation=0.1).fit(texts, np.array(["sport", "trade", "crops"])[labels])
    fitted.save(tmp_path / "first.npz")
    other.save(tmp_path / "second.npz")
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "second.npz").read_bytes()


@pytest.mark.slow
def test_cross_validation_grid_search_and_pipeline():
    texts, labels = topics(45)
    model = AttentionTextClassifier()
    assert cross_val_score(model, texts, labels, cv=2).shape == (2,)
    assert cross_val_score(model, np.array(texts, dtype=object), labels, cv=2).min() > 0.5
    pipeline = make_pipeline(FunctionTransformer(lambda X: [text.upper() for text in X]), model)
    grid = {"attentiontextclassifier__vocabulary_size": [10, 100]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss", refit=False)
    search.fit(texts, labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.slow
def test_heads_and_positions_select_the_attention_model():
    texts, labels = topics(30)
    small = {"epochs": 2, "d_att": 4, "d_out": 4}
    model = AttentionTextClassifier(
        heads=2, positions="sinusoidal", max_length=12, embedding_size=8, settings=small
    ).fit(texts, labels)
    weights = model.model_.weights
    assert (weights.K, weights.T_max, weights.d_e) == (2, 12, 8)
    assert AttentionTextClassifier().fit(texts, labels).model_.weights.K == 1


@pytest.mark.slow
def test_a_tokenizer_for_words_that_are_split_already():
    def at_spaces(text):
        tokens = []
        for match in re.finditer(r"\S+", text):
            tokens.append(Token(match[0], match.start(), match.end()))
        return tokens

    texts = ["很 好看", "好看 的 电影", "不 好看 的", "太 难看 了"] * 6
    model = AttentionTextClassifier(tokenizer=at_spaces).fit(texts, [1, 1, 0, 0] * 6)
    assert "好看" in model.model_.vocabulary
    explained = model.explain("难看 的 电影", "shapley")["shapley"]
    assert explained.top(1)[0][0] in ("难看", "电影")


LABELS = {
    "integers": [5, 2],
    "digits in a text": ["1", "0"],
    "booleans": [True, False],
    "numbers": [3.0, 1.0],
    "texts": ["crops", "sport"],
}


@pytest.mark.parametrize("name", mostly_slow(LABELS, 2))
def test_labels_keep_their_type_in_a_file(name, tmp_path):
    """A file that turns 0 into "0", or "0" into 0, makes every prediction wrong without a word."""
    texts, numbers = topics(40, classes=2)
    labels = np.array(LABELS[name])[numbers]
    model = AttentionTextClassifier().fit(texts, labels)
    assert (model.predict(texts) == labels).mean() > 0.9
    for suffix in (".npz", ".safetensors"):
        model.save(tmp_path / f"model{suffix}")
        loaded = load_model(tmp_path / f"model{suffix}").predict(texts)
        assert loaded.dtype.kind == labels.dtype.kind
        np.testing.assert_array_equal(loaded, model.predict(texts))


def test_explain_save_and_pickle(fitted, tmp_path):
    found = fitted.explain("news of wheat today", "shapley")["shapley"]
    assert found.output == "crops" and found.top(1)[0][0] == "wheat"
    fitted.save(tmp_path / "model.npz")
    texts, _ = topics(seed=2)
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
    assert again.outputs == ("crops", "sport", "trade")
    assert again.card["held_out"]["texts"] == 60
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).predict(texts), fitted.predict(texts)
    )


def test_given_texts_to_hold_out():
    texts, labels = topics(30)
    other, truth = topics(12, seed=3)
    other = [f"{text} only held out" for text in other]
    model = AttentionTextClassifier().fit(texts, labels, other, truth)
    assert model.metrics_["training_texts"] == 30 and model.metrics_["held_out"]["texts"] == 12
    assert "held" not in model.model_.vocabulary
    with pytest.raises(ValueError, match="y_val"):
        model.fit(texts, labels, other, np.full(12, 9))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (["a b"] * 9, [1] * 9, "^y: "),
        (["a b"] * 9, None, "requires y to be passed, but the target y is None"),
        (["a b"] * 9, [0, 1] * 4, "^y: "),
        (["a b", None] * 4, [0, 1] * 4, "^X: "),
        (np.zeros((8, 2)), [0, 1] * 4, "^X: "),
        ("one text", [0], "^X: "),
        (["a b"] * 8, np.linspace(0, 1, 8), "Unknown label type"),
    ],
)
def test_what_cannot_be_fitted(X, y, message):
    with pytest.raises(ValueError, match=message):
        AttentionTextClassifier().fit(X, y)


def test_errors_name_the_parameters():
    texts, labels = topics(12)
    for settings, name in (
        ({"vocabulary_size": 0}, "vocabulary_size"),
        ({"heads": 0}, "heads"),
        ({"settings": {"key_size": 0}}, "key_size"),
        ({"model": "tables", "max_length": 9}, "max_length"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            AttentionTextClassifier(**settings).fit(texts, labels)


def test_not_fitted_yet():
    with pytest.raises(NotFittedError):
        AttentionTextClassifier().predict(["a"])
    with pytest.raises(NotFittedError):
        AttentionTextClassifier().save("model.npz")
