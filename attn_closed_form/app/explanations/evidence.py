"""One input under one model: the game and the players that all methods and views share.

Everything is computed on first use and then cached. What depends on the target is cached here; what
depends on the input, or on a part of the target only, is cached at the units by that part, so that
the explanations of a probability and of its logit, or of another class, compute it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._errors import warn_user
from ..._shapes import cached_arrays, set_fields
from ..._types import Array, Ids, Masks, Span
from ...game.engine.budget import ToleranceError, guaranteed_error
from ...game.game_sum import GameSum
from ...game.links import LinkedGame
from ...game.pooled_game import PooledGame
from ...lime.sampled import LimeSample, lime_sample
from ..models.fit_report import FitReport
from ..models.protocol import NOT_POOLED, Model, NotPooledError
from ..models.scale import ExplainedScale
from ..models.target import ModelGame, Target
from ..models.units import Remembers, Units

Result = TypeVar("Result")
# Groupings whose players are passages of the text, each shown as one piece.
PASSAGES = ("sentences", "turns")


class ToleranceWarning(UserWarning):
    """Warning that float64 cannot reach the requested accuracy; `Explanation.error` is the bound
    that holds.
    """


class Scored(NamedTuple):
    """Scores (d,), the baseline that they are relative to, and their errors.

    `error` is guaranteed; `standard_error` (d,) is for methods that sample; `model_calls` counts
    evaluations of a model whose game is only fitted to it.
    """

    scores: Array
    baseline: float
    error: float | None = None
    standard_error: Array | None = None
    model_calls: int | None = None


@dataclass(frozen=True, eq=False)
class Evidence(Remembers):
    """The data that all explanations of one input share: units, target, and logits (C,).

    An evidence never stores a reference to itself, because its arrays would live until the next
    garbage collection.
    """

    model: Model
    units: Units
    target: Target
    logits: Array

    def __post_init__(self) -> None:
        # The arrays are shared by all explanations of the input.
        self.logits.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        # What was computed from the fields is not stored.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)

    def of_input(self, name: str, compute: Callable[[], Result]) -> Result:
        """Return a result that depends on the input and its players only, computed once for all
        targets.
        """
        return self.units.cached((name, self.target.players), compute)

    def on(self, target: Target) -> Evidence:
        """Return the evidence of the same input for another target."""
        return Evidence(self.model, self.units, target, self.logits)

    # The games.

    @cached_property
    def pooled(self) -> PooledGame:
        """The game of the players, whose values are logits; for a transformer, the fitted game."""
        return self.model.pooled_game(self.units, self.target.pooled)

    @cached_property
    def game(self) -> PooledGame | LinkedGame | GameSum:
        """The game of the players on the explained scale; a fitted game is always on the logit
        scale.

        The logit behind one hidden layer is a sum of games, which has Shapley and Banzhaf values
        but no reasons.
        """
        if self.model.surrogate is not None:
            return self.pooled
        if self.model.tail is not None:
            if self.exact and self.scale.link is None:
                return self.model.hidden_game(self.units, self.target)
            raise NotPooledError(NOT_POOLED)
        # The note of the target says why the probability has no exact values.
        if not self.exact:
            exact = "scale='logit' is exact"
            if self.target.against_rest:
                exact = "scale='logit' and output='margin:A,B' are exact"
            raise ValueError(
                f"scale: {self.target.note}; the methods shapley-sampled, lime-sampled and "
                f"leave-one-out explain the probability, and {exact}"
            )
        return self.scale.game(self.pooled)

    @cached_property
    def model_game(self) -> ModelGame:
        """The model itself as a game on the explained scale, for methods that need only values of
        coalitions.
        """
        return ModelGame(self.model, self.units, self.target)

    @property
    def exact(self) -> bool:
        """Whether the model has exact values on the explained scale."""
        return self.target.exact

    @property
    def is_pooled(self) -> bool:
        """Whether the logit is that of a pooled game, which reasons, curves and shares of attention
        need.
        """
        return self.model.tail is None

    @property
    def has_reasons(self) -> bool:
        """Whether certified reasons exist: the logits are those of a pooled game, which is the
        model itself.
        """
        return self.is_pooled and self.model.surrogate is None

    @property
    def headline(self) -> str:
        """The method that views show first: exact Shapley values if they exist, otherwise sampled
        ones.
        """
        if self.exact:
            return "shapley"
        return "shapley-sampled"

    @property
    def scale(self) -> ExplainedScale:
        """The explained scale."""
        return self.target.scale

    # The players.

    @property
    def d(self) -> int:
        """Number of players."""
        return len(self.labels)

    @cached_property
    def player_of(self) -> Ids:
        """The (n,) player of each unit."""
        return self.units.players(self.target.players)[0]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each of the d players."""
        return self.units.players(self.target.players)[1]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A different name for each player.

        A word outside the vocabulary keeps its spelling in the text. If several players share a
        name, it is followed by the number of the player, such as "the (3)".
        """
        # The label of an unknown word is "[UNK]", which tells a reader nothing.
        typed = list(self.labels)
        for j in np.flatnonzero(self.unknown).tolist():
            start, end = self.spans[j][0]
            typed[j] = self.units.shown_text[start:end]
            if len(self.spans[j]) > 1:
                typed[j] += " and other unknown words"
        count = Counter(typed)
        names = []
        for j, name in enumerate(typed, 1):
            # A name that occurs once needs no number.
            if count[name] > 1:
                names.append(f"{name} ({j})")
            else:
                names.append(name)
        return tuple(names)

    @cached_property
    def spans(self) -> tuple[tuple[Span, ...], ...]:
        """The character spans of each player's units in `units.shown_text`."""
        spans: list[list[Span]] = [[] for _ in range(self.d)]
        continues = self.units.continues
        if continues is None:
            continues = np.zeros(len(self.units.labels), dtype=bool)
        if self.target.players in PASSAGES:
            # The units of a passage are shown as one piece of text.
            continues = np.diff(self.player_of, prepend=-1) == 0
        players = self.player_of.tolist()
        for span, j, is_continued in zip(self.units.shown_spans, players, continues, strict=True):
            # Pieces of one word are shown together, unless the last piece is after this one.
            if is_continued and spans[j] and spans[j][-1][1] <= span[0]:
                start, _ = spans[j].pop()
                span = (start, span[1])
            spans[j].append(span)
        return tuple(map(tuple, spans))

    @cached_property
    def unknown(self) -> tuple[bool, ...]:
        """Flags that are True for players outside the vocabulary."""
        if self.units.unknown is None:
            return (False,) * self.d
        # A player is unknown if all of its units are.
        flags = np.ones(self.d, dtype=bool)
        np.logical_and.at(flags, self.player_of, np.asarray(self.units.unknown))
        return tuple(flags.tolist())

    def pool(self, scores: Array) -> Array:
        """Sum scores of the units (n,) to scores of the players (d,)."""
        return np.bincount(self.player_of, weights=scores, minlength=self.d).astype(np.float64)

    # The prediction.

    @cached_property
    def prediction(self) -> float:
        """The explained output of the whole input, on the explained scale."""
        return float(self.scale.of(self.target.explained(self.logits)))

    @cached_property
    def logit(self) -> float:
        """The explained logit f of the whole input."""
        return float(self.target.pooled.explained(self.logits))

    @cached_property
    def baseline(self) -> float:
        """The explained output of the model itself with every player absent, on the explained
        scale.
        """
        # A fitted game misses the model here, too, so the model itself is evaluated.
        if self.exact and self.is_pooled:
            return float(self.scale.of(self.pooled.baseline))
        return float(self.model_game.value(self._empty_coalition)[0])

    @cached_property
    def absent_logit(self) -> float:
        """The logit f of the model itself with every player absent."""
        if self.model.surrogate is None and self.is_pooled:
            return self.pooled.baseline
        return float(self.logits_of(self._empty_coalition)[0])

    @cached_property
    def pooled_base(self) -> float:
        """The value of the empty coalition in `pooled`; for a fitted game, it differs from that of
        the model.
        """
        return self.pooled.baseline

    @property
    def _empty_coalition(self) -> Masks:
        return np.zeros((1, self.d), dtype=bool)

    def logits_of(self, present: Masks) -> Array:
        """Return the (n,) logits f of the model itself for coalitions (n, d)."""
        return self.model.value(self.units, self.target.pooled, present)

    @cached_property
    def probabilities(self) -> dict[str, float] | None:
        """The probability of each class, or None for a model with one output."""
        chances = self.model.probabilities(self.logits)
        if chances is None:
            return None
        return dict(zip(self.model.outputs, chances.tolist(), strict=True))

    # What methods need.

    def inside(self, name: str) -> Any:
        """Return internal scores of the model by name (see `Model.inside`), or None if there are
        none.
        """
        # Internal scores belong to the logit, so the probability shares them.
        target = self.target.pooled
        return self.units.cached(
            ("inside", name, target.tol, *target.game_key),
            lambda: self.model.inside(name, self.units, target),
        )

    @cached_property
    def fit(self) -> FitReport | None:
        """The report on the fit of the game to the model, or None for an exact game."""
        return self.model.fit(self.units, self.target)

    def sampled_lime(self, runs: int) -> list[LimeSample]:
        """Run sampled LIME on the model itself with different seeds, each once for the input and
        the target.
        """

        def sample(run: int) -> LimeSample:
            # Every run has a seed of its own; with one seed all runs would be the same.
            seed = self.target.seed + run
            # Only the first run is shown with standard errors.
            return lime_sample(self.model_game, self.model.samples, seed=seed, errors=run == 0)

        key = ("sampled LIME", *self.target.value_key)
        return [self.units.cached((*key, run), partial(sample, run)) for run in range(runs)]

    def guaranteed(
        self, function: Callable[[Any, float], Result], name: str = ""
    ) -> tuple[Result, float]:
        """Return `function(game, tol)` and its guaranteed error.

        If float64 cannot guarantee the requested tol, the smallest tol * 10^k that it can is used,
        with a warning.
        """
        tol = self.target.tol
        # Tuning: a tolerance that float64 cannot guarantee is loosened by this factor until it can.
        looser = 10
        while True:
            try:
                # Only the attempt tells whether a tolerance can be reached with this game.
                result = function(self.game, tol)
                break
            except ToleranceError:
                # Beyond 1 the bound would say nothing: the error could be as large as the values.
                if tol >= 1:
                    raise
                tol = min(1.0, tol * looser)
        if tol > self.target.tol:
            warn_user(
                f"{name or 'tol'}: float64 cannot guarantee tol {self.target.tol:.0e} here; "
                f"{tol:.0e} is guaranteed",
                ToleranceWarning,
            )
        # The tolerance is relative to the size of the game, and the reported error is absolute.
        if isinstance(self.game, GameSum):
            return result, tol * self.game.scale
        return result, guaranteed_error(self.game, tol)

    @cached_arrays
    def shares(self) -> Array:
        """The (H, d) logarithms of the softmax weights of the players in each head, with all
        players present.
        """
        game = self.pooled
        # Shifted by the largest log-mass, so that no exponential overflows.
        top = np.maximum(game.s.max(axis=1), game.s_background)[:, None]
        players = np.exp(game.s - top).sum(axis=1, keepdims=True)
        background = np.exp(game.s_background[:, None] - top)
        return np.asarray(game.s - top - np.log(players + background))
