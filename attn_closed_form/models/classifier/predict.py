"""Predictions: P1 Eq. 1 to 9, through the score tables (`score_tables.py`), for one document or many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._arrays import softmax
from ..._types import Array, Ids, Tokens
from .positions import sinusoidal_positions
from .score_tables import as_tokens, pad
from .weights import AttentionWeights

# Numbers in one block of `predict_many`: enough to amortise a call, few enough to stay in cache.
BLOCK_ELEMENTS = 1 << 18


def predict(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Model output f(xi), P1 Eq. 1.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids. An empty document is [CLS] and padding; one with more than T_max - 1 tokens is cut, with a
        `TruncationWarning`.

    Returns
    -------
    (C,) float64

    Examples
    --------
    >>> weights = random_weights(seed=0)
    >>> predict(weights, [2, 3, 5]).shape
    (1,)
    """
    return _predict_ids(weights, pad(weights, [as_tokens(weights, tokens)]))[0]


def predict_many(weights: AttentionWeights, documents: Sequence[Tokens] | Ids) -> Array:
    """Model outputs of many documents, of any lengths.

    Parameters
    ----------
    weights : AttentionWeights
    documents : B sequences of token ids, or a (B, T) integer array

    Returns
    -------
    (B, C) float64

    Examples
    --------
    >>> weights = random_weights(seed=0)
    >>> bool(np.allclose(predict_many(weights, [[2, 3, 5], [4]])[1], predict(weights, [4])))
    True
    """
    if isinstance(documents, np.ndarray) and documents.ndim == 2 and documents.dtype.kind in "iu":
        checked = _as_matrix(weights, documents)
    else:
        checked = pad(weights, [as_tokens(weights, d, name=f"documents[{i}]") for i, d in enumerate(documents)])
    block = max(1, BLOCK_ELEMENTS // (weights.T_max * weights.K))
    out = np.empty((len(checked), weights.C))
    for start in range(0, len(checked), block):
        out[start : start + block] = _predict_ids(weights, checked[start : start + block])
    return out


def _as_matrix(weights: AttentionWeights, documents: Ids) -> Ids:
    """A rectangular batch, checked and padded without a loop over documents."""
    if documents.size and (documents.min() < 0 or documents.max() >= weights.D):
        row, column = np.argwhere((documents < 0) | (documents >= weights.D))[0]
        raise ValueError(
            f"documents[{row}]: expected ids in 0..{weights.D - 1}, got {documents[row, column]} at position {column}"
        )
    if documents.shape[1] > weights.T_max - 1:
        return pad(weights, [as_tokens(weights, row, stacklevel=4) for row in documents])
    ids = np.full((len(documents), weights.T_max), weights.unk, dtype=np.intp)
    ids[:, 0] = weights.cls
    ids[:, 1 : 1 + documents.shape[1]] = documents
    return ids


def _predict_ids(weights: AttentionWeights, ids: Ids) -> Array:
    """(B, T_max) padded ids -> (B, C)."""
    tables = weights.collapse
    alpha = softmax((tables.s_tok[ids] + tables.s_pos).transpose(0, 2, 1))
    out = np.empty((len(ids), weights.C))
    for c in range(weights.C):
        u = tables.u_tok[ids, :, c] + tables.u_pos[:, :, c]
        out[:, c] = np.einsum("bkt,btk->b", alpha, u) / weights.K + weights.b_l[c]
    return out


def random_weights(
    seed: int,
    D: int = 50,
    d_e: int = 16,
    T_max: int = 32,
    K: int = 2,
    d_att: int = 8,
    d_out: int = 8,
    C: int = 1,
    score_scale: float = 1.0,
    biases: bool = False,
) -> AttentionWeights:
    """Seeded Gaussian weights with attention logits of about `score_scale`, for examples, tests and benchmarks.

    >>> random_weights(seed=0)
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    rng = np.random.default_rng(seed)

    def normal(*shape: int, fan_in: int) -> Array:
        return rng.normal(size=shape) / np.sqrt(fan_in)

    return AttentionWeights(
        W_e=rng.normal(size=(D, d_e)),
        W_p=sinusoidal_positions(T_max, d_e),
        W_q=normal(K, d_att, d_e, fan_in=d_e) * score_scale,
        W_k=normal(K, d_att, d_e, fan_in=d_e),
        W_v=normal(K, d_out, d_e, fan_in=d_e),
        W_l=normal(K, C, d_out, fan_in=d_out),
        b_q=normal(K, d_att, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_k=normal(K, d_att, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_v=normal(K, d_out, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_l=normal(C, fan_in=1) if biases else None,  # type: ignore[arg-type]
        cls=0,
        unk=min(1, D - 1),
    )
