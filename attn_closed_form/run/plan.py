"""The folder of a run: what was asked, what is done, what is left; one run at a time.

`_corpus.parquet` has no rows, only the schema of the parts, and in its metadata what the run was asked: the contents
of the inputs and of the model (SHA-256), the options, the version. A folder whose manifest differs from what is asked
now is refused, because its rows would be a mixture. Being a table without rows, the manifest does not disturb any
reader of the folder. `_work`, with partial files and copies of inputs, is there only while a run is at work.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..files.atomic import replacing
from .inputs import describe, fingerprints, input_files, is_parquet, pyarrow, readable
from .parts import MANIFEST, Part, output_schema, own_columns, source_stamp
from .task import CorpusError, Task

WORK = "_work"
METADATA = b"attn_closed_form.run"
PART_ROWS = 500  # at most, on one machine: what an interruption costs each worker
CLUSTER_ROWS = 50_000  # at most, on a cluster: a billion rows are then 20,000 files
LEAST_ROWS = 20
CLUSTER_WORKERS = 1_000  # as many should be busy


class Plan(NamedTuple):
    """The parts of a run: those to do, those that are there; rows of all, rows that are there."""

    missing: list[Part]
    done: list[Part]
    rows: int
    rows_done: int


@contextmanager
def planned(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    task: Task,
    part_rows: int | None = None,
    *,
    workers: int | None = None,
    restart: bool = False,
) -> Iterator[Plan]:
    """Plan a run and keep the folder for it until the block ends.

    Parameters
    ----------
    source : a table (Parquet, CSV, TSV, JSON Lines, fastText), a folder of tables (taken in the order of their
        names), or a folder of bags
    folder : where the parts go; made if it is not there
    task : what to compute
    part_rows : rows per part; None takes what an earlier run had, or what keeps the workers busy
    workers : number of processes, None for a cluster; only to size the parts
    restart : remove the results of an earlier run first

    Raises
    ------
    FileNotFoundError, CorpusError
        no such corpus, no such column, a folder that holds the results of something else, or one that another run
        works in
    """
    if part_rows is not None and part_rows < 1:
        raise ValueError(f"part_rows: expected a positive number, got {part_rows}")
    files = input_files(source)
    folder = Path(folder)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        work = folder / WORK
        shutil.rmtree(work, ignore_errors=True)
        if restart:
            _clear(folder)
        work.mkdir()
        try:
            yield _plan(files, folder, task, part_rows, workers)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            with suppress(OSError):  # a run that never began leaves no empty folder
                folder.rmdir()


def _check_folder(folder: Path) -> None:
    """Only a folder that is ours, or empty, is touched at all."""
    if folder.exists() and not folder.is_dir():
        raise CorpusError(f"{folder}: expected a folder for the results, got a file")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    if MANIFEST not in names and any(name != WORK for name in names):
        raise CorpusError(f"{folder}: expected a new or empty folder, or one of an earlier run")


def _clear(folder: Path) -> None:
    for file in (*folder.glob("part-*.parquet"), folder / MANIFEST):
        file.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows: two runs at once do the same work twice, and harm nothing
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CorpusError(f"{folder}: another run is at work in this folder") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def _plan(files: list[Path], folder: Path, task: Task, part_rows: int | None, workers: int | None) -> Plan:
    asked = _asked(files, task)
    earlier = read_manifest(folder)
    if earlier is not None:
        _compare(folder, earlier, asked, part_rows)
        manifest = earlier
    else:
        manifest = _begin(files, folder, task, asked, part_rows, workers)
    parts = list(_cut(files, folder, manifest))
    there = {path.name for path in folder.glob("part-*.parquet")}
    missing = [part for part in parts if Path(part.target).name not in there]
    for number, file in enumerate(files):
        if any(Path(part.source).name == f"input-{number}.arrow" for part in missing):
            readable(file, number, folder / WORK)
    stamps = {source: source_stamp(source) for source in {part.source for part in missing}}
    missing = [replace(part, stamp=stamps[part.source]) for part in missing]
    done = [part for part in parts if Path(part.target).name in there]
    return Plan(missing, done, manifest["rows"], sum(part.rows for part in done))


def _asked(files: list[Path], task: Task) -> dict[str, Any]:
    """What makes two runs the same, as JSON says it."""
    options = {
        "column": task.column,
        "columns": task.columns,
        "method": task.methods,
        "max-chars": task.max_chars,
        **asdict(task.settings),
    }
    asked = {
        "version": task.version,
        "options": options,
        "model": {"name": repr(task.opened()), "sha256": task.model_hash()},
        "files": fingerprints(files),
    }
    return dict(json.loads(json.dumps(asked, default=str)))


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What the run of a folder was asked, or None if there has been none."""
    pa = pyarrow()
    file = Path(folder) / MANIFEST
    if not file.exists():
        return None
    try:
        return dict(json.loads((pa.parquet.read_schema(file).metadata or {})[METADATA]))
    except (pa.ArrowInvalid, OSError, KeyError, ValueError):
        raise CorpusError(f"{file}: not the manifest of a corpus run; --restart begins anew") from None


