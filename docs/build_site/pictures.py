"""Pictures that fit the dark, and the cards of the gallery.

A picture whose name ends in `-light.png` is shown in the light, and the one that ends in `-dark.png`
in the dark. A page with the line `<!-- cards -->` gets one card there for each of its headings with
a picture: a thumbnail that leads to the heading.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import Files

LIGHT = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)-light\.png\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
CARDS = "<!-- cards -->"
#: A heading with the text below it, to the next heading.
PART = re.compile(r"^#{2,3} (.+)\n((?:(?!^#).*\n?)*)", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```\n?", re.MULTILINE | re.DOTALL)


def on_page_markdown(
    markdown: str, page: Any, files: Files, **others: Any
) -> str:
    """Add cards, and the dark version of every picture that has one."""
    if CARDS in markdown:
        made = cards(markdown)
        if not made:
            raise ValueError(
                f"{page.file.src_uri}: expected headings with pictures"
            )
        markdown = markdown.replace(CARDS, made)
    return LIGHT.sub(_both, markdown)


def _both(match: re.Match[str]) -> str:
    """A picture for the light and one for the dark. On a card they are links already; elsewhere
    they lead to the whole picture, because long ones are cut.
    """
    alt, path = match.groups()
    versions = [
        f"![{alt}]({path}-{scheme}.png#only-{scheme})"
        for scheme in ("light", "dark")
    ]
    if not alt:
        return "".join(versions)
    return "".join(
        f"[{version}]({path}-{scheme}.png){{ .whole .only-{scheme} }}"
        for version, scheme in zip(versions, ("light", "dark"), strict=True)
    )


def cards(markdown: str) -> str:
    """One card for every heading with a picture."""
    made = []
    for title, body in PART.findall(FENCED.sub("", markdown)):
        if picture := PICTURE.search(body):
            anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
            made.append(f"[![]({picture[1]})**{title}**](#{anchor}){{ .card }}")
    if not made:
        return ""
    return "\n".join(['<div class="cards" markdown>', *made, "</div>"])
