"""Least squares for a SLALOM: given counts of tokens and outputs, find s and v.

The objective is the mean squared error of P2's Algorithms 1 and 2, plus a penalty:

    MSE(s, v) = mean_i |f_i - F_i|^2,
    F_i = sum_j alpha_ij v_j,   alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k},
    penalty:    (penalty / V) (sum_j |v_j - mean f|^2 + Var(f) sum_j (s_j - mean s)^2),

with n_ij the number of times that token j occurs in sample i. `optimum.py` chooses the penalty, and
whether the last token is a background, which occurs once in every sample.

**Solver.** P2 alternates between s and v. Here the best v for given s, a linear problem, is
eliminated (variable projection), and `descend` is Levenberg-Marquardt in s alone. The Jacobian is
dF_i/dv_j = alpha_ij, dF_i/ds_j = alpha_ij (v_j - F_i); its s-columns are freed of their nearly
parallel v-columns, so that the normal equations keep their digits. A model that is a SLALOM is
found without a penalty: P2's Eq. 75, sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses a = e^s,
is linear in (a v, a) *jointly*, so that `linear_start` reads the masses off a null vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from .._progress import Report
from .._types import Array, Ids, Masks

# Tuning: share of the largest mass that replaces a negative mass of the start, because the linear
# problem ignores signs. `descend` moves it to where it belongs; a start much lighter than this
# would have no gradient.
START_FLOOR = 1e-4


class Damping(NamedTuple):
    """How the damping of steps changes, relative to the largest curvature."""

    first: float  # of the first step
    growth: float  # factor after a step that is rejected
    fall: float  # divisor after a step that is accepted
    least: float  # less is lost next to the curvature in float64
    largest: (
        float  # with more, a step is 1e-10 of the gradient, and a smaller cost is only rounding
    )


# Tuning: only the first few steps depend on the first one.
DAMPING = Damping(first=1e-4, growth=4.0, fall=16.0, least=1e-15, largest=1e10)


class Jitter(NamedTuple):
    """Numbers added to the diagonals of scaled matrices, which could not be inverted where columns
    are equal.
    """

    values: float  # of the best values, which are corrected twice
    columns: float  # of the columns of the Jacobian
    start: float  # of the linear start, whose null vector is what counts


# A few ulps to a few hundred: a matrix that is scaled to ones has as many from its sums.
JITTER = Jitter(values=1e-13, columns=1e-14, start=1e-15)


class Stop(NamedTuple):
    """When a descent ends: after this many steps, or when one gains less than this share of the
    cost.
    """

    steps: int
    tol: float


@dataclass(frozen=True, eq=False)
class Problem:
    """A least-squares problem."""

    counts: Array  # (n, V) of the tokens in each sample
    f: Array  # (n, C) outputs
    weight: Array  # (n,), sum to one
    background: bool = False  # whether the last token is the background
    penalty: float = 0.0
    fixed: Array | None = None  # (V,) importances that must not move

    @cached_property
    def V(self) -> int:
        """Number of tokens without the background."""
        columns = self.counts.shape[1]
        if self.background:
            return columns - 1
        return columns

    @cached_property
    def root(self) -> Array:
        """The (n, 1) square roots of the weights."""
        return np.sqrt(self.weight)[:, None]

    @cached_property
    def center(self) -> Array:
        """The (C,) weighted means of the outputs."""
        mean: Array = self.weight @ self.f
        return mean

    @cached_property
    def floor(self) -> float:
        """An MSE below this is rounding."""
        # Rounding: an MSE is a sum of squares of relative errors of a few 2^-53, about 1e-31 of the
        # mean of f^2. Below this it cannot fall, and nothing is gained by further steps.
        rounding = 1e-31
        return rounding * self.mse(self.f)

    @cached_property
    def ridge(self) -> float:
        """Weight of |v - center|^2."""
        return self.penalty / self.V

    @cached_property
    def stiffness(self) -> float:
        """Weight of the squared deviations of the importances from their mean."""
        return self.ridge * self.mse(self.f - self.center)

    def mse(self, r: Array) -> float:
        """Return the weighted mean square of residuals r (n, C), summed over classes, as in P2's
        algorithms.
        """
        return float(self.weight @ (r * r).sum(axis=1))

    def cost(self, s: Array, v: Array, r: Array) -> float:
        """Return the MSE plus the penalty, from the residuals r (n, C)."""
        variance = float(s[: self.V].var())
        of_importances = self.stiffness * self.V * variance
        distances = (v - self.center) ** 2
        of_values = self.ridge * float(distances.sum())
        return self.mse(r) + of_values + of_importances

    def alpha(self, s: Array) -> Array:
        """Compute the (n, V) softmax weights. Rows whose tokens all have tiny masses get a separate
        shift.
        """
        mass = self.counts * np.exp(s - s.max())
        total = mass.sum(axis=1)
        if (total < 1e-200).any():
            occurs = self.counts > 0
            shift = np.where(occurs, s, -np.inf).max(axis=1)
            off = np.minimum(s - shift[:, None], 0.0)
            mass = np.where(occurs, self.counts * np.exp(off), 0.0)
            total = mass.sum(axis=1)
        return mass / total[:, None]

    def residuals(self, s: Array, v: Array) -> Array:
        """Return the (n, C) outputs minus those of the SLALOM."""
        return self.f - self.alpha(s) @ v

    def values(self, s: Array, near: Array | float = 0.0) -> tuple[Array, Array]:
        """Compute the best values (V, C) for given importances, Eq. 74, with the ridge, and their
        residuals.

        Two corrections of the values `near` keep all digits at the optimum.
        """
        alpha = self.alpha(s)
        weighted = alpha * self.root
        H = weighted.T @ weighted
        scale = _positive_roots(np.diag(H))
        column = scale[:, None]
        H = H / column / scale
        _add_to_diagonal(H, JITTER.values + self.ridge / scale**2)
        v = np.broadcast_to(near, (len(H), self.f.shape[1]))
        r = self.f - alpha @ v
        for _ in range(2):
            pull = self.ridge * (self.center - v)
            rhs = weighted.T @ (r * self.root) + pull
            change = np.linalg.solve(H, rhs / column) / column
            v = v + change
            r = r - alpha @ change
        return v, r

    def start(self) -> Array:
        """Return equal or fixed importances, with a background as heavy as all tokens together."""
        if self.fixed is None:
            s = np.zeros(self.V)
        else:
            s = self.fixed
        if self.background:
            return np.r_[s, s.mean() + np.log(self.V)]
        return s

    def take(self, rows: Ids) -> Problem:
        """Return the problem for a subset of the samples."""
        weight = self.weight[rows]
        return replace(self, counts=self.counts[rows], f=self.f[rows], weight=weight / weight.sum())

    def with_background(self) -> Problem:
        """Return the problem with one more token, which occurs once in each sample."""
        once = np.ones(len(self.f))
        return replace(self, counts=np.column_stack([self.counts, once]), background=True)


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solver: (V,) importances, (V, C) values, (n, C) residuals, steps, and whether
    it converged.

    If the problem has a background, it is the last row of s and v.
    """

    problem: Problem
    s: Array
    v: Array
    r: Array
    iterations: int
    converged: bool

    @cached_property
    def mse(self) -> float:
        """Weighted mean squared error on the samples."""
        return self.problem.mse(self.r)

    def undetermined(self) -> Masks:
        """Return the (V,) mask of importances whose precision mainly comes from the penalty.

        The share is the diagonal of (H + P)^-1 P, with H the Hessian of the MSE without v, and P
        that of the penalty.
        """
        problem = self.problem
        if problem.penalty == 0 or problem.fixed is not None:
            return np.zeros(problem.V, dtype=bool)
        S, _ = _schur(problem, self.s, self.v, self.r)
        # The freedom to add a constant to s.
        S += np.trace(S) / len(S) ** 2
        variance = np.diag(np.linalg.pinv(S))[: problem.V]
        # Tuning: an importance is undetermined if more than half of its precision comes from the
        # penalty, not the samples.
        undetermined = 0.5
        flags: Masks = problem.stiffness * variance > undetermined
        return flags


