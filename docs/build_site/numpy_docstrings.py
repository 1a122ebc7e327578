"""A Griffe extension: read `name : what it is` as a description, and take the type from the
signature.

The docstrings of this project say what a parameter is on the line of its name. Griffe, as the NumPy
style has it, reads that as the type. A single word (`PooledGame`) stays a type. What a function
returns may be a sentence, too; its type is then that of the signature.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"^(?P<names>[*\w]+(?:, [*\w]+)*) : (?P<text>.*)$")
TYPE = re.compile(
    r"[\w.]+(\[[\w., |]+\])?(, optional)?|\{.*\}|[\w.]+( \| [\w.]+)+|[\w.]+ or None"
)


class OneLineEntries(griffe.Extension):
    """Rewrites the sections of parameters and attributes of every docstring."""

    def on_object(self, *, obj: Any, **others: Any) -> None:
        """Called by Griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            value = rewritten(obj.docstring.value)
            returned = getattr(obj, "returns", None)
            if returned is not None:
                value = with_returned_type(value, str(returned))
            obj.docstring.value = value


def rewritten(docstring: str) -> str:
    """The docstring with `name : text` written as `name`, and the text below it, where the text is
    no type.
    """
    lines: list[str] = []
    inside = False
    for line in docstring.split("\n"):
        if re.fullmatch("-{3,}", line) and lines:
            inside = lines[-1] in ("Parameters", "Attributes")
        elif (
            inside
            and (entry := ENTRY.match(line))
            and not TYPE.fullmatch(entry["text"].strip())
        ):
            lines += [entry["names"], f"    {entry['text']}"]
            continue
        lines.append(line)
    return "\n".join(lines)


def with_returned_type(docstring: str, returned: str) -> str:
    """The docstring with the type of the signature above each line of "Returns" that has no
    description below it and is not a type itself.
    """
    head, separator, tail = docstring.partition("\nReturns\n-------\n")
    if not separator:
        return docstring
    section, *rest = tail.split("\n\n", 1)
    lines = section.rstrip("\n").split("\n")
    if any(line.startswith(" ") for line in lines) or TYPE.fullmatch(section):
        return docstring
    described = "\n".join([returned, *(f"    {line}" for line in lines)])
    return head + separator + "\n\n".join([described, *rest])
