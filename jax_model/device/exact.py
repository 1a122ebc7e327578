"""Exact Shapley values and their kin for a batch of games, jitted, on whatever device JAX has.

The numbers of nodes are static shapes, so they are chosen for the whole batch: the lambda rule for its largest range
of masses, the p rule by the same rigorous bound as in the core, evaluated on the device. Games go through in
chunks (`chunk` at once), which bounds memory; a CPU likes small chunks, a GPU large ones.

In float64 the results agree with the core to its tolerance. In float32 products round at about 1e-6, and a `tol` below
FLOAT32_TOL is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import ToleranceError
from attn_closed_form.game.node_counts import THETA
from attn_closed_form.game.quadrature import lambda_rule, legendre_count, legendre_rule

from .game_batch import GameBatch, flip, heads_of, log_bound, nodes_of

FLOAT32_TOL = 1e-5
# ln(D_max / D_min) that masses may span before they leave the floating type.
LOG_RANGE = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 500.0}
# Share of the error that each of the two rules may take.
HALF = 0.5
# Games at once: what keeps a CPU's caches, and a GPU busy.
CHUNK_CPU, CHUNK_OTHER = 4, 256


def _sums(
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
    return _sums(game, lam, w, p, jnp.zeros((p.size, 0), p.dtype), w_p)[1]


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
    return jnp.where(heads.always[0] == 0, game.empty_value - game.bias - heads.centre.sum(), 0.0)


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


def _value(game: GameBatch, present: jax.Array) -> jax.Array:
    s = jnp.where(present, game.s, game.s_absent)
    v = jnp.where(present, game.v, game.v_absent)
    s = jnp.concatenate([s, game.s_background[:, None]], axis=-1)
    v = jnp.concatenate([v, game.v_background[:, None]], axis=-1)
    empty = jnp.isneginf(s).all()
    pooled = (jax.nn.softmax(jnp.where(empty, 0.0, s), axis=-1) * v).sum()
    return jnp.where(empty, game.empty_value, pooled + game.bias)


def _leave_one_out(game: GameBatch) -> jax.Array:
    everyone = jnp.ones(game.s.shape[-1], dtype=bool)
    without = jax.lax.map(lambda j: _value(game, everyone.at[j].set(False)), jnp.arange(everyone.size))
    return jnp.where(jnp.arange(everyone.size) < game.players, _value(game, everyone) - without, 0.0)


def _by_size(game: GameBatch, lam: jax.Array, w: jax.Array) -> jax.Array:
    """(d + 1,) E[f | s players absent] by the recursion over players of `game/by_size.py`, for one game."""
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
    mean = jnp.where((size == game.players) & (heads.always[0] == 0), game.empty_value, mean)
    return jnp.where(size <= game.players, mean, 0.0)


@partial(jax.jit, static_argnums=(0, 1))
def _map(function: Callable[..., jax.Array], chunk: int, batch: GameBatch, *rule: jax.Array) -> jax.Array:
    return jax.lax.map(lambda game: function(game, *rule), batch, batch_size=chunk)


class Summary(NamedTuple):
    """About every game: ln of its range of masses, half the range of each head's values (B, H), a lower bound of
    max|f|, what the engine's means are relative to, f of everyone, and f of nobody less what the engine takes it for.
    """

    log_range: Any
    half_range: Any
    scale: Any
    base: Any
    everyone: Any
    nobody: Any


@jax.jit
def _summary(batch: GameBatch) -> Summary:
    heads = jax.vmap(heads_of)(batch)
    everyone = jnp.ones(batch.s.shape[-1], dtype=bool)
    total = jnp.where(jnp.isneginf(batch.s), 0.0, batch.v).sum(axis=1)
    rank = jnp.argsort(jnp.argsort(total, axis=-1), axis=-1)
    half = batch.s.shape[-1] // 2
    probes = [rank >= 0, rank < 0, rank < 1, rank < half, rank >= half, rank == everyone.size - 1, rank % 2 == 0]
    values = jnp.stack([jax.vmap(_value)(batch, probe) for probe in probes])
    base = batch.bias + heads.centre.sum(axis=1)
    empty = jnp.where(heads.always[:, 0] == 0, batch.empty_value - base, 0.0)
    return Summary(heads.log_range.max(axis=1), heads.half_range, jnp.abs(values).max(axis=0), base, values[0], empty)


class Rule(NamedTuple):
    """Nodes for a batch: lam, w (L,); p, w_p (m,)."""

    lam: jax.Array
    w: jax.Array
    p: jax.Array
    w_p: jax.Array


def summary(batch: GameBatch, tol: float) -> Summary:
    """The games' summaries on the host; raises if the floating type cannot hold them or keep `tol`."""
    dtype = np.dtype(batch.s.dtype)
    if not (np.isfinite(tol) and tol > 0):
        raise ValueError(f"tol: expected a positive number, got {tol}")
    if dtype == np.float32 and tol < FLOAT32_TOL:
        raise ToleranceError(f"tol: float32 keeps {FLOAT32_TOL:g} at best, got {tol:g}; use float64")
    found = Summary(*(np.asarray(x, np.float64) for x in _summary(batch)))
    if found.log_range.max() > LOG_RANGE[dtype]:
        raise ToleranceError(
            f"games: masses span e^{found.log_range.max():.0f}, {dtype} holds e^{LOG_RANGE[dtype]:.0f}; "
            "use attn_closed_form"
        )
    return found


