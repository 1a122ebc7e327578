"""The task of a run, and the columns of its results, which docs/corpus.md lists."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import __version__
from ..._types import Array, Ids
from ..explanations.evidence import Evidence, ToleranceWarning
from ..explanations.explain import explain_evidence, within_reach
from ..explanations.explanation import Explanations
from ..explanations.methods import as_methods
from ..explanations.settings import Settings
from ..files.bags import load_bag
from ..files.open_model import DEMO_MODEL, open_model
from ..models.protocol import Model, Units
from ..show.exports import KINDS
from ..show.exports import row as bag_row

MAX_CHARS = 1_000_000
BATCH_CHARS = 1 << 19  # characters of texts per batch
MOST_CLASSES = 100  # maximum number of classes with a column each
BAG_COLUMNS = (
    "instances",
    "empty_bag",
    "method",
    "error_bound",
    "attention_against",
    "rank_correlation",
    "assumed",
)


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
    model : argument of `open_model`, such as a file; None is the shipped model. A model object also works, and is then
        sent to the workers with every part
    model_options : options of `open_model` that the file of the model does not store
    settings : as in `explain`
    max_chars : maximum length of a text; longer ones get an error
    columns : the user's columns to keep; None keeps all but `column`
    region : side of square regions of a bag, in the unit of its coordinates; None for the regions of the file
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
        object.__setattr__(
            self, "methods", tuple(method.name for method in as_methods(self.methods))
        )
        if self.max_chars < 1:
            raise ValueError(f"max_chars: expected a positive number, got {self.max_chars}")
        for name in self.files:
            if name not in KINDS:
                raise ValueError(f"files: expected kinds among {', '.join(KINDS)}, got {name!r}")

    def opened(self) -> Model:
        """Return the model, opened once in each process."""
        if self.model is not None and not isinstance(self.model, str):
            return self.model
        return _opened(self.model, json.dumps(dict(self.model_options), sort_keys=True))

    def model_hash(self) -> str:
        """Return the SHA-256 of the model's file, or of the model."""
        if self.model is not None and not isinstance(self.model, str):
            return hashlib.sha256(pickle.dumps(self.model)).hexdigest()
        if self.model:
            path = Path(self.model)
        else:
            path = DEMO_MODEL
        if not path.is_file():  # a name such as "scores"
            return hashlib.sha256(str(self.model).encode()).hexdigest()
        return sha256(path)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=2)
def _opened(model: str | None, options: str) -> Model:
    return open_model(model, **json.loads(options))


class Row(NamedTuple):
    """The results of one input, much smaller than its `Explanations`, so that a batch needs little memory."""

    labels: tuple[str, ...]
    places: (
        Ids | None
    )  # (n, 2) character spans, those of the first player first; None without a text
    counts: Ids  # (d,) the number of spans of each player
    logits: Array  # (C,)
    cells: dict[str, Any]  # cells of the other columns, by name
    scores: dict[str, Array]  # (d,) by method

    @classmethod
    def of(cls, explanations: Explanations) -> Row:
        """Return the row of an explained input."""
        evidence = explanations.evidence
        units = evidence.units
        settings = evidence.target
        if units.continues is None:
            places = units.places
            counts = np.bincount(evidence.player_of)
            if places is not None:
                places = places[units.by_player(settings.players)]
        else:
            places = np.array(list(chain.from_iterable(evidence.spans)))
            counts = np.array(list(map(len, evidence.spans)))
        cells = {
            "output": settings.output,
            "scale": settings.scale.name,
            "prediction": evidence.prediction,
            "unseen": len(units.unseen),
        }
        if evidence.model.reads == "a bag":
            cells |= bag_row(explanations)
        for name, explanation in explanations.items():
            cells |= {f"{name}_base": explanation.base_value, f"{name}_error": explanation.error}
        scores = {name: each.scores for name, each in explanations.items()}
        return cls(evidence.labels, places, counts, evidence.logits, cells, scores)


# Errors about one input; a run continues with the others.
ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)


class Reason(str):
    """The reason why an input has no explanation."""


