"""Maps of a bag: scores per tile and per player, attention, tile positions, and pictures.

Tiles are drawn as tiles. Nothing is smoothed or ranked: a color is linear in the score, zero is in
the middle of the signed scale, and scores beyond the ends of the scale have the color of the end.
If tiles overlap, a cell shows the mean of the tiles that cover it. A slide of 80,000 tiles takes a
few milliseconds, because tiles become cells of one array. Only NumPy is needed.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arrays import positive, spearman
from ..._types import Array, Ids
from ..explanations.explain import against_runner_up, runner_up_of
from ..explanations.explanation import Explanation, Explanations
from ..models.scale import LOGIT, ExplainedScale, percent
from .figures import AGAINST, FOR, UNSIGNED, leader
from .sanitize import output_name

# The method that shows the attention of the model.
ATTENTION = "alpha-mean"
# Color of a score of zero: gray enough to differ from the page, which shows where there is no tile.
ZERO = (236, 236, 236)
# The color of a score of zero on a light or dark page.
FAINT = (128, 128, 128)
# Tuning: the opacity of its tiles.
FAINTEST = 0.12
# Tuning: the opacity of tiles over a thumbnail, which still shows tissue and color.
OVER_THUMBNAIL = 0.6
# Tuning: the scale ends at this quantile of the magnitudes, so that one extreme tile does not wash
# out all the others.
QUANTILE = 0.995
# Tuning: the number of cells along the longer side of a picture if tiles are not on a grid.
MOST_CELLS = 2000


Pixels = NDArray[np.uint8]


class Place(NamedTuple):
    """Positions of tiles: `coords` (n, 2) of their upper left corners, and the side of a tile in
    the same unit.
    """

    coords: Array
    patch_size: float


class Disagreement(NamedTuple):
    """Differences between attention and signed scores: Spearman's correlation with the scores and
    with their magnitudes (NaN if one of them is constant), and the share of the attention on
    players with negative scores.
    """

    correlation: float
    magnitude_correlation: float
    attention_against: float


def place(explanations: Explanations) -> Place:
    """Return the positions of the tiles of a bag, or raise an error if it has no coordinates."""
    units = explanations.evidence.units
    if units.coords is None:
        raise ValueError(
            "coords: expected a bag with coordinates, because a map needs them; this one has none"
        )
    # The files of different programs name the side of a tile in different ways; the reader of bags
    # has made it one name.
    side = units.attrs.get("patch_size")
    if side is None:
        # The size of a tile matters only next to another one.
        if len(units.coords) > 1 and np.ptp(units.coords):
            raise ValueError(
                "patch_size: expected the side of a tile among the attributes of the bag; it is "
                "missing"
            )
        side = 1.0
    return Place(np.asarray(units.coords, dtype=np.float64), float(side))


def slide_size(explanations: Explanations) -> tuple[float, float]:
    """Return the width and height of the slide from the attributes of its bag, or those of the area
    of the tiles.
    """
    attrs = explanations.evidence.units.attrs
    where = place(explanations)
    # Readers of slides store the size of level 0; otherwise the tiles are all that is known.
    if {"level0_width", "level0_height"} <= set(attrs):
        return float(np.ravel(attrs["level0_width"])[0]), float(np.ravel(attrs["level0_height"])[0])
    right, bottom = where.coords.max(axis=0) + where.patch_size
    return float(right), float(bottom)


def tile_scores(explanation: Explanation) -> Array:
    """Return the (n,) score of each tile, which is that of its player, such as its region."""
    return explanation.scores[explanation.evidence.player_of]


def attention(explanations: Explanations) -> Array | None:
    """Return the (n,) attention of the tiles (the mean over the heads of the output), or None if
    there is none.
    """
    # The attention is read from the model and not from the explanations, so that a map has it even
    # if the method was not asked for.
    scores = explanations.evidence.inside(ATTENTION)
    if scores is None:
        return None
    if isinstance(scores, tuple):  # with a baseline
        scores = scores[0]
    return np.asarray(scores)


def attentions(several: Sequence[Explanations]) -> list[tuple[str, Array]]:
    """Return the attention of the tiles with its title, once if all outputs share it, otherwise
    once per output.

    The heads of a network such as CLAM_MB belong to its classes, so their attention differs.
    """
    weights = [attention(explanations) for explanations in several]
    known = [weight for weight in weights if weight is not None]
    if not known:
        return []
    if all(np.array_equal(weight, known[0]) for weight in known):
        return [("Attention", known[0])]
    return [
        (f"Attention for {output_name(explanations.output)}", weight)
        for explanations, weight in zip(several, weights, strict=True)
        if weight is not None
    ]


def player_attention(explanations: Explanations) -> Array | None:
    """Return the (d,) attention of each player, summed over its tiles."""
    scores = attention(explanations)
    if scores is None:
        return None
    return explanations.evidence.pool(scores)


def disagreement(explanations: Explanations) -> Disagreement | None:
    """Return how attention differs from the leading scores, or None if the model has no
    attention.
    """
    weight = player_attention(explanations)
    scores = leader(explanations).scores
    if weight is None:
        return None
    if weight.sum() > 0:
        against = float(weight[scores < 0].sum() / weight.sum())
    else:
        against = float("nan")
    return Disagreement(
        correlation=spearman(weight, scores),
        magnitude_correlation=spearman(weight, np.abs(scores)),
        attention_against=against,
    )


def strongest(scores: Array, k: int) -> tuple[Ids, Ids]:
    """Return the k players with the largest positive scores, and the k with the smallest negative
    ones, in order.
    """
    order = np.argsort(-scores, kind="stable")
    top = order[:k]
    bottom = order[::-1][:k]
    return top[scores[top] > 0], bottom[scores[bottom] < 0]


# The end of the name of a column of standard errors.
STANDARD_ERROR = "_standard_error"


def columns(explanations: Explanations) -> dict[str, Any]:
    """Return the table of a bag by column: name, position, number of tiles, attention and scores of
    each player.
    """
    evidence = explanations.evidence
    table: dict[str, Any] = {"player": np.array(evidence.labels, dtype=np.str_)}
    if evidence.units.coords is not None:
        # The place of a region is its upper left corner, the smallest x and y of its tiles.
        corners = np.full((evidence.d, 2), np.inf)  # minimum x and y of the tiles of each player
        np.minimum.at(
            corners, evidence.player_of, np.asarray(evidence.units.coords, dtype=np.float64)
        )
        table |= {"x": whole(corners[:, 0]), "y": whole(corners[:, 1])}
    # An instance is one tile or one token, so only groups have a number of them.
    if evidence.target.players != evidence.model.groupings[0]:
        units = "tiles" if evidence.units.text is None else "tokens"
        table[units] = np.bincount(evidence.player_of, minlength=evidence.d)
    weight = player_attention(explanations)
    if weight is not None:
        table["attention"] = weight
    for name, e in explanations.items():
        if name != ATTENTION:
            table[name] = e.scores
            if e.standard_error is not None and e.standard_error.any():
                table[f"{name}{STANDARD_ERROR}"] = e.standard_error
    return table


def whole(values: Array) -> Any:
    """Convert coordinates to integers if they are whole numbers."""
    if np.array_equal(values, np.rint(values)):
        return values.astype(np.int64)
    return values


def player_table(
    explanations: Explanations, players: Ids, method: str | None = None
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Format some rows of the table of a bag: titles, and the name and cells of each player.

    Scores are in the unit of their scale, which the title of their column names, with the decimals
    that three digits of the largest one need. `method` leaves out the scores of all others.
    """
    shown = explanations
    if method is not None:
        shown = Explanations(explanations.evidence, {method: explanations[method]})
    names, *table = columns(shown).items()
    titles = [explanations.evidence.target.players.removesuffix("s")]
    cells = []
    for name, values in table:
        e = explanations.get(name.removesuffix(STANDARD_ERROR))
        if e is not None and name.endswith(STANDARD_ERROR):
            # The column follows that of the scores, whose unit it has.
            titles.append("±")
            spec = _spec_of_column(e.scale, values[players]).removeprefix("+")
            cells.append([e.scale.digits(values[j], spec) for j in players])
        elif e is not None:
            titles.append(e.scale.titled(name))
            spec = _spec_of_column(e.scale, values[players])
            cells.append([e.scale.digits(values[j], spec) for j in players])
        elif name == "attention":
            titles.append(name)
            cells.append([percent(values[j], 2) for j in players])
        else:
            titles.append(name)
            cells.append([f"{values[j]:.0f}" for j in players])
    return titles, [(str(names[1][j]), list(row)) for j, *row in zip(players, *cells, strict=True)]


