"""Summaries of a run: the words behind each explained output, and the table of all bags.

Parts are read one at a time, so memory grows only with the number of different words. A positive total means that a
word supports the output in the documents where that output is explained. The score of a word in a document is the sum
over its players there. The interval of its mean is mean +- NORMAL standard errors. It describes other documents like
these, if there are many; it does not describe errors of the scores, which are exact.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._types import Array
from ..explanations.methods import METHODS
from ..files.atomic import replacing
from ..models.scale import ExplainedScale
from ..show.figures import AGAINST, FOR
from ..show.html import page_of, table_of
from ..show.sanitize import escape, visible
from .columns import BAG_COLUMNS
from .plan import read_manifest
from .table import methods_of, parts_of
from .task import RunError, pyarrow

BAG_TABLE = "bags.csv"
# Standard errors in half a 95% interval, and the two sides of a summary by their names for `Summary.top`.
NORMAL = 1.96
SIDES = {"supports": "for", "opposes": "against"}


class Word(NamedTuple):
    """A word in the documents of one output: the number of documents with it, and the sum and the mean of its scores in
    them.

    `half_width` is half of the 95% interval of the mean, None for one document. `example` is the row with the largest
    absolute score, and `example_score` is that score.
    """

    word: str
    documents: int
    total: float
    mean: float
    half_width: float | None = None
    example: int | None = None
    example_score: float = 0.0


@dataclass(frozen=True)
class Summary:
    """All words of a run with their sums; `top` ranks them.

    Rows that were explained on another scale than the first row have separate outputs, with the scale after the name.
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
    examples: NDArray[np.int64]  # (n, O) rows with its largest absolute score; -1 if there is none
    example_scores: Array  # (n, O) those scores

    @property
    def rows(self) -> int:
        """Rows on disk, with an explanation or an error."""
        return int(self.documents.sum()) + self.failed

    def scale(self, output: str) -> ExplainedScale:
        """Return the scale of an output's scores."""
        return self.scales[self.outputs.index(output)]

    def top(
        self,
        output: str,
        n: int = 20,
        by: str = "total",
        least_documents: int = 1,
        side: str | None = None,
    ) -> list[Word]:
        """Return the n strongest words of an output by |total| or |mean|, if they are in enough documents.

        `side` "supports" keeps the words that raise the output, "opposes" those that lower it.
        """
        if side not in (None, "supports", "opposes"):
            raise ValueError(f"side: expected 'supports' or 'opposes', got {side!r}")
        if by not in ("total", "mean"):
            raise ValueError(f"by: expected 'total' or 'mean', got {by!r}")
        if output not in self.outputs:
            raise ValueError(f"output: expected one of {', '.join(self.outputs)}, got {output!r}")
        column = self.outputs.index(output)
        documents = self.counts[:, column]
        total = self.sums[:, column]
        mean = total / np.maximum(documents, 1)
        kept = documents >= max(1, least_documents)
        if side is not None:
            kept &= total > 0 if side == "supports" else total < 0
        strength = np.where(kept, np.abs(total if by == "total" else mean), -1.0)
        order = np.argsort(-strength, kind="stable")[:n]
        variance = np.maximum(self.squares[:, column] - documents * mean**2, 0.0) / np.maximum(
            documents - 1, 1
        )
        half_width = NORMAL * np.sqrt(variance / np.maximum(documents, 1))
        return [
            Word(
                self.words[j],
                int(documents[j]),
                float(total[j]),
                float(mean[j]),
                float(half_width[j]) if documents[j] > 1 else None,
                int(self.examples[j, column]) if self.examples[j, column] >= 0 else None,
                float(self.example_scores[j, column]),
            )
            for j in order
            if strength[j] >= 0
        ]

    def sides(self, output: str, side: str | None = None, **options: Any) -> dict[str, list[Word]]:
        """Return the strongest words for and against an output, ranked by `top`; with `side`, one of the two."""
        return {
            SIDES[one]: self.top(output, side=one, **options)
            for one in SIDES
            if side in (None, one)
        }


