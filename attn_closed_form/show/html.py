"""Reports as one HTML file: self-contained, escaped, light, readable on a phone, by the color-blind and offline.

`report` puts the answer first: what the model predicts, the text colored by the exact Shapley values, how the words add
up, and the reasons. What the other methods say follows, folded, by family. A bag gets its signed map beside attention,
the strongest instances, and where the two differ. `fragment` and `notebook` make what a notebook cell shows.

There is no font, no picture file, no library and no network: figures are inline SVG, drawn from `figures.py` with one
decimal and many marks in one path, and maps are PNG files inside the page. Style and script are files in `static/`.
Colors are laid over the page with opacity, so the same rules serve light and dark pages. Words against the prediction
are also underlined, so that a gray print still shows the sign.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from .._types import Ids
from ..explanations.answers import removal_share
from ..explanations.explain import for_output, on_logits
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from ..files.atomic import replacing
from ..models.sentences import sentence_numbers
from . import figures
from .figures import AGAINST, FOR, MOST_CLASSES, PLANE, SLALOM, UNSIGNED, SlalomPlane
from .maps import bag_name, columns, disagreement, heat_maps, player_attention, png, shades, strongest, titled, written
from .sanitize import elide, escape, script_json

# Longer pieces of text are shown with their middle cut out, so that no text can blow up the page.
LONGEST_WORD = 60
LONGEST_GAP = 48
LONGEST_REASON = 400
MOST_SENTENCES = 40
# Players in each table of a bag.
TOP = 10
# Models whose units are instances of a bag get the report of a bag, with a map instead of a text.
BAG_GROUPING = "instances"
REFERENCES = (
    "Lopardo, Precioso, Garreau: Attention Meets Post-hoc Interpretability: A Mathematical Perspective, ICML 2024 "
    "(arXiv 2402.03485)",
    "Leemann, Fastowski, Pfeiffer, Kasneci: Attention Mechanisms Don't Learn Additive Models, 2025 (arXiv 2405.13536)",
    "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017 (arXiv 1703.01365)",
)


def css(color: tuple[int, int, int]) -> str:
    """A color as CSS writes it.

    >>> css((0, 114, 178))
    'rgb(0,114,178)'
    """
    return f"rgb{color}".replace(" ", "")


@cache
def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8").strip()


@cache
def words_css() -> str:
    """What a notebook cell, the report and the page share: the palette, and the words with their colors.

    >>> "--for:rgb(213,94,0)" in words_css()
    True
    """
    palette = {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}
    variables = ";".join(f"--{name}:{css(color)}" for name, color in palette.items())
    return f".acf{{{variables}}}\n{_static('words.css')}"


@cache
def _page_css() -> str:
    return f"{words_css()}\n{_static('report.css')}"


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page as UTF-8, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def fragment(explanations: Sequence[Explanation]) -> str:
    """The words colored by each explanation, with the numbers on hover: what a notebook shows.

    >>> from attn_closed_form import load_demo_model
    >>> page = fragment([load_demo_model().explain("<b>fine</b>", "shapley")["shapley"]])
    >>> "<b>fine" in page, "&lt;b&gt;" in page
    (False, True)
    """
    first = explanations[0]
    if _is_bag(first):
        return _bag_fragment(Explanations(first.evidence, {e.method: e for e in explanations}))
    scale, evidence = first.evidence.scale, first.evidence
    base = f"{first.output} {scale.level(evidence.prediction)}, {scale.level(evidence.absent_value)}"
    base += f" with every player absent. {scale.sentence(first.output)[:-1]}"
    note = "orange raises it, blue (underlined) lowers it, gray has no sign"
    rows = [(e.title, f"{e.info.summary}; {e.info.accuracy}", e) for e in explanations]
    shown = f"<p>{escape(base)}; {note}</p>{_words_table(rows, hover=True)}"
    return f'<style>{words_css()}</style><div class="acf">{shown}</div>'


def notebook(explanations: Explanations) -> str:
    """What a notebook shows: the answer, then the words colored by each method; of a bag, its maps."""
    if _is_bag(explanations):
        return _bag_fragment(explanations)
    rows = fragment(list(explanations.values())) if len(explanations) > 1 else ""
    # The rules of the page must not reach the notebook around the cell.
    style = f"{words_css()}\n@scope(.acf-cell){{{_page_css()}}}"
    return f'<style>{style}</style><div class="acf acf-cell">{_answer(explanations)}{rows}</div>'


def report(explanations: Explanations) -> str:
    """One HTML page about one input.

    >>> from attn_closed_form import load_demo_model
    >>> page = report(load_demo_model().explain("A fine film"))
    >>> page.startswith("<!doctype html>"), len(page.encode()) < 50_000
    (True, True)
    """
    if _is_bag(explanations):
        title = f"{bag_name(explanations)}: explanation report"
        return _page(title, f"{_page_css()}\n{_static('bag.css')}", _bag_body(explanations))
    parts = [_answer(explanations)]
    if len(explanations) > 1:
        parts += [_methods(explanations), _numbers(explanations), _figures(explanations)]
    parts.append(_facts(explanations))
    rows = list(explanations.values())
    scores = {  # to four digits, for the panel that follows the pointer
        "labels": [e.scale.titled(e.title) for e in rows],
        "signed": [int(e.info.kind == "signed") for e in rows],
        "players": [elide(name, LONGEST_WORD) for name in figures.names(explanations.evidence)],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(e.scale.digits(score, ".4g")) for score in e.scores] for e in rows],
    }
    data = f'<script type="application/json" id="data">{script_json(scores)}</script>'
    script = "\n".join(line.strip() for line in _static("report.js").splitlines() if not line.startswith("//"))
    live = f'<div id="tip" aria-live="polite"></div>{data}<script>{script}</script>'
    return _page("Explanation report", _page_css(), "".join(parts) + live)


def _is_bag(explanations: Explanation | Explanations) -> bool:
    return explanations.evidence.model.groupings[0] == BAG_GROUPING


def _page(title: str, style: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title, 100)}</title><style>{style}</style></head><body class="acf">{body}</body></html>\n'
    )


def _details(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def _section(title: str, note: str, body: str, heading: str = "h3") -> str:
    return f'<section><{heading}>{escape(title)}</{heading}><p class="note">{escape(note)}</p>{body}</section>'


def _number(text: str) -> str:
    return text.replace("-", "−")


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _table(head: Sequence[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table of numbers: the first column names the rows."""
    names_of_columns = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th scope=row>{escape(name, 24)}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        for name, cells in rows
    )
    return (
        '<div class="scroll" tabindex=0><table class="n">'
        f"<thead><tr>{names_of_columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _answer(explanations: Explanations) -> str:
    e = figures.leader(explanations)
    name, _, logit = figures.verdict(explanations).partition(" (")
    parts = [f"<h1>{escape(name)} <small>{escape(logit.rstrip(')'))}</small></h1>{_classes(explanations)}"]
    parts.append(_explained(explanations))
    note = f"Colored by {escape(e.title)}: orange raises {escape(e.output)}, blue (underlined) lowers it"
    if e.info.kind != "signed":
        note = f"Colored by {escape(e.title)}, which has no sign"
    note += "; stronger is darker. Hover, tap or use the arrow keys on a word for its numbers."
    if any(e.unknown):
        note += " Dotted words are not in the vocabulary: the model cannot tell them apart."
    parts.append(f'<div class="text live" dir="auto">{_colored(e, hover=False)}</div><p class="note">{note}</p>')
    fit = explanations.evidence.fit
    if fit is not None:
        parts += [f'<p class="note"><b>{escape(text)}</b></p>' for text in fit.sentences()]
    if e.method == "shapley":
        parts += [_both_scales(explanations, _sum_and_reasons), _other_classes(explanations)]
    return "".join(parts)


def _both_scales(explanations: Explanations, body: Callable[[Explanations], str]) -> str:
    """A part of the report; where it is about the probability, with a switch to the same part about the logit."""
    e = figures.leader(explanations)
    logit = None if e.scale.link is None else on_logits(explanations, e.method)
    if logit is None:
        return body(explanations)
    switch = '<label class="switch"><input type="checkbox"> Show logits</label>'
    parts = f'<div class="main">{body(explanations)}</div><div class="logit">{_explained(logit)}{body(logit)}</div>'
    return f'<div class="scales">{switch}{parts}</div>'


def _explained(explanations: Explanations) -> str:
    return f'<p class="note"><b>{escape(explanations.scale.sentence(explanations.output))}</b></p>'


def _sum_and_reasons(explanations: Explanations) -> str:
    """How the words add up, and why."""
    e, fit = explanations["shapley"], explanations.evidence.fit
    what = f"the {explanations.scale.name}" if fit is None else f"the {fit.name}"
    missed = "" if fit is None else " The last bar is what the fit misses of the model's output."
    exact = (
        f"Exact Shapley values of {what}, each guaranteed to {e.error:.0e}: they add up from the prediction with "
        f"every player absent to the whole one.{missed}"
    )
    return f'<h2>How it adds up</h2><p class="note">{escape(exact)}</p>{_waterfall(e)}{_why(explanations)}'


def _classes(explanations: Explanations) -> str:
    bars = []
    for bar in figures.class_bars(explanations):
        tag, share = "b" if bar.classes == 1 else "span", f"{100 * bar.probability:.1f}"
        meter = f'<div><span style="width:{share}%"></span></div><span class="v">{share} %</span>'
        bars.append(f"<{tag}>{escape(bar.name, 30)}</{tag}>{meter}")
    return f'<div class="classes">{"".join(bars)}</div>' if bars else ""


def _colored(e: Explanation, hover: bool) -> str:
    """The text with one <i> per seen unit; what is not seen is counted at the end, not shown again and again."""
    text = figures.colored_text(e)

    def escaped() -> list[tuple[str, int | None]]:
        limits = ((piece, LONGEST_GAP if piece.player is None else LONGEST_WORD) for piece in text.pieces)
        return [(escape(piece.text, limit), piece.player) for piece, limit in limits]

    def tag(level: int, unknown: bool) -> str:
        classes = [f"{'u' if not text.signed else 'p' if level > 0 else 'n'}{abs(level)}"] if level else []
        classes += ["k"] if unknown else []
        return f'<i class="{" ".join(classes)}"' if len(classes) > 1 else f"<i class={classes[0]}" if classes else "<i"

    looks = list(zip(text.levels, text.unknown, strict=True))
    opened = {look: tag(*look) for look in set(looks)}
    tips = [""] * len(looks)
    if hover:
        notes = {True: ", not in the vocabulary", False: ""}
        tips = [
            f' title="{e.scale.change(score, ".4g")}{notes[unknown]}"'
            for score, (_, unknown) in zip(e.scores, looks, strict=True)
        ]
    tags = [f"{opened[look]}{tip}>" for look, tip in zip(looks, tips, strict=True)]  # of each player
    pieces = e.evidence.cached("escaped pieces", escaped)
    parts = [word if j is None else f"{tags[j]}{word}</i>" for word, j in pieces]
    unseen = f" <small>… {text.unseen:,} more not seen</small>"
    return "".join(parts) + (unseen if text.unseen else escape(text.tail, LONGEST_GAP))


def _words_table(rows: Iterable[tuple[str, str, Explanation]], hover: bool) -> str:
    body = "".join(
        f'<tr><th scope=row title="{escape(tip)}">{escape(label)}</th><td dir="auto">{_colored(e, hover)}</td></tr>'
        for label, tip, e in rows
    )
    return f'<table class="words"><tbody>{body}</tbody></table>'


def _other_classes(explanations: Explanations) -> str:
    """A switch to the other classes: one can be open at a time, each with its words and its waterfall."""
    chances = explanations.probabilities or {}
    if len(explanations.evidence.logits) < 2 or explanations.output not in chances:
        return ""
    ranked = sorted(chances, key=lambda name: -chances[name])[:MOST_CLASSES]
    parts = []
    for name in (name for name in ranked if name != explanations.output):
        e = for_output(explanations, name)["shapley"]
        logit = "" if e.scale.link else f" (logit {e.prediction:+.4f})"
        title = f"{escape(name, 30)}, {100 * chances[name]:.1f} %{logit}"
        body = f'<div class="text live" dir="auto">{_colored(e, hover=True)}</div>{_waterfall(e)}'
        parts.append(f"<details name=class><summary>{title}</summary>{body}</details>")
    return f"<h2>The other classes</h2>{''.join(parts)}"


def _why(explanations: Explanations) -> str:
    """Certified reasons, and what each sentence contributes."""
    reasons = "".join(f"<li>{escape(text, LONGEST_REASON)}</li>" for text in explanations.reasons().sentences())
    fit = explanations.evidence.fit
    of = "" if fit is None else f", of the {fit.name} and not of the model"
    parts = [f'<h2>Certified reasons{escape(of)}</h2><ul class="reasons">{reasons}</ul>']
    units = explanations.evidence.units
    if units.text is not None and 1 < len(sentence_numbers(units.text, units.spans or ())[1]) <= MOST_SENTENCES:
        sentences = explanations.sentences()
        scored = zip(sentences.scores, sentences.labels, strict=True)
        change = explanations.scale.change
        cells = (
            f"<td>{change(score)}</td><td dir=auto>{escape(label, LONGEST_REASON)}</td>" for score, label in scored
        )
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        note = "Owen values: the words of a sentence come and go together, and add up to its score."
        parts.append(f'<h2>Sentences</h2><p class="note">{note}</p><table class="s"><tbody>{rows}</tbody></table>')
    return "".join(parts)


def _methods(explanations: Explanations) -> str:
    parts = []
    for family in figures.method_rows(explanations):
        rows = ((row.title, row.summary, explanations[row.methods[0]]) for row in family.rows)
        table = f'<div class="live">{_words_table(rows, hover=False)}</div>'
        parts.append(_section(family.title, family.meaning, table))
    return _details("What other methods say", "".join(parts))


def _numbers(explanations: Explanations) -> str:
    rows, order = list(explanations.values()), figures.strongest_players(explanations)
    shown = figures.names(explanations.evidence)
    cells = ((shown[j], [_number(e.scale.digits(e.scores[j], ".3g")) for e in rows]) for j in order)
    table = _table(["", *(e.scale.titled(e.title) for e in rows)], cells)
    things, title = explanations.evidence.settings.players, figures.leader(explanations).title
    note = f"The {len(order)} strongest {things} by {title}; scroll sideways for more methods."
    return _details("The numbers", f'<p class="note">{escape(note)}</p>{table}')


def _figures(explanations: Explanations) -> str:
    """The SLALOM plane and the attention of the heads, where the methods that they show were run."""
    parts, plane = [], figures.slalom_plane(explanations)
    if plane is not None:
        note = "What a player says (value) against how loudly it says it (importance). Those at the right decide."
        drawn = _slalom_plane(plane, explanations)
        parts.append(_details("SLALOM plane", f'<p class="note">{note}</p>{drawn}'))
    strips = _attention_strips(explanations) if {"alpha-mean", "alpha-max"} & set(explanations) else ""
    if strips:
        note = "Where each head looks, from the first unit to the last; shades are square roots."
        parts.append(_details("Attention heads", f'<p class="note">{note}</p>{strips}'))
    return "".join(parts)


def _facts(explanations: Explanations) -> str:
    """What was explained, in a few plain lines, what each method is, and the papers."""
    evidence = explanations.evidence
    units, settings = evidence.units, evidence.settings
    errors = [e.error for e in explanations.values() if e.error is not None]
    read = f"{len(units.labels):,} of {len(units.labels) + len(units.unseen):,}"
    level, logits = evidence.scale.level, ""
    if evidence.scale.link is not None:
        logits = f" Their logits: {evidence.logit:+.4f} and {evidence.absent_logit:+.4f}."
    lines = [
        f"{evidence.scale.sentence(settings.output)} It is {level(evidence.prediction)}, and with every player absent "
        f"{level(evidence.absent_value)}.{logits}",
        f"Units read: {read}; players: {len(evidence.labels):,} {settings.players}; an absent player is "
        + ("replaced by [UNK]." if settings.absent == "unk" else f"{settings.absent}."),
    ]
    if evidence.fit is not None:
        lines += [*evidence.fit.sentences(), *filter(None, map(figures.sampling, explanations.values()))]
    if errors:
        lines.append(f"Guaranteed error of the exact attributions: ≤ {max(errors):.1e}.")
    methods = _list(f"{e.title} ({e.info.accuracy}): {e.info.summary}" for e in explanations.values())
    body = "".join(f"<p>{escape(line)}</p>" for line in lines) + methods + _list(REFERENCES)
    return _details("What was explained, and how", body)


def _svg(width: float, height: float, body: Iterable[str], label: str, extra: str = "") -> str:
    size = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}"{extra}>{"".join(body)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{extra}>{text}</text>'


