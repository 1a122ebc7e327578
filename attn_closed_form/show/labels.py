"""Labels beside points, none over another: one placement for the report's and the plots' SLALOM planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._types import Array

# How far a point reaches, and where its label may stand: to the right, to the left, above, below.
POINT = 3.0
OFFSETS = ((7, 4, "start"), (-7, 4, "end"), (7, -7, "start"), (7, 14, "start"), (-7, -7, "end"), (-7, 14, "end"))


class Label(NamedTuple):
    """A label of a point, anchored at its start or end at (x, y); y grows downwards."""

    point: int
    x: float
    y: float
    anchor: str


def place_labels(
    words: Sequence[str],
    x: Array,
    y: Array,
    weight: Array,
    frame: tuple[float, float, float, float],
    most: int = 26,
    letter: float = 7.2,
    height: float = 13.0,
) -> list[Label]:
    """Labels of the weightiest points, each where it covers no other label and no point; one without room is left out.

    Parameters
    ----------
    words : n labels
    x, y : (n,) points, y downwards
    weight : (n,) points are labelled in the order of |weight|
    frame : left, top, right, bottom of the room
    most : how many labels at most
    letter, height : size of a letter, in the unit of x and y

    Examples
    --------
    >>> x, y, weight = np.array([30.0, 31.0]), np.array([50.0, 50.0]), np.array([1.0, 2.0])
    >>> placed = place_labels(["a", "b"], x, y, weight, frame=(0, 0, 99, 99))
    >>> [label.point for label in placed]
    [1, 0]
    """
    taken = [(a - POINT, b - POINT, a + POINT, b + POINT) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    placed: list[Label] = []
    for j in np.argsort(-np.abs(weight), kind="stable").tolist():
        size = letter * len(words[j])
        for dx, dy, anchor in OFFSETS:
            left = x[j] + dx if anchor == "start" else x[j] + dx - size
            box = (left, y[j] + dy - 0.8 * height, left + size, y[j] + dy + 0.25 * height)
            inside = box[0] > frame[0] and box[1] > frame[1] and box[2] < frame[2] and box[3] < frame[3]
            free = all(box[2] < t[0] or t[2] < box[0] or box[3] < t[1] or t[3] < box[1] for t in taken)
            if inside and free:
                taken.append(box)
                placed.append(Label(j, float(x[j] + dx), float(y[j] + dy), anchor))
                break
        if len(placed) == most:
            break
    return placed
