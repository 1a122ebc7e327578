"""The validated settings of an explanation, and the target that they choose for one prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import did_you_mean, positive, whole
from ..._types import Array
from ..models.protocol import Model
from ..models.scale import LOGIT, PLAIN, SCALES, ExplainedScale
from ..models.target import Target
from ..models.units import Units

# The beginning of an output that names the difference of two logits: "margin:A,B".
MARGIN = "margin:"
# The beginning of an output that names the log-odds of a class against the rest: "odds:A".
ODDS = "odds:"


# Why probabilities behind a nonlinear layer are sampled.
BEHIND_A_TAIL = "a nonlinear layer follows the pooling, so this has no exact values"


@dataclass(frozen=True)
class Settings:
    """Settings of an explanation. None leaves the choice to the model.

    Attributes
    ----------
    players : the units that get scores, one of the model's groupings, such as "words" or
        "positions"
    absent : treatment of absent players, one of the model's absences, such as "unk" or "deleted"
    output : a class name, the index of a class, "margin:A,B" for the difference of two logits, or
        "odds:A" for the log-odds of a class against the rest. None explains the predicted class
    tol : guaranteed accuracy, relative to max|f|
    seed : seed of the methods that sample
    max_error : largest standard error that is wanted of sampled Shapley values, on the explained
        scale (0.01 is one percentage point); None for 0.05 percentage points, or 0.5% of the
        largest value
    scale : "probability", "risk" (the exponential of a log-risk) or "logit". None explains the
        probability if exact values of it exist (a model with one head and either two classes, or a
        separate probability for every label, or an explicit margin of two classes) or if nothing is
        exact on either scale (a transformer), and the risk of a model of log-risks with one head.
        For all other models, and if `output` is "odds:A", it explains the logit. "probability" for
        a model without exact values uses sampled ones

    Examples
    --------
    >>> Settings(tol=0.0)
    Traceback (most recent call last):
    ...
    ValueError: tol: expected a number in (0, 1], got 0.0
    """

    players: str | None = None
    absent: str | None = None
    output: str | int | None = None
    tol: float = 1e-10
    seed: int = 0
    scale: str | None = None
    max_error: float | None = None

    def __post_init__(self) -> None:
        is_output = isinstance(self.output, str | int | np.integer | None)
        if isinstance(self.output, bool) or not is_output:
            raise ValueError(
                "output: expected a class name, an index, 'margin:A,B' or 'odds:A', got "
                f"{self.output!r}"
            )
        is_real = isinstance(self.tol, int | float | np.floating)
        if isinstance(self.tol, bool) or not is_real or not 0 < self.tol <= 1:
            raise ValueError(f"tol: expected a number in (0, 1], got {self.tol!r}")
        whole("seed", self.seed, least=0)
        if self.scale is not None:
            _among("scale", self.scale, SCALES)
        if self.max_error is not None:
            positive("max_error", self.max_error)

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Settings:
        """Build settings from keyword arguments, or raise an error for an unknown one."""
        names = [field.name for field in fields(cls)]
        unknown = [name for name in options if name not in names]
        if unknown:
            hint = did_you_mean(unknown[0], names)
            raise TypeError(f"{unknown[0]}: expected settings among {', '.join(names)}{hint}")
        return cls(**options)

    def has_exact_values(self, model: Model) -> bool:
        """Return whether the default scale, or the one that was asked for, has exact values for
        every input of a model.
        """
        if model.surrogate is not None:
            return False
        on_logits = self.scale == "logit" or model.loss == "identity"
        if _prefix(self.output, model.outputs) == ODDS and self.scale is None:
            on_logits = True
        if model.tail is not None:
            return on_logits and model.hidden_layer is not None
        if on_logits:
            return True
        of_classes = model.loss == "softmax" and len(model.outputs) > 2
        if of_classes and _prefix(self.output, model.outputs) != MARGIN:
            return False
        return model.most_heads == 1

    def headline(self, model: Model, raw: Any) -> str:
        """Return the method that one input is explained by: exact Shapley values where it has them,
        otherwise sampled ones.
        """
        exact = self.has_exact_values(model)
        if exact and model.tail is not None:
            # Whether the logit behind a hidden layer is exact depends on the input.
            units = model.read(raw)
            exact = self.resolve(model, model.logits(units), units).exact
        return "shapley" if exact else "shapley-sampled"

    def resolve(
        self, model: Model, logits: Array, units: Units | None = None, exact: bool = False
    ) -> Target:
        """Return the target for one model and one prediction; without `units`, on the logit scale.

        With `exact`, the methods need exact values, so that a probability without them is not the
        default.
        """
        target = self._logit_target(model, logits, units)
        if units is not None and target.exact and not model.has_exact_logit(units, target):
            target = replace(target, exact=False)
        if units is None or self.scale == "logit":
            return target
        if model.loss == "exp" and self.scale != "probability":
            return self._risk_target(target, model, units)
        if self.scale == "risk":
            raise ValueError(
                "scale: expected 'probability' or 'logit', got 'risk'; the outputs are not "
                "log-risks"
            )
        return self._probability_target(target, model, units, exact)

    def _logit_target(self, model: Model, logits: Array, units: Units | None) -> Target:
        """Return the target on the logit scale."""
        players = self.players
        if players is None and units is not None:
            players = model.default_players(units)
        # The predicted class depends on the logits; everything else on the model alone.
        output, coefficients = choose_output(model.outputs, logits, self.output)
        prefix = _prefix(self.output, model.outputs)
        # With a sigmoid every label has a separate probability, and its logit is the log-odds. The
        # log-odds of one of two classes are their margin.
        against_rest = prefix == ODDS and len(logits) > 2 and model.loss != "sigmoid"
        if against_rest and model.surrogate is None and model.tail is None:
            raise ValueError(
                f"output: expected a class or 'margin:A,B', got {self.output!r}; the log-odds "
                "against several classes are not a pooled game"
            )
        return Target(
            players=_among("players", players, model.groupings),
            absent=_among("absent", self.absent, model.absences),
            output=output,
            coefficients=coefficients,
            tol=float(self.tol),
            seed=int(self.seed),
            max_error=self.max_error,
            against_rest=against_rest,
            scale=replace(LOGIT, name=PLAIN.get(model.loss, LOGIT.name)),
            exact=model.surrogate is None
            and (model.tail is None or model.hidden_layer is not None),
        )

    def _risk_target(self, target: Target, model: Model, units: Units) -> Target:
        """Return the target of the risk if it is exact, otherwise that of the log-risk."""
        if model.tail is not None:
            risk = ExplainedScale("risk")
            return replace(target, scale=risk, logit=target, exact=False, note=BEHIND_A_TAIL)
        heads = model.heads(units, target)
        if heads == 1:
            return replace(target, scale=ExplainedScale("risk"), logit=target)
        note = f"exact risks need one head, and this output has {heads}"
        if self.scale == "risk":
            raise ValueError(f"scale: expected 'logit', got 'risk'; {note}")
        return replace(target, note=note)

    def _probability_target(
        self, target: Target, model: Model, units: Units, exact: bool
    ) -> Target:
        """Return the target of the probability, or that of the logit if the probability has no
        exact values and the methods need them.
        """
        # The output "odds:A" names log-odds, which are a logit unless the scale is given as well.
        prefix = _prefix(self.output, model.outputs)
        if prefix == ODDS and self.scale is None:
            return target
        odds = log_odds_of(model, target.coefficients)
        if odds.coefficients is None:
            if self.scale == "probability":
                raise ValueError(f"scale: expected 'logit', got 'probability'; {odds.obstacle}")
            return replace(target, note=odds.obstacle)
        output = target.output
        if prefix == MARGIN:
            names = [model.outputs[c] for c in _margin(model.outputs, str(self.output))]
            output = " against ".join(names)
        probability = replace(
            target,
            output=output,
            coefficients=odds.coefficients,
            against_rest=odds.against_rest,
            scale=ExplainedScale("probability", float(model.temperature)),
            logit=target,
        )
        if model.surrogate is not None:
            # Every scale of a transformer is sampled, so its logit can be the log-odds of the same
            # probability.
            logit = probability.unlinked
            if odds.against_rest and prefix != ODDS:
                logit = replace(logit, output=f"{output} against the rest")
            return replace(probability, logit=logit)
        if model.tail is not None:
            return replace(probability, exact=False, note=BEHIND_A_TAIL)
        # The theorem for links needs one head: its poles are those of one ratio.
        obstacle = odds.obstacle
        if not odds.against_rest:
            heads = model.heads(units, probability)
            if heads > 1:
                obstacle = f"exact probabilities need one head, and this output has {heads}"
        if not obstacle:
            return probability
        # Methods that need exact values explain the logit, and its note says why.
        if self.scale is None and exact:
            return replace(target, note=obstacle)
        return replace(probability, exact=False, note=obstacle)


class LogOdds(NamedTuple):
    """The logit whose logistic function is the probability of an output.

    Attributes
    ----------
    coefficients : the coefficients of the logit; None if the output has no probability
    against_rest : whether the logit is that of one class against all others together, which is not
        a pooled game
    obstacle : why the probability has no exact values, or does not exist; "" if there is no
        obstacle, or if nobody expects a probability
    """

    coefficients: tuple[float, ...] | None
    against_rest: bool = False
    obstacle: str = ""


def log_odds_of(model: Model, coefficients: tuple[float, ...]) -> LogOdds:
    """Return the logit behind the probability of an output, given the coefficients of its logit."""
    C = len(coefficients)
    terms = np.count_nonzero(coefficients)
    if model.loss in PLAIN:
        return LogOdds(None)
    if model.loss == "sigmoid":
        if terms == 1:
            return LogOdds(coefficients)
        return LogOdds(None, obstacle="a margin of labels has no probability")
    if len(model.outputs) == 1:
        return LogOdds(None, obstacle=f"{model.outputs[0]!r} has no probability")
    if model.probabilities(np.zeros(C)) is None:
        obstacle = "the outputs of this model are explained directly, without a logistic function"
        return LogOdds(None, obstacle=obstacle)
    if C == 1 or terms == 2:
        return LogOdds(coefficients)
    if C > 2:
        obstacle = (
            f"the probability of one among {C} classes has only sampled values, that of one class "
            "against another exact ones"
        )
        return LogOdds(coefficients, against_rest=True, obstacle=obstacle)
    # Two logits: the log-odds of one class are the difference to the other.
    return LogOdds(tuple(2.0 * c - 1.0 for c in coefficients))


def _prefix(output: str | int | None, outputs: Sequence[str]) -> str:
    """Return `MARGIN`, `ODDS`, or "" for an output without a prefix."""
    # The name of a class may begin like a margin, and has precedence.
    if not isinstance(output, str) or output in outputs:
        return ""
    for prefix in (MARGIN, ODDS):
        if output.startswith(prefix):
            return prefix
    return ""


def _among(name: str, value: str | None, choices: Sequence[str]) -> str:
    """Return the value, by default the first of the choices."""
    if value is None:
        return choices[0]
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise ValueError(
            f"{name}: expected {expected}, got {value!r}{did_you_mean(value, choices)}"
        )
    return value


def choose_output(
    outputs: Sequence[str], logits: Array, output: str | int | None = None
) -> tuple[str, tuple[float, ...]]:
    """Return the name of the explained output and its coefficients over the C logits.

    >>> choose_output(("sports", "trade", "crops"), np.array([0.1, 2.0, -1.0]))
    ('trade', (0.0, 1.0, 0.0))
    >>> choose_output(("negative", "positive"), np.array([-0.3]))
    ('negative', (-1.0,))
    >>> choose_output(
    ...     ("sports", "trade", "crops"), np.array([0.1, 2.0, -1.0]), "margin:trade,crops"
    ... )
    ('trade - crops', (0.0, 1.0, -1.0))
    """
    C = len(logits)

    def direction(index: int, minus: int | None = None) -> tuple[float, ...]:
        if C == 1:  # the log-odds of the last class
            is_last = index == len(outputs) - 1
            return (1.0 if is_last else -1.0,)
        return tuple(float((c == index) - (c == minus)) for c in range(C))

    if output is None:
        if C > 1:
            output = int(np.argmax(logits))
        else:
            # One logit is the log-odds of the second of two classes.
            output = int(len(outputs) == 2 and logits[0] > 0)
    prefix = _prefix(output, outputs)
    if prefix == MARGIN:
        classes = _margin(outputs, str(output))
        return " - ".join(outputs[c] for c in classes), direction(*classes)
    if prefix == ODDS:
        name = str(output).removeprefix(ODDS).strip()
        index = _index(outputs, name)
        # With two classes, the rest is the other one.
        other = 1 - index if C == 2 else None
        return f"{outputs[index]} against the rest", direction(index, other)
    index = _index(outputs, output)
    return outputs[index], direction(index)


def _margin(outputs: Sequence[str], output: str) -> list[int]:
    """Return the two classes of a margin."""
    names = output.removeprefix(MARGIN).split(",")
    classes = [_index(outputs, name.strip()) for name in names]
    if len(classes) != 2 or len(set(classes)) != 2:
        raise ValueError(
            f"output: expected 'margin:A,B' with two different classes, got {output!r}"
        )
    return classes


def _index(outputs: Sequence[str], output: str | int) -> int:
    """Return the index of a class, given its name or its index."""
    if isinstance(output, str) and output in outputs:
        return list(outputs).index(output)
    # A command line has only texts, so "1" is the index of a class unless it is a name.
    if isinstance(output, str) and output.isdecimal():
        output = int(output)
    if not isinstance(output, str) and 0 <= output < len(outputs):
        return int(output)
    # Tuning: an error lists at most this many classes, about one line.
    listed_classes = 12
    listed = ", ".join(outputs[:listed_classes])
    if len(outputs) > listed_classes:
        listed += ", ..."
    hint = did_you_mean(output, outputs)
    raise ValueError(
        f"output: expected one of {listed}, or an index below {len(outputs)}, got {output!r}{hint}"
    )
