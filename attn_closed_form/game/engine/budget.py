"""The error budget of a computation: |error| <= tol * max|f|, or a ToleranceError.

With B, the spread, the sum over heads of the largest |value| off the center, the error of a mean
difference Delta_j, or of a sum of them with weights that add up to 1 in modulus, is at most

    2 (eps + rho) B        the lambda rule, and rounding: both are relative to centered values
    + p_error              the rule in p
    + OUTPUT max|f|        the last few additions.

`budget` splits `tol` among them (step 8 of docs/what-tol-guarantees.md); all counts of ulps are in
`rounding.py`. max|f| is not known. The largest |f| of a few coalitions, minus a bound of its
rounding, is a lower bound of it.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, Context
from typing import NamedTuple

import numpy as np

from ..._arrays import positive
from ..._types import Array
from .engine_game import EngineGame, Game
from .exponential_sums import EPS_MIN
from .rounding import (
    CONSTANTS,
    FACTOR,
    FLUSHED_EXPONENT,
    LEAST_EXPONENT,
    OUTPUT,
    PRECISE,
    SPREAD_ROOM,
    SUBNORMAL,
    ULP,
)

# Cap for a number much larger than every value, such as a bias of 1e300 next to values of 1e-300:
# far above any value in units of 2^exponent (at most 1), and its square still fits into float64
# with a margin of 2^-100 on both sides.
LARGE = 2.0**900
# Its logarithm.
LARGE_EXPONENT = 900
# Tuning: the share of `tol` for the rule in p. A few more nodes make up for a small share, so it is
# less than half (benchmarks/time_error).
P_SHARE = 1 / 4
# Tuning: the share of `tol` for the approximation of a link by poles in one mean; a difference has
# two of them.
POLE_SHARE = 1 / 16
# Tuning: the loosest relative error of 1/D that is requested; a looser rule saves no node.
EPS_LOOSE = 0.01


class ToleranceError(ValueError):
    """Error for an accuracy that cannot be guaranteed in floating point.

    `smallest` is the smallest tol that can be guaranteed, infinite if none is known.
    """

    def __init__(self, message: str, smallest: float = math.inf) -> None:
        super().__init__(message)
        self.smallest = smallest


class Budget(NamedTuple):
    """The accuracy of the engine's parts, in units of 2^exponent like its values."""

    eps: float  # relative error of 1/D
    p_error: float  # allowed absolute error of the rule in p, over all heads
    scale: float  # lower bound of max|f|
    spread: float  # B of the module docstring
    precise: bool  # whether products are taken through logarithms
    amplification: float = 1.0  # as given to `budget`


class Computation:
    """One computation of values within `tol`: the game of the engine, its budget, and the way back
    from its sums.

    Parameters
    ----------
    game : the user's game
    tol : guaranteed accuracy of the result, relative to max|f|
    amplification : factor from an error of a mean difference to one of the result. `budget` assumes
        that a relative error of f counts twice, as in a difference; a caller for which it counts
        `factor` times gives factor / 2, as LIME's moments do
    plain, extra_ulps, constants : as in `budget`

    Examples
    --------
    The mean of two equally likely coalitions, by the engine and by hand:

    >>> from attn_closed_form import PooledGame
    >>> from attn_closed_form.game.engine.terms import terms_of
    >>> game = PooledGame.from_scores([0.0], [3.0], s_background=0.0, v_background=1.0)
    >>> computation = Computation(game, 1e-10)
    >>> half = np.array([[0.5]])
    >>> sums = 0.0
    >>> for terms in terms_of(computation.engine, computation.budget):
    ...     at = terms.at_probability(half, computation.budget.precise)
    ...     sums = sums + (at.P * at.num).sum()
    >>> round(float(computation.finish(sums, constant_mass=1.0)), 9)  # of 1 and (3 + 1) / 2
    1.5
    """

    def __init__(
        self,
        game: Game,
        tol: float,
        amplification: float = 1.0,
        plain: bool = False,
        extra_ulps: float = 0.0,
        constants: float = 0.0,
    ) -> None:
        self.engine = game.engine_game(tol / amplification)
        self.budget = budget(self.engine, tol, amplification, plain, extra_ulps, constants)

    def finish(
        self, sums: Array, empty_mass: Array | float = 0.0, constant_mass: float = 0.0
    ) -> Array:
        """Return the values that belong to sums of the engine, or raise a ToleranceError if they
        overflow.

        Parameters
        ----------
        sums : in units of 2^exponent, without the game's constant, and with the constant as the
            value of an empty coalition that has no mass
        empty_mass : the weight of the empty coalition in each sum, with its sign
        constant_mass : the weight of all coalitions together: 1 for a mean, 0 for a difference
        """
        engine = self.engine
        with np.errstate(over="ignore", invalid="ignore"):
            values = times_power(sums, engine.exponent)
            if constant_mass:
                values = values + engine.base * constant_mass
            if engine.can_be_empty:
                values = values + engine.empty_excess * empty_mass
        return finite(values)


