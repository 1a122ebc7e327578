"""The classifier of Lopardo et al. 2024 with its vocabulary and class names: from texts to predictions and games."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..._lazy import cached_property
from ..._types import Array, Ids, Span
from ...attention.gradient import (
    classifier_lrp,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
)
from ...attention.predict import document_scores, predict, predict_many
from ...attention.weights import AttentionWeights
from ...game.scores import PooledScores, stable_order
from .protocol import Model, Units
from .target import Target
from .text import Encoded, Token, Vocabulary, check_text, excerpt, tokenize

Tokenizer = Callable[[str], Sequence[Token]]
# Smallest tolerance that integrated gradients can reach.
LEAST_IG_TOL = 1e-12
# Size of the table of `numbered_in_runs`, which should fit into a core's cache.
MOST_PLACES = 1 << 17


@dataclass(frozen=True, eq=False)
class TextClassifier(Model):
    """An attention classifier of texts, as returned by `load_model`, `load_demo_model` and training.

    Parameters
    ----------
    weights : AttentionWeights with C outputs
    vocabulary : its D words, with [CLS] and [UNK] at the weights' ids
    outputs : C class names; for C = 1, two names, and the logit is the log-odds of the second
    temperature : divides the logits in `predict_proba`, and in explanations of probabilities
    tokenizer : text -> tokens `(word, start, end)`; `tokenize` by default
    card : metadata stored in the model file: metrics, training settings, versions

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
            raise TypeError(
                f"weights: expected AttentionWeights, got {type(self.weights).__name__}"
            )
        if not isinstance(self.vocabulary, Vocabulary):
            raise TypeError(
                f"vocabulary: expected a Vocabulary, got {type(self.vocabulary).__name__}"
            )
        weights, vocabulary, C = self.weights, self.vocabulary, self.weights.C
        if len(vocabulary) != weights.D:
            raise ValueError(
                f"vocabulary: expected D={weights.D} words, one per row of W_e, got {len(vocabulary)}"
            )
        if (vocabulary.cls_id, vocabulary.unk_id) != (weights.cls, weights.unk):
            raise ValueError(
                f"vocabulary: expected {vocabulary.cls} at id {weights.cls} and {vocabulary.unk} at id {weights.unk}, "
                f"got {vocabulary.cls_id} and {vocabulary.unk_id}"
            )
        self.name_outputs(
            C, ("negative", "positive") if C == 1 else [f"class {c}" for c in range(C)]
        )
        if weights.room < 1:
            raise ValueError("weights: expected room for at least one token, got T_max = 1")
        # If there is no padding, deleting a word changes nothing else.
        object.__setattr__(
            self, "absences", ("unk", "deleted") if weights.T_max else ("deleted", "unk")
        )

    def __repr__(self) -> str:
        w = self.weights
        names = ", ".join(self.outputs[:4]) + (", ..." if len(self.outputs) > 4 else "")
        heads = "1 head" if w.K == 1 else f"{w.K} heads"
        return f"TextClassifier({names}; {heads}, {w.D:,} words, {w.T_max - 1 if w.T_max else 'any number of'} tokens)"

    def read(self, raw: Any) -> Units:
        """Read the tokens of a text up to the model's limit, or raise an error if there are none."""
        check_text(raw)
        (units,) = self.read_many([raw])
        if units is None:
            raise ValueError(f"text: expected at least one word, got {excerpt(raw)}")
        return units

    def read_many(self, raws: Sequence[Any]) -> list[Units | None]:
        """Read the tokens of many texts; None marks inputs that have no words or are not texts."""
        texts = [raw if isinstance(raw, str) else "" for raw in raws]
        read: list[Units | None] = [None] * len(texts)
        for places, ids, spans, counts in self._encoded(texts):
            words, first = numbered_in_runs(ids, counts, len(self.vocabulary))
            names = list(map(self.vocabulary.__getitem__, ids[first].tolist()))
            ends = np.cumsum(counts)
            room = int(min(ids.size, self.weights.room))
            start = name = 0
            for place, end, last in zip(
                places, ends.tolist(), np.searchsorted(first, ends).tolist(), strict=True
            ):
                if start < end:
                    tokens = slice(start, end)
                    players = tuple(names[name:last])
                    parts = ids[tokens], words[tokens], players, spans[tokens]
                    read[place] = TextUnits(self.vocabulary, texts[place], *parts, room)
                start = end
                name = last
        return read

    def _encoded(self, texts: Sequence[str]) -> Iterable[Encoded]:
        """Tokenize texts with the model's tokenizer."""
        if self.tokenizer is tokenize:
            return self.vocabulary.encode_many(texts)
        documents = [list(self.tokenizer(text)) for text in texts]
        tokens = list(chain.from_iterable(documents))
        spans = np.array([(token.start, token.end) for token in tokens], dtype=np.intp).reshape(
            -1, 2
        )
        ids = self.vocabulary.encode_words(token.word for token in tokens)
        return [
            Encoded(
                list(range(len(texts))),
                ids,
                spans,
                np.array(list(map(len, documents)), dtype=np.intp),
            )
        ]

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the tokens; [CLS] and padding are the background."""
        return document_scores(self.weights, units.data)

    def heads(self, units: Units, target: Target) -> int:
        """Return the number of heads, all of which enter every output."""
        return self.weights.K

    def prepare_logits(self, units: Sequence[Units]) -> None:
        """Cache the logits of many texts, computed in one pass over all tokens."""
        scores = document_scores(self.weights, *_in_a_row([one.data for one in units]))
        for one, logits in zip(units, scores.logits(), strict=True):
            one.keep("logits", logits)

    def prepare_games(self, units: Sequence[Units], targets: Sequence[Target]) -> None:
        """Cache the games of many texts, computed in one pass over all tokens per group of equal targets."""
        alike: dict[Any, list[int]] = {}
        for i, target in enumerate(targets):
            alike.setdefault(target.game_key, []).append(i)
        for places in alike.values():
            target = targets[places[0]]
            some = [units[i] for i in places]
            ids, lengths = _in_a_row([one.data for one in some])
            numbers, labels = zip(*(one.players(target.players) for one in some), strict=True)
            players = np.concatenate(numbers) + np.repeat(
                np.cumsum([0, *map(len, labels[:-1])]), lengths
            )
            order = stable_order(players)
            starts = np.cumsum(lengths) - lengths
            for one, own in zip(
                some, np.split(order - np.repeat(starts, lengths), starts[1:]), strict=True
            ):
                one.keep(("by player", target.players), own)
            scores = document_scores(self.weights, ids, lengths)
            games = scores.games(
                target.coefficients, players, order, labels, target.absent == "deleted"
            )
            for one, game in zip(some, games, strict=True):
                one.keep(target.game_key, game)

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return attention or gradients by method name."""
        if name not in _GRADIENTS and name != "integrated-gradients":
            return super().inside(name, units, target)
        weights = self.weights
        ids = units.data
        output = target.coefficients
        if name == "integrated-gradients":
            scores = integrated_gradients(weights, ids, output, max(target.tol, LEAST_IG_TOL))
            return scores, float(predict(weights, np.full_like(ids, weights.unk)) @ output)
        return _GRADIENTS[name](weights, ids, output)

    def predict_logits(self, inputs: Iterable[str]) -> Array:
        """Return the (n, C) logits of many texts; a text without words is [CLS] and padding."""
        documents = [
            self.vocabulary.encode_words(token.word for token in self.tokenizer(text))
            for text in self.several(inputs)
        ]
        return predict_many(
            self.weights, [ids[: int(min(ids.size, self.weights.room))] for ids in documents]
        )

    def save(self, path: Any, dtype: Any = np.float64) -> None:
        """Save the model as one `.npz` or `.safetensors` file for `load_model`; see `save_model`."""
        from ..files.open_model import save_model

        save_model(self, path, dtype)


