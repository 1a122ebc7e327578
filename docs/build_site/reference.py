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
        lambda match: "\n".join(map(entry, public(match[1]))), markdown
    )


#: The members that a user needs, of classes that the engine uses, too. Every other class shows all of its members.
SHOWN_MEMBERS = {
    "PooledGame": (
        "from_scores from_weights d H baseline value merge through leave_one_out linear"
    ),
    "PooledScores": "head output attention logits game games",
    "GameSum": "d labels value can_keep",
    "HiddenLayer": "is_exact",
    "TailGame": "d labels value",
    "Optimum": "",
    "Deletions": "",
    "ShortSequences": "",
    "BoundsBySize": "",
    "TransformerClassifier": "from_folder predict_logits fit",
    "TextClassifier": "predict predict_logits save",
    "MeanPooledText": "from_state_dict from_linear",
    "BagClassifier": "from_state_dict from_attention check doubts",
    "ScoreTable": "",
    "Explanation": (
        "top occurrences interactions removal_curves to_dict to_frame to_shap to_lime to_shapiq"
    ),
}


def entry(name: str) -> str:
    """The entry of a public name, for mkdocstrings."""
    members = SHOWN_MEMBERS.get(name.rpartition(".")[2])
    if members is None:
        return f"::: {name}\n"
    shown = ", ".join(members.split()) if members else ""
    return f"::: {name}\n    options:\n      members: [{shown}]\n"


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
