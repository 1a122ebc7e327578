"""Reference pages list every public name: `[names: attn_closed_form.lime]` becomes one entry per
name defined there.

A name that is added to the library appears on the page of its family automatically. `[commands]`
becomes the output of `attn-closed-form COMMAND --help`, for every command. An entry or a command
without content ends the build.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from typing import Any

SUBCOMMANDS = ("corpus run", "corpus summary")
NAMES = re.compile(r"^\[names: ([\w., ]+)\]$", re.MULTILINE)


def on_config(config: Any, **others: Any) -> Any:
    """Show the version in the footer of every page."""
    from attn_closed_form import __version__

    config["copyright"] = f"attn-closed-form {__version__}, MIT license"
    return config


def on_page_markdown(markdown: str, **others: Any) -> str:
    """Called by MkDocs with the source of every page."""
    if "\n[commands]\n" in markdown:
        markdown = markdown.replace("\n[commands]\n", f"\n{commands()}\n")
    return NAMES.sub(
        lambda match: "\n".join(f"::: {name}\n" for name in public(match[1])),
        markdown,
    )


def on_page_content(content: str, page: Any, **others: Any) -> str:
    """End the build if an entry of a reference page has no heading or no text."""
    if page.file.src_uri.startswith("reference/"):
        entries = len(re.findall(r"^::: ", page.markdown or "", re.MULTILINE))
        bodies = re.findall(
            r'<div class="doc doc-contents[^"]*">\s*(<[a-z]+)', content
        )
        if len(bodies) < entries:
            raise ValueError(
                f"{page.file.src_uri}: expected {entries} entries with text, got {len(bodies)}"
            )
    return content


#: Packages whose `__all__` is the public interface.
ROOMS = ("", ".game", ".lime", ".reasons", ".slalom", ".attention")


def public_objects() -> dict[str, Any]:
    """Every public name of the library, with the object that it names."""
    rooms = [
        importlib.import_module(f"attn_closed_form{room}") for room in ROOMS
    ]
    return {
        name: getattr(room, name) for room in rooms for name in room.__all__
    }


def public(modules: str) -> list[str]:
    """Public names that are defined in one of the modules, classes first."""
    prefixes = tuple(f"{name.strip()}." for name in modules.split(","))
    objects = public_objects()
    names = [
        name
        for name, thing in objects.items()
        if f"{getattr(thing, '__module__', '')}.".startswith(prefixes)
    ]
    if not names:
        raise ValueError(f"expected modules with public names, got {modules!r}")
    names.sort(
        key=lambda name: (
            not name[0].isupper(),
            name.endswith(("Error", "Warning")),
            name,
        )
    )
    # Griffe finds a name where it is defined; the heading shows only the name.
    return [f"{objects[name].__module__}.{name}" for name in names]


def commands() -> str:
    """The help of every command, as sections of a page."""
    from attn_closed_form.app.cli import COMMANDS
    from attn_closed_form.app.cli.main import main

    os.environ["COLUMNS"] = "80"
    sections = []
    for name in (*COMMANDS, *SUBCOMMANDS):
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.suppress(SystemExit),
        ):
            main([*name.split(), "--help"])
        if not printed.getvalue().strip():
            raise ValueError(
                f"expected the help of the command {name!r}, got nothing"
            )
        sections.append(
            f"## {name}\n\n```text\n{printed.getvalue().strip()}\n```\n"
        )
    return "\n".join(sections)
