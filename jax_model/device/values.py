"""Exact Shapley values and LIME's exact limit for a batch of games, jitted, on any device that JAX has.

The core chooses the nodes for the whole batch, by its own bounds and budgets (`budgets.py`), in float64 and in float32.
The number of nodes in p is an argument of the compiled program, not a shape. Games are processed in chunks
(`games.py`), small ones on a CPU and large ones on a GPU. Both functions return `Batched`: a game that cannot keep
`tol` has NaN in its row and a reason in `problems`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..training.devices import cut_by_document
from .budgets import Batched, Groups, LimePlan, plan_batch, shapley_groups
from .games import GameBatch, each_game, flip, heads_of, mesh_of, nodes_of


def weighted_sums(
    game: GameBatch,
    lam: jax.Array,
    w: jax.Array,
    count: Any,
    p: jax.Array,
    w_E: jax.Array,
    w_D: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Sum over groups of nodes: E_p[f] minus its base (r,) by w_E (G, m, r), and Delta_j(p) (d,) by w_D (G, m).

    Group g integrates its nodes lam, w (G, L) for 1/D with the first count[g] of its nodes p (G, m).
    """
    heads = heads_of(game)

    def add_group(g: Any, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at = nodes_of(heads, lam[g], w[g])

        def add(
            i: Any, sums: tuple[jax.Array, jax.Array, jax.Array]
        ) -> tuple[jax.Array, jax.Array, jax.Array]:
            level, by_X, by_Z = sums
            P, num, sigma = flip(at, p[g, i])
            by_X = by_X + (w_D[g, i] * P * num)[..., None] * sigma
            by_Z = by_Z + (w_D[g, i] * P)[..., None] * sigma**2
            return level + w_E[g, i] * (P * num).sum(), by_X, by_Z

        start = sums[0], jnp.zeros_like(at.E), jnp.zeros_like(at.E)
        level, by_X, by_Z = jax.lax.fori_loop(0, count[g], add, start)
        return level, sums[1] + (at.sign * (by_X * at.G + by_Z * at.S)).sum(axis=(0, 1))

    nothing = jnp.zeros(w_E.shape[2:], lam.dtype), jnp.zeros(game.s.shape[-1], lam.dtype)
    sums: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, lam.shape[0], add_group, nothing)
    return sums


def shapley_of(game: GameBatch, nodes: Groups) -> jax.Array:
    """Compute (d,) Shapley values of one game, sums of Delta_j(p) corrected for the empty coalition."""
    without_means = jnp.zeros((*nodes.p.shape, 0), nodes.p.dtype)
    heads = heads_of(game)
    # f(empty) minus its value in the formulas, if the empty coalition has no mass.
    excess = jnp.where(heads.empty, game.empty_value - game.bias - heads.center.sum(), 0.0)
    sums = weighted_sums(game, nodes.lam, nodes.w, nodes.count, nodes.p, without_means, nodes.w_p)[
        1
    ]
    return jnp.where(jnp.arange(sums.size) < game.players, sums - excess / game.players, 0.0)


def shapley(batch: GameBatch, tol: float = 1e-10, chunk: int | None = None) -> Batched:
    """Compute the (B, d) Shapley values of every game within tol * max|f|; zero for padding. Bases are f(empty).

    >>> from attn_closed_form import PooledGame
    >>> from jax_model.device.games import game_batch
    >>> jax.config.update("jax_enable_x64", True)
    >>> batch = game_batch([PooledGame.from_scores([0.0, 0.0], [1.0, 3.0]), PooledGame.from_scores([3.0], [4.0])])
    >>> shapley(batch).values.round(6)
    array([[0., 2.],
           [4., 0.]])
    """
    goals = plan_batch(batch, tol)
    exponent = np.asarray(batch.exponent)
    values = np.array(
        each_game(shapley_of, batch, (shapley_groups(batch, goals, chunk),), chunk=chunk)
    )
    values[list(goals.problems)] = np.nan
    values = np.ldexp(values, exponent[:, None])
    bases = np.ldexp(goals.about.absent, exponent)
    return Batched(values, goals.problems, bases, goals.errors(tol, exponent))


def lime_limit(
    batch: GameBatch,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    chunk: int | None = None,
) -> Batched:
    """Compute LIME's limit for every game, as `attn_closed_form.lime_limit`, within tol * max|f|, or a problem.

    `values` is a list of `LimeCoefficients`; bases are the intercepts. Games of one player and games without a rule in
    p are left to the core.
    """
    plan = LimePlan.of(batch, kernel_width, ridge, num_samples, tol, chunk)
    exponent = np.asarray(batch.exponent)
    p, w_E, w_D = (cut_by_document(mesh_of(batch), x.astype(batch.s.dtype)) for x in plan.nodes())
    shared = (plan.goals.lam[None], plan.goals.w[None], np.array([plan.longest]))
    level, delta = each_game(weighted_sums, batch, shared, p, w_E, w_D, chunk=chunk)
    limits = plan.finish(np.asarray(level, np.float64), np.asarray(delta, np.float64), exponent)
    bases = np.array([limit.intercept for limit in limits])
    return Batched(limits, plan.goals.problems, bases, plan.goals.errors(tol, exponent))
