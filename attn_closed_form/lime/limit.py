"""LIME without sampling: exact values of the coefficients that the lime package estimates.

For a model with one head and no positions, the variant of LIME is that of the lime package
(0.2.0.1, `lime_text`) with every default: the game of words, deleted, through "sigmoid"
(`game/links.py`), because the package explains probabilities and its `bow=True` deletes words. For
a model with positions it is the package's `bow=False` with [UNK] as `mask_string`: a removed word
is replaced, because deleting it would shift the words after it.

With n = num_samples, the package proceeds as follows: row 0 is the document itself; every other row
draws a number s in 1..d uniformly, removes a uniform subset of s features, and gets the weight
pi(s) of `kernel.py`; then a ridge regression with a free intercept and these raw weights. As rows
enter only through weighted means, its coefficients converge to those of the same regression with
means replaced by expectations, which `regression.py` solves in closed form.

P1's beta^infinity (section 5.2) is kernel_width = inf and n = inf; their Eq. 17 is its leading
order in d.

It remains to compute moments of f: sums over sizes s of q_s E[f | s absent] and of q_s E[f W_j | s
absent] (`moments.py`).

`lime_features` is the package's choice of features, `feature_selection="auto"` (`lime_base.py`), in
the same limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import positive, usual_float_errors, whole
from .._types import Array
from ..game.engine.budget import budget
from ..game.engine.engine_game import Game
from .cost import FEW_PLAYERS, check_cost, check_plan_cost, check_recursion_cost
from .kernel import Features, LimeSettings, as_features, check_settings
from .moments import moments_by_recursion, moments_by_rule, plan_rules
from .regression import Moments, Regression, regression, weights_of
from .rules import SHORT_GROUPS

# Up to this number of features the package chooses them one by one (`forward_selection`).
FORWARD_FEATURES = 6


class LimeCoefficients(NamedTuple):
    """Surrogate model f ~ intercept + coef . Z of LIME; coef (d,), zero for features that are not
    in the model.
    """

    coef: Array
    intercept: float


@usual_float_errors
def lime_limit(
    game: Game,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    features: Features | None = None,
) -> LimeCoefficients:
    """Compute the limit of LIME's coefficients, by default with the lime package's kernel, ridge
    and number of samples.

    |error| <= tol * max|f| is guaranteed for every coefficient and the intercept. Use it where
    you would run the lime package: the result is what its coefficients converge to.

    Parameters
    ----------
    game : a PooledGame, or one `through` a link such as "sigmoid", which the package explains by
        default. The package's `bow=True` is `pooled_game(..., players="words")` of a model without
        positions; its `bow=False` with [UNK] as mask is `players="positions"`
    kernel_width : width of the package's kernel, 25 by default; inf gives all samples the same
        weight
    ridge : the package's `Ridge(alpha=1)`
    num_samples : n, which sets the share of the row of the document (1/n) and of the ridge
        (ridge/n). None takes n to infinity, where both vanish and `ridge` has no influence (but for
        d = 1: there is no other row with the player present, so both stay, and the coefficient is
        (f(all) - f(none)) / (1 + ridge))
    tol : relative accuracy; a looser one is faster
    features : players in the surrogate model; the others are omitted (the package's refit on
        `num_features`). `lime_features` chooses them as the package does

    Returns
    -------
    LimeCoefficients(coef (d,), intercept)
        the coefficients, one per player, to which the lime package converges, and its intercept

    Raises
    ------
    ToleranceError
        if `tol` cannot be guaranteed in float64 for this game; it names the smallest tol that works
    CostError
        if it would take more than a minute (`lime_cost`), which is possible from a few hundred
        deleted players on

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> limit = lime_limit(game)
    >>> limit.coef.round(4), round(limit.intercept, 4)
    (array([-0.1939,  0.8045]), 0.6943)
    """
    settings = check_settings(kernel_width, ridge, num_samples)
    tol = positive("tol", tol)
    chosen = as_features(features, game.d)
    coef = np.zeros(game.d)
    if game.d == 1:
        # A regression through two values of f. In units of the other row's weight the document has
        # the weight q_0 and rho = ridge q_0; for n to infinity q_0 is 0. f(all) and f(none) are
        # correct to a few ulps of max|f| and of the heads' spread, and the regression adds a few
        # more; `budget` bounds both, for a difference of two values.
        weights = weights_of(1, settings)
        engine = game.engine_game(2 * tol)
        budget(engine, tol, constants=4 * engine.scale)
        present, absent = game.value([[True], [False]]).tolist()
        change = present - absent
        coef[0] = change / (1 + settings.ridge + weights.penalty)
        # The mean of f minus coef times the mean of Z, both relative to f(none).
        share = weights.document / (1 + weights.document)
        intercept = absent + (change - float(coef[0])) * share
        return LimeCoefficients(coef, intercept)
    fit = regression(game.d, settings, chosen.size)
    moments = find_moments(game, fit, settings, tol)
    coef[chosen], intercept = fit.solve(moments, chosen)
    return LimeCoefficients(coef, intercept)


def find_moments(game: Game, fit: Regression, settings: LimeSettings, tol: float) -> Moments:
    """Compute the moments of f, accurate enough for `tol`: by rules in p if every term has one,
    otherwise by sizes.

    Raises a CostError, before anything expensive is computed, if that would take too long.
    """
    if game.d <= FEW_PLAYERS:
        plan = plan_rules(game, fit, settings, tol)
        if plan is not None:
            return moments_by_rule(plan, fit)
        return moments_by_recursion(game, fit, tol)
    # Short rules are enough where absent players are replaced. They are found before anything is
    # added up.
    plan = plan_rules(game, fit, settings, tol, groups=SHORT_GROUPS)
    if plan is None and check_cost(game, fit, settings, tol) == "rule":
        plan = plan_rules(game, fit, settings, tol)
    if plan is not None:
        check_plan_cost(plan)
        return moments_by_rule(plan, fit)
    check_recursion_cost(game, fit, tol)
    return moments_by_recursion(game, fit, tol)


@usual_float_errors
def lime_features(
    game: Game,
    num_features: int = 10,
    kernel_width: float = 25.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
) -> NDArray[np.intp]:
    """Return the features that the package's `feature_selection="auto"` converges to, for
    `lime_limit`.

    Up to six features are added one by one: each time, the feature that raises the weighted R^2 of
    an unpenalized fit most. If more are asked for, they are those with the largest coefficients of
    a fit with ridge 0.01. Ties go to the player that comes first. The result has
    min(num_features, d) indices, in the order in which the package returns them.

    Parameters
    ----------
    game, kernel_width, num_samples, tol : as in `lime_limit`
    num_features : maximum number of features

    Returns
    -------
    (min(num_features, d),) indices of players
        the players that the package selects as its `num_features` features, strongest first

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0, 0.0], v=[1.0, 3.0, -8.0], s_background=0.0, v_background=0.0
    ... )
    >>> lime_features(game, 2)
    array([2, 1])
    """
    num_features = whole("num_features", num_features)
    settings = check_settings(kernel_width, 0.0, num_samples)
    tol = positive("tol", tol)
    count = min(num_features, game.d)
    if game.d == 1:
        return np.zeros(1, dtype=np.intp)
    if num_features > FORWARD_FEATURES:
        # The package's ridge for choosing features (`lime_base.py`, `feature_selection`).
        selection_ridge = 0.01
        coef = lime_limit(
            game, kernel_width, ridge=selection_ridge, num_samples=num_samples, tol=tol
        ).coef
        return np.argsort(-np.abs(coef), kind="stable")[:count]
    steps = [regression(game.d, settings, k) for k in range(1, count + 1)]
    moments = find_moments(game, steps[0], settings, tol)
    gamma = moments.shared + moments.individual
    chosen: list[int] = []
    for step in steps:
        # The explained variation, with G the mean of Gamma over the k features in the fit:
        # sum (Gamma_j - G)^2 / individual_denominator + k G^2 / shared_denominator.
        before = gamma[chosen]
        total = before.sum() + gamma
        squares = (before**2).sum() + gamma**2
        off_mean = squares - total**2 / step.k
        explained = off_mean / step.individual_denominator
        explained += total**2 / (step.k * step.shared_denominator)
        explained[chosen] = -np.inf
        chosen.append(int(np.argmax(explained)))
    return np.array(chosen)
