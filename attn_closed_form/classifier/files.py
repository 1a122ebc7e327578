"""Weights to and from files, and from the authors' PyTorch state dict. No pickle is ever executed.

A file holds one array per field of `AttentionWeights`, under the field's name, and the ids `cls` and `unk` as
zero-dimensional integers. Model files (`explainable/model_file.py`) have two more arrays, `vocabulary` and `about`.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import replacing
from .positions import sinusoidal_positions
from .weights import AXES, BIASES, AttentionWeights

IDS = ("cls", "unk")
OPTIONAL = (*BIASES, "vocabulary", "about")
TORCH_HEAD = re.compile(r"heads\.(\d+)\.(query|key|value|classifier)\.(weight|bias)")
TORCH_FIELDS = {"query": "q", "key": "k", "value": "v", "classifier": "l"}


def save_weights(weights: AttentionWeights, path: str | os.PathLike[str]) -> None:
    """Write `weights` to a `.npz` or `.safetensors` file, chosen by the suffix.

    The file appears complete or not at all: it is written beside its place and then renamed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from attn_closed_form import random_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.npz"
    ...     save_weights(random_weights(seed=0), path)
    ...     load_weights(path)
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    write_arrays(weights_to_arrays(weights), path)


def load_weights(path: str | os.PathLike[str]) -> AttentionWeights:
    """Read weights written by `save_weights` (or by any tool that stores the same arrays).

    Raises
    ------
    FileNotFoundError, ValueError
        naming the file and the array: an unknown suffix, a damaged or pickled file, a missing or an extra array,
        and whatever `AttentionWeights` itself refuses.
    """
    return weights_from_arrays(read_arrays(path), str(path))


def weights_to_arrays(weights: AttentionWeights) -> dict[str, NDArray[Any]]:
    """Named arrays of `weights`, ids included, as they stand in a file."""
    return {**weights.arrays(), **{name: np.array(getattr(weights, name), dtype=np.int64) for name in IDS}}


