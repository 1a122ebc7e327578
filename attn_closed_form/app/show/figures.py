"""The data of every figure, computed once from the result of `explain`; the views only draw them.

A figure is a named tuple; `plain` turns it into lists and dicts for JSON. Places are unit
coordinates: x from 0 at the left to 1 at the right, y from 0 at the bottom to 1 at the top. Names
of players are safe to show on one line (`sanitize.visible`); the pieces of a text are unescaped,
and each view escapes them. Maps of bags are in `maps.py`.

All views share one color scale. Vermilion raises the prediction and blue lowers it, as in shap and
lime; gray has no sign. The two are from Okabe and Ito's palette and differ for every common kind of
color blindness. Strengths are divided into five levels, so that players can also be marked without
any color: +, ++, +++, ++++.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._types import Array, Ids
from ...reasons.curves import RemovalCurves
from ..explanations.answers import removal_curves_of
from ..explanations.evidence import Evidence
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import FAMILIES, METHODS, Family
from ..models.scale import LOGIT, percent
from .sanitize import elide, visible

# Red, green and blue at full strength: vermilion and blue of Okabe and Ito's palette (2008), and a
# gray.
FOR = (213, 94, 0)
AGAINST = (0, 114, 178)  # blue
UNSIGNED = (110, 110, 110)  # gray
# Tuning: a strength at or above LEVELS[i] has level i + 1. A word below 1/8 of the strongest word
# is not colored.
LEVELS = (0.125, 0.3, 0.5, 0.75)
# The rounding of a running sum of a few probabilities, with a wide margin, which no picture shows.
ROOM = 1e-9
# Tuning: the number of classes with a bar.
MOST_CLASSES = 6
# Tuning: the number of rows in a table of numbers.
MOST_ROWS = 12
# Tuning: the number of labels in the SLALOM plane that do not crowd it.
MOST_LABELS = 26


def levels(strength: Array) -> NDArray[np.int_]:
    """Return the level -4..4 of each strength in [-1, 1]."""
    return np.sign(strength).astype(int) * np.searchsorted(LEVELS, np.abs(strength), side="right")


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


def leader(explanations: Explanations, method: str | None = None) -> Explanation:
    """Return the explanation that colors a text or a map: the given method, the headline, or the
    first signed one.
    """
    if method is not None:
        if method not in explanations:
            raise ValueError(f"method: expected one of {', '.join(explanations)}, got {method!r}")
        return explanations[method]
    if not explanations:
        raise ValueError("explanations: expected at least one, got none")
    headline = explanations.evidence.headline
    return min(explanations.values(), key=lambda e: (e.method != headline, e.info.kind != "signed"))


def names(evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the players, safe to show on one line."""
    return evidence.of_input("visible names", lambda: tuple(map(visible, evidence.names)))


def notice(explained: Explanation | Explanations) -> str:
    """Return a sentence to show instead of the explanation if no word is in the vocabulary,
    otherwise "".
    """
    units = explained.evidence.units
    if units.unknown is None:
        return ""
    unknown = units.unknown.tolist()
    known = (label for label, missing in zip(units.labels, unknown, strict=True) if not missing)
    if not any(unknown) or any(character.isalnum() for label in known for character in label):
        return ""
    several = sum(unknown) > 1
    if several:
        none = f"None of the {sum(unknown)} words of this text is"
    else:
        none = "The only word of this text is not"
    if several:
        means = "what they mean"
    else:
        means = "what it means"
    return (
        f"{none} in the vocabulary of the model. The prediction does not depend on {means}, so "
        "there is nothing to explain."
    )


def sampling(e: Explanation) -> str:
    """State the number of model calls and the largest standard error; empty for exact methods."""
    if e.info.needs != "model" or e.model_calls is None:
        return ""
    if e.standard_error is None:
        largest = 0.0
    else:
        largest = float(e.standard_error.max())
    if largest:
        error = f"sampled, ± standard error (at most {e.scale.end(largest)})"
    else:
        error = "nothing sampled"
    return f"{e.title}: {error}, {e.model_calls:,} model calls"


