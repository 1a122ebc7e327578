"""The report of a bag as one HTML page: the signed map beside attention, the strongest instances, where they differ.

Self-contained and escaped like `report.py`, whose page it fills; pictures are PNG files inside the page, made by
`tiles.py`, so that the report needs no matplotlib. `bag_section` makes the part that is about the bag alone.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanation, Explanations
from ..explanations.ranks import spearman
from .bag_scores import (
    Place,
    attention,
    bag_name,
    disagreement,
    leading,
    place,
    player_attention,
    player_places,
    strongest,
    tile_scores,
)
from .palette import AGAINST, FOR, UNSIGNED
from .report_assets import bag_css, page_css
from .sanitize import escape
from .tiles import ZERO, picture, png, rasterise, scale_end

TOP = 10
MOST_CLASSES = 8


def bag_report(found: Explanations, method: str | None = None, top: int = TOP) -> str:
    """One HTML page about one bag.

    Parameters
    ----------
    found : what `explain` returned for a bag
    method : whose scores the map and the tables show; default Shapley values, else the first method with a sign
    top : how many of the strongest instances to list on each side

    Returns
    -------
    The page; write it to a file as UTF-8
    """
    facts = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in _facts(found, method).items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(bag_name(found), 80)}: explanation report</title>"
        f"<style>{page_css()}\n{bag_css()}</style></head>"
        f'<body><h1>{escape(bag_name(found), 80)}</h1><p class="verdict">{escape(_verdict(found, method))}</p>'
        f'<dl class="facts">{facts}</dl>'
        f"{bag_section(found, method, top)}{_methods(found)}</body></html>\n"
    )


def bag_fragment(found: Explanations) -> str:
    """The maps of a bag alone, or its strongest instances if it has no coordinates: what a notebook shows."""
    leader = leading(found)
    body = _strongest(found, leader, TOP) if found.evidence.units.coords is None else _maps(found, leader)
    title = f"{found.output} {found.prediction:+.4f}, {found.evidence.absent_value:+.4f} for the empty bag"
    return f'<style>{bag_css()}</style><div class="acf"><p>{escape(title)}</p>{body}</div>'


def bag_section(found: Explanations, method: str | None = None, top: int = TOP) -> str:
    """The maps, the strongest instances and how attention differs from the scores, as a fragment of HTML."""
    leader = leading(found, method)
    parts = []
    if found.evidence.units.coords is not None:
        parts.append(_maps(found, leader))
    parts.append(_strongest(found, leader, top))
    parts.append(_differences(found, leader, top))
    if len(found) > 1:
        parts.append(_agreement(found, leader))
    return "".join(parts)


def _verdict(found: Explanations, method: str | None) -> str:
    """How the prediction comes about, in one sentence."""
    leader, base = leading(found, method), found.evidence.absent_value
    what = f"{found.output} gets {found.prediction:+.4f}"
    if leader.method != "shapley":
        return f"{what}, and {base:+.4f} for the empty bag."
    up, down = leader.scores[leader.scores > 0], leader.scores[leader.scores < 0]
    who = found.evidence.settings.players
    return (
        f"{what}: {base:+.4f} for the empty bag, {up.sum():+.4f} from the {up.size:,} {who} that speak for it and "
        f"{down.sum():+.4f} from the {down.size:,} that speak against it."
    )


def _facts(found: Explanations, method: str | None) -> dict[str, str]:
    evidence, leader = found.evidence, leading(found, method)
    facts = {f"explained: {found.output}": f"{found.prediction:+.4f}"}
    if evidence.probabilities:
        chances = sorted(evidence.probabilities.items(), key=lambda item: -item[1])[:MOST_CLASSES]
        facts |= {f"probability of {name}": f"{chance:.1%}" for name, chance in chances}
    facts |= {
        "for the empty bag": f"{evidence.absent_value:+.4f}",
        "instances": f"{len(evidence.units.labels):,}",
        "guaranteed error": "–" if leader.error is None else f"≤ {leader.error:.1e}",
    }
    if evidence.game.d != len(evidence.units.labels):
        facts["players"] = f"{evidence.game.d:,} {evidence.settings.players}"
    return facts


def _section(title: str, note: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{body}</section>'


def _maps(found: Explanations, leader: Explanation) -> str:
    where, weight = place(found), attention(found)
    signed = leader.info.kind == "signed"
    figures = [_map(where, tile_scores(leader), signed, f"{leader.info.label} for {found.output}")]
    if weight is not None:
        figures.append(_map(where, weight, False, "Attention"))
    note = "Tiles as they lie on the slide, nothing smoothed. "
    if signed:
        note += f"Orange speaks for {found.output}, blue against it, grey says nothing; "
    note += "attention has neither sign nor class. The colours end at the 99.5th percentile."
    return _section("Map", note, f'<div class="maps">{"".join(figures)}</div>')


def _map(where: Place, scores: Array, signed: bool, name: str) -> str:
    end = scale_end(scores)
    image = base64.b64encode(png(picture(rasterise(where.coords, scores, where.patch_size), end, signed))).decode()
    shades = (AGAINST, ZERO, FOR) if signed else (ZERO, UNSIGNED)
    gradient = ",".join(f"rgb{shade}".replace(" ", "") for shade in shades)
    low, middle = (f"{-end:.2g}".replace("-", "−"), "0") if signed else ("0", "")
    bar = f'<b style="background:linear-gradient(90deg,{gradient})"></b>'
    return (
        f'<figure><figcaption>{escape(name)}</figcaption><img alt="{escape(name)}, one cell per tile" '
        f'src="data:image/png;base64,{image}"><div class="scale">{bar}'
        f"<span>{low}</span><span>{middle}</span><span>{end:.2g}</span></div></figure>"
    )


def _strongest(found: Explanations, leader: Explanation, top: int) -> str:
    best, worst = strongest(leader.scores, top)
    note = f"At most {top} on each side, with the share of the attention that each gets."
    tables = "".join(
        f'<section><h3>{escape(title)}</h3><div class="scroll">{_table(found, leader, players)}</div></section>'
        for title, players in ((f"For {found.output}", best), (f"Against {found.output}", worst))
    )
    return _section("The strongest instances", note, f'<div class="two">{tables}</div>')


def _table(found: Explanations, leader: Explanation, players: Iterable[int]) -> str:
    weight, (_, corners) = player_attention(found), player_places(found)
    head = ["", leader.info.label]
    if corners is not None:
        head[1:1] = ["x", "y"]
    if weight is not None:
        head.append("attention")
    rows = []
    for j in players:
        cells = [] if corners is None else [f"{corners[j, 0]:.0f}", f"{corners[j, 1]:.0f}"]
        cells.append(f"{leader.scores[j]:+#.3g}")
        if weight is not None:
            cells.append(f"{weight[j]:.2%}")
        row = "".join(f"<td>{cell}</td>" for cell in cells).replace("-", "−")
        rows.append(f"<tr><th scope=row>{escape(leader.labels[j], 24)}</th>{row}</tr>")
    if not rows:
        return "<p>None.</p>"
    names = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    return f'<table class="n"><thead><tr>{names}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _differences(found: Explanations, leader: Explanation, top: int) -> str:
    gap, weight = disagreement(found, leader.method), player_attention(found)
    if gap is None or weight is None or leader.info.kind != "signed":
        return ""
    facts = {
        f"attention that falls on what speaks against {found.output}": f"{gap.attention_against:.1%}",
        "rank correlation of attention and scores": _correlation(gap.correlation),
        "rank correlation of attention and magnitudes": _correlation(gap.magnitude_correlation),
    }
    listed = "".join(f"<div><dt>{escape(k)}</dt><dd>{v}</dd></div>" for k, v in facts.items())
    looked_at = np.argsort(-weight, kind="stable")[:top]
    against = int((leader.scores[looked_at] < 0).sum())
    told = (
        f"Of the {len(looked_at)} most attended, {against} speak{'s' if against == 1 else ''} against {found.output}:"
    )
    return _section(
        "What attention does not tell",
        f"Attention says how much an instance counts, not for what. {leader.info.label} scores have sign and class.",
        f'<dl class="facts">{listed}</dl><p>{escape(told)}</p>'
        f'<div class="scroll">{_table(found, leader, looked_at)}</div>',
    )


def _agreement(found: Explanations, leader: Explanation) -> str:
    rows = [
        f"<tr><th scope=row>{escape(e.info.label)}</th><td>{_correlation(spearman(e.scores, leader.scores))}</td></tr>"
        for e in found.values()
        if e is not leader
    ]
    note = f"Spearman's rank correlation of each method's scores with those of {leader.info.label}."
    return _section("Other methods", note, f'<table class="n"><tbody>{"".join(rows)}</tbody></table>')


def _correlation(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.2f}".replace("-", "−")


def _methods(found: Explanations) -> str:
    rows: Sequence[Explanation] = list(found.values())
    items = "".join(
        f"<li><b>{escape(e.info.label)}</b> ({escape(e.info.accuracy)}): {escape(e.info.summary)}</li>" for e in rows
    )
    note = "An absent instance is deleted from the bag. The value of the empty bag is the bias of the last layer."
    return f"<details><summary>The methods</summary><p>{note}</p><ul>{items}</ul></details>"
