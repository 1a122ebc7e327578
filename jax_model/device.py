"""Many documents at once on any device that JAX has: predictions, gradients and exact Shapley
values of logits.

The functions are pure, compile with `jit`, and can be differentiated in reverse mode, so that a
loss may contain an explanation. They compute what the NumPy core computes, in plain steps, and
share its score tables and its rules for 1/D. The core remains the reference: it bounds the error of
every result, while this module has a fixed rule.

**Shapley values.** A head of a game is f(S) = N(S) / D(S), with D the sum of masses and N the sum
of masses times values. With 1/D = sum_l w_l e^(-lam_l D), and every player present with probability
p, both sums factorize over the players (docs/theory/two-integrals.md):

    phi_j = int_0^1 sum_l w_l E_p[ N e^(-lam_l D) | j present ] - E_p[ N e^(-lam_l D) | j absent ] dp.

The integrand is a polynomial in p of degree d - 1, which Gauss-Legendre integrates exactly with (d
+ 1) // 2 nodes. The one error is that of the rule for 1/D, which is at most 2 tol max|f| (and the
rounding of the floating-point type).
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, PooledGame
from attn_closed_form._legendre import legendre_rule
from attn_closed_form._types import Tokens
from attn_closed_form.attention.predict import as_tokens, pad
from attn_closed_form.game.engine.exponential_sums import lambda_rule

# A GPU multiplies matrices of float32 in fewer digits unless it is asked for all of them.
PRECISION = "highest"


# Predictions and gradients


class Tables(NamedTuple):
    """A model on a device: the score tables of the core (`Collapse`) and the arrays that the
    gradient needs.

    s_tok (D, K), u_tok (D, K, C), and s_pos (L, K), u_pos (L, K, C), W_p (L, d_e) with one row of
    zeros if the model has no positions; w_k (K, d_e), w_v (K, C, d_e), W_e (D, d_e), W_q and W_k
    (K, d_att, d_e), b_l (C,).
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


def device_tables(weights: AttentionWeights, dtype: Any = None) -> Tables:
    """Copy a model to JAX's default device, in JAX's default floating type unless `dtype` says
    otherwise.

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> device_tables(random_weights(seed=0)).s_tok.shape
    (50, 2)
    """
    no_positions = {"W_p": np.zeros((1, weights.d_e))}
    arrays = {**no_positions, **weights.arrays(), **weights.collapse._asdict()}
    on_device = {name: jnp.asarray(arrays[name], dtype) for name in Tables._fields}
    return Tables(**on_device)


def padded_ids(weights: AttentionWeights, documents: Sequence[Tokens]) -> NDArray[np.intp]:
    """Return the (B, L) ids that the model reads: [CLS], the document, and padding; ids below 0
    have no mass.

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> padded_ids(random_weights(seed=0, T_max=None), [[5, 7, 5], [9]]).tolist()
    [[0, 5, 7, 5], [0, 9, -1, -1]]
    """
    return pad(weights, [as_tokens(weights, document) for document in documents])


@jax.jit  # type: ignore[untyped-decorator]
def predict(tables: Tables, ids: jax.Array) -> jax.Array:
    """Compute the (B, C) outputs of the model for (B, L) padded ids, P1 Eq. 1.

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0)
    >>> predict(device_tables(weights), padded_ids(weights, [[5, 7], [9]])).shape
    (2, 1)
    """
    s, u = _scores(tables, ids)
    alpha = jax.nn.softmax(s, axis=-1)
    with jax.default_matmul_precision(PRECISION):
        pooled = jnp.einsum("bkt,btkc->bc", alpha, u)
    heads = s.shape[1]
    return pooled / heads + tables.b_l


