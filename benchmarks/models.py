"""The classifier that benchmarks explain: the shipped one where there is one, else seeded Gaussian weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import attn_closed_form
from attn_closed_form import AttentionWeights
from attn_closed_form.models.classifier import random_weights

# The paper's sizes (P1, appendix F).
SIZES = {"D": 20_000, "K": 6, "T_max": 256, "d_e": 128, "d_att": 64, "d_out": 64}


def benchmark_model(seed: int) -> tuple[AttentionWeights, str]:
    """Weights with their tables built, and what they are."""
    if hasattr(attn_closed_form, "load_demo_model"):
        weights, name = attn_closed_form.load_demo_model().weights, "shipped model"
    else:
        weights, name = random_weights(seed, **SIZES, score_scale=2.0), "Gaussian weights"  # type: ignore[arg-type]
    weights.collapse  # noqa: B018  # built once per model, before any clock starts
    return weights, name


def random_document(weights: AttentionWeights, length: int, seed: int) -> NDArray[np.intp]:
    """Ids drawn like words: the k-th word of the vocabulary with probability proportional to 1/k (Zipf)."""
    rank = np.arange(1, weights.D - 1)
    rng = np.random.default_rng(seed)
    return 2 + rng.choice(rank.size, size=length, p=(1 / rank) / (1 / rank).sum())
