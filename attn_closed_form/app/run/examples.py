"""The rows that a summary shows as examples: their texts, where a word occurs in them, and their
predictions.

The results of a run do not repeat the texts unless a user asks for them, so they are read from the
tables that the run has read. If these were moved or changed, the words that the model has read take
the place of the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..files.tables import read_rows
from .inputs import as_text, fingerprint, is_bag
from .plan import read_manifest
from .task import pyarrow
from .writers import parts_of

# Tuning: characters of a snippet to the left and to the right of the word, about two lines on a
# phone.
AROUND = 70
# A line break of HTML, and white space, which a snippet shows as one space.
BREAKS = re.compile(r"(?:<br\s*/?>|\s)+", re.IGNORECASE)


class SnippetPiece(NamedTuple):
    """A piece of a snippet, and whether it is the word."""

    text: str
    marked: bool


@dataclass(frozen=True)
class ExampleRow:
    """One row of a run.

    Attributes
    ----------
    row : its number
    text : the text, or the words that the model has read, separated by spaces; None for an input
        without a text
    is_complete : whether `text` is the text itself
    labels : the names of the players
    spans : for each player, where it occurs in `text`
    output, prediction, probability : as in the columns of the results
    """

    row: int
    text: str | None
    is_complete: bool
    labels: tuple[str, ...]
    spans: tuple[tuple[tuple[int, int], ...], ...]
    output: str
    prediction: float
    probability: float | None

    def snippet(self, word: str) -> list[SnippetPiece]:
        """Return the text around the first occurrence of a word, with all occurrences in it marked.

        >>> row = ExampleRow(0, "A slow start.<br />A wonderful film!", True, ("a", "wonderful"),
        ...                  (((0, 1), (19, 20)), ((21, 30),)), "positive", 0.9, 0.9)
        >>> row.snippet("wonderful")
        [SnippetPiece(text='A slow start. A ', marked=False), SnippetPiece(text='wonderful', marked=True), \
SnippetPiece(text=' film!', marked=False)]
        """  # noqa: E501
        if self.text is None:
            return []
        places = sorted(
            span
            for label, spans in zip(self.labels, self.spans, strict=True)
            for span in spans
            if label == word
        )
        if not places:
            return []
        first, last = places[0]
        start = _cut(self.text, first - AROUND, forward=True)
        stop = _cut(self.text, last + AROUND, forward=False)
        # Spans that overlap a marked one (a word inside a longer token) are not marked again.
        pieces = []
        end = start
        for left, right in places:
            if left >= end and right <= stop:
                pieces.append(SnippetPiece(BREAKS.sub(" ", self.text[end:left]), False))
                pieces.append(SnippetPiece(BREAKS.sub(" ", self.text[left:right]), True))
                end = right
        pieces.append(SnippetPiece(BREAKS.sub(" ", self.text[end:stop]), False))
        if start > 0:
            pieces.insert(0, SnippetPiece("… ", False))
        if stop < len(self.text):
            pieces.append(SnippetPiece(" …", False))
        return [piece for piece in pieces if piece.text]


def _cut(text: str, at: int, forward: bool) -> int:
    """Return where a snippet begins or ends: at a word, near `at`."""
    if at <= 0:
        return 0
    if at >= len(text):
        return len(text)
    # A text without spaces nearby (an address, a language without them) is cut at the character.
    if forward:
        space = text.find(" ", at, at + AROUND // 2 + 1)
        return at if space < 0 else space + 1
    space = text.rfind(" ", at - AROUND // 2, at)
    return at if space < 0 else space


def example_rows(folder: str | os.PathLike[str], rows: Iterable[int]) -> dict[int, ExampleRow]:
    """Return some rows of a run by their numbers; rows with an error are left out."""
    wanted = set(rows)
    texts = dict(input_texts(folder, wanted))
    found = {}
    for row in _stored(folder, wanted):
        if row["error"] is None:
            found[row["row"]] = _example(row, texts.get(row["row"]))
    return found


def _stored(folder: str | os.PathLike[str], wanted: set[int]) -> Iterator[dict[str, Any]]:
    """Yield the stored columns of some rows."""
    pa = pyarrow()
    columns = ["row", "labels", "spans", "output", "prediction", "probability", "error"]
    numbers = pa.array(sorted(wanted), pa.int64())
    for part in parts_of(folder):
        if not set(columns) <= set(pa.parquet.read_schema(part).names):
            continue
        # The small column of numbers tells whether the part has a wanted row.
        there = pa.parquet.read_table(part, columns=["row"], partitioning=None)["row"]
        if pa.compute.any(pa.compute.is_in(there, numbers)).as_py():
            table = pa.parquet.read_table(part, columns=columns, partitioning=None)
            yield from table.filter(pa.compute.is_in(table["row"], numbers)).to_pylist()


def _example(row: dict[str, Any], text: str | None) -> ExampleRow:
    """Return the example of a stored row; without its text, from the words that the model has
    read.
    """
    labels = tuple(row["labels"])
    is_complete = text is not None
    spans: tuple[tuple[tuple[int, int], ...], ...] = ((),) * len(labels)
    if row["spans"] is not None:
        spans = tuple(
            tuple((span["start"], span["end"]) for span in of_player) for of_player in row["spans"]
        )
        if text is None:
            text, spans = _read_words(labels, spans)
    return ExampleRow(
        row=row["row"],
        text=text,
        is_complete=is_complete,
        labels=labels,
        spans=spans,
        output=row["output"],
        prediction=row["prediction"],
        probability=row["probability"],
    )


def _read_words(
    labels: tuple[str, ...], spans: tuple[tuple[tuple[int, int], ...], ...]
) -> tuple[str, tuple[tuple[tuple[int, int], ...], ...]]:
    """Return the words that the model has read as a text, in their order, and the spans of the
    players in it.
    """
    in_order = sorted(
        (start, player) for player, of_player in enumerate(spans) for start, _ in of_player
    )
    places: list[list[tuple[int, int]]] = [[] for _ in labels]
    text = ""
    for _, player in in_order:
        if text:
            text += " "
        places[player].append((len(text), len(text) + len(labels[player])))
        text += labels[player]
    return text, tuple(tuple(each) for each in places)


def input_texts(
    folder: str | os.PathLike[str], wanted: set[int] | None = None
) -> Iterator[tuple[int, str | None]]:
    """Yield the numbers and the texts of rows, in order, from the tables that a run has read.

    `wanted` are numbers of rows; None stands for all of them. Tables that were moved or changed
    since the run, and inputs that are not texts, are left out.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return
    column = manifest["options"]["column"]
    first = 0
    # Rows are numbered through all tables. A table without a wanted row is not opened, because
    # its fingerprint takes a whole read.
    for entry in manifest["files"]:
        stop = first + entry["rows"]
        if wanted is None or any(first <= row < stop for row in wanted):
            for number, value in enumerate(_unchanged_values(entry, column), first):
                is_wanted = wanted is None or number in wanted
                if is_wanted and not isinstance(value, dict):
                    yield number, None if value is None else as_text(value)
        first = stop


def _unchanged_values(entry: Mapping[str, Any], column: str) -> Iterator[Any]:
    """Yield the inputs in a table, if it is still where it was and has the same contents."""
    file = Path(entry.get("path", ""))
    if not file.is_file() or is_bag(file):
        return
    if fingerprint(file)["contents"] == entry["contents"]:
        for row in read_rows(file, [column]):
            yield row[column]
