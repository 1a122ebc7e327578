"""P2's own loops for SLALOM, Algorithms 1 and 2 as printed: solvers to compare the library's
optimum with.

They are handed over as `fit_slalom(..., solver=Sgd())` and `solver=Alternation()`.

`Sgd` is the loop of Algorithm 1, plain gradient steps on minibatches. The paper names its learning
rate, batch size and number of steps but not their values; the defaults here are ours. (The authors'
package replaces SGD by Adam.)

`Alternation` is Algorithm 2 by way of Eq. 74 to 79. Its s-step (Eq. 77) minimizes residuals times
their denominators, over masses a >= 0 that sum to |V|: a non-negative least squares problem, and
not the MSE that Algorithm 2 names, so that the MSE may rise; the loop ends there, with the better
of the two. (The authors' code ends after the first s-step in every case, which is `rounds=1`.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attn_closed_form._progress import Report
from attn_closed_form._types import Array
from attn_closed_form.slalom.least_squares import Problem, Solution

# A mass of zero has no logarithm; it becomes this share of the largest.
MASS_FLOOR = 1e-8


@dataclass(frozen=True)
class Sgd:
    """Algorithm 1: `steps` gradient steps from s = v = 0, each on `batch_size` samples drawn from
    the pool.
    """

    learning_rate: float = 0.5
    batch_size: int = 128
    steps: int = 2400

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Importances and values after all steps."""
        _refuse_fixed(problem, "Sgd")
        f = problem.f
        V = problem.V
        C = problem.f.shape[1]
        s = np.zeros(V)
        v = np.zeros((V, C))
        draws = rng.choice(len(f), size=(self.steps, self.batch_size), p=problem.weight)
        for step, rows in enumerate(draws):
            if step % 100 == 0:
                report("fit", step, self.steps)
            alpha = problem.take(rows).alpha(s)
            ds = np.zeros(V)
            dv = np.zeros((V, C))
            for c in range(C):
                F = alpha @ v[:, c]
                r = F - f[rows, c]
                dv[:, c] = r @ alpha
                ds += r @ (alpha * (v[:, c] - F[:, None]))
            s = s - self.learning_rate * 2.0 / self.batch_size * ds
            v = v - self.learning_rate * 2.0 / self.batch_size * dv
            if not (np.isfinite(s).all() and np.isfinite(v).all()):
                raise ValueError(
                    "learning_rate: expected one for which SGD converges, got "
                    f"{self.learning_rate} (it diverged)"
                )
        return Solution(problem, s - s.mean(), v, problem.residuals(s, v), self.steps, False)


@dataclass(frozen=True)
class Alternation:
    """Algorithm 2: Eq. 74 (values by least squares) and Eq. 77 to 79 (masses) in turn, until the
    MSE stops falling.
    """

    rounds: int = 20

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Importances and values when the MSE stops falling."""
        _refuse_fixed(problem, "Alternation")
        f = problem.f
        V = problem.V
        s = np.zeros(V)
        v, r = problem.values(s)
        n = problem.counts * problem.root
        for count in range(self.rounds):
            report("fit", count, self.rounds)
            G = np.zeros((V, V))
            for c in range(f.shape[1]):
                E = n * (v[:, c] - f[:, c : c + 1])
                G += E.T @ E
            mass = simplex_least_squares(G)
            s_new = np.log(np.maximum(mass, MASS_FLOOR * mass.max()))
            s_new -= s_new.mean()
            v_new, r_new = problem.values(s_new)
            if not problem.mse(r_new) < problem.mse(r):
                return Solution(problem, s, v, r, count, True)
            s = s_new
            v = v_new
            r = r_new
        return Solution(problem, s, v, r, self.rounds, False)


def _refuse_fixed(problem: Problem, name: str) -> None:
    if problem.fixed is not None:
        raise ValueError(
            f"importances: expected None with the solver {name}, which cannot hold them fixed"
        )


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
