"""Explanations of many texts: arrays, frames, shap, effects of words and plots."""

import importlib

import numpy as np
import pytest

from attn_closed_form import ScoreTable, explain, load_demo_model
from attn_closed_form.app.explanations.many import ManyExplanations, explain_many
from attn_closed_form.app.explanations.word_effects import HALF_WIDTH
from tests.bags import bag_model, slide

TEXTS = ["A wonderful, wonderful film.", "Dull acting in a film.", "A fine film", "Wonderful!"]


@pytest.fixture(scope="module")
def many():
    return load_demo_model().explain_many(TEXTS, output="positive")


def test_many_are_the_explanations_of_each(many):
    assert len(many) == 4 and many.method == "shapley"
    for i, text in enumerate(TEXTS):
        e = explain(load_demo_model(), text, "shapley", output="positive")["shapley"]
        assert np.array_equal(many.values[i], e.scores) and many.labels[i] == e.labels
        assert many.baselines[i] == e.baseline and many.predictions[i] == e.prediction
        assert np.array_equal(np.asarray(many[i]), e.scores)
    assert isinstance(many[1:], ManyExplanations) and len(many[1:]) == 3
    assert [e.output for e in many] == ["positive"] * 4


def test_arrays_of_one_explanation(many):
    e = many[0]
    assert np.asarray(e).dtype == np.float64 and np.array(e, dtype=np.float32).dtype == np.float32
    assert np.sum(e) == e.scores.sum()
    changed = np.array(e)
    changed[0] = 7.0  # a copy
    assert e.scores[0] != 7.0


def test_the_predicted_class_is_explained_by_default():
    found = load_demo_model().explain_many(TEXTS)
    expected = tuple(explain(load_demo_model(), text, "shapley").output for text in TEXTS)
    assert found.outputs == expected and len(set(expected)) == 2
    assert len(found.of_output("negative")) == 1
    with pytest.raises(ValueError, match=r"^output: "):
        found.of_output("purple")


def test_effects_are_means_over_texts(many):
    scores = {i: dict(zip(many.labels[i], many.values[i], strict=True)) for i in range(4)}
    effects = {effect.word: effect for effect in many.effects("positive", n=100)}
    assert set(effects) == {word for each in scores.values() for word in each}
    for word, effect in effects.items():
        values = [each[word] for each in scores.values() if word in each]
        everywhere = [each.get(word, 0.0) for each in scores.values()]
        assert effect.documents == len(values)
        assert effect.mean == pytest.approx(np.mean(values))
        assert effect.overall == pytest.approx(np.mean(everywhere))
        half = HALF_WIDTH * np.std(everywhere, ddof=1) / 2
        assert effect.overall_half_width == pytest.approx(half, abs=1e-9)
        assert effect.example_score == max(values, key=abs)
        assert scores[effect.example][word] == effect.example_score
    by_mean = [abs(effect.mean) for effect in many.effects("positive", by="mean")]
    assert by_mean == sorted(by_mean, reverse=True)
    with pytest.raises(ValueError, match=r"^by: "):
        many.effects("positive", by="size")


def test_frames(many):
    pandas = pytest.importorskip("pandas")
    frame = many.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["score"].tolist() == np.concatenate(list(many.values)).tolist()
    assert frame["input"].tolist() == [i for i in range(4) for _ in many.labels[i]]
    assert {"player", "occurrences", "start", "end", "output", "prediction", "baseline"} <= set(
        frame.columns
    )
    one = many[0].to_frame()
    row = one[one["player"] == "wonderful"].iloc[0]
    assert (row["start"], row["end"], row["occurrences"]) == (2, 11, 2)
    several = load_demo_model().explain(TEXTS[0], ["shapley", "loo"]).to_frame()
    assert {"shapley", "leave-one-out"} <= set(several.columns) and len(several) == 3


def test_a_missing_pandas_is_a_clear_error(many, monkeypatch):
    real = importlib.import_module

    def missing(name, *rest):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    for frame in (many.to_frame, many[0].to_frame):
        with pytest.raises(ImportError, match="pip install pandas"):
            frame()


def test_shap_reads_many_texts(many):
    pytest.importorskip("shap")
    converted = many.to_shap()
    assert converted.shape[0] == 4
    for i in range(4):
        assert converted.values[i].sum() == pytest.approx(many.values[i].sum())
        assert "".join(converted.data[i]) == TEXTS[i]
    assert np.array_equal(converted.base_values, many.baselines)


def test_other_inputs_and_errors():
    tables = [{"s": [0.0, 1.0], "v": [1.0, -2.0]}, {"s": [0.0, 0.0], "v": [1.0, 3.0]}]
    found = explain_many(ScoreTable(), tables, "banzhaf")
    assert found.method == "banzhaf" and len(found) == 2
    assert len(bag_model().explain_many([slide(), slide()], output="tumor")) == 2
    model = load_demo_model()
    with pytest.raises(ValueError, match=r"^inputs\[1\]: "):
        model.explain_many(["fine", ""])
    with pytest.raises(ValueError, match=r"^inputs: "):
        model.explain_many([])
    with pytest.raises(TypeError, match=r"^inputs: "):
        model.explain_many("fine")
    with pytest.raises(ValueError, match=r"^method: "):
        model.explain_many(["fine"], ["shapley", "loo"])
    with pytest.raises(TypeError, match=r"^purple: "):
        model.explain_many(["fine"], purple=1)


def test_the_bar_and_the_beeswarm_draw_the_scores(tmp_path, many):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    (ax,) = many.plot_bar(tmp_path / "bar.svg", n=5).axes
    effects = many.effects("positive", n=5)
    names = [f"{effect.word}  (n = {effect.documents})" for effect in effects]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    (ax,) = many.plot_beeswarm(tmp_path / "bees.pdf", n=5).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    for effect, dots in zip(effects, ax.collections, strict=True):
        drawn = dots.get_offsets()[:, 0]
        assert len(drawn) == effect.documents
        assert drawn.mean() == pytest.approx(100 * effect.mean)
    assert "4 texts" in ax.get_title(loc="left") and ax.get_legend() is None
    both = load_demo_model().explain_many(TEXTS)
    assert len(both.plot_bar().axes) == len(both.plot_beeswarm().axes) == 2


def test_dots_of_a_beeswarm_do_not_cover_each_other():
    pytest.importorskip("matplotlib")
    from attn_closed_form.app.show.plots import swarm

    values = np.repeat([0.0, 3.0], [40, 3])
    offsets = swarm(values, 1.0, 0.4)
    assert np.abs(offsets).max() <= 0.4 + 1e-12
    assert len(set(offsets[:40])) == 40 and offsets[40] == 0.0