@jax.jit  # type: ignore[untyped-decorator]
def gradient(tables: Tables, ids: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Compute the (B, L, d_e) gradient with respect to the embedded tokens, P1 Theorem 4.1 with the
    term of [CLS].

    Parameters
    ----------
    tables : Tables
    ids : (B, L) padded ids, see `padded_ids`
    coefficients : (C,) of the outputs of which the gradient is taken

    Returns
    -------
    (B, L, d_e), zero for ids below 0. Row 0 is [CLS], whose embedding is also that of the query

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0)
    >>> gradient(device_tables(weights), padded_ids(weights, [[5, 7], [9]]), jnp.ones(1)).shape
    (2, 32, 16)
    """
    s, u = _scores(tables, ids)
    heads = s.shape[1]
    with jax.default_matmul_precision(PRECISION):
        u = jnp.einsum("btkc,c->bkt", u, coefficients)
        alpha = jax.nn.softmax(s, axis=-1)
        f = (alpha * u).sum(axis=-1, keepdims=True)
        alpha = alpha / heads
        beta = alpha * (u - f)
        w_v = jnp.einsum("kce,c->ke", tables.w_v, coefficients)
        through_values = jnp.einsum("bkt,ke->bte", alpha, w_v)
        through_keys = jnp.einsum("bkt,ke->bte", beta, tables.w_k)
        # The query of [CLS] changes all scores at once.
        e = tables.W_e[ids] + tables.W_p
        mean_e = jnp.einsum("bkt,bte->bke", beta, e)
        d_att = tables.W_k.shape[1]
        mean_key = jnp.einsum("kae,bke->bka", tables.W_k, mean_e) / d_att**0.5
        through_query = jnp.einsum("bka,kae->be", mean_key, tables.W_q)
    through_tokens = through_values + through_keys
    return through_tokens.at[:, 0].add(through_query)


def _scores(tables: Tables, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return attention logits (B, K, L), -inf for ids below 0, and values (B, L, K, C)."""
    s_by_position = tables.s_tok[ids] + tables.s_pos
    s = s_by_position.transpose(0, 2, 1)
    padding = ids[:, None] < 0
    s = jnp.where(padding, -jnp.inf, s)
    u = tables.u_tok[ids] + tables.u_pos
    return s, u


# Shapley values


class Games(NamedTuple):
    """B games of up to d players with H heads, as in `PooledGame`; a player that fills up has
    log-mass -inf in both states.

    s, v, s_absent, v_absent (B, H, d), s_background, v_background (B, H), bias, empty_value (B,),
    players (B,).
    """

    s: jax.Array
    v: jax.Array
    s_absent: jax.Array
    v_absent: jax.Array
    s_background: jax.Array
    v_background: jax.Array
    bias: jax.Array
    empty_value: jax.Array
    players: jax.Array


class Rule(NamedTuple):
    """Nodes and weights for 1/D on [1, R], lam and w (L,), and for the integral over p in [0, 1], p
    and w_p (m,).
    """

    lam: jax.Array
    w: jax.Array
    p: jax.Array
    w_p: jax.Array


def stack_games(games: Sequence[PooledGame], dtype: Any = None) -> Games:
    """Return games with equal numbers of heads as one batch, in JAX's default floating type by
    default.

    >>> stack_games(
    ...     [PooledGame.from_scores([0.0, 1.0], [1.0, 3.0]), PooledGame.from_scores([3.0], [4.0])]
    ... ).s.shape
    (2, 1, 2)
    """
    heads = {game.H for game in games}
    if len(heads) != 1:
        raise ValueError(f"games: expected games with one number of heads, got {sorted(heads)}")
    players = [game.d for game in games]
    d = max(players)
    arrays: dict[str, jax.Array] = {}
    for name in Games._fields[:-1]:
        filler = -np.inf if name in ("s", "s_absent") else 0.0
        rows = [np.asarray(getattr(game, name)) for game in games]
        if rows[0].ndim == 2:
            rows = [_filled_up(row, d, filler) for row in rows]
        arrays[name] = jnp.asarray(np.stack(rows), dtype)
    return Games(**arrays, players=jnp.asarray(players))


def _filled_up(row: NDArray[np.float64], d: int, filler: float) -> NDArray[np.float64]:
    """Return an array (H, n) with columns added up to d."""
    missing = d - row.shape[1]
    return np.pad(row, ((0, 0), (0, missing)), constant_values=filler)


