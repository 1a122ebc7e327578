"""The inputs of a run: tables or bags, and the Parquet tables that workers read.

Workers start in the middle of a table, which is possible for Parquet but not for gzipped CSV.
Tables in other formats (`files/tables.py`) are therefore copied once to a Parquet file of text,
which exists for the duration of the run. Parquet files with long row groups are copied too, because
a row group is read from its beginning. In a folder of bags, every bag is an input with one row: its
name, in the column `path`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..files.atomic import check_size, reading, replacing
from ..files.bags import SUFFIXES as BAG_SUFFIXES
from ..files.tables import EXPECTED, FORMATS, check_columns, read_rows, table_format
from .task import RunError, pyarrow, sha256

# Tuning: rows of a table that are in memory together, while it is copied and while it is explained.
COPIED_ROWS = 2_000
# Tuning: rows that are explained together.
ROW_GROUP = 1_024
# Tuning: maximum number of rows of a row group that a worker may have to skip.
LONGEST_GROUP = 8 * ROW_GROUP


def input_files(source: str | os.PathLike[str]) -> list[Path]:
    """Return the inputs: one file, or the tables of a folder in the order of their names, or its
    bags.
    """
    source = Path(source)
    if not source.is_dir():
        if not source.exists():
            raise FileNotFoundError(f"{source}: no such file or folder; expected {EXPECTED}")
        return [source]
    # Names that begin with a dot or an underscore are ignored, as by Spark, Dask and pyarrow.
    files = sorted(
        file for file in source.iterdir() if file.is_file() and not file.name.startswith((".", "_"))
    )
    tables = [
        file for file in files if Path(file.name.removesuffix(".gz")).suffix.lower() in FORMATS
    ]
    if tables:
        return tables
    bags: dict[str, Path] = {}
    for file in files:
        if is_bag(file):
            # Results have the name of the bag, so files that differ in their suffix would share
            # one.
            other = bags.setdefault(file.stem, file)
            if other != file:
                raise RunError(
                    f"{source}: expected one file per bag, got {other.name} and {file.name}"
                )
    if not bags:
        kinds = f"tables ({', '.join(FORMATS)}) or bags ({', '.join(BAG_SUFFIXES)})"
        raise RunError(f"{source}: expected {kinds} in this folder, found none")
    return sorted(bags.values())


def is_bag(file: Path) -> bool:
    """Return whether a file is a bag, by its suffix."""
    return file.suffix.lower() in BAG_SUFFIXES


def fingerprint(file: Path) -> dict[str, str]:
    """Return the name and a fingerprint of the contents of an input."""
    stat = file.stat()
    if is_bag(file):
        # A bag may be too large to be hashed at every start.
        contents = f"{stat.st_size} bytes, time {stat.st_mtime_ns}"
    else:
        contents = sha256(file)
    return {"name": file.name, "contents": contents}


def is_read_in_place(file: Path) -> bool:
    """Return whether workers can read this input directly: a bag, or a Parquet file with short row
    groups.
    """
    if is_bag(file):
        return True
    if table_format(file) != "parquet":
        return False
    with open_parquet(file) as table:
        about = table.metadata
        return all(
            about.row_group(i).num_rows <= LONGEST_GROUP for i in range(about.num_row_groups)
        )


def copy_table(file: Path, target: Path, column: str) -> None:
    """Copy a table to a Parquet file of text with short row groups; structs of scores remain
    structs.
    """
    pa = pyarrow()
    if table_format(file) == "parquet":
        with open_parquet(file) as table:
            schema = table.schema_arrow
        with replacing(target) as partial, pa.parquet.ParquetWriter(partial, schema) as writer:
            for part in row_tables(file, schema.names):
                writer.write_table(part)
        return
    # Every line of JSON may have other names. All other formats have one header.
    header = read_rows(file)
    if table_format(file) != "jsonl":
        header = islice(header, 1)
    types = dict.fromkeys((name for row in header for name in row), pa.string())
    if not types:
        raise RunError(f"{file}: expected at least one row, got none")
    # Maximum number of columns of a copied table, as in Excel; Parquet needs memory and time for
    # each column.
    max_columns = 16_384
    if len(types) > max_columns:
        raise RunError(f"{file}: expected at most {max_columns:,} columns, got {len(types):,}")
    # The rows before were read for their names, so reading begins anew.
    rows = read_rows(file)
    batch = list(islice(rows, COPIED_ROWS))
    # A column of scores (`ScoreTable`) has the type of its first rows.
    if isinstance(batch[0].get(column), dict):
        types[column] = pa.array([row.get(column) for row in batch]).type
    texts = [name for name, kind in types.items() if kind == pa.string()]
    with (
        replacing(target) as partial,
        pa.parquet.ParquetWriter(partial, pa.schema(types)) as writer,
    ):
        while batch:
            for row in batch:
                row.update(
                    {name: as_text(row[name]) for name in texts if row.get(name) is not None}
                )
            writer.write_table(pa.Table.from_pylist(batch, schema=pa.schema(types)))
            batch = list(islice(rows, COPIED_ROWS))


def as_text(value: Any) -> str:
    """Return the text of a cell; values of JSON Lines that are not texts become JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def open_parquet(file: str | os.PathLike[str], encoded: Sequence[str] = ()) -> Any:
    """Open a Parquet file; the columns in `encoded` are read as dictionaries."""
    pa = pyarrow()
    try:
        return pa.parquet.ParquetFile(file, memory_map=True, read_dictionary=list(encoded))
    except (ValueError, OSError) as error:
        raise RunError(
            f"{file}: not a readable Parquet file ({str(error).splitlines()[0]})"
        ) from None


def row_tables(
    path: Path, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """Yield tables of ROW_GROUP rows; the last one may be shorter.

    A file that is damaged, or that is small and would fill the memory, is an error: a text that is
    stored once may be that of every row. Texts are therefore read as dictionaries, and measured
    before they are expanded.
    """
    pa = pyarrow()
    with open_parquet(path) as file:
        schema = pa.schema([field for field in file.schema_arrow if field.name in columns])
    encoded = [
        field.name
        for field in schema
        if field.type in (pa.string(), pa.large_string(), pa.binary())
    ]
    with reading(path, "Parquet"), open_parquet(path, encoded) as file:
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
                    # The length of the texts if every row had its own copy.
                    lengths = pa.compute.binary_length(column.dictionary)
                    length += pa.compute.sum(lengths.take(column.indices)).as_py() or 0
            check_size(length, path)
            # From here on each text has its own copy, which was measured above.
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(schema)])
            while waiting.num_rows >= ROW_GROUP:  # batches of dictionaries end where row groups end
                yield waiting.slice(0, ROW_GROUP).combine_chunks()
                waiting = waiting.slice(ROW_GROUP)
        if waiting.num_rows:
            yield waiting.combine_chunks()


def describe(file: Path, source: Path, column: str) -> tuple[int, Any]:
    """Return the number of rows and the schema of an input, which must have the column."""
    if is_bag(source):
        rows = 1
        schema = pyarrow().schema([("path", pyarrow().string())])
    else:
        with reading(file, "Parquet"), open_parquet(source) as table:
            rows = int(table.metadata.num_rows)
            schema = table.schema_arrow.remove_metadata()
    try:
        check_columns(file, schema.names, [column])
    except ValueError as error:
        raise RunError(f"{error}; use --column to name it") from None
    return rows, schema
