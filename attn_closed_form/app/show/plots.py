"""Figures with matplotlib (extra `plots`) of the results of `explain`; each function draws into
Axes.

`plot_table` is Figure 1 of Lopardo et al. 2024. The figures of one text for papers are in
`text_figures.py`. Titles say what is shown, so that no figure needs a legend. No function touches
pyplot or changes matplotlib's settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._types import Array
from ..explanations.explain import explain_evidence
from ..explanations.explanation import Explanation, Explanations
from ..explanations.many import ManyExplanations, word_scores
from ..explanations.methods import METHODS, as_methods
from . import figures
from .drawing import (
    color_map,
    import_matplotlib,
    new_figure,
    plain_words,
    rgb,
    saved_figure,
    set_names,
)
from .effects import EffectChart, effect_chart, effect_range, unit_of_effects
from .figures import AGAINST, FOR, UNSIGNED
from .maps import OVER_THUMBNAIL, HeatMap, bag_name, heat_maps, maps_note, shades, slide_size
from .removals import DRAWN, removal_curves, share_of_best
from .sanitize import output_name, visible
from .text_figures import (
    plot_sentences,
    plot_text,
    plot_waterfall,
    sentences_size,
    text_size,
    waterfall_size,
)

# Width of a journal page (175 millimeters) in inches.
TWO_COLUMNS = 175 / 25.4
# The color of a strength of zero on paper.
WHITE = (255, 255, 255)


def plot_table(explanations: Explanations, ax: Any) -> None:
    """Draw all methods with one row per method and one column per player (the strongest if space is
    short).
    """
    # Number of names per inch of an axis that do not touch each other.
    names_per_inch = 7.0
    rows = list(explanations.values())
    labels = figures.names(explanations.evidence)
    fit = explanations.fit
    things = explanations.evidence.target.players
    room = max(4, int(names_per_inch * 0.8 * ax.figure.get_figwidth()))
    # The strongest words in the order of the text, so that they can be read.
    order = np.sort(figures.strongest_players(explanations, room))
    gray = color_map(WHITE, UNSIGNED)
    signed = color_map(AGAINST, WHITE, FOR)
    # Gray for methods without a sign: orange would claim a direction that they do not have.
    strengths = ((e.info.kind == "signed", e.strength[order]) for e in rows)
    cells = [signed((strength + 1) / 2) if sign else gray(strength) for sign, strength in strengths]
    ax.imshow(np.stack(cells), interpolation="nearest", aspect="auto")
    set_names(ax.xaxis, [labels[j] for j in order], upright=True)
    # A method that is always computed from the logit says so if another scale is explained.
    set_names(ax.yaxis, [_titled(e, explanations) for e in rows], longest=34)
    output = output_name(explanations.output)
    title = [
        figures.headline(explanations),
        f"Orange raises {output}, blue lowers it, gray has no sign.",
        "Each row is scaled to its strongest value.",
    ]
    if room < len(labels):
        title.append(f"The {room} strongest of {len(labels)} {things}.")
    if fit is not None:
        title.append(f"{fit.name}, error {fit.error:.2g} on held-out samples")
    ax.set_title("\n".join(plain_words(title, 120)), fontsize=8.5, loc="left")


def _titled(e: Explanation, explanations: Explanations) -> str:
    """Return the label of a method, with its scale if that is not the explained one."""
    if e.scale == explanations.scale:
        return e.title
    return f"{e.title} ({e.scale.name})"


def plot_interactions(explanations: Explanations, ax: Any, top: int = 25) -> None:
    """Draw the exact Shapley interactions of the `top` strongest players in text order, without the
    diagonal.
    """
    e = explanations["shapley"]
    order = np.sort(np.argsort(-np.abs(e.scores), kind="stable")[:top])
    pairs = e.scale.unit["factor"] * e.interactions()[np.ix_(order, order)]
    # The values of single players are much larger than those of pairs, and would wash them out.
    np.fill_diagonal(pairs, 0.0)
    # A color scale needs a length, even if all interactions are 0.
    end = float(np.abs(pairs).max()) or 1.0
    # No smoothing: every cell is one pair of words.
    image = ax.imshow(
        pairs, interpolation="nearest", cmap=color_map(AGAINST, WHITE, FOR), vmin=-end, vmax=end
    )
    words = [e.labels[j] for j in order]
    set_names(ax.xaxis, words, upright=True)
    set_names(ax.yaxis, words)
    ax.figure.colorbar(image, ax=ax, label=e.scale.titled("Shapley interaction"), shrink=0.8)
    what = e.scale.of_output(visible(e.output))
    title = f"Pairs of words and {what}.\nOrange: more together than the sum of both. Blue: less."
    ax.set_title(title.replace("$", r"\$"), fontsize=8.5, loc="left")


def plot_lime(explanations: Explanations, ax: Any, runs: int = 50, top: int = 40) -> None:
    """Draw the errors of `runs` runs of sampled LIME (5000 samples) around its exact limit.

    There is one dot per run and player, for the `top` players with the largest coefficients.
    `explanations` must have the method "lime".
    """
    exact = explanations["lime"]
    evidence = explanations.evidence
    order = np.argsort(-np.abs(exact.scores), kind="stable")[:top]
    sampled = np.stack([sample.coef for sample in evidence.sampled_lime(runs)])
    # Errors instead of values: the spread would be invisible next to the values.
    errors = exact.scale.unit["factor"] * (sampled - exact.scores)[:, order]
    at = np.tile(np.arange(len(order)), runs)
    ax.axhline(0, color=rgb(FOR))
    ax.plot(at, errors.ravel(), "o", color=rgb(AGAINST), alpha=0.35, markersize=3, linewidth=0)
    words = figures.names(evidence)
    set_names(ax.xaxis, [words[j] for j in order], upright=True)
    ax.set_ylabel(exact.scale.titled("error of the LIME coefficient"), fontsize=8)
    # The order of the five strongest words is what most readers look at.
    strongest = np.argsort(-np.abs(sampled), axis=1, kind="stable")[:, :5]
    changed = int((strongest != order[:5]).any(axis=1).sum())
    title = (
        f"{runs} runs of sampled LIME (dots) around its exact limit (line). In {changed or 'none'} "
        f"of them, the five strongest {evidence.target.players} are others, or in another order."
    )
    ax.set_title(title, fontsize=8, loc="left", wrap=True)


class Plot(NamedTuple):
    """A plot: its function, the methods that it needs, its width in inches, and its height or a
    function for its size.
    """

    draw: Callable[[Explanations, Any], None]
    methods: tuple[str, ...]
    width: float
    height: float | Callable[[Explanations, float], tuple[float, float]]

    def size(self, explanations: Explanations) -> tuple[float, float]:
        """Return the size of the figure in inches."""
        if callable(self.height):
            return self.height(explanations, self.width)
        return self.width, self.height


def plot_removal(explanations: Explanations, ax: Any) -> None:
    """Draw the prediction as players are removed, highest score first, above the certified minimum.

    Each curve has its label at the line: the flip order, Shapley values, leave-one-out and
    attention, as far as they were computed. The table of a report has the others.
    """
    # The color and the line of each curve of `removals.DRAWN`, which differ without color, too.
    # Orange and blue are not among them, because they mean for and against.
    removal_styles = (
        ("black", "-"),
        ("#00785c", "--"),
        ("#a0527d", "-."),
        ("#6e6e6e", ":"),
    )
    curves = removal_curves(explanations)
    chosen = [method for method in DRAWN if method in curves]
    # Without one of the four, the methods that were asked for are drawn.
    if not chosen:
        chosen = list(curves)[: len(DRAWN)]
    evidence = explanations.evidence
    factor = explanations.scale.unit["factor"]
    first = curves[chosen[0]]
    limit = factor * first.bounds.proved_min
    lowest = float(limit.min())
    ax.fill_between(first.absent, lowest, limit, color="0.9", linewidth=0)
    # There may be fewer curves than styles.
    styles = zip(chosen, removal_styles, strict=False)
    for number, (method, (color, style)) in enumerate(styles):
        each = curves[method]
        heights = factor * each.deletion
        label = METHODS[method].label
        ax.plot(each.absent, heights, color=color, linestyle=style, linewidth=2, label=label)
        # Labels are in different parts of the axis, so that they cannot cover each other.
        at = int((number + 0.5) / len(chosen) * (len(heights) - 1))
        share = share_of_best(each.deletion_share, evidence.pooled.H)
        ax.annotate(
            f"{label}: {share}",
            (each.absent[at], heights[at]),
            xytext=(0, 4),
            textcoords="offset points",
            color=color,
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        )
    ax.margins(x=0.01)
    what = visible(explanations.scale.of_output(explanations.output)).removeprefix("the ")
    if explanations.scale.in_percent:
        what += " (%)"
    things = evidence.target.players
    ax.set(
        xlabel=f"{things} removed, highest score first (with all removed: the baseline)",
        ylabel=what,
    )
    ax.set_title(
        f"The prediction as {things} are removed. 100%: as good as the best order. Gray: no order "
        "gets there.",
        fontsize=8,
        loc="left",
    )


def draw_effects(ax: Any, chart: EffectChart, title: str, label: str) -> None:
    """Draw the effects of words as diverging bars with their 95% intervals, the first word on
    top.
    """
    # The axis of matplotlib goes upwards, and the first word belongs on top.
    places = np.arange(len(chart.bars))[::-1]
    colors = {"for": rgb(FOR), "against": rgb(AGAINST)}
    for place, bar in zip(places.tolist(), chart.bars, strict=True):
        ax.barh(place, bar.right - bar.left, left=bar.left, color=colors[bar.kind], height=0.7)
        ax.plot(
            [bar.interval_left, bar.interval_right], [place, place], color="0.15", linewidth=1.2
        )
        # The number is next to the interval, on the side away from zero.
        number = bar.text.replace("-", "\N{MINUS SIGN}")
        if bar.kind == "for":
            end = max(bar.right, bar.interval_right)
            ax.annotate(
                number, (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8
            )
        else:
            end = min(bar.left, bar.interval_left)
            options = {"textcoords": "offset points", "va": "center", "ha": "right", "fontsize": 8}
            ax.annotate(number, (end, place), (-4, 0), **options)
    words = plain_words(bar.word for bar in chart.bars)
    names = [
        f"{word}  (n = {bar.documents:,})" for word, bar in zip(words, chart.bars, strict=True)
    ]
    ax.set_yticks(places, names, fontsize=8)
    ax.set_xticks(*_ticks(chart.ticks), fontsize=8)
    ax.axvline(chart.zero, color="0.3", linewidth=0.8)
    # Room for the numbers on both sides.
    ax.set_xlim(-0.16, 1.16)
    ax.tick_params(length=0)
    ax.margins(y=0.02)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.set_xlabel(f"{label}; line: 95% interval; n: texts with the word", fontsize=8)
    ax.set_title(*plain_words([title], 100), fontsize=10, loc="left")


def _ticks(ticks: Sequence[tuple[float, str]]) -> tuple[list[float], list[str]]:
    """Return the places and the names of the ticks of an axis in unit coordinates."""
    return [at for at, _ in ticks], [text.replace("-", "\N{MINUS SIGN}") for _, text in ticks]


def plot_bar(
    many: ManyExplanations,
    path: str | os.PathLike[str] | None = None,
    n: int = 20,
    by: str = "total",
) -> Any:
    """Draw the mean effects of the n strongest words with 95% intervals, one panel per output."""
    figure, panels = _panels(many, n)
    for output, ax in panels.items():
        effects = many.effects(output, n, by)
        scale = many.of_output(output)[0].scale
        chart = effect_chart(effects, scale, by, axis=effect_range(effects, by))
        label = unit_of_effects(by, scale.in_percent)
        draw_effects(ax, chart, title=_title_of_many(many, output), label=label)
    return saved_figure(figure, path)


def plot_beeswarm(
    many: ManyExplanations,
    path: str | os.PathLike[str] | None = None,
    n: int = 15,
    by: str = "total",
) -> Any:
    """Draw the score of each of the n strongest words in each input as a dot, one panel per
    output.
    """
    # Tuning: the number of columns of a beeswarm, about the width of a figure in dots.
    bins = 110
    figure, panels = _panels(many, n)
    for output, ax in panels.items():
        of_output = many.of_output(output)
        effects = of_output.effects(output, n, by)
        scale = of_output[0].scale
        scores = [word_scores(explanation) for explanation in of_output]
        places = np.arange(len(effects))[::-1].tolist()
        # A word that a text does not have has no dot there, instead of one at zero.
        dots = [
            scale.unit["factor"]
            * np.array([each[effect.word] for each in scores if effect.word in each])
            for effect in effects
        ]
        # Zero is on the axis, also if no dot is near it.
        span = float(np.ptp(np.concatenate([np.zeros(1), *dots]))) or 1.0
        for place, values in zip(places, dots, strict=True):
            # A row is 0.8 high; dots that would lie upon each other move up and down.
            heights = place + swarm(values, span / bins, 0.4)
            colors = [rgb(FOR) if value >= 0 else rgb(AGAINST) for value in values]
            ax.scatter(values, heights, s=9, c=colors, alpha=0.75, linewidths=0)
        words = plain_words(effect.word for effect in effects)
        counts = (effect.documents for effect in effects)
        names = [f"{word}  (n = {count:,})" for word, count in zip(words, counts, strict=True)]
        ax.set_yticks(places, names, fontsize=8)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=8)
        ax.axvline(0, color="0.3", linewidth=0.8)
        ax.set_ylim(-0.7, len(effects) - 0.3)
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        unit = ", in percentage points" if scale.in_percent else ""
        ax.set_xlabel(
            f"effect in one text{unit}; one dot per text; n: texts with the word", fontsize=8
        )
        ax.set_title(*plain_words([_title_of_many(many, output)], 100), fontsize=10, loc="left")
    return saved_figure(figure, path)


def swarm(values: Array, bin_width: float, most: float) -> Array:
    """Return an offset for each value, at most `most`, so that values in the same bin do not cover
    each other.

    The first one of a bin is in the middle, the next ones are above and below it in turn.

    >>> swarm(np.array([0.0, 0.01, 0.02, 5.0]), 1.0, 0.4).tolist()
    [0.0, 0.08, -0.08, 0.0]
    """
    bins = np.floor(values / bin_width).astype(np.int64)
    offsets = np.zeros(len(values))
    for number in np.unique(bins).tolist():
        members = np.flatnonzero(bins == number)
        ranks = np.arange(len(members))
        # Above and below in turn keeps the cloud symmetric, so that only its width says how many
        # there are.
        sides = np.where(ranks % 2 == 1, 1, -1)
        steps = sides * ((ranks + 1) // 2)
        # A fifth of the height of a row to each next dot, or less if there are many.
        step = min(most / 5, most / max(1, len(members) // 2))
        offsets[members] = step * steps
    return offsets


def _panels(many: ManyExplanations, n: int) -> tuple[Any, dict[str, Any]]:
    """Return a figure with one panel per output, and the panels by output."""
    outputs = list(dict.fromkeys(many.outputs))
    # Inches of a row, and of everything else in its panel.
    heights = [1.1 + 0.27 * len(many.effects(output, n)) for output in outputs]
    figure = new_figure((TWO_COLUMNS, sum(heights)))
    axes = figure.subplots(len(outputs), squeeze=False, height_ratios=heights)[:, 0]
    return figure, dict(zip(outputs, axes, strict=True))


def _title_of_many(many: ManyExplanations, output: str) -> str:
    """State what a figure of several inputs shows."""
    of_output = many.of_output(output)
    inputs = "1 text" if len(of_output) == 1 else f"{len(of_output):,} texts"
    what = of_output[0].scale.of_output(visible(output))
    return f"Words that raise (orange) or lower (blue) {what}, {inputs}"


# The figures by name, as `plot` and `--figure` take them.
FIGURES: dict[str, Plot] = {
    "table": Plot(draw=plot_table, methods=(), width=TWO_COLUMNS, height=4.6),
    "text": Plot(draw=plot_text, methods=(), width=TWO_COLUMNS, height=text_size),
    "waterfall": Plot(draw=plot_waterfall, methods=(), width=TWO_COLUMNS, height=waterfall_size),
    "sentences": Plot(draw=plot_sentences, methods=(), width=TWO_COLUMNS, height=sentences_size),
    "lime": Plot(draw=plot_lime, methods=("lime",), width=TWO_COLUMNS, height=3.6),
    "removal": Plot(draw=plot_removal, methods=(), width=TWO_COLUMNS, height=3.6),
    "interactions": Plot(draw=plot_interactions, methods=("shapley",), width=5.5, height=5.2),
}


def make_figure(
    explanations: Explanations, figure: str = "table", path: str | os.PathLike[str] | None = None
) -> Any:
    """Draw one of `FIGURES` as a matplotlib Figure without a display, and save it if `path` is
    given.
    """
    if figure not in FIGURES:
        raise ValueError(f"figure: expected one of {', '.join(FIGURES)}; got {figure!r}")
    plot = FIGURES[figure]
    missing = [name for name in plot.methods if name not in explanations]
    logit = explanations.evidence.target.logit
    if missing and explanations.evidence.has_reasons and logit is not None:
        # The logit has exact values where the probability has none.
        evidence = explanations.evidence.on(logit)
        explanations = explain_evidence(evidence, as_methods(plot.methods), strict=True)
        missing = []
    if missing:
        raise ValueError(
            f"figure: expected the method {missing[0]!r} among the explanations, got "
            f"{', '.join(explanations)}"
        )
    canvas = new_figure(plot.size(explanations))
    plot.draw(explanations, canvas.subplots())
    return saved_figure(canvas, path)


def save_figure(explanations: Explanations, figure: str, path: str | os.PathLike[str]) -> Path:
    """Save a figure atomically (as PNG if `path` has no suffix), and return the path of the
    file.
    """
    # A name without a suffix would make matplotlib guess the format.
    if Path(path).suffix:
        target = Path(path)
    else:
        target = Path(f"{os.fspath(path)}.png")
    make_figure(explanations, figure, target)
    return target


def heat_map(
    explanations: Explanations | Sequence[Explanations],
    path: str | os.PathLike[str] | None = None,
    method: str | None = None,
    *,
    thumbnail: Any = None,
    dpi: int = 150,
) -> Any:
    """Draw a map of the tiles that support or oppose an output; all panels of scores share one
    scale.

    Parameters
    ----------
    explanations : the result of `explain` for a bag with coordinates, or several results for one
        map per output, such as `list(explain_outputs(model, bag).values())`
    path : file to save the figure to (.png, .svg, .pdf, ...), or None
    method : the method whose scores are drawn; by default Shapley values, or the first signed
        method
    thumbnail : picture of the whole slide to draw underneath: an array (rows, columns[, 3 or 4]) or
        the path of an image. The default is the attribute `thumbnail` of the bag, which reports
        also show. Without level0_width and level0_height among the attributes of the bag, it is
        assumed to end at the last tiles
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
    >>> network = {
    ...     "attention.0.weight": rng.normal(size=(3, 5)),
    ...     "attention.2.weight": rng.normal(size=(1, 3)),
    ...     "classifier.weight": rng.normal(size=(2, 5)),
    ... }
    >>> model = acf.BagClassifier.from_state_dict(
    ...     network, layout="xmil", outputs=["normal", "tumor"]
    ... )
    >>> figure = heat_map(model.explain(bag, ["shapley"], output="tumor"))
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['Shapley: evidence for tumor (probability 34.9%)', 'Attention']
    """
    # Tuning: the width of one panel of heat maps in inches.
    panel = 4.6
    if isinstance(explanations, Explanations):
        several = [explanations]
    else:
        several = list(explanations)
    if not several:
        raise ValueError("explanations: expected at least one explained output, got none")
    maps = heat_maps(several, method)
    if thumbnail is None:
        thumbnail = several[0].evidence.units.attrs.get("thumbnail")
    left, top, right, bottom = maps[0].raster.box
    # Panels of very long or very narrow slides keep a readable shape.
    tall = panel * float(np.clip((bottom - top) / (right - left), 0.35, 1.6)) + 0.9
    size = (panel * min(len(maps), 3), tall * -(-len(maps) // 3))
    figure = new_figure(size)
    if thumbnail is None:
        under = None
    else:
        under = _thumbnail(thumbnail, several[0])
    panels = figure.subplots(-(-len(maps) // 3), min(3, len(maps)), squeeze=False).ravel()
    for ax, drawn in zip(panels, maps, strict=False):
        _draw_map(ax, drawn, under)
    for empty in panels[len(maps) :]:
        empty.remove()
    # The name of the slide belongs to all panels.
    figure.suptitle(*plain_words([bag_name(several[0], "")], 60), fontsize=11)
    below = []
    if any(len(drawn.outlines) for drawn in maps):
        below.append(maps_note(several[0]))
    if doubts := several[0].evidence.model.doubts:
        below.append(doubts)
    if below:
        figure.supxlabel("\n".join(plain_words(below, 200)), fontsize=7)
    return saved_figure(figure, path, dpi)


def _draw_map(ax: Any, figure: HeatMap, under: Any) -> None:
    # Dots along a panel at the default resolution; cells below one dot are averaged.
    dots = 600
    left, top, right, bottom = figure.raster.box
    if under is not None:
        image, (width, height) = under
        # Coordinates on a slide go down, and those of the axes go up, so the extent is upside down.
        ax.imshow(image, extent=(0, width, height, 0), interpolation="antialiased", cmap="gray")
    pixels = figure.pixels()
    alpha = 1.0 if under is None else OVER_THUMBNAIL
    # Cells keep sharp edges, unless they are smaller than a dot, which then shows the mean of its
    # cells.
    if max(pixels.shape[:2]) <= dots:
        how = "nearest"
    else:
        how = "antialiased"
    ax.imshow(pixels, extent=(left, right, bottom, top), interpolation=how, alpha=alpha)
    if under is None:
        ax.set(xlim=(left, right), ylim=(bottom, top))
    for left_of, top_of, right_of, bottom_of in figure.outlines.tolist():
        corners = [left_of, right_of, right_of, left_of, left_of]
        heights = [top_of, top_of, bottom_of, bottom_of, top_of]
        ax.plot(corners, heights, color="black", linewidth=0.9)
    ax.set(xticks=[], yticks=[])
    ax.set_title(*plain_words([figure.title], 60), fontsize=10)
    for edge in ax.spines.values():
        edge.set_color("0.8")
    end = figure.end
    signed = figure.signed
    scale = import_matplotlib("colors").Normalize(-end if signed else 0.0, end)
    mappable = import_matplotlib("cm").ScalarMappable(scale, color_map(*shades(signed)))
    if not figure.cut:
        extend = "neither"
    elif signed:
        extend = "both"
    else:
        extend = "max"
    bar = ax.figure.colorbar(
        mappable, ax=ax, orientation="horizontal", fraction=0.045, pad=0.02, extend=extend
    )
    shown = figure.scale.end(end)
    if signed:
        ticks = {-end: f"\N{MINUS SIGN}{shown}, against", 0: "0", end: f"+{shown}, for"}
    else:
        ticks = {0: "0", end: f"{end:.1%} of the attention"}
    bar.set_ticks(list(ticks), labels=list(ticks.values()), fontsize=8)
    # The labels at the ends begin and end with the bar.
    labels = bar.ax.get_xticklabels()
    labels[0].set_ha("left")
    labels[-1].set_ha("right")
    bar.outline.set_visible(False)


def _thumbnail(thumbnail: Any, explanations: Explanations) -> tuple[Any, tuple[float, float]]:
    """Return the picture, and the width and height of the area that it shows."""
    if isinstance(thumbnail, str | os.PathLike):
        thumbnail = import_matplotlib("image").imread(thumbnail)
    image = np.asarray(thumbnail)
    if image.ndim not in (2, 3) or 0 in image.shape:
        raise ValueError(
            f"thumbnail: expected an array (rows, columns[, 3 or 4]), got shape {image.shape}"
        )
    return image, slide_size(explanations)
