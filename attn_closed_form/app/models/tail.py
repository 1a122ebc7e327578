"""What a network computes after its pooling, as a list of layers: from pooled vectors (n, m) to
logits (n, Q).

A network whose last part is linear needs no tail: a linear layer of a softmax-weighted mean is the
mean of the linear layers, so `BagNetwork.then` folds it into the values of the instances. What
remains is a `LayeredTail`: linear layers, elementwise activations, LayerNorm, L2 normalization and
residual branches, all as PyTorch computes them in evaluation mode. Dropout does nothing there, and
BatchNorm is a linear layer.

A tail of one hidden layer has exact explanations of the logit if the network has one head and the
activation is analytic (`HiddenLayer` in `game/hidden_layer.py`). Explanations of all other tails
are sampled along orders of the players, with standard errors (`game/orders.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..._arrays import check, positive
from ..._shapes import checked_arrays, set_fields
from ..._types import Array
from ...game.hidden_layer import LINKED_ACTIVATIONS, HiddenLayer
from ...game.tails import Tail
from .layers import ACTIVATIONS, LAYER_NORM_EPS, Layer

# PyTorch's default slope of LeakyReLU for negative numbers.
LEAKY_SLOPE = 0.01


class Step(Protocol):
    """One step of a tail."""

    def __call__(self, h: Array) -> Array:
        """Apply the step: (n, in) -> (n, out)."""

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the (n, in) gradient at the inputs h, given the gradient at the outputs, `slope`
        (n, out).
        """


@dataclass(frozen=True)
class Elementwise:
    """An activation: a name of `ACTIVATIONS`, and the slope of "leaky_relu" for negative
    numbers.
    """

    activation: str
    negative_slope: float = LEAKY_SLOPE

    def __post_init__(self) -> None:
        expected = f"an activation among {', '.join(ACTIVATIONS)}"
        check("tail", self.activation in ACTIVATIONS, expected, repr(self.activation))

    @property
    def _is_leaky(self) -> bool:
        return self.activation == "leaky_relu"

    def __call__(self, h: Array) -> Array:
        """Apply the activation to every number."""
        if self._is_leaky:
            return np.where(h > 0, h, self.negative_slope * h)
        return ACTIVATIONS[self.activation].function(h)

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the gradient at the inputs h, given the gradient at the outputs."""
        if self._is_leaky:
            return slope * np.where(h > 0, 1.0, self.negative_slope)
        return slope * ACTIVATIONS[self.activation].derivative(h)


@dataclass(frozen=True, eq=False)
class Standardize:
    """LayerNorm: mean 0 and variance 1 of each vector, then `weight` and `bias` (in,)."""

    weight: Array
    bias: Array
    epsilon: float = LAYER_NORM_EPS

    def __post_init__(self) -> None:
        axes = {"weight": ("in",), "bias": ("in",)}
        arrays, _ = checked_arrays({"weight": self.weight, "bias": self.bias}, axes)
        set_fields(self, dict(arrays))
        check("epsilon", self.epsilon >= 0, "a number of 0 or more", self.epsilon)

    def __setstate__(self, state: dict[str, Array]) -> None:
        set_fields(self, state)

    def _standardized(self, h: Array) -> tuple[Array, Array]:
        """Return the vectors before weight and bias, and their divisors (n, 1)."""
        centered = h - h.mean(axis=-1, keepdims=True)
        size = np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + self.epsilon)
        return centered / size, size

    def __call__(self, h: Array) -> Array:
        """Apply the normalization: (n, in) -> (n, in)."""
        return self._standardized(h)[0] * self.weight + self.bias

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the gradient at the inputs h, given the gradient at the outputs."""
        y, size = self._standardized(h)
        g = slope * self.weight
        g = (g - y * (y * g).mean(axis=-1, keepdims=True)) / size
        return np.asarray(g - g.mean(axis=-1, keepdims=True))


@dataclass(frozen=True)
class UnitLength:
    """Division of each vector by its length, or by `epsilon` if that is larger, as
    `torch.nn.functional.normalize`.
    """

    epsilon: float = 1e-12  # PyTorch's default

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    def _size(self, h: Array) -> Array:
        return np.maximum(np.linalg.norm(h, axis=-1, keepdims=True), self.epsilon)

    def __call__(self, h: Array) -> Array:
        """Apply the normalization: (n, in) -> (n, in)."""
        return h / self._size(h)

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the gradient at the inputs h, given the gradient at the outputs."""
        size = self._size(h)
        y = h / size
        # Where the divisor is epsilon, it is constant and adds nothing to the gradient.
        along = np.where(size > self.epsilon, (y * slope).sum(axis=-1, keepdims=True), 0.0)
        return np.asarray((slope - y * along) / size)


@dataclass(frozen=True, eq=False)
class Residual:
    """A branch whose output is added to its input: h + steps(h)."""

    steps: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _normal(self.steps))

    def __call__(self, h: Array) -> Array:
        """Apply the branch: (n, in) -> (n, in)."""
        branch = _apply(self.steps, h)
        width = h.shape[-1]
        check(
            "tail",
            branch.shape[-1] == width,
            f"a residual branch of width {width}",
            branch.shape[-1],
        )
        return h + branch

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the gradient at the inputs h, given the gradient at the outputs."""
        return slope + _gradient(self.steps, h, slope)


