"""The data of the figures: places, signs, orders and sums, before any view draws them."""

import dataclasses
import json
from itertools import pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attn_closed_form import METHODS, explain, load_demo_model
from attn_closed_form._arrays import plain
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.show.bars import AxisRange
from attn_closed_form.app.show.figures import (
    class_bars,
    colored_text,
    full_headline,
    levels,
    method_rows,
    names,
    notice,
    saturation,
    strongest_players,
)
from attn_closed_form.app.show.html import report
from attn_closed_form.app.show.live_figures import figures_of, partners
from attn_closed_form.app.show.removals import removal
from attn_closed_form.app.show.slalom_plane import LETTER, LINE, MOST_LABELS, PLANE, slalom_plane
from attn_closed_form.app.show.terminal import answer
from attn_closed_form.app.show.waterfall import WaterfallStep, ordered_within, waterfall
from tests.texts import HOSTILE, REVIEW, long_text, model_for


@pytest.fixture(scope="module")
def found():
    return explain(model_for(REVIEW, K=3), REVIEW, [*METHODS])


def test_scales_hold_their_values_and_their_ticks_are_round_and_inside():
    for low, high in [(-1e-9, 3e-9), (0.0, 1.0), (-123.0, 4567.0), (1.0, 1.0), (0.0, 0.0)]:
        scale = AxisRange.around([low, high], 0.07)
        assert scale.low < low and scale.high > high and 0 < scale.unit(low) <= scale.unit(high) < 1
        assert 1 <= len(scale.ticks) <= 9
        assert all(scale.low - 1e-12 <= number <= scale.high for _, number in scale.ticks)
    assert [number for _, number in AxisRange.around([-0.7, 2.2]).ticks] == [
        -0.5,
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
    ]


@pytest.mark.parametrize("top", [1, 3, 10, 100])
def test_a_waterfall_goes_from_nobody_to_the_prediction_without_a_gap(found, top):
    e = found["shapley"]
    steps = waterfall(e, top).bars
    assert (
        steps[0].end == e.baseline
        and steps[-1].end == e.prediction
        and steps[0].label == "baseline"
    )
    assert steps[-1].label == e.output and sum(step.members for step in steps) == len(e.scores)
    assert [step.kind for step in (steps[0], steps[-1])] == ["end", "end"]
    for before, after in pairwise(steps[:-1]):
        assert after.start == before.end
    assert steps[-2].end == pytest.approx(e.prediction, abs=1e-9)
    order = np.argsort(-np.abs(e.scores), kind="stable")
    named = len(order) if top >= len(order) - 1 else top
    for step, j in zip(steps[1:], order[:named], strict=False):
        assert step.label == e.labels[j]
        assert step.end - step.start == pytest.approx(e.scores[j], abs=1e-12)
        assert step.kind == ("for" if e.scores[j] >= 0 else "against")
    others = e.scores[order[named:]]
    for step, total in zip(
        steps[1 + named : -1],
        [others[others >= 0].sum(), others[others < 0].sum()],
        strict=False,
    ):
        assert step.end - step.start == pytest.approx(total, abs=1e-12)
    for step in steps:
        assert 0 <= step.left <= step.right <= 1
    lengths = [step.right - step.left for step in steps[1:-1]]
    assert np.allclose(np.array(lengths) * (max(s.end for s in steps) - min(s.end for s in steps)),
                       [abs(step.end - step.start) for step in steps[1:-1]])  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_a_waterfall_of_a_probability_passes_an_end_only_if_every_order_does(data):
    """Of random changes between two probabilities; every order is tried."""
    changes = data.draw(st.lists(st.floats(-0.6, 0.6), min_size=1, max_size=5))
    base = data.draw(st.floats(0, 1))
    end = base + sum(changes)
    assume(0 <= end <= 1)
    steps = ordered_within(
        base, [WaterfallStep(str(i), c, 1) for i, c in enumerate(changes)], 0.0, 1.0
    )
    assert sorted(step.label for step in steps) == sorted(map(str, range(len(changes))))

    def excess(order):
        path = base + np.cumsum(order)
        return max(float(np.max(path)) - 1, float(-np.min(path)), 0.0)

    ours = excess([step.change for step in steps])
    best = min(excess(order) for order in permutations(changes))
    assert ours <= 1e-9 or best > 1e-9


