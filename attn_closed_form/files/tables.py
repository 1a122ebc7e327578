"""Tables, row by row or as columns: CSV, TSV, Parquet, JSON Lines and fastText's lines, gzip-compressed or not.

This is the only reader of tables: `train`, `corpus`, score tables and the command line all use it. The format follows
from the name (`reviews.csv`, `reviews.tsv.gz`), and from the first bytes where the name has no known suffix. A row is a
dict from column name to value: strings from CSV, TSV and fastText, typed values from Parquet and JSON. Rows are
streamed, so memory is that of one row (of one batch for Parquet).

- **Encoding.** UTF-8, with or without a byte-order mark, or UTF-16 with one. Anything else is read as Windows-1252
  (Latin-1) with a `TableWarning`, since a wrong guess shows as odd letters in every explanation.
- **Delimiter.** Commas, semicolons and tabs are detected from the header of a CSV file; spreadsheets saved in much of
  Europe have semicolons. Quoted cells may hold delimiters and line breaks; lines may end in CRLF and have any length.
- **fastText.** A line `__label__sport the text` is a row with the columns `label` and `text`.

Only Parquet needs a package (pyarrow, extra `corpus`); it is imported when such a file is opened.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from .atomic import regular_file

FORMATS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".ft": "fasttext", ".fasttext": "fasttext"},
}
EXPECTED = "a CSV, TSV, Parquet or JSON Lines file, or lines of fastText (__label__NAME TEXT); each may be gzipped"
LABEL_PREFIX = "__label__"
# The csv module refuses cells above 128 KB unless told otherwise; this is the largest C long of every platform.
CELL_LIMIT = 2**31 - 1
_BLOCK = 1 << 20


class MissingColumn(ValueError):
    """A table lacks a column that is needed; the message names the columns that it has."""


class TableWarning(UserWarning):
    """A table was read with a change: in another encoding, or with rows left out."""


def read_rows(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    r"""Rows of a table, in order, one dict per row.

    Parameters
    ----------
    path : a file of one of the formats above
    columns : the columns to read, all of which must be there; None reads every column. Parquet reads no others.

    Yields
    ------
    dict from column name to value; a cell that a short CSV line lacks, or a key that a JSON line lacks, is None

    Raises
    ------
    FileNotFoundError, ValueError
        one line that names the file and the line: absent, damaged, of no known format, or without a column

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "reviews.csv"
    ...     _ = path.write_text('id;text;label\n1;"Fein; sehr fein";gut\n', encoding="utf-8")
    ...     list(read_rows(path, ["text", "label"]))
    [{'text': 'Fein; sehr fein', 'label': 'gut'}]
    """
    path = Path(path)
    readers = {"csv": _csv_rows, "tsv": _csv_rows, "parquet": _parquet_rows, "jsonl": _json_rows}
    kind = table_format(path)
    read = readers.get(kind, _fasttext_rows)
    try:
        yield from read(path, columns)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: damaged gzip file ({error})") from None
    except csv.Error as error:
        raise ValueError(f"{path}: not a readable {kind.upper()} file ({error})") from None


def read_columns(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """Columns of a table by name, read at once; a table without rows is a ValueError."""
    rows = list(read_rows(path))
    if not rows:
        raise ValueError(f"{path}: expected a header and at least one row, got none")
    return {name: [row.get(name) for row in rows] for name in rows[0]}


def table_format(path: str | os.PathLike[str]) -> str:
    """The format of a file: "csv", "tsv", "parquet", "jsonl" or "fasttext".

    Raises
    ------
    FileNotFoundError, ValueError
        there is no such file, or it is of no known format
    """
    path = regular_file(path, EXPECTED)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    try:
        with _byte_stream(path) as stream:
            start = stream.read(64).lstrip(codecs.BOM_UTF8).lstrip()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: damaged gzip file ({error})") from None
    for opening, kind in ((b"PAR1", "parquet"), (b"{", "jsonl"), (LABEL_PREFIX.encode(), "fasttext")):
        if start.startswith(opening):
            return kind
    raise ValueError(f"{path}: expected {EXPECTED}, got a file with another suffix and other first bytes")


def check_columns(path: str | os.PathLike[str], found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `MissingColumn`, which names the missing and the present columns, unless all are present."""
    missing = [name for name in wanted if name not in found]
    if missing:
        shown = ", ".join(repr(name if len(name) <= 40 else name[:39] + "…") for name in found[:12])
        more = f" and {len(found) - 12} more" if len(found) > 12 else ""
        raise MissingColumn(f"{path}: expected a column {' and one '.join(map(repr, missing))}, got {shown}{more}")