@dataclass(frozen=True, eq=False)
class LayeredTail:
    """A list of steps after the pooling.

    It is called with pooled vectors (n, m) and returns logits (n, Q).

    Attributes
    ----------
    steps : `Layer` (a linear layer, with or without an activation), names of activations,
        `Standardize` (LayerNorm), `UnitLength` (L2 normalization), `Residual` and "dropout", which
        does nothing in evaluation mode

    Examples
    --------
    >>> tail = LayeredTail([Layer([[1.0, 2.0]]), "relu", Layer([[3.0], [-1.0]], [0.0, 1.0])])
    >>> tail(np.array([[1.0, 1.0], [1.0, -1.0]]))
    array([[ 9., -2.],
           [ 0.,  1.]])
    >>> tail.hidden_layer.activation, tail
    ('relu', LayeredTail(Linear 2 -> 1, relu, Linear 1 -> 2))
    """

    steps: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _normal(self.steps))

    def __call__(self, vectors: Array) -> Array:
        """Compute the logits (n, Q) from pooled vectors (n, m)."""
        return _apply(self.steps, vectors)

    def gradient(self, vector: Array, coefficients: Array) -> Array:
        """Return the (m,) gradient of `coefficients @ logits` at a pooled vector (m,)."""
        return _gradient(self.steps, vector[None], np.asarray(coefficients)[None])[0]

    @property
    def hidden_layer(self) -> HiddenLayer | None:
        """The tail as a hidden layer, if it is one: linear, one activation, linear."""
        steps = list(self.steps)
        places = [i for i, step in enumerate(steps) if isinstance(step, Elementwise)]
        if len(places) != 1:
            return None
        (place,) = places
        activation = steps[place]
        assert isinstance(activation, Elementwise)
        before = steps[:place]
        after = steps[place + 1 :]
        if not all(_is_linear(step) for step in [*before, *after]):
            return None
        # Activations of `ACTIVATIONS` that `LINKED_ACTIVATIONS` spells otherwise.
        spelled_links = {"gelu_tanh": "gelu-tanh"}
        name = spelled_links.get(activation.activation, activation.activation)
        if name not in LINKED_ACTIVATIONS or not after:
            return None
        # Linear layers in a row are one step (`_normal`), so there is one at most on each side.
        output = after[0]
        assert isinstance(output, Layer)
        width = output.W.shape[1]
        # Without a linear layer before it, the activation acts on the pooled vector itself.
        first = Layer(np.eye(width))
        if before:
            assert isinstance(before[0], Layer)
            first = before[0]
        return HiddenLayer(
            weight=first.W, bias=first.b, activation=name, output=output.W, output_bias=output.b
        )

    def __repr__(self) -> str:
        return f"LayeredTail({', '.join(map(_words, self.steps))})"


def as_hidden_layer(tail: Tail | None) -> HiddenLayer | None:
    """Return a tail as a hidden layer if it is one, otherwise None."""
    if isinstance(tail, HiddenLayer):
        return tail
    if isinstance(tail, LayeredTail):
        return tail.hidden_layer
    return None


def _words(step: Step) -> str:
    """Describe a step, such as "Linear 64 -> 16"."""
    if isinstance(step, Layer):
        return f"Linear {step.W.shape[1]} -> {step.W.shape[0]}"
    if isinstance(step, Elementwise):
        return step.activation
    if isinstance(step, Standardize):
        return "LayerNorm"
    if isinstance(step, UnitLength):
        return "L2 norm"
    if isinstance(step, Residual):
        return f"residual [{', '.join(map(_words, step.steps))}]"
    return type(step).__name__


def _apply(steps: Sequence[Step], h: Array) -> Array:
    for step in steps:
        h = step(h)
    return h


def _gradient(steps: Sequence[Step], h: Array, slope: Array) -> Array:
    """Return the gradient at the inputs h of several steps, given the gradient at their outputs."""
    inputs = [h]
    # The output of the last step is not needed.
    for step in steps[:-1]:
        inputs.append(step(inputs[-1]))
    for step, given in zip(reversed(steps), reversed(inputs), strict=True):
        slope = step.gradient(given, slope)
    return slope


def _is_linear(step: Step) -> bool:
    return isinstance(step, Layer) and step.activation == "identity"


def _normal(steps: Sequence[Any]) -> tuple[Step, ...]:
    """Write a list of steps in one way: activations are steps of their own, and linear layers in a
    row are one.
    """
    separate: list[Step] = []
    for step in steps:
        if isinstance(step, str):
            if step not in ("dropout", "identity"):
                separate.append(UnitLength() if step == "l2_norm" else Elementwise(step))
        elif isinstance(step, Layer) and step.activation != "identity":
            separate += [replace(step, activation="identity"), Elementwise(step.activation)]
        else:
            check("tail", callable(step), "layers, or names of activations", repr(step))
            separate.append(step)
    joined: list[Step] = []
    for step in separate:
        if joined and _is_linear(step) and _is_linear(joined[-1]):
            joined[-1] = merged(joined[-1], step)
        else:
            joined.append(step)
    return tuple(joined)


def merged(first: Step, second: Step) -> Layer:
    """Combine two linear layers into one."""
    assert isinstance(first, Layer)
    assert isinstance(second, Layer)
    check(
        "tail",
        second.W.shape[1] == len(first.W),
        f"a layer for {len(first.W)} inputs",
        second.W.shape[1],
    )
    return Layer(second.W @ first.W, second.b + second.W @ first.b)
