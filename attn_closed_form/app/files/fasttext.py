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
from typing import Any

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


def _read(data: bytes) -> MeanPooledText:
    """Read a classifier from the bytes of a fastText .bin file, field by field."""
    if int.from_bytes(data[:4], "little") != FASTTEXT_MAGIC:
        raise ValueError("it does not start with fastText's magic number")
    place = 4

    def take(code: str) -> Any:
        nonlocal place
        numbers = struct.unpack_from(f"<{code}", data, place)
        place += struct.calcsize(f"<{code}")
        if len(numbers) == 1:
            return numbers[0]
        return numbers

    # After the magic number: the version, twelve options, and the threshold of frequent words.
    version, _, _, _, _, _, ngrams, loss_code, kind, bucket, minn, maxn, _, _ = take("13id")
    # The code of classifiers among fastText's model_name.
    supervised = 3
    if kind != supervised:
        raise ValueError("it has word vectors; expected a classifier (train_supervised)")
    if ngrams > 1:
        raise ValueError(
            f"it has wordNgrams={ngrams}: pairs of neighbors have vectors, so it is not a pooled "
            "game"
        )
    # fastText's loss_name.
    losses = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
    loss = losses.get(loss_code, "unknown")
    # The losses with one logit per class, and their names in `Model.loss`; "ova" is one against
    # all.
    loss_of_model = {"softmax": "softmax", "ova": "sigmoid"}
    if loss not in loss_of_model:
        raise ValueError(
            f"it has loss {loss!r}: classes have no logits; train with loss 'softmax' or 'ova'"
        )
    if version == 11:  # classifiers of this version had no n-grams
        maxn = 0
    # The sizes of the dictionary: entries, words, labels, tokens, and n-grams left by pruning.
    _, words, labels, _, pruned = take("3i2q")
    names: list[bytes] = []
    for number in range(words + labels):
        end = data.index(b"\0", place)
        names.append(data[place:end])
        place = end + 1
        # An entry ends with its count and whether it is a label.
        if take("qb")[1] != (number >= words):
            raise ValueError("its dictionary does not have all words before all labels")

    def matrix(height: int, width: int | None) -> NDArray[np.float32]:
        nonlocal place
        # Only quantization prunes n-grams.
        if take("b") or pruned > 0:
            raise ValueError(
                "it is quantized and does not store its vectors; explain the original .bin file"
            )
        m, n = take("2q")
        if m != height or n != (width or n) or not 0 < n < 2**31 or m * n * 4 > len(data) - place:
            raise ValueError(
                f"it has a matrix of shape ({m}, {n}) for {height} rows, and {len(data) - place} "
                "bytes remain"
            )
        numbers = np.frombuffer(data, "<f4", m * n, place).reshape(m, n)
        place += numbers.nbytes
        if not np.isfinite(numbers).all():
            raise ValueError("it has vectors that are not finite")
        return numbers

    max_word_bytes = 32  # maximum length of an n-gram; a word has one for each position and length
    if not 0 <= maxn <= max_word_bytes or (maxn > 0 and bucket < 1):
        raise ValueError(f"it has impossible options: maxn={maxn}, bucket={bucket}")
    embeddings = matrix(words + max(bucket, 0), None)
    output = matrix(labels, embeddings.shape[1])
    reader = FastTextReader(
        rows={name: row for row, name in enumerate(names[:words])},
        bucket=bucket,
        minn=minn,
        maxn=maxn,
    )
    return MeanPooledText(
        embeddings,
        output.astype(np.float64),
        np.zeros(len(output)),
        reader,
        tuple(name.decode("utf-8", "replace").removeprefix(LABEL) for name in names[words:]),
        reader.vectors(END_OF_LINE),
        loss=loss_of_model[loss],
    )
