"""Linked games in the engine: a sum of poles, whose terms are complex.

A linked game g(f), f = N/D of one head, is a constant plus Re sum_m r_m / (f - z_m) (`links.py`).
With

    1 / (f - z) = D / (N - z D),        N - z D = Q_0 + sum of Q_j,
    Q_j = a_j (v_j - z) if player j is present, b_j (v'_j - z) if it is absent,

every pole is a head with complex masses Q and with masses a, b in place of masses times values. All
Q of coalitions lie in the sector under which the range of f is seen from z. Turned by u = e^(-i
psi), psi the middle angle, it lies around the positive real axis, with half angle theta < pi/2, and

    D / (N - z D) = u D int_0^inf e^(-lam u (N - z D)) dlam

factorizes over the players as 1/D does for a plain game (`sector_segments` has the rule). A factor
is x = e^(-lam u Q) of the state whose real part is larger, relative to the other state. Step 10 of
docs/what-tol-guarantees.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._types import Array, Ids, Masks
from .bounds import complex_term_sums
from .budget import POLE_SHARE
from .exponential_sums import sector_segments
from .kernels import (
    add_complex_nodes,
    complex_exponential,
    complex_product,
    keep_freed_memory,
    points_of,
    products_of_others,
    workspace,
)
from .pieces import LOG_ROOM, Scale, exp_difference, ranges_of, scales_of, shift_rounding
from .rounding import (
    LEAST_FACTOR,
    LEAST_MODULUS,
    MASSES,
    POLE_EXPONENT,
    POLE_FACTOR,
    POLE_MODULI,
    POLE_REST,
    RANGE_ROOM,
    ULP,
)
from .terms import AtProbability, Masses, Pieces, Terms

if TYPE_CHECKING:
    from ..links import LinkedGame

Complex = NDArray[np.complexfloating[Any, Any]]

# Tuning: terms of a chunk. Complex terms are added up MOST_TERMS at a time, so larger chunks only
# have fewer batches (benchmarks/probability).
MOST_COMPLEX_TERMS = 512
# Tuning: elements of one working array, of which several are alive at once for complex terms
# (benchmarks/probability).
COMPLEX_ELEMENTS = 1 << 16
# Tuning: elements (terms times players) of one array of a chunk, of which a dozen are made together
# (benchmarks/tails, benchmarks/probability).
COMPLEX_CHUNK_ELEMENTS = 1 << 16


class Poles(NamedTuple):
    """g(f) = constant + Re sum residue / (f - z), within `error` on the range it was made for; z,
    residue (M,).
    """

    constant: float
    z: Complex
    residue: Complex
    error: float


class Sectors(NamedTuple):
    """How a range is seen from each of M points z: (M,) each.

    Turned by u, all u (f - z) lie in a sector |arg| <= half_angle with real parts from `least` to
    `most`: real parts are linear in f, so both are those of an end of the range.
    """

    turn: Complex  # u = e^(-i psi), psi the middle angle
    half_angle: Array
    least: Array
    most: Array
    nearest: Array  # smallest |f - z|


def sectors(z: Complex, low: float, high: float) -> Sectors:
    """Return the sectors under which [low, high] is seen from the points z.

    >>> seen = sectors(np.array([1j]), -1.0, 1.0)
    >>> (
    ...     round(float(np.degrees(seen.half_angle[0]))),
    ...     float(seen.nearest[0]),
    ...     round(float(seen.least[0]), 9),
    ... )
    (45, 1.0, 1.0)
    """
    first = np.angle(low - z)
    last = np.angle(high - z)
    half_angle = np.abs(first - last) / 2
    cos = np.cos(half_angle)
    to_low = np.abs(low - z)
    to_high = np.abs(high - z)
    nearest_point = np.clip(z.real, low, high)
    return Sectors(
        turn=np.exp(-0.5j * (first + last)),
        half_angle=half_angle,
        least=np.minimum(to_low, to_high) * cos,
        most=np.maximum(to_low, to_high) * cos,
        nearest=np.abs(nearest_point - z),
    )


@dataclass(frozen=True, eq=False)
class PoleGame:
    """A linked game with its poles, as the engine computes with it: every pole is a head."""

    linked: LinkedGame
    poles: Poles
    empty_excess: float
    known_error: float

    # Poles and their residues fit into float64 as they are.
    exponent: ClassVar[int] = 0
    # Complex factors have no real logarithm.
    positive: ClassVar[bool] = False
    # The poles have POLE_SHARE of tol for one mean, and a difference has two of them.
    engine_share: ClassVar[float] = 1 - 2 * POLE_SHARE

    @property
    def d(self) -> int:
        """Number of players."""
        return self.linked.d

    @property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass."""
        return self.linked.can_be_empty

    @property
    def scale(self) -> float:
        """A lower bound of max|g| over all coalitions."""
        return self.linked.scale

    @property
    def base(self) -> float:
        """The constant next to the poles."""
        return self.poles.constant

    @cached_property
    def grand_means(self) -> Array:
        """The value of g for the grand coalition minus the constant, (1,)."""
        grand = float(self.linked.value(np.ones(self.d, dtype=bool)))
        return np.array([grand - self.base])

    @property
    def grand_error(self) -> float:
        """A bound on the error of the value of g for the grand coalition."""
        return self.linked.grand_error

    @cached_property
    def half_range(self) -> Array:
        """The (M,) largest moduli of residue / (f - z) on the range of f."""
        return np.abs(self.poles.residue) / self.sectors.nearest

    @cached_property
    def sectors(self) -> Sectors:
        """The sectors of the exact range."""
        return sectors(self.poles.z, *self.linked.range)

    def least_tol(self, amplification: float) -> float:
        """Return the smallest tol whose share is at least the error of the poles."""
        if not self.scale:
            return np.inf
        return amplification * self.poles.error / (POLE_SHARE * self.scale)

    def engine_game(self, tol: float) -> PoleGame:
        """Return the game with the poles for another tol."""
        return self.linked.engine_game(tol)

    @cached_property
    def extra_ulps(self) -> float:
        """Rounding in addition to that of a plain game, in ulps of the sum of `half_range`.

        Moduli of e^(-lam w) add up to 1/cos(theta) times 1/|w|, and lam |w| times that to
        1/cos(theta)^2, both times POLE_MODULI at most. An exponent is correct to POLE_EXPONENT ulps
        of the sum of |Q_j| over the players of a coalition, which is at most its mass times the
        largest |v - z|, and of the |Q_j| of their other states, which are at most `ratio` times as
        large: the other state is the one with the smaller real part. Masses and values have MASSES
        ulps of the values' spread and the rounding of the argument of g, times the largest slope of
        g.
        """
        spread = float(self.half_range.sum())
        if spread == 0:
            return 0.0
        arguments = self.linked.arguments
        values = arguments.values
        lowest = float(values.min())
        highest = float(values.max())
        hull = sectors(self.poles.z, lowest, highest)
        hull_cos = np.cos(hull.half_angle)
        furthest = hull.most / hull_cos
        ratio: Array | float = 0.0
        if self.linked.game.some_replaced:
            ratio = furthest / (hull.nearest * hull_cos)
        cos = np.cos(self.sectors.half_angle)
        each = (POLE_FACTOR * self.d + POLE_REST) / cos
        decay_per_mass = self.sectors.nearest * cos**2
        each += POLE_EXPONENT * (1 + ratio) * furthest / decay_per_mass
        of_poles = POLE_MODULI * ULP * float((self.half_range * each).sum())
        of_values = arguments.rounding + MASSES * ULP * (highest - lowest)
        moved = self.linked.largest_slope * of_values
        return (of_poles + moved) / spread / ULP

    def pieces(self, eps: float) -> Iterator[Pieces]:
        """Yield for every tier of the inner game its poles as pieces; weights carry residue and
        turn of the pole.
        """
        return pole_pieces([(1.0, self)], eps)

    def segments(self, scale: Scale, eps: float) -> Iterator[_Segment]:
        """Yield the nodes and weights of all poles for one tier."""
        factors = self.poles.residue * self.sectors.turn
        stretch = np.log(self.sectors.most / self.sectors.least)
        for pole in range(self.poles.z.size):
            least = scale.least * (1 - RANGE_ROOM) * float(self.sectors.least[pole])
            length = scale.log_range + LOG_ROOM + float(stretch[pole])
            angle = float(self.sectors.half_angle[pole])
            for shift, lam, w in sector_segments(length, eps, angle):
                factor = shift_rounding(scale.unit, shift) / least
                yield _Segment(
                    unit=scale.unit + shift,
                    pole=pole,
                    lam=lam * factor,
                    w=w * (factor * factors[pole]),
                )

    def masses(self, unit: float) -> PoleMasses:
        """Return the masses of all poles, with those of the inner game in units of e^unit."""
        inner = self.linked.game
        turn = self.sectors.turn[:, None]
        z = self.poles.z[:, None]
        states = exp_difference(inner.states[0], np.array([[unit]]))
        a, b, background = (part[0] for part in inner.split_states(states))
        values = self.linked.arguments.values[None]
        v, v_absent, v_background = (part[0] for part in inner.split_states(values))
        # Q of every player in both states, and of the background.
        present = turn * (a * (v - z))
        absent = turn * (b * (v_absent - z))
        of_background = turn * (background * (v_background - z))
        gap = present - absent
        heavy = gap.real > 0
        same = np.abs(gap) == 0
        lighter = np.stack([~heavy | same, heavy | same], axis=1)
        of_light_states = np.add.reduce(np.where(heavy, absent, present), axis=1)
        return PoleMasses(
            gap=np.where(heavy, gap, -gap),
            lighter=lighter.astype(np.float64),
            V=np.broadcast_to(np.stack([a, b]), (z.size, 2, a.size)),
            D_0=of_light_states + of_background[:, 0],
            n_0=np.full(z.size, background),
            half_range=self.half_range,
        )


