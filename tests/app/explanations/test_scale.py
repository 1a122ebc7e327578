"""The explained scale: exact probabilities of models with one head, else the logit, and how both
read.
"""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import Bag, ScoreTable, Settings
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.explanations.explain import explain_logit
from attn_closed_form.app.models.mean_text import MeanPooledText, VocabularyReader
from attn_closed_form.app.models.scale import LOGIT, ExplainedScale
from attn_closed_form.app.show.figures import full_headline
from attn_closed_form.app.show.html import notebook, report
from attn_closed_form.app.show.live_figures import figures_of
from attn_closed_form.app.show.removals import removal
from attn_closed_form.app.show.terminal import answer, numbers, reasons_text, table
from attn_closed_form.app.show.waterfall import waterfall
from tests import enumeration
from tests.bags import bag_model, slide
from tests.texts import REVIEW, model_for, typed

TEXT = "A slow start, but a wonderful film. Not awful!"
# The exact methods at tol 1e-10, and a few roundings of numbers up to 1.
CLOSE = {"rtol": 0, "atol": 2e-10}


def calibrated(K=1, temperature=1.7, **sizes):
    return replace(model_for(REVIEW, K=K, **{"score_scale": 3.0, **sizes}), temperature=temperature)


def probabilities(game, temperature):
    """The probability of every coalition, in extended precision."""
    return 1 / (1 + np.exp(-enumeration.values(game) / temperature))


def linked(explanations):
    """The explained game, made from the raw arrays of the logits alone."""
    return explanations.evidence.pooled.through(
        "sigmoid", 1 / explanations.evidence.model.temperature
    )


@pytest.mark.parametrize("absent", ["unk", "deleted"])
@pytest.mark.parametrize("output", ["negative", "positive"])
def test_values_are_those_of_all_probabilities(absent, output):
    found = calibrated().explain(TEXT, ["shapley", "banzhaf", "loo"], absent=absent, output=output)
    game = linked(found)
    assert found.scale.name == "probability" and found.prediction == pytest.approx(
        found.probabilities[output]
    )
    for name, oracle in (
        ("shapley", enumeration.shapley),
        ("banzhaf", enumeration.banzhaf),
        ("leave-one-out", enumeration.leave_one_out),
    ):
        np.testing.assert_allclose(found[name].scores, oracle(game).astype(float), **CLOSE)
    every = probabilities(found.evidence.pooled, 1.7)
    assert found.evidence.baseline == pytest.approx(float(every[0]), abs=1e-12)
    assert found["shapley"].baseline + found["shapley"].scores.sum() == pytest.approx(
        found.prediction, abs=1e-9
    )
    assert found["shapley"].error <= 1e-10
    pairs = enumeration.interactions(game).astype(float)
    off = ~np.eye(len(pairs), dtype=bool)
    np.testing.assert_allclose(found["shapley"].interactions()[off], pairs[off], **CLOSE)
    masks = enumeration.coalitions(game.d)
    np.testing.assert_allclose(
        found.evidence.model_game.value(masks), every.astype(float), rtol=0, atol=1e-12
    )


def test_two_logits_are_the_logistic_function_of_their_difference():
    model = bag_model(scale=2.0)
    bag = Bag(np.random.default_rng(4).normal(size=(7, 5)))
    found = model.explain(bag, ["shapley"], output="tumor")
    assert found.evidence.target.coefficients == (-1.0, 1.0)
    np.testing.assert_allclose(
        found["shapley"].scores, enumeration.shapley(linked(found)).astype(float), **CLOSE
    )
    assert found.prediction == pytest.approx(model.predict_proba([bag])[0, 1])
    logit = model.explain(bag, ["shapley"], output="tumor", scale="logit")
    assert logit.evidence.target.coefficients == (0.0, 1.0), (
        "the logit of a class is explained as it stands"
    )
    assert (
        explain_logit(found, "shapley")["shapley"].scores.tolist()
        == logit["shapley"].scores.tolist()
    )
    assert explain_logit(logit, "shapley") is None


def test_an_explicit_margin_is_one_class_against_another():
    model = calibrated(C=3)
    found = model.explain(TEXT, "shapley", output="margin:class 0,class 2")
    assert found.output == "class 0 against class 2" and found.scale.name == "probability"
    chances = found.probabilities
    assert found.prediction == pytest.approx(
        chances["class 0"] / (chances["class 0"] + chances["class 2"])
    )
    assert "class 2 over class 0" in " ".join(found.reasons().sentences()) or found.prediction > 0.5
    logit = model.explain(TEXT, "shapley", output="margin:class 0,class 2", scale="logit")
    assert logit.output == "class 0 - class 2" and logit.prediction == pytest.approx(
        logit.evidence.logit
    )