def test_the_axis_of_a_probability_goes_from_0_to_100(found):
    model = load_demo_model()
    e = model.explain("A dull film with a wonderful, wonderful end. Awful!", "shapley")["shapley"]
    steps = waterfall(e, 4)
    assert steps.ticks[0] == (0.0, "0%") and steps.ticks[-1] == (1.0, "100%")
    for bar in steps.bars:
        assert (bar.left, bar.right) == pytest.approx(sorted((bar.start, bar.end)))
    on_logits = waterfall(found["shapley"], 4)
    assert len(on_logits.ticks) > 2 and all("%" not in text for _, text in on_logits.ticks)


def test_others_are_counted_by_sign():
    e = load_demo_model().explain("wonderful dull film", "shapley")["shapley"]
    of_signs = {
        (0.3, 0.01, -0.02): ["1 other raises it", "1 other lowers it"],
        (0.3, 0.01, 0.02): ["2 others raise it"],
        (0.3, -0.01, -0.02): ["2 others lower it"],
        (0.3, 0.01, 0.0): ["1 other raises it", "1 without effect"],
        (0.3, 0.0, 0.0): ["2 without effect"],
    }
    for scores, labels in of_signs.items():
        changed = dataclasses.replace(e, scores=np.array(scores))
        bars = waterfall(changed, 1).bars
        assert [bar.label for bar in bars[2:-1]] == labels


def test_the_waterfall_of_a_fit_ends_before_what_the_fit_misses(found, monkeypatch):
    fit = SimpleNamespace(at_text=0.25, name="fit")
    monkeypatch.setitem(found.evidence.__dict__, "fit", fit)
    monkeypatch.setattr(type(found.evidence.model), "surrogate", "fit")
    e = found["shapley"]
    *_, raising, lowering, missed, last = waterfall(e, 2).bars
    assert raising.members + lowering.members == len(e.scores) - 2
    assert lowering.end == missed.start
    assert missed.label == "what the fit misses" and missed.end == last.end == e.prediction


@pytest.mark.parametrize("name", HOSTILE)
def test_pieces_and_tail_are_the_text(name):
    e = explain(model_for("fine film bad"), HOSTILE[name], "shapley")["shapley"]
    text = colored_text(e)
    assert "".join(piece.text for piece in text.pieces) + text.tail == e.text
    assert [piece.player for piece in text.pieces if piece.player is not None] == [
        p.player for p in e.occurrences
    ]


def test_levels_have_the_sign_of_the_scores(found):
    for e in found.values():
        text = colored_text(e)
        assert text.signed == (e.info.kind == "signed")
        for level, score in zip(text.levels, e.scores, strict=True):
            assert level == 0 or e.info.kind == "log" or np.sign(level) == np.sign(score)


def test_the_slalom_plane_has_importance_to_the_right_and_value_upwards(found):
    plane = slalom_plane(found)
    value = found["slalom-value"].scores
    importance = found["slalom-importance"].scores
    x = np.array(plane.x)
    y = np.array(plane.y)
    assert np.corrcoef(x, importance)[0, 1] > 1 - 1e-12 and np.corrcoef(y, value)[0, 1] > 1 - 1e-12
    assert 0 < x.min() < x.max() < 1 and 0 < y.min() < y.max() < 1
    assert ((y > plane.zero) == (value > 0)).all()
    for scale in (plane.across, plane.up):
        assert [at for at, _ in scale.ticks] == pytest.approx(
            [scale.unit(number) for _, number in scale.ticks]
        )
    assert slalom_plane(explain(model_for(REVIEW), REVIEW, "shapley")) is None


def test_labels_of_the_plane_cover_no_label_and_no_point():
    text = long_text(60)
    plane = slalom_plane(explain(model_for(text, T_max=64), text))
    assert 5 < len(plane.labels) <= MOST_LABELS
    boxes = []
    for label in plane.labels:
        width = LETTER * len(label.text) / PLANE[0]
        if label.anchor == "start":
            left = label.x
        else:
            left = label.x - width
        boxes.append((left, label.y, left + width, label.y + 0.7 * LINE / PLANE[1]))
        assert left >= 0 and left + width <= 1 and 0 <= label.y <= 1
        x = plane.x[label.player]
        y = plane.y[label.player]
        assert (
            abs(x - (left if label.anchor == "start" else left + width)) < 0.03
            and abs(y - label.y) < 0.06
        )
    for i, a in enumerate(boxes):
        for b in [*boxes[i + 1 :], *zip(plane.x, plane.y, plane.x, plane.y, strict=True)]:
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    linear = explain(model_for(text, T_max=64), text)["slalom-linear"]
    assert plane.labels[0].player == int(np.argmax(np.abs(linear.scores)))


