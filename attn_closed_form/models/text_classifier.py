"""The classifier of Lopardo et al. 2024 with its vocabulary and class names: texts in, predictions and games out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .._arrays import numbered
from .._types import Array, Ids
from ..game.pooled_game import PooledGame
from .classifier.attention import alpha_avg, alpha_max, attention, attention_matrices
from .classifier.document_game import pooled_game
from .classifier.gradient import (
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
)
from .classifier.integrated_gradients import integrated_gradients
from .classifier.lrp import classifier_lrp
from .classifier.predict import predict, predict_many
from .classifier.weights import AttentionWeights
from .protocol import Model, Resolved, Units, probabilities
from .text import Token, Vocabulary, tokenize

Tokenizer = Callable[[str], Sequence[Token]]
# Accuracy that integrated gradients can be refined to.
LEAST_IG_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class TextClassifier(Model):
    """An attention classifier of texts. `load_model` and `load_demo_model` make one; so does training.

    Parameters
    ----------
    weights : AttentionWeights with C outputs
    vocabulary : its D words, with [CLS] and [UNK] at the weights' ids
    outputs : C class names; for C = 1, two names, of which the logit speaks for the second
    temperature : divides the logits in `predict_proba`; explanations are of the logits themselves
    tokenizer : text -> tokens `(word, start, end)`; `tokenize` by default
    card : facts about the model, kept in its file: metrics, settings of the training, versions

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> model
    TextClassifier(negative, positive; 6 heads, 6,000 words, 255 tokens)
    >>> model.predict(["A wonderful film.", "A waste of time."]).tolist()
    ['positive', 'negative']
    >>> model.explain("A wonderful film.", "shapley")["shapley"].top(1)[0][0]
    'wonderful'
    """

    weights: AttentionWeights
    vocabulary: Vocabulary
    outputs: tuple[str, ...] = ()
    temperature: float = 1.0
    tokenizer: Tokenizer = tokenize
    card: dict[str, Any] | None = None

    groupings = ("words", "positions")
    absences = ("unk", "deleted")

    def __post_init__(self) -> None:
        if not isinstance(self.weights, AttentionWeights):
            raise TypeError(f"weights: expected AttentionWeights, got {type(self.weights).__name__}")
        if not isinstance(self.vocabulary, Vocabulary):
            raise TypeError(f"vocabulary: expected a Vocabulary, got {type(self.vocabulary).__name__}")
        check_vocabulary(self.weights, self.vocabulary)
        C = self.weights.C
        names = tuple(self.outputs) or (("negative", "positive") if C == 1 else tuple(f"class {c}" for c in range(C)))
        if len(names) != C and not (C == 1 and len(names) == 2):
            raise ValueError(f"outputs: expected {C if C > 1 else '1 or 2'} class names, got {len(names)}")
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
            raise ValueError(f"outputs: expected different, non-empty names, got {names}")
        object.__setattr__(self, "outputs", names)
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature: expected a positive number, got {self.temperature!r}")
        if self.weights.T_max < 2:
            raise ValueError("weights: expected room for at least one token, got T_max = 1")

    def __repr__(self) -> str:
        w, names = self.weights, ", ".join(self.outputs[:4]) + (", ..." if len(self.outputs) > 4 else "")
        return f"TextClassifier({names}; {w.K} heads, {w.D:,} words, {w.T_max - 1} tokens)"

    def read(self, raw: Any) -> Units:
        """The tokens of a text, as far as the model reads; an error if there is none."""
        if not isinstance(raw, str):
            raise TypeError(f"text: expected a string, got {type(raw).__name__}")
        tokens = list(self.tokenizer(raw))
        if not tokens:
            raise ValueError(f"text: expected at least one word, got {_shorten(raw)}")
        room = self.weights.T_max - 1
        ids = self.vocabulary.encode_tokens(tokens[:room])
        spans = tuple((token.start, token.end) for token in tokens)
        return Units(
            labels=tuple(self.vocabulary.decode(ids.tolist())),
            groups={"words": numbered(ids)[0], "positions": np.arange(ids.size)},
            data=ids,
            text=raw,
            spans=spans[:room],
            unknown=tuple((ids == self.weights.unk).tolist()),
            unseen=spans[room:],
        )

    def logits(self, units: Units) -> Array:
        """(C,) logits of a text that was read."""
        return predict(self.weights, units.data)

    def game(self, units: Units, settings: Resolved) -> PooledGame:
        """The text as a game, see `pooled_game`."""
        weights = self._directed(settings.coefficients)
        return pooled_game(weights, units.data, settings.players, settings.absent, labels=units.labels)

    def inside(self, name: str, units: Units, settings: Resolved) -> Any:
        """Attention and gradients by the names of their methods, and what figures draw."""
        weights, ids = self._directed(settings.coefficients), units.data
        if name == "integrated-gradients":
            scores = integrated_gradients(weights, ids, tol=max(settings.tol, LEAST_IG_TOL))
            return scores, float(predict(weights, np.full_like(ids, weights.unk))[0])
        if name == "attention-heads":
            return attention(weights, ids)[:, 1 : 1 + ids.size]
        if name == "attention-matrices":
            return attention_matrices(weights, ids)[:, : 1 + ids.size, : 1 + ids.size]
        if name == "gradient-map":
            return gradient(weights, ids)[: 1 + ids.size].T
        return _INSIDE[name](weights, ids) if name in _INSIDE else None

    def predict_logits(self, texts: Iterable[str]) -> Array:
        """(n, C) logits of many texts; a text without any known word is read as padding."""
        documents = [self.vocabulary.encode_tokens(self.tokenizer(_as_text(text))) for text in _as_texts(texts)]
        room = self.weights.T_max - 1
        return predict_many(self.weights, [ids[:room] for ids in documents])

    def predict_proba(self, texts: Iterable[str]) -> Array:
        """(n, classes) probabilities, columns in the order of `outputs`."""
        found = probabilities(self, self.predict_logits(texts))
        if found is None:
            raise ValueError("outputs: expected at least two classes for probabilities, got one")
        return found

    def predict(self, texts: Iterable[str]) -> Any:
        """(n,) names of the most probable classes."""
        return np.asarray(self.outputs)[self.predict_proba(texts).argmax(axis=1)]

    def save(self, path: Any, dtype: Any = np.float64) -> None:
        """Write one `.npz` or `.safetensors` file, which `load_model` reads; see `save_model`."""
        from ..files.model_file import save_model

        save_model(self, path, dtype)

    @cached_property
    def _direction_cache(self) -> Callable[[tuple[float, ...]], AttentionWeights]:
        return lru_cache(maxsize=64)(self.weights.project)

    def _directed(self, coefficients: tuple[float, ...]) -> AttentionWeights:
        """Weights with the one output that is explained; kept, since each needs tables of its own."""
        return self.weights if coefficients == (1.0,) else self._direction_cache(coefficients)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_direction_cache"}


_INSIDE: dict[str, Callable[[AttentionWeights, Ids], Array]] = {
    "alpha-mean": alpha_avg,
    "alpha-max": alpha_max,
    "gradient-mean": gradient_mean,
    "gradient-l1": gradient_l1,
    "gradient-l2": gradient_l2,
    "gradient-x-input": gradient_times_input,
    "lrp": classifier_lrp,
}


def check_vocabulary(weights: AttentionWeights, vocabulary: Vocabulary) -> None:
    """The vocabulary must have one word per row of W_e, and [CLS] and [UNK] at the weights' ids."""
    if len(vocabulary) != weights.D:
        raise ValueError(f"vocabulary: expected D={weights.D} words, one per row of W_e, got {len(vocabulary)}")
    if (vocabulary.cls_id, vocabulary.unk_id) != (weights.cls, weights.unk):
        raise ValueError(
            f"vocabulary: expected {vocabulary.cls} at id {weights.cls} and {vocabulary.unk} at id {weights.unk}, "
            f"got {vocabulary.cls_id} and {vocabulary.unk_id}"
        )


def _as_texts(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise TypeError("texts: expected a list of strings, got one string; put it in a list")
    return texts


def _as_text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"texts: expected strings, got {type(text).__name__}")
    return text


def _shorten(text: str, limit: int = 40) -> str:
    if not text.strip():
        return "an empty text" if not text else "only white space"
    return repr(text if len(text) <= limit else text[:limit] + "…")
