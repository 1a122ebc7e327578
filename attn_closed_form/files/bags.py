"""Bags from the files that feature extractors write.

| file | features | coordinates |
|---|---|---|
| `.h5`, `.hdf5` (CLAM, TRIDENT, STAMP) | `features` or `feats`, (n, D) or (1, n, D) | `coords` (n, 2) |
| `.pt`, `.pth` (CLAM's `pt_files`, xMIL, slideflow) | one tensor, or a mapping with the names above | `coords` |
| `.npy` (torchmil) | one array | none |
| `.npz`, `.safetensors` | the names above, or the only matrix | `coords` |

The attributes of an HDF5 file and of its arrays that say where the patches come from (`ATTRIBUTES`) become `Bag.attrs`.

Files are untrusted. HDF5 files are read by a process of their own, with a limit on its time, because a damaged one can
hang or crash HDF5's library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..models.bag import Bag
from .arrays import read_arrays
from .atomic import check_size, reading, regular_file
from .torch_files import number_of_items

FEATURE_NAMES = ("features", "feats", "feature", "embeddings", "x", "X")
COORDINATE_NAMES = ("coords", "coordinates", "locations")
REGION_NAMES = ("regions", "region")
ID_NAMES = ("ids", "names")
H5_SUFFIXES = (".h5", ".hdf5", ".he5")
ARRAY_SUFFIXES = (".pt", ".pth", ".npy", ".npz", ".safetensors")
SUFFIXES = (*H5_SUFFIXES, *ARRAY_SUFFIXES)
ATTRIBUTES = (
    *("name", "patch_size", "patch_size_level0", "patch_level", "downsample", "overlap", "unit", "extractor"),
    *("tile_size_um", "tile_size_px", "level0_width", "level0_height", "level0_magnification", "target_magnification"),
)
# Seconds that reading an HDF5 file may take, plus its bytes by a speed that any disk has; and for Python to start.
HDF5_SECONDS = 3.0
HDF5_SPEED = 10_000_000
STARTUP_SECONDS = 60.0
MAX_LINE = 2**27  # bytes of an answer other than numbers


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
        `attrs["name"]` is the file's name without suffix, unless the file has an attribute `name`

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
    path = regular_file(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: expected a bag in a file ending in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    attrs: dict[str, Any] = {}
    if path.suffix.lower() in H5_SUFFIXES:
        content, attrs = _read_h5(path, features)
    else:
        content = read_arrays(path, ARRAY_SUFFIXES)
    if not isinstance(content, Mapping):
        content = {"features": content}
    arrays: dict[str, Any] = {
        str(name): value for name, value in content.items() if value is None or isinstance(value, np.ndarray)
    }
    matrices = [array for key, array in arrays.items() if np.ndim(array) in (2, 3) and key not in COORDINATE_NAMES]
    numbers = _named(arrays, FEATURE_NAMES if features is None else (features,))
    if numbers is None and features is None and len(matrices) == 1:
        numbers = matrices[0]
    if numbers is None:
        expected = f"called {' or '.join(FEATURE_NAMES[:2])}" if features is None else repr(features)
        raise ValueError(f"{path}: features: expected an array {expected}, got only {sorted(arrays)[:12]}")
    ids = _named(arrays, ID_NAMES)
    if ids is not None:
        ids = tuple(i.decode("utf-8", "replace") if isinstance(i, bytes) else str(i) for i in np.ravel(ids))
    coords, regions = _named(arrays, COORDINATE_NAMES), _named(arrays, REGION_NAMES)
    with reading(path, "bag"):
        return Bag(features=numbers, coords=coords, ids=ids, attrs={"name": path.stem, **attrs}, regions=regions)


def _read_h5(path: Path, features: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The wanted arrays of an HDF5 file, None for the others, and the attributes; `hdf5_child.py` reads them."""
    if importlib.util.find_spec("h5py") is None:
        raise ImportError(f"{path}: HDF5 files need the h5py package: pip install '.[bags]'")
    wanted = [*FEATURE_NAMES, *COORDINATE_NAMES, *REGION_NAMES, *ID_NAMES, features or "features"]
    request = {"path": str(path.resolve()), "wanted": wanted, "attributes": ATTRIBUTES}
    command = [sys.executable, "-P", str(Path(__file__).with_name("hdf5_child.py"))]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"}  # loads no plug-ins
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    arrays: dict[str, Any] = {}
    with reading(path, "HDF5"), subprocess.Popen(command, env=environment, **pipes) as child:
        assert child.stdin is not None and child.stdout is not None
        timer = threading.Timer(STARTUP_SECONDS, child.kill)
        try:
            timer.start()
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.close()
            child.stdout.readline()
            timer.cancel()
            timer = threading.Timer(HDF5_SECONDS + path.stat().st_size / HDF5_SPEED, child.kill)
            timer.start()
            while line := child.stdout.readline(MAX_LINE):
                facts = json.loads(line)
                if "error" in facts:
                    raise ValueError(facts["error"])
                if "names" in facts:
                    return dict.fromkeys(facts["names"]) | arrays, facts["attrs"]
                arrays[facts["name"]] = _receive(facts, child.stdout, path)
            raise ValueError("HDF5's library crashed on it, or took too long")
        finally:
            timer.cancel()
            child.kill()


def _receive(facts: dict[str, Any], stream: IO[bytes], path: Path) -> NDArray[Any]:
    """One array of the child, after a check of its size."""
    dtype, items = np.dtype(facts["dtype"]), number_of_items(facts["shape"])
    check_size(max(items * dtype.itemsize, facts["chunk"]), path)
    if dtype.hasobject:
        return np.array(json.loads(stream.readline(MAX_LINE))["texts"], dtype=np.str_)
    array = np.empty(facts["shape"], dtype)
    stream.readinto(array.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]  # cut short, no line follows
    return array


def _named(arrays: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((arrays[name] for name in names if arrays.get(name) is not None), None)
