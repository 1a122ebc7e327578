"""The mutator changes what computes and nothing else, and a changed module fails its tests."""

import ast
import json
import subprocess
import sys

import pytest

from benchmarks import harmless, mutations
from benchmarks.harness import RESULTS
from benchmarks.mutant_runs import Record, Verdict, chosen
from benchmarks.mutants import FOLDERS, PAGE, Noticed, draw, modules, page, row_of, survivors
from benchmarks.mutations import changes_of, mutated

TINY = '''
"""A module of 3 lines."""
LIMIT = 0.5


def clipped(x: int | None, *, step: int = 1) -> float:
    """At most 7."""
    if x < 0:
        raise ValueError(f"x: expected {1 + 1} or more")
    return max(abs(x) + step, LIMIT)


def __repr__() -> str:
    return str(1 + 1)
'''


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY, encoding="utf-8")
    return path


def test_every_kind_of_change_is_there_and_nothing_that_computes_nothing(tiny):
    texts = {change.text for change in changes_of(tiny)}
    assert texts == {
        "LIMIT = 0.5 -> LIMIT = 1.0",
        "LIMIT = 0.5 -> LIMIT = 0.25",
        "x: int | None, *, step: int=1 -> x: int | None, *, step: int=2",
        "x: int | None, *, step: int=1 -> x: int | None, *, step: int=0",
        "x < 0 -> x <= 0",
        "x < 0 -> x >= 0",
        "x < 0 -> x < 1",
        "x < 0 -> x < -1",
        "max(abs(x) + step, LIMIT) -> min(abs(x) + step, LIMIT)",
        "abs(x) + step -> abs(x) - step",
        "abs(x) -> x",
    }
    assert {change.function for change in changes_of(tiny)} == {"", "clipped"}


def test_each_change_makes_one_difference_and_a_test_sees_it(tiny):
    original = ast.parse(TINY)
    caught = {}
    for change in changes_of(tiny):
        tree = mutated(change)
        assert ast.dump(tree) != ast.dump(original)
        assert tiny.read_text(encoding="utf-8") == TINY
        space = {}
        exec(compile(tree, "tiny.py", "exec"), space)
        try:
            caught[change.text] = space["clipped"](0) != 1 or space["clipped"](2) != 3
        except ValueError:
            caught[change.text] = True
    # No test above has a number below zero or a result below the limit.
    assert {text for text, seen in caught.items() if not seen} == {
        "LIMIT = 0.5 -> LIMIT = 1.0", "LIMIT = 0.5 -> LIMIT = 0.25", "x < 0 -> x < -1", "abs(x) -> x",
    }  # fmt: skip


def test_a_number_that_is_none_of_the_changes_is_refused(tiny):
    with pytest.raises(ValueError, match="change: expected one of the 11"):
        mutated(changes_of(tiny)[0]._replace(number=11))


def test_the_changed_code_takes_the_place_of_the_old():
    script = """
from attn_closed_form.slalom import readoff
from attn_closed_form.models.classifier import attention, positions
from benchmarks.mutant_runs import graft
from benchmarks.mutants import matching
taken = positions.sinusoidal_positions
before = taken(4, 2)[1, 0]
[change] = matching(["classifier"], "coordinate // 2 + 1 -> coordinate // 2 - 1")
graft(change)
assert before != taken(4, 2)[1, 0]
[change] = matching(["slalom"], "SAME = 1e-12 -> SAME = 5e-13")
graft(change)
assert readoff.SAME == 5e-13
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_draw_has_a_seed_and_no_line_twice():
    drawn = draw(["classifier"], 40, seed=0)
    assert drawn == draw(["classifier"], 40, seed=0) != draw(["classifier"], 40, seed=1)
    assert len({(change.path, change.line) for change in drawn}) == 40


def test_tests_that_call_the_function_run_quick_ones_first():
    change = draw(["lime"], 1, seed=0)[0]
    place = change.path.relative_to(mutations.Path(__file__).parents[2]).as_posix()
    calls = frozenset({f"{place}:{change.function}"})
    names = ["tests/lime/a.py::slow", "tests/lime/a.py::quick", "tests/lime/a.py::other", "tests/game/a.py::elsewhere"]
    known = dict.fromkeys(names, Record(1.0, calls))
    known |= {names[1]: Record(0.1, calls), names[2]: Record(0.1, frozenset({"elsewhere.py:f"}))}
    assert chosen(change, known, names, budget=5.0) == [names[1], names[0]]
    assert chosen(change, known, names, budget=0.5) == [names[1]]
    assert chosen(change, known, names, budget=0.5, first=names[0]) == [names[0], names[1]]
    assert chosen(change, known, names, budget=0.5, first="gone") == [names[1]]


def test_what_noticed_a_change_is_kept_as_verdicts_come(tmp_path):
    change, other = draw(["lime"], 2, seed=0)
    noticed = Noticed(tmp_path / "kept")
    noticed.add(Verdict(change, True, "tests/lime/a.py::quick", 3, 0.1))
    again = Noticed(tmp_path / "kept")
    assert again.by(change) == "tests/lime/a.py::quick"
    again.add(Verdict(change, False, "", 3, 0.1))
    assert Noticed(tmp_path / "kept").by(change) == ""
    assert again.by(other._replace(text="no such change")) == ""


def test_survivors_without_a_reason_can_be_run_again(monkeypatch):
    change, other, named = draw(["lime"], 3, seed=0)
    rows = [row_of(Verdict(one, one is other, "", 3, 0.1)) for one in (change, other, named)]
    file = named.path.as_posix().rpartition("attn_closed_form/")[2]
    monkeypatch.setattr(harmless, "HARMLESS", {(file, named.function, named.text): "No harm."})
    assert survivors([*rows, {**rows[0], "change": "what is gone"}]) == (rows, [change])


def test_the_page_of_survivors_is_that_of_the_results():
    """`python -m benchmarks.mutants --reasons` writes it anew; every survivor has a reason."""
    last = json.loads((RESULTS / "mutants.json").read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(last["rows"], last["seed"])
    assert len(last["rows"]) >= 200 and "NOT YET NAMED" not in page(last["rows"], last["seed"])


def test_a_survivor_is_on_the_page_with_its_reason(monkeypatch):
    change = draw(["lime"], 1, seed=0)[0]
    file = change.path.as_posix().rpartition("attn_closed_form/")[2]
    survived, caught = row_of(Verdict(change, False, "", 3, 0.1)), row_of(Verdict(change, True, "a test", 3, 0.1))
    assert "NOT YET NAMED" in page([survived], 0)
    assert change.text not in page([caught], 0)
    monkeypatch.setattr(harmless, "HARMLESS", {(file, change.function, change.text.split(" -> ")[0]): "a chunk size"})
    assert "| a chunk size |" in page([survived], 0)


def test_every_reason_is_about_code_that_is_there():
    there = set()
    for path in modules(FOLDERS):
        file = path.as_posix().rpartition("attn_closed_form/")[2]
        for change in changes_of(path):
            there |= {(file, change.function, change.text), (file, change.function, change.text.split(" -> ")[0])}
    assert set(harmless.HARMLESS) <= there