def lambda_nodes(batch: GameBatch, log_range: float, eps: float) -> tuple[jax.Array, jax.Array]:
    """Nodes for 1/D; ranges in steps of ln 16, so that batches alike share one compiled program."""
    step = np.log(16.0)
    lam, w = lambda_rule(min(np.ceil(log_range / step) * step, 500.0), min(0.01, eps))
    return jnp.asarray(lam, batch.s.dtype), jnp.asarray(w, batch.s.dtype)


def choose_rule(batch: GameBatch, tol: float, chunk: int) -> Rule:
    """Nodes that keep |error| <= tol * max|f| for every game of the batch; raises if the floating type cannot."""
    about = summary(batch, tol)
    spread = about.half_range.sum(axis=1)
    varying = spread > 0
    share = float((about.scale[varying] / spread[varying]).min()) if varying.any() else 1.0
    lam, w = lambda_nodes(batch, about.log_range.max(), HALF * tol * share / 2)
    bound = np.asarray(_map(log_bound, chunk, batch, lam, w), np.float64)
    allowed = HALF * tol * share
    most = max(1, (batch.s.shape[-1] + 1) // 2)
    m = min(most, max(legendre_count(row, THETA, allowed) for row in bound.reshape(-1, THETA.size)))
    p, w_p = legendre_rule(min(most, -(-m // 4) * 4))
    return Rule(lam, w, jnp.asarray(p, lam.dtype), jnp.asarray(w_p, lam.dtype))


def _chunk(batch: GameBatch, chunk: int | None) -> int:
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk: expected a positive number of games, got {chunk}")
    default = CHUNK_CPU if batch.s.devices().pop().platform == "cpu" else CHUNK_OTHER
    return min(batch.s.shape[0], default if chunk is None else chunk)


def shapley(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> NDArray[Any]:
    """Shapley values of every game, (B, d); zero for padding. |error| <= tol * max|f|.

    >>> from attn_closed_form import PooledGame
    >>> from jax_model.device.game_batch import game_batch
    >>> jax.config.update("jax_enable_x64", True)
    >>> batch = game_batch([PooledGame.from_scores([0.0, 0.0], [1.0, 3.0]), PooledGame.from_scores([3.0], [4.0])])
    >>> shapley(batch).round(6)
    array([[0., 2.],
           [4., 0.]])
    """
    chunk = _chunk(batch, chunk)
    return np.asarray(_map(_shapley, chunk, batch, *choose_rule(batch, tol, chunk)))


def banzhaf(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> NDArray[Any]:
    """Banzhaf values of every game, (B, d); zero for padding. |error| <= tol * max|f|."""
    chunk = _chunk(batch, chunk)
    rule = choose_rule(batch, tol, chunk)
    return np.asarray(_map(_banzhaf, chunk, batch, rule.lam, rule.w))


def shapley_interactions(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> NDArray[Any]:
    """Interaction tables of every game, (B, d, d), Shapley values on the diagonal; zero for padding."""
    chunk = _chunk(batch, chunk)
    return np.asarray(_map(_interactions, chunk, batch, *choose_rule(batch, tol, chunk)))


def leave_one_out(batch: GameBatch, chunk: int | None = None) -> NDArray[Any]:
    """f(all) - f(all but j) of every game, (B, d); zero for padding."""
    return np.asarray(_map(_leave_one_out, _chunk(batch, chunk), batch))


def expected_value_by_size(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> NDArray[Any]:
    """E[f | s players absent] of every game, (B, d + 1); zero beyond a game's own players."""
    chunk = _chunk(batch, chunk)
    rule = choose_rule(batch, tol, chunk)
    return np.asarray(_map(_by_size, chunk, batch, rule.lam, rule.w))


def value(batch: GameBatch, present: NDArray[np.bool_]) -> NDArray[Any]:
    """F of one coalition per game, present (B, d) -> (B,)."""
    return np.asarray(jax.jit(jax.vmap(_value))(batch, jnp.asarray(present)))
