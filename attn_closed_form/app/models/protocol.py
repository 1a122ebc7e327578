"""The interface of a model that can be explained: its prediction is a softmax-pooled game.

A model reads an input as *units* (the tokens of a text, the instances of a bag, the rows of a table) and scores them
(`PooledScores`); logits, attention and games follow from the scores. Methods, tables, reports, plots, JSON, runs and
the page work for every such model. A new kind of model is one module with one class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..._arrays import plain, positive, softmax
from ..._lazy import cached_property
from ..._types import Array, Ids, Masks, Span
from ...game.pooled_game import PooledGame
from ...game.scores import PooledScores, stable_order
from .scale import PLAIN
from .target import Target

if TYPE_CHECKING:
    from ..explanations.explanation import Explanations

Result = TypeVar("Result")
# The samples around the text leave out at most this many tokens (Leemann et al. 2025, Algorithm 2).
FEW = 5
# Grades of a fit: the minimum share of the held-out variation that a good and a fair fit explain, and the minimum rank
# correlation between the Shapley values of a good fit and the sampled ones. The last limit is such that at least 95 of
# 100 fits graded good have a rank correlation of 0.9 with long runs
# (`benchmarks/transformer_values.py`).
GOOD = 0.9
FAIR = 0.5
AGREES = 0.92


class Remembers:
    """Cache results by name, so that each is computed once. Copies and pickles do not include them."""

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def cached(self, name: Any, compute: Callable[[], Result]) -> Result:
        """Return the result cached under a name, and compute it first if necessary."""
        if name not in self._results:
            self._results[name] = compute()
        return self._results[name]

    def keep(self, name: Any, result: Any) -> None:
        """Store a result that was computed elsewhere."""
        self._results[name] = result

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_results"}


@dataclass(frozen=True, eq=False)
class Units(Remembers):
    """One input as a sequence of units, as the model reads it.

    Attributes
    ----------
    labels : names of the n units, as the model reads them
    groups : a mapping of groupings to (n,) player numbers; players are numbered by first appearance
    data : data that the model needs later, such as token ids
    text, spans : the text and the character span of each unit; None if the input is not a text
    unknown : n flags, True for units outside the vocabulary
    unseen : character spans that the model does not read
    coords : (n, 2) coordinates of the instances
    attrs : metadata for reports and plots, such as the patch size
    group_labels : names of a grouping's players, if they differ from the label of the player's first unit
    continues : n flags, True for units that continue the word of the previous unit and are shown together with it

    Examples
    --------
    >>> units = Units(labels=("a", "b", "a"), groups={"words": np.array([0, 1, 0])})
    >>> units.shown_text, units.shown_spans
    ('a b a', ((0, 1), (2, 3), (4, 5)))
    """

    labels: tuple[str, ...]
    groups: Mapping[str, Ids]
    data: Any = None
    text: str | None = None
    spans: tuple[Span, ...] | None = None
    unknown: tuple[bool, ...] | None = None
    unseen: tuple[Span, ...] = ()
    coords: Array | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    group_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    continues: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        if n == 0:
            raise ValueError("labels: expected at least one unit, got none")
        sized: dict[str, Any] = {
            name: getattr(self, name) for name in ("spans", "unknown", "coords", "continues")
        }
        sized |= {f"groups[{name!r}]": group for name, group in self.groups.items()}
        for name, value in sized.items():
            if value is not None and len(value) != n:
                raise ValueError(f"{name}: expected {n} entries, one per unit, got {len(value)}")
        if (self.text is None) != (self.spans is None):
            raise ValueError("text, spans: expected both or neither")

    def players(self, grouping: str) -> tuple[Ids, tuple[str, ...]]:
        """Return the (n,) player of each unit in a grouping, and the names of the d players."""
        if grouping not in self.groups:
            raise ValueError(
                f"players: this input has no {grouping!r}, only {', '.join(self.groups)}"
            )
        numbers = np.asarray(self.groups[grouping])
        names = self.group_labels.get(grouping)
        if names is None:  # the first unit of a player has a larger number than all units before it
            names = tuple(
                compress(self.labels, np.diff(np.maximum.accumulate(numbers), prepend=-1).tolist())
            )
        return numbers, names

    def by_player(self, grouping: str) -> Ids:
        """Return the (n,) units sorted by player; units of one player keep the order of the input."""
        return self.cached(("by player", grouping), lambda: stable_order(self.players(grouping)[0]))

    @property
    def places(self) -> Ids | None:
        """The `spans` as an (n, 2) array."""
        if self.spans is None:
            return None
        return np.array(self.spans, dtype=np.intp).reshape(-1, 2)

    @cached_property
    def shown_text(self) -> str:
        """The text, or the joined labels if the input is not a text."""
        if self.text is None:
            return " ".join(self.labels)
        return self.text

    @cached_property
    def shown_spans(self) -> tuple[Span, ...]:
        """The span of each unit in `shown_text`."""
        if self.spans is not None:
            return self.spans
        ends = np.cumsum([len(label) + 1 for label in self.labels]) - 1
        return tuple(
            (int(end) - len(label), int(end)) for end, label in zip(ends, self.labels, strict=True)
        )


@dataclass(frozen=True)
class FitReport:
    """How well a surrogate matches the model on held-out samples.

    Attributes
    ----------
    name : name of the surrogate
    error, spread : root mean squared error with up to five tokens absent, and the standard deviation of the model's
        output there; with an error as large as the spread the surrogate is no better than a constant
    error_any_size, spread_any_size : the same with any number of tokens absent
    at_text : the model's output for the text minus the surrogate's
    model_calls : sequences that the model evaluated for the fit
    undetermined : tokens whose importance the samples do not determine
    agreement : the rank correlation of its Shapley values with the sampled ones of the model
    """

    name: str
    error: float
    spread: float
    error_any_size: float
    spread_any_size: float
    at_text: float
    model_calls: int
    undetermined: tuple[str, ...] = ()
    agreement: float = float("nan")

    @property
    def explained(self) -> float:
        """The share of the variation with few tokens absent that the fit explains on held-out samples."""
        return _explained_share(self.error, self.spread)

    @property
    def grade(self) -> str:
        """One of "good", "fair" and "poor"."""
        if self.explained < FAIR:
            return "poor"
        if self.explained >= GOOD and self.agreement >= AGREES:
            return "good"
        return "fair"

    def verdict(self) -> str:
        """Say in one line whether to trust the scores of the fit, with the number that decides it.

        >>> FitReport("fitted SLALOM", 0.1, 0.5, 0.6, 2.0, 0.0, 500, agreement=0.97).verdict()
        'Good fit: the fitted SLALOM explains 96 % of the variation near the text on held-out samples'
        """
        if self.grade == "poor":
            warning = "; do not trust its scores"
        else:
            warning = ""
        share = f"{100 * self.explained:.0f} % of the variation near the text on held-out samples"
        return f"{self.grade.capitalize()} fit: the {self.name} explains {share}{warning}"

    def sentences(self) -> list[str]:
        """Describe the numbers behind the verdict in whole sentences."""
        sentences = [
            f"The Shapley values are those of the model itself. The SLALOM scores are those of the {self.name}, not of "
            f"the model. On held-out samples it is off by {self.error:.2g} with up to {FEW} "
            f"tokens absent (the model varies by {self.spread:.2g} there) and by {self.error_any_size:.2g} with any "
            f"number absent (varies by {self.spread_any_size:.2g}). For the text itself it is off by "
            f"{abs(self.at_text):.2g}. {self.model_calls:,} model calls were used."
        ]
        if self.agreement == self.agreement:
            sentences.append(
                f"The Shapley values of the {self.name} have a rank correlation of {self.agreement:.2f} with the "
                f"sampled ones of the model; a good fit has at least {AGREES}."
            )
        if self.undetermined:
            shown = ", ".join(self.undetermined[:5]) + (
                " and others" if len(self.undetermined) > 5 else ""
            )
            tokens = f"{len(self.undetermined)} token{'s' * (len(self.undetermined) > 1)}"
            sentences.append(f"The samples do not determine the importance of {tokens}: {shown}.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with None for numbers that were not measured."""
        numbers = {**asdict(self), "explained": self.explained, "grade": self.grade}
        return {name: None if value != value else plain(value) for name, value in numbers.items()}


