"""LIME without sampling: the coefficients that the lime package estimates, computed.

What the package (0.2.0.1, `lime_text`) does with n = num_samples: row 0 is the document itself; every other row draws a
number s in 1..d uniformly, removes a uniform subset of s features, and gets the weight

    pi(s) = exp(-D^2 / (2 kernel_width^2)),   D = 100 (1 - sqrt(1 - s/d))    (cosine distance times 100),

then a ridge regression with a free intercept and these raw weights. As rows enter only through weighted means, its
coefficients converge to those of the same regression with means replaced by expectations. With q_s = P(s removed) pi(s)
(q_0 = 1/n, q_s = (n-1)/(n d) pi(s)), rho = ridge/n, Z_j = 1 if j is present, and

    alpha_0 = sum q_s,   alpha_1 = sum q_s (d-s)/d,   alpha_2 = sum q_s (d-s)(d-s-1) / (d(d-1)),
    Gamma_j = E[pi Z_j f] - alpha_1 E[pi f] / alpha_0,

symmetry leaves a matrix a I + b 11^T to invert. On k features (k = d: all of them), G the mean of their Gamma_j,

    beta_j = (Gamma_j - G) / (alpha_1 - alpha_2 + rho) + G / (alpha_1 + (k-1) alpha_2 - k alpha_1^2/alpha_0 + rho).

P1's beta^infinity (section 5.2) is kernel_width = inf and n = inf; their Eq. 17 is its leading order in d.

The two moments E[pi f] and E[pi Z_j f] come by a rule in p (`size_rule.py`), at the cost of Shapley values, or where
that rule cannot be vouched for, by the recursion over sizes (`by_size.py`). Both keep `tol`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from ..game.budget import budget
from ..game.by_size import centred_moments
from ..game.engine import RowSums, integrate
from ..game.node_counts import shared_plan, total_log_bound
from ..game.pooled_game import PooledGame
from ..game.quadrature import ToleranceError
from .kernel_rule import NoRuleError, kernel, size_count, size_rule

Features = Sequence[int] | NDArray[np.intp]

# The package's ridge for choosing features, and how many it chooses one by one ("auto", lime_base.py).
SELECTION_RIDGE = 0.01
FORWARD_FEATURES = 6
# Relative rounding of the moments over sqrt(d), as measured.
MOMENT_ROUNDING = 1e-16


class LimeCoefficients(NamedTuple):
    """Surrogate model f ~ intercept + coef . Z of LIME; coef (d,), zero for features that are not in the model."""

    coef: Array
    intercept: float


class Moments(NamedTuple):
    """Moments of f less its bias and the heads' centres, Z_bar the mean of Z: what `Regression.solve` needs.

    Gamma_j = common + apart_j. The two are of different size, and each is computed without differences of the other.
    """

    mean: float  # E[pi f]
    common: float  # E[pi (Z_bar - alpha_1/alpha_0) f]
    apart: Array  # (d,) E[pi (Z_j - Z_bar) f], which add up to zero


class Regression(NamedTuple):
    """Everything of the limit that does not depend on f, for k features (module's head)."""

    q: Array  # (d+1,) weight of each size
    off: Array  # (d+1,) Z_bar - alpha_1 / alpha_0 for each size
    alpha_0: float
    alpha_1: float
    within: float  # alpha_1 - alpha_2 + rho
    between: float  # alpha_1 + (k-1) alpha_2 - k alpha_1^2 / alpha_0 + rho
    k: int

    def solve(self, moments: Moments, chosen: NDArray[np.intp]) -> tuple[Array, float]:
        """Coefficients of the k chosen features and the intercept."""
        apart = moments.apart[chosen]
        middle = apart.mean() if self.k < moments.apart.size else 0.0
        mean_coef = (moments.common + middle) / self.between  # G / ..., in the module's head
        intercept = (moments.mean - self.alpha_1 * self.k * mean_coef) / self.alpha_0
        return (apart - middle) / self.within + mean_coef, float(intercept)

    def norm(self, q: Array) -> float:
        """Bound on E|psi| where a coefficient or the intercept is E[psi f]: what an error of f is multiplied by.

        `q` are the weights of sizes with which f is summed, at least those of the regression.
        """
        d = q.size - 1
        z, a = 1 - np.arange(d + 1) / d, self.alpha_1 / self.alpha_0
        off = np.abs(self.off) if self.k == d else z * (1 - a) + (1 - z) * a  # E|mean Z - a|, or a bound of it
        single = 2 * z * (1 - z) * d / max(d - 1, 1) / self.within + off / self.between
        intercept = (1 + self.alpha_1 * self.k * off / self.between) / self.alpha_0
        return float(max(q @ single, q @ intercept))

    @property
    def amplification(self) -> float:
        """Bound on what an error of E[pi f] and of every E[pi Z_j f] is multiplied by."""
        all_of_them = self.k == self.q.size - 1
        G = (1 + self.alpha_1 / self.alpha_0 + (0 if all_of_them else 2)) / self.between
        return max(2 / self.within + G, (1 + self.alpha_1 * self.k * G) / self.alpha_0)


def lime_limit(
    game: PooledGame,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    features: Features | None = None,
) -> LimeCoefficients:
    """What LIME's coefficients converge to, with the lime package's own defaults. |error| <= tol * max|f| guaranteed.

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
        if float64 cannot keep `tol` for this game

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> limit = lime_limit(game)
    >>> limit.coef.round(4), round(limit.intercept, 4)
    (array([-0.1939,  0.8045]), 0.6943)
    """
    chosen = as_features(features, game.d)
    if game.d == 1 and num_samples is None:
        return _single(game, ridge)
    regression = lime_regression(game.d, kernel_width, ridge, num_samples, chosen.size)
    moments = _moments(game, regression, kernel_width, num_samples, tol)
    coef = np.zeros(game.d)
    coef[chosen], intercept = regression.solve(moments, chosen)
    return LimeCoefficients(coef, intercept + game.base)


def lime_features(
    game: PooledGame,
    num_features: int = 10,
    kernel_width: float = 25.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
) -> NDArray[np.intp]:
    """Features that the package's `feature_selection="auto"` converges to, for `lime_limit(..., features=...)`.

    Up to six are added one by one, each time the one that raises the weighted R^2 of an unpenalised fit most; more are
    those with the largest coefficients of a fit with ridge 0.01.

    Returns
    -------
    (min(num_features, d),) indices, in the package's order

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0, 0.0], v=[1.0, 3.0, -8.0], s_background=0.0, v_background=0.0)
    >>> lime_features(game, 2)
    array([2, 1])
    """
    if num_features < 1:
        raise ValueError(f"num_features: expected at least 1, got {num_features}")
    count = min(int(num_features), game.d)
    if num_features > FORWARD_FEATURES:
        coef = lime_limit(game, kernel_width, SELECTION_RIDGE, num_samples, tol).coef
        return np.argsort(-np.abs(coef), kind="stable")[:count]
    steps = [lime_regression(game.d, kernel_width, 0.0, num_samples, k) for k in range(1, count + 1)]
    moments = _moments(game, steps[0], kernel_width, num_samples, tol)
    gamma = moments.common + moments.apart
    chosen: list[int] = []
    for step in steps:
        # What the fit explains: sum (Gamma_j - G)^2 / within + k G^2 / between, over the features in it.
        total = gamma[chosen].sum() + gamma
        squares = (gamma[chosen] ** 2).sum() + gamma**2
        explained = (squares - total**2 / step.k) / step.within + total**2 / (step.k * step.between)
        explained[chosen] = -np.inf
        chosen.append(int(np.argmax(explained)))
    return np.array(chosen)


def lime_regression(d: int, kernel_width: float, ridge: float, num_samples: int | None, k: int) -> Regression:
    """The f-free part of the limit, arguments checked."""
    if not kernel_width > 0:
        raise ValueError(f"kernel_width: expected a positive number or inf, got {kernel_width}")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"ridge: expected a number >= 0, got {ridge}")
    if num_samples is not None and num_samples < 2:
        raise ValueError(f"num_samples: expected at least 2 or None, got {num_samples}")
    pi = kernel(d, kernel_width)
    if num_samples is None:
        q, rho = pi / d, 0.0
        q[0] = 0.0
    else:
        q, rho = pi * ((num_samples - 1) / (num_samples * d)), ridge / num_samples
        q[0] = 1 / num_samples
    z = 1 - np.arange(d + 1) / d
    alpha_0, alpha_1 = float(q.sum()), float(q @ z)
    # alpha_1 - alpha_2 and alpha_2 - alpha_1^2/alpha_0 as sums of positive terms and a variance: nothing cancels.
    spread = float(q @ (z * (1 - z))) * d / (d - 1) if d > 1 else 0.0
    if alpha_0 > 0:
        off = z - alpha_1 / alpha_0
        off -= q @ off / alpha_0  # a narrow kernel leaves all on one size: there only the rounding is left without this
    else:
        off = np.zeros(d + 1)
    variance = float(q @ off**2)
    within = spread + rho
    between = (1 - k / d) * spread + k * variance + rho
    if d == 1:
        within = between
    if not (within > 0 and between > 0):
        raise ValueError(
            f"kernel_width: {kernel_width:g} gives every sample but the document a weight of zero, so the coefficients "
            "are not determined; expected a wider kernel, or num_samples and ridge > 0"
        )
    return Regression(q, off, alpha_0, alpha_1, within, between, k)


