"""Probes on activations: tokens of every kind of tokenizer, exact values, and what they add up to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attn_closed_form import Activations, ProbeClassifier, shapley
from attn_closed_form.app.explanations import answers
from attn_closed_form.app.models import probe as probe_module
from attn_closed_form.app.models.probe import DETECTED, MOST_TOKENS_OF_SENTENCE

D = 5
TOKENS = ["<|im_start|>", "user", "\n", "Is", " it", " safe", "?", "<|im_end|>", "\n"]
TOKENS += ["<|im_start|>", "assistant", "\n", "No", "."]


def attn_lite(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "context_query.weight": 3 * rng.normal(size=(1, D)),
        "context_query.bias": rng.normal(size=1),
        "classifier.weight": rng.normal(size=(1, D)),
        "classifier.bias": rng.normal(size=1),
    }


def by_hand(state: dict[str, np.ndarray], x: np.ndarray) -> float:
    """The logit of AttnLite, one token at a time."""
    if not len(x):
        return float(state["classifier.bias"][0])
    masses = [math.exp(float(state["context_query.weight"][0] @ row) / math.sqrt(D)) for row in x]
    values = [float(state["classifier.weight"][0] @ row) for row in x]
    pooled = sum(m * v for m, v in zip(masses, values, strict=True)) / sum(masses)
    return pooled + float(state["classifier.bias"][0])


@pytest.mark.parametrize(
    ("tokens", "text", "words"),
    [
        (["ĠHow", "Ġdo", "es", "Ċ", "it"], "How does\nit", [0, 1, 1, 2, 3]),
        (["▁How", "▁do", "es", "?"], "How does?", [0, 1, 1, 1]),
        (["how", "do", "##es", "it"], "how does it", [0, 1, 1, 2]),
        (["How", " do", "es"], "How does", [0, 1, 1]),
        (["how", "does", "it"], "how does it", [0, 1, 2]),
        (["Ã©t", "Ã©", "ĠÃ©"], "été é", [0, 0, 1]),
        # The four bytes of an emoji in two tokens: the character belongs to the first of them.
        (["Ġa", "ĠðŁ", "ĺĢ", "b"], "a 😀b", [0, 1, 1, 1]),
    ],
)
def test_tokens_become_text(tokens: list[str], text: str, words: list[int]) -> None:
    given = Activations(np.zeros((len(tokens), D)), tokens)
    assert given.text == text
    assert given.words.tolist() == words
    ends = [end for _, end in given.spans]
    assert ends == sorted(ends) and ends[-1] == len(text)


def test_turns_of_a_chat_are_found_and_given_ones_are_kept() -> None:
    given = Activations(np.zeros((len(TOKENS), D)), TOKENS)
    numbers, names = given.turn_numbers or (None, ())
    assert names == ("turn 1 (user)", "turn 2 (assistant)")
    assert np.asarray(numbers).tolist() == [0] * 9 + [1] * 5
    own = Activations(np.zeros((3, D)), ["a", "b", "c"], turns=["x", "y", "x"])
    numbers, names = own.turn_numbers or (None, ())
    assert names == ("x", "y") and np.asarray(numbers).tolist() == [0, 1, 0]
    assert Activations(np.zeros((1, D)), ["a"]).turn_numbers is None


def test_activations_and_tokens_must_fit() -> None:
    with pytest.raises(ValueError, match="tokens: expected 3 tokens"):
        Activations(np.zeros((3, D)), ["a", "b"])
    with pytest.raises(ValueError, match="turns: expected 2 turns"):
        Activations(np.zeros((2, D)), ["a", "b"], turns=[0])


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_values_are_those_of_the_enumeration(scale: str) -> None:
    rng = np.random.default_rng(1)
    state = attn_lite(rng)
    n = 8
    x = rng.normal(size=(n, D))
    probe = ProbeClassifier.from_state_dict(state)
    given = Activations(x, [f"t{i}" for i in range(n)])

    def f(members: list[int]) -> float:
        logit = by_hand(state, x[members])
        return logit if scale == "logit" else 1 / (1 + math.exp(-logit))

    exact = np.zeros(n)
    for j in range(n):
        others = [i for i in range(n) if i != j]
        for number in range(1 << (n - 1)):
            members = [i for k, i in enumerate(others) if number >> k & 1]
            weight = 1 / (n * math.comb(n - 1, len(members)))
            exact[j] += weight * (f(sorted([*members, j])) - f(members))
    e = probe.explain(given, "shapley", scale=scale, output="yes")["shapley"]
    assert probe.outputs == DETECTED
    assert e.error is not None and np.abs(e.scores - exact).max() <= max(e.error, 1e-12)
    assert abs(e.prediction - f(list(range(n)))) < 1e-12


def test_turns_words_and_sentences_add_up() -> None:
    rng = np.random.default_rng(2)
    probe = ProbeClassifier.from_state_dict(attn_lite(rng))
    given = Activations(rng.normal(size=(len(TOKENS), D)), TOKENS)
    found = probe.explain(given, "shapley")
    total = found["shapley"].scores.sum()
    for grouping in ("turns", "words", "sentences"):
        groups = found.grouped(grouping)
        assert abs(groups.scores.sum() - total) < 1e-8
        assert len(groups.labels) < len(TOKENS)
    assert found.grouped("turns").labels == ("turn 1 (user)", "turn 2 (assistant)")
    players = probe.explain(given, "shapley", players="words")
    assert players.labels[:2] == ("<|im_start|>user", "\\n")
    page = found.report()
    assert "How it adds up" in page and "Certified reasons" in page and "Sentences" in page


def long_text(sentences: int, rng: np.random.Generator) -> Activations:
    """Sentences of five tokens each, about one topic after the other."""
    tokens = []
    for number in range(sentences):
        tokens += [f" Sentence{number}", " is", " about", " this", "."]
    return Activations(rng.normal(size=(len(tokens), D)), tokens)


def test_a_long_text_is_explained_by_sentences_and_shows_its_strongest_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe_module, "MANY_TOKENS", 50)
    rng = np.random.default_rng(4)
    probe = ProbeClassifier.from_state_dict(attn_lite(rng))
    given = long_text(12, rng)
    found = probe.explain(given, "shapley")
    by_token = probe.explain(given, "shapley", players="tokens")
    assert len(found.labels) == 12 and len(by_token.labels) == 60
    assert found.labels[3] == "Sentence3 is about this."
    # Sentences as players have the values of the game of sentences, whose members enter as blocks.
    np.testing.assert_allclose(
        found["shapley"].scores, by_token.sentences().scores, rtol=0, atol=1e-9
    )
    page = found.report()
    assert "The text has 60 tokens, so its 12 sentences are explained" in page
    assert "The strongest tokens" in page
    strongest = answers.strongest_units(found.evidence)
    assert strongest is not None
    logits = probe.explain(given, "shapley", players="tokens", scale="logit")["shapley"].scores
    assert strongest.units.tolist() == np.argsort(-np.abs(logits), kind="stable")[:20].tolist()
    np.testing.assert_allclose(strongest.scores, logits[strongest.units], rtol=0, atol=1e-9)
    short = by_token.report()
    assert "The strongest tokens" not in short and "are explained and colored" not in short


def test_a_text_without_a_full_stop_has_passages() -> None:
    rng = np.random.default_rng(5)
    probe = ProbeClassifier.from_state_dict(attn_lite(rng))
    n = 2 * MOST_TOKENS_OF_SENTENCE + 10
    given = Activations(rng.normal(size=(n, D)), [" word"] * n)
    found = probe.explain(given, "shapley", players="sentences", tol=1e-6)
    sizes = np.bincount(found.evidence.player_of).tolist()
    assert sizes == [MOST_TOKENS_OF_SENTENCE, MOST_TOKENS_OF_SENTENCE, 10]
    assert found.report().count("word") >= n


def test_groups_of_thousands_of_units_have_the_values_of_the_merged_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(6)
    probe = ProbeClassifier.from_state_dict(attn_lite(rng))
    given = long_text(9, rng)
    owen_values = probe.explain(given, "shapley").sentences()
    monkeypatch.setattr(answers, "MOST_MEMBERS", 10)
    found = probe.explain(given, "shapley")
    sentences = found.sentences()
    assert sentences.unit_scores is None and owen_values.unit_scores is not None
    np.testing.assert_allclose(sentences.scores, owen_values.scores, rtol=0, atol=1e-9)
    of_tokens = [range(5 * k, 5 * k + 5) for k in range(9)]
    merged = found.evidence.game.merge(of_tokens)
    np.testing.assert_allclose(sentences.scores, shapley(merged), rtol=0, atol=1e-9)
    assert sentences.to_dict()["unit_scores"] is None


def test_a_pair_is_read_and_other_inputs_are_refused() -> None:
    rng = np.random.default_rng(3)
    probe = ProbeClassifier.from_state_dict(attn_lite(rng))
    x = rng.normal(size=(2, D))
    pair: Any = (x, ["a", "b"])
    logits = [probe.predict_logits([given]) for given in (pair, Activations(*pair))]
    assert np.array_equal(*logits)
    with pytest.raises(ValueError, match="input: expected Activations"):
        probe.read(x)


def test_several_heads_have_sampled_probabilities_and_exact_sentences_of_the_logit() -> None:
    rng = np.random.default_rng(4)
    state = {
        "q.weight": rng.normal(size=(3, D)),
        "v.weight": rng.normal(size=(3, D)),
        "v.bias": rng.normal(size=3),
        "position_weight": 0.1 * rng.normal(size=3),
    }
    probe = ProbeClassifier.from_state_dict(state)
    assert "positions 0, 1, 2" in probe.doubts
    given = Activations(rng.normal(size=(40, D)), [f" w{i}." for i in range(40)])
    found = probe.explain(given)
    e = found["shapley-sampled"]
    assert found.scale.in_percent and e.standard_error is not None
    assert 0 < e.standard_error.max() <= 5e-4
    assert abs(e.scores.sum() - (e.prediction - e.baseline)) < 1e-8
    groups = found.sentences()
    logit = probe.explain(given, "shapley", scale="logit")["shapley"]
    assert groups.scale == "logit"
    assert abs(groups.scores.sum() - logit.scores.sum()) < 1e-8