def fixed_rule(games: Games, tol: float = 1e-11) -> Rule:
    """Return a rule that is accurate for every game of a batch, and for every game with at most its
    range and players.

    Parameters
    ----------
    games : Games
    tol : relative error of 1/D; every value then has an error of at most 2 tol max|f|, plus
        rounding

    Raises
    ------
    ValueError
        if the masses of a game span more than the floating-point type holds; use
        `attn_closed_form.shapley`
    """
    low, high = jax.vmap(_log_range)(games)
    log_range = float(jnp.max(high - low))
    dtype = games.s.dtype
    # Largest ln(D_max / D_min) of a game: masses and lam from 1 / R to R, and products of both, fit
    # into the floating-point type, whose largest number is e^88 or e^709. The core has no such
    # limit.
    log_range_max = {"float32": 60.0, "float64": 256.0}
    largest = log_range_max[dtype.name]
    if not log_range <= largest:
        raise ValueError(
            f"games: expected masses within e^{largest:g} in {dtype}, got e^{log_range:.0f}; "
            "use attn_closed_form.shapley"
        )
    # Rounding moves the end points of the range by a few units in the last place.
    margin = 64 * float(jnp.finfo(dtype).eps)
    lam, w = lambda_rule(log_range + 2 * margin, tol)
    d = games.s.shape[-1]
    p, w_p = legendre_rule((d + 1) // 2)
    return Rule(
        lam=jnp.asarray(lam / (1 - margin), dtype),
        w=jnp.asarray(w / (1 - margin), dtype),
        p=jnp.asarray(p, dtype),
        w_p=jnp.asarray(w_p, dtype),
    )


def _log_range(game: Games) -> tuple[jax.Array, jax.Array]:
    """Return ln of the smallest and of the largest mass D of a coalition in every head, each
    (H,).
    """
    lighter = jnp.minimum(game.s, game.s_absent)
    heavier = jnp.maximum(game.s, game.s_absent)
    background = game.s_background[:, None]
    of_lighter = jnp.concatenate([lighter, background], axis=1)
    of_heavier = jnp.concatenate([heavier, background], axis=1)
    low = jax.nn.logsumexp(of_lighter, axis=1)
    high = jax.nn.logsumexp(of_heavier, axis=1)
    # Without a background, deleted players leave nothing; then the lightest player alone has the
    # smallest mass.
    with_mass = jnp.where(jnp.isneginf(heavier), jnp.inf, heavier)
    alone = with_mass.min(axis=1)
    return jnp.where(jnp.isneginf(low), alone, low), high


def shapley_of(game: Games, rule: Rule) -> jax.Array:
    """Compute the (d,) exact Shapley values of one game (a row of `Games`) by a fixed rule; zero
    for filled-up players.

    Examples
    --------
    >>> batch = stack_games([PooledGame.from_scores([0.0, 0.0], [1.0, 3.0])])
    >>> game = jax.tree.map(lambda rows: rows[0], batch)
    >>> jnp.abs(shapley_of(game, fixed_rule(batch, 1e-6)) - jnp.array([0.0, 2.0])).max() < 1e-5
    Array(True, dtype=bool)
    """
    log_least, _ = _log_range(game)
    unit = jax.lax.stop_gradient(log_least)[:, None]
    # The value of a coalition is a constant plus the mean of centered values, which are small and
    # lose no digits.
    center = jax.lax.stop_gradient(_center(game))
    a = jnp.exp(game.s - unit)
    b = jnp.exp(game.s_absent - unit)
    A = a * (game.v - center)
    B = b * (game.v_absent - center)
    c_0 = jnp.exp(game.s_background[:, None] - unit)
    n_0 = c_0 * (game.v_background[:, None] - center)

    # The state with less mass is taken out of every factor, so that the other has the factor 1 and
    # none underflows.
    less = jnp.minimum(a, b)
    lam = rule.lam[:, None]
    gap_a = a - less
    gap_b = b - less
    x = jnp.exp(-lam * gap_a[:, None])
    y = jnp.exp(-lam * gap_b[:, None])
    D_0 = c_0 + less.sum(axis=1, keepdims=True)
    common = rule.w * jnp.exp(-rule.lam * D_0)
    # One row for every node lam.
    A = A[:, None]
    B = B[:, None]
    n_0 = n_0[:, None]

    def add_node(total: jax.Array, node: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        """Add the integrand at one node p: arrays have the axes head, node for 1/D, player."""
        p, w_p = node
        # The factor of a player, and its share of the numerator.
        Y_present = p * x
        Y_absent = (1 - p) * y
        Y = Y_present + Y_absent
        share = (Y_present * A + Y_absent * B) / Y
        others = n_0 + share.sum(axis=-1, keepdims=True) - share
        product = common * jnp.prod(Y, axis=-1)
        change = x * (others + A) - y * (others + B)
        difference = product[..., None] / Y * change
        return total + w_p * difference.sum(axis=(0, 1)), None

    d = game.s.shape[-1]
    nothing = jnp.zeros(d, game.s.dtype)
    # Reverse mode recomputes the arrays of a node instead of keeping those of all nodes.
    add_one_node = jax.checkpoint(add_node)
    values, _ = jax.lax.scan(add_one_node, nothing, (rule.p, rule.w_p))

    # Where no mass is left, the sum counts 0 for the mean; the game has its own value there.
    lighter = jnp.minimum(game.s, game.s_absent)
    absent_players = jnp.isneginf(lighter).all()
    no_background = jnp.isneginf(game.s_background).all()
    can_be_empty = absent_players & no_background
    assumed = game.bias + center.sum()
    excess = jnp.where(can_be_empty, game.empty_value - assumed, 0.0)
    real = jnp.arange(values.size) < game.players
    return jnp.where(real, values - excess / game.players, 0.0)


def _center(game: Games) -> jax.Array:
    """Return the middle (H, 1) between the smallest and the largest value that has a mass in a
    head.
    """
    s_background = game.s_background[:, None]
    v_background = game.v_background[:, None]
    s = jnp.concatenate([game.s, game.s_absent, s_background], axis=1)
    v = jnp.concatenate([game.v, game.v_absent, v_background], axis=1)
    without_mass = jnp.isneginf(s)
    # A value without mass has no influence, so it must not move the middle.
    for_lowest = jnp.where(without_mass, jnp.inf, v)
    for_highest = jnp.where(without_mass, -jnp.inf, v)
    lowest = for_lowest.min(axis=1, keepdims=True)
    highest = for_highest.max(axis=1, keepdims=True)
    return (lowest + highest) / 2


@partial(jax.jit, static_argnames="at_once")
def shapley(games: Games, rule: Rule, at_once: int | None = None) -> jax.Array:
    """Compute the (B, d) exact Shapley values of a batch of games by a fixed rule; zero for
    filled-up players.

    Parameters
    ----------
    games : Games
    rule : from `fixed_rule`
    at_once : number of games that are computed together; by default one on a CPU and 256 elsewhere

    Returns
    -------
    (B, d), differentiable in reverse mode with respect to the arrays of `games`

    Examples
    --------
    >>> batch = stack_games(
    ...     [PooledGame.from_scores([0.0, 0.0], [1.0, 3.0]), PooledGame.from_scores([3.0], [4.0])]
    ... )
    >>> shapley(batch, fixed_rule(batch, 1e-6)).round(3).tolist()
    [[0.0, 2.0], [4.0, 0.0]]
    """
    if at_once is None:
        on_cpu = jax.default_backend() == "cpu"
        # Tuning: games that are computed together. The arrays of one game of 200 words fill the
        # caches of a CPU (2, 4, 8 and 16 games at once take 1.7 to 3 times as long per game); other
        # devices need many games to be busy.
        games_at_once_cpu = 1
        # Tuning: enough games to keep an accelerator busy.
        games_at_once_others = 256
        at_once = games_at_once_cpu if on_cpu else games_at_once_others

    def of_one(game: Games) -> jax.Array:
        return shapley_of(game, rule)

    return jax.lax.map(of_one, games, batch_size=at_once)
