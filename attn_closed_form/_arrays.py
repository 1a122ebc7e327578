"""Small functions that several subpackages share, in four groups.

Softmax; groups of equal labels; ranks, tensors and JSON; and the checkers, which raise the
errors about arguments. `_shapes.py` has the check for the arrays of a constructor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._types import Array, Ids, Masks

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def softmax(s: Array) -> Array:
    """Compute the max-shifted softmax over the last axis."""
    g = np.exp(s - s.max(axis=-1, keepdims=True))
    return g / g.sum(axis=-1, keepdims=True)


def numbered(labels: ArrayLike | NDArray[Any]) -> tuple[Ids, Ids]:
    """Number labels, (n,) or rows (n, k), by first appearance; also return the index where each
    appears first.

    >>> numbered([5, 7, 5])
    (array([0, 1, 0]), array([0, 1]))
    """
    labels = np.asarray(labels)
    axis = None
    if labels.ndim > 1:
        axis = 0
    _, first, inverse = np.unique(labels, axis=axis, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    return rank[inverse.reshape(-1)], first[order]


def run_lengths(starts: Ids, n: int) -> Ids:
    """Return the lengths of runs of n entries, like `np.diff(starts, append=n)` but several times
    faster.

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
    ends = np.cumsum(np.bincount(numbers))
    groups = np.split(order, ends[:-1])
    return [group.tolist() for group in groups]


def all_coalitions(d: int) -> Masks:
    """Return the (2^d, d) coalitions of d players; row k has the bits of k.

    >>> all_coalitions(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    number = np.arange(2**d)
    bits = number[:, None] >> np.arange(d)
    return (bits & 1).astype(bool)


def plain(value: Any) -> Any:
    """Convert nested arrays, tuples and named tuples to lists and dicts for `json.dumps`.

    >>> plain({"spans": ((0, 1),), "scores": np.ones(2)})
    {'spans': [[0, 1]], 'scores': [1.0, 1.0]}
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if hasattr(value, "_fields"):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value


def ranks(x: ArrayLike) -> Array:
    """Return ranks from 1; equal numbers share their mean rank."""
    values = np.asarray(x, dtype=np.float64)
    is_list = values.ndim == 1 and not np.isnan(values).any()
    check("x", is_list, "one-dimensional numbers", f"shape {values.shape} or NaN")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    return mean_ranks[inverse]


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Compute Spearman's rank correlation, or NaN if either argument is constant."""
    a = ranks(x)
    b = ranks(y)
    check("y", a.shape == b.shape, f"shape {a.shape} like x", b.shape)
    a = a - a.mean()
    b = b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    if size == 0:
        return math.nan
    return float(a @ b / size)


def as_array(value: Any) -> NDArray[Any]:
    """Convert an array or tensor to a NumPy array of the same type (bfloat16, which NumPy lacks, to
    float32).
    """
    if isinstance(value, np.ma.MaskedArray):
        return value  # `unmasked` rejects it
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if "bfloat16" in str(tensor.dtype):
        tensor = tensor.float()
    return np.asarray(tensor.numpy())


def usual_float_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let no floating-point error end a function, whatever the program has set.

    NumPy ignores underflow by default, and so does the proof of the error: masses that underflow
    are smaller than its bounds. A program that calls `np.seterr(all="raise")` must get the same
    results. Other errors give a warning instead of an exception, and a program that ignores them
    is left alone. Every public function of the mathematics has this decorator
    (`tests/test_surroundings.py`).
    """

    @functools.wraps(function)
    def as_usual(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        handling: dict[str, Any] = dict(np.geterr())
        for kind, action in handling.items():
            if action == "raise":
                handling[kind] = "warn"
        handling["under"] = "ignore"
        with np.errstate(**handling):
            return function(*args, **kwargs)

    return as_usual


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name, which suggests the closest known
    name if there is one.

    >>> did_you_mean("shapely", ["lime", "shapley"]), did_you_mean("x", ["lime"])
    ("; did you mean 'shapley'?", '')
    """
    nearest = get_close_matches(str(name), list(choices), n=1)
    if not nearest:
        return ""
    return f"; did you mean {nearest[0]!r}?"


