"""The terms of a game: everything that does not depend on p, and a bound of each term for complex p.

A **term** is one node lam of the rule for 1/D in one head (one tier of it, see `pieces.py`). For a player let x =
e^(-lam excess) when it is present and y the same when it is absent (one of the two is 1), A and B its mass times value
when present and when absent, and T = (x A, y B), S = x y (A - B). `evaluate.py` sums over terms and over p.

**The bound.** The number of nodes in p follows from a bound of each term for complex p on the Bernstein ellipse with
parameter e^theta around an interval,

    M = w e^(-lam D_0) e^T [ |n_0| + b sum_k (x_k |A_k| + y_k |B_k|) ],   b the largest of |p|, |1 - p| and 1,

with T = sum over groups of n log(1 + u mean(g)), g = |x - y|: the n players that are heavy when present, with u how far
the ellipse reaches beyond 0, and those that are light, with u how far it reaches beyond 1. For Delta_j and I_ij the
bracket may be replaced by max_k |x_k - y_k| [ ... ] + 2 max_k (x_k |A_k| + y_k |B_k|). E_p[f 1{j present}] is at most
(1 + c)/2 M, c = cosh(theta). Proofs: docs/theory/bounds-of-the-engine.md, "Terms".

**Poles** (`links.py`). A linked game has complex terms, one per pole and node lam: x = e^(-lam Q) with the Q of the
state whose real part is larger, relative to the other state, and masses in place of masses times values. One of x
and y is 1, so Y = 1 - p g or 1 - (1 - p) g with a complex g. The product of all |Y_k| is at most (1 + H/d)^(d/2), H a
bound of the sum of all |Y_k|^2 - 1 on the ellipse, where it is k_0 + k_1 cos(phi) + k_2 sin(phi) + k_3 cos(phi)^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._types import Array, Ids
from ..links import PoleGame
from ..pooled_game import PooledGame
from .budget import Budget
from .pieces import (
    PieceMasses,
    common_rule,
    groups_of,
    head_masses,
    heads_of,
    masses_of,
    pieces_of,
    pole_pieces,
    ranges_of,
    scales_of,
)

# Elements of one working array (terms times players), which about fits into a core's caches.
CHUNK_ELEMENTS = 1 << 17
# Terms of a chunk: their sum loses at most as many ulps.
MOST_TERMS = 128
# The same for complex terms, which are added up MOST_TERMS at a time: larger chunks have fewer batches.
MOST_COMPLEX_TERMS = 512
# The ellipses to try.
THETA = np.geomspace(0.02, 4.0, 16)
COSH = np.cosh(THETA)
TINY = np.finfo(float).tiny
# Maximum number of players omitted from a product: two in I_ij, and the player of the numerator.
LEFT_OUT = 3


class Turn(NamedTuple):
    """Sums over the players for complex terms, (2, r): those that are heavy when present, then those that are light."""

    first: Array  # sum of g, complex
    second: Array  # sum of |g|^2


class TermSums(NamedTuple):
    """The sums that a law may use, one entry per term, (r,) each. The first three bound the numerators."""

    weight: Array  # w e^(-lam D_0)
    background: Array  # |n_0|
    players: Array  # sum over the players of x |A| + y |B|
    heavy: Array  # sum of 1 - x: over the players that are heavy when present
    light: Array  # sum of 1 - y: over those that are light when present
    players_heavy: Array  # the number of these players
    players_light: Array
    largest_change: Array  # largest |x - y| of a player
    largest_player: Array  # largest x |A| + y |B| of a player
    share: float  # share of these terms in all terms, and of the allowed error
    turn: Turn | None = None  # for complex terms; the other sums are then of moduli


class Terms(NamedTuple):
    """Some terms, r of them. If an axis has length 2, it is the players present, then absent."""

    lam: Array  # (r,)
    weight: Array  # (r,) w e^(-lam D_0)
    n_0: Array  # (r,)
    factor: Array  # (r, 2, d) x and y
    less: (
        Array | None
    )  # (r, 2, d) x - 1 and y - 1 with all of their digits, if the budget requires precision
    T: Array  # (r, 2, d)
    S: Array  # (r, d)
    difference: Array  # (r, d) x - y
    largest_change: Array  # (r,) largest |x - y| of a player
    sums: TermSums
    masses: PieceMasses  # of the pieces that the terms belong to
    own: Ids  # (r,) which piece

    def pick(self, which: Ids | slice) -> Terms:
        """Return some of the terms; their sums are unchanged."""
        if isinstance(which, slice) and which == slice(None):
            return self
        if self.less is None:
            less = None
        else:
            less = self.less[which]
        return self._replace(less=less, **{name: getattr(self, name)[which] for name in PER_TERM})


# The arrays of `Terms` with one entry per term.
PER_TERM = ("lam", "weight", "n_0", "factor", "T", "S", "difference", "largest_change", "own")


def terms_of(
    game: PooledGame | PoleGame, goal: Budget, elements: int = CHUNK_ELEMENTS
) -> Iterator[Terms]:
    """Yield all terms of a game, in chunks whose arrays (terms times players) have about `elements` elements."""
    if isinstance(game, PoleGame):
        step = max(1, min(MOST_COMPLEX_TERMS, elements // game.d))
        for masses, lam, w, own, total in pole_pieces(game, goal.eps):
            yield from _chunks(masses, lam, w, own, total, step, False)
        return
    masses = head_masses(game)
    if not len(masses.D_0):
        return
    step = max(1, min(MOST_TERMS, elements // game.d))
    ranges = ranges_of(game, masses)
    common = common_rule(ranges, goal.eps)
    if common is not None:
        yield from _chunks(masses, *common, common[0].size, step, goal.precise)
        return
    # Long ranges are split into pieces, each with a separate unit of mass.
    heads = heads_of(game)
    pieces = pieces_of(scales_of(game, ranges), goal.eps)
    total = sum(piece.lam.size for piece in pieces)
    for group in groups_of(pieces, game.d):
        masses = masses_of(
            heads, [piece.head for piece in group], np.array([piece.unit for piece in group])
        )
        lam = np.concatenate([piece.lam for piece in group])
        w = np.concatenate([piece.w for piece in group])
        own = np.repeat(np.arange(len(group)), [piece.lam.size for piece in group])
        yield from _chunks(masses, lam, w, own, total, step, goal.precise)


def _chunks(
    masses: PieceMasses, lam: Array, w: Array, own: Ids, total: int, step: int, precise: bool
) -> Iterator[Terms]:
    for start in range(0, lam.size, step):
        part = slice(start, start + step)
        yield terms_for(masses, own[part], lam[part], w[part], total, precise)


def terms_for(
    masses: PieceMasses, own: Ids, lam: Array, w: Array, total: int, precise: bool
) -> Terms:
    """Return the terms of nodes lam with weights w (r,) of the pieces `own`, out of `total` terms of the game."""
    weight = w * np.exp(-lam * masses.D_0[own])
    n_0 = masses.n_0[own]
    exponent = masses.gap[own]
    exponent *= -lam[:, None]
    # e^(-lam gap) for the heavier state, 1 for the lighter one.
    factor = masses.lighter[own]
    if np.iscomplexobj(exponent):
        factor = np.where(factor, 1.0, np.exp(exponent)[:, None])
    else:
        np.maximum(factor, np.exp(exponent)[:, None], out=factor)
    if precise:
        less = np.expm1(exponent, out=exponent)[:, None] * (1 - masses.lighter[own])
    else:
        less = None
    x = factor[:, 0]
    y = factor[:, 1]
    T = masses.V[own]
    S = (T[:, 0] - T[:, 1]) * x
    if masses.some_light:
        S *= y
    T = T * factor
    if less is None:
        difference = x - y
    else:
        difference = less[:, 0] - less[:, 1]
    if np.iscomplexobj(factor):
        largest_change = np.maximum.reduce(np.abs(difference), axis=1)
    else:
        largest_change = 1 - np.exp(-lam * np.maximum.reduce(masses.gap, axis=1)[own])
    sums = term_sums(
        weight, n_0, factor, T, largest_change, masses.players_light[own], lam.size / total
    )
    return Terms(
        lam, weight, n_0, factor, less, T, S, difference, largest_change, sums, masses, own
    )


def term_sums(
    weight: Array,
    n_0: Array,
    factor: Array,
    T: Array,
    largest_change: Array,
    players_light: Array,
    share: float,
) -> TermSums:
    """Return the sums of terms with these arrays, named as in `Terms` and `TermSums`.

    Sums of 1 - x are taken as d minus the sum of x: their rounding, d ulps, is negligible in the bounds.
    """
    r, _, d = factor.shape
    turn = None
    if np.iscomplexobj(factor):
        change = 1 - factor
        turn = Turn(
            np.add.reduce(change, axis=2).T,
            np.add.reduce(change.real**2 + change.imag**2, axis=2).T,
        )
        weight = np.abs(weight)
        factor = np.abs(factor)
    each = np.abs(T[:, 0])
    each += np.abs(T[:, 1])
    change = np.maximum(d - np.add.reduce(factor.reshape(2 * r, d), axis=1).reshape(r, 2), 0.0)
    return TermSums(
        weight=weight,
        background=np.abs(n_0),
        players=np.add.reduce(each, axis=1),
        heavy=change[:, 0],
        light=change[:, 1],
        players_heavy=d - players_light,
        players_light=players_light,
        largest_change=largest_change,
        largest_player=np.maximum.reduce(each, axis=1),
        share=share,
        turn=turn,
    )


class Interval(NamedTuple):
    """The interval on which a term matters: p_0, p_1 (r,); terms that never matter have p_0 = p_1."""

    first: Array
    last: Array


WHOLE = Interval(np.zeros(1), np.ones(1))


def log_bound(
    sums: TermSums, interval: Interval = WHOLE, differences: bool = False, theta: Array = THETA
) -> Array:
    """Return the (r, n) log of the bound M of each term on the ellipses `theta` (n,) around its interval.

    With `differences` the smaller one that holds for Delta_j and I_ij, but not for E_p[f].
    """
    middle = (interval.first + interval.last)[:, None] / 2
    reach = (interval.last - interval.first)[:, None] / 2 * np.cosh(theta)
    left = middle - reach
    right = middle + reach
    furthest = np.maximum(right, 1 - left)
    mass = furthest * sums.players[:, None]
    mass += sums.background[:, None]
    if differences:
        mass *= sums.largest_change[:, None]
        mass += 2 * sums.largest_player[:, None]
    mass *= sums.weight[:, None]
    growth = np.log(np.maximum(mass, TINY, out=mass), out=mass)
    if sums.turn is not None:
        left_out = LEFT_OUT * np.minimum(1.0, 2 * furthest * sums.largest_change[:, None])
        half = (interval.last - interval.first)[:, None] / 2
        H = _largest_on_ellipse(sums.turn, middle, half, theta) + left_out
        d = (sums.players_heavy + sums.players_light)[:, None]
        return growth + d / 2 * np.log1p(np.maximum(H / d, -1 + TINY))
    growth += _log_product(sums.players_heavy, sums.heavy, -left)
    if sums.light.any():
        growth += _log_product(sums.players_light, sums.light, right - 1)
    return growth


def _log_product(n: Array, total: Array, reach: Array) -> Array:
    """Return the log of the largest product of |Y_k| of a group on ellipses that extend beyond [0, 1] by `reach`."""
    return n[:, None] * np.log1p(np.maximum(reach, 0.0) * (total / np.maximum(n, 1.0))[:, None])


def _largest_on_ellipse(turn: Turn, m: Array, c: Array, theta: Array) -> Array:
    """Return a bound on H of the module docstring on ellipses `theta` (n,) with centers m and half lengths c (r, 1)."""
    (G1, G2) = turn.first[:, :, None]
    (M1, M2) = turn.second[:, :, None]
    a = c * np.cosh(theta)
    b = c * np.sinh(theta)
    k_0 = m * m * M1 + (1 - m) ** 2 * M2 - 2 * (m * G1.real + (1 - m) * G2.real) + b * b * (M1 + M2)
    k_1 = (2 * a) * (m * M1 - (1 - m) * M2 - G1.real + G2.real)
    k_2 = (2 * b) * (G1.imag - G2.imag)
    k_3 = c * c * (M1 + M2)
    one = k_1 * k_1 / 4
    other = k_2 * k_2 / 4
    nu = np.sqrt(one + other) + TINY
    for _ in range(3):  # towards the best nu
        nu = np.sqrt(one + other * (nu / (nu + k_3)) ** 2) + TINY
    return k_0 + nu + k_3 + one / nu + other / (nu + k_3)
