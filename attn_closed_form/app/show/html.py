"""Reports as one self-contained HTML file that is small, escaped, color-blind safe and readable on a phone.

`report` puts the answer first: the prediction, the text colored by the exact Shapley values, how the words add up, and
the certified reasons. The other methods follow by family, folded. A bag gets its signed map next to the attention, the
strongest instances, and the differences between the two. `notebook` returns the HTML of a notebook cell.

A page needs no font, file, library or network. Figures are inline SVG, drawn from `figures.py`, and maps are PNG data
inside the page. Style and script are files in `static/`. Colors are laid over the page with opacity, so the same rules
work on light and dark pages. Words against the prediction are also underlined, so that a gray print shows the sign.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from ..._types import Array
from ...reasons.curves import RemovalCurves
from ..explanations.explain import explain_logit, for_output, is_mirrored
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from ..files.atomic import regular_file, replacing
from ..models.protocol import BagModel
from ..models.scale import ExplainedScale, percent
from ..models.sentences import sentence_numbers
from . import figures, maps
from .figures import AGAINST, FOR, MOST_CLASSES, PLANE, SLALOM, UNSIGNED, Bar
from .sanitize import elide, escape, prose, script_json

# Longer pieces of text are shortened in the middle, so that no text can bloat the page.
LONGEST_WORD = 60
LONGEST_GAP = 48
LONGEST_REASON = 400
MOST_SENTENCES = 40
# Number of players in each table of a bag.
TOP = 10
# Orders whose deletion curves are drawn; the table next to them lists all orders.
DRAWN = ("flip-order", "shapley", "leave-one-out", "alpha-mean")
# Models whose units are instances of a bag get the report of a bag, with a map instead of a text.
REFERENCES = (
    "Lopardo, Precioso, Garreau: Attention Meets Post-hoc Interpretability: A Mathematical Perspective, ICML 2024 "
    "(arXiv 2402.03485)",
    "Leemann, Fastowski, Pfeiffer, Kasneci: Attention Mechanisms Don't Learn Additive Models, 2025 (arXiv 2405.13536)",
    "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017 (arXiv 1703.01365)",
)


def css(color: tuple[int, int, int]) -> str:
    """Return a color in CSS notation."""
    return f"rgb{color}".replace(" ", "")


@cache
def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8").strip()


@cache
def stylesheet() -> str:
    """Return the stylesheet of reports, page and notebook cells: the palette, then the rules."""
    palette = {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}
    variables = ";".join(f"--{name}:{css(color)}" for name, color in palette.items())
    return f".acf{{{variables}}}\n{_static('look.css').partition('*/')[2].strip()}"


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page as UTF-8, atomically."""
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def notebook(explanations: Explanations) -> str:
    """Return the HTML of a notebook cell: the answer and the words colored by each method, or the maps of a bag.

    >>> from attn_closed_form import load_demo_model
    >>> page = notebook(load_demo_model().explain("<b>fine</b>", "shapley"))
    >>> "<b>fine" in page, "&lt;b&gt;" in page
    (False, True)
    """
    if _is_bag(explanations):
        e = figures.leader(explanations)
        without_map = explanations.evidence.units.coords is None
        body = _explained(explanations) + _bag_sum(explanations)
        body += _strongest(explanations, e) if without_map else _maps(explanations, e)
    else:
        body = _answer(explanations, hover=True)
        body += _methods(explanations, hover=True) if len(explanations) > 1 else ""
    # Every rule is scoped to .acf, so that none affects the rest of the notebook.
    return f'<style>{stylesheet()}</style><div class="acf">{body}</div>'


