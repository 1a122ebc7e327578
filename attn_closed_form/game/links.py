"""A function of a prediction as a game: probabilities and risks of a one-head pooled game, exactly.

Let f = N/D be the value of a pooled game with one head, and g a function that is analytic on the
range [low, high] of f. A rational approximation with simple poles z_m off that range,

    g(f) = constant + Re sum_m r_m / (f - z_m) + error,          |error| <= `Poles.error` on [low, high],

turns g(f) into a sum of pooled games with complex masses (`engine/poles.py`), so a linked game is a
game for every function of the library that takes one.

| link | g(f) | poles |
|---|---|---|
| "sigmoid" | 1 / (1 + e^-f) | +-i y_m with positive residues, from a table over max(abs(low), abs(high)) |
| "x tanh", "log cosh", "x erf", "x tanh cubic" | even parts of SiLU, softplus and GELU (`hidden_layer.py`) | a table |
| "exp" | e^f | a ring around [low, high]: the trapezoidal rule for Cauchy's integral |

The entries of the table are made by `benchmarks/link_poles.py` and proved in ball arithmetic by
`tests/game/test_links.py`. The bound of the ring is derived in docs/theory/bounds-of-the-engine.md,
"Poles of the exponential".
"""  # noqa: E501

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import usual_float_errors
from .._erf import erf
from .._types import Array
from .engine.budget import POLE_SHARE, ToleranceError, finite, times_power
from .engine.exponential_sums import read_table
from .engine.poles import Complex, PoleGame, Poles
from .engine.rounding import (
    LINK_ARGUMENT,
    LINK_POINT,
    LINK_RANGE_ROOM,
    LINK_VALUE,
    ULP,
    VALUE_FIXED_PLAYERS,
    VALUE_PER_PLAYER,
)
from .extrema import smallest_mean
from .pooled_game import PooledGame

# Tuning: radii of rings that are tried, relative to the half range.
RADII = np.geomspace(1.2, 12.0, 24)
# Tuning: largest ratio of masses for which the exact range is computed; beyond, the range of the
# values is taken, which is hardly wider.
LARGEST_RATIO = 1e4


class Function(NamedTuple):
    """A function g of one variable, its poles for a range and an error, and its largest slope on a
    range.
    """

    function: Callable[[Any], Any]
    poles: Callable[[float, float, float], Poles]
    slope: Callable[[float, float], float]


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _sigmoid_poles(low: float, high: float, error: float) -> Poles:
    """Return the shortest entry of the table that is accurate enough, or the best one."""
    (ranges,), entries = read_table("links.npz", "R", columns=("y", "r"))
    i = bisect_left(ranges, max(abs(low), abs(high)))
    if i == len(ranges):
        raise ToleranceError(
            f"the prediction ranges over [{low:.4g}, {high:.4g}]; exact values of its logistic "
            f"function are computed up to a modulus of {ranges[-1]:g}"
        )
    # The shortest is the first, and the last is the most accurate.
    of_range = entries[ranges[i],]
    accurate = [entry for entry in of_range if entry[0] <= error]
    if accurate:
        bound, y, r = accurate[0]
    else:
        bound, y, r = of_range[-1]
    return Poles(constant=0.5, z=1j * y, residue=r + 0j, error=bound)


class _Ring(NamedTuple):
    """A ring of n poles; rings compare by whether they miss the error, then by their number of
    poles.
    """

    misses: bool
    n: int
    bound: float
    radius: float


