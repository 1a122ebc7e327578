"""Which test compares which public function of the mathematics with which independent oracle.

A test says so itself, with `@checks(shapley, by="another package")`. While such a test runs, a
profiler watches that the function and the oracle are both executed, and the test fails if one of
them is not: a mark cannot promise what the test does not do. `python -m tests.oracles` collects the
marks and writes docs/theory/oracles.md, and `tests/test_oracle_table.py` compares the page with the
marks and asks for two columns in every row.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory" / "oracles.md"
# The columns of the table: what shows that the oracle was executed, as parts of the paths of source
# files.
COLUMNS = {
    "the twin": ("jax_model/witness/", "tests/comparisons.py"),
    "enumeration": (
        "tests/enumeration.py",
        "tests/reasons/brute_reasons.py",
        "proofs_check/brute_force.py",
        "proofs_check/long_documents.py",
    ),
    "more digits": (
        "/mpmath/",
        "/fractions.py",
        "benchmarks/guarantee_oracle.py",
        "benchmarks/guarantee_types.py",
    ),
    "another package": ("/shap/", "/shapiq/", "/lime/lime_", "/sklearn/", "/scipy/"),
}
# Public modules of the mathematics.
MODULES = ("attention", "game", "lime", "reasons", "slalom")
# Functions without a row, with the reason.
WITHOUT_A_ROW = {
    "attention.random_weights": "draws an example",
    "attention.sinusoidal_positions": "makes an array of weights, which every oracle of the attention takes as it is",
    "lime.lime_cost": "predicts steps, which `tests/lime/test_cost.py` compares with those that are taken",
    "lime.lime_samples_needed": "is an estimate, which `tests/lime/test_sampled.py` compares with the spread of runs",
}
# Where the session keeps the tests that it has collected (tests/conftest.py).
COLLECTED = pytest.StashKey[list[Any]]()
# Methods that compute, in addition to the functions.
METHODS = (
    "game.PooledGame.value",
    "game.TailGame.value",
    "game.GameSum.value",
    "slalom.Slalom.predict",
)
INTRODUCTION = """\
---
hide: [navigation]
---

# Every closed form against independent oracles

Each row is a public function of the mathematics, and each column is a way to compute the same numbers that shares no
formula with it. The entries are the tests that compare the two. Some enumerations and packages ask the library for the
value of each coalition, which has a row of its own (`PooledGame.value`).

- **The twin** is `jax_model/witness`, written in JAX from the definitions of the papers: automatic differentiation for
  derivatives, and predictions of all coalitions for games.
- **Enumeration** is a loop over all coalitions, orders or counts, in `tests/enumeration.py`, `proofs_check` or in the
  test itself.
- **More digits** is a computation in ball arithmetic (python-flint), in twenty digits or more (mpmath) or in exact
  fractions.
- **Another package** is shap, shapiq, lime, scikit-learn or SciPy.

Every function has at least two columns. This page is made from the marks of the tests (`python -m tests.oracles`), and a
marked test fails if it does not execute both the function and the oracle (`tests/oracles.py`).

"""


def checks(*functions: Callable[..., Any], by: str, through: Any = None) -> pytest.MarkDecorator:
    """Mark a test that compares functions with the oracle of a column.

    `through` is a function or a class of the test that is the oracle, where it is not in one of the
    files of COLUMNS.
    """
    if by not in COLUMNS:
        raise ValueError(f"by: expected one of {', '.join(COLUMNS)}, got {by!r}")
    for function in functions:
        if name_of(function) not in rows():
            raise ValueError(f"{function}: expected a public function of the mathematics")
    return pytest.mark.oracle(functions, by, through)


# --- public functions
# -----------------------------------------------------------------------------------------------


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every public function of the mathematics by its name, such as `game.shapley`, and some
    methods.
    """
    found: dict[str, Callable[..., Any]] = {}
    for module_name in MODULES:
        module = import_module(f"attn_closed_form.{module_name}")
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                found[f"{module_name}.{name}"] = function
    for name in METHODS:
        module_name, class_name, method = name.split(".")
        owner = getattr(import_module(f"attn_closed_form.{module_name}"), class_name)
        found[name] = getattr(owner, method)
    return found


def rows() -> list[str]:
    """The names of the functions that have a row."""
    return [name for name in public_functions() if name not in WITHOUT_A_ROW]


