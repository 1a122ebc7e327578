"""Layers of networks in evaluation mode, with gradients: activations, linear layers, normalizations
of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import choice
from ..._erf import erf
from ..._shapes import checked_arrays, set_fields
from ..._types import Array


class Activation(NamedTuple):
    """A function of one number and its derivative, both on arrays."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + e^-x) without overflow."""
    # Where e^-x would overflow, tanh goes to -1.
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _gelu_slope(x: Array) -> Array:
    """Compute Phi(x) + x phi(x), the derivative of x Phi(x), for the normal distribution."""
    distribution = 0.5 * (1 + erf(x / math.sqrt(2)))
    return distribution + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu_tanh_inner(x: Array) -> Array:
    """Compute tanh(sqrt(2/pi) (x + 0.044715 x^3)), with the constant of Hendrycks and Gimpel."""
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_tanh_slope(x: Array) -> Array:
    """Compute the derivative of x (1 + y) / 2, where y is `_gelu_tanh_inner`."""
    y = _gelu_tanh_inner(x)
    slope_of_argument = 1 + 3 * 0.044715 * x * x
    through_y = 0.5 * x * (1 - y * y) * math.sqrt(2 / math.pi) * slope_of_argument
    return 0.5 * (1 + y) + through_y


def _elu(scale: float, alpha: float) -> Activation:
    """Return scale (x if x > 0, else alpha (e^x - 1)) and its derivative."""
    # The exponential is computed for x > 0 as well, where it is not used and must not overflow.
    return Activation(
        function=lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
        derivative=lambda x: scale * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
    )


# Names and constants are those of PyTorch.
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda x: x, np.ones_like),
    "tanh": Activation(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": Activation(sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x))),
    "relu": Activation(lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64)),
    "gelu": Activation(lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), _gelu_slope),
    "gelu_tanh": Activation(lambda x: 0.5 * x * (1 + _gelu_tanh_inner(x)), _gelu_tanh_slope),
    "silu": Activation(lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "elu": _elu(1.0, 1.0),
    # The constants of Klambauer et al. 2017, Self-normalizing neural networks.
    "selu": _elu(1.0507009873554805, 1.6732632423543772),
    # This is log(e^0 + e^x), without the exponential of a large x.
    "softplus": Activation(lambda x: np.logaddexp(0.0, x), sigmoid),
    "leaky_relu": Activation(
        lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01)
    ),
}


# Weightless normalizations of the feature vectors; the epsilon is that of PyTorch's LayerNorm.
NORMALIZATIONS = ("", "unit", "layer_norm")
# The default of PyTorch's LayerNorm, which normalization without weights uses, too.
LAYER_NORM_EPS = 1e-5


def normalized(x: Array, how: str) -> tuple[Array, Array]:
    """Scale rows to length 1 ("unit") or to mean 0 and variance 1 ("layer_norm"); also return the
    divisors (n, 1).
    """
    if how == "layer_norm":
        x = x - x.mean(axis=1, keepdims=True)
        size = np.sqrt((x * x).mean(axis=1, keepdims=True) + LAYER_NORM_EPS)
    else:
        size = np.sqrt((x * x).sum(axis=1, keepdims=True))
        # A vector of zeros stays as it is, instead of becoming 0 / 0.
        size = np.where(size == 0, 1.0, size)
    return x / size, size


def normalized_gradient(y: Array, size: Array, g: Array, how: str) -> Array:
    """Return the gradient at the inputs of `normalized`, given the gradient g at its outputs y."""
    if how == "unit":
        # A longer x has the same y, so the gradient has no part along y.
        return (g - y * (y * g).sum(axis=1, keepdims=True)) / size
    g = (g - y * (y * g).mean(axis=1, keepdims=True)) / size
    # A constant that is added to x does not change y, so the mean of the gradient is zero.
    return np.asarray(g - g.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: h -> activation(W h + b), with W (out, in), b (out,) and a name of
    `ACTIVATIONS`.
    """

    W: Array
    b: Array = None  # type: ignore[assignment]  # zeros, filled in __post_init__
    activation: str = "identity"

    def __post_init__(self) -> None:
        axes = {"W": ("out", "in"), "b": ("out",)}
        arrays, sizes = checked_arrays({"W": self.W, "b": self.b}, axes, optional=["b"])
        set_fields(self, {"b": np.zeros(sizes["out"]), **arrays})
        choice("activation", self.activation, ACTIVATIONS)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)

    def __call__(self, h: Array) -> Array:
        """Apply the layer: (n, in) -> (n, out)."""
        return ACTIVATIONS[self.activation].function(self._linear(h))

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the (n, in) gradient at the inputs h, given the gradient at the outputs, `slope`
        (n, out).
        """
        derivative = ACTIVATIONS[self.activation].derivative(self._linear(h))
        return (slope * derivative) @ self.W

    def _linear(self, h: Array) -> Array:
        """Return the inputs of the activation, (n, out)."""
        return h @ self.W.T + self.b
