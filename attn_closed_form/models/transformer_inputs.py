"""What a transformer gets: token ids between its special tokens, padded in batches, and where each token stands.

Ids go in as they are and are never decoded and tokenised again, which may change them. The special tokens are those
that the tokenizer itself puts around a text: they are read off one encoding with and one without them, because
tokenizers of different versions of transformers share no function for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._types import Ids, Span

#: An id for a token that is hidden: the pad token stands in its place, and attention passes it over.
HIDDEN = -1
# Texts of which a tokenizer makes at least one token.
PROBES = ("the", "a film", "0", ".")
# Tokenizers without a limit of their own say 10^30.
NO_LIMIT = 10**9


class Reading(NamedTuple):
    """A text as tokens: ids (n,), character spans, and the number of each token's word; None where unknown."""

    ids: Ids
    spans: tuple[Span, ...] | None
    words: Ids | None


@dataclass(frozen=True)
class Frame:
    """The special tokens around a text, and the token types that the tokenizer gives out.

    Attributes
    ----------
    prefix, suffix : ids before and after the text
    types : token types of prefix, text and suffix; None where the tokenizer has none

    Examples
    --------
    >>> Frame((101,), (102,)).around(np.array([7, 8]))
    array([101,   7,   8, 102])
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    types: tuple[tuple[int, ...], int, tuple[int, ...]] | None = None

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.prefix) + len(self.suffix)

    def around(self, ids: Ids) -> Ids:
        """The ids with the special tokens around them."""
        return np.concatenate([self.prefix, ids, self.suffix]).astype(np.intp)

    def token_types(self, n: int) -> Ids | None:
        """Token types of a text of n tokens in its frame."""
        if self.types is None:
            return None
        before, own, after = self.types
        return np.concatenate([before, np.full(n, own), after]).astype(np.intp)


def frame_of(tokenizer: Any) -> Frame:
    """The frame that a tokenizer puts around a text."""
    for probe in PROBES:
        body = list(tokenizer(probe, add_special_tokens=False)["input_ids"])
        whole = tokenizer(probe)
        ids, types = list(whole["input_ids"]), whole.get("token_type_ids")
        for start in range(len(ids) - len(body) + 1 if body else 0):
            end = start + len(body)
            if ids[start:end] == body:
                parts = None if types is None else (tuple(types[:start]), int(types[start]), tuple(types[end:]))
                return Frame(tuple(ids[:start]), tuple(ids[end:]), parts)
    raise ValueError(
        f"tokenizer: expected one whose special tokens stand around the text, got {type(tokenizer).__name__}, whose "
        "encodings with and without them do not fit together"
    )


def read_tokens(tokenizer: Any, text: str) -> Reading:
    """The tokens of a text without special tokens; spans and words where the tokenizer knows them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    options = {"return_offsets_mapping": True} if fast else {}
    found = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False, **options)
    ids = np.asarray(found["input_ids"], dtype=np.intp).reshape(-1)
    if not fast:
        return Reading(ids, None, None)
    return Reading(ids, _spans(text, found["offset_mapping"]), _words(found.word_ids(), ids.size))


def _spans(text: str, offsets: Sequence[Span]) -> tuple[Span, ...]:
    """Spans without white space at their ends; tokens that share a character (bytes of an emoji) never overlap."""
    spans, last = [], 0
    for start, end in offsets:
        start = max(int(start), last)
        end = max(int(end), start)
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end = max(start, end - (len(piece) - len(piece.rstrip()))) if piece.strip() else start
        spans.append((start, end))
        last = end
    return tuple(spans)


def _words(words: Sequence[int | None], n: int) -> Ids:
    """Words numbered by first appearance; a token of no word (a special one in the text) is a word of its own."""
    numbers = np.empty(n, dtype=np.intp)
    seen: dict[Any, int] = {}
    for i, word in enumerate(words):
        numbers[i] = seen.setdefault(("alone", i) if word is None else word, len(seen))
    return numbers


def room(model: Any, tokenizer: Any, frame: Frame, max_length: int | None = None) -> int:
    """Tokens of a text that the model reads, without special tokens."""
    limits = [limit for limit in (max_length, getattr(tokenizer, "model_max_length", None)) if limit]
    for name in ("max_position_embeddings", "n_positions"):
        positions = getattr(model.config, name, None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - _first_position(model))
    most = min((limit for limit in limits if limit < NO_LIMIT), default=NO_LIMIT)
    if most - frame.size < 1:
        raise ValueError(f"max_length: expected more than the {frame.size} special tokens, got {most}")
    return int(most) - frame.size


def _first_position(model: Any) -> int:
    """Number of the first position: RoBERTa and its kin count from behind the pad token's id."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return 0 if padding is None else int(padding) + 1
    return 0


def batches(lengths: Ids, batch_size: int, pads: bool) -> Iterator[Ids]:
    """Rows in batches of similar length, the longest first; of equal length where the model cannot be padded.

    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=True)]
    [[1, 3], [0, 2]]
    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=False)]
    [[1], [3], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < order.size:
        stop = min(start + batch_size, order.size)
        if not pads:
            same = lengths[order[start:stop]] == lengths[order[start]]
            stop = start + int(same.sum())
        yield order[start:stop]
        start = stop
