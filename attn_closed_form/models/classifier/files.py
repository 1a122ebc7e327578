"""Weights to and from files. No pickle is ever executed.

A file holds one array per field of `AttentionWeights`, under the field's name, and the ids `cls` and `unk` as
zero-dimensional integers. Model files (`files/model_file.py`) have two more arrays, `vocabulary` and `about`.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...files.atomic import replacing
from .weights import AXES, BIASES, AttentionWeights

IDS = ("cls", "unk")
OPTIONAL = (*BIASES, "vocabulary", "about")


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
