"""What a page takes for granted: small files and names of the reader's own, made before its code
runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import METHODS, BagClassifier

WORDS = ["good", "bad", "film"]


def your_bags() -> dict[str, Any]:
    """A trained network, a slide and what the reader's own framework says of it."""
    import h5py
    import torch
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    shapes = {
        "linear_layers.0.0": (5, 7),
        "attention.0": (3, 5),
        "attention.2": (1, 3),
        "classifier": (2, 5),
    }
    torch.save(
        {f"{name}.weight": torch.tensor(rng.normal(size=shape)) for name, shape in shapes.items()},
        "model.pt",
    )
    features = rng.normal(size=(11, 7)).astype(np.float32)
    coords = 256 * rng.integers(0, 50, size=(11, 2))
    with h5py.File("slide.h5", "w") as file:
        file["features"] = features
        file["coords"] = coords
    torch.save({"embedding.weight": torch.eye(3), "fc.weight": torch.ones(1, 3)}, "bag_of_words.pt")
    theirs = BagClassifier.from_state_dict("model.pt", outputs=["normal", "tumor"])
    return {
        "bags": [features, features[:5]],
        "my_logits": theirs.predict_logits([features, features[:5]]),
        "raw_attention": theirs.scores(theirs.read(features)).s[0],
        "instance_logits": np.array(
            [theirs.predict_logits([features[i : i + 1]])[0] for i in range(11)]
        ),
        "logits_of_sub_bags": lambda bags: [
            theirs.predict_logits([features[bag]])[0] for bag in bags
        ],
        "n": 11,
        "features": features,
        "coords": coords,
        "words": WORDS,
        "vectors": np.eye(3),
        "logistic_regression": LogisticRegression().fit(np.eye(3), ["a", "b", "a"]),
    }


def your_transformer() -> dict[str, Any]:
    """A small classifier and a small language model, both trained for some seconds, in folders."""
    from tests.tiny_transformers import trained_bert, trained_llama

    for folder, parts in (("my-model", trained_bert()), ("my-language-model", trained_llama())):
        for part in parts:
            part.save_pretrained(folder)
    return {}


def corpus_at_scale() -> dict[str, Any]:
    """The table that the page on tables writes."""
    Path("reviews.csv").write_text(
        'id,text\n7,A wonderful film.\n8,"Dull, dull, dull."\n', encoding="utf-8"
    )
    return {}


def your_probe() -> dict[str, Any]:
    """A small language model, trained for some seconds, in a folder."""
    from tests.tiny_transformers import trained_llama

    for part in trained_llama():
        part.save_pretrained("my-language-model")
    return {}


SETUPS: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/your-bags.md": your_bags,
    "docs/supported-networks.md": your_bags,
    "docs/how-good-is-a-map.md": your_bags,
    "docs/cookbook.md": your_bags,
    "docs/corpus-at-scale.md": corpus_at_scale,
    "docs/your-transformer.md": your_transformer,
    "docs/your-probe.md": your_probe,
}
#: Packages without which a page is skipped; the reason names them.
NEEDS: dict[str, tuple[str, ...]] = {
    "README.md": ("matplotlib",),
    "docs/your-bags.md": ("torch", "h5py", "sklearn", "matplotlib", "optax"),
    "docs/supported-networks.md": ("torch", "h5py", "sklearn"),
    "docs/how-good-is-a-map.md": ("torch", "h5py", "sklearn"),
    "docs/your-texts.md": ("sklearn", "optax"),
    "docs/your-transformer.md": ("torch", "transformers"),
    "docs/your-probe.md": ("torch", "transformers"),
    "docs/coming-from.md": ("lime", "shap", "torch", "h5py"),
    "docs/tutorials/explain-a-review.md": ("matplotlib",),
    "docs/tutorials/how-lime-converges.md": ("lime", "matplotlib"),
    "docs/weighted-means.md": ("sklearn", "matplotlib"),
    "docs/attention-heads.md": ("torch", "transformers"),
    "docs/corpus.md": ("pandas", "pyarrow"),
    "docs/gallery.md": ("sklearn", "optax", "matplotlib"),
    "docs/cookbook.md": (
        "pandas",
        "pyarrow",
        "sklearn",
        "scipy",
        "torch",
        "h5py",
        "shap",
        "matplotlib",
    ),
    "docs/corpus-at-scale.md": ("pyarrow",),
    "docs/service.md": ("starlette",),
}
#: Entries that a page adds to a table of the library, taken out again afterwards.
ADDED_METHODS = ("first-last",)


def forget_methods(monkeypatch: Any) -> None:
    """Take methods that a page adds out of the table when the test ends."""
    for name in ADDED_METHODS:
        monkeypatch.setitem(METHODS, name, METHODS["leave-one-out"])
