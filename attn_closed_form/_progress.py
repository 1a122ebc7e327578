"""Progress bars on standard error, shown on a terminal if rich is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Called with (stage, done, total).
Report = Callable[[str, int, int], None]
# Delay in seconds before the bars of `stages` appear.
PATIENCE = 1.0


def rich_progress(always: bool = False) -> Any:
    """Return a progress bar with counts and times, or None without rich or (unless `always`)
    without a terminal.
    """
    if not (always or sys.stderr.isatty()):
        return None
    try:
        from rich import console, progress
    except ImportError:
        return None

    times = (progress.TimeElapsedColumn(), progress.TimeRemainingColumn())
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        *times,
    )
    return progress.Progress(*columns, console=console.Console(stderr=True), transient=True)


@contextmanager
def stages(title: str, progress: Report | bool | None = None) -> Iterator[Report]:
    """Provide a function that reports the progress of several stages, by default with bars after a
    second.

    `title` is written before the names of the stages. `progress` is a function, True for bars,
    False for none, or None for bars on a terminal.
    """
    if callable(progress):
        yield progress
        return
    if progress is False:
        bars = None
    else:
        bars = rich_progress(always=progress is True)
    if bars is None:
        yield lambda stage, done, total: None
        return
    begin = time.monotonic()
    tasks: dict[str, Any] = {}

    def report(stage: str, done: int, total: int) -> None:
        if time.monotonic() - begin < PATIENCE:
            return
        if not tasks:
            bars.start()
        if stage not in tasks:
            tasks[stage] = bars.add_task(f"{title}: {stage}", total=total)
        bars.update(tasks[stage], completed=done)

    try:
        yield report
    finally:
        bars.stop()
