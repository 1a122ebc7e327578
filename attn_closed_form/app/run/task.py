"""The task of a run: what is computed for every input, and errors that stop a run."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ... import __version__
from ..._arrays import choice, whole
from ..explanations.methods import as_methods
from ..explanations.settings import Settings
from ..files.open_model import DEMO_MODEL, open_model
from ..models.protocol import Model
from ..show.exports import KINDS

# Default maximum length of a text: about 200,000 words. A longer one is almost always a file that
# was read as a text by mistake, and would take minutes.
MAX_CHARS = 1_000_000


class RunError(ValueError):
    """Error for a run that cannot start or continue; the message gives the reason."""


def pyarrow() -> Any:
    """Import pyarrow, or raise an error that names the extra."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError("explaining many inputs needs pyarrow: pip install '.[corpus]'") from None
    return pyarrow


@dataclass(frozen=True)
class Task:
    """The computation for every input of a run.

    Attributes
    ----------
    column : the column of inputs: texts, paths of bags, or structs of scores
    methods : names in `METHODS`
    model : argument of `open_model`, such as a file; None is the shipped model. A model object also
        works, and is then sent to the workers with every part
    model_options : options of `open_model` that the file of the model does not store
    settings : as in `explain`
    max_chars : maximum length of a text; longer ones get an error
    columns : the user's columns to keep; None keeps all but `column`
    region : side of square regions of a bag, in the unit of its coordinates; None for the regions
        of the file
    files : kinds of files to write for every bag, names of `show.exports.KINDS`
    version : version of this package; a worker with another version raises an error
    """

    column: str = "text"
    methods: tuple[str, ...] = ("shapley",)
    model: str | Model | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    max_chars: int = MAX_CHARS
    columns: tuple[str, ...] | None = None
    region: float | None = None
    files: tuple[str, ...] = ()
    version: str = __version__

    def __post_init__(self) -> None:
        names = tuple(method.name for method in as_methods(self.methods))
        object.__setattr__(self, "methods", names)  # the full names instead of aliases
        whole("max_chars", self.max_chars)
        for name in self.files:
            choice("files", name, KINDS)

    def settled(self, methods: Sequence[str] | None) -> Task:
        """Return this task with the named methods, by default Shapley values, which are sampled if
        the model has no exact ones; raise an error if no input can have them.
        """
        exact = self.settings.has_exact_values(self.opened())
        if methods is None:
            name = "shapley" if exact else "shapley-sampled"
            return replace(self, methods=(name,))
        task = replace(self, methods=tuple(methods))
        for method in as_methods(task.methods):
            if (
                method.accuracy == "guaranteed"
                and self.settings.scale == "probability"
                and not exact
            ):
                raise RunError(
                    "methods: the probability of this model has no exact values, which "
                    f"{method.name!r} needs; use 'shapley-sampled', or scale 'logit'"
                )
        return task

    def opened(self) -> Model:
        """Return the model, opened once in each process."""
        if self.model is not None and not isinstance(self.model, str):
            return self.model
        # A dict cannot be the key of a cache, its text can.
        return _opened(self.model, json.dumps(dict(self.model_options), sort_keys=True))

    def model_hash(self) -> str:
        """Return the SHA-256 of the model's file, or of the model."""
        if self.model is not None and not isinstance(self.model, str):
            # Equal models have equal pickles, because caches are left out of them.
            return hashlib.sha256(pickle.dumps(self.model)).hexdigest()
        path = Path(self.model or DEMO_MODEL)
        if not path.is_file():  # a name such as "scores"
            return hashlib.sha256(str(self.model).encode()).hexdigest()
        return sha256(path)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# One model per process is enough for a run; a second one serves a program that compares two.
@lru_cache(maxsize=2)
def _opened(model: str | None, options: str) -> Model:
    return open_model(model, **json.loads(options))
