"""The interface of a model that can be explained: its prediction is a softmax-pooled game.

A model reads an input as *units* (the tokens of a text, the instances of a bag, the rows of a
table) and scores them (`PooledScores`); logits, attention and games follow from the scores.
Methods, tables, reports, plots, JSON, runs and the page work for every such model. A new kind of
model is one module with one class, derived from `TextModel`, `BagModel` or `TableModel`, which say
what an input is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._arrays import check, positive, softmax, usual_float_errors
from ..._types import Array, Label, Masks
from ...game.game_sum import GameSum
from ...game.hidden_layer import HiddenLayer, hidden_layer_game
from ...game.pooled_game import PooledGame
from ...game.scores import PooledScores
from ...game.tails import Tail, TailGame
from .fit_report import FitReport
from .scale import PLAIN
from .target import Target
from .units import Units

if TYPE_CHECKING:
    from ..explanations.explanation import Explanations
    from ..explanations.many import ManyExplanations


# The reason why a model with a tail lacks a method.
NOT_POOLED = (
    "a nonlinear layer follows the pooling of this network, so its logit is not a pooled game; "
    "the methods shapley-sampled, lime-sampled and leave-one-out explain it"
)


class NotPooledError(ValueError):
    """Error of a method that needs a pooled game, for a network with a nonlinear layer after its
    pooling.
    """


@dataclass(frozen=True)
class ComposedTail:
    """A function of the logits of a model with a tail, as a function of its pooled vectors."""

    tail: Tail
    of_logits: Tail

    def __call__(self, vectors: Array) -> Array:
        """Compute the function from pooled vectors (n, m)."""
        return self.of_logits(np.asarray(self.tail(vectors), dtype=np.float64))


class Model:
    """Base class of models that can be explained exactly, or through a game that is fitted to them.

    A subclass names its `outputs`, `groupings` and `absences`, reads an input into units (`read`)
    and scores them (`scores`). Everything else has a default.

    Attributes
    ----------
    outputs : class names in the order of the C logits; two names for C = 1, whose logit is the
        log-odds of the second
    labels : what `predict` returns instead of these names: the labels of the training data, which
        may be integers, booleans or other numbers; () for the names
    groupings : possible kinds of players, the default first, such as ("words", "positions")
    absences : possible treatments of absent players, the default first, such as ("unk", "deleted")
    temperature : divides the logits in probabilities (explained ones included) but nowhere else
    loss : meaning of the logits: "softmax" for classes, "sigmoid" for labels with separate
        probabilities, "identity" for values without a probability, "exp" for log-risks
    input_name : what one input is called in messages
    surrogate : name of the fit if the game is fitted to the model, such as "fitted SLALOM"; None if
        the game is exact
    samples : maximum number of coalitions that a sampling method evaluates
    doubts : unchecked assumptions about the model, which every output reports; "" if there are none
    """

    outputs: tuple[str, ...]
    labels: tuple[Label, ...] = ()
    groupings: tuple[str, ...]
    absences: tuple[str, ...]
    temperature: float = 1.0
    loss: str = "softmax"
    input_name: str = "input"
    surrogate: str | None = None
    doubts: str = ""
    samples: int = 5000  # the default of the lime package

    def default_players(self, units: Units) -> str:
        """Return the kind of players that an input is explained with by default."""
        return self.groupings[0]

    def read(self, raw: Any) -> Units:
        """Read one input, or raise a ValueError that describes what is wrong with it."""
        raise NotImplementedError

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the units of one input."""
        raise NotImplementedError

    def pooled(self, units: Units) -> PooledScores:
        """Return `scores`, computed once per input."""
        computed = units.computed
        if computed.scores is None:
            computed.scores = self.scores(units)
        return computed.scores

    @property
    def tail(self) -> Tail | None:
        """What follows the pooling, from pooled vectors (n, m) to logits (n, C).

        It is None if the pooled vectors are the logits. With a tail, `pooled` has m outputs instead
        of C.
        """
        return None

    @property
    def hidden_layer(self) -> HiddenLayer | None:
        """The tail, if it is one hidden layer behind which logits have exact values."""
        return None

    def logits(self, units: Units) -> Array:
        """Return the (C,) logits of the whole input."""
        # Cached with the units and not with the model, which may be used by several threads.
        computed = units.computed
        if computed.logits is None:
            pooled = self.pooled(units).logits()
            if self.tail is None:
                computed.logits = pooled
            else:
                computed.logits = np.asarray(self.tail(pooled[None]), dtype=np.float64)[0]
        return computed.logits

    def game(self, units: Units, target: Target) -> PooledGame:
        """Return the game with the players and the output of the target."""
        if self.tail is not None:
            raise NotPooledError(NOT_POOLED)
        players, names = units.players(target.players)
        return self.pooled(units).game(
            target.coefficients, players, names, target.absent == "deleted"
        )

    def tail_game(self, units: Units, target: Target, tail: Tail) -> TailGame:
        """Return the game of a function of all logits, with the players of the target."""
        if self.tail is not None:
            tail = ComposedTail(self.tail, tail)
        return self._game_of_vectors(units, target, tail)

    def _game_of_vectors(self, units: Units, target: Target, tail: Tail) -> TailGame:
        """Return the game of a function of the pooled vector, with the players of the target."""
        players, names = units.players(target.players)
        scores = self.pooled(units).by_player(players, target.absent == "deleted")
        return TailGame(scores=scores, tail=tail, labels=tuple(names))

    def hidden_game(self, units: Units, target: Target) -> GameSum:
        """Return the game of the logit of a model with a `hidden_layer`, computed once per input,
        players and output.
        """
        key = ("hidden layer", *target.game_key)
        return units.cached(key, lambda: self._hidden_game(units, target))

    def has_exact_logit(self, units: Units, target: Target) -> bool:
        """Return whether the logit of an input has exact values: without a tail, or behind a
        `hidden_layer` whose units have arguments for which there are poles.
        """
        if self.tail is None:
            return True
        return self.hidden_layer is not None and self.hidden_game(units, target).in_reach

    def _hidden_game(self, units: Units, target: Target) -> GameSum:
        layer = self.hidden_layer
        if layer is None:
            raise NotPooledError(NOT_POOLED)
        coefficients = np.asarray(target.coefficients)
        # Only the explained combination of the logits is needed, which is one output of the layer.
        one_output = replace(
            layer,
            output=(coefficients @ layer.output)[None],
            output_bias=(coefficients @ layer.output_bias)[None],
        )
        return hidden_layer_game(self._game_of_vectors(units, target, one_output))

    def pooled_game(self, units: Units, target: Target) -> PooledGame:
        """Return `game`, computed once per input, players and output."""
        games = units.computed.games
        key = target.game_key
        if key not in games:
            games[key] = self.game(units, target)
        return games[key]

    def heads(self, units: Units, target: Target) -> int:
        """Return the number of heads of `pooled_game`; with a tail, that of the model."""
        if self.tail is not None:
            return len(self.pooled(units).s)
        return self.pooled_game(units, target).H

    @property
    def most_heads(self) -> int:
        """The number of heads that an output needs at most, where it is the same for all inputs."""
        return 1

    # Many inputs at once. A model that is faster in batches may cache results. They must be equal
    # to the last bit to those of the functions for one input, which still handle all other inputs
    # and all errors.

    def read_many(self, raws: Sequence[Any]) -> list[Units | None]:
        """Read many inputs at once; None marks inputs for which `read` must be called."""
        return [None] * len(raws)

    def prepare_logits(self, units: Sequence[Units]) -> None:
        """Cache the `logits` of many inputs, if computing them together is faster."""

    def prepare_games(self, units: Sequence[Units], targets: Sequence[Target]) -> None:
        """Cache the `pooled_game` of many inputs, if computing them together is faster."""

    def value(self, units: Units, target: Target, present: Masks) -> Array:
        """Return the explained output (n,) of the model itself for coalitions (n, d) of the
        players.
        """
        if self.tail is not None:
            return self.tail_game(units, target, target.explained).value(present)
        if not target.against_rest:
            return self.pooled_game(units, target).value(present)
        # Log-odds against several classes are not linear in the logits, so each logit has its own
        # game.
        classes = np.eye(len(target.coefficients)).tolist()
        of_class = [replace(target, coefficients=tuple(row), against_rest=False) for row in classes]
        logits = [self.pooled_game(units, one).value(present) for one in of_class]
        return target.explained(np.stack(logits, axis=-1))

    def fit(self, units: Units, target: Target) -> FitReport | None:
        """Return how well the game fits the model, or None if the game is exactly the model."""
        return None

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return (n,) scores of the units that cannot be computed from the game (by default the
        attention), or None.

        The name is that of the method that needs them (`Method.needs`). A pair `(scores, base
        value)` is also allowed.
        """
        if name not in ("alpha-mean", "alpha-max"):
            return None
        # Behind a tail no output belongs to some heads alone, so all of them are shown.
        coefficients = None if self.tail is not None else target.coefficients
        attention = self.pooled(units).attention(coefficients)
        if name == "alpha-mean":
            return attention.mean(axis=0)
        return attention.max(axis=0)

    def explain(
        self, raw: Any, methods: str | Iterable[str] | None = None, **settings: Any
    ) -> Explanations:
        """Explain one input; see `attn_closed_form.explain`."""
        from ..explanations.explain import explain

        return explain(self, raw, methods, **settings)

    def explain_many(
        self, inputs: Iterable[Any], method: str | None = None, **settings: Any
    ) -> ManyExplanations:
        """Explain several inputs by one method; see
        `attn_closed_form.app.explanations.many.explain_many`.
        """
        from ..explanations.many import explain_many

        return explain_many(self, inputs, method, **settings)

    def asked(self, raw: Any, output: str | int | None) -> tuple[Model, str | int | None]:
        """Return the model and the output to explain for an input, by default this model and the
        given output.
        """
        return self, output

    @usual_float_errors
    def predict_logits(self, inputs: Iterable[Any]) -> Array:
        """Return the (n, C) logits of n inputs."""
        return np.array([self.logits(self.read(raw)) for raw in self.several(inputs)])

    @usual_float_errors
    def predict_proba(self, inputs: Iterable[Any]) -> Array:
        """Return the (n, classes) probabilities of n inputs, with columns in the order of
        `outputs`.
        """
        chances = self.probabilities(self.predict_logits(inputs))
        if chances is None:
            raise ValueError(
                f"outputs: {self.outputs[0]!r} has no probability; predict_logits computes it"
            )
        return chances

    def predict(self, inputs: Iterable[Any]) -> Any:
        """Return the (n,) labels of the most probable classes of n inputs; by default their
        names.
        """
        labels = np.array(self.labels or self.outputs)
        return labels[self.predict_proba(inputs).argmax(axis=-1)]

    def probabilities(self, logits: Array) -> Array | None:
        """Return probabilities (..., n) of `outputs` from logits (..., C), or None for a model with
        a single output.
        """
        scaled = np.asarray(logits, dtype=np.float64) / self.temperature
        # A sigmoid per label; of one logit with two names, a softmax with the logit 0 is the same.
        if self.loss == "sigmoid" and scaled.shape[-1] == len(self.outputs):
            # tanh stays finite where e^-x would overflow.
            return np.asarray(0.5 + 0.5 * np.tanh(scaled / 2))
        if len(self.outputs) == 1 or self.loss in PLAIN:
            return None
        if scaled.shape[-1] == 1:
            scaled = np.concatenate([np.zeros_like(scaled), scaled], axis=-1)
        return softmax(scaled)

    def several(self, inputs: Iterable[Any]) -> Iterable[Any]:
        """Return the inputs of a prediction, or raise an error if a single input was given by
        mistake.
        """
        single = isinstance(inputs, str | os.PathLike | Mapping) or not isinstance(inputs, Iterable)
        # A matrix is one bag, and not a list of its rows.
        if single or getattr(inputs, "ndim", 1) == 2:
            raise TypeError(
                f"inputs: expected a list of inputs, got one {self.input_name}; put it in a list"
            )
        return inputs

    def name_outputs(self, C: int, default: Sequence[str] = ()) -> None:
        """Check the names of C logits and the temperature; default names are the given ones, or
        numbers.
        """
        # One logit stands for two classes.
        names = tuple(map(str, self.outputs)) or tuple(default) or tuple(map(str, range(max(C, 2))))
        if len(names) != C and not (C == 1 and len(names) == 2):
            expected = f"{C} class names"
            if C == 1:
                expected = "2 class names, or 1 name (such as 'risk')"
            check("outputs", False, expected, f"{len(names)}: {names}")
        differ = len(set(names)) == len(names)
        check("outputs", differ and "" not in names, "different, non-empty names", names)
        positive("temperature", self.temperature)
        object.__setattr__(self, "outputs", names)
        fits = len(self.labels) in (0, len(names))
        check("labels", fits, f"one per class, {len(names)} of them", len(self.labels))


class TextModel(Model):
    """A model that reads texts: a string is the text itself."""

    input_name = "text"


class BagModel(Model):
    """A model that reads bags of instances: a string is the path of a file with their features."""

    input_name = "bag"


class TableModel(Model):
    """A model that reads tables with one row per unit: a string is the path of a file."""

    input_name = "table"
