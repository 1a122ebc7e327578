"""What all figures with matplotlib share: the package, colors, names that are safe to draw, and
saving.

No function touches pyplot or changes matplotlib's settings, so figures need no display.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ..files.atomic import replacing
from .sanitize import elide, visible

# Dots per inch of a saved picture; SVG and PDF have no dots.
DPI = 200


def package(name: str, extra: str | None = None) -> Any:
    """Import an optional package or module, or raise an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = name.partition(".")[0]
        install = missing
        if extra is not None:
            install = f"'.[{extra}]'"
        raise ImportError(
            f"{missing} could not be imported ({error}): pip install {install}"
        ) from None


def import_matplotlib(module: str) -> Any:
    """Import a module of matplotlib."""
    return package(f"matplotlib.{module}", "plots")


def rgb(color: tuple[int, int, int]) -> tuple[float, ...]:
    """Return a color as matplotlib takes it."""
    return tuple(c / 255 for c in color)


def color_map(*colors: tuple[int, int, int]) -> Any:
    """Return a color map through some colors."""
    return import_matplotlib("colors").LinearSegmentedColormap.from_list(
        "acf", [rgb(color) for color in colors]
    )


def plain_words(words: Iterable[str], longest: int = 18) -> list[str]:
    """Prepare words for a figure: short, and without characters that matplotlib reads as
    mathematics.
    """
    return [elide(visible(word), longest).replace("$", r"\$") for word in words]


def set_names(axis: Any, words: Sequence[str], upright: bool = False, longest: int = 18) -> None:
    """Name every tick of an axis; names under a horizontal axis are rotated so that they do not
    overlap.
    """
    if upright:
        options = {"rotation": 75, "ha": "right", "rotation_mode": "anchor"}
    else:
        options = {}
    # Tuning: small letters for many names.
    size = 8 if len(words) <= 30 else 6.5
    axis.set_ticks(range(len(words)), plain_words(words, longest), fontsize=size, **options)
    axis.set_tick_params(length=0)


def new_figure(size: tuple[float, float]) -> Any:
    """Return a matplotlib Figure of a size in inches, without a display.

    A notebook shows it without a magic command.
    """
    figure = import_matplotlib("figure").Figure(figsize=size, layout="constrained")
    # A notebook asks each result for a picture by this name; a Figure has none before `%matplotlib
    # inline`.
    figure._repr_png_ = partial(_png, figure)
    return figure


def _png(figure: Any) -> bytes:
    """Return a figure as the bytes of a PNG picture."""
    # Dots per inch of a picture in a notebook, where 7 inches are about as wide as the text.
    screen_dpi = 110
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=screen_dpi)
    return stream.getvalue()


def saved_figure(figure: Any, path: str | os.PathLike[str] | None, dpi: int = DPI) -> Any:
    """Save a figure atomically if a path is given, and return it."""
    if path is not None:
        with replacing(path) as partial:
            figure.savefig(partial, dpi=dpi)
    return figure
