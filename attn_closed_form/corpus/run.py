"""A corpus of texts in Parquet, exact explanations in Parquet: one pure function a part, mapped over any executor.

`plan` cuts a corpus into parts of some rows each; `explain_part` reads one part's rows and writes one file;
`run` maps it over a `concurrent.futures.Executor`: local processes (`local_executor`), or a Dask cluster
(`dask_executor`). What is true whatever the executor:

- A part is written beside its place and then renamed: a file that is there is whole. A run that was interrupted goes on
  with the parts that are missing; a part computed twice (a worker died after its rename) is the same file.
- Memory is that of one part, however large the corpus: rows are streamed, and only the text column is read.
- A row that cannot be explained (null, not text, no word, too long) has its reason in the column `error`, and the run
  goes on. A text with more tokens than the model has positions is explained as the model reads it, and `unseen` counts
  the tokens that it does not see.
- A row's numbers depend on the row, the model and the settings alone, so 1 process, 4 processes and a cluster give
  the same bits.

Columns of the output: `row` (number in the corpus), `labels` (the players), `spans` (where each occurs in the text),
`output` (the class that is explained), `prediction` (its logit), `probability`, `unseen`, `error`, and for each method
its scores (a list, one per player), `METHOD_base`, and the guaranteed `METHOD_error`, null where the method has none.

Needs pyarrow (extra `corpus`), here and on the workers; a cluster needs the files at the same paths on every machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..explainable.model_file import DEMO_MODEL, load_demo_model, load_model
from ..explainable.settings import Settings
from ..explanations.evidence import ToleranceWarning
from ..explanations.explain import explain_units
from ..explanations.methods import as_methods

MANIFEST = "corpus.json"
PART_ROWS = 500
MAX_CHARS = 1_000_000
# Numerical libraries in a worker: one thread each, since the processes are the parallelism.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Task:
    """What is asked of every row. `model` None is the shipped one; methods and settings are as in `explain`."""

    text_column: str = "text"
    methods: tuple[str, ...] = ("shapley",)
    model: str | None = None
    settings: Settings = field(default_factory=Settings)
    max_chars: int = MAX_CHARS

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(method.name for method in as_methods(self.methods)))
        if self.max_chars < 1:
            raise ValueError(f"max_chars: expected a positive number, got {self.max_chars}")


@dataclass(frozen=True)
class Part:
    """Rows [start, stop) of one input file, and the file that they become."""

    source: str
    start: int
    stop: int
    first_row: int  # number of `start` in the whole corpus
    target: str
    task: Task

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


class CorpusError(ValueError):
    """A corpus, or a folder of results, that cannot be worked with; says why."""


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need the pyarrow package: pip install 'attn-closed-form[corpus]'") from None
    return pyarrow


def plan(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    task: Task,
    part_rows: int = PART_ROWS,
) -> tuple[list[Part], list[Part]]:
    """Cut a corpus into parts: those still to do, and those that an earlier run has done.

    Parameters
    ----------
    source : a Parquet file, or a folder of them (taken in the order of their names)
    folder : where the parts go; made if it is not there
    task : what to compute
    part_rows : rows a part; memory and what an interruption costs grow with it

    Raises
    ------
    FileNotFoundError, CorpusError
        no such corpus, no such column, or a folder that holds the results of something else
    """
    if part_rows < 1:
        raise ValueError(f"part_rows: expected a positive number, got {part_rows}")
    files = _files(Path(source))
    rows = [_count_rows(file, task.text_column) for file in files]
    folder = Path(folder)
    _check_manifest(folder, files, rows, task, part_rows)
    parts: list[Part] = []
    first = 0
    for file, count in zip(files, rows, strict=True):
        for start in range(0, count, part_rows):
            stop = min(start + part_rows, count)
            target = folder / f"part-{len(parts):06d}.parquet"
            parts.append(Part(str(file.resolve()), start, stop, first + start, str(target.resolve()), task))
        first += count
    done = [part for part in parts if Path(part.target).exists()]
    return [part for part in parts if not Path(part.target).exists()], done


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        files = sorted(source.glob("*.parquet"))
        if not files:
            raise CorpusError(f"{source}: expected Parquet files in this folder, found none")
        return files
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such file or folder; expected a Parquet corpus")
    return [source]


def _open(file: Path | str) -> Any:
    pa = _pyarrow()
    try:
        return pa.parquet.ParquetFile(file, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorpusError(f"{file}: not a readable Parquet file ({str(error).splitlines()[0]})") from None


def _count_rows(file: Path, column: str) -> int:
    with _open(file) as parquet:
        if column not in parquet.schema_arrow.names:
            names = ", ".join(parquet.schema_arrow.names)
            raise CorpusError(f"{file}: expected a column {column!r}, got {names}; name it with --text-column")
        return int(parquet.metadata.num_rows)


def _check_manifest(folder: Path, files: list[Path], rows: list[int], task: Task, part_rows: int) -> None:
    """The folder must be new or hold parts of this very run; the manifest says of which."""
    model = Path(task.model) if task.model else DEMO_MODEL
    wanted = {
        "task": {**asdict(task), "methods": list(task.methods)},
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "part_rows": part_rows,
        "files": [
            {"name": file.name, "rows": count, "bytes": file.stat().st_size}
            for file, count in zip(files, rows, strict=True)
        ],
    }
    manifest = folder / MANIFEST
    if manifest.exists():
        found = json.loads(manifest.read_text(encoding="utf-8"))
        differing = [key for key in wanted if found.get(key) != wanted[key]]
        if differing:
            raise CorpusError(
                f"{folder}: holds results of another run (different {', '.join(differing)}); "
                "choose another folder, or remove this one"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise CorpusError(f"{folder}: expected a new or empty folder, or one of an earlier run")
    folder.mkdir(parents=True, exist_ok=True)
    _write_whole(manifest, lambda path: path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8"))


def _write_whole(target: Path, write: Callable[[Path], Any]) -> None:
    """Write beside the target, then rename: the target is whole or not there, whoever else writes it."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        write(partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


