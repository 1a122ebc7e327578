"""HistoBistro's AttentionMIL (`peng-lab/HistoBistro`).

h = ReLU(encoder.0 x); s = attention.linear2 . tanh(attention.linear1 h); logits = head.2 . pooled + b.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "histobistro"
SUMMARY = "HistoBistro AttentionMIL"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return state.has("encoder.0", "attention.linear1", "attention.linear2", "head.2")


def build(
    state: State,
    activation: str = "tanh",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; the activations are HistoBistro's unless told."""
    embed = state.layer("encoder.0", embed_activation)
    V, w = state.linear("attention.linear1"), state.linear("attention.linear2")
    W, bias = state.linear("head.2")
    attention = Attention(*w, *V, activation=activation, temperature=attention_temperature)
    return BagNetwork(attention, W, bias, embed=(embed,))
