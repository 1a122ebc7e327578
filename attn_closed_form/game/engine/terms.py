"""The terms of a game: everything that does not depend on p.

A **term** is one node lam of the rule for 1/D in one head (one tier of it, see `pieces.py`). For
player k let

    x = e^(-lam gap) when it is present, y the same when it is absent (one of the two is 1),
    A, B = its mass times value when present and when absent,
    T = (x A, y B),   S = x y (A - B).

With every player present with probability p, independently, a term has

    Y = p x + (1 - p) y,   sigma = 1/Y,
    P = w e^(-lam D_0) prod_k Y_k,
    num = n_0 + sum_k sigma_k (p T_k0 + (1 - p) T_k1).

`evaluate.py` sums them over terms and over p. `bounds.py` bounds them for complex p. The terms of a
linked game are complex (`poles.py`), with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from ..._types import Array, Ids
from .bounds import TermSums, term_sums
from .budget import Budget
from .engine_game import EngineGame
from .kernels import (
    BATCH_ELEMENTS,
    add_nodes,
    contract,
    mix,
    points_of,
    precise_product,
    product,
    workspace,
)
from .rounding import MOST_TERMS

if TYPE_CHECKING:
    from .poles import Vanishing

# Tuning: elements of one working array (terms times players), which about fits into a core's caches
# (benchmarks/shapley).
CHUNK_ELEMENTS = 1 << 17


class Pieces(NamedTuple):
    """Some heads at one scale each, n pieces, with the nodes lam and weights w of the rule for 1/D,
    (r,).

    Masses are in units of the piece, lam and w in units of one over it.
    """

    masses: Masses
    lam: Array
    w: Array
    piece_of: Ids  # (r,) which piece a node belongs to
    total: int  # number of nodes of all pieces of the game


@dataclass(frozen=True, eq=False)
class Masses:
    """Arrays of n pieces. If an axis has length 2, it is the players present, then absent."""

    gap: Array  # (n, d) mass of the heavier state above that of the lighter one
    # (n, 2, d) 1 for the lighter state, 0 for the heavier one; both are 1 where there is no gap
    lighter: Array
    V: Array  # (n, 2, d) mass times value, A and B
    D_0: Array  # (n,) mass that is always there
    n_0: Array  # (n,) the background's mass times value
    half_range: Array  # (n,) largest |value|

    # Terms of a chunk at most: their sum loses as many ulps.
    most_terms: ClassVar[int] = MOST_TERMS
    # Elements (terms times players) of one array of a chunk.
    chunk_elements: ClassVar[int] = CHUNK_ELEMENTS

    def of_players(self, which: Ids | slice) -> Masses:
        """Return the same arrays for a subset of the players."""
        return replace(
            self, gap=self.gap[..., which], lighter=self.lighter[..., which], V=self.V[..., which]
        )

    @cached_property
    def players_light(self) -> Array:
        """The (n,) numbers of players that are lighter when present."""
        return self.gap.shape[1] - np.add.reduce(self.lighter[:, 1], axis=1)

    @cached_property
    def some_light(self) -> bool:
        """Whether some player is lighter when present."""
        return any(self.players_light.tolist())

    @cached_property
    def some_absent_value(self) -> bool:
        """Whether V of some player is not 0 when it is absent."""
        return bool(self.V[:, 1].any())

    def terms(self, lam: Array, w: Array, piece_of: Ids, share: float, precise: bool) -> Terms:
        """Return the terms of nodes lam with weights w (r,), which are a `share` of all terms of
        the game.
        """
        weight = w * np.exp(-lam * self.D_0[piece_of])
        n_0 = self.n_0[piece_of]
        exponent = self.gap[piece_of]
        exponent *= -lam[:, None]
        # e^(-lam gap) for the heavier state, 1 for the lighter one.
        factor = self.lighter[piece_of]
        heavier = np.exp(exponent)
        np.maximum(factor, heavier[:, None], out=factor)
        less = None
        if precise:
            change = np.expm1(exponent, out=exponent)
            less = change[:, None] * (1 - self.lighter[piece_of])
        V = self.V[piece_of]
        T = V * factor
        if less is None:
            difference = factor[:, 0] - factor[:, 1]
        else:
            difference = less[:, 0] - less[:, 1]
        largest_gap = np.maximum.reduce(self.gap, axis=1)[piece_of]
        largest_change = 1 - np.exp(-lam * largest_gap)
        sums = term_sums(
            weight=weight,
            n_0=n_0,
            factor=factor,
            T=T,
            largest_change=largest_change,
            players_light=self.players_light[piece_of],
            share=share,
        )
        return Terms(
            lam=lam,
            weight=weight,
            n_0=n_0,
            factor=factor,
            less=less,
            T=T,
            S=self.second_numerator(V, factor),
            difference=difference,
            largest_change=largest_change,
            sums=sums,
            masses=self,
            piece_of=piece_of,
        )

    def second_numerator(self, V: Array, factor: Array) -> Array:
        """Return S = x y (A - B), (r, d), for masses times values V (r, 2, d); y is 1 for players
        heavy when present.
        """
        change = V[:, 0] - V[:, 1]
        S = change * factor[:, 0]
        if self.some_light:
            S *= factor[:, 1]
        return S


class AtProbability(NamedTuple):
    """Terms at m nodes p: the product, the numerator and 1/Y. sigma is in memory that the next call
    reuses.
    """

    P: Array  # (m, r)
    num: Array  # (m, r)
    sigma: Array  # (m, r, d)
    # Of complex terms: the nodes at which some Y nearly vanishes, where the other three are 0.
    vanishing: Vanishing | None = None


@dataclass(frozen=True, eq=False)
class Terms:
    """Some terms, r of them. If an axis has length 2, it is the players present, then absent."""

    lam: Array  # (r,)
    weight: Array  # (r,) w e^(-lam D_0)
    n_0: Array  # (r,)
    factor: Array  # (r, 2, d) x and y
    # (r, 2, d) x - 1 and y - 1 with all of their digits, if the budget requires precision.
    less: Array | None
    T: Array  # (r, 2, d)
    S: Array  # (r, d)
    difference: Array  # (r, d) x - y
    largest_change: Array  # (r,) largest |x - y| of a player
    sums: TermSums
    masses: Masses  # of the pieces that the terms belong to
    piece_of: Ids  # (r,) which piece

    # Elements of one working array with nodes p.
    batch_elements: ClassVar[int] = BATCH_ELEMENTS

    def pick(self, which: Ids | slice) -> Terms:
        """Return some of the terms; their sums are unchanged."""
        if isinstance(which, slice) and which == slice(None):
            return self
        less = None
        if self.less is not None:
            less = self.less[which]
        return replace(
            self,
            lam=self.lam[which],
            weight=self.weight[which],
            n_0=self.n_0[which],
            factor=self.factor[which],
            less=less,
            T=self.T[which],
            S=self.S[which],
            difference=self.difference[which],
            largest_change=self.largest_change[which],
            piece_of=self.piece_of[which],
        )

    def of_players(self, group: Ids, weight: Array, n_0: Array) -> Terms:
        """Return the terms of some players alone, with another weight and numerator of the
        background.
        """
        less = None
        if self.less is not None:
            less = self.less[:, :, group]
        factor = self.factor[:, :, group]
        T = self.T[:, :, group]
        difference = self.difference[:, group]
        masses = self.masses.of_players(group)
        # The largest change of all players stays as the bound of the power series.
        largest_change = np.abs(difference).max(axis=1)
        players_light = masses.players_light[self.piece_of]
        share = self.sums.share
        sums = self.sum_terms(weight, n_0, factor, T, largest_change, players_light, share)
        return replace(
            self,
            weight=weight,
            n_0=n_0,
            factor=factor,
            less=less,
            T=T,
            S=self.S[:, group],
            difference=difference,
            sums=sums,
            masses=masses,
        )

    # The kernels of real numbers; `ComplexTerms` (poles.py) has kernels of complex numbers.
    sum_terms = staticmethod(term_sums)
    add_nodes = staticmethod(add_nodes)

    def at_probability(self, p: Array, precise: bool) -> AtProbability:
        """Compute P, num and sigma of the module docstring at nodes p (m, r) or (m, 1)."""
        r, _, d = self.factor.shape
        points = points_of(p, r)
        Y, spare = workspace((r, len(p), d))
        mix(points, self.factor, self.masses.some_light, out=Y, spare=spare)
        if precise and self.less is not None:
            P = precise_product(points, self.less, self.masses.some_light, Y)
        else:
            P = product(Y, spare)
        P *= self.weight[:, None]
        sigma = np.divide(1.0, Y, out=Y)
        sums = contract(sigma, self.T, precise)
        sums *= points
        # Over the players that are present, and over those that are absent.
        num = sums[:, :, 0] + sums[:, :, 1]
        num += self.n_0[:, None]
        return AtProbability(P=P.T, num=num.T, sigma=sigma.transpose(1, 0, 2))


def terms_of(game: EngineGame, goal: Budget, elements: int | None = None) -> Iterator[Terms]:
    """Yield all terms of a game, in chunks whose arrays (terms times players) have about `elements`
    elements, by default `chunk_elements` of the masses.
    """
    for pieces in game.pieces(goal.eps):
        masses = pieces.masses
        of_chunk = elements or masses.chunk_elements
        step = max(1, min(masses.most_terms, of_chunk // game.d))
        for start in range(0, pieces.lam.size, step):
            part = slice(start, start + step)
            lam = pieces.lam[part]
            share = lam.size / pieces.total
            yield masses.terms(lam, pieces.w[part], pieces.piece_of[part], share, goal.precise)
