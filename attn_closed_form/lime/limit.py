"""LIME without sampling: the coefficients that the lime package estimates, computed.

Which LIME? That of the lime package (0.2.0.1, `lime_text`) with `bow=False` and [UNK] as `mask_string`: a removed word
is replaced in its place. The package's own default, `bow=True`, deletes words and moves the rest up; for a model that
knows positions that is another explanation (17 to 30 % away on the shipped model, however many samples are drawn) and
no pooled game.

What the package does with n = num_samples: row 0 is the document itself; every other row draws a number s in 1..d
uniformly, removes a uniform subset of s features, and gets the weight pi(s) of `kernel.py`; then a ridge regression
with a free intercept and these raw weights. As rows enter only through weighted means, its coefficients converge to
those of the same regression with means replaced by expectations, which `regression.py` solves in closed form.

P1's beta^infinity (section 5.2) is kernel_width = inf and n = inf; their Eq. 17 is its leading order in d.

What is left are moments of f: sums over sizes s of q_s E[f | s absent] and of q_s E[f W_j | s absent]. `moments.py`
takes the cheapest of three ways to them that keeps `tol`: a rule in p for the kernel (`kernel_rule.py`), one for each
lambda where thousands of players are deleted (`tilted_rule.py`), or the recursion over sizes (`game/by_size.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array
from ..game.pooled_game import PooledGame
from .features import Features, as_features
from .kernel import check_settings, check_tol
from .moments import find_moments
from .one_player import single_player
from .regression import regression


class LimeCoefficients(NamedTuple):
    """Surrogate model f ~ intercept + coef . Z of LIME; coef (d,), zero for features that are not in the model."""

    coef: Array
    intercept: float


def lime_limit(
    game: PooledGame,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    features: Features | None = None,
) -> LimeCoefficients:
    """What LIME's coefficients converge to, by default with the lime package's kernel, ridge and number of samples.

    It is the limit of the package with `bow=False` and [UNK] in the place of removed words, not of its own default
    `bow=True`; see the module docstring. |error| <= tol * max|f| is guaranteed for every coefficient and the intercept.

    Parameters
    ----------
    game : PooledGame. The package's `bow=False` with [UNK] as mask is `pooled_game(..., players="positions")`. Its
        `bow=True` deletes every occurrence of a word: where positions play no part that is `players="words"` with
        `absent="unk"` for P1's model, whose padding fills the gap, and `absent="deleted"` for one without padding.
        Where they do, words behind move up, which is no pooled game: use `bow=False`, as the package itself advises
    kernel_width : the package's, 25 by default; inf weighs all samples alike
    ridge : the package's `Ridge(alpha=1)`
    num_samples : n, which sets the share of the document's own row (1/n) and of the ridge (ridge/n). None: n to
        infinity, where both vanish and `ridge` has no influence (but for d = 1: there is no other row with the player
        present, so both stay, and the coefficient is (f(all) - f(none)) / (1 + ridge))
    tol : relative accuracy; a looser one is faster
    features : players in the surrogate model, the others are left out of it (the package's refit on `num_features`).
        `lime_features` chooses them as the package does

    Returns
    -------
    LimeCoefficients(coef (d,), intercept)

    Raises
    ------
    ToleranceError
        if float64 cannot keep `tol` for this game; it names the smallest tol that works

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> limit = lime_limit(game)
    >>> limit.coef.round(4), round(limit.intercept, 4)
    (array([-0.1939,  0.8045]), 0.6943)
    """
    settings = check_settings(kernel_width, ridge, num_samples)
    tol = check_tol(tol)
    chosen = as_features(features, game.d)
    coef = np.zeros(game.d)
    if game.d == 1:
        coef[0], intercept = single_player(game, settings, tol)
        return LimeCoefficients(coef, intercept)
    found = regression(game.d, settings, chosen.size)
    coef[chosen], intercept = found.solve(find_moments(game, found, settings, tol), chosen)
    return LimeCoefficients(coef, intercept)
