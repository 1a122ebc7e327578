"""Fitting a SLALOM to any black box: SLALOM-eff and SLALOM-fidel (P2, section 5.3 and appendix D).

SLALOM-eff queries the black box with short sequences of the document's tokens (Algorithm 1), SLALOM-fidel with the
document after deletions (Algorithm 2). Where this departs from P2:

- both fits end at the optimum of their mean squared error with a penalty and, where it helps, a background
  (`least_squares.py`)
- SLALOM-fidel also queries subsets of any size, with a small weight: a fit on the neighborhood of the document alone
  can be wrong by any amount elsewhere
- absent tokens can be replaced instead of deleted
- samples are balanced (`design.py`), no sequence is evaluated twice, and a tenth of the samples is held out
- several classes share their importances (C.1); the MSE is summed over them. `fit_slalom_classes` gives each class
  separate ones
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._arrays import finite, number, whole
from .._progress import Report, stages
from .._types import Array, Ids, Masks, Tokens
from . import design as designs
from .least_squares import Optimum, Problem, Solver, counts
from .recover import BATCH, BlackBox, ask, remembered
from .slalom import Slalom, as_ids, slalom_linearized

# One in this many samples is held out to measure the error.
FRESH = 10
# This many deletions per distinct token are enough. The remaining samples are subsets of any size, which get at least a
# fifth and at most half of all samples.
ENOUGH = 10
# Undetermined importances cause a warning if their tokens make up more than this share of all effects alpha |v - F|.
# The result always lists them.
MATTERS = 0.25


class SlalomWarning(UserWarning):
    """Warning that the samples do not fully determine a SLALOM."""


class SlalomFit(NamedTuple):
    """A fitted SLALOM.

    Attributes
    ----------
    slalom : Slalom on the distinct tokens of the document, in increasing order
    mse : weighted mean squared error on the fitted samples (summed over classes)
    fresh_mse : the same on held-out samples of the kind that the paper's algorithm draws; NaN if there
        are fewer than ten samples
    fresh_mse_any_size : the same on held-out subsets of the document of any size; NaN if there are none
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