def report(explanations: Explanations) -> str:
    """Return an HTML page about one input."""
    if _is_bag(explanations):
        return page_of(
            f"{maps.bag_name(explanations)}: explanation report", _bag_body(explanations)
        )
    parts = [_answer(explanations)]
    if len(explanations) > 1 and not figures.notice(explanations):
        parts += [_methods(explanations), _numbers(explanations), _plane(explanations)]
    parts.append(_facts(explanations))
    rows = list(explanations.values())
    scores = {  # four digits, for the panel that follows the pointer
        "labels": [e.scale.titled(e.title) for e in rows],
        "signed": [int(e.info.kind == "signed") for e in rows],
        "players": [elide(name, LONGEST_WORD) for name in figures.names(explanations.evidence)],
        "player": [place.player for place in rows[0].occurrences],
        "scores": [[float(e.scale.digits(score, ".4g")) for score in e.scores] for e in rows],
    }
    data = f'<script type="application/json" id="data">{script_json(scores)}</script>'
    script = "\n".join(
        line.strip() for line in _static("report.js").splitlines() if not line.startswith("//")
    )
    live = f'<div id="tip" aria-live="polite"></div>{data}<script>{script}</script>'
    return page_of("Explanation report", "".join(parts) + live)


def _is_bag(explanations: Explanations) -> bool:
    return isinstance(explanations.evidence.model, BagModel)


