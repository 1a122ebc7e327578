"""Model files: weights, vocabulary, class names and temperature in one file, and the model that comes with the package.

A model file is a weights file (`models/classifier/files.py`) with two more arrays: `vocabulary` (see
`Vocabulary.to_array`) and `about`, the UTF-8 of a JSON object with the class names, the temperature and the model card.
Files without `about` load as well. The shipped model is `demo_model.npz`, float32; MODEL_CARD.md describes its training
and its accuracy. Nothing is read before `load_demo_model` is called.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..models.classifier.files import read_arrays, weights_from_arrays, weights_to_arrays, write_arrays
from ..models.text import CLS, UNK, Vocabulary
from ..models.text_classifier import TextClassifier

DEMO_MODEL = Path(__file__).parents[1] / "demo_model.npz"


@functools.cache
def load_demo_model() -> TextClassifier:
    """The shipped sentiment model: one logit, above zero for a review that likes its film.

    Trained on IMDB (Lopardo et al. 2024, appendix F: K = 6 heads, T_max = 256, d_e = 128, d_att = d_out = 64); see
    MODEL_CARD.md. Read once and kept: it is immutable.

    Examples
    --------
    >>> model = load_demo_model()
    >>> bool(model.predict_proba(["A wonderful film."])[0, 1] > 0.5)
    True
    """
    return load_model(DEMO_MODEL)


def save_model(model: TextClassifier, path: str | os.PathLike[str], dtype: DTypeLike = np.float64) -> None:
    """Write a model to one `.npz` or `.safetensors` file.

    Parameters
    ----------
    model : TextClassifier; its tokenizer is not part of the file, unless it is the default one
    path : the file, replaced whole or not at all
    dtype : float64 (exact), float32 or float16: the numbers in the file are rounded to it. A model loaded from a
        rounded file is float64 again, and exactly the rounded numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from attn_closed_form import random_weights
    >>> model = TextClassifier(random_weights(seed=0, D=3, C=2), Vocabulary(["[CLS]", "[UNK]", "fine"]), ("no", "yes"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.npz"
    ...     save_model(model, path)
    ...     load_model(path).outputs
    ('no', 'yes')
    """
    stored = np.dtype(dtype)
    if stored not in (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)):
        raise ValueError(f"dtype: expected float64, float32 or float16, got {stored}")
    arrays: dict[str, NDArray[Any]] = dict(weights_to_arrays(model.weights))
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                rounded = array.astype(stored)
            if not np.isfinite(rounded).all():
                raise ValueError(f"dtype: {name} has numbers up to {np.abs(array).max():.3g}, too large for {stored}")
            arrays[name] = rounded
    about = {
        "outputs": list(model.outputs),
        "temperature": model.temperature,
        "special_words": [model.vocabulary.cls, model.vocabulary.unk],
        "card": model.card or {},
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode("utf-8"), dtype=np.uint8)
    write_arrays({**arrays, "vocabulary": model.vocabulary.to_array()}, path)


def load_model(path: str | os.PathLike[str]) -> TextClassifier:
    """The model in a file written by `save_model` or `TextClassifier.save`.

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
        about = _about(arrays.get("about"))
        vocabulary = Vocabulary.from_array(arrays["vocabulary"], *about["special_words"])
        return TextClassifier(
            weights, vocabulary, tuple(about["outputs"]), float(about["temperature"]), card=about["card"]
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _about(array: NDArray[Any] | None) -> dict[str, Any]:
    about: dict[str, Any] = {"outputs": [], "temperature": 1.0, "special_words": [CLS, UNK], "card": {}}
    if array is None:
        return about
    try:
        found = json.loads(array.astype(np.uint8).tobytes())
    except ValueError as error:
        raise ValueError(f"about: expected JSON in UTF-8, got {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"about: expected a JSON object, got {type(found).__name__}")
    about.update({key: found[key] for key in about if key in found})
    if not isinstance(about["outputs"], list) or not isinstance(about["special_words"], list):
        raise ValueError("about: expected lists of class names and special words")
    return about