def fit_slalom(
    f: BlackBox,
    tokens: Tokens,
    kind: str = "fidel",
    num_samples: int = 5000,
    *,
    length: int = 2,
    max_deletions: int = 5,
    any_size: float = 0.0025,
    replacement: int | None = None,
    design: str = "balanced",
    solver: Solver | None = None,
    gamma: float = 0.0,
    importances: Mapping[int, float] | None = None,
    seed: int | np.random.Generator = 0,
    progress: Report | bool | None = None,
    batch_size: int = BATCH,
) -> SlalomFit:
    """Fit a SLALOM to outputs of any model for sampled sequences of a document (P2, Algorithms 1 and 2).

    Parameters
    ----------
    f : takes a list of n id arrays and returns (n,) outputs, or (n, C) for several classes, which share importances
    tokens : the document, whose distinct tokens get scores
    kind : "eff" fits short sequences of the document's tokens (SLALOM-eff, Algorithm 1), "fidel" the document with
        tokens deleted (SLALOM-fidel, Algorithm 2)
    num_samples : b of both algorithms, 5000 in the paper; "eff" needs about 2 |V| to determine everything
    length : ("eff") n of Algorithm 1, 2 in the paper
    max_deletions : ("fidel") maximum number of tokens deleted at a time, 5 in the paper; one token always remains
    any_size : ("fidel") weight of subsets of any size in the mean squared error, from 0, which is Algorithm 2, to 1
    replacement : ("fidel") id of a token, such as [MASK] or [PAD], that replaces a deleted one; it then has
        an importance and a value. None deletes
    design : "balanced" or "uniform" (independent draws, as printed)
    solver : such as `Optimum(max_spread=6)`; None for `Optimum()`, without a background if all lengths are equal
    gamma : sum of the importances
    importances : importance of each distinct id, if only the values are to be fitted
    seed : seed of the samples; a number or a NumPy Generator
    progress : called with (stage, done, total); None shows a bar on a terminal after a second if rich is installed
    batch_size : maximum number of sequences per call of f

    Returns
    -------
    SlalomFit

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = fit_slalom(truth.predict_many, [30, 10, 20, 10])
    >>> bool(np.allclose(fit.slalom.s, truth.s)), bool(np.allclose(fit.slalom.v, truth.v)), fit.fresh_mse < 1e-25
    (True, True, True)
    >>> fit_slalom(truth.predict_many, [30, 10, 20, 10], kind="eff").model_calls  # all pairs of three tokens
    9
    """
    if kind not in ("eff", "fidel"):
        raise ValueError(f"kind: expected 'eff' or 'fidel', got {kind!r}")
    only_fidel = {
        "max_deletions": max_deletions != 5,
        "any_size": any_size != 0.0025,
        "replacement": replacement is not None,
    }
    for name, changed in ({"length": length != 2} if kind == "fidel" else only_fidel).items():
        if changed:
            raise ValueError(
                f"{name}: expected an option of kind={kind!r}, got one of the other kind"
            )
    document = as_ids("tokens", tokens)
    if document.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    numbers = {
        "num_samples": num_samples,
        "length": length,
        "max_deletions": max_deletions,
        "batch_size": batch_size,
    }
    for name, value in numbers.items():
        whole(name, value)
    if design not in designs.DESIGNS:
        raise ValueError(f"design: expected one of {designs.DESIGNS}, got {design!r}")
    number("any_size", any_size, "a weight from 0 to 1", lambda x: 0 <= x <= 1)
    if solver is not None and (isinstance(solver, type) or not hasattr(solver, "solve")):
        raise ValueError(f"solver: expected a solver such as Optimum(), got {solver!r}")
    rng = np.random.default_rng(seed)
    # If all sequences have one length, every token can take its share of a background.
    chosen = solver or Optimum(
        background=False if kind == "eff" or replacement is not None else None
    )
    if kind == "eff":
        ids = np.unique(document)
        fitted = designs.short_sequences(
            ids.size, num_samples - num_samples // FRESH, length, design, rng
        )
        fresh = designs.short_sequences(ids.size, num_samples // FRESH, length, "uniform", rng)
        groups = [list(ids[fitted]), list(ids[fresh]), []]
        share = np.full(len(fitted), 1 / len(fitted))
    else:
        if isinstance(replacement, bool) or not isinstance(replacement, int | np.integer | None):
            raise ValueError(
                f"replacement: expected the id of a token or None, got {replacement!r}"
            )
        masks, share = _deletion_masks(document, num_samples, max_deletions, any_size, design, rng)
        if replacement is None:
            groups = [[document[row] for row in group] for group in masks]
        else:
            groups = [list(np.where(group, document, replacement)) for group in masks]
        ids = np.unique(document if replacement is None else np.r_[document, replacement])
    fixed = None
    if importances is not None:
        if not isinstance(importances, Mapping):
            raise TypeError(
                f"importances: expected a mapping from ids to numbers, got {type(importances).__name__}"
            )
        if missing := [int(i) for i in ids if int(i) not in importances]:
            raise ValueError(
                f"importances: expected one for every id of the document, got none for {missing[:5]}"
            )
        fixed = finite("importances", [importances[int(i)] for i in ids])
    queries, which = designs.distinct([sequence for group in groups for sequence in group])
    fitted_rows, near_rows, far_rows = np.split(
        which, np.cumsum([len(group) for group in groups[:2]])
    )
    with stages("SLALOM", progress) as report:
        outputs = ask(f, queries, batch_size, report)
        weight = np.bincount(fitted_rows, share, len(queries)).astype(np.float64)
        used = np.flatnonzero(weight > 0)
        table = outputs.reshape(len(outputs), -1)
        problem = Problem(
            counts(ids, [queries[i] for i in used]), table[used], weight[used], fixed=fixed
        )
        fit = _solve(problem, ids, outputs.ndim, gamma, chosen, rng, report)

    def error(rows: Ids) -> float:
        if rows.size == 0:
            return float("nan")
        r = outputs[rows] - fit.slalom.predict_many([queries[i] for i in rows])
        return float((r**2).reshape(rows.size, -1).sum(axis=1).mean())

    return fit._replace(
        fresh_mse=error(near_rows),
        fresh_mse_any_size=error(far_rows),
        model_calls=len(queries),
        num_samples=which.size,
    )


def fit_slalom_classes(f: BlackBox, tokens: Tokens, **options: Any) -> tuple[SlalomFit, ...]:
    """Fit one SLALOM per class, each with separate importances, from one set of samples; f returns (n, C) outputs.

    The options are those of `fit_slalom`; the seed must be a number, so that every class has the same samples.

    Parameters
    ----------
    f : takes a list of n id arrays and returns (n, C) outputs
    tokens : the document, whose distinct tokens get scores
    **options : options of `fit_slalom`; the seed must be a number

    Returns
    -------
    C SlalomFits, one per class

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

    first = fit_slalom(partial(of_class, 0), tokens, **options)
    C = len(next(iter(known.values())))
    return (first, *(fit_slalom(partial(of_class, c), tokens, **options) for c in range(1, C)))


def fit_sequences(
    f: Array,
    sequences: Sequence[Ids],
    weight: Array | Ids,
    gamma: float = 0.0,
    solver: Solver | None = None,
    seed: int = 0,
) -> SlalomFit:
    """Fit the best SLALOM to given outputs f, (n,) or (n, C), of given sequences with positive weights (n,)."""
    ids = np.unique(np.concatenate(list(sequences)))
    shares = np.asarray(weight, dtype=np.float64) / float(np.sum(weight))
    rng = np.random.default_rng(seed)
    outputs = np.asarray(f)
    problem = Problem(counts(ids, sequences), outputs.reshape(len(outputs), -1), shares)
    with stages("SLALOM", False) as report:
        return _solve(problem, ids, outputs.ndim, gamma, solver or Optimum(), rng, report)


def _deletion_masks(
    document: Ids,
    num_samples: int,
    max_deletions: int,
    share: float,
    design: str,
    rng: np.random.Generator,
) -> tuple[list[Masks], Array]:
    """Draw samples to fit with their weights, held-out deletions and held-out subsets of any size."""
    T = document.size
    num_fresh = num_samples // FRESH
    fitted = num_samples - num_fresh
    enough = max(ENOUGH * np.unique(document).size, fitted - fitted // 2)
    if share > 0:
        num_near = min(enough, fitted - fitted // 5)
    else:
        num_near = fitted
    num_far = fitted - num_near
    near = designs.deletions(T, num_near, max_deletions, design, rng)
    far = designs.any_size(T, num_far, rng)
    fresh_far = designs.any_size(T, num_fresh // 2 if share > 0 else 0, rng)
    fresh_near = designs.deletions(T, num_fresh - len(fresh_far), max_deletions, "uniform", rng)
    if num_far == 0:
        share = 0.0
    weight = np.r_[
        np.full(num_near, (1 - share) / num_near), np.full(num_far, share / max(num_far, 1))
    ]
    # Both kinds are spread evenly, so that every stretch of the samples has its share of each.
    order = np.argsort(
        np.r_[(np.arange(num_near) + 0.5) / num_near, (np.arange(num_far) + 0.5) / max(num_far, 1)]
    )
    return [np.concatenate([near, far])[order], fresh_near, fresh_far], weight[order]


def _solve(
    problem: Problem,
    ids: Ids,
    ndim: int,
    gamma: float,
    solver: Solver,
    rng: np.random.Generator,
    report: Report,
) -> SlalomFit:
    """Return the fit without its errors on held-out samples; `ndim` of the outputs is 1 if there is one class."""
    V = ids.size
    (n, C) = problem.f.shape
    parameters = C * V + (V - 1 if problem.fixed is None else 0)
    if n * C < parameters:
        _warn(f"{n * C} different outputs for {parameters} parameters: raise num_samples")
    solution = solver.solve(problem, report, rng)
    s = solution.s
    v = solution.v if ndim == 2 else solution.v[:, 0]
    if solution.problem.background:
        background = {"s_background": float(s[-1]), "v_background": v[-1]}
    else:
        background = {}
    slalom = Slalom(ids, s[:V], v[:V], gamma, **background)
    unsure = tuple(int(i) for i in ids[solution.undetermined()])
    if unsure:
        _warn_undetermined(slalom, unsure)
    nan = float("nan")
    steps = (solution.iterations, solution.converged)
    return SlalomFit(slalom, solution.mse, nan, nan, 0, n, *steps, solution.problem.penalty, unsure)


def _warn_undetermined(slalom: Slalom, unsure: tuple[int, ...]) -> None:
    """Warn if undetermined importances matter for the scores of the document."""
    effects = np.sum(
        [np.abs(slalom_linearized(slalom, slalom.ids, output=c)) for c in range(slalom.C)], axis=0
    )
    share = float(effects[np.isin(slalom.ids, unsure)].sum() / max(effects.sum(), 1e-300))
    if share > MATTERS:
        shown = ", ".join(map(str, unsure[:5])) + (", ..." if len(unsure) > 5 else "")
        _warn(
            f"the samples do not determine the importance of {len(unsure)} of {slalom.V} tokens, which make up "
            f"{share:.0%} of the effects (ids {shown}): raise num_samples, or use their effect (slalom_linearized) "
            "instead of importance and value"
        )


def _warn(message: str) -> None:
    warnings.warn(message, SlalomWarning, stacklevel=4)
