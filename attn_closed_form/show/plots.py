"""Figures with matplotlib, as views of what `explain` found; each function draws into `ax` and returns it.

| function | figure |
|---|---|
| `plot_table` | P1 Figure 1, as a map of methods by words |
| `plot_attention` | P1 Figure 3: attention matrices, one per head |
| `plot_lime` | P1 Figure 4: boxes of sampled LIME, with what it converges to and what Theorem 5.1 prints |
| `plot_gradient` | P1 Figure 5: the gradient by every coordinate of every embedded token |
| `plot_slalom` | P2 Figure 5: value against importance |
| `plot_interactions` | Shapley interactions of pairs |

matplotlib is imported on the first call; a missing one is an error that names the extra. No function touches pyplot
when it is given an `ax`, and none changes matplotlib's settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanation, Explanations
from ..lime.theory import lime_theorem_5_1
from .palette import AGAINST, FOR, UNSIGNED
from .sanitize import elide, visible

# More names than this on an axis cannot be read; the others are left blank.
MOST_NAMES = 90
# Only the [CLS] query is trained to be sharp; without a power law the other rows of its map would be blank.
ATTENTION_GAMMA = 0.4


def import_matplotlib(module: str) -> Any:
    """A module of matplotlib, or an error that names the extra to install."""
    import importlib

    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(f"plots need matplotlib ({error}): pip install 'attn-closed-form[plots]'") from None


def _axes(ax: Any, width: float, height: float) -> Any:
    if ax is not None:
        return ax
    return import_matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def _rgb(colour: tuple[int, int, int]) -> tuple[float, ...]:
    return tuple(c / 255 for c in colour)


def _map(*colours: tuple[int, int, int]) -> Any:
    return import_matplotlib("colors").LinearSegmentedColormap.from_list("acf", [_rgb(c) for c in colours])


def _diverging() -> Any:
    return _map(AGAINST, (255, 255, 255), FOR)


def _named(words: Iterable[str]) -> list[str]:
    """Words for an axis: nothing that matplotlib would read as mathematics, nothing endless."""
    return [elide(visible(word), 18).replace("$", r"\$") for word in words]


def _ticks(axis: Any, words: Sequence[str], **options: Any) -> None:
    step = max(1, -(-len(words) // MOST_NAMES))
    size = 8 if len(words) <= 45 else 6
    axis.set_ticks(range(0, len(words), step), _named(words[::step]), fontsize=size, **options)


def plot_table(found: Explanations, ax: Any = None) -> Any:
    """All methods as a map: one row per method, one column per player.

    Parameters
    ----------
    found : what `explain` returned
    ax : matplotlib Axes to draw into; None makes a figure

    Returns
    -------
    Axes
    """
    rows = list(found.values())
    words = rows[0].labels
    ax = _axes(ax, 2.5 + 0.32 * min(len(words), 60), 1.2 + 0.3 * len(rows))
    purple = _map((255, 255, 255), UNSIGNED)(np.linspace(0, 1, 256))
    signed = _diverging()
    cells = np.empty((len(rows), len(words), 4))
    for i, e in enumerate(rows):
        strength = e.strength
        cells[i] = signed((strength + 1) / 2) if e.info.kind == "signed" else purple[(strength * 255).astype(int)]
    ax.imshow(cells, aspect="auto", interpolation="nearest")
    _ticks(ax.xaxis, words, rotation=60, ha="right", rotation_mode="anchor")
    ax.yaxis.set_ticks(range(len(rows)), [e.info.label for e in rows], fontsize=9)
    ax.set_title(f"{_named([found.output])[0]} {found.prediction:+.3f}", fontsize=10)
    ax.tick_params(length=0)
    return ax


def _asked(found: Explanations, name: str) -> Array:
    """What the model shows of its inside under this name, or an error."""
    shown = found.evidence.inside(name)
    if shown is None:
        model = found.evidence.model
        raise ValueError(f"found: this figure needs {name!r} of the model, which {model!r} does not show")
    return np.asarray(shown)


def _units(found: Explanations) -> list[str]:
    units = found.evidence.units
    return [units.shown_text[start:end] for start, end in units.shown_spans]


def plot_attention(found: Explanations, axes: Sequence[Any] | None = None) -> Array:
    """Attention of every query (rows) to every key (columns), [CLS] and the document, one map per head (P1 Figure 3).

    Shades follow alpha^0.4, so that both the sharp row of [CLS] and the flat rows of the other queries are seen.

    Parameters
    ----------
    axes : K Axes; None makes a figure

    Returns
    -------
    (K,) array of Axes
    """
    A = _asked(found, "attention-matrices")
    words = ["[CLS]", *_units(found)]
    K = len(A)
    if axes is None:
        axes = _grid(import_matplotlib("pyplot").figure(figsize=(3.4 * min(3, K), 3.4 * -(-K // 3))), K)
    elif len(axes) != K:
        raise ValueError(f"axes: expected {K}, one per head, got {len(axes)}")
    for i, ax in enumerate(axes):
        norm = import_matplotlib("colors").PowerNorm(ATTENTION_GAMMA, vmin=0, vmax=A[i].max())
        ax.imshow(A[i], cmap=_map((255, 255, 255), UNSIGNED), norm=norm, interpolation="nearest")
        ax.set_title(f"head {i + 1}", fontsize=9)
        ax.set_xlabel("key", fontsize=8)
        ax.set_ylabel("query ([CLS] on top)", fontsize=8)
        named = len(words) <= 25
        _ticks(ax.xaxis, words if named else [], rotation=60, ha="right", rotation_mode="anchor")
        _ticks(ax.yaxis, words if named else [])
        ax.tick_params(length=0)
    return np.asarray(axes)


def _grid(figure: Any, K: int) -> Any:
    """K Axes in rows of three."""
    columns = min(3, K)
    grid = figure.subplots(-(-K // columns), columns, squeeze=False).ravel()
    for empty in grid[K:]:
        empty.set_axis_off()
    return grid[:K]


def plot_gradient(found: Explanations, ax: Any = None) -> Any:
    """The exact gradient, one row per coordinate of the embedding, one column per token, [CLS] first (P1 Figure 5)."""
    G = _asked(found, "gradient-map")
    words = ["[CLS]", *_units(found)]
    ax = _axes(ax, 2.0 + 0.3 * min(len(words), 60), 4.5)
    most = float(np.abs(G).max()) or 1.0
    image = ax.imshow(G, cmap=_diverging(), vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="∂f/∂e")
    _ticks(ax.xaxis, words, rotation=60, ha="right", rotation_mode="anchor")
    ax.set_ylabel("coordinate of the embedding")
    return ax


def _method(found: Explanations, name: str) -> Explanation:
    if name not in found:
        raise ValueError(f"found: this figure needs the method {name!r}, got {', '.join(found)}")
    return found[name]


def plot_lime(found: Explanations, runs: int = 5, top: int = 40, printed: bool = True, ax: Any = None) -> Any:
    """Boxes of sampled LIME, a cross for its exact limit, a triangle for Theorem 5.1 as printed (P1 Figure 4).

    Parameters
    ----------
    found : with the method "lime"
    runs : how often LIME is run with 5000 samples (the paper: 5)
    top : how many players, the strongest by the exact limit
    printed : whether to show the theorem as printed, which is off by a constant and a term (see `lime_theorem_5_1`);
        it is about [UNK], so never for deletions
    """
    exact = _method(found, "lime")
    order = np.argsort(-np.abs(exact.scores), kind="stable")[:top]
    sampled = np.stack([run.coef for run in found.evidence.sampled_lime(runs)])[:, order]
    at = np.arange(len(order))
    ax = _axes(ax, 2.0 + 0.26 * len(order), 4.5)
    ax.axhline(0, color="0.7", linewidth=0.8)
    ax.boxplot(
        sampled,
        positions=at,
        widths=0.6,
        patch_artist=True,
        showfliers=False,
        boxprops={"facecolor": (*_rgb(FOR), 0.35), "edgecolor": _rgb(FOR)},
        medianprops={"color": _rgb(FOR)},
        whiskerprops={"color": _rgb(FOR)},
        capprops={"color": _rgb(FOR)},
    )
    ax.plot(at, exact.scores[order], "x", color=_rgb(AGAINST), markersize=7, label="exact limit")
    if printed and found.evidence.settings.absent == "unk":
        theorem = lime_theorem_5_1(exact.game)[order]
        ax.plot(at, theorem, "v", color="0.35", markersize=4, markerfacecolor="none", label="Theorem 5.1 as printed")
    ax.plot([], [], "s", color=(*_rgb(FOR), 0.5), label=f"LIME, {runs} runs of 5000 samples")
    _ticks(ax.xaxis, [exact.labels[j] for j in order], rotation=60, ha="right", rotation_mode="anchor")
    ax.set_ylabel("LIME coefficient")
    ax.legend(fontsize=8, frameon=False)
    return ax


def plot_slalom(found: Explanations, names: int = 25, ax: Any = None) -> Any:
    """Value against importance, the `names` players that weigh most in the prediction named (P2 Figure 5)."""
    value, importance, linear = (_method(found, f"slalom-{name}").scores for name in ("value", "importance", "linear"))
    ax = _axes(ax, 6.0, 4.5)
    ax.axhline(0, color="0.7", linewidth=0.8)
    colours = [_rgb(FOR) if v >= 0 else _rgb(AGAINST) for v in value]
    ax.scatter(importance, value, c=colours, s=22, alpha=0.75, linewidths=0)
    order = np.argsort(-np.abs(linear), kind="stable")[:names]
    _annotate(ax, _named(found["slalom-value"].labels[j] for j in order), importance[order], value[order])
    ax.set_xlabel("importance s (log weight)")
    ax.set_ylabel("value v")
    return ax


def _annotate(ax: Any, words: Sequence[str], x: Array, y: Array) -> None:
    """Name points, each where its name covers no earlier one; a name without room is left out."""
    points = ax.transData.transform(np.column_stack([x, y])) * 72 / ax.figure.dpi
    taken: list[tuple[float, float, float, float]] = []
    for word, at, here in zip(words, zip(x, y, strict=True), points, strict=True):
        size = 4.6 * len(word)
        for dx, dy, align in ((4, 2, "left"), (4, -8, "left"), (-4, 2, "right"), (-4, -8, "right")):
            left = here[0] + dx if align == "left" else here[0] + dx - size
            box = (left, here[1] + dy, left + size, here[1] + dy + 8)
            if all(box[2] < t[0] or t[2] < box[0] or box[3] < t[1] or t[3] < box[1] for t in taken):
                taken.append(box)
                ax.annotate(word, at, xytext=(dx, dy), textcoords="offset points", fontsize=8, ha=align)
                break


def plot_interactions(found: Explanations, top: int = 25, ax: Any = None) -> Any:
    """Exact Shapley interactions of the `top` strongest players, in their order; their own values left out."""
    e = _method(found, "shapley")
    order = np.sort(np.argsort(-np.abs(e.scores), kind="stable")[:top])
    pairs = e.interactions()[np.ix_(order, order)]
    np.fill_diagonal(pairs, 0.0)
    most = float(np.abs(pairs).max()) or 1.0
    ax = _axes(ax, 2.5 + 0.25 * len(order), 2.0 + 0.25 * len(order))
    image = ax.imshow(pairs, cmap=_diverging(), vmin=-most, vmax=most, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="Shapley interaction", shrink=0.8)
    words = [e.labels[j] for j in order]
    _ticks(ax.xaxis, words, rotation=60, ha="right", rotation_mode="anchor")
    _ticks(ax.yaxis, words)
    ax.tick_params(length=0)
    return ax


# Each figure by name: how it is drawn, and the methods that it needs.
FIGURES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "table": (plot_table, ()),
    "slalom": (plot_slalom, ("slalom-value", "slalom-importance", "slalom-linear")),
    "lime": (plot_lime, ("lime",)),
    "attention": (plot_attention, ()),
    "gradient": (plot_gradient, ()),
    "interactions": (plot_interactions, ("shapley",)),
}
WIDE = ("table", "lime", "gradient")


def make_figure(found: Explanations, figure: str = "table", path: str | os.PathLike[str] | None = None) -> Any:
    """One of the figures by name, drawn without a display; saved to `path` if there is one.

    Returns
    -------
    matplotlib Figure
    """
    if figure not in FIGURES:
        raise ValueError(f"figure: expected one of {', '.join(FIGURES)}; got {figure!r}")
    draw, _ = FIGURES[figure]
    made = import_matplotlib("figure").Figure(figsize=(11 if figure in WIDE else 7.5, 5.5), layout="constrained")
    if figure == "attention":
        draw(found, axes=_grid(made, len(_asked(found, "attention-matrices"))))
    else:
        draw(found, ax=made.subplots())
    if path is not None:
        made.savefig(path, dpi=150)
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
