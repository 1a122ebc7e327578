"""Exact Shapley values and their kin for a batch of games, jitted, on whatever device JAX has.

The numbers of nodes are static shapes, so they are chosen for the whole batch, by the core's own bound and budget
(`budgets.py`), in float64 and in float32. Games go through in chunks (`chunk` at once), which bounds memory; a CPU
likes small chunks, a GPU large ones. Every function returns `Batched(values, problems)`: a game that cannot keep `tol`
has NaN in its row and a reason in `problems`, and the others have their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form.game.node_counts import gauss_count, total_log_bound
from attn_closed_form.game.quadrature import legendre_rule

from .budgets import Batched, Goals, finished, games_at_once, plan_batch, slack, sums_of
from .game_batch import GameBatch, flip, heads_of, nodes_of, value_of

# Node counts are rounded up to a multiple of this, so that batches alike share one compiled program.
NODES = 4


def weighted_sums(
    game: GameBatch, lam: jax.Array, w: jax.Array, p: jax.Array, w_E: jax.Array, w_D: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums over nodes p: of E_p[f] less its base, (r,) with weights (m, r); of Delta_j(p), (d,) with weights (m,)."""
    heads = heads_of(game)
    at = nodes_of(heads, lam, w)

    def add(total: tuple[jax.Array, jax.Array], node: Any) -> tuple[tuple[jax.Array, jax.Array], None]:
        p, w_E, w_D = node
        f = flip(heads, at, p)
        Pn = f.P * f.num
        change = jnp.einsum("hl,hld->d", Pn, f.X) + jnp.einsum("hl,hld->d", f.P, f.Z)
        return (total[0] + w_E * Pn.sum(), total[1] + w_D * change), None

    start = jnp.zeros(w_E.shape[1:], lam.dtype), jnp.zeros_like(game.s[0])
    return jax.lax.scan(add, start, (p, w_E, w_D))[0]


def _changes(game: GameBatch, lam: jax.Array, w: jax.Array, p: jax.Array, w_p: jax.Array) -> jax.Array:
    """(d,) weighted sum over nodes p of Delta_j(p), for one game."""
    return weighted_sums(game, lam, w, p, jnp.zeros((p.size, 0), p.dtype), w_p)[1]


