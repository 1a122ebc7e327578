"""Least squares for a SLALOM: given counts of tokens and outputs, find s and v.

Minimised is the mean squared error of P2's Algorithms 1 and 2,

    MSE(s, v) = mean_i |f_i - F_i|^2,   F_i = sum_j alpha_ij v_j,   alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k},

with n_ij the number of times that token j occurs in sample i. The paper's own solvers are in `slalom_paper.py`; this
is Levenberg-Marquardt with the analytic Jacobian dF_i/dv_j = alpha_ij, dF_i/ds_j = alpha_ij (v_j - F_i), from a start
that needs no iteration: P2's Eq. 75, sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses a = e^s, is linear in (a v, a)
*jointly*, so that a model which is a SLALOM comes out at once, as a null vector. P2 alternates instead.

In the Jacobian the columns of s_j and v_j are nearly parallel when the samples are long (F_i hardly varies), so each
s-column is first freed of its v-column (Gram-Schmidt, token by token) and scaled to unit length. The normal equations
are then safe: on 200 tokens with up to 5 deletions their solution has ten digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from .collapse import Ids
from .weights import Array

# Masses of the start below this share of the largest are raised to it: the linear problem knows no sign.
START_FLOOR = 1e-4
# A step moves no importance by more than this: e^2 is as far as a linear model of e^s can be trusted.
MAX_STEP = 2.0
# Relative to mean f^2: an MSE that is rounding and nothing else.
ROUNDING = 1e-31

Progress = Callable[[str, int, int], None]


class Solution(NamedTuple):
    """s (V,), v (V, C), the weighted MSE, the number of steps, and whether it stopped by itself."""

    s: Array
    v: Array
    mse: float
    iterations: int
    converged: bool


class Samples(Protocol):
    """Sums over the tokens of each sample; an entry array has a row a sample."""

    V: int

    def alpha(self, s: Array) -> Array:
        """Softmax weights as entries."""

    def at(self, x: Array) -> Array:
        """(V,) numbers a token, where they meet the entries."""

    def gram(self, x: Array, y: Array) -> Array:
        """(V, V) products x^T y of entry arrays."""

    def columns(self, x: Array, r: Array) -> Array:
        """(V,) products x^T r with (n,) numbers a sample."""

    def counts(self) -> Array:
        """Entries of the counts n_ij."""

    def take(self, rows: Ids) -> Samples:
        """Some of the samples."""


class LongSamples:
    """Samples as a dense (n, V) table of counts."""

    def __init__(self, n: Array) -> None:
        self.n, self.V = n, n.shape[1]

    def alpha(self, s: Array) -> Array:
        """Rows whose tokens all have tiny masses are saved by a shift of their own."""
        mass = self.n * np.exp(s - s.max())
        total = mass.sum(axis=1)
        if (total < 1e-200).any():
            shift = np.where(self.n > 0, s, -np.inf).max(axis=1)
            mass = np.where(self.n > 0, self.n * np.exp(np.minimum(s - shift[:, None], 0.0)), 0.0)
            total = mass.sum(axis=1)
        return mass / total[:, None]

    def at(self, x: Array) -> Array:
        """One row for all samples."""
        return x[None]

    def gram(self, x: Array, y: Array) -> Array:
        """A matrix product."""
        return x.T @ y

    def columns(self, x: Array, r: Array) -> Array:
        """A matrix product."""
        return r @ x

    def counts(self) -> Array:
        """The table."""
        return self.n

    def take(self, rows: Ids) -> LongSamples:
        """Rows of the table."""
        return LongSamples(self.n[rows])


class ShortSamples:
    """Samples of one short length as (n, L) indices: every product costs n L^2, whatever V is."""

    def __init__(self, index: Ids, V: int) -> None:
        self.index, self.V = index, V

    def alpha(self, s: Array) -> Array:
        """Softmax a row."""
        score = s[self.index]
        mass = np.exp(score - score.max(axis=1, keepdims=True))
        return mass / mass.sum(axis=1, keepdims=True)

    def at(self, x: Array) -> Array:
        """A gather."""
        return x[self.index]

    def gram(self, x: Array, y: Array) -> Array:
        """A scatter of all pairs of places."""
        flat = self.index[:, :, None] * self.V + self.index[:, None, :]
        products = x[:, :, None] * y[:, None, :]
        return np.bincount(flat.ravel(), products.ravel(), self.V**2).reshape(self.V, self.V)

    def columns(self, x: Array, r: Array) -> Array:
        """A scatter."""
        return np.bincount(self.index.ravel(), (x * r[:, None]).ravel(), self.V)

    def counts(self) -> Array:
        """One a place."""
        return np.ones(self.index.shape)

    def take(self, rows: Ids) -> ShortSamples:
        """Rows of the index."""
        return ShortSamples(self.index[rows], self.V)


def optimum(
    samples: Samples, f: Array, weight: Array, progress: Progress, max_iter: int = 200, tol: float = 1e-10
) -> Solution:
    """Minimum of the MSE; f (n, C), weight (n,) summing to 1. Of two starts the better end is kept.

    Stops when a step lowers the MSE by less than `tol` of itself, or when nothing but rounding is left.
    """
    starts = [linear_start(samples, f, weight), np.zeros(samples.V)]
    best: Solution | None = None
    floor = ROUNDING * float(weight @ (f * f).sum(axis=1))
    for s in starts:
        end = _levenberg_marquardt(samples, f, weight, s, floor, max_iter, tol, progress)
        if best is None or end.mse < best.mse:
            best = end
        if best.mse <= 1e6 * floor:  # an exact SLALOM: there is nothing better
            break
    assert best is not None
    return best


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
    s = np.log(np.maximum(a, START_FLOOR * a.max())) if a.max() > 0 else np.zeros(V)
    return s - s.mean()


def values_for(samples: Samples, f: Array, weight: Array, s: Array) -> Array:
    """Best values for given importances, Eq. 74: (V, C)."""
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    H = samples.gram(alpha, alpha)
    rhs = np.stack([samples.columns(alpha, column) for column in (f * root).T], axis=1)
    scale = np.sqrt(np.diag(H))
    scale = np.where(scale > 0, scale, 1.0)
    H = H / scale / scale[:, None]
    H[np.diag_indices_from(H)] += 1e-13
    return np.linalg.solve(H, rhs / scale[:, None]) / scale[:, None]


def outputs(samples: Samples, s: Array, v: Array) -> Array:
    """(n, C) outputs of the SLALOM."""
    alpha = samples.alpha(s)
    return np.stack([(alpha * samples.at(column)).sum(axis=1) for column in v.T], axis=1)


def _levenberg_marquardt(
    samples: Samples, f: Array, weight: Array, s: Array, floor: float, max_iter: int, tol: float, progress: Progress
) -> Solution:
    v = values_for(samples, f, weight, s)
    r = f - outputs(samples, s, v)
    mse = float(weight @ (r * r).sum(axis=1))
    damping = 1e-4
    for iteration in range(max_iter):
        progress("fit", iteration, max_iter)
        if mse <= floor:
            return Solution(s, v, mse, iteration, True)
        H, g, centre, scale = _normal_equations(samples, f, weight, s, v, r)
        while True:
            ds, dv = _step(H, g, centre, scale, damping)
            if (largest := np.abs(ds).max()) > MAX_STEP:
                ds, dv = ds * (MAX_STEP / largest), dv * (MAX_STEP / largest)
            s_new, v_new = s + ds, v + dv
            r_new = f - outputs(samples, s_new, v_new)
            mse_new = float(weight @ (r_new * r_new).sum(axis=1))
            if mse_new < mse:
                break
            damping *= 8.0
            if damping > 1e8:
                return Solution(s, v, mse, iteration, True)
        gain = (mse - mse_new) / mse
        s, v, r, mse = s_new - s_new.mean(), v_new, r_new, mse_new
        if gain < tol:
            return Solution(s, v, mse, iteration + 1, True)
        damping = max(damping / 8.0, 1e-15)
    return Solution(s, v, mse, max_iter, False)


def _normal_equations(
    samples: Samples, f: Array, weight: Array, s: Array, v: Array, r: Array
) -> tuple[Array, Array, Array, Array]:
    """Scaled J^T J and J^T r in the variables (dv + centre ds, ds), the centres (V, C) and the scale."""
    V, C = v.shape
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    aa = samples.gram(alpha, alpha)
    square = np.where((d := samples.columns(alpha * alpha, np.ones(len(f)))) > 0, d, 1.0)
    H = np.zeros((C + 1, V, C + 1, V))
    g = np.zeros((C + 1, V))
    centre = np.zeros((V, C))
    for c in range(C):
        F = f[:, c : c + 1] - r[:, c : c + 1]
        slope = alpha * (samples.at(v[:, c]) - F)
        centre[:, c] = samples.columns(alpha * slope, np.ones(len(f))) / square
        slope -= alpha * samples.at(centre[:, c])
        H[c, :, c, :] = aa
        H[c, :, C, :] = samples.gram(alpha, slope)
        H[C, :, c, :] = H[c, :, C, :].T
        H[C, :, C, :] += samples.gram(slope, slope)
        weighted = r[:, c] * root[:, 0]
        g[c] = samples.columns(alpha, weighted)
        g[C] += samples.columns(slope, weighted)
    matrix = H.reshape((C + 1) * V, (C + 1) * V)
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 1e-150, scale, 1.0)
    matrix = matrix / scale / scale[:, None]
    # Adding a constant to s changes nothing: that direction gets a stiffness of its own, and so no movement.
    free = np.r_[centre.T.ravel(), np.ones(V)] * scale
    matrix += np.outer(free, free) / (free @ free)
    return matrix, g.ravel() / scale, centre, scale


def _step(H: Array, g: Array, centre: Array, scale: Array, damping: float) -> tuple[Array, Array]:
    V, C = centre.shape
    damped = H.copy()
    damped[np.diag_indices_from(damped)] += damping
    x = (np.linalg.solve(damped, g) / scale).reshape(C + 1, V)
    return x[C], x[:C].T - centre * x[C][:, None]