def _eliminated(
    x: Array, rates: list[Array], r: Array, ridge: float = 0.0, pull: Array | None = None
) -> tuple[Array, Array]:
    """Return the normal equations for s after eliminating v: the Schur complement (V, V) and the
    gradient (V,).

    The columns of v are x, those of s are x times the rate of each class, and r (n, C) are the
    residuals. A ridge on the values comes with its `pull` (V, C), the differences between the
    values and its center.
    """
    square = x * x
    norm = _positive_roots(square.sum(axis=0))
    column = norm[:, None]
    H_vv = x.T @ x / norm / column
    _add_to_diagonal(H_vv, JITTER.columns + ridge / norm**2)
    S = np.zeros(H_vv.shape)
    g = np.zeros(norm.shape)
    for c, rate in enumerate(rates):
        # The center frees the column of s from that of v.
        center = (square * rate).sum(axis=0) / norm**2
        y = x * (rate - center)
        H_ss = y.T @ y + np.diag(ridge * center**2)
        H_vs = x.T @ y / column - np.diag(ridge * center / norm)
        S += H_ss - H_vs.T @ np.linalg.solve(H_vv, H_vs)
        g += r[:, c] @ y
        if pull is not None:
            g -= ridge * center * pull[:, c]
    return S, g


def _add_to_diagonal(matrix: Array, numbers: Array) -> None:
    """Add numbers (n,) to the diagonal of a matrix (n, n), in place."""
    matrix.flat[:: len(matrix) + 1] += numbers


