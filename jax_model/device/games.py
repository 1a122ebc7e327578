"""Batches of pooled games on a device: padding, the engine's formulas for one game, and the loop over all of them.

The formulas are those of `attn_closed_form/game/terms.py`. Games of different sizes are padded with players that have
no mass in either state; such a player changes nothing, and its value is exactly zero. Bounds and budgets are the
core's: the device computes the sums that the core's bound needs (`row_sums`), and the host calls the core
(`budgets.py`).

Games are processed in chunks, which bounds memory. Shapes are static on a device, so a batch is padded with games of no
players; the loop over chunks stops before them, and their results are zero. A batch that is sharded over the devices of
a mesh stays there: every device loops over its part of the games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from attn_closed_form import PooledGame

from ..training.devices import AXIS, cut_by_document

# Factors of a product that a CPU multiplies at once.
LANES = 8
# Games per chunk: few enough for the caches of a CPU, and enough to keep a GPU busy.
CHUNK_CPU = 4
CHUNK_OTHER = 256
# By default GPUs and TPUs multiply float32 matrices with fewer digits, which the error bounds do not cover.
PRECISION = "highest"


class GameBatch(NamedTuple):
    """B games of up to d players: s, v, s_absent, v_absent (B, H, d); s_background, v_background (B, H); others (B,).

    `players` counts the real players of each game; beyond them log-masses are -inf in both states. Values, `bias` and
    `empty_value` are in units of 2^exponent.
    """

    s: Any
    v: Any
    s_absent: Any
    v_absent: Any
    s_background: Any
    v_background: Any
    bias: Any
    empty_value: Any
    players: Any
    exponent: Any


def game_batch(games: Sequence[PooledGame], d: int | None = None, dtype: Any = None) -> GameBatch:
    """Pad games with equal numbers of heads into one batch.

    Scores are taken relative to the largest of their head, and values in units of a power of two, in float64, before
    they are rounded to `dtype`: neither an offset of the scores nor the size of the values costs a digit. `d` is the
    number of players to pad to, the largest game's by default; equal d means that nothing is compiled again.

    >>> games = [PooledGame.from_scores([0.0, 1.0], [1.0, 2.0]), PooledGame.from_scores([3.0], [4.0])]
    >>> game_batch(games).s.shape
    (2, 1, 2)
    """
    if not games:
        raise ValueError("games: expected at least one game, got none")
    heads = {game.H for game in games}
    if len(heads) > 1:
        raise ValueError(f"games: expected equal numbers of heads, got {sorted(heads)}")
    largest = max(game.d for game in games)
    d = largest if d is None else d
    if d < largest:
        raise ValueError(
            f"d: expected at least {largest}, the players of the largest game, got {d}"
        )

    def padded(game: PooledGame) -> GameBatch:
        def pad(x: Any, filler: float) -> Any:
            return np.pad(x, ((0, 0), (0, d - game.d)), constant_values=filler)

        present, absent = (
            (pad(s, -np.inf), pad(v, 0.0))
            for s, v in ((game.s, game.v), (game.s_absent, game.v_absent))
        )
        background = (game.s_background, game.v_background)
        constants = (float(game.bias), float(game.empty_value))
        return GameBatch(*present, *absent, *background, *constants, game.d, 0)

    return on_device(
        GameBatch(*(np.stack(arrays) for arrays in zip(*map(padded, games), strict=True))), dtype
    )


def on_device(
    games: GameBatch, dtype: Any = None, size: int | None = None, mesh: Mesh | None = None
) -> GameBatch:
    """Move NumPy arrays of games to the device in a floating type, in units that cost no digits.

    With a `size`, games of no players fill the batch up to it.
    """
    dtype = jnp.zeros(0, dtype).dtype
    n = len(games.players)
    top = np.maximum(np.maximum(games.s, games.s_absent).max(axis=2), games.s_background)[
        :, :, None
    ]
    # A bias that is much larger than every value also sets the unit. Values of absent players count if they have mass.
    v_absent = np.where(np.isneginf(games.s_absent), 0.0, games.v_absent)
    values = (games.v, v_absent, games.v_background, games.bias, games.empty_value)
    exponent = np.frexp(np.max([np.abs(x).reshape(n, -1).max(axis=1) for x in values], axis=0))[1]

    def scaled(x: Any) -> Any:
        return np.ldexp(x, -exponent.reshape(-1, *[1] * (x.ndim - 1)))

    arrays = games._replace(
        s=games.s - top,
        s_absent=games.s_absent - top,
        s_background=games.s_background - top[:, :, 0],
        v_absent=scaled(v_absent),
        exponent=exponent.astype(np.intp),
        **{
            name: scaled(getattr(games, name))
            for name in ("v", "v_background", "bias", "empty_value")
        },
    )

    def placed(name: str, x: Any) -> jax.Array:
        if name in ("s", "s_absent"):
            filler = -np.inf
        else:
            filler = 0
        more = [(0, (size or n) - n), *[(0, 0)] * (x.ndim - 1)]
        return cut_by_document(
            mesh,
            np.pad(x, more, constant_values=filler).astype(
                dtype if x.dtype.kind == "f" else x.dtype
            ),
        )

    return GameBatch(*map(placed, GameBatch._fields, arrays))


class Heads(NamedTuple):
    """A game's heads, centered, in units of the smallest mass: (H, d), (H,)."""

    lo: jax.Array
    hi: jax.Array
    gap: jax.Array
    v_lo: jax.Array
    v_hi: jax.Array
    light: jax.Array
    c0: jax.Array
    v_c0: jax.Array
    always: jax.Array  # D_0, the mass that is always there
    empty: jax.Array  # () whether the empty coalition has no mass
    log_range: jax.Array
    half_range: jax.Array
    center: jax.Array


