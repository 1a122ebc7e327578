"""Choose random changes to the library's code, and report the ones that no test notices.

`python .ci/mutants.py` prints a module and its tests for `make mutants`, a different one every day.
Modules are those with a test of the same name, such as `attn_closed_form/game/owen.py` with
`tests/game/test_owen.py`.

`python .ci/mutants.py --sample 300 --seed 0 --out FILE` draws 300 places in all that the wheel
contains, or in the part of it that `--under` names, makes one random cosmic-ray change at each, and
runs tests, the closest ones first. Every result is appended to FILE as a line of JSON. Places that
are already in FILE are skipped, so an interrupted run resumes. `--part 1/2` tries only the changes
to every second module, so that two copies can share a sample. The files themselves are changed: run
it in a copy of the repository (`make mutants-sample`).

`python .ci/mutants.py --map PATH...` runs tests once and stores which lines each of them executes.
A sample then begins with the tests that execute the changed line, the quickest ones first.

`python .ci/mutants.py --page FILE...` stores the results in benchmarks/results/mutants.jsonl and
writes benchmarks/MUTANTS.md. Every change that no test noticed needs a verdict in
.ci/mutants_verdicts.json. Without a FILE the page is written anew from the stored results.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import difflib
import importlib
import json
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.jsonl"
VERDICTS = ROOT / ".ci" / "mutants_verdicts.json"
PAGE = ROOT / "benchmarks" / "MUTANTS.md"
INTRODUCTION = """\
# Random changes to the code

