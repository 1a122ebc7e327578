"""The code of docs/more-than-shapley.md runs as it stands, and its promises about the example hold."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "more-than-shapley.md"


def test_every_block_runs(capsys):
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    said = capsys.readouterr().out
    quoted = re.search(r"> (These .*?)\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1].replace("\n> ", " ")
    assert quoted in said
    assert namespace["reason"].players == (0,) and namespace["reason"].minimal
