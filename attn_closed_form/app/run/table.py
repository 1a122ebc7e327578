"""Results as one table for other programs, long or wide, as Parquet, CSV, Excel or JSON Lines; `explain_table`.

**Long** has one row per input and player: the user's columns, `position` (number of the player in its input, from 0),
`word`, `start` and `end` of its first occurrence in the text, `occurrences`, one column per method with the score, and
the columns of the input, such as `output` and `prediction`. An input with an error has one row without a word.
**Wide** has one row per input, with lists of words and scores; in CSV and Excel a list is JSON text.

CSV is UTF-8 with a byte-order mark, which Excel needs. A text that a spreadsheet would read as a formula is prefixed
with an apostrophe. Tables are read and written part by part, so memory does not grow with the corpus.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..explanations.settings import Settings
from ..files.atomic import replacing
from ..models.protocol import Model
from ..show.exports import FORMULA
from .plan import planned
from .runner import run
from .task import RunError, Task, pyarrow

FORMS = ("long", "wide")
LONG_COLUMNS = ("position", "word", "start", "end", "occurrences")
# Excel's limits: rows of a sheet, and characters of a cell.
SHEET_ROWS = 1_048_576
CELL_CHARS = 32_767


def parts_of(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a run, in the order of the rows, or raise an error if there are none."""
    parts = sorted(Path(folder).glob("part-*.parquet"))
    if not parts:
        raise RunError(
            f"{folder}: expected the parts of a run (part-000000.parquet, ...), found none"
        )
    return parts


def methods_of(names: Sequence[str]) -> list[str]:
    """Return the methods among the columns of a run."""
    return [name for name in names if f"{name}_base" in names and f"{name}_error" in names]


def result_tables(folder: str | os.PathLike[str], form: str = "wide") -> Iterator[Any]:
    """Yield the results of a run as Arrow tables, one per part."""
    if form not in FORMS:
        raise ValueError(f"form: expected 'long' or 'wide', got {form!r}")
    for part in parts_of(folder):
        table = pyarrow().parquet.read_table(part, partitioning=None).replace_schema_metadata(None)
        yield long_table(table) if form == "long" else table


def long_table(table: Any) -> Any:
    """Convert a table with one row per input to one row per input and player."""
    pa = pyarrow()
    table = table.combine_chunks()
    compute = pa.compute
    for name in LONG_COLUMNS:
        if name in table.column_names:
            raise RunError(
                f"column {name!r}: the long form has a column of this name; rename it or use --form wide"
            )
    lengths = (
        compute.fill_null(compute.list_value_length(table["labels"]), 0).to_numpy().astype(np.int64)
    )
    times = np.maximum(lengths, 1)  # a row with an error remains one row
    position = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    missing = np.repeat(lengths == 0, times)
    # The index of each row's player in the flat lists.
    index = pa.array(np.where(missing, 0, np.cumsum(~missing) - 1), mask=missing)

    def flat(column: Any) -> Any:
        values = compute.list_flatten(column)
        if not len(values):
            return pa.nulls(times.size and int(times.sum()), column.type.value_type)
        return values.take(index)

    methods = methods_of(table.column_names)
    lists = {"labels", "spans", *methods}
    rows = table.select([name for name in table.column_names if name not in lists]).take(
        np.repeat(range(len(table)), times)
    )
    first = rows.column_names.index("output")
    columns = {name: rows[name] for name in rows.column_names[:first]}
    columns |= {
        "position": pa.array(position, pa.int32(), mask=missing),
        "word": flat(table["labels"]),
    }
    spans = flat(table["spans"])
    with_span = compute.greater(compute.fill_null(compute.list_value_length(spans), 0), 0)
    one = compute.list_element(
        compute.if_else(with_span, spans, pa.scalar([{"start": None, "end": None}], spans.type)), 0
    )
    columns |= {name: compute.struct_field(one, name) for name in ("start", "end")}
    columns["occurrences"] = compute.list_value_length(spans)
    columns |= {name: flat(table[name]) for name in methods}
    return pa.table(columns | {name: rows[name] for name in rows.column_names[first:]})


# Writers, one per format, which take the tables and the file to write.


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
            if not number:
                writer.writerow(map(_cell, table.column_names))
            writer.writerows(
                zip(
                    *(map(_cell, table[name].to_pylist()) for name in table.column_names),
                    strict=True,
                )
            )


