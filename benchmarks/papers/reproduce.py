"""All reproductions one after the other, in the full size or a small one, and how long that took.

    python -m benchmarks.papers.reproduce --data PATH            # the size of RESULTS.md; hours, but it can be killed
    python -m benchmarks.papers.reproduce --data PATH --quick    # minutes, into results/quick

A full run leaves out what is done: modules that left a stamp in the work folder, and within a
module every part that the folder holds. Delete the work folder to begin anew. The wall time of each
module, over all its parts, is in `results/reproduce.json`. `--record` keeps the times of a small
run in `results/reproduce_quick.json`. Both end with a list of what they left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..harness import RESULTS, Bar, module_of, report
from ..results_page import load_records
from ..results_page import main as write_results
from .paper_pages import main as write_pages
from .reproduction import QUICK, WORK
from .verdicts import CLAIMS

# The longest first: what is interrupted has then lost least.
MODULES = (
    "paper1_layers",
    "paper1_lime",
    "paper1_growth",
    "reviews",
    "linear_data",
    "recovery",
    "recovery_labels",
    "paper1_examples",
    "paper1_gradients",
    "other_model",
    "cost",
)
QUICK_MINUTES = 15


def is_done(name: str, work: Path, results: Path) -> bool:
    """Whether a full run of the module ended, by the stamp that it left."""
    return (work / name / "done").exists() and (results / f"{name}.json").exists()


def run_module(name: str, data: Path, quick: bool, work: Path) -> float:
    """Run one reproduction in a process of its own; returns its wall time in seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-m", module_of(name), "--data", str(data), "--work", str(work)]
    status = subprocess.run([*command, *(["--quick"] if quick else [])], check=False).returncode
    # 1 is a promise that was not kept: it is on record, and the others go on.
    if status not in (0, 1):
        raise SystemExit(
            f"{module_of(name)} ended with status {status}; run the same command again to go on"
        )
    if not quick:
        (work / name).mkdir(parents=True, exist_ok=True)
        (work / name / "done").touch()
    return time.perf_counter() - began


def times(results: Path) -> list[dict[str, Any]]:
    """One row per module: seconds and processor seconds over all its parts, as its own file
    says.
    """
    rows = []
    for name in MODULES:
        file = results / f"{name}.json"
        if file.exists():
            settings = json.loads(file.read_text(encoding="utf-8"))["settings"]
            rows.append(
                {
                    "module": name,
                    **{key: settings.get(key) for key in ("seconds", "processor seconds")},
                }
            )
    return rows


def left_out(quick: Path | None, full: Path = RESULTS) -> list[str]:
    """What a run did not reproduce, one sentence each.

    Results that no module of the run makes, claims that were not tested at all, and for a small run
    the sizes that are smaller than those of RESULTS.md.
    """
    records = {record["name"]: record for record in load_records(full)}
    lines = [
        f"{module_of(name)} was not run: it needs PyTorch and a checkpoint of MiniLM."
        for name, record in records.items()
        if name not in MODULES and any("result" in row for row in record["rows"])
    ]
    lines += [
        f"{claim.where} was not tested: {claim.untried}." for claim in CLAIMS if claim.untried
    ]
    if quick is None:
        return lines
    for record in load_records(quick):
        settings = records.get(record["name"], {"settings": {}})["settings"]
        smaller = [
            f"{key} {value:,} instead of {settings[key]:,}"
            for key, value in record["settings"].items()
            if type(value) is int and type(settings.get(key)) is int and value < settings[key]
        ]
        if smaller:
            lines.append(f"{module_of(record['name'])} was smaller: {', '.join(smaller)}.")
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.reproduce", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="PATH",
        help="aclImdb_v1.tar.gz and ham_part*.csv",
    )
    parser.add_argument("--quick", action="store_true", help="a small size, into results/quick")
    parser.add_argument(
        "--work", type=Path, default=WORK, metavar="PATH", help="folder of the parts that are done"
    )
    parser.add_argument(
        "--record", action="store_true", help="with --quick: keep its times among the results"
    )
    args = parser.parse_args(argv)
    results = QUICK if args.quick else RESULTS
    began = time.perf_counter()
    for name in MODULES:
        if args.quick or not is_done(name, args.work, results):
            run_module(name, args.data, args.quick, args.work)
    rows = times(results)
    total = {key: sum(row[key] or 0.0 for row in rows) for key in ("seconds", "processor seconds")}
    rows.append({"module": "all", **total})
    if not args.quick:
        report("reproduce", rows, seed=None, settings={"quick": False})
        print("Left out:", *left_out(None), sep="\n- ")
        return write_results([]) or write_pages([])
    wall = (time.perf_counter() - began) / 60
    bars = [
        Bar(
            "make reproduce, processor minutes",
            total["processor seconds"] / 60,
            "<=",
            QUICK_MINUTES,
        ),
        Bar("make reproduce, minutes", wall, "<=", QUICK_MINUTES),
    ]
    if args.record:
        report("reproduce_quick", rows, seed=None, settings={"quick": True}, bars=bars)
    print("Left out:", *left_out(QUICK), sep="\n- ")
    return write_results(["--results", str(QUICK), "--out", str(QUICK / "RESULTS.md")])


if __name__ == "__main__":
    sys.exit(main())
