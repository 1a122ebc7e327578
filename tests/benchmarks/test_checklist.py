"""All 153 statements of the two papers have a place and a status."""

from collections import Counter
from pathlib import Path

from benchmarks.papers import paper_pages
from benchmarks.papers.checklist import CHECKED, CORRECTED, EXPERIMENT, ITEMS, UNTESTED
from proofs_check.registry import statements

ROOT = Path(__file__).parents[2]
REGISTRY = {entry.key: entry for entry in statements()}


def test_all_statements_are_there():
    assert len(ITEMS) == 153
    assert Counter(item.paper for item in ITEMS) == {"P1": 80, "P2": 73}
    assert len({(item.paper, item.place) for item in ITEMS}) == 153


def test_every_entry_of_the_registry_is_in_the_list():
    named = {f"{item.paper} {ref}" for item in ITEMS for ref in item.proofs}
    assert named == {key for key in REGISTRY if not key.startswith("ours")}


def test_every_statement_has_a_status_and_a_place():
    for item in ITEMS:
        status = item.status(REGISTRY)
        assert status in (CHECKED, CORRECTED, EXPERIMENT, UNTESTED)
        if status == EXPERIMENT:
            assert item.experiments, item.place
        reasons = [REGISTRY[f"{item.paper} {ref}"].reason for ref in item.proofs]
        if status == UNTESTED:
            assert item.why or any(reasons), item.place
        else:
            assert item.proofs or item.files or item.experiments, item.place
        for file in (*item.files, *(f"benchmarks/papers/{name}.py" for name in item.experiments)):
            assert (ROOT / file).is_file(), file


def test_the_page_has_every_statement_with_its_status():
    text = paper_pages.statements_page()
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    lines = [line for line in lines if not line.startswith("|  |")]
    assert [int(line.split(" | ")[0][2:]) for line in lines] == list(range(1, 154))
    counts = Counter(line.split(" | ")[2] for line in lines)
    assert counts == Counter(item.status(REGISTRY) for item in ITEMS)
    for status in (CHECKED, CORRECTED, EXPERIMENT, UNTESTED):
        assert f"{counts[status]} {status}" in text


def test_what_was_missing_is_checked():
    status = {item.place: item.status(REGISTRY) for item in ITEMS}
    assert status["Section 6 (ii): skip connections"] == CHECKED
    assert status["Section 2.2: separate embeddings"] == CHECKED
    assert status["Slides: histogram task with two solutions; sizes of vocabularies"] == CHECKED
    assert status["Section 6: satisfying for documents of a few dozen tokens"] == EXPERIMENT
    assert status["Fig. 5, 11, 12: scatter plots and maps of one review"] == EXPERIMENT
    assert status["Fig. 1 and its caption"] == CORRECTED
