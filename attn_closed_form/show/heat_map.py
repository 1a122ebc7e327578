"""Signed heat maps of a bag over its coordinates, with matplotlib (extra `plots`).

One panel per explained output, attention beside them. Every panel of scores has the same scale, zero in its middle;
tiles are drawn as tiles (`tiles.py`), over a thumbnail of the slide where there is one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import Array
from ..explanations.explanation import Explanations
from ..files.atomic import replacing
from .bag_scores import attention, bag_name, leading, place, tile_scores
from .palette import AGAINST, FOR, UNSIGNED
from .plots import import_matplotlib
from .sanitize import elide, visible
from .tiles import ZERO, picture, rasterise, scale_end

# Opacity of the tiles over a thumbnail.
OVER_THUMBNAIL = 0.6
PANEL = 4.6  # inches
DOTS = 600  # along a panel at the default resolution


def heat_map(
    found: Explanations | Sequence[Explanations],
    path: str | os.PathLike[str] | None = None,
    method: str | None = None,
    *,
    show_attention: bool = True,
    limit: float | None = None,
    patch_size: float | None = None,
    thumbnail: Any = None,
    slide_size: tuple[float, float] | None = None,
    alpha: float | None = None,
    title: str | None = None,
    dpi: int = 150,
) -> Any:
    """Draw where a bag speaks for an output and where against it.

    Parameters
    ----------
    found : what `explain` returned for a bag with coordinates, or several of them for one map per output, such as
        `list(explain_outputs(model, bag).values())`
    path : where to save the figure (.png, .svg, .pdf, ...); None saves nothing
    method : whose scores; default Shapley values, else the first method with a sign
    show_attention : a panel with the attention that the model pays, if it shows any
    limit : score at which the colours end; default: the largest magnitude but for the most extreme 0.5 % of the tiles
    patch_size : side of a tile, in the unit of the coordinates, if the file of the bag does not say it
    thumbnail : picture of the whole slide to draw underneath: an array (rows, columns[, 3 or 4]) or the path of an
        image
    slide_size : width and height of what the thumbnail shows, in the unit of the coordinates; default: what the file of
        the bag says, else the right and lower edge of the last tiles
    alpha : opacity of the tiles; default 1, or 0.6 over a thumbnail
    title : above the figure; default: the name of the bag
    dpi : dots per inch of the saved file

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import attn_closed_form as acf
    >>> rng = np.random.default_rng(0)
    >>> coords = [[256 * x, 256 * y] for x in range(4) for y in range(3)]
    >>> bag = acf.Bag(rng.normal(size=(12, 5)), coords=coords)
    >>> network = {"attention.0.weight": rng.normal(size=(3, 5)), "attention.2.weight": rng.normal(size=(1, 3)),
    ...            "classifier.weight": rng.normal(size=(2, 5))}
    >>> model = acf.BagClassifier.from_state_dict(network, layout="xmil", outputs=["normal", "tumour"])
    >>> figure = heat_map(model.explain(bag, ["shapley"], output="tumour"))
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['Shapley: tumour +0.06474', 'attention']
    """
    several = [found] if isinstance(found, Explanations) else list(found)
    if not several:
        raise ValueError("found: expected at least one explained output, got none")
    where = place(several[0], patch_size)
    scores = [tile_scores(leading(each, method)) for each in several]
    end = scale_end(np.concatenate(scores)) if limit is None else float(limit)
    if not (np.isfinite(end) and end > 0):
        raise ValueError(f"limit: expected a number above 0, got {limit}")
    weight = attention(several[0]) if show_attention else None
    panels: list[tuple[Array, bool, float, str]] = [
        (values, leading(each, method).info.kind == "signed", end, _title(each, method))
        for each, values in zip(several, scores, strict=True)
    ]
    if weight is not None:
        panels.append((weight, False, scale_end(weight), "attention"))
    figure, axes = _figure(len(panels), where.coords, where.patch_size)
    under = None if thumbnail is None else _thumbnail(thumbnail, several[0], where, slide_size)
    opacity = alpha if alpha is not None else 1.0 if under is None else OVER_THUMBNAIL
    for ax, (values, signed, stop, name) in zip(axes, panels, strict=True):
        raster = rasterise(where.coords, values, where.patch_size)
        _draw(ax, picture(raster, stop, signed), raster.box, opacity, under)
        ax.set_title(name, fontsize=10)
        _colour_bar(figure, ax, signed, stop, bool((np.abs(values) > stop).any()))
    figure.suptitle(_plain(bag_name(several[0], "") if title is None else title), fontsize=11)
    if path is not None:
        with replacing(path) as partial:
            figure.savefig(partial, dpi=dpi)
    return figure


def _title(found: Explanations, method: str | None) -> str:
    return f"{leading(found, method).info.label}: {_plain(found.output)} {found.prediction:+.4g}"


def _plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return elide(visible(text), 60).replace("$", r"\$")


def _figure(panels: int, coords: Array, patch_size: float) -> tuple[Any, list[Any]]:
    """A figure whose panels have the shape of the slide, in rows of at most three."""
    width, height = np.ptp(coords, axis=0) + patch_size
    across = min(panels, 3)
    down = -(-panels // across)
    tall = PANEL * float(np.clip(height / width, 0.35, 1.6))
    figure = import_matplotlib("figure").Figure(figsize=(PANEL * across, (tall + 0.9) * down), layout="constrained")
    axes = np.ravel(figure.subplots(down, across, squeeze=False))
    for ax in axes[panels:]:
        ax.remove()
    return figure, list(axes[:panels])


def _draw(ax: Any, pixels: Any, box: tuple[float, float, float, float], alpha: float, under: Any) -> None:
    left, top, right, bottom = box
    if under is not None:
        image, (width, height) = under
        ax.imshow(image, extent=(0, width, height, 0), interpolation="antialiased", cmap="gray")
    # Cells keep their edges, unless they are smaller than a dot: then the mean of the cells beneath a dot is shown.
    how = "nearest" if max(pixels.shape[:2]) <= DOTS else "antialiased"
    ax.imshow(pixels, extent=(left, right, bottom, top), interpolation=how, alpha=alpha)
    if under is None:
        ax.set_xlim(left, right)
        ax.set_ylim(bottom, top)
    ax.set_xticks([])
    ax.set_yticks([])
    for edge in ax.spines.values():
        edge.set_color("0.8")


def _colour_bar(figure: Any, ax: Any, signed: bool, end: float, cut: bool) -> None:
    colors = import_matplotlib("colors")
    names = (AGAINST, ZERO, FOR) if signed else (ZERO, UNSIGNED)
    shades = colors.LinearSegmentedColormap.from_list("tiles", [tuple(c / 255 for c in rgb) for rgb in names])
    scale = colors.Normalize(-end if signed else 0.0, end)
    mappable = import_matplotlib("cm").ScalarMappable(scale, shades)
    extend = "neither" if not cut else "both" if signed else "max"
    ticks = [-end, 0, end] if signed else [0, end]
    bar = figure.colorbar(mappable, ax=ax, orientation="horizontal", fraction=0.045, pad=0.02, extend=extend)
    bar.set_ticks(ticks, labels=_tick_names(ticks, signed), fontsize=8)
    bar.outline.set_visible(False)


def _tick_names(ticks: Sequence[float], signed: bool) -> list[str]:
    if not signed:
        return [f"{tick:.2g}" for tick in ticks]
    return [f"{ticks[0]:.2g} against", "0", f"for +{ticks[2]:.2g}"]


def _thumbnail(thumbnail: Any, found: Explanations, where: Any, size: tuple[float, float] | None) -> Any:
    if isinstance(thumbnail, str | os.PathLike):
        thumbnail = import_matplotlib("image").imread(thumbnail)
    image = np.asarray(thumbnail)
    if image.ndim not in (2, 3) or 0 in image.shape:
        raise ValueError(f"thumbnail: expected an array (rows, columns[, 3 or 4]), got shape {image.shape}")
    attrs = found.evidence.units.attrs
    if size is None and {"level0_width", "level0_height"} <= set(attrs):
        size = (float(np.ravel(attrs["level0_width"])[0]), float(np.ravel(attrs["level0_height"])[0]))
    if size is None:
        right, bottom = where.coords.max(axis=0) + where.patch_size
        size = (float(right), float(bottom))
    if not (len(size) == 2 and min(size) > 0):
        raise ValueError(f"slide_size: expected a width and a height above 0, got {size}")
    return image, size