@lru_cache(maxsize=2)
def _model(path: str | None) -> Any:
    """The model, once a process."""
    return load_demo_model() if path is None else load_model(path)


def explain_part(part: Part) -> tuple[int, int]:
    """Explain the rows of a part and write its file; returns how many rows it has and how many of them failed.

    Pure: the file depends on the part alone, so any process may do it, twice if need be.
    """
    pa = _pyarrow()
    schema = _schema(part.task)
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, text in enumerate(_texts(part), start=part.first_row):
        record = explain_row(part.task, text)
        for name in columns:
            columns[name].append(number if name == "row" else record.get(name))
    table = pa.table(columns, schema=schema)
    _write_whole(Path(part.target), lambda path: pa.parquet.write_table(table, path, compression="zstd"))
    return part.rows, sum(reason is not None for reason in columns["error"])


def explain_row(task: Task, raw: Any) -> dict[str, Any]:
    """One row of the output, without its number: explanations, or the reason why there are none.

    >>> row = explain_row(Task(), "A fine film")
    >>> row["labels"], row["output"], len(row["shapley"]), row.get("error")
    (['a', 'fine', 'film'], 'positive', 3, None)
    >>> explain_row(Task(), None)
    {'error': 'expected a text, got null'}
    """
    if raw is None:
        return {"error": "expected a text, got null"}
    if isinstance(raw, str) and len(raw) > task.max_chars:
        return {"error": f"expected at most {task.max_chars} characters, got {len(raw)}"}
    model = _model(task.model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)  # the columns METHOD_error say what holds
            found = explain_units(model, model.read(raw), as_methods(task.methods), task.settings, strict=True)
    except (ValueError, TypeError) as error:
        return {"error": str(error)}
    evidence = found.evidence
    row: dict[str, Any] = {
        "labels": list(evidence.labels),
        "spans": [[{"start": start, "end": end} for start, end in spans] for spans in evidence.spans],
        "output": found.output,
        "prediction": found.prediction,
        "probability": (found.probabilities or {}).get(found.output),
        "unseen": len(evidence.units.unseen),
    }
    for name, explanation in found.items():
        row[name] = explanation.scores
        row[f"{name}_base"] = explanation.base_value
        row[f"{name}_error"] = explanation.error
    return row


