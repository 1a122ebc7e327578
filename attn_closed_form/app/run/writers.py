"""Writers of the results of a run: one table for other programs, as Parquet, CSV, Excel or JSON
Lines.

CSV is UTF-8 with a byte-order mark, which Excel needs. A text that a spreadsheet would read as a
formula has an apostrophe before it in CSV, and is stored as text in Excel. Tables are read and
written part by part, so memory does not grow with the corpus.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from ..._arrays import choice
from ..files.atomic import replacing
from ..show.exports import spreadsheet_cell
from .long_form import FORMS, long_table
from .task import RunError, pyarrow


def parts_of(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a run, in the order of the rows, or raise an error if there are none."""
    # The numbers have leading zeros, so the order of the names is that of the rows.
    parts = sorted(Path(folder).glob("part-*.parquet"))
    if not parts:
        raise RunError(
            f"{folder}: expected the parts of a run (part-000000.parquet, ...), found none"
        )
    return parts


def result_tables(folder: str | os.PathLike[str], form: str = "wide") -> Iterator[Any]:
    """Yield the results of a run as Arrow tables, one per part."""
    choice("form", form, FORMS)
    for part in parts_of(folder):
        table = pyarrow().parquet.read_table(part, partitioning=None).replace_schema_metadata(None)
        if form == "long":
            table = long_table(table)
        yield table


def write_results(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    form: str | None = None,
    separator: str = ",",
) -> None:
    """Write the results of a run to one file, in the format of its suffix.

    Parameters
    ----------
    folder : folder of a run
    path : a file that ends in .parquet, .csv, .xlsx (needs openpyxl) or .jsonl
    form : "long" or "wide"; by default long for CSV and Excel, wide for Parquet and JSON Lines
    separator : separator of CSV; ";" suits spreadsheets in much of Europe
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in WRITERS:
        suffixes = ", ".join(f".{name}" for name in WRITERS)
        raise ValueError(f"{path}: expected a file that ends in {suffixes}")
    if len(separator) != 1:
        raise ValueError(f"separator: expected one character, got {separator!r}")
    # Spreadsheets have no lists, so there is one row per word.
    if form is None and kind in ("csv", "xlsx"):
        form = "long"
    elif form is None:
        form = "wide"
    tables = result_tables(folder, form)
    with replacing(Path(path)) as partial:
        WRITERS[kind](tables, partial, separator, Path(folder))


# One writer per format, which takes the tables, the file to write, the separator and the folder of
# the run.


def _write_parquet(tables: Iterator[Any], path: Path, separator: str, folder: Path) -> None:
    """Write tables one after the other, as one Parquet file."""
    pa = pyarrow()
    first = next(tables)
    with pa.parquet.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_csv(tables: Iterator[Any], path: Path, separator: str, folder: Path) -> None:
    """Write tables one after the other, as one CSV file that Excel opens."""
    # Excel recognizes UTF-8 by the byte-order mark, and expects the line ends of Windows.
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=separator, lineterminator="\r\n")
        for number, table in enumerate(tables):
            if number == 0:
                writer.writerow(map(spreadsheet_cell, table.column_names))
            for row in rows_of(table):
                writer.writerow(spreadsheet_cell(plain_cell(value)) for value in row)


def _write_jsonl(tables: Iterator[Any], path: Path, separator: str, folder: Path) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for table in tables:
            for row in table.to_pylist():
                # Dates and decimals, which the user's columns may have, are written as texts.
                stream.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _write_xlsx(tables: Iterator[Any], path: Path, separator: str, folder: Path) -> None:
    from .workbook import write_workbook

    write_workbook(tables, path, folder)


def rows_of(table: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an Arrow table."""
    columns = [table[name].to_pylist() for name in table.column_names]
    return zip(*columns, strict=True)


def plain_cell(value: Any) -> Any:
    """Return the value of a cell: lists as JSON, and other values that are not numbers, texts or
    dates as text.
    """
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, datetime.datetime | datetime.time) and value.tzinfo is not None:
        return str(value)  # Excel has no time zones
    simple = bool | int | float | str | datetime.date | datetime.time
    if value is None or isinstance(value, simple):
        return value
    return str(value)


# The writer of each format of results.
WRITERS: dict[str, Callable[[Iterator[Any], Path, str, Path], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "xlsx": _write_xlsx,
    "jsonl": _write_jsonl,
}
