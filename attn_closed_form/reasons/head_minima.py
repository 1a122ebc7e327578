"""The least value of each head over the coalitions near a given one, proved: what bounds and reasons are made of.

In one head "f(S) >= theta" is linear in the coalition S. With the terms x_j = a_j (v_j - theta) for a player that is
present and y_j = b_j (v'_j - theta) for one that is absent,

    f(S) >= theta for every S    if and only if    c_0 (v_0 - theta) + sum_j min(x_j, y_j) >= 0,

and where the left side is negative, the coalition that attains it has a smaller value, which is the next theta
(Dinkelbach, 1967: a handful of steps, each O(d)). A limit on how many players may leave a given coalition takes the
best of them by gain per cost: exact for unit costs, the fractional knapsack, which can only be lower, for others.

**Rounding.** The proof is the sign of a sum of floating-point terms. Each carries a relative error below
(750 + d) ulps: 750 for an exponential of at most 745 in absolute value, d for the sum. So theta is accepted only if the
sum exceeds that share of the sum of absolute terms, and the claim holds in exact arithmetic on the game's numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._types import Array, Masks
from ..game.pooled_game import PooledGame

ULP = float(np.finfo(np.float64).eps)
# Terms below this share of the largest mass may be lost where masses leave float64; `pool` allows for them.
LOST = 1e-290


def mirrored(game: PooledGame) -> PooledGame:
    """The game with the opposite sign."""
    return replace(
        game,
        v=-game.v,
        v_absent=-game.v_absent,
        v_background=-game.v_background,
        bias=-game.bias,
        empty_value=-game.empty_value,
    )


def value_error(game: PooledGame) -> float:
    """The most that rounding can change `game.value`."""
    largest = np.maximum(np.abs(game.v).max(axis=1), np.abs(game.v_absent).max(axis=1))
    largest = np.maximum(largest, np.abs(game.v_background))
    return float(2 * relative_error(game.d) * largest.sum() + 2 * ULP * abs(game.bias))


def relative_error(d: int) -> float:
    """Relative error of a sum of d exponentials times values (module docstring)."""
    return (750 + d) * ULP


def total(game: PooledGame, bound: Array) -> Array:
    """Sum of the heads' bounds (n, H) and the bias, rounded down."""
    size = np.abs(bound).sum(axis=-1) + abs(game.bias)
    return bound.sum(axis=-1) + game.bias - (game.H + 2) * ULP * size


class HeadMinima(NamedTuple):
    """Proved lower bounds of the heads (n, H) and the choices (n, H, d) at which they are taken, True for present."""

    bound: Array
    present: Masks


def head_minima(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    limit: Array | None = None,
    cost: Array | None = None,
) -> HeadMinima:
    """Each head's least value over the coalitions that differ from `base` in movable players only.

    Coalitions without any mass are left out; the caller looks at `empty_value`.

    Parameters
    ----------
    game : PooledGame
    base : (n, d) coalitions to start from
    movable : (n, d) the players that may change sides
    limit : (n,) the most that the players who change sides may cost together; None for no limit
    cost : (d,) positive; one each by default
    """
    masses = _Masses.of(game, base)
    least = masses.least_value(movable)
    share = np.zeros(masses.log_base.shape)
    smallest, *_ = masses.pool(share, np.zeros(least.shape), np.full(least.shape, -np.inf))
    # Where a head may lose all of its other mass, its least value is its minimum.
    theta = (
        least
        if limit is None and masses.can_lose_all(movable)
        else np.maximum(np.where(np.isinf(smallest), masses.v_base.max(axis=-1), smallest), least)
    )
    done = np.zeros(theta.shape, dtype=bool)
    while not done.all():
        now, log_slip = masses.choose(theta, movable, limit, cost)
        value, excess, margin = masses.pool(now, theta, log_slip)
        # The last theta is below the minimum by a margin, and its choice may be another one: keep the best.
        better = value < smallest
        share, smallest = np.where(better[..., None], now, share), np.where(better, value, smallest)
        done |= (excess >= margin) | (theta <= least)
        # Dinkelbach's next theta is theta + excess, the value of the chosen coalition; a little less can be proved.
        lower = np.minimum(theta + excess - 1.5 * margin, np.nextafter(theta, -np.inf))
        theta = np.where(done, theta, np.maximum(lower, least))
    return HeadMinima(theta, base[:, None, :] ^ (share > 0.5))


