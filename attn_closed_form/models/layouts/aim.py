"""AIM's attentive probe (`apple/ml-aim`, `AttentionPoolingClassifier`), on frozen patch tokens.

Batch normalisation without parameters, keys and values, learned queries `cls_token` (1, Q, D), scaled dot-product
attention in `num_heads` heads, mean over the queries, one linear layer. The number of heads is not in the file (AIM's
default is 12).
"""

from __future__ import annotations

import numpy as np

from ..bag_network import BagNetwork
from .heads import probe
from .state import State

NAME = "aim"
SUMMARY = "AIM attentive probe"
BATCH_NORM_EPS = 1e-6  # as in AIM's code


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    return "cls_token" in state and state.has("k", "v", "linear")


def build(state: State, num_heads: int = 12) -> BagNetwork:
    """Network of the file, with `num_heads` heads."""
    queries = state.array("cls_token")
    key, value, out = (state.linear(name) for name in ("k", "v", "linear"))
    norm = state.batch_norm("bn", BATCH_NORM_EPS) if "bn.running_mean" in state else None
    return probe(np.reshape(queries, (-1, queries.shape[-1])), key, value, out, num_heads, norm)
