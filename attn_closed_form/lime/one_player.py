"""LIME's limit for a game of one player: a regression through two values of f."""

from __future__ import annotations

import numpy as np

from ..game.budget import budget
from ..game.pooled_game import PooledGame
from .kernel import Settings


def single_player(game: PooledGame, settings: Settings, tol: float) -> tuple[float, float]:
    """Coefficient and intercept for d = 1: a regression through two values of f.

    In units of 1/n the document has weight 1, the other row some u = (n-1) pi(1), so coef = (f(all) - f(none)) u /
    (u + ridge (1 + u)); for n to infinity u is infinite. f(all) and f(none) are right to a few ulps of max|f| and of
    the heads' spread, which `budget` bounds.
    """
    budget(game, tol, 0.5)
    everyone, nobody = (float(x) for x in game.value([[True], [False]]))
    change = everyone - nobody
    ridge = settings.ridge
    if settings.num_samples is None:
        coef = change / (1 + ridge)
        return coef, nobody
    inverse = float(np.exp(min(5000.0 / settings.kernel_width / settings.kernel_width, 600.0))) / (
        settings.num_samples - 1
    )  # 1 / u
    coef = change / (1 + ridge * (1 + inverse))
    # The mean of f less coef times the mean of Z, both about f(none): weights inverse and 1.
    return coef, nobody + (change - coef) * (inverse / (1 + inverse))
