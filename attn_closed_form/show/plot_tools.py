"""What the figures share: matplotlib behind its extra, colours, axes, and names on them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._types import Array, Ids
from ..explanations.explanation import Explanation, Explanations
from .palette import AGAINST, FOR
from .sanitize import elide, visible

# Millimetres of a column of a journal and of the page, in inches.
ONE_COLUMN, TWO_COLUMNS = 85 / 25.4, 175 / 25.4
# Names that an axis of this many inches can hold without touching each other.
NAMES_PER_INCH = 7.0
WHITE = (255, 255, 255)


def import_matplotlib(module: str) -> Any:
    """A module of matplotlib, or an error that names the extra to install."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(f"plots need matplotlib ({error}): pip install 'attn-closed-form[plots]'") from None


def axes_or_new(ax: Any, width: float, height: float) -> Any:
    """The Axes that were given, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return import_matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def rgb(colour: tuple[int, int, int]) -> tuple[float, ...]:
    """A colour as matplotlib wants it."""
    return tuple(c / 255 for c in colour)


def colour_map(*colours: tuple[int, int, int]) -> Any:
    """A map through these colours."""
    return import_matplotlib("colors").LinearSegmentedColormap.from_list("acf", [rgb(c) for c in colours])


def diverging() -> Any:
    """From what lowers the prediction through white to what raises it."""
    return colour_map(AGAINST, WHITE, FOR)


def named(words: Iterable[str]) -> list[str]:
    r"""Words for a figure: nothing that matplotlib would read as mathematics, nothing endless.

    >>> named(["$x^2$"])
    ['\\$x^2\\$']
    """
    return [elide(visible(word), 18).replace("$", r"\$") for word in words]


def set_names(axis: Any, words: Sequence[str], **options: Any) -> None:
    """Name every tick of an axis; `strongest` has made sure that there is room."""
    size = 8 if len(words) <= 30 else 6.5
    axis.set_ticks(range(len(words)), named(words), fontsize=size, **options)


def upright(axis: Any, words: Sequence[str]) -> None:
    """Names under a horizontal axis, steep enough to stand side by side."""
    set_names(axis, words, rotation=75, ha="right", rotation_mode="anchor")


def strongest(weight: Array, ax: Any) -> Ids:
    """The strongest columns that the width of `ax` can name, in their own order."""
    room = max(4, int(NAMES_PER_INCH * 0.8 * ax.figure.get_figwidth()))
    return np.sort(np.argsort(-np.abs(weight), kind="stable")[:room])


def note_left_out(ax: Any, shown: int, total: int, what: str) -> None:
    """Say how many were left out, where some were."""
    if shown < total:
        ax.set_title(f"the {shown} strongest of {total} {what}", fontsize=8, loc="right")


def asked(found: Explanations, name: str) -> Array:
    """What the model shows of its inside under this name, or an error."""
    shown = found.evidence.inside(name)
    if shown is None:
        model = found.evidence.model
        raise ValueError(f"found: this figure needs {name!r} of the model, which {model!r} does not show")
    return np.asarray(shown)


def needed(found: Explanations, name: str) -> Explanation:
    """The explanation by one method, or an error that names it."""
    if name not in found:
        raise ValueError(f"found: this figure needs the method {name!r}, got {', '.join(found)}")
    return found[name]


def units_of(found: Explanations) -> list[str]:
    """The units as they stand in the text."""
    units = found.evidence.units
    return [units.shown_text[start:end] for start, end in units.shown_spans]
