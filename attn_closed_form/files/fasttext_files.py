"""fastText's supervised models (`.bin`), through its package.

The hidden vector of a text is the mean of the vectors of its words, each with its character n-grams (`minn`, `maxn`),
and of the end of the line `</s>`, which every text has; the logits are the output matrix times that. A word and its k
- 1 n-grams are one player of log-mass log k, and `</s>` is the background. Words split at white space, as in fastText;
words that start with the prefix of labels are labels, not words.

Refused, because they are no pooled games: word n-grams (`wordNgrams` > 1: a pair of neighbours has a vector of its
own) and the hierarchical softmax (`loss="hs"`: classes have no logits, only nodes of a tree). Quantised files (`.ftz`)
do not give their vectors.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..models.mean_text import MeanPooledText, Piece

MAGIC = 793712314  # the first four bytes of a .bin file
END_OF_LINE = "</s>"
WORDS = re.compile(r"[^ \n\r\t\v\f\0]+")


class FastTextReader:
    """Reads a text as fastText does; the package is asked for the n-grams of each word."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def model(self) -> Any:
        """FastText's model, loaded on first use (and again in another process)."""
        return _load(self.path)

    @cached_property
    def prefix(self) -> str:
        """What labels start with."""
        return str(self.model.f.getArgs().label)

    def __call__(self, text: str) -> list[Piece]:
        """Words of a text with the rows of their vectors; words without any are left out."""
        found = []
        for match in WORDS.finditer(text):
            word = match[0]
            if word.startswith(self.prefix) or word == END_OF_LINE:
                continue
            rows = tuple(int(row) for row in self.model.get_subwords(word)[1])
            if rows:
                found.append(Piece(word, match.start(), match.end(), rows))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}


def is_fasttext(path: str | os.PathLike[str]) -> bool:
    """Whether a file starts as fastText's do."""
    with Path(path).open("rb") as file:
        return int.from_bytes(file.read(4), "little") == MAGIC


def load_fasttext(path: str | os.PathLike[str]) -> MeanPooledText:
    """A fastText classifier as a model that can be explained.

    Parameters
    ----------
    path : a `.bin` file of `train_supervised`, with `wordNgrams=1` and the loss softmax or one-versus-all

    Raises
    ------
    FileNotFoundError, ImportError, ValueError
        one line: which file, and why it cannot be explained
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if not is_fasttext(path):
        raise ValueError(f"{path}: expected a fastText .bin file, which starts with its magic number")
    model = _load(str(path))
    args = model.f.getArgs()
    if str(args.model).rpartition(".")[2] != "supervised":
        raise ValueError(f"{path}: expected a fastText classifier (train_supervised), got word vectors")
    if args.wordNgrams > 1:
        raise ValueError(
            f"{path}: has wordNgrams={args.wordNgrams}: neighbours have vectors of their own, so it is no pooled game"
        )
    loss = str(args.loss).rpartition(".")[2]
    if loss not in ("softmax", "ova"):
        raise ValueError(f"{path}: has loss {loss!r}: classes have no logits; train with loss 'softmax' or 'ova'")
    if model.is_quantized():
        raise ValueError(f"{path}: is quantised, and does not give its vectors; explain the .bin file it was made of")
    end = [int(row) for row in model.get_subwords(END_OF_LINE)[1]]
    output = np.asarray(model.get_output_matrix(), dtype=np.float64)
    return MeanPooledText(
        np.asarray(model.get_input_matrix()),
        output,
        np.zeros(len(output)),
        FastTextReader(str(path)),
        tuple(str(name).removeprefix(str(args.label)) for name in model.labels),
        tuple(end),
        loss="sigmoid" if loss == "ova" else "softmax",
        source="fasttext",
    )


def _load(path: str) -> Any:
    try:
        import fasttext
    except ImportError:
        raise ImportError(f"{path}: fastText files need its package: pip install fasttext-wheel") from None
    try:
        return fasttext.load_model(path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{path}: expected a fastText .bin file: {str(error).splitlines()[0]}") from None
