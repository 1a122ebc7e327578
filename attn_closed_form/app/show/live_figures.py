"""The data of the figures of the live page, ready for `json.dumps`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..explanations.comparison import Comparison
from ..explanations.evidence import Evidence
from ..explanations.explanation import Explanations
from ..models.scale import LOGIT
from .colored import legend_cells
from .comparison_report import (
    changes_figure,
    comparison_headline,
    meaning_of_shared_colors,
    players_only_in,
    shared_end,
)
from .figures import (
    class_bars,
    colored_text,
    explained_number,
    headline,
    leader,
    levels,
    method_rows,
    names,
    notice,
    strongest_players,
)
from .removals import effect_bar
from .sanitize import visible
from .waterfall import Waterfall, waterfall


def partners(
    evidence: Evidence, player: int, row: ArrayLike, top: int = 10
) -> list[dict[str, Any]]:
    """Return the strongest entries of a player's `row` (d,) of the interaction matrix, without the
    player itself.
    """
    values = np.asarray(row, dtype=np.float64).tolist()
    shown = names(evidence)
    order = sorted((j for j in range(len(values)) if j != player), key=lambda j: -abs(values[j]))[
        :top
    ]
    largest = abs(values[order[0]]) if order else 0.0
    return [
        {"player": j, "name": shown[j], "value": values[j], "bar": effect_bar(values[j], largest)}
        for j in order
    ]


def figures_of(explanations: Explanations) -> dict[str, Any]:
    """Return the data of the figures of one text, which the page draws at every keystroke."""
    lead = None
    if explanations:
        lead = leader(explanations)
    steps = Waterfall((), ())
    # Only these scores add up to the prediction, which is what a waterfall shows.
    if lead and lead.method == explanations.evidence.headline:
        steps = waterfall(lead)
    legend: list[tuple[str, str]] = []
    if lead:
        legend = legend_cells(lead.scores, lead.info.kind == "signed", lead)
    return {
        "headline": headline(explanations),
        "explained": explained_number(explanations),
        "notice": notice(explanations),
        "scale": visible(explanations.explained),
        "units": {scale.name: scale.unit for scale in (LOGIT, explanations.scale)},
        "classes": [bar._asdict() for bar in class_bars(explanations)],
        "names": names(explanations.evidence),
        "leader": None if lead is None else lead.method,
        "text": None if lead is None else colored_text(lead)._asdict(),
        "legend": legend,
        "strongest": strongest_players(explanations) if explanations else [],
        "waterfall": [bar._asdict() for bar in steps.bars],
        "ticks": steps.ticks,
        "unit": steps.unit,
        "methods": [
            {**family._asdict(), "rows": [row._asdict() for row in family.rows]}
            for family in method_rows(explanations)
        ],
    }


def comparison_figures(comparison: Comparison) -> dict[str, Any]:
    """Return the data of the figures of a comparison: both texts on one scale, and the steps."""
    # One scale for both texts, so that equal colors are equal numbers.
    largest = shared_end(comparison)
    steps = changes_figure(comparison)
    first = comparison.first
    second = comparison.second
    texts = []
    for e, other in ((first, second), (second, first)):
        text = colored_text(e, largest)._asdict()
        only = sorted(players_only_in(e, other))
        texts.append({**text, "only": only, "level": e.scale.level(e.prediction)})
    scores = np.concatenate([first.scores, second.scores])
    return {
        "headline": comparison_headline(comparison),
        "texts": texts,
        "legend": legend_cells(scores, True, first),
        "meaning": meaning_of_shared_colors(comparison),
        "waterfall": [bar._asdict() for bar in steps.bars],
        "ticks": steps.ticks,
        "unit": steps.unit,
    }


def sentence_levels(scores: ArrayLike) -> list[int]:
    """Return the level of the color of each sentence, relative to the strongest one."""
    values = np.asarray(scores, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return levels(values / largest).tolist()
