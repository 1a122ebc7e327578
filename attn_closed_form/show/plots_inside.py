"""Figures of single methods: attention, the gradient, LIME and SLALOM, as the two papers draw them.

| function | figure |
|---|---|
| `plot_attention` | where each head looks, one row per head |
| `plot_attention_matrices` | Lopardo et al. 2024, Figure 3: attention of every query to every key, one map per head |
| `plot_gradient` | its Figure 5: the gradient by every coordinate of every embedded token |
| `plot_lime` | its Figure 4: boxes of sampled LIME, with what it converges to and what Theorem 5.1 prints |
| `plot_slalom` | Leemann et al. 2025, Figure 5: value against importance |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanations
from ..lime.theory import lime_theorem_5_1
from .labels import place_labels
from .palette import AGAINST, FOR, UNSIGNED
from .plot_tools import (
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
    units_of,
    upright,
)

# Only the [CLS] query is trained to be sharp; without a power law the other rows of its map would be blank.
ATTENTION_GAMMA = 0.4
# A map of queries by keys has names up to this many units.
MOST_NAMED = 16


def plot_attention(found: Explanations, ax: Any = None) -> Any:
    """Where each head looks: one row per head, one column per unit; shades follow alpha^0.4."""
    alpha = asked(found, "attention-heads")
    words = units_of(found)
    ax = axes_or_new(ax, TWO_COLUMNS, 1.4 + 0.2 * len(alpha))
    order = strongest(alpha.max(axis=0), ax)
    norm = import_matplotlib("colors").PowerNorm(ATTENTION_GAMMA, vmin=0, vmax=alpha.max())
    ax.imshow(alpha[:, order], cmap=colour_map(WHITE, UNSIGNED), norm=norm, aspect="auto", interpolation="nearest")
    upright(ax.xaxis, [words[j] for j in order])
    set_names(ax.yaxis, [f"head {i + 1}" for i in range(len(alpha))])
    note_left_out(ax, len(order), len(words), "units")
    ax.tick_params(length=0)
    return ax


def plot_attention_matrices(found: Explanations, axes: Sequence[Any] | None = None) -> Array:
    """Attention of every query (rows) to every key (columns), [CLS] and the document, one map per head.

    Parameters
    ----------
    axes : K Axes; None makes a figure

    Returns
    -------
    (K,) array of Axes
    """
    A = asked(found, "attention-matrices")
    words = ["[CLS]", *units_of(found)]
    K = len(A)
    if axes is None:
        axes = grid(import_matplotlib("pyplot").figure(figsize=(3.4 * min(3, K), 3.4 * -(-K // 3))), K)
    elif len(axes) != K:
        raise ValueError(f"axes: expected {K}, one per head, got {len(axes)}")
    for i, ax in enumerate(axes):
        norm = import_matplotlib("colors").PowerNorm(ATTENTION_GAMMA, vmin=0, vmax=A[i].max())
        ax.imshow(A[i], cmap=colour_map(WHITE, UNSIGNED), norm=norm, interpolation="nearest")
        ax.set_title(f"head {i + 1}", fontsize=9)
        ax.set_xlabel("key", fontsize=8)
        ax.set_ylabel("query ([CLS] on top)", fontsize=8)
        shown = words if len(words) <= MOST_NAMED else []
        upright(ax.xaxis, shown)
        set_names(ax.yaxis, shown)
        ax.tick_params(length=0)
    return np.asarray(axes)


def grid(figure: Any, K: int) -> Any:
    """K Axes in rows of three."""
    columns = min(3, K)
    axes = figure.subplots(-(-K // columns), columns, squeeze=False).ravel()
    for empty in axes[K:]:
        empty.set_axis_off()
    return axes[:K]


def plot_gradient(found: Explanations, ax: Any = None) -> Any:
    """The exact gradient: one row per coordinate of the embedding, one column per token, [CLS] first."""
    G = asked(found, "gradient-map")
    words = ["[CLS]", *units_of(found)]
    ax = axes_or_new(ax, TWO_COLUMNS, 3.6)
    order = strongest(np.abs(G).max(axis=0), ax)
    most = float(np.abs(G).max()) or 1.0
    image = ax.imshow(G[:, order], cmap=diverging(), vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="∂f/∂e")
    upright(ax.xaxis, [words[j] for j in order])
    ax.set_ylabel("coordinate of the embedding", fontsize=8)
    note_left_out(ax, len(order), len(words), "tokens")
    return ax


def plot_lime(found: Explanations, runs: int = 5, top: int = 40, printed: bool = True, ax: Any = None) -> Any:
    """Boxes of sampled LIME, a cross for its exact limit, a triangle for Theorem 5.1 as printed.

    Parameters
    ----------
    found : with the method "lime"
    runs : how often LIME is run with 5000 samples (the paper: 5)
    top : how many players, the strongest by the exact limit
    printed : whether to show the theorem as printed, which is off by a constant and a term (see `lime_theorem_5_1`);
        it is about [UNK], so never for deletions
    """
    exact = needed(found, "lime")
    order = np.argsort(-np.abs(exact.scores), kind="stable")[:top]
    sampled = np.stack([run.coef for run in found.evidence.sampled_lime(runs)])[:, order]
    at = np.arange(len(order))
    ax = axes_or_new(ax, min(TWO_COLUMNS, 1.6 + 0.16 * len(order)), 3.6)
    ax.axhline(0, color="0.7", linewidth=0.8)
    blue = rgb(AGAINST)
    ax.boxplot(
        sampled,
        positions=at,
        widths=0.6,
        patch_artist=True,
        showfliers=False,
        boxprops={"facecolor": (*blue, 0.35), "edgecolor": blue},
        medianprops={"color": blue},
        whiskerprops={"color": blue},
        capprops={"color": blue},
    )
    ax.plot(at, exact.scores[order], "x", color=rgb(FOR), markersize=6, label="exact limit")
    if printed and found.evidence.settings.absent == "unk":
        theorem = lime_theorem_5_1(exact.game)[order]
        ax.plot(at, theorem, "v", color="0.35", markersize=4, markerfacecolor="none", label="Theorem 5.1 as printed")
    ax.plot([], [], "s", color=(*blue, 0.5), label=f"LIME, {runs} runs of 5000 samples")
    upright(ax.xaxis, [exact.labels[j] for j in order])
    ax.set_ylabel("LIME coefficient", fontsize=8)
    ax.legend(fontsize=7, frameon=False)
    return ax


def plot_slalom(found: Explanations, names: int = 25, ax: Any = None) -> Any:
    """Value against importance, the `names` players that weigh most in the prediction named where there is room."""
    value, importance, linear = (needed(found, f"slalom-{name}").scores for name in ("value", "importance", "linear"))
    ax = axes_or_new(ax, 5.0, 4.0)
    ax.axhline(0, color="0.7", linewidth=0.8)
    ax.scatter(
        importance, value, c=[rgb(FOR) if v >= 0 else rgb(AGAINST) for v in value], s=18, alpha=0.75, linewidths=0
    )
    ax.margins(0.08)
    ax.set_xlabel("importance s (log weight)", fontsize=8)
    ax.set_ylabel("value v", fontsize=8)
    ax.figure.draw_without_rendering()  # where the points are is known once the layout is
    box, points = ax.get_window_extent(), ax.transData.transform(np.column_stack([importance, value]))
    scale = 72 / ax.figure.dpi
    x, y = (points[:, 0] - box.x0) * scale, (box.y1 - points[:, 1]) * scale
    words = named(found["slalom-value"].labels)
    frame = (0.0, 0.0, box.width * scale, box.height * scale)
    for label in place_labels(words, x, y, linear, frame, names, letter=4.6, height=9.0):
        at = (label.x - x[label.point], y[label.point] - label.y)
        anchor = "left" if label.anchor == "start" else "right"
        point = (importance[label.point], value[label.point])
        ax.annotate(words[label.point], point, xytext=at, textcoords="offset points", fontsize=7, ha=anchor)
    return ax
