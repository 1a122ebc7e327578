"""Progress of a run on standard error: a bar on a terminal, lines of text in a log, or nothing.

The rate is that of the last WINDOW seconds, so that the remaining time follows the current speed.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from ..._progress import rich_progress
from ..show.sanitize import visible
from .runner import Progress

# Tuning, in seconds: the time whose rate is shown, and the time between two lines of a log.
WINDOW = 30.0


class Meter:
    """The number of finished rows (`before` by earlier runs), the current rate, and the remaining
    time.

    >>> seconds = iter([0.0, 10.0])
    >>> meter = Meter(3000, before=500, clock=lambda: next(seconds))
    >>> meter.update(Progress(rows=1000, failed=3))
    >>> meter.line()
    '1,500 of 3,000 documents (50%), 100 per second, 15 s left, 3 with an error'
    """

    def __init__(
        self,
        total: int,
        before: int = 0,
        unit: str = "documents",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.before = before
        self.unit = unit
        self.clock = clock
        self.begin = clock()
        self.last = Progress()
        self.history: deque[tuple[float, int]] = deque([(self.begin, 0)])

    def update(self, progress: Progress) -> None:
        """Record the current progress."""
        now = self.clock()
        self.last = progress
        self.history.append((now, progress.rows))
        # The last entry before the window stays, so that the rate covers all of the window.
        while len(self.history) > 2 and self.history[1][0] < now - WINDOW:
            self.history.popleft()

    @property
    def done(self) -> int:
        """Rows explained, by this run and by earlier ones."""
        return self.before + self.last.rows

    def line(self) -> str:
        """Return the progress in one line."""
        begin, rows_at_begin = self.history[0]
        end, rows_at_end = self.history[-1]
        rate = 0.0
        if end > begin:
            rate = (rows_at_end - rows_at_begin) / (end - begin)
        share = 100 * self.done // max(1, self.total)
        pieces = [
            f"{self.done:,} of {self.total:,} {self.unit} ({share}%)",
            f"{rate:,.0f} per second",
        ]
        if rate > 0:
            pieces.append(f"{show_time((self.total - self.done) / rate)} left")
        if self.last.failed:
            pieces.append(f"{self.last.failed:,} with an error")
        if self.last.lost:
            pieces.append(f"{self.last.lost:,} workers lost")
        return ", ".join(pieces)


def show_time(seconds: float) -> str:
    """Format seconds in words.

    >>> show_time(15.2), show_time(150), show_time(10_000)
    ('15 s', '2 min 30 s', '2 h 46 min')
    """
    minutes, whole = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    if minutes:
        return f"{minutes} min {whole} s"
    return f"{whole} s"


@contextmanager
def reported(meter: Meter, mode: str | None = None) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that records progress and shows it by the mode "bar", "plain" or "none".

    The mode None shows a bar on a terminal and plain lines elsewhere.
    """
    if mode in ("plain", "none"):
        bar = None
    else:
        bar = rich_progress(always=mode == "bar")
    row = bar and bar.add_task("explaining", total=meter.total, completed=meter.before)
    printed = meter.begin

    def show(progress: Progress) -> None:
        nonlocal printed
        meter.update(progress)
        if bar is not None:
            if progress.note:
                bar.console.print(visible(progress.note), markup=False, highlight=False)
            errors = f", {progress.failed:,} with an error" if progress.failed else ""
            bar.update(row, completed=meter.done, description=f"explaining{errors}")
        elif mode != "none":
            now = meter.history[-1][0]
            if progress.note:
                print(visible(progress.note), file=sys.stderr, flush=True)
            # Tuning, in seconds: the time between two lines of a log.
            line_seconds = 10.0
            if now - printed >= line_seconds:
                printed = now
                print(meter.line(), file=sys.stderr, flush=True)

    with bar or nullcontext():
        yield show