@dataclass(frozen=True, eq=False)
class _Masses:
    """Log-masses and values of every player in its base state and in the other one, (n, H, d), and the background."""

    log_base: Array
    log_flip: Array
    v_base: Array
    v_flip: Array
    log_back: Array  # (H,)
    v_back: Array
    unit: Array  # (n, H, d) the larger of the two log-masses
    base: Array  # masses over their unit
    flip: Array

    @classmethod
    def of(cls, game: PooledGame, present: Masks) -> _Masses:
        here = present[:, None, :]
        log_base, log_flip = np.where(here, game.s, game.s_absent), np.where(here, game.s_absent, game.s)
        unit = np.maximum(log_base, log_flip)
        return cls(
            log_base=log_base,
            log_flip=log_flip,
            v_base=np.where(here, game.v, game.v_absent),
            v_flip=np.where(here, game.v_absent, game.v),
            log_back=game.s_background,
            v_back=game.v_background,
            unit=unit,
            base=np.exp(log_base - unit),
            flip=np.exp(log_flip - unit),
        )

    def can_lose_all(self, movable: Masks) -> bool:
        """Whether every player can be without mass, and there is no background."""
        lost = np.isneginf(np.where(movable[:, None, :], np.minimum(self.log_base, self.log_flip), self.log_base))
        return bool(lost.all() and np.isneginf(self.log_back).all())

    def least_value(self, movable: Masks) -> Array:
        """(n, H) the smallest value with any mass: below it nothing can be."""
        base = np.where(np.isneginf(self.log_base), np.inf, self.v_base).min(axis=-1)
        flip = np.where(np.isneginf(self.log_flip) | ~movable[:, None, :], np.inf, self.v_flip).min(axis=-1)
        return np.minimum(np.minimum(base, flip), np.where(np.isneginf(self.log_back), np.inf, self.v_back))

    def choose(self, theta: Array, movable: Masks, limit: Array | None, cost: Array | None) -> tuple[Array, Array]:
        """(n, H, d) how much of each player changes sides, 0 to 1, to make the sum of terms least.

        And (n, H), the log of the most that this sum is off because rounding put one player in another's place.
        """
        x, y = (mass * (v - theta[..., None]) for mass, v in ((self.base, self.v_base), (self.flip, self.v_flip)))
        gain = x - y
        # Where both sides are alike the lighter one is taken, so that a great mass cannot hide what the others say.
        better = ((gain > 0) | ((gain == 0) & (self.flip < self.base))) & movable[:, None, :]
        if limit is None:
            return better.astype(np.float64), np.full(theta.shape, -np.inf)
        price = np.ones(gain.shape[-1]) if cost is None else cost
        error = relative_error(0) * (np.abs(x) + np.abs(y))
        with np.errstate(divide="ignore"):
            scale = self.unit - np.log(price)
            rank = np.where(better, scale + np.log(np.abs(gain)), -np.inf)
            least, most = (scale + np.log(np.maximum(gain + sign * error, 0)) for sign in (-1, 1))
            log_error = self.unit + np.log(error)
        order = np.argsort(-rank, axis=-1, kind="stable")
        spent = np.cumsum(price[order], axis=-1)
        part = np.clip((limit[:, None, None] - spent) / price[order] + 1, 0.0, 1.0)
        share = np.empty_like(gain)
        np.put_along_axis(share, order, part, axis=-1)
        share = np.where(better, share, 0.0)
        return share, _log_slip(share, movable[:, None, :], least, most, log_error, np.log(price))

    def pool(self, share: Array, theta: Array, log_slip: Array) -> tuple[Array, Array, Array]:
        """Mean value, mean of value less theta, and how much rounding can have changed it, each (n, H)."""
        chosen = self._split(share) if ((share > 0) & (share < 1)).any() else self._whole(share > 0.5)
        top = np.maximum(functools.reduce(np.maximum, [part.log_mass.max(axis=-1) for part in chosen]), self.log_back)
        empty = np.isneginf(top)
        top = np.where(empty, 0.0, top)
        back, off_back = np.exp(self.log_back - top), self.v_back - theta
        mass, excess, size = back, back * off_back, back * np.abs(off_back)
        farthest = np.abs(off_back)
        for log_mass, v, part in chosen:
            masses, off = np.exp(log_mass - top[..., None]), v - theta[..., None]
            if part is not None:
                masses *= part
            terms = masses * off
            mass = mass + masses.sum(axis=-1)
            excess = excess + terms.sum(axis=-1)
            size = size + np.abs(terms).sum(axis=-1)
            farthest = np.maximum(farthest, np.abs(off).max(axis=-1))
        mass = np.where(empty, 1.0, mass)
        with np.errstate(over="ignore"):
            slip = np.exp(log_slip - top)
        margin = np.where(empty, 0.0, 2 * relative_error(share.shape[-1]) * size + LOST * farthest + slip)
        value = np.where(empty, np.inf, theta + excess / mass)
        return value, excess / mass, margin / mass

    def _whole(self, flipped: Masks) -> list[_Part]:
        """Every player in one state."""
        log_mass = np.where(flipped, self.log_flip, self.log_base)
        return [_Part(log_mass, np.where(flipped, self.v_flip, self.v_base), None)]

    def _split(self, share: Array) -> list[_Part]:
        """Players in both states, with a part of their mass in each."""
        return [
            _Part(np.where(share < 1, self.log_base, -np.inf), self.v_base, 1 - share),
            _Part(np.where(share > 0, self.log_flip, -np.inf), self.v_flip, share),
        ]


