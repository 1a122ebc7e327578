"""The code on models in docs/your-bags.md runs, block after block, with small files of the names that it uses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier
from attn_closed_form.explainable.layouts import LAYOUTS

PAGE = Path(__file__).parents[2] / "docs" / "your-bags.md"
WORDS = ["good", "bad", "film"]


# The sections on models; tests/test_docs_bags.py has the one on training.
SECTIONS = ("Open a network", "Check it", "Any framework", "Bags", "Texts that average")


def blocks() -> list[str]:
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    chosen = [part for part in parts if part.startswith(SECTIONS)]
    assert len(chosen) == len(SECTIONS)
    return [block for part in chosen for block in re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)]


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch writes the files of the page (extra bench)")
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    linear = pytest.importorskip("sklearn.linear_model", reason="the page uses scikit-learn")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
    state = {f"{name}.weight": torch.tensor(rng.normal(size=shape)) for name, shape in shapes.items()}
    torch.save(state, "model.pt")
    features, coords = rng.normal(size=(11, 7)).astype(np.float32), 256 * rng.integers(0, 50, size=(11, 2))
    with h5py.File("slide.h5", "w") as file:
        file["features"], file["coords"] = features, coords
    torch.save({"embedding.weight": torch.eye(3), "fc.weight": torch.ones(1, 3)}, "bag_of_words.pt")
    theirs = BagClassifier.from_state_dict("model.pt", outputs=["normal", "tumour"])
    units = theirs.read(features)
    names: dict[str, Any] = {
        "my_network_logits": theirs.predict_logits(features),
        "raw_attention": units.data.scores.s[0],
        "instance_logits": np.array([theirs.predict_logits(features[i : i + 1]) for i in range(11)]),
        "logits_of_sub_bags": lambda bags: [theirs.predict_logits(features[bag]) for bag in bags],
        "n": 11,
        "features": features,
        "coords": coords,
        "words": WORDS,
        "vectors": np.eye(3),
        "logistic_regression": linear.LogisticRegression().fit(np.eye(3), ["a", "b", "a"]),
    }
    for block in blocks():
        if "in_regions" in block:  # the block before has a model of one bag
            names["model"] = theirs
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["result"].agrees and names["game"].deviation < 1e-10


def test_the_page_names_every_layout() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named == set(LAYOUTS)
