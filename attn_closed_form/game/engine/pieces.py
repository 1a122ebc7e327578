"""A pooled game in the units of the engine: a light and a heavy state per player, at one scale of
mass.

In a head every player has a light state and a heavy one, whose mass is larger by a gap. D_0, the
mass of all light states and of the background, is always there, so the mass of a coalition is D_0
plus the gaps of the players in their heavy state.

**Tiers.** 1/D needs nodes lam over the whole range of D, about four per e-fold. But D cannot be
everywhere: sort D_0 and the gaps, and cut where the next gap is more than e^TIER_GAP times
everything before it. D then lies in one of the ranges ("tiers") between the cuts. A rule for 1/D on
every tier, all of them added up, is a rule for 1/D on their union (step 4 of
docs/what-tol-guarantees.md), so a masked score of -1e9 costs a handful of nodes. A long tier is cut
into segments of nodes. Each tier or segment is a piece with a separate unit of mass, in which
everything that matters fits into float64: a mass that is too light counts as 0, and one that is too
heavy has e^(-lam mass) = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._types import Array, Ids
from .exponential_sums import lambda_segments, short_sum_key, short_sums_together
from .rounding import LOG_RANGE_RELATIVE, LOG_RANGE_ROOM, PLAIN_DIFFERENCE, RANGE_ROOM
from .terms import Masses, Pieces

if TYPE_CHECKING:
    from ..pooled_game import PooledGame

# The nodes of a heavier tier add at most 100 e^-TIER_GAP / D at a D of this tier, less than 3e-18
# (step 4).
TIER_GAP = 45.0
# The room at both ends of a range of D, added to ln R: 2 RANGE_ROOM, and a little for the logarithm
# itself.
LOG_ROOM = 3 * RANGE_ROOM


def exp_difference(s: Array, unit: Array) -> Array:
    """Compute e^(s - unit) to a few ulps for any size of both, with the difference in two
    floats.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        high = s - unit
        size = np.abs(high)
        if np.maximum.reduce(size, axis=None) < PLAIN_DIFFERENCE:
            return np.exp(high)
        far = (size >= PLAIN_DIFFERENCE) & (high > -np.inf)
        if not far.any():
            return np.exp(high)
        # The rounding of the difference, exactly (Knuth's two-sum).
        back = high - s
        low = (s - (high - back)) - (unit + back)
    # Largest logarithm of a mass over its unit: beyond it, e^(-lam mass) is 0 at every node lam,
    # and e^650 times a value still fits into float64.
    log_mass_max = 650.0
    # Beyond, e^high is 0 or capped.
    low = np.where(size < 2 * log_mass_max, low, 0.0)
    capped = np.minimum(high, log_mass_max)
    return np.exp(capped) * (1 + low)


# --- heads in units of their largest masses -------------------------------------------------------


def head_masses(game: PooledGame) -> Masses:
    """Return the varying heads of `game` as one piece each, in units of their largest masses."""
    relative = game.relative_masses
    weighted = game.weighted_masses
    half_range = game.half_range
    varies = half_range > 0
    if not varies.all():
        relative = relative[varies]
        weighted = weighted[varies]
        half_range = half_range[varies]
    a, b, background = game.split_states(relative)
    excess = a - b
    lighter = np.empty((len(a), 2, game.d))
    np.less_equal(excess, 0.0, out=lighter[:, 0])
    np.greater_equal(excess, 0.0, out=lighter[:, 1])
    of_light_states = np.add.reduce(np.minimum(a, b), axis=1)
    return Masses(
        gap=np.abs(excess, out=excess),
        lighter=lighter,
        V=weighted[:, :-1].reshape(lighter.shape),
        D_0=of_light_states + background,
        n_0=weighted[:, -1],
        half_range=half_range,
    )


class Ranges(NamedTuple):
    """The smallest D of each head, in units of its largest mass, and the logarithm of the largest
    over it, (H,) each.
    """

    least: Array
    log_range: Array


def ranges_of(game: PooledGame, masses: Masses) -> Ranges:
    """Return the ranges of D of the varying heads, whose `head_masses` are given."""
    if game.can_be_empty:
        least = np.minimum.reduce(masses.gap, axis=1)
    else:
        least = masses.D_0
    most = masses.D_0 + np.add.reduce(masses.gap, axis=1)
    with np.errstate(divide="ignore", over="ignore"):
        return Ranges(least, np.log(most / least))


