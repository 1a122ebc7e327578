"""One input as a sequence of units, and what a model has computed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check
from ..._shapes import set_fields
from ..._types import Array, Ids, Masks, Span
from ...game.pooled_game import PooledGame
from ...game.scores import PooledScores, stable_order

Result = TypeVar("Result")


class Remembers:
    """Cache results of explanations and views by name. Copies and pickles do not include them."""

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def cached(self, name: Any, compute: Callable[[], Result]) -> Result:
        """Return the result cached under a name, and compute it first if necessary."""
        if name not in self._results:
            self._results[name] = compute()
        return self._results[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_results"}


@dataclass
class Computed:
    """What a model has computed for one input, so that nothing is computed twice.

    `Model` fills it, one input at a time; a model that is faster in batches fills it for many
    inputs at once (`Model.prepare_logits`, `Model.prepare_games`).

    Attributes
    ----------
    scores, logits : of the whole input
    orders : (n,) the units in the order of their players, by grouping
    games : the game of the logit, by the settings that affect it (`Target.game_key`)
    """

    scores: PooledScores | None = None
    logits: Array | None = None
    orders: dict[str, Ids] = field(default_factory=dict)
    games: dict[tuple[Any, ...], PooledGame] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Units(Remembers):
    """One input as a sequence of units, as the model reads it. Its arrays are read-only.

    Attributes
    ----------
    labels : names of the n units, as the model reads them
    groups : a mapping of groupings to (n,) player numbers; players are numbered by first appearance
    data : data that the model needs later, such as token ids
    text, places : the text and the (n, 2) character spans of the units; None if the input is not a
        text
    unknown : n flags, True for units outside the vocabulary
    beyond : (m, 2) character spans that the model does not read
    coords : (n, 2) coordinates of the instances
    attrs : metadata for reports and plots, such as the patch size
    group_labels : names of a grouping's players, if they differ from the label of the player's
        first unit
    continues : n flags, True for units that continue the word of the previous unit and are shown
        together with it

    Examples
    --------
    >>> units = Units(labels=("a", "b", "a"), groups={"words": np.array([0, 1, 0])})
    >>> units.shown_text, units.shown_spans
    ('a b a', ((0, 1), (2, 3), (4, 5)))
    """

    labels: Sequence[str]
    groups: Mapping[str, Ids]
    data: Any = None
    text: str | None = None
    places: Ids | None = None
    unknown: Masks | None = None
    beyond: Ids = field(default_factory=lambda: np.zeros((0, 2), dtype=np.intp))
    coords: Array | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    group_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    continues: Masks | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        check("labels", n > 0, "at least one unit", "none")
        is_text = self.text is not None
        has_places = self.places is not None
        check("text, places", is_text == has_places, "both or neither", "one of them")
        groups = {name: _read_only(group) for name, group in self.groups.items()}
        # The optional arrays with one entry per unit.
        per_unit = ("places", "unknown", "coords", "continues")
        given = {name: getattr(self, name) for name in per_unit}
        arrays = {name: _read_only(value) for name, value in given.items() if value is not None}
        for name, array in {**arrays, **{f"groups[{g!r}]": groups[g] for g in groups}}.items():
            check(name, len(array) == n, f"{n} entries, one per unit", len(array))
        set_fields(self, {**arrays, "groups": groups, "beyond": _read_only(self.beyond)})

    def __getstate__(self) -> dict[str, Any]:
        # What was computed from the fields is not stored.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        groups = {name: _read_only(group) for name, group in state["groups"].items()}
        set_fields(self, {**state, "groups": groups})

    @cached_property
    def computed(self) -> Computed:
        """What a model has computed for this input."""
        return Computed()

    def players(self, grouping: str) -> tuple[Ids, tuple[str, ...]]:
        """Return the (n,) player of each unit in a grouping, and the names of the d players."""
        if grouping not in self.groups:
            check(
                "players", False, f"one of {', '.join(self.groups)} for this input", repr(grouping)
            )
        numbers = self.groups[grouping]
        names = self.group_labels.get(grouping)
        if names is None:
            # The first unit of a player has a larger number than all units before it.
            is_first = np.diff(np.maximum.accumulate(numbers), prepend=-1)
            names = tuple(compress(self.labels, is_first.tolist()))
        return numbers, names

    def by_player(self, grouping: str) -> Ids:
        """Return the (n,) units sorted by player; units of one player keep the order of the
        input.
        """
        orders = self.computed.orders
        if grouping not in orders:
            orders[grouping] = stable_order(self.players(grouping)[0])
        return orders[grouping]

    @cached_property
    def spans(self) -> tuple[Span, ...] | None:
        """The character span of each unit, `places` as tuples."""
        if self.places is None:
            return None
        return tuple(map(tuple, self.places.tolist()))

    @cached_property
    def unseen(self) -> tuple[Span, ...]:
        """The character spans that the model does not read, `beyond` as tuples."""
        return tuple(map(tuple, self.beyond.tolist()))

    @cached_property
    def shown_text(self) -> str:
        """The text, or the joined labels if the input is not a text."""
        if self.text is None:
            return " ".join(self.labels)
        return self.text

    @cached_property
    def shown_spans(self) -> tuple[Span, ...]:
        """The span of each unit in `shown_text`."""
        if self.spans is not None:
            return self.spans
        # A space follows each label and is not part of its span.
        ends = np.cumsum([len(label) + 1 for label in self.labels]) - 1
        return tuple(
            (int(end) - len(label), int(end)) for end, label in zip(ends, self.labels, strict=True)
        )


def _read_only(numbers: Any) -> NDArray[Any]:
    """Return a read-only view of an array, or of a list as an array."""
    view = np.asarray(numbers).view()
    view.flags.writeable = False
    return view
