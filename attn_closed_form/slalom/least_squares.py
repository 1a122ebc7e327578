"""Least squares for a SLALOM: given counts of tokens and outputs, find s and v.

Minimised is the mean squared error of P2's Algorithms 1 and 2,

    MSE(s, v) = mean_i |f_i - F_i|^2,   F_i = sum_j alpha_ij v_j,   alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k},

with n_ij the number of times that token j occurs in sample i, plus a penalty (chosen in `solvers.py`)

    (penalty / V) (sum_j |v_j - mean f|^2 + Var(f) sum_j (s_j - mean s)^2).

The paper's own loops are in `paper_solvers.py`; this is Levenberg-Marquardt with the analytic Jacobian
dF_i/dv_j = alpha_ij, dF_i/ds_j = alpha_ij (v_j - F_i), from a start that needs no iteration: P2's Eq. 75,
sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses a = e^s, is linear in (a v, a) *jointly*, so that a model which is a
SLALOM comes out at once, as a null vector. P2 alternates instead.

A start that is nearly exact is polished (`polish.py`). Otherwise (`descend`), as the best v for given s is a linear
problem, v is eliminated (variable projection) and a trust region in s alone follows the long valleys in which a mass
vanishes while mass times value stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._progress import Report
from .._types import Array, Ids
from .paper_solvers import alternate
from .samples import Samples, Solution, outputs, values_for, values_from

# Trust region: no step moves an importance by more, as e^2 is as far as a linear model of e^s can be believed.
MAX_STEP = 2.0
# Relative to mean f^2: an MSE that is rounding and nothing else.
ROUNDING = 1e-31
# An importance is undetermined if more than this share of its precision comes from the penalty.
UNDETERMINED = 0.5


class Problem(NamedTuple):
    """A least-squares problem.

    Attributes
    ----------
    samples : what occurs in each sample; with a background, its last token is that
    f, weight : (n, C) outputs and (n,) weights that sum to one
    background : whether the last token of the samples is the background
    penalty : see the module docstring
    fixed : (V,) importances that must not move, or None
    """

    samples: Samples
    f: Array
    weight: Array
    background: bool = False
    penalty: float = 0.0
    fixed: Array | None = None

    @property
    def V(self) -> int:
        """Number of tokens without the background."""
        return self.samples.V - self.background

    @property
    def centre(self) -> Array:
        """(C,) weighted means of the outputs."""
        mean: Array = self.weight @ self.f
        return mean

    @property
    def variance(self) -> float:
        """Weighted variance of the outputs, summed over classes."""
        return float(self.weight @ ((self.f - self.centre) ** 2).sum(axis=1))

    @property
    def floor(self) -> float:
        """An MSE below this is rounding."""
        return ROUNDING * float(self.weight @ (self.f * self.f).sum(axis=1))

    @property
    def ridge(self) -> float:
        """Weight of |v - centre|^2."""
        return self.penalty / self.V

    @property
    def stiffness(self) -> float:
        """Weight of the squared deviations of the importances from their mean."""
        return self.penalty * self.variance / self.V

    def cost(self, s: Array, v: Array, r: Array) -> tuple[float, float]:
        """MSE plus penalty, and the MSE alone, from the residuals r (n, C)."""
        mse = float(self.weight @ (r * r).sum(axis=1))
        if self.penalty == 0:
            return mse, mse
        own = s[: self.V]
        return mse + self.ridge * float(((v - self.centre) ** 2).sum()) + self.stiffness * self.V * float(
            own.var()
        ), mse

    def values(self, s: Array) -> Array:
        """Best values for given importances."""
        return values_for(self.samples, self.f, self.weight, s, self.ridge, self.centre)

    def refined(self, s: Array, v: Array) -> tuple[Array, Array]:
        """The same from old values, and the residuals: solving for the difference keeps all digits near the optimum."""
        root = np.sqrt(self.weight)[:, None]
        alpha = self.samples.alpha(s)
        rest = self.f - self.samples.rows(alpha, v)
        change = values_from(self.samples, alpha * root, rest * root, self.ridge, self.centre - v)
        return v + change, rest - self.samples.rows(alpha, change)

    def start(self) -> Array:
        """Equal or fixed importances; a background as heavy as all tokens together."""
        own = np.zeros(self.V) if self.fixed is None else self.fixed
        return np.r_[own, own.mean() + np.log(self.V)] if self.background else own

    def take(self, rows: Ids) -> Problem:
        """The same for some of the samples."""
        weight = self.weight[rows]
        return self._replace(samples=self.samples.take(rows), f=self.f[rows], weight=weight / weight.sum())


def unpenalised(
    problem: Problem, linear: Array, max_spread: float, max_iter: int, tol: float, report: Report
) -> Solution:
    """Best of several ends: the MSE alone may have several local minima.

    The starts are the linear one, equal importances and, without a background, the end of P2's alternation.
    """
    starts = [linear, problem.start()]
    if not problem.background:
        starts.append(alternate(problem.samples, problem.f, problem.weight, report).s)
    ends = [descend(problem, s, max_spread, max_iter, tol, report) for s in starts]
    return min(ends, key=lambda end: end.mse)


def descend(problem: Problem, s: Array, max_spread: float, max_iter: int, tol: float, report: Report) -> Solution:
    """Levenberg-Marquardt in s, with the best v for each s; stops when a step gains less than `tol` of the cost.

    The importances of the tokens stay within `max_spread` of each other; that of the background is free.
    """
    bound = max_spread / 2
    own = slice(0, problem.V)

    def within(s: Array) -> Array:
        if problem.fixed is not None:
            return s
        s = np.r_[np.clip(s[own], -bound, bound), s[problem.V :]]
        return s - (s[own].max() + s[own].min()) / 2  # the same room on both sides, or none

    s = within(s if problem.fixed is not None else s - (s[own].max() + s[own].min()) / 2)
    v = problem.values(s)
    r = problem.f - outputs(problem.samples, s, v)
    cost, mse = problem.cost(s, v, r)
    damping, floor = 1e-4, problem.floor
    for iteration in range(max_iter):
        report("fit", iteration, max_iter)
        if cost <= floor:
            return _solution(problem, s, v, mse, iteration, True)
        step = _reduced_step(problem, s, v, r, bound)
        tried = damping
        while True:
            ds = step(damping)
            if np.abs(ds).max() <= MAX_STEP:
                s_new = within(s + ds)
                v_new, r_new = problem.refined(s_new, v)
                cost_new, mse_new = problem.cost(s_new, v_new, r_new)
                if cost_new < cost:
                    break
            damping *= 4.0
            if damping > 1e10:
                return _solution(problem, s, v, mse, iteration, True)
        gain = (cost - cost_new) / cost
        s, v, r, cost, mse = s_new, v_new, r_new, cost_new, mse_new
        if gain < tol:
            return _solution(problem, s, v, mse, iteration + 1, True)
        if damping == tried:  # one that had to grow is near the right one: less of it would be tried in vain
            damping = max(damping / 16.0, 1e-15)
    return _solution(problem, s, v, mse, max_iter, False)


def _solution(problem: Problem, s: Array, v: Array, mse: float, iterations: int, converged: bool) -> Solution:
    return Solution(s, v, mse, iterations, converged, problem.background, problem.penalty)


def undetermined(problem: Problem, solution: Solution) -> NDArray[np.bool_]:
    """(V,) whether more of an importance's precision comes from the penalty than from the samples.

    The share is that of the ridge estimator: the diagonal of (H + P)^-1 P, with H the Hessian of the MSE, v being
    eliminated, and P that of the penalty.
    """
    if problem.penalty == 0 or problem.fixed is not None:
        return np.zeros(problem.V, dtype=bool)
    r = problem.f - outputs(problem.samples, solution.s, solution.v)
    S, _ = _schur(problem, solution.s, solution.v, r)
    S += np.trace(S) / len(S) ** 2  # the freedom to add a constant to s
    share = problem.stiffness * np.diag(np.linalg.pinv(S))[: problem.V]
    flags: NDArray[np.bool_] = share > UNDETERMINED
    return flags


def _schur(problem: Problem, s: Array, v: Array, r: Array) -> tuple[Array, Array]:
    """Schur complement (V, V) of J^T J for s, v being eliminated, and the gradient (V,), both with the penalty.

    The s-columns of J are freed of their nearly parallel v-columns (Gram-Schmidt, token by token), so that the normal
    equations keep their digits: dv is replaced by dv + centre ds.
    """
    samples, f, weight = problem.samples, problem.f, problem.weight
    V, C = v.shape
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    ones = np.ones(len(f))
    norm = np.sqrt(samples.columns(alpha * alpha, ones))
    norm = np.where(norm > 0, norm, 1.0)
    H_vv = samples.gram(alpha, alpha) / norm / norm[:, None]
    H_vv[np.diag_indices(V)] += 1e-14 + problem.ridge / norm**2
    H_vs, H_ss, g = [], np.zeros((V, V)), np.zeros(V)
    for c in range(C):
        F = f[:, c : c + 1] - r[:, c : c + 1]
        slope = alpha * (samples.at(v[:, c]) - F)
        centre = samples.columns(alpha * slope, ones) / norm**2
        slope -= alpha * samples.at(centre)
        H_vs.append(samples.gram(alpha, slope) / norm[:, None] - np.diag(problem.ridge * centre / norm))
        H_ss += samples.gram(slope, slope) + np.diag(problem.ridge * centre**2)
        g += samples.columns(slope, r[:, c] * root[:, 0]) - problem.ridge * centre * (problem.centre[c] - v[:, c])
    own = slice(0, problem.V)
    H_ss[own, own] += problem.stiffness * (np.eye(problem.V) - 1.0 / problem.V)
    g[own] -= problem.stiffness * (s[own] - s[own].mean())
    solved = np.linalg.solve(H_vv, np.concatenate(H_vs, axis=1))
    return H_ss - np.concatenate(H_vs).T @ np.concatenate(np.split(solved, C, axis=1)), g


def _reduced_step(problem: Problem, s: Array, v: Array, r: Array, bound: float) -> Callable[[float], Array]:
    """Gauss-Newton for s alone: a function from the damping to the step ds (V,).

    A damping costs one solution of V equations, far less than the matrix itself or its eigenvalues.
    """
    S, g = _schur(problem, s, v, r)
    # One scale for all: tokens that hardly matter must not use up the trust region.
    scale = max(float(np.diag(S).max()), 1e-300) ** 0.5
    S, g = S / scale**2, g / scale
    held = np.zeros(len(s), dtype=bool)
    if problem.fixed is not None:
        held[: problem.V] = True
    else:  # importances at a bound that would leave it stay there; this ends the freedom to add a constant to s
        held = ((s >= bound * (1 - 1e-12)) & (g > 0)) | ((s <= -bound * (1 - 1e-12)) & (g < 0))
        held[problem.V :] = False
    if held.any():
        S[held], S[:, held], g[held] = 0.0, 0.0, 0.0
    else:
        S += 1.0 / len(s)  # a constant added to s changes nothing: it gets a stiffness, and so no movement

    def step(damping: float) -> Array:
        damped = S.copy()
        damped.flat[:: len(S) + 1] += damping
        try:
            return np.linalg.solve(damped, g) / scale
        except np.linalg.LinAlgError:  # singular to the last digit: more damping
            return np.full(len(s), np.inf)

    return step
