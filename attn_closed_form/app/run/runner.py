"""The runner: explain the parts of a plan in this process, on this machine, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import __version__
from ..files.atomic import replacing
from .batch import Failure, collector_paused, explain_inputs
from .columns import parquet_options, result_table
from .plan import MANIFEST, Part
from .task import RunError, Task, pyarrow


class Progress(NamedTuple):
    """The state of a run, or of one part."""

    rows: int = 0  # rows that were written
    failed: int = 0  # rows with an error
    lost: int = 0  # workers of this machine that died and were replaced
    note: str = ""  # a message for the user, such as the rows that were abandoned


# A finished part and its progress; without a part, a message.
Step = tuple[Part | None, Progress]


def explain_part(task: Task, part: Part) -> Progress:
    """Explain the rows of a part and write its file, which depends only on the task and the part.

    One thread computes: the processes provide the parallelism, and matrix products round
    differently with more threads.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise ImportError(
            "explaining many inputs needs threadpoolctl: pip install '.[corpus]'"
        ) from None
    if task.version != __version__:
        raise RunError(
            f"this worker has attn-closed-form {__version__}, but the run was started by "
            f"{task.version}"
        )
    pa = pyarrow()
    target = Path(part.target)
    # The manifest has the schema of every part, also of one whose rows all have errors.
    schema = pa.parquet.read_schema(target.with_name(MANIFEST)).remove_metadata()
    rows = failed = 0
    with (
        threadpool_limits(1),
        replacing(target, part.work) as partial,
        pa.parquet.ParquetWriter(partial, schema, **parquet_options(schema)) as writer,
    ):
        for table in part.read(task.column):
            # Refused rows are numbered within the part, and this table begins at row `rows` of it.
            refused = {number - rows: reason for number, reason in part.refused.items()}
            with collector_paused():  # until the objects of these rows are gone
                results, failures = _explained(
                    task, part, table, schema, first=part.first_row + rows, refused=refused
                )
            writer.write_table(results)
            rows += results.num_rows
            failed += failures
    return Progress(rows, failed)


def _explained(
    task: Task, part: Part, table: Any, schema: Any, first: int, refused: Mapping[int, str]
) -> tuple[Any, int]:
    """Explain rows from number `first` on; return their table and the number of errors."""
    outcomes = explain_inputs(
        task,
        table[task.column].to_pylist(),
        part.folder,
        target=str(Path(part.target).parent),
        refused=refused,
    )
    columns = {"row": np.arange(first, first + len(outcomes))}
    for name in part.columns:
        kind = schema.field(name).type
        # A table of a folder may lack a column that another one has.
        if name in table.column_names:
            columns[name] = table[name].cast(kind)
        else:
            columns[name] = pyarrow().nulls(len(outcomes), kind)
    failures = sum(isinstance(outcome, Failure) for outcome in outcomes)
    return result_table(task, schema, columns, outcomes), failures


def run(
    task: Task, parts: Sequence[Part], workers: int = 1, cluster: str | None = None
) -> Generator[Progress, None, None]:
    """Explain parts and yield the progress after each one.

    Closing the iterator stops the workers of this machine.

    Parameters
    ----------
    task, parts : as returned by `plan.planned`
    workers : number of processes on this machine; 1 explains in this process
    cluster : address of a Dask scheduler to use instead, such as "tcp://10.0.0.5:8786"
    """
    if workers < 1:
        raise ValueError(f"workers: expected a positive number, got {workers}")
    steps: Iterator[Step]
    if cluster is None and workers == 1:
        steps = ((part, explain_part(task, part)) for part in parts)
    else:
        from .cluster import steps_on_dask

        steps = steps_on_dask(task, parts, workers, address=cluster)
    # The request has a hash of the inputs, so a part of a changed input would belong to another
    # run. Size and time are compared after every part, because hashing is slow.
    stamps = {source: _stamp(source) for source in {part.source for part in parts}}
    rows = failed = 0
    for part, progress in steps:
        if part is not None and _stamp(part.source) != stamps[part.source]:
            Path(part.target).unlink(missing_ok=True)
            raise RunError(f"{part.source}: changed during the run")
        rows += progress.rows
        failed += progress.failed
        yield progress._replace(rows=rows, failed=failed)


def _stamp(source: str) -> tuple[int, int]:
    """Return the size and modification time of an input."""
    stat = os.stat(source)
    return stat.st_size, stat.st_mtime_ns


def explain_row(task: Task, part: Part, number: int) -> bool:
    """Explain one row, discard the result, and return True if the worker survives."""
    row = replace(part, start=part.start + number, stop=part.start + number + 1)
    for table in row.read(task.column):
        explain_inputs(task, table[task.column].to_pylist(), part.folder)
    return True
