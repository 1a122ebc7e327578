"""The words that matter most over a corpus, for each explained output: totals and means of a method's scores.

Reads the parts one at a time; memory grows with the number of different words alone. A positive total says that a word
supports the output in the documents where that output is explained: the predicted class, unless the run was given an
output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .inputs import OpenTable, pyarrow
from .plan import read_manifest
from .task import CorpusError


class Word(NamedTuple):
    """A word over the documents of one output: how many have it, and the sum and mean of its scores in them."""

    word: str
    documents: int
    total: float
    mean: float


@dataclass(frozen=True)
class Summary:
    """All words of a corpus with their sums; `top` ranks them.

    Attributes
    ----------
    method : whose scores
    of : rows of the corpus; None where the folder has no manifest
    failed : rows with an error
    outputs : the O outputs that were explained
    documents : (O,) rows explained for each output
    words : (n,) names
    counts, sums : (n, O) documents and sum of scores
    """

    method: str
    of: int | None
    failed: int
    outputs: tuple[str, ...]
    documents: NDArray[np.int64]
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    sums: Array

    @property
    def rows(self) -> int:
        """Rows that are there, with an explanation or an error."""
        return int(self.documents.sum()) + self.failed

    def top(self, output: str, n: int = 20, by: str = "total", least_documents: int = 1) -> list[Word]:
        """The n strongest words of an output by |total| or |mean|, among those in at least some documents.

        A mean over one document says little; `least_documents` keeps such words out of a ranking by mean.
        """
        if by not in ("total", "mean"):
            raise ValueError(f"by: expected 'total' or 'mean', got {by!r}")
        if output not in self.outputs:
            raise ValueError(f"output: expected one of {', '.join(self.outputs)}, got {output!r}")
        column = self.outputs.index(output)
        documents, total = self.counts[:, column], self.sums[:, column]
        mean = total / np.maximum(documents, 1)
        strength = np.where(documents >= max(1, least_documents), np.abs(total if by == "total" else mean), -1.0)
        order = np.argsort(-strength, kind="stable")[:n]
        return [
            Word(self.words[j], int(documents[j]), float(total[j]), float(mean[j])) for j in order if strength[j] >= 0
        ]


def summarize(folder: str | os.PathLike[str], method: str | None = None) -> Summary:
    """Summary of a folder of parts; `method` is one of its methods, by default its first.

    A word that several players of a document share (`players="positions"`) counts once, with the sum of its scores.
    """
    parts = sorted(Path(folder).glob("part-*.parquet"))
    if not parts:
        raise CorpusError(f"{folder}: expected the parts of a corpus run (part-000000.parquet, ...), found none")
    methods = _methods(parts[0])
    method = methods[0] if method is None else method
    if method not in methods:
        raise CorpusError(f"{folder}: expected a method among {', '.join(methods)}, got {method!r}")
    manifest = read_manifest(folder)
    words: dict[str, int] = {}
    outputs: dict[str, int] = {}
    counts, sums = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))
    documents = np.zeros(0, dtype=np.int64)
    failed = 0
    for part in parts:
        read = _read(part, method, words, outputs)
        failed += read.failed
        grow = ((0, len(words) - counts.shape[0]), (0, len(outputs) - counts.shape[1]))
        counts, sums, documents = np.pad(counts, grow), np.pad(sums, grow), np.pad(documents, grow[1])
        documents += np.bincount(read.outputs, minlength=len(outputs))
        document = np.repeat(np.arange(len(read.lengths)), read.lengths)
        np.add.at(sums, (read.words, read.outputs[document]), read.scores)
        once = np.unique(np.stack([read.words, document]), axis=1)
        np.add.at(counts, (once[0], read.outputs[once[1]]), 1)
    of = None if manifest is None else int(manifest["rows"])
    return Summary(method, of, failed, tuple(outputs), documents, tuple(words), counts, sums)


def _methods(part: Path) -> list[str]:
    with OpenTable(part) as table:
        names = table.schema.names
    return [name for name in names if f"{name}_base" in names and f"{name}_error" in names]


class _Read(NamedTuple):
    """Good rows of a part: ids of words and scores in one line each, players and output of each row; bad rows."""

    words: NDArray[np.int64]
    scores: Array
    lengths: NDArray[np.int64]
    outputs: NDArray[np.int64]
    failed: int


def _read(part: Path, method: str, words: dict[str, int], outputs: dict[str, int]) -> _Read:
    pa = pyarrow()
    table = pa.parquet.read_table(part, columns=["labels", method, "output", "error"], partitioning=None)
    good = table.filter(pa.compute.is_null(table["error"])).combine_chunks()
    lengths = pa.compute.list_value_length(good["labels"]).to_numpy().astype(np.int64)
    scores = pa.compute.list_flatten(good[method]).to_numpy()
    labels = _numbered(pa.compute.list_flatten(good["labels"]), words)
    return _Read(labels, scores, lengths, _numbered(good["output"], outputs), table.num_rows - good.num_rows)


def _numbered(names: Any, index: dict[str, int]) -> NDArray[np.int64]:
    """The number of each name; new ones are added, in order of first appearance."""
    pa = pyarrow()
    encoded = pa.concat_arrays(names.chunks).dictionary_encode() if names.num_chunks else None
    if encoded is None or not len(encoded):
        return np.zeros(0, dtype=np.int64)
    numbers = np.array([index.setdefault(name, len(index)) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return numbers[encoded.indices.to_numpy()]


def plot_summary(words: list[Word], title: str, by: str = "total", ax: Any = None) -> Any:
    """Bars of what the words are ordered by, largest first; returns the Axes. Needs the `plots` extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'attn-closed-form[plots]'") from None
    from ..show.palette import AGAINST, FOR
    from ..show.sanitize import visible

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 0.6 + 0.26 * len(words)), layout="constrained")
    place = np.arange(len(words))[::-1]
    length = np.array([getattr(word, by) for word in words])
    ax.barh(place, length, color=[np.divide(FOR if x > 0 else AGAINST, 255) for x in length])
    ax.set_yticks(place, [f"{visible(word.word)}  ({word.documents:,})".replace("$", r"\$") for word in words])
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set_xlabel(f"{by} over the documents that have the word (their number in brackets)")
    ax.set_title(title, fontsize=10)
    ax.margins(y=0.01)
    return ax