def verdict(explanations: Explanations) -> str:
    """State the most probable class, its probability, and the explained output if it is another
    one.

    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> verdict(model.explain("A fine film", "loo"))
    'positive, 69%'
    >>> verdict(model.explain("A fine film", "loo", scale="logit"))
    'positive, 69% (logit +0.6696)'
    """
    chances = explanations.probabilities
    if chances is None:
        level = explanations.scale.level(explanations.prediction)
        return f"{visible(explanations.output)} {level}"
    best = max(chances, key=lambda name: chances[name])
    headline = f"{visible(best)}, {percent(chances[best], decimals=0)}"
    explained = explained_number(explanations)
    if explained:
        return f"{headline} ({explained})"
    return headline


def explained_number(explanations: Explanations) -> str:
    """State the explained output and its value if that is not the probability of the most probable
    class.
    """
    chances = explanations.probabilities or {}
    output = explanations.output
    scale = explanations.scale
    is_best = bool(chances) and output == max(chances, key=lambda name: chances[name])
    level = scale.level(explanations.prediction)
    if scale.link is None and is_best:
        return f"{scale.name} {level}"
    if scale.link is None:
        return f"{scale.name} of {visible(output)} {level}"
    if is_best:
        return ""
    return f"{visible(output)} {level}"


def headline(explanations: Explanations, thing: str = "This text") -> str:
    """State the answer in a sentence, such as "This text is rated positive: 76%".

    >>> from attn_closed_form import load_demo_model
    >>> headline(load_demo_model().explain("A fine film", "loo"))
    'This text is rated positive: 69%'
    """
    chances = explanations.probabilities
    if chances is None:
        what = explanations.scale.of_output(visible(explanations.output))
        return f"{what[0].upper()}{what[1:]} is {explanations.scale.level(explanations.prediction)}"
    best = max(chances, key=lambda name: chances[name])
    named = visible(best)
    if named.isdecimal():  # a class without a name must not read like a number
        named = f"class {named}"
    return f"{thing} is rated {named}: {percent(chances[best], decimals=0)}"


