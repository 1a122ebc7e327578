"""Activation functions by the names that PyTorch gives them, with their derivatives, in NumPy.

A state dict holds weights and no activation, so that a network is described by its weights and these names. NumPy has
no error function, which GELU needs: `erf` sums the Taylor series around the nearest of a table of points,

    erf(x_k + t) = erf(x_k) + (2 / sqrt(pi)) e^{-x_k^2} sum_m (-1)^m H_m(x_k) t^{m+1} / (m+1)!,   |t| <= 1/32,

with H_m the Hermite polynomials; ten terms are exact to the last digits of float64, and erf is 1 beyond x = 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._types import Array

ERF_STEP = 1 / 16
ERF_END = 6.0
ERF_TERMS = 10
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017, as PyTorch has them
LEAK = 0.01  # PyTorch's default slope of LeakyReLU


class Activation(NamedTuple):
    """A function of one number and its derivative, both on arrays."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


def erf(x: Array) -> Array:
    """The error function on arrays.

    Parameters
    ----------
    x : (...) float64

    Returns
    -------
    (...) float64, within 4e-16 of `math.erf`

    Examples
    --------
    >>> bool(np.abs(erf(np.array([-0.3, 2.0])) - [math.erf(-0.3), math.erf(2.0)]).max() < 4e-16)
    True
    """
    size = np.minimum(np.abs(x), ERF_END)
    k = np.rint(size / ERF_STEP).astype(np.intp)
    t = size - k * ERF_STEP
    table = _erf_table()
    total = table[ERF_TERMS][k]
    for m in range(ERF_TERMS - 1, -1, -1):
        total = total * t + table[m][k]
    return np.copysign(total, x)


@functools.cache
def _erf_table() -> Array:
    """(ERF_TERMS + 1, points) Taylor coefficients of erf around each point."""
    points = np.arange(round(ERF_END / ERF_STEP) + 1) * ERF_STEP
    rows = [np.array([math.erf(x) for x in points])]
    slope = 2 / math.sqrt(math.pi) * np.exp(-(points**2))
    before, hermite = np.zeros_like(points), np.ones_like(points)
    for m in range(ERF_TERMS):
        rows.append((-1) ** m * hermite * slope / math.factorial(m + 1))
        before, hermite = hermite, 2 * points * hermite - 2 * m * before
    return np.array(rows)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _sigmoid_slope(x: Array) -> Array:
    y = sigmoid(x)
    return y * (1 - y)


def _gelu_slope(x: Array) -> Array:
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu_tanh_inner(x: Array) -> Array:
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_tanh_slope(x: Array) -> Array:
    y = _gelu_tanh_inner(x)
    return 0.5 * (1 + y) + 0.5 * x * (1 - y * y) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def _elu_slope(x: Array) -> Array:
    return np.where(x > 0, 1.0, np.exp(np.minimum(x, 0.0)))


ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda x: x, np.ones_like),
    "tanh": Activation(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": Activation(sigmoid, _sigmoid_slope),
    "relu": Activation(lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64)),
    "gelu": Activation(lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), _gelu_slope),
    "gelu_tanh": Activation(lambda x: 0.5 * x * (1 + _gelu_tanh_inner(x)), _gelu_tanh_slope),
    "silu": Activation(lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "elu": Activation(_elu, _elu_slope),
    "selu": Activation(
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0.0))),
        lambda x: SELU_SCALE * np.where(x > 0, 1.0, SELU_ALPHA * np.exp(np.minimum(x, 0.0))),
    ),
    "leaky_relu": Activation(lambda x: np.where(x > 0, x, LEAK * x), lambda x: np.where(x > 0, 1.0, LEAK)),
}


def activation(name: str, argument: str = "activation") -> Activation:
    """The activation of a name; an unknown name is an error that lists the known ones."""
    if name not in ACTIVATIONS:
        raise ValueError(f"{argument}: expected one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]
