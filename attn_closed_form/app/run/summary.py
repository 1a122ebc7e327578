"""Summaries of a run: the words behind each explained output, and the table of all bags.

Parts are read one at a time, so memory grows only with the number of different words. A positive
total means that a word supports the output in the documents where that output is explained.
`explanations/word_effects.py` has the means and intervals of a word, and `summary_page.py` the page
and the plot.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._arrays import choice
from ..._types import Array
from ..explanations.methods import METHODS
from ..explanations.word_effects import ORDERS, WordEffect, word_effect
from ..files.atomic import replacing
from ..models.scale import ExplainedScale
from ..show.exports import spreadsheet_cell
from .columns import BAG_COLUMNS
from .long_form import methods_of
from .plan import read_manifest
from .task import RunError, pyarrow
from .writers import parts_of

# The table of all bags, in the folder of a run.
BAG_TABLE = "bags.csv"
# The row of a word without an example, in a run whose rows have no numbers.
NO_EXAMPLE = -1


@dataclass(frozen=True)
class Summary:
    """All words of a run with their sums; `top` ranks them.

    Rows that were explained on another scale than the first row have separate outputs, with the
    scale after the name.
    """

    method: str
    of: int | None  # rows of the whole run; None if the folder has no manifest
    failed: int
    outputs: tuple[str, ...]  # the O outputs that were explained
    scales: tuple[ExplainedScale, ...]  # (O,) the scale of each output's scores
    documents: NDArray[np.int64]  # (O,) rows explained for each output
    words: tuple[str, ...]
    counts: NDArray[np.int64]  # (n, O) documents that contain a word
    sums: Array  # (n, O) of its scores in them
    squares: Array  # (n, O) of the squares of its scores in them
    examples: NDArray[np.int64]  # (n, O) rows with its largest absolute score, or NO_EXAMPLE
    example_scores: Array  # (n, O) those scores
    # The largest guaranteed error of a score; None if there is no guarantee.
    error: float | None = None

    @property
    def rows(self) -> int:
        """Rows on disk, with an explanation or an error."""
        return int(self.documents.sum()) + self.failed

    def scale(self, output: str) -> ExplainedScale:
        """Return the scale of an output's scores."""
        return self.scales[self.outputs.index(output)]

    def documents_of(self, output: str) -> int:
        """Return the number of documents in which an output is explained."""
        return int(self.documents[self.outputs.index(output)])

    def top(
        self,
        output: str,
        n: int = 20,
        by: str = "total",
        least_documents: int = 1,
        side: str | None = None,
    ) -> list[WordEffect]:
        """Return the n strongest words of an output by |total| or |mean|, if they are in enough
        documents.

        `side` "supports" keeps the words that raise the output, "opposes" those that lower it.
        """
        if side not in (None, "supports", "opposes"):
            raise ValueError(f"side: expected 'supports' or 'opposes', got {side!r}")
        choice("by", by, ORDERS)
        if output not in self.outputs:
            raise ValueError(f"output: expected one of {', '.join(self.outputs)}, got {output!r}")
        column = self.outputs.index(output)
        documents = self.counts[:, column]
        total = self.sums[:, column]
        # A word that does not occur with this output is not kept, and must not divide by 0.
        mean = total / np.maximum(documents, 1)
        kept = documents >= max(1, least_documents)
        if side == "supports":
            kept &= total > 0
        elif side == "opposes":
            kept &= total < 0
        strength = np.abs(mean)
        if by == "total":
            strength = np.abs(total)
        # Words that are not kept have the strength -1, behind all others.
        order = np.argsort(-np.where(kept, strength, -1.0), kind="stable")[:n]
        # The first n may reach into the words that are not kept.
        return [self._word(j, column) for j in order[kept[order]].tolist()]

    def _word(self, j: int, column: int) -> WordEffect:
        """Return the effect of word j of an output."""
        example: int | None = int(self.examples[j, column])
        if example == NO_EXAMPLE:
            example = None
        return word_effect(
            word=self.words[j],
            documents=int(self.counts[j, column]),
            total=float(self.sums[j, column]),
            squares=float(self.squares[j, column]),
            all_documents=int(self.documents[column]),
            example=example,
            example_score=float(self.example_scores[j, column]),
        )

    def sides(
        self, output: str, side: str | None = None, **options: Any
    ) -> dict[str, list[WordEffect]]:
        """Return the strongest words for and against an output, ranked by `top`; with `side`, one
        of the two.
        """
        # The headings of the two sides of a summary, by their names for `Summary.top`.
        sides = {"supports": "for", "opposes": "against"}
        return {
            heading: self.top(output, side=name, **options)
            for name, heading in sides.items()
            if side in (None, name)
        }


