"""Sums of games of the same players, such as the units of a hidden layer (`hidden_layer.py`).

Explanations are linear in the game, so those of f = c_0 + sum_k c_k f_k are sums of those of the
parts.

**The guarantee.** Part k is computed to a relative accuracy t_k. With U_k a bound on |c_k f_k|, the
error of the result is at most sum_k t_k U_k plus the rounding of the sum. Every part gets the same
share of one half of tol L, where L is a lower bound of max|f|, and the rounding has to fit into the
other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import usual_float_errors
from .._types import Array
from .engine.budget import (
    ToleranceError,
    find_budget,
    finite,
    least_exponent,
    smallest_text,
)
from .engine.poles import PoleSum
from .engine.rounding import (
    GAME_SUM_FIXED_ULPS,
    GAME_SUM_PER_PLAYER,
    SUBNORMAL,
    ULP,
    VALUE_FIXED_PLAYERS,
)
from .links import LINKS, LinkedGame
from .pooled_game import PooledGame

Part = PooledGame | LinkedGame
# The rounding of a sum takes half of tol, and a second difference of values has four times their
# rounding.
ROUNDING_SHARE = 8.0


class GameSum:
    """A sum of games of the same players, c_0 + sum_k c_k f_k, for every function of games that is
    linear in the game.

    Build it with `hidden_layer_game`.
    """

    def __init__(self, parts: list[tuple[float, Part]], constant: float) -> None:
        self.parts = parts
        self.constant = constant

    @property
    def d(self) -> int:
        """Number of players."""
        return self.parts[0][1].d

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each player."""
        return self.parts[0][1].labels

    @usual_float_errors
    def value(self, present: ArrayLike) -> Array:
        """Compute the values (...) of coalitions, masks (..., d)."""
        values = sum(factor * game.value(present) for factor, game in self.parts)
        return finite(np.asarray(values) + self.constant)

    def leave_one_out(self) -> Array:
        """Compute f(all) - f(all but j) for each player, (d,)."""
        return finite(np.asarray(sum(factor * game.leave_one_out() for factor, game in self.parts)))

    def engine_game(self, tol: float) -> NoReturn:
        """Raise an error: the engine computes with the parts, each for a tol of its own."""
        raise TypeError(
            "game: expected a PooledGame or a LinkedGame, got a GameSum, which `shapley`, "
            "`banzhaf`, `beta_shapley`, `owen` and `interactions` take"
        )

    @cached_property
    def bounds(self) -> Array:
        """An upper bound on |c_k f_k| for each part."""
        return np.array([abs(factor) * _largest(game) for factor, game in self.parts])

    @cached_property
    def rounding(self) -> float:
        """A bound on the rounding of any value."""
        moved = sum(abs(factor) * _sensitivity(game) for factor, game in self.parts)
        of_arguments = GAME_SUM_PER_PLAYER * (self.d + VALUE_FIXED_PLAYERS) * moved
        largest = float(self.bounds.sum()) + abs(self.constant)
        of_sum = (len(self.parts) + GAME_SUM_FIXED_ULPS) * largest
        relative = ULP * (of_arguments + of_sum)
        # Every product and every addition may lose this much among the smallest numbers.
        lost = SUBNORMAL * math.ldexp(len(self.parts) + 1.0, least_exponent())
        return relative + lost

    @cached_property
    def in_reach(self) -> bool:
        """Whether every part that matters has exact values: an activation has poles up to some
        size of its argument only.
        """
        # A part that is smaller is left out at every tol that can be guaranteed.
        unnoticed = 1e-16 * self.scale
        return all(
            bound <= unnoticed or isinstance(game, PooledGame) or game.in_reach
            for (_, game), bound in zip(self.parts, self.bounds.tolist(), strict=True)
        )

    @property
    def is_zero(self) -> bool:
        """Whether the game is 0 everywhere, because all factors are."""
        return self.constant == 0 and not self.bounds.any()

    @cached_property
    def scale(self) -> float:
        """A lower bound of max|f|: the largest value of a few coalitions, minus its rounding."""
        # Values that are computed for a lower bound of max|f|: single players, after nobody and
        # everybody.
        most_singles = 64
        singles = min(self.d, most_singles)
        masks = np.zeros((2 + singles, self.d), dtype=bool)
        masks[1] = True
        for j in range(len(masks) - 2):
            masks[2 + j, j] = True
        largest = float(np.abs(self.value(masks)).max())
        return max(0.0, largest - self.rounding)

    def combine(
        self,
        function: Callable[[Part | UnitSum, float], Array],
        of_constant: Array,
        growth: float,
        tol: float,
    ) -> Array:
        """Apply a linear function of games to the sum, with |error| <= tol max|f|, or raise a
        ToleranceError.

        `function(game, tol)` keeps a relative accuracy of its game, `of_constant` is its result for
        the game that is 1 everywhere, and no result is larger than `growth` times max|game|.
        """
        smallest = math.inf
        if self.scale > 0:
            smallest = ROUNDING_SHARE * self.rounding / self.scale
        elif self.is_zero:
            smallest = 0.0
        if tol >= smallest:
            try:
                return self._combine(function, of_constant, growth, tol)
            except ToleranceError as error:
                smallest = error.smallest
        # A tol that is named has to work, and the poles of a part depend on its tol, so it is
        # tried.
        while math.isfinite(smallest):
            try:
                self._combine(function, of_constant, growth, smallest)
                break
            except ToleranceError as error:
                smallest = max(2 * smallest, error.smallest)
        raise ToleranceError(
            f"tol: {tol:g} cannot be guaranteed for this game; the smallest possible tol is "
            f"{smallest_text(smallest)}",
            smallest,
        )

    def _combine(
        self,
        function: Callable[[Part | UnitSum, float], Array],
        of_constant: Array,
        growth: float,
        tol: float,
    ) -> Array:
        """Return the sum over the parts, or raise a ToleranceError that names a tol for the sum."""
        share = tol * self.scale / (2 * len(self.parts))
        total = of_constant * self.constant
        plain, units = self._that_count(share / growth)
        for factor, game, bound in plain:
            with self._errors_of_sum(bound):
                total = total + factor * function(game, share / bound)
        if units:
            together = UnitSum(units)
            with self._errors_of_sum(together.scale):
                total = total + function(together, len(units) * share / together.scale)
        return total

    def _that_count(self, least: float) -> tuple[list[tuple[float, PooledGame, float]], list[Unit]]:
        """Return the plain parts and the units whose bound is above `least`, with their factors and
        bounds.

        A saturated or a dead unit, whose values are smaller than the error that it may have, is
        left out: too few of its digits are known.
        """
        plain = []
        units = []
        for (factor, game), bound in zip(self.parts, self.bounds.tolist(), strict=True):
            if bound <= least:
                continue
            if isinstance(game, LinkedGame):
                units.append(Unit(factor, game, bound))
            else:
                plain.append((factor, game, bound))
        return plain, units

    def can_keep(self, tol: float) -> bool:
        """Whether Shapley values can be guaranteed to this accuracy: `shapley` raises no error."""
        if self.is_zero:
            return True
        if not self.in_reach or not tol * self.scale >= ROUNDING_SHARE * self.rounding:
            return False
        share = tol * self.scale / (2 * len(self.parts))
        # A first difference has two values.
        growth = 2.0
        plain, units = self._that_count(share / growth)
        games: list[tuple[PooledGame | UnitSum, float]] = []
        games += [(game, share / bound) for _, game, bound in plain]
        if units:
            together = UnitSum(units)
            games.append((together, len(units) * share / together.scale))
        return not any(
            isinstance(find_budget(game.engine_game(part_tol), part_tol), ToleranceError)
            for game, part_tol in games
        )

    @contextmanager
    def _errors_of_sum(self, bound: float) -> Iterator[None]:
        """Turn the tol that an error of a part names, relative to its bound, into one for the
        sum.
        """
        try:
            yield
        except ToleranceError as error:
            of_sum = error.smallest * bound * 2 * len(self.parts) / self.scale
            raise ToleranceError(str(error), of_sum) from error


