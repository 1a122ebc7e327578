"""The folder of a run: its parts, and the finished parts. Only one run at a time may use a folder.

**Parts.** A part is a range of rows of one input and becomes one Parquet file, such as
`part-000000.parquet`. It is written in the folder `_work` and then renamed. Every file in the
folder is thus complete, and the next run resumes with the missing ones.

**The manifest**, `_corpus.parquet`, is a table without rows, so readers of the folder ignore it. It
has the schema of the parts and, in its metadata, the request: the contents of inputs and model (by
SHA-256; of bags, which may be very large, by size and time), the options and the version. A
different request is an error, because the folder would mix two runs. Bags are independent of each
other: bags may be added, and those with an error are tried again.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..files.atomic import replacing
from .columns import result_columns
from .inputs import (
    copy_table,
    describe,
    fingerprint,
    input_files,
    is_bag,
    is_read_in_place,
    open_parquet,
    row_tables,
)
from .task import RunError, Task, pyarrow

# The manifest, the key of the request in its metadata, and the folder for unfinished parts.
MANIFEST = "_corpus.parquet"
# The key of the request in the metadata of the manifest.
METADATA = b"attn_closed_form.app.run"
# The folder of unfinished parts.
WORK = "_work"
# Tuning: rows of a part. An interruption costs each worker one part, and all workers wait for the
# last part at the end of a run.
PART_ROWS = 500
# Tuning: fewer rows take longer to write than to explain.
LEAST_ROWS = 20
# Tuning: parts per worker, so that all workers end at about the same time.
WORKER_PARTS = 16
# Tuning: parts on a cluster, enough to keep a thousand workers busy.
CLUSTER_PARTS = 4_000
# Tuning: rows of a part on a cluster, with which a billion rows are 20,000 files.
CLUSTER_ROWS = 50_000


@dataclass(frozen=True)
class Part:
    """Rows [start, stop) of one input, and the file for their results."""

    source: str  # the Parquet table that workers read, or a bag
    folder: str  # base of the relative paths of bags
    start: int
    stop: int
    first_row: int  # number of `start` in the whole run
    target: str  # the file
    work: str  # the folder where it is written before it is renamed
    columns: Sequence[str] = ()  # the user's columns
    refused: Mapping[int, str] = field(default_factory=dict)  # reasons for skipping rows

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start

    def read(self, column: str) -> Iterator[Any]:
        """Yield Arrow tables of at most ROW_GROUP rows, with the column of inputs and the user's
        columns.
        """
        pa = pyarrow()
        source = Path(self.source)
        # The worker opens the bag itself; a table has only its name.
        if is_bag(source):
            yield pa.table({"path": [source.name]})
            return
        with open_parquet(self.source) as file:
            names = [name for name in file.schema_arrow.names if name in {column, *self.columns}]
            groups, skipped = self._row_groups(file.metadata)
        # Tables follow row groups, and a part may begin and end inside of one.
        remaining = self.rows
        for table in row_tables(source, names, groups):
            piece = table.slice(skipped, remaining)
            # Rows to skip can extend over several tables of a row group.
            skipped = max(0, skipped - table.num_rows)
            remaining -= piece.num_rows
            if piece.num_rows:
                yield piece

    def _row_groups(self, metadata: Any) -> tuple[list[int], int]:
        """Return the row groups that have rows of this part, and the number of rows before them
        there.
        """
        groups: list[int] = []
        skipped = 0
        first = 0  # row of the group
        for number in range(metadata.num_row_groups):
            end = first + metadata.row_group(number).num_rows
            if first < self.stop and end > self.start:
                if not groups:
                    skipped = self.start - first
                groups.append(number)
            first = end
        return groups, skipped


class Plan(NamedTuple):
    """The missing and the finished parts of a run, and the number of rows in all parts and in the
    finished ones.
    """

    missing: list[Part]
    done: list[Part]
    rows: int
    rows_done: int


@contextmanager
def planned(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    task: Task,
    *,
    workers: int | None = None,
    restart: bool = False,
) -> Iterator[Plan]:
    """Plan a run, and lock its folder until the block ends.

    Parameters
    ----------
    source : a table (Parquet, CSV, TSV, JSON Lines, fastText), a folder of tables (taken in the
        order of their names), or a folder of bags
    folder : the folder for the parts, which is created if necessary
    task : the computation
    workers : number of processes, None for a cluster; it determines the size of the parts
    restart : whether to remove the results of an earlier run first
    """
    files = input_files(source)
    folder = Path(folder)
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        # What is there was left by a process that was killed, because the lock is ours.
        work = folder / WORK
        shutil.rmtree(work, ignore_errors=True)
        if restart:
            # The manifest goes last, because a folder with parts and without a manifest is refused.
            for file in (*folder.glob("part-*.parquet"), folder / MANIFEST):
                file.unlink(missing_ok=True)
        work.mkdir(exist_ok=True)  # on Windows, files that are open elsewhere remain
        try:
            yield _plan(files, folder, task, workers)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            with suppress(OSError):  # a run that never started leaves no empty folder
                folder.rmdir()


def _check_folder(folder: Path) -> None:
    """Raise unless the folder is new, empty, or has the results of an earlier run."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: expected a folder for the results, got a file")
    names = []
    if folder.exists():
        names = [path.name for path in folder.iterdir()]
    # A run that was killed before its manifest leaves the folder WORK alone.
    if MANIFEST not in names and any(name != WORK for name in names):
        raise RunError(f"{folder}: expected a new or empty folder, or one of an earlier run")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder; the system releases the lock when the process ends, even if it is killed."""
    try:
        handle = _lock(folder)
    except (BlockingIOError, FileExistsError):
        raise RunError(f"{folder}: another run is using this folder") from None
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path) -> int:
    """Open the file descriptor that holds the lock."""
    try:
        import fcntl
    # Windows cannot open folders; it removes this file next to the folder when it is closed.
    except ImportError:
        path = folder.resolve()
        flags = os.O_CREAT | os.O_EXCL | getattr(os, "O_TEMPORARY", 0)
        return os.open(path.with_name(f".{path.name}.lock"), flags)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # a file system without locks
        pass
    return handle


def _plan(files: list[Path], folder: Path, task: Task, workers: int | None) -> Plan:
    """Divide the inputs into parts, and leave out those that earlier runs have finished."""
    earlier = read_manifest(folder)
    if earlier is not None:  # new bags follow those of earlier runs
        # Parts are numbered in the order of the bags, so the old ones must keep their places.
        order = {file["name"]: number for number, file in enumerate(earlier["files"])}
        files = sorted(files, key=lambda file: order.get(file.name, len(order)))
    bags = is_bag(files[0])
    sources = []
    for number, file in enumerate(files):
        source = file if is_read_in_place(file) else folder / WORK / f"input-{number}.parquet"
        sources.append(source.absolute())

    def copy_tables(wanted: set[Path]) -> None:
        for file, source in zip(files, sources, strict=True):
            if source in wanted and not source.exists():
                copy_table(file, source, task.column)

    request = _request(files, task)
    # The schemas of all inputs are needed before the first part. A resumed run knows them, and
    # copies only the tables that still have missing parts.
    if earlier is None:
        copy_tables(set(sources))
        manifest = _begin(files, sources, folder, task, request, workers)
    else:
        manifest = _resumed(folder, earlier, request, bags)
    done = []
    missing = []
    for part in _cut(files, sources, folder, manifest):
        if _is_done(Path(part.target), bags):
            done.append(part)
        else:
            missing.append(part)
    copy_tables({Path(part.source) for part in missing})
    return Plan(
        missing=missing, done=done, rows=manifest["rows"], rows_done=sum(part.rows for part in done)
    )


def _request(files: Sequence[Path], task: Task) -> dict[str, Any]:
    """Return the data that two runs must share to use one folder, as JSON."""
    names = ("column", "columns", "max_chars", "model_options", "region", "files")
    options = {name.replace("_", "-"): getattr(task, name) for name in names}
    # hashlib releases the interpreter's lock, so several large tables are hashed at once.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        contents = list(threads.map(fingerprint, files))
    request = {
        "version": task.version,
        "options": {**options, "method": task.methods, **asdict(task.settings)},
        "model": {"name": repr(task.opened()), "sha256": task.model_hash()},
        "files": contents,
    }
    # As it will be read from the manifest: tuples become lists, which would otherwise differ.
    return dict(json.loads(json.dumps(request, default=str)))


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the request of a folder, with the columns and the number of rows, or None if there was
    no run.
    """
    pa = pyarrow()
    file = Path(folder) / MANIFEST
    if not file.exists():
        return None
    try:
        return dict(json.loads((pa.parquet.read_schema(file).metadata or {})[METADATA]))
    except (pa.ArrowInvalid, OSError, KeyError, ValueError):
        raise RunError(f"{file}: not the manifest of a run; use --restart to start again") from None


