"""The benchmark of own texts: its reader, and its rows on a corpus of a few made-up lines."""

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("sklearn")

from benchmarks import texts
from benchmarks.texts import (
    FASTTEXT,
    LINEAR,
    OURS,
    Corpus,
    bars_of,
    kept,
    linear,
    load_orange,
    ours,
)
from jax_model.training.config import automatic
from jax_model.training.split import split_stratified


def write_tab(path, rows):
    lines = [
        "Category\tText",
        "d\tstring",
        "class\tmeta",
        *(f"{label}\t{text}" for text, label in rows),
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def rows(n, seed):
    rng = np.random.default_rng(seed)
    words = {"earn": ["profit", "dividend"], "ship": ["port", "vessel"], "grain": ["wheat", "corn"]}
    for i in range(n):
        label = list(words)[i % 3]
        yield " ".join([*rng.choice(["the", "said", "of"], 4), rng.choice(words[label])]), label


@pytest.mark.slow
def test_a_corpus_of_orange_and_a_row_for_ours_and_the_linear_model(tmp_path):
    write_tab(tmp_path / "tiny-train.tab", rows(90, 0))
    write_tab(tmp_path / "tiny-test.tab", rows(30, 1))
    training, test = load_orange(tmp_path, "tiny")
    assert training.classes == ("earn", "grain", "ship") and (
        len(training.texts),
        len(test.texts),
    ) == (90, 30)
    assert training.classes[training.labels[1]] == "ship"
    split = split_stratified(training, 0.1)
    config = automatic(split.training.texts, d_e=16, d_att=8, d_out=8, epochs=25)
    for make in (ours, linear):
        trained = make(Corpus(split, test, config), tmp_path)
        assert np.mean(trained.predict(test.texts) == test.labels) > 0.9
        assert trained.size > 0 and trained.seconds > 0
        assert (trained.explain is None) == (make is linear)


def test_a_finished_row_is_kept_until_its_settings_change(tmp_path, monkeypatch):
    write_tab(tmp_path / "tiny-train.tab", rows(30, 0))
    write_tab(tmp_path / "tiny-test.tab", rows(9, 1))
    training, test = load_orange(tmp_path, "tiny")
    split = split_stratified(training, 0.1)
    corpus = Corpus(split, test, automatic(split.training.texts))
    measured = []
    monkeypatch.setattr(
        texts,
        "measure",
        lambda name, corpus, method: measured.append(method) or {"classifier": method},
    )
    work = tmp_path / "work"
    for _ in range(2):
        assert [kept(work, "tiny", corpus, method)["classifier"] for method in (LINEAR, OURS)] == [
            LINEAR,
            OURS,
        ]
    assert measured == [LINEAR, OURS]
    other = corpus._replace(config=automatic(split.training.texts, K=2))
    (
        kept(work, "tiny", other, OURS),
        kept(work, "tiny", other, LINEAR),
        kept(None, "tiny", other, LINEAR),
    )
    assert measured == [LINEAR, OURS, OURS, LINEAR]


def test_bars_compare_with_the_best_baseline_that_ran():
    found = [
        {"classifier": OURS, "accuracy %": 97.2, "train s": 9.0},
        {"classifier": LINEAR, "accuracy %": 97.3, "train s": 1.0},
        {"classifier": FASTTEXT, "accuracy %": None},
    ]
    assert [bar.met for bar in bars_of("R8", 97.0, found)] == [True, False, True]
    assert [len(bars_of(name, 87.7, found)) for name in ("IMDB", "R52")] == [2, 1]
