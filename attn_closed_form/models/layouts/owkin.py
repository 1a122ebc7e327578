"""owkin's ABMIL and MeanPool (`owkin/HistoSSLscaling`).

h = the layers `tiles_emb.hidden_layers.i` with sigmoid between them and nothing after the last; s = w . (tanh(att h) *
sigmoid(gate h)) / temperature, 0 for MeanPool; logits = mlp.0 . pooled + b. Their first 3 columns of features are
metadata (level, x, y), which the network drops: `metadata_columns` says how many the bag has. A last network of
several layers (`mlp_hidden`) is refused.
"""

from __future__ import annotations

import numpy as np

from ..._types import Array
from ..bag_network import Attention, BagNetwork, Layer
from .state import State

NAME = "owkin"
SUMMARY = "owkin ABMIL and MeanPool"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    if state.has("attention_layer.att", "attention_layer.gate", "attention_layer.w"):
        return any(key.startswith("mlp.") for key in state.arrays)
    return bool(state.arrays) and all(key.startswith("mlp.") for key in state.arrays)


def build(
    state: State,
    activation: str = "tanh",
    gate: str = "sigmoid",
    embed_activation: str = "sigmoid",
    attention_temperature: float = 1.0,
    metadata_columns: int = 3,
) -> BagNetwork:
    """Network of the file; `embed_activation` is that between the layers of the embedding."""
    if any(key.startswith("mlp.0.0.") for key in state.arrays):
        raise ValueError(f"{state.source}: has hidden layers in mlp, after the pooling: it is no pooled game")
    W, bias = state.linear("mlp.0")
    if not state.has("attention_layer.att"):
        return BagNetwork(Attention(np.zeros((1, W.shape[1] + metadata_columns))), _skip(W, metadata_columns), bias)
    names = state.numbered(r"tiles_emb\.hidden_layers\.(\d+)")
    embed: list[Layer] = []
    for name in names:
        weight, shift = state.linear(name)
        weight = weight if embed else _skip(weight, metadata_columns)
        embed.append(Layer(weight, shift, "identity" if name == names[-1] else embed_activation))
    V, U, w = (state.linear(f"attention_layer.{name}") for name in ("att", "gate", "w"))
    attention = Attention(*w, *V, *U, activation, gate, attention_temperature)
    return BagNetwork(attention, W, bias, embed=tuple(embed))


def _skip(W: Array, columns: int) -> Array:
    """A weight that gives nothing for the first columns of its input."""
    if columns < 0:
        raise ValueError(f"metadata_columns: expected 0 or more, got {columns}")
    return np.concatenate([np.zeros((len(W), columns)), W], axis=1)
