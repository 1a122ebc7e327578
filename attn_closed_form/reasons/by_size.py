"""The minimum and the maximum prediction with exactly k players absent, certified, which bounds
every order of removal.

An explanation that removes players one by one reaches one coalition of every size k. No order of
deletion can bring the prediction below the minimum over all coalitions of that size, and no order
of insertion above the maximum.

`docs/theory/deletion-floor.md` derives the minimum of one head: a partial sort in each of a few
steps. With several heads the sum of their minima is proved; a coalition is found by the same step
for the sum over heads of r_hj / D_h, which linearizes f at the last coalition. If one coalition is
optimal for all heads, both sides are equal.

**Rounding** is that of `game/extrema.py`: theta is accepted if the sum exceeds the margin of its
terms, and the players whose order rounding leaves open count with their errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import check, real, usual_float_errors
from .._types import Array, Ids, Masks
from ..game.engine.rounding import EXTREMUM_SLIP, EXTREMUM_SUM
from ..game.extrema import (
    LOWERED,
    HeadMinima,
    Minimizer,
    States,
    certified_minima,
    head_minima,
    relative_error,
)
from ..game.pooled_game import PooledGame
from .heads import check_pooled, mirrored, slopes, total

# Tuning: up to this many players, every size has bounds, which takes O(d^2).
EVERY_SIZE = 5_000
# Dinkelbach's steps converge quadratically, so a handful is enough; this is a limit for numbers
# that go around in circles. The proof then starts from the last theta.
MOST_STEPS = 30


class BoundsBySize(NamedTuple):
    """Minimum and maximum prediction with `absent` players absent, each (n,).

    `attained_min` and `attained_max` are values of coalitions; no coalition of that size is below
    `proved_min` or above `proved_max`. With one head both are equal up to rounding.
    """

    absent: Ids
    attained_min: Array
    attained_max: Array
    proved_min: Array
    proved_max: Array

    def on_scale(self, scale: Callable[[Any], Array]) -> BoundsBySize:
        """Return the bounds of an increasing function of the prediction."""
        return BoundsBySize(
            absent=self.absent,
            attained_min=scale(self.attained_min),
            attained_max=scale(self.attained_max),
            proved_min=scale(self.proved_min),
            proved_max=scale(self.proved_max),
        )


@usual_float_errors
def bounds_by_size(game: PooledGame, absent: ArrayLike | None = None) -> BoundsBySize:
    """Compute the minimum and the maximum of the game over all coalitions with exactly k players
    absent.

    With one head both are exact. With several heads, the result has attained and proved values.

    Parameters
    ----------
    game : PooledGame
    absent : numbers of absent players; by default every number 0..d up to 5,000 players, and 200
        equal steps beyond

    Returns
    -------
    BoundsBySize(absent, attained_min, attained_max, proved_min, proved_max), each (n,)

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0, 0.0], v=[3.0, -1.0, 1.0], s_background=0.0, v_background=0.0
    ... )
    >>> found = bounds_by_size(game)
    >>> found.absent, found.attained_min.round(3), found.attained_max.round(3)
    (array([0, 1, 2, 3]), array([ 0.75,  0.  , -0.5 ,  0.  ]), array([0.75 , 1.333, 1.5  , 0.   ]))
    """
    check_pooled(game)
    if absent is None:
        if game.d <= EVERY_SIZE:
            absent = np.arange(game.d + 1)
        else:
            # Tuning: larger games have bounds at this many equal steps, more than a curve on a page
            # can show.
            equal_steps = 200
            absent = np.linspace(0, game.d, equal_steps + 1).round()
    given = real("absent", absent)
    sizes = given.astype(np.intp)
    are_sizes = (sizes == given) & (sizes >= 0) & (sizes <= game.d)
    fits = sizes.ndim == 1 and bool(are_sizes.all())
    check("absent", fits, f"integers in 0..{game.d}", absent)
    attained_min, proved_min = _minima(game, sizes)
    attained_max, proved_max = _minima(mirrored(game), sizes)
    # Subtracted from 0.0, because the negative of 0.0 would be printed as -0.0.
    return BoundsBySize(
        absent=sizes,
        attained_min=attained_min,
        attained_max=0.0 - attained_max,
        proved_min=proved_min,
        proved_max=0.0 - proved_max,
    )


def _minima(game: PooledGame, sizes: Ids) -> tuple[Array, Array]:
    """Return the attained and the certified minimum for each number of absent players."""
    heads = HeadsBySize(game)
    proved = np.full(len(sizes), game.empty_value)
    masks = np.zeros((len(sizes), game.d), dtype=bool)
    for i, k in enumerate(sizes.tolist()):
        if k < game.d or not game.can_be_empty:
            minima = heads.minima(k)
            proved[i] = total(game, minima.bound)
            if game.H > 1:
                masks[i] = heads.descend(minima.present, k)
            else:
                masks[i] = minima.present[0]
    attained = game.value(masks)
    return attained, np.minimum(proved, attained)


class HeadsBySize:
    """The heads of a game, with the minimum of the last size, where the search for the next one
    starts.
    """

    def __init__(self, game: PooledGame) -> None:
        self.game = game
        everybody = np.ones(game.d, dtype=bool)
        self.last = everybody
        states = States.of(game, everybody, everybody).plain()
        self.is_plain = states is not None
        if states is None:
            return
        self.a = states.base[:, :-1]
        self.b = states.flip[:, :-1]
        self.v = states.v_base[:, :-1]
        self.v_absent = states.v_flip[:, :-1]
        self.back = states.base[:, -1]
        self.v_back = states.v_base[:, -1]
        has_mass = np.hstack([states.base, self.b]) > 0
        values = np.hstack([states.v_base, self.v_absent])
        self.least = np.where(has_mass, values, np.inf).min(axis=1)
        largest = np.where(has_mass, values, -np.inf).max(axis=1)
        self.range = largest - self.least
        self.av = self.a * self.v
        self.bv = self.b * self.v_absent
        N = self.av.sum(axis=1) + self.back * self.v_back
        D = self.a.sum(axis=1) + self.back
        self.theta = N / D

    def minima(self, k: int) -> HeadMinima:
        """Return the certified minima of the heads with k players absent, and their coalitions."""
        everybody = np.ones(self.game.d, dtype=bool)
        if not self.is_plain:
            return head_minima(self.game, everybody, movable=everybody, limit=k, exactly=True)
        theta, best, present = self._descended(k)
        step = partial(self.step, k, certify=True)
        bound, best, present = certified_minima(step, theta, self.least, best, choice=present)
        self.theta = best
        return HeadMinima(bound, present)

    def _descended(self, k: int) -> tuple[Array, Array, Masks]:
        """Find the minima up to rounding; return thetas (H,) just below them, the best values and
        their coalitions.

        The minimum of the last size is on either side of this one. One step of Dinkelbach's leads
        above it.
        """
        theta = self.theta
        below = theta
        best = np.full(theta.shape, np.inf)
        present = np.ones(self.a.shape, dtype=bool)
        done = np.zeros(theta.shape, dtype=bool)
        # Tuning: Dinkelbach's steps shrink quadratically: below this share of a head's range the
        # next theta is the minimum.
        close_to_minimum = 1e-7
        for _ in range(MOST_STEPS):
            at = self.step(k, theta)
            better = at.value < best
            best = np.where(better, at.value, best)
            present = np.where(better[:, None], at.choice, present)
            below = np.where(done, below, at.value - LOWERED * at.margin)
            not_far_below = at.excess >= -close_to_minimum * self.range
            not_far_above = at.excess <= 4 * at.margin
            done |= not_far_below & not_far_above
            if done.all():
                break
            theta = np.where(done, theta, at.value)
        return np.maximum(below, self.least), best, present

    def step(self, k: int, theta: Array, certify: bool = False) -> Minimizer:
        """Return the choice of k absent players that minimizes N - theta D in each head."""
        x = self.a * (self.v - theta[:, None])
        y = self.b * (self.v_absent - theta[:, None])
        gain = x - y
        absent = np.array([_largest(row, k) for row in gain])
        always = self.back * (self.v_back - theta)
        terms = np.where(absent, y, x)
        masses = np.where(absent, self.b, self.a)
        mass = masses.sum(axis=1) + self.back
        size = np.abs(terms).sum(axis=1) + np.abs(always)
        margin = EXTREMUM_SUM * relative_error(self.game.d) * size
        if certify:
            moduli = np.abs(x) + np.abs(y)
            error = relative_error(0) * moduli
            exchanged = [exchange_error(*rows) for rows in zip(gain, error, absent, strict=True)]
            margin = margin + exchanged
        excess = (terms.sum(axis=1) + always) / mass
        return Minimizer(choice=~absent, value=theta + excess, excess=excess, margin=margin / mass)

    def descend(self, starts: Masks, k: int) -> Masks:
        """Return a (d,) coalition with k players absent, by steps that linearize f at the last
        coalition.

        The starts (n, d) are the coalitions of the heads; a step from the coalition of the last
        size is another one.
        """
        _, effects_of_last = self.linearized(self.last)
        value = np.inf
        for start in (*starts, ~_largest(effects_of_last, k)):
            new, new_effects = self.linearized(start)
            if new < value:
                mask = start
                value = new
                effects = new_effects
        for _ in range(MOST_STEPS):
            candidate = ~_largest(effects, k)
            new, new_effects = self.linearized(candidate)
            if not new < value:
                break
            mask = candidate
            value = new
            effects = new_effects
        self.last = mask
        return mask

    def linearized(self, present: Masks) -> tuple[float, Array]:
        """Return the value of a coalition minus the bias, and the (d,) effects of the players'
        presence near it.
        """
        if not self.is_plain:
            return float(self.game.value(present)), slopes(self.game, present).sum(axis=0)
        there = present.astype(np.float64)
        gone = 1 - there
        D_present = self.a @ there
        D_absent = self.b @ gone
        N_present = self.av @ there
        N_absent = self.bv @ gone
        D = D_present + D_absent + self.back
        N = N_present + N_absent + self.back * self.v_back
        theta = N / D
        of_numerators = (1 / D) @ (self.av - self.bv)
        of_masses = (theta / D) @ (self.a - self.b)
        return float(theta.sum()), of_numerators - of_masses


def _largest(gain: Array, k: int) -> Masks:
    """Return whether each player is among the k with the largest gains; a partition, because d may
    be large.
    """
    if k in (0, gain.size):
        return np.full(gain.size, k > 0)
    place = gain.size - k
    least = np.partition(gain, place)[place]
    chosen = gain > least
    # Ties go to the first.
    ties = np.flatnonzero(gain == least)
    missing = k - np.count_nonzero(chosen)
    chosen[ties[:missing]] = True
    return chosen


def exchange_error(gain: Array, error: Array, absent: Masks) -> float:
    """Return the largest error of the sum of terms if rounding exchanges players.

    Each absent player that a present one might outrank contributes its own error and that of the
    worst such rival.
    """
    low = np.where(absent, gain - error, np.inf)
    high = np.where(absent, -np.inf, gain + error)
    doubtful = low < high.max()
    rivals = high > low.min()
    of_rivals = np.count_nonzero(doubtful) * error[rivals].max(initial=0.0)
    return float(EXTREMUM_SLIP * (error[doubtful].sum() + of_rivals))
