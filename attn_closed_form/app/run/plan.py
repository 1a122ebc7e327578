"""The folder of a run: its inputs, its parts, and the finished parts. Only one run at a time may use a folder.

**Inputs** are tables or bags. Workers start in the middle of a table, which is possible for Parquet but not for gzipped
CSV. Tables in other formats (`files/tables.py`) are therefore copied once to a Parquet file of text, which exists for
the duration of the run. Parquet files with long row groups are copied too, because a row group is read from its
beginning. In a folder of bags, every bag is an input with one row: its name, in the column `path`.

**Parts.** A part is a range of rows of one input and becomes one Parquet file, such as `part-000000.parquet`. It is
written in the folder `_work` and then renamed. Every file in the folder is thus complete, and the next run resumes with
the missing ones.

**The manifest**, `_corpus.parquet`, is a table without rows, so readers of the folder ignore it. It has the schema of
the parts and, in its metadata, the request: the contents of inputs and model (by SHA-256; of bags, which may be very
large, by size and time), the options and the version. A different request is an error, because the folder would mix
two runs. Bags are independent of each other: bags may be added, and those with an error are tried again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..files.atomic import check_size, reading, replacing
from ..files.bags import SUFFIXES as BAG_SUFFIXES
from ..files.tables import EXPECTED, FORMATS, check_columns, read_rows, table_format
from .columns import result_columns
from .task import RunError, Task, pyarrow, sha256

MANIFEST = "_corpus.parquet"
METADATA = b"attn_closed_form.app.run"
WORK = "_work"
COPIED_ROWS = 2_000  # rows of a copied table in memory
ROW_GROUP = 1_024  # rows in the memory of a worker
MAX_COLUMNS = (
    16_384  # maximum for a copied table, as in Excel; Parquet needs memory and time for each column
)
LONGEST_GROUP = (
    8 * ROW_GROUP
)  # maximum number of rows of a row group that a worker may have to skip
PART_ROWS = 500  # maximum rows per part on one machine, which an interruption costs each worker
CLUSTER_ROWS = (
    50_000  # maximum rows per part on a cluster, where a billion rows are then 20,000 files
)
LEAST_ROWS = 20
WORKER_PARTS = (
    16  # parts per local worker, because all workers wait for the last part at the end of a run
)
CLUSTER_PARTS = 4_000  # enough to keep a thousand workers busy


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
    refused: Mapping[int, str] = field(
        default_factory=dict
    )  # rows that are skipped, with the reason

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start

    def read(self, column: str) -> Iterator[Any]:
        """Yield Arrow tables of at most ROW_GROUP rows, with the column of inputs and the user's columns."""
        pa = pyarrow()
        source = Path(self.source)
        if _is_bag(source):
            yield pa.table({"path": [source.name]})
            return
        with _parquet(self.source) as file:
            names = [name for name in file.schema_arrow.names if name in {column, *self.columns}]
            groups: list[int] = []
            before = skip = 0
            for number in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                if before < self.stop and before + count > self.start:
                    skip = skip if groups else self.start - before
                    groups.append(number)
                before += count
        left = self.rows
        for table in _row_tables(source, names, groups):
            piece = table.slice(skip, left)
            skip = max(0, skip - table.num_rows)
            left = left - piece.num_rows
            if piece.num_rows:
                yield piece


class Plan(NamedTuple):
    """The missing and the finished parts of a run, and the number of rows in all parts and in the finished ones."""

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
    source : a table (Parquet, CSV, TSV, JSON Lines, fastText), a folder of tables (taken in the order of their
        names), or a folder of bags
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
        work = folder / WORK
        shutil.rmtree(work, ignore_errors=True)
        if restart:
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
    if folder.exists():
        names = [path.name for path in folder.iterdir()]
    else:
        names = []
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
    except (
        ImportError
    ):  # Windows cannot open folders; it removes this file next to the folder when it is closed
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


# Inputs


def input_files(source: str | os.PathLike[str]) -> list[Path]:
    """Return the inputs: one file, or the tables of a folder in the order of their names, or its bags."""
    source = Path(source)
    if not source.is_dir():
        if not source.exists():
            raise FileNotFoundError(f"{source}: no such file or folder; expected {EXPECTED}")
        return [source]
    files = sorted(
        file for file in source.iterdir() if file.is_file() and not file.name.startswith((".", "_"))
    )
    tables = [
        file for file in files if Path(file.name.removesuffix(".gz")).suffix.lower() in FORMATS
    ]
    bags = {file.stem: file for file in reversed(files) if _is_bag(file)}
    for file in files if not tables else ():
        if _is_bag(file) and bags[file.stem] != file:
            raise RunError(
                f"{source}: expected one file per bag, got {bags[file.stem].name} and {file.name}"
            )
    if not (tables or bags):
        kinds = f"tables ({', '.join(FORMATS)}) or bags ({', '.join(BAG_SUFFIXES)})"
        raise RunError(f"{source}: expected {kinds} in this folder, found none")
    return tables or sorted(bags.values())


