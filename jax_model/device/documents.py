"""Many documents on a device: predictions, gradients, Shapley values and LIME's limit, as in the core.

A model becomes a pytree of score tables (`device_tables`, those of the core's collapsed model), and documents become
padded arrays of ids. Everything is jitted once per shape, and there are few shapes: batches have `batch` documents (the
last one is padded), the length of a row of ids is a power of two unless the model has positions, and games come in
buckets of players (64 to 256, then 1.5, 2, 3, 4, 6, ... times as many). The host makes the games of a batch together,
from the core's score tables. With a `mesh` (its one axis is `games.AXIS`) a batch is sharded over its devices. The core
explains the documents that the device cannot explain within `tol` (see `budgets.py`); if the core cannot either, the
scores are NaN and `problems` has the reason. In float32 the scores of tokens are rounded, and the budget accounts for
the rounding.

`output` is an index, C coefficients, or coefficients (B, C) of every document. L is the number of ids in a row; ids
below zero are padding and have no mass. On a CPU a gradient, L x d_e numbers per document, mostly costs memory access.
`gradient_blocks` therefore leaves the results on the device, one block of documents after the other; `gradient` copies
them into one NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

import attn_closed_form as acf
from attn_closed_form import AttentionWeights, PooledGame, ToleranceError
from attn_closed_form._arrays import numbered
from attn_closed_form._types import Array, Ids, Tokens
from attn_closed_form.attention import pooled_game
from attn_closed_form.attention.predict import as_output, as_tokens, is_deleted, pad
from attn_closed_form.game.pooled_game import merge_runs

from ..training.devices import cut_by_document, on_every_device
from . import values
from .budgets import Batched, power_of_two
from .games import PRECISION, GameBatch, on_cpu, on_device

# Documents per batch on a CPU and elsewhere, and per block of gradients on a CPU, few enough for its caches.
BATCH_CPU = 64
BATCH_OTHER = 256
GRADIENTS_CPU = 16
# Players are padded to a power of two, or to three quarters of one. The smallest bucket has 256 players over the number
# of heads, at least 64: with few heads a padded player costs so little that compiling one more size would cost more.
BUCKET = 64
BUCKET_HEADS = 256
GRADIENT_SCORES = ("gradient-mean", "gradient-l1", "gradient-l2", "gradient-x-input")


class Tables(NamedTuple):
    """A model on a device: the core's tables (`Collapse`), and arrays for the [CLS] row of the gradient: W_e, W_p, W_q,
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


def device_tables(weights: AttentionWeights, dtype: Any = None, mesh: Mesh | None = None) -> Tables:
    """Copy the tables of `weights` to every device of a mesh, in JAX's default floating type by default.

    >>> from attn_closed_form.attention import random_weights
    >>> device_tables(random_weights(seed=0)).s_tok.shape
    (50, 2)
    """
    like = jnp.zeros(0, dtype)
    return _tables(weights, like.dtype, next(iter(like.devices())), mesh)


@lru_cache(maxsize=8)
def _tables(weights: AttentionWeights, dtype: Any, device: Any, mesh: Mesh | None) -> Tables:
    """Return cached tables, because copying the embeddings to the device is slower than a batch of predictions."""
    named = {"W_p": np.zeros((1, weights.d_e)), **weights.arrays(), **weights.collapse._asdict()}
    return Tables(
        **on_every_device(mesh, {name: np.asarray(named[name], dtype) for name in Tables._fields})
    )


def scores_of(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute scores: (L,) padded ids -> logits (K, L), values (K, L, C)."""
    s = jnp.where(ids < 0, -jnp.inf, (tables.s_tok[ids] + tables.s_pos).T)
    u = (tables.u_tok[ids] + tables.u_pos).transpose(1, 0, 2)
    return s, u


def _predict(tables: Tables, ids: jax.Array) -> jax.Array:
    s, u = jax.vmap(partial(scores_of, tables))(ids)
    return jnp.einsum("bkt,bktc->bc", jax.nn.softmax(s, axis=-1), u) / s.shape[1] + tables.b_l


def _gradient(tables: Tables, ids: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Compute P1 Theorem 4.1 with the [CLS] term, as `attn_closed_form.attention.gradient`: (B, L, d_e).

    `coefficients` (B, C) are those of the outputs.
    """
    s = jnp.where(ids[:, None] < 0, -jnp.inf, (tables.s_tok[ids] + tables.s_pos).transpose(0, 2, 1))
    u = jnp.einsum("btkc,bc->bkt", tables.u_tok[ids] + tables.u_pos, coefficients)
    alpha = jax.nn.softmax(s, axis=-1)
    f = (alpha * u).sum(axis=-1, keepdims=True)
    alpha = alpha / s.shape[1]
    beta = alpha * (u - f)
    w_v = jnp.einsum("kce,bc->bke", tables.w_v, coefficients)
    rows = jnp.einsum("bkt,bke->bte", alpha, w_v) + jnp.einsum("bkt,ke->bte", beta, tables.w_k)
    mean_e = jnp.einsum("bkt,bte->bke", beta, tables.W_e[ids] + tables.W_p)
    mean_k = jnp.einsum("kae,bke->bka", tables.W_k, mean_e) / jnp.sqrt(tables.W_k.shape[1]).astype(
        s.dtype
    )
    return rows.at[:, 0].add(jnp.einsum("bka,kae->be", mean_k, tables.W_q))


def _gradient_scores(tables: Tables, ids: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Compute one number per token for each of GRADIENT_SCORES, (B, 4, L)."""
    rows = _gradient(tables, ids, coefficients)
    by_input = (rows * (tables.W_e[ids] + tables.W_p)).sum(axis=-1)
    return jnp.stack(
        [rows.mean(axis=-1), jnp.abs(rows).sum(axis=-1), jnp.linalg.norm(rows, axis=-1), by_input],
        axis=1,
    )


@partial(jax.jit, static_argnums=0)
def _each(function: Any, tables: Tables, ids: jax.Array, *more: jax.Array) -> jax.Array:
    with jax.default_matmul_precision(PRECISION):
        return function(tables, ids, *more)


def predict(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> NDArray[Any]:
    """Compute the (B, C) model outputs, as `attn_closed_form.attention.predict_many`."""
    return _together(_blocks(_predict, weights, documents, dtype, batch, mesh), len(documents))


def gradient(
    weights: AttentionWeights, documents: Sequence[Tokens], output: Any = 0, **device: Any
) -> NDArray[Any]:
    """Compute the (B, L, d_e) gradients with respect to the embedded tokens; zero for padding.

    `device` are options of `gradient_blocks`.
    """
    return _together(gradient_blocks(weights, documents, output, **device), len(documents))


def gradient_scores(
    weights: AttentionWeights, documents: Sequence[Tokens], output: Any = 0, **device: Any
) -> NDArray[Any]:
    """Compute scores of tokens from their gradients (B, 4, L), in the order of GRADIENT_SCORES; column 0 is [CLS]."""
    return _together(
        gradient_blocks(weights, documents, output, _gradient_scores, **device), len(documents)
    )


def gradient_blocks(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    output: Any = 0,
    function: Any = _gradient,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> Iterator[jax.Array]:
    """Yield the gradients of `gradient` in blocks of `batch` documents, in order, which stay on the device.

    By default a block fits into a CPU's caches, or has 256 documents elsewhere.

    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0)
    >>> [float(abs(block).max()) > 0 for block in gradient_blocks(weights, [[2, 3], [4], [5]], batch=2)]
    [True, True]
    """
    c = _coefficients(weights, output, len(documents))
    if batch is None and on_cpu():
        batch = GRADIENTS_CPU
    return _blocks(function, weights, documents, dtype, batch, mesh, c)


def _coefficients(weights: AttentionWeights, output: Any, count: int) -> Array:
    """Return the (count, C) coefficients of the outputs of every document."""
    if np.ndim(output) == 2:
        rows = output
    else:
        rows = as_output(weights, output)
    return np.broadcast_to(np.asarray(rows, np.float64), (count, weights.C))


def _blocks(
    function: Any,
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    dtype: Any,
    batch: int | None,
    mesh: Mesh | None,
    *more: Array,
) -> Iterator[jax.Array]:
    """Yield a function of blocks of padded ids and of rows of `more`, all of one shape, without padding rows."""
    if not len(documents):
        raise ValueError("documents: expected at least one document, got none")
    tables = device_tables(weights, dtype, mesh)
    size = _whole(batch, mesh)
    checked = [as_tokens(weights, document) for document in documents]
    longest = power_of_two(1 + max(document.size for document in checked))
    for start in range(0, len(checked), size):
        ids = pad(weights, checked[start : start + size], longest)
        rows = [x[start : start + size].astype(tables.s_tok.dtype) for x in more]
        full = (cut_by_document(mesh, np.resize(x, (size, x.shape[1]))) for x in (ids, *rows))
        yield _each(function, tables, *full)[: len(ids)]


def _whole(batch: int | None, mesh: Mesh | None) -> int:
    """Return the number of documents of a batch; on a mesh, a multiple of the devices."""
    if batch is None:
        if on_cpu():
            size = BATCH_CPU
        else:
            size = BATCH_OTHER
    else:
        size = batch
    if size < 1:
        raise ValueError(f"batch: expected a positive number of documents, got {batch}")
    if mesh is None:
        return size
    return -(-size // mesh.size) * mesh.size


def _together(blocks: Iterator[jax.Array], count: int) -> NDArray[Any]:
    """Copy all blocks to one array of `count` rows, each as soon as it is computed."""
    out = np.zeros(0)
    start = 0
    for block in blocks:
        if not start:
            out = np.empty((count, *block.shape[1:]), block.dtype)
        out[start : start + len(block)] = block
        start += len(block)
    return out


def _games(
    weights: AttentionWeights,
    ids: Sequence[Ids],
    player: Sequence[Ids],
    coefficients: Array,
    deleted: bool,
    d: int,
) -> GameBatch:
    """Build the games of some documents with up to d players each, on the host and equal to those of `pooled_game`.

    The tokens of all documents are one long row. [CLS] and padding, which are always present, are one more player.
    """
    tables = weights.collapse
    T_max = weights.T_max
    rows = [
        row if T_max else row[: 1 + own.size]
        for row, own in zip(pad(weights, ids), ids, strict=True)
    ]
    tokens = np.concatenate(rows)
    document = np.repeat(np.arange(len(ids)), [row.size for row in rows])
    group = np.full(tokens.size, d)
    first = np.concatenate([[0], np.cumsum([row.size for row in rows])])
    for start, own in zip(first, player, strict=False):
        group[start + 1 : start + 1 + own.size] = own
    if T_max:
        place = np.arange(tokens.size) - first[document]
    else:
        place = np.zeros(tokens.size, dtype=np.intp)
    group += document * (d + 1)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))

    def merged(tokens: Ids) -> list[Array]:
        s = (tables.s_tok[tokens] + tables.s_pos[place]).T[:, order]
        u = np.einsum(
            "nkc,nc->kn", tables.u_tok[tokens] + tables.u_pos[place], coefficients[document]
        )[:, order]
        full = (
            np.full((weights.K, len(ids) * (d + 1)), -np.inf),
            np.zeros((weights.K, len(ids) * (d + 1))),
        )
        for out, found in zip(full, merge_runs(s, u / weights.K, starts), strict=True):
            out[:, group[order[starts]]] = found
        return [x.reshape(weights.K, len(ids), d + 1).transpose(1, 0, 2) for x in full]

    s, v = merged(tokens)
    s_absent, v_absent = merged(np.full_like(tokens, weights.unk))
    if deleted:
        s_absent[:] = -np.inf
        v_absent[:] = 0.0
    bias = coefficients @ weights.b_l
    count = np.array([1 + own.max() for own in player])
    s_player, v_player, s_unk, v_unk = (x[:, :, :d] for x in (s, v, s_absent, v_absent))
    background = (s[:, :, d], v[:, :, d])
    no_units = np.zeros(len(ids), dtype=np.intp)
    return GameBatch(s_player, v_player, s_unk, v_unk, *background, bias, bias, count, no_units)


class Bucket(NamedTuple):
    """Documents of similar size: their indices in the list, their numbers of players, their games."""

    places: NDArray[np.intp]
    players: NDArray[np.intp]
    games: GameBatch


def game_buckets(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: Any = 0,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
) -> Iterator[Bucket]:
    """Yield the games of many documents on the device, in buckets of similar size, equal to those of `pooled_game`.

    The last batch of a bucket is padded with games of no players, which cost little (`games.py`).
    """
    if players not in ("positions", "words"):
        raise ValueError(f"players: expected 'positions' or 'words', got {players!r}")
    deleted = is_deleted(weights, absent)
    checked = [as_tokens(weights, document) for document in documents]
    empty = [place for place, ids in enumerate(checked) if ids.size == 0]
    if empty:
        raise ValueError(
            f"documents: expected at least one token in each, got an empty document at {empty[0]}"
        )
    player = [
        np.arange(ids.size) if players == "positions" else numbered(ids)[0] for ids in checked
    ]
    counts = np.array([1 + numbers.max() for numbers in player], dtype=np.intp)
    least = power_of_two(BUCKET_HEADS // weights.K, BUCKET)
    doubled = np.array([power_of_two(count, least) for count in counts])
    sizes = np.where((counts <= doubled * 3 // 4) & (doubled > least), doubled * 3 // 4, doubled)
    coefficients = _coefficients(weights, output, len(documents))
    size = _whole(batch, mesh)
    for d in np.unique(sizes).tolist():
        members = np.flatnonzero(sizes == d)
        for start in range(0, members.size, size):
            places = members[start : start + size]
            games = _games(
                weights,
                [checked[i] for i in places],
                [player[i] for i in places],
                coefficients[places],
                deleted,
                d,
            )
            yield Bucket(places, counts[places], on_device(games, dtype, size, mesh))


def shapley(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: Any = 0,
    tol: float = 1e-10,
    core: bool = True,
    **device: Any,
) -> Batched:
    """Compute exact Shapley values of every document, one (d,) array each, as the core's `shapley(pooled_game(...))`.

    `device` are options of `game_buckets`: dtype, batch and mesh. Without `core` all problems of the device remain.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form.attention import random_weights
    >>> [phi.shape for phi in shapley(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """
    which = players, absent, output
    by_device = partial(values.shapley, tol=tol)
    by_core = partial(acf.shapley, tol=tol)
    return _explained(weights, documents, which, device, by_device, by_core if core else None)


def lime(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str | None = None,
    output: Any = 0,
    dtype: Any = None,
    batch: int | None = None,
    mesh: Mesh | None = None,
    core: bool = True,
    **options: Any,
) -> Batched:
    """Compute LIME's limit for every document, as the core's `lime_limit(pooled_game(...), **options)`.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form.attention import random_weights
    >>> [limit.coef.shape for limit in lime(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """
    which = (players, absent, output)
    device = {"dtype": dtype, "batch": batch, "mesh": mesh}
    by_device = partial(values.lime_limit, **options)
    by_core = partial(acf.lime_limit, **options)
    return _explained(weights, documents, which, device, by_device, by_core if core else None)


def _explained(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    which: tuple[str, str | None, Any],
    device: dict[str, Any],
    by_device: Callable[[GameBatch], Batched],
    by_core: Callable[[PooledGame], Any] | None,
) -> Batched:
    """Explain every bucket on the device, and failed games by the core; NaN if neither can."""
    found = Batched(
        [None] * len(documents),
        {},
        np.full(len(documents), np.nan),
        np.full(len(documents), np.nan),
    )
    for bucket in game_buckets(weights, documents, *which, **device):
        results = by_device(bucket.games)
        for i, (place, d) in enumerate(
            zip(bucket.places.tolist(), bucket.players.tolist(), strict=True)
        ):
            value = results.values[i]
            if isinstance(value, np.ndarray):
                found.values[place] = value[:d]
            else:
                found.values[place] = value
            found.bases[place] = results.bases[i]
            found.errors[place] = results.errors[i]
            if i in results.problems:
                found.problems[place] = results.problems[i]
                with suppress(ToleranceError):
                    if by_core is not None:
                        found.values[place] = by_core(
                            pooled_game(weights, documents[place], *which)
                        )
                        del found.problems[place]
    return found
