"""Every page: its Python runs from the first line to the last, its commands exist, its links lead
somewhere.
"""

import doctest
import inspect
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attn_closed_form.app.cli.main import PROG
from attn_closed_form.app.models.layouts import LAYOUTS
from tests.page_setups import NEEDS, SETUPS, forget_methods
from tests.pages import (
    LINK,
    PAGES,
    REFERENCE,
    ROOT,
    blocks,
    broken_links,
    build_site,
    commands,
    name_of,
    outputs,
    problem,
    reader,
    run_page,
    same_output,
    without_code,
)
from tests.profiles import mostly_slow

# Pages that take more than a few seconds: they use large packages, run lime hundreds of times, or
# train a model.
SLOW_PAGES = {
    "docs/attention-heads.md",
    "docs/coming-from.md",
    "docs/corpus.md",
    "docs/gallery.md",
    "docs/service.md",
    "docs/tutorials/how-lime-converges.md",
    "docs/your-bags.md",
    "docs/your-texts.md",
    "docs/your-transformer.md",
}
WITH_CODE = [path for path in PAGES if blocks(path.read_text(encoding="utf-8"), "python", "py")]
SLOW = [path for path in WITH_CODE if name_of(path) in SLOW_PAGES]
QUICK = [path for path in WITH_CODE if name_of(path) not in SLOW_PAGES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", mostly_slow([*QUICK, *SLOW], len(QUICK)), ids=name_of)
def test_every_block_runs_and_shows_its_output(path, monkeypatch):
    name = name_of(path)
    markdown = path.read_text(encoding="utf-8")
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{name} uses {package}")
    forget_methods(monkeypatch)
    with reader(name) as names:
        names, made = run_page(markdown, path, names)
        if promise := PROMISES.get(name):
            promise(names, "\n".join(outputs(made)))
    shown = outputs(markdown)
    now = outputs(made)
    stale = [(old, new) for old, new in zip(shown, now, strict=False) if not same_output(old, new)]
    assert stale == [] and len(shown) == len(now), "run `make outputs` and read what changed"


def your_bags(names, out):
    assert names["check"].agrees
    assert "'more nines' 'more threes'" in out
    written = {"digits.npz", "map.png", "scores.csv", "slide.geojson", "slide.html", "classes.png"}
    assert written <= {path.name for path in Path().iterdir()}


def more_than_shapley(names, out):
    page = (ROOT / "docs" / "more-than-shapley.md").read_text(encoding="utf-8")
    assert re.search(r"> (“.*?)\n\n", page, re.DOTALL)[1].replace("\n> ", " ") in out
    assert names["reason"].players == (0,) and names["reason"].minimal


def supported_networks(names, out):
    assert names["network"].deviation < 1e-10 and names["game"].deviation < 1e-10


def corpus_at_scale(names, out):
    assert "2 of 2" in out


def slalom(names, out):
    assert "wonderful" in out


def your_transformer(names, out):
    assert names["model"].outputs == ("negative", "positive") and Path("report.html").is_file()
    headline = names["headline"]
    assert headline.baseline + headline.scores.sum() == pytest.approx(
        names["explanations"].prediction, abs=1e-6
    )
    assert names["verdict"].prediction > 0.9 and "wonderful" in out


#: What a page says of its own example, beyond that it runs.
def weighted_means(names, out):
    share = names["share"]
    loo = names["loo"]
    # As metafor finds (method "DL").
    assert abs(names["pooled"] + 0.714) < 1e-3 and abs(names["tau2"] - 0.309) < 1e-3
    assert abs(share.sum() - names["pooled"]) < 1e-9 < abs(loo.sum() - names["pooled"])
    assert Path("forest.png").exists() and names["mixture"].d == 4
    games = [names["game_of"](names["X"][i], names["y"][i]) for i in names["test"]]
    with_all = sum(float(game.value(np.ones(game.d, dtype=bool))) for game in games)
    # Without training examples every probability is 1/2.
    assert abs(names["values"].sum() - (with_all - len(games) / 2)) < 1e-4


def attention_heads(names, out):
    games = names["games"]
    everything = np.ones(7, dtype=bool)
    outputs = [float(game.value(everything)) for game in games]
    np.testing.assert_allclose(names["shares"].sum(axis=1), outputs, atol=1e-9)
    # The heads' outputs along the gradient add up to the layer's output without its bias.
    layer_output = names["kept"]["output"][0, -1].detach() - names["attention"].c_proj.bias
    assert sum(outputs) == pytest.approx(float(layer_output @ names["gradient"][0, -1]), rel=1e-4)


PROMISES = {
    "docs/weighted-means.md": weighted_means,
    "docs/attention-heads.md": attention_heads,
    "docs/your-bags.md": your_bags,
    "docs/more-than-shapley.md": more_than_shapley,
    "docs/corpus-at-scale.md": corpus_at_scale,
    "docs/supported-networks.md": supported_networks,
    "docs/slalom.md": slalom,
    "docs/your-transformer.md": your_transformer,
}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_exists_and_every_link_leads_somewhere(path):
    markdown = path.read_text(encoding="utf-8")
    wrong = {
        f"line {line}: {shlex.join(words)}": what
        for line, words in commands(markdown)
        if (what := problem(words))
    }
    assert wrong == {}
    assert broken_links(path) == []


#: What a new reader looks for on the home page, and the page that answers it.
LOOKED_FOR = {
    "install": "docs/installation.md",
    "explain my CSV": "docs/your-texts.md",
    "explain my slide": "docs/your-bags.md",
    "explain my probe": "docs/your-probe.md",
    "what is exact": "docs/when-it-applies.md",
    "the proof": "docs/what-tol-guarantees.md",
    "how it compares": "docs/comparison.md",
}


def linked_pages(path):
    """The pages that the text of a page links to, without the navigation."""
    targets = LINK.findall(without_code(path.read_text(encoding="utf-8")))
    files = {target.partition("#")[0] for target in targets if "://" not in target}
    return {name_of((path.parent / file).resolve()) for file in files if file.endswith(".md")}


@pytest.mark.parametrize("question", LOOKED_FOR)
def test_a_new_reader_finds_it_in_two_clicks(question):
    first = linked_pages(ROOT / "docs" / "index.md")
    second = set().union(*(linked_pages(ROOT / name) for name in first))
    assert LOOKED_FOR[question] in first | second


def test_tables_about_pages_name_pages():
    assert set(NEEDS) | set(SETUPS) | set(PROMISES) <= {name_of(path) for path in WITH_CODE}


def test_every_page_is_in_the_navigation():
    listed = re.findall(
        r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    own = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert own <= set(listed), "add the page to `nav` of mkdocs.yml"


def test_the_reference_names_everything_public():
    text = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")
    )
    listed = re.findall(r"^\[names: (.*)\]$", text, re.MULTILINE)
    prefixes = tuple(f"{module.strip()}." for modules in listed for module in modules.split(","))
    for name, thing in REFERENCE.public_objects().items():
        module = getattr(thing, "__module__", None)
        assert f"`{name}`" in text if module is None else f"{module}.".startswith(prefixes), name


def test_members_that_the_reference_shows_exist():
    objects = REFERENCE.public_objects()
    for name, members in REFERENCE.SHOWN_MEMBERS.items():
        assert all(hasattr(objects[name], member) for member in members.split()), name


def test_every_public_function_returns_something_and_shows_it():
    missing = []
    for name, thing in REFERENCE.public_objects().items():
        if not inspect.isfunction(thing):
            continue
        docstring = inspect.getdoc(thing) or ""
        returned = re.search(r"^Returns\n-+\n(.+)", docstring, re.MULTILINE)
        examples = doctest.DocTestParser().get_examples(docstring)
        # save_model returns nothing.
        if name != "save_model" and not any(example.want for example in examples):
            missing.append(f"{name}: an example with its result")
        if returned is None and name not in ("save_model", "load_demo_model"):
            missing.append(f"{name}: what it returns")
    assert missing == []


def test_what_is_returned_has_the_type_of_the_signature():
    pytest.importorskip("griffe", reason="the packages of the site are not installed")
    docstrings = build_site("numpy_docstrings")
    sentence = "Do it.\n\nReturns\n-------\nthe result; see there\n\nExamples\n--------\n>>> 1"
    typed = sentence.replace("the result; see there", "Array\n    the result; see there")
    assert docstrings.with_returned_type(sentence, "Array") == typed
    assert docstrings.with_returned_type(typed, "Array") == typed
    assert docstrings.with_returned_type("Do it.", "Array") == "Do it."


def test_the_reference_names_everything_public_in_jax():
    pytest.importorskip("jax")
    import jax_model

    text = (ROOT / "docs" / "reference" / "training.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: jax_model\S*\.(\w+)$", text, re.MULTILINE)) >= set(
        jax_model.__all__
    )