def _compare(folder: Path, earlier: Mapping[str, Any], asked: Mapping[str, Any], part_rows: int | None) -> None:
    found = []
    if earlier["version"] != asked["version"]:
        found.append(f"it was made by version {earlier['version']}, this is {asked['version']}")
    if earlier["model"]["sha256"] != asked["model"]["sha256"]:
        found.append("the model is another one")
    contents = {file["name"]: file["sha256"] for file in earlier["files"]}
    if list(contents) != [file["name"] for file in asked["files"]]:
        found.append("the input files are others")
    for file in asked["files"]:
        if contents.get(file["name"], file["sha256"]) != file["sha256"]:
            found.append(f"{file['name']} has changed")
    for name, value in asked["options"].items():
        if (before := earlier["options"].get(name)) != value:
            found.append(f"--{name} was {_shown(before)} and is {_shown(value)}")
    if part_rows not in (None, earlier["part_rows"]):
        found.append(f"--part-rows was {earlier['part_rows']} and is {part_rows}")
    if found:
        raise CorpusError(
            f"{folder}: holds results of another run: {'; '.join(found)}. "
            "--restart removes them and begins anew; or choose another folder"
        )


def _shown(value: Any) -> str:
    return "the default" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _begin(
    files: list[Path], folder: Path, task: Task, asked: dict[str, Any], part_rows: int | None, workers: int | None
) -> dict[str, Any]:
    """Read the schemas of all inputs, decide the columns, write the manifest."""
    pa = pyarrow()
    described = [describe(readable(file, n, folder / WORK), task.column) for n, file in enumerate(files)]
    rows = [count for count, _ in described]
    model = task.opened()
    try:
        merged = pa.unify_schemas([schema for _, schema in described], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise CorpusError(f"{files[0].parent}: the tables do not fit together ({error})") from None
    wanted = [name for name in merged.names if name != task.column] if task.columns is None else list(task.columns)
    for name in wanted:
        if name not in merged.names:
            raise CorpusError(f"--columns: expected names among {', '.join(merged.names)}, got {name!r}")
    taken = {"row", *own_columns(task, model)}
    columns = {f"input_{name}" if name in taken else name: name for name in wanted}
    schema = output_schema(task, model, {new: merged.field(name).type for new, name in columns.items()})
    manifest = {
        **asked,
        "files": [{**file, "rows": count} for file, count in zip(asked["files"], rows, strict=True)],
        "rows": sum(rows),
        "part_rows": part_rows or size_of_parts(sum(rows), workers),
        "columns": columns,
        "outputs": list(model.outputs),
    }
    table = schema.with_metadata({METADATA: json.dumps(manifest).encode()}).empty_table()
    with replacing(folder / MANIFEST, folder / WORK) as partial:
        pa.parquet.write_table(table, partial)
    return manifest


def size_of_parts(rows: int, workers: int | None) -> int:
    """Rows per part that give every worker several parts; `workers` None is a cluster, which may grow.

    >>> size_of_parts(25_000, 2), size_of_parts(400, 4), size_of_parts(1_000_000, None), size_of_parts(10**9, None)
    (500, 25, 250, 50000)
    """
    most = CLUSTER_ROWS if workers is None else PART_ROWS
    return min(most, max(LEAST_ROWS, -(-rows // (4 * (workers or CLUSTER_WORKERS)))))


def _cut(files: list[Path], folder: Path, manifest: Mapping[str, Any]) -> Iterator[Part]:
    first = number = 0
    for n, (file, about) in enumerate(zip(files, manifest["files"], strict=True)):
        table = file.resolve() if is_parquet(file) else (folder / WORK / f"input-{n}.arrow").resolve()
        base = file.resolve() if file.is_dir() else file.resolve().parent
        for start in range(0, about["rows"], manifest["part_rows"]):
            stop = min(start + manifest["part_rows"], about["rows"])
            yield Part(
                source=str(table),
                folder=str(base),
                start=start,
                stop=stop,
                first_row=first + start,
                target=str((folder / f"part-{number:06d}.parquet").resolve()),
                work=str((folder / WORK).resolve()),
                columns=manifest["columns"],
            )
            number += 1
        first += about["rows"]