def _positive_roots(squares: Array) -> Array:
    """Return square roots, with 1 instead of zero and of numbers that would underflow."""
    roots = np.sqrt(squares)
    return np.where(roots > 1e-150, roots, 1.0)


def _schur(problem: Problem, s: Array, v: Array, r: Array) -> tuple[Array, Array]:
    """Return the Hessian (V, V) of half the cost in s, with the best v, and minus the gradient
    (V,).
    """
    V = problem.V
    tokens = slice(0, V)
    F = problem.f - r
    # v_j - F_i of each class, (n, V).
    rates = [v_class - F_class[:, None] for v_class, F_class in zip(v.T, F.T, strict=True)]
    x = problem.alpha(s) * problem.root
    pull = problem.center - v
    S, g = _eliminated(x, rates, r=r * problem.root, ridge=problem.ridge, pull=pull)
    # The penalty on the deviations from the mean of all tokens.
    centering = np.eye(V) - 1.0 / V
    deviation = s[tokens] - s[tokens].mean()
    S[tokens, tokens] += problem.stiffness * centering
    g[tokens] -= problem.stiffness * deviation
    return S, g


def linear_start(problem: Problem) -> Array:
    """Compute importances from Eq. 75 as one linear problem: the null vector of [n_ij, -f_i n_ij]
    over (a v, a).

    The smallest singular vector comes from inverse iteration on the normal equations.
    """
    n = problem.counts * problem.root
    rates = [-column[:, None] for column in problem.f.T]
    S, _ = _eliminated(n, rates, problem.f)
    size = np.abs(np.diag(S)).mean()
    if size == 0:
        size = 1.0
    S = S / size + JITTER.start * np.eye(len(S))
    a = np.ones(len(S))
    for _ in range(3):
        a = a / np.abs(a).max()
        a = np.linalg.solve(S, a).astype(np.float64, copy=False)
    a = a * np.sign(a.sum())
    largest = a.max()
    if largest <= 0:
        return np.zeros(len(S))
    positive = np.where(a > 1e-12 * largest, a, START_FLOOR * largest)
    s = np.log(positive)
    return s - s.mean()


class Iterate(NamedTuple):
    """Importances, their best values, the residuals and the cost."""

    s: Array
    v: Array
    r: Array
    cost: float

    @classmethod
    def of(cls, problem: Problem, s: Array, near: Array | float = 0.0) -> Iterate:
        """Compute the best values for importances, starting near known ones."""
        v, r = problem.values(s, near)
        return cls(s, v, r, problem.cost(s, v, r))


