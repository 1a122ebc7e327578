"""Model files: weights and vocabulary together, and the model that comes with the package.

A model file is a weights file (`weights_io.py`) with one more array, `vocabulary` (`text.py`). The shipped model is
`demo_model.npz` beside this module, float32; MODEL_CARD.md says how it was trained and how good it is. Nothing is read
before `load_demo_model` is called.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from ..classifier.files import read_arrays, weights_from_arrays, weights_to_arrays, write_arrays
from ..classifier.weights import AttentionWeights
from .text import CLS, UNK, Vocabulary

DEMO_MODEL = Path(__file__).parents[1] / "demo_model.npz"


@functools.cache
def load_demo_model() -> tuple[AttentionWeights, Vocabulary]:
    """The shipped sentiment model: one output, positive for a review that likes its film.

    Trained on IMDB (P1 appendix F: K = 6 heads, T_max = 256, d_e = 128, d_att = d_out = 64); see MODEL_CARD.md. Read
    once and kept: both parts are immutable.

    Returns
    -------
    weights, vocabulary

    Examples
    --------
    >>> from attn_closed_form import predict
    >>> weights, vocabulary = load_demo_model()
    >>> bool(predict(weights, vocabulary.encode("A wonderful film."))[0] > 0)
    True
    """
    return load_model(DEMO_MODEL)


def save_model(
    weights: AttentionWeights,
    vocabulary: Vocabulary,
    path: str | os.PathLike[str],
    dtype: DTypeLike = np.float64,
) -> None:
    """Write weights and vocabulary to one `.npz` or `.safetensors` file.

    Parameters
    ----------
    weights : AttentionWeights
    vocabulary : its D words, with [CLS] at `weights.cls` and [UNK] at `weights.unk`
    path : the file, replaced whole or not at all
    dtype : float64 (exact), float32 or float16: the numbers in the file are rounded to it. A model loaded from a
        rounded file is float64 again, and exactly the rounded numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from attn_closed_form import random_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.npz"
    ...     save_model(random_weights(seed=0, D=3), Vocabulary(["[CLS]", "[UNK]", "fine"]), path)
    ...     load_model(path)[1]
    Vocabulary(3 words)
    """
    stored = np.dtype(dtype)
    if stored not in (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)):
        raise ValueError(f"dtype: expected float64, float32 or float16, got {stored}")
    _check_pair(weights, vocabulary, "vocabulary")
    arrays = weights_to_arrays(weights)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                rounded = array.astype(stored)
            if not np.isfinite(rounded).all():
                raise ValueError(f"dtype: {name} has numbers up to {np.abs(array).max():.3g}, too large for {stored}")
            arrays[name] = rounded
    write_arrays({**arrays, "vocabulary": vocabulary.to_array()}, path)


def load_model(path: str | os.PathLike[str]) -> tuple[AttentionWeights, Vocabulary]:
    """Weights and vocabulary of a file written by `save_model`.

    Raises
    ------
    FileNotFoundError, ValueError
        naming the file: not readable, without a vocabulary, or with one that does not fit the weights
    """
    arrays = read_arrays(path)
    if "vocabulary" not in arrays:
        raise ValueError(
            f"{path}: expected an array 'vocabulary', got only {sorted(arrays)}; load_weights reads bare weights"
        )
    weights = weights_from_arrays(arrays, str(path))
    try:
        vocabulary = Vocabulary.from_array(arrays["vocabulary"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _check_pair(weights, vocabulary, str(path))
    return weights, vocabulary


def _check_pair(weights: AttentionWeights, vocabulary: Vocabulary, source: str) -> None:
    if len(vocabulary) != weights.D:
        raise ValueError(f"{source}: expected D={weights.D} words, as many as rows of W_e, got {len(vocabulary)}")
    if (vocabulary.cls_id, vocabulary.unk_id) != (weights.cls, weights.unk):
        raise ValueError(
            f"{source}: expected {CLS} at id {weights.cls} and {UNK} at id {weights.unk}, "
            f"got {vocabulary.cls_id} and {vocabulary.unk_id}"
        )
