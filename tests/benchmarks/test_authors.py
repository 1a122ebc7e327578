"""The stored values of the authors' repositories say what the pages say of them."""

import numpy as np
import pytest

from benchmarks.papers import authors


def test_figure_4():
    words, lime, printed = authors.figure_4()
    assert len(set(words)) == len(words) == lime.size == printed.size == 71
    assert authors.relative_error(lime, printed) == pytest.approx(0.252, abs=5e-4)
    assert authors.relative_error(lime, printed / 1.5) == pytest.approx(0.411, abs=5e-4)
    assert authors.best_factor() == pytest.approx(1.506, abs=5e-4)
    # The best multiple is the minimum of the error.
    plain = printed / 1.5
    best = authors.relative_error(lime, authors.best_factor() * plain)
    for factor in (1.0, 1.4, 1.6, 2.0):
        assert best < authors.relative_error(lime, factor * plain)


def test_figure_5_differs_at_cls_alone():
    stored = authors.values()["P1"]["figure 5"]
    theory, autodiff = (np.array(stored[name]) for name in ("theory", "autodiff"))
    assert theory.shape == autodiff.shape == (6, 6)
    assert (theory[1:] == autodiff[1:]).all()
    assert np.abs(theory[0] - autodiff[0]).min() > 1e-3


def test_figure_1_and_the_model():
    stored = authors.values()["P1"]
    negative = {
        name for name, words in stored["figure 1"]["scores"].items() if words["questionable"] < 0
    }
    assert negative == {"LIME", "G-avg", "G×I"}
    assert float(stored["model"]["Test accuracy"]) == 80.19
    assert len(stored["commit"]) == len(authors.values()["P2"]["commit"]) == 40


def test_the_words_of_the_recovery_follow_eq_81_with_the_absolute_value():
    stored = authors.values()["P2"]["recovery"]
    words = stored["first words"].values()
    v = np.array([word["v"] for word in words])
    s = np.array([word["s"] for word in words])
    fit = stored["s by |v|^1.5"]
    residual = s - fit["slope"] * np.abs(v) ** 1.5 - fit["offset"]
    assert residual.std() < 1.0 < 3.0 < s.std()
    assert (v < 0).sum() >= 5
    signed = s - fit["slope"] * np.sign(v) * np.abs(v) ** 1.5 - fit["offset"]
    assert signed.std() > 3 * residual.std()


def test_parsing_of_outputs():
    assert authors.dictionary("Average:\n{'a': -1.5, 'b': 2e-3}") == {"a": -1.5, "b": 0.002}
    text = "tensor([[-1.0e-01, 2.0, 3.0, ..., 4.0, 5.0,\n 6.5]], grad_fn=<MeanBackward1>)"
    assert authors.matrix(text) == [[-0.1, 2.0, 3.0, 4.0, 5.0, 6.5]]
