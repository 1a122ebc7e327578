"""Open the model in a file of any kind: the command line, the page and the corpus all call
`open_model`.

A model file is a weights file with two more arrays: `vocabulary` (see `Vocabulary.to_array`) and,
optionally, `about`, a JSON object in UTF-8 with the class names, the temperature and the model
card. The shipped model is `demo_model.npz`, float32; MODEL_CARD.md describes its training and its
accuracy.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..._arrays import check, real, whole
from ...attention.weights import BIASES, WEIGHT_AXES, AttentionWeights, sinusoidal_positions
from ..models.bag_classifier import BagClassifier
from ..models.protocol import Model
from ..models.score_table import ScoreTable
from ..models.text import CLS, UNK, Vocabulary, split_at_spaces, tokenize
from ..models.text_classifier import TextClassifier, Tokenizer
from .arrays import (
    OWN_SUFFIXES,
    Arrays,
    checked_labels,
    read_arrays,
    read_state,
    write_arrays,
)
from .atomic import reading
from .fasttext import is_fasttext, load_fasttext

# The model that the package ships.
DEMO_MODEL = Path(__file__).parents[1] / "demo_model.npz"
# Fields of the weights that are token ids.
IDS = ("cls", "unk")
# Arrays that a file of weights may lack.
OPTIONAL = (*BIASES, "vocabulary", "about")
# Layers of the authors' state dict and the letters of the paper.
LETTERS = {"query": "q", "key": "k", "value": "v", "classifier": "l"}
# The tokenizers that a file can name.
TOKENIZERS: dict[str, Tokenizer] = {"words": tokenize, "spaces": split_at_spaces}
# The number of positions of the authors' model.
T_MAX = 256


def open_model(path: str | os.PathLike[str] | None = None, **options: Any) -> Model:
    """Open the model in a file.

    Parameters
    ----------
    path : a model file written by `train` or `save`; the state dict of an attention-pooling network
        (`.pt`, `.pth`, `.npz`, `.safetensors`); a fastText classifier (`.bin`); "scores" for tables
        of log-masses and values; None for the shipped sentiment model
    **options : options of `BagClassifier.from_state_dict`

    Examples
    --------
    >>> open_model()
    TextClassifier(negative, positive; 1 head, 6,000 words, any number of tokens)
    >>> open_model("scores").groupings
    ('units', 'groups')
    """
    if path is None:
        return load_demo_model()
    if str(path) == "scores":
        return ScoreTable()
    path = Path(path)
    # State dicts have the same suffixes, so the names of the arrays decide.
    if path.suffix.lower() in OWN_SUFFIXES:
        arrays = read_arrays(path)
        if "vocabulary" in arrays or {"W_e", "W_q", "W_k", "W_v", "W_l"} <= set(arrays):
            return _text_model(arrays, str(path))
    if path.suffix.lower() == ".bin" and is_fasttext(path):
        return load_fasttext(path)
    return BagClassifier.from_state_dict(path, **options)


# Classifiers of texts


@functools.cache
def load_demo_model() -> TextClassifier:
    """Load the shipped sentiment model, whose single logit is positive for favorable reviews.

    This is the classifier of Lopardo et al. 2024 with one head and no positions, trained on IMDB
    (see MODEL_CARD.md). It is immutable and loaded only once.

    Examples
    --------
    >>> model = load_demo_model()
    >>> model.predict_proba(["A wonderful film."]).round(3)
    array([[0.107, 0.893]])
    """
    return load_model(DEMO_MODEL)


def save_model(
    model: TextClassifier, path: str | os.PathLike[str], dtype: DTypeLike = np.float64
) -> None:
    """Write a model to one `.npz` or `.safetensors` file. An existing file is replaced atomically.

    The file names the tokenizer if it is `tokenize` or `split_at_spaces`. It cannot contain any
    other one; `load_model` then asks for it. The numbers are stored as `dtype`: float64 (exact),
    float32 or float16.

    Parameters
    ----------
    model : TextClassifier
    path : a name that ends in `.npz` or `.safetensors`
    dtype : float64 (exact), float32 or float16

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(load_demo_model(), f"{folder}/model.npz", np.float16)
    ...     load_model(f"{folder}/model.npz").outputs
    ('negative', 'positive')
    """
    stored = np.dtype(dtype)
    known = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))
    check("dtype", stored in known, "float64, float32 or float16", stored)
    arrays = weights_to_arrays(model.weights)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            # An overflow is an error below, with the name of the array.
            with np.errstate(over="ignore"):
                rounded = array.astype(stored)
            if not np.isfinite(rounded).all():
                raise ValueError(
                    f"dtype: {name} has numbers up to {np.abs(array).max():.3g}, too large for "
                    f"{stored}"
                )
            arrays[name] = rounded
    about = {
        "outputs": list(model.outputs),
        "temperature": model.temperature,
        "special_words": [model.vocabulary.cls, model.vocabulary.unk],
        "card": model.card or {},
        "distinct_words": model.distinct_words,
        "labels": list(model.labels),
        "tokenizer": "other",
    }
    for name, tokenizer in TOKENIZERS.items():
        if model.tokenizer is tokenizer:
            about["tokenizer"] = name
    arrays["about"] = np.frombuffer(json.dumps(about).encode("utf-8"), dtype=np.uint8)
    write_arrays({**arrays, "vocabulary": model.vocabulary.to_array()}, path)


def load_model(path: str | os.PathLike[str], tokenizer: Tokenizer | None = None) -> TextClassifier:
    """Load a model that `save_model` or `TextClassifier.save` wrote; errors name the file and the
    reason.

    Parameters
    ----------
    path : a `.npz` or `.safetensors` file
    tokenizer : the function that split the training texts, for a model that was trained with a
        tokenizer of its own; None is the one that the file names

    Returns
    -------
    TextClassifier
        the model, ready for `explain` and `predict`

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.npz")
    >>> save_model(load_demo_model(), path)
    >>> load_model(path).outputs
    ('negative', 'positive')
    """
    return _text_model(read_arrays(path), str(path), tokenizer)


def _text_model(arrays: Arrays, source: str, tokenizer: Tokenizer | None = None) -> TextClassifier:
    """Return the classifier that the arrays of a model file describe."""
    received = f"only {sorted(arrays)}; load_weights reads bare weights"
    check(str(source), "vocabulary" in arrays, "an array 'vocabulary'", received)
    weights = weights_from_arrays(arrays, source)
    with reading(source, "model"):
        about: Any = {"outputs": [], "temperature": 1.0, "special_words": [CLS, UNK], "card": {}}
        if "about" in arrays:
            about |= json.loads(arrays["about"].astype(np.uint8).tobytes())
        if not isinstance(about["outputs"], list) or not isinstance(about["special_words"], list):
            raise ValueError("about: expected lists of class names and special words")
        vocabulary = Vocabulary.from_array(arrays["vocabulary"], *about["special_words"])
        outputs = tuple(about["outputs"])
        temperature = float(about["temperature"])
        # Files of 0.3 do not have these.
        distinct_words = bool(about.get("distinct_words", False))
        labels = checked_labels(about.get("labels", []))
        if tokenizer is None:
            name = about.get("tokenizer", "words")
            if name not in TOKENIZERS:
                raise ValueError(
                    "tokenizer: the model was trained with a tokenizer that a file cannot contain; "
                    "give it as load_model(path, tokenizer=...)"
                )
            tokenizer = TOKENIZERS[name]
        return TextClassifier(
            weights,
            vocabulary,
            outputs,
            temperature,
            tokenizer=tokenizer,
            card=about["card"],
            distinct_words=distinct_words,
            labels=labels,
        )


def save_weights(weights: AttentionWeights, path: str | os.PathLike[str]) -> None:
    """Write weights to a `.npz` or `.safetensors` file: one array per field of `AttentionWeights`,
    and both ids.

    `W_p` has no rows if the model has no positions. An existing file is replaced atomically.

    Examples
    --------
    >>> import tempfile
    >>> from attn_closed_form.attention import random_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(random_weights(seed=0), f"{folder}/weights.npz")
    ...     load_weights(f"{folder}/weights.npz")
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    write_arrays(weights_to_arrays(weights), path)


