"""The surrogate of a transformer: its game, its error, whose scores are whose, and what every view
says of it.
"""

import csv
import itertools
import json
import re
import warnings
from functools import partial

import numpy as np
import pytest

from attn_closed_form import PooledGame, Settings, TransformerClassifier, shapley
from attn_closed_form.app.explanations.explain import explain_units
from attn_closed_form.app.explanations.methods import as_methods
from attn_closed_form.app.models.fit_report import FitReport
from attn_closed_form.app.show.exports import write_csv
from attn_closed_form.app.show.figures import colored_text
from attn_closed_form.app.show.terminal import answer, table
from attn_closed_form.app.show.waterfall import waterfall
from tests import enumeration
from tests.texts import typed
from tests.tiny_transformers import CLASSES, FAMILIES, REVIEW, bert, explained, gpt2, need_torch

need_torch()
pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")


def black_box(model, settings, players, kept, scale="logit"):
    """The output of the model for one coalition of players, from the definition."""
    units = model.read(REVIEW)
    there = np.asarray(kept)[units.groups[players]]
    stand_in = {"mask": model.tokenizer.mask_token_id, "pad": -1}.get(settings.absent)
    ids = [i if keep else stand_in for i, keep in zip(units.data.tolist(), there, strict=True)]
    logits = model([np.array([i for i in ids if i is not None], dtype=int)])[0]
    if scale == "probability":
        return float(np.exp(logits)[CLASSES.index(settings.output)] / np.exp(logits).sum())
    return float(np.dot(settings.coefficients, logits))


@pytest.mark.parametrize("players", ["words", "tokens"])
@pytest.mark.parametrize(
    ("absent", "scale"),
    [("deleted", None), ("mask", None), ("pad", None), ("deleted", "logit"), ("mask", "logit")],
)
def test_methods_of_the_model_evaluate_the_model(players, absent, scale):
    model = TransformerClassifier(*bert(), samples=120)
    methods = ["leave-one-out", "shapley-sampled", "lime-sampled"]
    found = model.explain(REVIEW, methods, players=players, absent=absent, scale=scale)
    settings = found.evidence.target
    d = found.evidence.d
    output = partial(black_box, model, settings, players, scale=scale or "probability")
    everyone = output(np.ones(d, dtype=bool))
    assert found.prediction == pytest.approx(everyone, abs=1e-5)
    without = [output(row) for row in ~np.eye(d, dtype=bool)]
    assert np.allclose(found["leave-one-out"].scores, everyone - np.array(without), atol=1e-5)
    nobody = output(np.zeros(d, dtype=bool))
    assert found.to_dict()["baseline"] == pytest.approx(nobody, abs=1e-5)
    assert found["shapley-sampled"].scores.sum() == pytest.approx(everyone - nobody, abs=1e-5)
    assert found["shapley-sampled"].baseline == pytest.approx(nobody, abs=1e-5)
    assert (
        found["leave-one-out"].model_calls == d + 1
        and not found["leave-one-out"].standard_error.any()
    )
    assert (
        found["lime-sampled"].model_calls == 120
        and (found["lime-sampled"].standard_error > 0).all()
    )


@pytest.mark.parametrize("absent", ["deleted", "mask", "pad"])
def test_methods_of_the_game_are_exact_of_the_fit_and_the_error_is_what_it_says(absent):
    model = TransformerClassifier(*bert(), samples=400)
    found = model.explain(REVIEW, ["shapley", "slalom-value"], players="tokens", absent=absent)
    game = found.evidence.game
    fit = found.evidence.fit
    assert isinstance(game, PooledGame) and np.array_equal(found["shapley"].scores, shapley(game))
    everyone = np.ones(game.d, dtype=bool)
    assert fit.at_text == pytest.approx(
        found.evidence.logit - float(game.value(everyone)), abs=1e-9
    )
    # Samples of our own, with up to five tokens absent: the error that the fit claims is the error
    # that it has.
    rng = np.random.default_rng(7)
    kept = np.array([rng.permutation(game.d) >= rng.integers(1, 6) for _ in range(300)])
    off = model.value(found.evidence.units, found.evidence.target, kept) - game.value(kept)
    assert fit.error == pytest.approx(np.sqrt((off**2).mean()), rel=0.5)
    assert fit.model_calls <= 400 and fit.error < 1.5 * fit.spread