def _write_jsonl(tables: Iterator[Any], path: Path, separator: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for table in tables:
            stream.writelines(
                json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table.to_pylist()
            )


def _write_xlsx(tables: Iterator[Any], path: Path, separator: str) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install '.[corpus]'") from None
    book = Workbook(write_only=True)
    sheet: Any = None
    used = SHEET_ROWS

    def cell(value: Any) -> Any:
        value = _plain(value)
        if not isinstance(value, str):
            return value
        if len(value) > CELL_CHARS:
            raise RunError(
                f"Excel allows {CELL_CHARS:,} characters per cell, got {len(value):,}; use --form long or CSV"
            )
        text = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
        text.data_type = "s"  # never a formula
        return text

    try:
        for table in tables:
            for row in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
                if used == SHEET_ROWS:
                    sheet = book.create_sheet(f"explanations {len(book.worksheets) + 1}")
                    used = 1
                    sheet.append([cell(name) for name in table.column_names])
                sheet.append([cell(value) for value in row])
                used += 1
    except BaseException:
        if sheet is not None:
            book.save(io.BytesIO())  # removes the temporary files of the sheets
        raise
    book.save(path)


def _plain(value: Any) -> Any:
    """Return the value of a cell: lists as JSON, and other values that are not numbers, texts or dates as text."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    aware = isinstance(value, datetime.datetime | datetime.time) and value.tzinfo is not None
    simple = value is None or isinstance(
        value, bool | int | float | str | datetime.date | datetime.time
    )
    if simple and not aware:
        return value
    return str(value)


def _cell(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"
    return value


WRITERS: dict[str, Callable[[Iterator[Any], Path, str], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "xlsx": _write_xlsx,
    "jsonl": _write_jsonl,
}


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
        raise ValueError(
            f"{path}: expected a file that ends in {', '.join(f'.{name}' for name in WRITERS)}"
        )
    if len(separator) != 1:
        raise ValueError(f"separator: expected one character, got {separator!r}")
    tables = result_tables(folder, form or ("long" if kind in ("csv", "xlsx") else "wide"))
    with replacing(Path(path)) as partial:
        WRITERS[kind](tables, partial, separator)


def explain_table(
    model: Model | str | None,
    table: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    column: str = "text",
    methods: str | Sequence[str] = "shapley",
    columns: Sequence[str] | None = None,
    form: str = "long",
    separator: str = ",",
    workers: int = 1,
    **settings: Any,
) -> Any:
    """Explain every row of a table.

    A script may call it at its top level with several workers, because workers do not import the script. For runs that
    resume after an interruption, use `attn-closed-form corpus run`.

    Parameters
    ----------
    model : a model, the file of one, or None for the shipped model
    table : a table of any format that `corpus run` reads (a path), a pandas DataFrame, an Arrow table, a dict of
        columns, or a list of inputs
    out : a file to write, ending in .parquet, .csv, .xlsx or .jsonl; or None to return the table
    column : the column of inputs
    methods : one name or several, see `METHODS`
    columns : the columns of the table to keep; None keeps all but the inputs
    form : "long", one row per input and word, or "wide", one row per input with lists
    separator : separator of CSV
    workers : number of processes
    **settings : as in `explain`

    Returns
    -------
    The results as an Arrow table, or as a DataFrame if `table` is one; None if they were written to a file

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> results = explain_table(load_demo_model(), ["A wonderful film.", "Dull."], scale="logit")
    >>> results.select(["row", "word", "output"]).to_pylist()[1]
    {'row': 0, 'word': 'wonderful', 'output': 'positive'}
    >>> [round(value, 2) for value in results["shapley"].to_pylist()]
    [0.0, 2.92, 0.04, 3.54]
    """
    pa = pyarrow()
    if out is not None and os.path.exists(out):
        sources = [
            path
            for path in (model, table)
            if isinstance(path, str | os.PathLike) and os.path.exists(path)
        ]
        if any(os.path.samefile(path, out) for path in sources):
            raise ValueError(f"out: expected a file other than the input and the model, got {out}")
    task = Task(
        column=column,
        methods=(methods,) if isinstance(methods, str) else tuple(methods),
        model=model,
        settings=Settings.from_options(settings),
        columns=None if columns is None else tuple(columns),
    )
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "in.parquet"
        folder = Path(work) / "out"
        is_frame = hasattr(table, "iloc")
        if isinstance(table, str | os.PathLike):
            source = Path(table)
        else:
            if is_frame:
                arrow = pa.Table.from_pandas(table, preserve_index=False)
            elif isinstance(table, pa.Table | Mapping):
                arrow = pa.table(table)
            else:
                arrow = pa.table({column: list(table)})
            pa.parquet.write_table(arrow, source)
        with planned(source, folder, task, workers=workers) as plan:
            for _ in run(task, plan.missing, workers):
                pass
        if out is not None:
            return write_results(folder, out, form, separator)
        results = pa.concat_tables(result_tables(folder, form))
    if is_frame:
        return results.to_pandas()
    return results
