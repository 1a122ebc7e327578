"""Deletion and insertion curves of an order of the players, next to the certified minimum and
maximum of every size.

An explanation ranks the players. Its **deletion curve** is the prediction as players leave, highest
score first; its **insertion curve** is the prediction as players arrive in an empty input, highest
score first. Both are usually judged by the area between curve and starting value (Samek et al.,
2017; Petsiuk et al., 2018), which has no absolute scale. `bounds_by_size` supplies one: no order
falls below the minimum of any size or rises above the maximum. An order therefore has a **share of
the best possible**, at most 1.

All curves come from running sums of masses in O(d log d), without calls of a model.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import usual_float_errors
from .._types import Array, Ids
from ..game.pooled_game import PooledGame
from .by_size import EVERY_SIZE, BoundsBySize, bounds_by_size
from .heads import slopes


class RemovalCurves(NamedTuple):
    """The deletion and insertion curves of an order of the players.

    Attributes
    ----------
    absent : (n,) numbers of absent players, ascending
    deletion : (n,) prediction without the players with the highest scores
    insertion : (n,) prediction without the players with the lowest scores
    bounds : minimum and maximum prediction over all coalitions of the same sizes
    whole, empty : prediction of the grand coalition and of the empty one
    players : number of players
    """

    absent: Ids
    deletion: Array
    insertion: Array
    bounds: BoundsBySize
    whole: float
    empty: float
    players: int

    @property
    def deletion_share(self) -> float:
        """Mean fall of the prediction under deletion, divided by the largest fall that is not
        excluded.

        With one head the divisor is attained, and this is the share of the best possible. With
        several heads it is a lower bound of that share. NaN if no coalition has a lower prediction
        on average.
        """
        sizes = self.absent > 0
        fall = self.whole - self.deletion[sizes]
        return _ratio(fall, self.whole - self.bounds.proved_min[sizes])

    @property
    def insertion_share(self) -> float:
        """Mean rise of the prediction under insertion, divided by the largest rise that is not
        excluded.
        """
        # With all players absent both changes are zero. Leaving that size out only changes both
        # means by one factor.
        sizes = self.absent < self.players
        rise = self.insertion[sizes] - self.empty
        return _ratio(rise, self.bounds.proved_max[sizes] - self.empty)


def _ratio(change: Array, best: Array) -> float:
    """Return the mean change as a share of the best one, or NaN if the latter is only rounding."""
    largest = float(best.mean()) if best.size else 0.0
    # Changes of the prediction below this have no share: they may be rounding, and nobody can see
    # them on any scale.
    least_change = 1e-9
    if largest > least_change:
        return float(change.mean()) / largest
    return float("nan")


@usual_float_errors
def removal_curves(
    game: PooledGame,
    scores: ArrayLike,
    absent: ArrayLike | None = None,
    scale: Callable[[Any], Array] = np.asarray,
    bounds: BoundsBySize | None = None,
) -> RemovalCurves:
    """Compute the deletion and insertion curves of an order of the players, with certified bounds
    of every size.

    Parameters
    ----------
    game : PooledGame of d players
    scores : (d,) scores that define the order; ties go to the first player
    absent : numbers of absent players, by default those of `bounds_by_size`
    scale : an increasing function of the prediction, such as the logistic function; by default the
        prediction itself
    bounds : result of `bounds_by_size(game, absent)`, if it is known

    Returns
    -------
    RemovalCurves, with the curves, the bounds and the shares of the best possible

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0, 0.0], v=[3.0, -1.0, 1.0], s_background=0.0, v_background=0.0
    ... )
    >>> curves = removal_curves(game, scores=[0.5, -0.5, 0.1])
    >>> curves.deletion.round(2), curves.bounds.attained_min.round(2)
    (array([ 0.75,  0.  , -0.5 ,  0.  ]), array([ 0.75,  0.  , -0.5 ,  0.  ]))
    >>> round(curves.deletion_share, 6)
    1.0
    """
    order = descending(scores, game.d)
    if bounds is None:
        limits = bounds_by_size(game, absent)
    else:
        limits = bounds
    sizes = limits.absent
    grand = np.ones(game.d, dtype=bool)
    return RemovalCurves(
        absent=sizes,
        deletion=scale(values_along(game, order, sizes)),
        insertion=scale(values_along(game, order[::-1], sizes)),
        bounds=limits.on_scale(scale),
        whole=float(scale(game.value(grand))),
        empty=float(scale(game.value(~grand))),
        players=game.d,
    )


def descending(scores: ArrayLike, d: int) -> Ids:
    """Return the (d,) players by descending score, after checking the scores."""
    x = np.asarray(scores, dtype=np.float64)
    if x.shape != (d,) or d == 0:
        raise ValueError(
            f"scores: expected shape ({d},), one per player and at least one, got {x.shape}"
        )
    if np.isnan(x).any():
        raise ValueError("scores: expected numbers, got NaN")
    return np.argsort(-x, kind="stable")


def values_along(game: PooledGame, order: Ids, absent: Ids | None = None) -> Array:
    """Return the (n,) values as players are removed in this order, for given numbers of absent
    players or 0..d.
    """
    if absent is None:
        sizes = np.arange(game.d + 1)
    else:
        sizes = absent
    if game.linear is None:
        rank = np.argsort(order)
        return np.array([float(game.value(rank >= k)) for k in sizes.tolist()])
    present, gone, background = game.linear
    # Present players are summed from the end, not by subtraction: so nothing cancels when the
    # largest has been removed.
    from_last = np.cumsum(present[order[::-1]], axis=0)
    from_first = np.cumsum(gone[order], axis=0)
    sums = np.zeros((game.d + 1, 2 * game.H))
    sums[:-1] += from_last[::-1]
    sums[1:] += from_first
    return game.pooled(sums[sizes] + background, sizes == game.d)


def flip_order(
    game: PooledGame,
    threshold: float = 0.0,
    scale: Callable[[Any], Array] = np.asarray,
    candidates: int = 32,
) -> Array:
    """Compute (d,) scores whose order lowers the prediction nearly as fast as possible: weight
    times (value - theta).

    With r_j = a_j (v_j - theta) - b_j (v'_j - theta), removing the players with the largest r_j
    takes the prediction below theta with as few players as possible (one head). With theta at the
    threshold, the first players of this order are thus a smallest set whose removal changes the
    prediction. The best theta depends on the size, so no single theta is best for all sizes. Of
    `candidates` values between the prediction and the lowest value of a player, the one with the
    largest mean fall on the `scale` orders the set that changes the call, and another one orders
    the players after it.

    If the call changes, the scores of that set are positive and all others are at most 0.

    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0, 0.0], v=[4.0, 1.0, -2.0], s_background=0.0, v_background=0.0
    ... )
    >>> flip_order(game).round(3)
    array([ 1.  ,  0.  , -0.75])
    """
    everybody = np.ones(game.d, dtype=bool)
    means = np.ldexp(game.grand_means, game.exponent) + game.center

    def scores(theta: float) -> Array:
        # The thresholds of the heads differ from the heads' values by equal parts and add up to
        # theta.
        above = means.sum() + game.bias - theta
        return slopes(game, everybody, means - above / game.H).sum(axis=0)

    start = scores(threshold)
    if game.d > EVERY_SIZE and game.linear is None:
        return start  # curves of so many players need plain masses
    order = descending(start, game.d)
    curve = values_along(game, order)
    crossing = int(np.argmax(curve < threshold))  # 0 if the order never crosses the threshold
    first = np.zeros(game.d, dtype=bool)
    first[order[:crossing]] = True
    parts = slice(0, crossing), slice(crossing, None)
    best = [(float(scale(curve[part]).sum()), start) for part in parts]
    lowest_of_curve = float(curve.min())
    lowest_of_players = float(game.v.min(axis=1).sum() + game.bias)
    lowest = min(lowest_of_curve, lowest_of_players)
    above = np.linspace(curve[0], lowest_of_curve, candidates // 2)
    below = np.linspace(lowest_of_curve, lowest, candidates // 2)
    for theta in np.concatenate([above, below]):
        each = scores(float(theta))
        ranked = np.lexsort((-each, ~first))
        curve = scale(values_along(game, ranked))
        areas = [(float(curve[part].sum()), each) for part in parts]
        best = [min(pair, key=itemgetter(0)) for pair in zip(best, areas, strict=True)]
    (_, inside), (_, outside) = best
    if not crossing:
        return outside
    # The scores of the set become positive, and those of the others at most 0.
    missing = start[first].min() - inside[first].min()
    too_large = outside[~first].max(initial=0.0)
    inside = inside + max(0.0, missing)
    outside = outside - max(0.0, too_large)
    return np.where(first, inside, outside)
