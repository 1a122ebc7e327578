"""The minimum of one head over coalitions, by Dinkelbach's iteration, with a proof.

In one head f = N / D, and "f(S) >= theta" is linear in the coalition S. With the terms x_j = a_j
(v_j - theta) for a player that is present and y_j = b_j (v'_j - theta) for one that is absent,

    f(S) >= theta for every S    if and only if    c_0 (v_0 - theta) + sum_j min(x_j, y_j) >= 0,

and if the left side is negative, the coalition that attains it has a smaller value, which is the
next theta (Dinkelbach, 1967: a handful of steps, each O(d)). A limit on the number of players that
change sides selects those with the largest gains (`docs/theory/deletion-floor.md`).

**Proof.** The last theta is the minimum up to rounding. `certified_minima` lowers it until the sum
above exceeds the rounding of its terms (`relative_error`), so that the claim holds in exact
arithmetic on the game's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._types import Array, Masks
from .engine.rounding import EXTREMUM_EXPONENTIAL, EXTREMUM_LOST, EXTREMUM_SLIP, EXTREMUM_SUM, ULP
from .pooled_game import LOG_RANGE_PLAIN, PooledGame

# A factor of the margin that is subtracted from the next theta: with one, rounding could leave the
# proof just short.
LOWERED = 1.5


def relative_error(d: int) -> float:
    """Return the relative error of a sum of d exponentials times values, relative to the sum of the
    moduli.
    """
    # Generous by a factor of 2, by design: the parts are counted once more.
    return 2 * (EXTREMUM_EXPONENTIAL + d) * ULP


class Minimizer(NamedTuple):
    """The choice of players that minimizes N - theta D in each of H heads, and its values.

    `value` is N / D, `excess` is N / D - theta, and `margin` bounds the rounding error of the
    excess. The excess is negative if some coalition is below theta.
    """

    choice: Masks
    value: Array
    excess: Array
    margin: Array


class HeadMinima(NamedTuple):
    """Proved lower bounds of the heads (H,), and the choices (H, d) at which they are taken, True
    for present.
    """

    bound: Array
    present: Masks


def certified_minima(
    step: Callable[[Array], Minimizer], theta: Array, least: Array, best: Array, choice: Masks
) -> tuple[Array, Array, Masks]:
    """Lower theta (H,) until no coalition is proved to be below it; return it, the best values and
    their choices.

    `least` (H,) are values that no coalition is below. `best` and `choice` are known values and
    choices.
    """
    done = np.zeros(theta.shape, dtype=bool)
    while not done.all():
        at = step(theta)
        # The last theta is below the minimum by a margin, and its choice may be another one: keep
        # the best.
        better = at.value < best
        choice = np.where(better[:, None], at.choice, choice)
        best = np.where(better, at.value, best)
        done |= (at.excess >= at.margin) | (theta <= least)
        # Dinkelbach's next theta is theta + excess, the value of the choice. A slightly smaller
        # value can be proved.
        lower = theta + at.excess - LOWERED * at.margin
        lower = np.minimum(lower, np.nextafter(theta, -np.inf))
        theta = np.where(done, theta, np.maximum(lower, least))
    return theta, best, choice


def smallest_mean(a: Array, v: Array, b: Array, v_absent: Array, c_0: float, v_0: float) -> float:
    """Compute the minimum of one head over all coalitions, up to rounding, from plain masses.

    >>> a, v = np.array([1.0, 1.0]), np.array([3.0, -1.0])
    >>> smallest_mean(a, v, np.zeros(2), np.zeros(2), 1.0, 0.0)  # player 1 and the background
    -0.5
    """
    theta = math.inf
    n_0 = c_0 * v_0
    N = (a * v).sum() + n_0
    D = a.sum() + c_0
    value = N / D
    while value < theta:
        theta = float(value)
        present = a * (v - theta) < b * (v_absent - theta)
        mass = np.where(present, a, b)
        value_of_player = np.where(present, v, v_absent)
        N = (mass * value_of_player).sum() + n_0
        D = mass.sum() + c_0
        value = N / D
    return theta


def head_minima(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    limit: int | None = None,
    exactly: bool = False,
) -> HeadMinima:
    """Compute the minimum of each head over the coalitions that differ from `base` (d,) only in
    movable players (d,).

    `limit` is the largest number of players that may change sides, or with `exactly` the number of
    players that do, out of all. Coalitions without any mass are excluded; the caller handles
    `empty_value`.
    """
    states = States.of(game, base, movable)
    least = states.least_value
    nobody = np.zeros(states.base.shape, dtype=bool)
    no_exchange = np.full(least.shape, -np.inf)
    if exactly:
        # Then `base` itself is not among the coalitions.
        best = np.full(least.shape, np.inf)
    else:
        # Only the value counts here, so the order of the players has no error.
        best = states.at(nobody, np.zeros(least.shape), no_exchange).value
    if limit is None and np.isneginf(np.minimum(states.base, states.flip)).all():
        # A head that may lose all other mass attains its least value.
        theta = least
    else:
        largest = np.maximum(states.v_base, states.v_flip).max(axis=-1)
        start = np.where(np.isinf(best), largest, best)
        theta = np.maximum(start, least)

    def step(theta: Array) -> Minimizer:
        if limit is None:
            x, y = states.terms(theta)
            return states.at(states.improving(x, y), theta, no_exchange)
        gains = states.gains(theta)
        if exactly:
            chosen, log_slip = gains.exactly(limit)
        else:
            chosen, log_slip = gains.at_most(limit)
        return states.at(chosen, theta, log_slip)

    bound, _, flipped = certified_minima(step, theta, least, best=best, choice=nobody)
    return HeadMinima(bound, base ^ flipped[:, :-1])


@dataclass(frozen=True, eq=False)
class States:
    """Log-masses and values of every player in its base state and in the other one, (H, d+1).

    A player that may not move has one state, and so has the background, which is the last player.
    """

    base: Array
    flip: Array
    v_base: Array
    v_flip: Array

    @classmethod
    def of(cls, game: PooledGame, base: Masks, movable: Masks) -> States:
        """Return the states of the players of a game, whose base state is a coalition (d,)."""
        s = np.column_stack([game.s, game.s_background])
        s_absent = np.column_stack([game.s_absent, game.s_background])
        v = np.column_stack([game.v, game.v_background])
        v_absent = np.column_stack([game.v_absent, game.v_background])
        present = np.append(base, True)
        flipped = np.append(base ^ movable, True)
        return cls(
            base=np.where(present, s, s_absent),
            flip=np.where(flipped, s, s_absent),
            v_base=np.where(present, v, v_absent),
            v_flip=np.where(flipped, v, v_absent),
        )

    @cached_property
    def unit(self) -> Array:
        """The larger of each player's two log-masses, 0 for a player without mass."""
        unit = np.maximum(self.base, self.flip)
        return np.where(unit == -np.inf, 0.0, unit)

    @cached_property
    def base_mass(self) -> Array:
        """The masses in the base state, in units of the players."""
        return np.asarray(np.exp(self.base - self.unit))

    @cached_property
    def flip_mass(self) -> Array:
        """The masses in the other state, in units of the players."""
        return np.asarray(np.exp(self.flip - self.unit))

    @cached_property
    def least_value(self) -> Array:
        """The (H,) smallest values with any mass, which no coalition can be below."""
        base = np.where(self.base == -np.inf, np.inf, self.v_base)
        flip = np.where(self.flip == -np.inf, np.inf, self.v_flip)
        return np.asarray(np.minimum(base, flip).min(axis=-1))

    def terms(self, theta: Array) -> tuple[Array, Array]:
        """Return the terms of the players in their base state and in the other one, at theta
        (H,).
        """
        x = self.base_mass * (self.v_base - theta[:, None])
        y = self.flip_mass * (self.v_flip - theta[:, None])
        return x, y

    def improving(self, x: Array, y: Array) -> Masks:
        """Return the players that lower the sum of terms if they change sides.

        If both sides are equal the lighter one is taken, so that a large mass cannot hide the other
        players.
        """
        lighter = self.flip_mass < self.base_mass
        return np.asarray((x > y) | ((x == y) & lighter))

    def gains(self, theta: Array) -> Gains:
        """Return what the players gain if they change sides, at theta (H,), with its rounding."""
        x, y = self.terms(theta)
        return Gains(
            unit=self.unit,
            gain=x - y,
            error=relative_error(0) * (np.abs(x) + np.abs(y)),
            positive=self.improving(x, y),
            two_sided=(self.base != self.flip) | (self.v_base != self.v_flip),
        )

    def at(self, flipped: Masks, theta: Array, log_slip: Array) -> Minimizer:
        """Return the values of a choice (H, d+1); `log_slip` (H,) is the log of the error of
        choosing other players.
        """
        log_mass = np.where(flipped, self.flip, self.base)
        top = log_mass.max(axis=-1)
        empty = top == -np.inf
        top = np.where(empty, 0.0, top)
        masses = np.exp(log_mass - top[:, None])
        values = np.where(flipped, self.v_flip, self.v_base)
        off = values - theta[:, None]
        mass = np.where(empty, 1.0, masses.sum(axis=-1))
        terms = masses * off
        size = np.abs(terms).sum(axis=-1)
        with np.errstate(over="ignore"):
            slip = np.exp(log_slip - top)
        lost = EXTREMUM_LOST * np.abs(off).max(axis=-1)
        rounding = EXTREMUM_SUM * relative_error(flipped.shape[-1]) * size
        margin = np.where(empty, 0.0, rounding + lost + slip)
        excess = terms.sum(axis=-1) / mass
        return Minimizer(
            choice=flipped,
            value=np.where(empty, np.inf, theta + excess),
            excess=excess,
            margin=margin / mass,
        )

    def plain(self) -> States | None:
        """Return the states with masses relative to each head's largest instead of logs, or None if
        they overflow.
        """
        logs = np.stack([self.base, self.flip])
        top = logs.max(axis=(0, 2), keepdims=True)
        with_mass = np.where(logs == -np.inf, np.inf, logs)
        smallest = with_mass.min(axis=(0, 2), keepdims=True)
        if (top - smallest).max() > LOG_RANGE_PLAIN:
            return None
        base, flip = np.exp(logs - top)
        return States(base, flip, self.v_base, self.v_flip)


