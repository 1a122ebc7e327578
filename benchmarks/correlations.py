"""Correlations of scores, for tables about how far explanations agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attn_closed_form._arrays import numbered
from attn_closed_form._types import Array
from attn_closed_form.explanations.ranks import ranks


def pearson(scores: Array) -> Array:
    """Pearson correlations of the rows of (m, T) scores, (m, m); NaN for a row that is constant."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(centred, axis=1, keepdims=True)
    size = np.linalg.norm(scores, axis=1, keepdims=True)
    # A constant row leaves rounding behind, which correlates with anything.
    unit = np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 1e-12 * size)
    return unit @ unit.T


def spearman(scores: Array) -> Array:
    """Rank correlations of the rows of (m, T) scores, (m, m); ties share their mean rank."""
    return pearson(np.stack([ranks(row) for row in scores]))


def pool_words(scores: Array, ids: NDArray[np.intp]) -> Array:
    """Scores (..., T) of positions added up by word: (..., d), words in order of first appearance."""
    place, first = numbered(ids)
    return np.asarray(scores) @ np.eye(len(first))[place]
