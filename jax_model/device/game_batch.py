"""A batch of pooled games as one pytree, and the engine's formulas for one game of it, for any device.

The formulas are those of `attn_closed_form/game/engine.py`. Games of different sizes are padded with players that have
no mass in either state; such a player changes nothing and gets exactly zero. Bounds and budgets are not here: the
device sums what the core's bound needs (`row_sums`), and the host asks the core (`budgets.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import PooledGame

# Factors of a product that a CPU multiplies at once.
LANES = 8


class GameBatch(NamedTuple):
    """B games of up to d players: s, v, s_absent, v_absent (B, H, d); s_background, v_background (B, H); the rest (B,).

    `players` counts the real players of each game; beyond them log-masses are -inf in both states. Values, `bias` and
    `empty_value` are in units of 2^exponent.
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
    exponent: jax.Array


def game_batch(games: Sequence[PooledGame], d: int | None = None, dtype: Any = None) -> GameBatch:
    """Pad games with equal numbers of heads into one batch.

    Scores are taken relative to the largest of their head, and values in units of a power of two, in float64, before
    they are rounded to `dtype`: neither an offset of the scores nor the size of the values costs a digit.

    Parameters
    ----------
    games : at least one PooledGame
    d : players to pad to, the largest game's by default; equal d means that nothing is compiled again
    dtype : floating type, JAX's default by default

    Examples
    --------
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
        raise ValueError(f"d: expected at least {largest}, the players of the largest game, got {d}")
    dtype = jnp.zeros(0).dtype if dtype is None else jnp.dtype(dtype)
    tops = [np.maximum(np.maximum(game.s, game.s_absent).max(axis=1), game.s_background) for game in games]
    # A bias that dwarfs every value sets the unit, too.
    exponents = [
        int(np.frexp(max(np.abs(x).max() for x in (game.v, game.v_background, game.bias, game.empty_value)))[1])
        for game in games
    ]

    def padded(name: str, fill: float) -> jax.Array:
        out = np.full((len(games), games[0].H, d), fill)
        for row, game, top, exponent in zip(out, games, tops, exponents, strict=True):
            own = getattr(game, name)
            row[:, : game.d] = own - top[:, None] if name.startswith("s") else np.ldexp(own, -exponent)
        return jnp.asarray(out, dtype)

    def stacked(name: str) -> jax.Array:
        return jnp.asarray(
            np.stack(
                [np.ldexp(getattr(game, name), -exponent) for game, exponent in zip(games, exponents, strict=True)]
            ),
            dtype,
        )

    return GameBatch(
        s=padded("s", -np.inf),
        v=padded("v", 0.0),
        s_absent=padded("s_absent", -np.inf),
        v_absent=padded("v_absent", 0.0),
        s_background=jnp.asarray(
            np.stack([game.s_background - top for game, top in zip(games, tops, strict=True)]), dtype
        ),
        v_background=stacked("v_background"),
        bias=stacked("bias"),
        empty_value=stacked("empty_value"),
        players=jnp.asarray([game.d for game in games]),
        exponent=jnp.asarray(exponents),
    )


class Heads(NamedTuple):
    """A game's heads, centred, in units of the smallest mass: (H, d), (H,)."""

    lo: jax.Array
    hi: jax.Array
    gap: jax.Array
    v_lo: jax.Array
    v_hi: jax.Array
    light: jax.Array
    c0: jax.Array
    v_c0: jax.Array
    always: jax.Array  # D_0, the mass that is always there
    empty: jax.Array  # () whether nobody has any mass
    log_range: jax.Array
    half_range: jax.Array
    centre: jax.Array


