"""Gradients of a bag's output by the features of its instances, by hand and in chunks; no autodiff.

With f = sum_h sum_i alpha_{h,i} v_{h,i} the gradient by an embedded instance h_i is

    df/dh_i = sum_h alpha_{h,i} [ dv_{h,i}/dh_i + (v_{h,i} - f_h) ds_{h,i}/dh_i ],

because an instance enters its heads through its log-mass s and its value v alone (the same two terms as in Theorem 4.1
of Lopardo et al. 2024). The heads join before the hidden layer of the attention, so that the cost does not grow with
their number; then the chain rule through the layers of the embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._types import Array
from .activations import activation
from .bag_layers import Attention, Layer, normalise
from .bag_network import InstanceScores, softmax_with
from .protocol import Units

if TYPE_CHECKING:
    from .bag_classifier import BagClassifier

# (features, gradient) of some instances, both (n, D) -> (n,) scores.
SCORES: dict[str, Callable[[Array, Array], Array]] = {
    "gradient-mean": lambda x, g: g.mean(axis=1),
    "gradient-l1": lambda x, g: np.abs(g).sum(axis=1),
    "gradient-l2": lambda x, g: np.sqrt((g**2).sum(axis=1)),
    "gradient-x-input": lambda x, g: (x * g).sum(axis=1),
}


def gradient_scores(model: BagClassifier, units: Units, coefficients: Sequence[float]) -> dict[str, Array]:
    """Scores of the instances from the gradient of the direction `coefficients` by their features, in one pass.

    Returns
    -------
    dict of (n,) arrays: "gradient-mean" (mean coordinate), "gradient-l1", "gradient-l2" (norms) and
        "gradient-x-input" (gradient times input)
    """
    network = model.network
    features = units.data.bag.features
    weight, slope, by_value = _instance_weights(model, units.data.scores, coefficients)
    scores = {name: np.empty(len(features)) for name in SCORES}
    for rows in network.chunks(len(features)):
        x = network.inputs(features, rows)
        below = [x]
        for layer in network.embed:
            below.append(layer(below[-1]))
        h = below[-1]
        g = weight[:, rows].T @ by_value + _attention_gradient(network.attention, h, slope[:, rows].T)
        for layer, entered in zip(network.embed[::-1], below[-2::-1], strict=True):
            g = _layer_gradient(layer, entered, g)
        x = np.asarray(features[rows], dtype=np.float64)
        for name, score in SCORES.items():
            scores[name][rows] = score(x, g)
    return scores


def _instance_weights(
    model: BagClassifier, scores: InstanceScores, coefficients: Sequence[float]
) -> tuple[Array, Array, Array]:
    """Per head and instance alpha (h, n) and alpha (v - f) (H, n, zero where a head is not used), and dv/dh (h, E)."""
    used, mixture = model.network.heads(coefficients)
    alpha, rest = softmax_with(scores.s[used], scores.s_background[used])
    v = mixture @ scores.v
    f = (alpha * v).sum(axis=1) + rest * (mixture @ scores.v_background)
    slope = np.zeros((model.network.H, v.shape[1]))
    slope[used] = alpha * (v - f[:, None])
    return alpha, slope, mixture @ model.network.readout


def _attention_gradient(attention: Attention, h: Array, slope: Array) -> Array:
    """Sum over heads of slope (n, H) times ds/dh, at embedded instances h (n, E)."""
    weight = slope @ attention.w / attention.temperature
    if attention.V is None:
        return weight
    assert attention.a is not None
    act = activation(attention.activation)
    inner = h @ attention.V.T + attention.a
    if attention.U is None:
        return (weight * act.derivative(inner)) @ attention.V
    assert attention.b is not None
    gate = activation(attention.gate)
    outer = h @ attention.U.T + attention.b
    by_inner = (weight * act.derivative(inner) * gate.function(outer)) @ attention.V
    return by_inner + (weight * act.function(inner) * gate.derivative(outer)) @ attention.U


def _layer_gradient(layer: Layer, h: Array, g: Array) -> Array:
    """Gradient by what enters a layer, from the gradient by what leaves it."""
    g = (g * activation(layer.activation).derivative(layer.linear(h))) @ layer.W
    if layer.norm_eps is None:
        return g
    y, deviation = normalise(h, layer.norm_eps)
    return (g - g.mean(axis=1, keepdims=True) - y * (g * y).mean(axis=1, keepdims=True)) / deviation
