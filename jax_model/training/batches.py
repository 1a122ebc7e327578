"""From texts to batches: ragged documents, and batches that depend on nothing but (seed, epoch, step).

A document that is too long is cut to a random window (`crop`), and each document has its own rate, uniform in
[0, max_unk], at which it loses its tokens, each for itself (`unk_by` "tokens") or all occurrences of a word together
("words"). What is lost becomes [UNK] in a model with positions and is deleted in one without. That is a regularizer,
and it keeps the masked documents that Shapley values and LIME evaluate in distribution. A batch is a pure function of
(seed, epoch, step): an interrupted run continues with the same batches, and every host of a cluster makes the same ones
without a word to the others.

With positions a row has T_max ids, [UNK] at its end. Without, a row is as long as the longest document of the batch,
rounded up to a power of two so that few shapes are compiled; NOTHING (no token, no mass) fills it up. Documents are not
sorted by length: short texts have their own classes, and sorted batches would mix few of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form.models.classifier.predict import NOTHING
from attn_closed_form.models.text import Vocabulary

from .config import Config

IntArray = NDArray[np.int32]
# Shortest row where documents decide.
SHORTEST = 32


class Documents(NamedTuple):
    """n documents of any lengths: ids (N,) one after the other, document i at starts[i] : starts[i+1]; classes (n,)."""

    ids: IntArray
    starts: NDArray[np.int64]
    labels: IntArray

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) number of tokens of each."""
        return np.diff(self.starts)

    def checksum(self) -> int:
        """A number that changes with the data, to detect a checkpoint of other data."""
        return zlib.crc32(self.labels.tobytes(), zlib.crc32(self.starts.tobytes(), zlib.crc32(self.ids.tobytes())))


def encode_documents(vocabulary: Vocabulary, texts: Iterable[str], labels: ArrayLike) -> Documents:
    """Texts as ids, ragged."""
    documents = [vocabulary.encode(text).astype(np.int32) for text in texts]
    starts = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    ids = np.concatenate([np.zeros(0, np.int32), *documents])
    return Documents(ids, starts, np.asarray(labels, dtype=np.int32))


def pad_rows(
    documents: Documents,
    rows: NDArray[np.intp],
    length: int,
    cls: int,
    filler: int,
    skip: NDArray[np.int64] | None = None,
) -> IntArray:
    """(B, length) ids of some documents: [CLS], at most length - 1 tokens from `skip` on, `filler` to the end."""
    start = documents.starts[rows] + (0 if skip is None else skip)
    place = start[:, None] + np.arange(length - 1)
    inside = place < documents.starts[rows + 1][:, None]
    ids = np.full((len(rows), length), filler, dtype=np.int32)
    ids[:, 0] = cls
    ids[:, 1:][inside] = documents.ids[place[inside]]
    return ids


class Batches(NamedTuple):
    """The training batches of a run; `step_batch(epoch, step)` is always the same."""

    documents: Documents
    config: Config
    cls: int
    unk: int

    @property
    def steps(self) -> int:
        """Batches per epoch; the documents that do not fill one are left to other epochs' shuffles."""
        return self.documents.size // self.config.batch_size

    @property
    def filler(self) -> int:
        """What follows a document's last token, and takes the place of a lost one."""
        return NOTHING if self.config.positions == "none" else self.unk

    def row_length(self, lengths: NDArray[np.int64]) -> int:
        """Ids in each row of documents of some lengths, [CLS] included, if they are read to their end."""
        if self.config.positions != "none":
            return self.config.T_max
        return max(SHORTEST, 1 << int(lengths.max(initial=0)).bit_length())

    def order(self, epoch: int) -> NDArray[np.intp]:
        """The epoch's shuffle of the documents."""
        return np.random.default_rng([self.config.seed, epoch]).permutation(self.documents.size)

    def step_batch(self, epoch: int, step: int, order: NDArray[np.intp]) -> tuple[IntArray, IntArray]:
        """Ids (B, L) and labels (B,) of one step, windows and lost tokens drawn."""
        c, rng = self.config, np.random.default_rng([self.config.seed, epoch, step])
        rows = order[step * c.batch_size : (step + 1) * c.batch_size]
        lengths = self.documents.lengths[rows]
        L = min(self.row_length(lengths), c.T_max)
        skip = np.where(rng.random(len(rows)) < c.crop, rng.integers(np.maximum(lengths - (L - 1), 0) + 1), 0)
        ids = pad_rows(self.documents, rows, L, self.cls, self.filler, skip)
        rate = rng.uniform(0, c.max_unk, size=(len(rows), 1)).astype(np.float32)
        body = ids[:, 1:]
        if c.unk_by == "words":
            chance = _by_word(body, rng.integers(1 << 32, size=(len(rows), 1), dtype=np.uint32))
        else:
            chance = rng.random(body.shape, dtype=np.float32)
        body[chance < rate] = self.filler
        return ids, self.documents.labels[rows]


def _by_word(ids: IntArray, key: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Numbers in [0, 1) that look random and are equal for equal words of a row: a hash of word and row.

    A table of random numbers would need B x D of them for every step. The mixing is that of MurmurHash3's end.
    """
    h = ids.astype(np.uint32) * np.uint32(0x9E3779B1) + key
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(16)
    return (h >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
