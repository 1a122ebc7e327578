"""The answers of the page: the model, explanations, reasons and interactions, as data that JSON can
hold.

Every answer calls `checkpoint` between its steps. The application uses it to end the work of an
answer that nobody waits for, so a step is the longest time for which such work can continue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._arrays import plain
from ...game.interactions import interactions
from ..explanations.explain import explain_evidence, gather_evidence
from ..explanations.explanation import Explanations, shared_dict
from ..explanations.methods import METHODS, Method, as_methods, default_methods
from ..explanations.settings import Settings
from ..models.mean_text import MeanPooledText, VocabularyReader
from ..models.protocol import Model
from ..models.text_classifier import TextClassifier
from ..models.units import Units
from ..show.live_figures import figures_of, partners
from ..show.removals import removal
from ..show.sanitize import elide, visible
from ..show.slalom_plane import SLALOM, slalom_plane
from .schema import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_SAMPLED,
    MAX_TOKENS,
    ExplainQuestion,
    InteractionsQuestion,
    Question,
    Refusal,
)

Checkpoint = Callable[[], None]

# Tuning: the example is chosen among the first words of the vocabulary, which training orders by
# frequency, because a person recognizes frequent words. 3,000 single words take 0.2 seconds.
EXAMPLE_CANDIDATES = 3_000
# The example has the three strongest words of each of the first classes; more do not fit one line.
EXAMPLE_WORDS = 3
# The number of classes in the example: more do not fit into one line.
EXAMPLE_CLASSES = 4


def no_checkpoint() -> None:
    """Do nothing: the checkpoint of answers that are always wanted."""


def example_text(model: Model) -> str:
    """Return the example text of the model's card, or the words that support each class most.

    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> set(model.predict(example_text(model).split())) == set(model.outputs)
    True
    """
    if isinstance(model, TextClassifier):
        example = (model.card or {}).get("example")
        if isinstance(example, str) and example.strip():
            return visible(example)[:1_000]
    words = []
    word_logits = []
    for word in _vocabulary(model)[:EXAMPLE_CANDIDATES]:
        try:
            units = model.read(word)
        except ValueError:  # the tokenizer does not produce this word
            continue
        words.append(word)
        word_logits.append(model.logits(units))
    if not words:
        return ""
    logits = np.array(word_logits)
    if logits.shape[1] == 1:  # one logit is the log-odds of the second of two classes
        logits = np.hstack([-logits, logits]) / 2
    lead = logits - logits.mean(axis=1, keepdims=True)
    strongest = np.argsort(-lead, axis=0, kind="stable")[:EXAMPLE_WORDS, :EXAMPLE_CLASSES]
    return " ".join(dict.fromkeys(words[i] for i in strongest.ravel()))


def _vocabulary(model: Model) -> list[str]:
    """Return the words of a model's vocabulary in its order, or none if the model has no
    vocabulary.
    """
    if isinstance(model, TextClassifier):
        special = (model.vocabulary.cls, model.vocabulary.unk)
        return [word for word in model.vocabulary if word not in special]
    if isinstance(model, MeanPooledText) and isinstance(model.reader, VocabularyReader):
        return list(model.reader.rows)
    return []


def model_answer(model: Model, name: str, example: str) -> dict[str, Any]:
    """Return the facts about the model that the page shows before the first question."""
    fields = ("name", "label", "family", "kind", "accuracy", "summary", "forecasts")
    return {
        "name": elide(visible(name), 60),
        "model": repr(model),
        "outputs": list(model.outputs),
        "players": list(model.groupings),
        "absent": list(model.absences),
        "example": example,
        "limits": {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS},
        "methods": [
            {field: getattr(method, field) for field in fields} for method in METHODS.values()
        ],
    }


def explain_answer(
    model: Model, question: ExplainQuestion, checkpoint: Checkpoint = no_checkpoint
) -> dict[str, Any]:
    """Return the scores of every player by every method, and the effect of removing players.

    >>> from attn_closed_form import load_demo_model
    >>> question = ExplainQuestion(text="A fine film", methods=["leave-one-out"], removed=[1])
    >>> answer = explain_answer(load_demo_model(), question)
    >>> answer["labels"], answer["removal"]["players"]
    (['a', 'fine', 'film'], [1])
    >>> bool(np.isclose(answer["removal"]["change"], -answer["methods"]["leave-one-out"]["scores"][1]))
    True
    """
    methods = None if question.methods is None else as_methods(question.methods)
    explanations = _explanations(model, question, methods, checkpoint)
    removed = [_player("removed", player, explanations) for player in question.removed]
    if removed:
        without = removal(explanations, removed)
    else:
        without = None
    return {
        **shared_dict(explanations.evidence),
        "methods": {
            name: {**explanation.own_dict(), "kind": explanation.info.kind}
            for name, explanation in explanations.items()
        },
        "removal": without,
        "figures": figures_of(explanations),
    }


def _explanations(
    model: Model,
    question: Question,
    methods: tuple[Method, ...] | None,
    checkpoint: Checkpoint,
) -> Explanations:
    """Explain the text method by method; None selects the default methods."""
    units = _read(model, question)
    settings = question.settings
    try:
        evidence = gather_evidence(model, units, settings)
    except ValueError as error:
        raise Refusal(422, str(error), _refused_setting(model, units, settings)) from None
    explanations = Explanations(evidence)
    for method in default_methods(evidence) if methods is None else methods:
        checkpoint()
        try:
            explanations.update(explain_evidence(evidence, [method]))
        except (ValueError, TypeError) as error:
            raise Refusal(422, str(error), "methods") from None
    checkpoint()
    return explanations


def _read(model: Model, question: Question) -> Units:
    """Return the text as the model reads it, or refuse a text that is too long."""
    try:
        units = model.read(question.text)
    except (ValueError, TypeError) as error:
        raise Refusal(422, str(error), "text") from None
    if question.samples:
        limit = MAX_SAMPLED
        purpose = " for methods that sample"
    else:
        limit = MAX_TOKENS
        purpose = ""
    tokens = len(units.labels)
    if tokens > limit:
        message = f"text: expected at most {limit:,} tokens{purpose}, got {tokens:,}"
        raise Refusal(413, message, "text")
    return units


def _refused_setting(model: Model, units: Units, settings: Settings) -> str:
    """Return the first setting that does not fit the model by itself; the scale may only fail with
    others.
    """
    logits = model.logits(units)
    for name in ("players", "absent", "output"):
        try:
            Settings(**{name: getattr(settings, name)}).resolve(model, logits, units)
        except ValueError:
            return name
    return "scale"


def why_answer(
    model: Model, question: Question, checkpoint: Checkpoint = no_checkpoint
) -> dict[str, Any]:
    """Return certified reasons, sentence contributions and the SLALOM plane, which the page shows
    after a pause.

    >>> from attn_closed_form import load_demo_model
    >>> answer = why_answer(load_demo_model(), Question(text="A slow start. A wonderful film!"))
    >>> len(answer["reasons"]["sentences"]), len(answer["sentences"]["scores"])
    (2, 2)
    """
    explanations = _explanations(model, question, as_methods(SLALOM), checkpoint)
    reasons = explanations.reasons().to_dict()
    checkpoint()
    sentences = explanations.sentences().to_dict()
    checkpoint()
    plane = plain(slalom_plane(explanations))
    return {"reasons": reasons, "sentences": sentences, "figures": {"slalom_plane": plane}}


def interactions_answer(
    model: Model, question: InteractionsQuestion, checkpoint: Checkpoint = no_checkpoint
) -> dict[str, Any]:
    """Return the Shapley interactions of one player with every other player, and None for the
    player itself.
    """
    explanations = _explanations(model, question, (), checkpoint)
    evidence = explanations.evidence
    player = _player("player", question.player, explanations)
    row, error = evidence.guaranteed(lambda game, tol: interactions(game, player=player, tol=tol))
    values = [None if j == player else value for j, value in enumerate(row.tolist())]
    return {
        "player": player,
        "labels": list(evidence.labels),
        "interactions": values,
        "scale": evidence.scale.name,
        "error": error,
        "figures": {"partners": partners(evidence, player, row)},
    }


def _player(field: str, named: int | list[int], explanations: Explanations) -> int:
    """Return the index of a player, given its index or the span of an occurrence."""
    spans = explanations.evidence.spans
    received = elide(str(named), 60)
    if isinstance(named, int):
        if named < len(spans):
            return named
        message = f"{field}: expected a player in 0..{len(spans) - 1}, got {received}"
        raise Refusal(422, message, field)
    for j, occurrences in enumerate(spans):
        if tuple(named) in occurrences:
            return j
    message = f"{field}: expected the span of a token that the model reads, got {received}"
    raise Refusal(422, message, field)