def _moments(
    game: PooledGame, regression: Regression, kernel_width: float, num_samples: int | None, tol: float
) -> Moments:
    """The moments, good enough for `tol`."""
    if game.d == 1:
        everyone, nobody = game.value([[True], [False]]) - game.base
        q, a = regression.q, regression.alpha_1 / regression.alpha_0
        common = q[0] * (1 - a) * everyone - q[1] * a * nobody
        return Moments(float(q @ [everyone, nobody]), float(common), np.zeros(1))
    try:
        return moments_by_rule(game, regression, kernel_width, num_samples, tol)
    except (NoRuleError, ToleranceError):
        return moments_by_recursion(game, regression, tol)


def moments_by_recursion(game: PooledGame, regression: Regression, tol: float) -> Moments:
    """The moments by `by_size.py`: O(L d^2), whatever the kernel."""
    q = regression.q
    goal = budget(game, tol, regression.norm(q) / 2)
    (mean, common), present = centred_moments(game, np.stack([q, q * regression.off]), goal)
    return Moments(float(mean), float(common), present - present.mean())


def moments_by_rule(
    game: PooledGame, regression: Regression, kernel_width: float, num_samples: int | None, tol: float
) -> Moments:
    """The moments by a rule in p: O(L m d), half of `tol` for the rule in p, half for that in lambda.

    The rule takes q_0 for what makes q smooth, (n-1)/(nd) like its neighbours; f of everyone is known and mends that.
    With p the probability of being present, E_p[Z_j f] = p (E_p[f] + (1 - p) Delta_j(p)).
    """
    d, a = game.d, regression.alpha_1 / regression.alpha_0
    share = 1.0 if num_samples is None else (num_samples - 1) / num_samples
    smooth = regression.q.copy()
    smooth[0] = max(share / d, smooth[0])
    goal = budget(game, tol, regression.norm(smooth) / 2)
    rounding = MOMENT_ROUNDING * np.sqrt(d) * goal.spread * float(smooth.sum()) * regression.amplification
    if rounding > tol * goal.scale / 4:
        raise NoRuleError
    p_error = tol * goal.scale / (2 * regression.amplification)

    def rule(sums: RowSums) -> tuple[Array, Array, Array]:
        m = size_count(d, kernel_width, total_log_bound(sums), goal.spread, p_error * sums.share)
        found = size_rule(d, kernel_width, m)
        assert found is not None
        p, w = found.p, found.weights
        return p, np.stack([w, w * (p - a)]), (w * p * (1 - p))[None]

    level, delta = integrate(game, goal, shared_plan(rule))
    if not level.size:  # no head varies
        level, delta = np.zeros(2), np.zeros((1, d))
    everyone = float(game.value(np.ones(d, dtype=bool))) - game.base
    return mend_moments(regression, share, level, delta, everyone, game.empty_excess)