class _Part(NamedTuple):
    """Log-masses, values, and the share of the mass that counts; all of it for None."""

    log_mass: Array
    v: Array
    share: Array | None


def _log_slip(share: Array, movable: Masks, least: Array, most: Array, log_error: Array, log_price: Array) -> Array:
    """Log of the most that a choice under a limit loses where two players rank alike up to rounding, (n, H).

    `least` and `most` enclose the log of the gain per cost. Every player that was taken though one that was left might
    rank higher counts with its own error, and with that of the worst one left, at the cost that it takes up.
    """
    left = (share < 1) & movable
    challenger = np.where(left, most, -np.inf).max(axis=-1, keepdims=True)
    doubtful = (share > 0) & (least < challenger)
    rivals = left & (most > np.where(share > 0, least, np.inf).min(axis=-1, keepdims=True))
    own = _log_sum(np.where(doubtful, log_error, -np.inf))
    room = _log_sum(np.where(doubtful, log_price, -np.inf))
    other = np.where(rivals, log_error - log_price, -np.inf).max(axis=-1)
    return np.logaddexp(own, np.where(np.isneginf(room), -np.inf, room + other)) + np.log(2.0)


def _log_sum(logs: Array) -> Array:
    """Log-sum-exp over the last axis; -inf where there is nothing."""
    top = logs.max(axis=-1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logs - safe[..., None]).sum(axis=-1)) + safe


def slopes(game: PooledGame, present: Masks, theta: Array | None = None) -> Array:
    """(H, d) what each player's presence adds to the linear form (N_h - theta_h D_h) / D_h at a coalition.

    `present` is (d,), or (H, d) for one coalition per head; `theta` (H,) is the value of each head there unless given.
    """
    log_mass = np.where(present, game.s, game.s_absent)
    top = np.maximum(log_mass.max(axis=1), game.s_background)
    top = np.where(np.isneginf(top), np.maximum(game.s.max(axis=1), game.s_background), top)
    mass, back = np.exp(log_mass - top[:, None]), np.exp(game.s_background - top)
    D = mass.sum(axis=1) + back
    D = np.where(D == 0, 1.0, D)
    if theta is None:
        theta = ((mass * np.where(present, game.v, game.v_absent)).sum(axis=1) + back * game.v_background) / D
    a, b = (np.exp(np.minimum(s - top[:, None], 600.0)) for s in (game.s, game.s_absent))
    change = a * (game.v - theta[:, None]) - b * (game.v_absent - theta[:, None])
    return change / D[:, None]
