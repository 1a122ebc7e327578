"""Rows: everything of a game that does not depend on p, one row for each node lam of each head (see `engine.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._types import Array, Ids
from .budget import Budget
from .heads import (
    PieceMasses,
    common_rule,
    groups_of,
    head_masses,
    heads_of,
    masses_of,
    pieces_of,
    ranges_of,
    scales_of,
)
from .pooled_game import PooledGame

# Elements of one working array, rows times players: about what a core's caches hold.
ROW_ELEMENTS = 1 << 17
# Rows of a chunk: their sum loses at most as many ulps.
MOST_ROWS = 128
# Where the sums of 1 - x and 1 - y of some rows both reach this, their bounds look at both groups of players together.
CLOSER = 1.0


class Rows(NamedTuple):
    """Some nodes lam of some heads, r of them. Where an axis has length 2, it is the players present, then absent."""

    lam: Array  # (r,)
    weight: Array  # (r,) w e^(-lam D_0)
    n_0: Array  # (r,)
    factor: Array  # (r, 2, d) x and y
    less: Array | None  # (r, 2, d) x - 1 and y - 1 with all of their digits, where the budget asks for precision
    T: Array  # (r, 2, d)
    S: Array  # (r, d)
    difference: Array  # (r, d) x - y
    largest_change: Array  # (r,) largest |x - y| of a player
    sums: RowSums
    masses: PieceMasses  # of the pieces that the rows belong to
    own: Ids  # (r,) which piece

    def pick(self, which: Ids | slice) -> Rows:
        """Some of the rows; their sums stay as they are."""
        if isinstance(which, slice) and which == slice(None):
            return self
        less = None if self.less is None else self.less[which]
        return self._replace(
            less=less,
            **{name: getattr(self, name)[which] for name in PER_ROW},
        )


# The arrays of `Rows` with one entry per row.
PER_ROW = ("lam", "weight", "n_0", "factor", "T", "S", "difference", "largest_change", "own")


class RowSums(NamedTuple):
    """What a plan may look at, one entry per row, (r,) each. The first three say how large the numerators can be."""

    weight: Array  # w e^(-lam D_0)
    background: Array  # |n_0|
    players: Array  # sum over the players of x |A| + y |B|
    heavy: Array  # sum of 1 - x: over the players that are heavy when present
    heavy_squares: Array | None  # the same of squares; None where the light or the heavy players hardly change
    light: Array  # sum of 1 - y: over those that are light when present
    light_squares: Array | None
    players_heavy: Array  # how many they are
    players_light: Array
    share: float  # part of all rows that these are: of an allowed error they may make this part
    largest_change: Array | None = None  # largest |x - y| of a player
    largest_player: Array | None = None  # largest x |A| + y |B| of a player


def rows_of(game: PooledGame, goal: Budget, elements: int = ROW_ELEMENTS) -> Iterator[Rows]:
    """All rows of all heads, in chunks whose arrays (rows times players) have at most about `elements` elements."""
    masses = head_masses(game)
    if not len(masses.D_0):
        return
    step = max(1, min(MOST_ROWS, elements // game.d))
    ranges = ranges_of(game, masses)
    common = common_rule(ranges, goal.eps)
    if common is not None:
        yield from _chunks(masses, *common, common[0].size, step, goal.precise)
        return
    # Long ranges come in pieces with units of mass of their own.
    heads, pieces = heads_of(game), pieces_of(scales_of(game, ranges), goal.eps)
    total = sum(piece.lam.size for piece in pieces)
    for group in groups_of(pieces, game.d):
        masses = masses_of(heads, [piece.head for piece in group], np.array([piece.unit for piece in group]))
        lam = np.concatenate([piece.lam for piece in group])
        w = np.concatenate([piece.w for piece in group])
        own = np.repeat(np.arange(len(group)), [piece.lam.size for piece in group])
        yield from _chunks(masses, lam, w, own, total, step, goal.precise)


def _chunks(
    masses: PieceMasses, lam: Array, w: Array, own: Ids, total: int, step: int, precise: bool
) -> Iterator[Rows]:
    for start in range(0, lam.size, step):
        part = slice(start, start + step)
        yield _rows(masses, own[part], lam[part], w[part], total, precise)


def _rows(masses: PieceMasses, own: Ids, lam: Array, w: Array, total: int, precise: bool) -> Rows:
    weight, n_0 = w * np.exp(-lam * masses.D_0[own]), masses.n_0[own]
    exponent = masses.gap[own]
    exponent *= -lam[:, None]
    factor = masses.lighter[own]
    # e^(-lam gap) for the heavier state, 1 for the lighter one.
    np.maximum(factor, np.exp(exponent)[:, None], out=factor)
    less = np.expm1(exponent, out=exponent)[:, None] * (1 - masses.lighter[own]) if precise else None
    largest_change = 1 - np.exp(-lam * np.maximum.reduce(masses.gap, axis=1)[own])
    x, y = factor[:, 0], factor[:, 1]
    T = masses.V[own]
    S = T[:, 0] - T[:, 1]
    S *= x
    if masses.some_light:
        S *= y
    T *= factor
    return Rows(
        lam=lam,
        weight=weight,
        n_0=n_0,
        factor=factor,
        less=less,
        T=T,
        S=S,
        difference=x - y if less is None else less[:, 0] - less[:, 1],
        largest_change=largest_change,
        sums=row_sums(weight, n_0, factor, T, largest_change, masses.players_light[own], lam.size / total),
        masses=masses,
        own=own,
    )


def row_sums(
    weight: Array, n_0: Array, factor: Array, T: Array, largest_change: Array, players_light: Array, share: float
) -> RowSums:
    """The sums of rows with these arrays, named as in `Rows` and `RowSums`.

    Sums of 1 - x are taken as d less the sum of x: their rounding, d ulps, is nothing beside the factors of the bounds.
    """
    r, _, d = factor.shape
    each = np.abs(T[:, 0])
    each += np.abs(T[:, 1])
    flat = factor.reshape(2 * r, d)
    sums = np.add.reduce(flat, axis=1).reshape(r, 2)
    change = np.maximum(d - sums, 0.0)
    squares: list[Array | None] = [None, None]
    if min(np.maximum.reduce(change, axis=0).tolist()) >= CLOSER:
        both = np.maximum(np.einsum("rd,rd->r", flat, flat).reshape(r, 2) + (d - 2 * sums), 0.0)
        squares = [both[:, 0], both[:, 1]]
    return RowSums(
        weight=weight,
        background=np.abs(n_0),
        players=np.add.reduce(each, axis=1),
        heavy=change[:, 0],
        heavy_squares=squares[0],
        light=change[:, 1],
        light_squares=squares[1],
        players_heavy=d - players_light,
        players_light=players_light,
        share=share,
        largest_change=largest_change,
        largest_player=np.maximum.reduce(each, axis=1),
    )