def _is_bag(file: Path) -> bool:
    return file.suffix.lower() in BAG_SUFFIXES


def _fingerprint(file: Path) -> dict[str, str]:
    """Return the name and a fingerprint of the contents of an input."""
    stat = file.stat()
    if _is_bag(file):
        contents = f"{stat.st_size} bytes, time {stat.st_mtime_ns}"
    else:
        contents = sha256(file)
    return {"name": file.name, "contents": contents}


def _read_in_place(file: Path) -> bool:
    """Return whether workers can read this input directly: a bag, or a Parquet file with short row groups."""
    if _is_bag(file):
        return True
    if table_format(file) != "parquet":
        return False
    with _parquet(file) as table:
        about = table.metadata
        return all(
            about.row_group(i).num_rows <= LONGEST_GROUP for i in range(about.num_row_groups)
        )


def _copy(file: Path, target: Path, column: str) -> None:
    """Copy a table to a Parquet file of text with short row groups; structs of scores remain structs."""
    pa = pyarrow()
    if table_format(file) == "parquet":
        with _parquet(file) as table:
            schema = table.schema_arrow
        with replacing(target) as partial, pa.parquet.ParquetWriter(partial, schema) as writer:
            for part in _row_tables(file, schema.names):
                writer.write_table(part)
        return
    if table_format(file) == "jsonl":
        header = read_rows(file)
    else:
        header = islice(read_rows(file), 1)
    types = dict.fromkeys((name for row in header for name in row), pa.string())
    if not types:
        raise RunError(f"{file}: expected at least one row, got none")
    if len(types) > MAX_COLUMNS:
        raise RunError(f"{file}: expected at most {MAX_COLUMNS:,} columns, got {len(types):,}")
    rows = read_rows(file)
    batch = list(islice(rows, COPIED_ROWS))
    if isinstance(batch[0].get(column), dict):
        types[column] = pa.array([row.get(column) for row in batch]).type
    texts = [name for name, kind in types.items() if kind == pa.string()]
    with (
        replacing(target) as partial,
        pa.parquet.ParquetWriter(partial, pa.schema(types)) as writer,
    ):
        while batch:
            for row in batch:
                row.update({name: _text(row[name]) for name in texts if row.get(name) is not None})
            writer.write_table(pa.Table.from_pylist(batch, schema=pa.schema(types)))
            batch = list(islice(rows, COPIED_ROWS))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _parquet(file: str | os.PathLike[str], encoded: Sequence[str] = ()) -> Any:
    """Open a Parquet file; the columns in `encoded` are read as dictionaries."""
    pa = pyarrow()
    try:
        return pa.parquet.ParquetFile(file, memory_map=True, read_dictionary=list(encoded))
    except (ValueError, OSError) as error:
        raise RunError(
            f"{file}: not a readable Parquet file ({str(error).splitlines()[0]})"
        ) from None


def _row_tables(
    path: Path, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """Yield tables of ROW_GROUP rows; the last one may be shorter.

    A file that is damaged, or that is small and would fill the memory, is an error: a text that is stored once may be
    that of every row. Texts are therefore read as dictionaries, and measured before they are expanded.
    """
    pa = pyarrow()
    with _parquet(path) as file:
        schema = pa.schema([field for field in file.schema_arrow if field.name in columns])
    encoded = [
        field.name
        for field in schema
        if field.type in (pa.string(), pa.large_string(), pa.binary())
    ]
    with reading(path, "Parquet"), _parquet(path, encoded) as file:
        waiting = schema.empty_table()
        for batch in file.iter_batches(
            ROW_GROUP, row_groups=groups, columns=schema.names, use_threads=False
        ):
            batch.validate(full=True)  # otherwise indices and offsets could point outside the data
            length = 0
            for column in batch.columns:
                if pa.types.is_dictionary(column.type) and column.type.value_type in (
                    pa.string(),
                    pa.large_string(),
                ):
                    lengths = pa.compute.binary_length(column.dictionary)
                    length += pa.compute.sum(lengths.take(column.indices)).as_py() or 0
            check_size(length, path)
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(schema)])
            while waiting.num_rows >= ROW_GROUP:  # batches of dictionaries end where row groups end
                yield waiting.slice(0, ROW_GROUP).combine_chunks()
                waiting = waiting.slice(ROW_GROUP)
        if waiting.num_rows:
            yield waiting.combine_chunks()


