"""The tiles of a bag as a picture: scores into a grid of cells, cells into colours, colours into a PNG. NumPy alone.

Tiles are drawn as tiles. Nothing is smoothed or ranked: a colour is linear in the score, zero is in the middle of the
signed scale, and what lies beyond the scale's ends has the end's colour. Where tiles overlap, a cell shows the mean of
the tiles that cover it. A slide of 80,000 tiles takes some milliseconds, because tiles become cells of one array.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._types import Array
from .palette import AGAINST, FOR, UNSIGNED

# Colour of a score of zero: grey enough to be told from the page, where there is no tile.
ZERO = (236, 236, 236)
# The scale ends at this quantile of the magnitudes, so that one extreme tile does not wash out all the others.
QUANTILE = 0.995
# Cells along the longer side of a picture of tiles that do not lie on a grid.
MOST_CELLS = 2000

Pixels = NDArray[np.uint8]


class Raster(NamedTuple):
    """Cells of a picture: `cells` (rows, columns), NaN where there is no tile; `box` left, top, right, bottom."""

    cells: Array
    box: tuple[float, float, float, float]


def rasterise(coords: ArrayLike, scores: ArrayLike, patch_size: float) -> Raster:
    """Scores of tiles as the cells of a grid.

    Parameters
    ----------
    coords : (n, 2) x and y of each tile's upper left corner
    scores : (n,)
    patch_size : side of a tile, in the unit of `coords`

    Returns
    -------
    Raster, one cell per tile where the tiles lie on a grid of their own size, several where they do not

    Examples
    --------
    >>> rasterise([[0, 0], [512, 256]], [1.0, -2.0], 256).cells
    array([[ 1., nan, nan],
           [nan, nan, -2.]])
    """
    corners, values = np.asarray(coords, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if not (np.isfinite(patch_size) and patch_size > 0):
        raise ValueError(f"patch_size: expected a length above 0, got {patch_size}")
    origin, extent = corners.min(axis=0), np.ptp(corners, axis=0) + patch_size
    steps = (corners - origin) / patch_size
    per_tile = 1 if np.abs(steps - np.rint(steps)).max() < 1e-3 else _cells_per_tile(extent.max(), patch_size)
    cell = patch_size / per_tile
    # Tiles far smaller than the slide share cells; the picture stays below MOST_CELLS squared either way.
    cell = max(cell, float(extent.max()) / (2 * MOST_CELLS))
    columns, rows = np.maximum(np.ceil(extent / cell - 1e-6).astype(int), 1)
    first = np.rint((corners - origin) / cell).astype(int)
    total, count = np.zeros((rows, columns)), np.zeros((rows, columns))
    for down in range(per_tile):
        for right in range(per_tile):
            row, column = np.minimum(first[:, 1] + down, rows - 1), np.minimum(first[:, 0] + right, columns - 1)
            np.add.at(total, (row, column), values)
            np.add.at(count, (row, column), 1.0)
    cells = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    left, top = origin
    return Raster(cells, (float(left), float(top), float(left + columns * cell), float(top + rows * cell)))


def _cells_per_tile(longest: float, patch_size: float) -> int:
    """Cells along a tile's side: enough to place it to an eighth of itself, unless that makes too many cells."""
    return int(np.clip(MOST_CELLS * patch_size // longest, 2, 8))


def scale_end(scores: ArrayLike, quantile: float = QUANTILE) -> float:
    """Where the colours end: a quantile of the magnitudes above zero; 1 where all are zero.

    >>> scale_end([0.0, -2.0, 1.0], quantile=1.0)
    2.0
    """
    size = np.abs(np.asarray(scores, dtype=np.float64))
    size = size[size > 0]
    end = float(np.quantile(size, quantile)) if size.size else 0.0
    return end if end > 0 and np.isfinite(end) else 1.0


def colours(scores: ArrayLike, end: float, signed: bool = True) -> Pixels:
    """Red, green and blue of scores: the colours for and against with zero in between; from grey up without a sign.

    >>> colours([0.0, 5.0], end=2.0).tolist() == [list(ZERO), list(FOR)]
    True
    """
    strength = np.clip(np.nan_to_num(np.asarray(scores, dtype=np.float64)) / end, -1, 1)[..., None]
    zero = np.array(ZERO, dtype=np.float64)
    up = np.array(FOR if signed else UNSIGNED)
    mixed = zero + np.abs(strength) * (np.where(strength < 0, np.array(AGAINST), up) - zero)
    return np.rint(mixed).astype(np.uint8)


def picture(raster: Raster, end: float, signed: bool = True) -> Pixels:
    """(rows, columns, 4) red, green, blue and opacity; transparent where there is no tile."""
    seen = np.where(np.isnan(raster.cells), 0, 255).astype(np.uint8)
    return np.concatenate([colours(raster.cells, end, signed), seen[..., None]], axis=-1)


def png(pixels: Pixels) -> bytes:
    r"""A picture (rows, columns, 4) of 8 bits as a PNG file.

    >>> png(np.zeros((2, 3, 4), dtype=np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    rows, columns = pixels.shape[:2]
    lines = np.zeros((rows, 1 + 4 * columns), dtype=np.uint8)  # each line opens with its filter, 0 for none
    lines[:, 1:] = pixels.reshape(rows, -1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
