"""Yelp-HAT's loader: a tiny corpus that the tests make, damage, and the real file where it is."""

import csv
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form.app.models.text import tokenize
from benchmarks.papers.yelp_hat import HAT_COLUMNS, load_yelp_hat

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def write_hat(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HAT_COLUMNS)
        writer.writerows(rows)


def spans(*marked):
    return " ".join(
        f'<span class="active">{w[1:]}</span>' if w[0] == "*" else f"<span>{w}</span>"
        for w in marked
    )


def test_consensus_is_what_every_annotator_chose(tmp_path):
    text = "Not  good &\nvery slow!"
    write_hat(
        tmp_path / "ham_part1.csv",
        [
            ("0", text, "no", spans("*Not", "*good", "&amp;", "very", "*slow!") + " <span></span>"),
            ("1", "Fine", "idk", spans("Fine")),
            ("0", text, "no", spans("Not", "*<i class='other'>good</i>", "&amp;", "*very", "*slow!")),
            ("0", text, "no", '<span>Not</span> <span class="active">good</span> <span>&amp;</span>'
             ' <span class="">very</span> <span class="x active">slow!</span>'),
            ("0", text, "no", spans("another", "*text")),
        ],
    )  # fmt: skip
    review, other = load_yelp_hat(tmp_path)
    assert (
        review.words
        == ["Not", "good", "&", "very", "slow!"]
        == [text[a:b] for a, b in review.spans]
    )
    assert review.chosen.shape == (3, 5) and review.answers == ["no"] * 3 and review.label == 0
    np.testing.assert_array_equal(review.consensus, [False, True, False, False, True])
    assert other.text == "Fine" and other.label == 1 and not other.consensus.any()
    tokens = tokenize(text)
    assert [token.word for token in tokens] == ["not", "good", "very", "slow", "!"]
    np.testing.assert_array_equal(
        review.at_spans([(token.start, token.end) for token in tokens]),
        [False, True, False, True, True],
    )


def test_hat_files_that_are_none(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"ham_part\*\.csv or a folder of them, from https://github"
    ):
        load_yelp_hat(tmp_path)
    file = tmp_path / "ham_part1.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"ham_part1\.csv: expected the columns .*got \('a', 'b'\)"
    ):
        load_yelp_hat(file)
    write_hat(file, [("7", "text", "no", spans("text"))])
    with pytest.raises(ValueError, match="line 2: expected a label 0 or 1"):
        load_yelp_hat(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="expected a UTF-8 CSV file"):
        load_yelp_hat(file)


HAT_FILE = SHARED / "ham_part1(50words).csv"


@pytest.mark.skipif(not HAT_FILE.is_file(), reason="the Yelp-HAT files are not in ../shared/data")
def test_the_real_yelp_hat():
    """One of the four files; all four take a few seconds to parse (1,545 reviews, 4,853 rows, none
    left out).
    """
    reviews = load_yelp_hat(HAT_FILE)
    assert len(reviews) == 300
    assert [len(review.chosen) for review in reviews] == [3] * 300  # no annotator's row is left out
    raw = HAT_FILE.read_text(encoding="utf-8")
    marked = raw.count('class=""active"">')
    empty = raw.count('class=""active""></span>')
    assert sum(review.chosen.sum() for review in reviews) == marked - empty