def page_of(title: str, body: str) -> str:
    """Wrap escaped HTML in a complete page with the stylesheet."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title, 100)}</title><style>{stylesheet()}</style></head>"
        f'<body class="acf">{body}</body></html>\n'
    )


def _details(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def _section(title: str, note: str, body: str, heading: str = "h3") -> str:
    return f"<section><{heading}>{escape(title)}</{heading}>{_note(note)}{body}</section>"


def _note(text: str, strong: bool = False) -> str:
    shown = prose(text, LONGEST_REASON)
    if text:
        return f'<p class="note">{f"<b>{shown}</b>" if strong else shown}</p>'
    return ""


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{prose(item, LONGEST_REASON)}</li>" for item in items) + "</ul>"


def table_of(head: Sequence[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a table of numbers whose first column names the rows, or "None." if there are no rows."""
    names_of_columns = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th scope=row>{escape(name, 24)}</th>"
        + "".join(f"<td>{prose(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, cells in rows
    )
    if not body:
        return "<p>None.</p>"
    return (
        '<div class="scroll" tabindex=0><table class="n">'
        f"<thead><tr>{names_of_columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _answer(explanations: Explanations, hover: bool = False) -> str:
    """Return the first screen: class, probability, colored words, how they add up, and the certified reasons."""
    e = figures.leader(explanations)
    told = figures.notice(explanations)
    name, _, logit = figures.verdict(explanations).partition(" (")
    parts = [
        f"<h1>{prose(name)} <small>{prose(logit.rstrip(')'))}</small></h1>",
        _classes(explanations),
    ]
    parts.append(_note("" if explanations.fit is None else explanations.fit.verdict(), strong=True))
    parts.append(_explained(explanations))
    if told:
        return "".join([*parts, f'<p class="notice">{escape(told)}</p>', _text_of(e, hover)])
    note = f"Colored by {e.title}: orange raises {e.output}, blue (underlined) lowers it"
    if e.info.kind != "signed":
        note = f"Colored by {e.title}, which has no sign"
    note += f". Stronger is darker. Hover{' over' if hover else ', tap or use the arrow keys on'} a word for its numbers."
    if any(e.unknown):
        note += " Dotted words are not in the vocabulary: the model cannot tell them apart."
    parts += [_text_of(e, hover), _note(note)]
    if e.method == explanations.evidence.headline:
        parts += [_both_scales(explanations, _sum_and_reasons), _other_classes(explanations)]
    parts += [
        _note(text, strong=True)
        for text in (explanations.fit.sentences() if explanations.fit else ())
    ]
    return "".join(parts)


def _both_scales(explanations: Explanations, body: Callable[[Explanations], str]) -> str:
    """Return a part of the report, with a switch to the logit if it is about the probability."""
    e = figures.leader(explanations)
    if e.scale.link is None:
        logit = None
    else:
        logit = explain_logit(explanations, e.method)
    if logit is None:
        return body(explanations)
    switch = f'<label class="switch"><input type="checkbox"> Show {logit.scale.name}s</label>'
    parts = f'<div class="main">{body(explanations)}</div><div class="logit">{_explained(logit)}{body(logit)}</div>'
    return f'<div class="scales">{switch}{parts}</div>'


def _explained(explanations: Explanations) -> str:
    return _note(explanations.explained)


def _sum_and_reasons(explanations: Explanations) -> str:
    """Return how the words add up, and the reasons."""
    e = figures.leader(explanations)
    things = explanations.evidence.target.players
    accuracy = f"{figures.sampling(e)}. The thin lines show the standard errors."
    if e.error is not None:
        accuracy = f"Exact Shapley values of the {e.scale.name}, each with a guaranteed error of at most {e.error:.0e}."
    note = f"{accuracy} The baseline is the prediction with all {things} absent."
    bars = _section("How it adds up", note, _waterfall(e), "h2")
    if explanations.evidence.exact:
        why = _why(explanations)
    else:
        why = ""
    if explanations.evidence.model.surrogate is not None and (
        checked := explanations.checked_reasons()
    ):
        why = f"<section><h2>Checked with the model</h2>{_list(checked)}</section>"
    return f'<div class="two">{bars}{why}</div>'


def _classes(explanations: Explanations) -> str:
    bars = figures.class_bars(explanations)
    if bars:
        return f'<div class="classes">{_bars(bars)}</div>'
    return ""


def _bars(bars: Sequence[Bar], axis: str = "") -> str:
    """Return bars with their labels and numbers, one row each, and an axis below them."""
    rows = []
    for bar in bars:
        end = " class=end" if bar.kind == "end" else ""
        drawn = _track(bar.kind, bar.left, bar.right)
        if bar.error:  # one standard error to each side of the tip
            tip = bar.right if bar.kind == "for" else bar.left
            drawn += _track("error", max(tip - bar.error, 0.0), min(tip + bar.error, 1.0))
        rows.append(
            f"<span{end} dir=auto>{escape(bar.label, 40)}</span><span{end}>{prose(bar.text)}</span>"
            f"<div class=track>{drawn}</div>"
        )
    return f'<div class="bars" style="--zero:{100 * bars[0].left:.1f}%">{"".join(rows)}{axis}</div>'


def _waterfall(e: Explanation) -> str:
    """Return the steps of a waterfall above their axis."""
    steps = figures.waterfall(e)
    ticks = "".join(
        f'<span style="left:{100 * at:.1f}%">{prose(text)}</span>' for at, text in steps.ticks
    )
    axis = f'<span></span><span></span><div class="track axis">{ticks}</div>'
    return _bars(steps.bars, axis)


def _track(kind: str, left: float, right: float) -> str:
    return f'<b class={kind} style="left:{100 * left:.1f}%;width:{100 * (right - left):.1f}%"></b>'


def _text_of(e: Explanation, hover: bool) -> str:
    return f'<div class="text live" dir="auto">{_colored(e, hover)}</div>'


def _colored(e: Explanation, hover: bool) -> str:
    """Return the text with one <i> per unit that the model reads, and the number of other units."""
    text = figures.colored_text(e)

    def escaped() -> list[tuple[str, int | None]]:
        limits = (
            (piece, LONGEST_GAP if piece.player is None else LONGEST_WORD) for piece in text.pieces
        )
        return [(escape(piece.text, limit), piece.player) for piece, limit in limits]

    def tag(level: int, unknown: bool) -> str:
        if level:
            color = f"{'u' if not text.signed else 'p' if level > 0 else 'n'}{abs(level)}"
        else:
            color = ""
        classes = " ".join(filter(None, [color, "k" if unknown else ""]))
        if " " in classes:
            return f'<i class="{classes}"'
        if classes:
            return f"<i class={classes}"
        return "<i"

    looks = list(zip(text.levels, text.unknown, strict=True))
    opened = {look: tag(*look) for look in set(looks)}
    tips = [""] * len(looks)
    if hover:
        notes = [", not in the vocabulary" if unknown else "" for unknown in text.unknown]
        changes = (e.scale.change(score, ".4g") for score in e.scores)
        tips = [f' title="{change}{note}"' for change, note in zip(changes, notes, strict=True)]
    tags = [
        f"{opened[look]}{tip}>" for look, tip in zip(looks, tips, strict=True)
    ]  # one per player
    pieces = e.evidence.of_input("escaped pieces", escaped)
    parts = [word if j is None else f"{tags[j]}{word}</i>" for word, j in pieces]
    unseen = f" <small>… {text.unseen:,} more not read</small>"
    return "".join(parts) + (unseen if text.unseen else escape(text.tail, LONGEST_GAP))


def _other_classes(explanations: Explanations) -> str:
    """Return the other classes, each with its words and its waterfall; one can be open at a time."""
    chances = explanations.probabilities or {}
    if len(explanations.evidence.logits) < 2 or explanations.output not in chances:
        return ""
    if all(is_mirrored(explanations, name) for name in chances if name != explanations.output):
        return ""
    ranked = sorted(chances, key=lambda name: -chances[name])[:MOST_CLASSES]
    parts = []
    for name in (name for name in ranked if name != explanations.output):
        e = figures.leader(for_output(explanations, name))
        if e.scale.link:
            logit = ""
        else:
            logit = f" (logit {e.prediction:+.4f})"
        title = f"{escape(name, 30)}, {prose(percent(chances[name]) + logit)}"
        body = _text_of(e, hover=True) + _waterfall(e)
        parts.append(f"<details name=class><summary>{title}</summary>{body}</details>")
    return f"<h2>The other classes</h2>{''.join(parts)}"


def _why(explanations: Explanations) -> str:
    """Return the certified reasons, and the contribution of each sentence."""
    parts = [f"<h2>Certified reasons</h2>{_list(explanations.reasons().sentences())}"]
    units = explanations.evidence.units
    if (
        units.text is not None
        and 1 < len(sentence_numbers(units.text, units.spans or ())[1]) <= MOST_SENTENCES
    ):
        sentences = explanations.sentences()
        change = explanations.scale.change
        rows = "".join(
            f"<tr><td>{prose(change(score))}</td><td class=t dir=auto>{escape(label, LONGEST_REASON)}</td></tr>"
            for score, label in zip(sentences.scores, sentences.labels, strict=True)
        )
        note = "Owen values: the scores of the words in a sentence add up to the score of the sentence."
        parts.append(
            _section("Sentences", note, f'<table class="n"><tbody>{rows}</tbody></table>', "h2")
        )
    return f"<section>{''.join(parts)}</section>"


def _methods(explanations: Explanations, hover: bool = False) -> str:
    parts = []
    for family in figures.method_rows(explanations):
        rows = ""
        for row in family.rows:
            title = f'<th scope=row title="{escape(row.summary)}">{escape(row.title)}</th>'
            rows += f'<tr>{title}<td dir="auto">{_colored(explanations[row.methods[0]], hover)}</td></tr>'
        table = f'<div class="live"><table class="words"><tbody>{rows}</tbody></table></div>'
        parts.append(_section(family.title, family.meaning, table))
    return _details("Other methods", "".join(parts))


def _numbers(explanations: Explanations) -> str:
    rows = list(explanations.values())
    order = figures.strongest_players(explanations)
    shown = figures.names(explanations.evidence)
    digits = {e.method: ".3g" if e.info.kind == "unsigned" else "+.3g" for e in rows}
    cells = (
        (shown[j], [e.scale.digits(e.scores[j], digits[e.method]) for e in rows]) for j in order
    )
    things = explanations.evidence.target.players
    title = figures.leader(explanations).title
    table = table_of([things.removesuffix("s"), *(e.scale.titled(e.title) for e in rows)], cells)
    note = f"The {len(order)} strongest {things} by {title}; scroll sideways for more methods."
    return _details("The numbers", _note(note) + table)


def _plane(explanations: Explanations) -> str:
    """Return the SLALOM plane, if the methods that it shows were run."""
    figure = figures.slalom_plane(explanations)
    if figure is None:
        return ""
    left = 44
    top = 8
    (wide, high) = PLANE
    bottom = top + high

    def x(unit: float) -> float:
        return left + unit * wide

    def y(unit: float) -> float:
        return bottom - unit * high

    body = [
        f'<path class="a" d="M{left} {y(figure.zero):.1f}h{wide:g}M{left} {top}v{high:g}h{wide:g}"/>'
    ]
    body += [
        _text(x(at), bottom + 14, prose(f"{number:g}"), "middle")
        for at, number in figure.across.ticks
    ]
    body += [
        _text(left - 5, y(at) + 4, prose(f"{number:g}"), "end") for at, number in figure.up.ticks
    ]
    body.append(_text(x(0.5), bottom + 30, "importance s (log weight)", "middle"))
    body.append(
        f'<text transform="translate(10 {y(0.5):g}) rotate(-90)" text-anchor="middle">value v</text>'
    )
    trusted = explanations[SLALOM[0]].trusted
    sides: dict[bool, list[str]] = {True: [], False: []}
    players, value, importance, _ = (
        figures.names(explanations.evidence),
        *(explanations[m].scores for m in SLALOM),
    )
    for name, s, v, across, up in zip(players, importance, value, figure.x, figure.y, strict=True):
        tip = f"<title>{escape(name, 40)} s={s:.3g} v={v:.3g}</title>"
        sides[v >= 0].append(f'<circle cx="{x(across):.1f}" cy="{y(up):.1f}" r="4">{tip}</circle>')
    for positive, dots in sides.items():
        if trusted:
            if positive:
                kind = "for"
            else:
                kind = "against"
        else:
            kind = "gray"
        body.append(f'<g class="{kind}">{"".join(dots)}</g>')
    body += [
        _text(x(label.x), y(label.y), escape(label.text), label.anchor) for label in figure.labels
    ]
    things = explanations.evidence.target.players
    note = f"Value and importance (log weight) of the {things}. Those on the right have the most weight."
    drawn = _svg(480, 340, body, "Value of each word against its importance")
    return _details(f"SLALOM plane{'' if trusted else ' (poor fit)'}", _note(note) + drawn)


def _facts(explanations: Explanations) -> str:
    """Return what was explained, a description of each method, and the papers."""
    evidence = explanations.evidence
    level = explanations.scale.level
    units = evidence.units
    target = evidence.target
    logits = ""
    errors = [e.error for e in explanations.values() if e.error is not None]
    if target.logit is not None:
        logits = f" Their {target.logit.scale.name}s: {evidence.logit:+.4f} and {evidence.absent_logit:+.4f}."
    if target.absent == "unk":
        absent = "replaced by [UNK]"
    else:
        absent = target.absent
    lines = [
        f"{explanations.explained} It is {level(evidence.prediction)}, and with every player absent "
        f"{level(evidence.absent_value)}.{logits}",
        f"The model read {len(units.labels):,} of {len(units.labels) + len(units.unseen):,} units. The players are "
        f"{len(evidence.labels):,} {target.players}. An absent player is {absent}.",
        *([] if explanations.fit is None else explanations.fit.sentences()),
        *filter(None, map(figures.sampling, explanations.values())),
        *([f"Guaranteed error of the exact attributions: ≤ {max(errors):.1e}."] if errors else []),
    ]
    methods = _list(
        f"{e.title} ({e.info.accuracy}): {e.info.summary}" for e in explanations.values()
    )
    body = "".join(f"<p>{prose(line)}</p>" for line in lines)
    body += f"<h3>Methods</h3>{methods}<h3>References</h3>{_list(REFERENCES)}"
    return _details("What was explained, and how", body)


def _svg(width: float, height: float, body: Iterable[str], label: str) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    if anchor == "start":
        where = ""
    else:
        where = f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}>{text}</text>'