def _waterfall(e: Explanation) -> str:
    row, left, wide, steps = 20, 150, 350, figures.waterfall(e)
    height = row * len(steps) + 6
    body = [f'<path class="a" d="M{left + wide * steps[0].left:.1f} 0V{height}"/>']
    for i, step in enumerate(steps):
        y, x0, x1 = row * i + 3, left + wide * step.left, left + wide * step.right
        bold = "" if step.players else ' font-weight="600"'
        if step.players:
            color = css(FOR if step.shown > 0 else AGAINST)
            body.append(f'<path fill="{color}" d="M{x0:.1f} {y}H{max(x1, x0 + 1):.1f}v{row - 6}H{x0:.1f}z"/>')
        else:
            body.append(f'<path stroke="currentColor" stroke-width="2" d="M{x0:.1f} {y - 1}v{row - 4}"/>')
        body.append(_text(left - 8, y + 11, escape(step.label, 22), "end", bold))
        body.append(_text(x1 + 6, y + 11, escape(step.text), extra=bold))
    label = f"How {len(e.scores)} players add up from {steps[0].text} to {steps[-1].text}"
    return _svg(600, height, body, label)


def _slalom_plane(figure: SlalomPlane, explanations: Explanations) -> str:
    left, top, (wide, high) = 44, 8, PLANE
    bottom = top + high

    def x(unit: float) -> float:
        return left + unit * wide

    def y(unit: float) -> float:
        return bottom - unit * high

    body = [f'<path class="a" d="M{left} {y(figure.zero):.1f}h{wide:g}M{left} {top}v{high:g}h{wide:g}"/>']
    body += [_text(x(at), bottom + 14, f"{number:g}", "middle") for at, number in figure.across.ticks]
    body += [_text(left - 5, y(at) + 4, f"{number:g}", "end") for at, number in figure.up.ticks]
    body.append(_text(x(0.5), bottom + 30, "importance s (log weight)", "middle"))
    body.append(f'<text transform="translate(10 {y(0.5):g}) rotate(-90)" text-anchor="middle">value v</text>')
    sides: dict[bool, list[str]] = {True: [], False: []}
    players, value, importance, _ = figures.names(explanations.evidence), *(explanations[m].scores for m in SLALOM)
    for name, s, v, across, up in zip(players, importance, value, figure.x, figure.y, strict=True):
        tip = f"<title>{escape(name, 40)} s={s:.3g} v={v:.3g}</title>"
        sides[v >= 0].append(f'<circle cx="{x(across):.1f}" cy="{y(up):.1f}" r="4">{tip}</circle>')
    for positive, dots in sides.items():
        body.append(f'<g class="f" fill="{css(FOR if positive else AGAINST)}">{"".join(dots)}</g>')
    body += [_text(x(label.x), y(label.y), escape(label.text), label.anchor) for label in figure.labels]
    return _svg(480, 340, body, "Value of each word against its importance")


