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
import datetime
import json
import random
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = [f"attn_closed_form/{name}" for name in ("show", "models", "files", "run", "cli", "web")]
FOLDERS += ["jax_model/training"]
# Operators in type annotations have no effect at run time. A removed decorator mostly breaks the import.
EXCLUDED = re.compile("core/(ReplaceBinaryOperator_BitOr_|RemoveDecorator)")
COMMAND = "python -m pytest -q -x -p no:cacheprovider -m 'not slow' "
SECONDS = 400.0


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
    first = [module, same_name(module)] if same_name(module) in others else []
    rest = [test for test in others if test not in first]
    return [[path.as_posix() for path in stage] for stage in (first, rest or [module]) if stage]


def sample(count: int, seed: int, out: Path, part: int, parts: int) -> None:
    """Try `count` random changes, one per place in the code; of these, every `parts`-th."""
    from cosmic_ray import commands, mutating
    from cosmic_ray.testing import run_tests
    from cosmic_ray.work_db import WorkDB, use_db

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
    todo = [(place, mutation) for place, mutation in chosen[part::parts] if list(place) not in done]
    for command in sorted({COMMAND + " ".join(tests) for place, _ in todo for tests in tests_of(Path(place[0]))}):
        outcome, output = run_tests(command, SECONDS)
        if outcome.value != "survived":  # a test that fails anyway would notice every change
            raise SystemExit(f"{command} fails without any change:\n{output}")
    for place, mutation in todo:
        for tests in tests_of(Path(place[0])):
            result = mutating.mutate_and_test([mutation], COMMAND + " ".join(tests), SECONDS)
            outcome = "timeout" if result.output == "timeout" else getattr(result.test_outcome, "value", "none")
            if outcome != "survived":
                break
        row = {"place": place, "operator": mutation.operator_name, "outcome": outcome, "diff": result.diff}
        with out.open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
        print(outcome, *place, mutation.operator_name, flush=True)
        if outcome == "survived":
            print(result.diff, flush=True)


def main() -> None:
    """Print a module and its tests, or try random changes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("day", nargs="?", type=int, default=datetime.datetime.now(datetime.UTC).toordinal())
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    options = parser.parse_args()
    if options.sample:
        sample(options.sample, options.seed, options.out, options.part, options.parts)
    else:
        print(of_the_day(options.day))


if __name__ == "__main__":
    main()
