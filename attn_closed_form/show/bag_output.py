"""Every file that can be made of an explained bag, by kind: what the command and the runs over folders write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..explanations.explanation import Explanations
from .bag_scores import disagreement, leading, player_attention, player_places
from .exports import write_csv, write_geojson, write_h5, write_parquet
from .heat_map import heat_map
from .report import write_page
from .report_bag import bag_report
from .sanitize import elide, visible


class Kind(NamedTuple):
    """A kind of file: its suffix in a folder of results, what it is, and what writes it from (found, path, method)."""

    suffix: str
    help: str
    write: Callable[[Explanations, str | os.PathLike[str], str | None], Any]


KINDS: dict[str, Kind] = {
    "map": Kind(".png", "signed heat map (.png, .svg, .pdf; extra plots)", lambda f, path, m: heat_map(f, path, m)),
    "csv": Kind(".csv", "table of scores, one row per player", lambda f, path, m: write_csv(f, path)),
    "parquet": Kind(".parquet", "the same as Parquet (extra corpus)", lambda f, path, m: write_parquet(f, path)),
    "geojson": Kind(".geojson", "tiles for QuPath", lambda f, path, m: write_geojson(f, path, m)),
    "h5": Kind(".h5", "attention_scores and coords, as CLAM and TRIDENT read them (extra bags)", write_h5),
    "report": Kind(".html", "self-contained HTML report", lambda f, path, m: write_page(path, bag_report(f, m))),
}


def row(found: Explanations, method: str | None = None) -> dict[str, Any]:
    """What a table of many bags says of one: its prediction, and how attention differs from the scores."""
    evidence = found.evidence
    leader, gap = leading(found, method), disagreement(found, method)
    chance = None if evidence.probabilities is None else evidence.probabilities.get(found.output)
    return {
        "instances": len(evidence.units.labels),
        "output": found.output,
        "prediction": float(found.prediction),
        "probability": chance,
        "empty_bag": evidence.absent_value,
        "method": leader.method,
        "error_bound": leader.error,
        "attention_against": None if gap is None else gap.attention_against,
        "rank_correlation": None if gap is None else gap.correlation,
    }


def listed(found: Explanations, players: Iterable[int], method: str | None = None) -> list[str]:
    """Lines for a terminal: name, place, score and attention of some players."""
    leader, weight, (_, corners) = leading(found, method), player_attention(found), player_places(found)
    lines = []
    for j in players:
        at = "" if corners is None else f"  x {corners[j, 0]:>8.0f}  y {corners[j, 1]:>8.0f}"
        share = "" if weight is None else f"  attention {weight[j]:>7.2%}"
        lines.append(f"{elide(visible(leader.labels[j]), 24):>10}{at}  {leader.scores[j]:>+10.4g}{share}")
    return lines
