"""The table of benchmarks with targets, BARS.md, from the benchmarks' JSON files: `python -m
benchmarks.bars`.

One row per target ("bar") that a benchmark measured. Nothing in it is typed by hand; a test fails
when it is stale.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from .harness import RESULTS

PAGE = Path(__file__).with_name("BARS.md")
HEAD = """\
<!-- Made by `python -m benchmarks.bars` from `benchmarks/results/*.json`; do not edit. -->

# Benchmarks with targets

Each row compares a measured number with its target; missed targets are marked. The files in `benchmarks/results` also
store the machine, the versions and the seeds. Timings are ratios within one run, or seconds on two shared cores.
"Error" is relative to the largest exact value, and "over" is a ratio. For the error of another tool, the target is a
lower limit: below it, the comparison of times would not be meaningful.

"""
#: Patterns in the stored names of quantities, and what the pages print instead.
WORDS = {
    r"^seconds, one head$": "`bounds_by_size`, 100,000 players, 200 sizes, one head: seconds",
    r"^test accuracy$": "accuracy of the shipped model on IMDB's test reviews",
    r"^(\w+), 5 times ten-fold$": r"accuracy on \1, ten-fold cross-validation, 5 times",
    r"^times lime's rate, logits$": "documents per second over those of lime, logits",
    r"^rows doubled$": "rows repeated",
    r"^one document, autodiff time / closed form time$": (
        "time of autodiff over that of the closed form, one document"
    ),
    r"^outside in (.*)$": r"results outside the bound, \1",
    r"^(crashes|NaN) in (.*)$": r"\1, \2",
    r"^largest ratio of (.*)$": r"largest error found over its bound, \1",
    r"^defects of the search$": "crashes, NaN and named tolerances that do not hold, search",
    r"^named tol fails in (.*)$": r"named tolerances that do not hold, \1",
    r"^times faster than 5,000 samples with prediction$": (
        "time of lime (5,000 samples, through the model) over ours"
    ),
    r"^times faster than 5,000 samples with game.value$": (
        "time of lime (5,000 samples, through game.value) over ours"
    ),
    r"^error of lime with prediction$": "error of lime (5,000 samples, through the model)",
    r"^error of lime with game.value$": "error of lime (5,000 samples, through game.value)",
    r"^share of the package's ten features$": (
        "share of lime's ten features that the limit also selects"
    ),
    r"KernelSHAP through (.*), times ours$": (
        r"time of KernelSHAP (20,000 samples, through \1) over ours"
    ),
    r"model calls over the package's$": "model calls minus those of slalom-explanations",
    r"package's time / ours$": "time of slalom-explanations over ours",
    r"^time of our fit / the package's": "time of our fit over that of slalom-explanations",
    r"^our model calls / the package's": "our model calls over those of slalom-explanations",
    r"^model calls, largest of ours / package's$": (
        "our model calls over those of slalom-explanations, largest"
    ),
    r"mse": "mean squared error",
    r"(median|largest) of ours / package's best$": r"ours over the best of slalom-explanations, \1",
    r"ours / package's best$": "ours over the best of slalom-explanations",
    r"where ours is smaller": "where the error of our fit is smaller",
    r"^largest \|v\| of ours / range of the outputs$": (
        "largest |v| of our fit over the range of the outputs"
    ),
    r"ours / package with 60 epochs$": "ours over slalom-explanations with 60 epochs",
    r"^(.*), times the cost of Shapley values$": r"time of \1 values over that of Shapley values",
    r"probability over logit$": "time for the probability over time for the logit",
    r"^the same, smallest.*": (
        "variance of permutation sampling over that with control variates, smallest"
    ),
    r"accuracy % over the best baseline$": "accuracy in %; the target is that of the best baseline",
    r"accuracy %$": "accuracy in %",
    r"error of ours at": "error of our values at",
    r"^of these, seconds without the transformer$": "seconds outside the transformer, same run",
    r"^models of 4 that meet all three$": "number of models, of 4, that meet these three targets",
}


def quantity(name: str) -> str:
    """The name of a measured quantity, as an outsider reads it."""
    for pattern, text in WORDS.items():
        name = re.sub(pattern, text, name)
    return name


def number(value: float) -> str:
    """Three digits; large numbers without an exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def bars_page(folder: Path = RESULTS) -> str:
    """The page, in Markdown: one row per bar, benchmarks in alphabetical order."""
    lines = ["| benchmark | quantity | measured | target |", "|---|---|---|---|"]
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for bar in record.get("bars") or []:
            sign = {">=": "at least", "<=": "at most"}[bar["relation"]]
            missed = "" if bar["met"] else " (missed)"
            name = quantity(bar["name"]).replace("|", r"\|")
            lines.append(
                f"| `{path.stem}` | {name} | {number(bar['measured'])}{missed} | {sign} "
                f"{bar['limit']:,g} |"
            )
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write the page."""
    PAGE.write_text(bars_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
