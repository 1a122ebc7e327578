"""The numbers of the technical report, from the stored results.

    python -m benchmarks.report_numbers     # docs/report/numbers.tex

`make report` runs it and compiles the report. Every number of the report is a macro of this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from attn_closed_form import __version__

from .harness import RESULTS
from .time_error import KERNEL, LIME, OURS_HEADS, OURS_LIME, OURS_LOGIT, OURS_SHAPLEY, PARTITION

NUMBERS = Path(__file__).parents[1] / "docs" / "report" / "numbers.tex"
HEAD = "% Made by `python -m benchmarks.report_numbers` from benchmarks/results.\n"
# Rows of the table of times: method, setting, and how the report names them.
TIMES = (
    (OURS_SHAPLEY, 1e-10, "exact Shapley values, default $\\tol$"),
    (KERNEL, 20_000, "KernelSHAP, 20{,}000 samples"),
    (PARTITION, 8_000, "partition SHAP, 8{,}000 calls"),
    (OURS_LIME, 1e-10, "LIME's limit, default $\\tol$"),
    (LIME, 5_000, "lime, 5{,}000 samples"),
    (OURS_LOGIT, 1e-10, "exact Shapley values of the logit instead"),
    (OURS_HEADS, 1e-10, "the same with six heads (random weights)"),
)
SCALING_PLAYERS = 100_000
# The corpus with one text of the rare class in fifty, where accuracy says little.
RARE = "1:50"


def stored(name: str) -> dict[str, Any]:
    """A stored result."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def bar(record: dict[str, Any], start: str) -> float:
    """The measured value of the bar whose name starts so."""
    return float(next(b["measured"] for b in record["bars"] if b["name"].startswith(start)))


def number(value: float) -> str:
    """A count with thin thousands separators."""
    return f"{value:,.0f}".replace(",", "{,}")


def milliseconds(seconds: float) -> str:
    """Milliseconds with two digits."""
    return number(float(f"{1000 * seconds:.2g}")) if seconds >= 0.01 else f"{1000 * seconds:.2g}"


def error(value: float) -> str:
    """An error, as a percentage or as a power of ten."""
    if value >= 1e-6:
        return f"{100 * value:.2g}\\%"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return f"${mantissa} \\cdot 10^{{{int(exponent)}}}$"


def macros() -> dict[str, str]:
    """Every macro of the report."""
    times = stored("time_error")
    at = {(row["method"], row["setting"]): row for row in times["rows"]}
    rows = [
        f"{name} & {milliseconds(at[method, setting]['seconds'])} ms "
        f"& {error(at[method, setting]['error'])} \\\\"
        for method, setting, name in TIMES
    ]
    attack = stored("guarantee")
    types = stored("guarantee_types")
    lime = stored("lime_defaults")
    reasons = stored("reasons")
    minimal = next(
        row["proved minimal"]
        for row in reasons["rows"]
        if row["method"] == "sufficient reason" and row["case"].startswith("500 test reviews")
    )
    scaling = next(
        row["seconds"]
        for row in stored("shapley_scaling")["rows"]
        if row["players"] == SCALING_PLAYERS
    )
    learning = []
    for row in stored("learning_curves")["rows"]:
        if row["corpus"].endswith(RARE):
            continue
        spread = row.get("standard error of the difference")
        difference = f" (difference ${row['difference']:+.1f} \\pm {spread:.1f}$)" if spread else ""
        learning.append(
            f"{row['corpus']}, {number(row['training texts'])} & {row['accuracy %']:.1f} "
            f"& {row['accuracy %, TF-IDF']:.1f}{difference} \\\\"
        )
    return {
        "Version": __version__,
        "ReviewWords": number(times["settings"]["words"]),
        "OursMilliseconds": milliseconds(at[OURS_SHAPLEY, 1e-10]["seconds"]),
        "OursError": error(at[OURS_SHAPLEY, 1e-10]["error"]),
        "KernelMilliseconds": milliseconds(at[KERNEL, 20_000]["seconds"]),
        "KernelError": error(at[KERNEL, 20_000]["error"]),
        "ReportRows": "\n".join(rows),
        "AttackGames": number(attack["settings"]["games"]),
        "AttackOutside": number(bar(attack, "outside in")),
        "TypeGames": number(types["settings"]["games"]),
        "TypeOutside": number(bar(types, "outside in")),
        "ScalingPlayers": number(SCALING_PLAYERS),
        "ScalingSeconds": f"{scaling:.2f}",
        "LimeRuns": number(lime["settings"]["runs"]),
        "LimeTexts": number(len(lime["rows"])),
        "LimeShare": f"{100 * bar(lime, 'share of words within'):.0f}\\%",
        "ReasonsMinimal": f"{100 * minimal:.0f}\\%",
        "ReasonsReviews": number(reasons["settings"]["reviews"]),
        "LearningRows": "\n".join(learning),
    }


def page() -> str:
    """The file of macros."""
    lines = [f"\\newcommand{{\\{name}}}{{{value}}}\n" for name, value in macros().items()]
    return HEAD + "".join(lines)


def main() -> int:
    """Write the file."""
    NUMBERS.write_text(page(), encoding="utf-8")
    print(f"wrote {NUMBERS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
