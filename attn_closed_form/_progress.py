"""A progress bar on standard error for long work: shown on a terminal that has rich, silent everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, total: int, unit: str, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A bar of `total` units, `done` of them before the start; yields the function that advances it.

    >>> with bar("counting", 3, "sheep") as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text
    except ImportError:
        yield lambda n: None
        return
    if not sys.stderr.isatty():
        yield lambda n: None
        return

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda n: progress.advance(task, n)
