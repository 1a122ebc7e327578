"""Explain the parts of a plan over any mapper: here, in processes (`mappers.py`), or on a cluster (`cluster.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .mappers import Death, Mapper, Result, Tick, here
from .parts import Part, check_source, explain_part, refuse_part
from .task import Task

MOST_DEATHS = 10  # at one part, after which all its rows are given up


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    rows, failed : rows on disk; rows with an error, those under way included
    running : rows that are explained but not yet on disk
    lost : workers that died
    note : something to tell, such as why a worker died
    """

    rows: int
    failed: int
    running: int = 0
    lost: int = 0
    note: str = ""


def run(task: Task, parts: Sequence[Part], mapper: Mapper = here) -> Iterator[Progress]:
    """Explain the parts, yielding now and then how far it is, and once at the end.

    Parameters
    ----------
    task, parts : as from `plan.planned`
    mapper : `here`, `Processes(4)` or `Cluster("tcp://...")`

    Notes
    -----
    Of a part that has killed several workers, the rows at which they died get an error, the others their explanations.
    """
    rows = failed = 0
    told: list[str] = []
    for news in mapper(partial(_explain, task), parts, partial(_give_up, task, told)):
        if news.finished is not None:
            part, (more_rows, more_failed) = news.finished
            check_source(part)
            rows, failed = rows + more_rows, failed + more_failed
        note = "; ".join([*filter(None, [news.note]), *told])
        told.clear()
        yield Progress(rows, failed + news.failed, news.running, news.lost, note)


def _explain(task: Task, part: Part, tick: Tick) -> tuple[int, int]:
    return explain_part(task, part, tick)


def _give_up(task: Task, told: list[str], part: Part, death: Death) -> Part | Result:
    """Give up the row where the last worker died; all rows of the part, if that is unknown or happens too often."""
    why = f"{death.deaths} processes ended at this part ({death.reason})"
    if death.at is None or death.at >= part.rows or death.deaths >= MOST_DEATHS:
        told.append(f"all rows of {Path(part.target).name} are given up after {death.deaths} attempts")
        return Result(refuse_part(task, part, why))
    told.append(f"row {part.first_row + death.at} is given up after {death.deaths} attempts")
    return replace(part, refused={**part.refused, death.at: f"{why}, the last at this row"})
