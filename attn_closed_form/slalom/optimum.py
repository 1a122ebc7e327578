"""Which least squares a SLALOM fit minimizes: the penalty and the background.

**Why a penalty.** The least-squares SLALOM of a black box that is not one may lie at infinity: the mass e^s of a token
vanishes while mass times value stays, because removing the token changes the output but hardly the weights of the
others. The samples then determine the product and not its factors, and the value can be anything. So the optimum
minimizes

    MSE + (penalty / V) (sum_j |v_j - mean f|^2 + Var(f) sum_j (s_j - mean s)^2)

with penalty 1e-5, unless another one is better on held-out samples by more than two standard errors of the difference,
or halves the error. The search goes to weaker penalties as long as they help, and to stronger ones if they do not: a
search that comes from strong penalties can be caught where the background holds all the mass. If the fit then has a
value further than 5 times the range of f from its mean, the penalty is raised until it has none. The result lists the
tokens whose importance still comes from the penalty rather than from the samples.

**Why a background.** Special tokens and padding hold mass in every sequence. On a model that pads to 256 positions, a
background lowers the error on subsets of any size. It is kept unless the error on held-out samples without it is at
most 2 % larger, weighted like the fit and with equal weights. In sequences of one length (SLALOM-eff) it is not needed:
every token can take its share.

A black box that is a SLALOM, with or without background, is found exactly, without penalty and held-out samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from .._progress import Report
from .._types import Array, Ids
from .least_squares import Problem, Solution, descend, linear_start, polish, unpenalized

# Penalties that are tried: the first, then those of one of the two sides. Each fit starts where the one before ended.
FIRST = 1e-5
WEAKER = (1e-6, 1e-7, 1e-8, 1e-9)
STRONGER = (1e-4, 1e-3, 1e-2)
# No fit needs more: importances and values are then hardly allowed to differ.
STRONGEST = 1.0
# Samples on which penalties are compared, at most; the last fit has all of them.
COMPARED = 2000
# Share of the samples that is held out to choose a penalty, by how many standard errors another one must be better, and
# how near to the error with a background that without one must come.
HELD_OUT = 0.2
SURE = 2.0
NEAR_BEST = 1.02
# Values further from the mean of f than so many times its range are not believed.
BELIEVABLE = 5.0
# Steps of a fit that only serves to compare penalties.
ROUGH_STEPS, ROUGH_TOL = 20, 1e-3
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
    Optimum(penalty=0, background=False, max_spread=30.0, max_iter=200, tol=1e-06)
    """

    penalty: float | None = None
    background: bool | None = None
    max_spread: float = 30.0
    max_iter: int = 200
    tol: float = 1e-6

    def __post_init__(self) -> None:
        if self.penalty is not None and (isinstance(self.penalty, bool) or not 0 <= self.penalty < np.inf):
            raise ValueError(f"penalty: expected a number >= 0 or None, got {self.penalty!r}")
        if self.background not in (None, False, True):
            raise ValueError(f"background: expected True, False or None, got {self.background!r}")
        for name in ("max_spread", "max_iter", "tol"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
                raise ValueError(f"{name}: expected a positive number, got {value!r}")

    def solve(self, problem: Problem, report: Report, rng: np.random.Generator) -> Solution:
        """The exact SLALOM if there is one, else the best penalized fit."""
        families = [problem] if self.background is not True else []
        if self.background is not False:
            families.append(replace(problem, background=True, samples=problem.samples.with_background()))
        if problem.fixed is None:
            for family in families:
                exact = polish(family, linear_start(family))
                if exact.mse <= EXACT * family.floor and np.ptp(exact.s[: family.V]) <= self.max_spread:
                    return exact
            if self.penalty == 0 and len(families) == 1:
                return unpenalized(families[0], self.max_spread, self.max_iter, self.tol, report)
        best, start = self._choose(families, report, rng)
        solution = descend(best, start, self.max_spread, self.max_iter, self.tol, report)
        while self.penalty is None and best.penalty < STRONGEST and not _believable(best, solution):
            best = replace(best, penalty=10 * best.penalty)
            solution = descend(best, solution.s, self.max_spread, self.max_iter, self.tol, report)
        return solution

    def _choose(self, families: list[Problem], report: Report, rng: np.random.Generator) -> tuple[Problem, Array]:
        """Family and penalty with (nearly) the least error on held-out samples, and where that fit ended.

        The penalty is chosen for the larger family, the last one; the smaller one then needs one fit to be compared.
        """
        n = len(families[0].f)
        if n < 2 or (self.penalty is not None and len(families) == 1):
            return replace(families[0], penalty=FIRST if self.penalty is None else self.penalty), families[0].start()
        # A stretch of samples, not samples at random: a random sample of a balanced design takes away just what shows
        # its tokens, and all errors on held-out samples would favor strong penalties.
        order = (np.arange(n) + rng.integers(n)) % n
        cut = max(1, int(HELD_OUT * n))
        held, used = order[:cut], rng.permutation(order[cut:])[:COMPARED]
        trials = self._search(families[-1], used, held, report)
        chosen = min(trials, key=lambda trial: trial.errors[0])
        if not (chosen.surely_better_than(trials[0]) or chosen.errors[0] < trials[0].errors[0] / 2):
            chosen = trials[0]
        if len(families) == 2:  # the background must earn its place
            plain = self._try(families[0], chosen.penalty, families[0].start(), used, held)
            if (plain.errors <= NEAR_BEST * chosen.errors).all():
                return replace(families[0], penalty=chosen.penalty), plain.s
        return replace(families[-1], penalty=chosen.penalty), chosen.s

    def _search(self, family: Problem, used: Ids, held: Ids, report: Report) -> list[_Trial]:
        """Rough fits with the first penalty, with weaker ones while they help, with stronger ones if none did."""
        if self.penalty is not None:
            return [self._try(family, self.penalty, family.start(), used, held)]
        trials = [self._try(family, FIRST, family.start(), used, held)]
        for side in (WEAKER, STRONGER):
            last = trials[0]
            for penalty in side:
                report("penalty", len(trials), 1 + len(WEAKER) + len(STRONGER))
                last = self._try(family, penalty, last.s, used, held)
                least = min(trial.errors[0] for trial in trials)
                if not last.believable:
                    break
                trials.append(last)
                if not last.errors[0] < least:
                    break
            if len(trials) > 2:  # the first step to this side helped
                break
        return trials

    def _try(self, family: Problem, penalty: float, s: Array, used: Ids, held: Ids) -> _Trial:
        """A rough fit to the used samples, and its error on those that are held out."""
        training, test = family.take(used), family.take(held)
        fit = descend(replace(training, penalty=penalty), s, self.max_spread, ROUGH_STEPS, ROUGH_TOL, lambda *_: None)
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
    return bool(np.abs(solution.v - problem.centre).max() <= limit)