class TextUnits(Units):
    """The tokens of a text as arrays. The tuples of `Units` are built on first use; corpora do not need them."""

    vocabulary: Vocabulary
    all_places: Ids  # (tokens, 2) spans of all tokens, including those beyond the model's limit

    def __init__(
        self,
        vocabulary: Vocabulary,
        text: str,
        ids: Ids,
        words: Ids,
        names: tuple[str, ...],
        spans: Ids,
        room: int,
    ) -> None:
        if ids.size > room:
            ids = ids[:room]
            words = words[:room]
            names = names[: int(words.max()) + 1]
        groups = {"words": words, "positions": np.arange(ids.size)}
        fields = {
            "groups": groups,
            "data": ids,
            "text": text,
            "group_labels": {"words": names},
            "attrs": {},
        }
        self.__dict__.update(fields, vocabulary=vocabulary, all_places=spans)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The words, as the model reads them."""
        return tuple(map(self.vocabulary.__getitem__, self.data.tolist()))

    @property
    def places(self) -> Ids:
        """The (n, 2) character spans of the tokens."""
        return self.all_places[: self.data.size]

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """`places` as tuples."""
        return tuple(map(tuple, self.places.tolist()))

    @cached_property
    def unseen(self) -> tuple[Span, ...]:
        """The spans of the tokens beyond the model's limit."""
        return tuple(map(tuple, self.all_places[self.data.size :].tolist()))

    @cached_property
    def unknown(self) -> tuple[bool, ...]:
        """Flags that are True for tokens outside the vocabulary."""
        return tuple((self.data == self.vocabulary.unk_id).tolist())


def _in_a_row(arrays: Sequence[Ids]) -> tuple[Ids, Ids]:
    """Concatenate arrays, and return their lengths as well."""
    return np.concatenate(arrays), np.array(list(map(len, arrays)), dtype=np.intp)


_GRADIENTS: dict[str, Callable[[AttentionWeights, Ids, Sequence[float]], Array]] = {
    "gradient-mean": gradient_mean,
    "gradient-l1": gradient_l1,
    "gradient-l2": gradient_l2,
    "gradient-x-input": gradient_times_input,
    "lrp": classifier_lrp,
}


def numbered_in_runs(ids: Ids, lengths: Ids, most: int) -> tuple[Ids, Ids]:
    """Apply `numbered` to each of several runs of ids below `most`; return the numbers and first indices.

    >>> numbered_in_runs(np.array([5, 7, 5, 7, 7, 5]), np.array([3, 3]), 8)
    (array([0, 1, 0, 0, 0, 1]), array([0, 1, 3, 5]))
    """
    numbers = np.empty(ids.size, dtype=np.intp)
    firsts = []
    ends = np.cumsum(lengths)
    runs = max(1, MOST_PLACES // most)
    for run in range(0, lengths.size, runs):
        some = lengths[run : run + runs]
        end = int(ends[run + some.size - 1])
        start = end - int(some.sum())
        if start == end:
            continue
        here = np.arange(end - start)
        key = ids[start:end] + most * np.repeat(np.arange(some.size), some)
        place = np.empty(most * some.size, dtype=np.intp)
        place[key[::-1]] = here[
            ::-1
        ]  # the last of several assignments wins, which is that of the first place
        first = place[key]
        new = first == here
        count = np.cumsum(new)
        before = count[np.minimum(ends[run : run + some.size] - some - start, here[-1])] - 1
        numbers[start:end] = count[first] - 1 - np.repeat(before, some)
        firsts.append(start + np.flatnonzero(new))
    return numbers, np.concatenate([np.zeros(0, dtype=np.intp), *firsts])
