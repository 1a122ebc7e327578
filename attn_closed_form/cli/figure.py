"""`attn-closed-form explain --plot FILE --figure NAME`: one of the plots into a file, without a display."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..classifier.weights import AttentionWeights
from ..explainable.text import Vocabulary
from ..show.plots import (
    import_matplotlib,
    plot_attention,
    plot_gradient,
    plot_interactions,
    plot_lime,
    plot_slalom,
    plot_table,
)

FIGURES = ("table", "slalom", "lime", "attention", "gradient", "interactions")


def save_figure(
    path: str,
    figure: str,
    weights: AttentionWeights,
    vocabulary: Vocabulary,
    text: str,
    methods: str | Iterable[str] | None = None,
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    seed: int = 0,
) -> None:
    """Draw one of the figures into a file without a display; the command line's `--plot` and `--figure`."""
    game: dict[str, Any] = {"players": players, "absent": absent, "output": output}
    model = (weights, vocabulary, text)
    wide = figure in ("table", "lime", "gradient")
    made = import_matplotlib("figure").Figure(figsize=(11 if wide else 7.5, 5.5), layout="constrained")
    if figure == "attention":
        columns = min(3, weights.K)
        plot_attention(
            *model, axes=made.subplots(-(-weights.K // columns), columns, squeeze=False).ravel()[: weights.K]
        )
        for empty in made.axes[weights.K :]:
            empty.set_axis_off()
    elif figure == "table":
        plot_table(*model, methods, ax=made.subplots(), tol=tol, seed=seed, **game)
    elif figure == "lime":
        plot_lime(*model, seed=seed, ax=made.subplots(), **game)
    elif figure == "gradient":
        plot_gradient(*model, output, ax=made.subplots())
    elif figure == "slalom":
        plot_slalom(*model, players=players, output=output, ax=made.subplots())
    elif figure == "interactions":
        plot_interactions(*model, ax=made.subplots(), **game)
    else:
        raise ValueError(f"figure: expected one of {', '.join(FIGURES)}; got {figure!r}")
    made.savefig(path, dpi=150)
