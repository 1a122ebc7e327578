"""What a run computes for one input, and the columns that the results become.

| column | contents |
|---|---|
| `row` | number of the row in the whole run |
| the user's columns | unchanged |
| `labels`, `spans` | the players, and where each occurs in the text |
| `output`, `scale`, `prediction` | the class (or margin) that is explained, "probability" or "logit", and its value |
| `probability`, `probability_CLASS` | of the output, and of every class |
| `unseen`, `error` | tokens beyond the model's last position; why a row has no explanation |
| `instances` ... `rank_correlation` | for bags: how attention differs from the scores (`show/exports.py`) |
| `METHOD`, `METHOD_base`, `METHOD_error` | scores (one per player), base value, guaranteed error or null |

Scores of attributions are on the scale of the row; those of attention, derivatives and SLALOM are always of the logit.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import warnings
from collections.abc import Mapping, Sequence
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
from ..files.bags import load_bag
from ..files.open_model import DEMO_MODEL, open_model
from ..models.protocol import Model
from ..show.exports import KINDS
from ..show.exports import row as bag_row

MAX_CHARS = 1_000_000
MOST_CLASSES = 100  # with a column of their own
BAG_COLUMNS = ("instances", "empty_bag", "method", "error_bound", "attention_against", "rank_correlation", "assumed")

# The explanations of an input, or the reason why it has none.
Outcome = Explanations | str


class RunError(ValueError):
    """A run that cannot begin or go on; the message gives the reason."""


def pyarrow() -> Any:
    """The package, or one line that names the extra."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError("explaining many inputs needs pyarrow: pip install '.[corpus]'") from None
    return pyarrow


@dataclass(frozen=True)
class Task:
    """What is computed for every input.

    Attributes
    ----------
    column : the column of inputs: texts, paths of bags, or structs of scores
    methods : names in `METHODS`
    model : what `open_model` opens, such as a file; None is the shipped model. A model object also works, and is then
        sent to the workers with every part
    model_options : what the model's file does not tell, as in `open_model`
    settings : as in `explain`
    max_chars : a longer text is a row with an error
    columns : the user's columns to keep; None for all but `column`
    region : side of square regions of a bag, in the unit of its coordinates; None for the regions of the file
    files : kinds of files to write for every bag, names of `show.exports.KINDS`
    version : of this package; a worker with another version refuses the work
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
        object.__setattr__(self, "methods", tuple(method.name for method in as_methods(self.methods)))
        if self.max_chars < 1:
            raise ValueError(f"max_chars: expected a positive number, got {self.max_chars}")
        for name in self.files:
            if name not in KINDS:
                raise ValueError(f"files: expected kinds among {', '.join(KINDS)}, got {name!r}")

    def opened(self) -> Model:
        """The model, opened once in each process."""
        if self.model is not None and not isinstance(self.model, str):
            return self.model
        return _opened(self.model, json.dumps(dict(self.model_options), sort_keys=True))

    def model_hash(self) -> str:
        """SHA-256 of the model's file, or of the model."""
        if self.model is not None and not isinstance(self.model, str):
            return hashlib.sha256(pickle.dumps(self.model)).hexdigest()
        path = Path(self.model) if self.model else DEMO_MODEL
        if not path.is_file():  # a name such as "scores"
            return hashlib.sha256(str(self.model).encode()).hexdigest()
        return sha256(path)


def sha256(path: Path) -> str:
    """Of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=2)
def _opened(model: str | None, options: str) -> Model:
    return open_model(model, **json.loads(options))


def explain_input(task: Task, raw: Any, folder: str = ".", target: str | None = None) -> Outcome:
    """Explanations of one input, or the reason why there are none.

    For a model of bags `raw` is a path relative to `folder`, and the files of a bag (`Task.files`) go to `target`.

    >>> explain_input(Task(), "A fine film").output
    'positive'
    >>> explain_input(Task(), None)
    'expected an input, got null'
    """
    if raw is None:
        return "expected an input, got null"
    model = task.opened()
    try:
        path = None
        if model.reads == "a text":
            if isinstance(raw, str) and len(raw) > task.max_chars:
                return f"expected at most {task.max_chars} characters, got {len(raw)}"
        elif isinstance(raw, str):
            path = os.path.join(folder, raw)
            raw = load_bag(path) if model.reads == "a bag" else path
        if task.region is not None:
            raw = raw.in_regions(task.region)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)  # the columns METHOD_error have the guaranteed error
            explanations = explain_units(model, model.read(raw), as_methods(task.methods), task.settings, strict=True)
        if path is not None and target is not None:
            for kind in task.files:
                KINDS[kind].write(explanations, Path(target) / f"{Path(path).stem}{KINDS[kind].suffix}")
        return explanations
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        return str(error) or type(error).__name__


def result_columns(task: Task) -> dict[str, Any]:
    """The columns of the results, after `row` and the user's columns, with their types."""
    pa = pyarrow()
    model = task.opened()
    number, text = pa.float64(), pa.string()
    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    classes = model.outputs if 2 <= len(model.outputs) <= MOST_CLASSES else ()
    types: dict[str, Any] = {"labels": pa.list_(text), "spans": pa.list_(pa.list_(span)), "output": text}
    types |= {
        "scale": text,
        "prediction": number,
        "probability": number,
        **{f"probability_{name}": number for name in classes},
    }
    types |= {"unseen": pa.int32(), "error": text}
    if model.reads == "a bag":
        types |= {**dict.fromkeys(BAG_COLUMNS, number), "instances": pa.int32(), "method": text, "assumed": text}
    for name in task.methods:
        types |= {name: pa.list_(number), f"{name}_base": number, f"{name}_error": number}
    return types


def result_table(task: Task, schema: Any, columns: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Any:
    """The table of the outcomes of some inputs, with the numbers of the rows and the user's `columns`."""
    good = [None if isinstance(outcome, str) else outcome for outcome in outcomes]
    data: dict[str, Any] = {
        **columns,
        "labels": [each and each.evidence.labels for each in good],
        "spans": [None if each is None or each.evidence.units.spans is None else each.evidence.spans for each in good],
        "output": [each and each.output for each in good],
        "scale": [each and each.scale.name for each in good],
        "prediction": [each and each.prediction for each in good],
        "unseen": [each and len(each.evidence.units.unseen) for each in good],
        "error": [outcome if isinstance(outcome, str) else None for outcome in outcomes],
    }
    chances = [(each and each.evidence.probabilities) or {} for each in good]
    data["probability"] = [chance.get(name) for chance, name in zip(chances, data["output"], strict=True)]
    for name in schema.names:
        if name.startswith("probability_") and name not in data:
            data[name] = [chance.get(name.removeprefix("probability_")) for chance in chances]
    if task.opened().reads == "a bag":
        bags = [{} if each is None else bag_row(each) for each in good]
        data |= {name: [bag.get(name) for bag in bags] for name in BAG_COLUMNS}
    for name in task.methods:
        data[name] = [each and each[name].scores for each in good]
        data[f"{name}_base"] = [each and each[name].base_value for each in good]
        data[f"{name}_error"] = [each and each[name].error for each in good]
    return pyarrow().table(data, schema=schema)