`make mutants-sample` drew places in everything that the wheel contains, made one random change at each with [cosmic-ray](https://cosmic-ray.readthedocs.io) (an operator, a number, a condition, a loop), and ran the tests of
the changed module, except the slow ones. A test that fails must pass without the change. The limit on the time of the
tests counts processor time, so a busy machine does not cause a time-out. `python .ci/mutants.py --page` writes this
page from [the results](results/mutants.jsonl) and [the verdicts](../.ci/mutants_verdicts.json).
"""
# What the wheel contains. The code that checks the papers (proofs_check) is not part of it.
PACKAGES = ["attn_closed_form", "jax_model"]
# Where the lines that each test executes are stored, one pair of files per call of `--map`.
LINES = ROOT / "build" / "lines"
# A first stage with tests that execute the changed line takes about so long; tuning: most changes
# are noticed within a few seconds, and the tests of the folder follow anyway.
SECONDS_OF_LINES = 30
# Operators in type annotations have no effect at run time. A removed decorator mostly breaks the
# import.
EXCLUDED = re.compile("core/(ReplaceBinaryOperator_BitOr_|RemoveDecorator)")
VERDICT = {
    "caught since": "A test was added, which fails with the change.",
    "caught elsewhere": (
        "A test that the sample does not run for this module, or a slow one, fails with the change."
    ),
    "harmless": "Nothing that is promised changes.",
}
OPTIONS = [
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
]
# A change may take this much processor time, which does not depend on what else the machine does. A
# test that waits forever takes none: it ends after so many seconds, and the change counts as
# "stalled" until somebody looks at it.
PROCESSOR_SECONDS = 300
SECONDS = 2400
BYTES = 6 << 30
LARGE = [
    "pytest",
    "jax",
    "hypothesis",
    "scipy.stats",
    "sklearn",
    "matplotlib",
    "pyarrow",
    "fastapi",
]


def modules() -> list[Path]:
    """Paths from the root, sorted."""
    return sorted(
        path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    )


def folder_of(module: str) -> str:
    """The folder under which a change is counted."""
    parts = Path(module).parent.parts
    depth = 3 if parts[1:2] == ("app",) else 2
    return "/".join(parts[:depth])


def same_name(module: Path) -> Path:
    """The path that a test of the module's name would have."""
    if module.parts[0] == "jax_model":
        folder = Path("tests/jax_model")
    else:
        folder = Path("tests", *module.parts[1:-1])
    return folder / f"test_{module.name.removeprefix('_')}"


def of_the_day(day: int) -> str:
    """A module, its docstring examples and the tests of its folder."""
    tested = [module for module in modules() if (ROOT / same_name(module)).is_file()]
    module = tested[day % len(tested)]
    return f"{module.as_posix()} {module.as_posix()} {same_name(module).parent.as_posix()}"


def tests_of(module: Path) -> list[list[str]]:
    """The docstring examples with the test of the same name, and the tests of the folder or that
    import the module.
    """
    package = ".".join(module.parts[:-1])
    imports = re.compile(rf"\b{re.escape(package)}(\.{module.stem}\b| import .*\b{module.stem}\b)")
    if module.parts[0] == "jax_model":
        imports = re.compile(re.escape(package))  # the folder tests/jax_model serves four packages
    others = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        if module.parts[0] != "jax_model" and ROOT / "tests" / "jax_model" in test.parents:
            continue  # programs of the twin are compiled for minutes, and the core has tests of its own
        own_folder = (
            ROOT / same_name(module).parent in test.parents
            and module.parts[0] != "jax_model"
            and len(module.parts) > 2  # all tests are below the folder of the tests of the root
        )
        if own_folder or imports.search(test.read_text(encoding="utf-8")):
            others.append(test.relative_to(ROOT))
    first = [test for test in others if test == same_name(module)]
    rest = [test for test in others if test not in first]
    # The module comes last, as above.
    return [[path.as_posix() for path in stage] for stage in ([*first, module], rest) if stage]


class Timer:
    """A plugin of pytest that keeps the seconds that each test takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up setup, call and teardown."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


class Only:
    """A plugin of pytest that runs the named tests in their order, and no others."""

    def __init__(self, names: list[str]) -> None:
        self.rank = {name: k for k, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Drop the others, and sort."""
        named = [item for item in items if item.nodeid in self.rank]
        items[:] = sorted(named, key=lambda item: self.rank[item.nodeid])


def store_lines(paths: list[str]) -> int:
    """Run the tests of some paths, and store their seconds and the lines that they execute."""
    import pytest

    LINES.mkdir(parents=True, exist_ok=True)
    name = f"{paths[0].replace('/', '-')}-and-{len(paths) - 1}"
    os.environ["COVERAGE_FILE"] = str(LINES / f"{name}.coverage")
    timer = Timer()
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow"]
    options += ["--cov", "--cov-context=test", "--cov-report="]
    status = int(pytest.main([*options, *paths], plugins=[timer]))
    (LINES / f"{name}.json").write_text(json.dumps(timer.seconds), encoding="utf-8")
    return status


@cache
def seconds_of_tests() -> dict[str, float]:
    """The seconds of each test that was run by `--map`."""
    found: dict[str, float] = {}
    for path in LINES.glob("*.json"):
        found.update(json.loads(path.read_text(encoding="utf-8")))
    return found


def statement_at(source: str, line: int) -> range:
    """The lines of the statement that a line belongs to, without the body of a compound one."""
    smallest = range(line, line + 1)
    size = math.inf
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        lines = range(node.lineno, max(last, node.lineno) + 1)
        if line in lines and len(lines) < size:
            smallest = lines
            size = len(lines)
    return smallest


def tests_of_line(module: Path, line: int) -> tuple[list[str], bool]:
    """The tests that execute a line, those of the test of the same name first, then the quickest
    ones, as many as take SECONDS_OF_LINES; and whether they are all that `--map` knows.
    """
    from coverage import CoverageData

    lines = statement_at((ROOT / module).read_text(encoding="utf-8"), line)
    names: set[str] = set()
    for path in LINES.glob("*.coverage"):
        data = CoverageData(str(path))
        data.read()
        for file in data.measured_files():  # absolute paths, perhaps of another copy
            if not Path(file).as_posix().endswith(f"/{module.as_posix()}"):
                continue
            contexts = data.contexts_by_lineno(file)
            for number in lines:
                names.update(context.rpartition("|")[0] for context in contexts.get(number, []))
    seconds = seconds_of_tests()
    closest = same_name(module).as_posix()
    known = sorted(names & seconds.keys(), key=lambda name: (seconds[name], name))
    chosen = []
    total = 0.0
    for name in known:
        total += seconds[name]
        if total > SECONDS_OF_LINES:
            break
        chosen.append(name)
    # Tests of one file stay together, so that they share their fixtures. Docstring examples come
    # last: they import their module a second time, under the name that the tests have given it.
    files = {name.partition("::")[0] for name in chosen}
    of_file = {file: [name for name in chosen if name.startswith(f"{file}::")] for file in files}
    cost = {file: sum(seconds[name] for name in of_file[file]) for file in files}
    order = sorted(
        files,
        key=lambda file: (not file.startswith("tests/"), file != closest, cost[file], file),
    )
    in_order = [name for file in order for name in of_file[file]]
    return in_order, bool(known) and len(chosen) == len(known)


def run_tests(
    tests: list[str],
    keep_bytecode: bool = False,
    slow: bool = False,
    only: list[str] | None = None,
) -> tuple[str, str]:
    """Outcome and output of pytest in a copy of this process, which has imported the large packages
    already.

    `only` names the tests that are run of those that are collected from `tests`.
    """
    import pytest  # the module of the day is chosen without it

    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if not child:
            os.setsid()
            resource.setrlimit(
                resource.RLIMIT_DATA, (BYTES, BYTES)
            )  # a loop that never ends must not fill the machine
            resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            # Bytecode of the changed module must not be taken for that of the original.
            sys.dont_write_bytecode = not keep_bytecode
            if keep_bytecode:
                os.environ["PYTHONDONTWRITEBYTECODE"] = ""
            else:
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            options = OPTIONS if slow else [*OPTIONS, "-m", "not slow"]
            plugins = [] if only is None else [Only(only)]
            status = int(pytest.main([*options, *tests], plugins=plugins))
            sys.stdout.flush()
            os._exit(status)
        end = time.monotonic() + SECONDS
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not ended[0]:
            os.waitpid(child, 0)
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if not ended[0]:
        return "stalled", output
    status = os.waitstatus_to_exitcode(ended[1])
    if status in (-signal.SIGXCPU, -signal.SIGKILL):  # the kernel kills at the hard limit
        return "timeout", output
    unnoticed = (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    )  # a module may have no examples
    return "survived" if status in unnoticed else "killed", output


@cache
def pass_unchanged(tests: tuple[str, ...]) -> bool:
    """Whether tests pass without any change; those that do not would notice every change."""
    return run_tests(list(tests), keep_bytecode=True)[0] == "survived"


class Change(NamedTuple):
    """One change of cosmic-ray: the operator, and which of the places in the module it changes."""

    module: str
    line: int
    column: int
    operator: str
    arguments: dict[str, Any]
    occurrence: int


def drawn(count: int, seed: int, under: str) -> list[Change]:
    """Draw places in the code, and for each of them one of the changes that cosmic-ray knows."""
    from cosmic_ray import commands
    from cosmic_ray.work_db import WorkDB, use_db

    places: dict[tuple[str, int, int], list[Change]] = {}
    with use_db(":memory:", WorkDB.Mode.create) as database:
        paths = [path for path in modules() if path.as_posix().startswith(under)]
        commands.init(paths, database, {})
        for item in database.work_items:
            (mutation,) = item.mutations
            change = Change(
                mutation.module_path.as_posix(),
                *mutation.start_pos,
                mutation.operator_name,
                dict(mutation.operator_args),
                mutation.occurrence,
            )
            if not EXCLUDED.match(change.operator):
                places.setdefault(change[:3], []).append(change)
    draw = random.Random(seed)
    return [draw.choice(places[place]) for place in draw.sample(sorted(places), count)]


def sample(
    count: int,
    seed: int,
    part: tuple[int, int],
    out: Path,
    under: str = "",
    seconds: float = math.inf,
) -> None:
    """Try `count` random changes, one per place in the code, or those of a part of the modules.

    `under` is the beginning of the paths that are considered. No change is begun after `seconds`.
    """
    end = time.monotonic() + seconds
    from cosmic_ray import mutating, plugins

    for name in LARGE:
        importlib.import_module(name)
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = str(ROOT)
    kept = Path(f"{out}.drawn")  # finding all places takes more than a minute
    if kept.exists():
        chosen = [Change(*fields) for fields in json.loads(kept.read_text(encoding="utf-8"))]
    else:
        chosen = drawn(count, seed, under)
        kept.write_text(json.dumps(chosen), encoding="utf-8")
    names = sorted({change.module for change in chosen})
    chosen = [change for change in chosen if names.index(change.module) % part[1] == part[0] - 1]
    if out.exists():
        done = [json.loads(line)["place"] for line in out.read_text(encoding="utf-8").splitlines()]
    else:
        done = []
    for change in chosen:
        place = (change.module, change.line, change.column)
        if list(place) in done:
            continue
        if time.monotonic() > end:
            raise SystemExit("the time is over; call again for the rest")
        noticed_by: list[str] = []
        start = time.monotonic()
        of_line, are_all = tests_of_line(Path(place[0]), place[1])
        files = list(dict.fromkeys(name.partition("::")[0] for name in of_line))
        stages: list[tuple[list[str], list[str] | None]] = [(files, of_line)] if of_line else []
        # Tests that do not execute the line notice it only through a cache or another process, so
        # those of the folder are spared if all that do were run.
        closest, *folder = tests_of(Path(place[0]))
        stages.append((closest, None))
        if not are_all:
            stages += [(tests, None) for tests in folder]
        for tests, only in stages:
            operator = plugins.get_operator(change.operator)(**change.arguments)
            path = Path(change.module)
            with mutating.use_mutation(path, operator, change.occurrence) as (before, after):
                outcome, output = run_tests(tests, only=only)
            if outcome != "survived":
                noticed_by = re.findall(r"^(?:FAILED|ERROR) ([^\s[]+)", output, re.MULTILINE)
                if not pass_unchanged(tuple(noticed_by or tests)):
                    raise SystemExit(f"{noticed_by or tests} fail without any change:\n{output}")
                break
        diff = "\n".join(
            difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2)
        )
        row = {
            "place": place,
            "operator": change.operator,
            "outcome": outcome,
            "by": noticed_by,
            "diff": diff,
        }
        with out.open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
        taken = time.monotonic() - start
        print(f"{outcome}, {taken:.0f} s:", *place, change.operator, flush=True)
        if outcome == "survived":
            print(diff, flush=True)