class Bar(NamedTuple):
    """A bar from `start` to `end`: the probability of a class, or one step of a waterfall.

    `kind` is "share" for a probability, "for" or "against" for a step up or down, and "end" for the
    two ends of a waterfall. `left` and `right` are unit coordinates, `text` is the number to write,
    such as "94.2%" or "+23.1 points", and `members` is the number of classes or players that share
    the bar (0 for the two ends). `error` is the standard error of a sampled step in unit
    coordinates, and otherwise 0.
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


def class_bars(explanations: Explanations) -> tuple[Bar, ...]:
    """Return the classes, most probable first; those beyond `MOST_CLASSES` share a bar.

    A single output has no bars.
    """
    ranked = sorted((explanations.probabilities or {}).items(), key=lambda item: -item[1])
    shown = [(visible(name), chance, 1) for name, chance in ranked[:MOST_CLASSES]]
    others = [chance for _, chance in ranked[MOST_CLASSES:]]
    if others:
        shown.append((f"{len(others)} others", sum(others), len(others)))
    return tuple(
        Bar(name, percent(chance), "share", 0.0, chance, 0.0, chance, n)
        for name, chance, n in shown
    )


class Waterfall(NamedTuple):
    """The bars of a waterfall, and pairs (position, text) that mark its axis."""

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]


class WaterfallStep(NamedTuple):
    """One step of a waterfall before it has a place: the change and its standard error."""

    label: str
    change: float
    members: int
    error: float = 0.0


def waterfall(e: Explanation, top: int = 10) -> Waterfall:
    """Return bars from the baseline (every player absent) to the prediction, for scores that add up
    to it.

    The `top` players have separate bars; ten fit on a phone. The others share two: those that raise
    the prediction, and those that lower it. The strongest comes first, except that no probability
    passes 0% or 100% on the way if another order avoids it.

    >>> from attn_closed_form import load_demo_model
    >>> e = load_demo_model().explain("A fine film", "shapley")["shapley"]
    >>> [(bar.label, bar.text) for bar in waterfall(e, top=1).bars]
    [('baseline', '48.9%'), ('fine', '+19.0 points'), ('2 others raise it', '+1.2 points'), ('positive', '69.1%')]
    """
    steps = _steps(e, top)
    if e.scale.in_percent:
        steps = ordered_within(e.base_value, steps, 0.0, 1.0)
    ends = e.base_value + np.cumsum([step.change for step in steps])
    if e.of_fit and e.evidence.fit is not None and e.evidence.fit.at_text:
        # The difference between a fitted game and the model has a separate bar, so the players end
        # before it.
        steps.append(WaterfallStep("what the fit misses", e.evidence.fit.at_text, 1))
        ends = np.append(ends, e.prediction)
    starts = np.append(e.base_value, ends[:-1])
    scale = _axis(e, [*starts, *ends, e.prediction], [step.error for step in steps])
    bars = [_end_bar("baseline", e.base_value, e, scale)]
    for step, start, end in zip(steps, starts.tolist(), ends.tolist(), strict=True):
        left, right = sorted((scale.unit(start), scale.unit(end)))
        bars.append(
            Bar(
                label=step.label,
                text=e.scale.change(end - start, error=step.error or None),
                kind="for" if end >= start else "against",
                start=start,
                end=end,
                left=left,
                right=right,
                members=step.members,
                error=step.error / (scale.high - scale.low),
            )
        )
    bars.append(_end_bar(visible(e.output), e.prediction, e, scale))
    ticks = tuple((at, e.scale.tick(number)) for at, number in scale.ticks)
    return Waterfall(tuple(bars), ticks)


def _steps(e: Explanation, top: int) -> list[WaterfallStep]:
    """Return the `top` strongest players, strongest first, and the others by sign."""
    order = np.argsort(-np.abs(e.scores), kind="stable")
    named = order
    if len(order) > top + 1:  # a bar for one other player is better used for its name
        named = order[:top]
    others = order[len(named) :]
    words = names(e.evidence)
    errors = np.zeros(len(order))
    if e.standard_error is not None:
        errors = e.standard_error
    steps = [WaterfallStep(words[j], float(e.scores[j]), 1, float(errors[j])) for j in named]
    raising = others[e.scores[others] >= 0]
    lowering = others[e.scores[others] < 0]
    for players, singular, plural in (
        (raising, "1 other raises it", "others raise it"),
        (lowering, "1 other lowers it", "others lower it"),
    ):
        if players.size:
            label = singular if players.size == 1 else f"{players.size:,} {plural}"
            # Standard errors of several players cannot be added without their correlations.
            steps.append(WaterfallStep(label, float(e.scores[players].sum()), int(players.size)))
    return steps


def ordered_within(
    start: float, steps: Sequence[WaterfallStep], low: float, high: float
) -> list[WaterfallStep]:
    """Order steps such that their running sum stays between low and high, if any order does.

    The first step that allows it comes first, and so on. If no order does, each next step passes an
    end by the least.
    """
    numbers = range(len(steps))
    changes = [step.change for step in steps]
    # The running sum depends only on the set of steps that were taken, so a set that fails is tried
    # only once.
    failed: set[frozenset[int]] = set()

    def search(taken: list[int], at: float) -> list[int] | None:
        if len(taken) == len(steps):
            return taken
        if frozenset(taken) in failed:
            return None
        for i in numbers:
            after = at + changes[i]
            if i not in taken and low - ROOM <= after <= high + ROOM:
                found = search([*taken, i], after)
                if found is not None:
                    return found
        failed.add(frozenset(taken))
        return None

    order = search([], start)
    if order is None:
        order = []
        at = start
        while len(order) < len(steps):
            others = [i for i in numbers if i not in order]
            nearest = min(
                others, key=lambda i: max(low - (at + changes[i]), at + changes[i] - high)
            )
            order.append(nearest)
            at += changes[nearest]
    return [steps[i] for i in order]


def _axis(e: Explanation, values: Sequence[float], errors: Sequence[float]) -> AxisRange:
    """Return the scale of a waterfall: 0% to 100% for probabilities, otherwise what the bars
    need.
    """
    if e.scale.in_percent:
        return AxisRange.around([0.0, 1.0, *values])
    margin = max(errors, default=0.0)
    return AxisRange.around([min(values) - margin, max(values) + margin])


def _end_bar(label: str, value: float, e: Explanation, scale: AxisRange) -> Bar:
    """Return the bar of the baseline or of the prediction, which is a line."""
    at = scale.unit(value)
    return Bar(label, e.scale.level(value), "end", value, value, at, at, 0)


class TextPiece(NamedTuple):
    """A piece of the text and its player, which is None between words."""

    text: str
    player: int | None


class ColoredText(NamedTuple):
    """A text with its words colored by one method: the pieces up to the last word that the model
    reads, and the rest.

    `unseen` counts the words that the model does not read. Each player has a level from -4
    (strongly against) to 4 (strongly for), or from 0 to 4 without a sign; a text without a known
    word has no colors. An `unknown` player is outside the vocabulary.
    """

    pieces: tuple[TextPiece, ...]
    tail: str
    unseen: int
    levels: tuple[int, ...]
    signed: bool
    unknown: tuple[bool, ...]


def colored_text(e: Explanation) -> ColoredText:
    """Return the text of an explanation, colored by its scores."""

    def compute() -> tuple[tuple[TextPiece, ...], str]:
        pieces = []
        end = 0
        for place in e.occurrences:
            if place.start > end:
                pieces.append(TextPiece(e.text[end : place.start], None))
            pieces.append(TextPiece(e.text[place.start : place.end], place.player))
            end = place.end
        return tuple(pieces), e.text[end:]

    pieces, tail = e.evidence.of_input("pieces of the text", compute)
    strength = e.strength
    if notice(e):
        strength = np.zeros(len(e.labels))
    return ColoredText(
        pieces=pieces,
        tail=tail,
        unseen=len(e.unseen),
        levels=tuple(levels(strength).tolist()),
        signed=e.info.kind == "signed" and e.trusted,
        unknown=e.unknown,
    )


class MethodRow(NamedTuple):
    """Methods that give every player the same color: their names, titles, summaries, and levels as
    in `ColoredText`.
    """

    methods: tuple[str, ...]
    title: str
    summary: str
    signed: bool
    levels: tuple[int, ...]


class MethodFamily(NamedTuple):
    """A family of methods with its title, the meaning of its numbers, and its rows."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


