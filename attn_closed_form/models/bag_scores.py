"""Scores of one bag as a network: what any framework returns, without a layout.

Where log-masses and values of the instances are known, they are the features, and the network picks its columns out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array
from .bag_layers import Attention
from .bag_network import BagNetwork


def as_scores(raw_attention: ArrayLike, instance_logits: ArrayLike) -> tuple[Array, Array]:
    """Checked log-masses (H, n), H = 1 or C, and values (n, C)."""
    s = np.atleast_2d(np.asarray(raw_attention, dtype=np.float64))
    v = np.asarray(instance_logits, dtype=np.float64)
    v = v[:, None] if v.ndim == 1 else v
    if v.ndim != 2 or s.ndim != 2 or s.shape[1] != len(v) or len(s) not in (1, v.shape[1]):
        raise ValueError(
            f"raw_attention: expected shape (n,) or (C, n) for instance_logits (n, C) = {v.shape}, got {s.shape}"
        )
    return s, v


def table_network(s: Array, v: Array, bias: Any = 0.0) -> tuple[BagNetwork, Array]:
    """A network whose features are the scores themselves, and the features: log-masses (H, n), values (n, C) with bias.

    H is 1, or C where every class has an attention of its own.
    """
    H, C = len(s), v.shape[1]
    shift = np.broadcast_to(np.asarray(bias, dtype=np.float64), (C,))
    eye = np.eye(H + C)
    heads = np.zeros(C, dtype=np.intp) if H == 1 else np.arange(C)
    network = BagNetwork(Attention(eye[:H]), eye[H:], shift, value_head=heads)
    return network, np.concatenate([s.T, v - shift], axis=1)