def _pairs(game: GameBatch, lam: jax.Array, w: jax.Array, p: jax.Array, w_p: jax.Array) -> jax.Array:
    """(d, d) weighted sum over nodes p of the second differences, for one game."""
    heads = heads_of(game)
    at = nodes_of(heads, lam, w)

    def add(total: jax.Array, node: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        f = flip(heads, at, node[0])
        right = (f.P * f.num / 2)[..., None] * f.X + f.P[..., None] * f.Z
        return total + node[1] * jnp.einsum("hli,hlj->ij", f.X, right), None

    d = game.s.shape[-1]
    half = jax.lax.scan(add, jnp.zeros((d, d), game.s.dtype), (p, w_p))[0]
    return half + half.T


def _empty_excess(game: GameBatch) -> jax.Array:
    """f(nobody) minus the sum of the heads' centres, where nobody has no mass; zero elsewhere."""
    heads = heads_of(game)
    return jnp.where(heads.empty, game.empty_value - game.bias - heads.centre.sum(), 0.0)


def _shapley(game: GameBatch, *rule: jax.Array) -> jax.Array:
    phi = _changes(game, *rule) - _empty_excess(game) / game.players
    return jnp.where(jnp.arange(phi.size) < game.players, phi, 0.0)


def _banzhaf(game: GameBatch, lam: jax.Array, w: jax.Array) -> jax.Array:
    half = jnp.full(1, 0.5, lam.dtype)
    delta = _changes(game, lam, w, half, jnp.ones(1, lam.dtype))
    delta = delta - _empty_excess(game) * 2.0 ** (1 - game.players.astype(lam.dtype))
    return jnp.where(jnp.arange(delta.size) < game.players, delta, 0.0)


def _interactions(game: GameBatch, *rule: jax.Array) -> jax.Array:
    table = _pairs(game, *rule) + _empty_excess(game) / jnp.maximum(game.players - 1, 1)
    real = jnp.arange(table.shape[0]) < game.players
    table = jnp.where(real[:, None] & real, table, 0.0)
    return jnp.where(jnp.eye(real.size, dtype=bool), jnp.diag(_shapley(game, *rule)), table)


def _leave_one_out(game: GameBatch) -> jax.Array:
    everyone = jnp.ones(game.s.shape[-1], dtype=bool)
    without = jax.lax.map(lambda j: value_of(game, everyone.at[j].set(False)), jnp.arange(everyone.size))
    return jnp.where(jnp.arange(everyone.size) < game.players, value_of(game, everyone) - without, 0.0)


def _by_size(game: GameBatch, lam: jax.Array, w: jax.Array) -> jax.Array:
    """(d + 1,) E[f | s players absent] of one game, by the recursion of `attn_closed_form/game/by_size.py`."""
    heads = heads_of(game)
    shift = lam * heads.c0[:, None]
    d = game.s.shape[-1]
    size = jnp.arange(d + 1)
    light = heads.light
    a, b = jnp.where(light, heads.lo, heads.hi), jnp.where(light, heads.hi, heads.lo)
    v, v_absent = jnp.where(light, heads.v_lo, heads.v_hi), jnp.where(light, heads.v_hi, heads.v_lo)

    def add(state: tuple[jax.Array, jax.Array], k: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        P, N = state
        x, y = jnp.exp(-lam * a[:, k, None])[..., None], jnp.exp(-lam * b[:, k, None])[..., None]
        A, B = (a * v)[:, k, None, None], (b * v_absent)[:, k, None, None]
        absent = jnp.minimum(size / (k + 1), 1.0).astype(P.dtype)  # P(k is absent | s of the first k + 1 are)
        P1, N1 = jnp.roll(P, 1, axis=-1), jnp.roll(N, 1, axis=-1)
        new_P = (1 - absent) * x * P + absent * y * P1
        new_N = (1 - absent) * x * (N + A * P) + absent * y * (N1 + B * P1)
        real = k < game.players
        return (jnp.where(real, new_P, P), jnp.where(real, new_N, N)), None

    start = jnp.broadcast_to((size == 0).astype(lam.dtype), (*shift.shape, d + 1))
    P, N = jax.lax.scan(add, (start, jnp.zeros_like(start)), jnp.arange(d))[0]
    n0 = (heads.c0 * heads.v_c0)[:, None, None]
    mean = jnp.einsum("hl,hls->s", w * jnp.exp(-shift), n0 * P + N) + game.bias + heads.centre.sum()
    mean = jnp.where((size == game.players) & heads.empty, game.empty_value, mean)
    return jnp.where(size <= game.players, mean, 0.0)


@partial(jax.jit, static_argnums=(0, 1))
def _map(function: Callable[..., jax.Array], chunk: int, batch: GameBatch, *rule: jax.Array) -> jax.Array:
    return jax.lax.map(lambda game: function(game, *rule), batch, batch_size=chunk)


def _legendre_nodes(batch: GameBatch, goals: Goals, chunk: int) -> tuple[jax.Array, jax.Array]:
    """Nodes and weights in p that keep the error of every game that has a budget; or the exact number of them."""
    sums, more = sums_of(batch, goals, chunk), slack(batch)
    m, most = 1, max(1, (batch.s.shape[-1] + 1) // 2)
    for i in goals.kept:
        goal = goals.budgets[i]
        assert goal is not None
        if goal.spread > 0:
            m = max(m, gauss_count(total_log_bound(sums(i)) + more, math.log(goal.p_error)))
    p, w = legendre_rule(min(most, -(-m // NODES) * NODES))
    return jnp.asarray(p, batch.s.dtype), jnp.asarray(w, batch.s.dtype)


def _integrated(
    function: Callable[..., jax.Array], batch: GameBatch, tol: float, amplification: float, chunk: int | None
) -> Batched:
    """A function of a game and nodes lam, w, p, w_p, of every game."""
    size = games_at_once(batch, chunk)
    goals = plan_batch(batch, tol, amplification)
    values = _map(function, size, batch, goals.lam, goals.w, *_legendre_nodes(batch, goals, size))
    return finished(batch, np.asarray(values), goals.problems)


def shapley(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> Batched:
    """Shapley values of every game, (B, d); zero for padding. |error| <= tol * max|f|.

    >>> from attn_closed_form import PooledGame
    >>> from jax_model.device.game_batch import game_batch
    >>> jax.config.update("jax_enable_x64", True)
    >>> batch = game_batch([PooledGame.from_scores([0.0, 0.0], [1.0, 3.0]), PooledGame.from_scores([3.0], [4.0])])
    >>> shapley(batch).values.round(6)
    array([[0., 2.],
           [4., 0.]])
    """
    return _integrated(_shapley, batch, tol, 1.0, chunk)


def shapley_interactions(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> Batched:
    """Interaction tables of every game, (B, d, d), Shapley values on the diagonal; zero for padding.

    |error| <= tol * max|f|: a second difference has twice the terms of a first one, and twice its error.
    """
    return _integrated(_interactions, batch, tol, 2.0, chunk)


def banzhaf(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> Batched:
    """Banzhaf values of every game, (B, d); zero for padding. |error| <= tol * max|f|."""
    return _without_p(_banzhaf, batch, tol, chunk)


def expected_value_by_size(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> Batched:
    """E[f | s players absent] of every game, (B, d + 1); zero beyond a game's own players. |error| <= tol * max|f|."""
    return _without_p(_by_size, batch, tol, chunk)


def _without_p(function: Callable[..., jax.Array], batch: GameBatch, tol: float, chunk: int | None) -> Batched:
    goals = plan_batch(batch, tol)
    values = np.asarray(_map(function, games_at_once(batch, chunk), batch, goals.lam, goals.w))
    return finished(batch, values, goals.problems)


def leave_one_out(batch: GameBatch, chunk: int | None = None) -> NDArray[Any]:
    """f(all) - f(all but j) of every game, (B, d), up to rounding of the floating type; zero for padding."""
    return finished(batch, np.asarray(_map(_leave_one_out, games_at_once(batch, chunk), batch)), {}).values


def value(batch: GameBatch, present: NDArray[np.bool_]) -> NDArray[Any]:
    """F of one coalition per game, present (B, d) -> (B,), up to rounding of the floating type."""
    return finished(batch, np.asarray(jax.jit(jax.vmap(value_of))(batch, jnp.asarray(present))), {}).values
