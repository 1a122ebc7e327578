"""Formulas become MathML when the site is built: no script and no network is needed to read them.

`pymdownx.arithmatex` finds `$...$` and `$$...$$`, latex2mathml translates them. A formula that it
does not understand ends the build.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)
UNDER_OVER = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}


def on_page_content(content: str, page: Any, **others: Any) -> str:
    """Called by MkDocs with the HTML of every page."""
    return FORMULA.sub(
        lambda match: mathml(
            html.unescape(match[3]), match[2] == "[", page.file.src_uri
        ),
        content,
    )


def mathml(latex: str, display: bool, source: str) -> str:
    """One formula; in a display, limits of sums and products stand below and above."""
    from latex2mathml.converter import convert

    made = convert(latex.strip(), display="block" if display else "inline")
    if r"\begin" in made or ">\\" in made or "<mi>&</mi>" in made:
        raise ValueError(
            f"{source}: expected a formula that latex2mathml knows, got {latex!r}"
        )
    if not display:
        return made
    return f'<div class="formula">{with_limits(made)}</div>'


def with_limits(made: str) -> str:
    """Put the limits of sums and products below and above the sign."""
    from xml.etree import ElementTree

    space = "{http://www.w3.org/1998/Math/MathML}"
    ElementTree.register_namespace("", "http://www.w3.org/1998/Math/MathML")
    tree = ElementTree.fromstring(made)
    for element in tree.iter():
        name = element.tag.removeprefix(space)
        if (
            name in UNDER_OVER
            and len(element)
            and element[0].text in ("\u2211", "\u220f")
        ):
            element.tag = space + UNDER_OVER[name]
    return ElementTree.tostring(tree, encoding="unicode")
