"""Exact Shapley values and their kin for a batch of games, jitted, on whatever device JAX has.

Nodes are chosen for the whole batch, by the core's own bound and budget (`budgets.py`), in float64 and in float32. The
rows (nodes lam of a head) are cut into a few groups, each with the nodes in p that its rows need: their number is an
argument of the compiled program, not a shape. Games go through in chunks (`loops.py`), which bounds memory; a CPU likes
small chunks, a GPU large ones. Every function returns `Batched(values, problems)`: a game that cannot keep `tol`
has NaN in its row and a reason in `problems`, and the others have their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form.game.laws import legendre_rule, log_legendre_factor
from attn_closed_form.game.terms import THETA, log_bound

from .budgets import Batched, Goals, finished, plan_batch, slack, sums_of
from .game_batch import GameBatch, Nodes, flip, heads_of, nodes_of, value_of
from .loops import each_game

# Lists of nodes are filled up to a multiple of this, so that batches alike share one compiled program.
NODES = 16
# Groups of rows that have numbers of nodes of their own.
GROUPS = 4


class Group(NamedTuple):
    """Some nodes lam, w (L,) for 1/D, and what they are integrated with: the first `count` of the nodes p, w_p (m,)."""

    lam: jax.Array
    w: jax.Array
    p: jax.Array
    w_p: jax.Array
    count: Any


Sums = tuple[jax.Array, jax.Array, jax.Array]


def add_node(at: Nodes, total: Sums, p: jax.Array, w_E: jax.Array, w_D: jax.Array) -> Sums:
    """Sums over nodes p and one node more: of E_p[f] less its base (r,), of P num sigma and of P sigma^2 (H, L, d)."""
    level, by_X, by_Z = total
    f = flip(at, p)
    Pn = f.P * f.num
    by_X = by_X + (w_D * Pn)[..., None] * f.sigma
    by_Z = by_Z + (w_D * f.P)[..., None] * f.sigma**2
    return level + w_E * Pn.sum(), by_X, by_Z


def weighted_sums(
    game: GameBatch, lam: jax.Array, w: jax.Array, count: Any, p: jax.Array, w_E: jax.Array, w_D: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums over the first `count` nodes p: of E_p[f] less its base, (r,) with weights (m, r); of Delta_j(p), (d,) with
    weights (m,).
    """
    at = nodes_of(heads_of(game), lam, w)
    nothing = jnp.zeros_like(at.E)
    start = jnp.zeros(w_E.shape[1:], lam.dtype), nothing, nothing
    level, by_X, by_Z = jax.lax.fori_loop(0, count, lambda i, total: add_node(at, total, p[i], w_E[i], w_D[i]), start)
    return level, (at.sign * (by_X * at.G + by_Z * at.S)).sum(axis=(0, 1))


def _changes(game: GameBatch, *groups: Group) -> jax.Array:
    """(d,) weighted sum over nodes p of Delta_j(p), for one game."""
    none = [jnp.zeros((group.p.size, 0), group.p.dtype) for group in groups]
    parts = [weighted_sums(game, g.lam, g.w, g.count, g.p, w_E, g.w_p)[1] for g, w_E in zip(groups, none, strict=True)]
    return jnp.stack(parts).sum(axis=0)


def _pairs(game: GameBatch, *groups: Group) -> jax.Array:
    """(d, d) weighted sum over nodes p of the second differences, for one game."""
    heads = heads_of(game)
    half = jnp.zeros((game.s.shape[-1],) * 2, game.s.dtype)
    for group in groups:
        at = nodes_of(heads, group.lam, group.w)
        half = jax.lax.fori_loop(
            0, group.count, lambda i, half, at=at, g=group: add_pairs(at, half, g.p[i], g.w_p[i]), half
        )
    return half + half.T


def add_pairs(at: Nodes, half: jax.Array, p: jax.Array, w_p: jax.Array) -> jax.Array:
    """Half the sum over nodes p of the second differences (d, d), and one node more."""
    f = flip(at, p)
    X, Z = at.sign * at.G * f.sigma, at.sign * at.S * f.sigma**2
    right = (f.P * f.num / 2)[..., None] * X + f.P[..., None] * Z
    return half + w_p * jnp.einsum("hli,hlj->ij", X, right)


def _empty_excess(game: GameBatch) -> jax.Array:
    """f(nobody) minus the sum of the heads' centres, where nobody has no mass; zero elsewhere."""
    heads = heads_of(game)
    return jnp.where(heads.empty, game.empty_value - game.bias - heads.centre.sum(), 0.0)


