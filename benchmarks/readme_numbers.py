"""The table of numbers in README.md, made from the benchmarks' JSON files: `python -m benchmarks.readme_numbers`.

A row a promise ("bar") that a benchmark measured. Nothing in it is typed by hand; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .harness import RESULTS

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- numbers: made by python -m benchmarks.readme_numbers -->", "<!-- end of numbers -->"
# In the order of the README's own story.
ORDER = ("shapley", "shapley_scaling", "lime", "gradient", "slalom", "accuracy", "corpus", "device", "web")


def numbers_table(folder: Path = RESULTS) -> str:
    """The table, in Markdown."""
    lines = ["| benchmark | promise | measured | to be |", "|---|---|---|---|"]
    for name in ORDER:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        for bar in record["bars"]:
            sign = {">=": "at least", "<=": "at most"}[bar["relation"]]
            missed = "" if bar["met"] else " (missed)"
            module = name.removesuffix("_scaling")
            promise = bar["name"].replace("|", r"\|")
            lines.append(f"| `{module}` | {promise} | {bar['measured']:.3g}{missed} | {sign} {bar['limit']:g} |")
    return "\n".join(lines)


def with_numbers(readme: str, table: str) -> str:
    """The README's text with its table replaced.

    >>> with_numbers(f"a {BEGIN} old {END} b", "new").split()[-1]
    'b'
    """
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the table into the README."""
    README.write_text(with_numbers(README.read_text(encoding="utf-8"), numbers_table()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
