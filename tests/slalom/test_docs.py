"""The code of docs/slalom.md runs."""

from pathlib import Path

import pytest

from tests.test_readme import run_python

PAGE = Path(__file__).parents[2] / "docs" / "slalom.md"


@pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
def test_the_page_runs(capsys):
    run_python(PAGE.read_text(encoding="utf-8"), PAGE)
    out = capsys.readouterr().out
    assert "wonderful" in out and "error on fresh deletions" in out
