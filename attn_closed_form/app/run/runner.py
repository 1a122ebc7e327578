"""Explain the parts of a plan in this process or on Dask, with processes of this machine or on a cluster.

Dask replaces workers that die and repeats their parts. A part that has lost several workers fails with `KilledWorker`,
although another part on the same worker may have been the cause. Such parts are set aside until all others are done.
Then they run again, alone and row by row: a row that kills its worker gets an error, and all others are explained.
The table in docs/corpus.md lists what users see after a failure.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import __version__
from ..files.atomic import replacing
from .batch import Failure, collector_paused, explain_inputs
from .columns import parquet_options, result_table
from .plan import MANIFEST, Part
from .task import RunError, Task, pyarrow

AHEAD = 1_000  # maximum number of parts submitted at a time
LOCAL_DEATHS = 2  # number of local workers that a part may lose before it is set aside
CONNECT_SECONDS = 10.0
POLL = 0.5  # seconds between checks for workers


class Progress(NamedTuple):
    """The state of a run, or of one part."""

    rows: int = 0  # rows that were written
    failed: int = 0  # rows with an error
    lost: int = 0  # workers of this machine that died and were replaced
    note: str = ""  # a message for the user, such as the rows that were abandoned


# A finished part and its progress; without a part, a message.
_Step = tuple[Part | None, Progress]


def explain_part(task: Task, part: Part) -> Progress:
    """Explain the rows of a part and write its file, which depends only on the task and the part.

    One thread computes: the processes provide the parallelism, and matrix products round differently with more threads.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise ImportError(
            "explaining many inputs needs threadpoolctl: pip install '.[corpus]'"
        ) from None
    if task.version != __version__:
        raise RunError(
            f"this worker has attn-closed-form {__version__}, but the run was started by {task.version}"
        )
    pa = pyarrow()
    target = Path(part.target)
    schema = pa.parquet.read_schema(target.with_name(MANIFEST)).remove_metadata()
    rows = failed = 0
    with (
        threadpool_limits(1),
        replacing(target, part.work) as partial,
        pa.parquet.ParquetWriter(partial, schema, **parquet_options(schema)) as writer,
    ):
        for table in part.read(task.column):
            refused = {number - rows: reason for number, reason in part.refused.items()}
            with collector_paused():  # until the objects of these rows are gone
                results, failures = _explained(
                    task, part, table, schema, part.first_row + rows, refused
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
        task, table[task.column].to_pylist(), part.folder, str(Path(part.target).parent), refused
    )
    columns = {"row": np.arange(first, first + len(outcomes))}
    for name in part.columns:
        kind = schema.field(name).type
        present = name in table.column_names
        if present:
            columns[name] = table[name].cast(kind)
        else:
            columns[name] = pyarrow().nulls(len(outcomes), kind)
    failures = sum(isinstance(outcome, Failure) for outcome in outcomes)
    return result_table(task, schema, columns, outcomes), failures


def run(
    task: Task, parts: Sequence[Part], workers: int = 1, cluster: str | None = None
) -> Generator[Progress, None, None]:
    """Explain parts and yield the progress after each one. Closing the iterator stops the workers of this machine.

    Parameters
    ----------
    task, parts : as returned by `plan.planned`
    workers : number of processes on this machine; 1 explains in this process
    cluster : address of a Dask scheduler to use instead, such as "tcp://10.0.0.5:8786"
    """
    if workers < 1:
        raise ValueError(f"workers: expected a positive number, got {workers}")
    steps: Iterator[_Step]
    if cluster is None and workers == 1:
        steps = ((part, explain_part(task, part)) for part in parts)
    else:
        steps = _on_dask(task, parts, workers, cluster)
    stamps = {source: _stamp(source) for source in {part.source for part in parts}}
    rows = failed = 0
    for part, progress in steps:
        if part is not None and _stamp(part.source) != stamps[part.source]:
            Path(part.target).unlink(missing_ok=True)
            raise RunError(f"{part.source}: changed during the run")
        rows = rows + progress.rows
        failed = failed + progress.failed
        yield progress._replace(rows=rows, failed=failed)


def _stamp(source: str) -> tuple[int, int]:
    """Return the size and modification time of an input."""
    stat = os.stat(source)
    return stat.st_size, stat.st_mtime_ns


def _on_dask(
    task: Task, parts: Sequence[Part], workers: int, address: str | None
) -> Iterator[_Step]:
    if not parts:
        return
    with _dask(workers, address, parts[0].work) as dask:
        if not dask.client.nthreads():
            yield None, Progress(note=f"scheduler {address}: no workers yet; waiting for them")
        blamed = []
        for part, progress in dask.explained(task, parts):
            if progress is None:
                blamed.append(part)
            else:
                yield part, progress._replace(lost=dask.lost())
        for part in blamed:
            progress = dask.alone(task, part)
            yield part, progress._replace(lost=dask.lost())


