"""Explanations of many inputs: passes over a batch, and one small row of results per input.

Some steps are faster for all inputs of a batch together, so a batch passes through one step after
the other. A step that fails for one input ends that input with a reason, and the others go on.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import usual_float_errors
from ..._types import Array, Ids
from ..explanations.evidence import Evidence, ToleranceWarning
from ..explanations.explain import explain_evidence, need_exact_values, within_reach
from ..explanations.explanation import Explanations
from ..explanations.methods import as_methods
from ..files.bags import load_bag
from ..models.protocol import BagModel, TextModel
from ..models.units import Units
from ..show.exports import KINDS
from ..show.exports import row as bag_row
from .task import Task

# Tuning: characters of the texts of a batch. Batches of 100 to 2,000 reviews are equally fast, and
# the explanations of a batch are in memory together.
BATCH_CHARS = 1 << 19
# Errors about one input; a run continues with the others.
INPUT_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class Row(NamedTuple):
    """The results of one input, much smaller than its `Explanations`.

    Attributes
    ----------
    labels : names of the d players
    places : (n, 2) character spans, those of the first player first; None without a text
    counts : (d,) number of spans of each player
    logits : (C,) logits of the model
    cells : cells of the other columns, by name
    scores : (d,) scores by method
    standard_errors : (d,) standard errors of the scores by method, of those that sample
    """

    labels: tuple[str, ...]
    places: Ids | None
    counts: Ids
    logits: Array
    cells: dict[str, Any]
    scores: dict[str, Array]
    standard_errors: dict[str, Array]

    @classmethod
    def of(cls, explanations: Explanations) -> Row:
        """Return the row of an explained input."""
        evidence = explanations.evidence
        places, counts = _places(evidence)
        cells: dict[str, Any] = {
            "output": evidence.target.output,
            "scale": evidence.target.scale.name,
            "prediction": evidence.prediction,
            "unseen": len(evidence.units.unseen),
        }
        if isinstance(evidence.model, BagModel):
            cells |= bag_row(explanations)
        for name, explanation in explanations.items():
            cells[f"{name}_baseline"] = explanation.baseline
            cells[f"{name}_error"] = explanation.error
        scores = {name: explanation.scores for name, explanation in explanations.items()}
        errors = {
            name: explanation.standard_error
            for name, explanation in explanations.items()
            if explanation.standard_error is not None
        }
        return cls(evidence.labels, places, counts, evidence.logits, cells, scores, errors)


def _places(evidence: Evidence) -> tuple[Ids | None, Ids]:
    """Return the spans of all players, those of the first player first, and their numbers."""
    units = evidence.units
    if units.continues is not None:  # a word is several tokens, which form one span
        spans = evidence.spans
        return np.array(list(chain.from_iterable(spans))), np.array(list(map(len, spans)))
    counts = np.bincount(evidence.player_of)
    if units.places is None:
        return None, counts
    # The units in the order of their players, as `counts` divides them.
    return units.places[units.by_player(evidence.target.players)], counts


class Failure(str):
    """The reason why an input has no explanation."""


Outcome = Row | Failure


@usual_float_errors
def explain_inputs(
    task: Task,
    raws: Sequence[Any],
    folder: str = ".",
    target: str | None = None,
    refused: Mapping[int, str] = {},
) -> list[Outcome]:
    """Return the rows of some inputs, or the reasons why they have no explanation.

    Parameters
    ----------
    task : the computation
    raws : the inputs. For a model of bags they are paths relative to `folder`
    target : folder for the files of the bags (`Task.files`)
    refused : reasons for skipping inputs, by index

    Examples
    --------
    >>> fine, missing = explain_inputs(Task(), ["A fine film", None])
    >>> fine.cells["output"], missing
    ('positive', 'expected an input, got null')
    """
    entries = [Entry(raw) for raw in raws]
    for number, reason in refused.items():
        if 0 <= number < len(entries):
            entries[number].outcome = Failure(reason)
    with warnings.catch_warnings():
        # The columns METHOD_error have the guaranteed error.
        warnings.simplefilter("ignore", ToleranceWarning)
        for batch in _batches(task, entries):
            _Batch(task, batch).explain(folder, target)
    # Every entry has an outcome by now; the condition is for the type checker.
    return [entry.outcome for entry in entries if entry.outcome is not None]


@dataclass
class Entry:
    """An input with the results of its passes; an `outcome` ends it."""

    raw: Any
    outcome: Outcome | None = None
    value: Any = field(init=False)  # the input in the form that the model reads
    units: Units = field(init=False)
    evidence: Evidence = field(init=False)


def _batches(task: Task, entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield inputs that are explained together: texts up to some total length, and one bag at a
    time.
    """
    if not isinstance(task.opened(), TextModel):
        for entry in entries:
            yield [entry]
        return
    first = 0
    characters = 0
    for i, entry in enumerate(entries):
        length = 0
        if isinstance(entry.raw, str):
            length = len(entry.raw)
        # A text that is longer than a batch must not end an empty one.
        if characters + length > BATCH_CHARS and i > first:
            yield entries[first:i]
            first = i
            characters = 0
        characters += length
    yield entries[first:]