def test_a_transformer_that_is_a_slalom_is_found_exactly():
    """Logits that a SLALOM with a background makes: the fit has no error, and its Shapley values
    are the truth.
    """
    from attn_closed_form import Slalom

    class Fake(TransformerClassifier):
        def __call__(self, sequences):
            return np.array(
                [[0.0, 0.0, truth.predict(ids) if len(ids) else 0.5] for ids in sequences]
            )

    model = Fake(*bert(), samples=400)
    ids = model.encode(REVIEW)
    rng = np.random.default_rng(0)
    distinct = np.unique(ids)
    truth = Slalom(
        distinct, rng.normal(size=distinct.size), rng.normal(size=distinct.size), 0.0, 1.0, 0.5
    )
    units = model.read(REVIEW)
    from attn_closed_form.app.explanations.explain import explain_units
    from attn_closed_form.app.explanations.methods import as_methods
    from attn_closed_form.app.explanations.settings import Settings

    settings = Settings(output="positive", players="tokens", scale="logit")
    found = explain_units(model, units, as_methods(["shapley"]), settings)
    assert found.evidence.fit.error < 1e-6
    assert np.allclose(found["shapley"].scores, shapley(truth.game(ids)), atol=1e-5)


def test_every_sequence_is_asked_once():
    model, tokenizer = bert()
    asked = []
    wrapped = TransformerClassifier(model, tokenizer, samples=150, batch_size=1000)
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: asked.extend(
            tuple(row[mask.bool()].tolist())
            for row, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True)
        ),
        with_kwargs=True,
    )
    found = wrapped.explain(REVIEW)
    d = found.evidence.d
    before = len(asked)
    found.report()
    found.sentences()
    handle.remove()
    assert len(asked) == len(set(asked)) <= before + 2 * d  # the reasons are checked with the model
    assert before <= 150 + 150 + d + 2


def test_the_sampled_values_alone_need_no_fit():
    found = TransformerClassifier(*bert(), samples=100).explain(REVIEW, "shapley-sampled")
    found.report()
    assert (
        "surrogate" not in found.to_dict()
        and len(found.evidence.units.by_transformer.outputs) <= 102
    )
    assert not found.evidence.units.by_transformer.fits


def test_every_view_shows_the_sampled_values_first_with_their_standard_errors():
    found = TransformerClassifier(*bert(), samples=300).explain(REVIEW)
    assert next(iter(found)) == "shapley-sampled"
    e = found["shapley-sampled"]
    assert e.scale.name == "probability" and found["slalom-value"].scale.name == "logit"
    steps = waterfall(e, top=3).bars
    assert steps[0].end == pytest.approx(found.evidence.baseline) and steps[-1].end == e.prediction
    strongest = int(np.abs(e.scores).argmax())
    assert (
        steps[1].text
        == f"{100 * e.scores[strongest]:+.1f} ± {100 * e.standard_error[strongest]:.1f} points"
    )
    page = typed(found.report())
    text = " ".join(answer(found, 300).split())
    for view in (page, text):
        assert "Shapley (sampled) of the model: sampled, ± standard error" in view
        assert steps[1].text.removesuffix(" points") in view
    assert len(re.findall(r"class=.?error", page)) >= 2 * 8  # error bars on both scales


@pytest.mark.slow
def test_more_calls_shrink_the_standard_errors():
    small, large = (
        TransformerClassifier(*bert(), samples=samples).explain(REVIEW, "shapley-sampled")[
            "shapley-sampled"
        ]
        for samples in (100, 1600)
    )
    assert large.standard_error.mean() < 0.5 * small.standard_error.mean()
    assert large.model_calls <= 1600


def test_every_view_says_whose_scores_they_are():
    found = explained()
    said = found.evidence.fit.sentences()[0]
    assert (
        "The Shapley values are those of the model itself." in said
        and f"{found.evidence.fit.error:.2g}" in said
    )
    page = typed(found.report())
    text = " ".join(answer(found).split())
    assert said in page.replace("&#x27;", "'") and said in text
    assert "Of the fitted SLALOM, not of the model" in page
    rows = " ".join(table(found, 200).split())
    assert "Shapley of the fitted SLALOM" in rows and "Shapley (sampled) of the model:" in rows
    assert "sampled, ± standard error (at most" in rows and "nothing sampled" in rows
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["surrogate"]["error"] == found.evidence.fit.error
    assert plain["methods"]["shapley"]["label"] == "Shapley of the fitted SLALOM"
    assert len(plain["methods"]["lime-sampled"]["standard_error"]) == len(plain["labels"])
    assert plain["methods"]["shapley"]["model_calls"] == plain["surrogate"]["model_calls"]
    assert plain["methods"]["shapley"]["scale"] == "logit"
    assert "fitted SLALOM" in repr(found["shapley"])


