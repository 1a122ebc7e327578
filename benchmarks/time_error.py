"""How long does an explanation take, and how large is its error? A comparison with lime, KernelSHAP
and partition SHAP.

One document of 106 words and P1's model with six heads, whose absent words are replaced by [UNK].
Each rival gets more and more samples, as a user would call it: KernelSHAP and the lime package
through the model's prediction, shap's partition explainer (its default for texts) on the text. The
error is the largest deviation over the largest value, from exact Shapley values for both explainers
of shap, from the limit of LIME for lime. Partition SHAP only averages over orders that respect a
tree of adjacent words, so it converges to Owen values.

    python -m benchmarks.time_error     # results/time_error.json, docs/time-error.png and the table of README.md
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, lime_limit, shapley
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game, predict_many

from .harness import RESULTS, Bar, best_of, relative_error, report, show_seconds
from .lime import MASK, official, prediction, reference
from .models import needed_p1_model, random_document
from .shapley import kernel_shap

SEED = 0
WORDS = 106
WITNESS_TOL = 1e-12
TOLERANCES = (1e-3, 1e-6, 1e-10)
KERNEL_SAMPLES = (500, 2_000, 8_000, 20_000)
PARTITION_CALLS = (500, 2_000, 8_000)
LIME_SAMPLES = (500, 5_000, 50_000)
ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "time-error.png"
README = ROOT / "README.md"
TABLE = re.compile(r"(<!-- Made by `python -m benchmarks.time_error`. -->\n\n).*?(\n\n)", re.DOTALL)
OURS_SHAPLEY = "exact Shapley values (ours)"
OURS_LIME = "LIME's limit (ours)"
KERNEL = "KernelSHAP"
PARTITION = "partition SHAP"
LIME = "lime"
#: Color and mark of each method in the picture.
STYLES = {
    OURS_SHAPLEY: ("#d55e00", "o"),
    OURS_LIME: ("#e69f00", "D"),
    KERNEL: ("#0072b2", "s"),
    PARTITION: ("#009e73", "^"),
    LIME: ("#555555", "v"),
}
#: Which point of a method carries its name in the picture, and how far from it, in points.
LABELS = {
    OURS_SHAPLEY: (0, (10, 8)),
    OURS_LIME: (2, (10, -3)),
    KERNEL: (0, (-62, -14)),
    PARTITION: (0, (-80, 4)),
    LIME: (2, (8, -4)),
}


def timed(run: Callable[[], Array], repeats: int = 2) -> tuple[float, Array]:
    """Seconds of the fastest of some runs, and what the last one found; the first one warms caches
    and compiles.
    """
    seconds = np.inf
    found = np.zeros(0)
    for _ in range(repeats):
        np.random.seed(SEED)  # noqa: NPY002  # shap draws from the global state
        start = time.perf_counter()
        found = run()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, found


def our_shapley(weights: AttentionWeights, tokens: NDArray[np.intp], tol: float) -> Array:
    """Exact Shapley values from token ids, game included."""
    return shapley(pooled_game(weights, tokens), tol)


def our_lime(weights: AttentionWeights, tokens: NDArray[np.intp], tol: float) -> Array:
    """LIME's limit from token ids, game included."""
    return lime_limit(pooled_game(weights, tokens), tol=tol).coef


def partition_shap(function: Callable[[list[str]], Array], text: str, calls: int) -> Array:
    """Values of shap's partition explainer, one per word."""
    import shap

    # Without its spaces the mask would be glued to the next word.
    masker = shap.maskers.Text(r"\W+", mask_token=f" {MASK} ", collapse_mask_token=False)
    explainer = shap.PartitionExplainer(lambda texts: function(list(texts)), masker)
    return np.asarray(explainer([text], max_evals=calls, silent=True).values[0])