class Unit(NamedTuple):
    """A linked game with its factor, and a bound on the modulus of both."""

    factor: float
    game: LinkedGame
    bound: float


class UnitSum:
    """Some linked games with the same masses, such as hidden units, as one game of the engine.

    They share chunks of terms and one budget, which saves most of the calls that each would need
    alone (`PoleSum`). `scale`, which a tol is relative to, is the sum of their bounds.
    """

    exponent: ClassVar[int] = 0

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.scale = sum(unit.bound for unit in units)

    @property
    def d(self) -> int:
        """Number of players."""
        return self.units[0].game.d

    def value(self, present: ArrayLike) -> Array:
        """Compute the values (...) of coalitions, masks (..., d)."""
        return np.asarray(sum(unit.factor * unit.game.value(present) for unit in self.units))

    def leave_one_out(self) -> Array:
        """Compute the changes by leaving out one player each, (d,)."""
        return np.asarray(sum(unit.factor * unit.game.leave_one_out() for unit in self.units))

    def engine_game(self, tol: float) -> PoleSum:
        """Return the sum of games of poles, all of which together differ by a small share of tol
        times `scale`.
        """
        share = tol * self.scale / len(self.units)
        parts = []
        for factor, game, _ in self.units:
            # A game whose values are all tiny is approximated relative to one.
            size = abs(factor) * (game.scale or 1.0)
            parts.append((factor, game.engine_game(share / size)))
        return PoleSum(parts=parts, scale=self.scale, for_tol=self.engine_game)


def _largest(game: Part) -> float:
    """An upper bound on the modulus of a game."""
    if isinstance(game, LinkedGame):
        # Every link is monotone, or even and growing in |x|, so it is largest at an end of the
        # range of its argument, which has the factor of the link in it already.
        values = np.abs(game.link.function.function(np.array(game.range)))
        largest = float(values.max())
        if game.can_be_empty:
            largest = max(largest, abs(float(game.link(game.game.empty_value))))
        return largest * (1 + 1e-9)
    return _largest_argument(game)


def _largest_argument(game: PooledGame) -> float:
    """An upper bound on the modulus of a pooled game."""
    present = np.abs(game.v).max(axis=1)
    absent = np.abs(game.v_absent).max(axis=1)
    of_players = np.maximum(present, absent)
    largest = np.maximum(of_players, np.abs(game.v_background))
    return float(largest.sum()) + abs(game.bias) + abs(game.empty_value)


def _sensitivity(game: Part) -> float:
    """What an error of one ulp of all values of a game, relative to the largest, can change."""
    if isinstance(game, LinkedGame):
        slope = LINKS[game.link.name].slope(*game.range) * abs(game.link.scale)
        return slope * _largest_argument(game.game)
    return _largest_argument(game)
