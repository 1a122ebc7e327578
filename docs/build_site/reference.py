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


#: Packages whose `__all__` is the public interface.
ROOMS = ("", ".game", ".lime", ".reasons", ".slalom", ".models.classifier")


def public_objects() -> dict[str, Any]:
    """Every public name of the library and its rooms, with what it names."""
    rooms = [importlib.import_module(f"attn_closed_form{room}") for room in ROOMS]
    return {name: getattr(room, name) for room in rooms for name in room.__all__}


def public(modules: str) -> list[str]:
    """Public names that were made in one of the modules, classes first."""
    prefixes = tuple(f"{name.strip()}." for name in modules.split(","))
    objects = public_objects()
    names = [name for name, thing in objects.items() if f"{getattr(thing, '__module__', '')}.".startswith(prefixes)]
    if not names:
        raise ValueError(f"expected modules with public names, got {modules!r}")
    names.sort(key=lambda name: (not name[0].isupper(), name.endswith(("Error", "Warning")), name))
    # Griffe finds a name where it is made; the heading shows the name alone.
    return [f"{objects[name].__module__}.{name}" for name in names]


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
        if not said.getvalue().strip():
            raise ValueError(f"expected the help of the command {name!r}, got nothing")
        sections.append(f"## {name}\n\n```text\n{said.getvalue().strip()}\n```\n")
    return "\n".join(sections)
