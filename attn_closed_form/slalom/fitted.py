"""From samples and outputs to a fitted SLALOM: asking, solving, the error on fresh samples, and what to warn of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._progress import Report, stages
from .._types import Array, Ids
from .black_box import BATCH, BlackBox, ask_in_batches
from .design import distinct
from .least_squares import Problem
from .samples import count_tokens
from .slalom import Slalom
from .solvers import Optimum, Solver


class SlalomWarning(UserWarning):
    """The samples do not determine a SLALOM, in whole or in part."""


class SlalomFit(NamedTuple):
    """A fitted SLALOM.

    Attributes
    ----------
    slalom : Slalom on the distinct tokens of the document, in increasing order
    mse : mean squared error on the samples that were fitted, as they are weighted (summed over classes)
    fresh_mse : the same on samples that were not fitted, of the kind that the paper's algorithm draws; NaN if there
        are fewer than ten samples
    fresh_mse_any_size : the same on fresh subsets of the document of any size; NaN where none were asked for
    model_calls : sequences put to the black box
    num_samples : samples drawn, of which equal ones were asked for once
    iterations : steps of the solver
    converged : whether the solver stopped by itself, not at its limit
    penalty : which the solver chose or was given; 0 for an exact SLALOM
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


class Draw(NamedTuple):
    """Sequences to fit with their weights, and two lists of fresh ones."""

    sequences: list[Ids]
    weight: Array
    fresh: list[Ids]
    fresh_any_size: list[Ids]


class Wishes(NamedTuple):
    """What a caller wants of a fit, besides its samples."""

    solver: Solver
    gamma: float
    centred: bool
    importances: Mapping[int, float] | None
    rng: np.random.Generator
    progress: Report | bool | None
    batch_size: int


def fit_draw(f: BlackBox, ids: Ids, draw: Draw, wishes: Wishes) -> SlalomFit:
    """Ask the black box for all sequences of a draw, fit, and measure the error on the fresh ones."""
    everything = [*draw.sequences, *draw.fresh, *draw.fresh_any_size]
    asked, which = distinct(everything)
    n, m = len(draw.sequences), len(draw.fresh)
    with stages("SLALOM", wishes.progress) as report:
        values = ask_in_batches(f, asked, report, wishes.batch_size)
        if wishes.centred:
            if values.ndim == 1:
                raise ValueError(f"centred: expected a black box of several classes, got outputs {values.shape}")
            values = values - values.mean(axis=1, keepdims=True)
        weight: Array = np.bincount(which[:n], draw.weight, len(asked)).astype(np.float64)
        used = np.flatnonzero(weight > 0)
        fit = _solve(values[used], ids, [asked[i] for i in used], weight[used], wishes, report)

    def error(rows: Ids) -> float:
        if rows.size == 0:
            return float("nan")
        rest = values[rows] - fit.slalom.predict_many([asked[i] for i in rows])
        return float((rest**2).reshape(rows.size, -1).sum(axis=1).mean())

    return fit._replace(
        fresh_mse=error(which[n : n + m]),
        fresh_mse_any_size=error(which[n + m :]),
        model_calls=len(asked),
        num_samples=len(everything),
    )


def _solve(f: Array, ids: Ids, sequences: list[Ids], weight: Array, wishes: Wishes, report: Report) -> SlalomFit:
    table = f.reshape(len(f), -1)
    C, V = table.shape[1], ids.size
    fixed = _fixed(wishes.importances, ids)
    parameters = C * V + (V - 1 if fixed is None else 0)
    if table.size < parameters:
        _warn(f"{table.size} different outputs for {parameters} parameters: raise num_samples")
    problem = Problem(count_tokens(ids, sequences), table, weight, fixed=fixed)
    found = wishes.solver.solve(problem, report, wishes.rng)
    unsure = () if found.undetermined is None else tuple(int(i) for i in ids[found.undetermined])
    if unsure:
        shown = ", ".join(map(str, unsure[:5])) + (", ..." if len(unsure) > 5 else "")
        _warn(
            f"the samples do not determine the importance of {len(unsure)} of {V} tokens (ids {shown}); theirs come "
            "from the penalty, and their values with them"
        )
    s, v = found.s, found.v if f.ndim == 2 else found.v[:, 0]
    background = {"s_background": float(s[-1]), "v_background": v[-1]} if found.background else {}
    slalom = Slalom(ids, s[:V], v[:V], wishes.gamma, **background)
    nothing = float("nan")
    return SlalomFit(
        slalom, found.mse, nothing, nothing, 0, len(f), found.iterations, found.converged, found.penalty, unsure
    )


def _warn(message: str) -> None:
    warnings.warn(f"{message}", SlalomWarning, stacklevel=5)


def _fixed(importances: Mapping[int, float] | None, ids: Ids) -> Array | None:
    if importances is None:
        return None
    if not isinstance(importances, Mapping):
        raise TypeError(f"importances: expected a mapping from ids to numbers, got {type(importances).__name__}")
    missing = [int(i) for i in ids if int(i) not in importances]
    if missing:
        raise ValueError(f"importances: expected one for every id of the document, got none for {missing[:5]}")
    s = np.array([importances[int(i)] for i in ids], dtype=np.float64)
    if not np.isfinite(s).all():
        raise ValueError(f"importances: expected finite numbers, got {s[~np.isfinite(s)][0]}")
    return s


def fit_sequences(
    f: Array,
    sequences: Sequence[Ids],
    weight: Array | Ids,
    gamma: float = 0.0,
    solver: Solver | None = None,
    seed: int = 0,
) -> SlalomFit:
    """Best SLALOM for given outputs f, (n,) or (n, C), of given sequences with positive weights (n,).

    >>> truth = Slalom(ids=[1, 2], s=[-1.0, 1.0], v=[1.0, -1.0])
    >>> sequences = [np.array([1]), np.array([2]), np.array([1, 2])]
    >>> fit_sequences(truth.predict_many(sequences), sequences, np.ones(3)).slalom.s.round(6)
    array([-1.,  1.])
    """
    ids = np.unique(np.concatenate(list(sequences)))
    share = np.asarray(weight, dtype=np.float64)
    wishes = Wishes(solver or Optimum(), gamma, False, None, np.random.default_rng(seed), False, BATCH)
    with stages("SLALOM", False) as report:
        return _solve(np.asarray(f), ids, list(sequences), share / share.sum(), wishes, report)
