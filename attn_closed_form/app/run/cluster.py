"""Workers: processes of this machine or of a Dask cluster that explain parts.

A part whose worker dies is tried again by Dask. A part that loses several workers is set aside and
explained row by row at the end, so that only the rows that kill their worker get an error.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from types import ModuleType
from typing import Any

from .plan import Part
from .runner import Progress, Step, explain_part, explain_row
from .task import RunError, Task


def steps_on_dask(
    task: Task, parts: Sequence[Part], workers: int, address: str | None
) -> Iterator[Step]:
    """Yield the parts that are done, and messages; parts whose workers died come last."""
    if not parts:
        return
    with connected(workers, address, parts[0].work) as dask:
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


class DaskClient:
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
        # Dask would take an equal call for the same work, and a part that lost its workers may be
        # submitted again.
        future = self.client.submit(function, *arguments, pure=False)
        future.add_done_callback(self.done.put)
        return future

    def wait(self) -> Any:
        """Return the next finished future."""
        from distributed.core import Status

        # Tuning, in seconds: the time between two checks, short next to the start of a worker.
        poll = 0.5
        while True:
            with suppress(queue.Empty):
                return self.done.get(timeout=poll)
            if self.cluster is None:
                continue
            nannies = self.cluster.workers.values()
            # A nanny that restarts its worker has another status, and the work goes on afterwards.
            if all(
                nanny.status in (Status.closing, Status.closed, Status.failed) for nanny in nannies
            ):
                raise RunError("all workers died and could not be restarted")

    def explained(
        self, task: Task, parts: Sequence[Part]
    ) -> Iterator[tuple[Part, Progress | None]]:
        """Yield parts in the order in which they finish, with None for a part whose workers
        died.
        """
        waiting = iter(parts)
        # The futures are kept, because Dask cancels the work of a future that nothing refers to.
        running: dict[str, tuple[Any, Part]] = {}
        # Tuning: maximum number of parts submitted at a time, which bounds the memory of the
        # scheduler.
        ahead = 1_000
        while True:
            # A finished part makes room for the next one.
            for part in islice(waiting, ahead - len(running)):
                future = self.submit(explain_part, task, part)
                running[future.key] = future, part
            if not running:
                return
            future = self.wait()
            _, part = running.pop(future.key)
            yield part, self.result(future)

    def result(self, future: Any) -> Any:
        """Return the result of a future, without a time limit, or None if its workers died."""
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            return None
        except Exception as error:
            if future.status == "error":
                raise RunError(f"a worker failed: {one_line(error)}") from None
            # A finished future without a result means that the connection is broken, even if the
            # client has not noticed.
            raise RunError(
                f"scheduler {self.address}: lost during the run ({one_line(error)})"
            ) from None

    def alone(self, task: Task, part: Part) -> Progress:
        """Explain a blamed part alone; the rows that kill their worker get an error."""
        refused: dict[int, str] = {}
        reason = "the worker died at this row every time, possibly because memory ran out"
        # One row at a time: the next one starts when the worker has survived, or is replaced.
        for number in range(part.rows):
            self.submit(explain_row, task, part, number)
            if self.result(self.wait()) is None:
                refused[number] = reason
        self.submit(explain_part, task, replace(part, refused=refused))
        progress: Progress | None = self.result(self.wait())
        if progress is None:  # rows that are harmless one by one, but not together
            refused = dict.fromkeys(range(part.rows), reason.replace("row", "part"))
            # Every row is refused, so this process explains nothing and cannot be killed by a row.
            progress = explain_part(task, replace(part, refused=refused))
        if not refused:
            return progress
        rows = ", ".join(str(part.first_row + number) for number in refused)
        return progress._replace(note=f"rows {rows} were skipped because their workers died")


def one_line(error: Exception) -> str:
    """Return the first line of an error's message, with the file that it is about."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename:
            return f"{error.filename}: {error.strerror}"
        return error.strerror
    return (str(error) or type(error).__name__).splitlines()[0]


@contextmanager
def connected(workers: int, address: str | None, work: str) -> Iterator[DaskClient]:
    """Yield a client of a scheduler, or of workers of this machine that end with the block."""
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
                yield DaskClient(client, None, cluster)
            return
        try:
            # Tuning: how long a scheduler may take to answer.
            connect_seconds = 10.0
            client = Client(address, timeout=connect_seconds, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise RunError(
                f"--cluster {address}: expected the address of a Dask scheduler that answers, such "
                f"as tcp://10.0.0.5:8786 ({one_line(error)})"
            ) from None
        try:
            yield DaskClient(client, address)
        finally:
            # The connection may be broken already, and the error of the run is more useful.
            with suppress(Exception):
                client.close(timeout=1)


@contextmanager
def _local_cluster(workers: int, work: str) -> Iterator[Any]:
    """Start local worker processes; they end with the block, or with this process even if it is
    killed.
    """
    import dask
    from distributed import LocalCluster

    settings = {
        # Each worker has one part at a time, so that a crash is attributed to the part that caused
        # it.
        "distributed.scheduler.worker-saturation": 1.0,
        # A busy machine may take long to replace a worker; by default the cluster then forgets it.
        "distributed.deploy.lost-worker-timeout": "1000 days",
        "temporary-directory": work,
        # Dask's measurements in its workers take processor time from the explanations.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        # Dask sets MALLOC_TRIM_THRESHOLD_ by default, which makes glibc map and unmap memory for
        # every large array.
        "distributed.nanny.pre-spawn-environ": {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
    }
    with dask.config.set(settings), _empty_main_module():
        try:
            with _interrupts_blocked():
                # Number of local workers that a part may lose before it is set aside: a second
                # death is hardly chance.
                local_deaths = 2
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    # Only programs on this machine can reach the scheduler and its workers.
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    # At a limit of memory, Dask would end a worker; 0 sets none.
                    memory_limit=0,
                    local_directory=work,
                    silence_logs=logging.CRITICAL,
                    scheduler_kwargs={"allowed_failures": local_deaths - 1, "dashboard": False},
                )
        except Exception as error:
            raise RunError(f"the workers cannot start: {one_line(error)}") from None
        try:
            yield cluster
        finally:
            # Nothing is lost by an abrupt end, because parts are complete files.
            with suppress(Exception):
                cluster.sync(end_workers, cluster, callback_timeout=5)
                cluster.close(timeout=5)


async def end_workers(cluster: Any) -> None:
    """Stop the workers immediately; closing the cluster would let them finish their parts."""
    ends = [nanny.close(timeout=0.2) for nanny in cluster.workers.values()]
    await asyncio.gather(*ends, return_exceptions=True)


@contextmanager
def _empty_main_module() -> Iterator[None]:
    """Keep processes that are started inside the block from importing the main module.

    A script without `if __name__ == "__main__":` would otherwise start again in every worker, and
    its imports would delay the workers. multiprocessing has no option for this: a new process
    imports the file of the module that is registered as "__main__", so an empty module without a
    file takes its place until the block ends.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Make threads and processes started inside ignore Ctrl-C, because they inherit the signal
    mask.
    """
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
