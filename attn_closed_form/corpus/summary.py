"""The words that matter most over a corpus: totals and means of an explanation's scores, by predicted class.

Reads the parts that `corpus.py` wrote, one at a time; memory grows with the number of distinct words alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .run import CorpusError, _open, _pyarrow


class Word(NamedTuple):
    """A word over the corpus: documents that have it, and its scores in them, split by the sign of the prediction."""

    word: str
    documents: int
    total: float
    mean: float
    positive_documents: int
    positive_mean: float
    negative_documents: int
    negative_mean: float


@dataclass(frozen=True)
class Summary:
    """All words of a corpus with their sums; `top` ranks them.

    Attributes
    ----------
    method : whose scores
    documents, failed : rows explained, rows with an error
    positive : documents with a prediction above zero
    words : (n,) names
    counts, sums : (n, 2) documents and sum of scores, column 0 for predictions above zero, column 1 for the others
    """

    method: str
    documents: int
    failed: int
    positive: int
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    sums: Array

    def top(self, n: int = 20, by: str = "total", least_documents: int = 1) -> list[Word]:
        """The n strongest words by |total| or |mean|, among those in at least some documents.

        A mean over one document says little; `least_documents` keeps such words out of a ranking by mean.
        """
        if by not in ("total", "mean"):
            raise ValueError(f"by: expected 'total' or 'mean', got {by!r}")
        documents, total = self.counts.sum(axis=1), self.sums.sum(axis=1)
        mean = total / np.maximum(documents, 1)
        strength = np.where(documents >= least_documents, np.abs(total if by == "total" else mean), -1.0)
        order = np.argsort(-strength, kind="stable")[:n]
        each = self.sums / np.maximum(self.counts, 1)
        return [
            Word(
                self.words[j],
                int(documents[j]),
                float(total[j]),
                float(mean[j]),
                int(self.counts[j, 0]),
                float(each[j, 0]),
                int(self.counts[j, 1]),
                float(each[j, 1]),
            )
            for j in order
            if strength[j] >= 0
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
    index: dict[str, int] = {}
    counts, sums = np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2))
    documents = failed = positive = 0
    for part in parts:
        tokens, scores, lengths, predictions, bad = _read(part, method)
        documents, failed, positive = documents + len(lengths), failed + bad, positive + int((predictions > 0).sum())
        ids = np.array([index.setdefault(word, len(index)) for word in tokens], dtype=np.int64)
        grow = len(index) - len(counts)
        counts, sums = np.pad(counts, ((0, grow), (0, 0))), np.pad(sums, ((0, grow), (0, 0)))
        document = np.repeat(np.arange(len(lengths)), lengths)
        column = np.where(predictions > 0, 0, 1)
        np.add.at(sums, (ids, column[document]), scores)
        once = np.unique(np.stack([ids, document]), axis=1)
        np.add.at(counts, (once[0], column[once[1]]), 1)
    return Summary(method, documents, failed, positive, tuple(index), counts, sums)


def _methods(part: Path) -> list[str]:
    with _open(part) as parquet:
        names = parquet.schema_arrow.names
    return [name for name in names if f"{name}_base" in names]


def _read(part: Path, method: str) -> tuple[list[str], Array, NDArray[np.int64], Array, int]:
    """Words and scores of a part's good rows in one line each, players a row, predictions, and the bad rows."""
    pa = _pyarrow()
    table = pa.parquet.read_table(part, columns=["labels", method, "prediction", "error"])
    good = table.filter(pa.compute.is_null(table["error"]))
    lengths = pa.compute.list_value_length(good["labels"]).to_numpy()
    words = pa.compute.list_flatten(good["labels"]).to_pylist()
    scores = pa.compute.list_flatten(good[method]).to_numpy()
    return words, scores, lengths.astype(np.int64), good["prediction"].to_numpy(), table.num_rows - good.num_rows


def plot_summary(words: list[Word], method: str, ax: Any = None) -> Any:
    """Bars of the words' total scores, largest first; returns the Axes. Needs the `plots` extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'attn-closed-form[plots]'") from None
    from ..show.palette import AGAINST, FOR

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 0.6 + 0.26 * len(words)), layout="constrained")
    place = np.arange(len(words))[::-1]
    total = np.array([word.total for word in words])
    ax.barh(place, total, color=[np.divide(FOR if t > 0 else AGAINST, 255) for t in total])
    ax.set_yticks(place, [f"{word.word}  ({word.documents})" for word in words])
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set_xlabel(f"sum of {method} over the corpus")
    ax.set_title("Words that move the predictions most (documents in brackets)", fontsize=10)
    ax.margins(y=0.01)
    return ax
