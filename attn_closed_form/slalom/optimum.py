"""The penalized optimum of a SLALOM's least squares: its penalty, and whether it has a background.

**Why a penalty.** The least-squares SLALOM of a black box that is not a SLALOM may be at infinity:
the mass e^s of a token vanishes while mass times value stays. The penalty is 1e-5, unless another
one is better on held-out samples by more than two standard errors of the difference, or halves the
error. It is then raised until no value is further than 5 times the range of f from its mean.

**Why a background.** Special tokens and padding have mass in every sequence. The background is one
more token, the last one, which occurs once in every sample. It is kept unless the error on held-out
samples without it is at most 2% larger, weighted like the fit and with equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._arrays import number
from .._progress import Report
from .._types import Array, Ids
from .least_squares import Problem, Solution, Stop, descend, linear_start, silent

# All constants of this module are tuning: they choose between fits, and every fit reports its error
# on other samples.


class Penalties(NamedTuple):
    """The penalties that are tried: the first, then those on one side of it while they help.

    Each fit starts where the previous one ended.
    """

    first: float  # changes a fit by less than its error in benchmarks/slalom_fresh.py
    weaker: tuple[float, ...]
    stronger: tuple[float, ...]
    strongest: float  # where importances and values are hardly allowed to differ


# Powers of ten: between two of them, the error on held-out samples hardly changes.
FIT_PENALTIES = Penalties(
    first=1e-5, weaker=(1e-6, 1e-7, 1e-8, 1e-9), stronger=(1e-4, 1e-3, 1e-2), strongest=1.0
)
# Penalties are compared on at most this many samples, because only their order matters; the last
# fit uses all samples.
COMPARED = 2000
# Values further from the mean of f than this many times its range are implausible: a weighted mean
# of values within the range needs none outside of it, and the best SLALOM of a model with
# interactions needs a few times the range.
FARTHEST = 5.0
# A fit that is only used to compare penalties.
ROUGH = Stop(steps=20, tol=1e-3)
# The search for an exact SLALOM converges quadratically from its start. It has ended, or there is
# none, after this.
EXACT = Stop(steps=20, tol=0.1)


@dataclass(frozen=True)
class Optimum:
    """Least squares with a penalty, and with a background if it lowers the held-out error.

    Parameters
    ----------
    penalty : weight of the penalty; None chooses it on held-out samples; 0 is P2's least squares
    background : whether to add a background; None decides on held-out samples
    max_spread : bound on the difference between the largest and the smallest importance of a token.
        The default covers everything that float64 can distinguish
    max_iter, tol : the solver stops after this many steps, or when one gains less than `tol` of the
        cost

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
        families = []
        if self.background is not True:
            families.append(problem)
        if self.background is not False:
            families.append(problem.with_background())
        if problem.fixed is None:
            # An MSE of up to this many times rounding is that of an exact SLALOM: errors of f are
            # then below 1e-12 of its size.
            exact_mse = 1e6
            # Damping of the first step of that search: the start is nearly exact, so the step is
            # nearly Newton's.
            exact_damping = 1e-13
            for family in families:
                start = linear_start(family)
                exact = descend(
                    family,
                    start,
                    max_spread=np.inf,
                    stop=EXACT,
                    report=silent,
                    damping=exact_damping,
                )
                is_exact = exact.mse <= exact_mse * family.floor
                spread = np.ptp(exact.s[: family.V])
                if is_exact and spread <= self.max_spread:
                    return exact
        best, start = self.choose(families, report, rng)
        solution = self.descend(best, start, report)
        if self.penalty is not None:
            return solution
        while best.penalty < FIT_PENALTIES.strongest and not _believable(best, solution):
            best = replace(best, penalty=10 * best.penalty)
            solution = self.descend(best, solution.s, report)
        return solution

    def descend(self, problem: Problem, s: Array, report: Report) -> Solution:
        """Fit with the given limits."""
        return descend(
            problem, s, self.max_spread, stop=Stop(self.max_iter, self.tol), report=report
        )

    @property
    def first_penalty(self) -> float:
        """The given penalty, or the first one to try."""
        if self.penalty is None:
            return FIT_PENALTIES.first
        return self.penalty

    def choose(
        self, families: list[Problem], report: Report, rng: np.random.Generator
    ) -> tuple[Problem, Array]:
        """Return the family and penalty with (nearly) the smallest held-out error, and the
        importances of that fit.

        The penalty is chosen for the larger family, the last one; the smaller one then needs one
        fit to be compared.
        """
        smaller = families[0]
        larger = families[-1]
        n = len(smaller.f)
        nothing_to_choose = self.penalty is not None and len(families) == 1
        if n < 2 or nothing_to_choose:
            return replace(smaller, penalty=self.first_penalty), smaller.start()
        # Consecutive samples are held out, because a random sample of a balanced design would
        # remove what determines its tokens, and all errors on held-out samples would favor strong
        # penalties.
        order = (np.arange(n) + rng.integers(n)) % n
        # Share of the samples that is held out to choose a penalty.
        held_out = 0.2
        cut = max(1, int(held_out * n))
        held = order[:cut]
        used = rng.permutation(order[cut:])[:COMPARED]
        trials = self.search(larger, used, held, report)
        first = trials[0]
        chosen = min(trials, key=lambda trial: trial.errors[0])
        halves_the_error = chosen.errors[0] < first.errors[0] / 2
        if not halves_the_error and not chosen.surely_better_than(first):
            chosen = first
        if len(families) == 2:
            # The background is kept only if it helps.
            plain = self.try_penalty(
                smaller, chosen.penalty, s=smaller.start(), used=used, held=held
            )
            # A background is dropped if the error without it is at most this many times as large,
            # as one parameter fewer is worth.
            nearly_as_good = 1.02
            if (plain.errors <= nearly_as_good * chosen.errors).all():
                return replace(smaller, penalty=chosen.penalty), plain.s
        return replace(larger, penalty=chosen.penalty), chosen.s

    def search(self, family: Problem, used: Ids, held: Ids, report: Report) -> list[Trial]:
        """Fit roughly with the first penalty, with weaker ones while they help, and with stronger
        ones if none did.
        """
        first = self.try_penalty(family, self.first_penalty, s=family.start(), used=used, held=held)
        trials = [first]
        if self.penalty is not None:
            return trials
        most = 1 + len(FIT_PENALTIES.weaker) + len(FIT_PENALTIES.stronger)
        for side in (FIT_PENALTIES.weaker, FIT_PENALTIES.stronger):
            last = first
            for penalty in side:
                report("penalty", len(trials), most)
                last = self.try_penalty(family, penalty, last.s, used, held)
                if not last.believable:
                    break
                smallest = min(trial.errors[0] for trial in trials)
                trials.append(last)
                if not last.errors[0] < smallest:
                    break
            if len(trials) > 2:
                break  # the first step to this side helped
        return trials

    def try_penalty(self, family: Problem, penalty: float, s: Array, used: Ids, held: Ids) -> Trial:
        """Fit the used samples roughly, and measure the error on the held-out ones."""
        training = family.take(used)
        test = family.take(held)
        fit = descend(
            replace(training, penalty=penalty), s, self.max_spread, stop=ROUGH, report=silent
        )
        r = test.residuals(fit.s, fit.v)
        return Trial(
            penalty=penalty,
            s=fit.s,
            squares=(r * r).sum(axis=1),
            weight=test.weight,
            believable=_believable(family, fit),
        )


class Trial(NamedTuple):
    """A rough fit: penalty, importances, squared errors on held-out samples with their weights,
    sensible values.
    """

    penalty: float
    s: Array
    squares: Array
    weight: Array
    believable: bool = True

    @property
    def errors(self) -> Array:
        """Mean squared error, weighted and not."""
        return np.array([self.weight @ self.squares, self.squares.mean()])

    def surely_better_than(self, other: Trial) -> bool:
        """Whether the weighted error is smaller by more than two standard errors of the
        difference.
        """
        gain = self.weight * (other.squares - self.squares)
        standard_error = np.sqrt(gain.size) * gain.std()
        # Another penalty must be better than the first by this many standard errors of the
        # difference (two: 95%).
        standard_errors = 2.0
        return bool(gain.sum() > standard_errors * standard_error)


def _believable(problem: Problem, solution: Solution) -> bool:
    """Whether no value is further from the mean output than a few times the range of the
    outputs.
    """
    limit = FARTHEST * float(np.ptp(problem.f, axis=0).max())
    return bool(np.abs(solution.v - problem.center).max() <= limit)
