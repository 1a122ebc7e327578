"""Every program that this package and the trainer compile, with arguments to compile it for: to lower, to cost.

`programs` makes them for a model and documents; `tests/jax_model/test_programs.py` lowers each of them for CUDA and
TPU, which needs neither, and `benchmarks/device_costs.py` asks XLA what each of them costs.

XLA counts the body of a loop once, however often it runs. So a program names the loops inside it, each as a program of
its own with the number of rounds that are not counted yet; the loop over chunks of games is counted once, for
`documents` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import AttentionWeights
from attn_closed_form._types import Tokens
from attn_closed_form.models.classifier.predict import pad

from ..training.config import Config
from ..training.fit import adamw
from ..training.steps import State, start_arrays, step_function
from . import budgets, documents, exact, tables
from .game_batch import GameBatch, Nodes, heads_of, nodes_of, row_sums
from .loops import _each_game, games_at_once


class Loop(NamedTuple):
    """The body of a loop as a program, and how many more rounds it takes than the one that is counted."""

    function: Any
    arguments: tuple[Any, ...]
    more: int


class Program(NamedTuple):
    """A jitted function, arguments for it, and the number of documents that its cost is of."""

    function: Any
    arguments: tuple[Any, ...]
    documents: int
    loops: tuple[Loop, ...] = ()


# Which programs make up a task, in the order in which they run.
TASKS = {
    "prediction": ("prediction",),
    "gradient": ("gradient",),
    "Shapley": ("games", "summaries", "sums for bounds", "Shapley values"),
    "LIME": ("games", "summaries", "sums for bounds", "LIME"),
    "training step": ("training step",),
}


def programs(
    weights: AttentionWeights, texts: Sequence[Tokens], dtype: Any, tol: float, chunk: int | None = None
) -> dict[str, Program]:
    """All programs by name, for documents of one bucket of sizes.

    Parameters
    ----------
    texts : token ids of documents; those of the most frequent bucket are taken
    dtype : floating type; the training step is float32 whatever it says
    tol : what the numbers of nodes are chosen for
    chunk : games at once, as of `shapley`
    """
    bucket = max(documents.game_buckets(weights, texts, dtype=dtype), key=lambda one: len(one.places))
    own = [texts[place] for place in bucket.places]
    found = _of_texts(weights, own, dtype, bucket.games.s.shape[-1])
    return {**found, **_of_games(bucket.games, tol, chunk), "training step": _training_step(weights, own)}


def _of_texts(weights: AttentionWeights, texts: Sequence[Tokens], dtype: Any, d: int) -> dict[str, Program]:
    model, n = tables.device_tables(weights, dtype), len(texts)
    ids = jnp.asarray(pad(weights, [np.asarray(text) for text in texts]))
    zero, lengths = jnp.asarray(0), jnp.asarray([len(text) for text in texts])
    players = jnp.zeros((n, weights.T_max - 1), int)
    found = {
        "prediction": Program(_jitted(tables._each, tables._predict), (model, ids), n),
        "attention": Program(_jitted(tables._each, tables._attention), (model, ids), n),
        "gradient": Program(_jitted(tables._each, tables._gradient), (model, ids, zero), n),
    }
    for name, deleted in (("games", False), ("games, deletion", True)):
        found[name] = Program(_jitted(documents._games, d, deleted, None), (model, ids, lengths, players, zero), n)
    return found


def _of_games(batch: GameBatch, tol: float, chunk: int | None) -> dict[str, Program]:
    goals, size = budgets.plan_batch(batch, tol), games_at_once(batch, chunk)
    groups, rule = exact._groups(batch, goals, chunk), (goals.lam, goals.w)
    dtype, n = batch.s.dtype, batch.players.shape[0]
    m = max(group.count for group in groups)
    p = jnp.full((n, m), 0.5, dtype)

    def over(function: Callable[..., Any], shared: tuple[Any, ...], *own: Any, loops: Any = ()) -> Program:
        return Program(_jitted(_each_game, function, size, None), (shared, batch, *own), size, tuple(loops))

    nodes = [_node(exact.add_node, batch, size, group, 0) for group in groups]
    pairs = [_node(exact.add_pairs, batch, size, group, None) for group in groups]
    lime = _node(exact.add_node, batch, size, exact.Group(*rule, p[0], p[0], m), 2)
    return {
        "summaries": Program(budgets._summary, (batch,), n),
        "sums for bounds": over(row_sums, rule),
        "Shapley values": over(exact._shapley, groups, loops=nodes),
        "interactions": over(exact._interactions, groups, loops=[*nodes, *pairs]),
        "Banzhaf values": over(exact._banzhaf, rule),
        "leave one out": over(exact._leave_one_out, ()),
        "means by size": over(exact._by_size, rule),
        "LIME": over(exact.weighted_sums, (*rule, m), p, jnp.zeros((n, m, 2), dtype), p, loops=[lime]),
        "value": Program(exact._value, (batch, jnp.ones((n, batch.s.shape[-1]), bool)), n),
    }


def _node(add: Callable[..., Any], batch: GameBatch, size: int, group: exact.Group, means: int | None) -> Loop:
    """One node in p of `size` games, with `means` weights for E_p[f]; None for second differences."""
    games = jax.tree.map(lambda x: x[:size], batch)
    at = _nodes_of_all(games, group.lam, group.w)
    one = jnp.ones((), group.p.dtype)
    start: Any = (jnp.zeros((size, means or 0), one.dtype), jnp.zeros_like(at.E), jnp.zeros_like(at.E))
    weights: tuple[Any, ...] = (jnp.ones(means or 0, one.dtype), one)
    if means is None:
        d = at.E.shape[-1]
        start, weights = jnp.zeros((size, d, d), one.dtype), (one,)
    body = jax.vmap(add, in_axes=(0, 0, None, *[None] * len(weights)))
    return Loop(jax.jit(body, donate_argnums=1), (at, start, one / 2, *weights), group.count - 1)


@jax.jit
def _nodes_of_all(games: GameBatch, lam: jax.Array, w: jax.Array) -> Nodes:
    return jax.vmap(lambda game: nodes_of(heads_of(game), lam, w))(games)


def _training_step(weights: AttentionWeights, texts: Sequence[Tokens]) -> Program:
    """One step of AdamW on the documents, of a model of the same sizes."""
    config = Config(T_max=weights.T_max, D=weights.D, d_e=weights.d_e, K=weights.K, d_att=weights.d_att)
    fixed, trained = start_arrays(config, weights.D, weights.C, weights.cls, weights.unk)
    optimizer = adamw(config.learning_rate, config.warmup_steps, 1000, config.weight_decay)
    step = step_function(optimizer, fixed, weights.cls, config.ema, np.ones(max(2, weights.C), np.float32))
    nothing = np.zeros((), np.int32), np.zeros((), np.float32)
    state = State(trained, jax.jit(optimizer.init)(trained), trained, trained, *nothing)
    ids = np.asarray(pad(weights, [np.asarray(text) for text in texts]), np.int32)
    return Program(step, (state, ids, np.zeros(len(texts), np.int32)), len(texts))


def _jitted(function: Callable[..., Any], *static: Any) -> Any:
    return jax.jit(partial(function, *static))
