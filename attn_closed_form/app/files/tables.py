"""Read tables, by row or by column: CSV, TSV, Parquet, Excel, JSON Lines and fastText's lines,
gzip-compressed or not.

This is the only reader of tables: `train`, `corpus`, score tables and the command line all use it.
The format follows from the name (`reviews.csv`, `reviews.tsv.gz`), or from the first bytes if the
name has no known suffix. A row is a dict from column name to value: strings from CSV, TSV and
fastText, typed values from Parquet and JSON. Rows are streamed, so only one row (one batch for
Parquet) is in memory at a time.

- **Encoding.** UTF-8, with or without a byte-order mark, or UTF-16 with one. Anything else is read
  as Windows-1252 (Latin-1) with a `TableWarning`, because a wrong guess shows as odd letters in
  every explanation.
- **Delimiter.** Commas, semicolons and tabs are detected from the header of a CSV file;
  spreadsheets saved in much of Europe have semicolons. Quoted cells may contain delimiters and line
  breaks; lines may end in CRLF.
- **fastText.** A line `__label__sport the text` is a row with the columns `label` and `text`.
- **Labels.** `read_labelled` omits rows without a text or a label, with one `TableWarning` that
  counts them. Integers that a spreadsheet stored as floats (1.0, 2.0) become integers again. A
  single class, a column of measurements (more than 20 different fractions) and a column where more
  than half of the labels differ (an identifier or the text) are errors. Classes are sorted by name,
  or by number if all of them are integers.

Only Parquet needs a package (pyarrow, extra `corpus`), which is imported when such a file is
opened.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check
from .atomic import check_size, reading, regular_file

# Formats by the suffix of a file.
FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".ft": "fasttext",
    ".fasttext": "fasttext",
}
# What an error about the format of a table expects.
EXPECTED = (
    "a CSV, TSV, Parquet, Excel or JSON Lines file, or lines of fastText (__label__NAME TEXT); "
    "each may be gzipped"
)
# fastText's default prefix of a label.
LABEL_PREFIX = "__label__"


class MissingColumn(ValueError):
    """Error for a table without a required column; the message lists the columns of the table."""


class TableWarning(UserWarning):
    """Warning that a table was not in UTF-8, or that some of its rows were omitted."""


def read_rows(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    r"""Yield the rows of a table, in order, one dict per row.

    Parameters
    ----------
    path : a file in one of the formats of this module
    columns : the columns to read, all of which must exist; None reads every column

    Missing cells of a short CSV line and missing keys of a JSON line are None. An error is one line
    that names the file, the line and the reason.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "reviews.csv"
    ...     _ = path.write_text('id;text;label\n1;"Fein; sehr fein";gut\n', encoding="utf-8")
    ...     list(read_rows(path, ["text", "label"]))
    [{'text': 'Fein; sehr fein', 'label': 'gut'}]
    """
    readers = {
        "csv": _csv_rows,
        "tsv": _csv_rows,
        "parquet": _parquet_rows,
        "xlsx": _xlsx_rows,
        "jsonl": _json_rows,
    }
    kind = table_format(path)
    with reading(path, kind):
        yield from readers.get(kind, _fasttext_rows)(Path(path), columns)


def _gathered(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows to keep in memory, or raise an error if a small (compressed) file would fill the
    memory.
    """
    length = 0
    with reading(path, "table"):
        for row in read_rows(path, columns):
            length += sum(len(cell) for cell in row.values() if isinstance(cell, str | bytes))
            check_size(length, Path(path))
            yield row