def _bag_body(explanations: Explanations) -> str:
    outputs = explanations.evidence.model.outputs
    unnamed = "<p class=note>The classes have no names. Name them with <code>--classes A,B</code> or <code>outputs</code>."
    parts = [
        f"<h1>{escape(maps.bag_name(explanations), 80)} <small>{prose(figures.verdict(explanations))}</small></h1>",
        _classes(explanations),
        f"{unnamed}</p>" if outputs == tuple(map(str, range(len(outputs)))) else "",
        _explained(explanations),
        _both_scales(explanations, _bag_scores),
        _differences(explanations, figures.leader(explanations)),
        _facts(explanations),
    ]
    return "".join(parts)


def _bag_scores(explanations: Explanations) -> str:
    """Return how the instances of a bag add up, their map, and the strongest ones."""
    e = figures.leader(explanations)
    if explanations.evidence.units.coords is None:
        drawn = ""
    else:
        drawn = _maps(explanations, e)
    return f"{_bag_sum(explanations)}{drawn}{_strongest(explanations, e)}{_removal(explanations)}"


def _bag_sum(explanations: Explanations) -> str:
    return f"<p>{prose(maps.bag_sentence(explanations))}</p>{_note(explanations.evidence.model.doubts, strong=True)}"


def _removal(explanations: Explanations) -> str:
    """Return the deletion curves, the certified minimum, their shares of the best possible, and the smallest flip."""
    evidence = explanations.evidence
    curves = figures.removal_curves(explanations)
    chosen = [method for method in DRAWN if method in curves] or list(curves)[: len(DRAWN)]
    drawn = _deletion({METHODS[method].label: curves[method] for method in chosen}, evidence.scale)
    if evidence.pooled.H > 1:
        several = "at least "
    else:
        several = ""
    shares = {
        METHODS[method].label: (c.deletion_share, c.insertion_share) for method, c in curves.items()
    }
    rows = (
        (title, ["–" if np.isnan(share) else f"{several}{percent(share)}" for share in both])
        for title, both in shares.items()
    )
    note = (
        "The prediction as instances are removed, highest score first. No order can enter the shaded area, which is "
        "certified for every number of removed instances. Shapley values divide a prediction fairly; the flip order "
        "ranks what to remove first."
    )
    flip = prose(explanations.reasons().sentences()[-1], LONGEST_REASON)
    table = table_of(["share of the best possible", "deletion", "insertion"], rows)
    return _section("Removing instances", note, f"<p>{flip}</p>{drawn}{table}", "h2")


