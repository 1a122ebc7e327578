"""The comparison of estimates of a transformer's Shapley values, on tiny games and a tiny
transformer.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
for package in ("captum", "lime", "shap", "shapiq"):
    pytest.importorskip(package)

from attn_closed_form import PooledGame, TransformerClassifier, shapley  # noqa: E402
from benchmarks import small_transformers, transformer_values  # noqa: E402
from benchmarks.harness import RESULTS  # noqa: E402
from benchmarks.transformer_values import (  # noqa: E402
    LIME,
    OURS,
    PARTITION,
    PERMUTATION,
    SCALES,
    SLALOM,
    WordGame,
)
from tests import tiny_transformers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
TEXT = "The film was slow, but the leads are wonderful together!"


class TwoHeads:
    """A game with known values that counts like a WordGame."""

    def __init__(self, d=8):
        rng = np.random.default_rng(0)
        self.game = PooledGame.from_scores(
            rng.normal(size=(2, d)), 2 * rng.normal(size=(2, d)), empty_value=0.3
        )
        self.d = d
        self.calls = 0
        self.units = SimpleNamespace(group_labels={"words": TEXT.split()[:d]})

    def value(self, present):
        self.calls += len(present)
        return self.game.value(present)


def test_enumeration_is_exact():
    game = TwoHeads().game
    assert np.allclose(transformer_values.enumerated(game.value, game.d), shapley(game))


@pytest.mark.parametrize("scale", SCALES)
def test_every_method_estimates_the_shapley_values_within_its_budget(scale):
    game = TwoHeads()
    link = SCALES[scale]
    expected = transformer_values.truth(game, scale, 600)
    assert expected.calls == 2**game.d and (expected.standard_error == 0).all()
    norm = np.linalg.norm(expected.values)
    for name, method in transformer_values.samplers(game, link, seed=0).items():
        before = game.calls
        found = method(100 * game.d)
        assert found.calls == game.calls - before <= 100 * game.d
        if name not in (LIME, PARTITION):  # these two have other limits
            assert np.linalg.norm(found.values - expected.values) < 0.25 * norm, name
        if name != LIME:
            assert found.values.sum() == pytest.approx(expected.values.sum(), abs=1e-6)
        assert (found.standard_error is not None) == (name in (OURS, PERMUTATION))


@pytest.fixture(scope="module")
def classifier():
    return TransformerClassifier(*tiny_transformers.bert(("negative", "positive")), progress=False)


def test_outputs_are_those_of_the_model_and_survive_a_restart(classifier, tmp_path):
    game = WordGame(classifier, TEXT, tmp_path / "0.npz")
    masks = np.random.default_rng(0).random((20, game.d)) < 0.6
    got = game.value(masks)
    logits = classifier([game.ids[row[game.words]] for row in masks])
    assert np.allclose(got, logits[:, 1] - logits[:, 0], atol=1e-5) and game.calls == 20
    game.keep()
    # A model that cannot be called.
    again = WordGame(SimpleNamespace(read=classifier.read), TEXT, tmp_path / "0.npz")
    assert (again.value(masks) == got).all() and again.calls == 20


def test_rows_and_bars_come_from_the_measurements(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(transformer_values, "BUDGETS", (10, 100))
    monkeypatch.setattr(transformer_values, "ENUMERATED", 10)
    texts = [TEXT, "a good film , not a bad film , but boring ."]
    records = transformer_values.measure("tiny", classifier, texts, tmp_path, 200)
    assert [record["truth"]["d"] for record in records] == [12, 12]
    again = transformer_values.measure("tiny", None, texts, tmp_path, 200)  # read, not measured
    assert json.dumps(again) == json.dumps(records)
    rows = transformer_values.rows_of("tiny", records)
    assert {row["texts"] for row in rows} == {2} and all(row["median error"] >= 0 for row in rows)
    assert len(rows) == 2 * 2 * 8
    bars = transformer_values.all_bars({"tiny": records}, rows)
    ratio = bars[0].measured
    for record in records:  # twice the error of ours is twice the ratio
        for found in record["estimates"]:
            if found["method"] == OURS:
                exact = np.array(record["truth"][found["scale"]]["values"])
                found["values"] = (2 * np.array(found["values"]) - exact).tolist()
    worse = transformer_values.all_bars(
        {"tiny": records}, transformer_values.rows_of("tiny", records)
    )
    assert worse[0].measured == pytest.approx(2 * ratio)
    assert worse[-3].measured <= bars[-3].measured  # fewer words within two standard errors
    assert {row["method"] for row in rows} >= {SLALOM, OURS}
    assert len(transformer_values.truth_rows("tiny", records)) == 2
    graded = transformer_values.verdict_rows({"tiny": records})
    assert sum(row["fits"] for row in graded if row["model"] == "tiny") == 2 * 2
    table = transformer_values.page_table(rows).splitlines()
    assert table[0] == "| method | tiny, 10 d | tiny, 100 d |" and len(table) == 2 + 8


def test_the_page_has_the_measured_errors():
    record = json.loads((RESULTS / "transformer_values.json").read_text(encoding="utf-8"))
    page = (RESULTS.parents[1] / "docs" / "your-transformer.md").read_text(encoding="utf-8")
    assert transformer_values.page_table(record["rows"]) in page


@pytest.mark.parametrize("name", small_transformers.NAMES)
def test_small_transformers_are_trained_from_texts_alone(name, tmp_path):
    texts = ["the film was good .", "a wonderful story", "the film was bad .", "a dull story"] * 8
    reviews = SimpleNamespace(texts=texts, labels=np.array([1, 1, 0, 0] * 8))
    tokenizer = small_transformers.word_pieces(texts, tmp_path / "tokenizer", size=80)
    # read, not learned.
    assert len(small_transformers.word_pieces([], tmp_path / "tokenizer")) == len(tokenizer)
    model, row = small_transformers.trained(name, reviews, tmp_path / name, tokenizer, quick=32)
    assert row["steps"] == 1 and ("steps of pre-training" in row) == (name == "bert-pretrained")
    logits = TransformerClassifier(model, tokenizer, progress=False).predict_logits(
        ["a good story", "a good"]
    )
    assert logits.shape == (2, 2) and np.isfinite(logits).all()
