"""Answers in worker processes: as many cores as workers, a time limit that holds, and no request lost with a worker.

The server's own process reads requests and writes answers; each worker process computes one answer at a time. Between
them stands one thread per worker (`_Slot`), which takes the next request from a queue that all share, sends it down a
pipe and waits. So

- a worker that dies is replaced, and the request that it had is given to the next one, at most ATTEMPTS times, because
  a request may be what kills;
- a request that takes too long costs its worker its life, and nobody else waits for it;
- `restart` replaces the workers one after the other, each when its successor is ready, so nobody notices.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from ..run.processes import how_it_ended, settle, start
from .computing import State, answer_bytes, error_bytes, too_slow, warm_up
from .fields import Refusal
from .models import Source, open_models

ATTEMPTS = 3
LOOK = 0.25  # seconds between two looks at an idle worker
START_SECONDS = 120.0  # for a worker to read its model
PAUSE = 1.0  # before a worker that could not start is started again


@dataclass
class _Job:
    """A request on its way."""

    kind: str
    body: bytes
    seconds: float
    asked: float = field(default_factory=time.monotonic)
    answer: Future[tuple[int, bytes]] = field(default_factory=Future)
    attempts: int = 0

    @property
    def left(self) -> float:
        return self.asked + self.seconds - time.monotonic()

    def reply(self, status: int, body: bytes) -> None:
        with suppress(Exception):  # nobody waits any more
            self.answer.set_result((status, body))

    def refuse(self, refusal: Refusal) -> None:
        self.reply(refusal.status, error_bytes(refusal))


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Any

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class InProcesses:
    """A computer of several processes.

    Parameters
    ----------
    source : the path of a model or of a folder of models, which every worker opens itself (and anew at a restart), or a
        model
    name : what the page calls it
    workers : how many processes
    """

    def __init__(self, source: Source, name: str | None, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers: expected a positive number, got {workers}")
        self.source, self.name = source, name
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.again: queue.SimpleQueue[_Job] = queue.SimpleQueue()  # requests whose worker died come first
        self.about: dict[str, Any] = {}
        self.slots = [_Slot(self) for _ in range(workers)]
        self.ending = threading.Event()
        self.lost = self.timeouts = 0

    async def start(self) -> None:
        """Start the workers, and wait for the first of them."""
        for slot in self.slots:
            slot.start()
        await asyncio.to_thread(self.wait_until_ready)

    def wait_until_ready(self) -> None:
        """Until some worker can answer."""
        end = time.monotonic() + START_SECONDS
        while not self.state().ready and time.monotonic() < end and not self.ending.is_set():
            time.sleep(0.02)

    async def stop(self) -> None:
        """End the workers; requests that wait are told so."""
        self.ending.set()
        for slot in self.slots:
            slot.kill()
        for slot in self.slots:
            await asyncio.to_thread(slot.join, 5.0)
        for waiting in (self.again, self.jobs):
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait().refuse(Refusal(503, "the server is ending"))

    async def ask(self, kind: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Answer by the next worker that is free."""
        job = _Job(kind, body, seconds)
        self.jobs.put(job)
        return await asyncio.wrap_future(job.answer)

    def state(self) -> State:
        """How the workers are."""
        ready = sum(slot.ready for slot in self.slots)
        return State(len(self.slots), ready, self.lost, self.timeouts)

    def restart(self) -> None:
        """Replace every worker by one that has opened the model anew. Blocks; call it in a thread."""
        for slot in self.slots:
            slot.renew.set()
            while slot.renew.is_set() and not self.ending.is_set():
                time.sleep(0.02)

    def hire(self) -> _Worker:
        """A new worker that is ready; RuntimeError says why there is none."""
        ours, theirs = get_context("spawn").Pipe()
        worker = _Worker(start(_work, theirs, self.source, self.name), ours)
        theirs.close()
        try:
            if not ours.poll(START_SECONDS):
                raise RuntimeError(f"a worker was not ready within {START_SECONDS:g} seconds")
            kind, value = ours.recv()
        except (EOFError, OSError):
            worker.process.join(1.0)
            reason = how_it_ended(worker.process.exitcode)
            worker.end()
            raise RuntimeError(f"a worker could not start: it {reason}") from None
        if kind == "failed":
            worker.end()
            raise RuntimeError(value)
        self.about = value
        return worker

    def next_job(self) -> _Job | None:
        """The next request, or None after a little while."""
        with suppress(queue.Empty):
            return self.again.get_nowait()
        with suppress(queue.Empty):
            return self.jobs.get(timeout=LOOK)
        return None