def method_rows(explanations: Explanations) -> tuple[MethodFamily, ...]:
    """Return the explanations by family; methods with the same level for every player share a
    row.
    """
    families = []
    surrogate = explanations.evidence.model.surrogate
    strengths = np.array([e.strength for e in explanations.values()])
    level = dict(zip(explanations, map(tuple, levels(strengths).tolist()), strict=True))
    by_family: dict[Family, list[Explanation]] = {family: [] for family in FAMILIES}
    for e in explanations.values():
        by_family[e.family].append(e)
    for family, members in by_family.items():
        if not members:
            continue
        title, meaning = FAMILIES[family]
        if family == "attributions" and not explanations.evidence.exact:
            title = "Attributions, sampled or from single removals"
        if family == "slalom" and surrogate is not None:
            if all(e.trusted for e in members):
                poor = ""
            else:
                poor = " (poor fit, shown in gray: do not trust these scores)"
            title = f"Of the {surrogate}, not of the model{poor}"
        if all(e.scale != explanations.scale for e in members):
            meaning += " It is computed from the logit, not from the probability."
        shared: dict[tuple[bool, tuple[int, ...]], list[Explanation]] = {}
        for e in members:
            shared.setdefault((e.info.kind == "signed", level[e.method]), []).append(e)
        rows = (
            MethodRow(
                tuple(e.method for e in same),
                ", ".join(e.title for e in same),
                "\n".join(f"{e.info.summary}; {e.info.accuracy}" for e in same),
                *look,
            )
            for look, same in shared.items()
        )
        families.append(MethodFamily(title, meaning, tuple(rows)))
    return tuple(families)


