"""The README's measured numbers are those of the benchmarks' JSON files."""

import json

from benchmarks.readme_numbers import BEGIN, END, README, numbers_table, with_numbers


def test_the_table_is_not_stale():
    text = README.read_text(encoding="utf-8")
    assert text == with_numbers(text, numbers_table()), "run python -m benchmarks.readme_numbers"


def test_a_missed_bar_is_said(tmp_path):
    bars = [{"name": "speed", "measured": 3.0, "relation": ">=", "limit": 10.0, "met": False}]
    (tmp_path / "lime.json").write_text(json.dumps({"bars": bars}))
    assert "| `lime` | speed | 3 (missed) | at least 10 |" in numbers_table(tmp_path)


def test_only_the_table_changes():
    assert with_numbers(f"a{BEGIN}old{END}b", "new") == f"a{BEGIN}\nnew\n{END}b"
