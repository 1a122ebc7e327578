"""Bags from the files that feature extractors write.

| file | features | coordinates |
|---|---|---|
| `.h5`, `.hdf5` (CLAM, TRIDENT, STAMP) | `features` or `feats`, (n, D) or (1, n, D) | `coords` (n, 2) |
| `.pt`, `.pth` (CLAM's `pt_files`, xMIL, slideflow) | one tensor, or a mapping with the names above | `coords` |
| `.npy` (torchmil) | one array | none |
| `.npz`, `.safetensors` | the names above, or the only matrix | `coords` |

Attributes of an HDF5 file and of its arrays become `Bag.attrs`.

Files are untrusted: `.npy` and `.npz` are read without pickle, `.pt` by the restricted reader of `torch_files.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.bag import Bag
from .safetensors_files import load_safetensors
from .torch_files import load_torch

FEATURE_NAMES = ("features", "feats", "feature", "embeddings", "x", "X")
COORDINATE_NAMES = ("coords", "coordinates", "locations")
REGION_NAMES = ("regions", "region")
H5_SUFFIXES = (".h5", ".hdf5", ".he5")
TORCH_SUFFIXES = (".pt", ".pth")
SUFFIXES = (*H5_SUFFIXES, ".pt", ".pth", ".npy", ".npz", ".safetensors")


def load_bag(path: str | os.PathLike[str], features: str | None = None) -> Bag:
    """Read one bag from a file (see the module docstring for the formats).

    Parameters
    ----------
    path : a file that ends in .h5, .hdf5, .pt, .pth, .npy, .npz or .safetensors
    features : name of the features in the file, where it is none of the usual ones

    Returns
    -------
    Bag
        features as stored (float32 stays float32), coordinates where the file has any, and its attributes;
        `attrs["name"]` is the file's name without suffix, unless the file has a name of its own

    Raises
    ------
    FileNotFoundError, ImportError, ValueError
        one line that names the file: absent, unreadable or damaged, without features, or of wrong shapes

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "slide.npz"
    ...     np.savez(path, features=np.ones((3, 5), dtype=np.float32), coords=[[0, 0], [256, 0], [0, 256]])
    ...     load_bag(path)
    Bag(n=3, D=5, float32, coords)
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected a bag in a file ending in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    if suffix in H5_SUFFIXES:
        arrays, attrs = _read_h5(path, features)
    elif suffix in TORCH_SUFFIXES:
        found = load_torch(path)
        if not isinstance(found, Mapping | np.ndarray):
            raise ValueError(f"{path}: expected a tensor or a mapping of tensors, got a {type(found).__name__}")
        arrays, attrs = (_arrays(found) if isinstance(found, Mapping) else {"features": found}), {}
    else:
        arrays, attrs = read_numpy(path, suffix), {}
    try:
        return Bag(
            features=_features(arrays, features),
            coords=_named(arrays, COORDINATE_NAMES),
            ids=_ids(_named(arrays, ("ids", "names"))),
            attrs={"name": path.stem, **attrs},
            regions=_named(arrays, REGION_NAMES),
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _read_h5(path: Path, features: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        import h5py
    except ImportError:
        raise ImportError(f"{path}: HDF5 files need the h5py package: pip install 'attn-closed-form[bags]'") from None
    wanted = {*FEATURE_NAMES, *COORDINATE_NAMES, *REGION_NAMES, "ids", "names", features}
    arrays: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    try:
        with h5py.File(path, "r") as file:
            attrs.update(_attributes(file))
            for name, data in file.items():
                if isinstance(data, h5py.Dataset):
                    # Names alone are enough of what nobody asks for: it may be large.
                    arrays[name] = data[()] if name in wanted else None
                    if name in wanted:
                        attrs.update(_attributes(data))
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError) as error:
        raise ValueError(f"{path}: expected a readable HDF5 file: {_line(error)}") from None
    return arrays, attrs


def _attributes(data: Any) -> dict[str, Any]:
    """Attributes as plain Python values and arrays."""
    found = {}
    for name, value in data.attrs.items():
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        found[str(name)] = value.item() if isinstance(value, np.generic) else value
    return found


def read_numpy(path: Path, suffix: str) -> dict[str, Any]:
    """Arrays of a `.npy` ("features"), `.npz` or `.safetensors` file, by name; damaged files are a ValueError."""
    try:
        if suffix == ".safetensors":
            return dict(load_safetensors(path).arrays)
        with path.open("rb") as file:  # np.load leaves a path open when the file is damaged
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"features": loaded}
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds of errors for damaged files
        raise ValueError(f"{path}: expected a readable {suffix} file: {_line(error)}") from None


def _arrays(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in found.items() if isinstance(value, np.ndarray)}


def _features(arrays: Mapping[str, Any], name: str | None) -> NDArray[Any]:
    if name is not None:
        if name not in arrays:
            raise ValueError(f"features: expected an array {name!r}, got only {sorted(arrays)}")
        return np.asarray(arrays[name])
    found = _named(arrays, FEATURE_NAMES)
    if found is not None:
        return np.asarray(found)
    matrices = {name: array for name, array in arrays.items() if array is not None and np.ndim(array) in (2, 3)}
    for known in COORDINATE_NAMES:
        matrices.pop(known, None)
    if len(matrices) != 1:
        raise ValueError(f"expected an array called {' or '.join(FEATURE_NAMES[:2])}, got only {sorted(arrays)}")
    return np.asarray(next(iter(matrices.values())))


def _named(arrays: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((arrays[name] for name in names if arrays.get(name) is not None), None)


def _ids(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in np.ravel(value))


def _line(error: BaseException) -> str:
    """The first line of an error, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
