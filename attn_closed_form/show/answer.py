"""The answer first: what every view shows at the top, from what `explain` found and without computing anything again.

The verdict ("positive, 53 %"), the explanation that leads, the waterfall from "every player absent" to the prediction
with the strongest players by name and the rest as one bar, and the other methods by family, those that look alike
folded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import FAMILIES, Family
from .palette import levels

# Players by name in a waterfall.
MOST_STEPS = 10


class Verdict(NamedTuple):
    """What the model says: the most probable class, its probability, and what is explained."""

    name: str
    probability: float | None
    output: str
    logit: float


class Step(NamedTuple):
    """A bar of the waterfall: it takes the running value from `start` to `end`; `players` of them, 0 for the ends."""

    label: str
    start: float
    end: float
    players: int

    @property
    def change(self) -> float:
        """By how much the running value moves."""
        return self.end - self.start


class Row(NamedTuple):
    """Methods that give every player the same colour, and the explanation that stands for them."""

    methods: tuple[str, ...]
    explanation: Explanation


def verdict(found: Explanations) -> Verdict:
    """The most probable class and what is explained."""
    chances = found.probabilities
    if chances is None:
        return Verdict(found.output, None, found.output, found.prediction)
    best = max(chances, key=lambda name: chances[name])
    return Verdict(best, chances[best], found.output, found.prediction)


def leader(found: Explanations) -> Explanation:
    """The explanation that colours the text: Shapley values, or else the first one with a sign, or the first."""
    ranked = sorted(found.values(), key=lambda e: (e.method != "shapley", e.info.kind != "signed"))
    return ranked[0]


def waterfall(e: Explanation, most: int = MOST_STEPS) -> list[Step]:
    """From the prediction with every player absent to the whole one; for scores that add up, such as Shapley values.

    >>> from attn_closed_form import load_demo_model
    >>> steps = waterfall(load_demo_model().explain("A fine film", "shapley")["shapley"], most=1)
    >>> [(step.label, round(step.change, 2)) for step in steps]
    [('no word known', 0.0), ('fine', 0.5), ('2 others', 0.15), ('positive', 0.0)]
    """
    order = np.argsort(-np.abs(e.scores), kind="stable")
    named = order[: most if len(order) > most + 1 else len(order)]
    nobody = "no word known" if e.evidence.settings.absent == "unk" else "nothing present"
    steps = [Step(nobody, e.base_value, e.base_value, 0)]
    at = e.base_value
    for j in named:
        steps.append(Step(e.labels[j], at, at + float(e.scores[j]), 1))
        at = steps[-1].end
    rest = 0.0 if e.evidence.fit is None else e.evidence.fit.at_text
    if len(named) < len(order):
        steps.append(Step(f"{len(order) - len(named)} others", at, e.prediction - rest, len(order) - len(named)))
    if rest:
        steps.append(Step("what the fit misses", e.prediction - rest, e.prediction, 1))
    return [*steps, Step(e.output, e.prediction, e.prediction, 0)]


def families(found: Explanations) -> dict[Family, list[Row]]:
    """The explanations by family, those that agree to the eye (the same level for every player) in one row."""
    rows: dict[Family, list[Row]] = {family: [] for family in FAMILIES}
    for name, e in found.items():
        own = levels(e.strength)
        for i, row in enumerate(rows[e.info.family]):
            other = row.explanation
            if other.info.kind == e.info.kind and np.array_equal(levels(other.strength), own):
                rows[e.info.family][i] = row._replace(methods=(*row.methods, name))
                break
        else:
            rows[e.info.family].append(Row((name,), e))
    return {family: found_rows for family, found_rows in rows.items() if found_rows}


def sampling(e: Explanation) -> str:
    """How often a model was asked itself for these scores, and their largest standard error; empty for all others."""
    if e.info.needs != "model" or e.model_calls is None:
        return ""
    most = 0.0 if e.standard_error is None else float(e.standard_error.max())
    return f"{e.title}: {e.model_calls:,} model calls, " + (
        f"standard errors up to {most:.2g}" if most else "nothing sampled"
    )
