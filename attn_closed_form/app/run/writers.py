"""Writers of the results of a run: one table for other programs, as Parquet, CSV, Excel or JSON Lines.

CSV is UTF-8 with a byte-order mark, which Excel needs. A text that a spreadsheet would read as a formula has an
apostrophe before it in CSV, and is stored as text in Excel. Tables are read and written part by part, so memory does
not grow with the corpus.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from ..._arrays import choice
from ..files.atomic import replacing
from ..show.exports import spreadsheet_cell
from .long_form import FORMS, long_table
from .task import RunError, pyarrow

# Excel's limits: rows of a sheet, and characters of a cell.
SHEET_ROWS = 1_048_576
# Excel's limit on the characters of a cell.
CELL_CHARS = 32_767


def parts_of(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a run, in the order of the rows, or raise an error if there are none."""
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
        yield long_table(table) if form == "long" else table


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
    if form is None:
        form = "long" if kind in ("csv", "xlsx") else "wide"
    tables = result_tables(folder, form)
    with replacing(Path(path)) as partial:
        WRITERS[kind](tables, partial, separator)


# One writer per format, which takes the tables, the file to write and the separator.


def _write_parquet(tables: Iterator[Any], path: Path, separator: str) -> None:
    pa = pyarrow()
    first = next(tables)
    with pa.parquet.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_csv(tables: Iterator[Any], path: Path, separator: str) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=separator, lineterminator="\r\n")
        for number, table in enumerate(tables):
            if number == 0:
                writer.writerow(map(spreadsheet_cell, table.column_names))
            for row in _rows(table):
                writer.writerow(spreadsheet_cell(_plain(value)) for value in row)


def _write_jsonl(tables: Iterator[Any], path: Path, separator: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for table in tables:
            for row in table.to_pylist():
                stream.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _write_xlsx(tables: Iterator[Any], path: Path, separator: str) -> None:
    try:
        workbook = _Workbook()
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install '.[corpus]'") from None
    try:
        for table in tables:
            for row in _rows(table):
                workbook.append(row, table.column_names)
    except BaseException:
        workbook.discard()
        raise
    workbook.book.save(path)


class _Workbook:
    """An Excel file that is written row by row; a full sheet is followed by another one."""

    def __init__(self) -> None:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        self.book = Workbook(write_only=True)
        self.text_cell = WriteOnlyCell
        self.illegal = ILLEGAL_CHARACTERS_RE
        self.sheet: Any = None
        self.rows = 0  # of the current sheet

    def append(self, row: tuple[Any, ...], names: list[str]) -> None:
        """Append a row, and the names of the columns if it is the first one of a sheet."""
        if self.sheet is None or self.rows == SHEET_ROWS:
            title = f"explanations {len(self.book.worksheets) + 1}"
            self.sheet = self.book.create_sheet(title)
            self.sheet.append([self.cell(name) for name in names])
            self.rows = 1
        self.sheet.append([self.cell(value) for value in row])
        self.rows += 1

    def cell(self, value: Any) -> Any:
        """Return what openpyxl stores for a value; a text is never a formula."""
        value = _plain(value)
        if not isinstance(value, str):
            return value
        if len(value) > CELL_CHARS:
            raise RunError(
                f"Excel allows {CELL_CHARS:,} characters per cell, got {len(value):,}; use --form long or CSV"
            )
        cell = self.text_cell(self.sheet, self.illegal.sub("\ufffd", value))
        cell.data_type = "s"
        return cell

    def discard(self) -> None:
        """Remove the temporary files of the sheets, which only saving does."""
        if self.sheet is not None:
            with suppress(Exception):  # the error that ends the writing is more useful
                self.book.save(io.BytesIO())


def _rows(table: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an Arrow table."""
    columns = [table[name].to_pylist() for name in table.column_names]
    return zip(*columns, strict=True)


def _plain(value: Any) -> Any:
    """Return the value of a cell: lists as JSON, and other values that are not numbers, texts or dates as text."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, datetime.datetime | datetime.time) and value.tzinfo is not None:
        return str(value)  # Excel has no time zones
    simple = bool | int | float | str | datetime.date | datetime.time
    if value is None or isinstance(value, simple):
        return value
    return str(value)


# The writer of each format of results.
WRITERS: dict[str, Callable[[Iterator[Any], Path, str], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "xlsx": _write_xlsx,
    "jsonl": _write_jsonl,
}
