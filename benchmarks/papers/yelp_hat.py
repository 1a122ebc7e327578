"""Human attention on Yelp reviews (Sen et al., 2020; P2 appendix E.3), in its original format.

`load_yelp_hat` reads `ham_part*.csv`: one row per annotator, the chosen words in HTML spans.
Nothing is downloaded: an error names the file that is expected and its address.
`jax_model/training/imdb.py` reads IMDB's reviews.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HAT_HOME = "https://github.com/cansusen/Human-Attention-for-Text-Classification"
HAT_COLUMNS = ("Input.label", "Input.text", "Answer.Q1Answer", "Answer.html_output")


class HatReview(NamedTuple):
    """A Yelp review with the words that people chose as deciding its sentiment.

    text : the review; label : 1 = positive; words : n words, as the annotators saw them;
    spans : n pairs (start, end), each word's place in `text`;
    chosen : (annotators, n) bool; answers : what each annotator took the sentiment for
        ("yes" = positive, "no", "idk").
    """

    text: str
    label: int
    words: list[str]
    spans: list[tuple[int, int]]
    chosen: NDArray[np.bool_]
    answers: list[str]

    @property
    def consensus(self) -> NDArray[np.bool_]:
        """(n,) words that every annotator chose: the consensus attention map (P2 appendix E.3)."""
        return np.asarray(self.chosen.all(axis=0))

    def at_spans(self, spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
        """Consensus at other spans of the text: true where a span meets a chosen word (P2 appendix
        E.3).

        Parameters
        ----------
        spans : T pairs (start, end), such as `[(t.start, t.end) for t in tokenize(review.text)]`

        Returns
        -------
        (T,) bool
        """
        marked = np.zeros(len(self.text) + 1, dtype=np.int64)
        for (start, end), on in zip(self.spans, self.consensus, strict=True):
            marked[start:end] = on
        total = np.concatenate([[0], np.cumsum(marked)])
        return np.array([total[end] > total[start] for start, end in spans], dtype=np.bool_)


def load_yelp_hat(path: str | os.PathLike[str]) -> list[HatReview]:
    r"""Human attention on Yelp reviews (Sen et al., 2020), from its CSV files.

    Rows are grouped by review; the annotators' words are matched with the review's own, so that
    extra markup which some browsers left in the answers does no harm. Annotators whose answer has
    other words than the review are left out, and a review without annotators too.

    Parameters
    ----------
    path : a CSV file, or a folder with files `ham_part*.csv`

    Returns
    -------
    reviews, in the order of the files

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "ham_part0.csv"
    ...     html = "<span>Not</span> <span class=''active''>good!</span>".replace("''", '""')
    ...     _ = file.write_text(
    ...         f'{",".join(HAT_COLUMNS)}\n0,Not good!,no,"{html}"\n', encoding="utf-8"
    ...     )
    ...     review = load_yelp_hat(folder)[0]
    >>> review.words, review.consensus
    (['Not', 'good!'], array([False,  True]))
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("ham_part*.csv"))
    elif path.is_file():
        files = [path]
    else:
        files = []
    if not files:
        raise FileNotFoundError(
            f"{path}: expected a Yelp-HAT file ham_part*.csv or a folder of them, from {HAT_HOME}"
        )
    return [review for file in files for review in _hat_file(file)]


def _hat_file(file: Path) -> Iterator[HatReview]:
    rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            columns = tuple(reader.fieldnames or ())
            if not set(HAT_COLUMNS) <= set(columns):
                raise ValueError(
                    f"{file}: expected the columns {HAT_COLUMNS}, got {columns}; see {HAT_HOME}"
                )
            for row in reader:
                label, text, answer, html = (row[name] for name in HAT_COLUMNS)
                if label not in ("0", "1") or text is None or html is None:
                    raise ValueError(
                        f"{file}: line {reader.line_num}: expected a label 0 or 1 and four "
                        f"columns, got {row}"
                    )
                rows.setdefault((text, label), []).append((answer, html))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{file}: expected a UTF-8 CSV file of Yelp-HAT, got {error}; see {HAT_HOME}"
        ) from None
    for (text, label), answers in rows.items():
        spans = _word_spans(text)
        words = [text[start:end] for start, end in spans]
        read = [(answer, *_hat_words(html)) for answer, html in answers]
        agreeing = [(answer, chosen) for answer, seen, chosen in read if seen == words]
        if agreeing and words:
            chosen = np.array([c for _, c in agreeing], dtype=np.bool_)
            yield HatReview(
                text, int(label), words, spans, chosen, [answer for answer, _ in agreeing]
            )


def _word_spans(text: str) -> list[tuple[int, int]]:
    spans = []
    start = 0
    for word in text.split():
        start = text.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return spans


def _hat_words(html: str) -> tuple[list[str], list[bool]]:
    reader = _SpanReader()
    reader.feed(html)
    reader.close()
    return reader.words, reader.chosen


class _SpanReader(HTMLParser):
    """Words of `<span>` elements and whether each is of class "active"; other elements are
    transparent.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.chosen: list[bool] = []
        self._parts: list[str] | None = None
        self._active = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "span":
            self._parts = []
            self._active = "active" in (dict(attrs).get("class") or "").split()

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self._parts is not None:
            words = "".join(self._parts).split()
            self.words += words
            self.chosen += [self._active] * len(words)
            self._parts = None
