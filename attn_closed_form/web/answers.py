"""What the API says: an explanation with the effect of removing words, and the interactions of one word.

**Interactions of one player** need no d x d matrix. The interaction index of i and j (Grabisch and Roubens, 1999) is
the Shapley value of j in the game of the others with i present, minus that with i absent: both average the same second
differences with the same weights s! (d - s - 2)! / (d - 1)!. That is two Shapley computations, O(L m d).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._types import Array
from ..classifier.weights import AttentionWeights
from ..explainable.text import Vocabulary
from ..explanations.explanation import Explanation, Explanations, explain_document
from ..explanations.methods import METHODS, Case, Method
from ..game.engine import accuracy
from ..game.pooled_game import PooledGame, merge_tokens
from ..game.quadrature import ToleranceError
from ..game.shapley import shapley
from ..show.palette import levels
from .fields import MAX_BYTES, MAX_CHARACTERS, Question, find_player, read_text

# Methods whose score is a change of the prediction: they say what happens when a word goes. The others (attention,
# norms, values, log weights) are on scales of their own.
FORECASTS = ("ig", "lime", "lime-sampled", "shapley", "banzhaf", "loo", "slalom-linear")


def model_answer(weights: AttentionWeights, vocabulary: Vocabulary, name: str) -> dict[str, Any]:
    """Everything about the model that the page has to know before the first word."""
    return {
        "name": name,
        "heads": weights.K,
        "words": len(vocabulary),
        "tokens": weights.T_max - 1,
        "outputs": weights.C,
        "limits": {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS},
        "methods": [method_answer(method) for method in METHODS.values()],
    }


def method_answer(method: Method) -> dict[str, Any]:
    """A row of the table of methods."""
    return {
        "name": method.name,
        "label": method.label,
        "kind": method.kind,
        "accuracy": method.accuracy,
        "summary": method.summary,
        "forecast": method.name in FORECASTS,
    }


def explain_answer(weights: AttentionWeights, vocabulary: Vocabulary, asked: Question) -> dict[str, Any]:
    """Scores of every player by every method asked, and what removing players does.

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> weights, vocabulary = random_weights(seed=0, D=5), Vocabulary(["[CLS]", "[UNK]", "a", "fine", "film"])
    >>> asked = Question("A fine film", (METHODS["loo"],), removed=(1,))
    >>> answer = explain_answer(weights, vocabulary, asked)
    >>> answer["tokens"], answer["removal"]["players"]
    (['a', 'fine', 'film'], [1])
    >>> bool(np.isclose(answer["removal"]["change"], -answer["methods"]["loo"]["scores"][1]))
    True
    """
    document = read_text(weights, vocabulary, asked.text)
    found = explain_document(weights, vocabulary, document, asked.methods, asked.players, asked.absent, asked.output)
    first = next(iter(found.values()))
    removed = sorted({find_player("removed", named, first.spans) for named in asked.removed})
    return {
        "text": asked.text,
        "players": asked.players,
        "absent": asked.absent,
        "output": asked.output,
        "prediction": first.prediction,
        "tokens": list(first.tokens),
        "spans": [[list(span) for span in spans] for spans in first.spans],
        "unknown": list(first.unknown),
        "unseen": [list(span) for span in first.unseen],
        "methods": {name: _method_scores(e) for name, e in found.items()},
        "removal": _removal(found, removed) if removed else None,
    }


def _method_scores(e: Explanation) -> dict[str, Any]:
    return {
        "label": e.info.label,
        "kind": e.info.kind,
        "accuracy": e.info.accuracy,
        "base_value": e.base_value,
        "error": e.error,
        "scores": e.scores.tolist(),
        "levels": levels(e.strength).tolist(),
    }


def _removal(found: Explanations, removed: list[int]) -> dict[str, Any]:
    """The prediction without the players, and what each forecast made of it: minus the sum of their scores."""
    first = next(iter(found.values()))
    assert first.game is not None
    present = np.ones(first.game.d, dtype=bool)
    present[removed] = False
    prediction = float(first.game.value(present))
    change = prediction - first.prediction
    said: Mapping[str, float] = {
        name: -float(e.scores[removed].sum()) for name, e in found.items() if name in FORECASTS
    }
    return {
        "players": removed,
        "prediction": prediction,
        "change": change,
        "forecasts": {name: {"change": guess, "error": guess - change} for name, guess in said.items()},
    }


def interactions_answer(weights: AttentionWeights, vocabulary: Vocabulary, asked: Question) -> dict[str, Any]:
    """Shapley interactions of one player with every other one; null at its own place."""
    document = read_text(weights, vocabulary, asked.text)
    case = Case(weights, document.ids, asked.players, asked.absent, asked.output)
    spans: list[list[tuple[int, int]]] = [[] for _ in range(case.game.d)]
    for span, j in zip(document.spans, case.player_of, strict=True):
        spans[j].append(span)
    i = find_player("player", asked.player, tuple(map(tuple, spans)))
    row, error = interactions_of(case.game, i)
    return {
        "player": i,
        "tokens": vocabulary.decode(int(label) for label in case.game.labels),
        "interactions": [None if j == i else value for j, value in enumerate(row.tolist())],
        "error": error,
    }


def interactions_of(game: PooledGame, player: int, tol: float = 1e-10) -> tuple[Array, float]:
    """Shapley interactions of one player with the others, (d,) with 0 at its own place, and a bound of their error.

    Where float64 cannot keep `tol`, it is loosened by powers of ten, as `explain` does.

    Examples
    --------
    >>> from attn_closed_form import shapley_interactions
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, -2.0], v=[1.0, -1.0, 4.0], s_background=0.5, v_background=0.0)
    >>> row, error = interactions_of(game, 1)
    >>> bool(np.allclose(row[[0, 2]], shapley_interactions(game)[1, [0, 2]], atol=2 * error)), error < 1e-9
    (True, True)
    """
    row, error = np.zeros(game.d), 0.0
    others = np.arange(game.d) != player
    if game.d > 1:
        for present in (True, False):
            phi, bound = _attainable_shapley(_with_fixed(game, player, present), tol)
            row[others] += phi if present else -phi
            error += bound
    return row, error


def _with_fixed(game: PooledGame, player: int, present: bool) -> PooledGame:
    """The game of the others, `player` being part of the background in one of its two states."""
    s, v = (game.s, game.v) if present else (game.s_absent, game.v_absent)
    s_background, v_background = merge_tokens(
        np.stack([game.s_background, s[:, player]], axis=1), np.stack([game.v_background, v[:, player]], axis=1)
    )
    others = np.arange(game.d) != player
    return PooledGame(
        s=game.s[:, others],
        v=game.v[:, others],
        s_absent=game.s_absent[:, others],
        v_absent=game.v_absent[:, others],
        s_background=s_background,
        v_background=v_background,
        bias=game.bias,
        empty_value=game.empty_value,
        labels=tuple(label for label, other in zip(game.labels, others, strict=True) if other),
    )


def _attainable_shapley(game: PooledGame, tol: float) -> tuple[Array, float]:
    while True:
        try:
            return shapley(game, tol), tol * accuracy(game, tol).scale
        except ToleranceError:
            if tol >= 1:
                raise
            tol *= 10
