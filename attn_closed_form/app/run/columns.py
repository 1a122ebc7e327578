"""The columns of the results, which docs/corpus.md lists, and their storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..._types import Array, Ids
from ..explanations.methods import METHODS
from ..models.protocol import BagModel, Model
from .batch import Failure, Outcome, Row
from .task import Task, pyarrow

# The columns that only bags have: facts about all instances of one.
BAG_COLUMNS = (
    "instances",
    "baseline",
    "method",
    "error_bound",
    "standard_error",
    "attention_against",
    "rank_correlation",
    "assumed",
)


def result_columns(task: Task) -> dict[str, Any]:
    """Return the columns of the results, after `row` and the user's columns, with their types."""
    pa = pyarrow()
    model = task.opened()
    number = pa.float64()
    text = pa.string()
    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    types: dict[str, Any] = {
        "labels": pa.list_(text),
        "spans": pa.list_(pa.list_(span)),
        "output": text,
        "scale": text,
        "prediction": number,
        "probability": number,
    }
    # Tuning, maximum number of classes with a column each: more columns than a person can look
    # through.
    max_classes = 100
    if 2 <= len(model.outputs) <= max_classes:
        types |= {f"probability_{name}": number for name in model.outputs}
    types |= {"unseen": pa.int32(), "error": text}
    if isinstance(model, BagModel):
        types |= dict.fromkeys(BAG_COLUMNS, number)
        types |= {"instances": pa.int32(), "method": text, "assumed": text}
    for name in task.methods:
        types[name] = pa.list_(number)
        if METHODS[name].accuracy == "sampled":
            types[error_column(name)] = pa.list_(number)
        types |= {f"{name}_baseline": number, f"{name}_error": number}
    return types


def error_column(method: str) -> str:
    """Return the name of the column of standard errors, which methods that sample have."""
    return f"{method}_standard_error"


def parquet_options(schema: Any) -> dict[str, Any]:
    """Return storage options: dictionaries for texts only, because numbers rarely repeat; spans as
    differences.
    """
    pa = pyarrow()
    texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
    spans = [f"spans.list.element.list.element.{name}" for name in ("start", "end")]
    return {
        "compression": "zstd",
        "use_dictionary": [*texts, "labels.list.element"],
        "column_encoding": dict.fromkeys(spans, "DELTA_BINARY_PACKED"),
    }


def result_table(
    task: Task, schema: Any, columns: Mapping[str, Any], outcomes: Sequence[Outcome]
) -> Any:
    """Return the Arrow table of some outcomes, with the row numbers and the user's `columns`."""
    pa = pyarrow()
    rows = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    layout = _Layout([isinstance(outcome, Failure) for outcome in outcomes])
    players = [len(row.labels) for row in rows]
    labels = pa.array(list(chain.from_iterable(row.labels for row in rows)), pa.string())
    data: dict[str, Any] = dict(columns)
    data["labels"] = layout.lists(players, labels)
    data["spans"] = layout.spans(rows, schema.field("spans").type)
    data["error"] = [outcome if isinstance(outcome, Failure) else None for outcome in outcomes]
    for name in task.methods:
        scores = np.concatenate([np.zeros(0), *(row.scores[name] for row in rows)])
        data[name] = layout.lists(players, scores)
        if error_column(name) in schema.names:
            errors = [row.standard_errors[name] for row in rows]
            data[error_column(name)] = layout.lists(players, np.concatenate([np.zeros(0), *errors]))
    for name, values in _probabilities(task.opened(), rows).items():
        data[name] = layout.column(values)
    # The other columns have one cell per row, and are null for rows with an error.
    for name in schema.names:
        if name not in data:
            data[name] = layout.column(row.cells.get(name) for row in rows)
    return pa.table({name: data[name] for name in schema.names}, schema=schema)


def _probabilities(model: Model, rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Return the probabilities of all classes and of the explained one, by the names of their
    columns.
    """
    if not rows:
        return {}
    probabilities = model.probabilities(np.array([row.logits for row in rows]))
    if probabilities is None:
        return {}
    index = {name: c for c, name in enumerate(model.outputs)}
    columns: dict[str, list[float | None]] = {
        f"probability_{name}": probabilities[:, c].tolist() for name, c in index.items()
    }
    explained: list[float | None] = []
    for row, of_classes in zip(rows, probabilities, strict=True):
        # A margin is not a class and has no probability.
        c = index.get(row.cells["output"])
        if c is None:
            explained.append(None)
        else:
            explained.append(float(of_classes[c]))
    columns["probability"] = explained
    return columns


class _Layout:
    """Arrow columns with the values of the explained rows, and null for rows with an error.

    Parameters
    ----------
    failed : whether each row has an error
    """

    def __init__(self, failed: Sequence[bool]) -> None:
        self.failed = failed

    def column(self, values: Iterable[Any]) -> list[Any]:
        """Return the values of the explained rows, and None for the others."""
        remaining = iter(values)
        return [None if failed else next(remaining) for failed in self.failed]

    def lists(self, lengths: Iterable[int | None], values: Any) -> Any:
        """Return one list per row, or null if it has no length."""
        pa = pyarrow()
        of_rows = self.column(lengths)
        # A null takes no values; only the mask tells it from an empty list.
        offsets = _offsets(np.array([length or 0 for length in of_rows], np.intp))
        missing = pa.array([length is None for length in of_rows])
        return pa.ListArray.from_arrays(offsets, values, mask=missing)

    def spans(self, rows: Sequence[Row], kind: Any) -> Any:
        """Return the spans of every player of every row; null for a row without a text."""
        pa = pyarrow()
        # `np.concatenate` needs at least one array, also if every row has an error.
        none = np.zeros((0, 2), np.intp)
        places = np.concatenate([none, *(row.places for row in rows if row.places is not None)])
        counts = [row.counts for row in rows if row.places is not None]
        # Arrow takes contiguous arrays without a copy.
        starts, ends = places.astype(np.int32).T.copy()
        fields = list(kind.value_type.value_type)
        pairs = pa.StructArray.from_arrays([starts, ends], fields=fields)
        of_players = np.concatenate([np.zeros(0, np.intp), *counts])
        players = [None if row.places is None else len(row.labels) for row in rows]
        return self.lists(players, pa.ListArray.from_arrays(_offsets(of_players), pairs))


def _offsets(lengths: Ids) -> Array:
    """Return the start of each list among all values, and the end of the last one."""
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