def test_labels_with_probabilities_of_their_own():
    rng = np.random.default_rng(2)
    reader = VocabularyReader({"good": 0, "bad": 1, "film": 2})
    model = MeanPooledText(
        rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), np.zeros(3), reader, loss="sigmoid"
    )
    found = model.explain("good bad film", "shapley", output="1")
    assert found.scale.name == "probability" and found.prediction == pytest.approx(
        found.probabilities["1"]
    )
    np.testing.assert_allclose(
        found["shapley"].scores, enumeration.shapley(linked(found)).astype(float), **CLOSE
    )
    margin = model.explain("good bad film", "shapley", output="margin:0,1")
    assert (
        margin.scale.name == "logit"
        and "a margin of labels has no probability" in margin.target.note
    )


@pytest.mark.parametrize(
    ("model", "raw", "why"),
    [
        (calibrated(K=3), TEXT, "exact probabilities need one head, and this output has 3"),
        (calibrated(C=3), TEXT, "one among 3 classes has only sampled values"),
        (ScoreTable(), {"s": [0.0, 1.0], "v": [1.0, 2.0]}, "'score' has no probability"),
    ],
)
def test_without_exact_probabilities_the_logit_is_explained_and_says_so(model, raw, why):
    found = model.explain(raw, "shapley")
    assert found.scale.name == "logit" and why in found.explained
    assert found.prediction == found.evidence.logit
    views = [answer(found, 1000), report(found), found["shapley"]._repr_html_(), notebook(found)]
    for view in [
        *views,
        json.dumps(found.to_dict(), ensure_ascii=False),
        str(figures_of(found)["scale"]),
    ]:
        assert why in view.replace("&#x27;", "'")
    with pytest.raises(ValueError, match="scale: "):
        model.explain(raw, "shapley", scale="probability")


def test_several_heads_name_the_sampled_way_which_works():
    model = calibrated(K=3)
    with pytest.raises(ValueError, match=r"^scale: "):
        model.explain(TEXT, "shapley", scale="probability")
    found = model.explain(TEXT, ["shapley-sampled", "lime-sampled", "loo"], scale="probability")
    every = probabilities(found.evidence.pooled, 1.7).astype(float)
    assert found.prediction == pytest.approx(every[-1])
    np.testing.assert_allclose(
        found["loo"].scores, [every[-1] - every[-1 - 2**j] for j in range(found.evidence.d)]
    )
    sampled = found["shapley-sampled"]
    masks = enumeration.coalitions(found.evidence.d)
    exact = shapley_of(every, masks)
    assert (np.abs(sampled.scores - exact) <= 6 * sampled.standard_error + 1e-9).all()
    assert "the probability of" in report(found)


@pytest.mark.slow
@pytest.mark.parametrize("K", [1, 3])
def test_the_softmax_of_three_classes_is_sampled(K):
    """Against enumeration of the calibrated softmax; the exact methods refuse, and the default set
    leaves them out.
    """
    model = calibrated(C=3, K=K)
    with pytest.raises(ValueError, match=r"^scale: "):
        model.explain(TEXT, "shapley", scale="probability")
    object.__setattr__(model, "samples", 300)  # fewer than there are coalitions
    found = model.explain(TEXT, output="class 1", scale="probability")
    masks = enumeration.coalitions(found.evidence.d)
    of_class = [
        model.explain(TEXT, "loo", output=name, scale="logit").evidence.pooled
        for name in model.outputs
    ]
    logits = np.stack([game.value(masks) for game in of_class]) / model.temperature
    every = (np.exp(logits) / np.exp(logits).sum(axis=0))[1]
    assert found.prediction == pytest.approx(every[-1]) == found.probabilities["class 1"]
    assert next(iter(found)) == "shapley-sampled" and {"shapley", "lime", "banzhaf"}.isdisjoint(
        found
    )
    sampled = found["shapley-sampled"]
    assert (
        np.abs(sampled.scores - shapley_of(every, masks)) <= 6 * sampled.standard_error + 1e-9
    ).all()
    assert sampled.baseline == pytest.approx(every[0])
    # All coalitions of a few words are evaluated, and nothing is sampled.
    assert not sampled.standard_error.any()
    assert found["slalom-value"].prediction == pytest.approx(of_class[1].value(masks[-1]))
    long = model.explain(
        " ".join([TEXT] * 3), output="class 1", scale="probability", players="positions"
    )
    assert 0 < long["shapley-sampled"].standard_error.max() <= 5e-4
    assert "sampled, ± standard error" in report(long)
    assert "sampled, ± standard error" in answer(long)
    logit = model.explain(TEXT, output="class 1")
    assert found.reasons().sentences() == logit.reasons().sentences()


