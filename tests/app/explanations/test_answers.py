"""Reasons and scores of sentences of whole explanations: texts of two and of several classes, and
scores.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import TextClassifier, explain, load_demo_model, shapley
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.models.score_table import ScoreTable
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.show.terminal import reasons_text
from attn_closed_form.attention import random_weights
from tests.texts import model_for

REVIEW = "A slow start, but a wonderful film. I liked the actors. The end was dull."
WORDS = [
    "[CLS]",
    "[UNK]",
    *[
        "a",
        "slow",
        "start",
        "but",
        "wonderful",
        "film",
        "i",
        "liked",
        "the",
        "actors",
        "end",
        "was",
        "dull",
    ],
]


@pytest.fixture(scope="module")
def found():
    return load_demo_model().explain(REVIEW, "shapley")


def several_classes():
    weights = random_weights(seed=3, D=len(WORDS), K=2, C=3, T_max=32)
    return TextClassifier(weights, Vocabulary(WORDS), outputs=("sports", "trade", "crops"))


def test_reasons_of_the_shipped_model_hold_on_random_coalitions(found):
    why = found.reasons()
    game = found.evidence.game
    masks = np.random.default_rng(0).random((2000, game.d)) < 0.5
    values = game.value(masks)
    assert why.bounds.proved_min <= values.min() and values.max() <= why.bounds.proved_max
    kept = masks.copy()
    kept[:, list(why.sufficient.players)] = True
    assert (np.sign(found.prediction) * game.value(kept) > 0).all()
    first, second = why.sentences()
    assert "enough" in first and f"stays {found.output}" in first
    assert second.startswith("Removing")


def test_the_threshold_is_passed_on(found):
    assert found.reasons(threshold=0.3).sufficient.threshold == pytest.approx(
        load_demo_model().temperature * np.log(0.3 / 0.7)
    )
    logit = load_demo_model().explain(REVIEW, "shapley", scale="logit")
    assert logit.reasons(threshold=-1.0).sufficient.threshold == -1.0


def test_reasons_of_a_class_hold_against_all_other_classes():
    model = several_classes()
    for text in ("slow start", "wonderful film", "the actors liked the end"):
        found = explain(model, text, "shapley")
        order = np.argsort(-found.evidence.logits)
        best = model.outputs[order[0]]
        why = found.reasons()
        margin = float(found.evidence.logits[order[0]] - found.evidence.logits[order[1]])
        assert why.sufficient.prediction == pytest.approx(margin)
        assert why.sides == ("another class", best)
        assert set(why.rivals) == set(model.outputs) - {best}
        first, _ = why.sentences()
        closest = why.rivals[why.sufficient.rival]
        assert f"stays {best}" in first and f"% against {closest}, which comes closest" in first


def test_no_deletion_that_keeps_the_words_changes_the_class():
    """Random texts and models with six classes, and deletions by the model itself."""
    words = [f"w{i}" for i in range(40)]
    changed = 0
    needed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        weights = random_weights(seed=seed, D=42, K=1 + seed % 2, C=6, T_max=32)
        weights = replace(weights, W_l=30 * weights.W_l)
        model = TextClassifier(weights, Vocabulary(["[CLS]", "[UNK]", *words]))
        found = explain(model, " ".join(rng.choice(words, 24)), "shapley")
        players = found.reasons().sufficient.players
        needed += len(players)
        evidence = found.evidence
        present = rng.random((200, evidence.d)) < rng.random((200, 1))
        present[:, list(players)] = True
        logits = []
        for c in range(6):
            one_class = replace(evidence.target.pooled, coefficients=tuple(np.eye(6)[c]))
            logits.append(model.value(evidence.units, one_class, present))
        changed += bool((np.argmax(logits, axis=0) != evidence.logits.argmax()).any())
    assert changed == 0 and needed > 0


def test_a_class_that_is_not_predicted_is_compared_with_the_predicted_one():
    model = several_classes()
    logits = explain(model, "slow start", "shapley").evidence.logits
    best, second, _ = (model.outputs[i] for i in np.argsort(-logits))
    why = explain(model, "slow start", "shapley", output=second).reasons()
    assert why.rivals == ()
    assert why.sides == (f"{best} over {second}", f"{second} over {best}")
    assert f"stays {best} over {second}" in why.sentences()[0]
    assert "for the difference of the two logits)" in why.sentences()[0]


def test_a_margin_is_taken_as_it_is():
    model = several_classes()
    found = explain(model, "slow start", "shapley", output="margin:crops,trade")
    assert found.reasons().sufficient.prediction == pytest.approx(found.prediction)
    # Over the last class, although the second one comes closer.
    order = np.argsort(-found.evidence.logits)
    ends = f"{model.outputs[order[0]]},{model.outputs[order[-1]]}"
    widest = explain(model, "slow start", "shapley", output=f"margin:{ends}")
    why = widest.reasons()
    assert why.rivals == ()
    assert why.sufficient.prediction == pytest.approx(widest.prediction)


def test_the_other_class_of_one_logit_has_its_own_side():
    found = load_demo_model().explain(REVIEW, "shapley", output="negative")
    assert found.reasons().sides == ("positive", "negative")


@pytest.mark.parametrize(("after", "written"), [(-0.001, "49.9%"), (-0.603, "35.4%")])
def test_the_probability_after_a_removal_is_on_its_side_of_the_threshold(after, written):
    """49.98% would be rounded to the threshold; all others are rounded as usual."""
    model = ScoreTable(outputs=("no", "yes"))
    scores = {"s": [0.0, 0.0], "v_no": [0.0, 0.0], "v_yes": [5.0, after]}
    _, flip = explain(model, scores, "shapley").reasons().sentences()
    assert flip == f"Removing “0” changes the prediction to no (probability of yes: {written})."


def test_nothing_to_say_on_the_threshold():
    found = explain(ScoreTable(), {"s": [0.0, 0.0], "v": [1.0, -1.0]}, "shapley")
    why = found.reasons()
    assert why.sufficient is None and "neither side" in why.sentences()[0]
    assert json.loads(json.dumps(why.to_dict(), allow_nan=False))["sufficient"] is None


def test_words_add_up_to_their_sentence_and_sentences_to_the_prediction(found):
    scores = found.sentences()
    assert scores.labels == (
        "A slow start, but a wonderful film.",
        "I liked the actors.",
        "The end was dull.",
    )
    for m in range(3):
        assert scores.scores[m] == pytest.approx(
            scores.unit_scores[scores.numbers == m].sum(), abs=1e-12
        )
    assert scores.baseline + scores.scores.sum() == pytest.approx(found.prediction, abs=1e-8)
    positions = load_demo_model().explain(REVIEW, "shapley", players="positions").evidence.game
    merged = positions.merge([np.flatnonzero(scores.numbers == m) for m in range(3)])
    assert np.abs(scores.scores - shapley(merged)).max() <= 1e-8


def test_groupings_of_the_model_and_unknown_ones(found):
    # Words are no groups of tokens that come together, but they partition the tokens all the same.
    words = found.grouped("words")
    assert len(words.labels) == found.evidence.game.d
    with pytest.raises(ValueError, match=r"^grouping: "):
        found.grouped("regions")


def test_no_sentences_without_a_text():
    found = explain(ScoreTable(), {"s": [0.0, 0.0], "v": [1.0, -0.5]}, "shapley")
    with pytest.raises(ValueError, match=r"^grouping: "):
        found.sentences()


def test_json_is_plain(found):
    both = {"reasons": found.reasons().to_dict(), "sentences": found.sentences().to_dict()}
    again = json.loads(json.dumps(both, allow_nan=False))
    assert again["sentences"]["labels"] == list(found.sentences().labels)
    assert again["reasons"]["sufficient"]["minimal"] in (True, False)


def test_terminal(found, capsys):
    text = reasons_text(found, 60)
    assert max(map(len, text.splitlines())) <= 60
    assert main(["explain", REVIEW, "--reasons", "--method", "shapley"]) == 0
    out = capsys.readouterr().out
    assert "enough" in out.replace("\n", " ") and "I liked the actors." in out
    assert main(["explain", REVIEW, "--reasons", "--json", "--method", "shapley"]) == 0
    assert {"reasons", "sentences"} <= set(json.loads(capsys.readouterr().out))


def test_labels_with_control_characters_are_made_visible():
    found = load_demo_model().explain("fine \x1b[31m film", "shapley")
    evil = replace(
        found.evidence.pooled, labels=tuple(f"\x1b{label}" for label in found.evidence.labels)
    )
    found.evidence.__dict__["pooled"] = evil
    assert "\x1b" not in reasons_text(found)


def test_bags_have_reasons_and_regions():
    """The margin of two classes over instances, and Owen values of regions against all orders."""
    from attn_closed_form import BagClassifier
    from tests import enumeration
    from tests.app.models.test_bag_classifier import bag, network

    model = BagClassifier(network(H=2), outputs=("normal", "tumor"))
    found = model.explain(bag(regions=["a", "b", "a", "c", "b", "a"]), "shapley", output="tumor")
    margin = model.explain(bag(), "shapley", output="margin:tumor,normal")
    why = found.reasons()
    assert why.sufficient.prediction == pytest.approx(margin.prediction)
    assert why.sides == ("normal", "tumor") and why.things == "instances"
    kept = [
        margin.evidence.game.value(m)
        for m in enumeration.coalitions(6)
        if m[list(why.sufficient.players)].all()
    ]
    assert (np.sign(kept) == np.sign(margin.prediction)).all()
    regions = found.grouped("regions")
    exact = enumeration.owen_by_orders(found.evidence.game, [[0, 2, 5], [1, 4], [3]])
    assert np.abs(regions.unit_scores - exact.astype(float)).max() <= 1e-9
    assert regions.labels == ("a", "b", "c")


def test_reasons_name_what_their_numbers_are():
    text = "A slow start. A wonderful film!"
    several = model_for(text, C=3).explain(text, "shapley").reasons()
    assert "% against class" in several.sentences()[0]
    assert several.range_sentence().startswith("Over all subsets of the words, the logit of class")
    two = model_for(text, K=1).explain(text, "shapley")
    assert "difference" not in " ".join(two.reasons().sentences())
    assert f"the probability of {two.output} ranges from" in two.reasons().range_sentence()
    logit = model_for(text, K=2).explain(text, "shapley")
    assert f"the logit of {logit.output} ranges from" in logit.reasons().range_sentence()
