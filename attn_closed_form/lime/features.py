"""Which features LIME's surrogate model has: the lime package's choice, in the limit of many samples.

`feature_selection="auto"` of the package (0.2.0.1, `lime_base.py`) chooses up to six features by forward selection,
with an unpenalised fit, and more than six as those with the largest coefficients of a fit with ridge 0.01 on all
features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..game.pooled_game import PooledGame
from .kernel import check_settings, check_tol
from .moments import find_moments
from .regression import regression

Features = Sequence[int] | NDArray[np.intp]

# The package's ridge for choosing features, and the most that it chooses one by one.
SELECTION_RIDGE = 0.01
FORWARD_FEATURES = 6


def lime_features(
    game: PooledGame,
    num_features: int = 10,
    kernel_width: float = 25.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
) -> NDArray[np.intp]:
    """Features that the package's `feature_selection="auto"` converges to, for `lime_limit(..., features=...)`.

    Up to six are added one by one, each time the one that raises the weighted R^2 of an unpenalised fit most; more are
    those with the largest coefficients of a fit with ridge 0.01. Ties go to the player that comes first.

    Returns
    -------
    (min(num_features, d),) indices, in the package's order

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0, 0.0], v=[1.0, 3.0, -8.0], s_background=0.0, v_background=0.0)
    >>> lime_features(game, 2)
    array([2, 1])
    """
    if not isinstance(num_features, (int, np.integer)) or isinstance(num_features, bool) or num_features < 1:
        raise ValueError(f"num_features: expected an integer of at least 1, got {num_features!r}")
    settings = check_settings(kernel_width, 0.0, num_samples)
    tol = check_tol(tol)
    count = min(int(num_features), game.d)
    if game.d == 1:
        return np.zeros(1, dtype=np.intp)
    if num_features > FORWARD_FEATURES:
        settings = settings._replace(ridge=SELECTION_RIDGE)
        everything = regression(game.d, settings, game.d)
        moments = find_moments(game, everything, settings, tol)
        coef, _ = everything.solve(moments, np.arange(game.d))
        return np.argsort(-np.abs(coef), kind="stable")[:count]
    steps = [regression(game.d, settings, k) for k in range(1, count + 1)]
    moments = find_moments(game, steps[0], settings, tol)
    gamma = moments.shared + moments.individual
    chosen: list[int] = []
    for step in steps:
        # What the fit explains, G the mean of Gamma over the k features in it:
        # sum (Gamma_j - G)^2 / individual_denominator + k G^2 / shared_denominator.
        total = gamma[chosen].sum() + gamma
        squares = (gamma[chosen] ** 2).sum() + gamma**2
        explained = (squares - total**2 / step.k) / step.individual_denominator
        explained += total**2 / (step.k * step.shared_denominator)
        explained[chosen] = -np.inf
        chosen.append(int(np.argmax(explained)))
    return np.array(chosen)


def as_features(features: Features | None, d: int) -> NDArray[np.intp]:
    """Checked indices of the players in the surrogate model, all of them by default."""
    if features is None:
        return np.arange(d)
    raw: NDArray[Any] = np.asarray(features)
    if raw.ndim != 1 or raw.size == 0 or raw.dtype.kind not in "iu":
        raise ValueError(f"features: expected a sequence of players' indices, at least one, got {features!r}")
    if raw.min() < 0 or raw.max() >= d or np.unique(raw).size != raw.size:
        raise ValueError(f"features: expected distinct indices in 0..{d - 1}, got {raw.tolist()}")
    return raw.astype(np.intp)
