"""Many documents on a device: predictions, gradients, Shapley values and LIME's limit, as the core's.

A model becomes a pytree of score tables (`device_tables`, those of the core's collapsed model), and documents become
padded arrays of ids. Everything is jitted once per shape: batches are cut to `batch` documents, the last one filled up,
and games come in buckets of players (BUCKET, 2 BUCKET, ...). With a `mesh` (`games.AXIS` its one axis) a batch is cut
over its devices. A document that the device cannot explain within `tol` (see `budgets.py`) goes to the core, one at a
time; one that the core cannot explain either has NaN for its scores and a reason in `problems`. In float32 the scores
of tokens are rounded, so the games are those of a rounded model; the budget accounts for it.

L is the number of ids in a row: T_max, or without positions that of the longest document and [CLS], where ids below
zero fill the other rows up and have no mass. Most of the time of a gradient, L x d_e numbers per document, is memory on
a CPU. `gradient_blocks` therefore leaves
the results on the device, one block of documents after the other; `gradient` copies them into one NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

import attn_closed_form as acf
from attn_closed_form import AttentionWeights, PooledGame, ToleranceError
from attn_closed_form._arrays import numbered
from attn_closed_form._types import Tokens
from attn_closed_form.models.classifier import pooled_game
from attn_closed_form.models.classifier.predict import as_index, as_tokens, is_deleted, pad

from ..training.devices import AXIS, cut_by_document, on_every_device
from . import values
from .budgets import Batched
from .games import PRECISION, GameBatch, filled_up

BATCH = 256
# Documents of a block of gradients on a CPU: few enough for its caches.
GRADIENTS_CPU = 16
# Players are padded to a multiple of this.
BUCKET = 32


class Tables(NamedTuple):
    """A model on a device: the core's tables (`Collapse`), and what the [CLS] row of the gradient needs: W_e, W_p, W_q,
    W_k; b_l (C,). Without positions W_p has one row, of zeros.
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
    unk: jax.Array


def device_tables(weights: AttentionWeights, dtype: Any = None, mesh: Mesh | None = None) -> Tables:
    """Tables of `weights` in a floating type, JAX's default by default; whole on every device of a mesh.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> device_tables(random_weights(seed=0)).s_tok.shape
    (50, 2)
    """
    like = jnp.zeros(0, dtype)
    return _tables(weights, like.dtype, next(iter(like.devices())), mesh)


@lru_cache(maxsize=8)
def _tables(weights: AttentionWeights, dtype: Any, device: Any, mesh: Mesh | None) -> Tables:
    """Kept for a model, a type and a device: carrying the embeddings over costs more than a batch of predictions."""
    named = {"W_p": np.zeros((1, weights.d_e)), **weights.arrays(), **weights.collapse._asdict()}
    arrays = {name: np.asarray(named[name], dtype) for name in Tables._fields if name != "unk"}
    return Tables(**on_every_device(mesh, {**arrays, "unk": np.asarray(weights.unk)}))