def load_weights(path: str | os.PathLike[str]) -> AttentionWeights:
    """Load weights written by `save_weights`, or by any tool that stores the same arrays; errors
    name the array.
    """
    return weights_from_arrays(read_arrays(path), str(path))


def weights_to_arrays(weights: AttentionWeights) -> Arrays:
    """Return the named arrays of `weights`, including the ids, as stored in a file."""
    # A file always has W_p; that of a model without positions has no rows.
    arrays = {"W_p": np.zeros((0, weights.d_e)), **weights.arrays()}
    return {**arrays, **{name: np.array(getattr(weights, name), dtype=np.int64) for name in IDS}}


def weights_from_arrays(arrays: Arrays, source: str) -> AttentionWeights:
    """Build weights from the named arrays of a file; error messages name the `source`."""
    names = (*WEIGHT_AXES, *IDS)
    if missing := [name for name in names if name not in arrays and name not in OPTIONAL]:
        raise ValueError(f"{source}: expected an array {missing[0]!r}, got only {sorted(arrays)}")
    if unknown := [name for name in arrays if name not in (*names, *OPTIONAL)]:
        raise ValueError(f"{source}: unexpected array {unknown[0]!r}; expected {sorted(names)}")
    fields: dict[str, Any] = {name: arrays[name] for name in WEIGHT_AXES if name in arrays}
    if arrays["W_p"].ndim == 2 and not len(arrays["W_p"]):
        fields["W_p"] = None
    for name in IDS:
        array = arrays[name]
        if array.shape != () or array.dtype.kind not in "iu":
            raise ValueError(
                f"{source}: {name}: expected one integer, got {array.dtype} of shape {array.shape}"
            )
        fields[name] = int(array)
    try:
        return AttentionWeights(**fields)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


