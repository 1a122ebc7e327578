"""MIL-Lab's ABMIL and CLAM, and FEATHER, which is the former (`mahmoodlab/MIL-Lab`).

h = the layers `patch_embed.0`, `.3`, ..., each with ReLU; `global_attn` as CLAM's attention network. Hugging Face
files have the prefix `model.`. FEATHER without a classifier gives an embedding, and has nothing to explain.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "mil_lab"
SUMMARY = "MIL-Lab ABMIL and CLAM, FEATHER"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return state.has("patch_embed.0") and any(key.startswith("global_attn.") for key in state.arrays)


def build(
    state: State,
    activation: str = "tanh",
    gate: str = "sigmoid",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; the activations are MIL-Lab's unless told."""
    if not state.has("classifier"):
        raise ValueError(
            f"{state.source}: has a MIL-Lab encoder without a classifier: an embedding has no output to explain. Add "
            "the linear layer on top of it as classifier.weight and classifier.bias"
        )
    state.leave("instance_classifiers.", "instance_loss_fn.")
    embed = tuple(state.layer(name, embed_activation) for name in state.numbered(r"patch_embed\.(\d+)"))
    if state.has("global_attn.attention_a.0"):
        names = ("attention_a.0", "attention_b.0", "attention_c")
        V, U, w = (state.linear(f"global_attn.{name}") for name in names)
        attention = Attention(*w, *V, *U, activation, gate, attention_temperature)
    else:
        V, w = (state.linear(name) for name in state.numbered(r"global_attn\.module\.(\d+)"))
        attention = Attention(*w, *V, None, None, activation, gate, attention_temperature)
    W, bias = state.linear("classifier")
    return BagNetwork(attention, W, bias, embed=embed)