def read_columns(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """Return the columns of a table by name, or raise a ValueError for a table without rows."""
    rows = list(_gathered(path))
    check(str(path), len(rows) > 0, "a header and at least one row", "none")
    return {name: [row.get(name) for row in rows] for name in rows[0]}


def table_format(path: str | os.PathLike[str]) -> str:
    """Return the format "csv", "tsv", "parquet", "jsonl" or "fasttext" of a file, or raise a
    ValueError.
    """
    path = regular_file(path, EXPECTED)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    with reading(path, "gzip"), _byte_stream(path) as stream:
        start = stream.read(64).lstrip(codecs.BOM_UTF8).lstrip()
    for opening, kind in (
        (b"PAR1", "parquet"),
        (b"{", "jsonl"),
        (LABEL_PREFIX.encode(), "fasttext"),
    ):
        if start.startswith(opening):
            return kind
    raise ValueError(
        f"{path}: expected {EXPECTED}, got a file whose suffix and first bytes do not match any of "
        "them"
    )


def check_columns(
    path: str | os.PathLike[str], names: Sequence[str], wanted: Sequence[str]
) -> None:
    """Raise `MissingColumn` if a column is missing; the message lists the missing and the available
    columns.
    """
    if missing := [name for name in wanted if name not in names]:
        shown = ", ".join(repr(name if len(name) <= 40 else name[:39] + "…") for name in names[:12])
        more = ""
        if len(names) > 12:
            more = f" and {len(names) - 12} more"
        if not names:
            raise ValueError(f"{path}: expected a table with a header, got an empty file")
        raise MissingColumn(
            f"{path}: expected a column {' and one '.join(map(repr, missing))}, got {shown}{more}"
        )


# Bytes and characters


def _byte_stream(path: Path) -> BinaryIO:
    """Open a file as bytes, decompressed if it is gzipped."""
    with path.open("rb") as raw:
        # The first two bytes decide, because the name of a gzip file may lack `.gz`.
        compressed = raw.read(2) == b"\x1f\x8b"
    if compressed:
        return cast(BinaryIO, gzip.open(path))
    return path.open("rb")


def _text_stream(path: Path) -> io.TextIOWrapper:
    """Open a file as text, after determining its encoding by reading it once in blocks."""
    encoding = "utf-8-sig"
    errors = "strict"
    length = 0
    # The decoder is incremental, because a block may end within a character.
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _byte_stream(path) as stream:
        # Bytes per read.
        block_characters = 1 << 20
        while True:
            block = stream.read(block_characters)
            if length == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                encoding = "utf-16"
            length += len(block)
            # A small gzip file could expand without end.
            check_size(length, path)
            try:
                if encoding == "utf-8-sig":
                    decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                message = f"{path}: not UTF-8 (byte {byte:#04x}); read as Windows-1252 (Latin-1)"
                warnings.warn(message, TableWarning, stacklevel=2)
                encoding = "cp1252"
                errors = "replace"  # the five bytes that Windows-1252 lacks become U+FFFD
            if not block:
                break
    # The csv module needs the line ends as they are, because a quoted cell may contain some.
    return io.TextIOWrapper(_byte_stream(path), encoding=encoding, errors=errors, newline="")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield the nonblank lines, numbered from 1.

    Only \n, \r\n and \r end a line, unlike in `str.splitlines`.
    """
    with _text_stream(path) as stream:
        stream.reconfigure(newline=None)
        for number, line in enumerate(stream, 1):
            if stripped := line.strip():
                yield number, stripped


# One reader per format


def _csv_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV or TSV file, whose delimiter is detected from its header."""
    # The csv module rejects cells above 128 KB by default; this limit is the largest C long of
    # every platform.
    cell_limit = 2**31 - 1
    csv.field_size_limit(max(csv.field_size_limit(), cell_limit))
    with _text_stream(path) as stream:
        # A quoted name may contain delimiters, so only what is outside of quotes counts.
        unquoted = "".join(stream.readline().split('"')[::2])
        stream.seek(0)
        delimiter = max(",;\t", key=unquoted.count)
        # The name of a TSV file decides, even if there are commas in its header.
        if table_format(path) == "tsv":
            delimiter = "\t"
        reader = csv.reader(stream, delimiter=delimiter)
        header = [name.strip() for name in next(reader, [])]
        check_columns(path, header, columns or ())
        # Of columns with equal names, the first one is read.
        places = {name: i for i, name in reversed([*enumerate(header)])}
        if columns is None:
            columns = header
        wanted = [(name, places[name]) for name in columns]
        for cells in reader:
            if len(cells) > len(header):
                raise ValueError(
                    f"{path}: line {reader.line_num}: expected {len(header)} cells, got "
                    f"{len(cells)}; a text with delimiters or line breaks must be in double quotes"
                )
            # A line may end early, and a blank line is no row.
            if cells:
                padded = [*cells, *[None] * (len(header) - len(cells))]
                yield {name: padded[i] for name, i in wanted}


def _json_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file with one object per line, or with one array of objects."""
    unchecked = columns or ()
    # Characters in one piece, which take up to thirty times as many bytes in memory.
    max_json = 2**23
    limit = max(max_json, 10 * path.stat().st_size)
    for number, line in _lines(path):
        whole = number == 1 and line.startswith("[")
        # An array may span many lines, so the file is read again as one text.
        if whole and len(line) <= limit:
            with _text_stream(path) as stream:
                line = stream.read(limit + 1)
        if len(line) > limit:
            raise ValueError(
                f"{path}: line {number}: more than {limit:,} characters of JSON from a small file"
            )
        try:
            content = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: line {number}: expected JSON, got {error}") from None
        for row in content if whole else [content]:
            if not isinstance(row, dict):
                raise ValueError(
                    f"{path}: line {number}: expected a JSON object, got {type(row).__name__}"
                )
            # Only the first object must have all columns; a key that is missing later is None.
            check_columns(path, list(row), unchecked)
            unchecked = ()
            yield row if columns is None else {name: row.get(name) for name in columns}
        if whole:
            return


def _fasttext_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the text and the label of every line of a file in the format of fastText."""
    check_columns(path, ("text", "label"), columns or ())
    for number, line in _lines(path):
        words = line.split(maxsplit=1)
        if not words[0].startswith(LABEL_PREFIX) or words[0] == LABEL_PREFIX:
            raise ValueError(
                f"{path}: line {number}: expected {LABEL_PREFIX}NAME TEXT, got {words[0][:40]!r}"
            )
        text = ""
        if len(words) > 1:
            text = words[1]
        if text.startswith(LABEL_PREFIX):
            raise ValueError(f"{path}: line {number}: expected one label, got several")
        row = {"text": text, "label": words[0].removeprefix(LABEL_PREFIX)}
        yield row if columns is None else {name: row[name] for name in columns}


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ImportError(f"{path}: Parquet needs pyarrow: pip install '.[corpus]'") from None
    with ParquetFile(path) as file:
        check_columns(path, file.schema_arrow.names, columns or ())
        # Row groups are checked first, because pyarrow crashes if it reads a column with damaged
        # metadata.
        largest = max(
            (file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)),
            default=0,
        )
        check_size(largest, path)
        # A batch must fit into memory even if every cell is the longest entry of a dictionary.
        rows = min(1024, 2**26 // (largest + 1) + 1)
        for batch in file.iter_batches(
            batch_size=rows, columns=None if columns is None else list(columns)
        ):
            yield from batch.to_pylist()


def _xlsx_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the first sheet, whose first row has the names of the columns; formulas
    have their results.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise ImportError(f"{path}: Excel files need openpyxl: pip install '.[corpus]'") from None
    with zipfile.ZipFile(path) as archive:
        # openpyxl keeps all texts of the workbook in memory.
        check_size(sum(part.file_size for part in archive.infolist()), path)
    workbook = load_workbook(path, read_only=True, data_only=True)
    try:
        # In this mode openpyxl reads one row at a time from the archive.
        rows = workbook.worksheets[0].iter_rows(values_only=True)
        header = next(rows, ())
        names = ["" if name is None else str(name) for name in header]
        check_columns(path, names, columns or ())
        # A column without a name is often a note beside the table.
        kept = [i for i, name in enumerate(names) if name and (columns is None or name in columns)]
        for row in rows:
            # Rows that were cleared remain in a sheet, and cells at the end of a row may be
            # missing.
            if any(cell is not None for cell in row):
                padded = [*row, *[None] * (len(names) - len(row))]
                yield {names[i]: padded[i] for i in kept}
    finally:
        workbook.close()


# Texts with class names


class Labelled(NamedTuple):
    """n texts with their classes: `classes[labels[i]]` is the name of the class of `texts[i]`."""

    texts: list[str]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def take(self, rows: NDArray[np.intp]) -> Labelled:
        """Return some of the rows, with all classes."""
        return Labelled(
            texts=[self.texts[i] for i in rows], labels=self.labels[rows], classes=self.classes
        )


def read_labelled(
    paths: str | os.PathLike[str] | Sequence[Path],
    text_column: str = "text",
    label_column: str = "label",
    classes: Sequence[str] | None = None,
) -> Labelled:
    r"""Read the texts and classes of one table, or of several parts of one.

    Parameters
    ----------
    paths : one or several files in the formats of `read_rows`
    text_column, label_column : names of the columns
    classes : the classes of the training part, if this is a test part; any other class is then an
        error. None collects them from the labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "reviews.txt"
    ...     _ = path.write_text(
    ...         "__label__good A fine film\n__label__bad Dull\n__label__bad Awful\n"
    ...     )
    ...     read_labelled(path)
    Labelled(texts=['A fine film', 'Dull', 'Awful'], labels=array([1, 0, 0]), classes=('bad', 'good'))
    """  # noqa: E501
    if isinstance(paths, (str, os.PathLike)):
        paths = [Path(paths)]
    files = list(paths)
    source = str(files[0])
    if len(files) > 1:
        source += f" and {len(files) - 1} more"
    texts = []
    raw = []
    left_out = 0
    for file in files:
        for text, label in _texts_and_labels(file, text_column, label_column):
            if _is_absent(text) or _is_absent(label):
                left_out += 1
            else:
                texts.append(str(text))
                raw.append(label)
    if left_out:
        shown = (
            f"{source}: omitted {left_out:,} of {left_out + len(texts):,} rows without a text or a "
            "label"
        )
        warnings.warn(shown, TableWarning, stacklevel=2)
    check(str(source), len(texts) > 0, "rows with a text and a label", "none")
    names = class_names(raw, f"{source}: column {label_column!r}")
    if classes is None:
        classes = _classes_among(names, source)
    index = {name: i for i, name in enumerate(classes)}
    unknown = Counter(name for name in names if name not in index)
    if unknown:
        name, count = unknown.most_common(1)[0]
        raise ValueError(
            f"{source}: expected only classes of the training part, got {name[:40]!r} in {count:,} "
            "rows"
        )
    return Labelled(
        texts=texts,
        labels=np.array([index[name] for name in names], dtype=np.int64),
        classes=tuple(classes),
    )


def _texts_and_labels(file: Path, text_column: str, label_column: str) -> Iterator[tuple[Any, Any]]:
    """Read the two columns of a table row by row."""
    try:
        for row in _gathered(file, (text_column, label_column)):
            text = row[text_column]
            if isinstance(text, (list, tuple, dict, bytes)):
                raise ValueError(
                    f"{file}: column {text_column!r}: expected texts, got a {type(text).__name__}"
                )
            yield text, row[label_column]
    except MissingColumn as error:
        raise MissingColumn(
            f"{error}; use --text-column and --label-column to select others"
        ) from None


def _is_absent(value: Any) -> bool:
    """Return whether a cell is empty, a NaN or white space."""
    if value is None:
        return True
    if isinstance(value, float) and math.isnan(value):
        return True
    return not str(value).strip()


def _classes_among(names: Sequence[str], source: str) -> list[str]:
    """Return the classes in the order of their names or numbers, or raise an error if the column
    does not look like labels.
    """
    distinct = set(names)
    if len(distinct) == 1:
        raise ValueError(
            f"{source}: expected at least two classes, got only {names[0]!r} in {len(names):,} rows"
        )
    # Two classes are allowed in a table of any length.
    if len(distinct) > max(2, len(names) / 2):
        raise ValueError(
            f"{source}: expected labels that repeat, got {len(distinct):,} distinct ones in "
            f"{len(names):,} rows; is this the column of the labels?"
        )
    # Grades from 1 to 10 are in the order of the numbers; "02" follows "2".
    if all(re.fullmatch(r"[+-]?\d{1,18}", name) for name in distinct):
        return sorted(distinct, key=lambda name: (int(name), name))
    return sorted(distinct)


def class_names(labels: Sequence[Any], source: str = "labels") -> list[str]:
    """Convert labels of any type to names; integers that are stored as floats become integers
    again.

    >>> class_names([2.0, 10.0, 2.0]), class_names(["ham", "spam"]), class_names([True, False])
    (['2', '10', '2'], ['ham', 'spam'], ['true', 'false'])
    """
    for label in labels:
        if isinstance(label, (list, tuple, dict, set)):
            raise ValueError(
                f"{source}: expected one label per row, got {str(label)[:40]!r}; several are not "
                "supported"
            )
    names = []
    for label in labels:
        name = str(label).strip()
        # As other programs write truth values, and not as Python does.
        if isinstance(label, bool):
            name = name.lower()
        names.append(name)
    # Without a point or an exponent nothing was stored as a float, so "007" stays as it is.
    if any("." in name or "e" in name.lower() for name in names):
        try:
            numbers = [float(name) for name in set(names)]
        except ValueError:
            return names
        if all(number.is_integer() for number in numbers):
            return [str(int(float(name))) for name in names]
        # Tuning: with more different fractions among the labels than this, they are numbers and no
        # classes.
        max_fractions = 20
        if len(numbers) > max_fractions and np.isfinite(numbers).all():
            raise ValueError(
                f"{source}: expected classes, got {len(numbers):,} different fractions such as "
                f"{next(name for name in names if '.' in name)!r}; cut them into classes first"
            )
    return names


def split_files(folder: str | os.PathLike[str]) -> dict[str, list[Path]]:
    """Return the tables of a folder by the part in their name: "train" (required), "valid" and
    "test".

    `train.csv`, `reviews-train.csv.gz` and `train-00000-of-00002.parquet` are training parts; a
    part may have several files.
    """
    parts: dict[str, list[Path]] = {}
    splits = {
        "train": "train|training",
        "valid": "valid|validation|val|dev",
        "test": "test|testing",
    }
    for file in sorted(Path(folder).iterdir()):
        stem = file.name.lower().removesuffix(".gz")
        # Lines of fastText are often in a file without a suffix, or with .txt.
        if file.is_file() and (Path(stem).suffix in FORMATS or Path(stem).suffix in (".txt", "")):
            for part, pattern in splits.items():
                # The part is a word of its own, so that latest.csv is not a test part.
                if re.search(rf"(?:^|[-_. ])(?:{pattern})(?:$|[-_. ])", stem):
                    parts.setdefault(part, []).append(file)
                    break
    if "train" not in parts:
        raise FileNotFoundError(
            f"{folder}: expected a file such as train.csv (and test.csv) in this folder, got none"
        )
    return {part: parts[part] for part in splits if part in parts}
