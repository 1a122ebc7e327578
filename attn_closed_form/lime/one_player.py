"""LIME's limit for a game of one player: a regression through two values of f."""

from __future__ import annotations

from ..game.budget import budget, largest_known_value
from ..game.pooled_game import PooledGame
from .kernel import Settings, log_kernel
from .regression import weights_of


def single_player(game: PooledGame, settings: Settings, tol: float) -> tuple[float, float]:
    """Coefficient and intercept for d = 1: a regression through two values of f.

    In units of the other row's weight the document has the weight q_0 and rho = ridge q_0, so coef = (f(all) -
    f(none)) / (1 + ridge + rho); for n to infinity q_0 is 0. f(all) and f(none) are right to a few ulps of max|f| and
    of the heads' spread, and the regression adds a few more; `budget` bounds both.
    """
    weights = weights_of(log_kernel(1, settings.kernel_width), settings)
    budget(game, tol, 0.5, doubt=weights.doubt, constants=4 * largest_known_value(game))
    everyone, nobody = (float(x) for x in game.value([[True], [False]]))
    change = everyone - nobody
    coef = change / (1 + settings.ridge + weights.penalty)
    # The mean of f less coef times the mean of Z, both about f(none).
    return coef, nobody + (change - coef) * (weights.document / (1 + weights.document))
