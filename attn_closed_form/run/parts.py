"""A part of a corpus: some rows of one input file that become one Parquet file. `explain_part` is a pure function.

Columns of the output, in this order:

| column | what |
|---|---|
| `row` | number of the row in the whole corpus |
| the user's columns | as they came; one whose name is taken comes as `input_NAME` |
| `labels`, `spans` | the players, and where each occurs in the text |
| `output`, `prediction` | the class (or margin) that is explained, and its logit |
| `probability`, `probability_CLASS` | of the output, and of every class |
| `unseen`, `error` | tokens beyond the model's last position; why a row has no explanation |
| `METHOD`, `METHOD_base`, `METHOD_error` | scores (one per player), base value, guaranteed error or null |

Rows are read, explained and written in batches, so the memory of a worker is that of one row group, however many rows
a part has. A part is written in the work folder and then renamed: a file that is in its place is whole.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..explanations.evidence import ToleranceWarning
from ..explanations.explanation import Explanations
from ..files.atomic import replacing
from ..models.protocol import Model
from .inputs import OpenTable, pyarrow
from .mappers import Tick
from .task import CorpusError, Task, explain_input

MANIFEST = "_corpus.parquet"  # a table without rows that has the schema of the parts; metadata say what was asked
ROW_GROUP = 1024
MOST_CLASSES = 100  # with a column of their own

Found = Explanations | str


@dataclass(frozen=True)
class Part:
    """Rows [start, stop) of one input file, and the file that they become.

    Attributes
    ----------
    source : the table that workers read
    folder : where the paths of bags in it start from
    start, stop : its rows
    first_row : number of `start` in the whole corpus
    target, work : the file, and the folder where it is written before it is renamed
    columns : name in the output -> name in the input, of the user's columns that travel along
    stamp : size and time of the source when the run began
    refused : rows that are not to be tried again, by their number in the part, and why
    """

    source: str
    folder: str
    start: int
    stop: int
    first_row: int
    target: str
    work: str
    columns: Mapping[str, str] = field(default_factory=dict)
    stamp: tuple[int, int] = (0, 0)
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


def explain_part(task: Task, part: Part, tick: Tick | None = None) -> tuple[int, int]:
    """Explain the rows of a part and write its file; returns how many rows it has and how many have an error.

    The file depends on task and part alone, so any process may make it, and twice does no harm.
    """
    if task.version != __version__:
        raise CorpusError(f"this worker has attn-closed-form {__version__}, the run was started by {task.version}")
    pa = pyarrow()
    schema = pa.parquet.read_schema(Path(part.target).with_name(MANIFEST)).remove_metadata()
    rows = failed = 0
    with OpenTable(part.source) as table, replacing(part.target, part.work) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore", ToleranceWarning)  # the columns METHOD_error say what holds
        with pa.parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in _grouped(table, part, task):
                found: list[Found] = []
                for raw in batch.column(task.column).to_pylist():
                    number = rows + len(found)
                    found.append(part.refused.get(number) or explain_input(task, raw, part.folder))
                    failed += isinstance(found[-1], str)
                    if tick is not None:
                        tick(number + 1, failed)
                writer.write_table(_table(schema, task, part, batch, found, part.first_row + rows))
                rows += len(found)
    return rows, failed


def refuse_part(task: Task, part: Part, reason: str) -> tuple[int, int]:
    """Write a part whose rows all have this error."""
    every = dict.fromkeys(range(part.rows), reason)
    return explain_part(task, replace(part, refused=every))


def check_source(part: Part) -> None:
    """After a part is done: if its input changed while the run was at work, the part goes and the run ends."""
    if source_stamp(part.source) != part.stamp:
        Path(part.target).unlink(missing_ok=True)
        raise CorpusError(f"{part.source}: changed while the run was at work")


def source_stamp(source: str) -> tuple[int, int]:
    """Size and time of a table."""
    found = os.stat(source)
    return found.st_size, found.st_mtime_ns


def _grouped(table: OpenTable, part: Part, task: Task) -> Iterator[Any]:
    """Tables of at most ROW_GROUP rows."""
    pa = pyarrow()
    wanted = [*dict.fromkeys([task.column, *(name for name in part.columns.values() if name in table.schema.names)])]
    kept: list[Any] = []
    for batch in table.batches(part.start, part.stop, wanted):
        kept.append(batch)
        if sum(each.num_rows for each in kept) >= ROW_GROUP:
            yield pa.Table.from_batches(kept)
            kept = []
    if kept:
        yield pa.Table.from_batches(kept)


def output_schema(task: Task, model: Model, columns: Mapping[str, Any]) -> Any:
    """The schema of a part; `columns` are the user's, by their names in the output, with their types."""
    pa = pyarrow()
    fields = [("row", pa.int64()), *columns.items(), *own_columns(task, model).items()]
    return pa.schema(fields)