def budget(
    game: EngineGame,
    tol: float,
    amplification: float = 1.0,
    plain: bool = False,
    extra_ulps: float = 0.0,
    constants: float = 0.0,
) -> Budget:
    """Return the accuracy that the parts of a computation must keep, or raise a ToleranceError with
    the smallest tol.

    Parameters
    ----------
    game : the game of the engine
    tol : guaranteed accuracy, relative to max|f|
    amplification : factor from an error of a mean difference to one of the caller's result
    plain : whether products cannot be computed through logarithms, as in the recursion over sizes
    extra_ulps : rounding in addition to that of the engine, in ulps of the spread
    constants : sum of moduli of constants that the caller adds up, of which a result may lose
        CONSTANTS ulps

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores([0.0, 1.0], [1.0, -1.0], s_background=0.0, v_background=0.0)
    >>> parts = budget(game, 1e-10)
    >>> parts.eps < 1e-10, parts.precise
    (True, False)
    """
    parts = find_budget(game, tol, amplification, plain, extra_ulps, constants)
    if isinstance(parts, ToleranceError):
        raise parts
    return parts


def find_budget(
    game: EngineGame,
    tol: float,
    amplification: float = 1.0,
    plain: bool = False,
    extra_ulps: float = 0.0,
    constants: float = 0.0,
    known_error: float | None = None,
) -> Budget | ToleranceError:
    """Return the result of `budget`, or its error as a value, for callers that have another way.

    `known_error` is what the errors of the values that the engine does not compute can change in a
    result, in units of 2^exponent. By default they are `base` and the value of the empty coalition.
    """
    # The plain test is for speed: `positive` costs as much as the rest of a small budget.
    if not (type(tol) is float and 0 < tol < math.inf):
        tol = positive("tol", tol)
    plain = plain or not game.positive
    scale = game.scale
    spread = float(game.half_range.sum()) * SPREAD_ROOM
    share = game.engine_share
    least_tol = game.least_tol(amplification)
    if not least_tol > tol:
        least_tol = 0.0
    if known_error is None:
        # `base` is in a result at most once, and in the difference of the empty coalition from it,
        # which counts at most as much as an error of every value.
        known_error = (1 + 2 * amplification) * game.known_error
    output = _relative_output(scale, game.exponent, constants, known_error)
    if spread == 0 and tol * share > output and tol >= least_tol:
        return Budget(
            eps=EPS_LOOSE,
            p_error=1.0,
            scale=scale,
            spread=spread,
            precise=False,
            amplification=amplification,
        )
    rounding = ULP * (PRECISE + (extra_ulps + game.extra_ulps))
    product = ULP * FACTOR * game.d
    # The smallest eps there is gives the smallest tol.
    error = EPS_MIN + rounding + (product if plain else 0)
    need = _tol_needed(spread, scale, amplification, output, error)
    need = max(need / share, least_tol)
    # The tol that an error names is rounded up to two digits, which is at most a tenth more; its
    # text is only built for a tol below this multiple of the number that is needed.
    rounded_up = 1.2
    if not tol >= rounded_up * need and not tol >= float(smallest_text(need)):
        smallest = float(smallest_text(need))
        if smallest < math.inf:
            # A linked game has other poles for the named tol, which has to work with those.
            named_game = game.engine_game(smallest / amplification)
            if named_game is not game:
                parts = find_budget(
                    named_game,
                    smallest,
                    amplification,
                    plain,
                    extra_ulps,
                    constants,
                    known_error,
                )
                if isinstance(parts, ToleranceError):
                    smallest = parts.smallest
        return _tolerance_error(tol, smallest, scale, spread, game.exponent)
    part = (tol * share - output) * scale / amplification
    total = part * (1 - P_SHARE) / (2 * spread)
    # Tuning: products are taken through logarithms, which is slower, if plain ones would need more
    # than this share of the error that the lambda rule and rounding have together.
    plain_share = 1 / 4
    precise = not plain and rounding + product > total * plain_share
    if not precise:
        rounding = rounding + product
    eps = min(EPS_LOOSE, total - rounding)
    return Budget(
        eps=eps,
        p_error=part * P_SHARE,
        scale=scale,
        spread=spread,
        precise=precise,
        amplification=amplification,
    )