Outcome = Row | Reason


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
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ToleranceWarning
        )  # the columns METHOD_error have the guaranteed error
        outcomes: list[Outcome] = []
        for raws_of_batch in _batches(task, raws):
            numbers = range(len(outcomes), len(outcomes) + len(raws_of_batch))
            batch = _Batch(raws_of_batch, [refused.get(i) for i in numbers])
            outcomes += _explain_batch(
                task, batch, folder, None if target is None else Path(target)
            )
    return outcomes


class _Batch:
    """The inputs of a batch that can be explained so far, and the reasons why others cannot."""

    def __init__(self, raws: Sequence[Any], refused: Sequence[str | None]) -> None:
        self.raws = raws
        self.outcomes: list[Any] = [None if why is None else Reason(why) for why in refused]
        self.numbers = [i for i, why in enumerate(refused) if why is None]
        self.values = [raws[i] for i in self.numbers]

    def each(self, function: Callable[..., Any], *more: Sequence[Any]) -> None:
        """Replace every value by the function's result, and remove inputs with errors."""
        done = []
        for i, *arguments in zip(self.numbers, self.values, *more, strict=True):
            try:
                done.append((i, function(*arguments)))
            except ERRORS as error:
                self.outcomes[i] = Reason(str(error) or type(error).__name__)
        self.numbers = [i for i, _ in done]
        self.values = [value for _, value in done]

    def together(self, function: Callable[[list[Any]], Sequence[Any] | None]) -> Sequence[Any]:
        """Apply a function to all values at once; return Nones if it fails, so that each value gets its error later."""
        with suppress(*ERRORS):
            if self.values and (results := function(self.values)) is not None:
                return results
        return [None] * len(self.values)


def _explain_batch(task: Task, batch: _Batch, folder: str, target: Path | None) -> list[Outcome]:
    """Explain a batch step by step, because each step is faster for all inputs together."""
    methods = as_methods(task.methods)
    model = task.opened()

    def read(raw: Any, units: Units | None) -> Units:
        return model.read(raw) if units is None else units

    def resolve(units: Units) -> Evidence:
        logits = model.logits(units)
        return Evidence(model, units, task.settings.resolve(model, logits, units), logits)

    def prepare_games(evidence: Sequence[Evidence]) -> None:
        model.prepare_games(
            [each.units for each in evidence], [each.target.pooled for each in evidence]
        )

    def explain(evidence: Evidence, raw: Any) -> Callable[[], Row]:
        explanations = explain_evidence(evidence, methods, True)
        for kind in task.files:
            if target is not None:
                KINDS[kind].write(explanations, target / f"{Path(raw).stem}{KINDS[kind].suffix}")
        return partial(Row.of, explanations)

    batch.each(partial(_input, task, folder))
    batch.each(read, batch.together(model.read_many))
    batch.together(model.prepare_logits)
    batch.each(resolve)
    batch.together(prepare_games)
    batch.each(partial(within_reach, settings=task.settings))
    batch.each(explain, [batch.raws[i] for i in batch.numbers])
    batch.each(lambda row: row())
    for i, row in zip(batch.numbers, batch.values, strict=True):
        batch.outcomes[i] = row
    return batch.outcomes


