"""The models that the reproductions on real text explain: transformers trained here, and the
shipped classifier.

P2 fine-tunes BERT, DistilBERT and GPT-2; ours are small, start from nothing, and have whole words
for tokens: an encoder beside BERT and a decoder beside GPT-2, both with a [CLS] in front (the
decoder's stands for an empty text). Random windows and random deletions in training keep shortened
reviews in distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights
from attn_closed_form._types import Array
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.attention import (
    classifier_lrp,
    gradient_mean,
    integrated_gradients,
    pooled_game,
    predict_many,
)
from attn_closed_form.game.pooled_game import PooledGame
from benchmarks.papers.transformers.lrp import (
    transformer_gradient,
    transformer_integrated_gradients,
    transformer_lrp,
)
from benchmarks.papers.transformers.transformer import (
    LENGTHS,
    PAD,
    Config,
    Tree,
    forward,
    init_transformer,
    pad_documents,
    predict_documents,
)
from jax_model.training.batches import Documents, encode_documents, pad_rows
from jax_model.training.imdb import Reviews
from jax_model.training.loop import Optimizer, TrainingProgress, cross_entropy, fit

from ..faithfulness import Value, removal

T_MAX = 64

Ids = NDArray[np.intp]


@dataclass(frozen=True)
class Subject:
    """A model to explain.

    name : what tables call it
    paper : which of P2's models stands beside it; None for the classifier of P1
    f : black box, a list of id arrays to log-odds
    remove : a document's values under removal of tokens: a game, or a function of masks
    closed : explanations from the model's inside, by name: a function of the document
    """

    name: str
    paper: str | None
    f: Callable[[list[Ids]], Array]
    remove: Callable[[Ids], PooledGame | Value]
    closed: dict[str, Callable[[Ids], Array]]


def train_batch(
    documents: Documents, cls: int, size: int, rng: np.random.Generator, step: int
) -> tuple[Any, Any]:
    """Random windows of random reviews; of half of them, a random share of the tokens is
    deleted.
    """
    rows = rng.integers(documents.size, size=size)
    spare = np.maximum(np.diff(documents.starts)[rows] - (T_MAX - 1), 0)
    ids = pad_rows(documents, rows, T_MAX, cls, PAD, rng.integers(spare + 1))
    share = rng.uniform(0, 1, size=(size, 1)) * (rng.random((size, 1)) < 0.5)
    gone = (rng.random(ids.shape) < share) | (ids < 0)
    gone[:, 0] = False
    ids = np.take_along_axis(
        np.where(gone, PAD, ids), np.argsort(gone, axis=1, kind="stable"), axis=1
    )
    return ids, documents.labels[rows]


def transformer_loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels).mean()


def transformer(
    vocabulary: Vocabulary,
    reviews: Reviews,
    causal: bool,
    L: int = 2,
    steps: int = 1000,
    size: int = 32,
    seed: int = 0,
) -> Subject:
    """A transformer trained on reviews."""
    config = Config(len(vocabulary), d=32, L=L, H=2, d_ff=64, T_max=T_MAX, causal=causal)
    kind = "decoder" if causal else "encoder"
    documents = encode_documents(
        vocabulary, reviews.texts, [int(label) for label in reviews.labels]
    )
    params = fit(
        partial(transformer_loss, config=config),
        init_transformer(jax.random.key(seed), config),
        partial(train_batch, documents, vocabulary.cls_id, size, np.random.default_rng([seed, 1])),
        steps,
        Optimizer(3e-3, weight_decay=0.1),
        progress=TrainingProgress(1, steps, name=f"{kind}, L = {L}:"),
    ).params
    return transformer_subject(
        params, config, vocabulary, f"{kind}, L = {L}", "GPT-2" if causal else "BERT"
    )


def transformer_subject(
    params: Tree, config: Config, vocabulary: Vocabulary, name: str, paper: str | None = None
) -> Subject:
    """What the benchmarks ask of a transformer: tokens are removed by deletion."""
    first = (vocabulary.cls_id,)
    f = partial(predict_documents, params, config, first=first)

    def inside(method: Callable[..., Array], baseline: bool = False) -> Callable[[Ids], Array]:
        def scores(tokens: Ids) -> Array:
            length = next(n for n in LENGTHS if n > len(tokens))
            ids = pad_documents([tokens], length, first)
            if baseline:
                extra = [pad_documents([np.full(len(tokens), vocabulary.unk_id)], length, first)]
            else:
                extra = []
            return method(params, config, ids, *extra)[0, 1 : 1 + len(tokens)]

        return scores

    closed = {
        "IG": inside(transformer_integrated_gradients, baseline=True),
        "Grad": inside(transformer_gradient),
        "LRP": inside(transformer_lrp),
    }
    return Subject(name, paper, f, lambda tokens: removal(f, tokens), closed)


def classifier(weights: AttentionWeights) -> Subject:
    """P1's classifier as shipped: [UNK] takes the place of a removed token, and curves need no
    model call.
    """
    return Subject(
        "shipped classifier, 1 head" if weights.K == 1 else f"classifier of P1, {weights.K} heads",
        None,
        lambda documents: predict_many(weights, documents)[:, 0],
        lambda tokens: pooled_game(weights, tokens),
        {
            "IG": partial(integrated_gradients, weights),
            "Grad": partial(gradient_mean, weights),
            "LRP": partial(classifier_lrp, weights),
        },
    )