def test_classes_are_ranked_and_the_others_are_summed():
    found = explain(model_for(REVIEW, C=9), REVIEW, "loo")
    bars = class_bars(found)
    chances = sorted(found.probabilities.values(), reverse=True)
    assert [bar.end for bar in bars[:6]] == chances[:6]
    assert (
        bars[6].label == "3 others"
        and bars[6].end == pytest.approx(sum(chances[6:]))
        and bars[6].members == 3
    )
    assert sum(bar.end for bar in bars) == pytest.approx(1)
    assert all((bar.left, bar.right, bar.text) == (0, bar.end, percent(bar.end)) for bar in bars)


def test_rows_hold_every_method_once_and_share_only_equal_levels(found):
    rows = [row for family in method_rows(found) for row in family.rows]
    assert sorted(name for row in rows for name in row.methods) == sorted(found)
    for row in rows:
        for name in row.methods:
            e = found[name]
            assert (
                tuple(levels(e.strength)) == row.levels and (e.info.kind == "signed") == row.signed
            )
    keys = [
        (METHODS[row.methods[0]].family, METHODS[row.methods[0]].kind, row.levels) for row in rows
    ]
    assert len(set(keys)) == len(keys)


def test_a_removal_is_what_the_game_does_beside_what_was_forecast(found):
    without = removal(found, [2, 0, 2])
    e = found["shapley"]
    present = np.ones(found.evidence.game.d, dtype=bool)
    present[[0, 2]] = False
    assert without["players"] == [0, 2] and without["prediction"] == found.evidence.game.value(
        present
    )
    assert without["change"] == without["prediction"] - found.prediction
    by_name = {forecast["method"]: forecast for forecast in without["forecasts"]}
    assert set(by_name) == {name for name in found if METHODS[name].forecasts}
    assert list(by_name)[:3] == ["shapley", "lime", "slalom-linear"]
    assert by_name["shapley"]["change"] == pytest.approx(-(e.scores[0] + e.scores[2]))
    assert by_name["shapley"]["error"] == pytest.approx(
        by_name["shapley"]["change"] - without["change"]
    )
    largest = max(abs(without["change"]), *(abs(f["change"]) for f in without["forecasts"]))
    # Bars start in the middle and end where the largest change has 0 or 1.
    for forecast in without["forecasts"]:
        assert forecast["bar"]["kind"] == ("for" if forecast["change"] >= 0 else "against")
        length = (forecast["bar"]["right"] - forecast["bar"]["left"]) * (
            1 if forecast["change"] >= 0 else -1
        )
        assert length == pytest.approx(forecast["change"] / largest / 2)
        assert forecast["mark"] - 0.5 == pytest.approx(forecast["did"] / largest / 2)


def test_partners_are_ranked_without_the_player_itself(found):
    row = np.arange(found.evidence.game.d) - 2.5
    strongest = partners(found.evidence, 0, row, top=3)
    order = [j for j in np.argsort(-np.abs(row), kind="stable") if j != 0][:3]
    assert [(p["player"], p["value"]) for p in strongest] == [(j, row[j]) for j in order]
    assert max(p["bar"]["right"] - p["bar"]["left"] for p in strongest) == 0.5


def test_names_are_the_words_as_typed_where_the_model_does_not_know_them():
    found = explain(model_for("fine film"), "Zyx fine WVU film", "loo")
    assert names(found.evidence) == ("Zyx and other unknown words", "fine", "film")
    found = explain(model_for("fine film"), "film fine film", "loo", players="positions")
    assert names(found.evidence) == ("film (1)", "fine", "film (3)")


