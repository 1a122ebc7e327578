"""The notebooks of the site: they are made from the pages, are valid, and run from the first cell
to the last.
"""

import json

import pytest

from tests.page_setups import NEEDS, forget_methods
from tests.pages import ROOT, blocks, build_site, name_of, reader, run, same_output

pytest.importorskip("mkdocs", reason="the packages of the site are not installed")
NOTEBOOKS = build_site("notebooks")
DOCS = ROOT / "docs"
PAGES_WITH_NOTEBOOK = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if NOTEBOOKS.has_notebook(path.relative_to(DOCS).as_posix(), path.read_text(encoding="utf-8"))
]
CODE = "".join


def made(path):
    return NOTEBOOKS.notebook(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES_WITH_NOTEBOOK, ids=name_of)
def test_a_notebook_is_valid_and_has_every_block_of_its_page(path):
    nbformat = pytest.importorskip("nbformat")
    book = made(path)
    nbformat.validate(nbformat.reads(json.dumps(book), as_version=4))
    cells = [CODE(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    at_the_margin = [code.rstrip("\n") for _, code in blocks(path.read_text(), "python", "py")]
    assert cells == [code for code in at_the_margin if code in cells]
    assert cells


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PAGES_WITH_NOTEBOOK, ids=name_of)
def test_a_notebook_runs_and_prints_what_it_shows(path, monkeypatch):
    for package in NEEDS.get(name_of(path), ()):
        pytest.importorskip(package)
    forget_methods(monkeypatch)
    book = made(path)
    if "needs:" in path.read_text(encoding="utf-8"):
        pytest.skip("a block needs a package of its own")
    with reader(name_of(path)) as names:
        namespace = {"__name__": "__page__", **names}
        for number, cell in enumerate(book["cells"]):
            if cell["cell_type"] != "code":
                continue
            printed = run(CODE(cell["source"]), 1, path, namespace)
            shown = CODE(CODE(output["text"]) for output in cell["outputs"])
            assert same_output(printed.strip(), shown.strip()), number


def test_a_notebook_that_prints_something_else_is_noticed():
    book = NOTEBOOKS.notebook('# T\n\n```python\n1 + 1\n```\n\n```text title="Output"\n3\n```\n')
    (cell,) = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    printed = run(CODE(cell["source"]), 1, DOCS / "index.md", {})
    assert not same_output(printed, CODE(cell["outputs"][0]["text"]))
