"""The table of the README is that of the result file, and a changed number is seen."""

import json

from benchmarks.harness import RESULTS
from benchmarks.time_error import README, STYLES, with_table


def test_the_table_of_the_readme_is_made_from_the_results():
    rows = json.loads((RESULTS / "time_error.json").read_text(encoding="utf-8"))["rows"]
    page = README.read_text(encoding="utf-8")
    assert with_table(page, rows) == page
    assert with_table(page, [{**row, "error": 0.5} for row in rows]) != page
    assert {row["method"] for row in rows} == set(STYLES)