def _spec_of_column(scale: ExplainedScale, values: Array) -> str:
    """Return the format of a column of scores: the decimals that three digits of the largest one
    need, at most six.
    """
    largest = float(scale.unit["factor"]) * float(np.abs(values).max(initial=0.0))
    if not 0 < largest < np.inf:
        return "+.1f"
    # The first digit is at 10^floor(log10), and two more follow.
    decimals = 2 - math.floor(math.log10(largest))
    return f"+.{min(max(decimals, 0), 6)}f"


def flip_tiles(explanations: Explanations) -> Ids:
    """Return the tiles whose removal is certified to change the predicted class, if it is explained
    and the set is known; otherwise nothing.
    """
    # Tuning: the certified set of a larger bag is not outlined on its map, because it would take
    # seconds to find, and its tiles are smaller than an outline.
    most_outlined = 20_000
    evidence = explanations.evidence
    chances = evidence.probabilities or {}
    nothing = np.zeros(0, dtype=np.intp)
    if not evidence.has_reasons or evidence.d > most_outlined:
        return nothing
    # The certified set is about the predicted class. On the map of another class it would seem to
    # be about that one.
    if chances and chances.get(explanations.output) != max(chances.values()):
        return nothing
    contrastive = explanations.reasons().contrastive
    if contrastive is None or contrastive.players is None:
        return nothing
    return np.flatnonzero(np.isin(evidence.player_of, contrastive.players))