def mend_moments(
    regression: Regression, share: float, level: Array, delta: Array, everyone: float, nobody: float
) -> Moments:
    """Moments from the rule's sums, with what is known of everyone and nobody put right.

    Parameters
    ----------
    share : (n-1)/n, the part of the rows that are drawn
    level : (2,) sums of E_p[f] with the weights w and w (p - alpha_1/alpha_0) of `size_rule`
    delta : (1, d) sum of Delta_j(p) with the weights w p (1 - p)
    everyone, nobody : f of all players less its base; f of none less what the engine takes it for, 0 if they agree
    """
    d, a = delta.shape[1], regression.alpha_1 / regression.alpha_0
    middle = delta[0].mean()
    # Here q is not what the rule takes it for, or f is not.
    everyone *= float(regression.q[0]) - share / d
    nobody *= float(regression.q[d])
    return Moments(
        mean=share * float(level[0]) + everyone + nobody,
        common=share * float(level[1] + middle) + (1 - a) * everyone - a * nobody,
        apart=share * (delta[0] - middle),
    )


def _single(game: PooledGame, ridge: float) -> LimeCoefficients:
    """One player, n to infinity."""
    everyone, nobody = game.value([[True], [False]]).tolist()
    return LimeCoefficients(np.array([(everyone - nobody) / (1 + ridge)]), nobody)


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
