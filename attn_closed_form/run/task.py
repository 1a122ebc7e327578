"""What is asked of every row of a corpus, and one row's answer. Nothing here knows about files or processes."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import __version__
from ..explanations.evidence import ToleranceWarning
from ..explanations.explain import explain_units
from ..explanations.explanation import Explanations
from ..explanations.methods import as_methods
from ..explanations.settings import Settings
from ..files.open_model import DEMO_MODEL, open_model
from ..models.protocol import Model

MAX_CHARS = 1_000_000


class CorpusError(ValueError):
    """A corpus, or a folder of results, that cannot be worked with; says why."""


@dataclass(frozen=True)
class Task:
    """What is asked of every row.

    Attributes
    ----------
    column : the column of inputs: texts, paths of bags, or structs of scores
    methods : names in `METHODS`
    model : what `open_model` opens, such as a file; None is the shipped model. An explainable model itself will do,
        and is then sent to every worker
    settings : as in `explain`
    max_chars : a longer text is a row with an error
    columns : the user's columns that travel along; None for all but `column`
    version : of this package; a worker with another one refuses
    """

    column: str = "text"
    methods: tuple[str, ...] = ("shapley",)
    model: str | Model | None = None
    settings: Settings = field(default_factory=Settings)
    max_chars: int = MAX_CHARS
    columns: tuple[str, ...] | None = None
    version: str = __version__

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(method.name for method in as_methods(self.methods)))
        if self.max_chars < 1:
            raise ValueError(f"max_chars: expected a positive number, got {self.max_chars}")

    def opened(self) -> Model:
        """The model, opened once in each process."""
        return _opened(self.model) if self.model is None or isinstance(self.model, str) else self.model

    def model_hash(self) -> str:
        """SHA-256 of the model's file, or of the model."""
        if self.model is not None and not isinstance(self.model, str):
            return hashlib.sha256(pickle.dumps(self.model)).hexdigest()
        path = Path(self.model) if self.model else DEMO_MODEL
        if not path.is_file():  # a name that is no file, such as "scores"
            return hashlib.sha256(str(self.model).encode()).hexdigest()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=2)
def _opened(model: str | None) -> Model:
    return open_model(model)


def explain_input(task: Task, raw: Any, folder: str = ".") -> Explanations | str:
    """Explanations of one input, or the reason why there are none.

    `folder` is where a path in a table starts from, if the input is the path of a bag.
    """
    if raw is None:
        return "expected an input, got null"
    model = task.opened()
    if isinstance(raw, str):
        if len(raw) > task.max_chars:
            return f"expected at most {task.max_chars} characters, got {len(raw)}"
        if model.reads != "a text":  # then a string is the path of an input
            raw = os.path.join(folder, raw)
    try:
        return explain_units(model, model.read(raw), as_methods(task.methods), task.settings, strict=True)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        return str(error) or type(error).__name__


def explain_row(task: Task, raw: Any, folder: str = ".") -> dict[str, Any]:
    """One row of the output, without its number and the user's columns: explanations, or the reason for none.

    >>> row = explain_row(Task(), "A fine film")
    >>> row["labels"], row["output"], len(row["shapley"]), row["error"]
    (['a', 'fine', 'film'], 'positive', 3, None)
    >>> explain_row(Task(), None)
    {'error': 'expected an input, got null'}
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToleranceWarning)  # the columns METHOD_error say what holds
        found = explain_input(task, raw, folder)
    if isinstance(found, str):
        return {"error": found}
    evidence = found.evidence
    spans = evidence.spans if evidence.units.spans is not None else None
    row: dict[str, Any] = {
        "labels": list(evidence.labels),
        "spans": None if spans is None else [[{"start": a, "end": b} for a, b in each] for each in spans],
        "output": found.output,
        "prediction": found.prediction,
        "probability": (evidence.probabilities or {}).get(found.output),
        **{f"probability_{name}": value for name, value in (evidence.probabilities or {}).items()},
        "unseen": len(evidence.units.unseen),
        "error": None,
    }
    for name, explanation in found.items():
        row[name] = explanation.scores.tolist()
        row[f"{name}_base"] = explanation.base_value
        row[f"{name}_error"] = explanation.error
    return row
