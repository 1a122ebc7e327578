"""The page and the plot of a summary: diverging bars with intervals, counts, and one snippet per
word.

`write_summary_page` also writes the report of each example if it is asked to, so that a reader can
go from a word to the text behind it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ..explanations.explain import explain
from ..explanations.methods import METHODS
from ..explanations.settings import Settings
from ..explanations.word_effects import WordEffect
from ..models.protocol import TextModel
from ..show.bars import AxisRange
from ..show.drawing import new_figure, saved_figure
from ..show.effects import EffectBar, EffectChart, effect_chart, effect_range, unit_of_effects
from ..show.html import report
from ..show.page import bullets, details, facts_paragraph, page_of, static, write_page
from ..show.plots import draw_effects
from ..show.sanitize import escape, output_name, prose, visible
from .examples import ExampleRow, example_rows
from .plan import read_manifest
from .summary import Summary
from .task import RunError, Task

# A tick beyond this share of the axis has its label to the left, because half of one needs that
# much.
LAST_TICK = 0.94
# The words for and against each output, by the headings of the two sides.
Sides = Mapping[str, list[WordEffect]]


def write_summary_page(
    summary: Summary,
    words: Mapping[str, Sides],
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    by: str = "total",
    reports_of: Task | None = None,
) -> None:
    """Write the page of a summary.

    Parameters
    ----------
    summary : result of `summarize(folder)`
    words : the words of each output, for example `{output: summary.sides(output)}`
    folder : the folder of the run, from which examples are read
    path : the file to write
    by : "total" draws the mean effect over all texts of an output, "mean" that in the texts with
        the word
    reports_of : the task of the run with its model; then the report of each example is written to a
        folder next to the page, with links to them
    """
    shown = [word for sides in words.values() for ranked in sides.values() for word in ranked]
    numbers = {word.example for word in shown if word.example is not None}
    examples = example_rows(folder, numbers)
    links: dict[int, str] = {}
    if reports_of is not None:
        links = write_reports(folder, examples.values(), page=Path(path), task=reports_of)
    write_page(path, summary_page(summary, words, by, examples, links))


def write_reports(
    folder: str | os.PathLike[str], examples: Iterable[ExampleRow], page: Path, task: Task
) -> dict[int, str]:
    """Write the report of each example next to a page, and return the links by the numbers of the
    rows.
    """
    manifest = read_manifest(folder)
    model = task.opened()
    if manifest is None or manifest["model"]["sha256"] != task.model_hash():
        raise RunError(f"{folder}: explained with another model; name that model with --model")
    if not isinstance(model, TextModel):
        raise RunError(f"{folder}: reports of rows need a model of texts, got {model!r}")
    options = manifest["options"]
    settings = {name: options[name] for name in Settings.__dataclass_fields__ if name in options}
    reports = page.with_name(f"{page.stem}-rows")
    reports.mkdir(exist_ok=True)
    links = {}
    for example in examples:
        if not example.is_complete:
            raise RunError(
                f"{folder}: the tables that were explained have moved or changed, so their texts "
                "cannot be read"
            )
        name = f"row-{example.row}.html"
        explanations = explain(model, example.text, options["method"], **settings)
        write_page(reports / name, report(explanations))
        links[example.row] = f"{reports.name}/{name}"
    return links


def summary_page(
    summary: Summary,
    words: Mapping[str, Sides],
    by: str = "total",
    examples: Mapping[int, ExampleRow] | None = None,
    links: Mapping[int, str] | None = None,
) -> str:
    """Return an HTML page with the words for and against each output as diverging bars.

    `examples` are rows by their numbers, and `links` addresses of their reports.
    """
    title = "The words behind the predictions"
    body = f"<h1>{title}</h1>{facts_paragraph(_facts(summary))}"
    for output, sides in words.items():
        ranked = [word for side in sides.values() for word in side]
        axis = effect_range(ranked, by)
        body += f"<section><h2>{escape(output_title(summary, output))}</h2>"
        body += f"<p class=note>{prose(_explained(summary, output, by))}</p>"
        if not ranked:
            body += "<p>No word is in enough documents.</p></section>"
            continue
        chart = effect_chart(ranked, summary.scale(output), by, axis)
        last_of_side = len(next(iter(sides.values()))) if len(sides) > 1 else 0
        body += (
            _chart(chart, ranked, last_of_side, examples=examples or {}, links=links or {})
            + "</section>"
        )
    how = (
        "A bar to the right (orange) is a word that raises the output, a bar to the left (blue) "
        "one that lowers it.",
        "The line across the end of a bar is the 95% interval of the mean. It describes other "
        "texts of this kind, not errors of the numbers.",
        "An effect explains this model. It does not say what a word means, or what would happen in "
        "the world.",
        f"{METHODS[summary.method].label}: {METHODS[summary.method].summary}.",
    )
    body += details("How to read this", bullets(how))
    return page_of(title, body, static("summary.css").partition("*/")[2])


def output_title(summary: Summary, output: str) -> str:
    """Say what the words of an output do."""
    scale = summary.scale(output)
    return f"Words that raise or lower {scale.of_output(visible(output))}"


def _explained(summary: Summary, output: str, by: str) -> str:
    """Say how many documents the bars of an output are about, and what their numbers are."""
    n = summary.documents_of(output)
    unit = unit_of_effects(by, summary.scale(output).in_percent)
    about = "1 text was" if n == 1 else f"{n:,} texts were"
    what = summary.scale(output).of_output(visible(output))
    return (
        f"{about} explained by {what}. Numbers: {unit}, ± half of a 95% interval. "
        f"n: texts with the word. Sorted by the {'sum' if by == 'total' else 'mean'} of the "
        "effects."
    )


def _facts(summary: Summary) -> list[str]:
    """State the method, its accuracy, the number of documents and words, the version and the
    date.
    """
    method = METHODS[summary.method]
    accuracy = method.label
    if summary.error:
        accuracy += f", exact to {summary.error:.0e}"
    failed = f", {summary.failed:,} of them without an explanation" if summary.failed else ""
    unfinished = ""
    if summary.of not in (None, summary.rows):
        unfinished = f" of {summary.of:,} (the run is not finished)"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return [
        f"{summary.rows:,}{unfinished} documents{failed}",
        f"{len(summary.words):,} different words",
        accuracy,
        f"attn-closed-form {__version__}",
        today,
    ]


def _chart(
    chart: EffectChart,
    ranked: list[WordEffect],
    last_of_side: int,
    examples: Mapping[int, ExampleRow],
    links: Mapping[int, str],
) -> str:
    """Return the rows of a chart below its axis."""
    ticks = ""
    for at, text in chart.ticks:
        # The label of a tick at the right end must not leave the page.
        kind = " class=last" if at > LAST_TICK else ""
        ticks += f'<span{kind} style="left:{100 * at:.1f}%">{prose(text)}</span>'
    rows = [
        "<li class=head><span class=word>word</span><span class=count>texts</span>"
        f'<div class="track axis">{ticks}</div><span class=number>mean</span>'
        "<span class=snippet>where its effect is largest</span></li>"
    ]
    for number, (bar, word) in enumerate(zip(chart.bars, ranked, strict=True), 1):
        kind = " class=turn" if number == last_of_side else ""
        rows.append(
            f"<li{kind}><span class=word dir=auto>{escape(bar.word, 40)}</span><span class=count>n "
            f"= {bar.documents:,}</span>{_track(chart, bar)}<span "
            f"class=number>{prose(bar.text)}</span><span class=snippet "
            f"dir=auto>{_snippet(word, examples, links)}</span></li>"
        )
    return f"<ul class=effects>{''.join(rows)}</ul>"


def _track(chart: EffectChart, bar: EffectBar) -> str:
    """Return a bar from 0 with its interval."""

    def part(kind: str, left: float, right: float) -> str:
        return (
            f'<b class={kind} style="left:{100 * left:.1f}%;width:{100 * (right - left):.1f}%"></b>'
        )

    drawn = part(bar.kind, bar.left, bar.right)
    if bar.interval_right > bar.interval_left:
        drawn += part("interval", bar.interval_left, bar.interval_right)
    return f'<div class=track style="--zero:{100 * chart.zero:.1f}%">{drawn}</div>'


def _snippet(word: WordEffect, examples: Mapping[int, ExampleRow], links: Mapping[int, str]) -> str:
    """Return the snippet of a word with the word marked, and a link to the report of its row."""
    if word.example is None:
        return ""
    example = examples.get(word.example)
    label = f"row {word.example:,}"
    shown = ""
    if example is not None:
        # The level of a strong word: the text is the one where its effect is largest.
        mark = "p3" if word.example_score >= 0 else "n3"
        for piece in example.snippet(word.word):
            if piece.marked:
                shown += f"<i class={mark}>{escape(piece.text)}</i>"
            else:
                shown += escape(piece.text)
        if example.probability is not None:
            label += f", {output_name(example.output)} {example.probability:.0%}"
    if word.example in links:
        label = f'<a href="{escape(links[word.example])}">{escape(label)}</a>'
    else:
        label = escape(label)
    return f"{shown} <span class=k>({label})</span>"


def plot_words(
    summary: Summary, words: Mapping[str, list[WordEffect]], path: Any = None, by: str = "total"
) -> Any:
    """Draw the words with one panel per output, save the figure if `path` is given, and return it.

    Needs matplotlib.
    """
    panels = []
    for output, ranked in words.items():
        n = summary.documents_of(output)
        title = f"{output_title(summary, output)} ({n:,} {'text' if n == 1 else 'texts'})"
        axis = effect_range(ranked, by) if ranked else AxisRange(-1.0, 1.0)
        chart = effect_chart(ranked, summary.scale(output), by, axis)
        label = unit_of_effects(by, summary.scale(output).in_percent)
        panels.append((title, chart, label))
    # Inches of a bar, and of everything else in its panel.
    heights = [1.1 + 0.26 * len(chart.bars) for _, chart, _ in panels]
    figure = new_figure((7.0, sum(heights)))
    axes = figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0]
    for ax, (title, chart, label) in zip(axes, panels, strict=True):
        draw_effects(ax, chart, title, label)
    return saved_figure(figure, path)
