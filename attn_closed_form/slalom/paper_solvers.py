"""P2's own loops for SLALOM: Algorithms 1 and 2.

They are offered as solvers (`solvers.py`); the end of `alternate` is also one of the starts of the optimum without
penalty (`least_squares.py`).

`sgd` is the loop of Algorithm 1, plain gradient steps on minibatches. The paper names its learning rate, batch size
and number of steps but not their values; the defaults here are ours. (The authors' package replaces SGD by Adam.)

`alternate` is Algorithm 2 by way of Eq. 74 to 79. Its s-step (Eq. 77) minimises residuals times their denominators,
over masses a >= 0 that sum to |V|: a non-negative least squares problem, and not the MSE that Algorithm 2 names, so
that the MSE may rise; the loop ends there, with the better of the two, as the authors' code does.
"""

from __future__ import annotations

import numpy as np

from .._progress import Report
from .._types import Array
from .samples import Samples, Solution, mean_squared_error, values_for

# A mass of zero has no logarithm; it becomes this share of the largest.
MASS_FLOOR = 1e-8


def sgd(
    samples: Samples,
    f: Array,
    weight: Array,
    report: Report,
    rng: np.random.Generator,
    learning_rate: float = 0.5,
    batch_size: int = 128,
    steps: int = 2400,
) -> Solution:
    """Algorithm 1: `steps` gradient steps from s = v = 0, each on `batch_size` samples drawn from the pool."""
    V, C = samples.V, f.shape[1]
    s, v = np.zeros(V), np.zeros((V, C))
    draws = rng.choice(len(f), size=(steps, batch_size), p=weight)
    for step, rows in enumerate(draws):
        if step % 100 == 0:
            report("fit", step, steps)
        batch = samples.take(rows)
        alpha = batch.alpha(s)
        ds, dv = np.zeros(V), np.zeros((V, C))
        for c in range(C):
            values = batch.at(v[:, c])
            F = (alpha * values).sum(axis=1)
            r = F - f[rows, c]
            dv[:, c] = batch.columns(alpha, r)
            ds += batch.columns(alpha * (values - F[:, None]), r)
        s = s - learning_rate * 2.0 / batch_size * ds
        v = v - learning_rate * 2.0 / batch_size * dv
        if not (np.isfinite(s).all() and np.isfinite(v).all()):
            raise ValueError(f"learning_rate: expected one for which SGD converges, got {learning_rate} (it diverged)")
    return Solution(s - s.mean(), v, mean_squared_error(samples, f, weight, s, v), steps, False)


def alternate(samples: Samples, f: Array, weight: Array, report: Report, rounds: int = 20) -> Solution:
    """Algorithm 2 with Eq. 74 (values by least squares) and Eq. 77 to 79 (masses), until the MSE stops falling."""
    s = np.zeros(samples.V)
    v = values_for(samples, f, weight, s)
    mse = mean_squared_error(samples, f, weight, s, v)
    n = samples.counts() * np.sqrt(weight)[:, None]
    for count in range(rounds):
        report("fit", count, rounds)
        G = np.zeros((samples.V, samples.V))
        for c in range(f.shape[1]):
            E = n * (samples.at(v[:, c]) - f[:, c : c + 1])
            G += samples.gram(E, E)
        mass = simplex_least_squares(G)
        s_new = np.log(np.maximum(mass, MASS_FLOOR * mass.max()))
        s_new -= s_new.mean()
        v_new = values_for(samples, f, weight, s_new)
        mse_new = mean_squared_error(samples, f, weight, s_new, v_new)
        if not mse_new < mse:
            return Solution(s, v, mse, count, True)
        s, v, mse = s_new, v_new, mse_new
    return Solution(s, v, mse, rounds, False)


def simplex_least_squares(G: Array) -> Array:
    """Minimiser of x^T G x over x >= 0, sum x = 1, by the active-set method of Lawson and Hanson.

    The problem without the sum, x^T G x + (sum x - 1)^2, has the same minimiser up to a factor.

    >>> simplex_least_squares(np.diag([1.0, 2.0, 4.0])).round(3)
    array([0.571, 0.286, 0.143])
    """
    V = len(G)
    top = G.diagonal().max()
    H = G / (top if top > 0 else 1.0) + 1.0
    H[np.diag_indices(V)] += 1e-13
    x = np.zeros(V)
    active = np.zeros(V, dtype=bool)
    for _ in range(3 * V):
        gradient = 1.0 - H @ x
        gradient[active] = -np.inf
        j = int(gradient.argmax())
        if gradient[j] <= 1e-12:
            break
        active[j] = True
        while True:
            at = np.flatnonzero(active)
            z = np.linalg.solve(H[np.ix_(at, at)], np.ones(at.size))
            if (z > 0).all():
                break
            # Go as far towards z as all stay non-negative, and let go of those that reach zero.
            low = z <= 0
            t = (x[at][low] / (x[at][low] - z[low])).min()
            x[at] += t * (z - x[at])
            active[at[low & (x[at] <= 1e-15)]] = False
            x[~active] = 0.0
            if not active.any():
                break
        x[:] = 0.0
        x[at] = z
    return x / x.sum()
