"""Fitting a SLALOM to any black box: SLALOM-eff and SLALOM-fidel (P2, section 5.3 and appendix D).

SLALOM-eff queries the black box with short sequences of the document's tokens (Algorithm 1),
SLALOM-fidel with the document after deletions (Algorithm 2). Where this departs from P2:

- both fits end at the optimum of their mean squared error with a penalty and, where it helps, a
  background (`least_squares.py`)
- SLALOM-fidel also queries subsets of any size, with a small weight: a fit on the neighborhood of
  the document alone can be wrong by any amount elsewhere
- absent tokens can be replaced instead of deleted
- samples are balanced (`design.py`), no sequence is evaluated twice, and a tenth of the samples is
  held out
- several classes share their importances (C.1); the MSE is summed over them. `fit_slalom_classes`
  gives each class separate ones
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._arrays import finite, usual_float_errors, whole
from .._errors import warn_user
from .._progress import Report, stages
from .._types import Array, Ids, Tokens
from .design import Deletions, ShortSequences, counts, distinct
from .least_squares import Problem, Solver
from .optimum import Optimum
from .recover import BATCH_SIZE, BlackBox, ask, remembered
from .slalom import Slalom, as_ids, slalom_linearized

# Tuning: undetermined importances cause a warning if their tokens make up more than this share of
# all effects alpha |v - F|. The result always lists them.
MATTERS = 0.25
# Tuning: the minimum share of the variation of the model on held-out samples that a good and a fair
# fit explain.
GOOD = 0.9
FAIR = 0.5  # as above
# P2's two algorithms by name, with the options of the paper where it has them.
SAMPLE_KINDS: dict[str, ShortSequences | Deletions] = {
    "eff": ShortSequences(),
    "fidel": Deletions(),
}


class SlalomWarning(UserWarning):
    """Warning that the samples do not fully determine a SLALOM."""


class SlalomFit(NamedTuple):
    """A fitted SLALOM.

    Attributes
    ----------
    slalom : Slalom on the distinct tokens of the document, in increasing order
    mse : weighted mean squared error on the fitted samples (summed over classes)
    fresh_mse : the same on held-out samples of the kind that the paper's algorithm draws; NaN if
        there are fewer than ten samples
    fresh_mse_any_size : the same on held-out subsets of the document of any size; NaN if there are
        none
    fresh_variance, fresh_variance_any_size : variance of the black box on the same samples (summed
        over classes), which is the error of a constant
    model_calls : number of sequences that the black box evaluated
    num_samples : number of samples drawn; equal ones are evaluated once
    iterations : steps of the solver
    converged : whether the solver stopped before its limit of steps
    penalty : the given or chosen penalty; 0 for an exact SLALOM
    undetermined : ids whose importance comes from the penalty rather than from the samples
    """

    slalom: Slalom
    mse: float
    fresh_mse: float
    fresh_mse_any_size: float
    model_calls: int
    num_samples: int
    iterations: int
    converged: bool
    penalty: float
    undetermined: tuple[int, ...]
    fresh_variance: float
    fresh_variance_any_size: float

    @property
    def explained(self) -> float:
        """Share of the variance on held-out samples that the fit explains, at least 0; NaN if
        nothing varies there.
        """
        if not self.fresh_variance > 0:
            return float("nan")
        return max(0.0, 1 - self.fresh_mse / self.fresh_variance)

    @property
    def verdict(self) -> str:
        """One of "good", "fair" and "poor", by the explained share; "unknown" if nothing was held
        out or nothing varies.

        Even a good fit may rank the tokens in another order than Shapley values of the model
        itself.
        """
        if np.isnan(self.explained):
            return "unknown"
        if self.explained >= GOOD:
            return "good"
        if self.explained >= FAIR:
            return "fair"
        return "poor"


@usual_float_errors
def fit_slalom(
    f: BlackBox,
    tokens: Tokens,
    kind: str | ShortSequences | Deletions = "fidel",
    num_samples: int = 5000,
    *,
    solver: Solver | None = None,
    gamma: float = 0.0,
    importances: Mapping[int, float] | None = None,
    seed: int | np.random.Generator = 0,
    progress: Report | bool | None = None,
    batch_size: int = BATCH_SIZE,
) -> SlalomFit:
    """Fit a SLALOM to outputs of any model for sampled sequences of a document (P2, Algorithms 1
    and 2).

    Parameters
    ----------
    f : takes a list of n id arrays and returns (n,) outputs, or (n, C) for several classes, which
        share importances
    tokens : the document, whose distinct tokens get scores
    kind : "eff" fits short sequences of the document's tokens (SLALOM-eff, Algorithm 1), "fidel"
        the document with tokens deleted (SLALOM-fidel, Algorithm 2). `ShortSequences(...)` and
        `Deletions(...)` are the same with options
    num_samples : b of both algorithms, 5000 in the paper; "eff" needs about 2 |V| to determine
        everything
    solver : such as `Optimum(max_spread=6)`; None for `Optimum()`, without a background if all
        lengths are equal
    gamma : sum of the importances
    importances : importance of each distinct id, if only the values are to be fitted
    seed : seed of the samples; a number or a NumPy Generator
    progress : called with (stage, done, total); None shows a bar on a terminal after a second if
        rich is installed
    batch_size : maximum number of sequences per call of f

    Returns
    -------
    SlalomFit
        the fitted SLALOM with its error on fresh samples, the number of model calls and a verdict

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = fit_slalom(truth.predict_many, [30, 10, 20, 10])
    >>> (
    ...     bool(np.allclose(fit.slalom.s, truth.s)),
    ...     bool(np.allclose(fit.slalom.v, truth.v)),
    ...     fit.fresh_mse < 1e-25,
    ... )
    (True, True, True)
    >>> fit.verdict  # of all held-out variation, it explains at least 90%
    'good'
    >>> fit_slalom(
    ...     truth.predict_many, [30, 10, 20, 10], kind="eff"
    ... ).model_calls  # all pairs of three tokens
    9
    """
    plan = _plan(kind)
    document = as_ids("tokens", tokens)
    if document.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    whole("num_samples", num_samples)
    whole("batch_size", batch_size)
    if solver is not None and (isinstance(solver, type) or not hasattr(solver, "solve")):
        raise ValueError(f"solver: expected a solver such as Optimum(), got {solver!r}")
    rng = np.random.default_rng(seed)
    samples = plan.draw(document, num_samples, rng)
    if solver is None:
        solver = Optimum(background=False if samples.one_length else None)
    fixed = None
    if importances is not None:
        fixed = _fixed_importances(importances, samples.ids)
    sequences = [*samples.fitted, *samples.held_out, *samples.held_out_any_size]
    queries, which = distinct(sequences)
    ends = np.cumsum([len(samples.fitted), len(samples.held_out)])
    fitted, near, far = np.split(which, ends)
    with stages("SLALOM", progress) as report:
        outputs = ask(f, queries, batch_size, report)
        # A sequence that was drawn twice has the weight of both.
        weight = np.bincount(fitted, samples.weight, len(queries)).astype(np.float64)
        used = np.flatnonzero(weight > 0)
        table = outputs.reshape(len(outputs), -1)
        token_counts = counts(samples.ids, [queries[i] for i in used])
        problem = Problem(counts=token_counts, f=table[used], weight=weight[used], fixed=fixed)
        fit = _solve(problem, samples.ids, outputs.ndim, gamma, solver, rng, report)
    predicted = [fit.slalom.predict_many([queries[i] for i in rows]) for rows in (near, far)]
    return fit._replace(
        fresh_mse=_mean_square(outputs[near] - predicted[0]),
        fresh_mse_any_size=_mean_square(outputs[far] - predicted[1]),
        fresh_variance=_variance(outputs[near]),
        fresh_variance_any_size=_variance(outputs[far]),
        model_calls=len(queries),
        num_samples=which.size,
    )


def _plan(kind: object) -> ShortSequences | Deletions:
    """Return the samples of one of the two algorithms, given by name or with options."""
    if isinstance(kind, ShortSequences | Deletions):
        return kind
    if not isinstance(kind, str) or kind not in SAMPLE_KINDS:
        expected = "'eff', 'fidel', ShortSequences(...) or Deletions(...)"
        raise ValueError(f"kind: expected {expected}, got {kind!r}")
    return SAMPLE_KINDS[kind]


def _fixed_importances(importances: object, ids: Ids) -> Array:
    """Return the given importances of the ids as an array."""
    if not isinstance(importances, Mapping):
        name = type(importances).__name__
        raise TypeError(f"importances: expected a mapping from ids to numbers, got {name}")
    missing = [int(i) for i in ids if int(i) not in importances]
    if missing:
        raise ValueError(
            f"importances: expected one for every id of the document, got none for {missing[:5]}"
        )
    return finite("importances", [importances[int(i)] for i in ids])


def _mean_square(residuals: Array) -> float:
    """Return the mean square of residuals (n,) or (n, C), summed over classes; NaN without
    samples.
    """
    n = len(residuals)
    if n == 0:
        return float("nan")
    squares = (residuals**2).reshape(n, -1)
    return float(squares.sum(axis=1).mean())


def _variance(outputs: Array) -> float:
    """Return the variance of outputs (n,) or (n, C), summed over classes; NaN without samples."""
    if len(outputs) == 0:
        return float("nan")
    return _mean_square(outputs - outputs.mean(axis=0))


@usual_float_errors
def fit_slalom_classes(f: BlackBox, tokens: Tokens, **options: Any) -> tuple[SlalomFit, ...]:
    """Fit one SLALOM per class, each with separate importances, from one set of samples; f returns
    (n, C) outputs.

    The options are those of `fit_slalom`; the seed must be a number, so that every class has the
    same samples.

    Parameters
    ----------
    f : takes a list of n id arrays and returns (n, C) outputs
    tokens : the document, whose distinct tokens get scores
    **options : options of `fit_slalom`; the seed must be a number

    Returns
    -------
    C SlalomFits, one per class
        one fit per class, from the same samples

    Examples
    --------
    >>> first = Slalom(ids=[1, 2], s=[-1.0, 1.0], v=[1.0, 0.0])
    >>> second = Slalom(ids=[1, 2], s=[1.0, -1.0], v=[0.0, 2.0])
    >>> def f(documents):
    ...     return np.stack([first.predict_many(documents), second.predict_many(documents)], axis=1)
    >>> [fit.slalom.s.round(6).tolist() for fit in fit_slalom_classes(f, [1, 2, 1])]
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    known: dict[bytes, Array] = {}

    def of_class(c: int, sequences: list[Ids]) -> Array:
        outputs = remembered(known, partial(ask, f), sequences)
        if outputs.ndim != 2:
            raise ValueError(
                f"f: expected outputs of several classes, (n, C), got shape {outputs.shape}"
            )
        return np.asarray(outputs[:, c])

    fits = [fit_slalom(partial(of_class, 0), tokens, **options)]
    C = len(next(iter(known.values())))
    for c in range(1, C):
        fits.append(fit_slalom(partial(of_class, c), tokens, **options))
    return tuple(fits)


