"""A report as one HTML file: self-contained, escaped, light, readable on a phone, by the colour-blind and offline.

`report` puts the answer first: what the model says, the text coloured by the exact Shapley values, how the words add
up, and the reasons. What the other methods say follows, folded, by family. `fragment` makes the coloured words alone,
for a notebook cell. Parts of the answer are in `report_answer.py`, figures in `report_figures.py`, style and script in
`report_assets.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import FAMILIES
from .answer import families, leader
from .report_answer import answer_section, coloured, facts, players_of
from .report_assets import page_css, page_script, words_css
from .report_bag import bag_fragment, bag_report
from .report_figures import agreement, attention_heads, lime_spread, slalom_plane
from .sanitize import elide, escape, script_json, visible

LONGEST_WORD = 60
TOP_WORDS = 12
# Models whose units are instances of a bag get the report of a bag, with a map instead of a text.
BAG_GROUPING = "instances"
REFERENCES = (
    "Lopardo, Precioso, Garreau: Attention Meets Post-hoc Interpretability: A Mathematical Perspective, ICML 2024 "
    "(arXiv 2402.03485)",
    "Leemann, Fastowski, Pfeiffer, Kasneci: Attention Mechanisms Don't Learn Additive Models, 2025 (arXiv 2405.13536)",
    "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017 (arXiv 1703.01365)",
)


def fragment(explanations: Sequence[Explanation]) -> str:
    """The words coloured by each explanation, with the numbers on hover: what a notebook shows.

    >>> from attn_closed_form import load_demo_model
    >>> page = fragment([load_demo_model().explain("<b>fine</b>", "shapley")["shapley"]])
    >>> "<b>fine" in page, "&lt;b&gt;" in page
    (False, True)
    """
    rows = [(e.title, f"{e.info.summary}; {e.info.accuracy}", e) for e in explanations]
    first = explanations[0]
    if first.evidence.model.groupings[0] == BAG_GROUPING:
        return bag_fragment(Explanations(first.evidence, {e.method: e for e in explanations}))
    base = f"{first.output} {first.prediction:+.4f}, {first.evidence.absent_value:+.4f} with every player absent"
    note = "orange raises it, blue (underlined) lowers it, grey has no sign"
    shown = f"<p>{escape(base)}; {note}</p>{_words_table(rows, hover=True)}"
    return f'<style>{words_css()}</style><div class="acf">{shown}</div>'


def notebook(found: Explanations) -> str:
    """What a notebook shows: the answer, then the words coloured by each method; of a bag, its maps."""
    if found.evidence.model.groupings[0] == BAG_GROUPING:
        return bag_fragment(found)
    rows = fragment(list(found.values())) if len(found) > 1 else ""
    # The rules of the page must not reach the notebook around the cell.
    style = f"{words_css()}\n@scope(.acf-cell){{{page_css()}}}"
    return f'<style>{style}</style><div class="acf acf-cell">{answer_section(found)}{rows}</div>'


def _words_table(rows: Sequence[tuple[str, str, Explanation]], hover: bool) -> str:
    body = "".join(
        f'<tr><th scope=row title="{escape(tip)}">{escape(label)}</th><td dir="auto">{coloured(e, hover)}</td></tr>'
        for label, tip, e in rows
    )
    return f'<table class="words"><tbody>{body}</tbody></table>'


def report(found: Explanations, runs: int = 5) -> str:
    """One HTML page about one input: a view of what `explain` found.

    Parameters
    ----------
    found : what `explain` returned
    runs : how often sampled LIME is run for the figure that shows its spread; 0 leaves the figure out

    Returns
    -------
    The page; write it to a file as UTF-8

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> page = report(load_demo_model().explain("A fine film"), runs=2)
    >>> page.startswith("<!doctype html>"), len(page.encode()) < 50_000
    (True, True)
    """
    if found.evidence.model.groupings[0] == BAG_GROUPING:
        return bag_report(found)
    parts = [answer_section(found)]
    if len(found) > 1:
        parts += [_methods(found), _numbers(found), *_figures(found, runs)]
    parts.append(_details("What was explained, and how", facts(found) + _list(_summaries(found)) + _list(REFERENCES)))
    return _page(found, "".join(parts))


def _page(found: Explanations, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>Explanation report</title><style>{page_css()}</style></head><body class="acf">'
        f'{body}<div id="tip" aria-live="polite"></div>'
        f'<script type="application/json" id="data">{script_json(_data(found))}</script>'
        f"<script>{page_script()}</script></body></html>\n"
    )


def _details(title: str, body: str, open_: bool = False) -> str:
    return f"<details{' open' if open_ else ''}><summary>{escape(title)}</summary>{body}</details>"


def _section(title: str, note: str, body: str) -> str:
    return f'<section><h3>{escape(title)}</h3><p class="note">{escape(note)}</p>{body}</section>'


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _summaries(found: Explanations) -> list[str]:
    return [f"{e.title} ({e.info.accuracy}): {e.info.summary}" for e in found.values()]


def _methods(found: Explanations) -> str:
    """What every method says, by family; methods that look alike share a row."""
    parts = []
    for family, rows in families(found).items():
        title, meaning = FAMILIES[family]
        shown = [
            (", ".join(found[name].title for name in row.methods), row.explanation.info.summary, row.explanation)
            for row in rows
        ]
        parts.append(_section(title, meaning, f'<div class="live">{_words_table(shown, hover=False)}</div>'))
    return _details("What other methods say", "".join(parts))


def _numbers(found: Explanations) -> str:
    rows, first = list(found.values()), leader(found)
    order = np.argsort(-np.abs(first.strength), kind="stable")[:TOP_WORDS]
    head = "".join(f"<th scope=col>{escape(e.title)}</th>" for e in rows)
    body = "".join(
        f"<tr><th scope=row>{escape(first.labels[j], 24)}</th>"
        + "".join(f"<td>{_number(e.scores[j])}</td>" for e in rows)
        + "</tr>"
        for j in order
    )
    table = f'<table class="n"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>'
    note = f"The {len(order)} strongest {players_of(found)} by {first.title}; scroll sideways for more methods."
    return _details("The numbers", f'<p class="note">{escape(note)}</p><div class="scroll" tabindex=0>{table}</div>')


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _figures(found: Explanations, runs: int) -> list[str]:
    sections = []
    if {"slalom-value", "slalom-importance", "slalom-linear"} <= set(found):
        plane = slalom_plane(found["slalom-value"], found["slalom-importance"], found["slalom-linear"].scores)
        note = "What a player says (value) against how loudly it says it (importance). Those at the right decide."
        sections.append(_section("SLALOM plane", note, plane))
    if runs and "lime" in found and found.evidence.fit is None:
        sections.append(_lime_section(found["lime"], runs))
    parts = [_details("Figures", f'<div class="two">{"".join(sections)}</div>')] if sections else []
    heads = found.evidence.inside("attention-heads")
    if heads is not None and {"alpha-mean", "alpha-max"} & set(found):
        note = "Where each head looks, from the first unit to the last; shades are square roots."
        words = [found.evidence.units.shown_text[a:b] for a, b in found.evidence.units.shown_spans]
        parts.append(_details("Attention heads", f'<p class="note">{note}</p>{attention_heads(heads, words)}'))
    note = "Spearman's rank correlation of the scores; of their magnitudes where one method has no sign."
    matrix = f'<p class="note">{escape(note)}</p><div class="scroll" tabindex=0>{agreement(list(found.values()))}</div>'
    return [*parts, _details("Agreement between methods", matrix)]


def _lime_section(exact: Explanation, runs: int) -> str:
    sampled = np.stack([run.coef for run in exact.evidence.sampled_lime(runs)])
    most = np.abs(exact.scores).max()
    off = f", off by up to {np.abs(sampled - exact.scores).max() / most:.1%} of the largest coefficient" if most else ""
    return _section(
        "LIME: exact and sampled",
        f"Crosses: what LIME (bow=False) converges to. Dots: {runs} runs of 5000 samples on the same text{off}.",
        lime_spread(exact, sampled),
    )


def _data(found: Explanations) -> dict[str, Any]:
    """Scores to four digits, for the panel that follows the pointer."""
    rows = list(found.values())
    return {
        "labels": [e.title for e in rows],
        "signed": [int(e.info.kind == "signed") for e in rows],
        "players": [elide(visible(label), LONGEST_WORD) for label in rows[0].labels],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(f"{score:.4g}") for score in e.scores] for e in rows],
    }


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page as UTF-8, whole or not at all."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
