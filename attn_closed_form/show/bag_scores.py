"""What maps, tables and files of a bag share: a score per tile and per player, attention, and where the tiles lie."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._types import Array, Ids
from ..explanations.explanation import Explanation, Explanations
from ..explanations.ranks import spearman

ATTENTION = "alpha-mean"


class Place(NamedTuple):
    """Where tiles lie: `coords` (n, 2) of their upper left corners, and the side of a tile in the same unit."""

    coords: Array
    patch_size: float


class Disagreement(NamedTuple):
    """How attention differs from signed scores.

    `correlation` : Spearman's rank correlation of attention with the scores; NaN where one of them is constant
    `magnitude_correlation` : the same with the magnitudes of the scores
    `attention_against` : share of the attention on players whose score is below zero
    """

    correlation: float
    magnitude_correlation: float
    attention_against: float


def place(found: Explanations, patch_size: float | None = None) -> Place:
    """Where the tiles of a bag lie; an error says what a bag without coordinates lacks."""
    units = found.evidence.units
    if units.coords is None:
        raise ValueError("coords: expected a bag with coordinates, which a map needs; this one has none")
    side = patch_size if patch_size is not None else units.attrs.get("patch_size")
    if side is None:
        if len(units.coords) > 1 and np.ptp(units.coords):
            raise ValueError("patch_size: the bag does not say the side of a tile; give patch_size")
        side = 1.0
    return Place(np.asarray(units.coords, dtype=np.float64), float(side))


def leading(found: Explanations, method: str | None = None) -> Explanation:
    """The explanation that a map shows: the one named, else Shapley values, else the first with a sign."""
    if method is not None:
        if method not in found:
            raise ValueError(f"method: expected one of {', '.join(found)}, got {method!r}")
        return found[method]
    if not found:
        raise ValueError("found: expected at least one explanation, got none")
    return min(found.values(), key=lambda e: (e.method != "shapley", e.info.kind != "signed"))


def tile_scores(explanation: Explanation) -> Array:
    """(n,) score of each tile: that of the player that it belongs to, so all tiles of a region have the region's."""
    return explanation.scores[explanation.evidence.player_of]


def attention(found: Explanations) -> Array | None:
    """(n,) attention of each tile, mean over the heads that the explained output uses; None if the model shows none."""
    scores = found.evidence.inside(ATTENTION)
    return None if scores is None else np.asarray(scores[0] if isinstance(scores, tuple) else scores)


def player_attention(found: Explanations) -> Array | None:
    """(d,) attention of each player, summed over its tiles."""
    scores = attention(found)
    return None if scores is None else found.evidence.pool(scores)


def disagreement(found: Explanations, method: str | None = None) -> Disagreement | None:
    """How attention differs from the scores of a method; None if the model shows no attention."""
    weight, scores = player_attention(found), leading(found, method).scores
    if weight is None:
        return None
    total = float(weight.sum())
    against = float(weight[scores < 0].sum()) / total if total > 0 else float("nan")
    return Disagreement(spearman(weight, scores), spearman(weight, np.abs(scores)), against)


def strongest(scores: Array, k: int) -> tuple[Ids, Ids]:
    """The k players with the largest scores above zero, largest first, and the k with the smallest below zero.

    >>> strongest(np.array([0.5, -1.0, 2.0, -3.0, 0.0]), 2)
    (array([2, 0]), array([3, 1]))
    """
    order = np.argsort(-scores, kind="stable")
    top, bottom = order[:k], order[::-1][:k]
    return top[scores[top] > 0], bottom[scores[bottom] < 0]


def player_places(found: Explanations) -> tuple[Ids, Array | None]:
    """Number of tiles of each player, (d,), and the least x and y of its tiles, (d, 2), if the bag has coordinates."""
    evidence = found.evidence
    d = evidence.game.d
    tiles = np.bincount(evidence.player_of, minlength=d)
    if evidence.units.coords is None:
        return tiles, None
    corners = np.full((d, 2), np.inf)
    np.minimum.at(corners, evidence.player_of, np.asarray(evidence.units.coords, dtype=np.float64))
    return tiles, corners


def bag_name(found: Explanations, default: str = "bag") -> str:
    """The name of the bag, where its attributes have one."""
    name: Any = found.evidence.units.attrs.get("name")
    return default if name is None else str(name)
