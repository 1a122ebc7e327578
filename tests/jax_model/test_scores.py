"""Scores against scikit-learn's, and the temperature against a grid."""

import numpy as np
import pytest

from jax_model.training.scores import fit_temperature, log_probabilities, report


@pytest.mark.parametrize("C", [1, 2, 5])
def test_scores_are_those_of_scikit_learn(C):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(C)
    classes = tuple("abcde"[: max(C, 2)])
    labels = rng.integers(len(classes), size=83)
    logits = rng.normal(size=(83, C))
    found = report(logits, labels, classes, temperature=1.7)
    predicted = log_probabilities(logits).argmax(axis=1)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, predicted, average="macro"))
    assert found["loss"] == pytest.approx(
        metrics.log_loss(labels, np.exp(log_probabilities(logits, 1.7)))
    )
    expected = metrics.classification_report(
        labels, predicted, target_names=classes, output_dict=True
    )
    for name in classes:
        for ours, theirs in (
            ("precision", "precision"),
            ("recall", "recall"),
            ("f1", "f1-score"),
            ("texts", "support"),
        ):
            assert found["classes"][name][ours] == pytest.approx(expected[name][theirs])


def test_a_class_without_texts_does_not_count():
    found = report(np.eye(3)[[0, 1, 0]], np.array([0, 1, 1]), ("a", "b", "never"))
    assert found["classes"]["never"] == {"precision": 0, "recall": 0, "f1": 0, "texts": 0}
    assert found["macro_f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("C", [1, 4])
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_the_temperature_is_the_best_of_a_grid(C, scale):
    rng = np.random.default_rng(0)
    labels = rng.integers(max(C, 2), size=700)
    logits = rng.normal(size=(700, C))
    if C == 1:
        logits[:, 0] += np.where(labels == 1, 1, -1)
    else:
        logits[np.arange(700), labels] += 1
    logits *= scale
    T = fit_temperature(logits, labels)

    def loss(temperature):
        return -log_probabilities(logits, temperature)[np.arange(700), labels].mean()

    best = min(np.geomspace(0.05, 20, 400), key=loss)
    assert pytest.approx(best, rel=0.03) == T and 0.05 < T < 20
    assert fit_temperature(2 * logits, labels) == pytest.approx(2 * T, rel=1e-6)


def test_a_held_out_part_without_a_mistake_has_a_temperature_too():
    labels = np.arange(20) % 2
    T = fit_temperature(np.where(labels == 1, 3.0, -3.0)[:, None], labels)
    assert np.exp(log_probabilities(np.array([[3.0]]), T))[0, 1] == pytest.approx(21 / 22)
