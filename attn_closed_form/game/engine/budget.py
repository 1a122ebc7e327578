"""The error budget of a computation: |error| <= tol * max|f|, or a ToleranceError.

With B the sum over heads of the largest |value| off the center (`PooledGame.half_range`), the error of a mean
difference Delta_j, or of a sum of them with weights that add up to 1 in modulus, is at most

    2 (eps + rho) B        the lambda rule, and rounding: both are relative errors of every coalition's centered value
    + p_error              the rule in p
    + OUTPUT max|f|        the last few additions.

`budget` gives the rule in p a quarter of tol, because a few more nodes make up for a small part, and the first line
the rest. rho is derived in `docs/what-tol-guarantees.md`: a product of d factors
computed directly costs FACTOR ulps per factor; through logarithms, where an error is relative to the logarithm, it
costs PRECISE ulps for any d. The plain product is faster and is used if it is accurate enough.

max|f| is not known. The largest |f| of a few coalitions, minus a bound of its rounding, is a lower bound of it.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import positive
from ..pooled_game import PooledGame
from ..pooled_game import ToleranceError as ToleranceError
from .exponential_sums import EPS_MIN

if TYPE_CHECKING:
    from ..links import LinkedGame, PoleGame

ULP = 2.0**-53
# Rounding in ulps: of each factor of a plain product, and of everything else.
FACTOR = 10.0
PRECISE = 400.0
# Rounding of the last additions, relative to max|f|.
OUTPUT = 8 * ULP
# Cap for a number much larger than every value, such as a bias of 1e300 next to values of 1e-300.
LARGE = 2.0**900
# Share of `tol` for the approximation of a link by poles in one mean; a difference has two of them.
POLE_SHARE = 1 / 16
# Share of `tol` for the rule in p.
P_SHARE = 1 / 4
# Loosest relative error of 1/D that is requested.
EPS_LOOSE = 0.01


class Budget(NamedTuple):
    """The accuracy of the engine's parts, in units of 2^exponent like its values."""

    eps: float  # relative error of 1/D
    p_error: float  # allowed absolute error of the rule in p, over all heads
    scale: float  # lower bound of max|f|
    spread: float  # B of the module docstring
    precise: bool  # whether products are taken through logarithms
    amplification: float = 1.0  # as given to `budget`


class Arithmetic(NamedTuple):
    """A floating type: its name, half its spacing at 1, the smallest eps in it, and its smallest exponent."""

    name: str
    ulp: float
    eps_min: float
    least_exponent: int


FLOAT64 = Arithmetic("float64", ULP, EPS_MIN, -1074)
FLOAT32 = Arithmetic("float32", 2.0**-24, 2.0**-22, -126)


def budget(
    game: PooledGame | PoleGame,
    tol: float,
    amplification: float = 1.0,
    plain: bool = False,
    doubt: float = 0.0,
    constants: float = 0.0,
    arithmetic: Arithmetic = FLOAT64,
) -> Budget:
    """Return the accuracy that the parts of a computation must keep, or raise a ToleranceError with the smallest tol.

    Parameters
    ----------
    game : PooledGame
    tol : guaranteed accuracy, relative to max|f|
    amplification : factor from an error of a mean difference to one of the caller's result
    plain : whether products cannot be computed through logarithms, as in the recursion over sizes
    doubt, constants : rounding in addition to that of the engine, as in `Facts`
    arithmetic : the floating type of the computation

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 1.0], [1.0, -1.0], s_background=0.0, v_background=0.0)
    >>> found = budget(game, 1e-10)
    >>> found.eps < 1e-10, found.precise
    (True, False)
    """
    spread = float(game.half_range.sum())
    if isinstance(game, PooledGame):
        facts = Facts(largest_known_value(game), spread, game.d, game.exponent, doubt, constants)
        return budget_of(facts, tol, amplification, plain, arithmetic)
    # The poles of a linked game take an eighth of tol, or more if none are accurate enough.
    scale = largest_known_value(game)
    left = 1 - 2 * POLE_SHARE
    if scale:
        least = amplification * game.poles.error / (POLE_SHARE * scale)
    else:
        least = math.inf
    doubt += game.doubt * (arithmetic.ulp / ULP)
    facts = Facts(scale, spread, game.d, 0, doubt, constants)
    return budget_of(
        facts, tol, amplification, True, arithmetic, left, least if least > tol else 0.0
    )


class Facts(NamedTuple):
    """The inputs of a budget, which any device can compute. Values are in units of 2^exponent."""

    scale: float  # lower bound of max|f|
    spread: float  # sum over heads of the largest |value| off the center
    d: int
    exponent: int
    doubt: float = (
        0.0  # further rounding relative to the spread, for masses that are already rounded
    )
    constants: float = (
        0.0  # constants added up in the floating type, of which a result may lose 8 ulps
    )