def weights_from_arrays(arrays: Mapping[str, NDArray[Any]], source: str) -> AttentionWeights:
    """Weights from named arrays; `source` names them in errors."""
    required = [name for name in (*AXES, *IDS) if name not in OPTIONAL]
    for name in required:
        if name not in arrays:
            raise ValueError(f"{source}: expected an array {name!r}, got only {sorted(arrays)}")
    for name in arrays:
        if name not in (*AXES, *IDS, *OPTIONAL):
            raise ValueError(f"{source}: unexpected array {name!r}; expected {sorted((*AXES, *IDS))}")
    fields: dict[str, Any] = {name: arrays[name] for name in AXES if name in arrays}
    for name in IDS:
        if arrays[name].shape != () or arrays[name].dtype.kind not in "iu":
            raise ValueError(
                f"{source}: {name}: expected one integer, got {arrays[name].dtype} of shape {arrays[name].shape}"
            )
        fields[name] = int(arrays[name])
    try:
        return AttentionWeights(**fields)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def write_arrays(arrays: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
    """Named arrays to a `.npz` or `.safetensors` file, by write and rename."""
    path = Path(path)
    suffix = _suffix(path)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name}: expected an array of plain data, got dtype {array.dtype}, which needs pickle")
    # safetensors' NumPy interface writes the buffer as it lies in memory, so a transposed view would be scrambled.
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    with replacing(path) as partial:
        if suffix == ".npz":
            np.savez_compressed(partial, **contiguous)  # type: ignore[arg-type]  # takes any name as an array
        else:
            _safetensors().save_file(contiguous, partial)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Every array of a `.npz` or `.safetensors` file, read in full, pickle refused."""
    path = Path(path)
    suffix = _suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected weights written by save_weights")
    if suffix == ".safetensors":
        st = _safetensors()
        try:
            return dict(st.load_file(path))
        except Exception as error:
            raise ValueError(f"{path}: not a readable safetensors file ({error})") from None
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not a readable .npz file (not a zip archive: damaged, cut short or pickled)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            members = {name: archive[name] for name in archive.files}
    except Exception as error:
        raise ValueError(f"{path}: not a readable .npz file ({error})") from None
    for name, member in members.items():
        if not isinstance(member, np.ndarray):  # NumPy hands over a member without an array header as raw bytes
            raise ValueError(f"{path}: {name}: expected an array, got a file that is none")
    return members


def _suffix(path: Path) -> str:
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{path}: expected a file name ending in .npz or .safetensors, got {path.suffix!r}")
    return path.suffix


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "safetensors files need the safetensors package: pip install 'attn-closed-form[io]'"
        ) from None
    return safetensors.numpy


def from_torch_state_dict(
    state: Mapping[str, Any],
    W_p: Any = None,
    T_max: int = 256,
    base: float | None = 10000.0,
    cls: int = 0,
    unk: int = 1,
) -> AttentionWeights:
    """Weights from the state dict of P1's PyTorch code.

    Parameters
    ----------
    state : `embedding.weight` (D, d_e) and, for heads i = 0 .. K-1, `heads.{i}.query.weight`, `.key.weight`
        (d_att, d_e), `.value.weight` (d_out, d_e), `.classifier.weight` (C, d_out), each with an optional `.bias`.
        Values may be torch tensors or arrays; torch itself is not needed.
    W_p : (T_max, d_e) position embeddings, which the authors' state dict does not hold. None makes sinusoidal ones
        from `T_max` and `base` (10000 is the authors' convention; None is P1's Eq. 3).
    cls, unk : ids of [CLS] and [UNK]

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"query": (3, 4), "key": (3, 4), "value": (5, 4), "classifier": (1, 5)}
    >>> state = {f"heads.{i}.{n}.weight": rng.normal(size=s) for i in range(2) for n, s in shapes.items()}
    >>> state["embedding.weight"] = rng.normal(size=(9, 4))
    >>> from_torch_state_dict(state, T_max=6)
    AttentionWeights(D=9, d_e=4, T_max=6, K=2, d_att=3, d_out=5, C=1, cls=0, unk=1)
    """
    arrays = {name: _torch_to_numpy(name, value) for name, value in state.items()}
    if "embedding.weight" not in arrays:
        raise ValueError(f"state: expected a key 'embedding.weight', got only {sorted(arrays)}")
    matches = {name: match for name in arrays if name != "embedding.weight" and (match := TORCH_HEAD.fullmatch(name))}
    for name in arrays:
        if name != "embedding.weight" and name not in matches:
            raise ValueError(
                f"state: unexpected key {name!r}; expected 'embedding.weight' and "
                "'heads.I.{query,key,value,classifier}.{weight,bias}'"
            )
    K = 1 + max((int(match[1]) for match in matches.values()), default=-1)
    if K == 0:
        raise ValueError("state: expected keys 'heads.0.query.weight' and so on, got no head at all")
    W_e = arrays["embedding.weight"]
    fields: dict[str, Any] = {}
    for name, letter in TORCH_FIELDS.items():
        fields[f"W_{letter}"] = _stack(arrays, [f"heads.{i}.{name}.weight" for i in range(K)])
        biases = [f"heads.{i}.{name}.bias" for i in range(K)]
        if any(key in arrays for key in biases):
            fields[f"b_{letter}"] = _stack(arrays, biases)
    if "b_l" in fields:
        fields["b_l"] = fields["b_l"].mean(axis=0)  # the output is the mean over heads, biases included
    if W_p is None:
        W_p = sinusoidal_positions(T_max, W_e.shape[-1], base)
    return AttentionWeights(W_e=W_e, W_p=W_p, **fields, cls=cls, unk=unk)


def _torch_to_numpy(name: str, value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()  # NumPy knows no bfloat16; float64 holds every type exactly
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"state: {name}: expected an array of numbers, got {type(value).__name__}")
    return array


def _stack(arrays: Mapping[str, NDArray[Any]], names: list[str]) -> NDArray[Any]:
    for name in names:
        if name not in arrays:
            raise ValueError(f"state: expected a key {name!r}, got only {sorted(arrays)}")
        if arrays[name].shape != arrays[names[0]].shape:
            raise ValueError(
                f"state: {name}: expected shape {arrays[names[0]].shape} as in {names[0]}, got {arrays[name].shape}"
            )
    return np.stack([arrays[name] for name in names])
