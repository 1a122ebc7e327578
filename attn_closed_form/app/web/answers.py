"""The answers of the page: the model, explanations, reasons and interactions, as data that JSON can
hold.

Every answer calls `checkpoint` between its steps. The application uses it to end the work of an
answer that nobody waits for, so a step is the longest time for which such work can continue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ..._arrays import plain
from ...game.interactions import interactions
from ..explanations.comparison import compare
from ..explanations.explain import explain_evidence, gather_evidence, need_exact_values
from ..explanations.explanation import Explanations, shared_dict
from ..explanations.methods import METHODS, Method, as_methods, default_methods
from ..explanations.settings import Settings
from ..models.mean_text import MeanPooledText, VocabularyReader
from ..models.protocol import Model
from ..models.text_classifier import TextClassifier
from ..models.units import Units
from ..show.described import model_in_words
from ..show.html import report
from ..show.live_figures import comparison_figures, figures_of, partners, sentence_levels
from ..show.removals import removal
from ..show.sanitize import elide, visible
from ..show.slalom_plane import SLALOM, slalom_plane
from .schema import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_SAMPLED,
    MAX_TOKENS,
    CompareQuestion,
    ExplainQuestion,
    InteractionsQuestion,
    Question,
    Refusal,
)

Checkpoint = Callable[[], None]


T = TypeVar("T")

# Tuning: texts whose explanations are kept for the next question about them. A page asks three
# questions about a text, and one more per removed word; a long text keeps some megabytes.
KEPT = 2


class Recent:
    """The texts and explanations of the last questions, so that the next question computes only
    what is new.

    The page asks for scores, then for reasons, then for interactions of the same text. All are
    answered from one reading of the text, which keeps what was computed from it. Answers run in
    several threads: two that ask the same at the same time may both compute it, and get the same
    result.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = Lock()
        self._units: OrderedDict[str, Units] = OrderedDict()
        self._explanations: OrderedDict[Any, Explanations] = OrderedDict()

    def units(self, text: str, read: Callable[[], Units]) -> Units:
        """Return a text as the model reads it, which is read if it was not asked about lately."""
        return self._of(self._units, text, read)

    def explanations(self, key: Any, gather: Callable[[], Explanations]) -> Explanations:
        """Return the explanations of a question, which are gathered if it was not asked lately."""
        return self._of(self._explanations, key, gather)

    def _of(self, recent: OrderedDict[Any, T], key: Any, make: Callable[[], T]) -> T:
        with self._lock:
            if key in recent:
                recent.move_to_end(key)
                return recent[key]
        # The lock is not held meanwhile, so a slow text does not block the others.
        made = make()
        with self._lock:
            recent[key] = made
            while len(recent) > self._kept:
                recent.popitem(last=False)
        return made


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
    # A word may be strong for several classes, and occurs once.
    return " ".join(dict.fromkeys(word for words in _strong_words(model) for word in words))


def class_examples(model: Model) -> list[str]:
    """Return the words that support each of the first classes most, one short text per class.

    >>> from attn_closed_form import load_demo_model
    >>> len(class_examples(load_demo_model()))
    2
    """
    return [" ".join(words) for words in _strong_words(model)]


def _strong_words(model: Model) -> list[list[str]]:
    """Return the words that support each of the first classes most."""
    words = []
    word_logits = []
    # Tuning: the example is chosen among the first words of the vocabulary, which training orders
    # by frequency, because a person recognizes frequent words. 3,000 single words take 0.2 seconds.
    example_candidates = 3_000
    vocabulary = _vocabulary(model)[:example_candidates]
    # Ratings such as 9/10 are stronger than any word, and say less about a model.
    letters = [word for word in vocabulary if word.isalpha()]
    for word in letters or vocabulary:
        try:
            units = model.read(word)
        except ValueError:  # the tokenizer does not produce this word
            continue
        words.append(word)
        word_logits.append(model.logits(units))
    if not words:
        return []
    logits = np.array(word_logits)
    if logits.shape[1] == 1:  # one logit is the log-odds of the second of two classes
        logits = np.hstack([-logits, logits]) / 2
    # A number that is added to all logits changes no class, so the mean is removed.
    lead = logits - logits.mean(axis=1, keepdims=True)
    # The example has the three strongest words of each of the first classes; more do not fit one
    # line.
    example_words = 3
    # The number of classes in the example: more do not fit into one line.
    example_classes = 4
    strongest = np.argsort(-lead, axis=0, kind="stable")[:example_words, :example_classes]
    return [[words[i] for i in column] for column in strongest.T.tolist()]


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
        "model": model_in_words(model),
        "outputs": list(model.outputs),
        "players": list(model.groupings),
        "absent": list(model.absences),
        "example": example,
        "examples": list(dict.fromkeys([example, *class_examples(model)])),
        "limits": {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS},
        "methods": [
            {field: getattr(method, field) for field in fields} for method in METHODS.values()
        ],
    }


