"""A report as one HTML file: self-contained, escaped, light, readable on a phone, by the colour-blind and offline.

`report` makes the page from what `explain` found: Figure 1 of Lopardo et al. 2024 with every method, the numbers of the
strongest players, the SLALOM plane (Leemann et al. 2025, Figure 5), the attention heads, exact LIME over the spread of
sampled LIME, and how far the methods agree. `fragment` makes the first table alone, for a notebook cell. Figures are in
`report_figures.py`, style and script in `report_assets.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..explanations.explanation import Explanation, Explanations
from .palette import levels
from .report_assets import PAGE_CSS, SCRIPT, WORDS_CSS
from .report_bag import bag_report
from .report_figures import agreement, attention_heads, lime_spread, slalom_plane
from .sanitize import elide, escape, script_json, visible

# Longer pieces of text are shown with their middle cut out, so that no text can blow up the page.
LONGEST_WORD = 60
LONGEST_GAP = 48
LONGEST_TEXT = 4000
TOP_WORDS = 12
MOST_CLASSES = 6
# Models whose units are instances of a bag get the report of a bag, with a map instead of a text.
BAG_GROUPING = "instances"


def fragment(explanations: Sequence[Explanation]) -> str:
    """The words coloured by each explanation, with the numbers on hover: what a notebook shows.

    >>> from attn_closed_form import load_demo_model
    >>> page = fragment([load_demo_model().explain("<b>fine</b>", "shapley")["shapley"]])
    >>> "<b>fine" in page, "&lt;b&gt;" in page
    (False, True)
    """
    return f'<style>{WORDS_CSS}</style><div class="acf">{_words_table(explanations, hover=True)}</div>'


def _words_table(explanations: Sequence[Explanation], hover: bool) -> str:
    rows = []
    for e in explanations:
        tip = f"{e.info.summary}; {e.info.accuracy}"
        rows.append(
            f'<tr><th scope=row title="{escape(tip)}">{escape(e.info.label)}</th><td>{_words(e, hover)}</td></tr>'
        )
    return f'<table class="words"><tbody>{"".join(rows)}</tbody></table>'


def _words(e: Explanation, hover: bool) -> str:
    """The text with an <i> a seen token; what is not seen is named after it, not shown again and again."""
    level = levels(e.strength)
    signed = e.info.kind == "signed"
    parts, end = [], 0
    for place in e.occurrences:
        j = place.player
        parts.append(escape(e.text[end : place.start], LONGEST_GAP))
        names = []
        if level[j]:
            names.append(f"{'u' if not signed else 'p' if level[j] > 0 else 'n'}{abs(level[j])}")
        if e.unknown[j]:
            names.append("k")
        mark = f' class="{" ".join(names)}"' if len(names) > 1 else f" class={names[0]}" if names else ""
        if hover:
            unknown = ", not in the vocabulary" if e.unknown[j] else ""
            mark += f' title="{e.scores[j]:.4g}{unknown}"'
        parts.append(f"<i{mark}>{escape(e.text[place.start : place.end], LONGEST_WORD)}</i>")
        end = place.end
    if e.unseen:
        parts.append(f" <small>… {len(e.unseen):,} more not seen</small>")
    else:
        parts.append(escape(e.text[end:], LONGEST_GAP))
    return "".join(parts)


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
    leader = _leader(list(found.values()))
    sections = [
        _section("What each method says", _words_note(found), _live_table(found)),
        _section(
            "The strongest players in numbers",
            f"At most {TOP_WORDS}, the strongest by {leader.info.label} first.",
            f'<div class="scroll">{_numbers(found, leader)}</div>',
        ),
        '<div class="two">',
    ]
    if {"slalom-value", "slalom-importance", "slalom-linear"} <= set(found):
        plane = slalom_plane(found["slalom-value"], found["slalom-importance"], found["slalom-linear"].scores)
        note = "What a player says (value) against how loudly it says it (importance). Those at the right decide."
        sections.append(_section("SLALOM plane", note, plane))
    if runs and "lime" in found:
        sections.append(_lime_section(found["lime"], runs))
    sections.append("</div>")
    heads = found.evidence.inside("attention-heads")
    if heads is not None and {"alpha-avg", "alpha-max"} & set(found):
        note = "What the query attends to in each head, from the first unit to the last; shades are square roots."
        words = [found.evidence.units.shown_text[a:b] for a, b in found.evidence.units.shown_spans]
        sections.append(_section("Attention heads", note, attention_heads(heads, words)))
    if len(found) > 1:
        note = "Spearman's rank correlation of the scores; of their magnitudes where one method has no sign."
        matrix = f'<div class="scroll">{agreement(list(found.values()))}</div>'
        sections.append(_section("Agreement between methods", note, matrix))
    sections.append(_methods_section(found))
    return _page(_header(found), "".join(sections), _data(found))


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


def _page(header: str, body: str, data: dict[str, Any]) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Explanation report</title><style>{PAGE_CSS}\n{WORDS_CSS}</style></head><body>"
        f'{header}{body}<div id="tip" aria-live="polite"></div>'
        f'<script type="application/json" id="data">{script_json(data)}</script>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _section(title: str, note: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{body}</section>'


def _header(found: Explanations) -> str:
    evidence = found.evidence
    units, settings = evidence.units, evidence.settings
    errors = [e.error for e in found.values() if e.error is not None]
    facts = {f"explained: {settings.output}": f"{evidence.prediction:+.4f}"}
    if evidence.probabilities:
        chances = sorted(evidence.probabilities.items(), key=lambda item: -item[1])[:MOST_CLASSES]
        facts |= {f"probability of {name}": f"{chance:.1%}" for name, chance in chances}
    facts |= {
        "with every player absent": f"{evidence.absent_value:+.4f}",
        "guaranteed error": f"≤ {max(errors):.1e}" if errors else "–",
        "units read": f"{len(units.labels):,} of {len(units.labels) + len(units.unseen):,}",
        "players": f"{len(evidence.labels):,} {settings.players}",
        "absent means": "[UNK] in its place" if settings.absent == "unk" else settings.absent,
    }
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    shown = escape(units.shown_text, LONGEST_TEXT)
    return f'<h1>Explanation report</h1><blockquote dir="auto">{shown}</blockquote><dl class="facts">{listed}</dl>'


def _words_note(found: Explanations) -> str:
    note = "Blue raises the prediction, orange (underlined) lowers it, purple has no sign; stronger is darker. "
    note += "Hover or tap a word for its numbers."
    if any(any(e.unknown) for e in found.values()):
        note += " Dotted words are not in the vocabulary: the model reads them as [UNK]."
    return note


def _live_table(found: Explanations) -> str:
    return f'<div class="acf live">{_words_table(list(found.values()), hover=False)}</div>'


def _leader(rows: Sequence[Explanation]) -> Explanation:
    """The explanation that orders the words: Shapley's, or the first one with a sign."""
    ranked = sorted(rows, key=lambda e: (e.method != "shapley", e.info.kind != "signed"))
    return ranked[0]


