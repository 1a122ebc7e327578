"""What to train on and what to hold out: stratified for any table, by film for IMDB.

**Any table**: a share of every class, drawn with the seed. A class with one text is trained on and cannot be held out;
a `TableWarning` says so.

**IMDB.** P1 (appendix F) has 20,000 reviews to train on and 5,000 to validate with, and does not say which. In aclImdb
the reviews of one film have neighbouring numbers (neighbours share a hundred times more rare words than random pairs
do), and no film is in both train and test. A random split therefore validates on films that the model has seen: the
same settings showed 88.7 % with a random split and 85.4 % with ours, which takes the last fifth of the numbers of each
class, so that validation asks what the test set asks. For the same reason the vocabulary counts a word once per group
of `FILM_NUMBERS` neighbours: a hero's name, frequent in the reviews of one film, tells nothing about the next.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.files.labelled import Labelled
from attn_closed_form.files.tables import TableWarning
from benchmarks.datasets import Reviews

# IMDB has at most 30 reviews per film, and the two classes are numbered apart.
FILM_NUMBERS = 25
SENTIMENTS = ("negative", "positive")


class Split(NamedTuple):
    """Texts to train on, texts to hold out, and groups of the former to count words by (None: every occurrence)."""

    training: Labelled
    held_out: Labelled
    groups: Sequence[Hashable] | None = None


def together(split: Split) -> Split:
    """All texts to train on, those that were held out as well; each of these is a group of its own.

    >>> data = Labelled(list("abc"), np.array([0, 1, 0]), ("x", "y"))
    >>> together(Split(data.take([0, 1]), data.take([2]))).training.texts
    ['a', 'b', 'c']
    """
    a, b = split.training, split.held_out
    groups = None if split.groups is None else [*split.groups, *(("held out", i) for i in range(len(b.texts)))]
    return Split(Labelled([*a.texts, *b.texts], np.concatenate([a.labels, b.labels]), a.classes), b, groups)


def split_stratified(data: Labelled, share: float = 0.1, seed: int = 0) -> Split:
    """Hold out a share of every class, at least one text of each class that has two.

    >>> data = Labelled(list("abcdefg"), np.array([0, 0, 0, 0, 1, 1, 1]), ("x", "y"))
    >>> split = split_stratified(data, share=0.25)
    >>> np.bincount(split.training.labels), np.bincount(split.held_out.labels)
    (array([3, 2]), array([1, 1]))
    """
    if not 0 < share < 1:
        raise ValueError(f"validation: expected a fraction between 0 and 1, got {share}")
    rng = np.random.default_rng([seed, len(data.texts)])
    held_out = np.zeros(len(data.texts), dtype=bool)
    single = []
    for c, name in enumerate(data.classes):
        members = rng.permutation(np.flatnonzero(data.labels == c))
        if len(members) == 1:
            single.append(name)
        elif len(members):
            held_out[members[: min(max(round(share * len(members)), 1), len(members) - 1)]] = True
    if single:
        shown = ", ".join(repr(name[:40]) for name in single[:5]) + (" and others" if len(single) > 5 else "")
        warnings.warn(
            f"one text only of class {shown}: trained on, but not among the held-out texts that the scores are of",
            TableWarning,
            stacklevel=2,
        )
    if not held_out.any():
        raise ValueError(f"validation: expected a class with at least two texts, got {len(data.texts)} single ones")
    return Split(data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out)))


def review_numbers(names: Sequence[str]) -> NDArray[np.int64]:
    """The numbers in names such as 'train/pos/127_9.txt'; without them, the order itself.

    >>> review_numbers(["train/neg/127_3.txt", "train/pos/4_10.txt"])
    array([127,   4])
    """
    found = [re.search(r"(\d+)_\d+\.txt$", name) for name in names]
    return np.array([int(match[1]) if match else i for i, match in enumerate(found)], dtype=np.int64)


def split_by_film(reviews: Reviews, share: float = 0.2) -> Split:
    """Hold out the last numbers of each class: 5,000 of IMDB's 25,000 reviews."""
    if not 0 < share < 1:
        raise ValueError(f"validation: expected a fraction between 0 and 1, got {share}")
    numbers = review_numbers(reviews.names)
    held_out = np.zeros(len(numbers), dtype=bool)
    for label in (0, 1):
        members = np.flatnonzero(reviews.labels == label)
        count = round(share * len(members))
        if not 0 < count < len(members):
            raise ValueError(
                f"validation: expected a fraction that leaves reviews of label {label} on both sides, "
                f"got {share} of {len(members)}"
            )
        held_out[members[np.argsort(numbers[members], kind="stable")][len(members) - count :]] = True
    data, rows = Labelled(reviews.texts, reviews.labels, SENTIMENTS), np.flatnonzero(~held_out)
    films = [(int(reviews.labels[i]), int(numbers[i]) // FILM_NUMBERS) for i in rows]
    return Split(data.take(rows), data.take(np.flatnonzero(held_out)), films)
