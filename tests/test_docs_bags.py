"""The code of docs/your-bags.md that trains a network runs as it stands, from the first line to the last map."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "your-bags.md"


def test_the_training_section_runs(tmp_path, monkeypatch, capsys):
    for extra in ("sklearn", "matplotlib", "optax"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    section = PAGE.read_text(encoding="utf-8").split("## Train one yourself")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "'more nines' 'more threes'" in capsys.readouterr().out
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"digits.npz", "map.png", "scores.csv", "slide.geojson", "slide.html", "classes.png"}
    assert names["network"].outputs == ("more nines", "more threes")
