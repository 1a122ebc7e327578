"""marugoto's MILModel and slideflow's Attention_MIL (`KatherLab/marugoto`, `slideflow/slideflow`).

h = ReLU(encoder.0 x); s = attention.2 . tanh(attention.0 h) / temperature (slideflow also has one linear layer
`attention`); the head is a batch normalisation and a linear layer, logits = head.3 . (scale * pooled + shift) + b,
which is linear in evaluation. slideflow's `attention_gate` above 0 drops the instances below a quantile of the bag's
scores; what is dropped depends on who is present, so that it is no pooled game: `attention_gate` must be 0, and the
file does not say it.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "marugoto"
SUMMARY = "marugoto MILModel, slideflow Attention_MIL"
BATCH_NORM_EPS = 1e-5  # PyTorch's default


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    attention = state.has("attention.0", "attention.2") or state.has("attention")
    return state.has("encoder.0", "head.3") and attention and "head.1.running_mean" in state


def build(
    state: State,
    activation: str = "tanh",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
    attention_gate: float = 0.0,
) -> BagNetwork:
    """Network of the file; give slideflow's `temperature` as `attention_temperature`."""
    if attention_gate:
        raise ValueError(
            f"attention_gate: expected 0, got {attention_gate}: a quantile of the bag's scores decides which instances "
            "count, so that the model is no pooled game"
        )
    state.leave("_neg_inf")
    embed = state.layer("encoder.0", embed_activation)
    if state.has("attention"):
        attention = Attention(*state.linear("attention"), temperature=attention_temperature)
    else:
        V, w = state.linear("attention.0"), state.linear("attention.2")
        attention = Attention(*w, *V, activation=activation, temperature=attention_temperature)
    scale, shift = state.batch_norm("head.1", BATCH_NORM_EPS)
    W, bias = state.linear("head.3")
    return BagNetwork(attention, W * scale, bias + W @ shift, embed=(embed,))