def measure() -> list[dict[str, Any]]:
    """One row per method and setting."""
    weights = needed_p1_model().weights
    weights.collapse  # noqa: B018  # built once per model, before any clock starts
    tokens = random_document(weights, WORDS, SEED + WORDS)
    game = pooled_game(weights, tokens)
    exact = shapley(game, WITNESS_TOL)
    limit = reference(game, 5_000)
    rows: list[dict[str, Any]] = []

    def add(method: str, setting: float, seconds: float, error: float) -> None:
        rows.append({"method": method, "setting": setting, "seconds": seconds, "error": error})
        print(f"  {method}, {setting:g}: {show_seconds(seconds)}, {error:.1e}", file=sys.stderr)

    # Ours first: shap leaves threads and compiled code behind that slow down whatever runs after
    # it.
    for tol in TOLERANCES:
        seconds = best_of(partial(our_shapley, weights, tokens, tol), repeats=60).best
        add(OURS_SHAPLEY, tol, seconds, relative_error(our_shapley(weights, tokens, tol), exact))
    for tol in TOLERANCES:
        seconds = best_of(partial(our_lime, weights, tokens, tol), repeats=60).best
        add(OURS_LIME, tol, seconds, relative_error(our_lime(weights, tokens, tol), limit))

    def on_masks(masks: Array) -> Array:
        return predict_many(weights, np.where(masks > 0.5, tokens, weights.unk))[:, 0]

    for samples in KERNEL_SAMPLES:
        seconds, found = timed(partial(kernel_shap, on_masks, WORDS, samples))
        add(KERNEL, samples, seconds, relative_error(found, exact))
    classify = prediction(weights, tokens)
    text = " ".join(f"word{token}" for token in tokens)
    for calls in PARTITION_CALLS:
        seconds, found = timed(
            partial(partition_shap, lambda texts: classify(texts)[:, 0], text, calls)
        )
        add(PARTITION, calls, seconds, relative_error(found, exact))
    for samples in LIME_SAMPLES:
        seconds, _, runs = official(tokens, classify, samples, 2)
        add(LIME, samples, seconds, relative_error(runs[-1], reference(game, samples)))
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time against error, one line per method, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for method, (color, mark) in STYLES.items():
        own = [row for row in rows if row["method"] == method]
        seconds = [row["seconds"] for row in own]
        errors = [max(row["error"], 1e-16) for row in own]
        axes.loglog(seconds, errors, color=color, marker=mark, linewidth=1.5)
        place, shift = LABELS[method]
        axes.annotate(
            method,
            (seconds[place], errors[place]),
            shift,
            textcoords="offset points",
            color=color,
            fontsize=9,
        )
    axes.annotate(
        "lower left is better",
        (0.5, 0.5),
        xycoords="axes fraction",
        color="#555555",
        fontsize=9,
        ha="center",
    )
    axes.set_xlabel("seconds for one document of 106 words")
    axes.set_ylabel("largest error")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def table(rows: list[dict[str, Any]]) -> str:
    """The table of the README: for each method the setting that people use."""
    lines = ["| one document of 106 words, six heads | time | largest error |", "|---|---:|---:|"]
    for method, setting, name in (
        (OURS_SHAPLEY, 1e-10, "**exact Shapley values**, default `tol`"),
        (KERNEL, 20_000, "KernelSHAP, 20,000 samples"),
        (PARTITION, 8_000, "partition SHAP, 8,000 calls"),
        (OURS_LIME, 1e-10, "**LIME's limit**, default `tol`"),
        (LIME, 5_000, "lime, 5,000 samples (its default)"),
    ):
        row = next(row for row in rows if row["method"] == method and row["setting"] == setting)
        if row["error"] < 1e-6:
            error = f"{row['error']:.0e}"
        else:
            error = f"{100 * row['error']:.2g} %"
        milliseconds = float(f"{1000 * row['seconds']:.2g}")
        lines.append(f"| {name} | {milliseconds:,g} ms | {error} |")
    return "\n".join(lines)


def with_table(page: str, rows: list[dict[str, Any]]) -> str:
    """The README with its table made anew."""
    return TABLE.sub(lambda match: match[1] + table(rows) + match[2], page)


def main() -> int:
    warnings.filterwarnings("ignore", module="shap")
    weights = needed_p1_model().weights
    rows = measure()
    at = {(row["method"], row["setting"]): row for row in rows}
    ours = at[OURS_SHAPLEY, 1e-10]
    settings = {"model": "P1's model, six heads", "words": WORDS, "K": weights.K, "absent": "[UNK]"}
    bars = [Bar("largest error of ours at the default tol", ours["error"], "<=", 1e-10)]
    good = report("time_error", rows, seed=SEED, settings=settings, bars=bars)
    record = json.loads((RESULTS / "time_error.json").read_text(encoding="utf-8"))
    draw(record["rows"], PICTURE)
    README.write_text(
        with_table(README.read_text(encoding="utf-8"), record["rows"]), encoding="utf-8"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
