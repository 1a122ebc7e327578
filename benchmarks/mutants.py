"""Do the tests bite? Random single changes to the mathematics, and which test notices: `python -m benchmarks.mutants`.

Changes are drawn from game, lime, slalom and classifier with a seed, every line with equal chance, then one of the
changes of that line (`mutations`). The tests of the folder that call the changed function run against it
(`mutant_runs`), first of all the one that noticed the same change in an earlier run, finished or not, so that a second
run is a matter of minutes. A change that fails a test, does not import, passes the memory limit or hangs is caught.
What survives is listed in MUTANTS.md with the reason why it is harmless (`harmless`); one without a reason is a missing
test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: forked children must not share threads
from .harmless import reason
from .harness import RESULTS, Bar, Row, report
from .mutant_runs import ROOT, Runner, Verdict, collect, run_all
from .mutations import Change, changes_of

FOLDERS = ("game", "lime", "slalom", "classifier")
PAGE = Path(__file__).with_name("MUTANTS.md")
HEAD = """\
# Changes to the mathematics that no test notices

Made by `make mutants` (seed {seed}): {count} random changes to game, lime, slalom and classifier, of which the tests
caught {caught}. The other {survived} are below, each with the reason why it is harmless. The JSON file
`results/mutants.json` names the test that caught each of the others.

