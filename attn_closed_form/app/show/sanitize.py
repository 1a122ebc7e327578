"""Show untrusted text literally, so that it cannot control a terminal or a page, or deceive a
reader.

Control characters (an escape sequence could repaint the terminal), lone surrogates (no encoding has
them) and bidirectional overrides (they make "abc" read "cba") are replaced by U+FFFD. Line breaks
and tabs count as spaces.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import Any

from ..models.scale import class_name

# Control characters, marks of direction, separators, surrogates and noncharacters.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufffe\uffff]"
)
# The hyphen of a negative number.
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
# The space between a number and its unit.
_UNIT = re.compile(r"(?<=\d) (?=points)")
# The spaces before a column of a table, or before the text of an indented line.
_COLUMN = re.compile(r"(?:^\s+|\s{2,})(?=\S)")
# White space that becomes one space.
_SPACE = re.compile(r"[\t\n\r\f\v\u2028\u2029 ]+")


def visible(text: str) -> str:
    r"""Return the text on one line, without control characters.

    >>> visible("red:\x1b[31m\nend")
    'red:�[31m end'
    """
    if text.isprintable() and "  " not in text:  # almost every text needs no replacement
        return text
    return _HOSTILE.sub("\ufffd", _SPACE.sub(" ", text))


def output_name(output: str) -> str:
    """Return the name of an output in a sentence, such as "positive" or "class 1"."""
    return class_name(visible(output))


def elide(text: str, limit: int) -> str:
    """Shorten a text that is longer than `limit` in the middle: "ab…ij"."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{text[:half]}…{text[len(text) - half :]}"


def escape(text: str, limit: int | None = None) -> str:
    """Escape text for the content and the quoted attributes of HTML and SVG."""
    shown = visible(text)
    if limit is not None:
        shown = elide(shown, limit)
    return html.escape(shown, quote=True)


def prose(text: str, limit: int | None = None) -> str:
    """Escape text with numbers, using a true minus sign and no line break before its unit.

    >>> prose("-3 points") == "\u22123\u00a0points"
    True
    """
    return _UNIT.sub("\u00a0", _MINUS.sub("\u2212", escape(text, limit)))


def script_json(data: Any) -> str:
    r"""Return JSON that cannot close the script element around it or open a comment.

    >>> script_json(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    # ASCII has no line separators of JavaScript, and a script cannot read NaN.
    plain = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def width(text: str) -> int:
    """Return the terminal columns of a text: two for a wide character, none for a combining
    mark.
    """
    if text.isascii():
        return len(text)
    marks = ("Mn", "Me", "Cf")  # these take no column
    shown = [
        c for c in text if not unicodedata.combining(c) and unicodedata.category(c) not in marks
    ]
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)


def fitted_lines(text: str, columns: int) -> str:
    r"""Break the lines of a text that are too long for a terminal; others are kept.

    A line goes on below its last column, which follows two spaces or more, and a comment moves
    above its command.

    >>> print(
    ...     fitted_lines("loo       Leave-one-out  without it alone\n  run FILE  # explain it", 24)
    ... )
    loo       Leave-one-out
              without it
              alone
      run FILE  # explain it
    """
    lines = []
    for line in text.splitlines():
        command, mark, comment = line.partition("  # ")
        if width(line) <= columns:
            lines.append(line)
        elif mark:
            indent = line[: len(line) - len(line.lstrip())]
            lines += _fitted(f"{indent}# {comment.strip()}", columns)
            lines += _fitted_command(command.rstrip(), columns)
        # The only indented lines that are commands are examples of use.
        elif line.startswith("  ") and line.lstrip().startswith(("attn-closed-form ", "cat ")):
            lines += _fitted_command(line, columns)
        else:
            lines += _fitted(line, columns)
    return "\n".join(lines)


def _fitted_command(line: str, columns: int) -> list[str]:
    """Break a command as a shell continues it."""
    # An indent of four blanks, and a blank with the backslash, take six columns.
    *first, last = _fitted(line, columns - 6)
    lines = [f"{part} \\" for part in first] + [last]
    return [lines[0], *(f"    {part}" for part in lines[1:])]


def _fitted(line: str, columns: int) -> list[str]:
    """Break one line at its spaces."""
    # The last column must leave room for a few words.
    starts = [match.end() for match in _COLUMN.finditer(line) if match.end() <= columns // 2]
    indent = max(starts, default=0)
    lines = [line[:indent]]
    used = width(lines[0])
    for number, word in enumerate(line[indent:].split(" ")):
        if number and used + 1 + width(word) > columns:
            lines.append(" " * indent + word)
            used = indent + width(word)
        else:
            space = " " if number else ""
            lines[-1] += space + word
            used += len(space) + width(word)
    return [each.rstrip() for each in lines]