# The checkers. Each returns the checked value, or raises a ValueError that names the argument, what
# was expected and what was received. They are used at the door: constructors, public functions,
# loaders and the command line.


def check(name: str, holds: bool | np.bool_, expected: str, received: object) -> None:
    """Raise an error about `name` unless a condition holds: the checker for all that has none of
    its own.

    >>> check("labels", len(["a"]) == 2, "2 names, one per player", "1")
    Traceback (most recent call last):
    ValueError: labels: expected 2 names, one per player, got 1
    """
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {received}")


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return one of several known words.

    >>> choice("players", "word", ["positions", "words"])
    Traceback (most recent call last):
    ValueError: players: expected 'positions' or 'words', got 'word'; did you mean 'words'?
    """
    known = list(choices)
    *first, last = [repr(word) for word in known]
    expected = last
    if first:
        expected = f"{', '.join(first)} or {last}"
    is_known = isinstance(value, str) and value in known
    check(name, is_known, expected, f"{value!r}{did_you_mean(value, known)}")
    return value


def whole(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Return an integer of at least `least` and at most `most`."""
    expected = f"an integer of at least {least}"
    if most < math.inf:
        expected = f"an integer in {least}..{most}"
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    check(name, is_integer and least <= value <= most, expected, repr(value))
    return int(value)


def number(name: str, value: Any, expected: str, fits: Callable[[float], bool]) -> float:
    """Return a real number that `fits`; the error quotes `expected`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    check(name, is_number and fits(float(value)), expected, repr(value))
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return a positive, finite number."""
    return number(name, value, "a positive number", lambda x: 0 < x < math.inf)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return number(name, value, "a finite number of at least 0", lambda x: 0 <= x < math.inf)


def fraction(name: str, value: Any) -> float:
    """Return a number between 0 and 1, both excluded."""
    return number(name, value, "a number between 0 and 1", lambda x: 0 < x < 1)


def unmasked(name: str, value: Any) -> Any:
    """Return anything but a masked array, whose mask would be lost."""
    masked = isinstance(value, np.ma.MaskedArray)
    check(name, not masked, "numbers without a mask", "a masked array; remove or fill its entries")
    return value


def real(name: str, value: Any) -> NDArray[Any]:
    """Return an array of real numbers with its type unchanged; every array of numbers is checked
    here.

    Masked arrays, complex numbers, booleans and texts are errors.
    """
    if type(value) is np.ndarray and value.dtype.kind in "fiu":
        # The usual case, in which nothing is left to check.
        return value
    unmasked(name, value)
    expected = "an array of real numbers"
    try:
        array = as_array(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected {expected}, got nested lists ({error})") from None
    check(name, array.dtype.kind in "fiu", expected, f"dtype {array.dtype}")
    return array


def finite(name: str, value: Any) -> Array:
    """Return a C-contiguous float64 copy of finite real numbers."""
    array = np.array(real(name, value), dtype=np.float64, order="C")
    _check_entries(name, array, fits=np.isfinite(array), expected="finite numbers")
    return array


def finite_or_deleted(name: str, value: Any) -> Array:
    """Return a C-contiguous float64 copy of log-masses: finite numbers, or -inf for what is
    deleted.
    """
    array = np.array(real(name, value), dtype=np.float64, order="C")
    fits = np.isfinite(array) | np.isneginf(array)
    _check_entries(name, array, fits, expected="finite numbers or -inf (deleted)")
    return array


def _check_entries(name: str, array: Array, fits: Masks, expected: str) -> None:
    """Raise an error about the first entry that does not fit."""
    if fits.all():
        return
    first_wrong = np.argwhere(~fits)[0]
    index = tuple(first_wrong.tolist())
    check(name, False, expected, f"{array[index]} at index {index}")