def heads_of(game: GameBatch) -> Heads:
    """Return the heads of one game of a batch (no leading axis)."""
    real = ~jnp.isneginf(game.s)
    replaced = ~jnp.isneginf(game.s_absent)
    background = ~jnp.isneginf(game.s_background)
    values = jnp.concatenate([game.v, game.v_absent, game.v_background[:, None]], axis=-1)
    massive = jnp.concatenate([real, replaced, background[:, None]], axis=-1)
    least = jnp.where(massive, values, jnp.inf).min(axis=-1)
    most = jnp.where(massive, values, -jnp.inf).max(axis=-1)
    center = (least + most) / 2
    light = game.s < game.s_absent
    log_lo = jnp.minimum(game.s, game.s_absent)
    log_hi = jnp.maximum(game.s, game.s_absent)
    log_always = jax.nn.logsumexp(
        jnp.concatenate([log_lo, game.s_background[:, None]], axis=-1), axis=-1
    )
    empty = jnp.isneginf(log_always).all()
    unit = jnp.where(empty, jnp.where(real, game.s, jnp.inf).min(axis=-1), log_always)
    log_most = jax.nn.logsumexp(
        jnp.concatenate([log_hi, game.s_background[:, None]], axis=-1), axis=-1
    )
    lo = jnp.exp(log_lo - unit[:, None])
    hi = jnp.exp(log_hi - unit[:, None])
    c0 = jnp.exp(game.s_background - unit)
    # hi - lo without cancellation: hi (1 - e^(log lo - log hi)).
    step = jnp.where(real, jnp.where(jnp.isneginf(log_lo), -jnp.inf, log_lo - log_hi), 0.0)
    v = jnp.where(real, game.v - center[:, None], 0.0)
    v_absent = jnp.where(replaced, game.v_absent - center[:, None], 0.0)
    return Heads(
        lo=lo,
        hi=hi,
        gap=-hi * jnp.expm1(step),
        v_lo=jnp.where(light, v, v_absent),
        v_hi=jnp.where(light, v_absent, v),
        light=light,
        c0=c0,
        v_c0=jnp.where(background, game.v_background - center, 0.0),
        always=lo.sum(axis=-1) + c0,
        empty=empty,
        log_range=jnp.maximum(0.0, log_most - unit),
        half_range=(most - least) / 2,
        center=center,
    )


class Nodes(NamedTuple):
    """Quantities of a game that do not depend on p: E, G, S (H, L, d); wt (H, L); N_0 (H, 1); light, sign (H, 1, d)."""

    E: jax.Array
    G: jax.Array
    S: jax.Array
    wt: jax.Array
    N_0: jax.Array
    light: jax.Array
    sign: jax.Array


def nodes_of(heads: Heads, lam: jax.Array, w: jax.Array) -> Nodes:
    """Evaluate the quantities that do not depend on p."""
    exponent = -lam[:, None] * heads.gap[:, None, :]
    E = jnp.exp(exponent)
    V_lo = heads.lo * heads.v_lo
    V_hi = heads.hi * heads.v_hi
    light = heads.light[:, None, :]
    return Nodes(
        E=E,
        G=-jnp.expm1(exponent),
        S=(V_lo - V_hi)[:, None, :] * E,
        wt=w * jnp.exp(-lam * heads.always[:, None]),
        N_0=(heads.c0 * heads.v_c0 + V_lo.sum(axis=-1))[:, None],
        light=light,
        sign=2 * light.astype(E.dtype) - 1,
    )


