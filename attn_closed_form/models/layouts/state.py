"""A state dict while a layout reads it: linear layers by name, and what nobody has read yet.

A layout must read, or knowingly leave out, every weight of the file. What is left over is a layer that the layout does
not know, and a layer after the pooling would make the result wrong: it is an error that names the layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._types import Array
from ..bag_network import Layer


class Linear(NamedTuple):
    """Weight (out, in) and bias (out,), zeros where the layer has none."""

    W: Array
    b: Array


class State:
    """Weights by name, with a record of which were read."""

    def __init__(self, arrays: dict[str, NDArray[Any]], source: str) -> None:
        self.arrays, self.source = arrays, source
        self.read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def has(self, *layers: str) -> bool:
        """Whether every one of these layers has a weight."""
        return all(f"{layer}.weight" in self.arrays for layer in layers)

    def array(self, name: str, ndim: int | None = None) -> Array:
        """One array in float64."""
        if name not in self.arrays:
            raise ValueError(f"{self.source}: expected weights {name!r}, got only {self.summary()}")
        self.read.add(name)
        array = np.asarray(self.arrays[name], dtype=np.float64)
        if ndim is not None and array.ndim != ndim:
            raise ValueError(f"{self.source}: {name}: expected {ndim} axes, got shape {array.shape}")
        return array

    def linear(self, layer: str) -> Linear:
        """One linear layer; without a bias in the file it has none."""
        W = self.array(f"{layer}.weight", ndim=2)
        bias = f"{layer}.bias"
        b = self.array(bias, ndim=1) if bias in self.arrays else np.zeros(len(W))
        if b.shape != (len(W),):
            raise ValueError(f"{self.source}: {bias}: expected shape ({len(W)},), got {b.shape}")
        return Linear(W, b)

    def layer(self, name: str, activation: str) -> Layer:
        """One linear layer with an activation, for the embedding."""
        return Layer(*self.linear(name), activation=activation)

    def numbered(self, pattern: str) -> list[str]:
        """Linear layers whose name matches a pattern with one number, in the order of that number."""
        found = {}
        for key in self.arrays:
            if match := re.fullmatch(rf"({pattern})\.weight", key):
                found[int(match[2])] = match[1]
        return [found[number] for number in sorted(found)]

    def batch_norm(self, name: str, eps: float) -> tuple[Array, Array]:
        """Scale and shift that a batch normalisation is in evaluation, both (E,)."""
        mean, var = self.array(f"{name}.running_mean", 1), self.array(f"{name}.running_var", 1)
        scale = 1 / np.sqrt(var + eps)
        shift = -mean * scale
        if f"{name}.weight" in self.arrays:
            gamma, beta = self.array(f"{name}.weight", 1), self.array(f"{name}.bias", 1)
            scale, shift = scale * gamma, shift * gamma + beta
        self.leave(f"{name}.num_batches_tracked")
        return scale, shift

    def leave(self, *starts: str) -> None:
        """Leave out weights that play no part in the prediction, by how their names start."""
        self.read.update(key for key in self.arrays if key.startswith(starts))

    def finish(self, layout: str) -> None:
        """Raise if any weight was not read."""
        rest = [key for key in self.arrays if key not in self.read]
        if rest:
            raise ValueError(
                f"{self.source}: has weights that layout {layout!r} does not know: {self.summary(rest)}. A layer after "
                "the pooling that is not linear makes a model that is no pooled game"
            )

    def summary(self, names: Iterable[str] | None = None, most: int = 8) -> str:
        """Names with shapes, for errors."""
        chosen = sorted(self.arrays if names is None else names)
        shown = ", ".join(f"{key} {tuple(self.arrays[key].shape)}" for key in chosen[:most])
        return shown + (f" and {len(chosen) - most} more" if len(chosen) > most else "")