def test_the_page_on_networks_names_every_layout():
    page = (ROOT / "docs" / "supported-networks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == set(LAYOUTS)


SAMPLE = """
# A heading, with a comma

```python
x = 2
```
```python
assert x == {}
```
```sh
$ cat review.txt | attn-closed-form explain - --json > out.json   # a comment
attn-closed-form explain \\
    "a film" {}
make demo; python -m attn_closed_form methods
pip install 'attn-closed-form[plots,interop]'
```

    attn-closed-form methods   # indented
    beta = 3 x' y

"""


def test_the_checks_can_fail():
    run_page(SAMPLE.format("2", ""), "sample")
    with pytest.raises(AssertionError):
        run_page(SAMPLE.format("3", ""), "sample")
    found = [words for _, words in commands(SAMPLE.format("2", "--top 3"))]
    assert [words[0] for words in found] == ["cat", PROG, PROG, "make", "python", "pip", PROG]
    assert found[2] == [PROG, "explain", "a film", "--top", "3"]
    assert [problem(words) for words in found] == [None] * 7
    for wrong in (
        [PROG, "explain", "film", "--bogus"], [PROG, "nonsense"], [PROG, "explain", "film", "--method", "shap"],
        ["make", "coffee"], ["python", "-m", "no_such_module"], ["pip", "install", "attn-closed-form[nothing]"],
    ):  # fmt: skip
        assert problem(wrong), wrong


def test_outputs_are_written_below_their_blocks():
    page = """
```python
x = 1 / 3
print(f"x is {x:.3f}")
x, 2
```

=== "a tab"

    ```python
    print("y\\n\\nz")
    ```

    ```text title="Output"
    stale
    ```

```python
y = 2
```

```text title="Output"
nothing is printed now
```

```text
a table that is no output
```
"""
    _, made = run_page(page, "sample")
    shown = [text for _, text in blocks(made, "text")]
    assert shown[:2] == ["x is 0.333\n(0.3333333333333333, 2)\n", "y\n\nz\n"]
    assert '    ```text title="Output"\n    y\n\n    z\n    ```' in made
    assert (
        "stale" not in made
        and "nothing is printed now" not in made
        and "a table that is no output" in made
    )
    assert run_page(made, "sample")[1] == made


def test_a_block_that_needs_a_missing_package_is_left_as_it_is():
    page = """
<!-- needs: no_such_package -->

```python
import no_such_package
```

```text title="Output"
stored
```

```python
print(1 + 1)
```
"""
    _, made = run_page(page, "sample")
    assert outputs(made) == ["stored\n", "2\n"]
    with pytest.raises(ModuleNotFoundError):
        run_page(page.replace("needs: no_such_package", "needs: numpy"), "sample")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("phi 0.123", "phi 0.124", True), ("phi 0.123", "phi 0.126", False), ("phi 0.123", "psi 0.123", False),
        ("error 2e-14", "error 9.1e-15", True), ("error 2e-7", "error 1.1e-07", True), ("2e-7", "2e-6", False),
        ("1,024 words", "1,025 words", False), ("[1. 2.]", "[ 1. 2. ]", False), ("a  b", "a b", True),
        ("1 2", "1", False),
    ],
)  # fmt: skip
def test_outputs_are_compared_up_to_rounding(one, other, same):
    assert same_output(one, other) is same


