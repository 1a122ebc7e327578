"""The classifier of Lopardo et al. 2024 with its vocabulary and class names: from texts to
predictions and games.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..._arrays import check
from ..._types import Array, Ids, Label
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
from .protocol import TextModel
from .target import Target
from .text import Encoded, Token, Vocabulary, check_text, excerpt, tokenize
from .units import Units

Tokenizer = Callable[[str], Sequence[Token]]
# Tuning: cells of the table of `numbered_in_runs`, 1 MB, which fits into a core's cache.
TABLE_CELLS = 1 << 17


@dataclass(frozen=True, eq=False)
class TextClassifier(TextModel):
    """An attention classifier of texts, as returned by `load_model`, `load_demo_model` and
    training.

    Parameters
    ----------
    weights : AttentionWeights with C outputs
    vocabulary : its D words, with [CLS] and [UNK] at the weights' ids
    outputs : C class names; for C = 1, two names, and the logit is the log-odds of the second
    temperature : divides the logits in `predict_proba`, and in explanations of probabilities
    tokenizer : text -> tokens `(word, start, end)`; `tokenize` by default
    card : metadata stored in the model file: metrics, training settings, versions
    distinct_words : whether the model reads every word of a text once, at its first occurrence
    labels : C labels that `predict` returns instead of the class names: those of the training data,
        which may be integers, booleans or other numbers; () for the names

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
    distinct_words: bool = False
    labels: tuple[Label, ...] = ()

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
        weights = self.weights
        vocabulary = self.vocabulary
        C = self.weights.C
        check(
            "vocabulary",
            len(vocabulary) == weights.D,
            f"D={weights.D} words, one per row of W_e",
            len(vocabulary),
        )
        fits = (vocabulary.cls_id, vocabulary.unk_id) == (weights.cls, weights.unk)
        expected = f"{vocabulary.cls} at id {weights.cls} and {vocabulary.unk} at id {weights.unk}"
        check("vocabulary", fits, expected, f"{vocabulary.cls_id} and {vocabulary.unk_id}")
        default = [f"class {c}" for c in range(C)]
        if C == 1:
            default = ["negative", "positive"]
        self.name_outputs(C, default)
        if weights.room < 1:
            raise ValueError("weights: expected room for at least one token, got T_max = 1")
        absences = ("unk", "deleted")
        # If there is no padding, deleting a word changes nothing else.
        if weights.T_max is None:
            absences = ("deleted", "unk")
        object.__setattr__(self, "absences", absences)

    def __repr__(self) -> str:
        weights = self.weights
        names = ", ".join(self.outputs[:4])
        if len(self.outputs) > 4:
            names += ", ..."
        heads = "1 head"
        if weights.K > 1:
            heads = f"{weights.K} heads"
        tokens = "any number of"
        if weights.T_max is not None:
            tokens = str(weights.T_max - 1)
        return f"TextClassifier({names}; {heads}, {weights.D:,} words, {tokens} tokens)"

    def read(self, raw: Any) -> Units:
        """Read the tokens of a text up to the model's limit, or raise an error if there are
        none.
        """
        check_text(raw)
        (units,) = self.read_many([raw])
        if units is None:
            raise ValueError(f"text: expected at least one word, got {excerpt(raw)}")
        return units

    def read_many(self, raws: Sequence[Any]) -> list[Units | None]:
        """Read the tokens of many texts; None marks inputs that have no words or are not texts."""
        # What is not a text has no words either; `read` says what is wrong with it.
        texts = [raw if isinstance(raw, str) else "" for raw in raws]
        read: list[Units | None] = [None] * len(texts)
        for places, ids, spans, counts in self._encoded(texts):
            numbers, first = numbered_in_runs(ids, counts, len(self.vocabulary))
            words = list(map(self.vocabulary.__getitem__, ids[first].tolist()))
            ends = np.cumsum(counts)
            last_words = np.searchsorted(first, ends)
            start = 0
            first_word = 0
            for place, end, last_word in zip(
                places, ends.tolist(), last_words.tolist(), strict=True
            ):
                # A text without words keeps None.
                if start < end:
                    read[place] = self._units(
                        texts[place],
                        ids[start:end],
                        numbers=numbers[start:end],
                        words=tuple(words[first_word:last_word]),
                        spans=spans[start:end],
                    )
                start = end
                first_word = last_word
        return read

    def _units(
        self, text: str, ids: Ids, numbers: Ids, words: tuple[str, ...], spans: Ids
    ) -> Units:
        """Return the units of a text, up to the model's limit.

        Parameters
        ----------
        ids, spans : (n,) and (n, 2) ids and character spans of all tokens
        numbers : (n,) the number of each token among the distinct words of the text
        words : these words
        """
        room = self.weights.room
        if ids.size > room:
            room = int(room)
            ids = ids[:room]
            numbers = numbers[:room]
            # Words are numbered by their first occurrence, so those that are cut off are the last
            # ones.
            words = words[: int(numbers.max()) + 1]
        return Units(
            labels=_Words(self.vocabulary, ids),
            groups={"words": numbers, "positions": np.arange(ids.size)},
            data=ids,
            text=text,
            places=spans[: ids.size],
            unknown=ids == self.vocabulary.unk_id,
            beyond=spans[ids.size :],
            group_labels={"words": words},
        )

    def _encoded(self, texts: Sequence[str]) -> Iterable[Encoded]:
        """Return the tokens of texts that the model reads, in groups of texts."""
        if self.distinct_words:
            return map(self._first_occurrences, self._all_tokens(texts))
        return self._all_tokens(texts)

    def _first_occurrences(self, encoded: Encoded) -> Encoded:
        """Drop the later occurrences of every word in its text."""
        _, first = numbered_in_runs(encoded.ids, encoded.counts, len(self.vocabulary))
        ends = np.searchsorted(first, np.cumsum(encoded.counts))
        return encoded._replace(
            ids=encoded.ids[first], spans=encoded.spans[first], counts=np.diff(ends, prepend=0)
        )

    def _all_tokens(self, texts: Sequence[str]) -> Iterable[Encoded]:
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
                places=list(range(len(texts))),
                ids=ids,
                spans=spans,
                counts=np.array(list(map(len, documents)), dtype=np.intp),
            )
        ]

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the tokens; [CLS] and padding are the background."""
        return document_scores(self.weights, units.data)

    def heads(self, units: Units, target: Target) -> int:
        """Return the number of heads, all of which enter every output."""
        return self.weights.K

    @property
    def most_heads(self) -> int:
        """The number of heads, all of which enter every output."""
        return self.weights.K

    def prepare_logits(self, units: Sequence[Units]) -> None:
        """Compute the logits of many texts in one pass over all tokens."""
        ids, lengths = _concatenated([text.data for text in units])
        logits = document_scores(self.weights, ids, lengths).logits()
        for text, logits_of_text in zip(units, logits, strict=True):
            text.computed.logits = logits_of_text

    def prepare_games(self, units: Sequence[Units], targets: Sequence[Target]) -> None:
        """Compute the games of many texts in one pass over all tokens per group of equal
        targets.
        """
        by_key: dict[Any, list[int]] = {}
        for i, target in enumerate(targets):
            by_key.setdefault(target.game_key, []).append(i)
        for indices in by_key.values():
            self._prepare_games([units[i] for i in indices], targets[indices[0]])

    def _prepare_games(self, texts: Sequence[Units], target: Target) -> None:
        """Compute the games of many texts for the same target."""
        ids, lengths = _concatenated([text.data for text in texts])
        numbers, labels = zip(*(text.players(target.players) for text in texts), strict=True)
        # Players and tokens are numbered through, over all texts.
        first_player = np.cumsum([0, *map(len, labels[:-1])])
        players = np.concatenate(numbers) + np.repeat(first_player, lengths)
        order = stable_order(players)
        starts = np.cumsum(lengths) - lengths
        # Within a text, its tokens are numbered from 0 again.
        orders = np.split(order - np.repeat(starts, lengths), starts[1:])
        # All logs and exponentials of the batch are computed in one pass; a game is a slice of
        # them.
        scores = document_scores(self.weights, ids, lengths)
        deleted = target.absent == "deleted"
        games = scores.games(target.coefficients, players, order, labels, deleted)
        for text, order_of_text, game in zip(texts, orders, games, strict=True):
            text.computed.orders[target.players] = order_of_text
            text.computed.games[target.game_key] = game

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return attention or gradients by method name."""
        if name not in _GRADIENTS and name != "integrated-gradients":
            return super().inside(name, units, target)
        weights = self.weights
        ids = units.data
        output = target.coefficients
        if name == "integrated-gradients":
            # The smallest tolerance that integrated gradients can reach in float64, whose rounding
            # errors add up to some 1e-13.
            smallest_ig_tol = 1e-12
            scores = integrated_gradients(
                weights, ids, output, tol=max(target.tol, smallest_ig_tol)
            )
            return scores, float(predict(weights, np.full_like(ids, weights.unk)) @ output)
        return _GRADIENTS[name](weights, ids, output)

    def _ids(self, text: str) -> Ids:
        """Return the (T,) ids of a text's tokens, without their places, which are not needed to
        predict.
        """
        if self.tokenizer is tokenize:
            return self.vocabulary.encode(text)
        return self.vocabulary.encode_words(token.word for token in self.tokenizer(text))

    def predict_logits(self, inputs: Iterable[str]) -> Array:
        """Return the (n, C) logits of many texts; a text without words is [CLS] and padding.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> load_demo_model().predict_logits(["A dull film", "A wonderful film"]).round(2)
        array([[-2.83],
               [ 2.12]])
        """
        documents = [self._ids(text) for text in self.several(inputs)]
        if self.distinct_words:
            documents = [np.fromiter(dict.fromkeys(ids.tolist()), np.intp) for ids in documents]
        return predict_many(
            self.weights, [ids[: int(min(ids.size, self.weights.room))] for ids in documents]
        )

    def save(self, path: Any, dtype: Any = np.float64) -> None:
        """Save the model as one `.npz` or `.safetensors` file for `load_model`; see
        `save_model`.
        """
        from ..files.open_model import save_model

        save_model(self, path, dtype)


