"""LIME as the lime package samples it, vectorized on a game, and the number of samples that it
needs.

The algorithm is that of `limit.py`, which specifies the variant of LIME, with draws instead of
expectations: one row per sample, weighted ridge regression with a free intercept (as scikit-learn's
`Ridge`: center by weighted means, penalize all but the intercept).

**Standard errors.** The estimate solves weighted normal equations, so for n samples its covariance
is, to leading order, the sandwich V/n of an M-estimator (White, 1980; z_bar the weighted mean of
Z_j and r = f - intercept - beta . Z):

    V = S^-1 E[pi^2 r^2 (Z - z_bar)(Z - z_bar)^T] S^-1,   S = E[pi (Z - z_bar)(Z - z_bar)^T].

S and beta are known (`regression.py`); the expectation in the middle is quadratic in f, which has
no cheap closed form, and is estimated with a seed. High accuracy is not needed: an error of 5% in V
is one of 2.5% in the standard error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import positive, usual_float_errors
from .._types import Array, Ids
from ..game.engine.engine_game import Game
from ..game.sampled import Playable
from .kernel import Features, as_features, check_settings, kernel
from .limit import LimeCoefficients, lime_limit
from .regression import Regression, regression

# Tuning: elements of a block of samples as float64, 16 MB.
SAMPLE_ELEMENTS = 1 << 21


class LimeSample(NamedTuple):
    """One run of LIME: f ~ intercept + coef . Z, coef (d,), and the weighted R^2 that the package
    calls score.

    `standard_error` (d,) is estimated from the run itself, by the sandwich formula; None if
    not requested.
    """

    coef: Array
    intercept: float
    score: float
    standard_error: Array | None = None


@usual_float_errors
def lime_sample(
    game: Playable,
    num_samples: int = 5000,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    seed: int | np.random.Generator | None = None,
    features: Features | None = None,
    errors: bool = False,
) -> LimeSample:
    """Run the lime package's algorithm once on a game; it converges to `lime_limit`.

    Parameters
    ----------
    game : PooledGame, or anything else with `d` and `value(masks)`
    num_samples : number of rows, including the document itself
    kernel_width, ridge, features : as in `lime_limit`
    seed : anything that `numpy.random.default_rng` accepts
    errors : whether to also estimate the standard errors of the coefficients

    Returns
    -------
    LimeSample(coef (d,), intercept, score); the score of a constant f is 1 if it is fitted exactly,
    otherwise 0

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> lime_sample(game, num_samples=2000, seed=0).coef.round(3)  # one run of the package
    array([-0.294,  0.702])
    >>> lime_limit(game, num_samples=2000).coef.round(3)  # what such runs scatter around
    array([-0.297,  0.699])
    """
    chosen = as_features(features, game.d)
    settings = check_settings(kernel_width, ridge, num_samples)
    if settings.num_samples is None:
        raise ValueError("num_samples: expected an integer of at least 2, got None")
    rng = np.random.default_rng(seed)
    masks, sizes = draw_samples(rng, num_samples, game.d)
    weights = kernel(game.d, kernel_width)[sizes]
    f = game.value(masks)
    X = masks[:, chosen]
    total = weights.sum()
    f_bar = float(weights @ f / total)
    x_bar = weights @ X / total
    f_centered = f - f_bar
    gram = np.diag(np.full(chosen.size, float(ridge)))
    moment = np.zeros(chosen.size)
    for rows in _blocks(X):
        X_centered = X[rows] - x_bar
        weighted = X_centered * weights[rows, None]
        gram += weighted.T @ X_centered
        moment += weighted.T @ f_centered[rows]
    if ridge > 0:
        beta = np.linalg.solve(gram, moment)
    else:
        beta = np.linalg.lstsq(gram, moment, rcond=None)[0]
    coef = np.zeros(game.d)
    coef[chosen] = beta
    intercept = f_bar - float(x_bar @ beta)
    residual = f - intercept - X @ beta
    unexplained = float(weights @ residual**2)
    variation = float(weights @ f_centered**2)
    if variation:
        score = 1 - unexplained / variation
    else:
        # scikit-learn's convention for a constant f.
        score = float(unexplained == 0)
    error = None
    if errors:
        error = standard_errors(
            X, x_bar, pull=weights * residual, gram=gram, chosen=chosen, d=game.d
        )
    return LimeSample(coef=coef, intercept=intercept, score=score, standard_error=error)


def standard_errors(
    X: NDArray[np.bool_], x_bar: Array, pull: Array, gram: Array, chosen: Ids, d: int
) -> Array:
    """Compute standard errors of the coefficients by the sandwich, with n / (n - d - 1) for the
    fitted parameters.
    """
    middle = np.zeros_like(gram)
    for rows in _blocks(X):
        scores = (X[rows] - x_bar) * pull[rows, None]
        middle += scores.T @ scores
    inverse = np.linalg.pinv(gram, hermitian=True)
    sandwich = np.diag(inverse @ middle @ inverse)
    n = len(X)
    degrees_of_freedom = max(1, n - chosen.size - 1)
    variance = sandwich * n / degrees_of_freedom
    error = np.zeros(d)
    error[chosen] = np.sqrt(np.maximum(variance, 0.0))
    return error


@usual_float_errors
def lime_samples_needed(
    game: Game,
    accuracy: float,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    seed: int | np.random.Generator | None = 0,
) -> int:
    """Return the number of samples that LIME needs for a mean error of `accuracy` on this document.

    The error of a run is its largest deviation from the limit over the largest coefficient, max_j
    |b_j - beta_j| / max_j |beta_j|, and its mean over runs is required to be `accuracy`. To leading
    order it falls like 1/sqrt(n), with a constant from the sandwich formula of ridge regression.
    Its inner expectation is estimated from max(4,000, 20 d) seeded coalitions, and the mean of the
    largest of d Gaussians from 2,000 draws. The result is correct to about 10%; with fewer than
    about 10 d samples, LIME is worse than its leading order. The result is at least 2.

    Parameters
    ----------
    accuracy : relative error, such as 0.01
    kernel_width, ridge : as in `lime_limit`
    seed : seed of the estimate

    Returns
    -------
    int, at least 2
        number of samples with which the package's errors fall below this accuracy

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 1.0, 0.5], v=[1.0, 3.0, 2.0], s_background=0.0, v_background=0.0
    ... )
    >>> lime_samples_needed(game, 0.1), lime_samples_needed(game, 0.01)
    (24, 2343)
    """
    accuracy = positive("accuracy", accuracy)
    if game.d == 1:
        return 2  # two samples contain both values of a single player
    rng = np.random.default_rng(seed)
    limit = lime_limit(game, kernel_width, ridge, num_samples=None)
    largest = float(np.abs(limit.coef).max())
    if largest == 0:
        return 2
    fit = regression(game.d, check_settings(kernel_width, ridge, None), game.d)
    V = _sandwich(game, fit, limit, rng)
    values, vectors = np.linalg.eigh(V)
    deviations = np.sqrt(np.maximum(values, 0.0))
    root = deviations[:, None] * vectors.T  # V = root^T root
    # Tuning: draws of the largest of d Gaussians, whose mean is then correct to about 1 %.
    gaussian_draws = 2000
    draws = rng.normal(size=(gaussian_draws, game.d)) @ root
    largest_error = np.abs(draws).max(axis=1)
    samples = (largest_error.mean() / (accuracy * largest)) ** 2
    return max(2, int(np.ceil(samples)))


def _sandwich(
    game: Game, fit: Regression, limit: LimeCoefficients, rng: np.random.Generator
) -> Array:
    """Estimate V of the module docstring, (d, d), from a pilot sample."""
    d = game.d
    # Tuning: least number of samples for the middle of the sandwich, which gives V to about 5%.
    least_samples = 4000
    # Tuning: the same per player, so that the (d, d) matrix has full rank with a margin.
    samples_per_player = 20
    masks, sizes = draw_samples(rng, max(least_samples, samples_per_player * d), d)
    # No row for the document: its share vanishes.
    masks = masks[1:]
    sizes = sizes[1:]
    residual = game.value(masks) - limit.intercept - masks @ limit.coef
    pull = d * fit.drawn[sizes] * residual
    z_bar = 1 - fit.absent_share
    total = np.zeros((d, d))
    for rows in _blocks(masks):
        scores = (masks[rows] - z_bar) * pull[rows, None]
        # S has one eigenvalue for the common part of all players, and one for the rest.
        common = scores.mean(axis=1, keepdims=True)
        individual = (scores - common) / fit.individual_denominator
        influence = individual + common / fit.shared_denominator
        total += influence.T @ influence
    V: Array = total / len(masks)
    return V


def draw_samples(
    rng: np.random.Generator, n: int, d: int
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Draw masks (n, d) of the present players, all in row 0, and the numbers of absent players
    (n,).
    """
    # The first sample is the document itself, as in the package.
    drawn = rng.integers(1, d + 1, n - 1)
    sizes = np.concatenate([[0], drawn])
    masks = np.ones((n, d), dtype=bool)
    rows = max(1, SAMPLE_ELEMENTS // d)
    for start in range(1, n, rows):
        part = slice(start, min(n, start + rows))
        # The s smallest of d random numbers are a uniform subset of size s.
        u = rng.random((part.stop - start, d))
        last_absent = sizes[part, None] - 1
        largest_absent = np.take_along_axis(np.sort(u, axis=1), last_absent, axis=1)
        masks[part] = u > largest_absent
    return masks, sizes


def _blocks(masks: NDArray[np.bool_]) -> list[slice]:
    rows = max(1, SAMPLE_ELEMENTS // masks.shape[1])
    return [slice(start, start + rows) for start in range(0, len(masks), rows)]