class _Slot(threading.Thread):
    """The thread that looks after one worker."""

    def __init__(self, computer: InProcesses) -> None:
        super().__init__(daemon=True)
        self.computer = computer
        self.worker: _Worker | None = None
        self.renew = threading.Event()  # set from outside, cleared when there is another worker

    @property
    def ready(self) -> bool:
        """Whether there is a worker, and alive."""
        worker = self.worker
        return worker is not None and worker.process.is_alive()

    def run(self) -> None:
        """Keep a worker, and give it requests, until the server ends."""
        while not self.computer.ending.is_set():
            if self.worker is None and not self._hired():
                continue
            if self.renew.is_set():
                self._renewed()
            job = self.computer.next_job()
            if job is not None:
                self._serve(job)
            elif self.worker is not None and not self.worker.process.is_alive():
                self._bury()
        self.kill()

    def _hired(self) -> bool:
        try:
            self.worker = self.computer.hire()
        except RuntimeError as error:
            print(error, file=sys.stderr, flush=True)
            self.computer.ending.wait(PAUSE)
            return False
        return True

    def _serve(self, job: _Job) -> None:
        if job.left <= 0:  # it waited too long in the queue
            self.computer.timeouts += 1
            job.refuse(too_slow(job.seconds))
            return
        job.attempts += 1
        worker = self.worker
        try:
            if worker is None:
                raise EOFError
            worker.pipe.send((job.kind, job.body))
            if worker.pipe.poll(max(0.0, job.left)):
                job.reply(*worker.pipe.recv())
                return
        except (EOFError, OSError):
            self._bury()
            self._once_more(job)
            return
        self.computer.timeouts += 1
        job.refuse(too_slow(job.seconds))
        self.kill()

    def _once_more(self, job: _Job) -> None:
        if self.computer.ending.is_set():
            job.refuse(Refusal(503, "the server is ending"))
        elif job.attempts < ATTEMPTS:
            self.computer.again.put(job)
        else:
            job.refuse(Refusal(500, f"{ATTEMPTS} workers ended at this request"))

    def _bury(self) -> None:
        """A worker that died by itself."""
        worker, self.worker = self.worker, None
        if worker is not None and not self.computer.ending.is_set():
            worker.process.join(1.0)
            self.computer.lost += 1
            print(f"a worker was lost ({how_it_ended(worker.process.exitcode)})", file=sys.stderr, flush=True)
        if worker is not None:
            worker.end()

    def _renewed(self) -> None:
        """Another worker in place of this one. Hired by this thread, because a worker leaves with the thread that
        started it (`_processes.settle`).
        """
        try:
            old, self.worker = self.worker, self.computer.hire()
            if old is not None:
                old.end()
        except RuntimeError as error:  # the old one goes on
            print(f"not restarted: {error}", file=sys.stderr, flush=True)
        self.renew.clear()

    def kill(self) -> None:
        """End the worker, whatever it does."""
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.process.kill()
            worker.process.join()


def _work(pipe: Any, source: Source, name: str | None) -> None:
    """The life of a worker."""
    settle()
    try:
        models = open_models(source, name)
        warm_up(models)
    except Exception as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
        return
    pipe.send(("ready", models.about()))
    with suppress(EOFError, OSError):
        while True:
            pipe.send(answer_bytes(models, *pipe.recv()))