def _attention_strips(explanations: Explanations) -> str:
    heads = []
    for i, (strip, words, background) in enumerate(figures.attention_strips(explanations), 1):
        cells: dict[int, str] = {}
        for t, shade in enumerate(strip):
            cells[shade] = cells.get(shade, "") + f"M{t} 0h1v1h-1z"
        paths = [f'<path fill="currentColor" fill-opacity="{shade / 8:.3g}" d="{d}"/>' for shade, d in cells.items()]
        named = ", ".join(f"{escape(word, 24)} {weight:.3f}" for word, weight in words)
        share = f"; background {background:.3f}" if background > 5e-4 else ""
        drawn = _svg(len(strip), 1, paths, f"Attention of head {i}", ' preserveAspectRatio="none"')
        heads.append(f'<div class="head"><span><b>head {i}</b>: {named}{share}</span>{drawn}</div>')
    return "".join(heads)


def _bag_fragment(explanations: Explanations) -> str:
    """The maps of a bag alone, or its strongest instances if it has no coordinates: what a notebook shows."""
    coords, e = explanations.evidence.units.coords, figures.leader(explanations)
    body = _strongest(explanations, e) if coords is None else _maps(explanations, e)
    level, evidence = e.scale.level, explanations.evidence
    title = f"{e.output} {level(e.prediction)}, {level(evidence.absent_value)} for the empty bag"
    title += f". {evidence.scale.sentence(e.output)}"
    top = f"<p>{escape(title)}</p>{_doubts(explanations)}"
    return f'<style>{_static("bag.css")}</style><div class="acf">{top}{body}</div>'


