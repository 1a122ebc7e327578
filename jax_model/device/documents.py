"""Documents in batches on a device: predictions, attention, gradients, and the games behind exact explanations.

A model becomes a pytree of score tables (`device_tables`, those of `attn_closed_form/classifier/score_tables.py`), and
documents become a padded array of ids. Everything is jitted once per shape: documents always fill T_max positions,
games come in buckets of players (BUCKET, 2 BUCKET, ...), and batches are cut to `batch` documents, the last one padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, LimeCoefficients, lime_limit, pooled_game
from attn_closed_form._types import Tokens
from attn_closed_form.classifier.document_game import word_numbers
from attn_closed_form.classifier.score_tables import as_output, as_tokens, pad

from . import exact
from .game_batch import GameBatch
from .lime import lime_limit as batched_lime

# Players are padded to a multiple of this.
BUCKET = 32
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
    """Cached per model, dtype and device, because moving the embeddings costs more than predicting a batch."""
    collapse = weights.collapse
    named = {name: getattr(collapse, name) for name in ("s_tok", "s_pos", "u_tok", "u_pos", "w_k", "w_v")}
    named |= {name: getattr(weights, name) for name in ("W_e", "W_p", "W_q", "W_k", "b_l")}
    arrays = {name: jnp.asarray(array, dtype) for name, array in named.items()}
    return Tables(**arrays, cls=jnp.asarray(weights.cls), unk=jnp.asarray(weights.unk))


def _scores(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(T_max,) padded ids -> logits (K, T_max), values (K, T_max, C)."""
    return (tables.s_tok[ids] + tables.s_pos).T, (tables.u_tok[ids] + tables.u_pos).transpose(1, 0, 2)


def _predict(tables: Tables, ids: jax.Array) -> jax.Array:
    s, u = _scores(tables, ids)
    return jnp.einsum("kt,ktc->c", jax.nn.softmax(s, axis=-1), u) / s.shape[0] + tables.b_l


def _attention(tables: Tables, ids: jax.Array) -> jax.Array:
    return jax.nn.softmax(_scores(tables, ids)[0], axis=-1)


def _gradient(tables: Tables, ids: jax.Array, output: jax.Array) -> jax.Array:
    """P1 Theorem 4.1 with the [CLS] term, as `attn_closed_form.classifier.gradient`: (T_max, d_e)."""
    s, values = _scores(tables, ids)
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


# --- games -----------------------------------------------------------------------------------------------------------


def _game(
    d: int, deleted: bool, tables: Tables, ids: jax.Array, length: jax.Array, player: jax.Array, output: jax.Array
) -> GameBatch:
    """The game of one document: (T_max,) padded ids, its length, and the player (T_max - 1,) of each position."""
    s, values = _scores(tables, ids)
    u = values[:, :, output] / s.shape[0]
    s_unk = tables.s_tok[tables.unk][:, None] + tables.s_pos.T
    u_unk = (tables.u_tok[tables.unk, :, output][:, None] + tables.u_pos[:, :, output].T) / s.shape[0]
    real = jnp.arange(1, ids.size) <= length
    s_own, s_unk_own = jnp.where(real, s[:, 1:], -jnp.inf), jnp.where(real & (not deleted), s_unk[:, 1:], -jnp.inf)
    rest = jnp.concatenate([jnp.zeros(1, bool), real])
    background = _merge(jnp.where(rest, -jnp.inf, s), u, jnp.zeros(ids.size, int), 1)
    present = _merge(s_own, u[:, 1:], player, d)
    absent = _merge(s_unk_own, u_unk[:, 1:], player, d)
    return GameBatch(
        s=present[0],
        v=present[1],
        s_absent=absent[0],
        v_absent=absent[1],
        s_background=background[0][:, 0],
        v_background=background[1][:, 0],
        bias=tables.b_l[output],
        empty_value=jnp.zeros((), s.dtype),
        players=jnp.where(real, player, -1).max() + 1,
    )


