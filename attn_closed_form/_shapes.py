"""The table of shapes: one check for the arrays of a constructor.

A class states the axes of its arrays once, by name, for example

    AXES = {"W": ("C", "D"), "bias": ("C",), "coords": ("n", 2)}.

Axes of the same name must have the same size in all arrays, and an integer is a size that is
fixed. `checked_arrays` converts the arrays, compares them with the table and returns the sizes;
`set_fields` stores them in a frozen dataclass. Every violation is a ValueError that names the
argument, what was expected and what was received.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from ._arrays import check, finite, finite_or_deleted
from ._types import Array

Axes = Mapping[str, tuple[str | int, ...]]
Value = TypeVar("Value")


def axis_sizes(arrays: Mapping[str, Any], axes: Axes) -> dict[str, int]:
    """Return the size of every named axis, or raise an error if an array does not fit the table.

    Parameters
    ----------
    arrays : anything that has a shape, by the name of the argument; a missing entry is not checked
    axes : the axes of each argument. The first array of the table that has an axis sets its size

    Examples
    --------
    >>> AXES = {"W": ("C", "D"), "bias": ("C",)}
    >>> axis_sizes({"W": np.ones((2, 5)), "bias": np.ones(2)}, AXES)
    {'C': 2, 'D': 5}
    >>> axis_sizes({"W": np.ones((2, 5)), "bias": np.ones(3)}, AXES)
    Traceback (most recent call last):
    ValueError: bias: expected shape (C=2,), got (3,)
    """
    sizes: dict[str, int] = {}
    for name, names_of_axes in axes.items():
        if name not in arrays:
            continue
        shape = np.shape(arrays[name])
        if 0 in shape:
            check(name, False, "no empty axis", f"shape {shape}")
        fits = len(shape) == len(names_of_axes)
        known = dict(sizes)
        # An axis that no array before this one has takes its size from this array.
        for axis, size in zip(names_of_axes, shape, strict=False):
            expected = axis
            if isinstance(axis, str):
                expected = known.setdefault(axis, size)
            fits = fits and size == expected
        if not fits:
            check(name, False, _expected_shape(names_of_axes, sizes), shape)
        sizes = known
    return sizes


def _expected_shape(names_of_axes: tuple[str | int, ...], sizes: Mapping[str, int]) -> str:
    """Return a shape as an error prints it: (C=2, D), where the size of D is free."""
    parts = []
    for axis in names_of_axes:
        if axis in sizes:
            parts.append(f"{axis}={sizes[str(axis)]}")
        else:
            parts.append(str(axis))
    if len(parts) == 1:
        return f"shape ({parts[0]},)"
    return f"shape ({', '.join(parts)})"


def checked_arrays(
    arrays: Mapping[str, Any],
    axes: Axes,
    optional: Collection[str] = (),
    deletable: Collection[str] = (),
) -> tuple[dict[str, Array], dict[str, int]]:
    """Return C-contiguous float64 copies of the arrays of a table, and the size of every named
    axis.

    Parameters
    ----------
    arrays : what the caller gave, by the name of the argument
    axes : the axes of each argument
    optional : arguments that may be None; they are left out of the result
    deletable : arguments that may contain -inf, the log-mass of what is deleted

    Examples
    --------
    >>> AXES = {"s": ("n",), "v": ("n",), "s_absent": ("n",)}
    >>> given = {"s": [0, 1], "v": [2, 3], "s_absent": None}
    >>> arrays, sizes = checked_arrays(given, AXES, optional=["s_absent"])
    >>> arrays["v"], sizes
    (array([2., 3.]), {'n': 2})
    """
    converted = {}
    for name in axes:
        value = arrays[name]
        if value is None and name in optional:
            continue
        if name in deletable:
            converted[name] = finite_or_deleted(name, value)
        else:
            converted[name] = finite(name, value)
    return converted, axis_sizes(converted, axes)


def set_fields(instance: object, values: Mapping[str, Any]) -> None:
    """Set fields of a frozen dataclass, in its `__post_init__` or `__setstate__`; arrays become
    read-only.
    """
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(instance, name, value)


class cached_arrays(cached_property[Value]):  # used like cached_property
    """A `cached_property` whose arrays are read-only: results that follow from them stay right."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        @wraps(compute)
        def read_only(instance: Any) -> Value:
            value = compute(instance)
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
            return value

        super().__init__(read_only)