def _doubts(explanations: Explanations) -> str:
    doubts = explanations.evidence.model.doubts
    return f'<p class="note"><b>{escape(doubts, LONGEST_REASON)}</b></p>' if doubts else ""


def _bag_body(explanations: Explanations) -> str:
    name = escape(bag_name(explanations), 80)
    parts = [f"<h1>{name}</h1>", _classes(explanations), _explained(explanations)]
    parts += [_both_scales(explanations, _bag_scores), _differences(explanations, figures.leader(explanations))]
    return "".join([*parts, _facts(explanations)])


def _bag_scores(explanations: Explanations) -> str:
    """How the instances of a bag add up, where they lie, and which are the strongest."""
    e, evidence = figures.leader(explanations), explanations.evidence
    level, change = e.scale.level, e.scale.change
    told = f"{e.output} gets {level(e.prediction)}, and {level(evidence.absent_value)} for the empty bag."
    if e.method == "shapley":
        up, down = e.scores[e.scores > 0], e.scores[e.scores < 0]
        told = (
            f"{e.output} gets {level(e.prediction)}: {level(evidence.absent_value)} for the empty bag, "
            f"{change(up.sum())} from the {up.size:,} {evidence.settings.players} that support it and "
            f"{change(down.sum())} from the {down.size:,} that oppose it."
        )
    maps = "" if evidence.units.coords is None else _maps(explanations, e)
    verdict = f'<p class="verdict">{escape(told)}</p>{_doubts(explanations)}'
    return f"{verdict}{maps}{_strongest(explanations, e)}{_removal(explanations)}"