def test_the_verdict_does_not_depend_on_what_was_sampled_before():
    alone, after = (
        TransformerClassifier(*bert(), samples=100).explain(REVIEW, methods).fit
        for methods in (["slalom-value"], ["shapley-sampled", "slalom-value"])
    )
    # Batches of other texts round otherwise.
    assert alone.spread == pytest.approx(after.spread, rel=1e-4)
    assert (
        alone.spread_any_size == pytest.approx(after.spread_any_size, rel=1e-4)
        and alone.grade == after.grade
    )


def test_the_agreement_is_that_of_all_coalitions():
    """With a budget for all coalitions, the rank correlation with the enumerated values; it costs
    no further calls.
    """
    model = TransformerClassifier(*bert(), samples=600)
    found = model.explain(
        "the film was not very good", ["shapley-sampled", "shapley"], scale="logit"
    )
    before = len(found.evidence.units.by_transformer.outputs)
    own = found.evidence.model_game
    ranks = [
        np.argsort(np.argsort(scores))
        for scores in (found["shapley"].scores, enumeration.shapley(own))
    ]
    assert found.fit.agreement == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-9)
    assert len(found.evidence.units.by_transformer.outputs) == before


def test_a_single_word_agrees_with_itself():
    model = TransformerClassifier(*bert(), samples=60)
    assert model.explain("film", "shapley", scale="logit").fit.agreement == 1.0


def report_of(error, spread=1.0, agreement=0.95):
    return FitReport("fitted SLALOM", error, spread, 0.1, 1.0, 0.0, 100, agreement=agreement)


@pytest.mark.parametrize(
    ("fit", "grade", "share"),
    [
        (report_of(0.1), "good", 99),
        # Its Shapley values are others.
        (report_of(0.1, agreement=0.9), "fair", 99),
        # They rank the tokens in another order.
        (report_of(0.1, agreement=0.10), "poor", 99),
        (report_of(0.5, agreement=0.49), "poor", 75),
        (report_of(0.5, agreement=0.51), "fair", 75),
        # They were not compared.
        (report_of(0.1, agreement=float("nan")), "fair", 99),
        (report_of(0.5), "fair", 75),
        (report_of(0.8), "poor", 36),
        (report_of(2.0), "poor", 0),
        # Nothing varies.
        (report_of(0.0, 0.0), "poor", 0),
        # Nothing was measured.
        (report_of(float("nan")), "poor", 0),
    ],
)
def test_the_verdict_has_a_grade_and_one_number(fit, grade, share):
    assert fit.grade == grade == fit.to_dict()["grade"]
    assert fit.verdict().startswith(
        f"{grade.capitalize()} fit: the fitted SLALOM explains {share}% of the variation"
    )
    assert ("do not trust" in fit.verdict()) == (grade == "poor")
    assert any("rank correlation" in text for text in fit.sentences()) == (
        fit.agreement == fit.agreement
    )


def test_a_poor_fit_is_gray_and_has_no_reasons_of_its_own():
    found = TransformerClassifier(*bert(), samples=60).explain(REVIEW)
    assert found.fit.grade == "poor"
    assert (
        not colored_text(found["slalom-value"]).signed
        and colored_text(found["shapley-sampled"]).signed
    )
    page = typed(found.report())
    text = answer(found, 300)
    verdict = found.fit.verdict()
    assert verdict in page and text.count(verdict) == 1
    # The model's values come first, and the verdict on the surrogate with what is said about the
    # surrogate.
    assert text.index("baseline") < text.index(verdict) < text.index("The SLALOM scores are")
    plane = page[page.index("SLALOM plane (poor fit)") :]
    assert 'class="gray"' in plane and 'class="for"' not in plane and 'class="against"' not in plane
    assert "poor fit, shown in gray" in page and "Certified" not in page


