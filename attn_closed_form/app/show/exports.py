"""Exports for other programs: tables, GeoJSON for QuPath, h5 for CLAM and TRIDENT, shap, lime and
shapiq.

A table has one row per player and explained output: one per instance, or one per region if regions
are the players. GeoJSON and h5 have one entry per tile, because other programs draw tiles. Scores
are neither ranked nor rescaled. Every file names its outputs; several explanations of one bag
(`explain_outputs`) go to one file, and the first of them colors the tiles.

Optional packages are imported on first use. If one is missing, an `ImportError` names the extra to
install. shap and lime draw any signed scores, but their sums mean something only for methods that
add up (`baseline + sum = prediction` for Shapley values and integrated gradients).
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import positive
from ...game.interactions import constant_of, interactions
from ..explanations.comparison import Comparison
from ..explanations.evidence import Evidence
from ..explanations.explanation import Explanation, Explanations
from ..explanations.many import ManyExplanations
from ..files.atomic import replacing
from ..models.protocol import NOT_POOLED, NotPooledError
from .drawing import package
from .figures import AGAINST, FOR, leader
from .html import report
from .maps import (
    ATTENTION,
    Place,
    attention,
    attentions,
    colors,
    columns,
    disagreement,
    place,
    scale_end,
    tile_scores,
    whole,
)
from .page import write_page
from .plots import heat_map
from .sanitize import visible

# A text that a spreadsheet would read as a formula: one of the four signs, also in full width and
# after blanks and control characters, which some programs drop. A number with a sign is harmless.
FORMULA = re.compile(r"[\s\x00-\x1f]*(?:[=@＝＠]|[+\-＋－](?![\d.]+(e[+-]?\d+)?$))", re.IGNORECASE)


def spreadsheet_cell(value: Any) -> Any:
    """Return the value of a cell, with an apostrophe before a text that would be read as a formula.

    The texts, names and paths of a table come from files that anybody may have written.

    >>> spreadsheet_cell("=1"), spreadsheet_cell("-1.5"), spreadsheet_cell(-1.5)
    ("'=1", '-1.5', -1.5)
    """
    # A spreadsheet takes an apostrophe for "this is text", and does not show it.
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"
    return value


# Explanations of one input for one output, or for several.
Outputs = Explanations | Sequence[Explanations]


def each_output(explanations: Outputs) -> list[Explanations]:
    """Return the explanations of one input for one output or for several as a list."""
    if isinstance(explanations, Explanations):
        return [explanations]
    several = list(explanations)
    if not several:
        raise ValueError("explanations: expected at least one explained output, got none")
    return several


def write_csv(explanations: Outputs, path: str | os.PathLike[str]) -> None:
    """Write the table as CSV (.tsv: with tabs), with all digits and the byte-order mark that Excel
    needs.
    """
    delimiter = "\t" if Path(path).suffix == ".tsv" else ","
    # A file appears when it is complete, so that no program reads half of it.
    with replacing(path) as partial, partial.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        for number, each in enumerate(each_output(explanations)):
            table = _with_output(each)
            if doubts := each.evidence.model.doubts:
                table["assumed"] = np.full(each.evidence.d, doubts)
            if number == 0:
                writer.writerow(table)
            table["player"] = np.array(list(map(visible, table["player"])))
            cells = [values.tolist() for values in table.values()]
            writer.writerows(map(spreadsheet_cell, row) for row in zip(*cells, strict=True))


def _with_output(explanations: Explanations) -> dict[str, Any]:
    """Return the columns of the table of a bag, the output that they are about, and its scale."""
    d = explanations.evidence.d
    return {
        **columns(explanations),
        "output": np.full(d, visible(explanations.output)),
        "scale": np.full(d, explanations.scale.name),
    }


def write_parquet(explanations: Outputs, path: str | os.PathLike[str]) -> None:
    """Write the table of a bag as Parquet (extra `corpus`); the metadata of the file state what is
    explained: an object, or a list of them for several outputs.
    """
    pyarrow = package("pyarrow", "corpus")
    parquet = package("pyarrow.parquet", "corpus")
    several = each_output(explanations)
    tables = [_with_output(each) for each in several]
    table = pyarrow.table(
        {name: np.concatenate([each[name] for each in tables]).tolist() for name in tables[0]}
    )
    # A single output keeps the form that earlier versions wrote.
    facts: Any = [row(each) for each in several]
    if len(several) == 1:
        facts = facts[0]
    with replacing(path) as partial:
        parquet.write_table(
            table.replace_schema_metadata({"explanation": json.dumps(facts)}), partial
        )


def write_geojson(
    explanations: Outputs,
    path: str | os.PathLike[str],
    method: str | None = None,
    microns_per_pixel: float | None = None,
) -> None:
    """Write the tiles of a bag as GeoJSON that QuPath opens by drag and drop.

    Each tile is a detection: a polygon in level-0 pixels, classified as "for OUTPUT" or "against
    OUTPUT", colored by its score, with every score of every output and the attention as
    measurements (QuPath: Measure, Show measurement maps). The first output classifies and colors.

    Parameters
    ----------
    method : the method whose scores classify and color the tiles; Shapley values by default
    microns_per_pixel : resolution of level 0, to convert coordinates in micrometers (STAMP) to
        pixels
    """
    several = each_output(explanations)
    first = several[0]
    where = place(first)
    in_microns = "tile_size_um" in first.evidence.units.attrs
    if in_microns and microns_per_pixel is None:
        raise ValueError(
            "microns_per_pixel: the coordinates of this bag are micrometers, and QuPath expects "
            "level-0 pixels; pass the micrometers per pixel of the slide"
        )
    if microns_per_pixel is not None:
        if not in_microns:
            raise ValueError(
                "microns_per_pixel: expected coordinates in micrometers (STAMP); this bag has "
                "pixels"
            )
        positive("microns_per_pixel", microns_per_pixel)
        where = Place(where.coords / microns_per_pixel, where.patch_size / microns_per_pixel)
    scores = tile_scores(leader(first, method))
    output = visible(first.output)
    sides = {
        True: json.dumps({"name": f"for {output}", "color": list(FOR)}),
        False: json.dumps({"name": f"against {output}", "color": list(AGAINST)}),
    }
    measured: dict[str, list[float]] = {}
    for each in several:
        measured |= _measured_scores(each)
    for title, weight in attentions(several):
        measured[title.lower()] = weight.tolist()
    keys = [json.dumps(name) for name in measured]
    shades = colors(scores, scale_end(scores)).tolist()
    # QuPath reads either kind of number, and whole ones are shorter.
    boxes = whole(np.concatenate([where.coords, where.coords + where.patch_size], axis=1)).tolist()
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as stream:
        stream.write('{"type": "FeatureCollection", "features": [')
        tiles = zip(
            boxes, scores.tolist(), shades, zip(*measured.values(), strict=True), strict=True
        )
        for i, ((left, top, right, bottom), score, shade, numbers) in enumerate(tiles):
            # GeoJSON closes a ring with its first point.
            ring = (
                f"[[{left}, {top}], [{right}, {top}], [{right}, {bottom}], [{left}, {bottom}], "
                f"[{left}, {top}]]"
            )
            # repr writes the fewest digits that give the same number back.
            values = ", ".join(
                f"{key}: {number!r}" for key, number in zip(keys, numbers, strict=True)
            )
            stream.write(
                f'{"," if i else ""}\n{{"type": "Feature", '
                f'"geometry": {{"type": "Polygon", "coordinates": [{ring}]}}, '
                f'"properties": {{"objectType": "detection", "color": {shade}, '
                f'"classification": {sides[score >= 0]}, "measurements": {{{values}}}}}}}'
            )
        stream.write(f'\n], "assumed": {json.dumps(first.evidence.model.doubts or None)}}}\n')


def _measured_scores(explanations: Explanations) -> dict[str, list[float]]:
    """Return the scores of the tiles of a bag by the name of their measurement, which has the
    output.
    """
    measured = {}
    output = visible(explanations.output)
    for name, e in explanations.items():
        # The attention is written once for all methods.
        if name == ATTENTION:
            continue
        of = output
        if e.scale.link is not None:
            of = e.scale.of_output(output).removeprefix("the ")
        measured[f"{name} {of}"] = tile_scores(e).tolist()
    return measured


def write_h5(
    explanations: Outputs, path: str | os.PathLike[str], method: str | None = None
) -> None:
    """Write scores and coordinates as h5: `attention_scores` (n, 1) and `coords` (n, 2), as in
    CLAM's `blockmap.h5`.

    CLAM's `create_heatmaps.py` and TRIDENT's `visualize_heatmap` draw any scores; the attributes of
    the coordinates (patch_size, patch_level, patch_size_level0, ...) are kept. `attention_scores`
    contains the signed scores of `method`, and `attention` the attention of the model, for the
    first output. With several outputs, `scores_of_outputs` and `attention_of_outputs` (n, number of
    outputs) have those of each, in the order of the attribute `outputs`. Needs h5py (extra `bags`).
    """
    h5py = package("h5py", "bags")
    several = each_output(explanations)
    explanations = several[0]
    e = leader(explanations, method)
    where = place(explanations)
    weight = attention(explanations)
    with replacing(path) as partial, h5py.File(partial, "w") as file:
        file.create_dataset("attention_scores", data=tile_scores(e)[:, None].astype(np.float32))
        coords = file.create_dataset("coords", data=whole(where.coords))
        # Programs that read the coordinates need the size and level of a patch, which the bag came
        # with.
        for name, value in explanations.evidence.units.attrs.items():
            if (
                isinstance(value, str | int | float | np.generic | np.ndarray)
                and name != "thumbnail"
            ):
                coords.attrs[name] = value
        if weight is not None:
            file.create_dataset("attention", data=weight[:, None].astype(np.float32))
        for name, value in row(explanations).items():
            if isinstance(value, str | float):
                file.attrs[name] = value
            else:
                file.attrs[name] = json.dumps(value)
        file.attrs["method"] = e.method
        file.attrs["outputs"] = json.dumps([each.output for each in several])
        # CLAM reads one column; further classes have a data set of their own.
        if len(several) > 1:
            scores = [tile_scores(leader(each, method)) for each in several]
            file.create_dataset("scores_of_outputs", data=np.stack(scores, axis=1))
            weights = [w for w in map(attention, several) if w is not None]
            if len(weights) == len(several):
                file.create_dataset("attention_of_outputs", data=np.stack(weights, axis=1))


def write_report(explanations: Outputs, path: str | os.PathLike[str]) -> None:
    """Write the HTML report of the first output, with the maps of all outputs if there are
    several.
    """
    first, *others = each_output(explanations)
    write_page(path, report(first, others))


class FileKind(NamedTuple):
    """A kind of file with its suffix in a folder of results, its description and its writer."""

    suffix: str
    help: str
    write: Callable[[Outputs, str | os.PathLike[str]], Any]


# The kinds of files by name, as `--files` and `Task.files` take them.
KINDS = {
    "map": FileKind(
        suffix=".png", help="signed heat map (.png, .svg, .pdf; needs matplotlib)", write=heat_map
    ),
    "csv": FileKind(suffix=".csv", help="table of scores (.csv, .tsv)", write=write_csv),
    "parquet": FileKind(
        suffix=".parquet", help="the same as Parquet (needs pyarrow)", write=write_parquet
    ),
    "geojson": FileKind(suffix=".geojson", help="tiles for QuPath", write=write_geojson),
    "h5": FileKind(
        suffix=".h5",
        help="scores and coords as CLAM and TRIDENT read them (needs h5py)",
        write=write_h5,
    ),
    "report": FileKind(suffix=".html", help="self-contained HTML report", write=write_report),
}


def row(explanations: Explanations) -> dict[str, Any]:
    """Return facts about the explanation of a bag, for the header of a file or the row of a
    table.
    """
    evidence = explanations.evidence
    e = leader(explanations)
    gap = disagreement(explanations)
    return {
        "instances": len(evidence.units.labels),
        "output": explanations.output,
        "scale": explanations.scale.name,
        "prediction": float(explanations.prediction),
        "probability": (evidence.probabilities or {}).get(explanations.output),
        "probabilities": evidence.probabilities,
        "players": evidence.target.players,
        "baseline": evidence.baseline,
        "method": e.method,
        "error_bound": e.error,
        "standard_error": largest_standard_error(e),
        "attention_against": None if gap is None else gap.attention_against,
        "rank_correlation": None if gap is None else gap.correlation,
        "assumed": evidence.model.doubts or None,
    }


def largest_standard_error(e: Explanation) -> float | None:
    """Return the largest standard error of scores, or None if they are not sampled."""
    if e.standard_error is None:
        return None
    return float(e.standard_error.max())


def to_shap(explanation: Explanation) -> Any:
    """Convert to a one-row `shap.Explanation`, which `shap.plots.text`, `.bar` and `.waterfall`
    draw.

    A text has one entry per token, in order and with the punctuation after it, so that
    `shap.plots.text` shows the text as it was given. A word's score is shared equally among its
    occurrences, which keeps the sums.
    """
    shap = package("shap", "interop")
    starts, _, owners = zip(*explanation.occurrences, strict=True)
    # shap has one value per token, and a word may occur several times.
    players = np.array(owners)
    # Each piece ends where the next token starts, so that the pieces make up the whole text.
    cuts = (0, *starts[1:], len(explanation.text))
    pieces = [explanation.text[start:end] for start, end in pairwise(cuts)]
    return shap.Explanation(
        values=explanation.scores[players] / np.bincount(players)[players],
        base_values=explanation.baseline,
        data=np.array(["".join(map(visible, piece)) for piece in pieces], dtype=object),
        feature_names=[visible(explanation.labels[j]) for j in players],
    )


def many_to_shap(many: ManyExplanations) -> Any:
    """Convert to a `shap.Explanation` with one row per text, whose arrays differ in length."""
    shap = package("shap", "interop")
    rows = [to_shap(explanation) for explanation in many]
    values = np.empty(len(rows), dtype=object)
    data = np.empty(len(rows), dtype=object)
    for i, row_of_text in enumerate(rows):
        values[i] = row_of_text.values
        data[i] = row_of_text.data
    names = [list(row_of_text.feature_names) for row_of_text in rows]
    return shap.Explanation(
        values=values, base_values=many.baselines, data=data, feature_names=names
    )


def frame_of(explanations: Mapping[str, Explanation], evidence: Evidence) -> Any:
    """Return a pandas DataFrame with one row per player and one column per explanation, named by
    its key.
    """
    pandas = package("pandas")
    columns: dict[str, Any] = {"player": [visible(name) for name in evidence.names]}
    for name, explanation in explanations.items():
        columns[name] = explanation.scores
        if explanation.standard_error is not None:
            error = "standard_error" if name == "score" else f"{name}_standard_error"
            columns[error] = explanation.standard_error
    if evidence.units.text is not None:
        columns["occurrences"] = [len(spans) for spans in evidence.spans]
        columns["start"] = [spans[0][0] for spans in evidence.spans]
        columns["end"] = [spans[0][1] for spans in evidence.spans]
    return pandas.DataFrame(columns)


def frame_of_comparison(comparison: Comparison) -> Any:
    """Return a pandas DataFrame with one row per word of two explanations: both scores and their
    difference.
    """
    pandas = package("pandas")
    rows = [
        {
            "word": visible(change.word),
            "first": change.first,
            "second": change.second,
            "change": change.change,
        }
        for change in comparison.changes
    ]
    return pandas.DataFrame(rows)


def frame_of_many(many: ManyExplanations) -> Any:
    """Return a pandas DataFrame with one row per input and player; `input` is the number of the
    input.
    """
    pandas = package("pandas")
    frames = []
    for number, explanation in enumerate(many):
        frame = frame_of({"score": explanation}, explanation.evidence)
        # Texts share words, so a row needs the number of its text.
        frame.insert(0, "input", number)
        frame["output"] = explanation.output
        frame["prediction"] = explanation.prediction
        frame["baseline"] = explanation.baseline
        frames.append(frame)
    return pandas.concat(frames, ignore_index=True)


def to_lime(explanation: Explanation) -> Any:
    """Convert to a lime `Explanation` in regression mode, on the scale that was explained.

    `as_list`, `as_map`, `as_html` and `as_pyplot_figure` work; label 1 has the scores and label 0
    their negatives, as in lime's own regression explanations.
    """
    lime = package("lime.explanation", "interop")
    # One character each, so that spans stay valid.
    raw = "".join(visible(character) for character in explanation.text)

    class SpanMapper(lime.DomainMapper):  # type: ignore[name-defined,misc]
        """Link between feature ids and the text, with known spans instead of lime's splitting."""

        def map_exp_ids(
            self, exp: Any, positions: bool = False, **_: Any
        ) -> list[tuple[str, float]]:
            return _named_for_lime(explanation, exp, positions)

        def visualize_instance_html(
            self,
            exp: Any,
            label: int,
            div_name: str,
            exp_object_name: str,
            text: bool = True,
            opacity: bool = True,
        ) -> str:
            if not text:
                return ""
            arguments = (
                json.dumps(_places_for_lime(explanation, raw, dict(exp))),
                str(label),
                json.dumps(_without_markup(raw)),
                div_name,
                json.dumps(opacity),
            )
            return f"\n{exp_object_name}.show_raw_text({', '.join(arguments)});\n"

    made = lime.Explanation(SpanMapper(), mode="regression", random_state=0)
    scores = explanation.scores
    base = explanation.baseline
    # lime lists its features by their weight.
    order = np.argsort(-np.abs(scores), kind="stable").tolist()
    made.local_exp = {
        1: [(j, float(scores[j])) for j in order],
        0: [(j, -float(scores[j])) for j in order],
    }
    made.intercept = {1: base, 0: -base}
    made.local_pred = np.array([base + float(scores.sum())])
    made.predicted_value = explanation.prediction
    lowest = base + float(scores[scores < 0].sum())
    highest = base + float(scores[scores > 0].sum())
    # lime draws its bar between these two numbers.
    made.min_value = float(min(lowest, highest, explanation.prediction))
    made.max_value = float(max(lowest, highest, explanation.prediction))
    return made


