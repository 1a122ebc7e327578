"""From samples and outputs to a fitted SLALOM: asking, solving, the error on fresh samples, and what to warn of."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._progress import Report, stages
from .._types import Array, Ids
from .design import distinct
from .least_squares import Problem
from .recover import BATCH, BlackBox, ask
from .samples import count_tokens
from .slalom import Slalom, slalom_linearized
from .solvers import Optimum, Solver

# Importances that are not determined are worth a warning if their tokens make up more than this share of all effects
# alpha |v - F|; the result names them in any case.
MATTERS = 0.25
NOT_MEASURED = "not measured on fresh samples"


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

    def table(self, names: Mapping[int, str] | None = None, output: int = 0) -> str:
        """Scores of all tokens as text, the heaviest first, with the errors that they come with.

        Parameters
        ----------
        names : what to call each id; ids themselves by default
        output : class whose values are shown

        Examples
        --------
        >>> truth = Slalom(ids=[1, 2], s=[-1.0, 1.0], v=[1.0, -1.0])
        >>> sequences = [np.array([1]), np.array([2]), np.array([1, 2])]
        >>> print(fit_sequences(truth.predict_many(sequences), sequences, np.ones(3)).table({1: "good"}))
        token  importance     value
        2          +1.000    -1.000
        good       -1.000    +1.000
        not measured on fresh samples
        """
        slalom = self.slalom
        values, background = slalom._class_values(output)
        called = [str((names or {}).get(int(i), int(i))) for i in slalom.ids]
        unsure = set(self.undetermined)
        marked = [name + "?" * (int(i) in unsure) for name, i in zip(called, slalom.ids, strict=True)]
        rows = [(marked[j], slalom.s[j], values[j]) for j in np.argsort(-slalom.s, kind="stable")]
        if slalom.s_background > -np.inf:
            rows.append(("(background)", slalom.s_background, background))
        width = max(5, *(len(row[0]) for row in rows))
        lines = [f"{'token':{width}}  importance     value"]
        lines += [f"{name:{width}}  {s:+10.3f}  {v:+8.3f}" for name, s, v in rows]
        if unsure:
            lines.append("? the samples do not determine this importance, and the value with it")
        errors = [("with a few tokens deleted", self.fresh_mse), ("on subsets of any size", self.fresh_mse_any_size)]
        said = [f"{np.sqrt(mse):.3g} {where}" for where, mse in errors if not np.isnan(mse)]
        lines.append("root mean squared error on fresh samples: " + ", ".join(said) if said else NOT_MEASURED)
        return "\n".join(lines)


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
        values = ask(f, asked, wishes.batch_size, report)
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
        rest = values[rows] - fit.slalom.predict_many(_known([asked[i] for i in rows], ids))
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
    problem = Problem(count_tokens(ids, _known(sequences, ids)), table, weight, fixed=fixed)
    found = wishes.solver.solve(problem, report, wishes.rng)
    unsure = () if found.undetermined is None else tuple(int(i) for i in ids[found.undetermined])
    s, v = found.s, found.v if f.ndim == 2 else found.v[:, 0]
    background = {"s_background": float(s[-1]), "v_background": v[-1]} if found.background else {}
    slalom = Slalom(ids, s[:V], v[:V], wishes.gamma, **background)
    if unsure:
        _warn_undetermined(slalom, unsure)
    nothing = float("nan")
    return SlalomFit(
        slalom, found.mse, nothing, nothing, 0, len(f), found.iterations, found.converged, found.penalty, unsure
    )


def _known(sequences: list[Ids], ids: Ids) -> list[Ids]:
    """The sequences without tokens that have no scores, such as special ones."""
    flat = np.concatenate(sequences)
    known = np.isin(flat, ids)
    if known.all():
        return sequences
    ends = np.cumsum([len(sequence) for sequence in sequences])[:-1]
    return [part[own] for part, own in zip(sequences, np.split(known, ends), strict=True)]


def _warn_undetermined(slalom: Slalom, unsure: tuple[int, ...]) -> None:
    """Say so if undetermined importances matter for what the SLALOM says of the document."""
    per_class = [np.abs(slalom_linearized(slalom, slalom.ids, output=c)) for c in range(slalom.C)]
    effects = np.sum(per_class, axis=0)
    share = float(effects[np.isin(slalom.ids, unsure)].sum() / max(effects.sum(), 1e-300))
    if share > MATTERS:
        shown = ", ".join(map(str, unsure[:5])) + (", ..." if len(unsure) > 5 else "")
        _warn(
            f"the samples do not determine the importance of {len(unsure)} of {slalom.V} tokens, which make up "
            f"{share:.0%} of the effects (ids {shown}): raise num_samples, or read their effect (slalom_linearized), "
            "not importance and value apart"
        )


def _warn(message: str) -> None:
    warnings.warn(message, SlalomWarning, stacklevel=5)


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