def name_of(function: Callable[..., Any]) -> str:
    """The public name of a function, or an empty one."""
    for name, public in public_functions().items():
        if public is function:
            return name
    return ""


# --- a test that runs
# -----------------------------------------------------------------------------------------------


class Watch:
    """What of the functions and oracles of some marks has not been executed yet."""

    def __init__(self, marks: list[pytest.Mark]) -> None:
        self.codes: dict[Any, str] = {}
        self.files: dict[str, tuple[str, ...]] = {}
        for mark in marks:
            functions, column, through = mark.args
            for function in functions:
                self.codes[inspect.unwrap(function).__code__] = name_of(function)
            if through is None:
                self.files[column] = COLUMNS[column]
            else:
                for code in _codes_of(through):
                    self.codes[code] = through.__name__
        self.names = {*self.codes.values(), *self.files}

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        """Take note of a call, as a function for `sys.setprofile`."""
        if event != "call":
            return
        name = self.codes.get(frame.f_code)
        if name is not None:
            self.names.discard(name)
        else:
            path = frame.f_code.co_filename.replace("\\", "/")
            for column, parts in self.files.items():
                if any(part in path for part in parts):
                    self.names.discard(column)
        if not self.names:
            sys.setprofile(None)


def _codes_of(through: Any) -> list[Any]:
    """The code of a function, or of the methods of a class."""
    if inspect.isclass(through):
        return [member.__code__ for _, member in inspect.getmembers(through, inspect.isfunction)]
    return [inspect.unwrap(through).__code__]


@contextlib.contextmanager
def watching(marks: list[pytest.Mark]) -> Iterator[None]:
    """Fail at the end if something that a mark names was not executed."""
    watch = Watch(marks)
    before = sys.getprofile()
    if before is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
    if watch.names:
        pytest.fail(f"marked as a comparison, but not executed: {', '.join(sorted(watch.names))}")


# --- the page
# -------------------------------------------------------------------------------------------------------

# One comparison: name of the function, column, and file::name of the test.
Entry = tuple[str, str, str]


def entries_of(items: list[Any]) -> set[Entry]:
    """The comparisons of collected tests."""
    found = set()
    for item in items:
        for mark in item.iter_markers("oracle"):
            functions, column, _ = mark.args
            path = Path(str(item.path)).resolve().relative_to(ROOT).as_posix()
            for function in functions:
                name = item.originalname or item.name
                found.add((name_of(function), column, f"{path}::{name}"))
    return found


def page(entries: set[Entry]) -> str:
    """The page, in Markdown: one table per module."""
    parts = [INTRODUCTION]
    for module in MODULES:
        lines = [f"## attn_closed_form.{module}", ""]
        lines.append(f"| function | {' | '.join(COLUMNS)} |")
        lines.append("|---" * (1 + len(COLUMNS)) + "|")
        for name in sorted(rows()):
            if not name.startswith(f"{module}."):
                continue
            cells = [f"`{name.partition('.')[2]}`"]
            for column in COLUMNS:
                tests = sorted(test for row, by, test in entries if (row, by) == (name, column))
                cells.append("<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests))
            lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines) + "\n\n")
    parts.append("## Functions without a row\n\n")
    parts += [f"- `{name}` {reason}.\n" for name, reason in sorted(WITHOUT_A_ROW.items())]
    return "".join(parts)


def entries_on(text: str) -> set[Entry]:
    """The comparisons that a page lists."""
    found = set()
    module = ""
    for line in text.splitlines():
        if line.startswith("## attn_closed_form."):
            module = line.removeprefix("## attn_closed_form.")
        elif line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            for column, cell in zip(COLUMNS, cells, strict=True):
                for test in re.findall(r"`([^`]+)`", cell):
                    found.add((f"{module}.{name.strip('`')}", column, f"tests/{test}"))
    return found


class Collector:
    """A plugin of pytest that keeps the collected tests."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep them, those that are deselected, too."""
        self.items = session.config.stash[COLLECTED]


def main() -> int:
    """Collect the tests, and write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    collector = Collector()
    status = pytest.main(["--collect-only", "-qq", "-p", "no:xdist", "tests"], plugins=[collector])
    if status != pytest.ExitCode.OK:
        return int(status)
    PAGE.write_text(page(entries_of(collector.items)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    # The conftest imports this module by its name, and there must be one of it.
    from tests.oracles import main as main_of_the_module

    sys.exit(main_of_the_module())
