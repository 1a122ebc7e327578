"""From texts to batches: ragged documents, and batches that depend on nothing but (seed, epoch, step).

A long document is cut to a random window (`crop`), and each document has its own rate, uniform in [0, max_unk], at
which its tokens become [UNK], each for itself (`unk_by` "tokens") or all occurrences of a word together ("words"). That
is a regulariser, and it keeps the masked documents that Shapley values and LIME ask about in distribution. A batch is
a pure function of (seed, epoch, step): an interrupted run goes on with the same batches, and every host of a cluster
makes the same ones without a word to the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form.models.text import Vocabulary

IntArray = NDArray[np.int32]


class Documents(NamedTuple):
    """n documents of any lengths: ids (N,) one after the other, document i at starts[i] : starts[i+1]; classes (n,)."""

    ids: IntArray
    starts: NDArray[np.int64]
    labels: IntArray

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.labels)

    def checksum(self) -> int:
        """A number that changes with the data, to refuse a checkpoint of other data."""
        return zlib.crc32(self.labels.tobytes(), zlib.crc32(self.starts.tobytes(), zlib.crc32(self.ids.tobytes())))


def encode_documents(vocabulary: Vocabulary, texts: Iterable[str], labels: ArrayLike) -> Documents:
    """Texts as ids, ragged."""
    documents = [vocabulary.encode(text).astype(np.int32) for text in texts]
    starts = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
    ids = np.concatenate([np.zeros(0, np.int32), *documents])
    return Documents(ids, starts, np.asarray(labels, dtype=np.int32))


def pad_rows(
    documents: Documents, rows: NDArray[np.intp], T_max: int, cls: int, unk: int, skip: NDArray[np.int64] | None = None
) -> IntArray:
    """(B, T_max) padded ids of some documents: [CLS], at most T_max - 1 tokens from `skip` on, [UNK] to the end."""
    start = documents.starts[rows] + (0 if skip is None else skip)
    place = start[:, None] + np.arange(T_max - 1)
    inside = place < documents.starts[rows + 1][:, None]
    ids = np.full((len(rows), T_max), unk, dtype=np.int32)
    ids[:, 0] = cls
    ids[:, 1:][inside] = documents.ids[place[inside]]
    return ids


class Batches(NamedTuple):
    """The training batches of a run; `step_batch(epoch, step)` is the same whenever it is asked for."""

    documents: Documents
    T_max: int
    batch_size: int
    max_unk: float
    crop: float
    seed: int
    cls: int
    unk: int
    unk_by: str = "tokens"

    @property
    def steps(self) -> int:
        """Batches per epoch; the documents that do not fill one are left to other epochs' shuffles."""
        return self.documents.size // self.batch_size

    def order(self, epoch: int) -> NDArray[np.intp]:
        """The epoch's shuffle of the documents."""
        return np.random.default_rng([self.seed, epoch]).permutation(self.documents.size)

    def step_batch(self, epoch: int, step: int, order: NDArray[np.intp]) -> tuple[IntArray, IntArray]:
        """Padded ids (B, T_max) and labels (B,) of one step, windows and [UNK]s drawn."""
        rng = np.random.default_rng([self.seed, epoch, step])
        rows = order[step * self.batch_size : (step + 1) * self.batch_size]
        spare = np.maximum(np.diff(self.documents.starts)[rows] - (self.T_max - 1), 0)
        skip = np.where(rng.random(len(rows)) < self.crop, rng.integers(spare + 1), 0)
        ids = pad_rows(self.documents, rows, self.T_max, self.cls, self.unk, skip)
        rate = rng.uniform(0, self.max_unk, size=(len(rows), 1)).astype(np.float32)
        body = ids[:, 1:]
        if self.unk_by == "words":
            chance = _by_word(body, rng.integers(1 << 32, size=(len(rows), 1), dtype=np.uint32))
        else:
            chance = rng.random(body.shape, dtype=np.float32)
        body[chance < rate] = self.unk
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
