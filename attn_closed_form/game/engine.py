"""Mean values of a pooled game when every player is present with probability p, independently: exact, in O(L m d).

This is the engine behind Shapley values, other semivalues, interactions and the limit of LIME. In a head (see
`heads.py`) let each player have a light state (mass lo) and a heavy one (mass hi = lo + gap), q the probability of the
heavy one, and

    E = e^(-lam gap),  G = 1 - E,  Y = 1 - q G = (1 - q) + q E,  sigma = 1/Y,  V = mass value,  S = E (V_lo - V_hi).

With 1/D = sum_l w_l e^(-lam_l D) (`quadrature.py`), P = w e^(-lam D_0) prod_k Y_k, D_0 the mass that is always there,
and N_0 the mass times value of the background and of all light states,

    num       = N_0 - sum_k q_k S_k sigma_k
    E_p[f]    = sum_l P num
    Delta_j   = E_p[f | j light] - E_p[f | j heavy] = sum_l P [ X_j num + Z_j ],   X = G sigma,   Z = S sigma^2
    I_ij      = second difference in i, j = sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ].

E, G and S do not depend on p, and num takes one sum over the players. Values are centred in each head first.

One node lam of one head is a **row**; rows of all heads go through together, as an array axis, in chunks. What is
summed over p is up to a **plan**: from what is known of the rows (`RowSums`) it makes batches of rows with nodes p and
weights. `node_counts.py` has the plans: `uniform_plan` integrates over p with a rule of its own for every row,
`fixed_plan` takes given nodes and weights, `shared_plan` asks for one rule per chunk of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids
from .arithmetic import BATCH_ELEMENTS, add_nodes, contract, factors, precise_product, product, workspace
from .budget import Budget
from .heads import Piece, PieceMasses, groups_of, heads_of, masses_of, pieces_of, scales_of
from .pooled_game import PooledGame

# Elements of one working array, rows times players: about what a core's caches hold.
ROW_ELEMENTS = 1 << 17
# Rows of a chunk: their sum loses at most as many ulps.
MOST_ROWS = 128


class Rows(NamedTuple):
    """Some nodes lam of some heads (r of them): everything that does not depend on p. Arrays are (r, d) or (r,)."""

    weight: Array  # w e^(-lam D_0)
    N_0: Array
    E: Array
    G: Array
    S_heavy: Array  # S of the players that are heavy when present (q = p), 0 for the others
    S_light: Array | None  # S of those that are light when present (q = 1 - p); None if there is none
    light: NDArray[np.bool_] | None  # (r, d); None if there is none
    sums: RowSums
    masses: PieceMasses  # of the pieces that the rows belong to
    own: Ids  # (r,) which piece


class RowSums(NamedTuple):
    """What a plan may look at, one entry per row, (r,) each."""

    weight: Array  # w e^(-lam D_0) times the largest |value| of the head
    background: Array  # mass of the background
    players: Array  # sum_k (lo + hi E)
    heavy: Array  # sum of G over the players that are heavy when present
    heavy_squares: Array
    light: Array  # the same over those that are light when present
    light_squares: Array
    players_heavy: Array  # how many they are
    players_light: Array
    share: float  # part of all rows that these are: of an allowed error they may make this part
    largest_change: Array | None = None  # largest G of a player
    largest_player: Array | None = None  # bound of the largest lo + hi E of a player


class Batch(NamedTuple):
    """Rows (indices into a chunk) with m nodes each, and any number of weights for E_p[f] and for Delta_j.

    p : (m, r) or (m, 1); w_mean : (a, m, r) or (a, m, 1); w_delta : (b, m, r) or (b, m, 1)
    """

    rows: Ids | slice
    p: Array
    w_mean: Array
    w_delta: Array


Plan = Callable[[RowSums], list[Batch]]


class Flips(NamedTuple):
    """Rows at nodes p: P, num (m, r), and sigma (m, r, d)."""

    P: Array
    num: Array
    sigma: Array


def rows_of(game: PooledGame, goal: Budget, elements: int = ROW_ELEMENTS) -> Iterator[Rows]:
    """All rows of all heads, in chunks whose arrays (rows times players) have at most about `elements` elements."""
    heads = heads_of(game)
    scales, masses = scales_of(heads)
    pieces = pieces_of(scales, goal.eps)
    total = sum(piece.lam.size for piece in pieces)
    if masses is not None and len(pieces) == len(scales):
        yield from _rows(pieces, masses, total, elements)
        return
    for group in groups_of(pieces, game.d):
        units = np.array([piece.unit for piece in group])
        yield from _rows(group, masses_of(heads, [piece.head for piece in group], units), total, elements)


def _rows(pieces: list[Piece], masses: PieceMasses, total: int, elements: int) -> Iterator[Rows]:
    lam = np.concatenate([piece.lam for piece in pieces])
    w = np.concatenate([piece.w for piece in pieces])
    owner = np.repeat(np.arange(len(pieces)), [piece.lam.size for piece in pieces])
    some_light = bool(masses.light.any())
    # Present is light: + for the difference present minus absent.
    dV = masses.V_lo - masses.V_hi
    hi = masses.lo + masses.gap
    lo_sum = np.add.reduce(masses.lo, axis=1)
    step = max(1, min(MOST_ROWS, elements // masses.gap.shape[1]))
    for start in range(0, lam.size, step):
        here, own = lam[start : start + step], owner[start : start + step]
        exponent = masses.gap[own]
        exponent *= -here[:, None]
        E = np.exp(exponent)
        G = -np.expm1(exponent, out=exponent)
        S = dV[own]
        S *= E
        light = masses.light[own] if some_light else None
        weight = w[start : start + step] * np.exp(-here * masses.D_0[own])
        yield Rows(
            weight=weight,
            N_0=masses.N_0[own],
            E=E,
            G=G,
            S_heavy=S if light is None else np.where(light, 0.0, S),
            S_light=None if light is None else np.where(light, S, 0.0),
            light=light,
            sums=_sums(masses, own, weight, E, G, hi, lo_sum, light, here.size / total),
            masses=masses,
            own=own,
        )


def _sums(
    masses: PieceMasses,
    own: Ids,
    weight: Array,
    E: Array,
    G: Array,
    hi: Array,
    lo_sum: Array,
    light: NDArray[np.bool_] | None,
    share: float,
) -> RowSums:
    heavy_mass = hi[own]
    heavy_mass *= E
    total, squares = np.add.reduce(G, axis=1), np.einsum("rd,rd->r", G, G)
    if light is None:
        light_sum = light_squares = count = np.zeros(own.size)
    else:
        G_light = np.where(light, G, 0.0)
        light_sum, light_squares = np.add.reduce(G_light, axis=1), np.einsum("rd,rd->r", G_light, G_light)
        count = masses.light.sum(axis=1)[own].astype(np.float64)
    return RowSums(
        weight=weight * masses.half_range[own],
        background=masses.background[own],
        players=np.add.reduce(heavy_mass, axis=1) + lo_sum[own],
        heavy=np.maximum(total - light_sum, 0.0),
        heavy_squares=np.maximum(squares - light_squares, 0.0),
        light=light_sum,
        light_squares=light_squares,
        players_heavy=G.shape[1] - count,
        players_light=count,
        largest_change=np.maximum.reduce(G, axis=1),
        largest_player=np.maximum.reduce(heavy_mass, axis=1) + masses.lo.max(axis=1)[own],
        share=share,
    )


def flip(rows: Rows, which: Ids | slice, p: Array, precise: bool) -> Flips:
    """Evaluate the formulas of the module docstring for the rows `which` at nodes p (m, r) or (m, 1).

    sigma lies in memory that the next call of this thread uses again.
    """
    E, G, S_heavy = rows.E[which], rows.G[which], rows.S_heavy[which]
    light = None if rows.light is None else rows.light[which]
    r, d = E.shape
    p = p.T if p.shape[1] == r else np.broadcast_to(p.T, (r, len(p)))
    Y, spare = workspace((r, p.shape[1], d))
    factors(E, G, light, p, Y)
    every = precise_product(Y, G, light, p[:, :, None]) if precise else product(Y, spare)
    sigma = np.divide(1.0, Y, out=Y)
    num = rows.N_0[which][:, None] - p * contract(sigma, S_heavy, precise)
    if rows.S_light is not None:
        num -= (1 - p) * contract(sigma, rows.S_light[which], precise)
    return Flips((every * rows.weight[which][:, None]).T, num.T, sigma.transpose(1, 0, 2))


def integrate(game: PooledGame, goal: Budget, plan: Plan) -> tuple[Array, Array]:
    """Weighted sums over p of E_p[f] - base and of Delta_j(p) (present minus absent), all heads together.

    f of a coalition without any mass counts as `game.base`: the caller puts that right (`game.empty_excess`).

    Parameters
    ----------
    game : PooledGame
    goal : from `budget`
    plan : nodes and weights in p, see the module docstring

    Returns
    -------
    (a,), (b, d) : one entry per set of weights for means, one row per set of weights for differences

    Examples
    --------
    >>> from .budget import budget
    >>> from .node_counts import fixed_plan
    >>> game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> half = fixed_plan([0.5], w_mean=[[1.0]], w_delta=[[1.0]])
    >>> mean, delta = integrate(game, budget(game, 1e-10), half)
    >>> float(mean[0] + game.base).__round__(6), delta.round(6)      # the mean of 0, 1/2, 3/2, 4/3; Banzhaf values
    (0.833333, array([[0.166667, 1.166667]]))
    """
    mean: Array = np.zeros(0)
    delta: Array = np.zeros((0, game.d))
    for rows in rows_of(game, goal):
        for batch in plan(rows.sums):
            if not delta.shape[0] and not mean.size:
                mean, delta = np.zeros(len(batch.w_mean)), np.zeros((len(batch.w_delta), game.d))
            for part in parts(batch, game.d):
                one_mean, one_delta = evaluate(rows, part, goal.precise)
                mean += one_mean
                delta += one_delta
    return np.ldexp(mean, game.exponent), np.ldexp(delta, game.exponent)


def parts(batch: Batch, d: int) -> Iterator[Batch]:
    """The batch in parts of few nodes, so that a working array stays small."""
    m = len(batch.p)
    r = batch.w_delta.shape[2] if isinstance(batch.rows, slice) else batch.rows.size
    step = max(1, BATCH_ELEMENTS // max(1, r * d))
    if step >= m:
        yield batch
        return
    for start in range(0, m, step):
        part = slice(start, start + step)
        yield Batch(batch.rows, batch.p[part], batch.w_mean[:, part], batch.w_delta[:, part])


def evaluate(rows: Rows, batch: Batch, precise: bool) -> tuple[Array, Array]:
    """The sums of `integrate` over one batch."""
    P, num, sigma = flip(rows, batch.rows, batch.p, precise)
    Pn = P * num
    mean = np.add.reduce(np.add.reduce(batch.w_mean * Pn, axis=2), axis=1) if len(batch.w_mean) else np.zeros(0)
    if not len(batch.w_delta):
        return mean, np.zeros((0, sigma.shape[2]))
    m, r, d = sigma.shape
    _, spare = workspace((r, m, d))
    squares = np.multiply(sigma, sigma, out=spare.transpose(1, 0, 2))
    delta = np.empty((len(batch.w_delta), d))
    for k, w in enumerate(batch.w_delta):
        delta[k] = change(rows, batch.rows, w * Pn, w * P, sigma, squares)
    return mean, delta


def change(rows: Rows, which: Ids | slice, by_X: Array, by_Z: Array, sigma: Array, squares: Array) -> Array:
    """(d,) sum over nodes and rows of by_X X_j + by_Z Z_j, with the sign of present minus absent."""
    X, Z = add_nodes(by_X, sigma), add_nodes(by_Z, squares)
    X *= rows.G[which]
    if rows.light is None or rows.S_light is None:
        Z *= rows.S_heavy[which]
        X += Z
        return -np.add.reduce(X, axis=0)
    Z *= rows.S_heavy[which] + rows.S_light[which]
    X += Z
    return np.add.reduce(np.where(rows.light[which], X, -X), axis=0)