def heads_of(game: GameBatch) -> Heads:
    """For one game of a batch (no leading axis)."""
    real = ~jnp.isneginf(game.s)
    replaced = ~jnp.isneginf(game.s_absent)
    background = ~jnp.isneginf(game.s_background)
    least = jnp.minimum(
        jnp.where(real, game.v, jnp.inf).min(axis=-1), jnp.where(replaced, game.v_absent, jnp.inf).min(axis=-1)
    )
    most = jnp.maximum(
        jnp.where(real, game.v, -jnp.inf).max(axis=-1), jnp.where(replaced, game.v_absent, -jnp.inf).max(axis=-1)
    )
    least = jnp.where(background, jnp.minimum(least, game.v_background), least)
    most = jnp.where(background, jnp.maximum(most, game.v_background), most)
    centre = (least + most) / 2
    light = game.s < game.s_absent
    log_lo, log_hi = jnp.minimum(game.s, game.s_absent), jnp.maximum(game.s, game.s_absent)
    log_always = jax.nn.logsumexp(jnp.concatenate([log_lo, game.s_background[:, None]], axis=-1), axis=-1)
    empty = jnp.isneginf(log_always).all()
    unit = jnp.where(empty, jnp.where(real, game.s, jnp.inf).min(axis=-1), log_always)
    log_most = jax.nn.logsumexp(jnp.concatenate([log_hi, game.s_background[:, None]], axis=-1), axis=-1)
    lo, hi = jnp.exp(log_lo - unit[:, None]), jnp.exp(log_hi - unit[:, None])
    c0 = jnp.exp(game.s_background - unit)
    # hi - lo without cancellation: hi (1 - e^(log lo - log hi)).
    step = jnp.where(real, jnp.where(jnp.isneginf(log_lo), -jnp.inf, log_lo - log_hi), 0.0)
    v = jnp.where(real, game.v - centre[:, None], 0.0)
    v_absent = jnp.where(replaced, game.v_absent - centre[:, None], 0.0)
    return Heads(
        lo=lo,
        hi=hi,
        gap=-hi * jnp.expm1(step),
        v_lo=jnp.where(light, v, v_absent),
        v_hi=jnp.where(light, v_absent, v),
        light=light,
        c0=c0,
        v_c0=jnp.where(background, game.v_background - centre, 0.0),
        always=lo.sum(axis=-1) + c0,
        empty=empty,
        log_range=jnp.maximum(0.0, log_most - unit),
        half_range=(most - least) / 2,
        centre=centre,
    )


class Nodes(NamedTuple):
    """What does not depend on p, for one game: E, G, S (H, L, d); wt (H, L); N_0 (H, 1); light, sign (H, 1, d)."""

    E: jax.Array
    G: jax.Array
    S: jax.Array
    wt: jax.Array
    N_0: jax.Array
    light: jax.Array
    sign: jax.Array


def nodes_of(heads: Heads, lam: jax.Array, w: jax.Array) -> Nodes:
    """Evaluate what does not depend on p."""
    exponent = -lam[:, None] * heads.gap[:, None, :]
    E = jnp.exp(exponent)
    V_lo, V_hi = heads.lo * heads.v_lo, heads.hi * heads.v_hi
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
    """(9, H, L) the fields of `attn_closed_form.game.terms.TermSums` but its share, in their order, for one game."""
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


class Flip(NamedTuple):
    """One node p of one game: P, num (H, L); sigma (H, L, d)."""

    P: jax.Array
    num: jax.Array
    sigma: jax.Array


def flip(at: Nodes, p: jax.Array) -> Flip:
    """Evaluate the engine's formulas at one p, the probability that a player is present."""
    q = jnp.where(at.light, 1 - p, p)
    Y = (1 - q) + q * at.E
    sigma = 1 / Y
    # Beside a fused loop over the minor axis, which is not vectorised on a CPU, a product with ones is.
    total = (q * at.S * sigma) @ jnp.ones(Y.shape[-1], Y.dtype)
    return Flip(P=at.wt * _product(Y), num=at.N_0 - total, sigma=sigma)


def _product(Y: jax.Array) -> jax.Array:
    """Product over the last axis, by lanes where it has a multiple of them."""
    if Y.shape[-1] % LANES:
        return Y.prod(axis=-1)
    return Y.reshape(*Y.shape[:-1], -1, LANES).prod(axis=-2).prod(axis=-1)


def everyone_of(game: GameBatch) -> jax.Array:
    """F of everyone less the bias and the heads' centres, of one game: a large constant costs no digit of it."""
    heads = heads_of(game)
    v = jnp.where(jnp.isneginf(game.s), 0.0, game.v - heads.centre[:, None])
    s = jnp.concatenate([game.s, game.s_background[:, None]], axis=-1)
    return (jax.nn.softmax(s, axis=-1) * jnp.concatenate([v, heads.v_c0[:, None]], axis=-1)).sum()


def value_of(game: GameBatch, present: jax.Array) -> jax.Array:
    """F of one coalition of one game."""
    s = jnp.where(present, game.s, game.s_absent)
    v = jnp.where(present, game.v, game.v_absent)
    s = jnp.concatenate([s, game.s_background[:, None]], axis=-1)
    v = jnp.concatenate([v, game.v_background[:, None]], axis=-1)
    empty = jnp.isneginf(s).all()
    pooled = (jax.nn.softmax(jnp.where(empty, 0.0, s), axis=-1) * v).sum()
    return jnp.where(empty, game.empty_value, pooled + game.bias)
