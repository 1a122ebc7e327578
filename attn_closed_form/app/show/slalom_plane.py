"""The SLALOM plane: the players of a text at (importance, value), with labels that do not cover
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._types import Array, Ids
from ..explanations.explanation import Explanations
from .bars import AxisRange
from .figures import names
from .page import LONGEST_LABEL, details, note, svg, svg_text
from .sanitize import elide, escape, prose

# Tuning: the number of labels in the SLALOM plane that do not crowd it.
MOST_LABELS = 26


class PlacedLabel(NamedTuple):
    """The label of a player, in unit coordinates; `anchor` is the end of the text that is at (x,
    y).
    """

    player: int
    text: str
    x: float
    y: float
    anchor: str


class SlalomPlane(NamedTuple):
    """Each player at (importance, value), as in Figure 5 of Leemann et al. 2025; the decisive
    players are labeled.

    `x` and `y` are the positions of the players in unit coordinates, `across` and `up` their
    scales, and `zero` is the height of the value 0.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    across: AxisRange
    up: AxisRange
    zero: float
    labels: tuple[PlacedLabel, ...]


# The methods that the SLALOM plane shows: height, position from left to right, and choice of the
# labels.
SLALOM = ("slalom-value", "slalom-importance", "slalom-linear")


def slalom_plane(explanations: Explanations, top: int = MOST_LABELS) -> SlalomPlane | None:
    """Return the SLALOM plane, or None unless its three methods were run."""
    if not set(SLALOM) <= set(explanations):
        return None
    value, importance, linear = (explanations[name].scores for name in SLALOM)
    # A margin keeps the points and their labels away from the axes.
    across = AxisRange.around(importance, 0.07)
    up = AxisRange.around(np.append(value, 0.0), 0.07)
    places = np.stack([across.unit(importance), up.unit(value)], axis=1)
    # The decisive players; if a label does not fit, the next player is tried.
    order = np.argsort(-np.abs(linear), kind="stable")[: 2 * top]
    words = names(explanations.evidence)
    labels = _placed(places, order, texts=[elide(words[j], 18) for j in order], most=top)
    x, y = (tuple(column.tolist()) for column in places.T)
    return SlalomPlane(x=x, y=y, across=across, up=up, zero=float(up.unit(0.0)), labels=labels)


# Labels are placed in a plane of this width and height in dots.
PLANE = np.array([428.0, 298.0])
# The width of a letter of 12 dots, measured on DejaVu Sans, the widest of the fonts of the style
# sheet.
LETTER = 7.2
# The height of a line of labels.
LINE = 13.0
# Tuning: the positions of a label next to its point, in order of preference: right, left, above,
# below.
OFFSETS = np.array([(7, -4), (-7, -4), (7, 7), (7, -14), (-7, 7), (-7, -14)])
# Shares of a label's width and height to the left of and below its anchor.
SHARES = np.column_stack([OFFSETS[:, 0] < 0, np.full(6, 0.25)])


def _placed(places: Array, order: Ids, texts: Sequence[str], most: int) -> tuple[PlacedLabel, ...]:
    """Place at most `most` labels in this order, each where it covers no label and no point."""
    # The radius of a point, in dots.
    dot = 4.0
    dots = places * PLANE
    sizes = np.array([(LETTER * len(text), LINE) for text in texts])[:, None]
    written = dots[order, None] + OFFSETS  # (labels, offsets, 2)
    low = written - sizes * SHARES
    high = low + sizes
    covers = np.ones(
        (*low.shape[:2], len(dots)), dtype=bool
    )  # the point lies within the label on both axes
    for axis in range(2):
        point = dots[:, axis]
        covers &= (low[:, :, None, axis] <= point + dot) & (point - dot <= high[:, :, None, axis])
    free = ((low >= 0) & (high <= PLANE)).all(axis=2) & ~covers.any(axis=2)
    labels: list[PlacedLabel] = []
    boxes: list[list[float]] = []
    all_boxes = np.concatenate([low, high], axis=2)
    at = written / PLANE
    players = order.tolist()
    which = np.argwhere(free).tolist()
    for (i, k), box, (x, y) in zip(which, all_boxes[free].tolist(), at[free].tolist(), strict=True):
        if len(labels) == most:
            break
        # The candidates of one player follow each other, and the first that is free was taken.
        if labels and labels[-1].player == players[i]:
            continue
        left, bottom, right, top = box
        if all(
            right < other[0] or other[2] < left or top < other[1] or other[3] < bottom
            for other in boxes
        ):
            boxes.append(box)
            labels.append(
                PlacedLabel(
                    player=players[i],
                    text=texts[i],
                    x=x,
                    y=y,
                    anchor="end" if OFFSETS[k, 0] < 0 else "start",
                )
            )
    return tuple(labels)


def slalom_plane_of(explanations: Explanations) -> str:
    """Return the SLALOM plane, if the methods that it shows were run."""
    figure = slalom_plane(explanations)
    if figure is None:
        return ""
    left = 44
    top = 8
    wide, high = PLANE
    bottom = top + high

    def x(unit: float) -> float:
        return left + unit * wide

    def y(unit: float) -> float:
        return bottom - unit * high

    body = [
        f'<path class="a" d="M{left} {y(figure.zero):.1f}h{wide:g}'
        f'M{left} {top}v{high:g}h{wide:g}"/>'
    ]
    body += [
        svg_text(x(at), bottom + 14, prose(f"{number:g}"), "middle")
        for at, number in figure.across.ticks
    ]
    body += [
        svg_text(left - 5, y(at) + 4, prose(f"{number:g}"), "end") for at, number in figure.up.ticks
    ]
    body.append(svg_text(x(0.5), bottom + 30, "importance s (log weight)", "middle"))
    body.append(
        f'<text transform="translate(10 {y(0.5):g}) rotate(-90)" '
        'text-anchor="middle">value v</text>'
    )
    trusted = explanations[SLALOM[0]].trusted
    sides: dict[bool, list[str]] = {True: [], False: []}
    players = names(explanations.evidence)
    value = explanations[SLALOM[0]].scores
    importance = explanations[SLALOM[1]].scores
    for name, s, v, across, up in zip(players, importance, value, figure.x, figure.y, strict=True):
        tip = f"<title>{escape(name, LONGEST_LABEL)} s={s:.3g} v={v:.3g}</title>"
        sides[v >= 0].append(f'<circle cx="{x(across):.1f}" cy="{y(up):.1f}" r="4">{tip}</circle>')
    # One group per color keeps the attribute off a thousand circles.
    for positive, dots in sides.items():
        kind = "for" if positive else "against"
        if not trusted:
            kind = "gray"
        body.append(f'<g class="{kind}">{"".join(dots)}</g>')
    body += [
        svg_text(x(label.x), y(label.y), escape(label.text), label.anchor)
        for label in figure.labels
    ]
    things = explanations.evidence.target.players
    text = (
        f"Value and importance (log weight) of the {things}. Those on the right have the most "
        "weight."
    )
    drawn = svg(480, 340, body, label="Value of each word against its importance")
    title = "SLALOM plane" if trusted else "SLALOM plane (poor fit)"
    return details(title, note(text) + drawn)
