"""Small array functions that several rooms share: softmax, and groups numbered by first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._types import Array, Ids


def softmax(s: Array) -> Array:
    """Softmax over the last axis, max-shifted."""
    g = np.exp(s - s.max(axis=-1, keepdims=True))
    return g / g.sum(axis=-1, keepdims=True)


def numbered(labels: ArrayLike | NDArray[Any]) -> tuple[Ids, Ids]:
    """Number each label by first appearance, and say where each distinct label appears first.

    Parameters
    ----------
    labels : (n,) ids or names, or (n, k) rows

    >>> numbered([5, 7, 5])
    (array([0, 1, 0]), array([0, 1]))
    """
    labels = np.asarray(labels)
    axis = 0 if labels.ndim > 1 else None
    _, first, inverse = np.unique(labels, axis=axis, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    return rank[inverse.reshape(-1)], first[order]


def members(numbers: Ids) -> list[list[int]]:
    """Indices of the members of each group, from the group of each member.

    >>> members(np.array([0, 1, 0]))
    [[0, 2], [1]]
    """
    order = np.argsort(numbers, kind="stable")
    return [group.tolist() for group in np.split(order, np.cumsum(np.bincount(numbers))[:-1])]
