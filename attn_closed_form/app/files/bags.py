"""Read bags from the files of feature extractors.

| file | features | coordinates |
|---|---|---|
| `.h5`, `.hdf5` (CLAM, TRIDENT, STAMP) | `features` or `feats`, (n, D) or (1, n, D) | `coords` (n, 2) |
| `.pt`, `.pth` (CLAM's `pt_files`, xMIL, slideflow) | one tensor, or a mapping with the names above | `coords` |
| `.npy` (torchmil) | one array | none |
| `.npz`, `.safetensors` | the names above, or the only matrix | `coords` |

Attributes of an HDF5 file and of its arrays that describe the patches (`ATTRIBUTES`) become
`Bag.attrs`.
"""  # noqa: E501

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._arrays import check
from ..models.bag import Bag
from .arrays import H5_SUFFIXES, read_arrays
from .atomic import reading, regular_file
from .hdf5 import read_hdf5

# Formats that `read_arrays` reads.
ARRAY_SUFFIXES = (".pt", ".pth", ".npy", ".npz", ".safetensors")
# All formats of bags.
SUFFIXES = (*H5_SUFFIXES, *ARRAY_SUFFIXES)
# Attributes of HDF5 files that describe the patches.
ATTRIBUTES = (
    "name",
    "patch_size",
    "patch_size_level0",
    "patch_level",
    "downsample",
    "overlap",
    "unit",
    "extractor",
    "tile_size_um",
    "tile_size_px",
    "level0_width",
    "level0_height",
    "level0_magnification",
    "target_magnification",
)
# Names of the features in files of CLAM, TRIDENT, STAMP and others, in the order in which they are
# tried.
FEATURE_NAMES = ("features", "feats", "feature", "embeddings", "x", "X")
# Names of the coordinates.
COORDINATE_NAMES = ("coords", "coordinates", "locations")
# Names of the regions.
REGION_NAMES = ("regions", "region")
# Names of the array with the names of the instances.
ID_NAMES = ("ids", "names")


def load_bag(path: str | os.PathLike[str], features: str | None = None) -> Bag:
    """Read one bag from an HDF5, PyTorch, NumPy or safetensors file.

    Files of CLAM, TRIDENT, STAMP, xMIL, slideflow and torchmil are recognized by the names of their
    arrays. The type of the features is kept (float32 stays float32). `attrs["name"]` is the file's
    name without suffix, unless the file has an attribute `name`. An error is one line that names
    the file.

    Parameters
    ----------
    path : a `.h5`, `.hdf5`, `.pt`, `.pth`, `.npy`, `.npz` or `.safetensors` file
    features : name of the features in the file; None looks for the names that these tools use, such
        as "features" and "feats"

    Returns
    -------
    Bag
        the bag with its features and, where the file has them, coordinates and attributes

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "slide.npz"
    ...     np.savez(
    ...         path,
    ...         features=np.ones((3, 5), dtype=np.float32),
    ...         coords=[[0, 0], [256, 0], [0, 256]],
    ...     )
    ...     load_bag(path)
    Bag(n=3, D=5, float32, coords)
    """
    path = regular_file(path)
    expected = f"a bag in a file ending in {', '.join(SUFFIXES)}"
    check(str(path), path.suffix.lower() in SUFFIXES, expected, repr(path.suffix))
    arrays, attrs = _read(path, features)
    numbers = _features_in(arrays, features)
    if numbers is None:
        expected = f"called {' or '.join(FEATURE_NAMES[:2])}"
        if features is not None:
            expected = repr(features)
        raise ValueError(
            f"{path}: features: expected an array {expected}, got only {sorted(arrays)[:12]}"
        )
    ids = _named(arrays, ID_NAMES)
    if ids is not None:
        ids = tuple(_text_of(name) for name in np.ravel(ids))
    coords = _named(arrays, COORDINATE_NAMES)
    regions = _named(arrays, REGION_NAMES)
    with reading(path, "bag"):
        return Bag(
            features=numbers,
            coords=coords,
            ids=ids,
            attrs={"name": path.stem, **attrs},
            regions=regions,
        )


def _read(path: Path, features: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays of a file by name, and its attributes. None stands for an array that was
    not read, because its name says nothing; an error lists its name.
    """
    attrs: dict[str, Any] = {}
    if path.suffix.lower() in H5_SUFFIXES:
        wanted = (
            *FEATURE_NAMES,
            *COORDINATE_NAMES,
            *REGION_NAMES,
            *ID_NAMES,
            features or "features",
        )
        content, attrs = read_hdf5(path, wanted, ATTRIBUTES)
    else:
        content = read_arrays(path, ARRAY_SUFFIXES)
    # A PyTorch file may have one tensor without a name.
    if not isinstance(content, Mapping):
        content = {"features": content}
    arrays = {
        str(name): value
        for name, value in content.items()
        if value is None or isinstance(value, np.ndarray)
    }
    return arrays, attrs


def _features_in(arrays: Mapping[str, Any], features: str | None) -> Any:
    """Return the features: the array of the given name, of a known name, or the only matrix."""
    if features is not None:
        return _named(arrays, (features,))
    known = _named(arrays, FEATURE_NAMES)
    if known is not None:
        return known
    matrices = []
    for name, array in arrays.items():
        # Coordinates are a matrix, too, and must not be taken for the features.
        if array is not None and name not in COORDINATE_NAMES and array.ndim in (2, 3):
            matrices.append(array)
    if len(matrices) == 1:
        return matrices[0]
    return None


def _text_of(name: Any) -> str:
    """Return the name of an instance as a text; HDF5 files have bytes."""
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return str(name)


def _named(arrays: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((arrays[name] for name in names if arrays.get(name) is not None), None)