def bag_sentence(explanations: Explanations) -> str:
    """State the value of the output and, if the leading scores add up to it, the contributions of
    the instances.
    """
    e = leader(explanations)
    evidence = explanations.evidence
    what = e.scale.of_output(e.output)
    empty = e.scale.level(evidence.baseline)
    got = f"{what[0].upper()}{what[1:]} is {e.scale.level(e.prediction)}"
    # Only Shapley values add up to the prediction, so only they are summed by sign.
    if e.method != "shapley":
        return f"{got}, and {empty} for the empty bag."
    up = e.scores[e.scores > 0]
    down = e.scores[e.scores < 0]
    change = e.scale.change
    return (
        f"{got}: {empty} for the empty bag, {change(up.sum())} from the {up.size:,} "
        f"{evidence.target.players} that support it and {change(down.sum())} from the "
        f"{down.size:,} that oppose it."
    )


def runner_up_sentence(explanations: Explanations) -> str:
    """State the probability of the predicted class against its runner-up; "" for two classes."""
    pair = runner_up_of(explanations)
    if pair is None:
        return ""
    best, second = pair
    evidence = against_runner_up(explanations).evidence
    values = "exact" if evidence.exact else "sampled"
    return (
        f"Against the runner-up {second}, the probability of {best} is "
        f"{percent(evidence.prediction)} ({values} values: output margin:{best},{second})."
    )


def bag_name(explanations: Explanations, default: str = "bag") -> str:
    """Return the name of the bag from its attributes, or the default."""
    name: Any = explanations.evidence.units.attrs.get("name")
    return default if name is None else str(name)


class Raster(NamedTuple):
    """Cells of a picture: `cells` (rows, columns), NaN where there is no tile; `box` left, top,
    right, bottom.
    """

    cells: Array
    box: tuple[float, float, float, float]


