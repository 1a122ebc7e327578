"""Checks of the arrays that a pooled game is made of: shape and finiteness, with errors that name the argument."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array


def rows(name: str, value: ArrayLike) -> Array:
    """A float64 copy of `value`, (d,) or (H, d), as (H, d)."""
    array = np.array(value, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: expected shape (d,) or (H, d), got {array.shape}")
    return np.atleast_2d(array)


def broadcast(name: str, value: ArrayLike | None, default: float, shape: tuple[int, ...]) -> Array:
    """A float64 copy of `value`, or of `default` if it is None, broadcast to `shape`."""
    if value is None:
        return np.full(shape, default)
    array = np.asarray(value, dtype=np.float64)
    try:
        return np.array(np.broadcast_to(array, shape))
    except ValueError:
        raise ValueError(f"{name}: expected something that broadcasts to {shape}, got {array.shape}") from None


# Values above it would leave float64 as sums over heads, as differences or as coefficients.
LARGEST_VALUE = 1e305


def check_size(name: str, array: Array) -> None:
    """Raise unless every number is finite and within LARGEST_VALUE of zero."""
    check_values(name, array)
    largest = float(np.abs(array).max(initial=0.0))
    if largest > LARGEST_VALUE:
        raise ValueError(f"{name}: expected numbers within {LARGEST_VALUE:g} of zero, got {largest:g}")


def check_values(name: str, array: Array, minus_inf: bool = False) -> None:
    """Raise unless every number is finite, or -inf where `minus_inf` allows it."""
    finite = np.isfinite(array)
    if finite.all():
        return
    bad = ~finite
    if minus_inf:
        bad &= ~np.isneginf(array)
    if bad.any():
        expected = "finite numbers or -inf (deleted)" if minus_inf else "finite numbers"
        raise ValueError(f"{name}: expected {expected}, got {array[bad].flat[0]}")
