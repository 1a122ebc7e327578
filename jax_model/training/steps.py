"""The parts of a training run that JAX compiles: state, start, step and prediction.

`train.py` puts them together; everything here is float32, whatever `jax_enable_x64` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from attn_closed_form.models.classifier.weights import sinusoidal_positions

from ..witness.params import Params
from .batches import Documents, pad_rows
from .collapsed import collapsed_forward
from .config import Config
from .devices import cut_by_document

EVALUATION_BLOCK = 1000

Trained = dict[str, jax.Array]


class State(NamedTuple):
    """Everything that a step changes, and so everything that a checkpoint holds."""

    trained: Trained
    optimizer: Any
    average: Trained
    best: Trained
    step: jax.Array
    loss_sum: jax.Array


def start_arrays(config: Config, D: int, C: int, cls: int, unk: int) -> tuple[dict[str, NDArray[Any]], Trained]:
    """Fixed and trained arrays at the start, distributed as the twin's but for scaled embeddings and positions.

    Small embeddings let a word that is hardly seen start, and stay, without an opinion. [CLS] keeps its size, as it
    alone makes the query. [UNK], which is also the padding, starts at the attention logit `unk_start` in every head:
    below zero, a short text is not drowned in its own padding while the heads learn to look away (with one head and
    `unk_start` 0, one run in a few never did). NumPy draws the numbers: no compilation, and the same ones under every
    version of JAX.
    """
    c = config
    rng = np.random.default_rng(c.seed)

    def normal(*shape: int, deviation: float) -> NDArray[Any]:
        return (deviation * rng.standard_normal(shape)).astype(np.float32)

    trained = {
        "W_e": normal(D, c.d_e, deviation=c.scale),
        "W_q": normal(c.K, c.d_att, c.d_e, deviation=c.query_scale * c.d_e**-0.5),
        "W_k": normal(c.K, c.d_att, c.d_e, deviation=c.d_e**-0.5),
        "W_v": normal(c.K, c.d_out, c.d_e, deviation=c.d_e**-0.5),
        "W_l": normal(c.K, C, c.d_out, deviation=c.d_out**-0.5),
        "b_l": np.zeros(C, np.float32),
    }
    trained["W_e"][cls] = normal(c.d_e, deviation=1.0)
    if c.unk_start:
        query = trained["W_q"] @ trained["W_e"][cls]
        keys = np.einsum("kae,ka->ke", trained["W_k"], query) * c.d_att**-0.5
        trained["W_e"][unk] = np.linalg.lstsq(keys, np.full(c.K, c.unk_start, np.float32), rcond=None)[0]
    fixed = {
        "W_p": (c.scale * sinusoidal_positions(c.T_max, c.d_e)).astype(np.float32),
        "b_q": np.zeros((c.K, c.d_att), np.float32),
        "b_k": np.zeros((c.K, c.d_att), np.float32),
        "b_v": np.zeros((c.K, c.d_out), np.float32),
    }
    return fixed, trained


def cross_entropy(logits: jax.Array, labels: jax.Array, class_weights: NDArray[Any]) -> jax.Array:
    """Mean cross-entropy of outputs (B, C) for class numbers (B,), each text times the weight of its class.

    One output is a binary logit: beside a zero for the first class, its cross-entropy is that of the sigmoid.
    """
    if logits.shape[1] == 1:
        logits = jnp.concatenate([jnp.zeros_like(logits), logits], axis=1)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return (jnp.asarray(class_weights, losses.dtype)[labels] * losses).mean()


def step_function(
    optimizer: Any, fixed: dict[str, Any], cls: int, decay: float, class_weights: NDArray[Any]
) -> Callable[..., State]:
    """The compiled step: (state, ids (B, T_max), labels (B,)) -> state. The state that goes in is used up."""

    def loss(trained: Trained, ids: jax.Array, labels: jax.Array) -> jax.Array:
        return cross_entropy(collapsed_forward(Params(**fixed, **trained), ids, cls), labels, class_weights)

    @functools.partial(jax.jit, donate_argnums=0)
    def take_step(state: State, ids: jax.Array, labels: jax.Array) -> State:
        value, slope = jax.value_and_grad(loss)(state.trained, ids, labels)
        updates, inner = optimizer.update(slope, state.optimizer, state.trained)
        trained = optax.apply_updates(state.trained, updates)
        # A young average forgets faster, or the random start would stay in it for hundreds of steps.
        count = state.step.astype(jnp.float32)
        keep = jnp.minimum(jnp.float32(decay), (1 + count) / (10 + count))
        average = jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, state.average, trained)
        return State(trained, inner, average, state.best, state.step + 1, state.loss_sum + value)

    return take_step


def predict_function(mesh: Mesh, fixed: dict[str, Any], cls: int) -> Callable[..., jax.Array]:
    """The compiled forward pass: (trained, ids (B, T_max)) -> (B, C), whole on every device and host."""
    whole = NamedSharding(mesh, PartitionSpec())

    @functools.partial(jax.jit, out_shardings=whole)
    def predict(trained: Trained, ids: jax.Array) -> jax.Array:
        return collapsed_forward(Params(**fixed, **trained), ids, cls)

    return predict


def all_logits(
    mesh: Mesh,
    predict: Callable[..., jax.Array],
    trained: Trained,
    documents: Documents,
    T_max: int,
    cls: int,
    unk: int,
) -> NDArray[np.float32]:
    """Outputs (n, C) of all documents, in blocks of one size so that one compilation serves; the last is filled up."""
    block = min(EVALUATION_BLOCK, documents.size)
    block += -block % mesh.size
    out = []
    for start in range(0, documents.size, block):
        rows = np.arange(start, start + block) % documents.size
        out.append(np.asarray(predict(trained, cut_by_document(mesh, pad_rows(documents, rows, T_max, cls, unk)))))
    return np.concatenate(out)[: documents.size]
