"""Predictions, attention and gradients of many documents on a device.

A model becomes a pytree of score tables (`device_tables`, those of the core's `predict.py`), and
documents become a padded array of ids. Everything is jitted once per shape: documents always fill T_max positions, and
batches are cut to `batch` documents, the last one padded. With a `mesh` (`loops.AXIS` its one axis) a batch is cut over
its devices.

A gradient is T_max x d_e numbers per document, and most of its time on a CPU is memory. `gradient_blocks` therefore
leaves the results where they are made, one block of documents after the other; `gradient` copies them all into one
NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights
from attn_closed_form._types import Tokens
from attn_closed_form.models.classifier.predict import as_output, as_tokens, pad

from .loops import PRECISION, placed

BATCH = 256
# Documents of a block of gradients on a CPU: few enough for its caches.
GRADIENTS_CPU = 16


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


def device_tables(weights: AttentionWeights, dtype: Any = None, mesh: Mesh | None = None) -> Tables:
    """Tables of `weights` in a floating type, JAX's default by default; whole on every device of a mesh.

    >>> from attn_closed_form import random_weights
    >>> device_tables(random_weights(seed=0)).s_tok.shape
    (50, 2)
    """
    like = jnp.zeros(0, dtype)
    return _tables(weights, like.dtype, next(iter(like.devices())), mesh)


@lru_cache(maxsize=8)
def _tables(weights: AttentionWeights, dtype: Any, device: Any, mesh: Mesh | None) -> Tables:
    """Kept for a model, a type and a device: carrying the embeddings over costs more than a batch of predictions."""
    collapse = weights.collapse
    named = {name: getattr(collapse, name) for name in ("s_tok", "s_pos", "u_tok", "u_pos", "w_k", "w_v")}
    named |= {name: getattr(weights, name) for name in ("W_e", "W_p", "W_q", "W_k", "b_l")}
    arrays = {name: placed(mesh, np.asarray(array, dtype), whole=True) for name, array in named.items()}
    ids = {name: placed(mesh, np.asarray(getattr(weights, name)), whole=True) for name in ("cls", "unk")}
    return Tables(**arrays, **ids)


def scores_of(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(T_max,) padded ids -> logits (K, T_max), values (K, T_max, C)."""
    s = (tables.s_tok[ids] + tables.s_pos).T
    u = (tables.u_tok[ids] + tables.u_pos).transpose(1, 0, 2)
    return s, u


def _predict(tables: Tables, ids: jax.Array) -> jax.Array:
    def one(row: jax.Array) -> jax.Array:
        s, u = scores_of(tables, row)
        return jnp.einsum("kt,ktc->c", jax.nn.softmax(s, axis=-1), u) / s.shape[0] + tables.b_l

    return jax.vmap(one)(ids)


def _attention(tables: Tables, ids: jax.Array) -> jax.Array:
    return jax.vmap(lambda row: jax.nn.softmax(scores_of(tables, row)[0], axis=-1))(ids)


def _gradient(tables: Tables, ids: jax.Array, output: jax.Array) -> jax.Array:
    """P1 Theorem 4.1 with the [CLS] term, as `attn_closed_form.models.classifier.gradient`: (B, T_max, d_e).

    Written for the whole block: one matrix product makes the rows of all documents.
    """
    s = (tables.s_tok[ids] + tables.s_pos).transpose(0, 2, 1)
    u = (tables.u_tok[ids, :, output] + tables.u_pos[:, :, output]).transpose(0, 2, 1)
    alpha = jax.nn.softmax(s, axis=-1)
    f = (alpha * u).sum(axis=-1, keepdims=True)
    alpha = alpha / s.shape[1]
    beta = alpha * (u - f)
    coefficients = jnp.concatenate([alpha, beta], axis=1).transpose(0, 2, 1)
    rows = coefficients.reshape(-1, coefficients.shape[-1]) @ jnp.concatenate([tables.w_v[:, output], tables.w_k])
    mean_e = jnp.einsum("bkt,bte->bke", beta, tables.W_e[ids] + tables.W_p)
    mean_k = jnp.einsum("kae,bke->bka", tables.W_k, mean_e) / jnp.sqrt(tables.W_k.shape[1]).astype(s.dtype)
    return rows.reshape(*ids.shape, -1).at[:, 0].add(jnp.einsum("bka,kae->be", mean_k, tables.W_q))


