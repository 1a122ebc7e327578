"""fastText's classifiers (`.bin`, written by `train_supervised`), read with NumPy alone.

A file is little-endian. It has the magic number, a version, twelve integers of options and a
number; the dictionary, each entry a text that ends in a zero byte, a count and whether it is a
label; and the matrices of inputs (one row per word, then one per bucket of character n-grams) and
of outputs (one row per label), each with a flag for quantization before its two sizes. Sizes are
compared with the length of the file, and a matrix is a view of its bytes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.mean_text import MeanPooledText, Piece
from .atomic import reading, regular_file

# The first number of a file, FASTTEXT_FILEFORMAT_MAGIC_INT32 in fastText's source.
FASTTEXT_MAGIC = 793712314
# The word that fastText puts after every line.
END_OF_LINE = "</s>"
# The default prefix of labels, which fastText stores with their names.
LABEL = "__label__"
# Words are separated by these characters, as in fastText's Dictionary::readWord.
WORD_ENTRIES = re.compile(r"[^ \n\r\t\v\f\0]+")


@dataclass(frozen=True)
class FastTextReader:
    """A reader that splits words at white space, as fastText does, each with the rows of its
    character n-grams.
    """

    rows: Mapping[bytes, int]  # UTF-8 of a word -> row of its vector
    bucket: int  # number of rows that n-grams share, after those of the words
    minn: int  # minimum and maximum number of characters of an n-gram
    maxn: int

    def __call__(self, text: str) -> list[Piece]:
        """Return the words of a text with the rows of their vectors, without labels and line
        ends.
        """
        words = (
            match
            for match in WORD_ENTRIES.finditer(text)
            if not match[0].startswith(LABEL) and match[0] != END_OF_LINE
        )
        return [
            Piece(label=match[0], start=match.start(), end=match.end(), rows=self.vectors(match[0]))
            for match in words
        ]

    def vectors(self, word: str) -> tuple[int, ...]:
        """Return the row of a word, if it is in the dictionary, and the rows of its n-grams."""
        row = self.rows.get(word.encode("utf-8", "replace"))
        rows = [] if row is None else [row]
        if word != END_OF_LINE:
            # The marks tell an n-gram at the beginning or end of a word from the same letters
            # inside.
            marked = f"<{word}>"
            for start in range(len(marked)):
                for end in range(
                    start + max(self.minn, 1), min(start + self.maxn, len(marked)) + 1
                ):
                    # The marks alone are not n-grams.
                    if end - start > 1 or 0 < start < len(marked) - 1:
                        rows.append(len(self.rows) + _hash(marked[start:end]) % self.bucket)
        return tuple(rows)


def _hash(text: str) -> int:
    """Compute the 32-bit FNV-1a hash with signed bytes, as fastText does."""
    h = 2166136261
    for byte in text.encode("utf-8", "replace"):
        # C++ extends the sign of a char when it becomes an integer of 32 bits.
        h = (h ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
    return h


def is_fasttext(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts with fastText's magic number."""
    with regular_file(path).open("rb") as file:
        return int.from_bytes(file.read(4), "little") == FASTTEXT_MAGIC


def load_fasttext(path: str | os.PathLike[str]) -> MeanPooledText:
    """Load a fastText classifier (`.bin`, `train_supervised`) as a model that can be explained.

    The hidden vector of a text is the mean of the vectors of its words, each with its character
    n-grams (`minn`, `maxn`), and of the end of the line `</s>`, which is part of every text. The
    logits are the output matrix times this vector. A word and its k - 1 n-grams are one player of
    log-mass log k, and `</s>` is the background. Words are split at white space; words that start
    with `__label__` are labels.

    An error is raised for files that only have word vectors, for `wordNgrams` > 1 (pairs of
    neighbors have vectors), for the hierarchical softmax (`loss="hs"`, classes have no logits) and
    for quantized files (their vectors are not stored).
    """
    with reading(path, "fastText"):
        return _read(regular_file(path).read_bytes())


class _Options(NamedTuple):
    """What the head of a file says, in the order of fastText's `Args::save`; the names are
    fastText's.
    """

    version: int
    dim: int
    ws: int
    epoch: int
    min_count: int
    neg: int
    word_ngrams: int
    loss: int
    model: int
    bucket: int
    minn: int
    maxn: int
    lr_update_rate: int
    t: float


class _Dictionary(NamedTuple):
    """The entries of the dictionary in the order of the file, and whether n-grams were pruned."""

    words: list[bytes]
    labels: list[bytes]
    is_pruned: bool


