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
    *(
        "name",
        "patch_size",
        "patch_size_level0",
        "patch_level",
        "downsample",
        "overlap",
        "unit",
        "extractor",
    ),
    *(
        "tile_size_um",
        "tile_size_px",
        "level0_width",
        "level0_height",
        "level0_magnification",
        "target_magnification",
    ),
)


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
    attrs: dict[str, Any] = {}
    # Names of the features in files of CLAM, TRIDENT, STAMP and others; the first that is there is
    # used.
    feature_names = ("features", "feats", "feature", "embeddings", "x", "X")
    # Names of the coordinates.
    coordinate_names = ("coords", "coordinates", "locations")
    # Names of the regions.
    region_names = ("regions", "region")
    # How the array with the names of the instances is called.
    id_names = ("ids", "names")
    if path.suffix.lower() in H5_SUFFIXES:
        wanted = (
            *feature_names,
            *coordinate_names,
            *region_names,
            *id_names,
            features or "features",
        )
        content, attrs = read_hdf5(path, wanted, ATTRIBUTES)
    else:
        content = read_arrays(path, ARRAY_SUFFIXES)
    # A PyTorch file may have one tensor without a name.
    named = content
    if not isinstance(content, Mapping):
        named = {"features": content}
    # None stands for an array that was not asked for; an error lists its name.
    arrays = {
        str(name): value
        for name, value in named.items()
        if value is None or isinstance(value, np.ndarray)
    }
    names_of_features: tuple[str, ...] = feature_names
    if features is not None:
        names_of_features = (features,)
    numbers = _named(arrays, names_of_features)
    # Coordinates are a matrix, too, and must not be taken for the features.
    others = [
        array for key, array in arrays.items() if array is not None and key not in coordinate_names
    ]
    matrices = [array for array in others if array.ndim in (2, 3)]
    if numbers is None and features is None and len(matrices) == 1:
        numbers = matrices[0]
    if numbers is None:
        expected = f"called {' or '.join(feature_names[:2])}"
        if features is not None:
            expected = repr(features)
        raise ValueError(
            f"{path}: features: expected an array {expected}, got only {sorted(arrays)[:12]}"
        )
    ids = _named(arrays, id_names)
    if ids is not None:
        ids = tuple(
            i.decode("utf-8", "replace") if isinstance(i, bytes) else str(i) for i in np.ravel(ids)
        )
    coords = _named(arrays, coordinate_names)
    regions = _named(arrays, region_names)
    with reading(path, "bag"):
        return Bag(
            features=numbers,
            coords=coords,
            ids=ids,
            attrs={"name": path.stem, **attrs},
            regions=regions,
        )


def _named(arrays: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((arrays[name] for name in names if arrays.get(name) is not None), None)
