"""Terms of the players that count at one node: what a game of deleted players costs does not grow with their spread.

At a node lam of the rule for 1/D a player with lam a far above 1 is as good as infinitely heavy: no coalition that has
it adds anything to the term, so its factor is Y = 1 - p and its numerator 0. A player with lam a far below 1 is as good
as weightless: Y = 1 and numerator 0. In between lies a window of the players in the order of their masses. With n heavy
players and num, P, X, Z of the players in the window alone (`evaluate.py`), a term of Delta_j is

    (1-p)^n P [ X_j num + Z_j ]     in the window,        -(1-p)^(n-1) P num     beyond it,        0 below it.

With Theta = 8 + ln(1/eps) and tau = eps / (640 (ln R + 80)) that leaves out less than 0.05 eps of every centred mean:
docs/theory/bounds-of-the-engine.md, "Windows". A term in which some players are infinitely heavy and others weightless
is a term like any other, so the bounds of `terms.py` and `laws.py` hold for it unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._types import Array, Ids
from .budget import Budget
from .canonical import Heads, Piece, head_masses, heads_of, masses_of, pieces_of, ranges_of, scales_of
from .pooled_game import PooledGame
from .terms import CHUNK_ELEMENTS, MOST_TERMS, Terms, terms_for

# Fewer players, or a shorter range of masses, and the windows cost more than they save.
LEAST_PLAYERS, LEAST_RANGE = 256, 48.0
# The constants of Theta and tau.
HEAVY, LIGHT, LIGHT_RANGE = 8.0, 640.0, 80.0


class Window(NamedTuple):
    """Terms of the players `inside`; those in `beyond` are infinitely heavy, all others weigh nothing."""

    terms: Terms
    inside: Ids
    beyond: Ids

    def inside_weights(self, p: Array, weights: Array) -> Array:
        """The one set of weights of Delta_j for the players in the window: (1-p)^n times those of the law."""
        return (weights * np.exp(self.beyond.size * np.log1p(-p)))[None]

    def beyond_weights(self, p: Array, weights: Array) -> Array:
        """The one set of weights of P num for the players beyond it."""
        return -(weights * np.exp((self.beyond.size - 1) * np.log1p(-p)))[None]


def windows_of(game: PooledGame, goal: Budget) -> Iterator[Window] | None:
    """All terms of a game as windows; None if some players are replaced instead of deleted, or if nothing is saved."""
    if game.d < LEAST_PLAYERS or not np.isneginf(game.s_absent).all():
        return None
    masses = head_masses(game)
    if not len(masses.D_0):
        return None
    ranges = ranges_of(game, masses)
    if not np.maximum.reduce(ranges.log_range) > LEAST_RANGE:
        return None
    return _windows(game, pieces_of(scales_of(game, ranges), goal.eps), goal)


def _windows(game: PooledGame, pieces: list[Piece], goal: Budget) -> Iterator[Window]:
    heads = heads_of(game)
    total = sum(piece.lam.size for piece in pieces)
    head, order = -1, np.arange(0)
    for piece in pieces:
        if piece.head != head:
            head, order = piece.head, np.argsort(heads.s[piece.head], kind="stable")
            ordered = _one_head(heads, head, order)
        masses = masses_of(ordered, [0], np.array([piece.unit]))
        first, last = _bounds(masses.gap[0], piece, goal.eps)
        start, L = 0, piece.lam.size
        while start < L:
            size = int(last[start] - first[start])
            stop = min(L, start + max(1, min(MOST_TERMS, CHUNK_ELEMENTS // size)))
            # Light players are fewest at the last node, heavy ones at the first.
            inside, part = slice(int(first[stop - 1]), int(last[start])), slice(start, stop)
            few, own = masses.of_players(inside), np.zeros(stop - start, dtype=np.intp)
            terms = terms_for(few, own, piece.lam[part], piece.w[part], total, goal.precise)
            yield Window(_with_heavy(terms, game.d - inside.stop), order[inside], order[inside.stop :])
            start = stop


def _one_head(heads: Heads, h: int, order: Ids) -> Heads:
    """One head alone, its players in this order."""
    arrays = (x[h : h + 1, order] if x.ndim == 2 else x[h : h + 1] for x in heads[:-1])
    return Heads._make([*arrays, heads.can_be_empty])


def _bounds(mass: Array, piece: Piece, eps: float) -> tuple[Ids, Ids]:
    """The window [first, last) of every node in the ascending masses (d,): at least one player; all without a range."""
    d, L = mass.size, piece.lam.size
    if piece.log_range == 0:
        return np.zeros(L, dtype=np.intp), np.full(L, d)
    tau = eps / (LIGHT * (piece.log_range + LIGHT_RANGE))
    with np.errstate(over="ignore"):
        # A little less than tau, for the rounding of the sums.
        first = np.searchsorted(np.cumsum(mass), tau * (1 - 1e-9) / piece.lam, side="right")
        last = np.searchsorted(mass, (HEAVY - math.log(eps)) * (1 + 1e-9) / piece.lam, side="left")
    first = np.minimum(first, d - 1)
    return first, np.maximum(last, first + 1)


def _with_heavy(terms: Terms, n: int) -> Terms:
    """The terms with n more players in what a law uses, whose x is 0."""
    sums, most = terms.sums, np.maximum(terms.sums.largest_change, float(n > 0))
    sums = sums._replace(heavy=sums.heavy + n, players_heavy=sums.players_heavy + n, largest_change=most)
    return terms._replace(sums=sums)
