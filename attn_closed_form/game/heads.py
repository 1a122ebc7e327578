"""The heads of a game in the form that the engine works with: a light and a heavy state per player, at one scale of
mass.

In a head every player has a light state (mass lo) and a heavy one (mass lo + gap); D_0, the mass of all light states
and of the background, is always there, so the mass of a coalition is D_0 plus the gaps of the players in their heavy
state.

**Scales.** 1/D needs nodes lam over the whole range of D, about four per e-fold. But D cannot be everywhere: sort D_0
and the gaps, and cut where the next gap is more than e^TIER_GAP times everything before it. D then lies in one of the
ranges ("tiers") between the cuts, each from its smallest member to the sum of all up to its largest. A rule for 1/D on
every tier, all of them added up, is a rule for 1/D on their union: at a D of one tier the nodes of a heavier tier add
at most 100 e^(-TIER_GAP) / D, and the nodes of a lighter one less than e^-800 / D. So a masked score of -1e9 costs a
handful of nodes. A tier that is long all the same (a chain of players, each e^40 times the one before) is cut into
segments of nodes. Each tier or segment is a `Piece` with a unit of mass of its own, in which everything that matters
fits into float64: what is too light counts as 0, what is too heavy has e^(-lam mass) = 0.

**Digits.** Scores are subtracted from the unit in two floats, without rounding, so masses are right to a few ulps
however large the scores or their offset are. Values are in units of a power of two and centred in each head
(`PooledGame.centre`); a head whose values do not vary is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .pooled_game import PooledGame
from .quadrature import lambda_segments

TIER_GAP = 45.0
# Relative room at both ends of a tier, for the rounding of the masses that D is the sum of.
ROOM = 1e-12
# A longer tier's ln R is taken from logarithms, with this much room for their rounding.
LOG_RANGE_EXACT, MARGIN = 256.0, 1e-6
# Largest logarithm of a mass over its unit: such a mass has e^(-lam mass) = 0 at every node of the piece.
LOG_MASS_MAX = 650.0
# A difference of scores below this loses at most as many ulps of a mass, which the budget has.
NEAR = 16.0
# Elements (pieces times players) of one array of pieces.
PIECE_ELEMENTS = 1 << 20


class Heads(NamedTuple):
    """The heads whose values vary. Log-masses (H, d), centred values (H, d) in units of 2^exponent."""

    s_lo: Array
    s_hi: Array
    v_lo: Array
    v_hi: Array
    present_is_light: NDArray[np.bool_]  # (H, d)
    s_background: Array  # (H,)
    v_background: Array  # (H,)
    half_range: Array  # (H,) largest |value|
    can_be_empty: bool

    @property
    def d(self) -> int:
        """Number of players."""
        return self.s_lo.shape[1]


class Piece(NamedTuple):
    """A head at one scale: masses are in units of e^unit, lam and w (L,) in units of e^-unit."""

    head: int
    unit: float
    lam: Array
    w: Array


class PieceMasses(NamedTuple):
    """Arrays of n pieces: lo, gap (n, d) masses; V_lo, V_hi (n, d) masses times values; D_0, N_0, background (n,)."""

    lo: Array
    gap: Array
    V_lo: Array
    V_hi: Array
    D_0: Array  # mass that is always there
    N_0: Array  # mass times value of the light states and the background
    background: Array  # the background's mass
    n_0: Array  # the background's mass times value
    light: NDArray[np.bool_]  # (n, d) whether a player is light when present
    half_range: Array  # (n,)


def heads_of(game: PooledGame) -> Heads:
    """The varying heads of `game`, normalised."""
    v, v_absent, v_background = game._centred
    half_range = game.half_range
    s, s_absent, s_background = game.s, game.s_absent, game.s_background
    varies = half_range > 0
    if not varies.all():
        v, v_absent, v_background, half_range = v[varies], v_absent[varies], v_background[varies], half_range[varies]
        s, s_absent, s_background = s[varies], s_absent[varies], s_background[varies]
    light = s < s_absent
    if light.any():
        s_lo, s_hi = np.minimum(s, s_absent), np.maximum(s, s_absent)
        v_lo, v_hi = np.where(light, v, v_absent), np.where(light, v_absent, v)
    else:
        s_lo, s_hi, v_lo, v_hi = s_absent, s, v_absent, v
    return Heads(s_lo, s_hi, v_lo, v_hi, light, s_background, v_background, half_range, game.can_be_empty)


class Scale(NamedTuple):
    """A range of D of one head: from `least` to e^log_range times that, in units of e^unit."""

    head: int
    unit: float
    least: float
    log_range: float


def scales_of(heads: Heads) -> tuple[list[Scale], PieceMasses | None]:
    """All tiers of all heads; and, where no head has more than one, the masses of the heads in those units."""
    H = len(heads.s_lo)
    if H == 0:
        return [], None
    units = np.maximum(heads.s_hi.max(axis=1), heads.s_background)
    masses = masses_of(heads, list(range(H)), units)
    least = masses.gap.min(axis=1) if heads.can_be_empty else masses.D_0
    with np.errstate(divide="ignore", over="ignore"):
        log_range = np.log((masses.D_0 + np.add.reduce(masses.gap, axis=1)) / least)
    numbers = list(zip(units.tolist(), least.tolist(), log_range.tolist(), strict=True))
    if log_range.max() <= TIER_GAP:
        return [Scale(h, *three) for h, three in enumerate(numbers)], masses
    found: list[Scale] = []
    for h, three in enumerate(numbers):
        found += [Scale(h, *three)] if three[2] <= TIER_GAP else _tiers(heads, h)
    return found, None


def _tiers(heads: Heads, h: int) -> list[Scale]:
    """The tiers of one head, lightest first."""
    s_lo, s_hi = heads.s_lo[h], heads.s_hi[h]
    # Logarithms find the tiers; they may be rounded. The numbers that count are taken from masses afterwards.
    with np.errstate(over="ignore", divide="ignore"):
        log_gap = s_hi + np.log(-np.expm1(s_lo - s_hi))
    log_gap[s_lo == s_hi] = -np.inf
    order = np.argsort(log_gap)
    order = order[np.isfinite(log_gap[order])]
    increments, members = log_gap[order], order
    if not heads.can_be_empty:
        base = max(float(s_lo.max()), float(heads.s_background[h]))
        always = math.log(float(masses_of(heads, [h], np.array([base])).D_0[0]))
        # Gaps below D_0 come after it: the order within a tier does not matter.
        below = increments < base + always
        increments = np.concatenate([[base + always], increments[below], increments[~below]])
        members = np.concatenate([[-1], members[below], members[~below]])
    so_far = np.logaddexp.accumulate(increments)
    cuts = np.flatnonzero(increments[1:] - so_far[:-1] > TIER_GAP) + 1
    found = []
    for first, last in zip([0, *cuts], [*cuts, increments.size], strict=True):
        j = int(members[first])
        unit = base if j < 0 else float(s_hi[j])
        here = masses_of(heads, [h], np.array([unit]))
        least = float(here.D_0[0]) if j < 0 else float(here.gap[0, j])
        log_range = float(so_far[last - 1] - increments[first])
        if log_range < LOG_RANGE_EXACT:
            inside = members[:last][members[:last] >= 0]
            log_range = math.log((float(here.D_0[0]) + float(np.add.reduce(here.gap[0, inside]))) / least)
        else:
            log_range += MARGIN + 2.0**-48 * (abs(float(so_far[last - 1])) + abs(unit))
        found.append(Scale(h, unit, least, log_range))
    return found


def pieces_of(scales: list[Scale], eps: float) -> list[Piece]:
    """Every scale with nodes and weights for 1/D good to a relative `eps`."""
    found = []
    for head, unit, least, log_range in scales:
        least *= 1 - ROOM
        for shift, lam, w in lambda_segments(log_range + 3 * ROOM, eps):
            moved = unit + shift
            factor = math.exp((moved - unit) - shift) / least
            found.append(Piece(head, moved, lam * factor, w * factor))
    return found


def masses_of(heads: Heads, own: list[int], units: Array) -> PieceMasses:
    """PieceMasses of the heads `own`, each in its own unit."""
    pick: list[int] | slice = slice(None) if own == list(range(len(heads.s_lo))) else own
    s_lo, s_hi, unit = heads.s_lo[pick], heads.s_hi[pick], units[:, None]
    hi = exp_difference(s_hi, unit)
    if heads.can_be_empty:
        lo, gap = np.zeros_like(hi), hi
    else:
        lo = exp_difference(s_lo, unit)
        with np.errstate(over="ignore"):
            gap = hi * -np.expm1(s_lo - s_hi)
    background = exp_difference(heads.s_background[pick][:, None], unit)[:, 0]
    n_0 = background * heads.v_background[pick]
    V_lo, V_hi = lo * heads.v_lo[pick], (lo + gap) * heads.v_hi[pick]
    return PieceMasses(
        lo=lo,
        gap=gap,
        V_lo=V_lo,
        V_hi=V_hi,
        D_0=np.add.reduce(lo, axis=1) + background,
        N_0=np.add.reduce(V_lo, axis=1) + n_0,
        background=background,
        n_0=n_0,
        light=heads.present_is_light[pick],
        half_range=heads.half_range[pick],
    )


def exp_difference(s: Array, unit: Array) -> Array:
    """e^(s - unit), right to a few ulps however large both are: the difference is taken in two floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = s - unit
        if np.abs(high).max() < NEAR:
            return np.exp(high)
        back = high - s
        low = (s - (high - back)) - (unit + back)
    low = np.where(np.abs(high) < 2 * LOG_MASS_MAX, low, 0.0)  # beyond, e^high is 0 or capped
    return np.exp(np.minimum(high, LOG_MASS_MAX)) * (1 + low)


def groups_of(pieces: list[Piece], d: int) -> Iterator[list[Piece]]:
    """The pieces in groups whose arrays stay small."""
    size = max(1, PIECE_ELEMENTS // d)
    for start in range(0, len(pieces), size):
        yield pieces[start : start + size]
