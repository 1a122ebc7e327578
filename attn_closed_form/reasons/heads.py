"""Several heads: their minima add up to a bound, and a finer proof that every coalition is above a
goal.

The sum of the heads' minima (`game/extrema.py`) is below every value of the game, but a single
coalition need not attain it. `docs/theory/deletion-floor.md` derives the three steps of
`proved_above`; the code uses its letters rho, U and mu.

**Rounding.** The proofs are signs of floating-point sums, which are accepted only beyond the margin
of their terms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._types import Array, Masks
from ..game.engine.rounding import (
    DUAL_SUM,
    EXTREMUM_SUM,
    HEADS_SUM,
    JOINT_GOAL,
    JOINT_RATIOS,
    ULP,
    VALUE_BIAS,
)
from ..game.extrema import States, head_minima, largest_of_rows, relative_error
from ..game.links import LinkedGame
from ..game.pooled_game import PooledGame

# Tuning: multipliers of the dual, relative to one over the spread of the values. Every nonnegative
# multiplier gives a valid bound, and zero is the bound without any condition; twelve of them are
# within a factor 2.6 of every one between.
MU = np.concatenate([[0.0], np.geomspace(3e-2, 1e3, 11)])


def check_pooled(game: object) -> None:
    """Raise a TypeError unless the game is a `PooledGame`; bounds of a linked game follow from the
    game inside.
    """
    if isinstance(game, PooledGame):
        return
    hint = ""
    if isinstance(game, LinkedGame):
        hint = "; pass its `game`, and apply the link to the result"
    raise TypeError(f"game: expected a PooledGame, got {type(game).__name__}{hint}")


def mirrored(game: PooledGame) -> PooledGame:
    """Return the game with the opposite sign."""
    signed = ("v", "v_absent", "v_background", "bias", "empty_value")
    return replace(game, **{name: -getattr(game, name) for name in signed})


def value_error(game: PooledGame) -> float:
    """Return the largest possible rounding error of `game.value`."""
    largest_present = np.abs(game.v).max(axis=1)
    largest_absent = np.abs(game.v_absent).max(axis=1)
    largest = np.maximum(largest_present, largest_absent)
    largest = np.maximum(largest, np.abs(game.v_background))
    of_heads = EXTREMUM_SUM * relative_error(game.d) * largest.sum()
    of_bias = VALUE_BIAS * ULP * abs(game.bias)
    return float(of_heads + of_bias)


def total(game: PooledGame, bound: Array) -> float:
    """Sum the heads' bounds (H,) and the bias, rounded down."""
    size = np.abs(bound).sum(axis=-1) + abs(game.bias)
    rounding = HEADS_SUM * (game.H + 2) * ULP * size
    return float(bound.sum(axis=-1) + game.bias - rounding)


def slopes(game: PooledGame, present: Masks, theta: Array | None = None) -> Array:
    """Return the (H, d) effects of the players' presence on the linear form (N_h - theta_h D_h) /
    D_h at a coalition.

    `present` is (d,), or (H, d) for one coalition per head; `theta` (H,) is the value of each head
    there unless given.
    """
    log_mass = np.where(present, game.s, game.s_absent)
    top = np.maximum(log_mass.max(axis=1), game.s_background)
    of_all = np.maximum(game.s.max(axis=1), game.s_background)
    top = np.where(top == -np.inf, of_all, top)
    unit = top[:, None]
    mass = np.exp(log_mass - unit)
    c_0 = np.exp(game.s_background - top)
    D = mass.sum(axis=1) + c_0
    D = np.where(D == 0, 1.0, D)
    if theta is None:
        values = np.where(present, game.v, game.v_absent)
        N = (mass * values).sum(axis=1) + c_0 * game.v_background
        theta = N / D
    # Slopes only order candidates, so masses beyond e^600 times the current one are cut off before
    # they overflow.
    largest_log_slope = 600.0
    a = np.exp(np.minimum(game.s - unit, largest_log_slope))
    b = np.exp(np.minimum(game.s_absent - unit, largest_log_slope))
    as_present = a * (game.v - theta[:, None])
    as_absent = b * (game.v_absent - theta[:, None])
    return (as_present - as_absent) / D[:, None]