def shapley_of(values, masks):
    """Shapley values of a table of values, by the definition."""
    d = masks.shape[1]
    size = masks.sum(axis=1)
    weight = np.array([1 / (d * math.comb(d - 1, k)) for k in range(d)])
    scores = []
    for j in range(d):
        without = np.flatnonzero(~masks[:, j])
        scores.append(
            (weight[size[without]] * (values[without | (1 << j)] - values[without])).sum()
        )
    return np.array(scores)


def test_log_odds_stay_log_odds():
    model = calibrated()
    assert model.explain(TEXT, "loo", output="odds:positive").scale.name == "logit"
    assert (
        model.explain(TEXT, "loo", output="odds:positive", scale="probability").scale.name
        == "probability"
    )


def test_predictions_that_are_too_large_for_exact_probabilities_are_explained_as_logits():
    scores = {"s": [0.0, 1.0], "v": [[0.0, 0.0], [500.0, -500.0]]}
    model = ScoreTable(outputs=("no", "yes"))
    found = model.explain(scores, "shapley")
    assert found.scale.name == "logit" and "up to a modulus of" in found.target.note
    assert model.explain(scores, "shapley", output="yes").evidence.target.coefficients == (
        0.0,
        1.0,
    )


def test_methods_that_live_on_logits_stay_there_and_say_so():
    model = calibrated()
    found = model.explain(TEXT)
    logit = model.explain(TEXT, scale="logit")
    for name, e in found.items():
        explain_logit = e.info.family != "attributions"
        assert (
            e.scale.name == ("logit" if explain_logit else "probability") == e.own_dict()["scale"]
        )
        assert np.array_equal(e.scores, logit[name].scores) == explain_logit
    ig = found["ig"]
    assert (
        ig.baseline + ig.scores.sum()
        == pytest.approx(ig.prediction)
        == pytest.approx(found.evidence.logit)
    )
    said = "computed from the logit, not from the probability"
    assert (
        table(found, 1000).count(said) == 3
        and said in report(found)
        and said not in table(logit, 1000)
    )
    without = {forecast["method"]: forecast for forecast in removal(found, [1])["forecasts"]}
    present = np.ones(found.evidence.d, dtype=bool)
    present[1] = False
    after = float(found.evidence.pooled.value(present))
    assert without["slalom-linear"]["did"] == pytest.approx(after - found.evidence.logit)
    assert without["shapley"]["did"] == pytest.approx(
        float(found.scale.of(after)) - found.prediction
    )
    assert without["shapley"]["error"] == pytest.approx(
        without["shapley"]["change"] - without["shapley"]["did"]
    )


def test_reasons_and_bounds_pass_through_the_link():
    model = calibrated()
    found = model.explain(TEXT, "shapley")
    logit = model.explain(TEXT, "shapley", scale="logit")
    ours = found.reasons()
    theirs = logit.reasons()
    every = probabilities(found.evidence.pooled, 1.7).astype(float)
    bounds = ours.to_dict()["bounds"]
    assert bounds["attained_min"] == pytest.approx(every.min()) and bounds[
        "attained_max"
    ] == pytest.approx(every.max())
    assert (
        ours.sufficient.players == theirs.sufficient.players and ours.to_dict()["threshold"] == 0.5
    )
    assert ours.to_dict()["sufficient"]["worst"] == pytest.approx(
        float(found.scale.of(theirs.sufficient.worst))
    )
    assert (
        "%" in ours.sentences()[0]
        and "+" not in ours.sentences()[0]
        and "%" in ours.range_sentence()
    )
    low, high = (float(text) / 100 for text in re.findall(r"([\d.]+)%", ours.range_sentence()))
    assert low <= every.min() <= every.max() <= high, "what is written is certified as well"
    threshold = float((every.min() + every[-1]) / 2)
    asked = found.reasons(threshold)
    chosen = np.zeros(found.evidence.d, dtype=bool)
    chosen[list(asked.sufficient.players)] = True
    masks = enumeration.coalitions(found.evidence.d)
    assert (every[(masks | ~chosen).all(axis=1)] > threshold).all()
    assert f"stays above {100 * threshold:.1f}%" in asked.sentences()[0]
    with pytest.raises(ValueError, match=r"^threshold: "):
        found.reasons(1.5)


