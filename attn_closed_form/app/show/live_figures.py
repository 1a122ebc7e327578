"""The data of the figures of the live page, ready for `json.dumps`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..explanations.evidence import Evidence
from ..explanations.explanation import Explanations
from ..models.scale import LOGIT
from .figures import (
    class_bars,
    colored_text,
    leader,
    method_rows,
    names,
    notice,
    strongest_players,
    verdict,
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
    """Return the data of the figures of one text, ready for `json.dumps`, which the page draws at
    every keystroke.
    """
    if explanations:
        lead = leader(explanations)
    else:
        lead = None
    steps = Waterfall((), ())
    if lead and lead.method == explanations.evidence.headline:
        steps = waterfall(lead)
    return {
        "headline": verdict(explanations),
        "notice": notice(explanations),
        "scale": visible(explanations.explained),
        "units": {scale.name: scale.unit for scale in (LOGIT, explanations.scale)},
        "classes": [bar._asdict() for bar in class_bars(explanations)],
        "names": names(explanations.evidence),
        "leader": None if lead is None else lead.method,
        "text": None if lead is None else colored_text(lead)._asdict(),
        "strongest": strongest_players(explanations) if explanations else [],
        "waterfall": [bar._asdict() for bar in steps.bars],
        "ticks": steps.ticks,
        "methods": [
            {**family._asdict(), "rows": [row._asdict() for row in family.rows]}
            for family in method_rows(explanations)
        ],
    }
