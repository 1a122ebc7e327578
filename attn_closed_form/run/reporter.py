"""Progress of a run, as it is: a bar on a terminal, lines of text in a log, lines of JSON for machines, or nothing.

The rate is that of the last WINDOW seconds, so the time left follows what happens now. All goes to standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._progress import rich_progress
from ..show.sanitize import visible
from .run import Progress

MODES = ("bar", "plain", "json", "none")
WINDOW = 30.0
EVERY = {"plain": 10.0, "json": 1.0}


class Meter:
    """Rows done of all rows, the current rate, and the time left.

    Parameters
    ----------
    total : rows of the corpus
    before : rows that an earlier run has done
    clock : seconds

    Examples
    --------
    >>> seconds = iter([0.0, 10.0])
    >>> meter = Meter(3000, before=500, clock=lambda: next(seconds))
    >>> meter.update(Progress(rows=1000, failed=3))
    >>> meter.line()
    '1,500 of 3,000 documents (50 %), 100 per second, 15 s left, 3 with an error'
    """

    def __init__(self, total: int, before: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.before, self.clock = total, before, clock
        self.begin = clock()
        self.last = Progress(0, 0)
        self.seen: deque[tuple[float, int]] = deque([(self.begin, 0)])

    def update(self, progress: Progress) -> None:
        """Take in how far the run is."""
        now = self.clock()
        self.last = progress
        self.seen.append((now, progress.rows + progress.running))
        while len(self.seen) > 2 and self.seen[1][0] < now - WINDOW:
            self.seen.popleft()

    @property
    def done(self) -> int:
        """Rows explained, by this run and those before it."""
        return self.before + self.last.rows + self.last.running

    @property
    def rate(self) -> float:
        """Rows per second, lately."""
        (then, rows), (now, more) = self.seen[0], self.seen[-1]
        return max(0.0, (more - rows) / (now - then)) if now > then else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the current rate; None as long as there is none."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    def line(self) -> str:
        """One line for people."""
        share = 100 * self.done // max(1, self.total)
        parts = [f"{self.done:,} of {self.total:,} documents ({share} %)", f"{self.rate:,.0f} per second"]
        if self.seconds_left is not None:
            parts.append(f"{show_time(self.seconds_left)} left")
        if self.last.failed:
            parts.append(f"{self.last.failed:,} with an error")
        if self.last.lost:
            parts.append(f"{self.last.lost:,} workers lost")
        return ", ".join(parts)

    def record(self) -> dict[str, Any]:
        """The same for machines."""
        left = self.seconds_left
        return {
            "rows": self.done,
            "of": self.total,
            "on_disk": self.before + self.last.rows,
            "errors": self.last.failed,
            "workers_lost": self.last.lost,
            "rate": round(self.rate, 2),
            "seconds_left": None if left is None else round(left, 1),
        }


def show_time(seconds: float) -> str:
    """Seconds in words.

    >>> show_time(15.2), show_time(150), show_time(10_000)
    ('15 s', '2 min 30 s', '2 h 46 min')
    """
    minutes, whole = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{whole} s"
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {whole} s"


@contextmanager
def reported(meter: Meter, mode: str | None = None) -> Iterator[Callable[[Progress], None]]:
    """Yield the function that takes in progress and shows it; `mode` None is a bar on a terminal, else lines."""
    mode = mode or ("bar" if sys.stderr.isatty() else "plain")
    bar = rich_progress("documents", always=True) if mode == "bar" else None
    if mode == "bar" and bar is None:
        mode = "plain"
    last = meter.begin
    row = None if bar is None else bar.add_task("explaining", total=meter.total, completed=meter.before)

    def show(progress: Progress) -> None:
        nonlocal last
        meter.update(progress)
        if progress.note:
            _tell(bar, mode, progress.note)
        if bar is not None:
            errors = f", {progress.failed:,} with an error" if progress.failed else ""
            bar.update(row, completed=meter.done, description=f"explaining{errors}")
        elif mode in EVERY and time.monotonic() - last >= EVERY[mode]:
            last = time.monotonic()
            _say(meter.line() if mode == "plain" else json.dumps({"event": "progress", **meter.record()}))

    if bar is None:
        yield show
    else:
        with bar:
            yield show
    if mode == "json":
        _say(json.dumps({"event": "end", **meter.record()}))


def _tell(bar: Any, mode: str, note: str) -> None:
    if bar is not None:
        bar.console.print(visible(note), markup=False, highlight=False)
    elif mode == "json":
        _say(json.dumps({"event": "note", "note": note}))
    elif mode == "plain":
        _say(visible(note))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