def _removal(explanations: Explanations) -> str:
    """What each order of removal reaches of the best possible, and the smallest set that flips the call."""
    evidence, name = explanations.evidence, "flip-order"
    scores = {e.title: e.scores for e in explanations.values()}
    if (scored := METHODS[name].score(evidence)) is not None:
        scores.setdefault(METHODS[name].label, scored.scores)
    shares = ((title, [f"{removal_share(evidence, each):.1%}"]) for title, each in scores.items())
    flip = explanations.reasons().sentences()[-1]
    note = (
        "When instances leave, highest score first: the mean fall of the output, as a share of what is proved possible "
        "for any order. Shapley values divide a prediction fairly; the flip order tells what to remove first."
    )
    body = f"{_table(['', 'share of the best possible'], shares)}<p>{escape(flip, LONGEST_REASON)}</p>"
    return _section("Removing instances", note, body, "h2")


def _maps(explanations: Explanations, e: Explanation) -> str:
    note = "Tiles as they lie on the slide, nothing smoothed. "
    if e.info.kind == "signed":
        note += f"Orange supports {e.output}, blue opposes it, gray does neither; "
    note += "attention has neither sign nor class. The colors end at the 99.5th percentile."
    maps = []
    for figure in heat_maps([explanations]):
        ramp = ",".join(css(color) for color in shades(figure.signed))
        end = figure.scale.end(figure.end)
        low, middle = (f"−{end}", "0") if figure.signed else ("0", "")
        image = base64.b64encode(png(figure.pixels())).decode()
        maps.append(
            f'<figure><figcaption>{escape(figure.title)}</figcaption><img alt="{escape(figure.title)}, one cell per '
            f'tile" src="data:image/png;base64,{image}"><div class="scale">'
            f'<b style="background:linear-gradient(90deg,{ramp})"></b>'
            f"<span>{low}</span><span>{middle}</span><span>{end}</span></div></figure>"
        )
    return _section("Map", note, f'<div class="maps">{"".join(maps)}</div>', "h2")


