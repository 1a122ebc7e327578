"""What to train on and what to hold out: a share of every class, drawn with the seed.

A class with one text is trained on and cannot be held out, and a `TableWarning` names it. `imdb.py` splits by film.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.files.tables import Labelled, TableWarning


class Split(NamedTuple):
    """Texts to train on, texts to hold out, and groups of the former to count words by (None: every occurrence)."""

    training: Labelled
    held_out: Labelled
    groups: Sequence[Hashable] | None = None


def together(split: Split) -> Split:
    """All texts to train on, those that were held out as well; each of these is a separate group.

    >>> data = Labelled(list("abc"), np.array([0, 1, 0]), ("x", "y"))
    >>> together(Split(data.take([0, 1]), data.take([2]))).training.texts
    ['a', 'b', 'c']
    """
    a, b = split.training, split.held_out
    groups = None if split.groups is None else [*split.groups, *(("held out", i) for i in range(len(b.texts)))]
    return Split(Labelled([*a.texts, *b.texts], np.concatenate([a.labels, b.labels]), a.classes), b, groups)


def stratified(
    labels: NDArray[Any], classes: int, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], list[int]]:
    """(n,) which examples to hold out, some of every class but never all; and the classes that have only one."""
    held_out, single = np.zeros(len(labels), dtype=bool), []
    for c in range(classes):
        members = rng.permutation(np.flatnonzero(labels == c))
        if len(members) == 1:
            single.append(c)
        elif len(members):
            held_out[members[: min(max(round(share * len(members)), 1), len(members) - 1)]] = True
    return held_out, single


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
    held_out, single = stratified(data.labels, len(data.classes), share, rng)
    if single:
        shown = ", ".join(repr(data.classes[c][:40]) for c in single[:5]) + (" and others" if len(single) > 5 else "")
        warnings.warn(
            f"one text only of class {shown}: trained on, but not among the held-out texts that the scores are of",
            TableWarning,
            stacklevel=2,
        )
    if not held_out.any():
        raise ValueError(f"validation: expected a class with at least two texts, got {len(data.texts)} single ones")
    return Split(data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out)))