def strongest_players(explanations: Explanations, top: int = MOST_ROWS) -> tuple[int, ...]:
    """Return the `top` strongest players of the leading explanation, strongest first."""
    return tuple(np.argsort(-np.abs(leader(explanations).strength), kind="stable")[:top].tolist())


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
    across = AxisRange.around(importance, 0.07)
    up = AxisRange.around(np.append(value, 0.0), 0.07)
    places = np.stack([across.unit(importance), up.unit(value)], axis=1)
    # The decisive players; if a label does not fit, the next player is tried.
    order = np.argsort(-np.abs(linear), kind="stable")[: 2 * top]
    words = names(explanations.evidence)
    labels = _placed(places, order, [elide(words[j], 18) for j in order], top)
    x, y = (tuple(column.tolist()) for column in places.T)
    return SlalomPlane(x, y, across, up, float(up.unit(0.0)), labels)


# The orders of removal whose curves are drawn; tables list all orders.
DRAWN = ("flip-order", "shapley", "leave-one-out", "alpha-mean")
# Labels are placed in a plane of this width and height in dots.
PLANE = np.array([428.0, 298.0])
# The radius of a point, in dots.
DOT = 4.0
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
    """Place at most `most` labels in this order, each where it covers no other label and no
    point.
    """
    dots = places * PLANE
    sizes = np.array([(LETTER * len(text), LINE) for text in texts])[:, None]
    written = dots[order, None] + OFFSETS  # (labels, offsets, 2)
    low = written - sizes * SHARES
    high = low + sizes
    # The point lies within the label on both axes.
    covers = np.ones((*low.shape[:2], len(dots)), dtype=bool)
    for axis in range(2):
        point = dots[:, axis]
        covers &= (low[:, :, None, axis] <= point + DOT) & (point - DOT <= high[:, :, None, axis])
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
        if labels and labels[-1].player == players[i]:
            continue
        left, bottom, right, top = box
        if all(
            right < other[0] or other[2] < left or top < other[1] or other[3] < bottom
            for other in boxes
        ):
            boxes.append(box)
            labels.append(
                PlacedLabel(players[i], texts[i], x, y, "end" if OFFSETS[k, 0] < 0 else "start")
            )
    return tuple(labels)


def _from_middle(value: float, largest: float) -> float:
    if largest > 0:
        return 0.5 + 0.5 * value / largest
    return 0.5


def _mark(value: float, largest: float) -> dict[str, Any]:
    """Return a bar from the middle of the scale from -largest to largest, in unit coordinates."""
    at = _from_middle(value, largest)
    kind = "for" if value >= 0 else "against"
    return {"kind": kind, "left": min(0.5, at), "right": max(0.5, at)}


def share_of_best(share: float, heads: int) -> str:
    """Format the share of the best possible order; with several heads only a bound on the best is
    known.
    """
    if math.isnan(share):
        return "–"
    if heads > 1:
        return f"at least {share:.1%}"
    return f"{share:.1%}"


def removal_curves(explanations: Explanations) -> dict[str, RemovalCurves]:
    """Return the removal curves of every method, and of the flip order."""
    evidence = explanations.evidence
    flip = "flip-order"
    scores = {method: e.scores for method, e in explanations.items()}
    if (scored := METHODS[flip].score(evidence)) is not None:
        scores.setdefault(flip, scored.scores)
    return {method: removal_curves_of(evidence, each) for method, each in scores.items()}