def _relative_output(scale: float, exponent: int, constants: float, known_error: float) -> float:
    """Return the rounding of the last additions relative to max|f|, with their loss among the
    smallest numbers and the error of the values that are added.
    """
    lost_to_underflow = SUBNORMAL * math.ldexp(1.0, least_exponent() - exponent)
    lost = lost_to_underflow + CONSTANTS * ULP * constants + known_error
    if scale:
        return OUTPUT * ULP + lost / scale
    return OUTPUT * ULP + (math.inf if constants or known_error else 0.0)


def least_exponent() -> int:
    """Return the k for which additions among the smallest numbers lose at most 2^k each, in units
    of SUBNORMAL.

    Libraries such as torch can tell the processor to turn subnormal numbers into zero.

    >>> least_exponent()
    -1074
    """
    if sys.float_info.min / 2 > 0:
        return LEAST_EXPONENT
    return FLUSHED_EXPONENT


def _tol_needed(
    spread: float, scale: float, amplification: float, output: float, error: float
) -> float:
    """Return a tol that can be kept, slightly above the one that `budget` needs."""
    if not scale:
        return math.inf
    of_sums = amplification * 2 / (1 - P_SHARE) * spread * error / scale
    return (output + of_sums) * (1 + 1e-9)


def _tolerance_error(
    tol: float, smallest: float, scale: float, spread: float, exponent: int
) -> ToleranceError:
    """Return the error that names the smallest tol."""
    if smallest == math.inf:
        return ToleranceError(
            f"tol: {tol:g} cannot be guaranteed for this game: f is 0 wherever it was tried"
        )
    return ToleranceError(
        f"tol: {tol:g} cannot be guaranteed for this game in float64 (its values spread over "
        f"{_shown(2 * spread, exponent)}, max|f| is at least {_shown(scale, exponent)}); "
        f"the smallest possible tol is {smallest:.1e}",
        smallest,
    )


def guaranteed_error(game: Game, tol: float) -> float:
    """Return the guaranteed error of a result as a number: tol times a lower bound of max|f|."""
    if game.scale == LARGE:
        return math.inf
    return float(np.ldexp(tol * game.scale, game.exponent))


def smallest_text(tol: float) -> str:
    """Round `tol` up to two digits, so that the printed number works.

    >>> smallest_text(1.2300001e-13)
    '1.3e-13'
    """
    if not math.isfinite(tol):
        return "inf"
    two_digits = Context(prec=2, rounding=ROUND_CEILING)
    return f"{float(two_digits.create_decimal_from_float(tol)):.1e}"


def in_units(value: float, exponent: int) -> float:
    """Convert a number >= 0 to units of 2^exponent, capped if it is much larger than every
    value.
    """
    if value and math.frexp(value)[1] - exponent > LARGE_EXPONENT:
        return LARGE
    return math.ldexp(value, -exponent)


def times_power(x: Array, exponent: int) -> Array:
    """Compute x 2^exponent, exact except for overflow and underflow."""
    if -1000 < exponent < 1000:  # 2^exponent is a number, and a product is faster than ldexp
        return x * 2.0**exponent
    return np.ldexp(x, exponent)


def finite(x: Array, nan: bool = False) -> Array:
    """Return x, or raise a ToleranceError if a number overflowed. `nan` allows 0/0, which the
    caller replaces later.
    """
    if np.isinf(x).any() or (not nan and np.isnan(x).any()):
        raise ToleranceError(
            "the result overflows float64: a number is above 1.8e308; divide the values by a "
            "constant"
        )
    return x


def _shown(value: float, exponent: int) -> str:
    """Format a number in units of 2^exponent, for a message."""
    try:
        return f"{math.ldexp(value, exponent):g}"
    except OverflowError:
        return "more than 1e308"
