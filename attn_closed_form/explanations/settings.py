"""The settings of an explanation: one frozen value that checks itself. Options of the command line, fields of the API
and columns of a corpus are read off it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._types import Array
from ..models.protocol import Model, Resolved

MARGIN = "margin:"
ODDS = "odds:"


@dataclass(frozen=True)
class Settings:
    """What to explain, and how; None leaves the choice to the model.

    Attributes
    ----------
    players : what gets a score, one of the model's groupings, such as "words" or "positions"
    absent : what an absent player becomes, one of the model's absences, such as "unk" or "deleted"
    output : a class name, the index of a class, "margin:A,B" for the difference of two logits, or "odds:A" for the
        log-odds of a class against the rest. None explains the predicted class
    tol : guaranteed accuracy, relative to max|f|
    seed : of the methods that sample

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

    def __post_init__(self) -> None:
        for name in ("players", "absent"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name}: expected a name, got {value!r}")
        if isinstance(self.output, bool) or not isinstance(self.output, str | int | np.integer | None):
            raise ValueError(f"output: expected a class name, an index, 'margin:A,B' or 'odds:A', got {self.output!r}")
        real = isinstance(self.tol, int | float | np.floating) and not isinstance(self.tol, bool)
        if not real or not 0 < self.tol <= 1 or math.isnan(self.tol):
            raise ValueError(f"tol: expected a number in (0, 1], got {self.tol!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ValueError(f"seed: expected an integer of at least 0, got {self.seed!r}")

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Settings:
        """Settings from keyword arguments; an unknown one is an error."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"{name}: expected settings among {', '.join(known)}")
        return cls(**options)

    def resolve(self, model: Model, logits: Array) -> Resolved:
        """The settings for one model and one prediction, with every choice made."""
        output, coefficients = choose_output(model.outputs, logits, self.output)
        # With a sigmoid every label has a probability of its own, whose log-odds its logit is.
        rest = _is_odds(self.output, model.outputs) and len(logits) > 2 and model.loss != "sigmoid"
        if rest and model.surrogate is None:
            raise ValueError(
                f"output: expected a class or 'margin:A,B', got {self.output!r}; the log-odds against several classes "
                "are no pooled game"
            )
        return Resolved(
            players=_among("players", self.players, model.groupings),
            absent=_among("absent", self.absent, model.absences),
            output=output,
            coefficients=coefficients,
            tol=float(self.tol),
            seed=int(self.seed),
            rest=rest,
        )


def _is_odds(output: str | int | None, outputs: Sequence[str]) -> bool:
    return isinstance(output, str) and output.startswith(ODDS) and output not in outputs


def _among(name: str, value: str | None, choices: Sequence[str]) -> str:
    if value is None:
        return choices[0]
    if value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def choose_output(
    outputs: Sequence[str], logits: Array, output: str | int | None = None
) -> tuple[str, tuple[float, ...]]:
    """The name of what is explained, and its coefficients over the C logits.

    >>> choose_output(("sports", "trade", "crops"), np.array([0.1, 2.0, -1.0]))
    ('trade', (0.0, 1.0, 0.0))
    >>> choose_output(("negative", "positive"), np.array([-0.3]))
    ('negative', (-1.0,))
    >>> choose_output(("sports", "trade", "crops"), np.array([0.1, 2.0, -1.0]), "margin:trade,crops")
    ('trade - crops', (0.0, 1.0, -1.0))
    """
    C = len(logits)

    def direction(index: int) -> Array:  # a single logit is the log-odds of the last class
        return np.eye(C)[index] if C > 1 else np.array([1.0 if index == len(outputs) - 1 else -1.0])

    if output is None:
        output = int(np.argmax(logits)) if C > 1 else int(len(outputs) == 2 and logits[0] > 0)
    if _is_odds(output, outputs):
        index = _index(outputs, str(output)[len(ODDS) :].strip())
        # The odds of two classes are their margin, those of one logit the logit itself.
        odds = direction(index) - direction(1 - index) if C == 2 else direction(index)
        return f"{outputs[index]} against the rest", tuple(odds.tolist())
    if isinstance(output, str) and output.startswith(MARGIN) and output not in outputs:
        names = [name.strip() for name in output[len(MARGIN) :].split(",")]
        if len(names) != 2:
            raise ValueError(f"output: expected 'margin:A,B' with two class names, got {output!r}")
        first, second = (_index(outputs, int(name) if name.isdecimal() else name) for name in names)
        if first == second:
            raise ValueError(f"output: expected a margin of two different classes, got {output!r}")
        margin = direction(first) - direction(second) if C > 1 else direction(first)
        return f"{outputs[first]} - {outputs[second]}", tuple(margin.tolist())
    index = _index(outputs, output)
    return outputs[index], tuple(direction(index).tolist())


def _index(outputs: Sequence[str], output: str | int) -> int:
    if isinstance(output, str) and output in outputs:
        return list(outputs).index(output)
    if isinstance(output, str) and output.isdecimal():
        output = int(output)
    if isinstance(output, int | np.integer) and 0 <= output < len(outputs):
        return int(output)
    shown = ", ".join(outputs[:12]) + (", ..." if len(outputs) > 12 else "")
    raise ValueError(f"output: expected one of {shown}, or an index below {len(outputs)}, got {output!r}")
