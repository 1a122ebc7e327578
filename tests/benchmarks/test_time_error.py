"""The tables of README and home page are those of the result file, and a changed number is seen."""

import json

import pytest

from benchmarks.harness import RESULTS
from benchmarks.time_error import PAGES, STYLES, main, with_table


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_table_of_a_page_is_made_from_the_results(path):
    record = json.loads((RESULTS / "time_error.json").read_text(encoding="utf-8"))
    page = path.read_text(encoding="utf-8")
    assert with_table(page, record) == page
    changed = {**record, "rows": [{**row, "error": 0.5} for row in record["rows"]]}
    assert with_table(page, changed) != page
    assert {row["method"] for row in record["rows"]} >= set(STYLES)


def test_without_its_data_the_benchmark_stops_with_a_sentence(tmp_path, capsys):
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    assert main(["--data", str(tmp_path / "nothing.tar.gz")]) == 1
    assert "time_error needs IMDB's reviews" in capsys.readouterr().err
    assert [path.read_text(encoding="utf-8") for path in PAGES] == pages