def test_a_prediction_on_the_threshold_says_so():
    found = ScoreTable(outputs=("no", "yes")).explain({"s": [0.0], "v": [[1.0], [1.0]]}, "shapley")
    assert (
        found.reasons()
        .sentences()[0]
        .startswith("The prediction is 50.0%, which is on neither side")
    )


def test_every_view_says_which_scale_it_shows():
    model = calibrated()
    for scale, name in (("probability", "probability"), ("logit", "logit")):
        found = model.explain(TEXT, scale=scale)
        said = f"Explained: the {name} of {found.output}"
        views = {
            "terminal": answer(found, 1000),
            "report": report(found),
            "notebook": notebook(found),
            "fragment": found["shapley"]._repr_html_(),
            "page": figures_of(found)["scale"],
            "JSON": json.dumps(found.to_dict()),
        }
        for view, text in views.items():
            assert said in text, view
        assert found.to_dict()["scale"] == name
        titles = numbers(found, 3, 1000).splitlines()[0]
        assert ("shapley (points)" in titles) == (
            name == "probability"
        ) and "slalom-value (" not in titles
        assert (" points" in reasons_text(found)) == (name == "probability")


def test_the_waterfall_is_in_per_cent_and_points():
    found = calibrated().explain(TEXT, "shapley")
    first, *words, last = waterfall(found["shapley"]).bars
    assert first.text == f"{100 * first.end:.1f}%" and last.text == f"{100 * found.prediction:.1f}%"
    assert all(step.text.endswith(" points") for step in words)
    assert words[0].text in answer(found, 100)
    # A report writes the unit once, below the numbers.
    page = typed(report(found))
    assert f">{words[0].text.removesuffix(' points')}<" in page and "class=unit>points<" in page
    top = f"This text is rated {found.output}: {100 * found.prediction:.0f}%"
    assert full_headline(found) == top
    other = min(found.probabilities, key=found.probabilities.get)
    explained = calibrated().explain(TEXT, "shapley", output=other)
    assert full_headline(explained) == f"{top} ({other} {100 * explained.prediction:.1f}%)"


def test_the_report_has_the_logit_behind_a_switch():
    model = calibrated()
    page = report(model.explain(TEXT))
    before, logits = page.split('<div class="logit">')
    assert "Show logits" in before and "Explained: the logit of" not in before
    step = waterfall(model.explain(TEXT, "shapley", scale="logit")["shapley"]).bars[1]
    assert f">{step.text}<" in logits and f">{step.text}<" not in before
    assert "Show logits" not in report(model.explain(TEXT, scale="logit"))
    assert "Show logits" not in report(model.explain(TEXT, "alpha-mean"))
    assert "Show logits" in report(bag_model().explain(slide(), "shapley"))


def test_the_command_line_switches(tmp_path, capsys):
    path = tmp_path / "model.npz"
    calibrated().save(path)
    command = ["explain", TEXT, "--model", str(path), "--method", "shapley"]
    assert main(command) == 0
    assert "Explained: the probability of" in capsys.readouterr().out
    assert main([*command, "--scale", "logit"]) == 0
    shown = capsys.readouterr().out
    assert "Explained: the logit of" in shown and " points" not in shown
    assert main([*command, "--scale", "probability", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scale"] == found["methods"]["shapley"]["scale"] == "probability"
    assert found["prediction"] == pytest.approx(found["probabilities"][found["output"]])


def test_numbers_read_well():
    scale = ExplainedScale("probability", 2.0)
    assert (scale.level(0.999996), scale.level(1e-5), scale.level(1.0)) == (
        "99.9996%",
        "0.001%",
        "100.0%",
    )
    assert (scale.change(-0.0001), scale.change(0.0123)) == ("0.0 points", "+1.2 points")
    assert (scale.bound(0.7149, upper=False), scale.bound(0.7141, upper=True)) == (
        "71.4%",
        "71.5%",
    )
    for p in (1e-9, 0.3, 0.5, 0.999):
        assert float(scale.of(scale.logit_of(p))) == pytest.approx(p)
    assert LOGIT.of([1.5]).tolist() == [1.5] and LOGIT.logit_of(-2.0) == -2.0
    with pytest.raises(ValueError, match=r"^scale: "):
        Settings(scale="odds")