def _schema(task: Task) -> Any:
    pa = _pyarrow()
    span = pa.struct([("start", pa.int32()), ("end", pa.int32())])
    fields = [
        ("row", pa.int64()),
        ("labels", pa.list_(pa.string())),
        ("spans", pa.list_(pa.list_(span))),
        ("output", pa.string()),
        ("prediction", pa.float64()),
        ("probability", pa.float64()),
        ("unseen", pa.int32()),
        ("error", pa.string()),
    ]
    for name in task.methods:
        fields += [(name, pa.list_(pa.float64())), (f"{name}_base", pa.float64()), (f"{name}_error", pa.float64())]
    return pa.schema(fields)


def _texts(part: Part) -> Iterator[Any]:
    """The part's texts, streamed: row groups that lie outside are not read, and a large one is not held."""
    with _open(part.source) as parquet:
        groups: list[int] = []
        skip = before = 0
        for group in range(parquet.metadata.num_row_groups):
            after = before + parquet.metadata.row_group(group).num_rows
            if before < part.stop and after > part.start:
                if not groups:
                    skip = part.start - before
                groups.append(group)
            before = after
        left = part.rows
        for batch in parquet.iter_batches(
            batch_size=256, row_groups=groups, columns=[part.task.text_column], use_threads=False
        ):
            rows = batch.column(0)
            if skip >= len(rows):
                skip -= len(rows)
                continue
            for value in rows[skip : skip + left]:
                yield value.as_py()
            left -= min(left, len(rows) - skip)
            skip = 0
            if left == 0:
                return


def run(parts: Sequence[Part], executor: Executor | None = None) -> Iterator[tuple[int, int]]:
    """Explain the parts, yielding (rows, failed rows) as each is finished, in any order.

    Without an executor the parts are done here, one after the other. With one, a few parts a worker are handed out
    at a time, so that a corpus of a million parts does not become a million futures.
    """
    if executor is None:
        yield from map(explain_part, parts)
        return
    waiting = iter(parts)
    ahead = 4 * max(1, getattr(executor, "_max_workers", None) or 16)
    running: set[Future[tuple[int, int]]] = set()
    try:
        for part in waiting:
            running.add(executor.submit(explain_part, part))
            if len(running) >= ahead:
                done = next(as_completed(running))
                running.remove(done)
                yield done.result()
        for future in as_completed(running):
            yield future.result()
    except BaseException:
        for future in running:
            future.cancel()
        raise


@contextmanager
def local_executor(workers: int) -> Iterator[Executor | None]:
    """Processes on this machine; None, which `run` takes for "right here", if one worker is asked for."""
    if workers < 1:
        raise ValueError(f"workers: expected a positive number, got {workers}")
    if workers == 1:
        yield None
        return
    # Fresh processes (not forks of one that may have threads), each with one numerical thread.
    kept = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
            try:
                yield executor
            except BaseException:
                executor.shutdown(wait=True, cancel_futures=True)
                raise
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def dask_executor(address: str, timeout: float = 10.0) -> Iterator[Executor]:
    """The workers of a Dask scheduler, such as "tcp://127.0.0.1:8786"; a part whose worker dies is done again."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a Dask cluster needs distributed: pip install 'attn-closed-form[corpus]'") from None
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise CorpusError(f"scheduler {address}: no answer ({type(error).__name__}: {error})") from None
    with client:
        yield client.get_executor(pure=False, retries=2)
