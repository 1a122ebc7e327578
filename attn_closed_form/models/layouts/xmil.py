"""xMIL's attention MIL (`bifold-pathomics/xMIL`).

h = the layers `linear_layers.i.0`, each with ReLU; s = attention.2 . tanh(attention.0 h); logits = classifier . pooled
+ b. Models with `out_layers` have a network after the pooling and are refused.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "xmil"
SUMMARY = "xMIL attention MIL"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return state.has("linear_layers.0.0", "attention.0", "attention.2", "classifier")


def build(
    state: State,
    activation: str = "tanh",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; the activations are xMIL's unless told."""
    embed = tuple(state.layer(name, embed_activation) for name in state.numbered(r"linear_layers\.(\d+)\.0"))
    V, w = state.linear("attention.0"), state.linear("attention.2")
    W, bias = state.linear("classifier")
    attention = Attention(*w, *V, activation=activation, temperature=attention_temperature)
    return BagNetwork(attention, W, bias, embed=embed)