def _write_manifest(folder: Path, schema: Any, manifest: Mapping[str, Any]) -> None:
    table = schema.with_metadata({METADATA: json.dumps(manifest).encode()}).empty_table()
    with replacing(folder / MANIFEST, folder / WORK) as partial:
        pyarrow().parquet.write_table(table, partial)


def _begin(
    files: list[Path],
    sources: list[Path],
    folder: Path,
    task: Task,
    request: dict[str, Any],
    workers: int | None,
) -> dict[str, Any]:
    """Read the schemas of all inputs, determine the columns, and write the manifest."""
    pa = pyarrow()
    described = (describe(*pair, task.column) for pair in zip(files, sources, strict=True))
    rows, schemas = zip(*described, strict=True)
    try:
        merged = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RunError(f"the columns of the tables have incompatible types ({error})") from None
    for name in task.columns or ():
        if name not in merged.names:
            raise RunError(
                f"--columns: expected names among {', '.join(merged.names)}, got {name!r}"
            )
    names = [name for name in merged.names if name != task.column or is_bag(sources[0])]
    results = {"row": pa.int64(), **result_columns(task)}
    columns = names
    if task.columns is not None:
        columns = list(task.columns)
    if clash := [name for name in columns if name in results]:
        raise RunError(
            f"column {clash[0]!r}: the results have a column of this name; rename it, or omit it "
            "(--columns)"
        )
    manifest = {
        **request,
        "files": [
            {**entry, "rows": count, "path": str(file.absolute())}
            for entry, count, file in zip(request["files"], rows, files, strict=True)
        ],
        "rows": sum(rows),
        "part_rows": size_of_parts(sum(rows), workers),
        "columns": columns,
    }
    types = {name: merged.field(name).type for name in columns}
    _write_manifest(folder, pa.schema({"row": results.pop("row"), **types, **results}), manifest)
    return manifest


