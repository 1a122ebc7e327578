"""Make every constant of the proof too small, one at a time, and report the changes that no test
notices.

`.ci/proof_changes.toml` is the table: for each change the file, the text that is replaced, and the
test that fails, or the reason why the change is harmless. It begins with the 84 changes that no
test of version 0.3 noticed (`was` is the place there); the others are constants and bounds that are
new or were noticed. Changes of code that was removed since are listed at the end. `--table
.ci/other_changes.toml` takes the changes to the rest of the mathematics and around it.

`python .ci/proof_changes.py` runs the named test of every change, which takes some ten minutes, and
prints what is not noticed. With `--folders` it runs the tests of the whole folder, and prints which
of them fails first. `--only TEXT` takes the changes whose file or description has this text, and
`--out FILE` appends the results to a file and skips those that are in it. `--search` runs the
search for the largest errors (`benchmarks/guarantee_search.py`) with the changes that name a
function for it, for half a minute each. The files themselves are changed: run it in a copy of the
repository (`make mutants-proof`).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutants import run_tests

ROOT = Path(__file__).parents[1]
TABLE = ROOT / ".ci" / "proof_changes.toml"
# The tests of a constant of `rounding.py` are those of the part of the mathematics that uses it.
FOLDERS_OF_CONSTANTS = {
    "LIME_": ["tests/game/engine/test_rounding.py", "tests/lime"],
    "EXTREMUM_": [
        "tests/game/engine/test_rounding.py",
        "tests/game/test_extrema.py",
        "tests/reasons",
    ],
    "VALUE_BIAS": ["tests/reasons"],
    "HEADS_": ["tests/reasons"],
    "JOINT_": ["tests/reasons"],
    "DUAL_": ["tests/game/engine/test_rounding.py", "tests/reasons"],
}
# Processor time of a search.
SEARCH_SECONDS = 30
# Imported once; every run of pytest is a copy of the process that has them.
LARGE = ["numpy", "pytest", "hypothesis", "flint", "mpmath"]


def table(path: Path) -> list[dict[str, Any]]:
    """The changes, in the order of the file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["change"]


def folders_of(change: dict[str, Any]) -> list[str]:
    """The tests of the folder of a change, the closest ones first."""
    path = Path(change["file"])
    if path.name == "rounding.py":
        for prefix, folders in FOLDERS_OF_CONSTANTS.items():
            if change["before"].strip().startswith(prefix):
                return folders
    folder = "tests/" + "/".join(path.parts[1:-1])
    if folder == "tests/game/engine":
        return [folder, "tests/game"]
    return [folder]


def place_of(change: dict[str, Any]) -> str:
    """The file and the description of a change, by which results name it."""
    return f"{change['file']}: {change['what']}"


@contextlib.contextmanager
def made(change: dict[str, Any]) -> Iterator[None]:
    """Make a change, and take it back."""
    path = ROOT / change["file"]
    original = path.read_text(encoding="utf-8")
    if original.count(change["before"]) != 1:
        raise SystemExit(f"{change['file']}: expected {change['before']!r} once")
    path.write_text(original.replace(change["before"], change["after"]), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")


def outcome_of(change: dict[str, Any], tests: list[str], slow: bool) -> tuple[bool, str]:
    """Whether some test fails with the change, and the first one that does."""
    with made(change):
        outcome, output = run_tests(tests, slow=slow)
    failed = re.findall(r"^(?:FAILED|ERROR) ([^\s[]+)", output, re.MULTILINE)
    if outcome == "killed" and not failed:
        raise SystemExit(output)
    return outcome != "survived", failed[0] if failed else outcome


def search(changes: list[dict[str, Any]], only: str) -> None:
    """Search for results outside of the guarantee with each change that names a function, and whose
    place has this text.
    """
    searched = [change for change in changes if "searched" in change and only in place_of(change)]
    found = 0
    for change in searched:
        command = [sys.executable, "-m", "benchmarks.guarantee", "--search", "--only"]
        command += [change["searched"], "--seconds", str(SEARCH_SECONDS)]
        with made(change):
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if "processor seconds" not in done.stdout:
            raise SystemExit(done.stderr)
        found += done.returncode
        print(change["what"], done.stdout.splitlines()[0], sep="; ", flush=True)
    print(f"the search finds {found} of {len(searched)} changes")


def main() -> int:
    """Try the changes, and return 1 if one without a reason is not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for name in LARGE:
        importlib.import_module(name)
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = str(ROOT)
    if options.search:
        search(table(options.table), options.only)
        return 0
    done = set[tuple[str, str]]()
    if options.out is not None and options.out.exists():
        lines = options.out.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        done = {(row["what"], row["after"]) for row in rows}
    noticed = 0
    harmless = 0
    bad: list[str] = []
    for change in table(options.table):
        place = place_of(change)
        if options.only not in place + change["before"] or (place, change["after"]) in done:
            continue
        if "harmless" in change and not options.folders:
            harmless += 1
            continue
        named = change.get("test")
        tests = folders_of(change) if options.folders or named is None else [named]
        failed, first = outcome_of(change, tests, slow=named is not None)
        if failed:
            noticed += 1
        elif "harmless" in change:
            harmless += 1
        else:
            bad.append(place)
        print("noticed" if failed else "NOT NOTICED", place, first, sep="; ", flush=True)
        if options.out is not None:
            row = {"what": place, "after": change["after"], "noticed": failed, "by": first}
            with options.out.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
    print(f"{noticed} noticed, {harmless} harmless, {len(bad)} not noticed")
    for place in bad:
        print(f"  {place}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
