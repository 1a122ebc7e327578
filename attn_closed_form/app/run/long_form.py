"""The long form of results, for spreadsheets: one row per input and player, made from one row per
input.

A row of the long form has the user's columns, `position` (number of the player in its input, from
0), `word`, `start` and `end` of its first occurrence in the text, `occurrences`, one column per
method with the score, and the columns of the input, such as `output` and `prediction`. An input
with an error has one row without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .columns import error_column
from .task import RunError, pyarrow

# The forms of a table of results: one row per word, or one row per input.
FORMS = ("long", "wide")


def methods_of(names: Sequence[str]) -> list[str]:
    """Return the methods among the columns of a run."""
    return [name for name in names if f"{name}_baseline" in names and f"{name}_error" in names]


def long_table(table: Any) -> Any:
    """Convert a table with one row per input to one row per input and player."""
    pa = pyarrow()
    # The columns that only the long form has.
    long_columns = ("position", "word", "start", "end", "occurrences")
    for name in long_columns:
        if name in table.column_names:
            raise RunError(
                f"column {name!r}: the long form has a column of this name; rename it or use "
                "--form wide"
            )
    table = table.combine_chunks()
    players = _Players(table["labels"])
    methods = methods_of(table.column_names)
    errors = [error_column(name) for name in methods if error_column(name) in table.column_names]
    lists = {"labels", "spans", *methods, *errors}
    of_inputs = table.select([name for name in table.column_names if name not in lists])
    of_inputs = of_inputs.take(players.input)
    results = of_inputs.column_names.index("output")  # the user's columns come first
    columns = {name: of_inputs[name] for name in of_inputs.column_names[:results]}
    columns["position"] = pa.array(players.position, pa.int32(), mask=players.missing)
    columns["word"] = players.values(table["labels"])
    spans = players.values(table["spans"])
    columns |= _first_span(spans)
    columns["occurrences"] = pa.compute.list_value_length(spans)
    for name in methods:
        columns[name] = players.values(table[name])
        if error_column(name) in errors:
            columns[error_column(name)] = players.values(table[error_column(name)])
    columns |= {name: of_inputs[name] for name in of_inputs.column_names[results:]}
    return pa.table(columns)


class _Players:
    """The rows of the long form: the players of all inputs, and one row for each input without
    players.

    Attributes
    ----------
    input : number of the input of each row
    position : number of the player in its input
    missing : whether the input has no players, because of an error
    """

    def __init__(self, labels: Any) -> None:
        """Number the rows of inputs with these lists of labels, null for an input with an error."""
        pa = pyarrow()
        lengths = pa.compute.fill_null(pa.compute.list_value_length(labels), 0)
        players = lengths.to_numpy().astype(np.int64)
        # An input with an error keeps one row, which has the reason.
        rows = np.maximum(players, 1)
        self.input = np.repeat(np.arange(len(rows)), rows)
        first_row = np.cumsum(rows) - rows
        self.position = np.arange(rows.sum()) - first_row[self.input]
        self.missing = players[self.input] == 0
        # The index of each row's player among the players of all inputs.
        index = np.cumsum(~self.missing) - 1
        # A masked entry needs some index, too.
        self.index = pa.array(np.where(self.missing, 0, index), mask=self.missing)

    def values(self, lists: Any) -> Any:
        """Return the values of a column with one list per input, one value per row."""
        pa = pyarrow()
        flat = pa.compute.list_flatten(lists)
        if len(flat) == 0:  # every input has an error
            return pa.nulls(len(self.input), lists.type.value_type)
        return flat.take(self.index)


def _first_span(spans: Any) -> dict[str, Any]:
    """Return the start and the end of the first occurrence, null for a player without one."""
    compute = pyarrow().compute
    # `list_element` raises an error for an empty list, so such a list is replaced by one with
    # nulls.
    nowhere = pyarrow().scalar([{"start": None, "end": None}], spans.type)
    occurs = compute.greater(compute.fill_null(compute.list_value_length(spans), 0), 0)
    first = compute.list_element(compute.if_else(occurs, spans, nowhere), 0)
    return {name: compute.struct_field(first, name) for name in ("start", "end")}
