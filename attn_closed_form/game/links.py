"""A function of a prediction as a game: probabilities and risks of a one-head pooled game, exactly.

Let f = N/D be the value of a pooled game with one head, N and D its sums over the players, and g a function that is
analytic on the range [lo, hi] of f. A rational approximation with simple poles z_m off that range,

    g(f) = constant + Re sum_m r_m / (f - z_m) + error,          |error| <= `Poles.error` on [lo, hi],

turns g(f) into a sum of pooled games with complex masses, because

    1 / (f - z) = D / (N - z D),        N - z D = Q_0 + sum of Q_j,   Q_j = a_j (v_j - z), or b_j (v'_j - z) if absent.

All Q of coalitions lie in the sector under which [lo, hi] is seen from z. Turned by u = e^(-i psi), psi the middle
angle, it lies around the positive real axis, with half angle theta < pi/2, and

    D / (N - z D) = u D int_0^inf e^(-lam u (N - z D)) dlam

factorizes over the players as 1/D does for a plain game (`exponential_sums.py` has the rule for a sector). Every
statistic of `evaluate.py` follows with complex factors x = e^(-lam u Q_j) and masses in place of masses times
values, so a linked game is a game for every function of the library that takes one.

| link | g(f) | poles |
|---|---|---|
| "sigmoid" | 1 / (1 + e^-f) | +-i y_m with positive residues, from a table over max(abs(lo), abs(hi)) |
| "exp" | e^f | a ring around [lo, hi]: the trapezoidal rule for Cauchy's integral |

The entries of the table are made by `benchmarks/link_poles.py` and proved in ball arithmetic by
`tests/game/test_links.py`.

The bound of the ring is derived in docs/theory/bounds-of-the-engine.md, "Poles of the exponential".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._erf import erf
from .._types import Array
from .engine.budget import POLE_SHARE, ULP, ToleranceError, _probes
from .engine.exponential_sums import read_table
from .pooled_game import PooledGame, finite, times_power

Complex = NDArray[np.complexfloating[Any, Any]]

# Maximum number of poles on a ring; more would take too long.
MOST_POLES = 96
# Radii of rings that are tried, relative to the half range, and the limit on the growth of g from the range to there.
RADII = np.geomspace(1.2, 12.0, 24)
LARGEST_GROWTH = 60.0
# The range of f is widened by this share of the values' spread, which is more than its rounding.
ROOM = 1e-9
# Largest ratio of masses for which the exact range is computed; beyond, the range of the values is taken.
LARGEST_RATIO = 1e4
# Least width of the range that a ring is made for, relative to that of the values.
LEAST_RANGE = 0.1
# Rounding in ulps: of Q_j from masses, values and the pole; of a factor in addition to that of a plain game; of the
# rest, where a player's term has 15 ulps, and 20 times as many if its factor nearly cancels (`evaluate.LEAST_FACTOR`).
# A factor has 9 ulps of a complex exponential, 3 of its mixture, 2.3 of a complex product and 2.9 of the numerator's
# sum, together less than 18, of which 10 are those of a plain game.
EXPONENT = 12.0
FACTOR = 8.0
OWN = 700.0
# Upper bound on sums of moduli over the nodes of a short sum, relative to the integral (`proved_moduli`).
MODULI = 1.1


class Poles(NamedTuple):
    """g(f) = constant + Re sum residue / (f - z), within `error` on the range it was made for; z, residue (M,)."""

    constant: float
    z: Complex
    residue: Complex
    error: float


@dataclass(frozen=True)
class Link:
    """A function g that a prediction f is sent through, with its argument: g(scale f)."""

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
            return LINKS[self.name].function(self.scale * np.asarray(f, dtype=np.float64))


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


class _Kind(NamedTuple):
    """A function of one variable, its poles for a range and an error, and the largest slope on the range."""

    function: Callable[[Any], Any]
    poles: Callable[[float, float, float], Poles]
    slope: Callable[[float, float], float]


def _sigmoid_poles(lo: float, hi: float, error: float) -> Poles:
    """Return the shortest entry of the table that is accurate enough, or the best one."""
    (ranges,), entries = read_table("links.npz", "R", columns=("y", "r"))
    i = bisect_left(ranges, max(abs(lo), abs(hi)))
    if i == len(ranges):
        raise ToleranceError(
            f"the prediction ranges over [{lo:.4g}, {hi:.4g}]; exact values of its logistic function are computed up "
            f"to a modulus of {ranges[-1]:g}"
        )
    choice = entries[ranges[i],]
    bound, y, r = next((entry for entry in choice if entry[0] <= error), choice[-1])
    return Poles(0.5, 1j * y, r + 0j, bound)


def _exp_poles(lo: float, hi: float, error: float) -> Poles:
    """Place the poles of e^f on a ring around the range: the trapezoidal rule for Cauchy's integral."""
    c = (lo + hi) / 2
    r = (hi - lo) / 2
    constant = float(np.exp(c))
    largest = max(abs(float(np.exp(lo))), abs(float(np.exp(hi))))
    best: tuple[bool, int, float, float] | None = None
    for radius in RADII * r:
        # On a circle |e^z| is largest at its right end.
        G = max(abs(float(np.exp(c + radius))), abs(float(np.exp(c - radius)))) + abs(constant)
        if best is not None and LARGEST_GROWTH * largest < G:
            break
        x = r / radius
        for n in range(4, 2 * MOST_POLES + 1, 2):
            tail = math.exp(min(_log_exp_tail(c, radius, n), 700.0))
            bound = G * x**n / ((1 - x) * (1 - x**n)) + tail / (1 - x)
            if bound <= error:
                break
        best = min(best or (True, n, bound, radius), (bound > error, n, bound, radius))
    assert best is not None
    _, n, bound, radius = best
    step = radius * np.exp(1j * np.pi * (2 * np.arange(n // 2) + 1) / n)
    residue = -2 / n * (np.exp(c + step) - constant) * step
    return Poles(constant, c + step, residue, bound)


def _log_exp_tail(c: float, radius: float, n: int) -> float:
    """Return the log of a bound on the sum of the powers of e^f from n on, on the ring."""
    if radius > n:
        return math.inf
    return c + n * math.log(radius) - math.lgamma(n + 1) - math.log1p(-radius / (n + 1))


def _x_tanh(x: Array) -> Array:
    return x * np.tanh(x / 2) / 2


def _log_cosh(x: Array) -> Array:
    return np.abs(x) / 2 + np.log1p(np.exp(-np.abs(x)))


def _x_erf(x: Array) -> Array:
    return x * erf(x / math.sqrt(2)) / 2


def _x_tanh_cubic(x: Array) -> Array:
    return x * np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)) / 2


# Even functions e with activation(x) = x / 2 + e(x): SiLU, softplus, GELU, and GELU's approximation by tanh.
EVEN_PARTS: dict[str, Callable[[Any], Any]] = {
    "x tanh": _x_tanh,
    "log cosh": _log_cosh,
    "x erf": _x_erf,
    "x tanh cubic": _x_tanh_cubic,
}


# Tuning: some 1,000 ulps of rounding (`PoleGame`), times the share of tol that the poles have.
CANCELLATION = 1e-13 / 16


class EvenEntry(NamedTuple):
    """A rational approximation of an even part, proved to be within `bound` on its range."""

    bound: float
    constant: float
    z: Complex
    residue: Complex

    @property
    def error(self) -> float:
        """The bound plus a share of the rounding of the sum, which loses digits if its terms are large and cancel."""
        return self.bound + CANCELLATION * float((np.abs(self.residue) / self.z.imag).sum())


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
        entry = EvenEntry(float(stored["bound"][i]), float(stored["constant"][i]), z, residue)
        of_kind = table.setdefault(str(stored["kind"][i]), {})
        of_kind.setdefault(float(stored["R"][i]), []).append(entry)
        start = end
    return table


def _even_poles(kind: str, lo: float, hi: float, error: float) -> Poles:
    """Return the cheapest entry of the table that is accurate enough, or the most accurate one."""
    entries = activation_table()[kind]
    reach = max(abs(lo), abs(hi))
    candidates = [entry for R, of_range in entries.items() if reach <= R for entry in of_range]
    if not candidates:
        raise ToleranceError(
            f"the argument ranges over [{lo:.4g}, {hi:.4g}]; exact values of {kind!r} are computed up to a modulus "
            f"of {max(entries):g}"
        )
    accurate = [entry for entry in candidates if entry.error <= error]
    if accurate:
        entry = min(accurate, key=lambda candidate: candidate.z.size)
    else:
        entry = min(candidates, key=lambda candidate: candidate.error)
    return Poles(entry.constant, entry.z, entry.residue, entry.bound)


LINKS: dict[str, _Kind] = {
    "x tanh": _Kind(_x_tanh, partial(_even_poles, "x tanh"), lambda lo, hi: 0.6),
    "log cosh": _Kind(_log_cosh, partial(_even_poles, "log cosh"), lambda lo, hi: 0.5),
    "x erf": _Kind(_x_erf, partial(_even_poles, "x erf"), lambda lo, hi: 0.63),
    "x tanh cubic": _Kind(_x_tanh_cubic, partial(_even_poles, "x tanh cubic"), lambda lo, hi: 0.63),
    "sigmoid": _Kind(_sigmoid, _sigmoid_poles, lambda lo, hi: 0.25),
    "exp": _Kind(np.exp, _exp_poles, lambda lo, hi: math.exp(hi)),
}


@dataclass(frozen=True, eq=False)
class LinkedGame:
    """The game with value g(f(S)) for a one-head `PooledGame`. Build it with `game.through(link)`.

    Every function for games accepts it: `shapley`, `banzhaf`, `interactions`, `owen`, `lime_limit` and others,
    with |error| <= tol * max|g(f)| guaranteed.

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores([0.0, 1.0], [3.0, -1.0], s_background=0.0, v_background=0.0).through("sigmoid")
    >>> game.value([[True, True], [False, False]]).round(4)
    array([0.5149, 0.5   ])
    >>> shapley(game).round(4)
    array([ 0.2538, -0.2388])
    """

    game: PooledGame
    link: Link

    def __post_init__(self) -> None:
        if self.game.H != 1:
            raise ValueError(
                f"game: exact values on the scale of {self.link.name} need one head, and this game has {self.game.H}; "
                "`shapley_sample` estimates them for any number of heads, with standard errors"
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

    def value(self, present: ArrayLike) -> Array:
        """Compute the values g(f) (...) of coalitions, masks (..., d) of present players."""
        return finite(self.link(self.game.value(present)))

    def merge(
        self, groups: Sequence[Sequence[int]], labels: Sequence[str] | None = None
    ) -> LinkedGame:
        """Return the game whose players are groups of this game's players, see `PooledGame.merge`."""
        return LinkedGame(self.game.merge(groups, labels), self.link)

    def __repr__(self) -> str:
        return f"LinkedGame({self.game!r}, {self.link.name!r})"

    @cached_property
    def _values(self) -> tuple[Array, float]:
        """The argument of g for every state of the inner game (2d + 1,), 0 where it has no mass; and its rounding."""
        game = self.game
        link = self.link
        base = link.scale * game.base
        values = base + link.scale * times_power(game._off_center[0], game.exponent)
        if not np.isfinite(values).all():
            raise ToleranceError("the scaled predictions overflow float64")
        if game._without_mass is not None:
            values[game._without_mass[0]] = base
        size = abs(link.scale) * abs(game.base)
        return values, 4 * ULP * (size + float(np.abs(values).max()))

    @cached_property
    def range(self) -> tuple[float, float]:
        """An interval that contains the argument of g for every coalition with any mass, exact up to a small margin."""
        values, rounding = self._values
        with_mass = np.ones(values.size, dtype=bool)
        if self.game._without_mass is not None:
            with_mass = ~self.game._without_mass[0]
        lo = float(values[with_mass].min())
        hi = float(values[with_mass].max())
        room = ROOM * (hi - lo) + rounding
        a, b, c0 = (part[0] for part in self.game._parts(self.game._masses))
        least = float(np.minimum(a, b).sum() + c0)
        most = float(np.maximum(a, b).sum() + c0)
        if least * LARGEST_RATIO > most:
            v = values[: self.d]
            v_absent = values[self.d : -1]
            v_0 = float(values[-1])
            lo, hi = (
                sign * _minimum(a, sign * v, b, sign * v_absent, float(c0), sign * v_0)
                for sign in (1, -1)
            )
        return lo - room, hi + room

    @cached_property
    def _scale(self) -> float:
        """A lower bound of max|g| over all coalitions: the largest of a few, minus a bound of its rounding."""
        known = float(np.abs(self.value(_probes(self.game))).max())
        spread = abs(self.link.scale) * math.ldexp(
            float(self.game.half_range.sum()), self.game.exponent
        )
        doubt = LINKS[self.link.name].slope(*self.range) * (
            self._values[1] + 4 * ULP * (self.d + 8) * spread
        )
        return max(0.0, known * (1 - 16 * ULP) - doubt)

    def within(self, tol: float) -> PoleGame:
        """Return the game of poles that approximates this game within `tol` times max|g|."""
        kind = LINKS[self.link.name]
        (lo, hi) = self.range
        empty = float(self.link(self.game.empty_value)) if self.can_be_empty else 0.0
        if not math.isfinite(empty):
            raise ToleranceError("the value of the empty coalition overflows float64")
        if not (self.game.half_range > 0).any():
            constant = float(LINKS[self.link.name].function(self._values[0][0]))
            poles = Poles(constant, np.zeros(0, dtype=complex), np.zeros(0, dtype=complex), 0.0)
        else:
            if self.link.name == "exp":
                # A ring that is tiny beside the values sees them all around it; the bound of a wider range holds, too.
                room = max(0.0, LEAST_RANGE * float(np.ptp(self._values[0])) - (hi - lo)) / 2
                lo = lo - room
                hi = hi + room
            poles = kind.poles(lo, hi, POLE_SHARE * tol * self._scale)
        return PoleGame(self, poles, empty - poles.constant if self.can_be_empty else 0.0)


def _minimum(a: Array, v: Array, b: Array, v_absent: Array, c0: float, v_0: float) -> float:
    """Compute the minimum over all coalitions of a game with one head, by Dinkelbach's iteration."""
    theta = math.inf
    lower = (a * v).sum() + c0 * v_0, a.sum() + c0
    while lower[0] / lower[1] < theta:
        theta = float(lower[0] / lower[1])
        present = a * (v - theta) < b * (v_absent - theta)
        mass = np.where(present, a, b)
        lower = (mass * np.where(present, v, v_absent)).sum() + c0 * v_0, mass.sum() + c0
    return theta


@dataclass(frozen=True, eq=False)
class PoleGame:
    """A linked game with its poles, as used by the engine, with the interface of `PooledGame`.

    `base` is the constant of the approximation, `half_range` (M,) what each pole adds at most, `exponent` is 0.
    """

    linked: LinkedGame
    poles: Poles
    empty_excess: float

    exponent = 0

    @property
    def d(self) -> int:
        """Number of players."""
        return self.linked.d

    @property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass."""
        return self.linked.can_be_empty

    def value(self, present: ArrayLike) -> Array:
        """Compute the values of the linked game."""
        return self.linked.value(present)

    @property
    def base(self) -> float:
        """The constant next to the poles."""
        return self.poles.constant

    @cached_property
    def everyone_means(self) -> Array:
        """The value of g for the grand coalition minus the constant, (1,)."""
        return np.array([float(self.value(np.ones(self.d, dtype=bool))) - self.base])

    @cached_property
    def half_range(self) -> Array:
        """The (M,) largest moduli of residue / (f - z) on the range of f."""
        return np.abs(self.poles.residue) / self.sectors.nearest

    @cached_property
    def sectors(self) -> Sectors:
        """The sectors of the exact range."""
        return sectors(self.poles.z, *self.linked.range)

    @cached_property
    def doubt(self) -> float:
        """Rounding in addition to that of a plain game, relative to the sum of `half_range`.

        Moduli of e^(-lam w) add up to 1/cos(theta) times 1/|w|, and lam |w| times that to 1/cos(theta)^2, both times
        MODULI at most. An exponent
        is correct to EXPONENT ulps of the sum of |Q_j| over the players of a coalition, which is at most its mass times
        the largest |v - z|, and of the |Q_j| of their other states, which are at most `ratio` times as large: the other
        state is the one with the smaller real part. Masses and values have 42 ulps of the values' spread and the
        rounding of `_values`, times the largest slope of g.
        """
        total = float(self.half_range.sum())
        if total == 0:
            return 0.0
        values, rounding = self.linked._values
        hull = sectors(self.poles.z, float(values.min()), float(values.max()))
        cos = np.cos(self.sectors.half_angle)
        furthest = hull.most / np.cos(hull.half_angle)
        replaced = (
            self.linked.game._without_mass is None
            or not self.linked.game._without_mass[0, self.d : -1].all()
        )
        ratio = furthest / (hull.nearest * np.cos(hull.half_angle)) if replaced else 0.0
        each = (FACTOR * self.d + OWN) / cos
        each += EXPONENT * (1 + ratio) * furthest / (self.sectors.nearest * cos**2)
        slope = LINKS[self.linked.link.name].slope(*self.linked.range)
        moved = slope * (rounding + 42 * ULP * float(values.max() - values.min()))
        return (MODULI * ULP * float((self.half_range * each).sum()) + moved) / total


class Sectors(NamedTuple):
    """How a range is seen from each of M points z: (M,) each.

    Turned by u, all u (f - z) lie in a sector |arg| <= half_angle with real parts from `least` to `most`: real parts
    are linear in f, so both are those of an end of the range.
    """

    turn: Complex  # u = e^(-i psi), psi the middle angle
    half_angle: Array
    least: Array
    most: Array
    nearest: Array  # smallest |f - z|


def sectors(z: Complex, lo: float, hi: float) -> Sectors:
    """Return the sectors under which [lo, hi] is seen from the points z.

    >>> found = sectors(np.array([1j]), -1.0, 1.0)
    >>> round(float(np.degrees(found.half_angle[0]))), float(found.nearest[0]), round(float(found.least[0]), 9)
    (45, 1.0, 1.0)
    """
    first = np.angle(lo - z)
    last = np.angle(hi - z)
    half_angle = np.abs(first - last) / 2
    ends = np.abs(lo - z), np.abs(hi - z)
    return Sectors(
        turn=np.exp(-0.5j * (first + last)),
        half_angle=half_angle,
        least=np.minimum(*ends) * np.cos(half_angle),
        most=np.maximum(*ends) * np.cos(half_angle),
        nearest=np.abs(np.clip(z.real, lo, hi) - z),
    )
