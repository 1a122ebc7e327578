"""The page of devices, DEVICES.md, from the benchmarks' JSON files: `python -m benchmarks.devices_page`.

What was measured on a device stands beside what is only predicted; a card without a file of results is "not measured".
Nothing in it is typed by hand; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .harness import RESULTS

PAGE = Path(__file__).with_name("DEVICES.md")
NOT_MEASURED = "not measured"
PREDICTED = "predicted documents/s, "
HEAD = """\
# Devices

Made by `python -m benchmarks.devices_page` from `benchmarks/results/device*.json`; do not edit. `make bench-device`
measures the devices of the machine it runs on: each kind gets a file `benchmarks/results/device-KIND.json`, and with it
numbers in the first table.
"""
COSTS = """
## Predicted from the cost of the programs

Operations, bytes and working memory per document are XLA's analysis of the programs as compiled for a CPU. The
predictions are **not measurements**: they are what the published peak rates of a card allow for these counts, without
launches and the host's part; a card's own compiler may move fewer bytes. They are for {games} games at once and
{players} players, loops counted as often as they run.
"""


def devices_page(folder: Path = RESULTS) -> str:
    """The page, in Markdown."""
    costs = json.loads((folder / "device_costs.json").read_text(encoding="utf-8"))
    cards = [key.removeprefix(PREDICTED) for key in costs["rows"][0] if key.startswith(PREDICTED)]
    measured = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("device-*.json"))
    }
    return HEAD + _measured(measured, cards) + _predicted(costs, cards)


def _measured(records: dict[str, Any], cards: list[str]) -> str:
    found = []
    for record in records.values():
        own = [row for row in record["rows"] if row["method"].startswith("twin") or record is records.get("device-cpu")]
        about, machine = record["settings"], record["machine"]
        heading = f"{own[-1]['device']}, {about['documents']} documents of {about['mean tokens']} tokens on average"
        found.append(f"\n## Measured: {heading}\n\n{machine['processor']}, {machine['cores']} cores, jax ")
        found[-1] += f"{machine['versions']['jax']}, {machine['date']}.\n\n"
        found[-1] += _table(["task", "method", "documents/s"], [[*_named(row), _number(row)] for row in own])
    names = " ".join(records)
    missing = [card for card in cards if not any(part in names for part in _kind(card))]
    table = _table(["card", "documents/s"], [[card, NOT_MEASURED] for card in missing])
    return "".join(found) + ("\n## Cards\n\n" + table if missing else "")


def _kind(card: str) -> list[str]:
    """The part of a card's name that its file of results has: the model number."""
    return [word.lower() for word in card.split() if any(c.isdigit() for c in word) and any(c.isalpha() for c in word)]


def _named(row: dict[str, Any]) -> list[str]:
    return [row["task"], row["method"]]


def _number(row: dict[str, Any]) -> str:
    return f"{row['documents/s']:,.3g}" if row["documents/s"] < 1000 else f"{row['documents/s']:,.0f}"


def _predicted(costs: dict[str, Any], cards: list[str]) -> str:
    about = costs["settings"]
    head = [
        "task",
        "type",
        "operations",
        "bytes",
        "working bytes",
        *(f"{card} (predicted documents/s)" for card in cards),
    ]
    rows = []
    for row in costs["rows"]:
        numbers = [row[f"{name} per document"] for name in ("operations", "bytes", "working bytes")]
        numbers += [row[PREDICTED + card] for card in cards]
        rows.append([row["task"], row["type"], *(f"{number:.2g}" for number in numbers)])
    text = COSTS.format(games=about["games at once"], players=about["players, filled up"])
    return text + f"Peak rates from: {about['cards']}.\n\n" + _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> int:
    """Write the page."""
    PAGE.write_text(devices_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
