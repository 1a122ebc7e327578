"""The classifier of Lopardo et al. 2024 with its vocabulary and class names: texts in, predictions and games out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import numbered
from .._types import Array, Ids
from .classifier.gradient import (
    classifier_lrp,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
)
from .classifier.predict import document_scores, predict, predict_many
from .classifier.weights import AttentionWeights
from .protocol import Model, Resolved, Units
from .scores import PooledScores
from .text import Token, Vocabulary, check_text, excerpt, tokenize, words_and_spans

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
    outputs : C class names; for C = 1, two names, and the logit is the log-odds of the second
    temperature : divides the logits in `predict_proba`, and in explanations of probabilities
    tokenizer : text -> tokens `(word, start, end)`; `tokenize` by default
    card : facts about the model, kept in its file: metrics, settings of the training, versions

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> model
    TextClassifier(negative, positive; 1 head, 6,000 words, any number of tokens)
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

    def __post_init__(self) -> None:
        if not isinstance(self.weights, AttentionWeights):
            raise TypeError(f"weights: expected AttentionWeights, got {type(self.weights).__name__}")
        if not isinstance(self.vocabulary, Vocabulary):
            raise TypeError(f"vocabulary: expected a Vocabulary, got {type(self.vocabulary).__name__}")
        weights, vocabulary, C = self.weights, self.vocabulary, self.weights.C
        if len(vocabulary) != weights.D:
            raise ValueError(f"vocabulary: expected D={weights.D} words, one per row of W_e, got {len(vocabulary)}")
        if (vocabulary.cls_id, vocabulary.unk_id) != (weights.cls, weights.unk):
            raise ValueError(
                f"vocabulary: expected {vocabulary.cls} at id {weights.cls} and {vocabulary.unk} at id {weights.unk}, "
                f"got {vocabulary.cls_id} and {vocabulary.unk_id}"
            )
        self.name_outputs(C, ("negative", "positive") if C == 1 else [f"class {c}" for c in range(C)])
        if weights.room < 1:
            raise ValueError("weights: expected room for at least one token, got T_max = 1")
        # If there is no padding, deleting a word changes nothing else.
        object.__setattr__(self, "absences", ("unk", "deleted") if weights.T_max else ("deleted", "unk"))

    def __repr__(self) -> str:
        w, names = self.weights, ", ".join(self.outputs[:4]) + (", ..." if len(self.outputs) > 4 else "")
        heads = "1 head" if w.K == 1 else f"{w.K} heads"
        return f"TextClassifier({names}; {heads}, {w.D:,} words, {w.T_max - 1 if w.T_max else 'any number of'} tokens)"

    def read(self, raw: Any) -> Units:
        """The tokens of a text, as far as the model reads; an error if there is none."""
        check_text(raw)
        if self.tokenizer is tokenize:
            words, spans = words_and_spans(raw)
        else:
            tokens = list(self.tokenizer(raw))
            words, spans = [token.word for token in tokens], [(token.start, token.end) for token in tokens]
        if not words:
            raise ValueError(f"text: expected at least one word, got {excerpt(raw)}")
        room = int(min(len(words), self.weights.room))
        ids = self.vocabulary.encode_words(words[:room])
        return Units(
            labels=tuple(self.vocabulary.decode(ids.tolist())),
            groups={"words": numbered(ids)[0], "positions": np.arange(ids.size)},
            data=ids,
            text=raw,
            spans=tuple(spans[:room]),
            unknown=tuple((ids == self.weights.unk).tolist()),
            unseen=tuple(spans[room:]),
        )

    def scores(self, units: Units) -> PooledScores:
        """Log-masses and values of the tokens; [CLS] and padding are the background."""
        return document_scores(self.weights, units.data)

    def inside(self, name: str, units: Units, settings: Resolved) -> Any:
        """Attention and gradients by the names of their methods."""
        if name not in _GRADIENTS and name != "integrated-gradients":
            return super().inside(name, units, settings)
        weights, ids, output = self.weights, units.data, settings.coefficients
        if name == "integrated-gradients":
            scores = integrated_gradients(weights, ids, output, max(settings.tol, LEAST_IG_TOL))
            return scores, float(predict(weights, np.full_like(ids, weights.unk)) @ output)
        return _GRADIENTS[name](weights, ids, output)

    def predict_logits(self, inputs: Iterable[str]) -> Array:
        """(n, C) logits of many texts; a text without words is [CLS] and padding."""
        documents = [
            self.vocabulary.encode_words(token.word for token in self.tokenizer(text)) for text in self.several(inputs)
        ]
        return predict_many(self.weights, [ids[: int(min(ids.size, self.weights.room))] for ids in documents])

    def save(self, path: Any, dtype: Any = np.float64) -> None:
        """Write one `.npz` or `.safetensors` file, which `load_model` reads; see `save_model`."""
        from ..files.open_model import save_model

        save_model(self, path, dtype)


_GRADIENTS: dict[str, Callable[[AttentionWeights, Ids, Sequence[float]], Array]] = {
    "gradient-mean": gradient_mean,
    "gradient-l1": gradient_l1,
    "gradient-l2": gradient_l2,
    "gradient-x-input": gradient_times_input,
    "lrp": classifier_lrp,
}