def _shapley(game: GameBatch, *groups: Group) -> jax.Array:
    phi = _changes(game, *groups) - _empty_excess(game) / game.players
    return jnp.where(jnp.arange(phi.size) < game.players, phi, 0.0)


def _banzhaf(game: GameBatch, lam: jax.Array, w: jax.Array) -> jax.Array:
    delta = _changes(game, Group(lam, w, jnp.full(1, 0.5, lam.dtype), jnp.ones(1, lam.dtype), 1))
    delta = delta - _empty_excess(game) * 2.0 ** (1 - game.players.astype(lam.dtype))
    return jnp.where(jnp.arange(delta.size) < game.players, delta, 0.0)


def _interactions(game: GameBatch, *groups: Group) -> jax.Array:
    table = _pairs(game, *groups) + _empty_excess(game) / jnp.maximum(game.players - 1, 1)
    real = jnp.arange(table.shape[0]) < game.players
    table = jnp.where(real[:, None] & real, table, 0.0)
    return jnp.where(jnp.eye(real.size, dtype=bool), jnp.diag(_shapley(game, *groups)), table)


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
        absent = jnp.minimum(size.astype(P.dtype) / (k + 1), 1.0)  # P(k is absent | s of the first k + 1 are)
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


def _groups(batch: GameBatch, goals: Goals, chunk: int | None) -> tuple[Group, ...]:
    """The nodes for 1/D in groups, with nodes in p that keep the error of every game; or the exact number of them."""
    dtype, exact = batch.s.dtype, max(1, (batch.s.shape[-1] + 1) // 2)
    needed = _nodes_needed(batch, goals, chunk)
    parts = [part for part in np.array_split(np.arange(goals.lam.size), GROUPS) if part.size]
    counts = [int(min(exact, needed[part].max())) for part in parts]
    size = -(-max(counts) // NODES) * NODES
    found = []
    for part, m in zip(parts, counts, strict=True):
        p, w = np.full(size, 0.5), np.zeros(size)
        p[:m], w[:m] = legendre_rule(m)
        rows = slice(part[0], part[-1] + 1)
        found.append(Group(goals.lam[rows], goals.w[rows], jnp.asarray(p, dtype), jnp.asarray(w, dtype), m))
    return tuple(found)


def _nodes_needed(batch: GameBatch, goals: Goals, chunk: int | None) -> NDArray[np.intp]:
    """(L,) the nodes in p that a node lam needs in any head of any game; every row makes the same part of the error."""
    L = goals.lam.size
    spread = [goals.budgets[i] for i in goals.kept]
    allowed = np.array([goal.p_error if goal and goal.spread > 0 else np.inf for goal in spread])
    if not np.isfinite(allowed).any():
        return np.ones(L, dtype=np.intp)
    bounds = log_bound(sums_of(batch, goals, chunk), differences=True) + slack(batch)
    rows = len(bounds) // len(allowed)
    with np.errstate(divide="ignore"):
        log_allowed = np.repeat(np.log(allowed / rows), rows)[:, None]
    needed = ((bounds + log_legendre_factor(THETA) - log_allowed) / (2 * THETA)).min(axis=1)
    return np.maximum(np.ceil(needed.reshape(-1, L).max(axis=0)), 1).astype(np.intp)


def _integrated(
    function: Callable[..., jax.Array], batch: GameBatch, tol: float, amplification: float, chunk: int | None
) -> Batched:
    """A function of a game and groups of nodes, of every game."""
    goals = plan_batch(batch, tol, amplification)
    values = each_game(function, batch, _groups(batch, goals, chunk), chunk=chunk)
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
    values = np.asarray(each_game(function, batch, (goals.lam, goals.w), chunk=chunk))
    return finished(batch, values, goals.problems)


def leave_one_out(batch: GameBatch, chunk: int | None = None) -> NDArray[Any]:
    """f(all) - f(all but j) of every game, (B, d), up to rounding of the floating type; zero for padding."""
    return finished(batch, np.asarray(each_game(_leave_one_out, batch, (), chunk=chunk)), {}).values


def value(batch: GameBatch, present: NDArray[np.bool_]) -> NDArray[Any]:
    """F of one coalition per game, present (B, d) -> (B,), up to rounding of the floating type."""
    return finished(batch, np.asarray(_value(batch, jnp.asarray(present))), {}).values


_value = jax.jit(jax.vmap(value_of))
