"""What explanations of one input share, how often it is computed, and what no cache may confuse."""

import numpy as np
import pytest

from attn_closed_form import METHODS, BagClassifier, load_demo_model, shapley
from attn_closed_form.app.explanations import answers
from attn_closed_form.app.explanations.evidence import Evidence
from attn_closed_form.app.explanations.explain import explain_logit, for_output
from attn_closed_form.app.models import target as target_module
from attn_closed_form.app.models.protocol import Model
from attn_closed_form.app.models.target import Target
from attn_closed_form.app.models.units import Units
from attn_closed_form.app.show.html import report
from tests.app.models.test_bag_classifier import bag, network
from tests.texts import model_for

REVIEW = "A slow start, but a wonderful film. I liked the actors. The end was dull."


class Counter:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *arguments, **options):
        self.calls += 1
        return self.function(*arguments, **options)


def counted(monkeypatch, module, name):
    counter = Counter(getattr(module, name))
    monkeypatch.setattr(module, name, counter)
    return counter


@pytest.mark.parametrize(
    ("model", "raw"),
    [(load_demo_model(), REVIEW), (BagClassifier(network(), outputs=("a", "b")), bag())],
    ids=["one logit", "two logits"],
)
def test_a_report_on_both_scales_finds_each_reason_and_splits_the_text_once(
    monkeypatch, model, raw
):
    names = ("sufficient_reason", "contrastive_reason", "bounds_by_size", "sentence_numbers")
    counters = {name: counted(monkeypatch, answers, name) for name in names}
    page = report(model.explain(raw))
    assert 'class="logit"' in page
    calls = {name: counter.calls for name, counter in counters.items()}
    is_text = isinstance(raw, str)
    # The removal curves of a bag are those of two games: the margin of two logits, and the logit of
    # one class.
    assert calls == {
        "sufficient_reason": 1,
        "contrastive_reason": 1,
        "bounds_by_size": 0 if is_text else 2,
        "sentence_numbers": int(is_text),
    }


def test_a_probability_and_its_logit_share_their_reasons_and_no_other_threshold_does():
    found = load_demo_model().explain(REVIEW, "shapley")
    logit = explain_logit(found, "shapley")
    assert logit.reasons().sufficient is found.reasons().sufficient
    other = found.reasons(0.3)
    assert other.sufficient is not found.reasons().sufficient
    assert other.sufficient.threshold != found.reasons().sufficient.threshold


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_a_report_of_a_transformer_samples_once_per_scale_and_class(monkeypatch, classes):
    from tests.tiny_transformers import bert, need_torch

    need_torch()
    from attn_closed_form import TransformerClassifier

    counter = counted(monkeypatch, target_module, "shapley_sample")
    model = TransformerClassifier(*bert(classes), samples=60, progress=False)
    page = report(model.explain("the film was not very good", output=classes[0]))
    assert "The other classes" in page if len(classes) > 2 else "other class" not in page
    # The probability, the log-odds (which also judge the fit), and the probability of every class
    # that is shown.
    others = 0 if len(classes) == 2 else len(classes) - 1
    assert counter.calls == 2 + others


def test_another_output_has_its_own_explanation():
    model = model_for(REVIEW, C=3)
    first, second, third = model.outputs
    found = model.explain(REVIEW, "shapley", output=first)
    for name in (second, third, first):
        direct = model.explain(REVIEW, "shapley", output=name)["shapley"]
        other = for_output(found, name)
        assert other.output == name
        assert np.array_equal(other["shapley"].scores, direct.scores)
    assert for_output(found, second) is for_output(found, second)


@pytest.mark.parametrize("method", [name for name in METHODS if "sampled" not in name])
def test_no_output_or_player_gets_the_scores_of_another(method):
    """The explanations of one read input, one after the other, are those of inputs that are read
    again.
    """
    model = model_for(REVIEW, C=3)
    units = model.read(REVIEW)
    logits = model.logits(units)
    for players in ("words", "positions"):
        for output in range(3):
            coefficients = tuple(np.eye(3)[output].tolist())
            target = Target(players, "unk", str(output), coefficients, 1e-10, 0)
            shared = METHODS[method].score(Evidence(model, units, target, logits))
            single = model.explain(REVIEW, method, players=players, output=output, scale="logit")
            assert np.array_equal(shared.scores, single[method].scores)


def test_runs_and_seeds_of_sampling_methods_differ():
    model = model_for(REVIEW, C=3)
    object.__setattr__(model, "samples", 100)
    found = model.explain(REVIEW, "shapley-sampled", scale="logit")
    first, second = found.evidence.sampled_lime(2)
    assert not np.array_equal(first.coef, second.coef)
    assert found.evidence.sampled_lime(2)[1] is second
    other = model.explain(REVIEW, "shapley-sampled", seed=1, scale="logit")
    scores = found["shapley-sampled"].scores
    assert not np.array_equal(other["shapley-sampled"].scores, scores)
    # The probability of one class among several is the default.
    probability = model.explain(REVIEW, "shapley-sampled")
    assert probability.scale.in_percent and not probability.evidence.exact
    assert not np.array_equal(probability["shapley-sampled"].scores, scores)


def test_units_that_share_a_player_share_its_score():
    text = "fine film. fine film fine. bad"
    model = model_for(text)
    object.__setattr__(model, "groupings", ("words",))
    found = model.explain(text, "shapley", output=1)
    units = found.evidence.units
    scores = answers.group_scores(found.evidence, "words")
    assert found.labels == ("fine", "film", "bad")
    counts = np.array([3, 2, 1])
    expected = (shapley(found.game) / counts)[units.groups["words"]]
    np.testing.assert_allclose(scores.unit_scores, expected, atol=1e-9)
    assert scores.scores.sum() == pytest.approx(found.prediction - scores.baseline, abs=1e-8)


def test_all_logits_of_reasons_are_on_the_explained_scale_in_json():
    found = load_demo_model().explain(REVIEW, "shapley")
    why = found.reasons()
    numbers = why.to_dict()
    without = ~np.isin(np.arange(found.evidence.d), why.contrastive.players)
    assert numbers["contrastive"]["after"] == pytest.approx(float(found.game.value(without)))
    assert numbers["sufficient"]["worst"] == pytest.approx(
        float(why.scale.of(why.sufficient.worst))
    )
    assert all(0 < numbers["bounds"][f"proved_{end}"] < 1 for end in ("min", "max"))


class Pieces(Model):
    """A model of words in pieces."""

    outputs = ("no", "yes")
    groupings = ("words",)
    absences = ("deleted",)


def test_adjacent_pieces_of_a_word_are_shown_together():
    units = Units(
        labels=("won", "##der", "film", "won"),
        groups={"words": np.array([0, 0, 1, 0])},
        text="wonder film won",
        places=np.array([(0, 3), (3, 6), (7, 11), (12, 15)]),
        continues=np.array([False, True, False, False]),
    )
    target = Target("words", "deleted", "yes", (1.0,), 1e-10, 0)
    evidence = Evidence(Pieces(), units, target, np.zeros(1))
    assert evidence.spans == (((0, 6), (12, 15)), ((7, 11),))


def test_other_players_are_those_of_the_logit_too():
    logit = Target("words", "deleted", "yes", (1.0,), 1e-10, 0)
    target = Target("words", "deleted", "yes", (1.0,), 1e-10, 0, against_rest=True, logit=logit)
    finer = target.with_players("tokens")
    assert finer.players == finer.pooled.players == "tokens"
    assert finer.pooled.game_key != target.pooled.game_key