def _strongest(explanations: Explanations, e: Explanation) -> str:
    note = f"At most {TOP} on each side, with the share of the attention that each gets."
    tables = "".join(
        f"<section><h3>{escape(f'{side} {e.output}')}</h3>{_players(explanations, players)}</section>"
        for side, players in zip(("For", "Against"), strongest(e.scores, TOP), strict=True)
    )
    return _section("The strongest instances", note, f'<div class="two">{tables}</div>', "h2")


def _players(explanations: Explanations, players: Ids) -> str:
    """Some rows of the table of a bag."""
    labels, *table = columns(explanations).items()
    rows = [
        (labels[1][j], [_number(written(explanations, name, values[j])) for name, values in table]) for j in players
    ]
    return _table(["", *(titled(explanations, name) for name, _ in table)], rows) if rows else "<p>None.</p>"


def _differences(explanations: Explanations, e: Explanation) -> str:
    gap, weight = disagreement(explanations), player_attention(explanations)
    if gap is None or weight is None or e.info.kind != "signed":
        return ""
    attended = np.argsort(-weight, kind="stable")[:TOP]
    against = int((e.scores[attended] < 0).sum())
    scores, sizes = ("–" if np.isnan(r) else _number(f"{r:+.2f}") for r in (gap.correlation, gap.magnitude_correlation))
    facts = [
        f"{gap.attention_against:.1%} of the attention is on instances that oppose {e.output}.",
        f"Rank correlation of attention with the scores: {scores}; with their magnitudes: {sizes}.",
        f"Of the {len(attended)} most attended, {against} oppose{'s' if against == 1 else ''} {e.output}:",
    ]
    note = f"Attention tells how much an instance counts, not for what. {e.info.label} scores have sign and class."
    body = _list(facts) + _players(explanations, attended)
    return _section("What attention does not tell", note, body, "h2")
