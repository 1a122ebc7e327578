"""Fitting a SLALOM to any black box: SLALOM-eff and SLALOM-fidel (P2, section 5.3 and appendix D).

A black box takes a list of id arrays and returns one output for each, or one per class. SLALOM-eff asks it for short
sequences of the document's tokens (Algorithm 1), SLALOM-fidel for the document with tokens deleted (Algorithm 2).
Where this departs from P2:

- both fits end at the optimum of their mean squared error with a penalty and, where it helps, a background
  (`solvers.py`). `solver=Optimum(penalty=0, background=False)` is least squares alone, `solver="paper"` P2's loops
- SLALOM-fidel also asks for subsets of any size, with a small weight: a fit on the neighbourhood of the document alone
  can be wrong by any amount elsewhere. `any_size=0` leaves them out
- what is absent can be replaced by a token (`replacement`) instead of deleted, and special tokens of the document can
  be kept in all samples (`special`): as they are always there together, only their sum shows, the background
- samples are balanced (`design.py`), because independent draws leave some tokens out; `design="uniform"` gives P2's.
  No sequence is put to the model twice
- a tenth of the samples is kept fresh: they are not fitted, and the error on them stands beside the fit
- several classes share their importances (C.1); the MSE is summed over them. `slalom_fit_classes` gives each its own
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._progress import Report
from .._types import Array, Ids, Tokens
from . import design as designs
from .design import DESIGNS, deletions, short_sequences
from .fitted import Draw, SlalomFit, Wishes, fit_draw
from .recover import BATCH, BlackBox
from .slalom import as_ids
from .solvers import Alternation, Optimum, Sgd, Solver

# One sample of so many is not fitted, but measures the error.
FRESH = 10
# Deletions for each distinct token that are enough; what is left goes to subsets of any size, which get a fifth of the
# samples at least and half of them at most.
ENOUGH = 10


def slalom_fit_eff(
    f: BlackBox,
    tokens: Tokens,
    num_samples: int = 5000,
    length: int = 2,
    design: str = "balanced",
    solver: str | Solver = "optimum",
    gamma: float = 0.0,
    centred: bool = False,
    importances: Mapping[int, float] | None = None,
    seed: int | np.random.Generator = 0,
    progress: Report | bool | None = None,
    batch_size: int = BATCH,
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
    solver : "optimum", which has no background here, because in sequences of one length every token can take a share
        of it; "paper" (the SGD of Algorithm 1); or a solver with its options, such as `Optimum(max_spread=6)` or
        `Sgd(steps=5000)` of `attn_closed_form.slalom.solvers`
    gamma : sum of the importances
    centred : subtract the mean over classes from f before fitting, so that Eq. 71 holds
    importances : importance of each distinct id, if only the values are to be fitted
    seed : of the samples; a number or a NumPy Generator
    progress : called with (stage, done, total), stages "model", "penalty" and "fit". None shows a bar after a second
        if rich is installed and standard error is a terminal; False never does
    batch_size : the most sequences that one call of f gets

    Returns
    -------
    SlalomFit

    Examples
    --------
    >>> from attn_closed_form import Slalom
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = slalom_fit_eff(truth.predict_many, [30, 10, 20, 10])
    >>> fit.model_calls, bool(np.allclose(fit.slalom.s, truth.s)), bool(np.allclose(fit.slalom.v, truth.v))
    (9, True, True)
    """
    document = _document(tokens, num_samples, design)
    _at_least("length", length, 1)
    _at_least("batch_size", batch_size, 1)
    rng = np.random.default_rng(seed)
    chosen = _solver(solver, Optimum(background=False), Sgd())
    ids = np.unique(document)
    num_fresh = num_samples // FRESH
    drawn = list(ids[short_sequences(ids.size, num_samples - num_fresh, length, design, rng)])
    fresh = list(ids[short_sequences(ids.size, num_fresh, length, "uniform", rng)])
    draw = Draw(drawn, np.full(len(drawn), 1 / len(drawn)), fresh, [])
    return fit_draw(f, ids, draw, Wishes(chosen, gamma, centred, importances, rng, progress, batch_size))


