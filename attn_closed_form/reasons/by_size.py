"""The minimum and the maximum prediction with exactly k players absent, certified, which bounds every order of removal.

An explanation that removes players one by one reaches one coalition of every size k. No order of deletion can bring the
prediction below the minimum over all coalitions of that size, and no order of insertion above the maximum.

`docs/theory/deletion-floor.md` derives the minimum of one head: a partial sort in each of a few steps. With several
heads the sum of their minima is proved; a coalition is found by the same step for the sum over heads of r_hj / D_h,
which linearizes f at the last coalition. If one coalition is optimal for all heads, both sides are equal.

**Rounding** is that of `minima.py`: theta is accepted if the sum exceeds the margin of its terms, and the players whose
order rounding leaves open count with their errors.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import real
from .._types import Array, Ids, Masks
from ..game.pooled_game import PooledGame
from .minima import check_pooled, head_minima, mirrored, plain_states, relative_error, slopes, total

# Up to this many players, every size has bounds; larger games have bounds at this many equal steps.
EVERY_SIZE = 5_000
SHARES = 200
STEPS = 30
# Dinkelbach's steps shrink quadratically: below this share of a head's range the next theta is the minimum.
NEAR = 1e-7


class BoundsBySize(NamedTuple):
    """Minimum and maximum prediction with `absent` players absent, each (n,).

    `attained_min` and `attained_max` are values of coalitions; no coalition of that size is below `proved_min` or
    above `proved_max`. With one head both are equal up to rounding.
    """

    absent: Ids
    attained_min: Array
    attained_max: Array
    proved_min: Array
    proved_max: Array


def bounds_by_size(game: PooledGame, absent: ArrayLike | None = None) -> BoundsBySize:
    """Compute the minimum and the maximum of the game over all coalitions with exactly k players absent.

    With one head both are exact. With several, the result has both attained and proved values.

    Parameters
    ----------
    game : PooledGame
    absent : numbers of absent players; by default every number 0..d up to 5,000 players, and 200 equal steps beyond

    Returns
    -------
    BoundsBySize(absent, attained_min, attained_max, proved_min, proved_max), each (n,)

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0, 0.0], v=[3.0, -1.0, 1.0], s_background=0.0, v_background=0.0)
    >>> found = bounds_by_size(game)
    >>> found.absent, found.attained_min.round(3), found.attained_max.round(3)
    (array([0, 1, 2, 3]), array([ 0.75,  0.  , -0.5 ,  0.  ]), array([0.75 , 1.333, 1.5  , 0.   ]))
    """
    check_pooled(game)
    if absent is None:
        if game.d <= EVERY_SIZE:
            absent = np.arange(game.d + 1)
        else:
            absent = np.linspace(0, game.d, SHARES + 1).round()
    given = real("absent", absent)
    sizes = given.astype(np.intp)
    if sizes.ndim != 1 or not ((sizes >= 0) & (sizes <= game.d)).all() or (sizes != given).any():
        raise ValueError(f"absent: expected integers in 0..{game.d}, got {absent}")
    attained_min, proved_min = _minima(game, sizes)
    attained_max, proved_max = _minima(mirrored(game), sizes)
    return BoundsBySize(sizes, attained_min, 0.0 - attained_max, proved_min, 0.0 - proved_max)


def _minima(game: PooledGame, sizes: Ids) -> tuple[Array, Array]:
    """Return the attained and the certified minimum for each number of absent players."""
    heads = _Heads(game)
    proved = np.full(len(sizes), game.empty_value)
    masks = np.zeros((len(sizes), game.d), dtype=bool)
    for i, k in enumerate(sizes.tolist()):
        if k < game.d or not game.can_be_empty:
            bound, present = heads.minima(k)
            proved[i] = total(game, bound)
            if game.H > 1:
                masks[i] = heads.descend(present, k)
            else:
                masks[i] = present[0]
    attained = game.value(masks)
    return attained, np.minimum(proved, attained)


class _Heads:
    """The heads of a game, with the minimum of the last size, where the search for the next one starts."""

    def __init__(self, game: PooledGame) -> None:
        self.game = game
        everybody = np.ones(game.d, dtype=bool)
        self.last = everybody
        self.states = states = plain_states(game, everybody, everybody)
        if states is None:
            return
        self.a, self.b, self.v, self.v_absent = (
            array[:, :-1] for array in (states.base, states.flip, states.v_base, states.v_flip)
        )
        self.back = states.base[:, -1]
        self.v_back = states.v_base[:, -1]
        masses = np.hstack([states.base, self.b])
        values = np.hstack([states.v_base, self.v_absent])
        self.least = np.where(masses > 0, values, np.inf).min(axis=1)
        self.range = np.where(masses > 0, values, -np.inf).max(axis=1) - self.least
        self.av = self.a * self.v
        self.bv = self.b * self.v_absent
        self.theta = (self.av.sum(axis=1) + self.back * self.v_back) / (
            self.a.sum(axis=1) + self.back
        )

    def minima(self, k: int) -> tuple[Array, Masks]:
        """Return the (H,) certified minima of the heads with k players absent, and their (H, d) coalitions."""
        everybody = np.ones((1, self.game.d), dtype=bool)
        if self.states is None:
            minima = head_minima(self.game, everybody, everybody, k, exactly=True)
            return minima.bound[0], minima.present[0]
        bound = np.empty(self.game.H)
        present = np.empty((self.game.H, self.game.d), dtype=bool)
        for h in range(self.game.H):
            bound[h], present[h] = self._minimum(h, k)
        return bound, present

    def _minimum(self, h: int, k: int) -> tuple[float, Masks]:
        """Return the certified minimum of a head with k players absent, and the coalition that attains it."""
        a = self.a[h]
        b = self.b[h]
        v = self.v[h]
        v_absent = self.v_absent[h]
        back = self.back[h]
        theta = self.theta[h]
        best = np.inf
        near = NEAR * self.range[h]
        for step in count():
            x = a * (v - theta)
            y = b * (v_absent - theta)
            gain = x - y
            absent = _largest(gain, k)
            always = back * (self.v_back[h] - theta)
            terms = np.where(absent, y, x)
            sums = terms.sum() + always
            mass = np.where(absent, b, a).sum() + back
            value = theta + sums / mass
            if value < best:
                best = value
                chosen = absent
            margin = 2 * relative_error(self.game.d) * (np.abs(terms).sum() + abs(always))
            if step < STEPS and near < np.inf and not -near * mass <= sums <= 4 * margin:
                theta = value
                continue
            near = np.inf  # from here on theta only falls, until it is certified
            if sums >= margin:
                margin += _slip(gain, relative_error(0) * (np.abs(x) + np.abs(y)), absent)
            if sums >= margin or theta <= self.least[h]:
                self.theta[h] = best
                return theta, ~chosen
            theta = max(
                min(theta + (sums - 1.5 * margin) / mass, np.nextafter(theta, -np.inf)),
                self.least[h],
            )
        raise AssertionError("unreachable")

    def descend(self, starts: Masks, k: int) -> Masks:
        """Return a (d,) coalition with k players absent, by steps that linearize f at the last coalition.

        The starts (n, d) are the coalitions of the heads; a step from the coalition of the last size is another one.
        """
        values, gains = zip(*map(self._linearized, (*starts, self.last)), strict=True)
        best = int(np.argmin(values[:-1]))
        mask = starts[best]
        value = values[best]
        gain = gains[best]
        for step in (~_largest(gains[-1], k), *(None,) * STEPS):
            if step is None:
                candidate = ~_largest(gain, k)
            else:
                candidate = step
            new, slope = self._linearized(candidate)
            if new < value:
                mask = candidate
                value = new
                gain = slope
            elif step is None:
                break
        self.last = mask
        return mask

    def _linearized(self, present: Masks) -> tuple[float, Array]:
        """Return the value of a coalition minus the bias, and the (d,) effects of the players' presence near it."""
        if self.states is None:
            return float(self.game.value(present)), slopes(self.game, present).sum(axis=0)
        there = present.astype(np.float64)
        D = self.a @ there + self.b @ (1 - there) + self.back
        theta = (self.av @ there + self.bv @ (1 - there) + self.back * self.v_back) / D
        return float(theta.sum()), (1 / D) @ (self.av - self.bv) - (theta / D) @ (self.a - self.b)


def _largest(gain: Array, k: int) -> Masks:
    """Return whether each player is among the k with the largest gains."""
    if k in (0, gain.size):
        return np.full(gain.size, k > 0)
    least = np.partition(gain, gain.size - k)[gain.size - k]
    chosen = gain > least
    chosen[np.flatnonzero(gain == least)[: k - np.count_nonzero(chosen)]] = True
    return chosen


def _slip(gain: Array, error: Array, absent: Masks) -> float:
    """Return the largest error of the sum of terms if rounding exchanges players.

    Each absent player that a present one might outrank contributes its own error and that of the worst such rival.
    """
    low = np.where(absent, gain - error, np.inf)
    high = np.where(absent, -np.inf, gain + error)
    doubtful = low < high.max()
    rivals = high > low.min()
    return float(
        2 * (error[doubtful].sum() + np.count_nonzero(doubtful) * error[rivals].max(initial=0.0))
    )