@dataclass(frozen=True, eq=False)
class Gains:
    """How much the sum of terms falls if a player changes sides, in units of e^unit of the player,
    (H, d+1).

    `error` bounds the rounding of a gain. `two_sided` is False for players whose two states are
    equal.
    """

    unit: Array
    gain: Array
    error: Array
    positive: Masks
    two_sided: Masks

    def at_most(self, limit: int) -> tuple[Masks, Array]:
        """Return the at most `limit` players with the largest positive gains, and the log of the
        error (H,).

        The error is that of the sum of terms if rounding has exchanged players.
        """
        least = np.maximum(self.gain - self.error, 0)
        most = np.maximum(self.gain + self.error, 0)
        with np.errstate(divide="ignore"):
            low = self.unit + np.log(least)
            high = self.unit + np.log(most)
            log_gain = self.unit + np.log(np.abs(self.gain))
            log_error = self.unit + np.log(self.error)
        rank = np.where(self.positive, log_gain, -np.inf)
        chosen = self.positive & largest_of_rows(rank, limit)
        rivals = ~chosen & self.two_sided
        return chosen, log_exchange_error(chosen, rivals, low, high, log_error)

    def exactly(self, count: int) -> tuple[Masks, Array]:
        """Return the `count` players with the largest gains, also negative ones, and the log of the
        error (H,).

        Gains of both signs are ordered by sign(gain) (log|gain| - floor), with a floor below all
        logarithms.
        """
        # Below the logarithm of every number of float64, which is at least -745.
        log_floor = 800.0
        floor = self.unit.min() - log_floor
        # Such a rank is rounded relative to its size. The share of EXTREMUM_EXPONENTIAL per 100 is
        # 7.5 times that.
        error = self.error * (1 + (self.unit.max() - floor) / 100)
        low = self._signed_rank(self.gain - error, floor)
        rank = self._signed_rank(self.gain, floor)
        high = self._signed_rank(self.gain + error, floor)
        # The background does not change.
        rank[:, -1] = -np.inf
        high[:, -1] = -np.inf
        with np.errstate(divide="ignore"):
            log_error = self.unit + np.log(error)
        chosen = largest_of_rows(rank, count)
        return chosen, log_exchange_error(chosen, ~chosen, low, high, log_error)

    def _signed_rank(self, gain: Array, floor: float) -> Array:
        """Return numbers in the order of the gains."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = self.unit - floor + np.log(np.abs(gain))
            return np.where(gain == 0, 0, np.sign(gain) * distance)


def log_exchange_error(
    chosen: Masks, rivals: Masks, low: Array, high: Array, log_error: Array
) -> Array:
    """Return the log of the largest error of a sum of terms (H,) if rounding exchanges players.

    `low` and `high` are bounds on the ranks. Each chosen player that a rival might outrank
    contributes its own error and that of the worst such rival.
    """
    challenger = np.where(rivals, high, -np.inf).max(axis=-1, keepdims=True)
    doubtful = chosen & (low < challenger)
    weakest = np.where(chosen, low, np.inf).min(axis=-1, keepdims=True)
    challengers = rivals & (high > weakest)
    with np.errstate(divide="ignore"):
        worst_rival = np.where(challengers, log_error, -np.inf).max(axis=-1)
        of_rivals = worst_rival + np.log(doubtful.sum(axis=-1))
    own_errors = np.where(doubtful, log_error, -np.inf)
    of_doubtful = _log_sum(own_errors)
    return np.logaddexp(of_doubtful, of_rivals) + np.log(EXTREMUM_SLIP)


def largest_of_rows(x: Array, limit: int) -> Masks:
    """Return whether each entry is among the `limit` largest of the last axis; ties go to the
    first.
    """
    order = np.argsort(-x, axis=-1, kind="stable")
    chosen = np.zeros(x.shape, dtype=bool)
    np.put_along_axis(chosen, order[..., :limit], True, axis=-1)
    return chosen


def _log_sum(logs: Array) -> Array:
    """Compute the log-sum-exp over the last axis, or -inf if it is empty."""
    top = logs.max(axis=-1)
    safe = np.where(top == -np.inf, 0.0, top)
    total = np.exp(logs - safe[..., None]).sum(axis=-1)
    with np.errstate(divide="ignore"):
        return np.log(total) + safe