def rasterize(coords: ArrayLike, scores: ArrayLike, patch_size: float) -> Raster:
    """Convert scores (n,) of tiles with upper left corners `coords` (n, 2) and side `patch_size` to
    a grid of cells.

    Tiles on a grid with the spacing of a tile have one cell each; other tiles have several.
    """
    corners = np.asarray(coords, dtype=np.float64)
    values = np.asarray(scores, dtype=np.float64)
    positive("patch_size", patch_size)
    origin = corners.min(axis=0)
    extent = np.ptp(corners, axis=0) + patch_size
    steps = (corners - origin) / patch_size
    # The number of cells along a tile's side places it to an eighth of its size, unless there would
    # be too many cells.
    # Coordinates are pixels, so tiles of a grid miss it by rounding at most.
    on_grid = np.abs(steps - np.rint(steps)).max() < 1e-3
    if on_grid:
        per_tile = 1
    else:
        per_tile = int(np.clip(MOST_CELLS * patch_size // extent.max(), 2, 8))
    cell = patch_size / per_tile
    # Tiles far smaller than the slide share cells; the picture stays below MOST_CELLS squared
    # either way.
    cell = max(cell, float(extent.max()) / (2 * MOST_CELLS))
    # Rounding must not add a row or a column of cells.
    columns, rows = np.maximum(np.ceil(extent / cell - 1e-6).astype(int), 1)
    first = np.rint((corners - origin) / cell).astype(int)
    total = np.zeros((rows, columns))
    count = np.zeros((rows, columns))
    # Each step adds the score to one cell of every tile.
    for down in range(per_tile):
        for right in range(per_tile):
            # Rounding may place the last cell of a tile beyond the edge.
            row = np.minimum(first[:, 1] + down, rows - 1)
            column = np.minimum(first[:, 0] + right, columns - 1)
            np.add.at(total, (row, column), values)
            np.add.at(count, (row, column), 1.0)
    cells = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    left, top = origin
    return Raster(
        cells, (float(left), float(top), float(left + columns * cell), float(top + rows * cell))
    )


def scale_end(scores: ArrayLike, quantile: float = QUANTILE) -> float:
    """Return the end of the color scale, a quantile of the nonzero magnitudes, or 1 if all are
    zero.
    """
    size = np.abs(np.asarray(scores, dtype=np.float64))
    # Tiles of value zero, such as background, would pull the quantile down.
    size = size[size > 0]
    if size.size:
        end = float(np.quantile(size, quantile))
    else:
        end = 0.0
    if end > 0 and np.isfinite(end):
        return end
    return 1.0


def shades(signed: bool) -> tuple[tuple[int, int, int], ...]:
    """Return the colors along a scale, from negative through zero to positive, or from zero if
    there is no sign.
    """
    if signed:
        return (AGAINST, ZERO, FOR)
    return (ZERO, UNSIGNED)


def colors(scores: ArrayLike, end: float, signed: bool = True) -> Pixels:
    """Return red, green and blue of scores, on a scale that ends at `end`."""
    # Cells without a tile are transparent, so their color does not matter.
    strength = np.nan_to_num(np.asarray(scores, dtype=np.float64)) / end
    knots = [-1.0, 0.0, 1.0] if signed else [0.0, 1.0]
    channels = np.array(shades(signed)).T
    return np.stack(
        [np.rint(np.interp(strength, knots, channel)).astype(np.uint8) for channel in channels],
        axis=-1,
    )


def png(pixels: Pixels) -> bytes:
    r"""Encode an 8-bit picture (rows, columns, 4) as a PNG file."""
    rows, columns = pixels.shape[:2]
    # Each line starts with its filter, 0 for none.
    # The file is written here, so that a report needs no imaging package.
    lines = np.zeros((rows, 1 + 4 * columns), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    # The header: 8 bits for each of four channels (color type 6), without interlacing.
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


class HeatMap(NamedTuple):
    """The map of one output or of the attention: cells, scale, and the score at which the colors
    end or were `cut`.

    `outlines` (k, 4) are left, top, right and bottom of tiles with a frame (`flip_tiles`).
    """

    title: str
    raster: Raster
    end: float
    signed: bool
    cut: bool
    scale: ExplainedScale = LOGIT
    outlines: Array = np.zeros((0, 4))

    def over_page(self) -> Pixels:
        """Return the (rows, columns, 4) map for any page; opacity is linear in the score, and zero
        is faint gray.
        """
        cells = self.raster.cells
        strength = np.clip(np.abs(np.nan_to_num(cells)) / self.end, 0.0, 1.0)
        # The color has only the sign; the strength is in the opacity.
        picture = colors(np.sign(np.nan_to_num(cells)), 1.0, self.signed)
        picture[strength == 0] = FAINT
        # Opacity instead of a lighter color, so that one picture works on light and dark pages.
        opacity = np.where(np.isnan(cells), 0.0, FAINTEST + (1 - FAINTEST) * strength)
        return np.concatenate(
            [picture, np.rint(255 * opacity).astype(np.uint8)[..., None]], axis=-1
        )

    def pixels(self) -> Pixels:
        """Return (rows, columns, 4) red, green, blue and opacity, transparent outside the tiles."""
        cells = self.raster.cells
        seen = np.where(np.isnan(cells), 0, 255).astype(np.uint8)
        return np.concatenate([colors(cells, self.end, self.signed), seen[..., None]], axis=-1)


def heat_maps(several: Sequence[Explanations], method: str | None = None) -> list[HeatMap]:
    """Return one map per explained output of a bag, all on one scale, and those of the attention
    if there is any.
    """
    where = place(several[0])
    leaders = [leader(explanations, method) for explanations in several]
    scores = [tile_scores(e) for e in leaders]
    # Maps of different classes can only be compared if a color means the same number in all.
    end = scale_end(np.concatenate(scores))
    maps = []
    for explanations, e, values in zip(several, leaders, scores, strict=True):
        level = e.scale.level(e.prediction, "+.4g")
        corners = where.coords[flip_tiles(explanations)]
        output = output_name(e.output)
        maps.append(
            HeatMap(
                title=f"{e.info.label}: evidence for {output} ({e.scale.name} {level})",
                raster=rasterize(where.coords, values, where.patch_size),
                end=end,
                signed=e.info.kind == "signed",
                cut=bool((np.abs(values) > end).any()),
                scale=e.scale,
                outlines=np.concatenate([corners, corners + where.patch_size], axis=1),
            )
        )
    for title, weight in attentions(several):
        most = scale_end(weight)
        raster = rasterize(where.coords, weight, where.patch_size)
        maps.append(
            HeatMap(
                title=title, raster=raster, end=most, signed=False, cut=bool((weight > most).any())
            )
        )
    return maps


def maps_note(explanations: Explanations) -> str:
    """Say what the frames on a map are."""
    count = len(flip_tiles(explanations))
    if count == 1:
        return "Black frame: removing this tile is certified to change the predicted class."
    return (
        f"Black frames: removing these {count:,} tiles is certified to change the predicted class."
    )
