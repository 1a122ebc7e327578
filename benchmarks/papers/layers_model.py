"""P1's appendix E: a transformer with six layers and six heads, trained from scratch on whole
reviews of IMDB.

T_max = 256 as in P1's appendix F, d_e = 80 as in its Fig. 5 and six heads of width 16 (the appendix
has d_e = 128 and heads of 64, which would cost four times as much). Attention costs the square of a
length, so the first steps see random windows of 63 words, the others whole reviews in batches of
similar lengths. Everything starts from random numbers; the vocabulary alone is the shipped model's.
A batch is a function of its step, so a killed run goes on where it was.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form._types import Array
from benchmarks.papers.transformers.transformer import (
    EPS,
    PAD,
    Config,
    Tree,
    embed,
    forward,
    from_embeddings,
    init_transformer,
)
from jax_model.training.batches import Documents, pad_rows
from jax_model.training.loop import Fit, Optimizer, TrainingProgress, cross_entropy, fit

from .lime_runs import Ids

LAYERS = 6
HEADS = 6
WIDTH = 80
HEAD_WIDTH = 16
T_MAX = 256
WINDOW = 64  # positions of the first steps, [CLS] included
LENGTHS = (64, 128, 192, 256)
BLOCK = 64  # shapes of a batch and of a forward pass
POOL = 32  # batches of whole reviews that are sorted by length together
RATE = 1e-3
WARM_UP = 200
DECAY = 0.1
# Steps between two checkpoints.
EVERY = 50


class Plan(NamedTuple):
    """How long to train: steps on windows and on whole reviews, documents per step of each."""

    windows: int
    reviews: int
    window_batch: int = 32
    review_batch: int = 16
    seed: int = 0

    @property
    def steps(self) -> int:
        """All steps."""
        return self.windows + self.reviews


FULL = Plan(1400, 1000)
QUICK = Plan(60, 12)


def six_layer_config(D: int) -> Config:
    """Sizes of the model for a vocabulary of D words."""
    return Config(D, d=WIDTH, L=LAYERS, H=HEADS, d_ff=2 * WIDTH, T_max=T_MAX, d_h=HEAD_WIDTH)


def drop_tokens(rng: np.random.Generator, ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Delete a random share of the tokens of half of the rows, the others move up: LIME asks about
    such reviews.
    """
    share = rng.random((len(ids), 1)) * (rng.random((len(ids), 1)) < 0.5)
    gone = (rng.random(ids.shape) < share) | (ids == PAD)
    gone[:, 0] = False
    order = np.argsort(gone, axis=1, kind="stable")
    return np.take_along_axis(np.where(gone, PAD, ids).astype(np.int32), order, axis=1)


def review_rows(sizes: NDArray[np.intp], plan: Plan, step: int) -> NDArray[np.intp]:
    """The reviews of one step: every epoch shuffles them, sorts pools of them by length, and
    shuffles the batches.
    """
    B = plan.review_batch
    per_epoch = max(sizes.size // B, 1)
    epoch, within = divmod(step, per_epoch)
    rng = np.random.default_rng([plan.seed, 2, epoch])
    order = rng.permutation(sizes.size)[: per_epoch * B]
    pools = [order[start : start + POOL * B] for start in range(0, order.size, POOL * B)]
    batches = [pool[np.argsort(sizes[pool], kind="stable")].reshape(-1, B) for pool in pools]
    return np.concatenate(batches)[rng.permutation(per_epoch)[within]]


def batch(documents: Documents, cls: int, plan: Plan, step: int) -> tuple[Any, Any]:
    """Padded ids and labels of a step: random windows at first, then whole reviews."""
    rng = np.random.default_rng([plan.seed, 1, step])
    sizes = np.diff(documents.starts)
    if step < plan.windows:
        rows = rng.integers(documents.size, size=plan.window_batch)
        length = WINDOW
        room = np.maximum(sizes[rows] - (WINDOW - 1), 0)
    else:
        rows = review_rows(sizes, plan, step - plan.windows)
        longest = min(int(sizes[rows].max()) + 1, T_MAX)
        length = next(n for n in LENGTHS if n >= longest)
        room = np.maximum(sizes[rows] - (T_MAX - 1), 0)
    ids = pad_rows(documents, rows, length, cls, PAD, rng.integers(room + 1))
    return drop_tokens(rng, ids), documents.labels[rows].astype(np.float32)


def loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels).mean()


def train_six_layers(
    documents: Documents, D: int, cls: int, plan: Plan, checkpoint: Path | None
) -> Fit:
    """Parameters, and the seconds and processor seconds of the run, over all its parts."""
    config = six_layer_config(D)
    return fit(
        partial(loss, config=config),
        init_transformer(jax.random.key(plan.seed), config),
        partial(batch, documents, cls, plan),
        plan.steps,
        Optimizer(RATE, WARM_UP, DECAY),
        checkpoint=checkpoint,
        every=EVERY,
        progress=TrainingProgress(1, plan.steps, name="six layers, epoch"),
    )


def outputs(params: Tree, config: Config, documents: list[Ids]) -> Array:
    """Log-odds of documents without their [CLS] (id 0), in few shapes: (n,)."""
    sizes = np.array([len(document) + 1 for document in documents])
    out = np.empty(len(documents))
    for low, length in zip((0, *LENGTHS), LENGTHS, strict=False):
        rows = np.flatnonzero((sizes > low) & (sizes <= length))
        for start in range(0, rows.size, BLOCK):
            some = rows[start : start + BLOCK]
            ids = np.full((BLOCK, length), PAD, dtype=np.int32)
            ids[:, 0] = 0
            for row, i in zip(ids, some, strict=False):
                row[1 : sizes[i]] = documents[i]
            out[some] = np.asarray(forward(params, config, ids))[: some.size]
    return out


@partial(jax.jit, static_argnums=1)
def first_attention(params: Tree, config: Config, ids: jax.Array) -> jax.Array:
    """Attention of [CLS] in the first layer: (T,) ids -> (H, T)."""
    h = embed(params, ids[None])[0]
    p = jax.tree.map(lambda x: x[0], params["layers"])
    x = h - h.mean(axis=-1, keepdims=True)
    x = x / jnp.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * p["gain_1"] + p["shift_1"]
    q, k = ((x @ p[f"W_{n}"] + p[f"b_{n}"]).reshape(len(ids), config.H, -1) for n in "qk")
    scores = jnp.einsum("hc,khc->hk", q[0], k) * config.head_width**-0.5
    return jax.nn.softmax(jnp.where(ids >= 0, scores, -1e9), axis=-1)


@partial(jax.jit, static_argnums=1)
def slopes(params: Tree, config: Config, ids: jax.Array) -> jax.Array:
    """Gradient of the log-odds by the embeddings: (T,) ids -> (T, d)."""
    e = embed(params, ids[None])
    real = ids[None] >= 0
    return jax.grad(lambda e: from_embeddings(params, config, e, real)[0])(e)[0]