def _merge(s: jax.Array, v: jax.Array, group: jax.Array, groups: int) -> tuple[jax.Array, jax.Array]:
    """Log-sum-exp of the log-masses and mass-weighted mean of the values of each group: (K, n) -> (K, groups)."""
    top = jax.vmap(lambda row: jax.ops.segment_max(row, group, groups))(s)
    shift = jnp.where(jnp.isneginf(top), 0.0, top)
    mass = jnp.exp(s - shift[:, group])
    total = jax.vmap(lambda row: jax.ops.segment_sum(row, group, groups))(mass)
    mean = jax.vmap(lambda row: jax.ops.segment_sum(row, group, groups))(mass * v)
    return jnp.log(total) + shift, jnp.where(total == 0, 0.0, mean / jnp.where(total == 0, 1.0, total))


@partial(jax.jit, static_argnums=(0, 1))
def _games(d: int, deleted: bool, tables: Tables, ids: Any, length: Any, player: Any, output: Any) -> GameBatch:
    return jax.vmap(lambda i, n, j: _game(d, deleted, tables, i, n, j, output))(ids, length, player)


class Bucket(NamedTuple):
    """Documents whose games have up to `d` players: their places in the list, their numbers of players, the games."""

    places: NDArray[np.intp]
    players: NDArray[np.intp]
    games: GameBatch


def game_buckets(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    dtype: Any = None,
    batch: int = BATCH,
) -> Iterator[Bucket]:
    """The games of many documents, made on the device, in buckets of like size; as `pooled_game` of each.

    The last batch of a bucket is filled up with copies of its first document, whose results are to be left out.
    """
    if players not in ("positions", "words"):
        raise ValueError(f"players: expected 'positions' or 'words', got {players!r}")
    if absent not in ("unk", "deleted"):
        raise ValueError(f"absent: expected 'unk' or 'deleted', got {absent!r}")
    checked = [as_tokens(weights, document) for document in documents]
    empty = [place for place, ids in enumerate(checked) if ids.size == 0]
    if empty:
        raise ValueError(f"documents: expected at least one token in each, got an empty document at {empty[0]}")
    player = [np.arange(ids.size) if players == "positions" else word_numbers(ids) for ids in checked]
    counts = np.array([1 + numbers.max() for numbers in player], dtype=np.intp)
    sizes = -(-counts // BUCKET) * BUCKET
    tables = device_tables(weights, dtype)
    c = jnp.asarray(as_output(weights, output))
    for d in np.unique(sizes):
        members = np.flatnonzero(sizes == d)
        for start in range(0, members.size, batch):
            places = members[start : start + batch]
            # A short batch is filled to a power of two: few shapes, little waste.
            full = np.resize(places, min(batch, 1 << int(np.ceil(np.log2(places.size)))))
            numbers = np.zeros((full.size, weights.T_max - 1), dtype=np.intp)
            for row, place in zip(numbers, full, strict=True):
                row[: player[place].size] = player[place]
            ids = pad(weights, [checked[place] for place in full])
            lengths = np.array([checked[place].size for place in full])
            games = _games(int(d), absent == "deleted", tables, ids, lengths, numbers, c)
            yield Bucket(places, counts[places], games)


def shapley(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    dtype: Any = None,
    batch: int = BATCH,
) -> list[NDArray[Any]]:
    """Exact Shapley values of every document, a (d,) array each, as `attn_closed_form.game.shapley(pooled_game(...))`.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form import random_weights
    >>> [phi.shape for phi in shapley(random_weights(seed=0), [[5, 7, 5], [4]])]
    [(2,), (1,)]
    """
    out: list[Any] = [None] * len(documents)
    for bucket in game_buckets(weights, documents, players, absent, output, dtype, batch):
        values = exact.shapley(bucket.games, tol)
        for place, count, row in zip(bucket.places, bucket.players, values, strict=False):
            out[place] = row[:count]
    return out


def lime(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    dtype: Any = None,
    batch: int = BATCH,
    **options: Any,
) -> list[LimeCoefficients]:
    """LIME's limit for every document, as `lime_limit(pooled_game(...), **options)` of the core.

    Documents that need the core's recursion (one word, an odd kernel) go there.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form import random_weights
    >>> [found.coef.shape for found in lime(random_weights(seed=0), [[5, 7, 5], [4]])]
    [(2,), (1,)]
    """
    out: list[Any] = [None] * len(documents)
    for bucket in game_buckets(weights, documents, players, absent, output, dtype, batch):
        for place, found in zip(bucket.places, batched_lime(bucket.games, tol=tol, **options), strict=False):
            out[place] = found or lime_limit(
                pooled_game(weights, documents[place], players, absent, output), tol=tol, **options
            )
    return out