def _batches(task: Task, raws: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield inputs that are explained together: texts up to some total length, and one bag at a time."""
    if task.opened().reads != "a text":
        yield from ([raw] for raw in raws)
        return
    first = size = 0
    for i, raw in enumerate(raws):
        size += len(raw) if isinstance(raw, str) else 0
        if size > BATCH_CHARS and i > first:
            yield raws[first:i]
            first = i
            size = len(raw)
    yield raws[first:]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would scan all objects of a batch repeatedly."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _input(task: Task, folder: str, raw: Any) -> Any:
    """Return the input of a row in the form that the model reads."""
    if raw is None:
        raise ValueError("expected an input, got null")
    reads = task.opened().reads
    if reads == "a text":
        if isinstance(raw, str) and len(raw) > task.max_chars:
            raise ValueError(f"expected at most {task.max_chars} characters, got {len(raw)}")
    elif isinstance(raw, str):
        path = os.path.join(folder, raw)
        raw = load_bag(path) if reads == "a bag" else path
    if task.region is None:
        return raw
    return raw.in_regions(task.region)


def result_columns(task: Task) -> dict[str, Any]:
    """Return the columns of the results, after `row` and the user's columns, with their types."""
    pa = pyarrow()
    model = task.opened()
    number = pa.float64()
    text = pa.string()
    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    if 2 <= len(model.outputs) <= MOST_CLASSES:
        classes = model.outputs
    else:
        classes = ()
    types: dict[str, Any] = {
        "labels": pa.list_(text),
        "spans": pa.list_(pa.list_(span)),
        "output": text,
    }
    types |= {
        "scale": text,
        "prediction": number,
        "probability": number,
        **{f"probability_{name}": number for name in classes},
    }
    types |= {"unseen": pa.int32(), "error": text}
    if model.reads == "a bag":
        types |= {
            **dict.fromkeys(BAG_COLUMNS, number),
            "instances": pa.int32(),
            "method": text,
            "assumed": text,
        }
    for name in task.methods:
        types |= {name: pa.list_(number), f"{name}_base": number, f"{name}_error": number}
    return types


def parquet_options(schema: Any) -> dict[str, Any]:
    """Return storage options: dictionaries for texts only, because numbers rarely repeat; spans as differences."""
    pa = pyarrow()
    texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
    spans = [f"spans.list.element.list.element.{name}" for name in ("start", "end")]
    return {
        "compression": "zstd",
        "use_dictionary": [*texts, "labels.list.element"],
        "column_encoding": dict.fromkeys(spans, "DELTA_BINARY_PACKED"),
    }


def result_table(
    task: Task, schema: Any, columns: Mapping[str, Any], outcomes: Sequence[Outcome]
) -> Any:
    """Return the Arrow table of some outcomes, with the row numbers and the user's `columns`."""
    pa = pyarrow()
    model = task.opened()
    good = [outcome for outcome in outcomes if not isinstance(outcome, Reason)]
    missing = np.array([isinstance(outcome, Reason) for outcome in outcomes])

    def column(values: Iterable[Any]) -> list[Any]:
        """Return the values of the good rows, and None for the others."""
        some = iter(values)
        return [None if bad else next(some) for bad in missing.tolist()]

    def lists(lengths: Iterable[int | None], values: Any) -> Any:
        """Return one list per row, or null if it has no length."""
        each = column(lengths)
        offsets = _offsets(np.array([length or 0 for length in each], np.intp))
        return pa.ListArray.from_arrays(
            offsets, values, mask=pa.array([length is None for length in each])
        )

    spanned = [row for row in good if row.places is not None]
    fields = list(schema.field("spans").type.value_type.value_type)
    places = np.concatenate([np.zeros((0, 2), np.intp), *(row.places for row in spanned)]).astype(
        np.int32
    )
    counts = np.concatenate([np.zeros(0, np.intp), *(row.counts for row in spanned)])
    spans = pa.ListArray.from_arrays(
        _offsets(counts), pa.StructArray.from_arrays([*places.T.copy()], fields=fields)
    )
    players = [len(row.labels) for row in good]
    data: dict[str, Any] = {
        **columns,
        "labels": lists(
            players, pa.array(list(chain.from_iterable(row.labels for row in good)), pa.string())
        ),
        "spans": lists([None if row.places is None else len(row.labels) for row in good], spans),
        "error": [outcome if isinstance(outcome, Reason) else None for outcome in outcomes],
    }
    for name in task.methods:
        data[name] = lists(
            players, np.concatenate([np.zeros(0), *(row.scores[name] for row in good)])
        )
    if good:
        chances = model.probabilities(np.array([row.logits for row in good]))
    else:
        chances = None
    if chances is not None:
        number = {name: c for c, name in enumerate(model.outputs)}
        for name, c in number.items():
            data[f"probability_{name}"] = column(chances[:, c].tolist())
        own = (number.get(row.cells["output"]) for row in good)
        data["probability"] = column(
            None if c is None else float(chances[i, c]) for i, c in enumerate(own)
        )
    for name in schema.names:
        if name not in data:
            data[name] = column(row.cells.get(name) for row in good)
    return pa.table({name: data[name] for name in schema.names}, schema=schema)


def _offsets(lengths: Ids) -> Any:
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
