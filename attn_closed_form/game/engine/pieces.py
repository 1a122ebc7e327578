"""A game in the units of the engine: a light and a heavy state per player, at one scale of mass.

In a head every player has a light state and a heavy one, whose mass is larger by a gap. D_0, the mass of all light
states and of the background, is always there, so the mass of a coalition is D_0 plus the gaps of the players in their
heavy state.

**Tiers.** 1/D needs nodes lam over the whole range of D, about four per e-fold. But D cannot be everywhere: sort D_0
and the gaps, and cut where the next gap is more than e^TIER_GAP times everything before it. D then lies in one of the
ranges ("tiers") between the cuts, each from its smallest member to the sum of all up to its largest. A rule for 1/D on
every tier, all of them added up, is a rule for 1/D on their union: at a D of one tier the nodes of a heavier tier add
at most 100 e^(-TIER_GAP) / D, and the nodes of a lighter one less than e^-800 / D. So a masked score of -1e9 costs a
handful of nodes. A tier that is long all the same (a chain of players, each e^40 times the one before) is cut into
segments of nodes. Each tier or segment is a `Piece` with a separate unit of mass, in which everything that matters fits
into float64: a mass that is too light counts as 0, and one that is too heavy has e^(-lam mass) = 0.

**Digits.** Scores are subtracted from the unit in two floats, without rounding, so masses are correct to a few ulps
no matter how large the scores or their offset are. Values are in units of a power of two and centered in each head
(`PooledGame`); a head whose values do not vary is omitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._types import Array, Ids
from ..links import PoleGame
from ..pooled_game import PooledGame, exp_difference
from .exponential_sums import lambda_segments, sector_segments, short_sum_key, short_sums_together

TIER_GAP = 45.0
# Relative margin at both ends of a tier, for the rounding of the masses in D.
ROOM = 1e-12
# ln R of a longer tier is computed from logarithms, with this margin for their rounding.
LOG_RANGE_EXACT = 256.0
MARGIN = 1e-6
# Elements (pieces times players) of one array of pieces.
PIECE_ELEMENTS = 1 << 20


class Heads(NamedTuple):
    """The heads whose values vary. Log-masses (H, d), centered values (H, d) in units of 2^exponent."""

    s: Array
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array  # (H,)
    v_background: Array  # (H,)
    half_range: Array  # (H,) largest |value|
    can_be_empty: bool


class Piece(NamedTuple):
    """A head at one scale: masses are in units of e^unit, lam and w (L,) in units of e^-unit."""

    head: int
    unit: float
    lam: Array
    w: Array


@dataclass(frozen=True, eq=False)
class PieceMasses:
    """Arrays of n pieces. If an axis has length 2, it is the players present, then absent."""

    gap: Array  # (n, d) mass of the heavier state above that of the lighter one
    lighter: Array  # (n, 2, d) 1 for the lighter state, 0 for the heavier one; both are 1 where there is no gap
    V: Array  # (n, 2, d) mass times value
    D_0: Array  # (n,) mass that is always there
    n_0: Array  # (n,) the background's mass times value
    half_range: Array  # (n,) largest |value|
    # Of a linked game a piece is a pole at one scale: gap and D_0 are of Q = u a (v - z), which is complex, the lighter
    # state is the one with the smaller real part, and V and n_0 are masses.

    def of_players(self, which: Ids | slice) -> PieceMasses:
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


def heads_of(game: PooledGame) -> Heads:
    """Return the varying heads of `game`."""
    varies = game.half_range > 0
    v, v_absent, v_background = (x[varies] for x in game._centered)
    s = game.s[varies]
    s_absent = game.s_absent[varies]
    s_background = game.s_background[varies]
    return Heads(
        s,
        v,
        s_absent,
        v_absent,
        s_background,
        v_background,
        game.half_range[varies],
        game.can_be_empty,
    )


def head_masses(game: PooledGame) -> PieceMasses:
    """Return the varying heads of `game` as one piece each, in units of their largest masses, cached."""
    cached: PieceMasses | None = game.__dict__.get("_head_masses")
    if cached is None:
        masses = game._masses
        weighted = game._weighted
        half_range = game.half_range
        varies = half_range > 0
        if not varies.all():
            masses = masses[varies]
            weighted = weighted[varies]
            half_range = half_range[varies]
        a, b, background = game._parts(masses)
        excess = a - b
        lighter = np.empty((len(a), 2, game.d))
        np.less_equal(excess, 0.0, out=lighter[:, 0])
        np.greater_equal(excess, 0.0, out=lighter[:, 1])
        cached = game.__dict__["_head_masses"] = PieceMasses(
            gap=np.abs(excess, out=excess),
            lighter=lighter,
            V=weighted[:, :-1].reshape(lighter.shape),
            D_0=np.add.reduce(np.minimum(a, b), axis=1) + background,
            n_0=weighted[:, -1],
            half_range=half_range,
        )
    return cached


def masses_of(heads: Heads, own: list[int], units: Array) -> PieceMasses:
    """Return the PieceMasses of the heads `own`, each in a separate unit."""
    s = heads.s[own]
    s_absent = heads.s_absent[own]
    unit = units[:, None]
    present = exp_difference(s, unit)
    absent = exp_difference(s_absent, unit)
    background = exp_difference(heads.s_background[own][:, None], unit)[:, 0]
    with np.errstate(over="ignore"):
        gap = np.maximum(present, absent) * -np.expm1(-np.abs(s - s_absent))
    return PieceMasses(
        gap=gap,
        lighter=np.stack([s <= s_absent, s >= s_absent], axis=1).astype(np.float64),
        V=np.stack([present * heads.v[own], absent * heads.v_absent[own]], axis=1),
        D_0=np.add.reduce(np.minimum(present, absent), axis=1) + background,
        n_0=background * heads.v_background[own],
        half_range=heads.half_range[own],
    )


class Scale(NamedTuple):
    """A range of D of one head: from `least` to e^log_range times that, in units of e^unit."""

    head: int
    unit: float
    least: float
    log_range: float


class Ranges(NamedTuple):
    """The smallest D of each head, in units of e^unit, and the logarithm of the largest over it, (H,) each."""

    least: Array
    log_range: Array


def ranges_of(game: PooledGame, masses: PieceMasses) -> Ranges:
    """Return the ranges of D of the varying heads, whose `head_masses` are given."""
    if game.can_be_empty:
        least = np.minimum.reduce(masses.gap, axis=1)
    else:
        least = masses.D_0
    most = masses.D_0 + np.add.reduce(masses.gap, axis=1)
    with np.errstate(divide="ignore", over="ignore"):
        return Ranges(least, np.log(most / least))


def common_rule(ranges: Ranges, eps: float) -> tuple[Array, Array, Ids] | None:
    """Return nodes, weights and the head of each, (r,), if the range of every head is in the table of short sums."""
    keys = []
    for log_range in ranges.log_range.tolist():
        key = short_sum_key(log_range + 3 * ROOM, eps)
        if key is None:
            return None
        keys.append(key)
    lam, w, own = short_sums_together(tuple(keys))
    factor = (1 / (ranges.least * (1 - ROOM)))[own]
    return lam * factor, w * factor, own


def scales_of(game: PooledGame, ranges: Ranges) -> list[Scale]:
    """Return all tiers of all varying heads."""
    units = game.unit[game.half_range > 0]
    scales: list[Scale] = []
    heads = heads_of(game)
    for h, three in enumerate(
        zip(units.tolist(), ranges.least.tolist(), ranges.log_range.tolist(), strict=True)
    ):
        scales += [Scale(h, *three)] if three[2] <= TIER_GAP else _tiers(heads, h)
    return scales


def _tiers(heads: Heads, h: int) -> list[Scale]:
    """Return the tiers of one head, lightest first."""
    s_lo = np.minimum(heads.s[h], heads.s_absent[h])
    s_hi = np.maximum(heads.s[h], heads.s_absent[h])
    # Logarithms find the tiers; they may be rounded. The numbers that count are taken from masses afterwards.
    with np.errstate(over="ignore", divide="ignore"):
        log_gap = s_hi + np.log(-np.expm1(s_lo - s_hi))
    log_gap[s_lo == s_hi] = -np.inf
    order = np.argsort(log_gap)
    order = order[np.isfinite(log_gap[order])]
    increments = log_gap[order]
    members = order
    if not heads.can_be_empty:
        base = max(float(s_lo.max()), float(heads.s_background[h]))
        always = math.log(float(masses_of(heads, [h], np.array([base])).D_0[0]))
        # Gaps below D_0 come after it: the order within a tier does not matter.
        below = increments < base + always
        increments = np.concatenate([[base + always], increments[below], increments[~below]])
        members = np.concatenate([[-1], members[below], members[~below]])
    so_far = np.logaddexp.accumulate(increments)
    cuts = np.flatnonzero(increments[1:] - so_far[:-1] > TIER_GAP) + 1
    tiers = []
    for first, last in zip([0, *cuts], [*cuts, increments.size], strict=True):
        j = int(members[first])
        unit = base if j < 0 else float(s_hi[j])
        masses = masses_of(heads, [h], np.array([unit]))
        if j < 0:
            least = float(masses.D_0[0])
        else:
            least = float(masses.gap[0, j])
        log_range = float(so_far[last - 1] - increments[first])
        if log_range < LOG_RANGE_EXACT:
            inside = members[:last][members[:last] >= 0]
            log_range = math.log(
                (float(masses.D_0[0]) + float(np.add.reduce(masses.gap[0, inside]))) / least
            )
        else:
            log_range += MARGIN + 2.0**-48 * (abs(float(so_far[last - 1])) + abs(unit))
        tiers.append(Scale(h, unit, least, log_range))
    return tiers


def pieces_of(scales: list[Scale], eps: float) -> list[Piece]:
    """Return every scale with nodes and weights for 1/D, accurate to a relative `eps`."""
    pieces = []
    for head, unit, least, log_range in scales:
        least *= 1 - ROOM
        for shift, lam, w in lambda_segments(log_range + 3 * ROOM, eps):
            moved = unit + shift
            factor = math.exp((moved - unit) - shift) / least
            pieces.append(Piece(head, moved, lam * factor, w * factor))
    return pieces


def groups_of(pieces: list[Piece], d: int) -> Iterator[list[Piece]]:
    """Yield the pieces in groups whose arrays stay small."""
    size = max(1, PIECE_ELEMENTS // d)
    for start in range(0, len(pieces), size):
        yield pieces[start : start + size]


def pole_pieces(game: PoleGame, eps: float) -> Iterator[tuple[PieceMasses, Array, Array, Ids, int]]:
    """Yield for every tier of a linked game its poles as pieces, nodes, weights, the piece of each, and the total.

    The weights carry the residue and the turn of the pole.
    """
    inner = game.linked.game
    sectors = game.sectors
    M = game.poles.z.size
    if not M:
        return
    stretch = np.log(sectors.most / sectors.least)
    factors = game.poles.residue * sectors.turn
    tiers = []
    for _, unit, least, log_range in scales_of(inner, ranges_of(inner, head_masses(inner))):
        segments: dict[float, list[tuple[Array, Array, int]]] = {}
        for m in range(M):
            near = least * (1 - ROOM) * float(sectors.least[m])
            length = log_range + 3 * ROOM + float(stretch[m])
            for shift, lam, w in sector_segments(length, eps, float(sectors.half_angle[m])):
                factor = math.exp((unit + shift - unit) - shift) / near
                segments.setdefault(unit + shift, []).append(
                    (lam * factor, w * (factor * factors[m]), m)
                )
        tiers += list(segments.items())
    total = sum(lam.size for _, parts in tiers for lam, _, _ in parts)
    for unit, parts in tiers:
        lam, w = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        own = np.concatenate([np.full(lam.size, m) for lam, _, m in parts])
        yield _pole_masses(game, unit), lam, w, own, total


def _pole_masses(game: PoleGame, unit: float) -> PieceMasses:
    inner = game.linked.game
    turn = game.sectors.turn[:, None]
    z = game.poles.z[:, None]
    states = exp_difference(inner._states[0], np.array([[unit]]))[0]
    a, b, background = (part[0] for part in inner._parts(states[None]))
    v, v_absent, v_0 = (part[0] for part in inner._parts(game.linked._values[0][None]))
    present = turn * (a * (v - z))
    absent = turn * (b * (v_absent - z))
    gap = present - absent
    heavy = gap.real > 0
    alike = np.abs(gap) == 0
    return PieceMasses(
        gap=np.where(heavy, gap, -gap),
        lighter=np.stack([~heavy | alike, heavy | alike], axis=1).astype(np.float64),
        V=np.broadcast_to(np.stack([a, b]), (z.size, 2, a.size)),
        D_0=np.add.reduce(np.where(heavy, absent, present), axis=1)
        + (turn * (background * (v_0 - z)))[:, 0],
        n_0=np.full(z.size, background),
        half_range=game.half_range,
    )
