"""The page about corpora reports the stored runs: the rates, and a million rows."""

import json

from benchmarks.corpus_page import PAGE, updated
from benchmarks.harness import RESULTS

LIME_BAR = "times lime's rate, logits"


def test_the_page_is_not_stale():
    page = PAGE.read_text(encoding="utf-8")
    assert page == updated(page), "run python -m benchmarks.corpus_page"


def test_the_page_has_the_stored_rates():
    stored = json.loads((RESULTS / "corpus.json").read_text(encoding="utf-8"))
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for row in stored["rows"][:-1]:
        assert f"| {row['method']} | {row['documents']:,} | {row['documents/s']:,.0f} |" in page
    bars = {bar["name"]: bar["measured"] for bar in stored["bars"]}
    assert f", {bars[LIME_BAR]:,.0f} and " in page


def test_the_page_has_the_stored_numbers_of_a_million_rows():
    stored = json.loads((RESULTS / "corpus_million.json").read_text(encoding="utf-8"))
    value = {row["what"]: row["value"] for row in stored["rows"]}
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    growth = value["memory in the last quarter over that in the second, worst process"] - 1
    for sentence in (
        f"took {value['seconds of all runs']:.0f} s",
        f"{value['rows per second, kills and resumes included']:,.0f} reviews per second",
        f"{1000 * value['processor seconds per row, all processes']:.1f} ms of processor time",
        f"{value['bytes of output per row']:,.0f} bytes of output",
        f"largest process had {value['memory of the largest process, MB']:.0f} MB",
        f"workers grew by {100 * growth:.0f}%",
        f"take {value['a billion: core hours']:.0f} core hours",
        f"about {60 * value['a billion: hours with 1,000 cores']:.0f} minutes on 1,000 cores",
        f"{value['a billion: GB of output'] / 1000:.1f} TB",
    ):
        assert sentence in page
