"""Ragged documents, and batches that only depend on (seed, epoch, step).

A document that is too long is cropped to a random window (`crop`). Each document draws a rate,
uniform in [0, max_unk], at which it loses single tokens (`unk_by` "tokens") or all occurrences of a
word together ("words"). Lost tokens become [UNK] in a model with positions and are deleted in one
without. This is a regularizer, and it keeps the masked documents that Shapley values and LIME
evaluate in distribution. A batch is a pure function of (seed, epoch, step): an interrupted run
resumes with the same batches, and every host of a cluster makes the same ones without
communication.

With positions a row has T_max ids, [UNK] at its end. Without positions, a row is as long as the
longest document of the batch, rounded up to a power of two so that few shapes are compiled; NOTHING
(no token, no mass) fills it up. Documents are not sorted by length: the length of a text depends on
its class, and sorted batches would mix few classes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.attention.predict import NOTHING

from .config import Config

IntArray = NDArray[np.int32]
# Minimum length of a row if it depends on the documents.
SHORTEST_ROW = 32


class Documents(NamedTuple):
    """n documents of any lengths: concatenated ids (N,), document i at starts[i] : starts[i+1], and
    classes (n,).
    """

    ids: IntArray
    starts: NDArray[np.int64]
    labels: IntArray

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The (n,) numbers of tokens of the documents."""
        return np.diff(self.starts)

    def without(self, left_out: NDArray[np.bool_]) -> Documents:
        """Return the documents without some of the D words, given as a mask (D,)."""
        kept = ~left_out[self.ids]
        kept_before = np.concatenate([[0], np.cumsum(kept)])
        return Documents(self.ids[kept], kept_before[self.starts], self.labels)

    def checksum(self) -> int:
        """Return a checksum, to detect a checkpoint of other data."""
        checksum = 0
        for array in (self.ids, self.starts, self.labels):
            checksum = zlib.crc32(array.tobytes(), checksum)
        return checksum


def encode_documents(vocabulary: Vocabulary, texts: Iterable[str], labels: ArrayLike) -> Documents:
    """Encode texts as ragged ids."""
    documents = [vocabulary.encode(text).astype(np.int32) for text in texts]
    lengths = [len(document) for document in documents]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # The empty array keeps the type where there are no documents.
    ids = np.concatenate([np.zeros(0, np.int32), *documents])
    return Documents(ids=ids, starts=starts, labels=np.asarray(labels, dtype=np.int32))


def pad_rows(
    documents: Documents,
    rows: NDArray[np.intp],
    length: int,
    cls: int,
    filler: int,
    skip: NDArray[np.int64] | None = None,
) -> IntArray:
    """Return (B, length) ids of some documents: [CLS], at most length - 1 tokens from `skip` on,
    then `filler`.
    """
    start = documents.starts[rows]
    if skip is not None:
        start = start + skip
    end = documents.starts[rows + 1]
    # Places of the tokens in the array of all ids; those behind the end are of the next document.
    place = start[:, None] + np.arange(length - 1)
    inside = place < end[:, None]
    ids = np.full((len(rows), length), filler, dtype=np.int32)
    ids[:, 0] = cls
    ids[:, 1:][inside] = documents.ids[place[inside]]
    return ids


class Batches(NamedTuple):
    """The training batches of a run; `step_batch(epoch, step)` is deterministic."""

    documents: Documents
    config: Config
    cls: int
    unk: int

    @property
    def steps(self) -> int:
        """The number of batches per epoch; documents of an incomplete batch are used in other
        epochs.
        """
        return self.documents.size // self.config.batch_size

    @property
    def filler(self) -> int:
        """The id that follows a document's last token, and replaces lost tokens."""
        if self.config.positions == "none":
            return NOTHING
        return self.unk

    def row_length(self, lengths: NDArray[np.int64]) -> int:
        """Return the row length, including [CLS], for documents of the given lengths."""
        if self.config.positions != "none":
            return self.config.T_max
        # The next power of two above the longest document: few lengths, so few compilations.
        power = 1 << int(lengths.max(initial=0)).bit_length()
        return max(SHORTEST_ROW, power)

    def order(self, epoch: int) -> NDArray[np.intp]:
        """Return the order of the documents in an epoch."""
        rng = np.random.default_rng([self.config.seed, epoch])
        return rng.permutation(self.documents.size)

    def step_batch(
        self, epoch: int, step: int, order: NDArray[np.intp]
    ) -> tuple[IntArray, IntArray]:
        """Return the ids (B, L) and labels (B,) of one step, with random windows and lost
        tokens.
        """
        c = self.config
        # A generator per step, so that a resumed run draws the same numbers.
        rng = np.random.default_rng([self.config.seed, epoch, step])
        rows = order[step * c.batch_size : (step + 1) * c.batch_size]
        lengths = self.documents.lengths[rows]
        L = min(self.row_length(lengths), c.T_max)
        # Windows of documents that do not fit; of the others, the only one starts at 0.
        cropped = rng.random(len(rows)) < c.crop
        windows = np.maximum(lengths - (L - 1), 0) + 1
        skip = np.where(cropped, rng.integers(windows), 0)
        ids = pad_rows(self.documents, rows, length=L, cls=self.cls, filler=self.filler, skip=skip)
        # Every document loses words at its own rate, [CLS] is never lost.
        rate = rng.uniform(0, c.max_unk, size=(len(rows), 1)).astype(np.float32)
        body = ids[:, 1:]
        if c.unk_by == "words":
            keys = rng.integers(1 << 32, size=(len(rows), 1), dtype=np.uint32)
            chance = _by_word(body, keys)
        else:
            chance = rng.random(body.shape, dtype=np.float32)
        body[chance < rate] = self.filler
        return ids, self.documents.labels[rows]


def _by_word(ids: IntArray, key: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return pseudorandom numbers in [0, 1) that are equal for equal words of a row, by hashing
    word and row.

    A table of random numbers would need B x D of them for every step. The mixing is the finalizer
    of MurmurHash3.
    """
    # 2^32 divided by the golden ratio spreads neighboring ids (Knuth's multiplicative hashing).
    h = ids.astype(np.uint32) * np.uint32(0x9E3779B1) + key
    # Shifts and factors of MurmurHash3.
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(16)
    # The upper 24 bits fill the significand of a float32.
    bits = h >> np.uint32(8)
    return bits.astype(np.float32) * np.float32(2**-24)