class _Words(Sequence[str]):
    """The words of token ids, looked up on use: most documents of a corpus never need them."""

    def __init__(self, vocabulary: Vocabulary, ids: Ids) -> None:
        self.vocabulary = vocabulary
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self.vocabulary, self.ids[index])
        return self.vocabulary[self.ids[index]]

    def __iter__(self) -> Iterator[str]:
        return map(self.vocabulary.__getitem__, self.ids.tolist())

    def __eq__(self, other: object) -> bool:
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))


def _concatenated(arrays: Sequence[Ids]) -> tuple[Ids, Ids]:
    """Concatenate arrays, and return their lengths as well."""
    lengths = np.array(list(map(len, arrays)), dtype=np.intp)
    return np.concatenate(arrays), lengths


# The functions of the weights, the token ids and an output, by method.
_GRADIENTS: dict[str, Callable[[AttentionWeights, Ids, Sequence[float]], Array]] = {
    "gradient-mean": gradient_mean,
    "gradient-l1": gradient_l1,
    "gradient-l2": gradient_l2,
    "gradient-x-input": gradient_times_input,
    "lrp": classifier_lrp,
}


def numbered_in_runs(ids: Ids, lengths: Ids, most: int) -> tuple[Ids, Ids]:
    """Apply `numbered` to each of several runs of ids below `most`; return the numbers and first
    indices.

    A table with one row per run and one column per id has the place where the id appears first in
    the run. It is made for as many runs at a time as fit into a cache of `TABLE_CELLS` cells.

    >>> numbered_in_runs(np.array([5, 7, 5, 7, 7, 5]), np.array([3, 3]), 8)
    (array([0, 1, 0, 0, 0, 1]), array([0, 1, 3, 5]))
    """
    numbers = np.empty(ids.size, dtype=np.intp)
    firsts = [np.zeros(0, dtype=np.intp)]
    ends = np.cumsum(lengths)
    rows = max(1, TABLE_CELLS // most)
    for row in range(0, lengths.size, rows):
        lengths_of_rows = lengths[row : row + rows]
        end = int(ends[row + lengths_of_rows.size - 1])
        start = end - int(lengths_of_rows.sum())
        if start == end:
            continue
        place = np.arange(end - start)
        run = np.repeat(np.arange(lengths_of_rows.size), lengths_of_rows)
        cell = ids[start:end] + most * run
        table = np.empty(most * lengths_of_rows.size, dtype=np.intp)
        # The last of several assignments to a cell holds, so the reversed order keeps the first
        # place.
        table[cell[::-1]] = place[::-1]
        first_place = table[cell]
        is_first = first_place == place
        # The number of distinct ids up to a place, counted from the first run of the table.
        count = np.cumsum(is_first)
        run_starts = ends[row : row + lengths_of_rows.size] - lengths_of_rows - start
        # An empty run at the end starts after the last place; no token needs its entry.
        count_before_run = count[np.minimum(run_starts, place[-1])] - 1
        numbers[start:end] = count[first_place] - 1 - np.repeat(count_before_run, lengths_of_rows)
        firsts.append(start + np.flatnonzero(is_first))
    return numbers, np.concatenate(firsts)
