"""Several tokens as one: how words are made of positions, and a background of several tokens.

In a softmax-pooled mean, tokens that are always present or absent together act as a single token whose mass is the sum
of theirs and whose value is their mass-weighted mean. Masses stay in the log domain, so neither can overflow.
"""

from __future__ import annotations

import numpy as np

from .._types import Array, Ids

# Largest logarithm of a mass over its unit: beyond, e^(-lam mass) is 0 at every node lam.
LOG_MASS_MAX = 650.0
# A difference of scores below this loses at most as many ulps of a mass, which the budget has.
NEAR = 16.0


def merge_tokens(s: Array, v: Array) -> tuple[Array, Array]:
    """Tokens as one: log-sum-exp of the log-masses and mass-weighted mean of the values, over the last axis.

    No mass at all (-inf) stays -inf, with value 0.

    >>> s, v = merge_tokens(np.array([0.0, 0.0]), np.array([1.0, 3.0]))
    >>> float(np.exp(s)), float(v)
    (2.0, 2.0)
    """
    if s.shape[-1] == 0:
        return np.full(s.shape[:-1], -np.inf), np.zeros(s.shape[:-1])
    top = np.maximum.reduce(s, axis=-1)
    shift = np.where(np.isneginf(top), 0.0, top)
    mass = np.exp(s - shift[..., None])
    total = np.add.reduce(mass, axis=-1)
    nothing = total == 0
    with np.errstate(divide="ignore"):
        log_mass = np.log(total) + shift
    mass *= v
    mean = np.add.reduce(mass, axis=-1) / np.where(nothing, 1.0, total)
    # Rounding must not push the mean outside the values, or a constant model would seem to vary.
    mean = np.minimum(np.maximum(mean, np.minimum.reduce(v, axis=-1)), np.maximum.reduce(v, axis=-1))
    return log_mass, np.where(nothing, 0.0, mean)


def merge_runs(s: Array, v: Array, starts: Ids) -> tuple[Array, Array]:
    """`merge_tokens` of each run of the last axis, a run from each of `starts` to the next: (..., n) -> (..., runs)."""
    top = np.maximum.reduceat(s, starts, axis=-1)
    shift = np.where(np.isneginf(top), 0.0, top)
    run = np.repeat(np.arange(starts.size), np.diff(starts, append=s.shape[-1]))
    mass = np.exp(s - shift[..., run])
    total = np.add.reduceat(mass, starts, axis=-1)
    with np.errstate(divide="ignore"):
        log_mass = np.log(total) + shift
    mean = np.add.reduceat(mass * v, starts, axis=-1) / np.where(total == 0, 1.0, total)
    # Rounding must not push the mean outside the values, or a constant model would seem to vary.
    least, most = np.minimum.reduceat(v, starts, axis=-1), np.maximum.reduceat(v, starts, axis=-1)
    return log_mass, np.where(total == 0, 0.0, np.clip(mean, least, most))


def times_power(x: Array, exponent: int) -> Array:
    """X 2^exponent, exact but for overflow and underflow; a plain product where the power itself fits into float64."""
    return x * 2.0**exponent if -1000 < exponent < 1000 else np.ldexp(x, exponent)


def exp_difference(s: Array, unit: Array) -> Array:
    """e^(s - unit), right to a few ulps however large both are: the difference is taken in two floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = s - unit
        size = np.abs(high)
        if np.maximum.reduce(size, axis=None) < NEAR or not ((size >= NEAR) & (high > -np.inf)).any():
            return np.exp(high)
        back = high - s
        low = (s - (high - back)) - (unit + back)
    low = np.where(size < 2 * LOG_MASS_MAX, low, 0.0)  # beyond, e^high is 0 or capped
    return np.exp(np.minimum(high, LOG_MASS_MAX)) * (1 + low)
