"""AttentionDeepMIL (Ilse, Tomczak, Welling 2018): plain and gated attention, `AMLab-Amsterdam/AttentionDeepMIL`.

h = ReLU(part2 x), s = w . tanh(V h + a) or w . (tanh(V h + a) * sigmoid(U h + b)), logit = W . pooled + b; the logit
is what comes before the file's sigmoid. Features are what enters `feature_extractor_part2`: the flattened output of
the convolutions (800 numbers in the authors' network), whose weights are left out.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "abmil"
SUMMARY = "AttentionDeepMIL, plain or gated attention"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    gated = state.has("attention_V.0", "attention_U.0", "attention_w")
    return (
        state.has("classifier.0")
        and "feature.0.weight" not in state
        and (gated or (state.has("attention.0", "attention.2") and not state.has("attention.3")))
    )


def build(
    state: State,
    activation: str = "tanh",
    gate: str = "sigmoid",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; the activations are the authors' unless told."""
    state.leave("feature_extractor_part1.")
    embed = [state.layer(name, embed_activation) for name in state.numbered(r"feature_extractor_part2\.(\d+)")]
    if state.has("attention_V.0"):
        V, U, w = (state.linear(name) for name in ("attention_V.0", "attention_U.0", "attention_w"))
        attention = Attention(*w, *V, *U, activation, gate, attention_temperature)
    else:
        V, w = state.linear("attention.0"), state.linear("attention.2")
        attention = Attention(*w, *V, None, None, activation, gate, attention_temperature)
    if len(attention.w) != 1:
        raise ValueError(
            f"{state.source}: expected one attention branch, got {len(attention.w)}: the authors' code does not run "
            "with more"
        )
    W, bias = state.linear("classifier.0")
    return BagNetwork(attention, W, bias, embed=tuple(embed))