def _deletion(curves: Mapping[str, RemovalCurves], scale: ExplainedScale) -> str:
    """Draw deletion curves by number of removed instances, above the certified minimum."""
    first = next(iter(curves.values()))
    left = 76
    top = 8
    wide = 396
    high = 200
    limit = first.bounds.proved_min
    d = first.players
    values = np.concatenate([limit, *(each.deletion for each in curves.values())])
    low = float(values.min())
    span = float(np.ptp(values)) or 1.0

    def points(heights: Array) -> str:
        x = left + wide * first.absent / d
        y = top + high * (1 - (heights - low) / span)
        return "L".join(f"{at:.1f} {up:.1f}" for at, up in zip(x, y, strict=True))

    bottom = top + high
    body = [
        f'<path fill="currentColor" fill-opacity=".12" d="M{left} {bottom}L{points(limit)}V{bottom}z"/>',
        f'<path class="a" d="M{left} {top}v{high}h{wide}"/>',
        *(
            _text(left - 5, top + 4 + high * (1 - share), prose(scale.level(value, "+.3g")), "end")
            for share, value in ((0, round(low, 4)), (1, round(low + span, 4)))
        ),
        _text(left, bottom + 15, "0"),
        _text(left + wide, bottom + 15, f"{d:,} removed", "end"),
    ]
    colors = (css(FOR), css(AGAINST), "currentColor", css(UNSIGNED))
    for i, (title, each) in enumerate(curves.items()):
        stroke = f'fill="none" stroke="{colors[i]}" stroke-width="2"'
        body.append(f'<path {stroke} d="M{points(each.deletion)}"/>')
        row, column = divmod(i, 2)  # position in the legend, below the curves
        at = left + 200 * column
        line = bottom + 42 + 20 * row
        body += [
            f'<path {stroke} d="M{at} {line - 4}h18"/>',
            _text(at + 25, line, escape(title, 22)),
        ]
    return _svg(
        480,
        bottom + 30 + 20 * -(-len(curves) // 2),
        body,
        "The prediction as instances are removed",
    )


def _maps(explanations: Explanations, e: Explanation) -> str:
    note = "Tiles in their places on the slide, not smoothed. "
    if e.info.kind == "signed":
        note += f"Orange supports {e.output}, blue opposes it, and gray does neither. "
    note += "Attention has no sign and no class. The colors end at the 99.5th percentile."
    panels = []
    for figure in maps.heat_maps([explanations]):
        faint = f"rgba{(*maps.FAINT, maps.FAINTEST)}".replace(" ", "")
        ramp = ",".join(
            faint if color == maps.ZERO else css(color) for color in maps.shades(figure.signed)
        )
        end = figure.scale.end(figure.end)
        if figure.signed:
            low, middle, high = (f"−{end}", "0", f"+{end}")
        else:
            low, middle, high = ("0", "", end)
        panels.append(
            f"<figure><figcaption>{prose(figure.title)}</figcaption>{_picture(figure, explanations)}"
            f'<div class="scale"><b style="background:linear-gradient(90deg,{ramp})"></b>'
            f"<span>{low}</span><span>{middle}</span><span>{high}</span></div></figure>"
        )
    return _section("Map", note, f'<div class="maps">{"".join(panels)}</div>', "h2")


def _picture(figure: maps.HeatMap, explanations: Explanations) -> str:
    """Return a map, drawn over the thumbnail of the slide if the attributes of the bag name one."""
    label = f"{escape(figure.title)}, one cell per tile"
    source = _data(maps.png(figure.over_page()))
    thumbnail = explanations.evidence.units.attrs.get("thumbnail")
    if thumbnail is None:
        return f'<img alt="{label}" src="{source}">'
    left, top, right, bottom = figure.raster.box
    (width, height) = maps.slide_size(explanations)
    under = _data(regular_file(thumbnail).read_bytes())
    place = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" preserveAspectRatio="none"'
    return (
        f'<svg viewBox="{left:g} {top:g} {right - left:g} {bottom - top:g}" role="img" aria-label="{label}">'
        f'<image href="{under}" width="{width:g}" height="{height:g}" preserveAspectRatio="none"/>'
        f'<image href="{source}" {place} style="image-rendering:pixelated"/></svg>'
    )


def _data(image: bytes) -> str:
    """Embed a picture in the page, or raise an error for a file that is neither PNG nor JPEG."""
    kind = {b"\x89PNG": "png", b"\xff\xd8\xff\xe0": "jpeg", b"\xff\xd8\xff\xe1": "jpeg"}.get(
        image[:4]
    )
    if kind is None:
        raise ValueError("thumbnail: expected a PNG or JPEG file, which a report can embed")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _strongest(explanations: Explanations, e: Explanation) -> str:
    note = f"Up to {TOP} on each side, with their shares of the attention."
    tables = ""
    for side, players in zip(("For", "Against"), maps.strongest(e.scores, TOP), strict=True):
        table = table_of(*maps.player_table(explanations, players))
        tables += f"<section><h3>{escape(f'{side} {e.output}')}</h3>{table}</section>"
    return _section("The strongest instances", note, f'<div class="two">{tables}</div>', "h2")


def _differences(explanations: Explanations, e: Explanation) -> str:
    gap = maps.disagreement(explanations)
    weight = maps.player_attention(explanations)
    if gap is None or weight is None or e.info.kind != "signed":
        return ""
    attended = np.argsort(-weight, kind="stable")[:TOP]
    against = int((e.scores[attended] < 0).sum())
    scores, sizes = (
        "–" if np.isnan(r) else f"{r:+.2f}" for r in (gap.correlation, gap.magnitude_correlation)
    )
    facts = [
        f"{percent(gap.attention_against)} of the attention is on instances that oppose {e.output}.",
        f"Rank correlation of attention with the scores: {scores}; with their magnitudes: {sizes}.",
        f"Of the {len(attended)} with the most attention, {against} oppose{'s' if against == 1 else ''} {e.output}:",
    ]
    note = f"Attention shows how much an instance counts, not which class it supports. {e.info.label} values show both."
    body = _list(facts) + table_of(*maps.player_table(explanations, attended))
    return _section("What attention does not show", note, body, "h2")