def page(rows: list[dict[str, Any]], verdicts: dict[str, dict[str, str]]) -> str:
    """The page about a sample, from its results and a verdict on every change that no test
    noticed.
    """
    folders: dict[str, Counter[str]] = {}
    unnoticed: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["place"]):
        module, line, column = row["place"]
        folders.setdefault(folder_of(module), Counter())[row["outcome"]] += 1
        if row["outcome"] not in ("killed", "timeout"):
            verdict = verdicts[f"{module}:{line}:{column}"]
            change = row["operator"].removeprefix("core/")
            cells = f"| `{module}:{line}` | {change} | {verdict['verdict']} | {verdict['reason']} |"
            unnoticed.setdefault(verdict["verdict"], []).append(cells)
    total = sum(folders.values(), Counter())
    sentences = [
        f"{total.total()} changes were tried. {total['killed']} made a test fail, and "
        f"{total['timeout']} made the tests exceed the processor time of {PROCESSOR_SECONDS} s. "
        f"{sum(map(len, unnoticed.values()))} were not noticed:",
        *(
            f"- {verdict}: {len(unnoticed[verdict])}. {VERDICT[verdict]}"
            for verdict in VERDICT
            if verdict in unnoticed
        ),
    ]
    table = ["| folder | changes | noticed | not noticed |", "|---|---:|---:|---:|"]
    for folder, counts in sorted(folders.items()):
        noticed = counts["killed"] + counts["timeout"]
        table.append(f"| `{folder}` | {counts.total()} | {noticed} | {counts.total() - noticed} |")
    listed = ["| place | change | verdict | reason or test |", "|---|---|---|---|"]
    listed += [cells for verdict in VERDICT for cells in unnoticed.get(verdict, ())]
    parts = [
        INTRODUCTION,
        sentences[0] + "\n",
        "\n".join(sentences[1:]) + "\n",
        "\n".join(table) + "\n",
        "The changes that were not noticed, with line numbers of the version that was tested:\n",
        "\n".join(listed) + "\n",
    ]
    return "\n".join(parts)