# The state dict of P1's authors


def from_torch_state_dict(
    state: str | os.PathLike[str] | Mapping[str, Any],
    W_p: Any = None,
    T_max: int | None = None,
    base: float | None = 10000.0,
    cls: int = 0,
    unk: int = 1,
    scale: bool = True,
    pos: bool = True,
    cls_position: int = 0,
) -> AttentionWeights:
    """Load the state dict of P1's PyTorch code (class `MultiHead` of attention_meets_xai) without
    torch.

    The authors' models have two outputs; the second, `output=1`, is the positive class. Documents
    are given without [CLS], which is prepended, and are filled with [UNK] up to `T_max`, as in the
    authors' preprocessing. For a model that reads documents without padding, set T_max to the
    number of tokens + 1.

    Parameters
    ----------
    state : a file or a mapping with `embedding.weight` (D, d_e) and, for heads i = 0 .. K-1,
        `heads.{i}.query.weight`, `.key.weight` (d_att, d_e), `.value.weight` (d_out, d_e),
        `.classifier.weight` (C, d_out), optionally with `.bias`
    W_p : (T_max, d_e) position embeddings, which the state dict does not contain. None computes
        sinusoidal ones from `T_max` (256, the authors' MAX_LEN) and `base`, which agree with the
        authors' to single precision; `W_p=model.pe.pe[0]` agrees exactly
    base : 10000 is the convention of the authors' code; None is P1's Eq. 3
    scale, pos : False for a model created with scale=False (logits are not divided by sqrt(d_att))
        or pos=False
    cls_position : the position of [CLS] in the model's input. (A model whose `cls_pos` is that of
        another token uses the query of that token; it is not a model of this kind.)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"query": (3, 4), "key": (3, 4), "value": (5, 4), "classifier": (1, 5)}
    >>> state = {
    ...     f"heads.{i}.{n}.weight": rng.normal(size=s) for i in range(2) for n, s in shapes.items()
    ... }
    >>> state["embedding.weight"] = rng.normal(size=(9, 4))
    >>> from_torch_state_dict(state, T_max=6)
    AttentionWeights(D=9, d_e=4, T_max=6, K=2, d_att=3, d_out=5, C=1, cls=0, unk=1)
    """
    fields = _fields(state)
    if not scale:
        # `AttentionWeights` divides by sqrt(d_att), so queries that were not divided are
        # multiplied.
        fields |= {
            name: fields[name] * np.sqrt(fields["W_q"].shape[1])
            for name in ("W_q", "b_q")
            if name in fields
        }
    d_e = fields["W_e"].shape[-1]
    if W_p is None:
        W_p = sinusoidal_positions(T_MAX if T_max is None else T_max, d_e, base)
    W_p = real("W_p", W_p)
    check("W_p", W_p.ndim == 2, f"shape (T_max, {d_e})", W_p.shape)
    if T_max is not None and T_max != len(W_p):
        raise ValueError(
            f"T_max: expected {len(W_p)}, the rows of W_p, got {T_max!r}; cut W_p for a shorter "
            "model"
        )
    if not pos:
        W_p = np.zeros_like(W_p)
    whole("cls_position", cls_position, 0, len(W_p) - 1)
    # A position only enters through its embedding, so moving [CLS] to the front permutes rows.
    W_p = np.concatenate([W_p[[cls_position]], np.delete(W_p, cls_position, axis=0)])
    return AttentionWeights(W_p=W_p, **fields, cls=cls, unk=unk)


def _fields(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `AttentionWeights` from a state dict, with the heads stacked."""
    state = read_state(source)
    # Names in the state dict of P1's authors.
    head = r"heads\.\d+\.(query|key|value|classifier)\.(weight|bias)"
    K = len({key.split(".")[1] for key in state.keys(head)})
    check(state.source, K != 0, "weights 'heads.0.query.weight' and so on", "no heads")
    fields: dict[str, Any] = {"W_e": state.array("embedding.weight")}
    for name, letter in LETTERS.items():
        for kind, prefix in (("weight", "W"), ("bias", "b")):
            keys = [f"heads.{i}.{name}.{kind}" for i in range(K)]
            # A layer has a bias in every head or in none; reading a missing one is an error.
            if kind == "bias" and not any(key in state.arrays for key in keys):
                continue
            heads = [state.array(key) for key in keys]
            for key, array in zip(keys, heads, strict=True):
                if (shape := heads[0].shape) != array.shape:
                    raise ValueError(
                        f"{state.source}: {key}: expected shape {shape} as in head 0, got "
                        f"{array.shape}"
                    )
            fields[f"{prefix}_{letter}"] = np.stack(heads)
    state.check_all_read("P1's model does not have")
    if "b_l" in fields:
        # The output is the mean over heads, including biases.
        fields["b_l"] = fields["b_l"].mean(axis=0)
    return fields