@partial(jax.jit, static_argnums=0)
def _each(function: Any, tables: Tables, ids: jax.Array, *more: jax.Array) -> jax.Array:
    with jax.default_matmul_precision(PRECISION):
        return function(tables, ids, *more)


def _batches(
    weights: AttentionWeights, documents: Sequence[Tokens], batch: int, mesh: Mesh | None
) -> Iterator[tuple[int, jax.Array]]:
    """Blocks of padded ids, all of one shape; with each the number of its real documents."""
    if batch < 1:
        raise ValueError(f"batch: expected a positive number of documents, got {batch}")
    size = min(batch, len(documents))
    size = size if mesh is None else -(-size // mesh.size) * mesh.size
    for start in range(0, len(documents), size):
        checked = [as_tokens(weights, document) for document in documents[start : start + size]]
        empty = [np.zeros(0, dtype=np.intp)] * (size - len(checked))
        yield len(checked), placed(mesh, pad(weights, [*checked, *empty]))


def predict(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
) -> NDArray[Any]:
    """Model outputs, (B, C), as `attn_closed_form.predict_many`."""
    return _together(_blocks(_predict, weights, documents, dtype, batch, mesh))


def attention(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
) -> NDArray[Any]:
    """Attention of the [CLS] query, (B, K, T_max), as `attn_closed_form.models.classifier.attention`."""
    return _together(_blocks(_attention, weights, documents, dtype, batch, mesh))


def gradient(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    output: int = 0,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> NDArray[Any]:
    """Gradients by the embedded positions, (B, T_max, d_e), as `attn_closed_form.models.classifier.gradient`."""
    blocks = gradient_blocks(weights, documents, output, dtype, batch, mesh)
    return _together(blocks, len(documents))


def gradient_blocks(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    output: int = 0,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> Iterator[jax.Array]:
    """The gradients of `gradient` in blocks of `batch` documents, in their order, that stay on the device.

    Parameters
    ----------
    batch : documents per block; by default what a CPU's caches hold, or 256 elsewhere

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> weights = random_weights(seed=0)
    >>> [float(abs(block).max()) > 0 for block in gradient_blocks(weights, [[2, 3], [4], [5]], batch=2)]
    [True, True]
    """
    c = jnp.asarray(as_output(weights, output))
    if batch is None:
        batch = GRADIENTS_CPU if next(iter(c.devices())).platform == "cpu" else BATCH
    return _blocks(_gradient, weights, documents, dtype, batch, mesh, c)


def _blocks(
    function: Any,
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any,
    batch: int,
    mesh: Mesh | None,
    *more: jax.Array,
) -> Iterator[jax.Array]:
    if not len(documents):
        raise ValueError("documents: expected at least one document, got none")
    tables = device_tables(weights, dtype, mesh)
    for real, ids in _batches(weights, documents, batch, mesh):
        found = _each(function, tables, ids, *more)
        yield found if real == len(ids) else found[:real]


def _together(blocks: Iterator[jax.Array], count: int | None = None) -> NDArray[Any]:
    """All blocks in one array; with `count`, the number of documents, each is copied as soon as it is there."""
    if count is None:
        parts = [np.asarray(block) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    out, start = np.zeros(0), 0
    for block in blocks:
        out = out if start else np.empty((count, *block.shape[1:]), block.dtype)
        out[start : start + len(block)] = block
        start += len(block)
    return out
