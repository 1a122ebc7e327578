"""MIL_BASELINE's AB_MIL and GATE_AB_MIL (`lingxitong/MIL_BASELINE`).

h = activation(feature.0 x); the gated form uses **ReLU** where others use tanh, by default, and its layers have no
biases.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "mil_baseline"
SUMMARY = "MIL_BASELINE AB_MIL and GATE_AB_MIL"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return state.has("feature.0", "classifier.0") and (
        state.has("attention.0", "attention.2") or state.has("attention_a.0", "attention_b.0", "attention_c")
    )


def build(
    state: State,
    activation: str | None = None,
    gate: str = "sigmoid",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; `activation` is tanh without a gate and relu with one unless told."""
    embed = (state.layer("feature.0", embed_activation),)
    if state.has("attention_a.0"):
        V, U, w = (state.linear(name) for name in ("attention_a.0", "attention_b.0", "attention_c"))
        attention = Attention(*w, *V, *U, activation or "relu", gate, attention_temperature)
    else:
        V, w = state.linear("attention.0"), state.linear("attention.2")
        attention = Attention(*w, *V, None, None, activation or "tanh", gate, attention_temperature)
    W, bias = state.linear("classifier.0")
    return BagNetwork(attention, W, bias, embed=embed)
