"""The measured numbers of docs/corpus-at-scale.md, from the JSON files of the benchmarks.

`python -m benchmarks.corpus_page` writes them.

`benchmarks.corpus --data` and `benchmarks.million` write the files. The part between the two marks
of the page is rendered from them; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .harness import RESULTS

PAGE = RESULTS.parents[1] / "docs" / "corpus-at-scale.md"
BEGIN = "<!-- measured: begin -->\n"
END = "<!-- measured: end -->\n"


def measured(folder: Path = RESULTS) -> str:
    """The text between the marks."""
    return f"{BEGIN}\n{_rates(_read(folder, 'corpus'))}\n{_million(_read(folder, 'corpus_million'))}\n{END}"


def _read(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def _rates(record: dict[str, Any]) -> str:
    machine = record["machine"]
    lines = [
        f"IMDB's test reviews, with the shipped model, on {machine['cores']} cores "
        f"({machine['processor']}):\n",
        "| what | reviews | per second | per second after the start |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        if "after a quarter" in row:
            later = f"{row['after a quarter']:,.0f}"
        else:
            later = ""
        rate = f"{row['documents/s']:,.{0 if row['documents/s'] >= 100 else 1}f}"
        lines.append(f"| {row['method']} | {row['documents']:,} | {rate} | {later} |")
    return (
        "\n".join(lines)
        + f"""

The first rate includes the start of the workers; the second covers only the last three quarters of
the reviews. lime runs in one process, with its defaults. The rates are
{_times_lime(record["rows"])} times that of lime, in the order of the table. lime explains
probabilities by default.
"""
    )


def _times_lime(rows: list[dict[str, Any]]) -> str:
    """The rates of this package over that of lime, as a phrase."""
    lime = next(row["documents/s"] for row in rows if row["method"].startswith("lime"))
    ours = [row["documents/s"] for row in rows if not row["method"].startswith("lime")]
    times = [f"{rate / lime:,.0f}" for rate in ours]
    return f"{', '.join(times[:-1])} and {times[-1]}"


def _million(record: dict[str, Any]) -> str:
    value = {row["what"]: row["value"] for row in record["rows"]}
    growth = value["memory in the last quarter over that in the second, worst process"] - 1
    return f"""\
On two cores the run of a million reviews took {value["seconds of all runs"]:.0f} s, \
{value["rows per second, kills and resumes included"]:,.0f} reviews per second with kills and resumes
included, and lost or repeated no row. It took \
{1000 * value["processor seconds per row, all processes"]:.1f} ms of processor time and \
{value["bytes of output per row"]:,.0f} bytes of output per review. The
largest process had {value["memory of the largest process, MB"]:.0f} MB; workers grew by \
{100 * growth:.0f}% from the second to the last quarter of a run of two minutes. At
this rate a billion reviews take {value["a billion: core hours"]:.0f} core hours, \
about {60 * value["a billion: hours with 1,000 cores"]:.0f} minutes on 1,000 cores, and \
{value["a billion: GB of output"] / 1000:.1f} TB.
"""


def updated(page: str, folder: Path = RESULTS) -> str:
    """The page with the stored numbers."""
    before, _, rest = page.partition(BEGIN)
    return before + measured(folder) + rest.partition(END)[2]


def main() -> int:
    """Write the page."""
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
