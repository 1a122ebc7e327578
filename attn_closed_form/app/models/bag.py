"""A bag: the feature vectors of the instances of one slide, molecule or document, with coordinates,
names and regions.

Regions, given or squares of a grid over the coordinates, can be the players of an explanation
instead of single instances. This is exact: several instances act as one with the log-sum-exp of
their log-masses and the weighted mean of their values (`PooledGame.merge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arrays import check, finite, numbered, positive, real
from ..._shapes import axis_sizes, set_fields
from ..._types import Array, Ids

# The axes of a bag: n instances with D features.
BAG_AXES: dict[str, tuple[str | int, ...]] = {
    "features": ("n", "D"),
    "coords": ("n", 2),
    "ids": ("n",),
    "regions": ("n",),
}


@dataclass(frozen=True, eq=False)
class Bag:
    """Instance features with optional coordinates, names and regions.

    Attributes
    ----------
    features : (n, D) real numbers, whose type is kept; (1, n, D) is read as (n, D)
    coords : (n, 2) x and y of each instance's upper left corner, in level-0 pixels (STAMP:
        micrometers), or None
    ids : (n,) names of the instances; None for "0", "1", ...
    attrs : further attributes of the file, such as patch_size, level0_magnification, name
    regions : (n,) region of each instance, as numbers or names, or None

    Examples
    --------
    >>> bag = Bag(np.zeros((1, 3, 5), dtype=np.float32), coords=[[0, 0], [256, 0], [0, 512]])
    >>> bag
    Bag(n=3, D=5, float32, coords)
    >>> bag.patch_size
    256.0
    >>> bag.in_regions(512).regions
    array([0, 0, 1])
    """

    features: NDArray[Any]
    coords: Array | None = None
    ids: tuple[str, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    regions: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        features = _rows(real("features", self.features))
        received = f"shape {features.shape}"
        fits = features.ndim == 2 and 0 not in features.shape
        check("features", fits, "shape (n, D) or (1, n, D), n >= 1", received)
        # A view: the array of the caller is neither copied nor made read-only.
        fields: dict[str, Any] = {"features": features.view()}
        if self.coords is not None:
            fields["coords"] = _rows(finite("coords", self.coords))
        if self.ids is not None:
            fields["ids"] = tuple(map(str, self.ids))
        if self.regions is not None:
            fields["regions"] = np.array(self.regions)
        axis_sizes(fields, BAG_AXES)
        set_fields(self, fields)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def labels(self) -> tuple[str, ...]:
        """The (n,) names of the instances."""
        if self.ids is not None:
            return self.ids
        return tuple(map(str, range(len(self))))

    @property
    def patch_size(self) -> float | None:
        """Side length of a patch in the unit of `coords`, from the attributes or the most common
        step of the grid.

        TRIDENT stores patch_size_level0, CLAM patch_size and downsample (to level 0), STAMP
        tile_size_um.
        """
        # Attributes that tell the side length of a patch; `Bag.patch_size` says who writes them.
        patch_attrs = (
            "patch_size_level0",
            "tile_size_um",
            "patch_size",
            "downsample",
            "patch_level",
        )
        # An attribute may be an array, such as a downsample for each axis.
        attrs = {name: np.ravel(self.attrs[name])[0] for name in patch_attrs if name in self.attrs}
        for name in ("patch_size_level0", "tile_size_um"):
            if name in attrs:
                return float(attrs[name])
        # The size is in pixels of the level; without the downsample, only level 0 is certain.
        if "patch_size" in attrs and (
            "downsample" in attrs or int(attrs.get("patch_level", 0)) == 0
        ):
            return float(attrs["patch_size"]) * float(attrs.get("downsample", 1.0))
        if self.coords is None:
            return None
        return grid_step(self.coords)

    def in_regions(self, size: float) -> Bag:
        """Return the bag with square regions of side `size` (the unit of `coords`), numbered by
        first appearance.
        """
        positive("size", size)
        if self.coords is None:
            raise ValueError("coords: expected coordinates, because regions need them; got none")
        cells = np.floor((self.coords - self.coords.min(axis=0)) / size).astype(np.int64)
        return replace(self, regions=numbered(cells)[0])

    def region_numbers(self) -> tuple[Ids, tuple[str, ...]] | None:
        """Return the (n,) region of each instance and the region names, or None without coordinates
        and regions.

        The default regions are squares of 16 x 16 patches.
        """
        regions = self.regions
        if regions is None and self.coords is not None and (side := self.patch_size) is not None:
            # Tuning, the default side length of a region in patches: a slide of 10,000 patches has
            # some 50 regions, few enough to look at one by one.
            region_patches = 16
            regions = self.in_regions(region_patches * side).regions
        if regions is None:
            return None
        numbers, first = numbered(regions)
        return numbers, tuple(str(regions[i]) for i in first)

    def subset(self, rows: ArrayLike | Sequence[int]) -> Bag:
        """Return the bag of some instances, selected by index or mask.

        Examples
        --------
        >>> bag = Bag(np.arange(6.0).reshape(3, 2))
        >>> bag.subset([2, 0]).features.tolist()
        [[4.0, 5.0], [0.0, 1.0]]
        """
        parts = {name: getattr(self, name) for name in ("features", "coords", "ids", "regions")}
        at = np.asarray(rows)
        return replace(
            self, **{name: np.asarray(part)[at] for name, part in parts.items() if part is not None}
        )

    def __repr__(self) -> str:
        extras = [name for name in ("coords", "ids", "regions") if getattr(self, name) is not None]
        parts = [f"n={len(self)}", f"D={self.features.shape[1]}", str(self.features.dtype), *extras]
        return f"Bag({', '.join(parts)})"


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    """Return a batch of one bag, (1, n, k), as an (n, k) array."""
    if array.ndim == 3 and len(array) == 1:
        return array[0]
    return array


def grid_step(coords: Array) -> float | None:
    """Return the most common distance between neighbors in a row or column, or None if there are no
    neighbors.

    Pieces of tissue have separate grids, shifted against each other, so distances between rows are
    not informative.
    """
    steps = []
    for along, across in ((0, 1), (1, 0)):
        # The last key counts first: lines of the grid, then the places along each.
        order = np.lexsort((coords[:, along], coords[:, across]))
        same = np.diff(coords[order, across]) == 0
        steps.append(np.diff(coords[order, along])[same])
    distances = np.concatenate(steps)
    values, counts = np.unique(distances[distances > 0], return_counts=True)
    if values.size:
        return float(values[counts.argmax()])
    return None


def as_bag(raw: Any) -> Bag:
    """Convert a bag, an array of features (n, D) or (1, n, D), or the path of a file to a bag."""
    if isinstance(raw, Bag):
        return raw
    if isinstance(raw, str) or hasattr(raw, "__fspath__"):
        from ..files.bags import load_bag

        return load_bag(raw)
    return Bag(raw)