def test_reasons_are_checked_by_running_the_model():
    model = TransformerClassifier(*bert(), samples=400)
    found = model.explain(REVIEW, "shapley-sampled", output="positive")
    sentences = found.checked_reasons()
    labels = found.evidence.names
    assert sentences and all("checked by running the model" in sentence for sentence in sentences)
    side = np.sign(found.prediction - 0.5)
    order = np.argsort(-side * found["shapley-sampled"].scores, kind="stable")
    for sentence in sentences:
        names = sentence.split(" (")[0]
        k = int(sentence.split(" (")[1].split(" of ")[0])
        chosen = np.zeros(len(labels), dtype=bool)
        chosen[order[:k]] = True
        removed = names.startswith("Without ")
        output = black_box(
            model, found.evidence.target, "words", ~chosen if removed else chosen, "probability"
        )
        assert re.findall("“(.*?)”", names) == [labels[j] for j in order[:k]]
        assert f"the probability of positive is {100 * output:.1f}%" in sentence
        assert (side * (output - 0.5) < 0) == removed
        page = typed(found.report()).replace("&#x27;", "'")
        # In a report the names are chips instead of quoted.
        assert sentence.replace("“", "<b class=chip>").replace("”", "</b>") in page
        assert sentence in answer(found, 500)


def test_the_waterfall_ends_at_the_model_with_what_the_fit_misses():
    e = explained()["shapley"]
    steps = waterfall(e, top=4).bars
    assert [step.label for step in steps[-2:]] == ["what the fit misses", e.output]
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(steps))
    assert steps[-1].end == e.prediction
    assert steps[-2].start == pytest.approx(e.baseline + e.scores.sum(), abs=1e-9)


def test_tables_and_figures(tmp_path):
    found = explained()
    write_csv(found, tmp_path / "scores.csv")
    rows = list(
        csv.DictReader((tmp_path / "scores.csv").read_text(encoding="utf-8-sig").splitlines())
    )
    assert [row["player"] for row in rows] == list(found.evidence.labels)
    assert float(rows[0]["lime-sampled_standard_error"]) == found["lime-sampled"].standard_error[0]
    pytest.importorskip("matplotlib", reason="the figures need matplotlib")
    for figure in ("table", "interactions"):
        found.plot(tmp_path / f"{figure}.png", figure)
    with pytest.raises(ValueError, match=r"^figure: "):
        found.plot(tmp_path / "attention.png", "attention")


def test_methods_of_the_inside_are_not_offered():
    assert "alpha-mean" not in explained()
    with pytest.raises(ValueError, match=r"^methods: "):
        TransformerClassifier(*bert(), samples=40).explain(REVIEW, "gradient-x-input")


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_other_families_have_reports_too(family):
    found = TransformerClassifier(*FAMILIES[family](), samples=60).explain(
        "a 😀 good film", ["shapley", "leave-one-out"]
    )
    assert "😀" in found.report() and found["shapley"].labels == ("a", "😀", "good", "film")


def test_a_decoder_without_special_tokens_has_an_empty_text():
    network, tokenizer = gpt2()
    # In float64, so that batches of different shape agree far beyond the accuracy of float32.
    model = TransformerClassifier(network.double(), tokenizer, samples=60)
    found = model.explain("a good film", "shapley-sampled", output="positive", scale="logit")
    of_end = model([np.array([0])])[0, 2]
    assert found["shapley-sampled"].baseline == pytest.approx(of_end, rel=1e-12)


def test_a_text_of_one_word():
    found = TransformerClassifier(*bert(), samples=60).explain(
        "film", ["shapley", "leave-one-out", "slalom-value"]
    )
    assert found["shapley"].scores.shape == (1,) and "film" in found.report()


def test_the_same_seed_gives_the_same_scores():
    first, second = (
        TransformerClassifier(*bert(), samples=80).explain(
            "the film was not good", "all", seed=seed
        )
        for seed in (3, 3)
    )
    assert all(np.array_equal(first[name].scores, second[name].scores) for name in first)
    other = TransformerClassifier(*bert(), samples=80).explain(
        "the film was not good", "lime-sampled", seed=4
    )
    assert not np.array_equal(other["lime-sampled"].scores, first["lime-sampled"].scores)


@pytest.mark.filterwarnings("error::attn_closed_form.SlalomWarning")
def test_a_warning_names_what_the_samples_do_not_determine_once():
    model = TransformerClassifier(*bert(), samples=40)
    assert model.explain("a fine film", ["slalom-value"]).evidence.fit.undetermined == ()
    units = model.read(REVIEW)
    for methods in (["slalom-value"], ["slalom-importance"]):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            found = explain_units(model, units, as_methods(methods), Settings())
        assert found.evidence.fit.undetermined
        lines = [str(each.message) for each in given]
        assert lines == found.evidence.fit.sentences()[-1:] * (methods == ["slalom-value"])
