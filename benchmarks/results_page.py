"""RESULTS.md from the JSON files of all benchmarks: every number on it was written by the run that
measured it.

    python -m benchmarks.results_page            # write benchmarks/RESULTS.md
    python -m benchmarks.results_page --check    # fail if it is stale

`--results FOLDER --out FILE` renders another folder, such as results/quick.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from .harness import RESULTS, module_of, show_seconds
from .papers.verdicts import verdict_table, verdicts

PAGE = RESULTS.parent / "RESULTS.md"
HEAD = """<!-- Made by `python -m benchmarks.results_page` from `benchmarks/results/*.json`; do not edit. -->

# Results

The experiments of two papers, repeated. P1 is Lopardo, Precioso and Garreau (2024), and P2 is Leemann et al. (2025,
SLALOM). A number after ± is a standard error; for a count, it is that of the share. Column n gives the sample size.
Brackets give the 5%, 50% and 95% quantiles. The papers' numbers are as printed. Where a paper has only a picture, its
message is described in words. An empty cell means that the paper has neither. [Benchmarks with targets](BARS.md) lists
how fast and how accurate the library is.
"""


def load_records(folder: Path) -> list[dict[str, Any]]:
    """What the JSON files of a folder hold, in the order of their names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def render(folder: Path) -> str:
    """The page, from all JSON files of a folder."""
    records = load_records(folder)
    reproductions = [r for r in records if any("result" in row for row in r["rows"])]
    others = [r for r in records if r not in reproductions]
    parts = [HEAD, "## Verdicts\n", *verdict_table(verdicts(reproductions))]
    parts += ["## The papers' tables and figures\n", *_reproduced(reproductions, folder)]
    parts += ["## How the experiments were run\n", *_runs(reproductions)]
    if compared := [r for r in others if any("comparison" in row for row in r["rows"])]:
        parts += ["## Comparisons\n", *_compared(compared)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _reproduced(records: list[dict[str, Any]], folder: Path) -> list[str]:
    rows = [{**row, "file": r["name"]} for r in records for row in r["rows"] if "result" in row]
    out = []
    for result in sorted({row["result"] for row in rows}, key=_natural):
        mine = [row for row in rows if row["result"] == result]
        names = sorted({row["file"] for row in mine})
        out.append(f"### {result}\n")
        figures = [name for name in names if (folder.parent / "figures" / f"{name}.png").exists()]
        shown = ", ".join(f"[picture](figures/{name}.png)" for name in figures)
        out.append(
            "From "
            f"{', '.join(f'`{module_of(name)}`' for name in names)}{'; ' + shown if shown else ''}.\n"
        )
        out.append("| case | n | ours | paper | differences |\n|---|---|---|---|---|")
        # The claims first: they are what the numbers below them say.
        for row in sorted(mine, key=lambda row: not row["case"].startswith("claim")):
            ours = _ours(row)
            paper = _number(row.get("paper"), row.get("paper_pm"))
            n = _sample(row)
            out.append(
                f"| {_cell(row['case'])} | {_cell(n)} | {ours} | {paper} | "
                f"{_cell(row.get('differs', ''))} |"
            )
        out.append("")
    return out


def _sample(row: dict[str, Any]) -> str:
    """How many of what were measured, such as '3 models'."""
    if "n" not in row:
        return ""
    return f"{row['n']:,} {row['of'].removesuffix('s') if row['n'] == 1 else row['of']}"


def _compared(records: list[dict[str, Any]]) -> list[str]:
    """One table per comparison: its rows with the columns that they have."""
    out = []
    for r in records:
        for title in dict.fromkeys(row["comparison"] for row in r["rows"]):
            rows = [row for row in r["rows"] if row["comparison"] == title]
            columns = [
                key
                for key in dict.fromkeys(key for row in rows for key in row)
                if key != "comparison"
            ]
            out.append(f"### {title}\n\nFrom `{module_of(r['name'])}`, {r['machine']['date']}.\n")
            out.append("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
            out += [
                "| " + " | ".join(_compared_cell(key, row.get(key)) for key in columns) + " |"
                for row in rows
            ]
            out.append("")
    return out


def _compared_cell(column: str, value: Any) -> str:
    if "seconds" in column and value is not None:
        return show_seconds(value)
    return _number(value)


def _runs(records: list[dict[str, Any]]) -> list[str]:
    out = ["| module | settings | seed | machine | date |\n|---|---|---|---|---|"]
    for r in records:
        settings = ", ".join(f"{key} = {value}" for key, value in r["settings"].items())
        machine = f"{r['machine']['processor']}, {r['machine']['cores']} cores"
        out.append(
            f"| `{r['name']}` | {_cell(settings)} | {r['seed']} | {_cell(machine)} | "
            f"{r['machine']['date']} |"
        )
    return [*out, ""]


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key: numbers by size, figures before propositions before tables."""
    return [
        (int(part), 0, "") if part.isdigit() else (0, 1, part) for part in re.split(r"(\d+)", text)
    ]


def _ours(row: dict[str, Any]) -> str:
    """Our number with what chance may do to it."""
    if row.get("statistic") == "count" and "ours_pm" in row:
        good, n = (int(x) for x in re.findall(r"\d+", row["ours"])[:2])
        return f"{_cell(row['ours'])} ({100 * good / n:.3g} ± {100 * row['ours_pm']:.2g}%)"
    if "quantiles" in row:
        spread = " [" + ", ".join(f"{q:.3g}" for q in row["quantiles"]) + "]"
    else:
        spread = ""
    return _number(row["ours"], row.get("ours_pm")) + spread


def _number(value: Any, error: float | None = None) -> str:
    if value is None:
        return ""
    if not isinstance(value, int | float):
        return _cell(str(value))
    return f"{value:.3g}" + (f" ± {error:.2g}" if error is not None else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.results_page", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is stale"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE")
    args = parser.parse_args(argv)
    page = render(args.results)
    if args.check:
        fresh = args.out.exists() and args.out.read_text(encoding="utf-8") == page
        if not fresh:
            print(
                f"{args.out.name} is stale: run python -m benchmarks.results_page", file=sys.stderr
            )
        return 0 if fresh else 1
    args.out.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