def game_pieces(game: PooledGame, eps: float) -> Iterator[Pieces]:
    """Yield the pieces of all varying heads, with nodes and weights for 1/D accurate to a relative
    `eps`.
    """
    masses = game.head_masses
    if not len(masses.D_0):
        return
    ranges = ranges_of(game, masses)
    common = _common_rule(ranges, eps)
    if common is not None:
        lam, w, piece_of = common
        yield Pieces(masses=masses, lam=lam, w=w, piece_of=piece_of, total=lam.size)
        return
    # Long ranges are split into pieces, each with a separate unit of mass.
    heads = heads_of(game)
    pieces = _scaled_pieces(scales_of(game, ranges), eps)
    total = sum(piece.lam.size for piece in pieces)
    # Tuning: elements (pieces times players) of one array of pieces, 8 MB.
    piece_elements = 1 << 20
    size = max(1, piece_elements // game.d)
    for start in range(0, len(pieces), size):
        group = pieces[start : start + size]
        units = np.array([piece.unit for piece in group])
        lengths = [piece.lam.size for piece in group]
        yield Pieces(
            masses=masses_of(heads, [piece.head for piece in group], units),
            lam=np.concatenate([piece.lam for piece in group]),
            w=np.concatenate([piece.w for piece in group]),
            piece_of=np.repeat(np.arange(len(group)), lengths),
            total=total,
        )


def _common_rule(ranges: Ranges, eps: float) -> tuple[Array, Array, Ids] | None:
    """Return nodes, weights and the head of each, (r,), if the range of every head is in the table
    of short sums.
    """
    keys = []
    for log_range in ranges.log_range.tolist():
        key = short_sum_key(log_range + LOG_ROOM, eps)
        if key is None:
            return None
        keys.append(key)
    lam, w, head_of = short_sums_together(tuple(keys))
    factor = 1 / (ranges.least * (1 - RANGE_ROOM))
    of_node = factor[head_of]
    return lam * of_node, w * of_node, head_of


# --- tiers of a head with a long range ------------------------------------------------------------


class Heads(NamedTuple):
    """The heads whose values vary. Log-masses (H, d), centered values (H, d) in units of
    2^exponent.
    """

    s: Array
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array  # (H,)
    v_background: Array  # (H,)
    half_range: Array  # (H,) largest |value|
    can_be_empty: bool


class Scale(NamedTuple):
    """A range of D of one head: from `least` to e^log_range times that, in units of e^unit."""

    head: int
    unit: float
    least: float
    log_range: float


class ScaledPiece(NamedTuple):
    """A head at one scale: masses are in units of e^unit, lam and w (L,) in units of e^-unit."""

    head: int
    unit: float
    lam: Array
    w: Array


def heads_of(game: PooledGame) -> Heads:
    """Return the varying heads of `game`."""
    varies = game.half_range > 0
    v, v_absent, v_background = game.centered
    return Heads(
        s=game.s[varies],
        v=v[varies],
        s_absent=game.s_absent[varies],
        v_absent=v_absent[varies],
        s_background=game.s_background[varies],
        v_background=v_background[varies],
        half_range=game.half_range[varies],
        can_be_empty=game.can_be_empty,
    )


def masses_of(heads: Heads, which: list[int], units: Array) -> Masses:
    """Return the masses of some heads, each in units of its e^unit."""
    s = heads.s[which]
    s_absent = heads.s_absent[which]
    s_background = heads.s_background[which]
    unit = units[:, None]
    present = exp_difference(s, unit)
    absent = exp_difference(s_absent, unit)
    background = exp_difference(s_background[:, None], unit)[:, 0]
    with np.errstate(over="ignore"):
        # Through expm1, so that the gap between nearly equal masses keeps its digits.
        share = -np.expm1(-np.abs(s - s_absent))
        gap = np.maximum(present, absent) * share
    lighter = np.stack([s <= s_absent, s >= s_absent], axis=1)
    of_light_states = np.add.reduce(np.minimum(present, absent), axis=1)
    return Masses(
        gap=gap,
        lighter=lighter.astype(np.float64),
        V=np.stack([present * heads.v[which], absent * heads.v_absent[which]], axis=1),
        D_0=of_light_states + background,
        n_0=background * heads.v_background[which],
        half_range=heads.half_range[which],
    )


def scales_of(game: PooledGame, ranges: Ranges) -> list[Scale]:
    """Return all tiers of all varying heads."""
    heads = heads_of(game)
    units = game.unit[game.half_range > 0]
    scales: list[Scale] = []
    for h, log_range in enumerate(ranges.log_range.tolist()):
        if log_range > TIER_GAP:
            scales += _tiers(heads, h)
            continue
        unit = float(units[h])
        least = float(ranges.least[h])
        scales.append(Scale(head=h, unit=unit, least=least, log_range=log_range))
    return scales


class _SortedGaps(NamedTuple):
    """The gaps of one head, ascending, as rounded logarithms; with D_0 in front, as player -1, if
    there is any.
    """

    log_gap: Array
    player: Ids
    s_heavy: Array  # (d,) larger log-mass of each player
    base: float  # log of the unit in which D_0 is computed


def _sorted_gaps(heads: Heads, h: int) -> _SortedGaps:
    """Return what D of a head consists of, lightest first."""
    s_light = np.minimum(heads.s[h], heads.s_absent[h])
    s_heavy = np.maximum(heads.s[h], heads.s_absent[h])
    with np.errstate(over="ignore", divide="ignore"):
        share = -np.expm1(s_light - s_heavy)
        log_gap = s_heavy + np.log(share)
    log_gap[s_light == s_heavy] = -np.inf
    order = np.argsort(log_gap)
    order = order[np.isfinite(log_gap[order])]
    log_gap = log_gap[order]
    if heads.can_be_empty:
        return _SortedGaps(log_gap=log_gap, player=order, s_heavy=s_heavy, base=0.0)
    base = max(float(s_light.max()), float(heads.s_background[h]))
    masses = masses_of(heads, [h], np.array([base]))
    log_D_0 = base + math.log(float(masses.D_0[0]))
    # Gaps below D_0 come after it: the order within a tier does not matter.
    return _SortedGaps(
        log_gap=np.concatenate([[log_D_0], log_gap]),
        player=np.concatenate([[-1], order]),
        s_heavy=s_heavy,
        base=base,
    )


def _tiers(heads: Heads, h: int) -> list[Scale]:
    """Return the tiers of one head, lightest first."""
    # Logarithms find the tiers; they may be rounded. The numbers that count are taken from masses
    # afterwards.
    gaps = _sorted_gaps(heads, h)
    so_far = np.logaddexp.accumulate(gaps.log_gap)
    jumps = gaps.log_gap[1:] - so_far[:-1]
    cuts = np.flatnonzero(jumps > TIER_GAP) + 1
    tiers = []
    firsts = [0, *cuts]
    lasts = [*cuts, so_far.size]
    # ln R of a tier up to this is computed from its masses, whose sum fits into float64; of a
    # longer one, from logarithms.
    log_range_exact = 256.0
    for first, last in zip(firsts, lasts, strict=True):
        player = int(gaps.player[first])
        is_background = player < 0
        if is_background:
            unit = gaps.base
        else:
            unit = float(gaps.s_heavy[player])
        masses = masses_of(heads, [h], np.array([unit]))
        D_0 = float(masses.D_0[0])
        gap = masses.gap[0]
        least = D_0 if is_background else float(gap[player])
        log_most = float(so_far[last - 1])
        log_range = log_most - float(gaps.log_gap[first])
        if log_range < log_range_exact:
            inside = gaps.player[:last]
            inside = inside[inside >= 0]
            most = D_0 + float(np.add.reduce(gap[inside]))
            log_range = math.log(most / least)
        else:
            size = abs(log_most) + abs(unit)
            log_range += LOG_RANGE_ROOM + LOG_RANGE_RELATIVE * size
        tiers.append(Scale(head=h, unit=unit, least=least, log_range=log_range))
    return tiers


def _scaled_pieces(scales: list[Scale], eps: float) -> list[ScaledPiece]:
    """Return every scale with nodes and weights for 1/D, accurate to a relative `eps`."""
    pieces = []
    for scale in scales:
        least = scale.least * (1 - RANGE_ROOM)
        for shift, lam, w in lambda_segments(scale.log_range + LOG_ROOM, eps):
            unit = scale.unit + shift
            factor = shift_rounding(scale.unit, shift) / least
            piece = ScaledPiece(head=scale.head, unit=unit, lam=lam * factor, w=w * factor)
            pieces.append(piece)
    return pieces


def shift_rounding(unit: float, shift: float) -> float:
    """Return e^((unit + shift) - unit - shift), what the rounding of unit + shift does to a mass in
    this unit.

    The nodes of a segment are lam e^(-shift) and masses are in units of e^(unit + shift), a rounded
    number.
    """
    return math.exp(((unit + shift) - unit) - shift)
