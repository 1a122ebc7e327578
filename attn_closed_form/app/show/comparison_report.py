"""The report of a comparison: two texts side by side on one color scale, and how one prediction
becomes the other.
"""

from __future__ import annotations

import numpy as np

from ..explanations.comparison import Comparison
from ..explanations.explanation import Explanation, Explanations
from . import figures
from .colored import colored, legend_cells, legend_of, script_data
from .described import kind_of
from .page import (
    bullets,
    details,
    drawn_waterfall,
    facts_paragraph,
    note,
    page_of,
    script,
    section,
    stylesheet,
    table_of,
)
from .report_parts import HOW_TO_READ, classes_of, method_facts
from .sanitize import escape, output_name, prose, visible
from .waterfall import Changes, Waterfall, WaterfallStep, waterfall_of_changes


def comparison_headline(comparison: Comparison) -> str:
    """State both predictions and their difference.

    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> comparison_headline(model.explain("A fine film").compare(model.explain("A dull film")))
    'The probability of positive falls from 61.3% to 5.6% (-55.7 points)'
    """
    scale = comparison.scale
    what = scale.of_output(visible(comparison.first.output)).removeprefix("the ")
    first, second = (scale.level(e.prediction) for e in (comparison.first, comparison.second))
    change = comparison.change
    # "Rises by 0" would be wrong.
    if change == 0:
        return f"The {what} is {first} in both"
    moves = "rises" if change > 0 else "falls"
    return f"The {what} {moves} from {first} to {second} ({scale.change(change)})"


def changes_figure(comparison: Comparison, top: int = 10) -> Waterfall:
    """Return the waterfall from the first prediction to the second; it ends with the change of the
    baseline, if any.
    """
    rest = None
    # Two models, or positions, differ without any word, and the steps must add up.
    if comparison.baseline_change:
        rest = WaterfallStep(label="the baseline", change=comparison.baseline_change, members=0)
    changes = Changes(
        names=tuple(visible(change.word) for change in comparison.changes),
        values=comparison.values,
        errors=comparison.standard_errors,
        start=comparison.first.prediction,
        end=comparison.second.prediction,
        ends=(visible(comparison.names[0]), visible(comparison.names[1])),
        scale=comparison.scale,
        rest=rest,
    )
    return waterfall_of_changes(changes, top)


def shared_end(comparison: Comparison) -> float:
    """Return the largest score of both, which has the strongest color."""
    scores = np.concatenate([comparison.first.scores, comparison.second.scores])
    return float(np.abs(scores).max(initial=0.0))


def players_only_in(e: Explanation, other: Explanation) -> frozenset[int]:
    """Return the players of one explanation whose names the other one does not have."""
    # Words are matched by name: a word may have other positions in the other text.
    known = set(other.evidence.names)
    return frozenset(j for j, name in enumerate(e.evidence.names) if name not in known)


def comparison_report(comparison: Comparison) -> str:
    """Return the comparison as a page."""
    body = comparison_body(comparison)
    return page_of(comparison_headline(comparison), f"{body}{script_data([])}{script()}")


def comparison_cell(comparison: Comparison) -> str:
    """Return the comparison as the cell of a notebook."""
    return f'<style>{stylesheet()}</style><div class="acf">{comparison_body(comparison)}</div>'


def meaning_of_shared_colors(comparison: Comparison) -> str:
    """Explain the colors of two texts."""
    output = output_name(comparison.first.output)
    return (
        f"Both texts share one color scale: orange raises {output}, blue (underlined) lowers it. A "
        "dashed frame marks what only one of them has."
    )


def comparison_body(comparison: Comparison) -> str:
    """Return the parts of a comparison."""
    first = comparison.first
    second = comparison.second
    columns = ""
    for name, e, other in (
        (comparison.names[0], first, second),
        (comparison.names[1], second, first),
    ):
        columns += _column(name, e, other, comparison)
    cells = legend_cells(np.concatenate([first.scores, second.scores]), has_sign=True, e=first)
    sampled = ""
    if comparison.standard_errors.any():
        sampled = " ± is the standard error of the difference."
    steps = section(
        "From one to the other",
        "The difference of the predictions, word by word. A word that only one of them has counts "
        f"with its whole score.{sampled}",
        drawn_waterfall(changes_figure(comparison)),
        "h2",
    )
    parts = [
        f"<h1>{prose(comparison_headline(comparison))}</h1>",
        facts_paragraph(_facts(comparison)),
        note(first.explained),
        f'<div class="two">{columns}</div>',
        legend_of(cells, comparison.scale, 0),
        note(meaning_of_shared_colors(comparison)),
        f'<div class="two">{steps}{_table(comparison)}</div>',
        details("How to read this", bullets(HOW_TO_READ)),
    ]
    return "".join(parts)


def _facts(comparison: Comparison) -> list[str]:
    """State the models, the number of words of both, the method, its accuracy, the version and the
    date.
    """
    models = [
        kind_of(e.evidence.model).partition(" ")[2] for e in (comparison.first, comparison.second)
    ]
    things = comparison.first.evidence.target.players
    first, second = (len(e.scores) for e in (comparison.first, comparison.second))
    counts = f"{first:,} and {second:,} {things}"
    return [*dict.fromkeys(models), counts, *method_facts(comparison.first)]


def _of(e: Explanation) -> Explanations:
    """Return the explanations with this one alone."""
    return Explanations(e.evidence, {e.method: e})


def _column(name: str, e: Explanation, other: Explanation, comparison: Comparison) -> str:
    """Return one of the two: its headline, its classes in the order of the first one, and its
    text.
    """
    only = players_only_in(e, other)
    text = colored(e, with_tips=True, largest=shared_end(comparison), marked=only)
    title = visible(name)
    # The eye compares rows, so both texts list the classes of the first.
    classes = classes_of(_of(e), in_order_of=_of(comparison.first))
    return (
        f"<section><h2>{escape(title[:1].upper() + title[1:])}</h2>"
        f"<p>{prose(figures.headline(_of(e)))}</p>{classes}"
        f'<div class="text live" dir="auto">{text}</div></section>'
    )


def _table(comparison: Comparison) -> str:
    """Return the words with the largest differences, with both scores."""
    # Tuning: the number of words in the table of a comparison, which shows those with the largest
    # differences.
    most_words = 40
    scale = comparison.scale
    rows = []
    errors = comparison.standard_errors.tolist()
    for change, error in list(zip(comparison.changes, errors, strict=True))[:most_words]:
        scores = (change.first, change.second)
        cells = ["–" if score is None else scale.column(score) for score in scores]
        if error:
            # The title of the column has the unit.
            written = scale.change(change.change, error=error)
            cells.append(written.removesuffix(str(scale.unit["change"])))
        else:
            cells.append(scale.column(change.change))
        rows.append((visible(change.word), cells))
    titles = ["word", *comparison.names, "difference"]
    titles = [titles[0], *(scale.titled(title) for title in titles[1:])]
    count = len(comparison.changes)
    text = ""
    if count > most_words:
        text = f"The {most_words} largest differences among {count:,} words."
    return section("The words", text, table_of(titles, rows), "h2")
