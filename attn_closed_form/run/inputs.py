"""Tables that go in: Parquet as it is, every other format by way of an Arrow file in the run's work folder.

Workers start in the middle of a corpus, which Parquet and Arrow files allow and a gzipped CSV file does not. So CSV,
TSV, JSON Lines and fastText files (`files/tables.py`) are copied once, in batches, to an Arrow file that lives as
long as the run. A folder of bags is a table of their paths, in the column `path`.

What identifies an input is the SHA-256 of its bytes; for bags, which may be very large, their names, sizes and times.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from ..files.atomic import replacing
from ..files.bags import SUFFIXES as BAG_SUFFIXES
from ..files.tables import EXPECTED, FORMATS, check_columns, read_rows, table_format
from .task import CorpusError

BATCH = 256
COMPRESSIONS = (".gz",)


def pyarrow() -> Any:
    """The package, or one line that names the extra."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise ImportError("a corpus needs the pyarrow package: pip install 'attn-closed-form[corpus]'") from None
    return pyarrow


def input_files(source: str | os.PathLike[str]) -> list[Path]:
    """The tables of a corpus: one file, or those of a folder in the order of their names; or a folder of bags."""
    source = Path(source)
    if not source.is_dir():
        if not source.exists():
            raise FileNotFoundError(f"{source}: no such file or folder; expected {EXPECTED}")
        return [source]
    files = sorted(file for file in source.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    tables = [file for file in files if _table_suffix(file) in FORMATS]
    if tables:
        return tables
    if any(file.suffix.lower() in BAG_SUFFIXES for file in files):
        return [source]
    raise CorpusError(f"{source}: expected tables in this folder ({', '.join(FORMATS)}) or bags, found none")


def _table_suffix(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _bags(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in BAG_SUFFIXES)


def fingerprints(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of each input; hashed in threads, since a corpus may be large."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        return list(threads.map(_fingerprint, files))


def _fingerprint(file: Path) -> dict[str, Any]:
    if file.is_dir():
        stats = [(bag.name, bag.stat().st_size, bag.stat().st_mtime_ns) for bag in _bags(file)]
        digest = hashlib.sha256(repr(stats).encode()).hexdigest()
        return {"name": file.name, "bytes": sum(size for _, size, _ in stats), "sha256": digest}
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"name": file.name, "bytes": file.stat().st_size, "sha256": digest}


def is_parquet(file: Path) -> bool:
    """Whether workers can read the file as it is."""
    return file.is_file() and table_format(file) == "parquet"


def readable(file: Path, number: int, work: Path) -> Path:
    """The file that workers read: the input itself if it is Parquet, else its copy in the work folder."""
    if is_parquet(file):
        return file
    target = work / f"input-{number}.arrow"
    if not target.exists():
        _convert(file, target)
    return target


def _convert(file: Path, target: Path) -> None:
    pa = pyarrow()
    schema = _schema_of(file)
    with replacing(target) as partial, pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for rows in _batched(_rows(file)):
            writer.write_batch(pa.RecordBatch.from_pylist([_fit(row, schema) for row in rows], schema=schema))


def _batched(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.is_dir():
        return ({"path": bag.name} for bag in _bags(file))
    return read_rows(file)


def _schema_of(file: Path) -> Any:
    """Strings, unless the format has types: JSON's are those of all lines together, or text where they differ."""
    pa = pyarrow()
    if file.is_dir() or table_format(file) != "jsonl":
        first = next(_rows(file), None)
        if first is None:
            raise CorpusError(f"{file}: expected at least one row, got none")
        return pa.schema([(name, pa.string()) for name in first])
    kinds: dict[str, Any] = {}
    for rows in _batched(read_rows(file)):
        for name in dict.fromkeys(name for row in rows for name in row):
            kinds[name] = _common_type(kinds.get(name), [row.get(name) for row in rows])
    if not kinds:
        raise CorpusError(f"{file}: expected at least one row, got none")
    return pa.schema(list(kinds.items()))


def _common_type(kind: Any, values: list[Any]) -> Any:
    pa = pyarrow()
    try:
        own = pa.array(values).type
        if kind is None or kind == own:
            return own
        fields = [pa.schema([("x", kind)]), pa.schema([("x", own)])]
        return pa.unify_schemas(fields, promote_options="permissive").field("x").type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def _fit(row: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The row with values of mixed columns as text."""
    pa = pyarrow()
    texts = [field.name for field in schema if field.type == pa.string()]
    return {
        **row,
        **{
            name: value if isinstance(value, str | None) else str(value)
            for name in texts
            if (value := row.get(name)) is not None
        },
    }


def describe(file: Path, column: str) -> tuple[int, Any]:
    """Number of rows and schema of a readable file, which must have the column."""
    with OpenTable(file) as table:
        try:
            check_columns(file, table.schema.names, [column])
        except ValueError as error:
            raise CorpusError(f"{error}; name it with --column") from None
        return table.rows, table.schema


class OpenTable:
    """A Parquet or an Arrow file, open: `rows`, `schema`, and `batches(start, stop, columns)`."""

    def __init__(self, file: Path | str) -> None:
        pa = pyarrow()
        self.arrow = Path(file).suffix == ".arrow"
        try:
            if self.arrow:
                self.file = pa.ipc.open_file(pa.memory_map(str(file)))
                self.schema = self.file.schema
                self.rows = sum(self.file.get_batch(i).num_rows for i in range(self.file.num_record_batches))
            else:
                self.file = pa.parquet.ParquetFile(file, memory_map=True)
                self.schema = self.file.schema_arrow.remove_metadata()
                self.rows = int(self.file.metadata.num_rows)
        except (pa.ArrowInvalid, OSError) as error:
            raise CorpusError(f"{file}: not a readable Parquet file ({str(error).splitlines()[0]})") from None

    def __enter__(self) -> OpenTable:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.arrow:
            self.file.close()

    def batches(self, start: int, stop: int, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of the rows [start, stop): row groups that lie outside are not read."""
        wanted: list[int] = []
        before = skip = 0
        for number, count in enumerate(self._sizes()):
            if before < stop and before + count > start:
                if not wanted:
                    skip = start - before
                wanted.append(number)
            before += count
        left = stop - start
        for batch in self._read(wanted, columns):
            own = batch.slice(skip, left)
            skip = max(0, skip - batch.num_rows)
            left -= own.num_rows
            if own.num_rows:
                yield own
            if left == 0:
                return

    def _sizes(self) -> Iterator[int]:
        if self.arrow:
            last = self.file.num_record_batches - 1
            return (BATCH if i < last else self.rows - BATCH * last for i in range(last + 1))
        metadata = self.file.metadata
        return (metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))

    def _read(self, wanted: list[int], columns: Sequence[str]) -> Iterator[Any]:
        if self.arrow:
            return (self.file.get_batch(i).select(list(columns)) for i in wanted)
        found: Iterator[Any] = self.file.iter_batches(
            batch_size=BATCH, row_groups=wanted, columns=list(columns), use_threads=False
        )
        return found