def _explained_share(error: float, spread: float) -> float:
    """Return 1 - error^2 / spread^2 or 0 if that is negative, nothing varies or nothing was measured."""
    if spread > 0 and error == error:
        return max(0.0, 1 - (error / spread) ** 2)
    return 0.0


class Model:
    """Base class of models that can be explained exactly, or through a game that is fitted to them.

    A subclass names its `outputs`, `groupings` and `absences`, reads an input into units (`read`) and scores them
    (`scores`). Everything else has a default.

    Attributes
    ----------
    outputs : class names in the order of the C logits; two names for C = 1, whose logit is the log-odds of the second
    groupings : possible kinds of players, the default first, such as ("words", "positions")
    absences : possible treatments of absent players, the default first, such as ("unk", "deleted")
    temperature : divides the logits in probabilities (explained ones included) but nowhere else
    loss : meaning of the logits: "softmax" for classes, "sigmoid" for labels with separate probabilities, "identity"
        for values without a probability, "exp" for log-risks
    reads : description of an input. If it is not "a text", a string is taken as the path of a file
    surrogate : name of the fit if the game is fitted to the model, such as "fitted SLALOM"; None if the game is exact
    samples : maximum number of coalitions that a sampling method evaluates
    doubts : unchecked assumptions about the model, which every output reports; "" if there are none
    """

    outputs: tuple[str, ...]
    groupings: tuple[str, ...]
    absences: tuple[str, ...]
    temperature: float = 1.0
    loss: str = "softmax"
    reads: str = "a text"
    surrogate: str | None = None
    doubts: str = ""
    samples: int = 5000  # the default of the lime package

    def read(self, raw: Any) -> Units:
        """Read one input, or raise a ValueError that describes what is wrong with it."""
        raise NotImplementedError

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the units of one input."""
        raise NotImplementedError

    def pooled(self, units: Units) -> PooledScores:
        """Return `scores`, computed once per input."""
        return units.cached("scores", lambda: self.scores(units))

    def logits(self, units: Units) -> Array:
        """Return the (C,) logits of the whole input."""
        return units.cached("logits", lambda: self.pooled(units).logits())

    def game(self, units: Units, target: Target) -> PooledGame:
        """Return the game with the players and the output of the target."""
        players, names = units.players(target.players)
        return self.pooled(units).game(
            target.coefficients, players, names, target.absent == "deleted"
        )

    def pooled_game(self, units: Units, target: Target) -> PooledGame:
        """Return `game`, computed once per input, players and output."""
        return units.cached(target.game_key, lambda: self.game(units, target))

    def heads(self, units: Units, target: Target) -> int:
        """Return the number of heads of `pooled_game`."""
        return self.pooled_game(units, target).H

    # Many inputs at once. A model that is faster in batches may cache results. They must be equal to the last bit to
    # those of the functions for one input, which still handle all other inputs and all errors.

    def read_many(self, raws: Sequence[Any]) -> list[Units | None]:
        """Read many inputs at once; None marks inputs for which `read` must be called."""
        return [None] * len(raws)

    def prepare_logits(self, units: Sequence[Units]) -> None:
        """Cache the `logits` of many inputs, if computing them together is faster."""

    def prepare_games(self, units: Sequence[Units], targets: Sequence[Target]) -> None:
        """Cache the `pooled_game` of many inputs, if computing them together is faster."""

    def value(self, units: Units, target: Target, present: Masks) -> Array:
        """Return the explained output (n,) of the model itself for coalitions (n, d) of the players."""
        if not target.against_rest:
            return self.pooled_game(units, target).value(present)
        classes = np.eye(len(target.coefficients)).tolist()
        of_class = [replace(target, coefficients=tuple(row), against_rest=False) for row in classes]
        logits = [self.pooled_game(units, one).value(present) for one in of_class]
        return target.explained(np.stack(logits, axis=-1))

    def fit(self, units: Units, target: Target) -> FitReport | None:
        """Return how well the game fits the model, or None if the game is exactly the model."""
        return None

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return (n,) scores of the units that cannot be computed from the game (by default the attention), or None.

        The name is that of the method that needs them (`Method.needs`). A pair `(scores, base value)` is also allowed.
        """
        if name not in ("alpha-mean", "alpha-max"):
            return None
        attention = self.pooled(units).attention(target.coefficients)
        if name == "alpha-mean":
            return attention.mean(axis=0)
        return attention.max(axis=0)

    def explain(
        self, raw: Any, methods: str | Iterable[str] | None = None, **settings: Any
    ) -> Explanations:
        """Explain one input; see `attn_closed_form.explain`."""
        from ..explanations.explain import explain

        return explain(self, raw, methods, **settings)

    def asked(self, raw: Any, output: str | int | None) -> tuple[Model, str | int | None]:
        """Return the model and the output to explain for an input, by default this model and the given output."""
        return self, output

    def predict_logits(self, inputs: Iterable[Any]) -> Array:
        """Return the (n, C) logits of n inputs."""
        return np.array([self.logits(self.read(raw)) for raw in self.several(inputs)])

    def predict_proba(self, inputs: Iterable[Any]) -> Array:
        """Return the (n, classes) probabilities of n inputs, with columns in the order of `outputs`."""
        chances = self.probabilities(self.predict_logits(inputs))
        if chances is None:
            raise ValueError(
                f"outputs: {self.outputs[0]!r} has no probability; predict_logits computes it"
            )
        return chances

    def predict(self, inputs: Iterable[Any]) -> Any:
        """Return the (n,) names of the most probable classes of n inputs."""
        return np.asarray(self.outputs)[self.predict_proba(inputs).argmax(axis=-1)]

    def probabilities(self, logits: Array) -> Array | None:
        """Return probabilities (..., n) of `outputs` from logits (..., C), or None for a model with a single output."""
        scaled = np.asarray(logits, dtype=np.float64) / self.temperature
        if self.loss == "sigmoid" and scaled.shape[-1] == len(
            self.outputs
        ):  # several labels at once
            return np.asarray(0.5 + 0.5 * np.tanh(scaled / 2))
        if len(self.outputs) == 1 or self.loss in PLAIN:
            return None
        if scaled.shape[-1] == 1:
            scaled = np.concatenate([np.zeros_like(scaled), scaled], axis=-1)
        return softmax(scaled)

    def several(self, inputs: Iterable[Any]) -> Iterable[Any]:
        """Return the inputs of a prediction, or raise an error if a single input was given by mistake."""
        single = isinstance(inputs, str | os.PathLike | Mapping) or not isinstance(inputs, Iterable)
        if single or getattr(inputs, "ndim", 1) == 2:
            what = self.reads.split(" ", 1)[1]
            raise TypeError(f"inputs: expected a list of inputs, got one {what}; put it in a list")
        return inputs

    def name_outputs(self, C: int, default: Sequence[str] = ()) -> None:
        """Check the names of C logits and the temperature; default names are the given ones, or numbers."""
        names = tuple(map(str, self.outputs)) or tuple(default) or tuple(map(str, range(max(C, 2))))
        if len(names) != C and not (C == 1 and len(names) == 2):
            if C > 1:
                expected = f"{C} class names"
            else:
                expected = "2 class names, or 1 name (such as 'risk')"
            raise ValueError(f"outputs: expected {expected}, got {len(names)}: {names}")
        if "" in names or len(set(names)) != len(names):
            raise ValueError(f"outputs: expected different, non-empty names, got {names}")
        positive("temperature", self.temperature)
        object.__setattr__(self, "outputs", names)
