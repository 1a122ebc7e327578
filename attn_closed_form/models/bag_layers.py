"""The layers of a bag network, in NumPy: linear layers with an activation, and the attention (see `bag_network.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._types import Array
from .activations import activation


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of the embedding: h -> activation(W norm(h) + b).

    Attributes
    ----------
    W, b : (out, in) and (out,); b defaults to zero
    activation : a name of `activations.ACTIVATIONS`
    norm_eps : None, or the epsilon of a layer normalisation of h before W (its scale and shift are folded into W and b)
    """

    W: Array
    b: Array | None = None
    activation: str = "identity"
    norm_eps: float | None = None

    def __post_init__(self) -> None:
        W = matrix("W", self.W)
        object.__setattr__(self, "W", W)
        object.__setattr__(self, "b", vector("b", self.b, W.shape[0]))
        activation(self.activation)

    def __call__(self, h: Array) -> Array:
        """(n, in) -> (n, out)."""
        return activation(self.activation).function(self.linear(h))

    def linear(self, h: Array) -> Array:
        """What the activation gets: (n, in) -> (n, out)."""
        assert self.b is not None
        return (h if self.norm_eps is None else normalise(h, self.norm_eps)[0]) @ self.W.T + self.b


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of H heads: log-masses of embedded instances (see the module docstring).

    Attributes
    ----------
    w, c : (H, k) and (H,); c, a constant per head, changes no prediction and is kept for who compares raw attention
    V, a : (k, E) and (k,), or None: then w is (H, E)
    U, b : (k, E) and (k,) of the gate, or None
    activation, gate : names of `activations.ACTIVATIONS`
    temperature : divides the log-masses
    """

    w: Array
    c: Array | None = None
    V: Array | None = None
    a: Array | None = None
    U: Array | None = None
    b: Array | None = None
    activation: str = "tanh"
    gate: str = "sigmoid"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        w = matrix("w", self.w)
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "c", vector("c", self.c, w.shape[0]))
        for weight, shift in (("V", "a"), ("U", "b")):
            if getattr(self, weight) is None:
                continue
            W = matrix(weight, getattr(self, weight))
            if W.shape[0] != w.shape[1]:
                raise ValueError(f"{weight}: expected {w.shape[1]} rows, as many as columns of w, got {W.shape[0]}")
            object.__setattr__(self, weight, W)
            object.__setattr__(self, shift, vector(shift, getattr(self, shift), W.shape[0]))
        if self.U is not None and (self.V is None or self.U.shape != self.V.shape):
            raise ValueError("U: expected the shape of V, which a gate needs")
        activation(self.activation)
        activation(self.gate, "gate")
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")

    @property
    def E(self) -> int:
        """Length of the embedded instances."""
        return (self.w if self.V is None else self.V).shape[1]

    def __call__(self, h: Array) -> Array:
        """(n, E) -> (H, n) log-masses."""
        assert self.c is not None
        if self.V is not None:
            assert self.a is not None
            hidden = activation(self.activation).function(h @ self.V.T + self.a)
            if self.U is not None:
                assert self.b is not None
                hidden *= activation(self.gate).function(h @ self.U.T + self.b)
            h = hidden
        return (self.w @ h.T + self.c[:, None]) / self.temperature


def normalise(h: Array, eps: float) -> tuple[Array, Array]:
    """Layer normalisation without scale and shift, (n, E), and the standard deviations that it divided by, (n, 1)."""
    centred = h - h.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    return centred / deviation, deviation


def matrix(name: str, value: Any) -> Array:
    """A finite, read-only float64 matrix, an own copy; errors name the argument."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name}: expected a matrix, got shape {array.shape}")
    return _finite(name, array)


def vector(name: str, value: Any, size: int) -> Array:
    """A finite, read-only float64 vector of a given size, zeros for None; errors name the argument."""
    array = np.zeros(size) if value is None else np.array(value, dtype=np.float64)
    if array.shape != (size,):
        raise ValueError(f"{name}: expected shape ({size},), got {array.shape}")
    return _finite(name, array)


def _finite(name: str, array: Array) -> Array:
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite weights, got {array[~np.isfinite(array)].flat[0]}")
    array.flags.writeable = False
    return array
