"""A function of every game of a batch: in chunks, on one device or on several, and only as far as there are games.

Games go through in chunks, which bounds memory. Shapes are static on a device, so a batch is filled up with games of no
players at its end; the loop over chunks stops before them, and their results are zero. A batch that lies on the devices
of a mesh, cut along its games, is worked on where it lies: every device loops over its own games.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .game_batch import GameBatch

AXIS = "documents"
# Games at once: what keeps a CPU's caches, and a GPU busy.
CHUNK_CPU, CHUNK_OTHER = 4, 256
# A GPU's and a TPU's default multiplies matrices of float32 in fewer digits, which no error bound here knows of.
PRECISION = "highest"


def each_game(
    function: Callable[..., Any], batch: GameBatch, shared: tuple[Any, ...], *own: Any, chunk: int | None = None
) -> Any:
    """`function(game, *shared, *own)` of every game, with its own part of the arrays `own`."""
    return _each_game(function, games_at_once(batch, chunk), mesh_of(batch), shared, batch, *own)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _each_game(
    function: Callable[..., Any], chunk: int, mesh: Mesh | None, shared: tuple[Any, ...], batch: GameBatch, *own: Any
) -> Any:
    here = partial(_loop, function, chunk)
    if mesh is None:
        return here(shared, batch, *own)
    cut, whole = PartitionSpec(AXIS), PartitionSpec()
    return _shard_map(here, mesh, (whole, *[cut] * (1 + len(own))), cut)(shared, batch, *own)


def _shard_map(function: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    """`jax.shard_map`, also where it is not yet called that."""
    if hasattr(jax, "shard_map"):
        mapped = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    else:
        from jax.experimental.shard_map import shard_map

        mapped = shard_map(function, mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False)
    return mapped


def _loop(function: Callable[..., Any], chunk: int, shared: tuple[Any, ...], batch: GameBatch, *own: Any) -> Any:
    n = batch.players.shape[0]
    more = -n % chunk
    count = jnp.where(batch.players > 0, jnp.arange(1, n + 1), 0).max()

    def in_chunks(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x[:more]]).reshape(-1, chunk, *x.shape[1:])

    def of_chunk(i: Any) -> Any:
        game, *rest = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), cut)
        with jax.default_matmul_precision(PRECISION):
            return jax.vmap(lambda game, *rest: function(game, *shared, *rest))(game, *rest)

    def step(i: Any, out: Any) -> Any:
        return jax.tree.map(lambda old, new: jax.lax.dynamic_update_index_in_dim(old, new, i, 0), out, of_chunk(i))

    cut = jax.tree.map(in_chunks, (batch, *own))
    nothing = jax.tree.map(lambda x: jnp.zeros(((n + more) // chunk, *x.shape), x.dtype), jax.eval_shape(of_chunk, 0))
    out = jax.lax.fori_loop(0, -(-count // chunk), step, nothing)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], out)


def games_at_once(batch: GameBatch, chunk: int | None) -> int:
    """The number of games that go through a device together."""
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk: expected a positive number of games, got {chunk}")
    devices = batch.s.devices()
    default = CHUNK_CPU if next(iter(devices)).platform == "cpu" else CHUNK_OTHER
    return min(batch.s.shape[0] // len(devices), default if chunk is None else chunk)


def mesh_of(batch: GameBatch) -> Mesh | None:
    """The devices that a batch is cut over; None for one device."""
    where = batch.s.sharding
    return where.mesh if isinstance(where, NamedSharding) and where.mesh.size > 1 else None


def placed(mesh: Mesh | None, array: Any, whole: bool = False) -> jax.Array:
    """An array on JAX's default device, or on a mesh: cut along its first axis, or whole on every device."""
    if mesh is None:
        return jnp.asarray(array)
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec() if whole else PartitionSpec(AXIS)))


def filled_up(count: int, batch: int, mesh: Mesh | None) -> int:
    """The number of games of a batch that holds `count`: a power of two, so that few shapes are compiled.

    On a mesh it is a multiple of the devices.

    >>> filled_up(5, 256, None), filled_up(200, 150, None)
    (8, 150)
    """
    size = min(batch, 1 << int(np.ceil(np.log2(count))))
    return size if mesh is None else -(-size // mesh.size) * mesh.size
