"""The report's figures as inline SVG and tables: strings from arrays, every word escaped.

Coordinates have one decimal and many marks share one path: a page for 256 tokens has to stay light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanation
from ..explanations.ranks import spearman
from .labels import place_labels
from .palette import AGAINST, FOR, css
from .sanitize import elide, escape, visible

WIDTH = 480
# Words named in the SLALOM plane and rows of the LIME figure.
MOST_NAMES = 26
MOST_ROWS = 30


def _svg(width: float, height: float, body: Iterable[str], label: str, extra: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}"{extra}>'
        + "".join(body)
        + "</svg>"
    )


def ticks(low: float, high: float, about: int = 7) -> list[float]:
    """Round numbers between low and high.

    >>> ticks(-0.7, 2.2)
    [-0.5, 0.0, 0.5, 1.0, 1.5, 2.0]
    """
    raw = (high - low) / about
    if not np.isfinite(raw) or raw <= 0:
        return [low]
    unit = 10.0 ** np.floor(np.log10(raw))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _padded(values: Array, share: float = 0.07) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = (high - low) * share or max(abs(high), 1.0) * 0.5
    return low - room, high + room


def slalom_plane(value: Explanation, importance: Explanation, linear: Array) -> str:
    """P2's Figure 5: each word at (importance, value); the words that matter most are named."""
    left, right, top, bottom, height = 44, 8, 8, 34, 340
    x_low, x_high = _padded(importance.scores)
    y_low, y_high = _padded(np.append(value.scores, 0.0))
    x = left + (importance.scores - x_low) / (x_high - x_low) * (WIDTH - left - right)
    y = top + (y_high - value.scores) / (y_high - y_low) * (height - top - bottom)
    zero = top + y_high / (y_high - y_low) * (height - top - bottom)
    body = [f'<path class="a" d="M{left} {zero:.1f}H{WIDTH - right}M{left} {top}V{height - bottom}H{WIDTH - right}"/>']
    for tick in ticks(x_low, x_high):
        at = left + (tick - x_low) / (x_high - x_low) * (WIDTH - left - right)
        body.append(f'<text x="{at:.1f}" y="{height - bottom + 14}" text-anchor="middle">{tick:g}</text>')
    for tick in ticks(y_low, y_high):
        at = top + (y_high - tick) / (y_high - y_low) * (height - top - bottom)
        body.append(f'<text x="{left - 5}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    body.append(
        f'<text x="{(left + WIDTH) / 2}" y="{height - 4}" text-anchor="middle">importance s (log weight)</text>'
    )
    body.append(f'<text transform="translate(10 {height / 2}) rotate(-90)" text-anchor="middle">value v</text>')
    for sign, colour in ((1, FOR), (-1, AGAINST)):
        points = "".join(
            f'<circle cx="{x[j]:.1f}" cy="{y[j]:.1f}" r="4"><title>{escape(value.labels[j], 40)} s='
            f"{importance.scores[j]:.3g} v={value.scores[j]:.3g}</title></circle>"
            for j in range(len(x))
            if (value.scores[j] >= 0) == (sign > 0)
        )
        body.append(f'<g class="f" fill="{css(colour)}">{points}</g>')
    names = [elide(visible(label), 18) for label in value.labels]
    for label in place_labels(names, x, y, linear, (left, 0, WIDTH - right, height - bottom), MOST_NAMES):
        word = escape(names[label.point])
        body.append(f'<text x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}">{word}</text>')
    return _svg(WIDTH, height, body, "Value of each word against its importance")


