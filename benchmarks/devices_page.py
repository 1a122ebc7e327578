"""The page of devices, DEVICES.md, from the benchmarks' JSON files: `python -m
benchmarks.devices_page`.

A device is on the page when it has a file of results. Nothing on the page is typed by hand; a test
fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .harness import RESULTS

COLUMNS = ("task", "method", "documents/s", "error", "compilation, s")
PAGE = Path(__file__).with_name("DEVICES.md")
HEAD = """\
<!-- Made by `python -m benchmarks.devices_page` from `benchmarks/results/device-*.json`; do not edit. -->

# Devices

`make bench-device` measures the devices of the machine that it runs on and writes one file per kind,
`benchmarks/results/device-KIND.json`. Devices without a file were not measured. The error is the largest difference to
the core's results, relative to the largest of these. Compilation is what the first call takes beyond a later one.
"""


def devices_page(folder: Path = RESULTS) -> str:
    """The page, in Markdown: one table per device. The rows of comparison are with the CPU."""
    page = HEAD
    for path in sorted(folder.glob("device-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            row
            for row in record["rows"]
            if row["method"].startswith("twin") or path.stem == "device-cpu"
        ]
        settings = record["settings"]
        machine = record["machine"]
        page += (
            f"\n## {rows[-1]['device']}, {settings['documents']} documents of "
            f"{settings['mean tokens']} tokens "
        )
        page += (
            f"on average\n\n{machine['processor']}, {machine['cores']} cores, jax "
            f"{machine['versions']['jax']}, "
        )
        page += f"{machine['date']}.\n\n| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
        page += "".join(
            f"| {' | '.join(_cell(name, row.get(name)) for name in COLUMNS)} |\n" for row in rows
        )
    return page


def _cell(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if name == "error":
        return f"{value:.1e}"
    return _number(value)


def _number(value: Any) -> str:
    if value < 1000:
        return f"{value:,.3g}"
    return f"{value:,.0f}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(devices_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
