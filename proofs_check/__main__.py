"""``python -m proofs_check``: run the statements, print a table, exit with 1 if a verdict is not
the recorded one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from . import errata
from .registry import (
    CORRECTED,
    HOLDS,
    NOT_CHECKABLE,
    PAPERS,
    SOURCES,
    VERDICTS,
    Result,
    Statement,
    run,
    statements,
)

WIDTH = 100
# Columns of the names in --list, with the spaces around them.
LISTED = 42
COLUMNS = f"{'':2} {'statement':36} {'verdict':21} {'error':>8} {'printed':>8} {'tolerance':>9} {'time':>7}"


def number(value: float | None) -> str:
    """Two digits, or nothing where there is no number.

    Examples
    --------
    >>> number(0.0), number(1.234e-16), number(0.6612), number(None)
    ('0', '1.2e-16', '0.66', '')
    """
    if value is None:
        return ""
    if value == 0:
        return "0"
    if 1e-2 <= abs(value) < 1e3:
        return f"{value:.2g}"
    return f"{value:.1e}"


def row(result: Result) -> str:
    """One line of the table, at most 100 characters."""
    entry = result.statement
    outcome = result.outcome
    mark = "ok" if result.verdict_reproduced else "NO"
    if entry.verdict == NOT_CHECKABLE:
        mark = "-"
    if outcome:
        error = outcome.error
        printed = outcome.printed_error
        tolerance = outcome.tolerance
    else:
        error = None
        printed = None
        tolerance = None
    if entry.verdict != NOT_CHECKABLE:
        seconds = f"{result.seconds:.2f} s"
    else:
        seconds = ""
    return (
        f"{mark:2} {entry.ref:36} {entry.verdict:21} {number(error):>8} {number(printed):>8} "
        f"{number(tolerance):>9} "
        f"{seconds:>7}"
    ).rstrip()


def explanation(result: Result) -> str:
    """What ``--verbose`` prints below a line of the table."""
    entry = result.statement
    outcome = result.outcome
    parts = [
        ("claim", entry.claim),
        ("assumptions", entry.assumptions),
        ("checked by", "" if entry.verdict == NOT_CHECKABLE else entry.method),
        ("kind", entry.kind),
        ("printed", entry.printed),
        ("corrected", entry.corrected),
        ("counterexample", outcome.counterexample if outcome else ""),
        ("consequence", entry.consequence),
        ("reason", entry.reason),
        ("detail", outcome.detail if outcome else ""),
        ("failure", result.failure),
    ]
    lines = [
        textwrap.fill(
            f"{name + ':':16}{text}", WIDTH, initial_indent="   ", subsequent_indent=" " * 19
        )
        for name, text in parts
        if text
    ]
    return "\n".join([*lines, ""])


def record(result: Result) -> dict[str, Any]:
    """One entry of ``--json``; numbers that are not finite become text, as JSON has none."""
    entry = result.statement
    outcome = result.outcome
    fields: dict[str, Any] = {
        "paper": entry.paper,
        "statement": entry.ref,
        "claim": entry.claim,
        "assumptions": entry.assumptions,
        "method": entry.method,
        "verdict": entry.verdict,
        "reproduced": result.verdict_reproduced,
        "seconds": round(result.seconds, 4),
    }
    for name in ("kind", "printed", "corrected", "consequence", "changes", "reason"):
        if getattr(entry, name):
            fields[name if name != "printed" else "printed_form"] = getattr(entry, name)
    if outcome is not None:
        for name in ("error", "tolerance", "printed_error"):
            value = getattr(outcome, name)
            # Checks answer in NumPy numbers and fractions alike; JSON knows Python's own alone.
            if value is None:
                fields[name] = value
            elif math.isfinite(value):
                fields[name] = float(value)
            else:
                fields[name] = str(value)
        fields["counterexample"] = outcome.counterexample
        fields["detail"] = outcome.detail
    if result.failure:
        fields["failure"] = result.failure
    return fields


def listed(entries: Sequence[Statement]) -> list[str]:
    """One line per statement: its name and what it claims, under the name of its paper.

    Examples
    --------
    >>> [line.split()[0] for line in listed(statements(paper="P1", only="Thm 4.1"))]
    ['P1', 'Theorem']
    """
    lines = []
    paper = ""
    for entry in entries:
        if entry.paper != paper:
            paper = entry.paper
            lines.append(f"{paper}  {SOURCES[paper]}")
        claim = textwrap.shorten(entry.claim, WIDTH - LISTED, placeholder="...")
        lines.append(f"  {entry.ref:{LISTED - 4}}  {claim}")
    return lines


def summary(results: Sequence[Result]) -> str:
    """Counts of the verdicts and the total time, e.g. for the last line of the table."""
    counts = {
        verdict: sum(result.statement.verdict == verdict for result in results)
        for verdict in VERDICTS
    }
    failed = [result.statement.key for result in results if not result.verdict_reproduced]
    seconds = sum(result.seconds for result in results)
    text = (
        f"{len(results)} statements: {counts[HOLDS]} hold, {counts[CORRECTED]} fail as printed and "
        "hold if corrected, "
        f"{counts[NOT_CHECKABLE]} not machine-checkable; {seconds:.1f} s"
    )
    if failed:
        return f"{text}\nverdict not reproduced: {', '.join(failed)}"
    return f"{text}\nevery verdict is the recorded one"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command = argparse.ArgumentParser(
        prog="python -m proofs_check",
        description="Check the statements of the two papers, and our own. P1: "
        + PAPERS["P1"]
        + ". P2: "
        + PAPERS["P2"]
        + ".",
    )
    command.add_argument(
        "--paper", choices=list(SOURCES), help="one paper only, or our own statements"
    )
    command.add_argument(
        "--list", action="store_true", help="print the names that --only takes, and run nothing"
    )
    command.add_argument(
        "--only", metavar="TEXT", help='statements whose name contains TEXT, e.g. "Theorem 5.1"'
    )
    command.add_argument(
        "--verbose", action="store_true", help="claim, counterexample with numbers, and details"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of the table")
    command.add_argument("--errata", action="store_true", help=f"write {errata.PATH.name} and exit")
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if every verdict is reproduced, 1 if not, 2 if nothing matches."""
    options = parser().parse_args(arguments)
    if options.errata:
        errata.PATH.write_text(errata.generate(), encoding="utf-8")
        print(f"wrote {errata.PATH.name}")
        return 0
    entries = statements(options.paper, options.only)
    if not entries:
        if options.paper:
            where = f" in {options.paper}"
        else:
            where = ""
        print(f"--only: no statement{where} has {options.only!r} in its name", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(listed(entries)))
        return 0
    results = []
    paper = ""
    for entry in entries:
        if not options.json and entry.paper != paper:
            paper = entry.paper
            print(f"\n{paper}  {SOURCES[paper]}\n{COLUMNS}\n{'-' * len(COLUMNS)}")
        result = run(entry)
        results.append(result)
        if not options.json:
            print(row(result), flush=True)
            if options.verbose or result.failure:
                print(explanation(result), flush=True)
    if options.json:
        print(json.dumps([record(result) for result in results], indent=1, allow_nan=False))
    else:
        print(
            "\nerror: of the right form; printed: of the form in the paper, where it differs; "
            "--verbose says more"
        )
        print(summary(results))
    if all(result.verdict_reproduced for result in results):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
