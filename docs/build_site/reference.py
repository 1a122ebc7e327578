"""Reference pages list every public name: `[names: attn_closed_form.lime]` becomes one entry per name made there.

A name that is added to the library appears on the page of its family by itself. `[commands]` becomes what
`attn-closed-form COMMAND --help` prints, for every command.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from typing import Any

NAMES = re.compile(r"^\[names: ([\w., ]+)\]$", re.MULTILINE)


def on_page_markdown(markdown: str, **others: Any) -> str:
    """Called by MkDocs with the source of every page."""
    if "\n[commands]\n" in markdown:
        markdown = markdown.replace("\n[commands]\n", f"\n{commands()}\n")
    return NAMES.sub(lambda match: "\n".join(f"::: {name}\n" for name in public(match[1])), markdown)


def public(modules: str, package: str = "attn_closed_form") -> list[str]:
    """Public names of the package that were made in one of the modules, classes first."""
    library = importlib.import_module(package)
    wanted = [name.strip() for name in modules.split(",")]
    found = [
        name
        for name in library.__all__
        if f"{getattr(getattr(library, name), '__module__', '')}.".startswith(tuple(f"{prefix}." for prefix in wanted))
    ]
    if not found:
        raise ValueError(f"expected modules with public names, got {modules!r}")
    found.sort(key=lambda name: (not name[0].isupper(), name.endswith(("Error", "Warning")), name))
    # Griffe finds a name where it is made; the heading shows the name alone.
    return [f"{getattr(library, name).__module__}.{name}" for name in found]


def commands() -> str:
    """The help of every command, as sections of a page."""
    from attn_closed_form.cli import COMMANDS
    from attn_closed_form.cli.main import main

    os.environ["COLUMNS"] = "100"
    sections = []
    for name in COMMANDS:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([name, "--help"])
        sections.append(f"## {name}\n\n```text\n{said.getvalue().strip()}\n```\n")
    return "\n".join(sections)
