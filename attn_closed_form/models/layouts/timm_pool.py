"""timm's AttentionPoolLatent with `out_features=0` under a linear head, on frozen patch tokens
(`huggingface/pytorch-image-models`).

Query q = Q latent + a (or the latent itself), keys and values from one layer `kv`, scaled dot-product attention in
`num_heads` heads (not in the file; timm's default is 8), the first latent or the mean of them (`pool_type`), and a
linear head called `head`, `fc`, `classifier` or `linear`. Position embeddings are added to the tokens. With `proj` but
no `mlp` the projection is linear and joins the head; with an `mlp` or a normalisation after the pooling it is no
pooled game.
"""

from __future__ import annotations

import numpy as np

from ..bag_network import BagNetwork
from .heads import probe
from .state import Linear, State

NAME = "timm"
SUMMARY = "timm AttentionPoolLatent with a linear head"
HEADS = ("head", "fc", "classifier", "linear", "head.fc", "0", "1")


def recognise(state: State) -> bool:
    """Whether the names are this layout's."""
    start = _start(state)
    return start is not None and state.has(f"{start}kv")


def build(state: State, num_heads: int = 8, pool_type: str = "token") -> BagNetwork:
    """Network of the file; features are the tokens that enter the pooling."""
    start = _start(state)
    assert start is not None
    after = [key for key in state.arrays if key.startswith((f"{start}mlp.", f"{start}norm.", "fc_norm."))]
    if after:
        raise ValueError(
            f"{state.source}: has {after[0]!r} after the pooling (a normalisation or a network that is not linear): it "
            "is no pooled game. timm's AttentionPoolLatent is one with out_features=0"
        )
    if f"{start}k_norm.weight" in state:
        raise ValueError(f"{state.source}: has {start}k_norm, a normalisation of keys that this layout does not read")
    if pool_type not in ("token", "avg"):
        raise ValueError(f"pool_type: expected 'token' or 'avg', got {pool_type!r}")
    names = [name for name in HEADS if state.has(name) and not f"{name}.".startswith(start or "?")]
    if len(names) != 1:
        raise ValueError(f"{state.source}: expected one linear head ({', '.join(HEADS[:4])}), got {state.summary()}")
    latent = state.array(f"{start}latent")
    latent = np.reshape(latent, (-1, latent.shape[-1]))
    latent = latent[:1] if pool_type == "token" else latent
    if state.has(f"{start}q"):
        Q, a = state.linear(f"{start}q")
        latent = latent @ Q.T + a
    W, b = state.linear(f"{start}kv")
    D = len(W) // 2
    out = state.linear(names[0])
    if state.has(f"{start}proj"):
        P, p = state.linear(f"{start}proj")
        out = Linear(out.W @ P, out.b + out.W @ p)
    positions = state.array(f"{start}pos_embed") if f"{start}pos_embed" in state else None
    positions = None if positions is None else np.reshape(positions, (-1, positions.shape[-1]))
    # The encoder that makes the tokens is not part of the pooling.
    state.leave(
        "blocks.", "patch_embed.", "cls_token", "pos_embed", "reg_token", "norm.", "norm_pre.", "stages.", "stem."
    )
    return probe(latent, Linear(W[:D], b[:D]), Linear(W[D:], b[D:]), out, num_heads, None, positions)


def _start(state: State) -> str | None:
    """What stands before `latent`: "" or "attn_pool." and the like."""
    found = [key.removesuffix("latent") for key in state.arrays if key == "latent" or key.endswith(".latent")]
    return found[0] if len(found) == 1 else None
