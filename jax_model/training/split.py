"""Training and held-out texts: a share of every class is held out at random, with a seed.

The only text of a class is used for training and cannot be held out; a `TableWarning` names the
class. `imdb.py` splits by film.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.app.files.tables import Labelled, TableWarning


class Split(NamedTuple):
    """Training texts, held-out texts, and groups of the former for counting words (None counts
    every occurrence).
    """

    training: Labelled
    held_out: Labelled
    groups: Sequence[Hashable] | None = None


def together(split: Split) -> Split:
    """Use all texts for training; each text that was held out is a separate group.

    >>> data = Labelled(list("abc"), np.array([0, 1, 0]), ("x", "y"))
    >>> together(Split(data.take([0, 1]), data.take([2]))).training.texts
    ['a', 'b', 'c']
    """
    a = split.training
    b = split.held_out
    if split.groups is None:
        groups = None
    else:
        groups = [*split.groups, *(("held out", i) for i in range(len(b.texts)))]
    labels = np.concatenate([a.labels, b.labels])
    return Split(
        training=Labelled(texts=[*a.texts, *b.texts], labels=labels, classes=a.classes),
        held_out=b,
        groups=groups,
    )


def stratified(
    labels: NDArray[Any], classes: int, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], list[int]]:
    """Return a (n,) mask of examples to hold out, some but never all of a class, and the classes
    with only one.
    """
    held_out = np.zeros(len(labels), dtype=bool)
    single = []
    for c in range(classes):
        members = rng.permutation(np.flatnonzero(labels == c))
        if len(members) == 1:
            single.append(c)
        elif len(members):
            # At least one, and never all of them.
            count = min(max(round(share * len(members)), 1), len(members) - 1)
            held_out[members[:count]] = True
    return held_out, single


def split_stratified(data: Labelled, share: float = 0.1, seed: int = 0) -> Split:
    """Hold out a share of every class, at least one text of each class with two or more.

    >>> data = Labelled(list("abcdefg"), np.array([0, 0, 0, 0, 1, 1, 1]), ("x", "y"))
    >>> split = split_stratified(data, share=0.25)
    >>> np.bincount(split.training.labels), np.bincount(split.held_out.labels)
    (array([3, 2]), array([1, 1]))
    """
    if not 0 < share < 1:
        raise ValueError(f"validation: expected a fraction between 0 and 1, got {share}")
    # The seed and the number of texts: tables of different sizes are divided differently.
    rng = np.random.default_rng([seed, len(data.texts)])
    held_out, single = stratified(data.labels, len(data.classes), share, rng)
    if single:
        # Five names are enough for a line.
        shown = ", ".join(repr(data.classes[c][:40]) for c in single[:5])
        if len(single) > 5:
            shown += " and others"
        warnings.warn(
            f"only one text of class {shown}: it is used for training and not for the held-out "
            "scores",
            TableWarning,
            stacklevel=2,
        )
    # Without a held-out text, nothing tells settings apart.
    if not held_out.any():
        raise ValueError(
            f"validation: expected a class with at least two texts, got {len(data.texts)} single "
            "ones"
        )
    return Split(data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out)))
