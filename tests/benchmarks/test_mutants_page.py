"""The page about random changes has the stored counts, and the tests that it names exist."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the sample is drawn on POSIX systems")
ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / ".ci" / "mutants.py")
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)
VERDICTS = json.loads(mutants.VERDICTS.read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_results_and_the_verdicts():
    rows = [json.loads(line) for line in mutants.RESULTS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 300 and len({tuple(row["place"]) for row in rows}) == len(rows)
    assert mutants.PAGE.read_text(encoding="utf-8") == mutants.page(rows, VERDICTS)
    with pytest.raises(KeyError):  # a change that nobody noticed needs a verdict
        mutants.page(rows, {})


def test_every_test_that_a_verdict_names_exists():
    named = [re.match("`(.+)`", each["reason"]) for each in VERDICTS.values() if each["verdict"] != "harmless"]
    assert named and all(named)
    for match in named:
        path, *_, name = match[1].split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), match[1]
