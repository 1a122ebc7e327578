"""Networks that are known and are no pooled games, by the names in their files, with the reason.

A pooled game needs instances that do not see each other before the pooling, one softmax (or mean) over the instances,
and nothing but linear layers after it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .state import State

DEPENDENT = "instances depend on each other before the pooling"
AFTER = "what follows the pooling is not linear"


class Refusal(NamedTuple):
    """A kind of network: a pattern that one of its names matches, what it is, and why it is no pooled game."""

    pattern: str
    what: str
    why: str


REFUSALS = (
    Refusal(r"i_classifier\..*|b_classifier\..*", "DSMIL", "its query is the highest-scoring instance that is present"),
    Refusal(r"(.*\.)?(pos_layer\.proj|layer1\.attn\.to_qkv|.*to_qkv)\..*", "TransMIL", f"self-attention: {DEPENDENT}"),
    Refusal(
        r".*(self_attn|in_proj_weight|transformer|encoder\.layers?\.\d|blocks?\.\d+\.attn).*",
        "a transformer",
        DEPENDENT,
    ),
    Refusal(r".*(weight_ih_l\d|weight_hh_l\d).*", "a recurrent network", DEPENDENT),
    Refusal(
        r".*additive.*",
        "Additive MIL",
        "its network acts on features times attention, which is not linear in the attention",
    ),
    Refusal(r"out_layers\..*", "xMIL with out_layers", AFTER),
    Refusal(r"(.*\.)?(dimReduction|attCls|UClassifier)\..*", "DTFD-MIL", "it pools random groups of instances twice"),
    Refusal(
        r"chowder.*|score_model\..*|.*extreme.*",
        "Chowder",
        "it keeps the highest and lowest scores, not a softmax mean",
    ),
    Refusal(r"(.*\.)?(post_attn|pooled_mlp|condensing_layer|image_pooler)\..*", "TRIDENT's slide encoder", AFTER),
    Refusal(r"attention_nn\..*", "DeepRC", "it keeps the tenth of the instances with most attention before it pools"),
    Refusal(r"(.*\.)?(gcn|gnn|gat|graph_?conv)s?\d*\..*", "a graph network", DEPENDENT),
)


def refusal(state: State) -> str | None:
    """What the file looks like and why it is no pooled game; None where nothing says so."""
    for pattern, what, why in REFUSALS:
        for key in state.arrays:
            if re.fullmatch(pattern, key):
                return f"looks like {what} ({key}), which is no pooled game: {why}"
    return None
