"""Predictions, attention and gradients of many documents on a device.

A model becomes a pytree of score tables (`device_tables`, those of `attn_closed_form/classifier/score_tables.py`), and
documents become a padded array of ids. Everything is jitted once per shape: documents always fill T_max positions, and
batches are cut to `batch` documents, the last one padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights
from attn_closed_form._types import Tokens
from attn_closed_form.classifier.score_tables import as_output, as_tokens, pad

BATCH = 256


class Tables(NamedTuple):
    """A model on a device: s_tok (D, K), s_pos (T_max, K), u_tok (D, K, C), u_pos (T_max, K, C), w_k (K, d_e),
    w_v (K, C, d_e), and what the [CLS] row of the gradient needs: W_e, W_p, W_q, W_k; b_l (C,).
    """

    s_tok: jax.Array
    s_pos: jax.Array
    u_tok: jax.Array
    u_pos: jax.Array
    w_k: jax.Array
    w_v: jax.Array
    W_e: jax.Array
    W_p: jax.Array
    W_q: jax.Array
    W_k: jax.Array
    b_l: jax.Array
    cls: jax.Array
    unk: jax.Array


def device_tables(weights: AttentionWeights, dtype: Any = None) -> Tables:
    """Tables of `weights` in a floating type, JAX's default by default.

    >>> from attn_closed_form import random_weights
    >>> device_tables(random_weights(seed=0)).s_tok.shape
    (50, 2)
    """
    like = jnp.zeros(0, dtype)
    return _tables(weights, like.dtype, next(iter(like.devices())))


@lru_cache(maxsize=8)
def _tables(weights: AttentionWeights, dtype: Any, device: Any) -> Tables:
    """Kept for a model, a type and a device: carrying the embeddings over costs more than a batch of predictions."""
    collapse = weights.collapse
    named = {name: getattr(collapse, name) for name in ("s_tok", "s_pos", "u_tok", "u_pos", "w_k", "w_v")}
    named |= {name: getattr(weights, name) for name in ("W_e", "W_p", "W_q", "W_k", "b_l")}
    arrays = {name: jnp.asarray(array, dtype) for name, array in named.items()}
    return Tables(**arrays, cls=jnp.asarray(weights.cls), unk=jnp.asarray(weights.unk))


def scores_of(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(T_max,) padded ids -> logits (K, T_max), values (K, T_max, C)."""
    s = (tables.s_tok[ids] + tables.s_pos).T
    u = (tables.u_tok[ids] + tables.u_pos).transpose(1, 0, 2)
    return s, u


def _predict(tables: Tables, ids: jax.Array) -> jax.Array:
    s, u = scores_of(tables, ids)
    return jnp.einsum("kt,ktc->c", jax.nn.softmax(s, axis=-1), u) / s.shape[0] + tables.b_l


def _attention(tables: Tables, ids: jax.Array) -> jax.Array:
    return jax.nn.softmax(scores_of(tables, ids)[0], axis=-1)


def _gradient(tables: Tables, ids: jax.Array, output: jax.Array) -> jax.Array:
    """P1 Theorem 4.1 with the [CLS] term, as `attn_closed_form.classifier.gradient`: (T_max, d_e)."""
    s, values = scores_of(tables, ids)
    u = values[:, :, output]
    alpha = jax.nn.softmax(s, axis=-1)
    f = (alpha * u).sum(axis=-1, keepdims=True)
    alpha = alpha / s.shape[0]
    beta = alpha * (u - f)
    grad = alpha.T @ tables.w_v[:, output] + beta.T @ tables.w_k
    mean_e = beta @ (tables.W_e[ids] + tables.W_p)
    mean_k = jnp.einsum("kae,ke->ka", tables.W_k, mean_e) / jnp.sqrt(tables.W_k.shape[1]).astype(s.dtype)
    return grad.at[0].add(jnp.einsum("ka,kae->e", mean_k, tables.W_q))


@partial(jax.jit, static_argnums=0)
def _each(function: Any, tables: Tables, ids: jax.Array, *more: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: function(tables, row, *more))(ids)


def _batches(weights: AttentionWeights, documents: Sequence[Tokens], batch: int) -> Iterator[tuple[int, jax.Array]]:
    """Blocks of padded ids, all of one shape; with each the number of its real documents."""
    if batch < 1:
        raise ValueError(f"batch: expected a positive number of documents, got {batch}")
    for start in range(0, len(documents), batch):
        checked = [as_tokens(weights, document) for document in documents[start : start + batch]]
        real = len(checked)
        empty = [np.zeros(0, dtype=np.intp)] * (min(batch, len(documents)) - real)
        yield real, jnp.asarray(pad(weights, [*checked, *empty]))


def predict(
    weights: AttentionWeights, documents: Sequence[Tokens], dtype: Any = None, batch: int = BATCH
) -> NDArray[Any]:
    """Model outputs, (B, C), as `attn_closed_form.predict_many`."""
    return _all(_predict, weights, documents, dtype, batch)


def attention(
    weights: AttentionWeights, documents: Sequence[Tokens], dtype: Any = None, batch: int = BATCH
) -> NDArray[Any]:
    """Attention of the [CLS] query, (B, K, T_max), as `attn_closed_form.classifier.attention`."""
    return _all(_attention, weights, documents, dtype, batch)


def gradient(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    output: int = 0,
    dtype: Any = None,
    batch: int = BATCH,
) -> NDArray[Any]:
    """Gradients by the embedded positions, (B, T_max, d_e), as `attn_closed_form.classifier.gradient`."""
    return _all(_gradient, weights, documents, dtype, batch, jnp.asarray(as_output(weights, output)))


def _all(
    function: Any, weights: AttentionWeights, documents: Sequence[Tokens], dtype: Any, batch: int, *more: jax.Array
) -> NDArray[Any]:
    tables = device_tables(weights, dtype)
    parts = [
        np.asarray(_each(function, tables, ids, *more))[:real] for real, ids in _batches(weights, documents, batch)
    ]
    if not parts:
        raise ValueError("documents: expected at least one document, got none")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