# Bytes and characters


def _byte_stream(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed if they are gzip's."""
    with path.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if compressed else path.open("rb")


def _encoding(path: Path) -> str:
    """The encoding of a whole file, read once in blocks."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _byte_stream(path) as stream:
        block = stream.read(_BLOCK)
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        try:
            while block:
                decoder.decode(block)
                block = stream.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            warnings.warn(
                f"{path}: not UTF-8 (byte {byte:#04x}); read as Windows-1252 (Latin-1)", TableWarning, stacklevel=2
            )
            return "cp1252"
    return "utf-8-sig"


def _text_stream(path: Path) -> io.TextIOWrapper:
    encoding = _encoding(path)
    # The five bytes that Windows-1252 leaves open become U+FFFD; UTF-8 was checked to the end.
    errors = "replace" if encoding == "cp1252" else "strict"
    return io.TextIOWrapper(_byte_stream(path), encoding=encoding, errors=errors, newline="")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Lines that are not blank, numbered from 1. Only \n, \r\n and \r end a line, unlike in `str.splitlines`."""
    with _text_stream(path) as stream:
        stream.reconfigure(newline=None)
        for number, line in enumerate(stream, 1):
            if stripped := line.strip():
                yield number, stripped


# One reader per format


def _csv_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(max(csv.field_size_limit(), CELL_LIMIT))
    with _text_stream(path) as stream:
        names = "".join(stream.readline().split('"')[::2])  # quoted names aside
        stream.seek(0)
        delimiter = "\t" if table_format(path) == "tsv" else max(",;\t", key=names.count)
        reader = csv.reader(stream, delimiter=delimiter)
        header = [name.strip() for name in next(reader, [])]
        check_columns(path, header, columns or ())
        wanted = [(name, header.index(name)) for name in (header if columns is None else columns)]
        for cells in reader:
            if len(cells) > len(header):
                raise ValueError(
                    f"{path}: line {reader.line_num}: expected {len(header)} cells, got {len(cells)}; "
                    "a text with delimiters or line breaks must be in double quotes"
                )
            if cells:
                yield {name: cells[i] if i < len(cells) else None for name, i in wanted}


def _json_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    checked = False
    for number, row in _json_values(path):
        if not isinstance(row, dict):
            raise ValueError(f"{path}: line {number}: expected a JSON object, got {type(row).__name__}")
        if not checked:
            check_columns(path, list(row), columns or ())
            checked = True
        yield row if columns is None else {name: row.get(name) for name in columns}


def _json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Values of a file with the number of their line: one value per line, or one array over the whole file."""
    number = 0
    try:
        for number, line in _lines(path):
            if number == 1 and line.startswith("["):
                with _text_stream(path) as stream:
                    yield from ((1, value) for value in json.load(stream))
                return
            yield number, json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: line {number}: expected JSON, got {error}") from None


def _fasttext_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    check_columns(path, ("text", "label"), columns or ())
    for number, line in _lines(path):
        words = line.split(maxsplit=1)
        if not words[0].startswith(LABEL_PREFIX) or words[0] == LABEL_PREFIX:
            raise ValueError(f"{path}: line {number}: expected {LABEL_PREFIX}NAME TEXT, got {words[0][:40]!r}")
        text = words[1] if len(words) > 1 else ""
        if text.startswith(LABEL_PREFIX):
            raise ValueError(f"{path}: line {number}: expected one label, got several")
        row = {"text": text, "label": words[0].removeprefix(LABEL_PREFIX)}
        yield row if columns is None else {name: row[name] for name in columns}


def _parquet_rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ImportError(f"{path}: Parquet needs pyarrow: pip install '.[corpus]'") from None
    try:
        file = ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None
    check_columns(path, file.schema_arrow.names, columns or ())
    for batch in file.iter_batches(batch_size=1024, columns=None if columns is None else list(columns)):
        yield from batch.to_pylist()
