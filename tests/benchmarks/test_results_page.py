"""RESULTS.md is what the JSON files say, and nothing else."""

import json

import pytest

from benchmarks import results_page
from benchmarks.harness import RESULTS


@pytest.fixture
def folder(tmp_path):
    machine = {"processor": "abacus", "cores": 2, "date": "2024-01-01"}
    rows = [
        {
            "result": "P2 Table 10",
            "case": "b",
            "ours": 0.123456,
            "ours_pm": 0.01,
            "paper": 0.8,
            "differs": "size | kind",
        },
        {"result": "P2 Table 9", "case": "a", "ours": "holds in 1 of 2", "paper": "claimed"},
    ]
    bar = {"name": "speed", "measured": 43.0, "relation": ">=", "limit": 10.0, "met": True}
    for name, content in (
        ("one", {"rows": rows, "bars": []}),
        ("two", {"rows": [{"error": 1e-3}], "bars": [bar]}),
    ):
        record = {"name": name, "settings": {"K": 6}, "seed": 0, "machine": machine, **content}
        (tmp_path / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path


def test_the_page_in_the_repository_is_fresh():
    assert results_page.PAGE.read_text(encoding="utf-8") == results_page.render(RESULTS), (
        "stale: run python -m benchmarks.results_page"
    )


def test_rows_are_grouped_in_natural_order_and_pipes_are_escaped(folder):
    page = results_page.render(folder)
    assert page.index("### P2 Table 9") < page.index("### P2 Table 10")
    assert "| b |  | 0.123 ± 0.01 | 0.8 | size \\| kind |" in page
    assert "| a |  | holds in 1 of 2 | claimed |  |" in page
    assert "speed" not in page, "BARS.md has the targets"
    assert "1e-3" not in page and "0.001" not in page


def test_a_changed_number_makes_it_stale(folder, capsys):
    out = folder / "page.md"
    arguments = ["--results", str(folder), "--out", str(out)]
    assert results_page.main([*arguments, "--check"]) == 1
    assert results_page.main(arguments) == 0
    assert results_page.main([*arguments, "--check"]) == 0
    file = folder / "one.json"
    file.write_text(file.read_text(encoding="utf-8").replace("0.123456", "0.2"), encoding="utf-8")
    assert results_page.main([*arguments, "--check"]) == 1
    assert "stale" in capsys.readouterr().err