def scores_of(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(L,) padded ids -> logits (K, L), values (K, L, C)."""
    s = jnp.where(ids < 0, -jnp.inf, (tables.s_tok[ids] + tables.s_pos).T)
    u = (tables.u_tok[ids] + tables.u_pos).transpose(1, 0, 2)
    return s, u


def _predict(tables: Tables, ids: jax.Array) -> jax.Array:
    s, u = jax.vmap(partial(scores_of, tables))(ids)
    return jnp.einsum("bkt,bktc->bc", jax.nn.softmax(s, axis=-1), u) / s.shape[1] + tables.b_l


def _gradient(tables: Tables, ids: jax.Array, output: jax.Array) -> jax.Array:
    """P1 Theorem 4.1 with the [CLS] term, as `attn_closed_form.models.classifier.gradient`: (B, L, d_e).

    Written for the whole block: one matrix product makes the rows of all documents.
    """
    s = jnp.where(ids[:, None] < 0, -jnp.inf, (tables.s_tok[ids] + tables.s_pos).transpose(0, 2, 1))
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


def predict(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
) -> NDArray[Any]:
    """Model outputs, (B, C), as `attn_closed_form.models.classifier.predict_many`."""
    return _together(_blocks(_predict, weights, documents, dtype, batch, mesh), len(documents))


def gradient(weights: AttentionWeights, documents: Sequence[Tokens], output: int = 0, **device: Any) -> NDArray[Any]:
    """Gradients by the embedded tokens, (B, L, d_e), as `attn_closed_form.gradient`; zero where there is no token.

    `device` are options of `gradient_blocks`.
    """
    return _together(gradient_blocks(weights, documents, output, **device), len(documents))


def gradient_blocks(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    output: int = 0,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> Iterator[jax.Array]:
    """The gradients of `gradient` in blocks of `batch` documents, in their order, that stay on the device.

    A block is by default what a CPU's caches hold, or 256 documents elsewhere.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> weights = random_weights(seed=0)
    >>> [float(abs(block).max()) > 0 for block in gradient_blocks(weights, [[2, 3], [4], [5]], batch=2)]
    [True, True]
    """
    c = jnp.asarray(as_index(weights, output))
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
    """A function of blocks of padded ids, all of one shape; of the last block the real documents alone."""
    if not len(documents):
        raise ValueError("documents: expected at least one document, got none")
    if batch < 1:
        raise ValueError(f"batch: expected a positive number of documents, got {batch}")
    tables = device_tables(weights, dtype, mesh)
    size = min(batch, len(documents))
    size = size if mesh is None else -(-size // mesh.size) * mesh.size
    checked = [as_tokens(weights, document) for document in documents]
    longest = 1 + max(document.size for document in checked)
    for start in range(0, len(checked), size):
        ids = pad(weights, checked[start : start + size], longest)
        block = _each(function, tables, cut_by_document(mesh, np.resize(ids, (size, ids.shape[1]))), *more)
        yield block[: len(ids)]


def _together(blocks: Iterator[jax.Array], count: int) -> NDArray[Any]:
    """All blocks in one array of `count` rows; each is copied as soon as it is computed."""
    out, start = np.zeros(0), 0
    for block in blocks:
        out = out if start else np.empty((count, *block.shape[1:]), block.dtype)
        out[start : start + len(block)] = block
        start += len(block)
    return out


def _game(
    d: int, deleted: bool, tables: Tables, ids: jax.Array, length: jax.Array, player: jax.Array, output: jax.Array
) -> GameBatch:
    """The game of one document: (L,) padded ids, its length, and the player (L - 1,) of each position."""
    (s, u), (s_unk, u_unk) = (scores_of(tables, row) for row in (ids, jnp.full_like(ids, tables.unk)))
    u, u_unk = (values[:, :, output] / s.shape[0] for values in (u, u_unk))
    real = jnp.arange(1, ids.size) <= length
    of_player = jnp.concatenate([jnp.zeros(1, bool), real])
    background = _merge(jnp.where(of_player, -jnp.inf, s), u, jnp.zeros(ids.size, int), 1)
    present = _merge(jnp.where(real, s[:, 1:], -jnp.inf), u[:, 1:], player, d)
    absent = _merge(jnp.where(real & (not deleted), s_unk[:, 1:], -jnp.inf), u_unk[:, 1:], player, d)
    players, zero = jnp.where(real, player, -1).max() + 1, jnp.zeros((), s.dtype)
    arrays = (*present, *absent, background[0][:, 0], background[1][:, 0])
    return GameBatch(*arrays, tables.b_l[output], zero, players, jnp.zeros((), int))


def _merge(s: jax.Array, v: jax.Array, group: jax.Array, groups: int) -> tuple[jax.Array, jax.Array]:
    """Log-sum-exp of the log-masses and mass-weighted mean of the values of each group: (K, n) -> (K, groups)."""
    top = jax.vmap(lambda row: jax.ops.segment_max(row, group, groups))(s)
    shift = jnp.where(jnp.isneginf(top), 0.0, top)
    mass = jnp.exp(s - shift[:, group])
    total = jax.vmap(lambda row: jax.ops.segment_sum(row, group, groups))(mass)
    mean = jax.vmap(lambda row: jax.ops.segment_sum(row, group, groups))(mass * v)
    return jnp.log(total) + shift, jnp.where(total == 0, 0.0, mean / jnp.where(total == 0, 1.0, total))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _games(
    d: int, deleted: bool, mesh: Mesh | None, tables: Tables, ids: Any, length: Any, player: Any, output: Any
) -> GameBatch:
    games = jax.vmap(lambda i, n, j: _game(d, deleted, tables, i, n, j, output))(ids, length, player)
    if mesh is None:
        return games
    return jax.lax.with_sharding_constraint(games, NamedSharding(mesh, PartitionSpec(AXIS)))


class Bucket(NamedTuple):
    """Documents of like size: their places in the list, their numbers of players, their games."""

    places: NDArray[np.intp]
    players: NDArray[np.intp]
    games: GameBatch


def game_buckets(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: int = 0,
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
) -> Iterator[Bucket]:
    """The games of many documents, made on the device, in buckets of like size; as `pooled_game` of each.

    The last batch of a bucket is filled up with games of no players, which cost nothing (`games.py`).
    """
    if players not in ("positions", "words"):
        raise ValueError(f"players: expected 'positions' or 'words', got {players!r}")
    deleted = is_deleted(weights, absent)
    checked = [as_tokens(weights, document) for document in documents]
    empty = [place for place, ids in enumerate(checked) if ids.size == 0]
    if empty:
        raise ValueError(f"documents: expected at least one token in each, got an empty document at {empty[0]}")
    player = [np.arange(ids.size) if players == "positions" else numbered(ids)[0] for ids in checked]
    counts = np.array([1 + numbers.max() for numbers in player], dtype=np.intp)
    sizes = -(-counts // BUCKET) * BUCKET
    tables = device_tables(weights, dtype, mesh)
    c = jnp.asarray(as_index(weights, output))
    for d in np.unique(sizes):
        members = np.flatnonzero(sizes == d)
        for start in range(0, members.size, batch):
            places = members[start : start + batch]
            size = filled_up(places.size, batch, mesh)
            nothing = [np.zeros(0, dtype=np.intp)] * (size - places.size)
            rows = [*(checked[place] for place in places), *nothing]
            lengths = np.array([row.size for row in rows])
            # Where documents decide the length of a row, it is a power of two, so that few shapes are compiled.
            ids = pad(weights, rows, 1 << int(lengths.max()).bit_length())
            numbers = np.zeros((size, ids.shape[1] - 1), dtype=np.intp)
            for row, place in zip(numbers, places, strict=False):
                row[: player[place].size] = player[place]
            cut = (cut_by_document(mesh, array) for array in (ids, lengths, numbers))
            games = _games(int(d), deleted, mesh, tables, *cut, c)
            yield Bucket(places, counts[places], games)


def shapley(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: int = 0,
    tol: float = 1e-10,
    **device: Any,
) -> Batched:
    """Exact Shapley values of every document, one (d,) array each, as `shapley(pooled_game(...))` of the core.

    `device` are options of `game_buckets`: dtype, batch and mesh.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form.models.classifier import random_weights
    >>> [phi.shape for phi in shapley(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """

    def on_device(bucket: Bucket) -> Batched:
        rows, problems = values.shapley(bucket.games, tol)
        return Batched([row[:d] for row, d in zip(rows, bucket.players, strict=False)], problems)

    return _explained(weights, documents, (players, absent, output), device, on_device, partial(acf.shapley, tol=tol))


def lime(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: int = 0,
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
    **options: Any,
) -> Batched:
    """LIME's limit for every document, as `lime_limit(pooled_game(...), **options)` of the core.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form.models.classifier import random_weights
    >>> [limit.coef.shape for limit in lime(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """
    device = {"dtype": dtype, "batch": batch, "mesh": mesh}

    def on_device(bucket: Bucket) -> Batched:
        return values.lime_limit(bucket.games, **options)

    which = players, absent, output
    return _explained(weights, documents, which, device, on_device, partial(acf.lime_limit, **options))


def _explained(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    which: tuple[str, str | None, int],
    device: dict[str, Any],
    on_device: Callable[[Bucket], Batched],
    by_core: Callable[[PooledGame], Any],
) -> Batched:
    """Every bucket on the device, and what the device cannot do by the core; NaN where neither can."""
    results: list[Any] = [None] * len(documents)
    problems: dict[int, str] = {}
    for bucket in game_buckets(weights, documents, *which, **device):
        explained, unsolved = on_device(bucket)
        for i, place in enumerate(bucket.places.tolist()):
            results[place] = explained[i]
            if i in unsolved:
                try:
                    results[place] = by_core(pooled_game(weights, documents[place], *which))
                except ToleranceError as error:
                    problems[place] = str(error)
    return Batched(results, problems)
