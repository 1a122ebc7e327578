"""Learning curves: the page is that of the stored results, and a size is measured on equal
terms.
"""

import numpy as np
import pytest

from attn_closed_form.app.files.tables import Labelled
from benchmarks import learning_curves
from benchmarks.learning_curves import (
    PAGE,
    Outcome,
    Predicted,
    area_under_curve,
    bars_of,
    kept_outcome,
    measure,
    page,
)
from benchmarks.text_corpora import RARE_SHARE, Corpus


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_both_methods_see_the_same_texts(monkeypatch):
    texts = [f"text {i}" for i in range(50)]
    data = Labelled(texts, np.arange(50) % 2, ("a", "b"))
    seen = {"first": [], "second": []}

    def method(name, wrong):
        def run(parts):
            test = parts.test
            seen[name].append((tuple(parts.training.texts), tuple(test.texts)))
            likely = np.where(np.arange(50) < wrong, 1 - test.labels, test.labels)
            return Predicted(likely, np.eye(2)[likely])

        return run

    methods = {learning_curves.OURS: method("first", 5)}
    methods[learning_curves.LINEAR] = method("second", 10)
    monkeypatch.setattr(learning_curves, "METHODS", methods)
    row = measure("IMDB", Corpus(data, data), 10, 3)
    assert seen["first"] == seen["second"] and len(set(seen["first"])) == 3
    assert all(len(training) == 10 for training, _ in seen["first"])
    assert row["difference"] == pytest.approx(10.0)
    assert row["standard error of the difference"] == pytest.approx(0.0)
    (bar,) = bars_of([row])
    assert bar.met and not bars_of([row | {"difference": -0.1}])[0].met
    whole = measure("R8", Corpus(data, data), None, 1)
    of_texts = np.repeat([0, 1, 0], [5, 5, 40]).std(ddof=1) / 50**0.5
    assert whole["standard error of the difference"] == pytest.approx(100 * of_texts)
    assert [bar.met for bar in bars_of([whole])] == [True, False]


def test_a_finished_fit_is_kept(tmp_path):
    outcome = Outcome([1, 0, 1], 0.7, 2.0)
    assert kept_outcome(tmp_path, "key", lambda: outcome) == outcome
    assert kept_outcome(tmp_path, "key", lambda: pytest.fail("fitted again")) == outcome
    assert outcome.accuracy == pytest.approx(200 / 3)


def test_the_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 7, 60) / 7
    labels = rng.integers(0, 2, 60)
    pairs = scores[labels == 1][:, None] - scores[labels == 0]
    expected = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert area_under_curve(scores, labels) == pytest.approx(expected)


def test_a_corpus_without_a_test_part_is_divided_anew_for_every_seed():
    data = Labelled([f"text {i}" for i in range(400)], np.arange(400) % 2, ("a", "b"))
    corpus = Corpus(data, test_texts=100)
    first, test = corpus.parts(200, 0)
    assert len(first.texts) == 200 and len(test.texts) == 100
    assert not set(first.texts) & set(test.texts)
    other, other_test = corpus.parts(200, 1)
    assert set(other.texts) != set(first.texts) and set(other_test.texts) != set(test.texts)
    assert corpus.parts(200, 0)[0].texts == first.texts
    rare, _ = corpus._replace(rare=True).parts(300, 0)
    common, second = np.bincount(rare.labels)
    assert second == common // RARE_SHARE > 0
