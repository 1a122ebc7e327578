"""The surrogate of a transformer around one text: a fitted SLALOM, the game that it plays, and how wrong it is.

Every sequence is put to the transformer once per text: fits for other classes, margins and players use the same
samples and cost no model calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._types import Array, Ids
from ..game.pooled_game import PooledGame
from ..slalom.fit import SlalomFit, SlalomWarning, fit_slalom
from .protocol import FEW, FitReport, Resolved, Units
from .scores import PooledScores


@dataclass(eq=False)
class Document:
    """The ids of a text, and what the model has said about parts of it."""

    ids: Ids
    known: dict[bytes, Array] = field(default_factory=dict, repr=False)
    fits: dict[tuple[Any, ...], tuple[SlalomFit, FitReport]] = field(default_factory=dict, repr=False)

    def ask(self, f: Callable[[list[Ids]], Array], sequences: Sequence[Ids]) -> Array:
        """(n, C) outputs; sequences that were asked before, or that occur twice, cost nothing."""
        keys = [np.asarray(sequence, dtype=np.intp).tobytes() for sequence in sequences]
        new = {key: sequence for key, sequence in zip(keys, sequences, strict=True) if key not in self.known}
        if new:
            self.known.update(zip(new, f(list(new.values())), strict=True))
        return np.array([self.known[key] for key in keys])


def surrogate(model: Any, units: Units, settings: Resolved) -> tuple[PooledGame, FitReport]:
    """The game of the SLALOM that is fitted to a transformer around a text.

    Parameters
    ----------
    model : TransformerClassifier
    units : with a `Document` as their data
    settings : with every choice made

    Returns
    -------
    the game, and how well it fits the transformer
    """
    document: Document = units.data
    key = (settings.absent, settings.coefficients, settings.rest, settings.seed)
    if key not in document.fits:
        document.fits[key] = _fit(model, units, settings)
    fit, report = document.fits[key]
    slalom = fit.slalom
    index = slalom.index(document.ids)
    absent: tuple[Array, Array] | tuple[None, None] = (None, None)
    if settings.absent != "deleted":
        stand_in = np.broadcast_to(slalom.index([model.absent_id(settings)]), index.shape)
        absent = slalom.s[None, stand_in], slalom.v[None, stand_in]
    background = slalom.s_background > -np.inf
    scores = PooledScores(
        slalom.s[None, index],
        slalom.v[None, index],
        np.zeros(1),
        s_absent=absent[0],
        v_absent=absent[1],
        s_background=np.array([slalom.s_background]),
        v_background=np.reshape(slalom.v_background, 1) if background else np.zeros(1),
        empty_value=settings.explained(document.ask(model, [document.ids[:0]])),
    )
    return scores.game([1.0], *units.players(settings.players)), report


def _fit(model: Any, units: Units, settings: Resolved) -> tuple[SlalomFit, FitReport]:
    document: Document = units.data

    def f(sequences: list[Ids]) -> Array:
        return settings.explained(document.ask(model, sequences))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)  # said below, with the tokens instead of their ids
        fit = fit_slalom(
            f,
            document.ids,
            num_samples=model.samples,
            max_deletions=FEW,
            seed=settings.seed,
            progress=False,
            batch_size=model.samples,
            replacement=None if settings.absent == "deleted" else model.absent_id(settings),
        )
    near, far = _spreads(document, settings)
    names = {int(i): label for i, label in zip(document.ids, units.labels, strict=True)}
    report = FitReport(
        name=model.surrogate,
        error=float(np.sqrt(fit.fresh_mse)),
        spread=near,
        error_any_size=float(np.sqrt(fit.fresh_mse_any_size)),
        spread_any_size=far,
        at_text=float(f([document.ids])[0] - fit.slalom.predict(document.ids)),
        model_calls=fit.model_calls,
        undetermined=tuple(names.get(i, settings.absent) for i in fit.undetermined),
    )
    if report.undetermined and not document.fits:
        warnings.warn(report.sentences()[-1], SlalomWarning, stacklevel=4)
    return fit, report


def _spreads(document: Document, settings: Resolved) -> tuple[float, float]:
    """Standard deviation of the model's output over what it was asked, with few and with any number absent."""
    T = document.ids.size
    sequences = [np.frombuffer(key, dtype=np.intp) for key in document.known]
    few = np.array([(s != document.ids).sum() <= FEW if s.size == T else T - s.size <= FEW for s in sequences])
    values = settings.explained(np.array(list(document.known.values())))
    return tuple(float(values[part].std()) if part.any() else float("nan") for part in (few, ~few))  # type: ignore[return-value]
