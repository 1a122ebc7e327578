"""Choose random changes to the library's code, and report the ones that no test notices.

`python .ci/mutants.py` prints a module and its tests for `make mutants`, a different one every day. Modules are those
with a test of the same name, such as `attn_closed_form/game/owen.py` with `tests/game/test_owen.py`.

`python .ci/mutants.py --sample 300 --seed 0 --out FILE` draws 300 places in the folders of FOLDERS, makes one random
cosmic-ray change at each, and runs the tests of the module, the closest ones first. Every result is appended to FILE
as a line of JSON. Places that are already in FILE are skipped, so an interrupted run resumes. The files themselves
are changed: run it in a copy of the repository (`make mutants-sample`).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import difflib
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = [f"attn_closed_form/{name}" for name in ("show", "models", "files", "run", "cli", "web")]
FOLDERS += ["jax_model/training"]
# Operators in type annotations have no effect at run time. A removed decorator mostly breaks the import.
EXCLUDED = re.compile("core/(ReplaceBinaryOperator_BitOr_|RemoveDecorator)")
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
SECONDS = 900.0
BYTES = 6 << 30
LARGE = ["pytest", "jax", "hypothesis", "scipy.stats", "sklearn", "matplotlib", "pyarrow", "fastapi"]


def modules(folders: list[str]) -> list[Path]:
    """Paths from the root, sorted."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def same_name(module: Path) -> Path:
    """The path that a test of the module's name would have."""
    folder = Path("tests/jax_model") if module.parts[0] == "jax_model" else Path("tests", *module.parts[1:-1])
    return folder / f"test_{module.name}"


def of_the_day(day: int) -> str:
    """A module, its docstring examples and the tests of its folder."""
    tested = [module for module in modules(["attn_closed_form", "jax_model"]) if (ROOT / same_name(module)).is_file()]
    module = tested[day % len(tested)]
    return f"{module.as_posix()} {module.as_posix()} {same_name(module).parent.as_posix()}"


def tests_of(module: Path) -> list[list[str]]:
    """The docstring examples with the test of the same name, and the tests beside it or that import the module."""
    package = ".".join(module.parts[:-1])
    imports = re.compile(rf"\b{re.escape(package)}(\.{module.stem}\b| import .*\b{module.stem}\b)")
    if module.parts[0] == "jax_model":
        imports = re.compile(re.escape(package))  # the folder tests/jax_model serves four packages
    others = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        beside = test.parent == ROOT / same_name(module).parent and module.parts[0] != "jax_model"
        if beside or imports.search(test.read_text(encoding="utf-8")):
            others.append(test.relative_to(ROOT))
    first = [test for test in others if test == same_name(module)]
    rest = [test for test in others if test not in first]
    # The module comes last: examples import it a second time, under the name that the tests have already given it.
    return [[path.as_posix() for path in stage] for stage in ([*first, module], rest) if stage]


def run_tests(tests: list[str], seconds: float, keep_bytecode: bool = False) -> tuple[str, str]:
    """Outcome and output of pytest in a copy of this process, which has imported the large packages already."""
    import pytest  # the module of the day is chosen without it

    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if not child:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))  # a loop that never ends must not fill the machine
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            # Bytecode of the changed module must not be taken for that of the original.
            sys.dont_write_bytecode = not keep_bytecode
            os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep_bytecode else "1"
            status = int(pytest.main([*OPTIONS, *tests]))
            sys.stdout.flush()
            os._exit(status)
        end = time.monotonic() + seconds
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not ended[0]:
            os.waitpid(child, 0)
        log.seek(0)
        unnoticed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # a module may have no examples
        survived = os.waitstatus_to_exitcode(ended[1]) in unnoticed
        outcome = ("survived" if survived else "killed") if ended[0] else "timeout"
        return outcome, log.read().decode("utf-8", "replace")


def sample(count: int, seed: int, out: Path) -> None:
    """Try `count` random changes, one per place in the code."""
    from cosmic_ray import commands, mutating, plugins
    from cosmic_ray.work_db import WorkDB, use_db

    for name in LARGE:
        importlib.import_module(name)
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = str(ROOT)
    places: dict[tuple[str, int, int], list[object]] = {}
    with use_db(":memory:", WorkDB.Mode.create) as database:
        commands.init(modules(FOLDERS), database, {})
        for item in database.work_items:
            (mutation,) = item.mutations
            name, (line, column) = mutation.module_path.as_posix(), mutation.start_pos
            if not EXCLUDED.match(mutation.operator_name):
                places.setdefault((name, line, column), []).append(mutation)
    draw = random.Random(seed)
    chosen = [(place, draw.choice(places[place])) for place in draw.sample(sorted(places), count)]
    done = [json.loads(line)["place"] for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    seconds: dict[tuple[str, ...], float] = {}
    for place, mutation in chosen:
        if list(place) in done:
            continue
        for tests in tests_of(Path(place[0])):
            if tuple(tests) not in seconds:  # a test that fails anyway would notice every change
                start = time.monotonic()
                outcome, output = run_tests(tests, SECONDS, keep_bytecode=True)
                if outcome != "survived":
                    raise SystemExit(f"{tests} fail without any change:\n{output}")
                seconds[tuple(tests)] = 60 + 4 * (time.monotonic() - start)
            operator = plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
            with mutating.use_mutation(mutation.module_path, operator, mutation.occurrence) as (before, after):
                outcome, _ = run_tests(tests, seconds[tuple(tests)])
            if outcome != "survived":
                break
        diff = "\n".join(difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2))
        row = {"place": place, "operator": mutation.operator_name, "outcome": outcome, "diff": diff}
        with out.open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
        print(outcome, *place, mutation.operator_name, flush=True)
        if outcome == "survived":
            print(diff, flush=True)


def main() -> None:
    """Print a module and its tests, or try random changes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("day", nargs="?", type=int, default=datetime.datetime.now(datetime.UTC).toordinal())
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    if options.sample:
        sample(options.sample, options.seed, options.out)
    else:
        print(of_the_day(options.day))


if __name__ == "__main__":
    main()
