"""Axes and bars in unit coordinates: 0 is the left or lower end, 1 the right or upper one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class AxisRange(NamedTuple):
    """A range of numbers that is drawn from 0 to 1; `ticks` are pairs (position, round number)."""

    low: float
    high: float
    ticks: tuple[tuple[float, float], ...] = ()

    @classmethod
    def around(cls, values: ArrayLike, margin: float = 0.0) -> AxisRange:
        """Return a scale that contains the values, with a margin on both sides as a share of its
        length.

        >>> AxisRange.around([-1.0, 7.0]).ticks
        ((0.125, 0.0), (0.375, 2.0), (0.625, 4.0), (0.875, 6.0))
        """
        values = np.asarray(values, dtype=np.float64)
        low = float(values.min())
        high = float(values.max())
        if low == high:
            margin = 0.0
            low = low - max(abs(high), 1.0) / 2
            high = high + max(abs(high), 1.0) / 2
        room = margin * (high - low)
        scale = cls(low - room, high + room)
        raw = (scale.high - scale.low) / 7
        if not math.isfinite(raw):  # the ends are too far apart for ticks
            return scale
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
        first = math.ceil(scale.low / step - 1e-9)
        last = math.floor(scale.high / step + 1e-9)
        numbers = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
        return scale._replace(ticks=tuple((scale.unit(number), number) for number in numbers))

    def unit(self, value: Any) -> Any:
        """Return the position of a value, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


class Bar(NamedTuple):
    """A bar from `start` to `end`: the probability of a class, or one step of a waterfall.

    `kind` is "share" for a probability, "for" or "against" for a step up or down, and "end" for the
    two ends of a waterfall. `left` and `right` are unit coordinates, `text` is the number to write,
    such as "94.2%" or "+23.1 points", and `members` is the number of classes or players that share
    the bar (0 for the two ends). `error` is the standard error of a sampled step in unit
    coordinates, and otherwise 0. `note` is a remark, such as the sums of both signs in a bar of
    players of both.
    """

    label: str
    text: str
    kind: str
    start: float
    end: float
    left: float
    right: float
    members: int
    error: float = 0.0
    note: str = ""