def _resumed(
    folder: Path, earlier: dict[str, Any], request: Mapping[str, Any], bags: bool
) -> dict[str, Any]:
    """Return the manifest of an earlier run if the request is the same, with bags added since
    then.
    """
    before = earlier["files"]
    files = request["files"]
    differences = []
    if earlier["version"] != request["version"]:
        differences.append(
            f"it was made by version {earlier['version']}; this is {request['version']}"
        )
    if earlier["model"]["sha256"] != request["model"]["sha256"]:
        differences.append("the model is a different one")
    names = [file["name"] for file in files]
    names_before = [file["name"] for file in before]
    if bags:  # bags may be added
        # Bags that were added are behind those of the earlier run.
        names = names[: len(names_before)]
    if names != names_before:
        differences.append("the input files are different")
    for number, (old, new) in enumerate(zip(before, files, strict=False)):
        # A bag with an error may be replaced by a mended file.
        retried = bags and not _is_done(_target(folder, number), bags)
        if old["name"] == new["name"] and old["contents"] != new["contents"] and not retried:
            differences.append(f"{new['name']} has changed")
    for name, value in request["options"].items():
        if (was := earlier["options"].get(name)) != value:
            differences.append(f"--{name} was {_shown(was)} and is {_shown(value)}")
    if differences:
        raise RunError(
            f"{folder}: contains results of another run: {'; '.join(differences)}. "
            "Use --restart to remove them and start again, or choose another folder"
        )
    if not bags:
        return earlier
    manifest = {**earlier, "files": [{**file, "rows": 1} for file in files], "rows": len(files)}
    _write_manifest(
        folder, pyarrow().parquet.read_schema(folder / MANIFEST).remove_metadata(), manifest
    )
    return manifest


def _shown(value: Any) -> str:
    """Return the value of an option as an error names it."""
    if value is None:
        return "the default"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def size_of_parts(rows: int, workers: int | None) -> int:
    """Return the number of rows per part, such that every worker gets many parts; `workers` None is
    a cluster.

    >>> (
    ...     size_of_parts(25_000, 2),
    ...     size_of_parts(400, 4),
    ...     size_of_parts(1_000_000, None),
    ...     size_of_parts(10**9, None),
    ... )
    (500, 20, 250, 50000)
    """
    if workers is None:
        most_rows = CLUSTER_ROWS
        parts = CLUSTER_PARTS
    else:
        most_rows = PART_ROWS
        parts = WORKER_PARTS * workers
    return min(most_rows, max(LEAST_ROWS, math.ceil(rows / parts)))


def _target(folder: Path, number: int) -> Path:
    return (folder / f"part-{number:06d}.parquet").absolute()


def _is_done(target: Path, bags: bool) -> bool:
    """Return whether a part is finished; a bag with an error is not."""
    if not target.exists():
        return False
    if not bags:
        return True
    # Without `partitioning=None`, pyarrow would read a folder name such as "a=1" as a column.
    table = pyarrow().parquet.read_table(target, columns=["error"], partitioning=None)
    return bool(table["error"].null_count)


def _cut(
    files: Sequence[Path], sources: Sequence[Path], folder: Path, manifest: Mapping[str, Any]
) -> Iterator[Part]:
    """Yield the parts of all inputs, in order."""
    # The numbers of rows and parts go on through all inputs, and no part has rows of two inputs.
    first = number = 0
    for file, source, entry in zip(files, sources, manifest["files"], strict=True):
        for start in range(0, entry["rows"], manifest["part_rows"]):
            yield Part(
                source=str(source),
                folder=str(file.absolute().parent),
                start=start,
                stop=min(start + manifest["part_rows"], entry["rows"]),
                first_row=first + start,
                target=str(_target(folder, number)),
                work=str((folder / WORK).absolute()),
                columns=manifest["columns"],
            )
            number += 1
        first += entry["rows"]
