"""The minimum and the maximum prediction over all coalitions, certified.

Each head's extremes are exact (`game/extrema.py`). Heads add up, so the sum of the heads' minima is
below every value of the game; it is the minimum itself if one coalition is optimal for all heads.
If it is not, `proved_above` narrows the gap, and small games are enumerated. `Bounds` has both the
proved and the attained values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import all_coalitions, usual_float_errors
from .._types import Masks
from ..game.extrema import head_minima
from ..game.pooled_game import PooledGame
from .heads import check_pooled, mirrored, raised, slopes, total, value_error

# Tuning: up to this many players all coalitions are evaluated, 4,096 of them in about a
# millisecond.
ENUMERATED = 12
# Attained and proved values are the same up to this many rounding errors of a value: each of them
# has one, and the proof leaves a margin of three (`game/extrema.py`).
ROUNDING_ERRORS = 8


@dataclass(frozen=True, eq=False)
class Bounds:
    """The range of a game's predictions.

    Attributes
    ----------
    attained_min, attained_max : values of the coalitions `min_present` and `max_present`, (d,) bool
    proved_min, proved_max : certified bounds; no coalition is below `proved_min` or above
        `proved_max`
    exact : whether attained and proved values agree up to rounding; always true for one head
    """

    attained_min: float
    attained_max: float
    proved_min: float
    proved_max: float
    min_present: Masks
    max_present: Masks
    exact: bool

    def to_dict(self) -> dict[str, object]:
        """Return the numbers, and the players of the two coalitions, for JSON."""
        players = {
            name: np.flatnonzero(getattr(self, name)).tolist()
            for name in ("min_present", "max_present")
        }
        return {**self.__dict__, **players}


@usual_float_errors
def bounds(game: PooledGame) -> Bounds:
    """Compute the minimum and the maximum of the game over all coalitions, in O(H d) steps.

    Parameters
    ----------
    game : PooledGame of d players

    Returns
    -------
    Bounds
        a minimum and a maximum that some coalition attains, and a proved range that no coalition
        leaves

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0, 0.0], v=[3.0, -1.0, 1.0], s_background=0.0, v_background=0.0
    ... )
    >>> result = bounds(game)
    >>> (
    ...     result.attained_min,
    ...     result.attained_max,
    ...     result.exact,
    ... )  # player 1; players 0 and 2, or 0 alone
    (-0.5, 1.5, True)
    """
    check_pooled(game)
    proved_min, min_present, attained_min = minimum(game)
    proved_max, max_present, attained_max = minimum(mirrored(game))
    gap = max(attained_min - proved_min, attained_max - proved_max)
    return Bounds(
        attained_min=attained_min,
        attained_max=-attained_max,
        proved_min=proved_min,
        proved_max=-proved_max,
        min_present=min_present,
        max_present=max_present,
        exact=bool(gap <= ROUNDING_ERRORS * value_error(game)),
    )


def minimum(game: PooledGame) -> tuple[float, Masks, float]:
    """Return a proved lower bound, the best coalition of a descent, and its value."""
    lower, mask = lowest(game)
    if game.H > 1 and game.value(mask) - lower > ROUNDING_ERRORS * value_error(game):
        if game.d <= ENUMERATED:
            masks = all_coalitions(game.d)
            values = game.value(masks)
            mask = masks[np.argmin(values)]
            least = float(values.min())
            lower = max(lower, least - value_error(game))
        elif game.d <= 2_000:
            # Tuning: bisections of the gap between proved and attained values. Each halves it, if
            # the proof can, in O(H d) steps, which take too long for more players.
            bisections = 8
            everybody = np.ones(game.d, dtype=bool)
            bound = head_minima(game, everybody, everybody).bound
            lower = raised(
                game,
                everybody,
                movable=everybody,
                bound=bound,
                low=lower,
                high=float(game.value(mask)),
                bisections=bisections,
            )
    value = float(game.value(mask))
    return min(lower, value), mask, value


def lowest(game: PooledGame) -> tuple[float, Masks]:
    """Return the sum of the heads' minima, and a coalition with a low value."""
    everybody = np.ones(game.d, dtype=bool)
    heads = head_minima(game, everybody, everybody)
    lower = total(game, heads.bound)
    majority = heads.present.mean(axis=0, keepdims=True) > 0.5
    starts = np.concatenate([heads.present, majority, everybody[None]])
    if game.can_be_empty:
        # One player alone attains a head's minimum then, and the empty coalition cannot be a start.
        least_of_heads = game.v.argmin(axis=1)
        least_of_sum = game.v.sum(axis=0).argmin()
        players = np.append(least_of_heads, least_of_sum)
        alone = players[:, None] == np.arange(game.d)
        starts = np.concatenate([starts[starts.any(axis=1)], alone])
    mask = starts[np.argmin(game.value(starts))]
    if game.H > 1:
        mask = _descend(game, mask)
    if game.can_be_empty:
        lower = min(lower, game.empty_value)
        if game.empty_value < game.value(mask):
            mask = ~everybody
    return lower, mask


def _descend(game: PooledGame, present: Masks) -> Masks:
    """Return a coalition whose value cannot be lowered by a linear step (all players by the sign of
    their effect) or by any of the most promising changes of a single player.
    """
    value = float(game.value(present))
    # Tuning: a limit of the descent, which ends by itself when no step lowers the value.
    descent_steps = 50
    # Tuning: single changes that a step tries, the most promising ones by their slope.
    single_changes = 8
    for _ in range(descent_steps):
        slope = slopes(game, present).sum(axis=0)
        by_promise = np.argsort(np.where(present, -slope, slope))
        single = by_promise[:single_changes]
        steps = np.repeat(present[None], 1 + single.size, axis=0)
        steps[0] = slope < 0
        steps[np.arange(1, 1 + single.size), single] ^= True
        if game.can_be_empty:
            steps = steps[steps.any(axis=1)]
        values = game.value(steps)
        if not values.min(initial=np.inf) < value:
            break
        best = int(np.argmin(values))
        present = steps[best]
        value = float(values[best])
    return present
