"""One input under one model: the game and the players that all methods and views share.

Everything is computed on first use and then cached.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._lazy import cached_property
from ..._types import Array, Ids, Masks, Span
from ...game.engine.budget import ToleranceError, guaranteed_error
from ...game.links import LinkedGame
from ...game.pooled_game import PooledGame
from ...lime.sampled import LimeSample, lime_sample
from ..models.protocol import FitReport, Model, Remembers, Resolved, Units
from ..models.scale import ExplainedScale

Result = TypeVar("Result")


class ToleranceWarning(UserWarning):
    """Warning that float64 cannot reach the requested accuracy; `Explanation.error` is the bound that holds."""


class Scored(NamedTuple):
    """Scores (d,), the base value that they are relative to, and their errors.

    `error` is guaranteed; `standard_error` (d,) is for methods that sample; `model_calls` counts evaluations of a model
    whose game is only fitted to it.
    """

    scores: Array
    base_value: float
    error: float | None = None
    standard_error: Array | None = None
    model_calls: int | None = None


@dataclass(frozen=True, eq=False)
class Evidence(Remembers):
    """The data that all explanations of one input share: units, settings, and logits (C,).

    With `d` and `value` it also represents the model as a game, for methods that sample.
    """

    model: Model
    units: Units
    settings: Resolved
    logits: Array

    @cached_property
    def pooled(self) -> PooledGame:
        """The game of the players, whose values are logits; for a transformer, the fitted game."""
        return self.model.pooled_game(self.units, self.on_logit.settings)

    @property
    def on_logit(self) -> Evidence:
        """The evidence on the logit scale if the log-odds are not a pooled game; otherwise this evidence.

        Evidence never stores a reference to itself, because its arrays would live until the next garbage collection.
        """
        settings = self.settings
        if not settings.rest or settings.logit is None or self.model.surrogate is not None:
            return self
        logit = settings.logit
        return self.cached("on logit", lambda: Evidence(self.model, self.units, logit, self.logits))

    @property
    def exact(self) -> bool:
        """Whether the model has exact values on the explained scale."""
        return self.model.surrogate is None and self.scale.exact

    @property
    def headline(self) -> str:
        """The method that views show first: exact Shapley values if they exist, otherwise sampled ones."""
        if self.exact:
            return "shapley"
        return "shapley-sampled"

    @property
    def scale(self) -> ExplainedScale:
        """The explained scale."""
        return self.settings.scale

    @cached_property
    def game(self) -> PooledGame | LinkedGame:
        """The game of the players on the explained scale; a fitted game is always on the logit scale."""
        if self.model.surrogate is not None:
            return self.pooled
        if not self.scale.exact:
            raise ValueError(
                f"scale: {self.scale.note}; the methods shapley-sampled, lime-sampled and leave-one-out explain the "
                "probability, and scale='logit' is exact"
            )
        return self.scale.game(self.pooled)

    @cached_property
    def player_of(self) -> Ids:
        """The (n,) player of each unit."""
        return self.units.players(self.settings.players)[0]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each of the d players."""
        return self.units.players(self.settings.players)[1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A different name for each player.

        A word outside the vocabulary keeps its spelling in the text. If several players share a name, it is followed by
        the number of the player, such as "the (3)".
        """
        typed = list(self.labels)
        for j in np.flatnonzero(self.unknown).tolist():
            (start, end), *more = self.spans[j]
            typed[j] = self.units.shown_text[start:end] + (
                " and other unknown words" if more else ""
            )
        count = Counter(typed)
        return tuple(
            f"{name} ({j})" if count[name] > 1 else name for j, name in enumerate(typed, 1)
        )

    @cached_property
    def spans(self) -> tuple[tuple[Span, ...], ...]:
        """The character spans of each player's units in `units.shown_text`."""
        spans: list[list[Span]] = [[] for _ in range(self.d)]
        continues = self.units.continues or (False,) * len(self.units.labels)
        for span, j, more in zip(
            self.units.shown_spans, self.player_of.tolist(), continues, strict=True
        ):
            if more and spans[j] and spans[j][-1][1] <= span[0]:
                span = (spans[j].pop()[0], span[1])
            spans[j].append(span)
        return tuple(map(tuple, spans))

    @cached_property
    def unknown(self) -> tuple[bool, ...]:
        """Flags that are True for players outside the vocabulary."""
        if self.units.unknown is None:
            return (False,) * self.d
        flags = np.ones(self.d, dtype=bool)
        np.logical_and.at(flags, self.player_of, np.asarray(self.units.unknown))
        return tuple(flags.tolist())

    @cached_property
    def logit(self) -> float:
        """The explained logit f of the whole input."""
        return float(self.on_logit.settings.explained(self.logits))

    @cached_property
    def absent_logit(self) -> float:
        """The logit f of the model itself with every player absent."""
        if self.model.surrogate is None:
            return self.pooled.nobody
        nobody = np.zeros((1, self.d), dtype=bool)
        return float(self.model.value(self.units, self.on_logit.settings, nobody)[0])

    @cached_property
    def pooled_base(self) -> float:
        """The value of the empty coalition in `pooled`; for a fitted game, it differs from that of the model."""
        return self.pooled.nobody

    @cached_property
    def prediction(self) -> float:
        """The explained output of the whole input, on the explained scale."""
        return float(self.scale.of(self.settings.explained(self.logits)))

    @cached_property
    def absent_value(self) -> float:
        """The explained output of the model itself with every player absent, on the explained scale."""
        if self.exact:
            return float(self.scale.of(self.pooled.nobody))
        return float(self.value(np.zeros((1, self.d), dtype=bool))[0])

    @cached_property
    def probabilities(self) -> dict[str, float] | None:
        """The probability of each class, or None for a model with one output."""
        chances = self.model.probabilities(self.logits)
        if chances is None:
            return None
        return dict(zip(self.model.outputs, chances.tolist(), strict=True))

    def inside(self, name: str) -> Any:
        """Return internal scores of the model by name (see `Model.inside`), or None if there are none."""
        return self.cached(
            name, lambda: self.model.inside(name, self.units, self.on_logit.settings)
        )

    @cached_property
    def fit(self) -> FitReport | None:
        """The report on the fit of the game to the model, or None for an exact game."""
        return self.model.fit(self.units, self.settings)

    @property
    def d(self) -> int:
        """Number of players."""
        return len(self.labels)

    def value(self, present: Masks) -> Array:
        """Return the (n,) outputs of the model itself for coalitions (n, d), on the explained scale."""
        return self.scale.of(self.model.value(self.units, self.settings, present))

    def sampled_lime(self, runs: int) -> list[LimeSample]:
        """Run sampled LIME on the model itself with different seeds; results are cached."""

        def sample(run: int) -> LimeSample:
            return lime_sample(
                self, self.model.samples, seed=self.settings.seed + run, errors=run == 0
            )

        return [self.cached(("sampled LIME", run), partial(sample, run)) for run in range(runs)]

    def guaranteed(
        self, function: Callable[[Any, float], Result], name: str = ""
    ) -> tuple[Result, float]:
        """Return `function(game, tol)` and its guaranteed error.

        If float64 cannot keep the requested tol, the smallest tol * 10^k that it can keep is used, with a warning.
        """
        tol = self.settings.tol
        while True:
            try:
                result = function(self.game, tol)
                break
            except ToleranceError:
                if tol >= 1:
                    raise
                tol = min(1.0, tol * 10)
        if tol > self.settings.tol:
            warnings.warn(
                f"{name or 'tol'}: float64 cannot keep tol {self.settings.tol:.0e} here; {tol:.0e} is guaranteed",
                ToleranceWarning,
                stacklevel=2,
            )
        return result, guaranteed_error(self.game, tol)

    @cached_property
    def shares(self) -> Array:
        """The (H, d) logarithms of the softmax weights of the players in each head, with all players present."""
        game = self.pooled
        top = np.maximum(game.s.max(axis=1), game.s_background)[:, None]
        total = np.exp(game.s - top).sum(axis=1, keepdims=True) + np.exp(
            game.s_background[:, None] - top
        )
        return np.asarray(game.s - top - np.log(total))

    def pool(self, scores: Array) -> Array:
        """Sum scores of the units (n,) to scores of the players (d,)."""
        return np.bincount(self.player_of, weights=scores, minlength=self.d).astype(np.float64)
