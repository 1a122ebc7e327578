"""The report of a bag: its signed map next to the attention, the strongest instances, and what
attention does not show.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np

from ..._types import Array
from ...reasons.curves import RemovalCurves
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from ..files.atomic import regular_file
from ..models.scale import ExplainedScale, percent
from . import figures, maps
from .figures import AGAINST, FOR, UNSIGNED
from .page import LONGEST_SENTENCE, bullets, css, note, section, svg, svg_text, table_of
from .removals import DRAWN, removal_curves, share_of_best
from .report_parts import both_scales, classes_of, facts, headline_of, unnamed_classes
from .sanitize import escape, prose

# Tuning: the number of players in each table of a bag.
TOP = 10
# Tuning: the letters of the name of a bag in its heading.
LONGEST_BAG_NAME = 80


def bag_page(explanations: Explanations) -> str:
    """Return the body of the report of a bag."""
    name = maps.bag_name(explanations, "This bag")
    parts = [
        headline_of(explanations, escape(name, LONGEST_BAG_NAME)),
        classes_of(explanations),
        unnamed_classes(explanations),
        note(explanations.explained),
        both_scales(explanations, _scores),
        _differences(explanations, figures.leader(explanations)),
        facts(explanations),
    ]
    return "".join(parts)


def bag_notebook(explanations: Explanations) -> str:
    """Return the cell of a bag: what its instances add up to, and its map or its strongest
    instances.
    """
    e = figures.leader(explanations)
    parts = [note(explanations.explained), _sum(explanations)]
    if explanations.evidence.units.coords is None:
        parts.append(_strongest(explanations, e))
    else:
        parts.append(_maps(explanations, e))
    return "".join(parts)


def _scores(explanations: Explanations) -> str:
    """Return how the instances of a bag add up, their map, and the strongest ones."""
    e = figures.leader(explanations)
    parts = [_sum(explanations)]
    if explanations.evidence.units.coords is not None:
        parts.append(_maps(explanations, e))
    parts += [_strongest(explanations, e), _removal(explanations)]
    return "".join(parts)


def _sum(explanations: Explanations) -> str:
    """Say what the instances add up to, and what was assumed about the model."""
    doubts = explanations.evidence.model.doubts
    sentences = note(doubts, strong=True) + note(figures.saturation(explanations), strong=True)
    return f"<p>{prose(maps.bag_sentence(explanations))}</p>{sentences}"


def _removal(explanations: Explanations) -> str:
    """Return the deletion curves, the certified minimum, their shares of the best possible, and the
    smallest flip.
    """
    evidence = explanations.evidence
    if not evidence.is_pooled:
        return _checked_removal(explanations)
    curves = removal_curves(explanations)
    chosen = [method for method in DRAWN if method in curves] or list(curves)[: len(DRAWN)]
    scale = evidence.target.pooled.scale
    drawn = _deletion({METHODS[method].label: curves[method] for method in chosen}, scale)
    heads = evidence.pooled.H
    rows = []
    for method, each in curves.items():
        deletion = share_of_best(each.deletion_share, heads)
        insertion = share_of_best(each.insertion_share, heads)
        rows.append((METHODS[method].label, [deletion, insertion]))
    text = (
        "The prediction as instances are removed, highest score first. No order can enter the "
        "shaded area, which is certified for every number of removed instances. Shapley values "
        "divide a prediction fairly; the flip order ranks what to remove first."
    )
    flip = prose(explanations.reasons().sentences()[-1], LONGEST_SENTENCE)
    table = table_of(["share of the best possible", "deletion", "insertion"], rows)
    return section("Removing instances", text, f"<p>{flip}</p>{drawn}{table}", "h2")


def _checked_removal(explanations: Explanations) -> str:
    """Return sets of instances for which a network with a tail was evaluated; nothing about it is
    certified.
    """
    text = (
        "A nonlinear layer follows the pooling of this network, so there are no certified reasons "
        "and no bounds of the removal curves. The network itself was evaluated without some "
        "instances."
    )
    sentences = explanations.checked_reasons()
    if not sentences:
        return section("Removing instances", text, "", "h2")
    body = bullets(prose(sentence, LONGEST_SENTENCE) for sentence in sentences)
    return section("Removing instances", text, body, "h2")


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
        f'<path fill="currentColor" fill-opacity=".12" d="M{left} '
        f'{bottom}L{points(limit)}V{bottom}z"/>',
        f'<path class="a" d="M{left} {top}v{high}h{wide}"/>',
        *(
            svg_text(
                left - 5, top + 4 + high * (1 - share), prose(scale.level(value, "+.3g")), "end"
            )
            for share, value in ((0, round(low, 4)), (1, round(low + span, 4)))
        ),
        svg_text(left, bottom + 15, "0"),
        svg_text(left + wide, bottom + 15, f"{d:,} removed", "end"),
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
            svg_text(at + 25, line, escape(title, 22)),
        ]
    return svg(
        480,
        bottom + 30 + 20 * -(-len(curves) // 2),
        body,
        "The prediction as instances are removed",
    )


def _maps(explanations: Explanations, e: Explanation) -> str:
    text = "Tiles in their places on the slide, not smoothed. "
    if e.info.kind == "signed":
        text += f"Orange supports {e.output}, blue opposes it, and gray does neither. "
    text += "Attention has no sign and no class. The colors end at the 99.5th percentile."
    panels = []
    for figure in maps.heat_maps([explanations]):
        faint = f"rgba{(*maps.FAINT, maps.FAINTEST)}".replace(" ", "")
        ramp = ",".join(
            faint if color == maps.ZERO else css(color) for color in maps.shades(figure.signed)
        )
        end = figure.scale.end(figure.end)
        if figure.signed:
            low = f"−{end}"
            middle = "0"
            high = f"+{end}"
        else:
            low = "0"
            middle = ""
            high = end
        panels.append(
            f"<figure><figcaption>{prose(figure.title)}</figcaption>{_picture(figure, explanations)}"
            f'<div class="scale"><b style="background:linear-gradient(90deg,{ramp})"></b>'
            f"<span>{low}</span><span>{middle}</span><span>{high}</span></div></figure>"
        )
    return section("Map", text, f'<div class="maps">{"".join(panels)}</div>', "h2")


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
    place = (
        f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" '
        'preserveAspectRatio="none"'
    )
    return (
        f'<svg viewBox="{left:g} {top:g} {right - left:g} {bottom - top:g}" role="img" '
        f'aria-label="{label}"><image href="{under}" width="{width:g}" height="{height:g}" '
        f'preserveAspectRatio="none"/><image href="{source}" {place} '
        'style="image-rendering:pixelated"/></svg>'
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
    text = f"Up to {TOP} on each side, with their shares of the attention."
    tables = ""
    for side, players in zip(("For", "Against"), maps.strongest(e.scores, TOP), strict=True):
        table = table_of(*maps.player_table(explanations, players))
        tables += f"<section><h3>{escape(f'{side} {e.output}')}</h3>{table}</section>"
    return section("The strongest instances", text, f'<div class="two">{tables}</div>', "h2")


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
        f"{percent(gap.attention_against)} of the attention is on instances that oppose "
        f"{e.output}.",
        f"Rank correlation of attention with the scores: {scores}; with their magnitudes: {sizes}.",
        f"Of the {len(attended)} with the most attention, {against} "
        f"oppose{'s' if against == 1 else ''} {e.output}:",
    ]
    text = (
        f"Attention shows how much an instance counts, not which class it supports. {e.info.label} "
        "values show both."
    )
    body = bullets(facts) + table_of(*maps.player_table(explanations, attended))
    return section("What attention does not show", text, body, "h2")
