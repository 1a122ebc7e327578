"""Verdicts and the papers' pages say what the registry and the result files say."""

import json
import re

import pytest

from benchmarks.harness import RESULTS
from benchmarks.papers import paper_pages, verdicts
from benchmarks.results_page import load_records
from proofs_check.registry import statements


def record(*rows):
    fields = ("result", "case", "ours", "n", "of")
    judged = {"absent": "tokens deleted", "measure": "MSE", "threshold": "the smallest"}
    return {
        "name": "some",
        "rows": [{**dict(zip(fields, row, strict=True)), **judged} for row in rows],
    }


@pytest.fixture
def fidelity():
    return verdicts.Claim(
        "P2 Fig. 6",
        "SLALOM-fidel predicts best.",
        rows=(("P2 Fig. 6", "changes best"),),
        mended=(("P2 Fig. 6", "claim: (ours)"),),
    )


def decide(claim, *rows):
    registry = {entry.key: entry for entry in statements()}
    return verdicts.verdict_of(claim, registry, [record(*rows)])


def test_some_thirty_claims_each_with_a_source():
    assert len(verdicts.CLAIMS) <= 40
    known = {entry.key for entry in statements()}
    for claim in verdicts.CLAIMS:
        assert set(claim.proofs) <= known
        assert bool(claim.proofs or claim.rows) != bool(claim.untried)


def test_every_count_that_a_claim_names_is_in_the_results():
    records = load_records(RESULTS)
    for claim in verdicts.CLAIMS:
        for place in (*claim.rows, *claim.mended):
            assert verdicts.counts_of((place,), records), place


def test_counts_decide(fidelity):
    sentence = "claim: SLALOM-fidel predicts changes best"
    for good, verdict in (
        (95, "holds"),
        (90, "holds"),
        (89, "does not hold"),
        (0, "does not hold"),
    ):
        found = decide(fidelity, ("P2 Fig. 6", sentence, f"holds in {good} of 100", 100, "reviews"))
        assert (found.verdict, found.numbers, found.n) == (verdict, f"{good} of 100", "100 reviews")
    assert decide(fidelity).verdict == "could not be tested"


def test_a_correction_of_ours_mends_a_claim_that_fails(fidelity):
    fails = (
        "P2 Fig. 6",
        "claim: SLALOM-fidel predicts changes best",
        "holds in 1 of 3",
        3,
        "models",
    )
    for good, verdict in ((3, "fails as printed; a corrected form holds"), (2, "does not hold")):
        mended = (
            "P2 Fig. 6",
            "claim: (ours) with a background",
            f"holds in {good} of 3",
            3,
            "models",
        )
        assert decide(fidelity, fails, mended).verdict == verdict


def test_a_failure_comes_with_its_reasons(fidelity):
    sentence = "claim: SLALOM-fidel predicts changes best"
    row = ("P2 Fig. 6", sentence, "holds in 1 of 3", 3, "models")
    records = [record(row, row)]
    for one, why in zip(records[0]["rows"], ("small models", "small models"), strict=True):
        one["differs"] = f"disagrees in 2 of 3: {why}"
    assert verdicts.reasons(fidelity.rows, records) == ["small models"]
    records[0]["rows"][0]["differs"] = "as in the paper"
    records[0]["rows"][1]["differs"] = "disagrees in 2 of 3: one: two"
    assert verdicts.reasons(fidelity.rows, records) == ["one: two"]


def test_every_model_counts_in_every_claim_about_models():
    """Fig. 6 once left out the model for which the claim holds."""
    records = load_records(RESULTS)
    by_place = {claim.where: claim for claim in verdicts.CLAIMS}
    counts = verdicts.counts_of(by_place["P2 Fig. 6"].rows, records)
    assert len({one.n for one in counts}) == 1


def test_counts_of_several_trainings_are_added_up(fidelity):
    rows = [
        (
            "P2 Fig. 6",
            f"claim: changes best, seed {seed}",
            f"holds in {5 + 2 * seed} of 10",
            10,
            "reviews",
        )
        for seed in (1, 2)
    ]
    found = decide(fidelity, *rows)
    assert (found.verdict, found.numbers, found.n) == (
        "does not hold",
        "16 of 20 (2 trainings)",
        "20 reviews",
    )


def test_statements_decide():
    by_key = {entry.key: entry for entry in statements()}
    assert verdicts.of_statement(by_key["P2 Prop. 5.1"]) == "holds"
    assert (
        verdicts.of_statement(by_key["P1 Theorem 4.1"])
        == "fails as printed; a corrected form holds"
    )
    assert verdicts.of_statement(by_key["P1 Theorem 5.1"]) == "does not hold"
    with pytest.raises(ValueError, match=r"^a, b: "):
        verdicts.count({"result": "a", "case": "b", "ours": "often"})


def test_the_pages_in_the_repository_are_fresh():
    for file, text in paper_pages.pages().items():
        assert file.read_text(encoding="utf-8") == text, (
            "stale: run python -m benchmarks.papers.paper_pages"
        )


def test_a_page_sorts_the_claims_and_has_the_tables_behind(tmp_path):
    (tmp_path / "some.json").write_text(json.dumps(record()), encoding="utf-8")
    for file, text in paper_pages.pages(tmp_path).items():
        headings = [line for line in text.splitlines() if line.startswith("## ")]
        if file.name == "statements.md":
            assert len(headings) == 2
            continue
        assert headings[-4:] == [
            "## What changes a result",
            "## What the authors' figures still show",
            "## What the authors' repository answers",
            "## Behind this page",
        ]
        assert "could not be tested" in text


def test_a_page_groups_what_was_judged_alike():
    """One table for each way to judge, with both forms in it."""
    terms = {"absent": "tokens deleted", "measure": "MSE of |a|", "threshold": "the smallest"}
    side = verdicts.Side(
        "it is", sample="3 models (some)", outcome="1 of 3", name="printed", **terms
    )
    other = side._replace(sample="1 model (some)", outcome="0 of 1", name="stored")
    claim = verdicts.Claim("P2 Fig. 6", "It is.")
    found = verdicts.Verdict(
        claim, "does not hold", "", "", "", (side, other), (side._replace(outcome="3 of 3"),)
    )
    first, table, last = paper_pages.judged(found)
    assert first == (
        "*Measure:* MSE of |a|. *Threshold:* the smallest. *Sample:* 3 models. "
        "*Absent words:* tokens deleted."
    )
    assert table.splitlines()[2:] == ["| printed | 1 of 3 |", "| corrected: printed | 3 of 3 |"]
    assert last.startswith("Stored: 0 of 1. *Measure:* ")


def test_pictures_and_code_of_the_pages_exist():
    """Every link to a file of the repository leads somewhere, and no picture is shown twice."""
    for file, text in paper_pages.pages().items():
        links = re.findall(r"(!?)\[[^\]]*\]\((\.\./\.\./[^)]+)\)", text)
        assert len(links) > 20
        for _, target in links:
            assert (file.parent / target).resolve().is_file(), target
        pictures = [target for mark, target in links if mark]
        assert len(pictures) == len(set(pictures))
        if file.name != "statements.md":
            assert len(pictures) >= 5
    places = {claim.where for claim in verdicts.CLAIMS}
    assert set(paper_pages.PICTURES) <= places
