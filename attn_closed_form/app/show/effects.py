"""The effects of words over many texts: the data of a bar chart with intervals, drawn by the page
and by matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..explanations.word_effects import Mean, WordEffect
from ..models.scale import ExplainedScale
from .bars import AxisRange
from .sanitize import visible


class EffectBar(NamedTuple):
    """The bar of a word, from 0 to its mean effect.

    `kind` is "for" or "against", and `text` the number to write, such as "+3.1 ± 0.4". The other
    numbers are unit coordinates: the ends of the bar, and the ends of the interval, which are equal
    if there is none.
    """

    word: str
    documents: int
    text: str
    kind: str
    left: float
    right: float
    interval_left: float
    interval_right: float


class EffectChart(NamedTuple):
    """The bars of an output, the position of 0, and pairs (position, text) that mark the axis."""

    bars: tuple[EffectBar, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


def effect_range(effects: Iterable[WordEffect], by: str) -> AxisRange:
    """Return the range of an axis with all bars and their intervals, so that several charts can
    share it.
    """
    ends = [0.0]
    for effect in effects:
        mean = effect.ordered_by(by)
        # A single text has a mean and no interval.
        half_width = mean.half_width or 0.0
        ends += [mean.value - half_width, mean.value + half_width]
    return AxisRange.around(ends, 0.02)


def effect_chart(
    effects: Sequence[WordEffect], scale: ExplainedScale, by: str, axis: AxisRange
) -> EffectChart:
    """Return the bars of the words of one output, in the given order."""
    bars = []
    zero = axis.unit(0.0)
    for effect in effects:
        mean = effect.ordered_by(by)
        half_width = mean.half_width or 0.0
        left, right = sorted((zero, axis.unit(mean.value)))
        bars.append(
            EffectBar(
                word=visible(effect.word),
                documents=effect.documents,
                text=mean_text(mean, scale),
                kind="for" if mean.value >= 0 else "against",
                left=left,
                right=right,
                interval_left=axis.unit(mean.value - half_width),
                interval_right=axis.unit(mean.value + half_width),
            )
        )
    factor = scale.unit["factor"]
    ticks = tuple((at, f"{factor * number:+g}" if number else "0") for at, number in axis.ticks)
    return EffectChart(bars=tuple(bars), zero=zero, ticks=ticks)


def mean_text(mean: Mean, scale: ExplainedScale) -> str:
    """Format a mean with its 95% interval; the title of the column or axis has the unit.

    >>> mean_text(Mean(0.0312, 0.004), ExplainedScale("probability"))
    '+3.1 ± 0.4'
    """
    decimals = 1 if scale.in_percent else 2
    text = scale.digits(mean.value, f"+.{decimals}f")
    if mean.half_width is None:
        return text
    return f"{text} ± {scale.digits(mean.half_width, f'.{decimals}f')}"


def unit_of_effects(by: str, in_percent: bool) -> str:
    """Say what the numbers of a chart are.

    >>> unit_of_effects("mean", in_percent=True)
    'mean effect in the texts with the word, in percentage points'
    """
    where = "over all these texts" if by == "total" else "in the texts with the word"
    unit = ", in percentage points" if in_percent else ""
    return f"mean effect {where}{unit}"
