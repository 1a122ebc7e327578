"""The tables of changes by hand (`make mutants-proof`): every constant of the proof has a test that
exists.

`.ci/proof_changes.py` makes the changes and runs the tests. Here the tables are read alone: what
they say must be there.
"""

import tomllib
from pathlib import Path

import pytest

from benchmarks.guarantee_type_games import SHARES

ROOT = Path(__file__).parents[1]
TABLES = {
    name: tomllib.loads((ROOT / ".ci" / f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("proof_changes", "other_changes")
}
CHANGES = [(name, change) for name, table in TABLES.items() for change in table["change"]]
IDS = [f"{name}-{change['what']}" for name, change in CHANGES]
# Of the constants of the proof, at most so many may be too small without a test that fails.
MOST_HARMLESS = 12


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=IDS)
def test_every_change_has_a_test_or_a_reason(name, change):
    assert ("test" in change) != ("harmless" in change)
    if "harmless" in change:
        assert len(change["harmless"]) > 20
        return
    file, _, test = change["test"].partition("::")
    assert (ROOT / file).exists()
    if test:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_few_constants_have_no_test():
    harmless = [change for change in TABLES["proof_changes"]["change"] if "harmless" in change]
    assert len(harmless) <= MOST_HARMLESS


def test_all_changes_that_version_03_did_not_notice_are_there():
    """77 of ten times, 7 of twice: in the table, or with the reason why the code is gone."""
    table = TABLES["proof_changes"]
    listed = [change for change in table["change"] if "was" in change]
    assert len(listed) + len(table["removed"]) == 84


def test_ten_changes_name_a_function_for_the_search():
    """`python .ci/proof_changes.py --search` finds results outside with at least five of them."""
    searched = [change["searched"] for _, change in CHANGES if "searched" in change]
    assert len(searched) == 10
    assert set(searched) <= set(SHARES)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), CHANGES, ids=IDS)
def test_the_changed_text_is_in_its_file(name, change):
    """Code that moves or is rewritten takes its line in the table with it."""
    text = (ROOT / change["file"]).read_text(encoding="utf-8")
    assert text.count(change["before"]) == 1, f"update .ci/{name}.toml"