@dataclass(frozen=True, eq=False)
class Limits:
    """The importances of the tokens stay within `bound` of zero; that of the background is free."""

    problem: Problem
    bound: float

    def centered(self, s: Array) -> Array:
        """Shift importances so that the largest and the smallest are equally far from zero."""
        if self.problem.fixed is not None:
            return s
        tokens = s[: self.problem.V]
        return s - (tokens.max() + tokens.min()) / 2

    def inside(self, s: Array) -> Array:
        """Return the nearest importances within the limits."""
        if self.problem.fixed is not None:
            return s
        V = self.problem.V
        tokens = np.clip(s[:V], -self.bound, self.bound)
        return self.centered(np.r_[tokens, s[V:]])

    def held(self, s: Array, g: Array) -> Masks:
        """Return the importances that must not move: fixed ones, and those at a bound that a step
        would leave.
        """
        edge = self.bound * (1 - 1e-12)
        at_top = (s >= edge) & (g > 0)
        at_bottom = (s <= -edge) & (g < 0)
        held = at_top | at_bottom
        held[self.problem.V :] = False
        if self.problem.fixed is not None:
            held[: self.problem.V] = True
        return held


def descend(
    problem: Problem,
    s: Array,
    max_spread: float,
    stop: Stop,
    report: Report,
    damping: float = DAMPING.first,
) -> Solution:
    """Minimize over s by Levenberg-Marquardt, with the best v for each s.

    The importances of the tokens stay within `max_spread` of each other; that of the background is
    free.
    """
    limits = Limits(problem, max_spread / 2)
    at = Iterate.of(problem, limits.inside(limits.centered(s)))
    for iteration in range(stop.steps):
        report("fit", iteration, stop.steps)
        if at.cost <= problem.floor:
            return Solution(
                problem=problem, s=at.s, v=at.v, r=at.r, iterations=iteration, converged=True
            )
        better, enough = _improved(problem, at, limits, damping)
        if better is None:
            return Solution(
                problem=problem, s=at.s, v=at.v, r=at.r, iterations=iteration, converged=True
            )
        gain = (at.cost - better.cost) / at.cost
        at = better
        if gain < stop.tol:
            return Solution(
                problem=problem, s=at.s, v=at.v, r=at.r, iterations=iteration + 1, converged=True
            )
        if enough == damping:
            damping = max(damping / DAMPING.fall, DAMPING.least)
        else:
            # A damping that had to grow is nearly right, and a smaller one would be rejected.
            damping = enough
    return Solution(problem=problem, s=at.s, v=at.v, r=at.r, iterations=stop.steps, converged=False)


def _improved(
    problem: Problem, at: Iterate, limits: Limits, damping: float
) -> tuple[Iterate | None, float]:
    """Return a point with a smaller cost, and the damping of the step to it; None if there is no
    such point.
    """
    S, g = _schur(problem, at.s, at.v, at.r)
    # One scale is used for all, so that negligible tokens do not use up the trust region.
    scale = max(float(np.diag(S).max()), 1e-300) ** 0.5
    S = S / scale**2
    g = g / scale
    held = limits.held(at.s, g)
    if held.any():
        # This also ends the freedom to add a constant to s.
        S[held] = 0.0
        S[:, held] = 0.0
        g[held] = 0.0
    else:
        # A constant added to s changes nothing, so it gets a stiffness and does not move.
        S += 1.0 / len(at.s)
    # A linear model of e^s is not reliable beyond e^2, so no step changes an importance by more (a
    # trust region).
    max_step = 2.0
    while damping <= DAMPING.largest:
        ds = _damped_step(S, g, damping) / scale
        if np.abs(ds).max() <= max_step:
            new = Iterate.of(problem, limits.inside(at.s + ds), at.v)
            # An equal cost is rounding. Taking it would end the descent, too, because its gain is
            # below `tol`.
            if new.cost < at.cost:
                return new, damping
        damping *= DAMPING.growth
    return None, damping


def _damped_step(S: Array, g: Array, damping: float) -> Array:
    """Return the step of Levenberg and Marquardt, infinite if the matrix is singular to the last
    digit.
    """
    damped = S + damping * np.eye(len(S))
    try:
        return np.linalg.solve(damped, g).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.full(len(S), np.inf)


def silent(*_: object) -> None:
    """Report nothing, for auxiliary fits."""


class Solver(Protocol):
    """Anything that finds importances and values for given samples."""

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Find importances and values for the samples, outputs and weights of `problem`."""