def _exp_poles(low: float, high: float, error: float) -> Poles:
    """Place poles of e^f on a ring around the range, as few as possible."""
    middle = (low + high) / 2
    half = (high - low) / 2
    constant = float(np.exp(middle))
    largest = float(np.exp(high))
    best: _Ring | None = None
    # Tuning: limit on the growth of g from the range to the ring, beyond which too many digits
    # cancel.
    largest_growth = 60.0
    for radius in RADII * half:
        # On a circle |e^z| is largest at its right end.
        G = float(np.exp(middle + radius)) + constant
        if best is not None and largest_growth * largest < G:
            break
        ring = _shortest_ring(middle, half, radius, G, error)
        if best is None or ring < best:
            best = ring
    assert best is not None
    n = best.n
    # Every second pole: the others are their conjugates.
    odd = 2 * np.arange(n // 2) + 1
    step = best.radius * np.exp(1j * np.pi * odd / n)
    z = middle + step
    values = np.exp(z) - constant
    residue = -2 / n * values * step
    return Poles(constant=constant, z=z, residue=residue, error=best.bound)


def _shortest_ring(middle: float, half: float, radius: float, G: float, error: float) -> _Ring:
    """Return the ring of this radius with the fewest poles that keep the error, or with the most
    poles there are.
    """
    x = half / radius
    # Tuning: half the maximum number of poles on a ring; more would take too long.
    most_poles = 96
    for n in range(4, 2 * most_poles + 1, 2):
        # e^700 is the end of float64.
        log_tail = min(_log_exp_tail(middle, radius, n), 700.0)
        power = x**n
        aliases = G * power / ((1 - x) * (1 - power))
        bound = aliases + math.exp(log_tail) / (1 - x)
        if bound <= error:
            break
    return _Ring(misses=bound > error, n=n, bound=bound, radius=radius)


def _log_exp_tail(c: float, radius: float, n: int) -> float:
    """Return the log of a bound on the sum of the powers of e^f from n on, on the ring."""
    if radius > n:
        return math.inf
    log_power = c + n * math.log(radius) - math.lgamma(n + 1)
    log_geometric = math.log1p(-radius / (n + 1))
    return log_power - log_geometric


def _exp_slope(low: float, high: float) -> float:
    return math.exp(high)


def _x_tanh(x: Array) -> Array:
    return x * np.tanh(x / 2) / 2


def _log_cosh(x: Array) -> Array:
    size = np.abs(x)
    return size / 2 + np.log1p(np.exp(-size))


def _x_erf(x: Array) -> Array:
    return x * erf(x / math.sqrt(2)) / 2


def _x_tanh_cubic(x: Array) -> Array:
    cubic = x + 0.044715 * x**3
    return x * np.tanh(math.sqrt(2 / math.pi) * cubic) / 2


# Even functions e with activation(x) = x / 2 + e(x): SiLU, softplus, GELU, and GELU's approximation
# by tanh.
EVEN_PARTS: dict[str, Callable[[Any], Any]] = {
    "x tanh": _x_tanh,
    "log cosh": _log_cosh,
    "x erf": _x_erf,
    "x tanh cubic": _x_tanh_cubic,
}


class EvenEntry(NamedTuple):
    """A rational approximation of an even part, proved to be within `bound` on its range."""

    bound: float
    constant: float
    z: Complex
    residue: Complex

    @property
    def error(self) -> float:
        """The bound plus a share of the rounding of the sum, which loses digits if its terms are
        large and cancel.
        """
        sizes = np.abs(self.residue) / self.z.imag
        # Tuning: some 1,000 ulps of rounding (`PoleGame`), times the share of tol that the poles
        # have.
        cancellation = 1e-13 / 16
        return self.bound + cancellation * float(sizes.sum())


@lru_cache(maxsize=1)
def activation_table() -> dict[str, dict[float, list[EvenEntry]]]:
    """Return the entries for each even part and each range R, shortest first."""
    table: dict[str, dict[float, list[EvenEntry]]] = {}
    with np.load(Path(__file__).parent / "engine" / "activations.npz", allow_pickle=False) as data:
        stored = {name: data[name] for name in data.files}
    stop = np.cumsum(stored["size"].astype(int)).tolist()
    start = 0
    for i, end in enumerate(stop):
        z = stored["z"][start:end]
        residue = stored["residue"][start:end]
        z.flags.writeable = False
        residue.flags.writeable = False
        bound = float(stored["bound"][i])
        constant = float(stored["constant"][i])
        R = float(stored["R"][i])
        of_kind = table.setdefault(str(stored["kind"][i]), {})
        of_range = of_kind.setdefault(R, [])
        of_range.append(EvenEntry(bound, constant, z, residue))
        start = end
    return table


def _even_poles(kind: str, low: float, high: float, error: float) -> Poles:
    """Return the cheapest entry of the table that is accurate enough, or the most accurate one."""
    entries = activation_table()[kind]
    reach = max(abs(low), abs(high))
    candidates = [entry for R, of_range in entries.items() if reach <= R for entry in of_range]
    if not candidates:
        raise ToleranceError(
            f"the argument ranges over [{low:.4g}, {high:.4g}]; exact values of {kind!r} are "
            f"computed up to a modulus of {max(entries):g}"
        )
    accurate = [entry for entry in candidates if entry.error <= error]
    if accurate:
        entry = min(accurate, key=lambda candidate: candidate.z.size)
    else:
        entry = min(candidates, key=lambda candidate: candidate.error)
    return Poles(constant=entry.constant, z=entry.z, residue=entry.residue, error=entry.bound)


def _constant_slope(largest: float) -> Callable[[float, float], float]:
    """Return the largest slope of a function on any range."""

    def slope(low: float, high: float) -> float:
        return largest

    return slope


def _even_link(kind: str, largest_slope: float) -> Function:
    """Return the link of an even part of an activation."""
    return Function(
        function=EVEN_PARTS[kind],
        poles=partial(_even_poles, kind),
        slope=_constant_slope(largest_slope),
    )


# The slopes of the even parts are those on all of the real line, rounded up
# (tests/game/test_hidden_layer.py).
LINKS: dict[str, Function] = {
    "x tanh": _even_link("x tanh", 0.6),
    "log cosh": _even_link("log cosh", 0.5),
    "x erf": _even_link("x erf", 0.63),
    "x tanh cubic": _even_link("x tanh cubic", 0.63),
    "sigmoid": Function(function=_sigmoid, poles=_sigmoid_poles, slope=_constant_slope(0.25)),
    "exp": Function(function=np.exp, poles=_exp_poles, slope=_exp_slope),
}


@dataclass(frozen=True)
class Link:
    """A function g that a prediction f is sent through, with a factor of its argument: g(scale
    f).
    """

    name: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in LINKS:
            raise ValueError(f"link: expected one of {', '.join(LINKS)}, got {self.name!r}")
        if not math.isfinite(self.scale):
            raise ValueError(f"scale: expected a finite number, got {self.scale}")

    def __call__(self, f: ArrayLike) -> Any:
        """Apply the function to predictions, elementwise."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return self.function.function(self.scale * np.asarray(f, dtype=np.float64))

    @property
    def function(self) -> Function:
        """The function g with its poles."""
        return LINKS[self.name]


class Arguments(NamedTuple):
    """The argument of g for every state of the inner game (2d + 1,), 0 where it has no mass; and
    its rounding.
    """

    values: Array
    rounding: float


@dataclass(frozen=True, eq=False)
class LinkedGame:
    """The game with value g(f(S)) for a one-head `PooledGame`. Build it with `game.through(link)`.

    Every function for games accepts it: `shapley`, `banzhaf`, `interactions`, `owen`, `lime_limit`
    and others, with |error| <= tol * max|g(f)| guaranteed.

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores(
    ...     [0.0, 1.0], [3.0, -1.0], s_background=0.0, v_background=0.0
    ... ).through("sigmoid")
    >>> game.value([[True, True], [False, False]]).round(4)
    array([0.5149, 0.5   ])
    >>> shapley(game).round(4)
    array([ 0.2538, -0.2388])
    """

    game: PooledGame
    link: Link

    # Values of g fit into float64 as they are.
    exponent: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.game.H != 1:
            raise ValueError(
                f"game: exact values on the scale of {self.link.name} need one head, and this "
                f"game has {self.game.H}; `shapley_sample` estimates them for any number of heads, "
                "with standard errors"
            )

    @property
    def d(self) -> int:
        """Number of players."""
        return self.game.d

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each player."""
        return self.game.labels

    @property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass, so that its value is g of `empty_value`."""
        return self.game.can_be_empty

    @usual_float_errors
    def value(self, present: ArrayLike) -> Array:
        """Compute the values g(f) (...) of coalitions, masks (..., d) of present players."""
        return finite(self.link(self.game.value(present)))

    def leave_one_out(self) -> Array:
        """Compute g(f(all)) - g(f(all but j)) for each player, (d,), from the changes of f."""
        f = self.game.value(np.ones(self.d, dtype=bool))
        without = finite(self.link(f - self.game.leave_one_out()))
        return finite(finite(self.link(f)) - without)

    def merge(
        self, groups: Sequence[Sequence[int]], labels: Sequence[str] | None = None
    ) -> LinkedGame:
        """Return the game whose players are groups of this game's players, see
        `PooledGame.merge`.
        """
        return LinkedGame(self.game.merge(groups, labels), self.link)

    def __getstate__(self) -> dict[str, Any]:
        return {"game": self.game, "link": self.link}

    def __repr__(self) -> str:
        return f"LinkedGame({self.game!r}, {self.link.name!r})"

    @cached_property
    def arguments(self) -> Arguments:
        """The argument of g for every state of the inner game."""
        game = self.game
        scale = self.link.scale
        base = scale * game.base
        off_center = times_power(game.off_center[0], game.exponent)
        values = base + scale * off_center
        if not np.isfinite(values).all():
            raise ToleranceError("the scaled predictions overflow float64")
        if game.without_mass is not None:
            values[game.without_mass[0]] = base
        size_of_base = abs(scale) * abs(game.base)
        size = size_of_base + float(np.abs(values).max())
        return Arguments(values, LINK_ARGUMENT * ULP * size)

    @cached_property
    def range(self) -> tuple[float, float]:
        """An interval that contains the argument of g for every coalition with any mass, exact up
        to a small margin.
        """
        values, rounding = self.arguments
        with_mass = np.ones(values.size, dtype=bool)
        if self.game.without_mass is not None:
            with_mass = ~self.game.without_mass[0]
        low = float(values[with_mass].min())
        high = float(values[with_mass].max())
        room = LINK_RANGE_ROOM * (high - low) + rounding
        masses = self.game.split_states(self.game.relative_masses)
        a, b, background = (part[0] for part in masses)
        c_0 = float(background)
        least = float(np.minimum(a, b).sum() + background)
        most = float(np.maximum(a, b).sum() + background)
        if least * LARGEST_RATIO > most:
            v = values[: self.d]
            v_absent = values[self.d : -1]
            v_0 = float(values[-1])
            low = smallest_mean(a, v, b, v_absent, c_0, v_0)
            high = -smallest_mean(a, -v, b, -v_absent, c_0, -v_0)
        return low - room, high + room

    @property
    def in_reach(self) -> bool:
        """Whether there are poles of g for the range."""
        try:
            self._poles(1.0)
        except ToleranceError:
            return False
        return True

    @property
    def largest_slope(self) -> float:
        """The largest slope of g on the range."""
        return self.link.function.slope(*self.range)

    @cached_property
    def scale(self) -> float:
        """A lower bound of max|g| over all coalitions: the largest of a few, minus a bound of its
        rounding.
        """
        values = self.value(self.game.extreme_coalitions())
        largest = float(np.abs(values).max())
        rounding = self.largest_slope * self._argument_error + self._empty_error
        return max(0.0, largest * (1 - LINK_VALUE * ULP) - rounding)

    def engine_game(self, tol: float) -> PoleGame:
        """Return the game of poles that approximates this game within `tol` times max|g|."""
        poles = self._poles(tol)
        empty_excess = 0.0
        if self.can_be_empty:
            empty = float(self.link(self.game.empty_value))
            if not math.isfinite(empty):
                raise ToleranceError("the value of the empty coalition overflows float64")
            empty_excess = empty - poles.constant
        known_error = self._empty_error
        if not poles.z.size:  # the constant is a value of g
            argument = float(self.arguments.values[0])
            known_error += self._error_at(argument, self.arguments.rounding)
        return PoleGame(
            linked=self, poles=poles, empty_excess=empty_excess, known_error=known_error
        )

    @cached_property
    def grand_error(self) -> float:
        """A bound on the error of the value of the grand coalition."""
        grand = float(self.game.value(np.ones(self.d, dtype=bool)))
        return self._error_at(self.link.scale * grand, self._argument_error)

    @property
    def _argument_error(self) -> float:
        """A bound on the error of the argument of g for any coalition with some mass."""
        half_range_in_units = float(self.game.half_range.sum())
        half_range = math.ldexp(half_range_in_units, self.game.exponent)
        spread = abs(self.link.scale) * half_range
        of_mean = VALUE_PER_PLAYER * ULP * (self.d + VALUE_FIXED_PLAYERS) * spread
        return self.arguments.rounding + of_mean

    @cached_property
    def _empty_error(self) -> float:
        """A bound on the error of the value of the empty coalition, 0 if it has some mass."""
        if not self.can_be_empty:
            return 0.0
        argument = self.link.scale * self.game.empty_value
        return self._error_at(argument, ULP * abs(argument))

    def _error_at(self, argument: float, rounding: float) -> float:
        """Return a bound on the error of one value of g whose argument is known up to
        `rounding`.
        """
        # Every link is monotone, or even and growing in |x|, so it moves most to one of both ends.
        # The logistic function rounds the logarithm of a small value, which is its argument again.
        reach = rounding + ULP * abs(argument)
        below, value, above = self.link.function.function(
            np.array([argument - reach, argument, argument + reach])
        ).tolist()
        moved = max(abs(below - value), abs(above - value))
        largest = max(abs(below), abs(value), abs(above))
        return moved + LINK_POINT * ULP * largest

    def _poles(self, tol: float) -> Poles:
        """Return the poles of g on the range, none if f is constant."""
        low, high = self.range
        function = self.link.function
        if not (self.game.half_range > 0).any():
            constant = float(function.function(self.arguments.values[0]))
            none = np.zeros(0, dtype=complex)
            return Poles(constant, z=none, residue=none, error=0.0)
        if self.link.name == "exp":
            # Tuning: least width of the range that a ring is made for, relative to that of the
            # values. A ring that is tiny beside the values sees them all around it.
            least_range = 0.1
            # Nor is it narrower than this: values may all lie next to the smallest numbers, where
            # the distances to the poles would underflow. A wider ring costs no digits and no poles.
            least_width = 2.0**-30
            least_width = max(least_width, least_range * float(np.ptp(self.arguments.values)))
            # The bound of a wider range holds, too.
            room = max(0.0, least_width - (high - low)) / 2
            low = low - room
            high = high + room
        return function.poles(low, high, POLE_SHARE * tol * self.scale)
