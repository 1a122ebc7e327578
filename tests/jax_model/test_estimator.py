"""`AttentionTextClassifier` is an estimator of scikit-learn: its checks, its tools, and what is our own."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags

from attn_closed_form import load_model
from jax_model import AttentionTextClassifier

SMALL = {
    "d_e": 8,
    "K": 2,
    "d_att": 4,
    "d_out": 4,
    "epochs": 25,
    "learning_rate": 0.03,
    "random_state": 0,
}
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
    return AttentionTextClassifier(**SMALL).fit(
        texts, np.array(["sport", "trade", "crops"])[labels]
    )


API_CHECKS = [
    "check_estimator_cloneable",
    "check_no_attributes_set_in_init",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimator_repr",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
]


@pytest.mark.parametrize("check", API_CHECKS)
def test_checks_of_scikit_learn(check):
    """Those that need no table of numbers; the ones below repeat for texts what the others ask."""
    getattr(estimator_checks, check)("AttentionTextClassifier", AttentionTextClassifier())


def test_tags_say_what_it_reads():
    tags = get_tags(AttentionTextClassifier())
    assert (
        tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array
    )
    assert is_classifier(AttentionTextClassifier()) and tags.target_tags.required


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


def test_integer_labels_of_two_classes_and_columns_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    texts, labels = topics(40, classes=2)
    frame = pandas.DataFrame(
        {"text": texts, "label": np.where(labels == 1, 7, -3)}, index=np.arange(40)[::-1]
    )
    model = AttentionTextClassifier(**SMALL).fit(frame["text"], frame["label"])
    assert model.classes_.tolist() == [-3, 7] and model.predict(["export"]).dtype == np.int64
    assert model.predict(["export", "goal"]).tolist() == [7, -3] and model.decision_function(
        ["export"]
    ).shape == (1,)
    found = model.explain("the export", "shapley", output=-3)["shapley"]
    assert found.output == "-3" and dict(found.top(2))["export"] < 0


def test_the_same_seed_gives_the_same_model_and_fit_starts_anew(fitted):
    texts, labels = topics()
    other = clone(fitted).set_params(epochs=1).fit(texts[:40], labels[:40] % 2)
    assert other.classes_.tolist() == [0, 1]
    other.set_params(epochs=25).fit(texts, np.array(["sport", "trade", "crops"])[labels])
    np.testing.assert_array_equal(other.predict_proba(texts), fitted.predict_proba(texts))
    assert other.get_params() == fitted.get_params()


def test_cross_validation_grid_search_and_pipeline():
    texts, labels = topics(45)
    model = AttentionTextClassifier(**{**SMALL, "epochs": 5})
    assert cross_val_score(model, texts, labels, cv=2).shape == (2,)
    pipeline = make_pipeline(FunctionTransformer(lambda X: [text.upper() for text in X]), model)
    search = GridSearchCV(
        pipeline, {"attentiontextclassifier__K": [1]}, cv=2, scoring="neg_log_loss", refit=False
    )
    search.fit(texts, labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_explain_save_and_pickle(fitted, tmp_path):
    found = fitted.explain("news of wheat today", "shapley")["shapley"]
    assert found.output == "crops" and found.top(1)[0][0] == "wheat"
    fitted.save(tmp_path / "model.npz")
    texts, _ = topics(seed=2)
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
    assert again.outputs == ("crops", "sport", "trade") and again.card["held_out"]["texts"] == 6
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).predict(texts), fitted.predict(texts)
    )


def test_texts_of_ones_own_to_hold_out():
    texts, labels = topics(30)
    other, truth = topics(12, seed=3)
    other = [f"{text} only held out" for text in other]
    model = AttentionTextClassifier(**{**SMALL, "epochs": 3}).fit(texts, labels, other, truth)
    assert model.metrics_["training_texts"] == 30 and model.metrics_["held_out"]["texts"] == 12
    assert "held" not in model.model_.vocabulary and "refit" not in model.metrics_
    with pytest.raises(ValueError, match=r"y_val: expected labels that occur in y, got \{9\}"):
        model.fit(texts, labels, other, np.full(12, 9))


def test_texts_to_hold_out_are_trained_on_with_a_warning_alone():
    texts, labels = topics(30)
    other = [f"{text} heldout" for text in texts[:9]]
    model = AttentionTextClassifier(**{**SMALL, "epochs": 2}, refit="all")
    with pytest.warns(UserWarning, match="the texts of X_val are also used for training"):
        model.fit(texts, labels, other, labels[:9])
    assert "heldout" in model.model_.vocabulary and model.metrics_["refit"]["texts"] == 39


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (["a b"] * 9, [1] * 9, "at least two classes, got one class only, \\[1\\]"),
        (["a b"] * 9, None, "requires y to be passed, but the target y is None"),
        (["a b"] * 9, [0, 1] * 4, "one label per text or bag, 9 of them, got 8"),
        (["a b", None] * 4, [0, 1] * 4, "X: expected texts, got NoneType"),
        (np.zeros((8, 2)), [0, 1] * 4, r"got an array of shape \(8, 2\)"),
        ("one text", [0], "X: expected an iterable over texts, got one string"),
        (["a b"] * 8, np.linspace(0, 1, 8), "Unknown label type"),
    ],
)
def test_what_cannot_be_fitted(X, y, message):
    with pytest.raises(ValueError, match=message):
        AttentionTextClassifier(**SMALL).fit(X, y)


def test_not_fitted_yet():
    with pytest.raises(NotFittedError):
        AttentionTextClassifier().predict(["a"])
    with pytest.raises(NotFittedError):
        AttentionTextClassifier().save("model.npz")