def summarize(folder: str | os.PathLike[str], method: str | None = None) -> Summary:
    """Summarize a folder of parts, by default for its first method. A word counts once per document."""
    pa = pyarrow()
    parts = parts_of(folder)
    names = pa.parquet.read_schema(parts[0]).names
    methods = methods_of(names)
    method = methods[0] if method is None else method
    if method not in methods:
        raise RunError(f"{folder}: expected a method among {', '.join(methods)}, got {method!r}")
    words: dict[str, int] = {}
    outputs: dict[str, int] = {}
    scales: dict[str, str] = {}  # by output
    on_logits = "scale" not in names or METHODS[method].on_logits
    documents = np.zeros(0, dtype=np.int64)
    failed = 0
    counts, sums, squares, best = (
        np.zeros((0, 0), dtype=np.int64),
        *(np.zeros((0, 0)) for _ in range(3)),
    )
    examples = np.zeros((0, 0), dtype=np.int64)
    columns = [
        "labels",
        method,
        "output",
        "error",
        *([] if on_logits else ["scale"]),
        *(["row"] * ("row" in names)),
    ]
    for part in parts:
        table = pa.parquet.read_table(part, columns=columns, partitioning=None)
        good = table.filter(pa.compute.is_null(table["error"])).combine_chunks()
        failed += table.num_rows - good.num_rows
        word = _numbered(
            pa.compute.list_flatten(good["labels"]), words
        )  # the word of each player of the part
        named = good["output"]
        scale = ["logit"] * len(good) if on_logits else good["scale"].to_pylist()
        if len({*scale, *list(scales.values())[:1]}) > 1:
            first = next(iter(scales.values()), scale[0])
            marked = zip(named.to_pylist(), scale, strict=True)
            named = pa.chunked_array(
                [[name if on == first else f"{name} ({on})" for name, on in marked]]
            )
        output = _numbered(named, outputs)  # the output of each document
        scales |= dict(zip(named.to_pylist(), scale, strict=True))
        lengths = pa.compute.list_value_length(good["labels"]).to_numpy().astype(np.int64)
        document = np.repeat(np.arange(len(lengths)), lengths)  # the document of each player
        grow = ((0, len(words) - counts.shape[0]), (0, len(outputs) - counts.shape[1]))
        sums, squares, best = (np.pad(array, grow) for array in (sums, squares, best))
        counts = np.pad(counts, grow)
        examples = np.pad(examples, grow, constant_values=-1)
        documents = np.pad(documents, grow[1]) + np.bincount(output, minlength=len(outputs))
        # One entry per word and document, the weakest first, so that the strongest of several examples is kept.
        (of_word, of_document), entry = np.unique(
            np.stack([word, document]), axis=1, return_inverse=True
        )
        scores = np.bincount(
            entry.ravel(), pa.compute.list_flatten(good[method]).to_numpy(), of_word.size
        )
        order = np.argsort(np.abs(scores), kind="stable")
        scores = scores[order]
        of_document = of_document[order]
        place = of_word[order], output[of_document]
        np.add.at(counts, place, 1)
        np.add.at(sums, place, scores)
        np.add.at(squares, place, scores**2)
        stronger = np.abs(scores) >= np.abs(best[place])
        place = place[0][stronger], place[1][stronger]
        best[place] = scores[stronger]
        if "row" in names:
            examples[place] = good["row"].to_numpy()[of_document[stronger]]
    manifest = read_manifest(folder)
    if manifest is None:
        of = None
    else:
        of = int(manifest["rows"])
    of_outputs = tuple(ExplainedScale(scales[name]) for name in outputs)
    arrays = (counts, sums, squares, examples, best)
    return Summary(method, of, failed, tuple(outputs), of_outputs, documents, tuple(words), *arrays)