def explain_answer(
    model: Model,
    question: ExplainQuestion,
    checkpoint: Checkpoint = no_checkpoint,
    recent: Recent | None = None,
) -> dict[str, Any]:
    """Return the scores of every player by every method, and the effect of removing players.

    >>> from attn_closed_form import load_demo_model
    >>> question = ExplainQuestion(text="A fine film", methods=["leave-one-out"], removed=[1])
    >>> answer = explain_answer(load_demo_model(), question)
    >>> answer["labels"], answer["removal"]["players"]
    (['a', 'fine', 'film'], [1])
    >>> bool(
    ...     np.isclose(
    ...         answer["removal"]["change"], -answer["methods"]["leave-one-out"]["scores"][1]
    ...     )
    ... )
    True
    """
    methods = None if question.methods is None else as_methods(question.methods)
    explanations = _explanations(model, question, methods, checkpoint, recent)
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
    recent: Recent | None = None,
) -> Explanations:
    """Explain the text method by method; None selects the default methods."""
    if recent is None:
        recent = Recent()

    def gather() -> Explanations:
        units = recent.units(question.text, lambda: _read(model, question))
        try:
            evidence = gather_evidence(model, units, question.settings, methods)
        except ValueError as error:
            field = _refused_setting(model, units, question.settings)
            raise Refusal(422, str(error), field) from None
        return Explanations(evidence)

    # What the methods need decides about the scale, unless the question names one.
    by_need = question.settings.scale is None and need_exact_values(methods)
    key = (question.text, question.settings, by_need)
    known = recent.explanations(key, gather)
    evidence = known.evidence
    # A text that is known may be too long for the methods of this question.
    _check_size(evidence.units, question)
    # The methods of earlier questions about the text stay in `known`, but not in this answer.
    wanted = Explanations(evidence)
    for method in default_methods(evidence) if methods is None else methods:
        if method.name not in known:
            checkpoint()
            try:
                known.update(explain_evidence(evidence, [method]))
            except (ValueError, TypeError) as error:
                raise Refusal(422, str(error), "methods") from None
        if method.name in known:
            wanted[method.name] = known[method.name]
    checkpoint()
    return wanted


def _read(model: Model, question: Question) -> Units:
    """Return the text as the model reads it, or refuse a text that is too long."""
    try:
        units = model.read(question.text)
    except (ValueError, TypeError) as error:
        raise Refusal(422, str(error), "text") from None
    _check_size(units, question)
    return units


def _check_size(units: Units, question: Question) -> None:
    """Refuse a text that is too long for the methods of the question."""
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
    model: Model,
    question: Question,
    checkpoint: Checkpoint = no_checkpoint,
    recent: Recent | None = None,
) -> dict[str, Any]:
    """Return certified reasons, sentence contributions and the SLALOM plane, which the page shows
    after a pause.

    >>> from attn_closed_form import load_demo_model
    >>> answer = why_answer(load_demo_model(), Question(text="A slow start. A wonderful film!"))
    >>> len(answer["reasons"]["sentences"]), len(answer["sentences"]["scores"])
    (2, 2)
    """
    explanations = _explanations(
        model, question, methods=as_methods(SLALOM), checkpoint=checkpoint, recent=recent
    )
    reasons = explanations.reasons().to_dict()
    checkpoint()
    sentences = explanations.sentences().to_dict()
    checkpoint()
    figures = {
        "slalom_plane": plain(slalom_plane(explanations)),
        "sentence_levels": sentence_levels(sentences["scores"]),
    }
    return {"reasons": reasons, "sentences": sentences, "figures": figures}


def compare_answer(
    model: Model,
    question: CompareQuestion,
    checkpoint: Checkpoint = no_checkpoint,
    recent: Recent | None = None,
) -> dict[str, Any]:
    """Return the comparison of another text (the first one) with this text (the second one).

    >>> from attn_closed_form import load_demo_model
    >>> question = CompareQuestion(text="A dull film", other="A fine film")
    >>> compare_answer(load_demo_model(), question)["figures"]["headline"]
    'The probability of positive falls from 61.3% to 5.6% (-55.7 points)'
    """
    asked = question.model_dump()
    other = asked.pop("other")
    first = Question(**{**asked, "text": other})
    second = Question(**asked)
    explanations = [
        _explanations(model, each, methods=None, checkpoint=checkpoint, recent=recent)
        for each in (first, second)
    ]
    comparison = compare(explanations[0], explanations[1])
    checkpoint()
    return {**comparison.to_dict(), "figures": comparison_figures(comparison)}


def report_answer(
    model: Model,
    question: Question,
    checkpoint: Checkpoint = no_checkpoint,
    recent: Recent | None = None,
) -> dict[str, Any]:
    """Return the report as an HTML page, which the page saves as a file."""
    explanations = _explanations(
        model, question, methods=None, checkpoint=checkpoint, recent=recent
    )
    page = report(explanations)
    checkpoint()
    return {"page": page}


def interactions_answer(
    model: Model,
    question: InteractionsQuestion,
    checkpoint: Checkpoint = no_checkpoint,
    recent: Recent | None = None,
) -> dict[str, Any]:
    """Return the Shapley interactions of one player with every other player, and None for the
    player itself.
    """
    explanations = _explanations(model, question, methods=(), checkpoint=checkpoint, recent=recent)
    evidence = explanations.evidence
    logit = evidence.target.logit
    if not evidence.exact and evidence.has_reasons and logit is not None:
        # Interactions are exact for the logit where the probability has no exact values.
        evidence = evidence.on(logit)
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