def _numbers(found: Explanations, leader: Explanation) -> str:
    rows = list(found.values())
    order = np.argsort(-np.abs(leader.strength), kind="stable")[:TOP_WORDS]
    head = "".join(f"<th scope=col>{escape(e.info.label)}</th>" for e in rows)
    body = "".join(
        f"<tr><th scope=row>{escape(leader.labels[j], 24)}</th>"
        + "".join(f"<td>{_number(e.scores[j])}</td>" for e in rows)
        + "</tr>"
        for j in order
    )
    return f'<table class="n"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>'


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _lime_section(exact: Explanation, runs: int) -> str:
    sampled = np.stack([run.coef for run in exact.evidence.sampled_lime(runs)])
    most = np.abs(exact.scores).max()
    off = f", off by up to {np.abs(sampled - exact.scores).max() / most:.1%} of the largest coefficient" if most else ""
    return _section(
        "LIME: exact and sampled",
        f"Crosses: what LIME converges to. Dots: {runs} runs of LIME with 5000 samples each, on the same text{off}.",
        lime_spread(exact, sampled),
    )


def _methods_section(found: Explanations) -> str:
    items = "".join(
        f"<li><b>{escape(e.info.label)}</b> ({escape(e.info.accuracy)}): {escape(e.info.summary)}</li>"
        for e in found.values()
    )
    return f"<details><summary>The methods</summary><ul>{items}</ul></details>"


def _data(found: Explanations) -> dict[str, Any]:
    """Scores to four digits, for the panel that follows the pointer."""
    rows = list(found.values())
    return {
        "labels": [e.info.label for e in rows],
        "signed": [int(e.info.kind == "signed") for e in rows],
        "players": [elide(visible(label), LONGEST_WORD) for label in rows[0].labels],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(f"{score:.4g}") for score in e.scores] for e in rows],
    }