| where | change | why it is harmless |
|---|---|---|
"""


def draw(folders: Sequence[str], count: int, seed: int) -> list[Change]:
    """`count` different changes: every line that can be changed has the same chance, then every change of it.

    Lots are drawn by hashing the line and the change with the seed, so that an edit elsewhere changes no lot.
    """
    by_line: dict[tuple[Path, int], list[Change]] = defaultdict(list)
    for path in modules(folders):
        for change in changes_of(path):
            by_line[path, change.line].append(change)
    picked = [min(changes, key=lambda change: _lot(seed, _place(change), change.text)) for changes in by_line.values()]
    return sorted(picked, key=lambda change: _lot(seed, _place(change), change.text, "line"))[:count]


def _lot(*words: object) -> str:
    return hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()


def modules(folders: Sequence[str]) -> list[Path]:
    """The modules of some folders of the package."""
    return [path for folder in folders for path in sorted((ROOT / "attn_closed_form" / folder).rglob("*.py"))]


def matching(folders: Sequence[str], text: str) -> list[Change]:
    """Every change whose place and text contain `text`: for trying out a new test."""
    return [
        change for path in modules(folders) for change in changes_of(path) if text in f"{_where(change)} {change.text}"
    ]


def survivors(rows: Sequence[Row]) -> tuple[list[Row], list[Change]]:
    """The rows whose change the code still has, and the changes among them that no test noticed and no reason names."""
    there = {_key(_where(change), change.text): change for path in modules(FOLDERS) for change in changes_of(path)}
    kept = [row for row in rows if _key(row["where"], row["change"]) in there]
    unnamed = [row for row in kept if row["verdict"] == "survived" and not _reason(row)]
    return kept, [there[_key(row["where"], row["change"])] for row in unnamed]


def _key(where: str, text: str) -> tuple[str, str, str]:
    """A change without its line, which an edit elsewhere moves."""
    place, _, function = where.partition(" ")
    return place.partition(":")[0], function, text


def _where(change: Change) -> str:
    file, function = _place(change)
    return f"{file}:{change.line} {function}".strip()


def _place(change: Change) -> tuple[str, str]:
    return change.path.relative_to(ROOT / "attn_closed_form").as_posix(), change.function


class Noticed:
    """Which test noticed which change, kept in a file as verdicts come, and in the results of the last full run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        results = RESULTS / "mutants.json"
        rows = json.loads(results.read_text(encoding="utf-8"))["rows"] if results.exists() else []
        self.tests = {(row["where"].partition(":")[0], row["change"]): row["by"] for row in rows}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            file, text, by = json.loads(line)
            self.tests[file, text] = by

    def by(self, change: Change) -> str:
        """The test, or an empty string."""
        return self.tests.get((_place(change)[0], change.text), "")

    def add(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        with self.path.open("a", encoding="utf-8") as file:
            print(json.dumps([_place(verdict.change)[0], verdict.change.text, verdict.by]), file=file)


def page(rows: Sequence[Row], seed: int) -> str:
    """The survivors with their reasons, in Markdown."""
    left = [row for row in rows if row["verdict"] == "survived"]
    head = HEAD.format(seed=seed, count=len(rows), caught=len(rows) - len(left), survived=len(left))
    cells = [(row["where"], row["change"].replace("|", r"\|"), _reason(row) or "NOT YET NAMED") for row in left]
    return head + "".join(f"| {where} | `{change}` | {why} |\n" for where, change, why in cells)


def row_of(verdict: Verdict) -> Row:
    """What the results keep of a verdict."""
    return {
        "where": _where(verdict.change),
        "change": verdict.change.text,
        "verdict": "caught" if verdict.caught else "survived",
        "by": verdict.by,
        "tests": verdict.tests,
    }


def _reason(row: Row) -> str:
    place, _, function = row["where"].partition(" ")
    return reason(place.partition(":")[0], function, row["change"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, run, report; the exit code says whether every survivor is named harmless."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=240, help="how many changes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", nargs="+", default=list(FOLDERS), choices=FOLDERS)
    parser.add_argument("--only", help="every change whose 'file:line function change' contains this; writes nothing")
    parser.add_argument("--budget", type=float, default=20.0, help="processor seconds of tests per change")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--calls", type=Path, default=Path(tempfile.gettempdir()) / "attn_closed_form_calls.json")
    parser.add_argument("--reasons", action="store_true", help="run nothing: write the last run anew with its reasons")
    parser.add_argument("--survivors", action="store_true", help="run the unnamed survivors of the last run again")
    options = parser.parse_args(arguments)
    last = (
        json.loads((RESULTS / "mutants.json").read_text(encoding="utf-8"))
        if options.reasons or options.survivors
        else {}
    )
    if options.reasons:
        return not _write(last["rows"], last["seed"], last["settings"])
    if options.only:
        changes = matching(options.folders, options.only)
    elif options.survivors:
        kept, changes = survivors(last["rows"])
    else:
        changes = draw(options.folders, options.count, options.seed)
    verdicts: list[Verdict] = []
    noticed = Noticed(options.calls.with_suffix(".noticed"))

    def work(runner: Runner) -> None:
        for verdict in run_all(runner, changes, options.calls, options.budget, options.workers, noticed.by):
            verdicts.append(verdict)
            noticed.add(verdict)
            _print(verdict, len(verdicts), len(changes))

    paths = [f"{root}/{folder}" for folder in options.folders for root in ("tests", "attn_closed_form")]
    collect(paths, work)
    rows = sorted(map(row_of, verdicts), key=lambda row: row["where"])
    if options.only:
        return not all(row["verdict"] == "caught" or _reason(row) for row in rows)
    if options.survivors:
        again = {_key(row["where"], row["change"]) for row in rows}
        rows += [row for row in kept if _key(row["where"], row["change"]) not in again]
        return not _write(sorted(rows, key=lambda row: row["where"]), last["seed"], last["settings"])
    settings = {"folders": options.folders, "budget of tests per change, processor s": options.budget}
    return not _write(rows, options.seed, settings)


def _print(verdict: Verdict, number: int, count: int) -> None:
    change = verdict.change
    word = "caught" if verdict.caught else "harmless" if _reason(row_of(verdict)) else "SURVIVED"
    by = f" by {verdict.by}" if verdict.caught else f" {verdict.tests} tests"
    print(f"[{number}/{count}] {word}{by} ({verdict.seconds:.1f} s): {_where(change)}: {change.text}", flush=True)


def _write(rows: Sequence[Row], seed: int, settings: Row) -> bool:
    unnamed = sum(row["verdict"] == "survived" and not _reason(row) for row in rows)
    bars = [
        Bar("random changes to the mathematics", len(rows), ">=", 200),
        Bar("survivors that are not named harmless", unnamed, "<=", 0),
    ]
    PAGE.write_text(page(rows, seed), encoding="utf-8")
    return report("mutants", rows, seed=seed, settings=settings, bars=bars)


if __name__ == "__main__":
    sys.exit(main())
