"""torchmil's ABMIL and CLAM_SB (`Franblueee/torchmil`).

s = fc2 . act(fc1 x), times sigmoid(fc_gated x) if gated; logit = classifier . pooled + b. `act` (tanh, relu or gelu)
is not in the file. A feature extractor `feat_ext` made of linear layers with one activation is read as the embedding;
with `extracted=True` the features are what comes out of it, and it may be anything.
"""

from __future__ import annotations

from ..bag_network import Attention, BagNetwork, Layer
from .state import State

NAME = "torchmil"
SUMMARY = "torchmil ABMIL and CLAM_SB"


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return any(state.has(*(f"pool.{layer}" for layer in (f"fc1{end}", "fc2"))) for end in ("", ".module"))


def build(
    state: State,
    activation: str = "tanh",
    gate: str = "sigmoid",
    embed_activation: str = "relu",
    last_activation: str | None = None,
    attention_temperature: float = 1.0,
    extracted: bool = False,
) -> BagNetwork:
    """Network of the file; `last_activation`, of `feat_ext`'s last layer, is `embed_activation` unless told."""
    state.leave("inst_classifiers.", "inst_loss_fn.")
    embed: list[Layer] = []
    if extracted:
        state.leave("feat_ext.")
    else:
        names = state.numbered(r"feat_ext\.(\d+)")
        for name in names:
            last = name == names[-1]
            embed.append(state.layer(name, (last_activation or embed_activation) if last else embed_activation))
    V = state.linear(_lazy(state, "pool.fc1"))
    w = state.linear("pool.fc2")
    gated = _lazy(state, "pool.fc_gated")
    U = state.linear(gated) if state.has(gated) else None
    W, bias = state.linear(_lazy(state, "classifier"))
    attention = Attention(
        *w, *V, U and U.W, U and U.b, activation=activation, gate=gate, temperature=attention_temperature
    )
    return BagNetwork(attention, W, bias, embed=tuple(embed))


def _lazy(state: State, name: str) -> str:
    """Name of a layer that torchmil may have wrapped in a module."""
    return f"{name}.module" if state.has(f"{name}.module") else name
