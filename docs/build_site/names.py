"""Every public name in prose links to its entry in the reference, and every entry lists the pages that use the name.

`` `shapley` `` and `` `shapley(game, tol=1e-8)` `` become links. Code blocks, headings and the text of other links stay as
they are. A page of the reference links only to names of other pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import Files
from reference import public_objects

CODE_BLOCK = re.compile(r"(^ *```.*?^ *```|^#+ .*?$)", re.MULTILINE | re.DOTALL)
#: A link as a whole, so that its text is not looked at, or a name in backticks, perhaps with arguments.
LINK_OR_NAME = re.compile(
    r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\](?:\([^)\s]+\)|\[[^\]]*\]))|`([A-Za-z_]\w*)(\([^`]*\))?`"
)
TITLE = re.compile(r"^# +(.+?) *$", re.MULTILINE)
ENTRY = re.compile(
    r"^::: (attn_closed_form\.\S+)$(?:\n {4,}.*$)*", re.MULTILINE
)
#: Pages that name everything, or old names, are not worth a link back.
NOT_LISTED = ("reference/", "project/", "papers/", "theory/notation.md")
MOST_PAGES = 8

_entries: dict[str, str] = {}
_used_in: dict[str, list[tuple[str, str]]] = {}


def on_files(files: Files, **others: Any) -> Files:
    """Collect the entries of the reference, and the pages that use each of them."""
    _entries.clear()
    _used_in.clear()
    for name, thing in public_objects().items():
        module = getattr(thing, "__module__", None)
        if module is not None and module.startswith("attn_closed_form"):
            _entries[name] = f"{module}.{name}"
    for file in files.documentation_pages():
        if file.src_uri.startswith(NOT_LISTED):
            continue
        text = file.content_string
        title = TITLE.search(text)
        heading = title[1] if title else Path(file.src_uri).stem
        for name in sorted(_names_on(text)):
            _used_in.setdefault(name, []).append((heading, file.src_uri))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Link the names of a page; below every entry of the reference, list the pages that use it."""
    here = page.file.src_uri
    if here.startswith("reference/"):
        return ENTRY.sub(
            lambda match: match[0] + _pages_that_use(match[1], here), markdown
        )
    if here.startswith("project/changelog"):
        return markdown  # old names must not lead to what is called so today
    parts = CODE_BLOCK.split(markdown)
    for i in range(
        0, len(parts), 2
    ):  # the text between code blocks and headings
        parts[i] = LINK_OR_NAME.sub(_linked, parts[i])
    return "".join(parts)


def _linked(match: re.Match[str]) -> str:
    name = match[2]
    if match[1] or name not in _entries:
        return match[0]
    return f"[{match[0]}][{_entries[name]}]"


def _names_on(text: str) -> set[str]:
    """The public names that a page uses, in prose or in code."""
    return {
        word for word in re.findall(r"[A-Za-z_]\w+", text) if word in _entries
    }


def _pages_that_use(entry: str, here: str) -> str:
    name = entry.rpartition(".")[2]
    pages = _used_in.get(name, [])[:MOST_PAGES]
    if not pages:
        return ""
    folder = os.path.dirname(here)
    links = ", ".join(
        f"[{title}]({os.path.relpath(uri, folder).replace(os.sep, '/')})"
        for title, uri in pages
    )
    return f'\n\n<p class="used-in" markdown="span">Used in: {links}</p>\n'
