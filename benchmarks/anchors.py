"""Anchors (Ribeiro et al., 2018) on the same texts: the answers of the anchor-exp package, and
their true precision.

Its text explainer keeps the words of the anchor and replaces every other one by a mask with
probability 1/2, and looks for a set whose predictions stay the same in at least 95 % of such
samples. We give it the shipped model, a mask that is not in the vocabulary (so it becomes [UNK])
and the model's tokens. The *true* precision of its answer is computed over all coalitions for short
texts, and from many samples, with the standard error, for longer ones. A sufficient reason has
precision 1 by proof, whatever the replacements' law.

`alibi` asks for NumPy below 2 and cannot be installed beside the versions that this project is
tested with.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from attn_closed_form import PooledGame, TextClassifier, sufficient_reason
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game

# A word that no vocabulary has.
MASK = "zqzqzqzq"
ENUMERATED = 16
SAMPLES = 200_000
TEXTS = (
    "A slow start, a dull end, but a wonderful film.",
    "I liked the actors, the music and the end.",
    "What a waste of time and of a fine cast!",
    "Not the best of his films, but never boring.",
    "The worst film that I have seen this year.",
)


def anchor(model: TextClassifier, text: str, seed: int) -> dict[str, Any]:
    """The package's anchor for a text: positions of its words, its estimate, seconds and model
    calls.
    """
    # Installed by `pip install --no-deps anchor-exp`, because its spacy is not used here.
    from anchor.anchor_text import AnchorText

    def tokens(given: str) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(text=token.word, idx=token.start) for token in model.tokenizer(given)
        ]

    calls = 0

    def labels(texts: list[str]) -> Array:
        nonlocal calls
        calls += len(texts)
        return (model.predict_logits([str(given) for given in texts])[:, 0] > 0).astype(float)

    np.random.seed(seed)  # noqa: NPY002  # the package draws from the global state
    start = time.perf_counter()
    explainer = AnchorText(
        tokens, ["negative", "positive"], use_unk_distribution=True, mask_string=MASK
    )
    found = explainer.explain_instance(text, labels, threshold=0.95)
    return {
        "positions": [int(j) for j in found.features()],
        "precision": float(found.precision()),
        "seconds": time.perf_counter() - start,
        "calls": calls,
    }


def precision(game: PooledGame, players: list[int], seed: int) -> tuple[float, float]:
    """Share of coalitions with these players on the side of the whole, each other one present with
    probability 1/2.

    Exact, with 0 as its standard error, where few enough can differ.
    """
    free = [j for j in range(game.d) if j not in players]
    if len(free) <= ENUMERATED:
        drawn = ((np.arange(2 ** len(free))[:, None] >> np.arange(len(free))) & 1).astype(bool)
    else:
        drawn = np.random.default_rng(seed).random((SAMPLES, len(free))) < 0.5
    masks = np.ones((len(drawn), game.d), dtype=bool)
    masks[:, free] = drawn
    side = np.sign(game.value(np.ones(game.d, dtype=bool)))
    same = float((np.sign(game.value(masks)) == side).mean())
    return same, 0.0 if len(free) <= ENUMERATED else float(
        np.sqrt(max(same * (1 - same), 1e-12) / len(drawn))
    )


def rows(model: TextClassifier, texts: list[str], seed: int) -> list[dict[str, Any]]:
    """Both answers for every text, one row each."""
    out: list[dict[str, Any]] = []
    for text in texts:
        ids = model.vocabulary.encode(text)[: int(model.weights.room)]
        game = pooled_game(model.weights, ids, absent="unk")
        theirs = anchor(model, text, seed)
        start = time.perf_counter()
        ours = sufficient_reason(game)
        seconds = time.perf_counter() - start
        players = list(ours.players or ())
        if len(text) < 50:
            case = text
        else:
            case = f"test review of {game.d} tokens"
        for method, chosen, estimate, taken, calls in (
            (
                "anchor-exp",
                theirs["positions"],
                theirs["precision"],
                theirs["seconds"],
                theirs["calls"],
            ),
            ("sufficient reason (ours)", players, 1.0, seconds, 0),
        ):
            true, error = precision(game, chosen, seed)
            out.append(
                {
                    "case": case,
                    "method": method,
                    "size": len(chosen),
                    "claimed precision": estimate,
                    "true precision": true,
                    "standard error": error,
                    "model calls": calls,
                    "seconds": taken,
                }
            )
    return out
