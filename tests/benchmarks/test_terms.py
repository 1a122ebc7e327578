"""Claims carry how they were judged, and a corrected form is compared with a printed one by the
same measure, on the same sample.
"""

import pytest

from benchmarks.harness import RESULTS
from benchmarks.papers import terms, verdicts
from benchmarks.papers.reproduction import claim
from benchmarks.results_page import load_records

RECORDS = load_records(RESULTS)
CLAIMS = [
    row
    for record in RECORDS
    for row in record["rows"]
    if "result" in row and row["case"].startswith("claim: ")
]
FIELDS = ("absent", "measure", "threshold")


def test_every_claim_of_the_results_says_how_it_was_judged():
    assert len(CLAIMS) >= 90
    for row in CLAIMS:
        for field in FIELDS:
            assert row.get(field), (row["result"], row["case"], field)
        assert row["n"] and row["of"]


def test_the_stored_fields_are_those_of_the_table():
    for row in CLAIMS:
        expected = terms.of_claim(row["result"], row["case"].removeprefix("claim: "))
        assert tuple(row[field] for field in FIELDS) == expected, row["case"]


def test_every_verdict_names_all_fields_on_both_sides_and_they_are_equal():
    found = verdicts.verdicts(RECORDS)
    compared = 0
    for verdict in found:
        if verdict.verdict == verdicts.UNTRIED:
            continue
        assert verdict.printed, verdict.claim.where
        for side in (*verdict.printed, *verdict.corrected):
            assert all(side[:-1]), (verdict.claim.where, side)
        for side in verdict.corrected:
            assert any(side.terms == other.terms for other in verdict.printed), side
            compared += 1
    assert compared >= 8


def test_a_claim_without_terms_is_refused():
    with pytest.raises(ValueError, match="expected an entry of TABLE"):
        claim("P9 Table 1", "something holds", [True], "")


SENTENCE = "SLALOM-fidel predicts changes best, mean over 1 to 10"


def side(**changes):
    fields = {
        "statement": "a",
        "absent": terms.DELETED,
        "sample": "100 reviews",
        "measure": "error",
        "threshold": "10%",
        "outcome": "1 of 100",
    }
    return verdicts.Side(**{**fields, **changes})


@pytest.mark.parametrize("field", ["absent", "sample", "measure", "threshold"])
def test_unlike_sides_are_refused(field):
    some = verdicts.CLAIMS[0]
    printed = side()
    verdicts.comparable(some, [printed], [side(statement="b", outcome="100 of 100")])
    with pytest.raises(ValueError, match="judged like"):
        verdicts.comparable(some, [printed], [side(**{field: "another"})])
    with pytest.raises(ValueError, match=f"expected {field}"):
        verdicts.comparable(some, [side(**{field: ""})], [])


def test_deletion_cannot_be_set_against_unk():
    """The comparison that gave 1 of 100 against 100 of 100 and was none."""
    unlike = verdicts.Claim(
        "P1 Fig. 4",
        "Theorem 5.1 matches.",
        rows=((terms.FIGURE, f"{terms.PRINTED} is within", "as printed"),),
    )
    with pytest.raises(ValueError, match="judged alike"):
        verdicts.verdict_of(unlike, {}, RECORDS)


def test_the_most_specific_entry_decides():
    deleted = terms.of_claim("P1 Fig. 4", f"(ours) a form is close, {terms.DELETED}")
    words = terms.of_claim("P1 Fig. 4", f"(ours) a form is close, {terms.UNK_WORDS}")
    assert deleted.absent == terms.DELETED
    assert words.absent == terms.UNK_WORDS
    assert deleted[1:] == words[1:]
