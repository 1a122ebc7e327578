"""Exact Shapley values of probabilities, risks and losses for many games at once, on any device that JAX has.

A linked game (`attn_closed_form/game/links.py`) is a sum over poles of games with complex masses. For each game the
core chooses the poles, the nodes lam of every pole and the budget, on the host. The device then works on **rows** of
one shape, so games of any size and with any number of poles share the same two compiled programs:

1. In the first program a row is a node lam of a pole. The device computes the sums that the core's bound needs
   (`bound_sums`), from which the core's law chooses an interval of p and a number of Gauss-Legendre nodes per row.
2. In the second program a row is a node lam with NODES of its nodes in p. The device sums the first differences
   (`first_differences`).

A **lot** is ROWS rows of one pole, and a call has LOTS lots. The programs loop over blocks of players; the number of
blocks is an argument, so a call takes as long as its largest game needs. Games are sorted by size.

At a few nodes a factor Y nearly vanishes, and dividing by it would lose digits. The device marks these nodes and omits
them, and the core adds them without a division (`Vanishing`). Complex numbers are pairs of reals, because XLA
vectorizes these.

**Guarantee.** Nodes, weights and gaps of masses are the core's, computed in float64. A sum has at most NODES + ROWS
additions in a lot and MOST_LOTS lots, fewer than the 235 that step 7 of docs/what-tol-guarantees.md allows. Games with
more lots, and games that cannot keep `tol` in the floating type, are left to the core. In float32 the budget counts
every rounding error in ulps of float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import ToleranceError
from attn_closed_form._types import Array, Ids
from attn_closed_form.game.budget import budget, guaranteed_error
from attn_closed_form.game.canonical import PieceMasses, pole_pieces
from attn_closed_form.game.evaluate import LEAST_FACTOR, LEAST_MODULUS, Vanishing
from attn_closed_form.game.laws import legendre_count, legendre_rule
from attn_closed_form.game.links import LinkedGame
from attn_closed_form.game.terms import Interval, TermSums, Turn

from .budgets import ARITHMETIC, SLACK, Batched, power_of_two
from .games import each_game, on_cpu

# Rows of a lot, nodes in p of a row, players of a block, and lots at once, chosen for speed on a CPU.
ROWS = 16
NODES = 6
BLOCK = 32
LOTS_CPU = 8
# Lots per call, maximum lots of a game, and minimum number of players in arrays.
LOTS = 512
MOST_LOTS = 192
PLAYERS = 256
# Games that are planned together, which bounds the memory.
GAMES = 128
# Largest phase for which the reduction by multiples of pi/2 is exact enough.
LARGEST_PHASE = 1e6
# Masses and nodes must stay below this, so that no product overflows.
LARGEST = {np.dtype(np.float32): 1e18, np.dtype(np.float64): np.inf}
# Smallest modulus of a factor that is divided by.
LEAST = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): LEAST_MODULUS}

# pi/2 in three parts, and the coefficients of (sin r - r) / r^3 and of (cos r - 1 + r^2/2) / r^4 in powers of r^2.
HALF_PI = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
SIN = (
    -1.66666666666666307295e-1,
    8.33333333332211858878e-3,
    -1.98412698295895385996e-4,
    2.75573136213857245213e-6,
    -2.50507477628578072866e-8,
    1.58962301576546568060e-10,
)
COS = (
    4.16666666666665929218e-2,
    -1.38888888888730564116e-3,
    2.48015872888517045348e-5,
    -2.75573141792967388112e-7,
    2.08757008419747316778e-9,
    -1.13585365213876817300e-11,
)

Pair = Any  # real and imaginary part


# --- the device -----------------------------------------------------------------------------------------------------


class Lots(NamedTuple):
    """One pole per lot: real and imaginary part of the gaps of masses, whether the present state is heavier, masses.

    Arrays are (n, d). `players` (n,) is the number of players, or 0 for a lot that only fills the call.
    """

    gap: Any
    turn: Any
    heavy: Any
    present: Any
    absent: Any
    players: Any

    def block(self, k: Any) -> Lots:
        """Return the k-th block of players of one lot."""
        return Lots._make([*(_block(x, k) for x in self[:-1]), self.players])


def _times(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _cos_sin(t: jax.Array) -> Pair:
    """Compute cosine and sine to 2 ulps up to LARGEST_PHASE; in float64 three times as fast on a CPU as XLA's.

    t = k pi/2 + r with pi/2 in three parts, the first two of 33 bits, and polynomials in r (Moshier's Cephes library).
    """
    if t.dtype != jnp.float64:
        return jnp.cos(t), jnp.sin(t)
    k = jnp.floor(t * (2 / np.pi) + 0.5)
    r = ((t - k * HALF_PI[0]) - k * HALF_PI[1]) - k * HALF_PI[2]
    z = r * r
    sin = r + r * z * _polynomial(SIN, z)
    cos = 1 - 0.5 * z + z * z * _polynomial(COS, z)
    half = jnp.floor(k / 2)
    odd = k > 2 * half
    sign = 1 - 2 * (half - 2 * jnp.floor(half / 2))
    return sign * jnp.where(odd, -sin, cos), sign * jnp.where(odd, cos, sin)


def _polynomial(coefficients: Sequence[float], z: jax.Array) -> Any:
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = c + z * total
    return total


def _exponentials(lot: Lots, lam: jax.Array, blocks: Any) -> tuple[jax.Array, ...]:
    """Compute the real part, imaginary part and modulus of e^(-lam gap), (d, rows) each.

    The separate loop keeps XLA from computing them again for every node in p.
    """

    def step(k: Any, out: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        part = lot.block(k)
        size = jnp.exp(-lam * part.gap[:, None])
        (cos, sin) = _cos_sin(-lam * part.turn[:, None])
        new = (size * cos, size * sin, size)
        return tuple(
            jax.lax.dynamic_update_slice_in_dim(*both, k * BLOCK, 0)
            for both in zip(out, new, strict=True)
        )

    nothing = jnp.zeros((lot.gap.size, lam.size), lam.dtype)
    parts: tuple[jax.Array, ...] = jax.lax.fori_loop(0, blocks, step, (nothing,) * 3)
    return parts


def _block(x: jax.Array, k: Any) -> jax.Array:
    """Return the k-th block of players, the first axis."""
    return jax.lax.dynamic_slice_in_dim(x, k * BLOCK, BLOCK)


def bound_sums(lot: Lots, blocks: Any, lam: jax.Array) -> jax.Array:
    """Return (11, rows) sums over the players of one lot for the core's bound; see `_term_sums`."""
    E = _exponentials(lot, lam, blocks)

    def step(k: Any, totals: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        part = Lots(*(x[..., None] for x in lot.block(k)))
        re, im, size = (_block(x, k) for x in E)
        heavy = part.heavy
        less = 1 - re
        moved = im * im + (1 - re) ** 2
        mass = jnp.where(heavy, part.present, part.absent) * size + jnp.where(
            heavy, part.absent, part.present
        )
        groups = [
            jnp.where(which, x, 0.0)
            for x in (1 - size, less, -im, moved)
            for which in (heavy, ~heavy)
        ]
        sums = jax.lax.reduce((mass, *groups, moved, mass), (_zero(mass),) * 11, _added, (0,))
        return _added(totals, sums)

    return jnp.stack(jax.lax.fori_loop(0, blocks, step, (jnp.zeros_like(lam),) * 11))


def _zero(like: jax.Array) -> Any:
    return np.zeros((), like.dtype)


def _added(a: Any, b: Any) -> Any:
    """Sum all but the last two numbers, and take the maxima of these."""
    return (
        *(x + y for x, y in zip(a[:-2], b[:-2], strict=True)),
        *map(jnp.maximum, a[-2:], b[-2:]),
    )


def first_differences(
    lot: Lots,
    blocks: Any,
    lam: jax.Array,
    weight: jax.Array,
    n_0: jax.Array,
    p: jax.Array,
    w: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return (d,) sums of weighted first differences over the rows of one lot, and the (NODES, rows) omitted nodes.

    lam (rows,), weight (2, rows) real and imaginary parts, n_0 (), p (2, NODES, rows) nodes and what is missing to 1, w
    (NODES, rows). The letters are those of `attn_closed_form/game/evaluate.py`.
    """
    E = _exponentials(lot, lam, blocks)
    least = LEAST[np.dtype(lam.dtype)]
    zero = _zero(lam)
    one = _zero(lam) + 1

    def block(k: Any) -> tuple[Lots, list[jax.Array], Pair, Pair]:
        """Return a block of players, and (players, nodes, rows) e^(-lam gap), Y, the shares of both states in Y."""
        part = Lots(*(x[..., None, None] for x in lot.block(k)))
        E_k = [_block(x, k)[:, None] for x in E]
        heavier = jnp.where(part.heavy, p[0], p[1])
        lighter = jnp.where(part.heavy, p[1], p[0])
        return part, E_k, (lighter + heavier * E_k[0], heavier * E_k[1]), (heavier, lighter)

    def square(Y: Pair) -> jax.Array:
        return Y[0] * Y[0] + Y[1] * Y[1]

    def inverse(Y: Pair) -> Pair:
        of_square = 1 / jnp.maximum(square(Y), least**2)
        return Y[0] * of_square, -Y[1] * of_square

    def add(k: Any, sums: tuple[Pair, Pair]) -> tuple[Pair, Pair]:
        P, num = sums
        part, (re, im, size), Y, (heavier, lighter) = block(k)
        heavier_mass = jnp.where(part.heavy, part.present, part.absent) * heavier
        lighter_mass = jnp.where(part.heavy, part.absent, part.present) * lighter
        N = _times((lighter_mass + heavier_mass * re, heavier_mass * im), inverse(Y))
        vanishes = square(Y) < jnp.maximum(LEAST_FACTOR * (lighter + heavier * size), least) ** 2
        operands = (*Y, jnp.where(vanishes, jnp.nan, N[0]), N[1])
        start = (one, zero, zero, zero)
        *product, re, im = jax.lax.reduce(
            operands, start, lambda a, b: (*_times(a[:2], b[:2]), a[2] + b[2], a[3] + b[3]), (0,)
        )
        return _times(P, product), (num[0] + re, num[1] + im)

    nothing = jnp.zeros_like(w)
    start = (nothing + weight[0], nothing + weight[1]), (nothing + n_0, nothing)
    P, num = jax.lax.fori_loop(0, blocks, add, start)
    left_out = jnp.isnan(num[0])
    by_Z = [jnp.where(left_out, 0.0, w * x) for x in P]
    by_X = [jnp.where(left_out, 0.0, x) for x in _times(by_Z, num)]

    def change(k: Any, out: jax.Array) -> jax.Array:
        part, (re, im, _), Y, _ = block(k)
        sigma = inverse(Y)
        operands = (*_times(by_X, sigma), *_times(by_Z, _times(sigma, sigma)))
        X_re, X_im, Z_re, Z_im = jax.lax.reduce(
            operands, (zero,) * 4, lambda a, b: tuple(map(jnp.add, a, b)), (1,)
        )
        heavy = part.heavy[:, 0]
        mass = (part.present - part.absent)[:, 0]
        re = re[:, 0]
        im = im[:, 0]
        X = jnp.where(heavy, (re - 1) * X_re - im * X_im, (1 - re) * X_re + im * X_im)
        # A CPU vectorizes a product with ones, but not a fused sum over the last axis.
        sums = (X + mass * (re * Z_re - im * Z_im)) @ jnp.ones(lam.size, lam.dtype)
        return jax.lax.dynamic_update_slice_in_dim(out, sums, k * BLOCK, 0)

    return jax.lax.fori_loop(0, blocks, change, jnp.zeros_like(lot.gap)), left_out


# --- the host -------------------------------------------------------------------------------------------------------


class Poles(NamedTuple):
    """The poles of many games, n in all, in the order of the games.

    gap (n, d) complex; heavy (n, d), whether the present state is the heavier one; masses present and absent (n, d);
    n_0 (n,) mass of the background; light (n,) number of players that are lighter when present; players and index of
    the game (n,).
    """

    gap: Any
    heavy: Any
    present: Any
    absent: Any
    n_0: Any
    light: Any
    players: Any
    game: Any


class Terms(NamedTuple):
    """All nodes lam (r,), in the order of their poles: complex weights, and the allowed error of the rule in p."""

    pole: Any
    lam: Any
    weight: Any
    allowed: Any


def shapley(games: Sequence[LinkedGame], tol: float = 1e-10, dtype: Any = None) -> Batched:
    """Compute Shapley values of every linked game, one (d,) array each, within tol * max|g(f)|, or a problem.

    >>> from attn_closed_form import PooledGame
    >>> jax.config.update("jax_enable_x64", True)
    >>> game = PooledGame.from_scores([0.0, 1.0], [3.0, -1.0], s_background=0.0, v_background=0.0).through("sigmoid")
    >>> shapley([game]).values[0].round(4)
    array([ 0.2538, -0.2388])
    """
    dtype = np.dtype(jnp.zeros(0, dtype).dtype)
    values: list[Array] = [np.full(game.d, np.nan) for game in games]
    problems: dict[int, str] = {}
    # Small games first, so that the games of a call have similar sizes.
    order = enumerate(sorted(range(len(games)), key=lambda i: games[i].d))
    for (players, _), members in groupby(
        order, lambda item: (power_of_two(games[item[1]].d, PLAYERS), item[0] // GAMES)
    ):
        work = Work(players, dtype)
        for _, i in members:
            try:
                excess = work.add(i, games[i], tol)
            except ToleranceError as error:
                problems[i] = str(error)
            else:
                values[i] = np.full(games[i].d, -excess / games[i].d)
        for i, sums, lots in work.shapley_sums():
            values[i] += sums[: games[i].d]
            if lots > MOST_LOTS:
                values[i][:] = np.nan
                problems[i] = "too many terms for a batch; use attn_closed_form"
    errors = [
        np.nan if i in problems else guaranteed_error(game, tol) for i, game in enumerate(games)
    ]
    bases = [float(game.value(np.zeros(game.d, dtype=bool))) for game in games]
    return Batched(values, problems, np.array(bases), np.array(errors))


def _joined(parts: Sequence[Any]) -> Any:
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def _check_size(masses: PieceMasses, lam: Array, dtype: np.dtype[Any]) -> None:
    """Raise a ToleranceError if numbers leave the floating type, or phases the range in which they are reduced."""
    largest = float(np.abs(masses.gap).max())
    phase = float(lam.max()) * float(np.abs(masses.gap.imag).max())
    if not (max(largest, float(lam.max())) < LARGEST[dtype] and phase < LARGEST_PHASE):
        raise ToleranceError(f"games: masses or phases leave {dtype}; use attn_closed_form")


def _poles(masses: PieceMasses, game: int, players: int) -> Poles:
    """Return the poles of one tier of one game, padded to a number of players."""
    n, d = masses.gap.shape

    def pad(x: Any, kind: Any) -> Any:
        out = np.zeros((n, players), kind)
        out[:, :d] = x
        return out

    # Without a gap, both states are marked as the lighter one, and the choice does not matter.
    heavy = pad(masses.lighter[:, 0] == 0, bool)
    present, absent = (pad(masses.V[:, k], float) for k in (0, 1))
    n_players = np.full(n, d)
    whose = np.full(n, game)
    return Poles(
        pad(masses.gap, complex),
        heavy,
        present,
        absent,
        masses.n_0,
        masses.players_light,
        n_players,
        whose,
    )


class Work:
    """The poles and terms of games with up to `players` players, and the two programs that sum them up."""

    def __init__(self, players: int, dtype: np.dtype[Any]) -> None:
        self.players = players
        self.dtype = dtype
        self.count = 0
        self.parts: list[tuple[Poles, Terms]] = []

    def add(self, i: int, game: LinkedGame, tol: float) -> float:
        """Add the i-th game, or raise a ToleranceError.

        The result is g of the empty coalition minus what the sums count for it, if it has no mass.
        """
        engine = game.within(tol)
        goal = budget(engine, tol, arithmetic=ARITHMETIC[self.dtype])
        pieces = list(pole_pieces(engine, goal.eps))
        for masses, lam, *_ in pieces:
            _check_size(masses, lam, self.dtype)
        for masses, lam, w, own, total in pieces:
            weight = w * np.exp(-lam * masses.D_0[own])
            terms = Terms(self.count + own, lam, weight, np.full(lam.size, goal.p_error / total))
            self.parts.append((_poles(masses, i, self.players), terms))
            self.count += len(masses.D_0)
        return engine.empty_excess

    def shapley_sums(self) -> Iterator[tuple[int, Array, int]]:
        """Yield every game that has poles, the sum of its terms (players,), and its number of lots."""
        if not self.parts:
            return
        poles, terms = map(_joined, zip(*self.parts, strict=True))
        rows = self.rows(poles, terms)
        lots = Places.of(terms.pole[rows.term])
        weight = terms.weight[rows.term]
        arrays = [
            lots.placed(terms.lam[rows.term]),
            np.stack([lots.placed(weight.real), lots.placed(weight.imag)], axis=1),
            poles.n_0[lots.pole],
            np.stack([lots.placed(rows.p, 0.5), lots.placed(1 - rows.p, 0.5)], axis=1),
            lots.placed(rows.w),
        ]
        sums, left_out = self.call(first_differences, poles, lots.pole, arrays)
        exact = dict(_vanishing(poles, terms, rows, lots, left_out))
        game = poles.game[lots.pole]
        first = np.flatnonzero(np.diff(game, prepend=-1))
        counts = np.diff(first, append=game.size).tolist()
        totals = np.add.reduceat(sums.astype(np.float64), first)
        for i, total, count in zip(game[first].tolist(), totals, counts, strict=True):
            yield i, total + exact.get(i, 0.0), count

    def call(self, function: Any, poles: Poles, pole: Ids, arrays: Sequence[Array]) -> list[Array]:
        """Apply the function to every lot, whose poles are these (lots,); `arrays` have one entry per lot."""

        def whole(x: Array) -> jax.Array:
            full = np.zeros((LOTS, *x.shape[1:]), self.dtype if x.dtype.kind == "f" else x.dtype)
            full[: len(x)] = x
            return jnp.asarray(full)

        results = []
        for start in range(0, len(pole), LOTS):
            part = Poles(*(x[pole[start : start + LOTS]] for x in poles))
            lots = Lots(
                part.gap.real, part.gap.imag, part.heavy, part.present, part.absent, part.players
            )
            rows = [whole(x[start : start + LOTS]) for x in arrays]
            blocks = np.int32(-(-part.players.max() // BLOCK))
            chunk = LOTS_CPU if on_cpu() else None
            found = each_game(function, Lots(*map(whole, lots)), (blocks,), *rows, chunk=chunk)
            results.append([np.asarray(x)[: len(part.game)] for x in jax.tree.leaves(found)])
        return [np.concatenate(parts) for parts in zip(*results, strict=True)]

    def rows(self, poles: Poles, terms: Terms) -> Rows:
        """Return nodes in p for every term, by the core's law, in rows of NODES."""
        interval, counts = self.law(poles, terms)
        length = interval.last - interval.first
        parts = [Rows(np.zeros(0, np.intp), np.zeros((0, NODES)), np.zeros((0, NODES)))]
        for m in np.unique(counts[length > 0]).tolist():
            which = np.flatnonzero((counts == m) & (length > 0))
            x, w = legendre_rule(m)
            more = (0, -m % NODES)
            nodes = np.pad(x, more, constant_values=0.5)
            weights = np.pad(w, more)
            p = interval.first[which, None] + length[which, None] * nodes
            weights = length[which, None] * weights
            each = (x.reshape(-1, NODES) for x in (p, weights))
            parts.append(Rows(np.repeat(which, nodes.size // NODES), *each))
        rows: Rows = _joined(parts)
        order = np.argsort(rows.term, kind="stable")
        return Rows(*(x[order] for x in rows))

    def law(self, poles: Poles, terms: Terms) -> tuple[Interval, Ids]:
        """Return the interval of every term, and the number of nodes on it."""
        lots = Places.of(terms.pole)
        (found,) = self.call(bound_sums, poles, lots.pole, [lots.placed(terms.lam)])
        found = found[lots.lot, :, lots.lane].T.astype(np.float64)
        players, heavy, light, re_heavy, re_light, im_heavy, im_light, *second, change, largest = (
            found
        )
        turn = Turn(
            np.array([re_heavy + 1j * im_heavy, re_light + 1j * im_light]), np.array(second)
        )
        d = poles.players[terms.pole]
        d_light = poles.light[terms.pole]
        # In units of the error that is allowed to each term, it is 1 for all games.
        weight = np.abs(terms.weight) / terms.allowed * np.exp(SLACK[self.dtype])
        sums = TermSums(
            weight=weight,
            background=poles.n_0[terms.pole],
            players=players,
            heavy=heavy,
            light=light,
            players_heavy=d - d_light,
            players_light=d_light,
            largest_change=np.sqrt(change),
            largest_player=largest,
            share=1.0,
            turn=turn,
        )
        interval, counts = legendre_count(sums, int(d.max()) - 1, float(d.size), differences=True)
        return interval, np.minimum(counts, (d - 1) // 2 + 1)


def _vanishing(
    poles: Poles, terms: Terms, rows: Rows, lots: Places, left_out: Array
) -> Iterator[tuple[int, Array]]:
    """Yield the contribution of the nodes that the device omitted to the sums of a game (players,), by the core."""
    lot, node, lane = np.nonzero(left_out)
    row = lots.row[lot, lane]
    row, node = row[rows.w[row, node] != 0], node[rows.w[row, node] != 0]
    term = rows.term[row]
    game = poles.game[terms.pole[term]]
    for i in np.unique(game).tolist():
        mine = game == i
        t = term[mine]
        p = rows.p[row[mine], node[mine]]
        w = rows.w[row[mine], node[mine]]
        part = Poles(*(x[terms.pole[t]] for x in poles))
        E = np.exp(-terms.lam[t, None] * part.gap)
        factor = np.stack([np.where(part.heavy, E, 1.0), np.where(part.heavy, 1.0, E)], axis=1)
        V = np.stack([part.present, part.absent], axis=1)
        which = np.arange(t.size)
        exact = Vanishing(which, which, terms.weight[t], p, factor, V, part.n_0)
        yield i, (w @ exact.products()[1]).real


class Rows(NamedTuple):
    """Terms with NODES of their nodes in p each: the term (n,), nodes and weights (n, NODES)."""

    term: Any
    p: Any
    w: Any


class Places(NamedTuple):
    """Positions of rows: lot and lane of each (n,), the pole of each lot, the row at each place (lots, ROWS)."""

    lot: Ids
    lane: Ids
    pole: Ids
    row: Ids

    @classmethod
    def of(cls, pole: Ids) -> Places:
        """Return the places of rows of these poles, in ascending order."""
        first = np.flatnonzero(np.diff(pole, prepend=-1))
        counts = np.diff(first, append=pole.size)
        lots = -(-counts // ROWS)
        rank = np.arange(pole.size) - np.repeat(first, counts)
        lot = np.repeat(np.cumsum(lots) - lots, counts) + rank // ROWS
        row = np.zeros((int(lots.sum()), ROWS), np.intp)
        row[lot, rank % ROWS] = np.arange(pole.size)
        return cls(lot, rank % ROWS, np.repeat(pole[first], lots), row)

    def placed(self, x: Array, filler: float = 0.0) -> Array:
        """Return the entries of rows (n, ...) at their places, (lots, ..., ROWS)."""
        out = np.full((len(self.pole), *x.shape[1:], ROWS), filler)
        out[self.lot, ..., self.lane] = x
        return out
