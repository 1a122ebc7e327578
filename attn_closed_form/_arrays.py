"""Small functions that several subpackages share: softmax, groups by first appearance, ranks, tensors, checks, JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._types import Array, Ids

# Size of the table of `numbered_in_runs`, which should fit into a core's cache.
MOST_PLACES = 1 << 17


def softmax(s: Array) -> Array:
    """Compute the max-shifted softmax over the last axis."""
    g = np.exp(s - s.max(axis=-1, keepdims=True))
    return g / g.sum(axis=-1, keepdims=True)


def numbered(labels: ArrayLike | NDArray[Any]) -> tuple[Ids, Ids]:
    """Number labels, (n,) or rows (n, k), by first appearance; also return the index where each appears first.

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


def numbered_in_runs(ids: Ids, lengths: Ids, most: int) -> tuple[Ids, Ids]:
    """Apply `numbered` to each of several runs of ids below `most`; return the numbers and first indices.

    >>> numbered_in_runs(np.array([5, 7, 5, 7, 7, 5]), np.array([3, 3]), 8)
    (array([0, 1, 0, 0, 0, 1]), array([0, 1, 3, 5]))
    """
    numbers, firsts = np.empty(ids.size, dtype=np.intp), []
    ends = np.cumsum(lengths)
    runs = max(1, MOST_PLACES // most)
    for run in range(0, lengths.size, runs):
        some = lengths[run : run + runs]
        end = int(ends[run + some.size - 1])
        start = end - int(some.sum())
        if start == end:
            continue
        here = np.arange(end - start)
        key = ids[start:end] + most * np.repeat(np.arange(some.size), some)
        place = np.empty(most * some.size, dtype=np.intp)
        place[key[::-1]] = here[
            ::-1
        ]  # the last of several assignments wins, which is that of the first place
        first = place[key]
        new = first == here
        count = np.cumsum(new)
        before = count[np.minimum(ends[run : run + some.size] - some - start, here[-1])] - 1
        numbers[start:end] = count[first] - 1 - np.repeat(before, some)
        firsts.append(start + np.flatnonzero(new))
    return numbers, np.concatenate([np.zeros(0, dtype=np.intp), *firsts])


def run_lengths(starts: Ids, n: int) -> Ids:
    """Return the lengths of runs of n entries, like `np.diff(starts, append=n)` but several times faster.

    >>> run_lengths(np.array([0, 2, 3]), 7)
    array([2, 1, 4])
    """
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = n - starts[-1]
    return lengths


def members(numbers: Ids) -> list[list[int]]:
    """Return the indices of the members of each group, given the group of each member.

    >>> members(np.array([0, 1, 0]))
    [[0, 2], [1]]
    """
    order = np.argsort(numbers, kind="stable")
    return [group.tolist() for group in np.split(order, np.cumsum(np.bincount(numbers))[:-1])]


SCALARS = {float, int, str, bool, type(None)}


def plain(value: Any) -> Any:
    """Convert nested arrays, tuples and named tuples to lists and dicts for `json.dumps`.

    >>> plain({"spans": ((0, 1),), "scores": np.ones(2)})
    {'spans': [[0, 1]], 'scores': [1.0, 1.0]}
    """
    if isinstance(value, tuple | list):
        parts = [part if type(part) in SCALARS else plain(part) for part in value]
        return dict(zip(value._fields, parts, strict=True)) if hasattr(value, "_fields") else parts
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def ranks(x: ArrayLike) -> Array:
    """Return ranks from 1; equal numbers share their mean rank."""
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or np.isnan(values).any():
        raise ValueError(f"x: expected one-dimensional numbers, got shape {values.shape} or NaN")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Compute Spearman's rank correlation, or NaN if either argument is constant."""
    a, b = ranks(x), ranks(y)
    if a.shape != b.shape:
        raise ValueError(f"y: expected shape {a.shape} like x, got {b.shape}")
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def as_array(value: Any) -> NDArray[Any]:
    """Convert an array or tensor to a NumPy array of the same type (bfloat16, which NumPy lacks, to float32)."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        return np.asarray((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())
    return (
        value if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    )  # which `unmasked` rejects


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name, which suggests the closest known name if there is one.

    >>> did_you_mean("shapely", ["lime", "shapley"]), did_you_mean("x", ["lime"])
    ("; did you mean 'shapley'?", '')
    """
    nearest = get_close_matches(str(name), list(choices), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def whole(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Return an integer of at least `least` and at most `most`, or raise an error about `name`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not least <= value <= most
    ):
        expected = f"of at least {least}" if most == math.inf else f"in {least}..{most}"
        raise ValueError(f"{name}: expected an integer {expected}, got {value!r}")
    return int(value)


def number(name: str, value: Any, expected: str, fits: Callable[[float], bool]) -> float:
    """Return a real number that `fits`, or raise an error about `name` that quotes `expected`."""
    if not isinstance(value, Real) or isinstance(value, bool) or not fits(float(value)):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return a positive, finite number, or raise an error about `name`."""
    return number(name, value, "a positive number", lambda x: 0 < x < math.inf)


def unmasked(name: str, value: Any) -> Any:
    """Return the value, or raise an error about `name` for a masked array, whose mask would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name}: expected numbers without a mask; remove or fill the masked ones")
    return value


def real(name: str, value: Any) -> NDArray[Any]:
    """Return an array of real numbers with its type unchanged; every array of numbers is checked here.

    Masked arrays, complex numbers, booleans and texts are errors about `name`.
    """
    unmasked(name, value)
    try:
        array = as_array(value)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected an array of real numbers, got nested lists ({error})"
        ) from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected an array of real numbers, got dtype {array.dtype}")
    return array


def finite(name: str, value: Any) -> Array:
    """Return a C-contiguous float64 copy of finite real numbers, or raise an error about `name`."""
    array = np.array(real(name, value), dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}: expected finite numbers, got {array[where]} at index {where}")
    return array
