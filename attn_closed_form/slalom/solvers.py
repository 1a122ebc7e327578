"""The solvers of a SLALOM fit, with their options: the optimum, which is the default, and P2's two loops.

**Why a penalty.** The least-squares SLALOM of a black box that is none may lie at infinity: the mass e^s of a token
vanishes while mass times value stays, because removing the token changes the output but hardly the weights of the
others. The samples then determine the product and not its factors, and the value can be anything. So the optimum
minimises

    MSE + (penalty / V) (sum_j |v_j - mean f|^2 + Var(f) sum_j (s_j - mean s)^2)

and takes the largest penalty whose error on held-out samples is within 2 % of the best, leaving aside those that give
a value further than 5 times the range of f from its mean. Tokens whose importance still comes from the penalty rather
than from the samples are named in the result.

**Why a background.** Special tokens and padding hold mass in every sequence. On the shipped model, which pads to 256
positions, a background divides the error on subsets of any size by 2 to 10 (`benchmarks/slalom_fresh.py`). It is kept
if it lowers the held-out error by more than 2 %. In sequences of one length (SLALOM-eff) it is not needed: every token
can take its share. A black box that is a SLALOM, with or without background, is found
exactly, and then neither penalty nor held-out samples play a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .._progress import Report
from .._types import Array, Ids
from .least_squares import Problem, descend, undetermined, unpenalised
from .paper_solvers import alternate, sgd
from .polish import linear_start, polish
from .samples import Solution, outputs

# Penalties that are tried, the strongest first: each fit starts where the one before ended.
PENALTIES = tuple(10.0**-k for k in range(2, 10))
# Samples on which penalties are compared, at most; the last fit has all of them.
COMPARED = 2000
# Share of the samples that is held out to choose a penalty, and how near to the best a stronger one must come.
HELD_OUT = 0.2
NEAR_BEST = 1.02
# Values further from the mean of f than so many times its range are not believed.
BELIEVABLE = 5.0
# Steps of a fit that only serves to compare penalties.
ROUGH_STEPS, ROUGH_TOL = 40, 1e-4
# So many times rounding is an exact SLALOM: there is nothing better to look for.
EXACT = 1e6


class Solver(Protocol):
    """Anything that finds importances and values for given samples."""

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Importances and values for the samples, outputs and weights of `problem`."""