class _Batch:
    """Inputs that are explained together. Every pass is for the inputs that have no outcome yet."""

    def __init__(self, task: Task, entries: Sequence[Entry]) -> None:
        self.task = task
        self.model = task.opened()
        self.methods = as_methods(task.methods)
        self.entries = entries

    @property
    def open(self) -> list[Entry]:
        """The inputs without an outcome."""
        return [entry for entry in self.entries if entry.outcome is None]

    def explain(self, folder: str, target: str | None) -> None:
        """Set the outcome of every input."""
        self.load(folder)
        self.read()
        self.gather_evidence()
        self.prepare_games()
        self.score(target)

    def load(self, folder: str) -> None:
        """Bring every input in the form that the model reads."""
        for entry in self.open:
            with recorded(entry):
                entry.value = _loaded(self.task, folder, entry.raw)

    def read(self) -> None:
        """Read all inputs together, and those for which this is not possible one by one."""
        entries = self.open
        several: Sequence[Units | None] = [None] * len(entries)
        # An input that cannot be read with the others gets its error below, where it is read alone.
        with suppress(*INPUT_ERRORS):
            several = self.model.read_many([entry.value for entry in entries])
        for entry, units in zip(entries, several, strict=True):
            with recorded(entry):
                if units is None:
                    units = self.model.read(entry.value)
                entry.units = units

    def gather_evidence(self) -> None:
        """Predict all inputs together, and choose the target of each."""
        entries = self.open
        with suppress(*INPUT_ERRORS):  # the input that causes an error gets it below
            self.model.prepare_logits([entry.units for entry in entries])
        for entry in entries:
            with recorded(entry):
                logits = self.model.logits(entry.units)
                exact = need_exact_values(self.methods)
                target = self.task.settings.resolve(self.model, logits, entry.units, exact)
                entry.evidence = Evidence(self.model, entry.units, target, logits)

    def prepare_games(self) -> None:
        """Build the games of all inputs together, and choose the scale of each."""
        entries = self.open
        with suppress(*INPUT_ERRORS):  # the input that causes an error gets it below
            units = [entry.units for entry in entries]
            targets = [entry.evidence.target.pooled for entry in entries]
            self.model.prepare_games(units, targets)
        for entry in entries:
            with recorded(entry):
                entry.evidence = within_reach(entry.evidence, self.task.settings)

    def score(self, target: str | None) -> None:
        """Explain every input, write its files, and keep its row."""
        for entry in self.open:
            with recorded(entry):
                explanations = explain_evidence(entry.evidence, self.methods, strict=True)
                if target is not None:
                    self.write_files(explanations, Path(target), entry.raw)
                entry.outcome = Row.of(explanations)
            del entry.evidence  # much larger than the row

    def write_files(self, explanations: Explanations, target: Path, raw: Any) -> None:
        """Write the files of a bag, such as its map."""
        for name in self.task.files:
            kind = KINDS[name]
            kind.write(explanations, target / f"{Path(raw).stem}{kind.suffix}")


@contextmanager
def recorded(entry: Entry) -> Iterator[None]:
    """End an input with the reason if the block raises an error about it."""
    try:
        yield
    except INPUT_ERRORS as error:
        entry.outcome = Failure(str(error) or type(error).__name__)


def _loaded(task: Task, folder: str, raw: Any) -> Any:
    """Return the input of a row in the form that the model reads."""
    if raw is None:
        raise ValueError("expected an input, got null")
    model = task.opened()
    if isinstance(model, TextModel):
        if isinstance(raw, str) and len(raw) > task.max_chars:
            raise ValueError(f"expected at most {task.max_chars} characters, got {len(raw)}")
    elif isinstance(raw, str):
        path = os.path.join(folder, raw)
        raw = path
        if isinstance(model, BagModel):
            raw = load_bag(path)
    if task.region is None:
        return raw
    return raw.in_regions(task.region)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would scan all objects of a batch repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
