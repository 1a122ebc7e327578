"""Fitting a SLALOM to any black box: SLALOM-eff and SLALOM-fidel (P2, section 5.3 and appendix D).

A black box takes a list of id arrays and returns one output each, or one a class. SLALOM-eff asks it for short
sequences of the document's tokens (Algorithm 1), SLALOM-fidel for the document with a few tokens deleted (Algorithm
2). Where this departs from P2:

- both fits end at the optimum of their mean squared error (`slalom_solvers.py`); `solver="paper"` gives P2's loops
- samples are balanced (`slalom_design.py`), because independent draws leave some tokens out; `design="uniform"` gives
  P2's. No sequence is put to the model twice
- several classes share their importances (C.1); the MSE is summed over them

The optimum of a black box that is no SLALOM may lie at infinity: the mass e^s of a token vanishes, mass times value
stays, because removing the token changes the output but hardly the weights of the others. Then `max_spread` bounds the
difference between the largest and the smallest importance (10 by default; a smaller one makes smaller values and
usually predicts better outside of the samples).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .._types import Array, Ids, Tokens
from .design import DESIGNS, deletions, distinct, short_sequences
from .paper_solvers import alternate, sgd
from .samples import LongSamples, Progress, Samples, ShortSamples
from .slalom import BlackBox, Slalom, as_ids, ask
from .solvers import optimum

SOLVERS = ("optimum", "paper")
# Up to this length a sequence is stored as indices, and a sample costs its length squared; else as a row of counts.
SHORT = 4
# Sequences in one call of the black box: so many that a call's own cost vanishes, so few that progress is seen.
BATCH = 1024
# Seconds of silence before a progress bar appears.
PATIENCE = 1.0


class SlalomWarning(UserWarning):
    """A fit has more parameters than samples, so that they are not determined."""


class SlalomFit(NamedTuple):
    """A fitted SLALOM.

    Attributes
    ----------
    slalom : Slalom on the distinct tokens of the document, in increasing order
    mse : mean squared error on the samples (summed over classes)
    model_calls : sequences put to the black box
    num_samples : samples drawn, of which equal ones were asked for once
    iterations : steps of the solver
    converged : whether the solver stopped by itself, not at its limit
    """

    slalom: Slalom
    mse: float
    model_calls: int
    num_samples: int
    iterations: int
    converged: bool


def slalom_fit_eff(
    f: BlackBox,
    tokens: Tokens,
    num_samples: int = 5000,
    length: int = 2,
    design: str = "balanced",
    solver: str = "optimum",
    gamma: float = 0.0,
    centred: bool = False,
    seed: int | np.random.Generator = 0,
    progress: Progress | bool | None = None,
    **solver_options: Any,
) -> SlalomFit:
    """SLALOM-eff: fitted on short sequences of the document's tokens (P2, Algorithm 1).

    Parameters
    ----------
    f : takes a list of id arrays, returns (n,) outputs, or (n, C) of several classes
    tokens : the document, whose distinct tokens get scores
    num_samples : b of Algorithm 1, 5000 in the paper. A balanced design has at most |V|^length different samples, and
        needs about 2 |V| to determine everything
    length : n of Algorithm 1, 2 in the paper
    design : "balanced" or "uniform" (independent draws, as printed)
    solver : "optimum" (options: max_iter=200, tol=1e-10, max_spread=10) or "paper", the SGD of Algorithm 1
        (options: learning_rate=0.5, batch_size=128, steps=2400)
    gamma : sum of the importances
    centred : subtract the mean over classes from f before fitting, so that Eq. 71 holds
    seed : of the samples; a number or a NumPy Generator
    progress : called with (stage, done, total), stages "model" and "fit". None shows a bar after a second if rich
        is installed and standard error is a terminal; False never does

    Returns
    -------
    SlalomFit

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = slalom_fit_eff(truth.predict_many, [30, 10, 20, 10])
    >>> fit.model_calls, bool(np.allclose(fit.slalom.s, truth.s)), bool(np.allclose(fit.slalom.v, truth.v))
    (9, True, True)
    """
    document, rng = _door(tokens, num_samples, design, solver, seed)
    _at_least("length", length, 1)
    solve = _solver(solver, partial(sgd, rng=rng), solver_options)
    ids = np.unique(document)
    drawn = ids[short_sequences(ids.size, num_samples, length, design, rng)]
    return _fit(f, ids, list(drawn), solve, gamma, centred, progress)


def slalom_fit_fidel(
    f: BlackBox,
    tokens: Tokens,
    num_samples: int = 5000,
    max_deletions: int = 5,
    design: str = "balanced",
    solver: str = "optimum",
    gamma: float = 0.0,
    centred: bool = False,
    seed: int | np.random.Generator = 0,
    progress: Progress | bool | None = None,
    **solver_options: Any,
) -> SlalomFit:
    """SLALOM-fidel: fitted on the document with a few tokens deleted (P2, Algorithm 2).

    Parameters
    ----------
    f, tokens, gamma, centred, seed, progress : as in `slalom_fit_eff`
    num_samples : b of Algorithm 2
    max_deletions : at most so many tokens are deleted at a time, 5 in the paper; one token always stays
    design : "balanced" or "uniform" (independent draws, as printed)
    solver : "optimum" (options: max_iter=200, tol=1e-10, max_spread=10) or "paper", the alternation of Eq. 74
        to 79 (option: rounds=20)

    Returns
    -------
    SlalomFit

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = slalom_fit_fidel(truth.predict_many, [30, 10, 20, 10])
    >>> bool(np.allclose(fit.slalom.s, truth.s)), bool(np.allclose(fit.slalom.v, truth.v)), fit.mse < 1e-25
    (True, True, True)
    """
    document, rng = _door(tokens, num_samples, design, solver, seed)
    _at_least("max_deletions", max_deletions, 1)
    solve = _solver(solver, alternate, solver_options)
    keep = deletions(document.size, num_samples, max_deletions, design, rng)
    return _fit(f, np.unique(document), [document[row] for row in keep], solve, gamma, centred, progress)


def fit_sequences(
    f: Array,
    sequences: Sequence[Ids],
    counts: Array | Ids,
    gamma: float = 0.0,
    progress: Progress | bool = False,
    **solver_options: Any,
) -> SlalomFit:
    """Best SLALOM for given outputs f, (n,) or (n, C), of given sequences, each counted `counts` (n,) times.

    >>> truth = Slalom(ids=[1, 2], s=[-1.0, 1.0], v=[1.0, -1.0])
    >>> sequences = [np.array([1]), np.array([2]), np.array([1, 2])]
    >>> fit_sequences(truth.predict_many(sequences), sequences, np.ones(3)).slalom.s.round(6)
    array([-1.,  1.])
    """
    solve = _solver("optimum", optimum, solver_options)
    with _reporting(progress) as report:
        ids = np.unique(np.concatenate(list(sequences)))
        return _solve(f, ids, sequences, np.asarray(counts, dtype=np.float64), solve, gamma, report)


def _fit(
    f: BlackBox,
    ids: Ids,
    drawn: list[Ids],
    solve: Callable[..., Any],
    gamma: float,
    centred: bool,
    progress: Progress | bool | None,
) -> SlalomFit:
    sequences, counts = distinct(drawn)
    with _reporting(progress) as report:
        parts = []
        for start in range(0, len(sequences), BATCH):
            report("model", start, len(sequences))
            parts.append(ask(f, sequences[start : start + BATCH]))
        if len({part.shape[1:] for part in parts}) > 1:
            raise ValueError(f"f: expected outputs of one shape, got {[part.shape for part in parts]}")
        values = np.concatenate(parts)
        if centred:
            if values.ndim == 1:
                raise ValueError(f"centred: expected a black box of several classes, got outputs {values.shape}")
            values = values - values.mean(axis=1, keepdims=True)
        return _solve(values, ids, sequences, counts.astype(np.float64), solve, gamma, report)


def _solve(
    f: Array,
    ids: Ids,
    sequences: Sequence[Ids],
    counts: Array,
    solve: Callable[..., Any],
    gamma: float,
    report: Progress,
) -> SlalomFit:
    lengths = np.array([len(sequence) for sequence in sequences])
    index = np.searchsorted(ids, np.concatenate(list(sequences)))
    samples: Samples
    if lengths.max() <= SHORT and (lengths == lengths[0]).all():
        samples = ShortSamples(index.reshape(len(sequences), -1), ids.size)
    else:
        cells = np.repeat(np.arange(len(sequences)), lengths) * ids.size + index
        samples = LongSamples(
            np.bincount(cells, minlength=len(sequences) * ids.size).reshape(-1, ids.size).astype(np.float64)
        )
    table = f.reshape(len(f), -1)
    parameters = table.shape[1] * ids.size + ids.size - 1
    if table.size < parameters:
        warnings.warn(
            f"{table.size} different outputs for {parameters} parameters: the fit is not determined; raise num_samples",
            SlalomWarning,
            stacklevel=4,
        )
    s, v, mse, iterations, converged = solve(samples, table, counts / counts.sum(), report)
    slalom = Slalom(ids, s, v if f.ndim == 2 else v[:, 0], gamma)
    return SlalomFit(slalom, mse, len(sequences), int(counts.sum()), iterations, converged)


def _door(
    tokens: Tokens, num_samples: int, design: str, solver: str, seed: int | np.random.Generator
) -> tuple[Ids, np.random.Generator]:
    document = as_ids("tokens", tokens)
    if document.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    _at_least("num_samples", num_samples, 1)
    if design not in DESIGNS:
        raise ValueError(f"design: expected one of {DESIGNS}, got {design!r}")
    if solver not in SOLVERS:
        raise ValueError(f"solver: expected one of {SOLVERS}, got {solver!r}")
    return document, np.random.default_rng(seed)


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {value!r}")


def _solver(solver: str, paper: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """The solver with its options; one that it does not have is an error."""
    chosen = optimum if solver == "optimum" else paper
    known = [p.name for p in signature(chosen).parameters.values() if p.default is not p.empty and p.name != "rng"]
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"{name}: unknown option; solver={solver!r} takes {known}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{name}: expected a positive number, got {value!r}")
    return partial(chosen, **options)


@contextmanager
def _reporting(progress: Progress | bool | None) -> Iterator[Progress]:
    """What the solver reports to: the caller's function, a bar of rich's that waits its time, or nothing."""
    if callable(progress):
        yield progress
        return
    bars = _rich_progress() if progress is True or (progress is None and sys.stderr.isatty()) else None
    if bars is None:
        yield lambda stage, done, total: None
        return
    begin = time.monotonic()
    tasks: dict[str, Any] = {}

    def report(stage: str, done: int, total: int) -> None:
        if time.monotonic() - begin < PATIENCE:
            return
        if not tasks:
            bars.start()
        if stage not in tasks:
            tasks[stage] = bars.add_task(f"SLALOM: {stage}", total=total)
        bars.update(tasks[stage], completed=done)

    try:
        yield report
    finally:
        bars.stop()


def _rich_progress() -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return None
    return Bars(console=Console(stderr=True), transient=True)
