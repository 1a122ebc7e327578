"""CLAM (Lu et al. 2021): single branch, multiple branch, gated and not, `mahmoodlab/CLAM`.

h = ReLU(L x); s = attention_c . (tanh(attention_a h) * sigmoid(attention_b h)), or w . tanh(V h) without the gate. The
single branch has one attention for all classes and one linear layer `classifiers`; the multiple branch has one row of
`attention_c` and one layer `classifiers.c` per class. The layers are called `attention_net.0` and `attention_net.2` or
`.3`, by whether the network had dropout; files saved from several devices have `attention_net.module.0`. The instance
classifiers of the training play no part in the prediction.
"""

from __future__ import annotations

import re

import numpy as np

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "clam"
SUMMARY = "CLAM-SB and CLAM-MB, gated or not"
START = "attention_net."


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return any(key.startswith(START) for key in state.arrays) and any(
        key.startswith("classifiers.") for key in state.arrays
    )


def build(
    state: State,
    activation: str = "tanh",
    gate: str = "sigmoid",
    embed_activation: str = "relu",
    attention_temperature: float = 1.0,
) -> BagNetwork:
    """Network of the file; the activations are CLAM's unless told."""
    state.leave("instance_classifiers.", "instance_loss_fn.")
    # DataParallel's "module." comes before the number; that of the ungated attention comes after it, and stays.
    start = f"{START}module." if any(re.match(rf"{START}module\.\d+\.", key) for key in state.arrays) else START
    embed = state.layer(f"{start}0", embed_activation)
    numbers = {match[1] for key in state.arrays if (match := re.match(rf"{re.escape(start)}([1-9]\d*)\.", key))}
    if len(numbers) != 1:
        raise ValueError(
            f"{state.source}: expected one attention network after {start}0, got numbers {sorted(numbers)}: "
            f"{state.summary()}"
        )
    name = start + numbers.pop()
    if state.has(f"{name}.attention_a.0"):
        V, U = state.linear(f"{name}.attention_a.0"), state.linear(f"{name}.attention_b.0")
        attention = Attention(*state.linear(f"{name}.attention_c"), *V, *U, activation, gate, attention_temperature)
    else:
        layers = state.numbered(rf"{re.escape(name)}\.module\.(\d+)")
        if len(layers) != 2:
            raise ValueError(f"{state.source}: expected two layers of {name}.module, got {layers}")
        V, w = (state.linear(layer) for layer in layers)
        attention = Attention(*w, *V, None, None, activation, gate, attention_temperature)
    H = len(attention.w)
    if state.has("classifiers"):
        W, bias = state.linear("classifiers")
        if H != 1:
            raise ValueError(f"{state.source}: expected one attention branch with one layer 'classifiers', got {H}")
        return BagNetwork(attention, W, bias, embed=(embed,))
    rows = [state.linear(layer) for layer in state.numbered(r"classifiers\.(\d+)")]
    if len(rows) != H or any(len(row.W) != 1 for row in rows):
        raise ValueError(f"{state.source}: expected {H} layers classifiers.c, one per branch, got {len(rows)}")
    classes = np.arange(H)
    return BagNetwork(
        attention,
        np.concatenate([row.W for row in rows]),
        np.concatenate([row.b for row in rows]),
        classes,
        classes,
        (embed,),
    )
