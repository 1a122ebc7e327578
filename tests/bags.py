"""Bags and bag models for the tests of views: small, with all sizes different."""

import numpy as np

from attn_closed_form import Bag, BagClassifier


def bag_model(C=2, D=5, seed=0, outputs=("normal", "tumor"), scale=1.0):
    """A classifier with plain attention (xMIL's layout) and random weights."""
    rng = np.random.default_rng(seed)
    state = {
        "attention.0.weight": rng.normal(size=(3, D)),
        "attention.2.weight": rng.normal(size=(1, 3)),
        "classifier.weight": scale * rng.normal(size=(C, D)),
        "classifier.bias": rng.normal(size=C),
    }
    return BagClassifier.from_state_dict(state, layout="xmil", outputs=list(outputs) or None)


def slide(columns=4, rows=3, D=5, seed=1, side=256, **attrs):
    """A bag of tiles on a grid, its upper left corner at (1000, 2000)."""
    rng = np.random.default_rng(seed)
    coords = [[1000 + side * x, 2000 + side * y] for y in range(rows) for x in range(columns)]
    return Bag(
        rng.normal(size=(rows * columns, D)),
        coords=coords,
        attrs={"patch_size_level0": side, **attrs},
    )


def class_heads_model(D=5, seed=0, outputs=("normal", "tumor")):
    """A classifier of CLAM's multiple branch: one head of attention and one layer per class."""
    rng = np.random.default_rng(seed)
    state = {
        "attention_net.0.weight": rng.normal(size=(7, D)),
        "attention_net.3.attention_a.0.weight": rng.normal(size=(3, 7)),
        "attention_net.3.attention_b.0.weight": rng.normal(size=(3, 7)),
        "attention_net.3.attention_c.weight": rng.normal(size=(len(outputs), 3)),
    }
    for number in range(len(outputs)):
        state[f"classifiers.{number}.weight"] = rng.normal(size=(1, 7))
    return BagClassifier.from_state_dict(state, layout="clam", outputs=list(outputs))
