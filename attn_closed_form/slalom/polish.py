"""A start that needs no iteration, and its polish: how a model that is a SLALOM is found to the last digits.

P2's Eq. 75, sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses a = e^s, is linear in (a v, a) jointly, so that a
SLALOM comes out as a null vector (`linear_start`). Gauss-Newton in (s, v), with s-columns freed of their nearly
parallel v-columns (Gram-Schmidt, token by token), then keeps nine digits on 200 tokens with up to 5 deletions
(`polish`). A background is one more token and needs nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._types import Array
from .samples import Samples, Solution, outputs, values_for

# Share of the largest mass that a mass of the start gets if it is negative: the linear problem knows no sign.
START_FLOOR = 1e-4
# Tried in turn by the polish: the normal equations of a long document may be singular to the last digit.
POLISH_DAMPING = (1e-14, 1e-12, 1e-10, 1e-8)


def linear_start(samples: Samples, f: Array, weight: Array) -> Array:
    """Importances from Eq. 75 as one linear problem: the null vector of [n_ij, -f_i n_ij] over (a v, a).

    The smallest singular vector is found by inverse iteration on the normal equations, columns freed of each other
    token by token and scaled, as in `solvers.py`.
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


def polish(samples: Samples, f: Array, weight: Array, s: Array, floor: float, max_iter: int = 20) -> Solution:
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
    free = np.r_[centre.T.ravel(), np.ones(V)] * scale  # a constant added to s changes nothing
    matrix += np.outer(free, free) / (free @ free)

    def step(damping: float) -> tuple[Array, Array]:
        damped = matrix + damping * np.eye(len(matrix))
        x = (np.linalg.solve(damped, g.ravel() / scale) / scale).reshape(C + 1, V)
        return x[C], x[:C].T - centre * x[C][:, None]

    return step
