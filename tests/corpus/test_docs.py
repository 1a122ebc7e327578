"""The Python blocks of docs/corpus.md and docs/service.md run."""

import pytest

from tests.corpus.corpora import ROOT
from tests.test_readme import run_python


@pytest.mark.parametrize("name", ["corpus", "service"])
def test_the_blocks_run(name, capsys):
    if name == "corpus":
        pytest.importorskip("pandas")
    path = ROOT / "docs" / f"{name}.md"
    run_python(path.read_text(encoding="utf-8"), path)
    assert ("2 of 2" in capsys.readouterr().out) == (name == "corpus")
