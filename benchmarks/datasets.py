"""Loaders for the two public corpora of the papers, in their original formats. Standard library and NumPy alone.

IMDB (P1 appendix F): `aclImdb_v1.tar.gz` or the folder that it unpacks to, `{train,test}/{pos,neg}/*.txt`.
Yelp-HAT (P2 appendix E.3): `ham_part*.csv`, one row an annotator, the words that he chose in HTML spans.
Nothing is downloaded: the reader gives a path, and an error says what belongs there and where to get it.
"""

from __future__ import annotations

import csv
import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IMDB_HOME = "https://ai.stanford.edu/~amaas/data/sentiment/"
HAT_HOME = "https://github.com/cansusen/Human-Attention-for-Text-Classification"
HAT_COLUMNS = ("Input.label", "Input.text", "Answer.Q1Answer", "Answer.html_output")
_LABELS = {"neg": 0, "pos": 1}
_GZIP_MAGIC = b"\x1f\x8b"


class Reviews(NamedTuple):
    """Labelled texts: `texts` (n strings), `labels` (n,) int64, 1 = positive, `names` (n file names)."""

    texts: list[str]
    labels: NDArray[np.int64]
    names: list[str]


def load_imdb(path: str | os.PathLike[str], split: str = "train") -> Reviews:
    """The IMDB reviews of Maas et al. (2011), from the archive or its unpacked folder.

    Parameters
    ----------
    path : `aclImdb_v1.tar.gz`, the folder `aclImdb`, or a folder that holds `aclImdb`
    split : "train" or "test", 25,000 reviews each in the original

    Returns
    -------
    Reviews, in the order of their file names, negative ones first; archive and folder give the same

    Raises
    ------
    FileNotFoundError
        nothing there; says what was expected and where to download it
    ValueError
        a damaged archive, one without reviews of the split, or a review that is not UTF-8

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for label, text in (("pos", "Fine."), ("neg", "Dull.")):
    ...         place = pathlib.Path(folder) / "train" / label
    ...         place.mkdir(parents=True)
    ...         _ = (place / "0_9.txt").write_text(text, encoding="utf-8")
    ...     load_imdb(folder, "train")
    Reviews(texts=['Dull.', 'Fine.'], labels=array([0, 1]), names=['train/neg/0_9.txt', 'train/pos/0_9.txt'])
    """
    if split not in ("train", "test"):
        raise ValueError(f"split: expected 'train' or 'test', got {split!r}")
    path = Path(path)
    if path.is_dir():
        files = _imdb_folder(path, split)
    elif path.is_file():
        files = _imdb_archive(path, split)
    else:
        raise FileNotFoundError(
            f"{path}: no such file or folder; expected aclImdb_v1.tar.gz or the folder aclImdb that it unpacks to, "
            f"from {IMDB_HOME}"
        )
    found = sorted(files)
    counts = {label: sum(name.split("/")[1] == label for name, _ in found) for label in _LABELS}
    if not all(counts.values()):
        raise ValueError(
            f"{path}: expected reviews aclImdb/{split}/pos/*.txt and aclImdb/{split}/neg/*.txt, got "
            f"{counts['pos']} and {counts['neg']}; the original is at {IMDB_HOME}"
        )
    texts = []
    for name, raw in found:
        try:
            texts.append(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {name}: expected UTF-8 text, got {error}") from None
    labels = np.array([_LABELS[name.split("/")[1]] for name, _ in found], dtype=np.int64)
    return Reviews(texts, labels, [name for name, _ in found])


def _imdb_folder(path: Path, split: str) -> Iterator[tuple[str, bytes]]:
    root = path if (path / split).is_dir() else path / "aclImdb"
    for label in _LABELS:
        for file in (root / split / label).glob("*.txt"):
            yield f"{split}/{label}/{file.name}", file.read_bytes()


def _imdb_archive(path: Path, split: str) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as raw:
        if raw.read(2) != _GZIP_MAGIC:
            raise ValueError(
                f"{path}: expected the gzip archive aclImdb_v1.tar.gz from {IMDB_HOME}, got another format"
            )
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    name = _imdb_name(member.name, split)
                    if name and member.isfile() and (file := archive.extractfile(member)):
                        data = file.read()
                        if len(data) != member.size:
                            raise EOFError(f"{member.name} is cut short")
                        yield name, data
            # tarfile stops quietly at a broken header; reading on to the end makes gzip check length and checksum.
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError(f"{path}: damaged archive ({error}); download it again from {IMDB_HOME}") from None


def _imdb_name(name: str, split: str) -> str | None:
    """'train/pos/0_9.txt' of a member's name if it is a review of the split."""
    parts = PurePosixPath(name).parts[-3:]
    if len(parts) == 3 and parts[0] == split and parts[1] in _LABELS and parts[2].endswith(".txt"):
        return "/".join(parts)
    return None


class HatReview(NamedTuple):
    """A Yelp review with the words that people chose as deciding its sentiment.

    text : the review; label : 1 = positive; words : n words, as the annotators saw them;
    spans : n pairs (start, end), each word's place in `text`;
    chosen : (annotators, n) bool; answers : what each annotator took the sentiment for ("yes" = positive, "no", "idk").
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
        """Consensus at other spans of the text: true where a span meets a chosen word (P2 appendix E.3).

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

    Rows are grouped by review; the annotators' words are matched with the review's own, so that extra markup which
    some browsers left in the answers does no harm. Annotators whose answer has other words than the review are left
    out, and a review without annotators too.

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
    ...     _ = file.write_text(f'{",".join(HAT_COLUMNS)}\n0,Not good!,no,"{html}"\n', encoding="utf-8")
    ...     review = load_yelp_hat(folder)[0]
    >>> review.words, review.consensus
    (['Not', 'good!'], array([False,  True]))
    """
    path = Path(path)
    files = sorted(path.glob("ham_part*.csv")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise FileNotFoundError(f"{path}: expected a Yelp-HAT file ham_part*.csv or a folder of them, from {HAT_HOME}")
    return [review for file in files for review in _hat_file(file)]


def _hat_file(file: Path) -> Iterator[HatReview]:
    rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            columns = tuple(reader.fieldnames or ())
            if not set(HAT_COLUMNS) <= set(columns):
                raise ValueError(f"{file}: expected the columns {HAT_COLUMNS}, got {columns}; see {HAT_HOME}")
            for row in reader:
                label, text, answer, html = (row[name] for name in HAT_COLUMNS)
                if label not in ("0", "1") or text is None or html is None:
                    raise ValueError(
                        f"{file}: line {reader.line_num}: expected a label 0 or 1 and four columns, got {row}"
                    )
                rows.setdefault((text, label), []).append((answer, html))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file}: expected a UTF-8 CSV file of Yelp-HAT, got {error}; see {HAT_HOME}") from None
    for (text, label), answers in rows.items():
        spans = _word_spans(text)
        words = [text[start:end] for start, end in spans]
        read = [(answer, *_hat_words(html)) for answer, html in answers]
        agreeing = [(answer, chosen) for answer, seen, chosen in read if seen == words]
        if agreeing and words:
            chosen = np.array([c for _, c in agreeing], dtype=np.bool_)
            yield HatReview(text, int(label), words, spans, chosen, [answer for answer, _ in agreeing])


def _word_spans(text: str) -> list[tuple[int, int]]:
    spans, start = [], 0
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
    """Words of `<span>` elements and whether each is of class "active"; other elements are transparent."""

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
