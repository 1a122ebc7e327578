"""The parts that every page is made of: the stylesheet, the frame of a page, tables, bars and
pictures.

A page needs no font, file, library or network. Style and script are files in `static/`. Colors are
laid over the page with opacity, so the same rules work on light and dark pages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from ..explanations.explanation import Explanation
from ..files.atomic import replacing
from .bars import Bar
from .figures import AGAINST, FOR, UNSIGNED
from .sanitize import escape, prose
from .waterfall import Waterfall, waterfall

# Tuning: a longer sentence is shortened in the middle, so that no text can bloat the page.
LONGEST_SENTENCE = 800
# Tuning: the same for the label of a bar.
LONGEST_LABEL = 40


def css(color: tuple[int, int, int]) -> str:
    """Return a color in CSS notation."""
    return f"rgb{color}".replace(" ", "")


@cache
def static(name: str) -> str:
    """Return a file of `static/`."""
    return (files(__package__) / "static" / name).read_text(encoding="utf-8").strip()


@cache
def stylesheet() -> str:
    """Return the stylesheet of reports, page and notebook cells: the palette, then the rules."""
    # Figures of matplotlib take the same colors from Python, so the stylesheet gets them from
    # there.
    palette = {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}
    variables = ";".join(f"--{name}:{css(color)}" for name, color in palette.items())
    # The comment at the top of the file is for its readers and not for the page.
    return f".acf{{{variables}}}\n{static('look.css').partition('*/')[2].strip()}"


def script() -> str:
    """Return the script of a page without its comments, and the line below the page in which it
    shows the numbers of a word.
    """
    lines = static("report.js").splitlines()
    code = "\n".join(line.strip() for line in lines if not line.startswith("//"))
    return f'<div id="tip" aria-live="polite"></div><script>{code}</script>'


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page as UTF-8, atomically."""
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def page_of(title: str, body: str, style: str = "") -> str:
    """Wrap escaped HTML in a complete page with the stylesheet, and with the rules in `style`."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title, 100)}</title><style>{stylesheet()}{style}</style></head>"
        f'<body class="acf"><main>{body}</main></body></html>\n'
    )


def details(title: str, body: str, kind: str = "", name: str = "") -> str:
    """Return a part of a page that is folded; `kind` is a class of the stylesheet, and links lead
    to its `name`.
    """
    attribute = f' class="{kind}"' if kind else ""
    if name:
        attribute += f' id="{name}"'
    return f"<details{attribute}><summary>{escape(title)}</summary>{body}</details>"


def section(title: str, text: str, body: str, heading: str = "h3") -> str:
    """Return a part of a page with a title and a note."""
    return f"<section><{heading}>{escape(title)}</{heading}>{note(text)}{body}</section>"


def note(text: str, strong: bool = False) -> str:
    """Return a paragraph in small type; nothing for ""."""
    if not text:
        return ""
    shown = prose(text, LONGEST_SENTENCE)
    if strong:
        shown = f"<b>{shown}</b>"
    return f'<p class="note">{shown}</p>'


def bullets(items: Iterable[str]) -> str:
    """Return a list of sentences."""
    rows = "".join(f"<li>{_with_chips(prose(item, LONGEST_SENTENCE))}</li>" for item in items)
    return f"<ul>{rows}</ul>"


def _with_chips(escaped: str) -> str:
    """Mark quoted names, which the script finds in the text."""
    return re.sub("“([^“”]*)”", r"<b class=chip>\1</b>", escaped)


def table_of(
    head: Sequence[str],
    rows: Iterable[tuple[str, Iterable[str]]],
    pictures: Sequence[str] | None = None,
) -> str:
    """Return a table of numbers whose first column names the rows, or "None." if there are no
    rows. A picture, which is HTML, can be next to each name.
    """
    # Tuning: the same for the name of a row in a table.
    longest_row_name = 24
    names_of_columns = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = ""
    for number, (name, cells) in enumerate(rows):
        picture = "" if pictures is None else pictures[number]
        body += f"<tr><th scope=row>{picture}{escape(name, longest_row_name)}</th>"
        body += "".join(f"<td>{prose(cell)}</td>" for cell in cells) + "</tr>"
    # A table of headings alone would look broken.
    if not body:
        return "<p>None.</p>"
    return (
        '<div class="scroll" tabindex=0><table class="n">'
        f"<thead><tr>{names_of_columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts_paragraph(facts: Sequence[str], link: str = "") -> str:
    """Return a line of facts, which breaks only between them, and a link at its end."""
    shown = [f"<span>{prose(fact)}</span>" for fact in facts]
    if link:
        shown.append(f"<span>{link}</span>")
    return f'<p class="note facts">{" · ".join(shown)}</p>'


def bars_of(bars: Sequence[Bar], axis: str = "", unit: str = "") -> str:
    """Return bars with their labels and numbers, one row each, and an axis below them.

    A `unit` at the end of the numbers is left out, because the axis has it.
    """
    rows = []
    for bar in bars:
        end = ""
        if bar.kind == "end":
            end = " end"
        # The track is one line for all rows, so the bars of a waterfall hang below each other.
        drawn = track_of(bar.kind, bar.left, bar.right)
        if bar.error:
            # One standard error to each side of the tip, as far as the track goes.
            tip = bar.left
            if bar.kind == "for":
                tip = bar.right
            drawn += track_of("error", max(tip - bar.error, 0.0), min(tip + bar.error, 1.0))
        rows.append(
            f'<span class="label{end}" dir=auto>{escape(bar.label, LONGEST_LABEL)}</span>'
            f'<span class="number{end}">{prose(bar.text.removesuffix(unit))}</span>'
            f"<div class=track>{drawn}</div>"
        )
        # Below its bar, over all columns, because a remark is longer than a label.
        if bar.note:
            rows.append(f"<span class=remark>{prose(bar.note)}</span>")
    return f'<div class="bars" style="--zero:{100 * bars[0].left:.1f}%">{"".join(rows)}{axis}</div>'


def waterfall_of(e: Explanation) -> str:
    """Return how the scores add up, above an axis."""
    return drawn_waterfall(waterfall(e))


def drawn_waterfall(steps: Waterfall) -> str:
    """Return the steps of a waterfall above their axis."""
    ticks = "".join(
        f'<span style="left:{100 * at:.1f}%">{prose(text)}</span>' for at, text in steps.ticks
    )
    axis = (
        f"<span></span><span class=unit>{escape(steps.unit)}</span>"
        f'<div class="track axis">{ticks}</div>'
    )
    return bars_of(steps.bars, axis, f" {steps.unit}")


def track_of(kind: str, left: float, right: float) -> str:
    """Return one bar of a track."""
    return f'<b class={kind} style="left:{100 * left:.1f}%;width:{100 * (right - left):.1f}%"></b>'


def svg(width: float, height: float, body: Iterable[str], label: str) -> str:
    """Return a picture that a screen reader describes by its label."""
    size = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def svg_text(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Return a text in a picture."""
    where = ""
    if anchor != "start":
        where = f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}>{text}</text>'
