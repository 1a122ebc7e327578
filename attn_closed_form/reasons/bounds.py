"""The least and the greatest prediction over all coalitions, with a proof.

Each head's extremes are exact (`head_minima.py`). Heads add up, so the sum of the heads' minima is below every value of
the game; it is the minimum itself where one coalition serves all heads. Where it is not, `joint_bounds.py` narrows the
gap, and small games are enumerated. `Bounds` has both sides: what is proved, and what a coalition attains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Masks
from ..game.pooled_game import PooledGame
from .head_minima import head_minima, mirrored, slopes, total, value_error
from .joint_bounds import proved_above
from .small_games import ENUMERATED, all_coalitions

DESCENT_STEPS = 50
# Bisections of the gap between what is proved and what is attained; none for games so large that they would cost.
BISECTIONS = 8
LARGEST_BISECTED = 2_000


@dataclass(frozen=True, eq=False)
class Bounds:
    """The range of a game's predictions.

    Attributes
    ----------
    least, greatest : float
        Values that are attained, by the coalitions `least_present` and `greatest_present`.
    lower, upper : float
        Proved: no coalition is below `lower` or above `upper`.
    least_present, greatest_present : (d,) bool
    exact : bool
        Whether both sides meet, up to rounding. Always the case for one head.
    """

    least: float
    greatest: float
    lower: float
    upper: float
    least_present: Masks
    greatest_present: Masks
    exact: bool

    def to_dict(self) -> dict[str, object]:
        """The numbers, and the players of the two coalitions, for JSON."""
        return {
            "least": self.least,
            "greatest": self.greatest,
            "lower": self.lower,
            "upper": self.upper,
            "least_present": np.flatnonzero(self.least_present).tolist(),
            "greatest_present": np.flatnonzero(self.greatest_present).tolist(),
            "exact": self.exact,
        }


def bounds(game: PooledGame) -> Bounds:
    """Least and greatest value of the game over all coalitions, in O(H d) steps.

    With one head both are exact up to rounding. With several, `lower` and `upper` are proved, `least` and `greatest`
    are attained, and `exact` says whether they meet.

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0, 0.0], v=[3.0, -1.0, 1.0], s_background=0.0, v_background=0.0)
    >>> found = bounds(game)
    >>> found.least, found.greatest, found.exact      # the background with player 1; with players 0 and 2, or 0 alone
    (-0.5, 1.5, True)
    """
    lower, low_mask, least = minimum(game)
    upper, high_mask, greatest = minimum(mirrored(game))
    allowed = 8 * value_error(game)
    return Bounds(
        least=least,
        greatest=-greatest,
        lower=lower,
        upper=-upper,
        least_present=low_mask,
        greatest_present=high_mask,
        exact=bool(least - lower <= allowed and greatest - upper <= allowed),
    )


def minimum(game: PooledGame) -> tuple[float, Masks, float]:
    """A proved lower bound, the best coalition that was found, and its value."""
    lower, mask = lowest(game)
    if game.H > 1 and game.value(mask) - lower > 8 * value_error(game):
        if game.d <= ENUMERATED:
            masks = all_coalitions(game.d)
            values = game.value(masks)
            mask, lower = masks[np.argmin(values)], max(lower, float(values.min()) - value_error(game))
        else:
            lower = _raised(game, lower, float(game.value(mask)))
    value = float(game.value(mask))
    return min(lower, value), mask, value


def lowest(game: PooledGame) -> tuple[float, Masks]:
    """The sum of the heads' minima, and a coalition with a low value."""
    everybody = np.ones(game.d, dtype=bool)
    heads = head_minima(game, everybody[None], everybody[None])
    lower = float(total(game, heads.bound)[0])
    starts = np.concatenate([heads.present[0], heads.present[0].mean(axis=0, keepdims=True) > 0.5, everybody[None]])
    if game.can_be_empty:  # then one player alone attains a head's minimum, and nobody is no coalition to start from
        alone = np.append(game.v.argmin(axis=1), game.v.sum(axis=0).argmin())[:, None] == np.arange(game.d)
        starts = np.concatenate([starts[starts.any(axis=1)], alone])
    mask = starts[np.argmin(game.value(starts))]
    if game.H > 1:
        mask = _descend(game, mask)
    if not game.can_be_empty:
        return lower, mask
    return min(lower, game.empty_value), mask if game.value(mask) <= game.empty_value else ~everybody


def _raised(game: PooledGame, lower: float, least: float) -> float:
    """A greater lower bound, by a bisection between the proved and the attained."""
    if game.d > LARGEST_BISECTED:
        return lower
    everybody, high = np.ones(game.d, dtype=bool), least
    bound = head_minima(game, everybody[None], everybody[None]).bound[0]
    for _ in range(BISECTIONS):
        middle = (lower + high) / 2
        fine = proved_above(game, everybody, everybody, middle, bound=bound)
        lower, high = (middle, high) if fine else (lower, middle)
    return lower


def _descend(game: PooledGame, present: Masks) -> Masks:
    """A coalition with a value that no change of a single player, and no linear step, makes smaller."""
    value = float(game.value(present))
    for _ in range(DESCENT_STEPS):
        steps = _steps(game, present)
        if not len(steps):
            break
        values = game.value(steps)
        best = int(np.argmin(values))
        if not values[best] < value:
            break
        present, value = steps[best], float(values[best])
    return present


def _steps(game: PooledGame, present: Masks) -> Masks:
    """Coalitions to try from this one: all players by the sign of their linear effect, and the best single changes."""
    slope = slopes(game, present).sum(axis=0)
    effect = np.where(present, -slope, slope)
    single = np.argsort(effect)[:8]
    flips = np.repeat(present[None], 1 + single.size, axis=0)
    flips[0] = slope < 0
    flips[np.arange(1, 1 + single.size), single] ^= True
    return flips if not game.can_be_empty else flips[flips.any(axis=1)]
