"""Style and script of the report: no font, no picture, no library, no network.

The rules are files in `static/`; the colours of words come from `palette.py`. Colours are laid over the page with
opacity, so the same rules serve light and dark pages. Words against the prediction are also underlined, so that a grey
print still shows the sign.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from .palette import AGAINST, FOR, OPACITY, UNSIGNED, css


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8").strip()


@cache
def words_css() -> str:
    """What a notebook cell, the report and the page share: the palette, and the words with their colours.

    >>> "--for:rgb(213,94,0)" in words_css()
    True
    """
    names = {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}
    rules = [f".acf{{{';'.join(f'--{name}:{css(colour)}' for name, colour in names.items())}}}", _static("words.css")]
    for letter, colour in (("p", FOR), ("n", AGAINST), ("u", UNSIGNED)):
        for level, opacity in enumerate(OPACITY):
            if level:
                line = f";box-shadow:inset 0 -{1 + level // 2}px {css(colour)}" if letter == "n" else ""
                rules.append(f".acf .{letter}{level}{{background:{css(colour, opacity)}{line}}}")
    return "\n".join(rules)


@cache
def page_css() -> str:
    """The style of the whole page."""
    return f"{words_css()}\n{_static('report.css')}"


@cache
def bag_css() -> str:
    """What maps of a bag need besides."""
    return _static("bag.css")


@cache
def page_script() -> str:
    """The script of the page, without its comments."""
    lines = _static("report.js").splitlines()
    return "\n".join(line.strip() for line in lines if not line.startswith("//"))
