"""Two explanations side by side: differences of words add up to that of the predictions."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.app.explanations.comparison import compare
from attn_closed_form.app.show.comparison_report import (
    changes_figure,
    comparison_headline,
    players_only_in,
)
from tests.texts import HOSTILE, REVIEW, long_text, model_for, typed

OTHER = "A slow start, and a dull film. Perfect: the music is awful! 8/10"


@pytest.fixture(scope="module")
def model():
    return load_demo_model()


def test_differences_add_up_to_the_difference_of_the_predictions(model):
    comparison = model.explain(REVIEW).compare(model.explain(OTHER))
    total = comparison.baseline_change + comparison.values.sum()
    assert total == pytest.approx(comparison.change, abs=1e-9)
    assert comparison.change == pytest.approx(
        model.explain(OTHER, output=comparison.first.output).prediction
        - model.explain(REVIEW).prediction
    )
    sizes = np.abs(comparison.values)
    assert (sizes[:-1] >= sizes[1:]).all()


def test_the_second_is_explained_for_the_output_of_the_first(model):
    wonderful = model.explain("wonderful acting")
    awful = model.explain("awful acting")
    assert wonderful.output != awful.output
    assert compare(wonderful, awful).second.output == "positive"
    assert compare(awful, wonderful).second.output == "negative"
    assert compare(wonderful, awful).change == pytest.approx(compare(awful, wonderful).change)


def test_words_of_one_text_alone_have_no_score_in_the_other(model):
    comparison = model.explain("a fine film").compare(model.explain("a dull film"))
    scores = {change.word: (change.first, change.second) for change in comparison.changes}
    assert scores["fine"][1] is None and scores["dull"][0] is None
    assert None not in scores["film"]
    assert players_only_in(comparison.first, comparison.second) == {1}


def test_two_models_are_compared_on_one_text(model):
    warmer = replace(model, temperature=2 * model.temperature)
    comparison = model.explain(REVIEW).compare(warmer.explain(REVIEW))
    assert comparison.names == ("first model", "second model")
    assert all(None not in (change.first, change.second) for change in comparison.changes)
    assert comparison.baseline_change == pytest.approx(
        comparison.second.baseline - comparison.first.baseline
    )


def test_several_classes_are_compared_in_percent():
    model = model_for(REVIEW, OTHER, C=4, K=1)
    first = model.explain(REVIEW)
    comparison = first.compare(model.explain(OTHER))
    best, second = sorted(first.probabilities, key=lambda name: -first.probabilities[name])[:2]
    assert comparison.first.output == comparison.second.output == f"{best} against {second}"
    assert comparison.scale.in_percent


def test_explanations_on_different_scales_cannot_be_compared(model):
    with pytest.raises(ValueError, match=r"second: expected .* scale 'probability'"):
        model.explain(REVIEW).compare(model.explain(OTHER, scale="logit"))


def test_the_waterfall_leads_from_one_prediction_to_the_other(model):
    comparison = model.explain(long_text(80)).compare(model.explain(long_text(80, seed=1)))
    bars = changes_figure(comparison).bars
    assert bars[0].end == comparison.first.prediction
    assert bars[-1].end == comparison.second.prediction
    assert bars[-2].end == pytest.approx(comparison.second.prediction, abs=1e-9)
    assert all(-1e-9 <= bar.end <= 1 + 1e-9 for bar in bars)


def test_the_report_shows_both_texts_on_one_scale(model, tmp_path):
    comparison = model.explain("a fine film").compare(model.explain("a dull film"))
    html = typed(comparison.report(tmp_path / "comparison.html"))
    assert f"<h1>{comparison_headline(comparison)}" in html
    words = re.findall('<i class="([^"]*)" title="[^"]*">([^<]*)</i>', html)
    # "dull" is stronger than "fine", which therefore does not have the strongest color.
    assert words == [("p1 only", "fine"), ("n4 only", "dull")]
    assert (tmp_path / "comparison.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "fine" in comparison._repr_html_()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_compared_literally(name, model):
    text = HOSTILE[name]
    comparison = (
        model_for("fine film", text)
        .explain(text)
        .compare(model_for("fine film", text).explain("fine film"), names=(text, "<b>other</b>"))
    )
    html = comparison.report()
    html.encode("utf-8")
    assert "<b>other" not in html and "<script>alert" not in html
    str(comparison).encode("utf-8")
    json.dumps(comparison.to_dict(), allow_nan=False)


def test_the_table_has_one_row_per_word(model):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = model.explain("a fine film").compare(model.explain("a dull film")).to_frame()
    assert list(frame.columns) == ["word", "first", "second", "change"]
    assert len(frame) == 4 and frame["second"].isna().sum() == 1


def test_differences_of_sampled_scores_have_standard_errors():
    texts = (long_text(20, 0), long_text(20, 1))
    model = model_for(*texts, C=3, K=2)
    first, second = (model.explain(text, output=model.outputs[0], max_error=0.01) for text in texts)
    comparison = compare(first, second)
    errors = comparison.standard_errors
    pair = (comparison.first, comparison.second)
    assert pair[0].standard_error.any()
    both = [dict(zip(e.evidence.names, e.standard_error, strict=True)) for e in pair]
    for change, error in zip(comparison.changes, errors, strict=True):
        parts = [each.get(change.word, 0.0) for each in both]
        assert error == pytest.approx(np.hypot(*parts))
    assert "± is the standard error of the difference" in comparison.report()
    assert "±" in str(comparison)
    exact = load_demo_model()
    assert not exact.explain("A fine film").compare(exact.explain("A film")).standard_errors.any()
