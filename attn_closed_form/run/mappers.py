"""Apply a function to items, here or in processes of this machine that may die.

A mapper is called as `mapper(function, items, give_up)` and yields `News`. It calls `function(item, tick)`, which may
report how far it is in the item with `tick(done, failed)`. Items and results must be picklable, and an item may be
done twice, so `function` must not mind.

A process that dies (killed for its memory, say) is replaced, and its item begun again. The number in the last `tick`
is known, because workers count in shared memory. After WORST_DEATHS deaths at one item, each time
`give_up(item, death)` decides: it returns an item to try instead, or a `Result` that ends the matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from .processes import how_it_ended, settle, start
from .task import CorpusError

WORST_DEATHS = 3
POLL = 0.25  # seconds between two pieces of news

# Called with the number of rows done so far and how many of them failed.
Tick = Callable[[int, int], None]


class Death(NamedTuple):
    """What is known when an item has cost several workers their lives."""

    deaths: int
    at: int | None  # the last number that was ticked; None where workers cannot tell
    reason: str


class Result(NamedTuple):
    """What becomes of an item that is given up."""

    value: Any


class News(NamedTuple):
    """What has happened.

    Attributes
    ----------
    finished : (item, result), or None
    running, failed : rows ticked in items under way, and how many of them failed
    lost : workers that died so far
    note : something to tell, such as why a worker died
    """

    finished: tuple[Any, Any] | None = None
    running: int = 0
    failed: int = 0
    lost: int = 0
    note: str = ""


Function = Callable[[Any, Tick], Any]
GiveUp = Callable[[Any, Death], Any]
Mapper = Callable[[Function, Iterable[Any], GiveUp], Iterator[News]]


def here(function: Function, items: Iterable[Any], give_up: GiveUp) -> Iterator[News]:
    """Apply the function in this process, to one item after the other."""
    for item in items:
        yield News((item, function(item, lambda done, failed: None)))


@dataclass(frozen=True)
class Processes:
    """A mapper over processes of this machine, with one numerical thread each.

    Closing its generator, or any exception in it, ends the processes at once.
    """

    workers: int

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers: expected a positive number, got {self.workers}")

    def __call__(self, function: Function, items: Iterable[Any], give_up: GiveUp) -> Iterator[News]:
        """Apply the function; items are finished in any order."""
        pool = _Pool(function, give_up, deque(items))
        try:
            for _ in range(min(self.workers, len(pool.waiting))):
                pool.hire()
            while pool.busy():
                yield from pool.step()
        finally:
            pool.end()


@dataclass
class _Worker:
    """One process, its pipe, and its counter: rows done of its item, and how many of them failed."""

    process: BaseProcess
    pipe: Any
    counter: Any
    item: Any = None
    ready: bool = False


@dataclass
class _Pool:
    function: Function
    give_up: GiveUp
    waiting: deque[Any]
    workers: list[_Worker] = field(default_factory=list)
    finished: list[tuple[Any, Any]] = field(default_factory=list)
    deaths: list[tuple[Any, int]] = field(default_factory=list)
    lost: int = 0
    early_deaths: int = 0  # one after the other, before a worker was ready
    notes: list[str] = field(default_factory=list)

    def hire(self) -> None:
        """Start one more worker."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        counter = context.RawArray("q", 2)
        process = start(_work, theirs, counter, self.function)
        theirs.close()  # so that the pipe ends when the worker does
        self.workers.append(_Worker(process, ours, counter))

    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.waiting) or any(worker.item is not None for worker in self.workers)

    def step(self) -> Iterator[News]:
        """Hand out items, wait for something to happen or for a little while, and tell."""
        for worker in self.workers:
            if worker.ready and worker.item is None and self.waiting:
                worker.item = self.waiting.popleft()
                worker.counter[0] = worker.counter[1] = 0
                with suppress(OSError):  # it is dead, and its end will be heard of
                    worker.pipe.send(worker.item)
        ends = {worker.process.sentinel: worker for worker in self.workers}
        pipes = {worker.pipe: worker for worker in self.workers}
        heard = connection.wait([*pipes, *ends], timeout=POLL)
        for worker in [pipes[pipe] for pipe in heard if pipe in pipes]:
            with suppress(EOFError, OSError):
                self.hear(worker, worker.pipe.recv())
        for worker in [ends[end] for end in heard if end in ends]:
            self.bury(worker)
        told, self.finished = self.finished, []
        for finished in told:
            yield self.news(finished)
        if not told:
            yield self.news(None)

    def news(self, finished: tuple[Any, Any] | None) -> News:
        at_work = [worker.counter for worker in self.workers if worker.item is not None]
        note = "; ".join(self.notes)
        self.notes.clear()
        return News(finished, sum(int(c[0]) for c in at_work), sum(int(c[1]) for c in at_work), self.lost, note)

    def hear(self, worker: _Worker, message: tuple[str, Any]) -> None:
        kind, value = message
        if kind == "ready":
            worker.ready, self.early_deaths = True, 0
        elif kind == "failed":
            raise CorpusError(value)
        elif worker.item is not None:
            self.finished.append((worker.item, value))
            worker.item = None

    def bury(self, worker: _Worker) -> None:
        """A worker has died: take in its last words, decide about its item, start another."""
        with suppress(EOFError, OSError):
            while worker.pipe.poll():
                self.hear(worker, worker.pipe.recv())
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)
        self.lost += 1
        reason = how_it_ended(worker.process.exitcode)
        self.notes.append(f"a worker was lost ({reason})")
        self.early_deaths += not worker.ready
        if self.early_deaths >= WORST_DEATHS:
            raise CorpusError(f"workers cannot start: {self.early_deaths} of them {reason}")
        if worker.item is not None:
            self.again(worker.item, int(worker.counter[0]), reason)
        self.hire()

    def again(self, item: Any, at: int, reason: str) -> None:
        deaths = 1 + sum(count for other, count in self.deaths if other is item)
        self.deaths = [(other, count) for other, count in self.deaths if other is not item]
        if deaths >= WORST_DEATHS:
            decided = self.give_up(item, Death(deaths, at, reason))
            if isinstance(decided, Result):
                self.finished.append((item, decided.value))
                return
            item = decided
        self.deaths.append((item, deaths))
        self.notes.append("its part is begun again")
        self.waiting.appendleft(item)

    def end(self) -> None:
        """Idle workers leave on their own; those at work are killed, which harms no file."""
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(None)
            if worker.item is not None or not worker.ready:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join(1.0)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()


def _work(pipe: Any, counter: Any, function: Function) -> None:
    """The life of a worker."""
    settle()

    def tick(done: int, failed: int) -> None:
        counter[0], counter[1] = done, failed

    try:
        pipe.send(("ready", None))
        while (item := pipe.recv()) is not None:
            pipe.send(("done", function(item, tick)))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        with suppress(OSError):
            pipe.send(("failed", _one_line(error)))


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return (str(error) or type(error).__name__).splitlines()[0]