class _Dask:
    """A client of a scheduler, and the cluster if it runs on this machine."""

    def __init__(self, client: Any, address: str | None, cluster: Any = None) -> None:
        self.client = client
        self.address = address or "of this machine"
        self.cluster = cluster
        self.seen: set[str] = set()
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.lost()  # record the initial workers

    def lost(self) -> int:
        """Return the number of local workers that have died; a replacement has a new address."""
        if self.cluster is None:
            return 0
        alive = set(self.cluster.scheduler.workers)
        self.seen |= alive
        return len(self.seen - alive)

    def submit(self, function: Any, *arguments: Any) -> Any:
        """Submit work; its future is put in the queue when it is done."""
        future = self.client.submit(function, *arguments, pure=False)
        future.add_done_callback(self.done.put)
        return future

    def wait(self) -> Any:
        """Return the next finished future."""
        from distributed.core import Status

        while True:
            with suppress(queue.Empty):
                return self.done.get(timeout=POLL)
            gone = (Status.closing, Status.closed, Status.failed)
            if self.cluster is not None and all(
                nanny.status in gone for nanny in self.cluster.workers.values()
            ):
                raise RunError("all workers died and could not be restarted")

    def explained(
        self, task: Task, parts: Sequence[Part]
    ) -> Iterator[tuple[Part, Progress | None]]:
        """Yield parts in the order in which they finish, with None for a part whose workers died."""
        waiting = iter(parts)
        running: dict[
            str, tuple[Any, Part]
        ] = {}  # Dask cancels the work of a future that is not referenced
        while True:
            for part in islice(waiting, AHEAD - len(running)):
                future = self.submit(explain_part, task, part)
                running[future.key] = future, part
            if not running:
                return
            future = self.wait()
            yield running.pop(future.key)[1], self.result(future)

    def result(self, future: Any) -> Any:
        """Return the result of a future, without a time limit, or None if its workers died."""
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            return None
        except Exception as error:
            if future.status == "error":
                raise RunError(f"a worker failed: {_one_line(error)}") from None
            # A finished future without a result means that the connection is broken, even if the client has not
            # noticed.
            raise RunError(
                f"scheduler {self.address}: lost during the run ({_one_line(error)})"
            ) from None

    def alone(self, task: Task, part: Part) -> Progress:
        """Explain a blamed part alone; the rows that kill their worker get an error."""
        refused: dict[int, str] = {}
        reason = "the worker died at this row every time, possibly because memory ran out"
        for number in range(part.rows):
            self.submit(_explain_one, task, part, number)
            if self.result(self.wait()) is None:
                refused[number] = reason
        self.submit(explain_part, task, replace(part, refused=refused))
        progress: Progress | None = self.result(self.wait())
        if progress is None:  # rows that are harmless one by one, but not together
            refused = dict.fromkeys(range(part.rows), reason.replace("row", "part"))
            progress = explain_part(task, replace(part, refused=refused))
        rows = ", ".join(str(part.first_row + number) for number in refused)
        return progress._replace(
            note=f"rows {rows} were skipped because their workers died" if refused else ""
        )


def _explain_one(task: Task, part: Part, number: int) -> bool:
    """Explain one row, discard the result, and return True if the worker survives."""
    row = replace(part, start=part.start + number, stop=part.start + number + 1)
    for table in row.read(task.column):
        explain_inputs(task, table[task.column].to_pylist(), part.folder)
    return True


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        if error.filename:
            return f"{error.filename}: {error.strerror}"
        return error.strerror
    return (str(error) or type(error).__name__).splitlines()[0]


@contextmanager
def _dask(workers: int, address: str | None, work: str) -> Iterator[_Dask]:
    try:
        from distributed import Client
        from distributed.utils import silence_logging_cmgr
    except ImportError:
        raise ImportError(
            "several workers need distributed: pip install '.[corpus]'; or use --workers 1"
        ) from None
    with silence_logging_cmgr(logging.CRITICAL):  # errors are reported here, in one line
        if address is None:
            with (
                _local_cluster(workers, work) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                yield _Dask(client, None, cluster)
            return
        try:
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            expected = (
                "expected the address of a Dask scheduler that answers, such as tcp://10.0.0.5:8786"
            )
            raise RunError(f"--cluster {address}: {expected} ({_one_line(error)})") from None
        try:
            yield _Dask(client, address)
        finally:
            with suppress(Exception):
                client.close(timeout=1)


@contextmanager
def _local_cluster(workers: int, work: str) -> Iterator[Any]:
    """Start local worker processes; they end with the block, or with this process even if it is killed."""
    import dask
    from distributed import LocalCluster

    settings = {
        # Each worker has one part at a time, so that a crash is attributed to the part that caused it.
        "distributed.scheduler.worker-saturation": 1.0,
        # A busy machine may take long to replace a worker; by default the cluster then forgets it.
        "distributed.deploy.lost-worker-timeout": "1000 days",
        "temporary-directory": work,
        # Dask's measurements in its workers take processor time from the explanations.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        # Dask sets MALLOC_TRIM_THRESHOLD_ by default, which makes glibc map and unmap memory for every large array.
        "distributed.nanny.pre-spawn-environ": {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
    }
    with dask.config.set(settings), _main_left_alone():
        try:
            with _interrupts_blocked():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    memory_limit=0,
                    local_directory=work,
                    silence_logs=logging.CRITICAL,
                    scheduler_kwargs={"allowed_failures": LOCAL_DEATHS - 1, "dashboard": False},
                )
        except Exception as error:
            raise RunError(f"the workers cannot start: {_one_line(error)}") from None
        try:
            yield cluster
        finally:
            with suppress(Exception):
                cluster.sync(_end_workers, cluster, callback_timeout=5)
                cluster.close(timeout=5)


async def _end_workers(cluster: Any) -> None:
    """Stop the workers immediately; closing the cluster would let them finish their parts."""
    ends = [nanny.close(timeout=0.2) for nanny in cluster.workers.values()]
    await asyncio.gather(*ends, return_exceptions=True)


@contextmanager
def _main_left_alone() -> Iterator[None]:
    """Keep processes that are started inside the block from importing the main module.

    A script without `if __name__ == "__main__":` would otherwise start again in every worker, and its imports would
    delay the workers.
    """
    main = sys.modules["__main__"]
    before = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    with suppress(AttributeError):
        del main.__file__
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(main, name, value)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Make threads and processes started inside ignore Ctrl-C, because they inherit the signal mask."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # it unblocks interrupts in its thread, so it must run before they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
