"""Progress of a run on stderr: a bar on a terminal that has rich, otherwise one line per epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from attn_closed_form._progress import rich_progress


class Progress:
    """A context that hears of steps and epochs.

    Parameters
    ----------
    epochs, steps : number of epochs, and of steps in each
    log : called with one line per epoch; None means stderr
    name : what an epoch is called

    Examples
    --------
    >>> with Progress(epochs=1, steps=2, log=print) as progress:
    ...     progress.step(0, 1)
    ...     progress.epoch(
    ...         {"epoch": 1, "training_loss": 0.5, "validation_loss": 0.25, "validation_accuracy": 0.9, "seconds": 2.0}
    ...     )
    epoch 1 of 1: training loss 0.5000, validation loss 0.2500, accuracy 90.00 %, 2.0 s
    """

    def __init__(self, epochs: int, steps: int, log: Callable[[str], None] | None = None, name: str = "epoch") -> None:
        self.epochs, self.steps, self.name = epochs, steps, name
        self._log = log or (lambda line: print(line, file=sys.stderr, flush=True))
        self._bar = rich_progress() if log is None else None
        if self._bar is not None:
            self._task = self._bar.add_task("training", total=epochs * steps)
            self._log = self._bar.console.print

    def step(self, epoch: int, step: int) -> None:
        """`step` steps of `epoch` (from 0) are done."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=epoch * self.steps + step, description=f"{self.name} {epoch + 1} of {self.epochs}"
            )

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is done."""
        line = f"{self.name} {record['epoch']} of {self.epochs}: training loss {record['training_loss']:.4f}, "
        if "validation_loss" in record:
            line += f"validation loss {record['validation_loss']:.4f}, "
            line += f"accuracy {100 * record['validation_accuracy']:.2f} %, "
        self._log(f"{line}{record['seconds']:.1f} s")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