@pytest.mark.parametrize(
    "name", ["attn_closed_form/app/MODEL_CARD.md", "attn_closed_form/NOTATION.md", "CHANGELOG.md"]
)
def test_links_of_the_pages_in_other_folders_lead_somewhere(name):
    assert broken_links(ROOT / name) == []


def test_links_of_the_repository_become_links_of_the_site():
    pytest.importorskip("mkdocs", reason="the packages of the site are not installed")
    repository = build_site("repository")

    page = SimpleNamespace(file=SimpleNamespace(src_uri="papers/statements.md"))
    files = SimpleNamespace(get_file_from_path={"papers/errata.md": "a page"}.get)
    markdown = (
        "[`errata`](../../proofs_check/ERRATA.md), [`predict`](../../attn_closed_form/attention/predict.py), "
        "`[code](../../proofs_check/ERRATA.md)`, 3 ± 1"
    )
    assert repository.on_page_markdown(markdown, page, files) == (
        "[`errata`](errata.md), `predict` (`attn_closed_form/attention/predict.py`), "
        "`[code](../../proofs_check/ERRATA.md)`, 3\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}1"
    )


def test_pictures_have_a_version_for_the_dark_and_a_card():
    pytest.importorskip("mkdocs", reason="the packages of the site are not installed")
    pictures = build_site("pictures")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="gallery.md"))
    markdown = "<!-- cards -->\n\n## A text\n\n![words](a-light.png)\n\n## No picture\n\ntext\n"
    made = pictures.on_page_markdown(markdown, page, None)
    assert (
        "![](a-light.png#only-light)![](a-dark.png#only-dark)**A text**](#a-text){ .card }" in made
    )
    assert "[![words](a-dark.png#only-dark)](a-dark.png){ .whole .only-dark }" in made
    assert made.count(".card") == 1
    with pytest.raises(ValueError, match=r"gallery\.md"):
        pictures.on_page_markdown("<!-- cards -->\n\n## No picture\n", page, None)


def test_the_results_are_split_by_paper_and_nothing_is_lost():
    split = build_site("split_results")
    whole = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    pages = split.pages_of_results(whole)
    rows = [line for line in whole.splitlines() if line.startswith("|")]
    shown = [line for page in pages.values() for line in page.splitlines() if line.startswith("|")]
    assert sorted(rows) == sorted(shown)
    for path, _, start in split.PAPERS:
        headings = re.findall(r"^## .*", pages[path], re.MULTILINE)
        assert headings and all(f"#{heading}".startswith(start) for heading in headings)
    with pytest.raises(ValueError, match="P3"):
        split.pages_of_results(whole.replace("### P2 Fig. 3", "### P3 Fig. 3"))


def test_broken_links_are_seen():
    good = "[a](LICENSE) [b](#start-from-what-you-have) [c](https://example.org) `[d](nowhere)`"
    assert broken_links(ROOT / "README.md", good) == []
    bad = ["nowhere.md", "LICENSE#part", "#no-such-heading", "http://example.org"]
    assert broken_links(ROOT / "README.md", " ".join(f"[x]({target})" for target in bad)) == bad
