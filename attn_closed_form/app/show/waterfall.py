"""The waterfall: how the scores of the players add up from the baseline to the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._types import Array, Ids
from ..explanations.explanation import Explanation
from ..models.scale import ExplainedScale
from .bars import AxisRange, Bar
from .figures import names
from .sanitize import output_name


class Waterfall(NamedTuple):
    """The bars of a waterfall, pairs (position, text) that mark its axis, and the unit of its
    steps: "points", or nothing.
    """

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    unit: str = ""


class WaterfallStep(NamedTuple):
    """One step of a waterfall before it has a place: its change, standard error and remark."""

    label: str
    change: float
    members: int
    error: float = 0.0
    note: str = ""


class Changes(NamedTuple):
    """Changes with their names, which add up from `start` to `end`, and the two ends' names.

    `errors` are standard errors, 0 for exact changes. `rest` is a last step that is not a player.
    """

    names: tuple[str, ...]
    values: Array
    errors: Array
    start: float
    end: float
    ends: tuple[str, str]
    scale: ExplainedScale
    rest: WaterfallStep | None = None


def waterfall(e: Explanation, top: int = 10) -> Waterfall:
    """Return bars from the baseline (every player absent) to the prediction, for scores that add up
    to it.

    >>> from attn_closed_form import load_demo_model
    >>> e = load_demo_model().explain("A fine film", "shapley")["shapley"]
    >>> [(bar.label, bar.text) for bar in waterfall(e, top=1).bars]
    [('baseline', '50.0%'), ('fine', '+11.3 points'), ('2 without effect', '0.0 points'),
    ('positive', '61.3%')]
    """
    errors = np.zeros(len(e.scores))
    if e.standard_error is not None:
        errors = e.standard_error
    rest = None
    if e.of_fit and e.evidence.fit is not None and e.evidence.fit.at_text:
        # The difference between a fitted game and the model has a separate bar, so the players end
        # before it.
        rest = WaterfallStep(label="what the fit misses", change=e.evidence.fit.at_text, members=1)
    changes = Changes(
        names=names(e.evidence),
        values=e.scores,
        errors=errors,
        start=e.baseline,
        end=e.prediction,
        ends=("baseline", output_name(e.output)),
        scale=e.scale,
        rest=rest,
    )
    return waterfall_of_changes(changes, top)


def waterfall_of_changes(changes: Changes, top: int = 10) -> Waterfall:
    """Return bars from the start of the changes to their end.

    At most `top` changes have separate bars; ten fit on a phone. The others share up to three:
    those that raise the prediction, those that lower it, and those that do neither. The strongest
    comes first, except that no probability passes 0% or 100% on the way. Where the bars of those
    that raise and lower it cannot avoid that in any order, they become one with the sum of both,
    and if need be fewer changes have separate bars.
    """
    steps = _fitting_steps(changes, top)
    ends = changes.start + np.cumsum([step.change for step in steps])
    if changes.rest is not None:
        steps.append(changes.rest)
        # The last step ends at the prediction itself, whatever the sum was rounded to.
        ends = np.append(ends, changes.end)
    # Every step begins where the one before it ends.
    starts = np.append(changes.start, ends[:-1])
    axis = _axis(changes.scale, [*starts, *ends, changes.end], [step.error for step in steps])
    first, last = changes.ends
    bars = [_end_bar(first, changes.start, changes.scale, axis)]
    for step, start, end in zip(steps, starts.tolist(), ends.tolist(), strict=True):
        left, right = sorted((axis.unit(start), axis.unit(end)))
        bars.append(
            Bar(
                label=step.label,
                text=changes.scale.change(end - start, error=step.error or None),
                kind="for" if end >= start else "against",
                start=start,
                end=end,
                left=left,
                right=right,
                members=step.members,
                error=step.error / (axis.high - axis.low),
                note=step.note,
            )
        )
    bars.append(_end_bar(last, changes.end, changes.scale, axis))
    ticks = tuple((at, changes.scale.tick(number)) for at, number in axis.ticks)
    return Waterfall(bars=tuple(bars), ticks=ticks, unit=str(changes.scale.unit["change"]).strip())


def _fitting_steps(changes: Changes, top: int) -> list[WaterfallStep]:
    """Return steps in an order in which no probability passes 0% or 100%, with as many names as
    possible.
    """
    first = _steps(changes, top)
    if not changes.scale.in_percent:
        return first
    # Bars that leave the axis would show probabilities that do not exist, so names are given up
    # before the axis is: first the two bars of the others become one, then there are fewer names.
    for named in range(top, -1, -1):
        for net in (False, True):
            order = order_within(changes.start, _steps(changes, named, net), low=0.0, high=1.0)
            if order is not None:
                return order
    # Changes that do not add up to a probability, such as a sampled estimate far outside.
    return ordered_within(changes.start, first, low=0.0, high=1.0)


def _steps(changes: Changes, top: int, net: bool = False) -> list[WaterfallStep]:
    """Return the `top` strongest changes, strongest first, and the others by sign, or their sum if
    `net`; those that change nothing come last.
    """
    values = changes.values
    order = np.argsort(-np.abs(values), kind="stable")
    named = order
    if len(order) > top + 1:  # a bar for one other player is better used for its name
        named = order[:top]
    others = order[len(named) :]
    steps = [
        WaterfallStep(
            label=changes.names[j],
            change=float(values[j]),
            members=1,
            error=float(changes.errors[j]),
        )
        for j in named
    ]
    # Summed by sign: a sum of both would hide how much is in it.
    raising = others[values[others] > 0]
    lowering = others[values[others] < 0]
    # Words of mass zero have exactly no effect, and raise nothing.
    idle = others.size - raising.size - lowering.size
    without_effect = []
    if idle:
        without_effect = [WaterfallStep(label=f"{idle:,} without effect", change=0.0, members=idle)]
    if net and raising.size and lowering.size:
        return [*steps, _net_step(changes, raising, lowering), *without_effect]
    for players, verb in ((raising, "raise"), (lowering, "lower")):
        if players.size:
            label = f"{players.size:,} others {verb} it"
            if players.size == 1:
                label = f"1 other {verb}s it"
            # Standard errors of several players cannot be added without their correlations.
            steps.append(
                WaterfallStep(
                    label=label, change=float(values[players].sum()), members=int(players.size)
                )
            )
    return [*steps, *without_effect]


def _net_step(changes: Changes, raising: Ids, lowering: Ids) -> WaterfallStep:
    """Return the step of players of both signs, with the sum of each sign as its remark."""
    up = float(changes.values[raising].sum())
    down = float(changes.values[lowering].sum())
    count = int(raising.size + lowering.size)
    parts = []
    for players, verb, total in ((raising, "raise", up), (lowering, "lower", -down)):
        verb_of_one = verb if players.size > 1 else f"{verb}s"
        amount = changes.scale.change(total).removeprefix("+")
        parts.append(f"{players.size:,} {verb_of_one} it by {amount}")
    return WaterfallStep(
        label=f"{count:,} others, net", change=up + down, members=count, note=", ".join(parts)
    )


def ordered_within(
    start: float, steps: Sequence[WaterfallStep], low: float, high: float
) -> list[WaterfallStep]:
    """Order steps such that their running sum stays between low and high, if any order does.

    The first step that allows it comes first, and so on. If no order does, each next step passes an
    end by the least.
    """
    order = order_within(start, steps, low, high)
    if order is not None:
        return order
    remaining = list(steps)
    order = []
    at = start
    while remaining:
        # The smaller excess first keeps the bars as close to the axis as a greedy choice can.
        beyond = [max(low - (at + step.change), at + step.change - high) for step in remaining]
        nearest = remaining.pop(int(np.argmin(beyond)))
        order.append(nearest)
        at += nearest.change
    return order


def order_within(
    start: float, steps: Sequence[WaterfallStep], low: float, high: float
) -> list[WaterfallStep] | None:
    """Return the first order of steps whose running sum stays between low and high, or None if
    there is none.
    """
    # The rounding of a running sum of a few probabilities, with a wide margin that no picture
    # shows.
    room = 1e-9
    changes = [step.change for step in steps]
    # A single change that is longer than the axis fits nowhere, which saves the search.
    if max(map(abs, changes), default=0.0) > high - low + room:
        return None
    # The running sum depends only on the set of steps that were taken, so a set that fails is tried
    # only once.
    failed: set[frozenset[int]] = set()

    def search(taken: list[int], at: float) -> list[int] | None:
        if len(taken) == len(steps):
            return taken
        if frozenset(taken) in failed:
            return None
        for i in range(len(steps)):
            after = at + changes[i]
            if i not in taken and low - room <= after <= high + room:
                found = search([*taken, i], after)
                if found is not None:
                    return found
        failed.add(frozenset(taken))
        return None

    order = search([], start)
    if order is None:
        return None
    return [steps[i] for i in order]


def _axis(scale: ExplainedScale, values: Sequence[float], errors: Sequence[float]) -> AxisRange:
    """Return the range of a waterfall: 0% to 100%, or what the bars need on another scale."""
    if scale.in_percent and min(values) >= 0.0 and max(values) <= 1.0:
        # Quarters, because the labels of more ticks touch each other on a narrow page.
        return AxisRange(0.0, 1.0, tuple((share, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)))
    if scale.in_percent:
        return AxisRange.around([0.0, 1.0, *values])
    margin = max(errors, default=0.0)
    return AxisRange.around([min(values) - margin, max(values) + margin])


def _end_bar(label: str, value: float, scale: ExplainedScale, axis: AxisRange) -> Bar:
    """Return the bar of one of the two ends, which is a line."""
    at = axis.unit(value)
    return Bar(
        label=label,
        text=scale.level(value),
        kind="end",
        start=value,
        end=value,
        left=at,
        right=at,
        members=0,
    )