def _named_for_lime(
    explanation: Explanation, weights: list[tuple[int, float]], positions: bool
) -> list[tuple[str, float]]:
    """Return the names of players with their weights, with their places in the text if asked."""
    names = [visible(label) for label in explanation.labels]
    if positions:
        starts = ["-".join(str(start) for start, _ in spans) for spans in explanation.spans]
        names = [f"{name}_{places}" for name, places in zip(names, starts, strict=True)]
    return [(names[j], weight) for j, weight in weights]


def _places_for_lime(
    explanation: Explanation, raw: str, weights: dict[int, float]
) -> list[tuple[str, int, float]]:
    """Return the words of the weighted players, where they start, and their weights."""
    places = []
    for start, end, player in explanation.occurrences:
        if player in weights:
            # JavaScript counts an emoji as two.
            units_before = len(raw[:start].encode("utf-16-le")) // 2
            places.append((_without_markup(raw[start:end]), units_before, weights[player]))
    return places


def _without_markup(text: str) -> str:
    """Replace possible markup by |, because lime's page inserts the text as HTML."""
    return text.translate(str.maketrans("<>&", "|||"))


def to_shapiq(explanation: Explanation, order: int = 1, index: str | None = None) -> Any:
    """Convert to a `shapiq.InteractionValues` of the players.

    The explanation has Shapley ("SV" in shapiq) or Banzhaf ("BV") values; the order 2 adds the
    exact interactions of all pairs by an index: "SII" (the default), "STII" or "FSII" of a Shapley
    explanation, "BII" (the default) or "FBII" of a Banzhaf one. The values of single players are
    those of the index (`game/interactions.py`).
    """
    # Indices of order two in shapiq, by the method of the single players.
    shapiq_indices = {"shapley": ("SV", "SII", "STII", "FSII"), "banzhaf": ("BV", "BII", "FBII")}
    known = shapiq_indices.get(explanation.method)
    if known is None:
        raise ValueError(
            "explanation: expected 'shapley' or 'banzhaf', as in shapiq, got "
            f"{explanation.method!r}"
        )
    if order not in (1, 2):
        raise ValueError(f"order: expected 1 or 2, got {order}")
    if index is None:
        name = known[order - 1]
    else:
        name = index
    allowed = known[:1] if order == 1 else known[1:]
    if name not in allowed:
        expected = ", ".join(allowed)
        raise ValueError(
            f"index: expected {expected} for order {order} of {explanation.method!r}, got {index!r}"
        )
    shapiq = package("shapiq", "interop")
    d = len(explanation.labels)
    base = explanation.baseline
    table = np.diag(explanation.scores)
    if order == 2 and not explanation.evidence.is_pooled:
        raise NotPooledError(f"order: {NOT_POOLED}; expected 1")
    if order == 2:
        table = interactions(explanation.game, name)
        # The indices of order two have a constant of their own, which is not the value without
        # players.
        base = constant_of(explanation.game, name, table)
    values: dict[tuple[int, ...], float] = {
        (): base,
        **{(j,): float(table[j, j]) for j in range(d)},
    }
    if order == 2:
        # shapiq stores each pair once.
        values |= {(i, j): float(table[i, j]) for i in range(d) for j in range(i + 1, d)}
    return shapiq.InteractionValues(
        values=np.array(list(values.values())),
        index=name,
        max_order=order,
        min_order=0,
        n_players=d,
        interaction_lookup={players: i for i, players in enumerate(values)},
        estimated=False,
        baseline_value=base,
    )
