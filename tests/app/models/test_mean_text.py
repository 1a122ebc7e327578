from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier, MeanPooledText, Settings
from attn_closed_form.app.models.mean_text import VocabularyReader

WORDS = ["the", "film", "was", "good", "bad", "very", "odd"]
TEXT = "The film was very very good odd unheard-of"
EXACT = 1e-12


def weights(C: int = 3, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "embedding.weight": rng.normal(size=(len(WORDS), 5)),
        "fc.weight": rng.normal(size=(C, 5)),
        "fc.bias": rng.normal(size=C),
    }


def mean_logits(state: dict[str, Any], words: list[str]) -> Any:
    rows = [WORDS.index(word) for word in words]
    return state["fc.weight"] @ state["embedding.weight"][rows].mean(axis=0) + state["fc.bias"]


def test_embedding_bag_is_the_mean_on_every_sub_text() -> None:
    state = weights()
    model = MeanPooledText.from_state_dict(state, WORDS, outputs=["a", "b", "c"])
    read = ["the", "film", "was", "very", "very", "good", "odd"]
    assert np.abs(model.predict_logits([TEXT])[0] - mean_logits(state, read)).max() < EXACT
    units = model.read(TEXT)
    assert units.labels == tuple(read) and units.spans is not None and units.spans[5] == (23, 27)
    settings = Settings(output="b", players="positions").resolve(model, model.logits(units))
    game = model.game(units, settings)
    rng = np.random.default_rng(0)
    for mask in rng.random((40, 7)) < 0.5:
        if mask.any():
            expected = mean_logits(
                state, [word for word, kept in zip(read, mask, strict=True) if kept]
            )[1]
            assert abs(float(game.value(mask)) - expected) < EXACT
    assert float(game.value(np.zeros(7, dtype=bool))) == state["fc.bias"][1]
    words = model.game(units, Settings(output="b").resolve(model, model.logits(units)))
    assert words.labels == ("the", "film", "was", "very", "good", "odd")
    assert (
        abs(
            float(words.value([0, 0, 0, 1, 1, 0])) - mean_logits(state, ["very", "very", "good"])[1]
        )
        < EXACT
    )


def test_torch_embedding_bag(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the witness needs torch (extra bench)")
    network = torch.nn.ModuleDict(
        {"embedding": torch.nn.EmbeddingBag(7, 5), "fc": torch.nn.Linear(5, 4)}
    ).double()
    torch.save(network.state_dict(), tmp_path / "model.pt")
    model = MeanPooledText.from_state_dict(tmp_path / "model.pt", WORDS)
    ids = torch.tensor([[WORDS.index(word) for word in ("bad", "film", "bad")]])
    expected = network["fc"](network["embedding"](ids))[0].detach().numpy()
    assert np.abs(model.predict_logits(["bad film bad"])[0] - expected).max() < EXACT


def test_logistic_regression_on_static_embeddings() -> None:
    linear = pytest.importorskip("sklearn.linear_model", reason="the witness needs scikit-learn")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(7, 5)).astype(np.float32)
    texts = [[WORDS[i] for i in rng.integers(0, 7, size=4)] for _ in range(60)]
    labels = np.array(["no", "yes"])[[int("good" in words) for words in texts]]
    means = np.array(
        [
            vectors[[WORDS.index(w) for w in words]].astype(np.float64).mean(axis=0)
            for words in texts
        ]
    )
    classifier = linear.LogisticRegression().fit(means, labels)
    model = MeanPooledText.from_linear(vectors, classifier, WORDS)
    assert model.outputs == ("no", "yes")
    for words, mean in zip(texts[:5], means, strict=False):
        assert (
            abs(
                model.predict_logits([" ".join(words)])[0][0]
                - classifier.decision_function(mean[None])[0]
            )
            < EXACT
        )
        assert model.predict([" ".join(words)])[0] == classifier.predict(mean[None])[0]


def test_a_word_for_the_unknown() -> None:
    state = weights()
    rows = {word: row for row, word in enumerate(WORDS)}
    model = MeanPooledText.from_state_dict(state, VocabularyReader(rows, unknown=6))
    assert (
        np.abs(
            model.predict_logits(["good unheard"])[0] - mean_logits(state, ["good", "odd"])
        ).max()
        < EXACT
    )


def test_errors_say_what_is_wrong() -> None:
    state = weights()
    model = MeanPooledText.from_state_dict(state, WORDS)
    with pytest.raises(ValueError, match=r"^text: "):
        model.explain("nothing known")
    with pytest.raises(TypeError, match=r"^text: "):
        model.read(3)
    with pytest.raises(ValueError, match=r"^state: "):
        MeanPooledText.from_state_dict({**state, "hidden.weight": np.ones((5, 5))}, WORDS)
    with pytest.raises(ValueError, match=r"^state: "):
        MeanPooledText.from_state_dict({**state, "norm.running_mean": np.ones(5)}, WORDS)
    with pytest.raises(ValueError, match=r"^state: "):
        BagClassifier.from_state_dict(state)
    with pytest.raises(ValueError, match=r"^reader: "):
        MeanPooledText.from_state_dict(state, {"good": 7}).predict_logits(["good"])[0]
    with pytest.raises(TypeError, match=r"^reader: "):
        MeanPooledText.from_state_dict(state, "words")  # type: ignore[arg-type]
