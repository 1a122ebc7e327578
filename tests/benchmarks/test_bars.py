"""The page of measured promises is that of the benchmarks' JSON files."""

import json

from benchmarks.bars import PAGE, bars_page


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == bars_page(), "run python -m benchmarks.bars"


def test_a_missed_bar_is_said(tmp_path):
    bars = [{"name": "speed", "measured": 3.0, "relation": ">=", "limit": 10.0, "met": False}]
    (tmp_path / "lime.json").write_text(json.dumps({"bars": bars}))
    assert "| `lime` | speed | 3 (missed) | at least 10 |" in bars_page(tmp_path)
