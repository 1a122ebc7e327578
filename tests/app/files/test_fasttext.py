"""fastText's own predictions against ours, on models that its package trains here."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import MeanPooledText, Settings
from attn_closed_form.app.files.fasttext import load_fasttext
from attn_closed_form.app.files.open_model import open_model

fasttext = pytest.importorskip("fasttext", reason="fastText files need its package (extra bench)")
EXACT = 1e-12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fasttext")
    lines = [
        "__label__good a fine good film",
        "__label__bad a poor bad film",
        "__label__odd strange odd thing",
    ]
    (folder / "train.txt").write_text("\n".join(lines * 30) + "\n", encoding="utf-8")
    return folder


def train(folder: Path, name: str = "model", **options: Any) -> Path:
    model = fasttext.train_supervised(
        str(folder / "train.txt"),
        dim=7,
        epoch=15,
        lr=0.5,
        thread=1,
        verbose=0,
        bucket=200,
        **options,
    )
    path = folder / f"{name}.bin"
    model.save_model(str(path))
    return path


@pytest.mark.parametrize("options", [{}, {"minn": 2, "maxn": 4}, {"loss": "ova"}])
def test_agrees_with_fasttext_on_every_sub_text(options: dict[str, Any], folder: Path) -> None:
    path = train(folder, **options)
    model = load_fasttext(path)
    theirs = fasttext.load_model(str(path))
    assert set(model.outputs) == {"good", "bad", "odd"}
    words = ["a", "strange", "fine", "film", "a", "unheardof"]
    rng = np.random.default_rng(0)
    kept = [words] + [[w for w in words if rng.random() < 0.6] for _ in range(20)]
    for chosen in kept:
        text = " ".join(chosen)
        try:
            mine = dict(zip(model.outputs, model.predict_proba([text])[0], strict=True))
        except ValueError:
            assert not [w for w in chosen if w != "unheardof"]
            continue
        found = {
            label.removeprefix("__label__"): p
            for p, label in theirs.f.predict(text + "\n", -1, 0.0, "strict")
        }
        # float32, and fastText's table for the sigmoid and the exponential.
        for label, p in found.items():
            assert abs(mine[label] - p) < (5e-3 if "loss" in options else 1e-4)


def test_rows_are_those_of_fasttext_in_any_script(folder: Path) -> None:
    path = train(folder, minn=1, maxn=5)
    reader = load_fasttext(path).reader
    theirs = fasttext.load_model(str(path))
    for word in ("film", "unheardof", "größer", "映画", "a", "😀", "</s>"):
        assert sorted(reader.vectors(word)) == sorted(theirs.get_subwords(word)[1].tolist()), word


def test_the_game_is_that_of_sub_texts(folder: Path) -> None:
    model = load_fasttext(train(folder, minn=2, maxn=3))
    words = ["a", "fine", "film", "unheardof"]
    units = model.read(" ".join(words))
    settings = Settings(output="good").resolve(model, model.logits(units))
    game = model.game(units, settings)
    row = model.outputs.index("good")
    for mask in np.random.default_rng(0).random((20, 4)) < 0.6:
        if mask.any():
            part = " ".join(word for word, kept in zip(words, mask, strict=True) if kept)
            assert abs(float(game.value(mask)) - model.predict_logits([part])[0][row]) < EXACT
    end = model.embeddings[list(model.background)].astype(np.float64).mean(axis=0)
    assert abs(float(game.value(np.zeros(4, dtype=bool))) - (model.W @ end)[row]) < EXACT


def test_pickles_and_opens(folder: Path) -> None:
    path = train(folder)
    model = open_model(path)
    assert isinstance(model, MeanPooledText)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(
        again.predict_logits(["a fine film"])[0], model.predict_logits(["a fine film"])[0]
    )


def test_refuses_what_is_no_pooled_game(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has wordNgrams=2"):
        load_fasttext(train(folder, "ngrams", wordNgrams=2))
    with pytest.raises(ValueError, match="has loss 'hs'"):
        load_fasttext(train(folder, "hs", loss="hs"))
    path = tmp_path / "damaged.bin"
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"damaged\.bin: expected a readable fastText file"):
        load_fasttext(path)
