"""Correlations of scores, for tables about how far explanations agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form._arrays import numbered, ranks
from attn_closed_form._types import Array


def pearson(scores: Array) -> Array:
    """Pearson correlations of the rows of (m, T) scores, (m, m); NaN for a row that is constant."""
    centered = scores - scores.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(centered, axis=1, keepdims=True)
    size = np.linalg.norm(scores, axis=1, keepdims=True)
    # A constant row leaves rounding behind, which correlates with anything.
    unit = np.divide(centered, norm, out=np.full_like(centered, np.nan), where=norm > 1e-12 * size)
    return unit @ unit.T


def spearman(scores: Array) -> Array:
    """Rank correlations of the rows of (m, T) scores, (m, m); ties share their mean rank."""
    return pearson(np.stack([ranks(row) for row in scores]))


def pool_words(scores: Array, ids: NDArray[np.intp]) -> Array:
    """Scores (..., T) of positions added up by word: (..., d), words in order of first
    appearance.
    """
    place, first = numbered(ids)
    return np.asarray(scores) @ np.eye(len(first))[place]


def auroc(chosen: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve of scores that predict a choice (P2, E.3): P(score of a chosen > of
    another), ties half.

    Parameters
    ----------
    chosen : (T,) bool, such as human attention; some must be chosen and some not
    scores : (T,) unsigned scores, such as absolute attributions

    Examples
    --------
    >>> auroc([True, False, False], [0.5, 0.5, 0.1])
    0.75
    """
    picked = np.asarray(chosen)
    r = ranks(scores)
    if picked.shape != r.shape or (picked.dtype.kind != "b" and not np.isin(picked, (0, 1)).all()):
        raise ValueError(
            f"chosen: expected {r.size} booleans like scores, got {picked.dtype} {picked.shape}"
        )
    picked = picked.astype(bool)
    n1 = int(picked.sum())
    n0 = int((~picked).sum())
    if n1 == 0 or n0 == 0:
        raise ValueError(
            f"chosen: expected some tokens chosen and some not, got {n1} of {picked.size}"
        )
    return float((r[picked].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))