def slalom_fit_fidel(
    f: BlackBox,
    tokens: Tokens,
    num_samples: int = 5000,
    max_deletions: int = 5,
    any_size: float = 0.0025,
    design: str = "balanced",
    solver: str | Solver = "optimum",
    gamma: float = 0.0,
    centred: bool = False,
    importances: Mapping[int, float] | None = None,
    seed: int | np.random.Generator = 0,
    progress: Report | bool | None = None,
    batch_size: int = BATCH,
    replacement: int | None = None,
    special: Collection[int] = (),
) -> SlalomFit:
    """SLALOM-fidel: fitted on the document with tokens deleted (P2, Algorithm 2).

    Parameters
    ----------
    f, tokens, gamma, centred, importances, seed, progress, batch_size : as in `slalom_fit_eff`
    num_samples : b of Algorithm 2
    max_deletions : at most so many tokens are deleted at a time, 5 in the paper; one token always stays
    any_size : weight of subsets of any size in the mean squared error, from 0 to 1. They are a fifth to half of the
        samples, or none if it is 0, which is Algorithm 2. Their error is far larger than that of a few deletions, so
        that a small weight goes a long way; 0.5 is for a SLALOM that is to serve at all sizes alike
    replacement : id of a token, such as [MASK] or [PAD], that takes the place of a deleted one; it then has an
        importance and a value of its own. None deletes
    special : ids in the document that are never deleted, such as [CLS] and [SEP] if f does not add them. Together they
        are the background of the SLALOM, whose sequences are without them; with `replacement`, which keeps the length,
        the other tokens take it up
    design : "balanced" or "uniform" (independent draws, as printed)
    solver : "optimum", "paper" (the alternation of Eq. 74 to 79), or a solver with its options, such as
        `Optimum(max_spread=6)` or `Alternation(rounds=100)` of `attn_closed_form.slalom.solvers`

    Returns
    -------
    SlalomFit

    Examples
    --------
    >>> from attn_closed_form import Slalom
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, -1.0, 0.5])
    >>> fit = slalom_fit_fidel(truth.predict_many, [30, 10, 20, 10])
    >>> bool(np.allclose(fit.slalom.s, truth.s)), bool(np.allclose(fit.slalom.v, truth.v)), fit.fresh_mse < 1e-25
    (True, True, True)
    """
    document = _document(tokens, num_samples, design)
    _at_least("max_deletions", max_deletions, 1)
    _at_least("batch_size", batch_size, 1)
    if isinstance(any_size, bool) or not 0 <= any_size <= 1:
        raise ValueError(f"any_size: expected a weight from 0 to 1, got {any_size!r}")
    rng = np.random.default_rng(seed)
    # Where nothing is deleted all sequences have one length, and every token can take its share of a background.
    chosen = _solver(solver, Optimum(background=None if replacement is None else False), Alternation())
    kept = np.isin(document, _specials(special, document, replacement))
    if kept.any() and replacement is None:
        chosen = _with_background(chosen)
    draw = _draw_deletions(
        Deletable(document, kept, replacement), num_samples, max_deletions, float(any_size), design, rng
    )
    own = document[~kept]
    ids = np.unique(own if replacement is None else np.r_[own, replacement])
    return fit_draw(f, ids, draw, Wishes(chosen, gamma, centred, importances, rng, progress, batch_size))


