"""The validated settings of an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..._arrays import did_you_mean, whole
from ..._types import Array
from ..models.protocol import Model, Resolved, Units
from ..models.scale import LOGIT, PLAIN, SCALES, ExplainedScale

MARGIN = "margin:"
ODDS = "odds:"


@dataclass(frozen=True)
class Settings:
    """Settings of an explanation. None leaves the choice to the model.

    Attributes
    ----------
    players : the units that get scores, one of the model's groupings, such as "words" or "positions"
    absent : treatment of absent players, one of the model's absences, such as "unk" or "deleted"
    output : a class name, the index of a class, "margin:A,B" for the difference of two logits, or "odds:A" for the
        log-odds of a class against the rest. None explains the predicted class
    tol : guaranteed accuracy, relative to max|f|
    seed : seed of the methods that sample
    scale : "probability", "risk" (the exponential of a log-risk) or "logit". None explains the probability if exact
        values of it exist (a model with one head and either two classes, or a separate probability for every label, or
        an explicit margin of two classes) or if nothing is exact on either scale (a transformer), and the risk of
        a model of log-risks with one head. For all other models, and if `output` is "odds:A", it explains the
        logit. "probability" for a model without exact values uses sampled ones

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

    def __post_init__(self) -> None:
        if isinstance(self.output, bool) or not isinstance(
            self.output, str | int | np.integer | None
        ):
            raise ValueError(
                f"output: expected a class name, an index, 'margin:A,B' or 'odds:A', got {self.output!r}"
            )
        real = isinstance(self.tol, int | float | np.floating) and not isinstance(self.tol, bool)
        if not real or not 0 < self.tol <= 1:
            raise ValueError(f"tol: expected a number in (0, 1], got {self.tol!r}")
        whole("seed", self.seed, least=0)
        if self.scale is not None:
            _among("scale", self.scale, SCALES)

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Settings:
        """Build settings from keyword arguments, or raise an error for an unknown one."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in options if name not in known]:
            raise TypeError(
                f"{unknown[0]}: expected settings among {', '.join(known)}{did_you_mean(unknown[0], known)}"
            )
        return cls(**options)

    def resolve(self, model: Model, logits: Array, units: Units | None = None) -> Resolved:
        """Resolve the settings for one model and one prediction; without `units`, on the logit scale."""
        output, coefficients = choose_output(model.outputs, logits, self.output)
        # With a sigmoid every label has a separate probability, and its logit is the log-odds.
        rest = (
            _prefix(self.output, model.outputs) == ODDS
            and len(logits) > 2
            and model.loss != "sigmoid"
        )
        if rest and model.surrogate is None:
            raise ValueError(
                f"output: expected a class or 'margin:A,B', got {self.output!r}; the log-odds against several classes "
                "are not a pooled game"
            )
        resolved = Resolved(
            players=_among("players", self.players, model.groupings),
            absent=_among("absent", self.absent, model.absences),
            output=output,
            coefficients=coefficients,
            tol=float(self.tol),
            seed=int(self.seed),
            rest=rest,
            scale=replace(LOGIT, name=PLAIN.get(model.loss, "logit")),
        )
        if units is None or self.scale == "logit":
            return resolved
        if model.loss == "exp" and self.scale != "probability":
            return self._on_risk(resolved, model, units)
        if self.scale == "risk":
            raise ValueError(
                "scale: expected 'probability' or 'logit', got 'risk'; the outputs are not log-risks"
            )
        return self._on_probability(resolved, model, units)

    def _on_risk(self, resolved: Resolved, model: Model, units: Units) -> Resolved:
        """Return the settings with the risk instead of the log-risk if it is exact."""
        heads = model.heads(units, resolved)
        if heads == 1:
            return replace(resolved, scale=ExplainedScale("risk"), logit=resolved)
        note = f"exact risks need one head, and this output has {heads}"
        if self.scale == "risk":
            raise ValueError(f"scale: expected 'logit', got 'risk'; {note}")
        return replace(resolved, scale=replace(resolved.scale, note=note))

    def _on_probability(self, resolved: Resolved, model: Model, units: Units) -> Resolved:
        """Return the settings with the probability instead of the logit if it is exact or was requested."""
        prefix = _prefix(self.output, model.outputs)
        if self.scale is None and prefix == ODDS:
            return resolved
        margin, obstacle = probability_margin(model, resolved.coefficients)
        if margin is None:
            if self.scale == "probability":
                raise ValueError(f"scale: expected 'logit', got 'probability'; {obstacle}")
            return replace(resolved, scale=replace(resolved.scale, note=obstacle))
        rest = bool(obstacle)
        if model.surrogate is None and not rest:
            heads = model.heads(units, replace(resolved, coefficients=margin))
            if heads > 1:
                obstacle = f"exact probabilities need one head, and this output has {heads}"
            else:
                obstacle = ""
        if obstacle and self.scale is None and model.surrogate is None:
            return replace(resolved, scale=replace(resolved.scale, note=obstacle))
        output = resolved.output
        if prefix == MARGIN:
            output = " against ".join(
                model.outputs[c] for c in _margin(model.outputs, str(self.output))
            )
        exact = not obstacle and model.surrogate is None
        if model.surrogate is not None:
            note = ""
        else:
            note = obstacle
        scale = ExplainedScale("probability", float(model.temperature), note, exact)
        return replace(
            resolved, output=output, coefficients=margin, rest=rest, scale=scale, logit=resolved
        )


def probability_margin(
    model: Model, coefficients: tuple[float, ...]
) -> tuple[tuple[float, ...] | None, str]:
    """Return the coefficients of the logit behind the probability of the output, and any obstacle.

    Without coefficients there is no probability. With coefficients and an obstacle, it is the logistic function of the
    log-odds of one class against all others, which is not a pooled game.
    """
    C = len(coefficients)
    terms = np.count_nonzero(coefficients)
    if model.loss in PLAIN:
        return None, ""
    if len(model.outputs) == 1 and model.loss != "sigmoid":
        return None, f"{model.outputs[0]!r} has no probability"
    if model.probabilities(np.zeros(C)) is None and model.loss != "sigmoid":
        return None, "the outputs of this model are explained directly, without a logistic function"
    if C == 1:
        return coefficients, ""
    if model.loss == "sigmoid":
        if terms == 1:
            return (coefficients, "")
        return (None, "a margin of labels has no probability")
    if terms == 2:
        return coefficients, ""
    if C > 2:
        obstacle = f"the probability of one among {C} classes has no exact values; that of one class against another does"
        return coefficients, f"{obstacle} (output 'margin:A,B')"
    return tuple(2.0 * c - 1.0 for c in coefficients), ""


def _prefix(output: str | int | None, outputs: Sequence[str]) -> str:
    if not isinstance(output, str) or output in outputs:
        return ""
    return next((prefix for prefix in (MARGIN, ODDS) if output.startswith(prefix)), "")


def _among(name: str, value: str | None, choices: Sequence[str]) -> str:
    if value is None:
        return choices[0]
    if value not in choices:
        raise ValueError(
            f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}{did_you_mean(value, choices)}"
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
    >>> choose_output(("sports", "trade", "crops"), np.array([0.1, 2.0, -1.0]), "margin:trade,crops")
    ('trade - crops', (0.0, 1.0, -1.0))
    """
    C = len(logits)

    def direction(index: int, minus: int | None = None) -> tuple[float, ...]:
        if C == 1:  # the log-odds of the last class
            return (1.0 if index == len(outputs) - 1 else -1.0,)
        return tuple(float((c == index) - (c == minus)) for c in range(C))

    if output is None:
        if C > 1:
            output = int(np.argmax(logits))
        else:
            output = int(len(outputs) == 2 and logits[0] > 0)
    prefix = _prefix(output, outputs)
    if prefix == MARGIN:
        classes = _margin(outputs, str(output))
        return " - ".join(outputs[c] for c in classes), direction(*classes)
    if prefix == ODDS:  # for two classes, their margin
        index = _index(outputs, str(output)[len(ODDS) :].strip())
        return f"{outputs[index]} against the rest", direction(index, 1 - index if C == 2 else None)
    index = _index(outputs, output)
    return outputs[index], direction(index)


def _margin(outputs: Sequence[str], output: str) -> list[int]:
    """Return the two classes of a margin."""
    classes = [_index(outputs, name.strip()) for name in output[len(MARGIN) :].split(",")]
    if len(classes) != 2 or len(set(classes)) != 2:
        raise ValueError(
            f"output: expected 'margin:A,B' with two different classes, got {output!r}"
        )
    return classes


def _index(outputs: Sequence[str], output: str | int) -> int:
    if isinstance(output, str) and output in outputs:
        return list(outputs).index(output)
    if isinstance(output, str) and output.isdecimal():
        output = int(output)
    if not isinstance(output, str) and 0 <= output < len(outputs):
        return int(output)
    shown = ", ".join(outputs[:12]) + (", ..." if len(outputs) > 12 else "")
    hint = did_you_mean(output, outputs)
    raise ValueError(
        f"output: expected one of {shown}, or an index below {len(outputs)}, got {output!r}{hint}"
    )
