"""From reviews to batches: the split, ragged documents, and batches that depend on nothing but (seed, epoch, step).

**The split.** P1 (appendix F) has 20,000 reviews to train on and 5,000 to validate with, and does not say which. In
aclImdb the reviews of one film have neighbouring numbers (neighbours share a hundred times more rare words than random
pairs do), and no film is in both train and test. A random split therefore validates on films that the model has seen:
the same settings showed 88.7 % with a random split and 85.4 % with ours, which takes the last fifth of the numbers of
each class, so that validation asks what the test set asks. For the same reason the vocabulary counts a word once a
group of `FILM_NUMBERS` neighbours: a hero's name, frequent in the reviews of one film, tells nothing about the next.

**Batches.** A long document is cut to a random window (`crop`), and each document has its own rate, uniform in
[0, max_unk], at which its tokens become [UNK]. That is a regulariser, and it keeps the masked documents that Shapley
values and LIME ask about in distribution. A batch is a pure function of (seed, epoch, step): an interrupted run
goes on with the same batches, and every host of a cluster makes the same ones without a word to the others.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form.evaluate.datasets import Reviews
from attn_closed_form.explainable.text import Vocabulary

# IMDB has at most 30 reviews a film, and the two classes are numbered apart.
FILM_NUMBERS = 25

IntArray = NDArray[np.int32]


class Documents(NamedTuple):
    """n documents of any lengths: ids (N,) one after the other, document i at starts[i] : starts[i+1]; labels (n,)."""

    ids: IntArray
    starts: NDArray[np.int64]
    labels: NDArray[np.float32]

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
    return Documents(ids, starts, np.asarray(labels, dtype=np.float32))


def review_numbers(names: Sequence[str]) -> NDArray[np.int64]:
    """The numbers in names such as 'train/pos/127_9.txt'; without them, the order itself.

    >>> review_numbers(["train/neg/127_3.txt", "train/pos/4_10.txt"])
    array([127,   4])
    """
    found = [re.search(r"(\d+)_\d+\.txt$", name) for name in names]
    return np.array([int(match[1]) if match else i for i, match in enumerate(found)], dtype=np.int64)


def split_by_film(reviews: Reviews, validation: float = 0.2) -> tuple[Reviews, Reviews]:
    """Training and validation reviews, 20,000 and 5,000 of IMDB's 25,000: the last numbers of each class validate."""
    if not 0 < validation < 1:
        raise ValueError(f"validation: expected a fraction between 0 and 1, got {validation}")
    numbers = review_numbers(reviews.names)
    held_out = np.zeros(len(numbers), dtype=bool)
    for label in (0, 1):
        members = np.flatnonzero(reviews.labels == label)
        count = round(validation * len(members))
        if not 0 < count < len(members):
            raise ValueError(
                f"validation: expected a fraction that leaves reviews of label {label} on both sides, "
                f"got {validation} of {len(members)}"
            )
        held_out[members[np.argsort(numbers[members], kind="stable")][len(members) - count :]] = True
    return _take(reviews, np.flatnonzero(~held_out)), _take(reviews, np.flatnonzero(held_out))


def _take(reviews: Reviews, rows: NDArray[np.intp]) -> Reviews:
    return Reviews([reviews.texts[i] for i in rows], reviews.labels[rows], [reviews.names[i] for i in rows])


def film_groups(reviews: Reviews) -> list[tuple[int, int]]:
    """A label for every review that is the same for (most) reviews of one film, to count words by."""
    numbers = review_numbers(reviews.names)
    return [(int(label), int(number) // FILM_NUMBERS) for label, number in zip(reviews.labels, numbers, strict=True)]


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

    @property
    def steps(self) -> int:
        """Batches an epoch; the documents that do not fill one are left to other epochs' shuffles."""
        return self.documents.size // self.batch_size

    def order(self, epoch: int) -> NDArray[np.intp]:
        """The epoch's shuffle of the documents."""
        return np.random.default_rng([self.seed, epoch]).permutation(self.documents.size)

    def step_batch(self, epoch: int, step: int, order: NDArray[np.intp]) -> tuple[IntArray, NDArray[np.float32]]:
        """Padded ids (B, T_max) and labels (B,) of one step, windows and [UNK]s drawn."""
        rng = np.random.default_rng([self.seed, epoch, step])
        rows = order[step * self.batch_size : (step + 1) * self.batch_size]
        spare = np.maximum(np.diff(self.documents.starts)[rows] - (self.T_max - 1), 0)
        skip = np.where(rng.random(len(rows)) < self.crop, rng.integers(spare + 1), 0)
        ids = pad_rows(self.documents, rows, self.T_max, self.cls, self.unk, skip)
        rate = rng.uniform(0, self.max_unk, size=(len(rows), 1)).astype(np.float32)
        body = ids[:, 1:]
        body[rng.random(body.shape, dtype=np.float32) < rate] = self.unk
        return ids, self.documents.labels[rows]
