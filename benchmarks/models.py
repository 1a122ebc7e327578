"""The classifier that benchmarks explain: P1's, which has to be trained first.

    python -m benchmarks.papers.retrained --data PATH     # trains it

The shipped model has one head and no positions; what the papers say, and how long six heads take,
is measured here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, TextClassifier, load_model
from attn_closed_form.attention import random_weights

from .papers.reproduction import WORK

# The paper's sizes (P1, appendix F).
SIZES = {"D": 20_000, "K": 6, "T_max": 256, "d_e": 128, "d_att": 64, "d_out": 64}
SIX_HEADS = WORK / "retrained" / "seed0.npz"


def p1_model() -> TextClassifier | None:
    """P1's classifier with its six heads and its positions, if it has been trained."""
    return load_model(SIX_HEADS) if SIX_HEADS.exists() else None


def needed_p1_model() -> TextClassifier:
    """`p1_model`, or the end of the program with a sentence that says how to train it."""
    model = p1_model()
    if model is None:
        raise SystemExit(
            f"error: {SIX_HEADS} is missing: python -m benchmarks.papers.retrained --data PATH "
            "trains it"
        )
    return model


def benchmark_model(seed: int, random: bool = False) -> tuple[AttentionWeights, str]:
    """P1's weights with their tables built, and what they are; if `random`, Gaussian weights of the
    same size, for what depends on sizes alone.
    """
    if random:
        weights = random_weights(seed, **SIZES, score_scale=2.0)  # type: ignore[arg-type]
        name = "Gaussian weights"
    else:
        weights = needed_p1_model().weights
        name = "P1's model, six heads"
    weights.collapse  # noqa: B018  # built once per model, before any clock starts
    return weights, name


def random_document(weights: AttentionWeights, length: int, seed: int) -> NDArray[np.intp]:
    """Ids drawn like words: the k-th word of the vocabulary with probability proportional to 1/k
    (Zipf).
    """
    rank = np.arange(1, weights.D - 1)
    rng = np.random.default_rng(seed)
    return 2 + rng.choice(rank.size, size=length, p=(1 / rank) / (1 / rank).sum())
