"""The page about corpora reports the stored run over a million rows."""

import json

from benchmarks.harness import RESULTS


def test_the_page_has_the_stored_numbers():
    stored = json.loads((RESULTS / "corpus_million.json").read_text(encoding="utf-8"))
    value = {row["what"]: row["value"] for row in stored["rows"]}
    page = " ".join((RESULTS.parents[1] / "docs" / "corpus.md").read_text(encoding="utf-8").split())
    growth = value["memory in the last quarter over that in the second, worst process"] - 1
    for sentence in (
        f"took {value['seconds of all runs']:.0f} s",
        f"{value['rows per second, kills and resumes included']:,.0f} reviews per second",
        f"{1000 * value['processor seconds per row, all processes']:.1f} ms of processor time",
        f"{value['bytes of output per row']:,.0f} bytes of output",
        f"largest process had {value['memory of the largest process, MB']:.0f} MB",
        f"workers grew by {100 * growth:.0f} %",
        f"take {value['a billion: core hours']:.0f} core hours",
        f"about {60 * value['a billion: hours with 1,000 cores']:.0f} minutes on 1,000 cores",
        f"{value['a billion: GB of output'] / 1000:.1f} TB",
    ):
        assert sentence in page