def own_columns(task: Task, model: Model) -> dict[str, Any]:
    """The columns that are ours, after `row`, with their types."""
    pa = pyarrow()
    number, text = pa.float64(), pa.string()
    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    classes = model.outputs if 2 <= len(model.outputs) <= MOST_CLASSES else ()
    found: dict[str, Any] = {"labels": pa.list_(text), "spans": pa.list_(pa.list_(span)), "output": text}
    found |= {"prediction": number, "probability": number, **{f"probability_{name}": number for name in classes}}
    found |= {"unseen": pa.int32(), "error": text}
    for name in task.methods:
        found |= {name: pa.list_(number), f"{name}_base": number, f"{name}_error": number}
    return found


def _table(schema: Any, task: Task, part: Part, batch: Any, found: list[Found], first_row: int) -> Any:
    """One row group: columns are built from whole arrays, because a conversion value by value costs as much as an
    explanation.
    """
    pa = pyarrow()
    good = [None if isinstance(each, str) else each for each in found]
    columns: dict[str, Any] = {"row": np.arange(first_row, first_row + len(found))}
    for name, own in part.columns.items():
        kind = schema.field(name).type
        columns[name] = batch[own].cast(kind) if own in batch.column_names else pa.nulls(len(found), kind)
    columns["labels"] = _lists([each and each.evidence.labels for each in good], pa.string())
    columns["spans"] = _spans(good, schema.field("spans").type)
    columns["output"] = [each and each.output for each in good]
    columns["prediction"] = [each and each.prediction for each in good]
    chances = [(each and each.evidence.probabilities) or {} for each in good]
    columns["probability"] = [chance.get(name) for chance, name in zip(chances, columns["output"], strict=True)]
    for name in schema.names:
        if name.startswith("probability_") and name not in columns:
            columns[name] = [chance.get(name.removeprefix("probability_")) for chance in chances]
    columns["unseen"] = [each and len(each.evidence.units.unseen) for each in good]
    columns["error"] = [each if isinstance(each, str) else None for each in found]
    for name in task.methods:
        columns[name] = _lists([each and each[name].scores for each in good], pa.float64())
        columns[f"{name}_base"] = [each and each[name].base_value for each in good]
        columns[f"{name}_error"] = [each and each[name].error for each in good]
    return pa.table(columns, schema=schema)


def _lists(values: list[Any], kind: Any) -> Any:
    """A list array of sequences, None for null."""
    pa = pyarrow()
    present = [value for value in values if value is not None]
    if present and isinstance(present[0], np.ndarray):
        flat = pa.array(np.concatenate(present), type=kind)
    else:
        flat = pa.array([item for value in present for item in value], type=kind)
    return pa.ListArray.from_arrays(_offsets([None if value is None else len(value) for value in values]), flat)


def _offsets(lengths: list[int | None]) -> Any:
    """Offsets of a list array; null where there is no list."""
    pa = pyarrow()
    offsets = np.concatenate([[0], np.cumsum([length or 0 for length in lengths], dtype=np.int32)]).astype(np.int32)
    absent = np.array([length is None for length in lengths] + [False])
    return pa.array(offsets, mask=absent if absent.any() else None)


def _spans(good: list[Explanations | None], kind: Any) -> Any:
    """For each row and each of its players the spans of its units, in the order of the text."""
    pa = pyarrow()
    players: list[int | None] = []
    counts, ends = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int32)]
    for each in good:
        if each is None or each.evidence.units.spans is None:
            players.append(None)
            continue
        evidence = each.evidence
        order = np.argsort(evidence.player_of, kind="stable")
        players.append(evidence.game.d)
        counts.append(np.bincount(evidence.player_of, minlength=evidence.game.d))
        ends.append(np.array(evidence.units.spans, dtype=np.int32)[order])
    flat = np.concatenate(ends)
    struct = pa.StructArray.from_arrays([flat[:, 0], flat[:, 1]], fields=list(kind.value_type.value_type))
    inner_offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int32)
    inner = pa.ListArray.from_arrays(pa.array(inner_offsets), struct, type=kind.value_type)
    return pa.ListArray.from_arrays(_offsets(players), inner, type=kind)