def write_page(files: list[Path]) -> None:
    """Store the results, if there are new ones, and write the page."""
    if files:
        lines = {line for file in files for line in file.read_text(encoding="utf-8").splitlines()}
        new = sorted(map(json.loads, lines), key=lambda row: row["place"])
        for row in new:
            if row["outcome"] == "killed":
                del row["diff"]
        RESULTS.write_text("".join(json.dumps(row) + "\n" for row in new), encoding="utf-8")
    rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    PAGE.write_text(page(rows, json.loads(VERDICTS.read_text(encoding="utf-8"))), encoding="utf-8")


def main() -> None:
    """Print a module and its tests, try random changes, or write the page about them."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "day", nargs="?", type=int, default=datetime.datetime.now(datetime.UTC).toordinal()
    )
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--under", default="", help="only files whose paths begin like this")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so many")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--page", type=Path, nargs="*")
    parser.add_argument("--map", nargs="+", help="tests whose lines are stored")
    options = parser.parse_args()
    if options.page is not None:
        write_page(options.page)
    elif options.map:
        sys.exit(store_lines(options.map))
    elif options.sample:
        part, parts = map(int, options.part.split("/"))
        places = (part, parts)
        sample(options.sample, options.seed, places, options.out, options.under, options.seconds)
    else:
        print(of_the_day(options.day))


if __name__ == "__main__":
    main()