def row_sums(game: GameBatch, lam: jax.Array, w: jax.Array) -> jax.Array:
    """Return (9, H, L) the fields of `attn_closed_form.game.terms.TermSums` except its share, for one game."""
    heads = heads_of(game)
    at = nodes_of(heads, lam, w)
    real = ~jnp.isneginf(game.s)[:, None, :]
    light = heads.light[:, None, :] & real
    heavy = ~heads.light[:, None, :] & real
    ones = jnp.ones_like(at.wt)
    mass = heads.lo[:, None, :] + heads.hi[:, None, :] * at.E

    def over(which: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.where(which, x, 0.0).sum(axis=-1)

    return jnp.stack(
        [
            at.wt * heads.half_range[:, None],
            heads.c0[:, None] * ones,
            mass.sum(axis=-1),
            over(heavy, at.G),
            over(light, at.G),
            heavy.sum(axis=-1) * ones,
            light.sum(axis=-1) * ones,
            at.G.max(axis=-1),
            mass.max(axis=-1),
        ]
    )


def flip(at: Nodes, p: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute P, num (H, L) and sigma (H, L, d) at one p, the probability that a player is present."""
    q = jnp.where(at.light, 1 - p, p)
    Y = (1 - q) + q * at.E
    sigma = 1 / Y
    # A CPU vectorizes a product with ones, but not a fused sum over the last axis.
    total = (q * at.S * sigma) @ jnp.ones(Y.shape[-1], Y.dtype)
    lanes = LANES if Y.shape[-1] % LANES == 0 else 1
    product = Y.reshape(*Y.shape[:-1], -1, lanes).prod(axis=-2).prod(axis=-1)
    return at.wt * product, at.N_0 - total, sigma


def everyone_of(game: GameBatch) -> jax.Array:
    """Return the value of the grand coalition minus the bias and the heads' centers, so constants cost no digits."""
    heads = heads_of(game)
    v = jnp.where(jnp.isneginf(game.s), 0.0, game.v - heads.center[:, None])
    s = jnp.concatenate([game.s, game.s_background[:, None]], axis=-1)
    return (jax.nn.softmax(s, axis=-1) * jnp.concatenate([v, heads.v_c0[:, None]], axis=-1)).sum()


def value_of(game: GameBatch, present: jax.Array) -> jax.Array:
    """Return the value of one coalition of one game."""
    s = jnp.where(present, game.s, game.s_absent)
    v = jnp.where(present, game.v, game.v_absent)
    s = jnp.concatenate([s, game.s_background[:, None]], axis=-1)
    v = jnp.concatenate([v, game.v_background[:, None]], axis=-1)
    empty = jnp.isneginf(s).all()
    pooled = (jax.nn.softmax(jnp.where(empty, 0.0, s), axis=-1) * v).sum()
    return jnp.where(empty, game.empty_value, pooled + game.bias)


def each_game(
    function: Callable[..., Any],
    batch: Any,
    shared: tuple[Any, ...],
    *arrays: Any,
    chunk: int | None = None,
) -> Any:
    """Apply `function(game, *shared, *rows)` to every game, where `rows` are the game's rows of `arrays`.

    A batch is a named tuple of arrays with one entry per game; one of them, `players`, is 0 for games that fill it up.
    """
    return _each_game(function, games_at_once(batch, chunk), mesh_of(batch), shared, batch, *arrays)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _each_game(
    function: Callable[..., Any],
    chunk: int,
    mesh: Mesh | None,
    shared: tuple[Any, ...],
    batch: Any,
    *arrays: Any,
) -> Any:
    local = partial(_loop, function, chunk)
    if mesh is None:
        return local(shared, batch, *arrays)
    cut = PartitionSpec(AXIS)
    whole = PartitionSpec()
    return _shard_map(local, mesh, (whole, *[cut] * (1 + len(arrays))), cut)(shared, batch, *arrays)


def _shard_map(
    function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    """Return `jax.shard_map`, which has another name in older versions."""
    if hasattr(jax, "shard_map"):
        mapped = jax.shard_map(
            function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
    else:
        from jax.experimental.shard_map import shard_map

        mapped = shard_map(function, mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False)
    return mapped


def _loop(
    function: Callable[..., Any], chunk: int, shared: tuple[Any, ...], batch: Any, *arrays: Any
) -> Any:
    n = batch.players.shape[0]
    more = -n % chunk
    count = jnp.where(batch.players > 0, jnp.arange(1, n + 1), 0).max()

    def in_chunks(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x[:more]]).reshape(-1, chunk, *x.shape[1:])

    def of_chunk(i: Any) -> Any:
        part = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), cut)
        with jax.default_matmul_precision(PRECISION):
            return jax.vmap(lambda game, *rows: function(game, *shared, *rows))(*part)

    def step(i: Any, out: Any) -> Any:
        return jax.tree.map(
            lambda old, new: jax.lax.dynamic_update_index_in_dim(old, new, i, 0), out, of_chunk(i)
        )

    cut = jax.tree.map(in_chunks, (batch, *arrays))
    nothing = jax.tree.map(
        lambda x: jnp.zeros(((n + more) // chunk, *x.shape), x.dtype), jax.eval_shape(of_chunk, 0)
    )
    out = jax.lax.fori_loop(0, -(-count // chunk), step, nothing)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], out)


def games_at_once(batch: Any, chunk: int | None) -> int:
    """Return the number of games that a device processes together."""
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk: expected a positive number of games, got {chunk}")
    devices = batch.players.devices()
    if next(iter(devices)).platform == "cpu":
        default = CHUNK_CPU
    else:
        default = CHUNK_OTHER
    return min(len(batch.players) // len(devices), default if chunk is None else chunk)


def on_cpu() -> bool:
    """Whether JAX's default device is a CPU."""
    return next(iter(jnp.zeros(0).devices())).platform == "cpu"


def mesh_of(batch: Any) -> Mesh | None:
    """Return the devices over which a batch is sharded, or None for one device."""
    where = batch.players.sharding
    if isinstance(where, NamedSharding) and where.mesh.size > 1:
        return where.mesh
    return None
