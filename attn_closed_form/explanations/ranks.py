"""Ranks, and what depends on scores through their order alone: Spearman's correlation and the area under the ROC curve.

Equal numbers share their mean rank, as is usual for both (Leemann et al. 2025, E.3, uses the area for human attention).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._types import Array


def ranks(x: ArrayLike) -> Array:
    """Ranks from 1, equal numbers sharing their mean rank.

    >>> ranks([10.0, 30.0, 10.0])
    array([1.5, 3. , 1.5])
    """
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or np.isnan(values).any():
        raise ValueError(f"x: expected one-dimensional numbers, got shape {values.shape} or NaN")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation; NaN if either is constant.

    >>> spearman([1.0, 2.0, 3.0], [10.0, 100.0, 50.0])
    0.5
    """
    a, b = ranks(x), ranks(y)
    if a.shape != b.shape:
        raise ValueError(f"y: expected shape {a.shape} like x, got {b.shape}")
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def auroc(chosen: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve of scores that predict a choice (P2, E.3): P(score of a chosen > of another), ties half.

    Parameters
    ----------
    chosen : (T,) bool, such as human attention; some must be chosen and some not
    scores : (T,) unsigned scores, such as absolute attributions

    Examples
    --------
    >>> auroc([True, False, False], [0.5, 0.5, 0.1])
    0.75
    """
    picked, r = np.asarray(chosen), ranks(scores)
    if picked.shape != r.shape or (picked.dtype.kind != "b" and not np.isin(picked, (0, 1)).all()):
        raise ValueError(f"chosen: expected {r.size} booleans like scores, got {picked.dtype} {picked.shape}")
    picked = picked.astype(bool)
    n1, n0 = int(picked.sum()), int((~picked).sum())
    if n1 == 0 or n0 == 0:
        raise ValueError(f"chosen: expected some tokens chosen and some not, got {n1} of {picked.size}")
    return float((r[picked].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))
