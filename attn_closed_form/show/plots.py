"""Figures with matplotlib, as views of what `explain` found; each function draws into `ax` and returns it.

| function | figure |
|---|---|
| `plot_text` | the text itself, words coloured by their scores, wrapped to the width |
| `plot_waterfall` | how Shapley values add up, the strongest players by name |
| `plot_table` | all methods as a map of methods by players (Lopardo et al. 2024, Figure 1) |
| `plot_interactions` | Shapley interactions of pairs |
| `plot_attention`, `plot_gradient`, `plot_lime`, `plot_slalom` | see `plots_inside.py` |

matplotlib is imported on the first call; a missing one is an error that names the extra. No function touches pyplot
when it is given an `ax`, and none changes matplotlib's settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..explanations.explanation import Explanations
from .answer import leader, verdict, waterfall
from .palette import AGAINST, FOR, OPACITY, UNSIGNED, levels
from .plot_tools import (
    ONE_COLUMN,
    TWO_COLUMNS,
    WHITE,
    asked,
    axes_or_new,
    colour_map,
    diverging,
    import_matplotlib,
    named,
    needed,
    note_left_out,
    rgb,
    set_names,
    strongest,
    upright,
)
from .plots_inside import grid, plot_attention, plot_attention_matrices, plot_gradient, plot_lime, plot_slalom

LINE = 1.75  # of a line of text, in font sizes


def plot_text(found: Explanations, method: str | None = None, size: float = 8.0, ax: Any = None) -> Any:
    """The text with its words coloured by one method, wrapped to the width of the Axes.

    Parameters
    ----------
    found : what `explain` returned
    method : whose colours; the leading method by default
    size : of the letters, in points
    ax : matplotlib Axes to draw into; None makes a figure of one column (85 mm)

    Returns
    -------
    Axes
    """
    e = needed(found, method) if method else leader(found)
    ax = axes_or_new(ax, ONE_COLUMN, 0.4 + 0.035 * size / 8 * len(e.occurrences))
    ax.set_axis_off()
    ax.set_title(_verdict(found), fontsize=size + 1, loc="left")
    figure = ax.figure
    figure.draw_without_rendering()  # how wide the Axes are is known once the layout is
    measure = import_matplotlib("textpath").TextPath
    box = ax.get_window_extent()
    wide, tall = box.width * 72 / figure.dpi, max(box.height * 72 / figure.dpi, 1.0)
    hue = {1: FOR, -1: AGAINST}
    level, x, y = levels(e.strength), 0.0, 0.0
    for place in e.occurrences:
        word = named([e.text[place.start : place.end]])[0]
        taken = measure((0, 0), word.replace(r"\$", "$") or " ", size=size, usetex=False).get_extents().width + 3
        if x and x + taken > wide:
            x, y = 0.0, y + LINE * size
        strength = int(level[place.player])
        colour = UNSIGNED if e.info.kind != "signed" else hue[1 if strength > 0 else -1]
        patch = {"boxstyle": "round,pad=0.12", "linewidth": 0, "facecolor": (*rgb(colour), OPACITY[abs(strength)])}
        ax.annotate(word, (x / wide, 1 - y / tall), xycoords="axes fraction", va="top", fontsize=size, bbox=patch)
        x += taken + 0.3 * size
    return ax


def _verdict(found: Explanations) -> str:
    fit = found.evidence.fit
    of_fit = "" if fit is None else f"\n{fit.name}, off by {fit.error:.2g} on fresh samples"
    return _said(found) + of_fit


def _said(found: Explanations) -> str:
    said = verdict(found)
    if said.probability is None:
        return f"{named([said.name])[0]} {said.logit:+.3f}"
    name, output = named([said.name, said.output])
    return f"{name}, {100 * said.probability:.0f} % (logit of {output} {said.logit:+.3f})"


def plot_waterfall(found: Explanations, top: int = 10, ax: Any = None) -> Any:
    """How the exact Shapley values add up: the `top` strongest players by name, the rest as one bar."""
    e = needed(found, "shapley")
    steps = waterfall(e, top)
    ax = axes_or_new(ax, ONE_COLUMN, 0.6 + 0.19 * len(steps))
    for i, step in enumerate(steps):
        if step.players:
            ax.barh(i, step.change, left=step.start, color=rgb(FOR if step.change > 0 else AGAINST), height=0.7)
        else:
            ax.plot([step.end, step.end], [i - 0.4, i + 0.4], color="0.2", linewidth=2)
        shown = step.change if step.players else step.end
        ax.annotate(f"{shown:+.2f}", (max(step.start, step.end), i), xytext=(3, 0), textcoords="offset points",
                    va="center", fontsize=7)  # fmt: skip
    ax.axvline(steps[0].end, color="0.7", linewidth=0.8, zorder=0)
    set_names(ax.yaxis, [step.label for step in steps])
    ax.invert_yaxis()
    ax.margins(x=0.18)
    ax.set_xlabel(f"logit of {named([e.output])[0]}", fontsize=8)
    ax.tick_params(axis="x", labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_table(found: Explanations, ax: Any = None) -> Any:
    """All methods as a map: one row per method, one column per player, the strongest where not all have room."""
    rows = list(found.values())
    labels = rows[0].labels
    ax = axes_or_new(ax, min(TWO_COLUMNS, 1.8 + 0.16 * len(labels)), 1.2 + 0.2 * len(rows))
    order = strongest(leader(found).strength, ax)
    grey = colour_map(WHITE, UNSIGNED)(np.linspace(0, 1, 256))
    signed = diverging()
    cells = np.empty((len(rows), len(order), 4))
    for i, e in enumerate(rows):
        strength = e.strength[order]
        cells[i] = signed((strength + 1) / 2) if e.info.kind == "signed" else grey[(strength * 255).astype(int)]
    ax.imshow(cells, aspect="auto", interpolation="nearest")
    upright(ax.xaxis, [labels[j] for j in order])
    set_names(ax.yaxis, [e.title for e in rows])
    ax.set_title(_verdict(found), fontsize=9, loc="left")
    note_left_out(ax, len(order), len(labels), found.evidence.settings.players)
    ax.tick_params(length=0)
    return ax


def plot_interactions(found: Explanations, top: int = 25, ax: Any = None) -> Any:
    """Exact Shapley interactions of the `top` strongest players, in their order; their own values left out."""
    e = needed(found, "shapley")
    order = np.sort(np.argsort(-np.abs(e.scores), kind="stable")[:top])
    pairs = e.interactions()[np.ix_(order, order)]
    np.fill_diagonal(pairs, 0.0)
    most = float(np.abs(pairs).max()) or 1.0
    ax = axes_or_new(ax, 1.8 + 0.17 * len(order), 1.4 + 0.17 * len(order))
    image = ax.imshow(pairs, cmap=diverging(), vmin=-most, vmax=most, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="Shapley interaction", shrink=0.8)
    upright(ax.xaxis, [e.labels[j] for j in order])
    set_names(ax.yaxis, [e.labels[j] for j in order])
    ax.tick_params(length=0)
    return ax


class Figure(NamedTuple):
    """How a figure is drawn, the methods that it needs, and its size in inches."""

    draw: Callable[..., Any]
    methods: tuple[str, ...]
    size: tuple[float, float]


FIGURES: dict[str, Figure] = {
    "text": Figure(plot_text, (), (ONE_COLUMN, 3.0)),
    "waterfall": Figure(plot_waterfall, ("shapley",), (ONE_COLUMN, 2.9)),
    "table": Figure(plot_table, (), (TWO_COLUMNS, 4.4)),
    "slalom": Figure(plot_slalom, ("slalom-value", "slalom-importance", "slalom-linear"), (5.0, 4.0)),
    "lime": Figure(plot_lime, ("lime",), (TWO_COLUMNS, 3.6)),
    "attention": Figure(plot_attention, (), (TWO_COLUMNS, 2.8)),
    "attention-matrices": Figure(plot_attention_matrices, (), (TWO_COLUMNS, 5.0)),
    "gradient": Figure(plot_gradient, (), (TWO_COLUMNS, 3.6)),
    "interactions": Figure(plot_interactions, ("shapley",), (5.5, 5.0)),
}


def make_figure(found: Explanations, figure: str = "table", path: str | os.PathLike[str] | None = None) -> Any:
    """One of the figures by name, drawn without a display; saved to `path` if there is one.

    Returns
    -------
    matplotlib Figure
    """
    if figure not in FIGURES:
        raise ValueError(f"figure: expected one of {', '.join(FIGURES)}; got {figure!r}")
    chosen = FIGURES[figure]
    made = import_matplotlib("figure").Figure(figsize=chosen.size, layout="constrained")
    if figure == "attention-matrices":
        chosen.draw(found, axes=grid(made, len(asked(found, figure))))
    else:
        chosen.draw(found, ax=made.subplots())
    if path is not None:
        made.savefig(path, dpi=200)
    return made


def save_figure(found: Explanations, figure: str, path: str | os.PathLike[str]) -> Path:
    """Draw a figure into a file, whole or not at all; without a suffix it becomes a PNG. Returns the file's path."""
    target = Path(path)
    target = target if target.suffix else target.with_name(target.name + ".png")
    partial = target.with_name(f".partial-{target.name}")
    try:
        make_figure(found, figure, partial)
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    finally:
        partial.unlink(missing_ok=True)
    return target