def budget_of(
    facts: Facts,
    tol: float,
    amplification: float = 1.0,
    plain: bool = False,
    arithmetic: Arithmetic = FLOAT64,
    left: float = 1.0,
    least_tol: float = 0.0,
) -> Budget:
    """Compute a `budget` from numbers, for a computation in any floating type.

    `left` is the remaining part of `tol`, and `least_tol` the smallest tol that the other part can keep.
    """
    if not (type(tol) is float and 0 < tol < math.inf):
        tol = positive("tol", tol)
    scale = facts.scale
    spread = facts.spread * (1 + 1e-12)
    ulp = arithmetic.ulp
    # The rounding of the last additions, relative to max|f|, and their loss among the smallest numbers of the type.
    lost = (
        8 * math.ldexp(1.0, arithmetic.least_exponent - facts.exponent) + 8 * ulp * facts.constants
    )
    output = OUTPUT / ULP * ulp + (lost / scale if scale else math.inf if facts.constants else 0.0)
    if spread == 0 and tol * left > output and tol >= least_tol:
        return Budget(EPS_LOOSE, 1.0, scale, spread, False, amplification)
    least = ulp * PRECISE + facts.doubt
    every = ulp * FACTOR * facts.d
    need = _tol_needed(
        spread, scale, amplification, output, arithmetic.eps_min + least + (every if plain else 0)
    )
    need = max(need / left, least_tol)
    # The named tol is rounded up by at most a tenth; the text is only built if it may be needed.
    if not tol >= 1.2 * need and not tol >= (smallest := float(smallest_text(need))):
        if smallest == math.inf:
            raise ToleranceError(
                f"tol: {tol:g} cannot be guaranteed for this game: f is 0 wherever it was tried"
            )
        raise ToleranceError(
            f"tol: {tol:g} cannot be guaranteed for this game in {arithmetic.name} (its values spread over "
            f"{_shown(2 * spread, facts.exponent)}, max|f| is at least {_shown(scale, facts.exponent)}); "
            f"the smallest possible tol is {smallest_text(smallest)}",
            smallest,
        )
    part = (tol * left - output) * scale / amplification
    total = part * (1 - P_SHARE) / (2 * spread)
    precise = not plain and least + every > total / 4
    rounding = least if precise else least + every
    return Budget(
        min(EPS_LOOSE, total - rounding), part * P_SHARE, scale, spread, precise, amplification
    )


def guaranteed_error(game: PooledGame | LinkedGame, tol: float) -> float:
    """Return the guaranteed error of a result as a number: tol times a lower bound of max|f|."""
    if not isinstance(game, PooledGame):
        return tol * game._scale
    scale = largest_known_value(game)
    if scale == LARGE:
        return math.inf
    return float(np.ldexp(tol * scale, game.exponent))


def _tol_needed(
    spread: float, scale: float, amplification: float, output: float, error: float
) -> float:
    """Return a tol that can be kept, slightly above the one that `budget` needs."""
    if scale:
        return (output + amplification * 2 / (1 - P_SHARE) * spread * error / scale) * (1 + 1e-9)
    return math.inf


def smallest_text(tol: float) -> str:
    """Round `tol` up to two digits, so that the printed number works.

    >>> smallest_text(1.2300001e-13)
    '1.3e-13'
    """
    if not math.isfinite(tol):
        return "inf"
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(tol)):.1e}"


def largest_known_value(game: PooledGame | PoleGame) -> float:
    """Return a lower bound of max|f| over all coalitions, in units of 2^exponent.

    It is the largest value of a few coalitions minus its rounding: d ulps for each sum of a head, one for the base.
    """
    if not isinstance(game, PooledGame):
        return game.linked._scale
    kept: float | None = game.__dict__.get("_largest_known_value")
    if kept is None:
        kept = game.__dict__["_largest_known_value"] = _largest_known_value(game)
    return kept


def _largest_known_value(game: PooledGame) -> float:
    known = in_units(float(np.abs(game._value_block(_probes(game))).max()), game.exponent)
    base = in_units(abs(game.base), game.exponent)
    doubt = ULP * (4 * (game.d + 8) * float(game.half_range.sum()) + 2 * base)
    return max(0.0, known * (1 - 4 * ULP) - doubt)


def in_units(value: float, exponent: int) -> float:
    """Convert a number >= 0 to units of 2^exponent, capped if it is much larger than every value."""
    if value and math.frexp(value)[1] - exponent > 900:
        return LARGE
    return math.ldexp(value, -exponent)


def _probes(game: PooledGame) -> NDArray[np.bool_]:
    """Return (6, d) coalitions with likely large |f|: all, none, all that raise or lower f, two single players."""
    present, absent, _ = game._parts(game._weighted)
    rise = np.add.reduce(present - absent, axis=0)
    alone = np.add.reduce(game._centered[0], axis=0)
    probes = np.zeros((6, game.d), dtype=bool)
    np.greater(rise, 0.0, out=probes[2])
    np.less(rise, 0.0, out=probes[3])
    probes[0] = probes[4, alone.argmax()] = probes[5, alone.argmin()] = True
    return probes


def _shown(value: float, exponent: int) -> str:
    """Format a number in units of 2^exponent, for a message."""
    try:
        return f"{math.ldexp(value, exponent):g}"
    except OverflowError:
        return "more than 1e308"