@dataclass(frozen=True)
class Optimum:
    """Least squares with a penalty, and with a background where it helps; see the module docstring.

    Parameters
    ----------
    penalty : None chooses it on held-out samples; 0 is P2's least squares
    background : None decides on held-out samples
    max_spread : bound on the difference between the largest and the smallest importance of a token. The default
        leaves room for all that float64 can tell apart
    max_iter, tol : the solver stops after so many steps, or when one gains less than `tol` of the cost

    Examples
    --------
    >>> Optimum(penalty=0, background=False)
    Optimum(penalty=0, background=False, max_spread=30.0, max_iter=200, tol=1e-08)
    """

    penalty: float | None = None
    background: bool | None = None
    max_spread: float = 30.0
    max_iter: int = 200
    tol: float = 1e-8

    def __post_init__(self) -> None:
        if self.penalty is not None and (isinstance(self.penalty, bool) or not 0 <= self.penalty < np.inf):
            raise ValueError(f"penalty: expected a number >= 0 or None, got {self.penalty!r}")
        if self.background not in (None, False, True):
            raise ValueError(f"background: expected True, False or None, got {self.background!r}")
        _positive(max_spread=self.max_spread, max_iter=self.max_iter, tol=self.tol)

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """The exact SLALOM if there is one, else the best penalised fit."""
        plain = problem._replace(background=False)
        heavy = problem._replace(background=True, samples=problem.samples.with_background())
        families = {None: [plain, heavy], False: [plain], True: [heavy]}[self.background]
        if problem.fixed is None:
            for family in families:
                found = polish(family.samples, family.f, family.weight, _linear(family), family.floor)
                if found.mse <= EXACT * family.floor and np.ptp(found.s[: family.V]) <= self.max_spread:
                    return found._replace(background=family.background)
        if self.penalty == 0 and problem.fixed is None and len(families) == 1:
            (family,) = families
            return unpenalised(family, _linear(family), self.max_spread, self.max_iter, self.tol, report)
        best, start = self._choose(families, report, rng)
        found = descend(best, start, self.max_spread, self.max_iter, self.tol, report)
        return found._replace(undetermined=undetermined(best, found))

    def _choose(self, families: list[Problem], report: Report, rng: np.random.Generator) -> tuple[Problem, Array]:
        """Family and penalty with (nearly) the least error on held-out samples, and where that fit ended.

        The penalty is chosen for the larger family, the last one; the smaller one then needs one fit to be compared.
        """
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        n = len(families[0].f)
        if len(penalties) == len(families) == 1 or n < 2:
            return families[0]._replace(penalty=penalties[0]), families[0].start()
        order = rng.permutation(n)
        cut = max(1, int(HELD_OUT * n))
        held, used = order[:cut], order[cut : cut + COMPARED]
        path = self._path(families[-1], penalties, used, held, report)
        least = min(trial.error for trial in path)
        chosen = next(trial for trial in path if trial.error <= NEAR_BEST * least)
        if len(families) == 2:  # the background must earn its place
            (plain,) = self._path(families[0], (chosen.penalty,), used, held, report)
            if plain.error <= NEAR_BEST * least:
                return families[0]._replace(penalty=chosen.penalty), plain.s
        return families[-1]._replace(penalty=chosen.penalty), chosen.s

    def _path(
        self, family: Problem, penalties: tuple[float, ...], used: Ids, held: Ids, report: Report
    ) -> list[_Trial]:
        """Rough fits along the penalties, as long as the values can be believed and the held-out error falls."""
        training, test = family.take(used), family.take(held)
        limit = BELIEVABLE * float(np.ptp(family.f, axis=0).max())
        s = training.start()
        path: list[_Trial] = []
        for i, penalty in enumerate(penalties):
            report("penalty", i, len(penalties))
            task = training._replace(penalty=penalty)
            if family.background and s[-1] < s[:-1].min():
                s = training.start()  # a strong penalty drives the background away, and it would not come back
            fit = descend(task, s, self.max_spread, ROUGH_STEPS, ROUGH_TOL, _silent)
            if path and np.abs(fit.v - family.centre).max() > limit:
                break
            s = fit.s
            rest = test.f - outputs(test.samples, s, fit.v)
            path.append(_Trial(float(test.weight @ (rest * rest).sum(axis=1)), penalty, s))
            least = min(trial.error for trial in path)
            if len(path) > 2 and min(trial.error for trial in path[-2:]) > 1.2 * least:
                break
        return path


class _Trial(NamedTuple):
    """Error on held-out samples of a rough fit, its penalty and its importances."""

    error: float
    penalty: float
    s: Array


@dataclass(frozen=True)
class Sgd:
    """Plain gradient steps on minibatches, P2's Algorithm 1; the defaults are ours, as the paper names no values."""

    learning_rate: float = 0.5
    batch_size: int = 128
    steps: int = 2400

    def __post_init__(self) -> None:
        _positive(learning_rate=self.learning_rate, batch_size=self.batch_size, steps=self.steps)

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Importances and values after all steps."""
        _refuse_fixed(problem, "Sgd")
        return sgd(
            problem.samples, problem.f, problem.weight, report, rng, self.learning_rate, self.batch_size, self.steps
        )


@dataclass(frozen=True)
class Alternation:
    """Values by least squares and masses by Eq. 77 in turn, P2's Algorithm 2 with Eq. 74 to 79."""

    rounds: int = 20

    def __post_init__(self) -> None:
        _positive(rounds=self.rounds)

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """Importances and values when the MSE stops falling."""
        _refuse_fixed(problem, "Alternation")
        return alternate(problem.samples, problem.f, problem.weight, report, self.rounds)


def _linear(problem: Problem) -> Array:
    return linear_start(problem.samples, problem.f, problem.weight)


def _silent(stage: str, done: int, total: int) -> None:
    pass


def _positive(**options: float) -> None:
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
            raise ValueError(f"{name}: expected a positive number, got {value!r}")


def _refuse_fixed(problem: Problem, name: str) -> None:
    if problem.fixed is not None:
        raise ValueError(f"importances: expected None with the solver {name}, which cannot hold them fixed")
