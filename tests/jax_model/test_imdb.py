"""IMDB's reviews: tiny archives that the tests make and damage, and the split by film."""

import gzip
import io
import tarfile

import numpy as np
import pytest

from jax_model.training.imdb import Reviews, load_imdb, split_by_film

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
            if isinstance(text, bytes):
                data = text
            else:
                data = text.encode()
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
        FileNotFoundError,
        match=r"nowhere: .*expected aclImdb_v1\.tar\.gz .* from https://ai\.stanford",
    ):
        load_imdb(tmp_path / "nowhere")
    with pytest.raises(
        ValueError, match=r"expected reviews aclImdb/test/pos/\*\.txt .* got 0 and 0; .*stanford"
    ):
        load_imdb(tmp_path, "test")
    with pytest.raises(ValueError, match="split: expected 'train' or 'test', got 'dev'"):
        load_imdb(tmp_path, "dev")
    (tmp_path / "text.tar.gz").write_text("not an archive")
    with pytest.raises(ValueError, match="expected the gzip archive"):
        load_imdb(tmp_path / "text.tar.gz")


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


def reviews_in_order(n):
    """2n reviews, numbered 0..n-1 in each class; the text is the name."""
    names = [f"train/{label}/{i}_5.txt" for label in ("neg", "pos") for i in range(n)]
    return Reviews(names, np.repeat([0, 1], n), names)


def test_split_by_film_keeps_neighboring_numbers_together():
    reviews = reviews_in_order(25)
    training, held_out, groups = split_by_film(reviews, 0.2)
    assert training.classes == ("negative", "positive") and len(groups) == 40
    assert sorted(held_out.texts) == sorted(
        f"train/{c}/{i}_5.txt" for c in ("neg", "pos") for i in range(20, 25)
    )
    assert not set(training.texts) & set(held_out.texts) and len(training.texts) == 40
    with pytest.raises(ValueError, match="validation: expected a fraction between 0 and 1, got 1"):
        split_by_film(reviews, 1.0)
    with pytest.raises(ValueError, match="leaves reviews of label 0 on both sides"):
        split_by_film(reviews, 0.01)


def test_groups_do_not_mix_the_classes():
    groups = split_by_film(reviews_in_order(60), 0.5).groups
    assert (
        len(set(groups)) == 4 and groups[0] == groups[24] != groups[25] and groups[0] != groups[30]
    )