def _numbered(names: Any, index: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each name; new names are added in order of first appearance."""
    if names.num_chunks:
        encoded = pyarrow().concat_arrays(names.chunks).dictionary_encode()
    else:
        encoded = None
    if encoded is None or not len(encoded):
        return np.zeros(0, dtype=np.int64)
    numbers = np.array(
        [index.setdefault(name, len(index)) for name in encoded.dictionary.to_pylist()],
        dtype=np.int64,
    )
    return numbers[encoded.indices.to_numpy()]


def interval(word: Word, scale: ExplainedScale) -> str:
    """Format the mean of a word with its 95% interval, on its scale."""
    if word.half_width is None:
        width = ""
    else:
        width = f" ± {scale.digits(word.half_width, '.4f')}"
    return scale.digits(word.mean, "+.4f") + width


def plot_words(
    summary: Summary, words: Mapping[str, list[Word]], path: Any, by: str = "total"
) -> Any:
    """Write a bar chart of the words, with one panel per output, and return the figure. Needs matplotlib.

    If `by` is "mean", the bars have 95% intervals.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install '.[plots]'") from None
    heights = [0.9 + 0.26 * len(ranked) for ranked in words.values()]
    figure, panels = plt.subplots(
        len(words),
        figsize=(7, sum(heights)),
        layout="constrained",
        squeeze=False,
        height_ratios=heights,
    )
    for (output, ranked), ax in zip(words.items(), panels[:, 0], strict=True):
        scale = summary.scale(output)
        place = np.arange(len(ranked))[::-1]
        factor = scale.unit["factor"]
        length = np.array([factor * getattr(word, by) for word in ranked])
        if by == "mean":
            widths = [factor * (word.half_width or 0.0) for word in ranked]
        else:
            widths = None
        color = [np.divide(FOR if x > 0 else AGAINST, 255) for x in length]
        ax.barh(
            place, length, color=color, xerr=widths, error_kw={"ecolor": "0.3", "elinewidth": 0.8}
        )
        ax.set_yticks(
            place,
            [f"{visible(word.word)}  ({word.documents:,})".replace("$", r"\$") for word in ranked],
        )
        ax.axvline(0, color="0.3", lw=0.8)
        ax.set_xlabel(
            f"{scale.titled(by)} over the documents that have the word (their number in brackets)"
        )
        ax.set_title(
            f"{summary.method}, {scale.name}: words that support or oppose {visible(output)}".replace(
                "$", r"\$"
            ),
            fontsize=10,
        )
        ax.margins(y=0.01)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120)
    plt.close(figure)
    return figure


def summary_page(summary: Summary, words: Mapping[str, Mapping[str, list[Word]]]) -> str:
    """Return an HTML page with the words for and against each output, with counts, means, intervals and examples."""
    head = ("word", "documents", "total", "mean, 95% interval", "example: row", "its score")
    body = f"<h1>{escape(summary.method)}: what drives each class</h1>"
    body += f"<p>{summary.rows:,} documents, {summary.failed:,} with an error, {len(summary.words):,} words.</p>"
    for output, sides in words.items():
        scale = summary.scale(output)
        documents = summary.documents[summary.outputs.index(output)]
        if scale.in_percent:
            unit = ", in percentage points"
        else:
            unit = ""
        body += f"<h2>{escape(output)}</h2><p>{scale.name} explained in {documents:,} documents{unit}.</p>"
        for side, ranked in sides.items():
            rows = [
                (
                    word.word,
                    (
                        f"{word.documents:,}",
                        scale.digits(word.total, "+.2f"),
                        interval(word, scale),
                        "" if word.example is None else str(word.example),
                        scale.digits(word.example_score, "+.4f"),
                    ),
                )
                for word in ranked
            ]
            body += f"<h3>{side} {escape(output)}</h3>{table_of(head, rows)}"
    return page_of(f"{summary.method}: what drives each class", body)


def write_bag_table(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Write `bags.csv`, one row per bag in the order of their names, and return the rows."""
    names = ("path", "output", "scale", "prediction", "probability", *BAG_COLUMNS, "error")
    rows = []
    for part in sorted(Path(folder).glob("part-*.parquet")):
        rows += (
            pyarrow().parquet.read_table(part, columns=list(names), partitioning=None).to_pylist()
        )
    rows = [
        {"bag": Path(row.pop("path")).stem, **row}
        for row in sorted(rows, key=lambda row: row["path"])
    ]
    with (
        replacing(Path(folder) / BAG_TABLE) as partial,
        partial.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.DictWriter(stream, ("bag", *names[1:]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows
