"""Games of many documents on a device, in buckets of like size, and their exact explanations.

Everything is jitted once per shape: games come in buckets of players (BUCKET, 2 BUCKET, ...), and batches are cut to
`batch` documents, the last one filled up. A document that the device cannot do within `tol` (see `budgets.py`) goes to
the core, one at a time; one that the core cannot do either has NaN for its scores and a reason in `problems`.

In float32 the scores of tokens are rounded, so the games are those of a rounded model; the budget knows how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

import attn_closed_form as acf
from attn_closed_form import AttentionWeights, LimeCoefficients, PooledGame, ToleranceError, pooled_game
from attn_closed_form._arrays import numbered
from attn_closed_form._types import Tokens
from attn_closed_form.models.classifier.predict import as_output, as_tokens, pad

from . import exact
from .game_batch import GameBatch
from .lime import lime_limit as batched_lime
from .loops import AXIS, filled_up, placed
from .tables import BATCH, Tables, device_tables, scores_of

# Players are padded to a multiple of this.
BUCKET = 32


def _game(
    d: int, deleted: bool, tables: Tables, ids: jax.Array, length: jax.Array, player: jax.Array, output: jax.Array
) -> GameBatch:
    """The game of one document: (T_max,) padded ids, its length, and the player (T_max - 1,) of each position."""
    s, values = scores_of(tables, ids)
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
        exponent=jnp.zeros((), int),
    )


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
    mesh: Mesh | None = None,
) -> Iterator[Bucket]:
    """The games of many documents, made on the device, in buckets of like size; as `pooled_game` of each.

    The last batch of a bucket is filled up with games of no players, which cost nothing (`loops.py`).
    """
    if players not in ("positions", "words"):
        raise ValueError(f"players: expected 'positions' or 'words', got {players!r}")
    if absent not in ("unk", "deleted"):
        raise ValueError(f"absent: expected 'unk' or 'deleted', got {absent!r}")
    checked = [as_tokens(weights, document) for document in documents]
    empty = [place for place, ids in enumerate(checked) if ids.size == 0]
    if empty:
        raise ValueError(f"documents: expected at least one token in each, got an empty document at {empty[0]}")
    player = [np.arange(ids.size) if players == "positions" else numbered(ids)[0] for ids in checked]
    counts = np.array([1 + numbers.max() for numbers in player], dtype=np.intp)
    sizes = -(-counts // BUCKET) * BUCKET
    tables = device_tables(weights, dtype, mesh)
    c = jnp.asarray(as_output(weights, output))
    for d in np.unique(sizes):
        members = np.flatnonzero(sizes == d)
        for start in range(0, members.size, batch):
            places = members[start : start + batch]
            size = filled_up(places.size, batch, mesh)
            numbers, lengths = np.zeros((size, weights.T_max - 1), dtype=np.intp), np.zeros(size, dtype=np.intp)
            for i, place in enumerate(places):
                lengths[i] = checked[place].size
                numbers[i, : lengths[i]] = player[place]
            nothing = [np.zeros(0, dtype=np.intp)] * (size - places.size)
            ids = pad(weights, [*(checked[place] for place in places), *nothing])
            cut = (placed(mesh, array) for array in (ids, lengths, numbers))
            games = _games(int(d), absent == "deleted", mesh, tables, *cut, c)
            yield Bucket(places, counts[places], games)


class Explained(NamedTuple):
    """Results of many documents, in their order; `problems` has a reason for each that has none (NaN)."""

    values: list[Any]
    problems: dict[int, str]


def shapley(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
) -> Explained:
    """Exact Shapley values of every document, one (d,) array each, as `shapley(pooled_game(...))` of the core.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form import random_weights
    >>> [phi.shape for phi in shapley(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """

    def on_device(games: GameBatch, counts: NDArray[np.intp]) -> tuple[list[Any], dict[int, str]]:
        found = exact.shapley(games, tol)
        return [row[:count] for row, count in zip(found.values, counts, strict=False)], found.problems

    buckets = game_buckets(weights, documents, players, absent, output, dtype, batch, mesh)
    return _explained(
        buckets,
        len(documents),
        on_device,
        lambda place: acf.shapley(pooled_game(weights, documents[place], players, absent, output), tol),
        lambda count: np.full(count, np.nan),
    )


def lime(
    weights: AttentionWeights,
    documents: Sequence[Tokens],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    dtype: Any = None,
    batch: int = BATCH,
    mesh: Mesh | None = None,
    **options: Any,
) -> Explained:
    """LIME's limit for every document, as `lime_limit(pooled_game(...), **options)` of the core.

    >>> jax.config.update("jax_enable_x64", True)
    >>> from attn_closed_form import random_weights
    >>> [found.coef.shape for found in lime(random_weights(seed=0), [[5, 7, 5], [4]]).values]
    [(2,), (1,)]
    """

    def on_device(games: GameBatch, counts: NDArray[np.intp]) -> tuple[list[Any], dict[int, str]]:
        found = batched_lime(games, tol=tol, **options)
        return found.limits, found.problems

    def game(place: int) -> PooledGame:
        return pooled_game(weights, documents[place], players, absent, output)

    return _explained(
        game_buckets(weights, documents, players, absent, output, dtype, batch, mesh),
        len(documents),
        on_device,
        lambda place: acf.lime_limit(game(place), tol=tol, **options),
        lambda count: LimeCoefficients(np.full(count, np.nan), np.nan),
    )


def _explained(
    buckets: Iterator[Bucket],
    count: int,
    on_device: Callable[[GameBatch, NDArray[np.intp]], tuple[list[Any], dict[int, str]]],
    by_core: Callable[[int], Any],
    nothing: Callable[[int], Any],
) -> Explained:
    """Every bucket on the device, and what it cannot do by the core."""
    values: list[Any] = [None] * count
    problems: dict[int, str] = {}
    for bucket in buckets:
        found, left = on_device(bucket.games, bucket.players)
        for i, (place, players) in enumerate(zip(bucket.places.tolist(), bucket.players.tolist(), strict=True)):
            values[place] = found[i]
            if i in left:
                try:
                    values[place] = by_core(place)
                except ToleranceError as error:
                    values[place], problems[place] = nothing(players), str(error)
    return Explained(values, problems)
