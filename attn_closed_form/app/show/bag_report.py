"""The report of a bag: its signed map next to the attention, the strongest instances, and what
attention does not show.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._types import Array, Ids
from ...reasons.curves import RemovalCurves
from ..explanations.explain import against_runner_up, runner_up_of
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import METHODS
from ..files.atomic import regular_file
from ..models.scale import ExplainedScale, percent
from . import figures, maps
from .figures import UNSIGNED
from .page import LONGEST_SENTENCE, bullets, css, details, note, section, svg, svg_text, table_of
from .removals import DRAWN, removal_curves, share_of_best
from .report_parts import both_scales, classes_of, facts, headline_of, unnamed_classes
from .sanitize import elide, escape, output_name, prose

# Tuning: the number of players in each table of a bag.
TOP = 10
# The name of the thumbnail in a page, which maps and tables refer to.
SLIDE = "slide"


def bag_page(explanations: Explanations, others: Sequence[Explanations] = ()) -> str:
    """Return the body of the report of a bag, with the maps of `others` on one scale."""
    # Tuning: the letters of the name of a bag in its heading.
    longest_bag_name = 80
    # Names of bags come from files, so they may be long.
    name = elide(maps.bag_name(explanations, "This bag"), longest_bag_name)
    parts = [
        _thumbnail_once(explanations),
        headline_of(explanations, name[:1].upper() + name[1:]),
        classes_of(explanations),
        unnamed_classes(explanations),
        note(explanations.explained),
        both_scales(explanations, _scores),
        _runner_up(explanations),
        _every_output(explanations, others),
        _differences(explanations, figures.leader(explanations)),
        facts(explanations),
    ]
    return "".join(parts)


def _every_output(explanations: Explanations, others: Sequence[Explanations]) -> str:
    """Return the maps of all outputs on one scale, if there are several."""
    # Tables of every class would repeat the page; a map for each is what a reader compares.
    if not others or explanations.evidence.units.coords is None:
        return ""
    several = [explanations, *others]
    text = "All outputs share one color scale. Orange supports the output in the title."
    return section("Every class", text, _panels(several), "h2")


def bag_notebook(explanations: Explanations) -> str:
    """Return the cell of a bag: what its instances add up to, and its map or its strongest
    instances.
    """
    e = figures.leader(explanations)
    parts = [
        _thumbnail_once(explanations),
        note(explanations.explained),
        _sum(explanations),
    ]
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


def _runner_up(explanations: Explanations) -> str:
    """Return the predicted one of three or more classes against its runner-up: how the instances
    add up, their map, and the strongest ones.
    """
    pair = runner_up_of(explanations)
    if pair is None:
        return ""
    best, second = pair
    subject = against_runner_up(explanations)
    e = figures.leader(subject)
    parts = [f"<p>{prose(maps.bag_sentence(subject))}</p>"]
    if subject.evidence.units.coords is not None:
        parts.append(_maps(subject, e))
    parts.append(_strongest(subject, e))
    title = f"{best} against the runner-up {second}"
    return section(title, _explained_sentence(subject), "".join(parts), "h2")


def _explained_sentence(explanations: Explanations) -> str:
    """Return what is explained, and how accurate its values are."""
    e = figures.leader(explanations)
    sentences = [explanations.explained, figures.sampling(e)]
    if e.error is not None:
        sentences.append("Exact Shapley values.")
    return " ".join(sentence for sentence in sentences if sentence)


def _sum(explanations: Explanations) -> str:
    """Say what the instances add up to, and what was assumed about the model."""
    doubts = explanations.evidence.model.doubts
    sentences = note(figures.sampling(figures.leader(explanations)))
    sentences += note(doubts, strong=True) + note(figures.saturation(explanations), strong=True)
    return f"<p>{prose(maps.bag_sentence(explanations))}</p>{sentences}"


def _removal(explanations: Explanations) -> str:
    """Return the deletion curves, the certified minimum, their shares of the best possible, and the
    smallest flip.
    """
    # Bounds over all orders need a pooled game; a network with a tail is only evaluated.
    if not explanations.evidence.is_pooled:
        return checked_removal(explanations)
    # The logit of one among several classes has no zero, unlike its difference to the runner-up.
    subject = against_runner_up(explanations)
    evidence = subject.evidence
    curves = removal_curves(subject)
    # Four curves can be told apart; the table below has all.
    chosen = [method for method in DRAWN if method in curves] or list(curves)[: len(DRAWN)]
    scale = evidence.target.pooled.scale
    heads = evidence.pooled.H
    rows = []
    for method, each in curves.items():
        deletion = share_of_best(each.deletion_share, heads)
        insertion = share_of_best(each.insertion_share, heads)
        rows.append((METHODS[method].label, [deletion, insertion]))
    things = evidence.target.players
    empty = scale.level(float(scale.of(evidence.absent_logit)))
    text = (
        f"The prediction as {things} are removed, highest score first. No order can enter the "
        f"shaded area, which is certified for every number of removed {things}. Shapley values "
        "divide a prediction fairly; the flip order ranks what to remove first. The curves end at "
        f"the prediction for the empty bag ({empty})."
    )
    flip = prose(explanations.reasons().sentences()[-1], LONGEST_SENTENCE)
    what = scale.of_output(evidence.target.output).removeprefix("the ")
    axes = (f"{things} removed", what)
    drawn = _deletion({METHODS[method].label: curves[method] for method in chosen}, scale, axes)
    table = table_of(["share of the best possible", "deletion", "insertion"], rows)
    shares = details("Every order of removal, as a share of the best possible one", table)
    return section("Removing instances", text, f"<p>{flip}</p>{drawn}{shares}", "h2")


def checked_removal(explanations: Explanations) -> str:
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
    return section("Removing instances", text, bullets(sentences), "h2")


def _deletion(
    curves: Mapping[str, RemovalCurves], scale: ExplainedScale, axes: tuple[str, str]
) -> str:
    """Draw deletion curves by number of removed instances, above the certified minimum; `axes` are
    the titles of both.
    """
    # The color and the dashes of each curve, in the order of `removals.DRAWN`. Orange and blue are
    # not among them, because they mean for and against.
    looks = (
        ("currentColor", ""),
        ("#00856b", "7 4"),
        ("#a8568a", "9 3 2 3"),
        (css(UNSIGNED), "2 3"),
    )
    first = next(iter(curves.values()))
    left = 76
    top = 26
    wide = 396
    high = 200
    limit = first.bounds.proved_min
    d = first.players
    # All curves and the bound share the axis, so that a curve can be seen to touch the bound.
    values = np.concatenate([limit, *(each.deletion for each in curves.values())])
    low = float(values.min())
    # All values may be equal, and an axis needs a length.
    span = float(np.ptp(values)) or 1.0

    def points(heights: Array) -> str:
        x = left + wide * first.absent / d
        # SVG counts from the top, and a larger prediction belongs higher.
        y = top + high * (1 - (heights - low) / span)
        return "L".join(f"{at:.1f} {up:.1f}" for at, up in zip(x, y, strict=True))

    bottom = top + high
    across, upwards = axes
    body = [
        f'<path fill="currentColor" fill-opacity=".12" d="M{left} '
        f'{bottom}L{points(limit)}V{bottom}z"/>',
        f'<path class="a" d="M{left} {top}v{high}h{wide}"/>',
        svg_text(4, 12, escape(upwards, 60)),
        svg_text(left + wide / 2, bottom + 15, escape(across), "middle"),
        *(
            svg_text(
                left - 5, top + 4 + high * (1 - share), prose(scale.level(value, "+.3g")), "end"
            )
            for share, value in ((0, round(low, 4)), (1, round(low + span, 4)))
        ),
        svg_text(left, bottom + 15, "0"),
        svg_text(left + wide, bottom + 15, f"{d:,}", "end"),
    ]
    styles = zip(curves.items(), looks, strict=False)
    for i, ((title, each), (color, dashes)) in enumerate(styles):
        stroke = (
            f'fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}" '
            'stroke-linejoin="round"'
        )
        body.append(f'<path {stroke} d="M{points(each.deletion)}"/>')
        row, column = divmod(i, 2)  # position in the legend, below the curves
        at = left + 200 * column
        line = bottom + 42 + 20 * row
        body += [
            f'<path {stroke} d="M{at} {line - 4}h30"/>',
            svg_text(at + 37, line, escape(title, 22)),
        ]
    # The legend has two titles in each row, below the curves.
    return svg(
        480,
        bottom + 30 + 20 * -(-len(curves) // 2),
        body,
        label="The prediction as instances are removed",
    )


def _maps(explanations: Explanations, e: Explanation) -> str:
    """Return the section with the map of the slide."""
    text = "Tiles in their places on the slide, not smoothed. "
    if e.info.kind == "signed":
        text += f"Orange supports {output_name(e.output)}, blue opposes it, and gray does neither. "
    text += "Attention has no sign and no class. The colors end at the 99.5th percentile."
    if len(maps.flip_tiles(explanations)):
        text += f" {maps.maps_note(explanations)}"
    return section("Map", text, _panels([explanations]), "h2")


def _panels(several: Sequence[Explanations]) -> str:
    """Return the maps of outputs and of the attention with their scales of colors."""
    panels = []
    faint = f"rgba{(*maps.FAINT, maps.FAINTEST)}".replace(" ", "")
    for figure in maps.heat_maps(several):
        # A map lies on a light or a dark page, so its zero is a faint gray (`HeatMap.over_page`).
        ramp = ",".join(
            faint if color == maps.ZERO else css(color) for color in maps.shades(figure.signed)
        )
        end = figure.scale.end(figure.end)
        if figure.signed:
            ends = (f"−{end}", "0", f"+{end}")
        else:
            ends = ("0", "", f"{figure.end:.1%} of the attention")
        marks = "".join(f"<span>{prose(text)}</span>" for text in ends)
        panels.append(
            f"<figure><figcaption>{prose(figure.title)}</figcaption>"
            f"{_picture(figure, several[0])}"
            f'<div class="scale"><b style="background:linear-gradient(90deg,{ramp})"></b>'
            f"{marks}</div></figure>"
        )
    kind = "maps over" if _thumbnail_of(several[0]) is not None else "maps"
    return f'<div class="{kind}">{"".join(panels)}</div>'


def _picture(figure: maps.HeatMap, explanations: Explanations) -> str:
    """Return a map with its frames, drawn over the thumbnail of the slide if there is one."""
    label = f"{escape(figure.title)}, one cell per tile"
    source = _data(maps.png(figure.over_page()))
    left, top, right, bottom = figure.raster.box
    place = (
        f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" '
        'preserveAspectRatio="none"'
    )
    under = ""
    opacity = ""
    if _thumbnail_of(explanations) is not None:
        under = f'<use href="#{SLIDE}"/>'
        opacity = f' opacity="{maps.OVER_THUMBNAIL}"'
    frames = "".join(
        f"M{x0:g} {y0:g}H{x1:g}V{y1:g}H{x0:g}z" for x0, y0, x1, y1 in figure.outlines.tolist()
    )
    if frames:
        frames = f'<path class=frame d="{frames}"/>'
    return (
        f'<svg class=map viewBox="{left:g} {top:g} {right - left:g} {bottom - top:g}" role="img" '
        f'aria-label="{label}">{under}<image href="{source}" {place}{opacity}/>{frames}</svg>'
    )


def _thumbnail_of(explanations: Explanations) -> Any:
    """Return the path of the thumbnail of the slide, or None."""
    if explanations.evidence.units.coords is None:
        return None
    return explanations.evidence.units.attrs.get("thumbnail")


def _thumbnail_once(explanations: Explanations) -> str:
    """Return the thumbnail of the slide in an invisible picture, from which maps and tables take
    it, so that the page has it once.
    """
    thumbnail = _thumbnail_of(explanations)
    if thumbnail is None:
        return ""
    wide, high = maps.slide_size(explanations)
    source = _data(regular_file(thumbnail).read_bytes())
    return (
        f'<svg class=hidden aria-hidden="true"><defs><image id="{SLIDE}" href="{source}" '
        f'width="{wide:g}" height="{high:g}" preserveAspectRatio="none"/></defs></svg>'
    )


def _tiles(explanations: Explanations, players: Ids) -> list[str] | None:
    """Return a crop of the thumbnail for each player that is a tile, or None without a
    thumbnail.
    """
    evidence = explanations.evidence
    # A region has no single tile that could be shown for it.
    if _thumbnail_of(explanations) is None or evidence.d != len(evidence.units.labels):
        return None
    where = maps.place(explanations)
    side = where.patch_size
    return [
        f'<svg class=tile viewBox="{x:g} {y:g} {side:g} {side:g}" aria-hidden="true"><use '
        f'href="#{SLIDE}"/></svg>'
        for x, y in where.coords[players].tolist()
    ]


def _data(image: bytes) -> str:
    """Embed a picture in the page, or raise an error for a file that is neither PNG nor JPEG."""
    # The first bytes decide, because a file can have any name.
    kind = {b"\x89PNG": "png", b"\xff\xd8\xff\xe0": "jpeg", b"\xff\xd8\xff\xe1": "jpeg"}.get(
        image[:4]
    )
    if kind is None:
        raise ValueError("thumbnail: expected a PNG or JPEG file, which a report can embed")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _strongest(explanations: Explanations, e: Explanation) -> str:
    """Return the section with the strongest instances on both sides."""
    text = f"Up to {TOP} on each side, with their shares of the attention."
    tables = ""
    for side, players in zip(("Support", "Oppose"), maps.strongest(e.scores, TOP), strict=True):
        table = table_of(
            *maps.player_table(explanations, players, e.method), _tiles(explanations, players)
        )
        tables += f"<section><h3>{escape(f'{side} {output_name(e.output)}')}</h3>{table}</section>"
    return section("The strongest instances", text, f'<div class="two">{tables}</div>', "h2")


def _differences(explanations: Explanations, e: Explanation) -> str:
    """Return the section about instances whose attention and score disagree."""
    gap = maps.disagreement(explanations)
    weight = maps.player_attention(explanations)
    if gap is None or weight is None or e.info.kind != "signed":
        return ""
    # What a reader of an attention map would look at first.
    attended = np.argsort(-weight, kind="stable")[:TOP]
    against = int((e.scores[attended] < 0).sum())
    # A correlation is NaN if one of the two is constant.
    scores, sizes = (
        "–" if np.isnan(r) else f"{r:+.2f}" for r in (gap.correlation, gap.magnitude_correlation)
    )
    facts = [
        f"{percent(gap.attention_against)} of the attention is on instances that oppose "
        f"{output_name(e.output)}.",
        f"Rank correlation of attention with the scores: {scores}; with their magnitudes: {sizes}.",
        f"Of the {len(attended)} with the most attention, {against} "
        f"oppose{'s' if against == 1 else ''} {output_name(e.output)}:",
    ]
    text = (
        f"Attention shows how much an instance counts, not which class it supports. {e.info.label} "
        "values show both."
    )
    table = table_of(
        *maps.player_table(explanations, attended, e.method), _tiles(explanations, attended)
    )
    body = bullets(facts) + table
    return section("What attention does not show", text, body, "h2")