def summarize(folder: str | os.PathLike[str], method: str | None = None) -> Summary:
    """Summarize a folder of parts, by default for its first method.

    A word counts once per document.
    """
    pa = pyarrow()
    parts = parts_of(folder)
    # All parts of a run have the schema of its manifest.
    names = pa.parquet.read_schema(parts[0]).names
    methods = methods_of(names)
    if not methods:
        raise RunError(f"{folder}: expected scores of a method of this version; run it again")
    if method is None:
        method = methods[0]
    if method not in methods:
        raise RunError(f"{folder}: expected a method among {', '.join(methods)}, got {method!r}")
    columns = ["labels", method, f"{method}_error", "output", "error"]
    columns += [name for name in ("scale", "row") if name in names]
    totals = Totals(method)
    for part in parts:
        totals.add(pa.parquet.read_table(part, columns=columns, partitioning=None))
    manifest = read_manifest(folder)
    return totals.summary(None if manifest is None else int(manifest["rows"]))


class Totals:
    """Sums over the parts of a run for one method, by word and by explained output.

    A word and an output get numbers when they first appear, and the arrays grow with them.
    """

    def __init__(self, method: str) -> None:
        self.method = method
        self.words: dict[str, int] = {}
        self.outputs: dict[str, int] = {}
        self.scales: dict[str, str] = {}  # by output
        self.failed = 0
        self.error: float | None = 0.0
        self.documents = np.zeros(0, dtype=np.int64)
        self.counts = np.zeros((0, 0), dtype=np.int64)
        self.sums = np.zeros((0, 0))
        self.squares = np.zeros((0, 0))
        self.examples = np.zeros((0, 0), dtype=np.int64)
        self.example_scores = np.zeros((0, 0))

    def add(self, part: Any) -> None:
        """Add the rows of a part."""
        compute = pyarrow().compute
        table = part.filter(compute.is_null(part["error"])).combine_chunks()
        self.failed += part.num_rows - table.num_rows
        self._add_errors(table[f"{self.method}_error"])
        of_players = _numbered(compute.list_flatten(table["labels"]), self.words)
        of_documents = self._numbered_outputs(table)
        self._grow()
        self.documents += np.bincount(of_documents, minlength=len(self.outputs))
        lengths = compute.list_value_length(table["labels"]).to_numpy().astype(np.int64)
        document_of_player = np.repeat(np.arange(len(lengths)), lengths)
        # One entry per word and document, with the sum of the scores of its players.
        pairs = np.stack([of_players, document_of_player])
        (word, document), entry = np.unique(pairs, axis=1, return_inverse=True)
        player_scores = compute.list_flatten(table[self.method]).to_numpy()
        scores = np.bincount(entry.ravel(), player_scores, word.size).astype(np.float64)
        # The weakest entry first, so that the strongest of several examples is kept.
        order = np.argsort(np.abs(scores), kind="stable")
        rows = None
        if "row" in table.column_names:
            rows = table["row"].to_numpy()[document[order]]
        self._add_entries(
            word[order], of_documents[document[order]], scores=scores[order], rows=rows
        )

    def _add_errors(self, errors: Any) -> None:
        """Keep the largest guaranteed error, or None as soon as a row has no guarantee."""
        if errors.null_count:
            self.error = None
        elif self.error is not None and len(errors):
            self.error = max(self.error, pyarrow().compute.max(errors).as_py())

    def _numbered_outputs(self, table: Any) -> NDArray[np.int64]:
        """Return the number of the explained output of each document, and keep the scales of the
        outputs.
        """
        names = table["output"].to_pylist()
        if "scale" not in table.column_names or METHODS[self.method].on_logits:
            scales = ["logit"] * len(names)
        else:
            scales = table["scale"].to_pylist()
        # The scale that came first. Sums over two scales would mean nothing, so outputs on another
        # one have a name of their own.
        first = [*self.scales.values(), *scales][:1]
        for i, scale in enumerate(scales):
            if scale not in first:
                names[i] = f"{names[i]} ({scale})"
        self.scales |= dict(zip(names, scales, strict=True))
        return _numbered(pyarrow().chunked_array([names], "string"), self.outputs)

    def _grow(self) -> None:
        """Make room for the words and outputs that are new."""
        words, outputs = self.counts.shape
        room = ((0, len(self.words) - words), (0, len(self.outputs) - outputs))
        self.documents = np.pad(self.documents, room[1])
        self.counts = np.pad(self.counts, room)
        self.sums = np.pad(self.sums, room)
        self.squares = np.pad(self.squares, room)
        self.examples = np.pad(self.examples, room, constant_values=NO_EXAMPLE)
        self.example_scores = np.pad(self.example_scores, room)

    def _add_entries(
        self,
        word: NDArray[np.int64],
        output: NDArray[np.int64],
        scores: Array,
        rows: NDArray[np.int64] | None,
    ) -> None:
        """Add entries, each with its word, output, score and row, in the order of their
        strength.
        """
        place = (word, output)
        # A place may occur several times, which `self.counts[place] += 1` would count once.
        np.add.at(self.counts, place, 1)
        np.add.at(self.sums, place, scores)
        np.add.at(self.squares, place, scores**2)
        # With >=, a word whose scores are all 0 has an example, too.
        stronger = np.abs(scores) >= np.abs(self.example_scores[place])
        place = (word[stronger], output[stronger])
        # Of several entries with one place, NumPy keeps the last one, which is the strongest.
        self.example_scores[place] = scores[stronger]
        if rows is not None:
            self.examples[place] = rows[stronger]

    def summary(self, rows: int | None) -> Summary:
        """Return the summary; `rows` is the number of rows of the whole run, if it is known."""
        return Summary(
            method=self.method,
            of=rows,
            failed=self.failed,
            outputs=tuple(self.outputs),
            scales=tuple(ExplainedScale(self.scales[name]) for name in self.outputs),
            documents=self.documents,
            words=tuple(self.words),
            counts=self.counts,
            sums=self.sums,
            squares=self.squares,
            examples=self.examples,
            example_scores=self.example_scores,
            error=self.error,
        )


def _numbered(names: Any, index: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each name; new names are added in order of first appearance."""
    if not len(names):
        return np.zeros(0, dtype=np.int64)
    # A loop of Python sees each different name once, not every row.
    encoded = names.combine_chunks().dictionary_encode()
    numbers = [index.setdefault(name, len(index)) for name in encoded.dictionary.to_pylist()]
    return np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]


def write_bag_table(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Write `bags.csv`, one row per bag in the order of their names, and return the rows."""
    columns = ("output", "scale", "prediction", "probability", *BAG_COLUMNS, "error")
    rows = []
    for part in sorted(Path(folder).glob("part-*.parquet")):
        table = pyarrow().parquet.read_table(part, columns=["path", *columns], partitioning=None)
        rows += table.to_pylist()
    rows.sort(key=lambda row: row["path"])
    rows = [{"bag": Path(row.pop("path")).stem, **row} for row in rows]
    with (
        replacing(Path(folder) / BAG_TABLE) as partial,
        partial.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.DictWriter(stream, ("bag", *columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: spreadsheet_cell(row[name]) for name in row} for row in rows)
    return rows