def _describe(file: Path, source: Path, column: str) -> tuple[int, Any]:
    """Return the number of rows and the schema of an input, which must have the column."""
    if _is_bag(source):
        rows = 1
        schema = pyarrow().schema([("path", pyarrow().string())])
    else:
        with reading(file, "Parquet"), _parquet(source) as table:
            rows = int(table.metadata.num_rows)
            schema = table.schema_arrow.remove_metadata()
    try:
        check_columns(file, schema.names, [column])
    except ValueError as error:
        raise RunError(f"{error}; use --column to name it") from None
    return rows, schema


# Requests and manifests


def _plan(files: list[Path], folder: Path, task: Task, workers: int | None) -> Plan:
    earlier = read_manifest(folder)
    if earlier is None:
        order = {}
    else:
        order = {file["name"]: n for n, file in enumerate(earlier["files"])}
    files = sorted(
        files, key=lambda file: order.get(file.name, len(order))
    )  # new bags follow those of earlier runs
    bags = _is_bag(files[0])
    work = folder / WORK
    sources = [
        (file if _read_in_place(file) else work / f"input-{number}.parquet").absolute()
        for number, file in enumerate(files)
    ]

    def copy_tables(wanted: set[Path]) -> None:
        for file, source in zip(files, sources, strict=True):
            if source in wanted and not source.exists():
                _copy(file, source, task.column)

    request = _request(files, task)
    if earlier is None:
        copy_tables(set(sources))
        manifest = _begin(files, sources, folder, task, request, workers)
    else:
        manifest = _resumed(folder, earlier, request, bags)
    parts = [
        (part, _is_done(Path(part.target), bags)) for part in _cut(files, sources, folder, manifest)
    ]
    done, missing = (
        [part for part, is_done in parts if is_done == wanted] for wanted in (True, False)
    )
    copy_tables({Path(part.source) for part in missing})
    return Plan(missing, done, manifest["rows"], sum(part.rows for part in done))


def _request(files: Sequence[Path], task: Task) -> dict[str, Any]:
    """Return the data that two runs must share to use one folder, as JSON."""
    names = ("column", "columns", "max_chars", "model_options", "region", "files")
    options = {name.replace("_", "-"): getattr(task, name) for name in names}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        contents = list(threads.map(_fingerprint, files))
    request = {
        "version": task.version,
        "options": {**options, "method": task.methods, **asdict(task.settings)},
        "model": {"name": repr(task.opened()), "sha256": task.model_hash()},
        "files": contents,
    }
    return dict(json.loads(json.dumps(request, default=str)))


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the request of a folder, with the columns and the number of rows, or None if there was no run."""
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
    described = (_describe(*pair, task.column) for pair in zip(files, sources, strict=True))
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
    names = [name for name in merged.names if name != task.column or _is_bag(sources[0])]
    results = {"row": pa.int64(), **result_columns(task)}
    if task.columns is None:
        columns = names
    else:
        columns = list(task.columns)
    if clash := [name for name in columns if name in results]:
        raise RunError(
            f"column {clash[0]!r}: the results have a column of this name; rename it, or omit it (--columns)"
        )
    manifest = {
        **request,
        "files": [
            {**file, "rows": count} for file, count in zip(request["files"], rows, strict=True)
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
    """Return the manifest of an earlier run if the request is the same, with bags added since then."""
    before = earlier["files"]
    files = request["files"]
    differences = []
    if earlier["version"] != request["version"]:
        differences.append(
            f"it was made by version {earlier['version']}; this is {request['version']}"
        )
    if earlier["model"]["sha256"] != request["model"]["sha256"]:
        differences.append("the model is a different one")
    if [file["name"] for file in files[: len(before) if bags else None]] != [
        file["name"] for file in before
    ]:
        differences.append("the input files are different")
    for number, (old, new) in enumerate(zip(before, files, strict=False)):
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
    if value is None:
        return "the default"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def size_of_parts(rows: int, workers: int | None) -> int:
    """Return the number of rows per part, such that every worker gets many parts; `workers` None is a cluster.

    >>> size_of_parts(25_000, 2), size_of_parts(400, 4), size_of_parts(1_000_000, None), size_of_parts(10**9, None)
    (500, 20, 250, 50000)
    """
    if workers is None:
        most, parts = (CLUSTER_ROWS, CLUSTER_PARTS)
    else:
        most, parts = (PART_ROWS, WORKER_PARTS * workers)
    return min(most, max(LEAST_ROWS, -(-rows // parts)))


def _target(folder: Path, number: int) -> Path:
    return (folder / f"part-{number:06d}.parquet").absolute()


def _is_done(target: Path, bags: bool) -> bool:
    """Return whether a part is finished; a bag with an error is not."""
    if not (bags and target.exists()):
        return target.exists()
    return bool(
        pyarrow()
        .parquet.read_table(target, columns=["error"], partitioning=None)["error"]
        .null_count
    )


def _cut(
    files: Sequence[Path], sources: Sequence[Path], folder: Path, manifest: Mapping[str, Any]
) -> Iterator[Part]:
    """Yield the parts of all inputs, in order."""
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
