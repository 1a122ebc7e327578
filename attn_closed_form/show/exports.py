"""Files of the scores of a bag: CSV and Parquet tables, GeoJSON for QuPath, h5 for the scripts of CLAM and TRIDENT.

A table has one row per player: one per instance, or one per region where regions are the players. GeoJSON and h5 have
one entry per tile, because that is what other programs draw. Nothing is ranked or rescaled: numbers are the scores.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanations
from ..files.atomic import replacing
from .bag_scores import ATTENTION, Place, attention, leading, place, player_attention, player_places, tile_scores
from .palette import AGAINST, FOR
from .sanitize import visible
from .tiles import colours, scale_end


def columns(found: Explanations) -> dict[str, Any]:
    """The table of a bag, by column: name, place and number of tiles of each player, its attention, its scores.

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> list(columns(load_demo_model().explain("A fine film", ["shapley", "banzhaf"])))
    ['player', 'attention', 'shapley', 'banzhaf']
    """
    tiles, corners = player_places(found)
    table: dict[str, Any] = {"player": np.array(found.evidence.labels, dtype=np.str_)}
    if corners is not None:
        table |= {"x": _whole(corners[:, 0]), "y": _whole(corners[:, 1])}
    if found.evidence.settings.players != found.evidence.model.groupings[0]:
        table["tiles"] = tiles
    weight = player_attention(found)
    if weight is not None:
        table["attention"] = weight
    for name, e in found.items():
        if name != ATTENTION:
            table[name] = e.scores
            if e.standard_error is not None and found.evidence.fit is not None:
                table[f"{name}_standard_error"] = e.standard_error
    return table


def _whole(values: Array) -> Any:
    """Coordinates as integers where they are."""
    return values.astype(np.int64) if np.array_equal(values, np.rint(values)) else values


def write_csv(found: Explanations, path: str | os.PathLike[str]) -> None:
    """Write the table of a bag as CSV, with all digits of the scores; .tsv separates by tabs."""
    table = columns(found)
    # A spreadsheet takes a cell that opens with one of these for a formula; names come from strangers' files.
    names = [f"'{name}" if name[:1] in "=+-@" and not _number(name) else visible(name) for name in table["player"]]
    cells = [names, *(values.tolist() for name, values in table.items() if name != "player")]
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if Path(path).suffix == ".tsv" else ",", lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*cells, strict=True))


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_parquet(found: Explanations, path: str | os.PathLike[str]) -> None:
    """Write the table of a bag as Parquet (extra `corpus`); what is explained is in the metadata of the file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"Parquet needs pyarrow ({error}): pip install 'attn-closed-form[corpus]'") from None
    table = pyarrow.table({name: pyarrow.array(values.tolist()) for name, values in columns(found).items()})
    with replacing(path) as partial:
        parquet.write_table(table.replace_schema_metadata({"explanation": json.dumps(facts(found))}), partial)