def slalom_fit_classes(
    f: BlackBox, tokens: Tokens, fit: Callable[..., SlalomFit] = slalom_fit_fidel, **options: object
) -> tuple[SlalomFit, ...]:
    """One SLALOM per class, each with importances of its own, from one set of samples.

    Parameters
    ----------
    f : returns (n, C) outputs
    tokens : the document
    fit : `slalom_fit_fidel` or `slalom_fit_eff`
    options : of `fit`; the seed must be a number, so that every class has the same samples

    Returns
    -------
    C fits. The samples are put to the black box once, whatever C is.

    Examples
    --------
    >>> from attn_closed_form import Slalom
    >>> one = Slalom(ids=[1, 2], s=[-1.0, 1.0], v=[1.0, 0.0])
    >>> two = Slalom(ids=[1, 2], s=[1.0, -1.0], v=[0.0, 2.0])
    >>> def f(documents):
    ...     return np.stack([one.predict_many(documents), two.predict_many(documents)], axis=1)
    >>> [fit.slalom.s.round(6).tolist() for fit in slalom_fit_classes(f, [1, 2, 1])]
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    known: dict[bytes, Array] = {}

    def column(c: int) -> BlackBox:
        def answer(sequences: list[Ids]) -> Array:
            new = [sequence for sequence in sequences if sequence.tobytes() not in known]
            if new:
                out = np.asarray(f(new))
                if out.ndim != 2 or len(out) != len(new):
                    raise ValueError(f"f: expected outputs of several classes, ({len(new)}, C), got shape {out.shape}")
                known.update(zip((sequence.tobytes() for sequence in new), out, strict=True))
            return np.array([known[sequence.tobytes()][c] for sequence in sequences])

        return answer

    first = fit(column(0), tokens, **options)
    C = len(next(iter(known.values())))
    return (first, *(fit(column(c), tokens, **options) for c in range(1, C)))


class Deletable(NamedTuple):
    """A document, where it must stay as it is (T,), and what takes the place of a deleted token, None for nothing."""

    document: Ids
    kept: NDArray[np.bool_]
    replacement: int | None

    def sequences(self, masks: NDArray[np.bool_]) -> list[Ids]:
        """The document for each mask (n, T without what is kept) of tokens that stay."""
        stays = np.ones((len(masks), self.document.size), dtype=bool)
        stays[:, ~self.kept] = masks
        if self.replacement is None:
            return [self.document[row] for row in stays]
        return list(np.where(stays, self.document, self.replacement))


def _draw_deletions(
    text: Deletable, num_samples: int, max_deletions: int, share: float, design: str, rng: np.random.Generator
) -> Draw:
    """Samples of Algorithm 2 and, if their weight is positive, subsets of any size."""
    own = text.document[~text.kept]
    T = own.size
    num_fresh = num_samples // FRESH
    fitted = num_samples - num_fresh
    enough = max(ENOUGH * np.unique(own).size, fitted - fitted // 2)
    num_near = min(enough, fitted - fitted // 5) if share > 0 else fitted
    num_far = fitted - num_near
    near = deletions(T, num_near, max_deletions, design, rng)
    far = designs.any_size(T, num_far, rng)
    fresh_far = designs.any_size(T, num_fresh // 2 if share > 0 else 0, rng)
    fresh_near = deletions(T, num_fresh - len(fresh_far), max_deletions, "uniform", rng)
    if num_far == 0:
        share = 0.0
    weight = np.r_[np.full(num_near, (1 - share) / num_near), np.full(num_far, share / max(num_far, 1))]
    # Both kinds are spread evenly, so that every stretch of the samples has its share of each.
    order = np.argsort(np.r_[(np.arange(num_near) + 0.5) / num_near, (np.arange(num_far) + 0.5) / max(num_far, 1)])
    drawn = text.sequences(np.concatenate([near, far])[order])
    return Draw(drawn, weight[order], text.sequences(fresh_near), text.sequences(fresh_far))


def _specials(special: Collection[int], document: Ids, replacement: int | None) -> Ids:
    """Ids that are never deleted, checked."""
    if replacement is not None and (isinstance(replacement, bool) or not isinstance(replacement, int | np.integer)):
        raise ValueError(f"replacement: expected the id of a token or None, got {replacement!r}")
    if isinstance(special, str) or not isinstance(special, Collection):
        raise TypeError(f"special: expected a collection of ids, got {special!r}")
    ids = as_ids("special", list(special)) if len(special) else np.zeros(0, dtype=np.intp)
    if replacement is not None and replacement in ids:
        raise ValueError(f"replacement: expected an id that is not special, got {replacement}")
    if np.isin(document, ids).all():
        raise ValueError("special: expected at least one other token in the document, got special ones alone")
    return ids


def _with_background(solver: Solver) -> Solver:
    if not isinstance(solver, Optimum) or solver.background is False:
        raise ValueError(f"special: expected a solver with a background, such as Optimum(), got {solver!r}")
    return dataclasses.replace(solver, background=True)


def _document(tokens: Tokens, num_samples: int, design: str) -> Ids:
    document = as_ids("tokens", tokens)
    if document.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    _at_least("num_samples", num_samples, 1)
    if design not in DESIGNS:
        raise ValueError(f"design: expected one of {DESIGNS}, got {design!r}")
    return document


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {value!r}")


def _solver(solver: str | Solver, optimum: Solver, paper: Solver) -> Solver:
    if solver == "optimum":
        return optimum
    if solver == "paper":
        return paper
    if isinstance(solver, str) or not hasattr(solver, "solve"):
        raise ValueError(f"solver: expected 'optimum', 'paper' or a solver such as Optimum(), got {solver!r}")
    return solver
