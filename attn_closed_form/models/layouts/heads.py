"""Attention with fixed queries, as attentive probes have it, brought to `BagNetwork`'s form.

Queries q (Q, D), keys k = K x + a, values v = V x + b, split into M heads of width D/M; head m of query q gives
instance x the log-mass q_m . k_m(x) / sqrt(D/M), and the outputs of the heads stand side by side before the linear
layer W (C, D). Mean over the queries. So head (q, m) has w = K_m^T q_m / sqrt(D/M) and readout rows V_m^T W[:, m]^T /
Q; biases of the values join the bias.
"""

from __future__ import annotations

import numpy as np

from ..._types import Array
from ..bag_network import Attention, BagNetwork
from .state import Linear


def probe(
    queries: Array,
    key: Linear,
    value: Linear,
    out: Linear,
    num_heads: int,
    scale_shift: tuple[Array, Array] | None = None,
    positions: Array | None = None,
) -> BagNetwork:
    """Network of a probe: queries (Q, D), key, value and output layers; the features are scaled and shifted before."""
    Q, D = queries.shape
    if num_heads < 1 or D % num_heads:
        raise ValueError(f"num_heads: expected a divisor of {D}, the width of the queries, got {num_heads}")
    width = D // num_heads
    K, a, V, b = key.W, key.b, value.W, value.b
    if scale_shift is not None:
        scale, shift = scale_shift
        K, a, V, b = K * scale, a + K @ shift, V * scale, b + V @ shift
    C = len(out.W)
    w: list[Array] = []
    c: list[float] = []
    rows: list[Array] = []
    classes: list[int] = []
    heads: list[int] = []
    for query in range(Q):
        for m in range(num_heads):
            part = slice(m * width, (m + 1) * width)
            q = queries[query, part] / np.sqrt(width)
            heads += [len(w)] * C
            w.append(q @ K[part])
            c.append(q @ a[part])
            rows.append(out.W[:, part] @ V[part] / Q)
            classes += range(C)
    return BagNetwork(
        Attention(np.array(w), np.array(c)),
        np.concatenate(rows),
        out.b + out.W @ b,
        np.array(classes),
        np.array(heads),
        positions=positions,
    )