def write_geojson(
    found: Explanations,
    path: str | os.PathLike[str],
    method: str | None = None,
    patch_size: float | None = None,
    microns_per_pixel: float | None = None,
) -> None:
    """Write the tiles of a bag as GeoJSON that QuPath takes by drag and drop.

    Each tile is a detection: a polygon in level-0 pixels, classified as "for OUTPUT" or "against OUTPUT", coloured by
    its score, with every score and the attention as measurements (QuPath: Measure, Show measurement maps).

    Parameters
    ----------
    found : what `explain` returned for a bag with coordinates
    path : file to write
    method : whose scores classify and colour; default Shapley values
    patch_size : side of a tile, if the file of the bag does not say it
    microns_per_pixel : of level 0; only for coordinates in micrometres (STAMP), which become pixels by it
    """
    where, scores = _in_pixels(found, place(found, patch_size), microns_per_pixel), tile_scores(leading(found, method))
    output = visible(found.output)
    sides = {
        True: json.dumps({"name": f"for {output}", "color": list(FOR)}),
        False: json.dumps({"name": f"against {output}", "color": list(AGAINST)}),
    }
    measured = {f"{name} {output}": tile_scores(e).tolist() for name, e in found.items() if name != ATTENTION}
    weight = attention(found)
    if weight is not None:
        measured["attention"] = weight.tolist()
    keys = [json.dumps(name) for name in measured]
    shades = colours(scores, scale_end(scores)).tolist()
    corners = np.concatenate([where.coords, where.coords + where.patch_size], axis=1)
    boxes = _whole(corners).tolist()
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write('{"type": "FeatureCollection", "features": [')
        for i, ((left, top, right, bottom), score, shade, numbers) in enumerate(
            zip(boxes, scores.tolist(), shades, zip(*measured.values(), strict=True), strict=True)
        ):
            ring = f"[[{left}, {top}], [{right}, {top}], [{right}, {bottom}], [{left}, {bottom}], [{left}, {top}]]"
            values = ", ".join(f"{key}: {number!r}" for key, number in zip(keys, numbers, strict=True))
            stream.write(
                f'{"," if i else ""}\n{{"type": "Feature", "geometry": {{"type": "Polygon", "coordinates": [{ring}]}}, '
                f'"properties": {{"objectType": "detection", "color": {shade}, "classification": {sides[score >= 0]}, '
                f'"measurements": {{{values}}}}}}}'
            )
        stream.write("\n]}\n")


def _in_pixels(found: Explanations, where: Place, microns_per_pixel: float | None) -> Place:
    """Places in level-0 pixels, which is what QuPath counts in."""
    in_microns = "tile_size_um" in found.evidence.units.attrs
    if in_microns and microns_per_pixel is None:
        raise ValueError(
            "microns_per_pixel: the coordinates of this bag are micrometres, and QuPath wants level-0 pixels; give the "
            "micrometres per pixel of the slide"
        )
    if microns_per_pixel is None:
        return where
    if not in_microns:
        raise ValueError("microns_per_pixel: expected coordinates in micrometres (STAMP); this bag has pixels already")
    if not (np.isfinite(microns_per_pixel) and microns_per_pixel > 0):
        raise ValueError(f"microns_per_pixel: expected a number above 0, got {microns_per_pixel}")
    return Place(where.coords / microns_per_pixel, where.patch_size / microns_per_pixel)


def write_h5(found: Explanations, path: str | os.PathLike[str], method: str | None = None) -> None:
    """Write scores and coordinates as h5: `attention_scores` (n, 1) and `coords` (n, 2), as CLAM's `blockmap.h5`.

    CLAM's `create_heatmaps.py` and TRIDENT's `visualize_heatmap` draw whatever scores they are given; the attributes of
    the coordinates (patch_size, patch_level, patch_size_level0, ...) are kept. `attention_scores` holds the signed
    scores of `method`, `attention` the model's own. Needs h5py (extra `bags`).
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"h5 files need h5py ({error}): pip install 'attn-closed-form[bags]'") from None
    leader, where = leading(found, method), place(found)
    weight = attention(found)
    with replacing(path) as partial, h5py.File(partial, "w") as file:
        file.create_dataset("attention_scores", data=tile_scores(leader)[:, None].astype(np.float32))
        coords = file.create_dataset("coords", data=_whole(where.coords))
        for name, value in found.evidence.units.attrs.items():
            if isinstance(value, str | int | float | np.generic | np.ndarray):
                coords.attrs[name] = value
        if weight is not None:
            file.create_dataset("attention", data=weight[:, None].astype(np.float32))
        for name, value in facts(found).items():
            file.attrs[name] = value if isinstance(value, str | float) else json.dumps(value)
        file.attrs["method"] = leader.method


def facts(found: Explanations) -> dict[str, Any]:
    """What was explained, in a few plain values for the header of a file."""
    evidence = found.evidence
    return {
        "output": found.output,
        "prediction": float(found.prediction),
        "empty_bag": float(evidence.absent_value),
        "probabilities": evidence.probabilities,
        "players": evidence.settings.players,
        "methods": list(found),
        "errors": {name: e.error for name, e in found.items()},
    }
