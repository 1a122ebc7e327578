"""Least squares for a SLALOM: given counts of tokens and outputs, find s and v.

Minimised is the mean squared error of P2's Algorithms 1 and 2,

    MSE(s, v) = mean_i |f_i - F_i|^2,   F_i = sum_j alpha_ij v_j,   alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k},

with n_ij the number of times that token j occurs in sample i. The paper's own solvers are in `slalom_paper.py`; this
is Levenberg-Marquardt with the analytic Jacobian dF_i/dv_j = alpha_ij, dF_i/ds_j = alpha_ij (v_j - F_i), from a start
that needs no iteration: P2's Eq. 75, sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses a = e^s, is linear in (a v, a)
*jointly*, so that a model which is a SLALOM comes out at once, as a null vector. P2 alternates instead.

A start that is nearly exact is polished (`_polish`), with s-columns freed of their nearly parallel v-columns
(Gram-Schmidt, token by token) so that the normal equations keep nine digits on 200 tokens with up to 5 deletions.
Otherwise (`_descend`), as the best v for given s is a linear problem, v is eliminated (variable projection) and a trust
region in s alone follows the long valleys in which a mass vanishes while mass times value stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._types import Array
from .paper_solvers import alternate
from .samples import Progress, Samples, Solution, outputs, values_for

# Share of the largest mass that a mass of the start gets if it is negative: the linear problem knows no sign.
START_FLOOR = 1e-4
# Trust region: no step moves an importance by more, as e^2 is as far as a linear model of e^s can be believed.
MAX_STEP = 2.0
# Largest minus smallest importance of a model that is no SLALOM. On the shipped classifier and a review of 71 tokens,
# the MSE of SLALOM-fidel is 0.03 % above its infimum with 10 (1.6 % with 6), where values reach 4e4 (1e3) and not 1e15.
MAX_SPREAD = 10.0
# MSE over variance of a model that is nearly a SLALOM: one in single precision, for instance.
NEARLY = 1e-6
# Relative to mean f^2: an MSE that is rounding and nothing else.
ROUNDING = 1e-31
# Tried in turn by the polish: the normal equations of a long document may be singular to the last digit.
POLISH_DAMPING = (1e-14, 1e-12, 1e-10, 1e-8)
# So many times that is an exact SLALOM: there is nothing better to look for.
EXACT = 1e6


def optimum(
    samples: Samples,
    f: Array,
    weight: Array,
    progress: Progress,
    max_iter: int = 200,
    tol: float = 1e-10,
    max_spread: float = MAX_SPREAD,
) -> Solution:
    """Minimum of the MSE; f (n, C), weight (n,) summing to 1.

    Stops when a step lowers the MSE by less than `tol` of itself, or when nothing but rounding is left. The MSE may
    have several local minima: of three starts (the linear one, equal importances, P2's alternation) the best end is
    kept; an exact SLALOM needs only the first.

    A model that is no SLALOM may have its optimum at infinity, where a mass vanishes and its value explodes. There the
    largest and the smallest importance stay within `max_spread`, which costs little (MAX_SPREAD) and keeps the scores
    readable. A model that is nearly a SLALOM (NEARLY) keeps the spread that it has.
    """
    floor = ROUNDING * float(weight @ (f * f).sum(axis=1))
    best = _polish(samples, f, weight, linear_start(samples, f, weight), floor)
    if best.mse <= EXACT * floor:
        return best
    variance = float(weight @ ((f - weight @ f) ** 2).sum(axis=1))
    spread = max(max_spread, np.ptp(best.s)) if best.mse <= NEARLY * variance else max_spread
    ends = [
        _descend(samples, f, weight, s, floor, spread / 2, max_iter, tol, progress)
        for s in (best.s, np.zeros(samples.V), alternate(samples, f, weight, progress).s)
    ]
    return min(ends, key=lambda end: end.mse)


def linear_start(samples: Samples, f: Array, weight: Array) -> Array:
    """Importances from Eq. 75 as one linear problem: the null vector of [n_ij, -f_i n_ij] over (a v, a).

    The smallest singular vector is found by inverse iteration on the normal equations, columns freed of each other
    token by token and scaled, as in the main solver.
    """
    V, C = samples.V, f.shape[1]
    n = samples.counts() * np.sqrt(weight)[:, None]
    size = samples.columns(n * n, np.ones(len(f)))
    size = np.where(size > 0, size, 1.0)
    nn = samples.gram(n, n)
    H = np.zeros((C + 1, V, C + 1, V))
    for c in range(C):
        centre = samples.columns(n * n, f[:, c]) / size
        y = -n * (f[:, c : c + 1] - samples.at(centre))
        H[c, :, c, :] = nn
        H[c, :, C, :] = samples.gram(n, y)
        H[C, :, c, :] = H[c, :, C, :].T
        H[C, :, C, :] += samples.gram(y, y)
    matrix = H.reshape((C + 1) * V, (C + 1) * V)
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 0, scale, 1.0)
    matrix = matrix / scale / scale[:, None]
    matrix[np.diag_indices_from(matrix)] += 1e-14
    x = np.r_[np.zeros(C * V), scale[C * V :]]
    for _ in range(3):
        x = np.linalg.solve(matrix, x)
        x /= np.linalg.norm(x)
    a = x[C * V :] / scale[C * V :]
    a = a * np.sign(a.sum())
    if a.max() <= 0:
        return np.zeros(V)
    s = np.log(np.where(a > 1e-12 * a.max(), a, START_FLOOR * a.max()))
    return s - s.mean()


def _polish(samples: Samples, f: Array, weight: Array, s: Array, floor: float, max_iter: int = 20) -> Solution:
    """Gauss-Newton in (s, v) jointly, hardly damped, for a start that is nearly exact: fast, with few digits lost."""
    v = values_for(samples, f, weight, s)
    r = f - outputs(samples, s, v)
    mse = float(weight @ (r * r).sum(axis=1))
    for iteration in range(max_iter):
        if mse <= floor:
            return Solution(s, v, mse, iteration, True)
        step = _joint_step(samples, f, weight, s, v, r)
        for damping in POLISH_DAMPING:
            ds, dv = step(damping)
            s_new, v_new = s + ds, v + dv
            r_new = f - outputs(samples, s_new, v_new)
            mse_new = float(weight @ (r_new * r_new).sum(axis=1))
            if mse_new < 0.5 * mse:
                break
        else:  # far from exact a step gains little or nothing, and at the end there is only rounding
            return Solution(s, v, mse, iteration, True)
        s, v, r, mse = s_new - s_new.mean(), v_new, r_new, mse_new
    return Solution(s, v, mse, max_iter, False)


def _joint_step(
    samples: Samples, f: Array, weight: Array, s: Array, v: Array, r: Array
) -> Callable[[float], tuple[Array, Array]]:
    """Gauss-Newton in (s, v): from the damping to (ds, dv), by normal equations in (dv + centre ds, ds), scaled."""
    V, C = v.shape
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    ones = np.ones(len(f))
    square = samples.columns(alpha * alpha, ones)
    square = np.where(square > 0, square, 1.0)
    aa = samples.gram(alpha, alpha)
    H = np.zeros((C + 1, V, C + 1, V))
    g = np.zeros((C + 1, V))
    centre = np.zeros((V, C))
    for c in range(C):
        slope = alpha * (samples.at(v[:, c]) - f[:, c : c + 1] + r[:, c : c + 1])
        centre[:, c] = samples.columns(alpha * slope, ones) / square
        slope -= alpha * samples.at(centre[:, c])
        H[c, :, c, :] = aa
        H[c, :, C, :] = samples.gram(alpha, slope)
        H[C, :, c, :] = H[c, :, C, :].T
        H[C, :, C, :] += samples.gram(slope, slope)
        g[c] = samples.columns(alpha, r[:, c] * root[:, 0])
        g[C] += samples.columns(slope, r[:, c] * root[:, 0])
    matrix = H.reshape((C + 1) * V, (C + 1) * V)
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 1e-150, scale, 1.0)
    matrix = matrix / scale / scale[:, None]
    free = np.r_[centre.T.ravel(), np.ones(V)] * scale  # a constant added to s, as in `_reduced_problem`
    matrix += np.outer(free, free) / (free @ free)

    def step(damping: float) -> tuple[Array, Array]:
        damped = matrix + damping * np.eye(len(matrix))
        x = (np.linalg.solve(damped, g.ravel() / scale) / scale).reshape(C + 1, V)
        return x[C], x[:C].T - centre * x[C][:, None]

    return step


def _descend(
    samples: Samples,
    f: Array,
    weight: Array,
    s: Array,
    floor: float,
    bound: float,
    max_iter: int,
    tol: float,
    progress: Progress,
) -> Solution:
    """Levenberg-Marquardt in s, |s| <= bound, with the best v for each s."""
    s = np.clip(s - (s.max() + s.min()) / 2, -bound, bound)
    v = values_for(samples, f, weight, s)
    r = f - outputs(samples, s, v)
    mse = float(weight @ (r * r).sum(axis=1))
    damping = 1e-4
    for iteration in range(max_iter):
        progress("fit", iteration, max_iter)
        if mse <= floor:
            return Solution(s, v, mse, iteration, True)
        step = _reduced_problem(samples, f, weight, s, v, r, bound)
        while True:
            ds = step(damping)
            if np.abs(ds).max() <= MAX_STEP:
                s_new = np.clip(s + ds, -bound, bound)
                s_new -= (s_new.max() + s_new.min()) / 2  # the same room on both sides, or none
                # Refining the old values, rather than solving anew, keeps all digits near the optimum.
                v_new = v + values_for(samples, f - outputs(samples, s_new, v), weight, s_new)
                r_new = f - outputs(samples, s_new, v_new)
                mse_new = float(weight @ (r_new * r_new).sum(axis=1))
                if mse_new < mse:
                    break
            damping *= 4.0
            if damping > 1e10:
                return Solution(s, v, mse, iteration, True)
        gain = (mse - mse_new) / mse
        s, v, r, mse = s_new, v_new, r_new, mse_new
        if gain < tol:
            return Solution(s, v, mse, iteration + 1, True)
        damping = max(damping / 16.0, 1e-15)
    return Solution(s, v, mse, max_iter, False)


def _reduced_problem(
    samples: Samples, f: Array, weight: Array, s: Array, v: Array, r: Array, bound: float
) -> Callable[[float], Array]:
    """Gauss-Newton for s alone, v being eliminated: a function from the damping to the step ds (V,).

    The matrix is the Schur complement of J^T J, which is diagonalised once, so that a damping is tried in O(V^2).
    """
    V, C = v.shape
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    ones = np.ones(len(f))
    norm = np.sqrt(samples.columns(alpha * alpha, ones))
    norm = np.where(norm > 0, norm, 1.0)
    H_vv = samples.gram(alpha, alpha) / norm / norm[:, None]
    H_vv[np.diag_indices(V)] += 1e-14
    H_vs, H_ss, g = [], np.zeros((V, V)), np.zeros(V)
    for c in range(C):
        F = f[:, c : c + 1] - r[:, c : c + 1]
        slope = alpha * (samples.at(v[:, c]) - F)
        slope -= alpha * samples.at(samples.columns(alpha * slope, ones) / norm**2)
        H_vs.append(samples.gram(alpha, slope) / norm[:, None])
        H_ss += samples.gram(slope, slope)
        g += samples.columns(slope, r[:, c] * root[:, 0])
    # One scale for all: tokens that hardly matter must not use up the trust region.
    scale = max(float(np.diag(H_ss).max()), 1e-300) ** 0.5
    solved = np.linalg.solve(H_vv, np.concatenate(H_vs, axis=1))
    S = (H_ss - np.concatenate(H_vs).T @ np.concatenate(np.split(solved, C, axis=1))) / scale**2
    g = g / scale
    # Importances at a bound that would leave it stay there. Two bounds end the freedom to add a constant to s.
    held = ((s >= bound * (1 - 1e-12)) & (g > 0)) | ((s <= -bound * (1 - 1e-12)) & (g < 0))
    if held.any():
        S[held], S[:, held], g[held] = 0.0, 0.0, 0.0
    else:
        S += 1.0 / V  # a constant added to s changes nothing: it gets a stiffness, and so no movement
    eigenvalue, Q = np.linalg.eigh((S + S.T) / 2)
    eigenvalue = np.maximum(eigenvalue, 0.0)
    projected = Q.T @ g
    return lambda damping: (Q @ (projected / (eigenvalue + damping))) / scale
