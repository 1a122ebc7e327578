"""One linear layer on the mean of the instances; only by `layout="mean"`, because the file does not say how it pools.

Log-masses are all equal, so that a prediction is the mean of the instances' logits. For texts (EmbeddingBag and a
linear layer, fastText) see `MeanPooledText`, which also knows the words.
"""

from __future__ import annotations

import numpy as np

from ..bag_network import Attention, BagNetwork
from .state import State

NAME = "mean"
SUMMARY = "mean pooling and one linear layer"


def recognise(state: State) -> bool:
    """Never: a linear layer alone could follow any pooling."""
    return False


def build(state: State) -> BagNetwork:
    """Network of a file with one linear layer, whatever its name."""
    if "weight" in state.arrays:  # a linear layer saved alone has no name
        state.arrays = {f"layer.{key}": array for key, array in state.arrays.items()}
    names = [key.removesuffix(".weight") for key in state.arrays if key.endswith(".weight")]
    if len(names) != 1:
        raise ValueError(f"{state.source}: expected one linear layer for layout 'mean', got {state.summary()}")
    W, bias = state.linear(names[0])
    return BagNetwork(Attention(np.zeros((1, W.shape[1]))), W, bias)
