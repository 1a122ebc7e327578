"""The table of benchmarks with targets, BARS.md, from the benchmarks' JSON files: `python -m benchmarks.bars`.

One row per target ("bar") that a benchmark measured. Nothing in it is typed by hand; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .harness import RESULTS

PAGE = Path(__file__).with_name("BARS.md")
HEAD = """\
# Benchmarks with targets

Each row compares a measured number with its target; missed targets are marked. Made by `python -m benchmarks.bars`
from `benchmarks/results/*.json`, which also store machine, versions and seeds; do not edit. Timings are ratios within
one run, or seconds on two shared cores. "Error" is relative to the largest exact value. For the error of another tool,
the target is a lower limit: below it, the comparison of times would not be meaningful.

"""


def bars_page(folder: Path = RESULTS) -> str:
    """The page, in Markdown: one row per bar, benchmarks in alphabetical order."""
    lines = ["| benchmark | quantity | measured | target |", "|---|---|---|---|"]
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for bar in record.get("bars") or []:
            sign = {">=": "at least", "<=": "at most"}[bar["relation"]]
            missed = "" if bar["met"] else " (missed)"
            promise = bar["name"].replace("|", r"\|")
            lines.append(f"| `{path.stem}` | {promise} | {bar['measured']:.3g}{missed} | {sign} {bar['limit']:g} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write the page."""
    PAGE.write_text(bars_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