def proved_above(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    goal: float,
    limit: int | None = None,
    bound: Array | None = None,
) -> bool:
    """Return whether every coalition that differs from `base` (d,) only in movable players is
    proved to be >= `goal`.

    Coalitions without any mass are excluded. False means "not proved", not "false". `bound` (H,)
    are the heads' minima if they are known.
    """
    if bound is None:
        bound = head_minima(game, base, movable, limit).bound
    size = np.abs(bound).sum() + abs(game.bias) + abs(goal)
    slack = JOINT_GOAL * (game.H + 4) * ULP * size
    missing = goal - game.bias - bound.sum() + slack
    if missing <= 0:
        return True
    states = States.of(game, base, movable).plain()
    if game.H == 1 or states is None:
        return False
    # The heads' minima, with the missing part shared equally: these thresholds add up to the goal.
    theta = bound + missing / game.H
    # Step 1: if some coalition is below the goal, its ratios r_h = (N_h - theta_h D_h) / D_h are in
    # known ranges.
    rho, highest, blur = ratio_ranges(bound, theta)
    # Step 2: the largest masses D_h under that condition, by the dual with the best of a few
    # multipliers.
    mass = np.stack([states.base, states.flip])
    values = np.stack([states.v_base, states.v_flip])
    x = values - theta[:, None]
    of_players = np.abs(x[0, :, :-1])
    spread = np.maximum(of_players.max(axis=1), 1e-300)
    mu = MU[:, None] / spread
    above_highest = x - highest[:, None]
    lagrangian = mass[:, None] * (mu[..., None] * above_highest[:, None] - 1)
    U = -_least_sum(lagrangian, limit).max(axis=0)
    if (U <= 0).any():
        return True
    # Step 3: a lower bound of the sum of the ratios that is linear in the coalition.
    terms = mass * (x - rho[:, None]) / U[:, None]
    moduli = np.abs(terms).sum(axis=1)
    least = _least_sum(terms.sum(axis=1), limit, moduli)
    return bool(least + rho.sum() >= blur)


def ratio_ranges(bound: Array, theta: Array) -> tuple[Array, Array, float]:
    """Return bounds (H,) below and above the ratios of a coalition below the goal, and the rounding
    error of their sum.

    A head's ratio is at least its minimum minus theta_h. The ratios of a coalition below the goal
    have a negative sum, so each one is at most minus the sum of the lower bounds of the others,
    which are negative here.
    """
    size = float(np.abs(theta).sum() + np.abs(bound).sum())
    blur = JOINT_RATIOS * ULP * size
    rho = bound - theta - blur
    highest = rho - rho.sum() + blur
    return rho, highest, blur


def _least_sum(terms: Array, limit: int | None, moduli: Array | None = None) -> Array:
    """Return the smallest sum over the choices of each player between two terms, (2, ..., d+1),
    minus rounding.

    Rounding is relative to the terms, or to `moduli` if a term is itself a sum with cancellation.
    """
    base, flip = terms
    gain = np.maximum(base - flip, 0.0)
    if limit is not None:
        gain = np.where(largest_of_rows(gain, limit), gain, 0.0)
    if moduli is None:
        moduli = np.abs(terms)
    rounding = DUAL_SUM * relative_error(base.shape[-1])
    error = rounding * moduli.sum(axis=(0, -1))
    # Every player takes its smaller term, as far as the limit allows.
    sum_of_smaller = base.sum(axis=-1) - gain.sum(axis=-1)
    least: Array = sum_of_smaller - error
    return least


def raised(
    game: PooledGame,
    base: Masks,
    movable: Masks,
    bound: Array,
    low: float,
    high: float,
    bisections: int,
) -> float:
    """Return the largest goal between the proved `low` and `high` that a few bisections prove with
    `proved_above`.
    """
    for _ in range(bisections):
        middle = (low + high) / 2
        if proved_above(game, base, movable, goal=middle, bound=bound):
            low = middle
        else:
            high = middle
    return low