@pytest.mark.parametrize(
    ("text", "count"),
    [("Zyx wvu tsr!", 3), ("zyx", 1), ("zyx film", None), ("!", None), ("film!", None)],
)
def test_a_text_without_a_known_word_gets_a_notice_instead_of_an_explanation(text, count):
    found = explain(model_for("fine film!"), text, "shapley")
    told = notice(found)
    assert figures_of(found)["notice"] == told
    if count is None:
        assert told == ""
    else:
        assert told.startswith(
            f"None of the {count} words" if count > 1 else "The only word of this text is not"
        )
        assert told in answer(found, 1000) and "baseline" not in answer(found, 1000)
        assert "How it adds up" not in report(found) and told in report(found)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_data_is_json_and_names_are_safe_on_one_line(name):
    found = explain(model_for("fine film bad"), HOSTILE[name], scale="logit")
    data, plane = json.loads(
        json.dumps([figures_of(found), plain(slalom_plane(found))], allow_nan=False)
    )
    assert not any("\x1b" in label or "\n" in label or "\u202e" in label for label in data["names"])
    assert data["strongest"] == list(strongest_players(found)) and data["leader"] == "shapley"
    assert len(plane["x"]) == len(data["names"])


def test_the_headline_is_the_most_probable_class():
    found = load_demo_model().explain("A dull and terrible film", "shapley", output="positive")
    assert figures_of(found)["waterfall"] is not None  # of the headline, which leads here
    data = figures_of(found)
    chance = found.probabilities["negative"]
    assert data["headline"] == f"This text is rated negative: {percent(chance, 0)}"
    assert data["explained"] == f"positive {percent(found.prediction)}"
    assert full_headline(found) == f"{data['headline']} ({data['explained']})"
    logit = load_demo_model().explain(
        "A dull and terrible film", "shapley", output="positive", scale="logit"
    )
    explained = f"logit of positive {logit.prediction:+.4f}"
    assert full_headline(logit) == f"{data['headline']} ({explained})"


def test_an_axis_whose_length_leaves_float64_has_no_ticks():
    assert AxisRange.around([-1.5e308, 1.5e308]).ticks == ()
    assert len(AxisRange.around([2.0, 2.0]).ticks) > 2


@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.02, 0.1, 0.4]))
@settings(deadline=None)
def test_no_bar_of_many_words_leaves_the_track(seed, size):
    """Also where the sums of both signs exceed 100 points; the remark of a net bar states them."""
    text = long_text(60)
    e = load_demo_model().explain(text, "shapley")["shapley"]
    scores = np.random.default_rng(seed).normal(size=len(e.scores))
    scores *= size / np.abs(scores).max()
    scores += (e.prediction - e.baseline - scores.sum()) / len(scores)
    changed = dataclasses.replace(e, scores=scores)
    figure = waterfall(changed)
    assert figure.ticks[0][1] == "0%" and figure.ticks[-1][1] == "100%"
    assert sum(bar.members for bar in figure.bars) == len(scores)
    for bar in figure.bars:
        assert -1e-9 <= bar.start <= 1 + 1e-9 and -1e-9 <= bar.end <= 1 + 1e-9
    for bar in figure.bars:
        if bar.note:
            named = [other.label for other in figure.bars]
            others = [s for s, label in zip(scores, e.labels, strict=True) if label not in named]
            for sign, verb in ((1, "raise"), (-1, "lower")):
                of_sign = [sign * s for s in others if sign * s >= (0 if sign == 1 else 1e-300)]
                assert f"{len(of_sign):,} {verb}" in bar.note
                assert f"by {100 * sum(of_sign):.1f} points" in bar.note


@pytest.mark.parametrize("loud", [False, True])
def test_a_saturated_probability_is_named_and_the_logit_offered(loud):
    """At 99.99% each of three words may be removed without much of a change, and views say so."""
    model = load_demo_model()
    sharpness = 8 if loud else 1
    model = dataclasses.replace(model, temperature=model.temperature / sharpness)
    explanations = model.explain("a wonderful and moving film", ["shapley"])
    assert (explanations.prediction > 0.999) == loud
    sentence = saturation(explanations)
    if loud:
        assert sentence.startswith("The probability is saturated (")
        assert sentence.endswith("The logit (scale='logit') tells the words apart.")
        assert sentence in answer(explanations, 10_000)
        assert "tells the words apart" in report(explanations)
    else:
        assert sentence == ""
        assert "saturated" not in answer(explanations, 10_000)