def fit_sequences(
    f: Array,
    sequences: Sequence[Ids],
    weight: Array | Ids,
    gamma: float = 0.0,
    solver: Solver | None = None,
    seed: int = 0,
) -> SlalomFit:
    """Fit the best SLALOM to given outputs f, (n,) or (n, C), of given sequences with positive
    weights (n,).
    """
    ids = np.unique(np.concatenate(list(sequences)))
    shares = np.asarray(weight, dtype=np.float64) / float(np.sum(weight))
    rng = np.random.default_rng(seed)
    outputs = np.asarray(f)
    problem = Problem(
        counts=counts(ids, sequences), f=outputs.reshape(len(outputs), -1), weight=shares
    )
    with stages("SLALOM", False) as report:
        return _solve(
            problem, ids, outputs.ndim, gamma, solver=solver or Optimum(), rng=rng, report=report
        )


def _solve(
    problem: Problem,
    ids: Ids,
    ndim: int,
    gamma: float,
    solver: Solver,
    rng: np.random.Generator,
    report: Report,
) -> SlalomFit:
    """Return the fit without its errors on held-out samples; `ndim` of the outputs is 1 if there is
    one class.
    """
    V = ids.size
    (n, C) = problem.f.shape
    parameters = C * V
    if problem.fixed is None:
        # Only differences of importances matter.
        parameters += V - 1
    if n * C < parameters:
        warn_user(
            f"{n * C} different outputs for {parameters} parameters: raise num_samples",
            SlalomWarning,
        )
    solution = solver.solve(problem, report, rng)
    s = solution.s
    v = solution.v if ndim == 2 else solution.v[:, 0]
    if solution.problem.background:
        background = {"s_background": float(s[-1]), "v_background": v[-1]}
    else:
        background = {}
    slalom = Slalom(ids=ids, s=s[:V], v=v[:V], gamma=gamma, **background)
    unsure = tuple(int(i) for i in ids[solution.undetermined()])
    if unsure:
        warn_undetermined(slalom, unsure)
    nan = float("nan")
    return SlalomFit(
        slalom=slalom,
        mse=solution.mse,
        fresh_mse=nan,
        fresh_mse_any_size=nan,
        model_calls=0,
        num_samples=n,
        iterations=solution.iterations,
        converged=solution.converged,
        penalty=solution.problem.penalty,
        undetermined=unsure,
        fresh_variance=nan,
        fresh_variance_any_size=nan,
    )


def warn_undetermined(slalom: Slalom, unsure: tuple[int, ...]) -> None:
    """Warn if undetermined importances matter for the scores of the document."""
    effects = np.sum(
        [np.abs(slalom_linearized(slalom, slalom.ids, output=c)) for c in range(slalom.C)], axis=0
    )
    effects_of_unsure = effects[np.isin(slalom.ids, unsure)].sum()
    share = float(effects_of_unsure / max(effects.sum(), 1e-300))
    if share > MATTERS:
        shown = ", ".join(map(str, unsure[:5]))
        if len(unsure) > 5:
            shown += ", ..."
        warn_user(
            f"the samples do not determine the importance of {len(unsure)} of {slalom.V} tokens, "
            f"which make up {share:.0%} of the effects (ids {shown}): raise num_samples, or use "
            f"their effect (slalom_linearized) instead of importance and value",
            SlalomWarning,
        )
