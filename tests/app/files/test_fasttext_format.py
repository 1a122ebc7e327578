"""fastText's format and arithmetic, written again here; `test_fasttext.py` has its package as
witness.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attn_closed_form.app.files.fasttext import load_fasttext
from tests.attacks.samples import fasttext

WORDS = ["</s>", "fine", "poor", "film"]
BUCKET = 6
DIM = 3


def rows(word: str) -> list[int]:
    """Row of a word and rows of its n-grams of two and three characters, by fastText's hash."""
    grams = [f"<{word}>"[i : i + n] for n in (2, 3) for i in range(len(word) + 3 - n)]
    if word in WORDS:
        found = [WORDS.index(word)]
    else:
        found = []
    for gram in grams:
        h = 2166136261
        for byte in gram.encode():
            h = (h ^ (byte - 256 if byte > 127 else byte) % 2**32) * 16777619 % 2**32
        found.append(len(WORDS) + h % BUCKET)
    return found


def test_classifiers_of_version_11_have_no_n_grams(tmp_path: Path) -> None:
    """Whatever the options say; models of fastText 0.1 have this version."""
    data = fasttext(tmp_path)
    (tmp_path / "old.bin").write_bytes(data[:4] + (11).to_bytes(4, "little") + data[8:])
    (tmp_path / "none.bin").write_bytes(fasttext(tmp_path, maxn=0))
    old, none = (
        load_fasttext(tmp_path / f"{name}.bin").predict_logits(["fine film"])
        for name in ("old", "none")
    )
    assert np.array_equal(old, none)


def test_logits_are_the_mean_of_the_vectors_under_the_output_matrix(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(fasttext(tmp_path))
    model = load_fasttext(tmp_path / "model.bin")
    assert model.outputs == ("bad", "good") and model.background == (0,) and model.loss == "softmax"
    vectors, output = (
        np.random.default_rng(n).normal(size=(n, DIM)).astype("<f4").astype(np.float64)
        for n in (len(WORDS) + BUCKET, 2)
    )
    for text in ("fine film", "größer", "poor __label__bad 映画\tfine"):
        words = [word for word in text.split() if not word.startswith("__label__")]
        chosen = [0, *(row for word in words for row in rows(word))]
        expected = output @ vectors[chosen].mean(axis=0)
        assert np.abs(model.predict_logits([text])[0] - expected).max() < 1e-12
