"""Least squares for a SLALOM: given counts of tokens and outputs, find s and v.

The objective is the mean squared error of P2's Algorithms 1 and 2, plus a penalty:

    MSE(s, v) = mean_i |f_i - F_i|^2,   F_i = sum_j alpha_ij v_j,   alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k},
    penalty:    (penalty / V) (sum_j |v_j - mean f|^2 + Var(f) sum_j (s_j - mean s)^2),

with n_ij the number of times that token j occurs in sample i.

**Why a penalty.** The least-squares SLALOM of a black box that is not a SLALOM may be at infinity: the mass e^s of a
token vanishes while mass times value stays. The penalty is 1e-5, unless another one is better on held-out samples by
more than two standard errors of the difference, or halves the error. It is then raised until no value is further than 5
times the range of f from its mean.

**Why a background.** Special tokens and padding have mass in every sequence. The background is one more token, the last
one, which occurs once in every sample. It is kept unless the error on held-out samples without it is at most 2%
larger, weighted like the fit and with equal weights.

**Solver.** P2 alternates between s and v. Here the best v for given s, a linear problem, is eliminated (variable
projection), and `descend` is Levenberg-Marquardt in s alone. The Jacobian is dF_i/dv_j = alpha_ij, dF_i/ds_j = alpha_ij
(v_j - F_i); its s-columns are freed of their nearly parallel v-columns, so that the normal equations keep their digits.
A model that is a SLALOM is found without a penalty: P2's Eq. 75, sum_j n_ij a_j v_j = f_i sum_j n_ij a_j with masses
a = e^s, is linear in (a v, a) *jointly*, so that `linear_start` reads the masses off a null vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from .._arrays import number
from .._progress import Report
from .._types import Array, Ids, Masks

# Trust region: no step changes an importance by more, because a linear model of e^s is not reliable beyond e^2.
MAX_STEP = 2.0
# An MSE below this share of the mean of f^2 is only rounding.
ROUNDING = 1e-31
# An importance is undetermined if more than this share of its precision comes from the penalty.
UNDETERMINED = 0.5
# Share of the largest mass that replaces a negative mass of the start, because the linear problem ignores signs.
START_FLOOR = 1e-4
# Initial damping of the steps, for a penalized optimum and for a nearly exact start.
DAMPING = 1e-4
EXACT_DAMPING = 1e-13
# Penalties to try: the first, then those on one side of it. Each fit starts where the previous one ended.
FIRST = 1e-5
WEAKER = (1e-6, 1e-7, 1e-8, 1e-9)
STRONGER = (1e-4, 1e-3, 1e-2)
STRONGEST = 1.0  # importances and values are then hardly allowed to differ
# Maximum number of samples for comparing penalties; the last fit uses all of them.
COMPARED = 2000
# Share of the samples that is held out to choose a penalty, the number of standard errors by which another penalty must
# be better, and the largest ratio of the errors without and with a background at which the background is dropped.
HELD_OUT = 0.2
SURE = 2.0
NEAR_BEST = 1.02
# Values further from the mean of f than this many times its range are implausible.
BELIEVABLE = 5.0
# Number of steps of a fit that is only used to compare penalties.
ROUGH_STEPS = 20
ROUGH_TOL = 1e-3
# An MSE of up to EXACT times rounding is an exact SLALOM, and nothing better exists. The search for one takes at most
# EXACT_STEPS steps and ends when a step gains less than the share EXACT_TOL of the cost.
EXACT = 1e6
EXACT_STEPS = 20
EXACT_TOL = 0.1


def counts(ids: Ids, sequences: Sequence[Ids]) -> Array:
    """Count how often each of the sorted `ids` occurs in each sequence, (n, V); all tokens must be among them."""
    rows = np.repeat(np.arange(len(sequences)), [len(sequence) for sequence in sequences])
    cells = rows * ids.size + np.searchsorted(ids, np.concatenate(list(sequences)))
    return (
        np.bincount(cells, minlength=len(sequences) * ids.size)
        .reshape(-1, ids.size)
        .astype(np.float64)
    )


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
        return self.counts.shape[1] - self.background

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
        return ROUNDING * self.mse(self.f)

    @cached_property
    def ridge(self) -> float:
        """Weight of |v - center|^2."""
        return self.penalty / self.V

    @cached_property
    def stiffness(self) -> float:
        """Weight of the squared deviations of the importances from their mean."""
        return self.ridge * self.mse(self.f - self.center)

    def mse(self, r: Array) -> float:
        """Return the weighted mean square of residuals r (n, C), summed over classes, as in P2's algorithms."""
        return float(self.weight @ (r * r).sum(axis=1))

    def cost(self, s: Array, v: Array, r: Array) -> float:
        """Return the MSE plus the penalty, from the residuals r (n, C)."""
        spread = self.stiffness * self.V * float(s[: self.V].var())
        return self.mse(r) + self.ridge * float(((v - self.center) ** 2).sum()) + spread

    def alpha(self, s: Array) -> Array:
        """Compute the (n, V) softmax weights. Rows whose tokens all have tiny masses get a separate shift."""
        mass = self.counts * np.exp(s - s.max())
        total = mass.sum(axis=1)
        if (total < 1e-200).any():
            shift = np.where(self.counts > 0, s, -np.inf).max(axis=1)
            mass = np.where(
                self.counts > 0, self.counts * np.exp(np.minimum(s - shift[:, None], 0.0)), 0.0
            )
            total = mass.sum(axis=1)
        return mass / total[:, None]

    def residuals(self, s: Array, v: Array) -> Array:
        """Return the (n, C) outputs minus those of the SLALOM."""
        return self.f - self.alpha(s) @ v

    def values(self, s: Array, near: Array | float = 0.0) -> tuple[Array, Array]:
        """Compute the best values (V, C) for given importances, Eq. 74, with the ridge, and their residuals.

        Two corrections of the values `near` keep all digits at the optimum.
        """
        alpha = self.alpha(s)
        weighted = alpha * self.root
        H = weighted.T @ weighted
        scale = _positive_roots(np.diag(H))[:, None]
        H = H / scale / scale.T
        H.flat[:: len(H) + 1] += 1e-13 + self.ridge / scale[:, 0] ** 2
        v = np.broadcast_to(near, (len(H), self.f.shape[1]))
        r = self.f - alpha @ v
        for _ in range(2):
            rhs = weighted.T @ (r * self.root) + self.ridge * (self.center - v)
            change = np.linalg.solve(H, rhs / scale) / scale
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
        return replace(
            self, counts=np.column_stack([self.counts, np.ones(len(self.f))]), background=True
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solver: (V,) importances, (V, C) values, (n, C) residuals, steps, and whether it converged.

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

        The share is the diagonal of (H + P)^-1 P, with H the Hessian of the MSE without v, and P that of the penalty.
        """
        problem = self.problem
        if problem.penalty == 0 or problem.fixed is not None:
            return np.zeros(problem.V, dtype=bool)
        S, _ = _schur(problem, self.s, self.v, self.r)
        S += np.trace(S) / len(S) ** 2  # the freedom to add a constant to s
        flags: Masks = problem.stiffness * np.diag(np.linalg.pinv(S))[: problem.V] > UNDETERMINED
        return flags


def _eliminated(
    x: Array, rates: list[Array], r: Array, ridge: float = 0.0, pull: Array | None = None
) -> tuple[Array, Array]:
    """Return the normal equations for s after eliminating v: the Schur complement (V, V) and the gradient (V,).

    The columns of v are x, those of s are x times the rate of each class, and r (n, C) are the residuals. A ridge on
    the values comes with its `pull` (V, C), the differences between the values and its center.
    """
    square = x * x
    norm = _positive_roots(square.sum(axis=0))
    H_vv = x.T @ x / norm / norm[:, None]
    H_vv.flat[:: len(norm) + 1] += 1e-14 + ridge / norm**2
    S = np.zeros(H_vv.shape)
    g = np.zeros(norm.shape)
    for c, rate in enumerate(rates):
        center = (square * rate).sum(axis=0) / norm**2  # frees the column of s from that of v
        y = x * (rate - center)
        H_vs = x.T @ y / norm[:, None] - np.diag(ridge * center / norm)
        S += y.T @ y + np.diag(ridge * center**2) - H_vs.T @ np.linalg.solve(H_vv, H_vs)
        g += r[:, c] @ y
        if pull is not None:
            g -= ridge * center * pull[:, c]
    return S, g


def _positive_roots(squares: Array) -> Array:
    """Return square roots, with 1 instead of zero and of numbers that would underflow."""
    roots = np.sqrt(squares)
    return np.where(roots > 1e-150, roots, 1.0)


def _schur(problem: Problem, s: Array, v: Array, r: Array) -> tuple[Array, Array]:
    """Return the Hessian (V, V) of half the cost in s, with the best v, and minus the gradient (V,)."""
    tokens = slice(0, problem.V)
    F = problem.f - r
    rates = [v[:, c] - F[:, c : c + 1] for c in range(v.shape[1])]
    x = problem.alpha(s) * problem.root
    S, g = _eliminated(x, rates, r * problem.root, problem.ridge, problem.center - v)
    S[tokens, tokens] += problem.stiffness * (np.eye(problem.V) - 1.0 / problem.V)
    g[tokens] -= problem.stiffness * (s[tokens] - s[tokens].mean())
    return S, g


def linear_start(problem: Problem) -> Array:
    """Compute importances from Eq. 75 as one linear problem: the null vector of [n_ij, -f_i n_ij] over (a v, a).

    The smallest singular vector comes from inverse iteration on the normal equations.
    """
    n = problem.counts * problem.root
    S, _ = _eliminated(n, [-column[:, None] for column in problem.f.T], problem.f)
    S = S / (np.abs(np.diag(S)).mean() or 1.0) + 1e-15 * np.eye(len(S))
    a = np.ones(len(S))
    for _ in range(3):
        a = np.linalg.solve(S, a / np.abs(a).max()).astype(np.float64, copy=False)
    a = a * np.sign(a.sum())
    if a.max() <= 0:
        return np.zeros(len(S))
    s = np.log(np.where(a > 1e-12 * a.max(), a, START_FLOOR * a.max()))
    return s - s.mean()


def descend(
    problem: Problem,
    s: Array,
    max_spread: float,
    max_iter: int,
    tol: float,
    report: Report,
    damping: float = DAMPING,
) -> Solution:
    """Minimize over s by Levenberg-Marquardt, with the best v for each s, until a step gains less than `tol`.

    The importances of the tokens stay within `max_spread` of each other; that of the background is free.
    """
    bound = max_spread / 2
    tokens = slice(0, problem.V)

    def centered(s: Array) -> Array:  # equal margins on both sides, or none
        if problem.fixed is not None:
            return s
        return s - (s[tokens].max() + s[tokens].min()) / 2

    def within(s: Array) -> Array:
        if problem.fixed is not None:
            return s
        return np.r_[np.clip(s[tokens], -bound, bound), s[problem.V :]]

    s = centered(within(centered(s)))
    v, r = problem.values(s)
    cost = problem.cost(s, v, r)
    for iteration in range(max_iter):
        report("fit", iteration, max_iter)
        if cost <= problem.floor:
            return Solution(problem, s, v, r, iteration, True)
        S, g = _schur(problem, s, v, r)
        # One scale is used for all, so that negligible tokens do not use up the trust region.
        scale = max(float(np.diag(S).max()), 1e-300) ** 0.5
        S = S / scale**2
        g = g / scale
        # Importances at a bound that would leave it stay there; this ends the freedom to add a constant to s.
        held = ((s >= bound * (1 - 1e-12)) & (g > 0)) | ((s <= -bound * (1 - 1e-12)) & (g < 0))
        held[problem.V :] = False
        held[tokens] |= problem.fixed is not None
        if held.any():
            S[held] = 0.0
            S[:, held] = 0.0
            g[held] = 0.0
        else:
            S += 1.0 / len(
                s
            )  # a constant added to s changes nothing, so it gets a stiffness and does not move
        first_damping = damping
        while True:
            ds = _damped_step(S, g, damping) / scale
            if np.abs(ds).max() <= MAX_STEP:
                s_new = centered(within(s + ds))
                v_new, r_new = problem.values(s_new, v)
                cost_new = problem.cost(s_new, v_new, r_new)
                if cost_new < cost:
                    break
            damping *= 4.0
            if damping > 1e10:
                return Solution(problem, s, v, r, iteration, True)
        gain = (cost - cost_new) / cost
        s = s_new
        v = v_new
        r = r_new
        cost = cost_new
        if gain < tol:
            return Solution(problem, s, v, r, iteration + 1, True)
        if (
            damping == first_damping
        ):  # a damping that had to grow is nearly right, and a smaller one would be rejected
            damping = max(damping / 16.0, 1e-15)
    return Solution(problem, s, v, r, max_iter, False)


def _damped_step(S: Array, g: Array, damping: float) -> Array:
    try:
        return np.linalg.solve(S + damping * np.eye(len(S)), g).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:  # singular to the last digit: more damping
        return np.full(len(S), np.inf)


def silent(*_: object) -> None:
    """Report nothing, for auxiliary fits."""


# The penalty and the background


class Solver(Protocol):
    """Anything that finds importances and values for given samples."""

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Find importances and values for the samples, outputs and weights of `problem`."""


@dataclass(frozen=True)
class Optimum:
    """Least squares with a penalty, and with a background if it lowers the error; see the module docstring.

    Parameters
    ----------
    penalty : weight of the penalty; None chooses it on held-out samples; 0 is P2's least squares
    background : whether to add a background; None decides on held-out samples
    max_spread : bound on the difference between the largest and the smallest importance of a token. The default
        covers everything that float64 can distinguish
    max_iter, tol : the solver stops after this many steps, or when one gains less than `tol` of the cost

    Examples
    --------
    >>> Optimum(penalty=0, background=False)
    Optimum(penalty=0, background=False, max_spread=30.0, max_iter=200, tol=1e-06)
    """

    penalty: float | None = None
    background: bool | None = None
    max_spread: float = 30.0
    max_iter: int = 200
    tol: float = 1e-6

    def __post_init__(self) -> None:
        if self.penalty is not None:
            number("penalty", self.penalty, "a number >= 0 or None", lambda x: 0 <= x < np.inf)
        if self.background not in (None, False, True):
            raise ValueError(f"background: expected True, False or None, got {self.background!r}")
        for name in ("max_spread", "max_iter", "tol"):
            number(name, getattr(self, name), "a positive number", lambda x: x > 0)

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Find the exact SLALOM if there is one, otherwise the best penalized fit."""
        if self.background is not True:
            families = [problem]
        else:
            families = []
        if self.background is not False:
            families.append(problem.with_background())
        if problem.fixed is None:
            for family in families:
                start = linear_start(family)
                exact = descend(
                    family, start, np.inf, EXACT_STEPS, EXACT_TOL, silent, EXACT_DAMPING
                )
                if (
                    exact.mse <= EXACT * family.floor
                    and np.ptp(exact.s[: family.V]) <= self.max_spread
                ):
                    return exact
        limits = (self.max_spread, self.max_iter, self.tol, report)
        best, start = self._choose(families, report, rng)
        solution = descend(best, start, *limits)
        while self.penalty is None and best.penalty < STRONGEST and not _believable(best, solution):
            best = replace(best, penalty=10 * best.penalty)
            solution = descend(best, solution.s, *limits)
        return solution

    def _choose(
        self, families: list[Problem], report: Report, rng: np.random.Generator
    ) -> tuple[Problem, Array]:
        """Return the family and penalty with (nearly) the smallest held-out error, and the importances of that fit.

        The penalty is chosen for the larger family, the last one; the smaller one then needs one fit to be compared.
        """
        n = len(families[0].f)
        if n < 2 or (self.penalty is not None and len(families) == 1):
            return replace(
                families[0], penalty=FIRST if self.penalty is None else self.penalty
            ), families[0].start()
        # Consecutive samples are held out, because a random sample of a balanced design would remove what determines
        # its tokens, and all errors on held-out samples would favor strong penalties.
        order = (np.arange(n) + rng.integers(n)) % n
        cut = max(1, int(HELD_OUT * n))
        held = order[:cut]
        used = rng.permutation(order[cut:])[:COMPARED]
        trials = self._search(families[-1], used, held, report)
        chosen = min(trials, key=lambda trial: trial.errors[0])
        if not (chosen.surely_better_than(trials[0]) or chosen.errors[0] < trials[0].errors[0] / 2):
            chosen = trials[0]
        if len(families) == 2:  # the background is kept only if it helps
            plain = self._try(families[0], chosen.penalty, families[0].start(), used, held)
            if (plain.errors <= NEAR_BEST * chosen.errors).all():
                return replace(families[0], penalty=chosen.penalty), plain.s
        return replace(families[-1], penalty=chosen.penalty), chosen.s

    def _search(self, family: Problem, used: Ids, held: Ids, report: Report) -> list[_Trial]:
        """Fit roughly with the first penalty, with weaker ones while they help, and with stronger ones if none did."""
        trials = [
            self._try(
                family, FIRST if self.penalty is None else self.penalty, family.start(), used, held
            )
        ]
        for side in (WEAKER, STRONGER) if self.penalty is None else ():
            last = trials[0]
            for penalty in side:
                report("penalty", len(trials), 1 + len(WEAKER) + len(STRONGER))
                last = self._try(family, penalty, last.s, used, held)
                if not last.believable:
                    break
                trials.append(last)
                if not last.errors[0] < min(trial.errors[0] for trial in trials[:-1]):
                    break
            if len(trials) > 2:  # the first step to this side helped
                break
        return trials

    def _try(self, family: Problem, penalty: float, s: Array, used: Ids, held: Ids) -> _Trial:
        """Fit the used samples roughly, and measure the error on the held-out ones."""
        training = family.take(used)
        test = family.take(held)
        fit = descend(
            replace(training, penalty=penalty), s, self.max_spread, ROUGH_STEPS, ROUGH_TOL, silent
        )
        r = test.residuals(fit.s, fit.v)
        return _Trial(penalty, fit.s, (r * r).sum(axis=1), test.weight, _believable(family, fit))


class _Trial(NamedTuple):
    """A rough fit: penalty, importances, squared errors on held-out samples with their weights, sensible values."""

    penalty: float
    s: Array
    squares: Array
    weight: Array
    believable: bool = True

    @property
    def errors(self) -> Array:
        """Mean squared error, weighted and not."""
        return np.array([self.weight @ self.squares, self.squares.mean()])

    def surely_better_than(self, other: _Trial) -> bool:
        """Whether the weighted error is smaller by more than two standard errors of the difference."""
        gain = self.weight * (other.squares - self.squares)
        return bool(gain.sum() > SURE * np.sqrt(gain.size) * gain.std())


def _believable(problem: Problem, solution: Solution) -> bool:
    """Whether no value is further from the mean output than a few times the range of the outputs."""
    limit = BELIEVABLE * float(np.ptp(problem.f, axis=0).max())
    return bool(np.abs(solution.v - problem.center).max() <= limit)
