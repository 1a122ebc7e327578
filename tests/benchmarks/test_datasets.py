"""Loaders: tiny corpora that the tests make, damage, and the real files where they are."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form import tokenize
from benchmarks.datasets import HAT_COLUMNS, load_imdb, load_yelp_hat

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

FILES = {
    "train/pos/0_9.txt": "Lovely — really.",
    "train/pos/10_8.txt": "Good.",
    "train/neg/0_1.txt": "Awful.<br />Truly",
    "train/unsup/0_0.txt": "No label.",
    "test/pos/0_10.txt": "Best.",
    "test/neg/3_2.txt": "Worst.",
    "train/pos/readme.md": "not a review",
}


def write_folder(root, files=FILES):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def write_archive(path, files=FILES):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_archive_and_folder_give_the_same(tmp_path):
    write_folder(tmp_path / "aclImdb")
    write_archive(tmp_path / "imdb.tar.gz")
    for split, names in (
        ("train", ["train/neg/0_1.txt", "train/pos/0_9.txt", "train/pos/10_8.txt"]),
        ("test", ["test/neg/3_2.txt", "test/pos/0_10.txt"]),
    ):
        for path in (tmp_path / "imdb.tar.gz", tmp_path / "aclImdb", tmp_path):
            reviews = load_imdb(path, split)
            assert reviews.names == names
            assert reviews.texts == [FILES[name] for name in names]
            assert reviews.labels.tolist() == [int("pos" in name) for name in names]


def test_wrong_places_say_what_and_where(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"nowhere: .*expected aclImdb_v1\.tar\.gz .* from https://ai\.stanford"
    ):
        load_imdb(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"expected reviews aclImdb/test/pos/\*\.txt .* got 0 and 0; .*stanford"):
        load_imdb(tmp_path, "test")
    with pytest.raises(ValueError, match="split: expected 'train' or 'test', got 'dev'"):
        load_imdb(tmp_path, "dev")
    (tmp_path / "text.tar.gz").write_text("not an archive")
    with pytest.raises(ValueError, match="expected the gzip archive"):
        load_imdb(tmp_path / "text.tar.gz")
    with pytest.raises(FileNotFoundError, match=r"ham_part\*\.csv or a folder of them, from https://github"):
        load_yelp_hat(tmp_path)


def test_every_cut_of_an_archive_is_noticed(tmp_path):
    write_archive(tmp_path / "whole.tar.gz")
    whole = (tmp_path / "whole.tar.gz").read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for length in range(2, len(whole), 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.tar\.gz: damaged archive .*download it again"):
            load_imdb(cut)


def test_a_flipped_bit_is_noticed(tmp_path):
    write_archive(tmp_path / "whole.tar.gz")
    whole = bytearray((tmp_path / "whole.tar.gz").read_bytes())
    bad = tmp_path / "bad.tar.gz"
    for place in range(40, len(whole), 23):
        whole[place] ^= 16
        bad.write_bytes(whole)
        whole[place] ^= 16
        with pytest.raises(ValueError, match=r"bad\.tar\.gz: damaged archive"):
            load_imdb(bad)


def test_a_gzip_that_is_no_tar(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(b"just words " * 200))
    with pytest.raises(ValueError, match=r"a\.tar\.gz: damaged archive"):
        load_imdb(tmp_path / "a.tar.gz")


def test_a_review_that_is_not_utf8(tmp_path):
    write_archive(tmp_path / "a.tar.gz", {**FILES, "train/neg/0_1.txt": b"caf\xe9"})
    with pytest.raises(ValueError, match=r"train/neg/0_1\.txt: expected UTF-8"):
        load_imdb(tmp_path / "a.tar.gz")
    assert len(load_imdb(tmp_path / "a.tar.gz", "test").texts) == 2


def write_hat(path, rows):
    import csv

    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HAT_COLUMNS)
        writer.writerows(rows)


def spans(*marked):
    return " ".join(f'<span class="active">{w[1:]}</span>' if w[0] == "*" else f"<span>{w}</span>" for w in marked)


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
    assert review.words == ["Not", "good", "&", "very", "slow!"] == [text[a:b] for a, b in review.spans]
    assert review.chosen.shape == (3, 5) and review.answers == ["no"] * 3 and review.label == 0
    np.testing.assert_array_equal(review.consensus, [False, True, False, False, True])
    assert other.text == "Fine" and other.label == 1 and not other.consensus.any()
    tokens = tokenize(text)
    assert [token.word for token in tokens] == ["not", "good", "very", "slow", "!"]
    np.testing.assert_array_equal(
        review.at_spans([(token.start, token.end) for token in tokens]), [False, True, False, True, True]
    )


def test_hat_files_that_are_none(tmp_path):
    file = tmp_path / "ham_part1.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"ham_part1\.csv: expected the columns .*got \('a', 'b'\)"):
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
    """One of the four files; all four take a few seconds to parse (1,545 reviews, 4,853 rows, none left out)."""
    reviews = load_yelp_hat(HAT_FILE)
    assert len(reviews) == 300
    assert [len(review.chosen) for review in reviews] == [3] * 300  # no annotator's row is left out
    raw = HAT_FILE.read_text(encoding="utf-8")
    marked, empty = raw.count('class=""active"">'), raw.count('class=""active""></span>')
    assert sum(review.chosen.sum() for review in reviews) == marked - empty
