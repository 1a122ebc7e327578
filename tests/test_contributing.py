"""The worked examples of CONTRIBUTING.md run: a new method is one entry, a new kind of model is one class."""

import re
from pathlib import Path

import pytest

from attn_closed_form import METHODS

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)


def test_there_is_one_example_per_kind_of_extension():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs(block, monkeypatch):
    for name in ("first-last",):  # registered by an example: forgotten afterwards
        monkeypatch.setitem(METHODS, name, METHODS["loo"])
    exec(compile(block, str(PAGE), "exec"), {"__name__": "example"})
