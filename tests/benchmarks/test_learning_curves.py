"""Learning curves: the page is that of the stored results, and a size is measured on equal
terms.
"""

import numpy as np
import pytest

from attn_closed_form.app.files.tables import Labelled
from benchmarks import learning_curves
from benchmarks.learning_curves import PAGE, Corpus, bars_of, measure, page


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_both_methods_see_the_same_texts(monkeypatch):
    texts = [f"text {i}" for i in range(50)]
    data = Labelled(texts, np.arange(50) % 2, ("a", "b"))
    seen = {"first": [], "second": []}

    def method(name, accuracy):
        def run(training, test):
            seen[name].append((tuple(training.texts), tuple(test.texts)))
            return accuracy

        return run

    methods = {learning_curves.OURS: method("first", 0.9)}
    methods[learning_curves.LINEAR] = method("second", 0.8)
    monkeypatch.setattr(learning_curves, "METHODS", methods)
    row = measure("IMDB", Corpus(data, data, (10,)), 10, 3)
    assert seen["first"] == seen["second"] and len(set(seen["first"])) == 3
    assert all(len(training) == 10 for training, _ in seen["first"])
    assert row["difference"] == pytest.approx(10.0)
    assert row["standard error of the difference"] == pytest.approx(0.0)
    (bar,) = bars_of([row])
    assert bar.met and not bars_of([row | {"difference": -0.1}])[0].met
