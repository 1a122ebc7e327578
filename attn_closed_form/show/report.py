"""A report as one HTML file: self-contained, escaped, light, readable on a phone, by the colour-blind and offline.

`report` makes the page: P1's Figure 1 with every method, the numbers of the strongest words, the SLALOM plane (P2
Figure 5), the attention heads, exact LIME over the spread of sampled LIME (P1 Figure 4) and how far the methods
agree. `fragment` makes the Figure 1 table alone, for a notebook cell. Figures are in `html_figures.py`, style and
script in `html_assets.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..classifier.attention import attention
from ..classifier.weights import AttentionWeights
from ..explainable.text import Vocabulary
from ..explanations.explanation import Document, Explanation, Explanations, explain_document, read_document
from ..explanations.methods import METHODS, as_methods
from .palette import levels
from .report_assets import PAGE_CSS, SCRIPT, WORDS_CSS
from .report_figures import agreement, attention_heads, lime_spread, sampled_lime, slalom_plane
from .sanitize import elide, escape, script_json, visible

# Longer pieces of text are shown with their middle cut out, so that no text can blow up the page.
LONGEST_WORD = 60
LONGEST_GAP = 48
LONGEST_TEXT = 4000
TOP_WORDS = 12


def fragment(explanations: Sequence[Explanation]) -> str:
    """The words coloured by each explanation, with the numbers on hover: what a notebook shows.

    >>> from attn_closed_form import explain, random_weights
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "fine"])
    >>> page = fragment([explain(random_weights(seed=0, D=3), vocabulary, "<b>fine</b>", "shapley")["shapley"]])
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


def report(
    weights: AttentionWeights,
    vocabulary: Vocabulary,
    text: str,
    methods: str | Iterable[str] | None = None,
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    seed: int = 0,
    runs: int = 5,
) -> str:
    """One HTML page about one text.

    Parameters
    ----------
    weights, vocabulary, text, methods, players, absent, output, tol, seed : as in `explain`
    runs : how often to run sampled LIME, for the figure that shows its spread; 0 leaves the figure out

    Returns
    -------
    The page; write it to a file as UTF-8

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "fine", "film"])
    >>> page = report(random_weights(seed=0, D=5), vocabulary, "A fine film", runs=2)
    >>> page.startswith("<!doctype html>"), len(page.encode()) < 50_000
    (True, True)
    """
    chosen = as_methods(methods)
    document = read_document(weights, vocabulary, text)
    found = explain_document(weights, vocabulary, document, chosen, players, absent, output, tol, seed)
    # The figures need some methods whether or not the table shows them.
    needed = ("slalom-value", "slalom-importance", "slalom-linear", "lime")
    extra = [METHODS[name] for name in needed if name not in found]
    options = (players, absent, output, tol, seed)
    figures = Explanations({**found, **explain_document(weights, vocabulary, document, extra, *options)})
    leader = _leader(list(found.values()))
    sections = [
        _section("What each method says", _words_note(found), _live_table(found)),
        _section(
            "The strongest words in numbers",
            f"At most {TOP_WORDS} words, the strongest by {leader.info.label} first.",
            f'<div class="scroll">{_numbers(found, leader)}</div>',
        ),
        '<div class="two">',
        _section(
            "SLALOM plane",
            "What a word says (value) against how loudly it says it (importance). Words at the right decide.",
            slalom_plane(
                figures["slalom-value"], figures["slalom-importance"], np.asarray(figures["slalom-linear"].scores)
            ),
        ),
    ]
    if runs:
        sections.append(_lime_section(figures["lime"], runs, seed))
    sections += [
        "</div>",
        _section(
            "Attention heads",
            "What [CLS] attends to in each head, from the first word to the last; shades are square roots.",
            attention_heads(attention(weights, document.ids), [text[a:b] for a, b in document.spans]),
        ),
        _section(
            "Agreement between methods",
            "Spearman's rank correlation of the words' scores; of their magnitudes where one method has no sign.",
            f'<div class="scroll">{agreement(list(found.values()))}</div>',
        ),
        _methods_section(found),
    ]
    return _page(_header(weights, document, found), "".join(sections), _data(found))


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


def _header(weights: AttentionWeights, document: Document, found: Explanations) -> str:
    first = next(iter(found.values()))
    side = ""
    if weights.C == 1:
        side = " (positive)" if first.prediction > 0 else " (negative)"
    errors = [e.error for e in found.values() if e.error is not None]
    facts = {
        "prediction" if weights.C == 1 else f"output {first.output}": f"{first.prediction:+.4f}{side}",
        "with every word absent": f"{first.game.value(np.zeros(first.game.d, dtype=bool)):+.4f}" if first.game else "–",
        "guaranteed error": f"≤ {max(errors):.1e}" if errors else "–",
        "tokens read": f"{document.ids.size:,} of {document.ids.size + len(document.unseen):,}",
        "players": f"{len(first.tokens):,} {first.players}",
        "absent means": "[UNK] in its place" if first.absent == "unk" else "deleted",
    }
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    shown = escape(document.text, LONGEST_TEXT)
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
        f"<tr><th scope=row>{escape(leader.tokens[j], 24)}</th>"
        + "".join(f"<td>{_number(e.scores[j])}</td>" for e in rows)
        + "</tr>"
        for j in order
    )
    return f'<table class="n"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>'


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _lime_section(exact: Explanation, runs: int, seed: int) -> str:
    sampled = sampled_lime(exact, runs, seed)
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
        "tokens": [elide(visible(token), LONGEST_WORD) for token in rows[0].tokens],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(f"{score:.4g}") for score in e.scores] for e in rows],
    }