@dataclass(frozen=True, eq=False)
class PoleSum:
    """A sum of linked games with their poles, c_0 + sum_k c_k g_k(f_k), as the engine computes with
    it.

    The games have the same masses and different values, as the units of a hidden layer have
    (`game_sum.py`). Every pole of every game is a head, and they share tiers, chunks of terms and
    one budget.

    `scale` is an upper bound of max|f|: what `tol` is relative to here.
    """

    parts: list[tuple[float, PoleGame]]
    scale: float
    for_tol: Callable[[float], PoleSum]

    exponent: ClassVar[int] = 0
    positive: ClassVar[bool] = False
    engine_share: ClassVar[float] = PoleGame.engine_share

    @property
    def d(self) -> int:
        """Number of players."""
        return self.parts[0][1].d

    @property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass."""
        return self.parts[0][1].can_be_empty

    @cached_property
    def base(self) -> float:
        """The sum of the constants next to the poles, rounded once."""
        return math.fsum(factor * game.base for factor, game in self.parts)

    @cached_property
    def empty_excess(self) -> float:
        """What is missing for an empty coalition without mass."""
        return math.fsum(factor * game.empty_excess for factor, game in self.parts)

    @cached_property
    def grand_means(self) -> Array:
        """The values of the heads with all players present, one for each game."""
        return np.concatenate([factor * game.grand_means for factor, game in self.parts])

    @cached_property
    def known_error(self) -> float:
        """A bound on the errors of `base` and of `empty_excess` together."""
        return sum(abs(factor) * game.known_error for factor, game in self.parts)

    @cached_property
    def grand_error(self) -> float:
        """A bound on the error of the sum of `grand_means`."""
        return sum(abs(factor) * game.grand_error for factor, game in self.parts)

    @cached_property
    def half_range(self) -> Array:
        """The largest moduli of all heads."""
        return np.concatenate([abs(factor) * game.half_range for factor, game in self.parts])

    def least_tol(self, amplification: float) -> float:
        """Return the smallest tol whose share is at least the error of all poles."""
        error = sum(abs(factor) * game.poles.error for factor, game in self.parts)
        return amplification * error / (POLE_SHARE * self.scale)

    def engine_game(self, tol: float) -> PoleSum:
        """Return the sum with the poles for another tol."""
        return self.for_tol(tol)

    @cached_property
    def extra_ulps(self) -> float:
        """The rounding of every game in ulps of its spread, in ulps of the spread of the sum."""
        spread = float(self.half_range.sum())
        if spread == 0:
            return 0.0
        rounding = 0.0
        for factor, game in self.parts:
            rounding += abs(factor) * float(game.half_range.sum()) * game.extra_ulps
        return rounding / spread

    def pieces(self, eps: float) -> Iterator[Pieces]:
        """Yield the poles of all games as pieces."""
        return pole_pieces(self.parts, eps)


def pole_pieces(parts: list[tuple[float, PoleGame]], eps: float) -> Iterator[Pieces]:
    """Yield the poles of games with the same masses as pieces, with the factors of the games in
    their weights.
    """
    with_poles = [part for part in parts if part[1].poles.z.size]
    if not with_poles:
        return
    keep_freed_memory()
    inner = with_poles[0][1].linked.game
    scales = scales_of(inner, ranges_of(inner, inner.head_masses))
    groups: list[tuple[float, list[PoleGame], list[_Segment]]] = []
    for group in _groups_of_games(with_poles):
        games = [game for _, game in group]
        for scale in scales:
            for unit, segments in _segments_by_unit(group, scale, eps).items():
                groups.append((unit, games, segments))
    total = sum(segment.lam.size for _, _, segments in groups for segment in segments)
    for unit, games, segments in groups:
        piece_of = [np.full(segment.lam.size, segment.pole) for segment in segments]
        yield Pieces(
            masses=joined_masses([game.masses(unit) for game in games]),
            lam=np.concatenate([segment.lam for segment in segments]),
            w=np.concatenate([segment.w for segment in segments]),
            piece_of=np.concatenate(piece_of),
            total=total,
        )


def _groups_of_games(parts: list[tuple[float, PoleGame]]) -> list[list[tuple[float, PoleGame]]]:
    """Return the games in groups whose arrays of masses are not too large, or of one game each."""
    # Tuning: elements (poles times players) of one array of masses, 16 MB.
    mass_elements = 1 << 20
    groups: list[list[tuple[float, PoleGame]]] = []
    elements = math.inf
    for factor, game in parts:
        of_game = game.poles.z.size * game.d
        if elements + of_game > mass_elements:
            groups.append([])
            elements = 0
        groups[-1].append((factor, game))
        elements += of_game
    return groups


def _segments_by_unit(
    group: list[tuple[float, PoleGame]], scale: Scale, eps: float
) -> dict[float, list[_Segment]]:
    """Return the segments of one tier by their unit of mass; poles are numbered game after game."""
    by_unit: dict[float, list[_Segment]] = {}
    first = 0
    for factor, game in group:
        for segment in game.segments(scale, eps):
            numbered = segment._replace(pole=first + segment.pole, w=factor * segment.w)
            by_unit.setdefault(segment.unit, []).append(numbered)
        first += game.poles.z.size
    return by_unit


class _Segment(NamedTuple):
    """Nodes and complex weights (L,) of one pole, with masses in units of e^unit."""

    unit: float
    pole: int
    lam: Array
    w: Complex


def joined_masses(parts: list[PoleMasses]) -> PoleMasses:
    """Return the pieces of several games with the same masses as one array."""
    if len(parts) == 1:
        return parts[0]
    gap = np.concatenate([part.gap for part in parts])
    states = parts[0].V[0]
    return PoleMasses(
        gap=gap,
        lighter=np.concatenate([part.lighter for part in parts]),
        V=np.broadcast_to(states, (len(gap), *states.shape)),
        D_0=np.concatenate([part.D_0 for part in parts]),
        n_0=np.concatenate([part.n_0 for part in parts]),
        half_range=np.concatenate([part.half_range for part in parts]),
    )


class PoleMasses(Masses):
    """Masses of poles: a piece is a pole at one scale.

    gap and D_0 are of Q = u a (v - z), which is complex; the lighter state is the one with the
    smaller real part; V and n_0 are masses.
    """

    most_terms: ClassVar[int] = MOST_COMPLEX_TERMS
    chunk_elements: ClassVar[int] = COMPLEX_CHUNK_ELEMENTS

    def terms(
        self, lam: Array, w: Array, piece_of: Ids, share: float, precise: bool
    ) -> ComplexTerms:
        """Return the terms of nodes lam with weights w (r,), which are a `share` of all terms of
        the game.
        """
        weight = w * np.exp(-lam * self.D_0[piece_of])
        n_0 = self.n_0[piece_of]
        exponent = self.gap[piece_of]
        exponent *= -lam[:, None]
        heavier = complex_exponential(exponent)
        factor = np.where(self.lighter[piece_of], 1.0, heavier[:, None])
        V = self.V[piece_of]
        T = V * factor
        difference = factor[:, 0] - factor[:, 1]
        largest_change = np.maximum.reduce(np.abs(difference), axis=1)
        sums = complex_term_sums(
            weight=weight,
            n_0=n_0,
            factor=factor,
            T=T,
            largest_change=largest_change,
            players_light=self.players_light[piece_of],
            share=share,
        )
        return ComplexTerms(
            lam=lam,
            weight=weight,
            n_0=n_0,
            factor=factor,
            less=None,
            T=T,
            S=self.second_numerator(V, factor),
            difference=difference,
            largest_change=largest_change,
            sums=sums,
            masses=self,
            piece_of=piece_of,
        )


class ComplexTerms(Terms):
    """Terms of poles, with complex factors, one of which may vanish."""

    batch_elements: ClassVar[int] = COMPLEX_ELEMENTS
    sum_terms = staticmethod(complex_term_sums)
    add_nodes = staticmethod(add_complex_nodes)

    def at_probability(self, p: Array, precise: bool) -> AtProbability:
        """Compute P, num and sigma at nodes p (m, r) or (m, 1).

        Where p x and (1 - p) y of some player nearly cancel, all three are 0, and `vanishing` has
        these nodes.
        """
        r, _, d = self.factor.shape
        points = points_of(p, r)
        numbers, spare = workspace((r, len(p), 2 * d))
        # Real and imaginary parts side by side: p is real, and numbers of one kind multiply several
        # times as fast.
        parts_of_factor = np.ascontiguousarray(self.factor).view(np.float64)
        np.matmul(points, parts_of_factor, out=numbers)
        Y: Any = numbers.view(np.complex128)
        P = complex_product(Y, spare)
        P *= self.weight[:, None]
        # 1/Y is the conjugate of Y over |Y|^2, several times as fast as a complex division.
        np.multiply(numbers, numbers, out=spare)
        spare_real = spare[:, :, 0::2]
        spare_imag = spare[:, :, 1::2]
        squares = spare_real + spare_imag
        vanishing = None
        if np.minimum.reduce(squares, axis=None) < LEAST_FACTOR**2:
            left_out = self._nearly_cancel(points, Y, squares)
            P[left_out] = 0.0
            Y[left_out] = 0.0
            squares[left_out] = 1.0
            vanishing = self._vanishing(p, left_out)
        np.divide(1.0, squares, out=squares)
        spare_real[:] = squares
        np.negative(squares, out=spare_imag)
        numbers *= spare
        sums = np.matmul(Y, self.T.transpose(0, 2, 1))
        sums *= points
        # Over the players that are present, and over those that are absent.
        num = sums[:, :, 0] + sums[:, :, 1]
        num += self.n_0[:, None]
        return AtProbability(P=P.T, num=num.T, sigma=Y.transpose(1, 0, 2), vanishing=vanishing)

    def _nearly_cancel(self, points: Array, Y: Array, squares: Array) -> Masks:
        """Return the (r, m) mask of nodes at which |Y| of some player is far below p |x| + (1 - p)
        |y|.
        """
        left_out = np.minimum.reduce(squares, axis=2) < LEAST_FACTOR**2
        # Few nodes are left: now with the moduli of every player.
        term, node = np.nonzero(left_out)
        share = points[term, node, :, None]
        moduli = (share * np.abs(self.factor[term])).sum(axis=1)
        least = np.maximum(LEAST_FACTOR * moduli, LEAST_MODULUS)
        is_small = np.abs(Y[term, node]) < least
        left_out[term, node] = is_small.any(axis=1)
        return left_out

    def _vanishing(self, p: Array, left_out: Masks) -> Vanishing | None:
        """Return the nodes p (m, r) or (m, 1) in the mask (r, m)."""
        if not left_out.any():
            return None
        term, node = np.nonzero(left_out)
        return Vanishing(
            node=node,
            term=term,
            weight=self.weight[term],
            p=np.broadcast_to(p, left_out.T.shape)[node, term],
            factor=self.factor[term],
            V=self.masses.V[self.piece_of[term]],
            n_0=self.n_0[term],
        )


class Vanishing(NamedTuple):
    """Nodes of complex terms at which some Y nearly cancels: weights w, factors and masses of n of
    them.
    """

    node: Ids  # (n,) indices of nodes
    term: Ids  # (n,) indices of terms
    weight: Array  # (n,) of the terms
    p: Array  # (n,)
    factor: Array  # (n, 2, d) x and y
    V: Array  # (n, 2, d) masses
    n_0: Array  # (n,)

    def weights_at(self, weights: Array, shape: tuple[int, ...]) -> Array:
        """Return the weights (..., n) of these nodes from those of all nodes and terms, (..., m, r)
        or (..., m, 1).
        """
        every = np.broadcast_to(weights, (*weights.shape[:-2], *shape))
        return every[..., self.node, self.term]

    def products(self) -> tuple[Array, Array]:
        """Compute P num (n,) and P [X_j num + Z_j] (n, d) from products of all other players,
        without division.
        """
        share = np.stack([self.p, 1 - self.p], axis=1)
        mixed = share[:, :, None] * self.factor
        Y = mixed.sum(axis=1)
        T = (mixed * self.V).sum(axis=1)
        # Q and Q num of the other players, for every player.
        Q, R = products_of_others(Y, T)
        R += Q * self.n_0[:, None]
        x = self.factor[:, 0]
        y = self.factor[:, 1]
        of_present = x * self.V[:, 0]
        of_absent = y * self.V[:, 1]
        numerator = of_present - of_absent
        first = (x - y) * R + numerator * Q
        # The first player and all others.
        product = R[:, 0] * Y[:, 0] + Q[:, 0] * T[:, 0]
        return self.weight * product, self.weight[:, None] * first

    def second_differences(self, i: int) -> Array:
        """Compute P [num X_i X_j + X_i Z_j + Z_i X_j] (n, d), the change of first differences when
        i is present.
        """
        changes = []
        for k in (0, 1):
            factor = self.factor.copy()
            V = self.V.copy()
            weight = self.weight * factor[:, k, i]
            n_0 = self.n_0 + V[:, k, i]
            factor[:, :, i] = 1.0
            V[:, :, i] = 0.0
            fixed = self._replace(factor=factor, V=V, weight=weight, n_0=n_0)
            changes.append(fixed.products()[1])
        return changes[0] - changes[1]
