"""The page of oracles (docs/theory/oracles.md): it lists the marks of the tests, and every row has
two columns.
"""

import pytest

from attn_closed_form import PooledGame, banzhaf, shapley
from tests import enumeration, oracles

GAME = PooledGame.from_scores([0.0, 1.0], [1.0, -1.0], empty_value=0.5)


def test_the_page_lists_the_marks_of_the_tests(request):
    """Of the files that were collected as a whole: all of them in `make test`."""
    collected = request.config.stash[oracles.COLLECTED]
    marked = oracles.entries_of(collected)
    listed = oracles.entries_on(oracles.PAGE.read_text(encoding="utf-8"))
    assert marked <= listed, "run `python -m tests.oracles`"
    if not any("::" in argument for argument in request.config.args):
        files = {item.path.resolve().relative_to(oracles.ROOT).as_posix() for item in collected}
        of_files = {entry for entry in listed if entry[2].partition("::")[0] in files}
        assert of_files <= marked, "run `python -m tests.oracles`"


def test_every_row_has_two_independent_columns():
    listed = oracles.entries_on(oracles.PAGE.read_text(encoding="utf-8"))
    few = {}
    for name in oracles.rows():
        columns = {column for row, column, _ in listed if row == name}
        if len(columns) < 2:
            few[name] = columns
    assert few == {}
    assert {name for name, _, _ in listed} == set(oracles.rows())


def test_functions_without_a_row_exist():
    assert set(oracles.WITHOUT_A_ROW) <= set(oracles.public_functions())


def test_a_page_can_be_read_again():
    entries = {
        ("game.shapley", "enumeration", "tests/game/test_shapley.py::test_a"),
        ("game.shapley", "enumeration", "tests/game/test_shapley.py::test_b"),
        ("lime.lime_limit", "another package", "tests/lime/test_c.py::test_c"),
    }
    assert oracles.entries_on(oracles.page(entries)) == entries


def marks(*functions, by="enumeration", through=None):
    return [oracles.checks(*functions, by=by, through=through).mark]


def test_a_comparison_that_takes_place_is_accepted():
    with oracles.watching(marks(shapley)):
        shapley(GAME)
        enumeration.shapley(GAME)


def other():
    return 1.0


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (marks(banzhaf), "game.banzhaf"),
        (marks(shapley, by="more digits"), "more digits"),
        (marks(shapley, through=other), "other"),
    ],
)
def test_a_comparison_that_does_not_take_place_is_a_failure(named, missing):
    def compare():
        with oracles.watching(named):
            shapley(GAME)
            enumeration.shapley(GAME)

    with pytest.raises(pytest.fail.Exception, match=missing):
        compare()


def test_wrong_marks():
    with pytest.raises(ValueError, match="by: expected one of"):
        oracles.checks(shapley, by="a guess")
    with pytest.raises(ValueError, match="expected a public function"):
        oracles.checks(other, by="enumeration")
