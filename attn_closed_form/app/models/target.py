"""What is explained, and the model itself as a game of it.

A `Target` is a number that a model predicts for an input, together with the players and the
treatment of absent ones: f = coefficients @ logits, or a function of it, such as the probability.
`Settings.resolve` makes it from the settings of a user. Results that depend on a part of the target
only, such as the game of its logit, are cached at the units by that part, so that a target and its
logit share them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._types import Array, Masks
from ...game.orders import ClassProbability, LinkedDirection
from ...game.sampled import ShapleySample, shapley_sample
from .scale import LOGIT, ExplainedScale

if TYPE_CHECKING:
    from .protocol import Model
    from .units import Units


@dataclass(frozen=True)
class Target:
    """What is explained, with all defaults filled in, as passed to `Model.game` and `Model.inside`.

    Attributes
    ----------
    players : the units that get scores, a grouping of the input
    absent : treatment of absent players
    output : name of the explained output
    coefficients : (C,) coefficients of the explained logit f = coefficients @ logits
    tol : requested accuracy, relative to max|f|
    seed : seed of the methods that sample
    against_rest : whether f is the log-odds of one class against all others together, times the
        temperature; the coefficients then name the class
    scale : the scale on which f is explained
    exact : whether the model has a game on that scale
    note : the reason for explaining the logit if one might expect the probability; otherwise ""
    logit : the target of the same question before any link; None if this target has no link
    max_error : largest standard error that is wanted of sampled values, on the explained scale;
    None
        for the default
    """

    players: str
    absent: str
    output: str
    coefficients: tuple[float, ...]
    tol: float
    seed: int
    against_rest: bool = False
    scale: ExplainedScale = LOGIT
    exact: bool = True
    note: str = ""
    logit: Target | None = None
    max_error: float | None = None

    @property
    def pooled(self) -> Target:
        """The target whose logit is that of a pooled game.

        Log-odds against several classes together are not a pooled game, so their logit takes its
        place.
        """
        if self.against_rest and self.logit is not None:
            return self.logit
        return self

    @property
    def unlinked(self) -> Target:
        """The target of the same logit f without the link, which may be the log-odds against
        several classes.
        """
        if self.scale.link is None:
            return self
        scale = replace(self.scale, name=LOGIT.name)
        return replace(self, scale=scale, logit=None)

    def with_players(self, players: str) -> Target:
        """Return the same target for other players; its logit has them, too."""
        logit = self.logit
        if logit is not None:
            logit = logit.with_players(players)
        return replace(self, players=players, logit=logit)

    @property
    def game_key(self) -> tuple[Any, ...]:
        """The parts of the target that the game of the logit depends on, as a key for caches."""
        # The seed matters for a game that is fitted to samples of the model.
        return ("game", self.players, self.absent, self.coefficients, self.against_rest, self.seed)

    @property
    def value_key(self) -> tuple[Any, ...]:
        """The parts of the target that values of the model on the explained scale depend on."""
        return (*self.game_key, self.scale.name, self.scale.temperature, self.max_error)

    def explained(self, logits: Array) -> Array:
        """Return the explained logit f, (...), for logits (..., C)."""
        coefficients = np.asarray(self.coefficients)
        temperature = self.scale.temperature
        total = np.asarray(logits) @ coefficients
        if not self.against_rest:
            return total
        others = np.where(coefficients != 0, -np.inf, np.asarray(logits) / temperature)
        return np.asarray(total - temperature * np.logaddexp.reduce(others, axis=-1))


@dataclass(frozen=True, eq=False)
class ModelGame:
    """The model itself as a game of the players of one input, for methods that only need values of
    coalitions.

    For a model whose exact game exists, it has the same values. For a transformer, or a probability
    without an exact game, this is the only game of the model.
    """

    model: Model
    units: Units
    target: Target

    @property
    def d(self) -> int:
        """Number of players."""
        return len(self.units.players(self.target.players)[1])

    def value(self, present: Masks) -> Array:
        """Return the (n,) outputs of the model for coalitions (n, d), on the explained scale."""
        return self.target.scale.of(self.model.value(self.units, self.target, present))

    def _of_logits(self, logits: Array) -> Array:
        """Return the explained output (n,) for logits (n, C)."""
        return self.target.scale.of(self.target.explained(logits))

    @property
    def max_error(self) -> float | None:
        """The largest standard error that is wanted; None for a transformer, whose calls are
        limited instead, or for 0.5% of the largest value.
        """
        if self.target.max_error is not None:
            return self.target.max_error
        if self.target.scale.in_percent and self.model.surrogate is None:
            # Sampled probabilities of pooled models are refined until their largest standard error
            # is 0.05 percentage points.
            return 5e-4
        return None

    def shapley(self) -> ShapleySample:
        """Sample the Shapley values, once for each input and target."""
        key = ("sampled Shapley values", *self.target.value_key)
        return self.units.cached(key, self._sample)

    def _sample(self) -> ShapleySample:
        """Sample the Shapley values of the target, by the sampler that knows most about it."""
        target = self.target
        max_error = self.max_error
        if self.model.tail is not None:
            game = self.model.tail_game(self.units, target, self._of_logits)
            return shapley_sample(game, seed=target.seed, max_error=max_error)
        if self.model.surrogate is None and target.against_rest:
            # One class among several: the probabilities are a softmax of pooled logits.
            chosen = int(np.flatnonzero(target.coefficients)[0])
            tail = ClassProbability(chosen, target.scale.temperature)
            game = self.model.tail_game(self.units, target, tail)
            return shapley_sample(game, seed=target.seed, max_error=max_error)
        link = target.scale.link
        if self.model.surrogate is None and link is not None:
            direction = LinkedDirection(np.asarray(target.coefficients), link)
            game = self.model.tail_game(self.units, target, direction)
            return shapley_sample(game, seed=target.seed, max_error=max_error)
        # The sampler fits its control variates to logits, and applies the link itself.
        logits = replace(self, target=target.unlinked)
        most = self.model.samples
        if target.max_error is None:
            return shapley_sample(logits, most, target.seed, link)
        # Tuning: calls before the first look at the standard error; twice as many follow as long as
        # it is too large. From fewer, the fitted control is poor.
        first_calls = 1000
        return shapley_sample(
            logits, min(first_calls, most), target.seed, link, target.max_error, most_calls=most
        )