def removal(explanations: Explanations, players: ArrayLike) -> dict[str, Any]:
    """Compare the prediction without some players with the forecast of each method, minus the sum
    of their scores.

    A forecast is on the scale of the method's scores. `did` is the actual change, `error` the
    difference, `bar` the bar of the forecast and `mark` the place of the actual change; bars of one
    scale are comparable.

    >>> from attn_closed_form import load_demo_model
    >>> without = removal(load_demo_model().explain("A fine film", ["shapley", "loo"]), [1])
    >>> without["names"], [forecast["method"] for forecast in without["forecasts"]]
    (['fine'], ['shapley', 'leave-one-out'])
    """
    evidence = explanations.evidence
    removed = sorted(set(np.asarray(players, dtype=np.intp).tolist()))
    present = np.ones(evidence.d, dtype=bool)
    present[removed] = False
    logit = float(evidence.model.value(evidence.units, evidence.target.pooled, present[None])[0])
    prediction = float(evidence.model_game.value(present[None])[0])
    # Shapley values, LIME and the linear SLALOM come first, because most readers look for them.
    ranked = sorted(explanations, key=lambda name: name not in ("shapley", "lime", "slalom-linear"))
    rows = [explanations[name] for name in ranked if METHODS[name].forecasts]
    guesses = [-float(e.scores[removed].sum()) for e in rows]
    changes = []
    for e in rows:
        after = logit if e.on_logits else prediction
        changes.append(after - e.prediction)
    largest: dict[str, float] = {}
    for e, *both in zip(rows, guesses, changes, strict=True):
        largest[e.scale.name] = max(largest.get(e.scale.name, 0.0), *map(abs, both))
    forecasts = [
        {
            "method": e.method,
            "title": e.title,
            "scale": e.scale.name,
            "change": guess,
            "did": did,
            "error": guess - did,
            "bar": _mark(guess, largest[e.scale.name]),
            "mark": _from_middle(did, largest[e.scale.name]),
        }
        for e, guess, did in zip(rows, guesses, changes, strict=True)
    ]
    return {
        "players": removed,
        "names": [names(evidence)[j] for j in removed],
        "prediction": prediction,
        "change": prediction - evidence.prediction,
        "forecasts": forecasts,
    }


def partners(
    evidence: Evidence, player: int, row: ArrayLike, top: int = 10
) -> list[dict[str, Any]]:
    """Return the strongest entries of a player's `row` (d,) of the interaction matrix, without the
    player itself.
    """
    values = np.asarray(row, dtype=np.float64).tolist()
    shown = names(evidence)
    order = sorted((j for j in range(len(values)) if j != player), key=lambda j: -abs(values[j]))[
        :top
    ]
    largest = abs(values[order[0]]) if order else 0.0
    return [
        {"player": j, "name": shown[j], "value": values[j], "bar": _mark(values[j], largest)}
        for j in order
    ]


def figures_of(explanations: Explanations) -> dict[str, Any]:
    """Return the data of the figures of one text, ready for `json.dumps`, which the page draws at
    every keystroke.
    """
    if explanations:
        lead = leader(explanations)
    else:
        lead = None
    steps = Waterfall((), ())
    if lead and lead.method == explanations.evidence.headline:
        steps = waterfall(lead)
    return {
        "headline": verdict(explanations),
        "notice": notice(explanations),
        "scale": visible(explanations.explained),
        "units": {scale.name: scale.unit for scale in (LOGIT, explanations.scale)},
        "classes": [bar._asdict() for bar in class_bars(explanations)],
        "names": names(explanations.evidence),
        "leader": None if lead is None else lead.method,
        "text": None if lead is None else colored_text(lead)._asdict(),
        "strongest": strongest_players(explanations) if explanations else [],
        "waterfall": [bar._asdict() for bar in steps.bars],
        "ticks": steps.ticks,
        "methods": [
            {**family._asdict(), "rows": [row._asdict() for row in family.rows]}
            for family in method_rows(explanations)
        ],
    }
