"""Open any model file by what it holds: the one door of the command line, the page and the corpus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..models.bag_classifier import BagClassifier
from ..models.protocol import Model
from ..models.score_table import ScoreTable
from .bags import read_numpy
from .fasttext_files import is_fasttext, load_fasttext
from .model_file import load_demo_model, load_model


def open_model(path: str | os.PathLike[str] | None = None, **options: Any) -> Model:
    """The model of a file.

    Parameters
    ----------
    path : a model file that `train` or `save` wrote; the state dict of an attention-pooling network (`.pt`, `.pth`,
        `.npz`, `.safetensors`); a fastText classifier (`.bin`); "scores" for tables of log-masses and values; None for
        the shipped sentiment model
    **options : what the file does not say, for `BagClassifier.from_state_dict`

    Examples
    --------
    >>> open_model()
    TextClassifier(negative, positive; 6 heads, 6,000 words, 255 tokens)
    >>> open_model("scores").groupings
    ('units', 'groups')
    """
    if path is None:
        return load_demo_model()
    if str(path) == "scores":
        return ScoreTable()
    if Path(path).suffix.lower() in (".npz", ".safetensors") and is_text_model(path):
        return load_model(path)
    if Path(path).suffix.lower() == ".bin" and Path(path).is_file() and is_fasttext(path):
        return load_fasttext(path)
    return BagClassifier.from_state_dict(path, **options)


def is_text_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the arrays of a classifier of texts; a bad file is an error that names it."""
    names = set(read_numpy(Path(path), Path(path).suffix.lower()))
    return "vocabulary" in names or {"W_e", "W_q", "W_k", "W_v", "W_l"} <= names