class _Fields:
    """The bytes of a file, which are read field by field."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    @property
    def left(self) -> int:
        """Number of bytes that have not been read."""
        return len(self.data) - self.place

    def numbers(self, code: str) -> tuple[Any, ...]:
        """Read numbers whose types are the letters of `struct`."""
        numbers = struct.unpack_from(f"<{code}", self.data, self.place)
        self.place += struct.calcsize(f"<{code}")
        return numbers

    def text(self) -> bytes:
        """Read a text that ends in a zero byte."""
        end = self.data.index(b"\0", self.place)
        text = self.data[self.place : end]
        self.place = end + 1
        return text

    def matrix(self, height: int, width: int | None, is_pruned: bool) -> NDArray[np.float32]:
        """Read a matrix with its flag for quantization and its sizes, which have to be these."""
        (is_quantized,) = self.numbers("b")
        # Only quantization prunes n-grams.
        if is_quantized or is_pruned:
            raise ValueError(
                "it is quantized and does not store its vectors; explain the original .bin file"
            )
        rows, columns = self.numbers("2q")
        has_the_shape = rows == height and columns == (width or columns)
        is_in_the_file = 0 < columns < 2**31 and rows * columns * 4 <= self.left
        if not has_the_shape or not is_in_the_file:
            raise ValueError(
                f"it has a matrix of shape ({rows}, {columns}) for {height} rows, and {self.left} "
                "bytes remain"
            )
        matrix = np.frombuffer(self.data, "<f4", rows * columns, self.place).reshape(rows, columns)
        self.place += matrix.nbytes
        if not np.isfinite(matrix).all():
            raise ValueError("it has vectors that are not finite")
        return matrix


def _read(data: bytes) -> MeanPooledText:
    """Read a classifier from the bytes of a fastText .bin file."""
    if int.from_bytes(data[:4], "little") != FASTTEXT_MAGIC:
        raise ValueError("it does not start with fastText's magic number")
    fields = _Fields(data)
    _magic = fields.numbers("i")
    options = _Options(*fields.numbers("13id"))
    loss = _loss_of_model(options)
    dictionary = _read_dictionary(fields)
    maxn = options.maxn
    if options.version == 11:  # classifiers of this version had no n-grams
        maxn = 0
    max_word_bytes = 32  # maximum length of an n-gram; a word has one for each position and length
    if not 0 <= maxn <= max_word_bytes or (maxn > 0 and options.bucket < 1):
        raise ValueError(f"it has impossible options: maxn={maxn}, bucket={options.bucket}")
    height = len(dictionary.words) + max(options.bucket, 0)
    embeddings = fields.matrix(height, None, dictionary.is_pruned)
    output = fields.matrix(len(dictionary.labels), embeddings.shape[1], dictionary.is_pruned)
    reader = FastTextReader(
        rows={word: row for row, word in enumerate(dictionary.words)},
        bucket=options.bucket,
        minn=options.minn,
        maxn=maxn,
    )
    names = [label.decode("utf-8", "replace") for label in dictionary.labels]
    return MeanPooledText(
        embeddings,
        output.astype(np.float64),
        np.zeros(len(output)),
        reader,
        tuple(name.removeprefix(LABEL) for name in names),
        reader.vectors(END_OF_LINE),
        loss=loss,
    )


def _loss_of_model(options: _Options) -> str:
    """Return the loss by its name in `MeanPooledText`, or raise an error if the file is not a
    classifier that can be explained.
    """
    # The code of classifiers among fastText's model_name.
    supervised = 3
    if options.model != supervised:
        raise ValueError("it has word vectors; expected a classifier (train_supervised)")
    if options.word_ngrams > 1:
        raise ValueError(
            f"it has wordNgrams={options.word_ngrams}: pairs of neighbors have vectors, so it is "
            "not a pooled game"
        )
    # fastText's loss_name.
    losses = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
    loss = losses.get(options.loss, "unknown")
    # The losses with one logit per class, and their names in `Model.loss`; "ova" is one against
    # all.
    loss_of_model = {"softmax": "softmax", "ova": "sigmoid"}
    if loss not in loss_of_model:
        raise ValueError(
            f"it has loss {loss!r}: classes have no logits; train with loss 'softmax' or 'ova'"
        )
    return loss_of_model[loss]


def _read_dictionary(fields: _Fields) -> _Dictionary:
    """Read the names of the words and of the labels."""
    # Entries, words, labels, tokens, and n-grams left by pruning.
    _, words, labels, _, pruned = fields.numbers("3i2q")
    names: list[bytes] = []
    for number in range(words + labels):
        names.append(fields.text())
        _count, is_label = fields.numbers("qb")
        if is_label != (number >= words):
            raise ValueError("its dictionary does not have all words before all labels")
    return _Dictionary(words=names[:words], labels=names[words:], is_pruned=pruned > 0)
