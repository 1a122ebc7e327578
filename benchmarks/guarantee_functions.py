"""The questions of the attack on the guarantee: the functions, their frequencies, and their
settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attn_closed_form import (
    PooledGame,
    banzhaf,
    expected_value_by_size,
    interactions,
    lime_limit,
    owen,
    semivalue,
    shapley,
)
from attn_closed_form._types import Array
from attn_closed_form.game import GameSum, beta_shapley, weighted_banzhaf
from attn_closed_form.game.links import LinkedGame

# How the games are shared out, in percent.
SHARES = {
    "shapley": 38,
    "banzhaf": 8,
    "interactions": 8,
    "by size": 8,
    "lime": 10,
    "lime, odd settings": 12,
    "beta shapley": 3,
    "weighted banzhaf": 3,
    "semivalue": 3,
    "owen": 4,
    "index": 3,
}
# LIME's kernel widths, ridges and numbers of samples, and whether some players are left out of the
# surrogate model.
LIME = (
    (25.0, 10.0, 5.0, 3.0, 2.0, 1.5, 1.0, float("inf")),
    (1.0, 0.0, 0.01, 1e-12, 1e-250, 1e9),
    (5000, 100, 2, 10**300, None),
    (False, False, True),
)
DEFAULTS = (25.0, 1.0, 5000, ())
BETAS = ((16, 1), (1, 4), (2, 3), (1, 8), (40, 40), (200, 200))
PROBABILITIES = (0.0, 1.0, 0.25, 1e-9, 1 - 2.0**-40)
INDICES = ("BII", "STII", "FSII", "FBII")


def random_settings(rng: np.random.Generator, what: str, d: int) -> tuple[Any, ...]:
    """The arguments of a function beside the game and tol."""
    if what == "lime":
        return DEFAULTS
    if what.startswith("lime"):
        *settings, left_out = (options[rng.integers(len(options))] for options in LIME)
        return *settings, tuple(range(0, d, 2)) if left_out and d > 1 else ()
    if what == "beta shapley":
        return tuple(BETAS[rng.integers(len(BETAS))])
    if what == "weighted banzhaf":
        return (PROBABILITIES[rng.integers(len(PROBABILITIES))],)
    if what == "semivalue":
        return tuple((rng.integers(-3, 4, d) * 2.0 ** rng.integers(-30, 30)).tolist())
    if what == "owen":
        return tuple(rng.integers(0, d, d).tolist())
    if what == "index":
        return (INDICES[rng.integers(len(INDICES))],)
    return ()


def answer(
    what: str, game: PooledGame | LinkedGame | GameSum, tol: float, settings: tuple[Any, ...]
) -> Array:
    """The numbers of one function that the guarantee speaks of."""
    if isinstance(game, GameSum):
        of_sums: dict[str, Callable[..., Array]] = {"shapley": shapley, "banzhaf": banzhaf}
        return of_sums[what.split(",")[0]](game, tol=tol)
    if what.startswith("lime"):
        width, ridge, n, features = settings
        found = lime_limit(
            game, kernel_width=width, ridge=ridge, num_samples=n, tol=tol, features=features or None
        )
        return np.append(found.coef, found.intercept)
    if what == "interactions":
        return interactions(game, tol=tol)[np.triu_indices(game.d, 1)]
    if what == "index":
        table = interactions(game, settings[0], tol=tol)
        return np.concatenate([np.diagonal(table), table[np.triu_indices(game.d, 1)]])
    if what == "semivalue":
        return semivalue(game, settings, tol) / (sum(map(abs, settings)) or 1.0)
    if what == "owen":
        return owen(game, settings, tol)
    functions: dict[str, Callable[..., Array]] = {
        "shapley": shapley,
        "banzhaf": banzhaf,
        "by size": expected_value_by_size,
        "beta shapley": beta_shapley,
        "weighted banzhaf": weighted_banzhaf,
    }
    return functions[what](game, *settings, tol=tol)