def lime_spread(exact: Explanation, sampled: Array) -> str:
    """P1's Figure 4 on its side: runs of sampled LIME as dots and their range, the exact limit as a cross.

    sampled : (runs, d)
    """
    order = np.argsort(-np.abs(exact.scores), kind="stable")[:MOST_ROWS]
    left, right, top, row = 118, 12, 6, 17
    height = top + row * len(order) + 30
    low, high = _padded(np.concatenate([sampled[:, order].ravel(), exact.scores[order], [0.0]]), 0.04)

    def at(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - right)

    base = height - 30
    body = [f'<path class="a" d="M{at(0):.1f} {top}V{base}M{left} {base}H{WIDTH - right}"/>']
    for tick in ticks(low, high):
        body.append(f'<text x="{at(tick):.1f}" y="{base + 14}" text-anchor="middle">{tick:g}</text>')
    ranges, dots, crosses = [], [], []
    for i, j in enumerate(order):
        y = top + row * i + row / 2
        runs = sampled[:, j]
        ranges.append(f"M{at(runs.min()):.1f} {y:g}H{at(runs.max()):.1f}")
        dots += [f"M{at(run):.1f} {y:g}h0" for run in runs]
        crosses.append(f"M{at(exact.scores[j]) - 3.5:.1f} {y - 3.5:g}l7 7m-7 0l7-7")
        tip = f"exact {exact.scores[j]:.4g}, sampled {runs.min():.4g} to {runs.max():.4g}"
        body.append(
            f'<text x="{left - 6}" y="{y + 4:g}" text-anchor="end">{escape(exact.labels[j], 17)}'
            f"<title>{escape(exact.labels[j], 60)}: {tip}</title></text>"
        )
    sampled_colour, exact_colour = css(AGAINST), css(FOR)
    body.append(f'<path d="{"".join(ranges)}" stroke="{sampled_colour}" stroke-opacity=".35" stroke-width="5"/>')
    dotted = f'stroke="{sampled_colour}" stroke-opacity=".8" stroke-width="5" stroke-linecap="round"'
    body.append(f'<path d="{"".join(dots)}" {dotted}/>')
    body.append(f'<path d="{"".join(crosses)}" stroke="{exact_colour}" stroke-width="1.8" fill="none"/>')
    body.append(f'<text x="{(left + WIDTH) / 2}" y="{height - 3}" text-anchor="middle">LIME coefficient</text>')
    return _svg(WIDTH, height, body, "Exact LIME coefficients over the spread of sampled ones")


def attention_heads(alpha: Array, words: Sequence[str]) -> str:
    """One strip per head: the attention that each unit gets (Lopardo et al. 2024, Eq. 8).

    alpha : (K, n); words : the n units in order
    """
    T = len(words)
    out = []
    for i, own in enumerate(alpha):
        strongest = np.argsort(-own, kind="stable")[:3]
        named = ", ".join(f"{escape(words[t], 24)} {own[t]:.3f}" for t in strongest)
        rest = 1.0 - float(own.sum())
        share = f"; background {rest:.3f}" if rest > 5e-4 else ""
        strip = _svg(T, 1, _cells(own), f"Attention of head {i + 1}", ' preserveAspectRatio="none"')
        out.append(f'<div class="head"><span><b>head {i + 1}</b>: {named}{share}</span>{strip}</div>')
    return "".join(out)


def _cells(own: Array) -> list[str]:
    """Cells of one strip, those of like strength in one path; the square root lets weak tokens be seen."""
    shade = np.ceil(8 * np.sqrt(own / max(own.max(), np.finfo(float).tiny)) - 0.5).astype(int)
    paths = []
    for level in range(1, 9):
        cells = "".join(f"M{t} 0h1v1h-1z" for t in np.flatnonzero(shade == level))
        if cells:
            paths.append(f'<path fill="currentColor" fill-opacity="{level / 8:.3g}" d="{cells}"/>')
    return paths


def rank_correlation(a: Explanation, b: Explanation) -> float:
    """Spearman's rank correlation of two methods; of magnitudes if one of them has no sign. NaN if one is constant."""
    x, y = a.scores, b.scores
    if "unsigned" in (a.info.kind, b.info.kind) or (a.info.kind == "log") != (b.info.kind == "log"):
        x, y = (e.scores if e.info.kind == "log" else np.abs(e.scores) for e in (a, b))
    return spearman(x, y)


def agreement(explanations: Sequence[Explanation]) -> str:
    """The rank correlations of all pairs of methods, as a coloured table."""
    head = "".join(f"<th scope=col>{escape(e.title)}</th>" for e in explanations)
    rows = []
    for a in explanations:
        cells = []
        for b in explanations:
            rho = rank_correlation(a, b)
            if np.isnan(rho):
                cells.append("<td>–</td>")
                continue
            colour = FOR if rho > 0 else AGAINST
            shade = css(colour, round(0.65 * abs(rho), 2))
            shown = f"{rho:.2f}".replace("-", "−")
            cells.append(f'<td style="background:{shade}">{shown}</td>')
        rows.append(f"<tr><th scope=row>{escape(a.title)}</th>{''.join(cells)}</tr>")
    return f'<table class="m"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
