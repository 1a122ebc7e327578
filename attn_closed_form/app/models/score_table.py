"""Tables of scores: any softmax-pooled model as plain arrays, from memory or from a table
(`files/tables.py`).

Only the attention logits s and the values v of a model's units are needed: f = sum softmax(s)
v + bias. A table has one row per unit and the columns

    s, v                  log-mass and value; with several outputs `v_NAME` for each instead of `v`
    label                 the name of the unit; its number by default
    group                 units with the same entry are one player of the grouping "groups"
    s_absent, v_absent    the scores of the unit if it is absent; without them it is deleted
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import check, numbered, real
from ..._shapes import axis_sizes
from ...game.scores import PooledScores
from ..files.atomic import reading
from ..files.tables import read_columns
from .protocol import TableModel
from .units import Units

# The axes of the columns: n units, C outputs.
TABLE_AXES: dict[str, tuple[str | int, ...]] = {
    "outputs": ("C",),
    "s": (1, "n"),
    "v": ("C", "n"),
    "s_absent": (1, "n"),
    "v_absent": ("C", "n"),
}
# Columns of numbers, as `PooledScores` names them.
NUMBERS = ("s", "v", "s_absent", "v_absent")
# All columns that a table may have.
COLUMNS = ("label", "group", *NUMBERS)


@dataclass(frozen=True)
class ScoreTable(TableModel):
    """A model whose inputs contain the scores themselves.

    Parameters
    ----------
    bias : (C,) added to the outputs
    s_background, v_background : log-mass and (C,) values of a background that is always present
    outputs, temperature : as in `Model`

    Examples
    --------
    >>> e = ScoreTable().explain(
    ...     {"label": ["a", "b"], "s": [0.0, 1.0], "v": [1.0, -1.0]}, "shapley"
    ... )["shapley"]
    >>> e.labels, e.scores.round(3).tolist()
    (('a', 'b'), [0.769, -1.231])
    """

    outputs: tuple[str, ...] = ("score",)
    bias: tuple[float, ...] = (0.0,)
    s_background: float | None = None
    v_background: tuple[float, ...] = (0.0,)
    temperature: float = 1.0

    input_name = "table of scores"
    groupings = ("units", "groups")
    absences = ("as given", "deleted")

    def __post_init__(self) -> None:
        C = len(self.outputs)
        self.name_outputs(C)
        for name in ("bias", "v_background"):
            object.__setattr__(self, name, tuple(np.broadcast_to(getattr(self, name), C).tolist()))

    def read(self, raw: Any) -> Units:
        """Read a mapping of columns, or the path of a table with them."""
        if isinstance(raw, str | os.PathLike):
            table = read_columns(raw)
            with reading(raw, "score table"):
                return self.read({name: _parsed(name, column) for name, column in table.items()})
        columns = _columns(raw, self.outputs)
        n = columns["s"].shape[1]
        labels = tuple(map(str, columns.get("label", range(n))))
        groups = {"units": np.arange(n)}
        group_labels = {}
        if "group" in columns:
            names = list(map(str, columns["group"]))
            groups["groups"], first = numbered(names)
            group_labels["groups"] = tuple(names[i] for i in first)
        return Units(labels=labels, groups=groups, data=columns, group_labels=group_labels)

    def scores(self, units: Units) -> PooledScores:
        """Return the scores of the rows, with the background of the model."""
        arrays = {name: units.data[name] for name in NUMBERS if name in units.data}
        if self.s_background is not None:
            arrays |= {
                "s_background": np.array([self.s_background]),
                "v_background": np.asarray(self.v_background),
            }
        return PooledScores(bias=np.asarray(self.bias), **arrays)


def _parsed(name: str, column: list[Any]) -> list[Any]:
    """Parse the numbers of a column, because all cells of a CSV file are texts."""
    texts = name in ("label", "group") or not all(isinstance(cell, str) for cell in column)
    if texts:
        return column
    return [float(cell) for cell in column]


def _columns(raw: Any, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the checked columns s and s_absent (1, n), v and v_absent (C, n), label, group."""
    if not isinstance(raw, Mapping):
        raise TypeError(
            "scores: expected a mapping of columns or the path of a table, got "
            f"{type(raw).__name__}"
        )
    columns = dict(raw)
    for name in ("v", "v_absent"):
        several = [f"{name}_{output}" for output in outputs]
        if name not in columns and all(column in columns for column in several):
            columns[name] = [columns.pop(column) for column in several]
    received = ", ".join(map(str, columns)) or "none"
    for name in ("s", "v"):
        check("scores", name in columns, f"a column {name!r}", received)
    unknown = [str(name) for name in columns if name not in COLUMNS]
    check("scores", not unknown, f"columns among {', '.join(COLUMNS)}", ", ".join(unknown))
    for name in NUMBERS:
        if name in columns:
            columns[name] = np.atleast_2d(real(name, columns[name]).astype(np.float64))
    axis_sizes({"outputs": np.zeros(len(outputs)), **columns}, TABLE_AXES)
    return columns
