"""The scale on which a prediction is explained: the probability, or the logit behind it.

The probability of a class is the logistic function of a logit f divided by the temperature: f is
the one logit of a model with two classes, the difference of its two logits, the logit of a label
with a separate probability, or the margin of two among several classes (then it is the probability
of the first where only these two are possible). The logistic function rises with f, so bounds and
thresholds pass through it; Shapley values do not, and have a separate game (`game/links.py`), which
is exact for one head.

This class formats the numbers of every view, such as "94.2%" for a probability and "+23.1 points"
for a change of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._arrays import check
from ..._types import Array
from ...game.links import Link, LinkedGame
from ...game.pooled_game import PooledGame

# The scales that a user can ask for.
SCALES = ("probability", "risk", "logit")
# Names of outputs before any link, by the loss of the model: a regression has no logit.
PLAIN = {"identity": "value", "exp": "log-risk"}
# Maximum number of decimals of a percentage close to 0 or 100.
MOST_DECIMALS = 6


@dataclass(frozen=True)
class ExplainedScale:
    """A scale with its link from logits and its number format.

    Attributes
    ----------
    name : "probability"; "risk", the exponential of a log-risk; or without a link "logit",
        "log-risk" or "value"
    temperature : divides the logit in a probability

    Examples
    --------
    >>> scale = ExplainedScale("probability", temperature=2.0)
    >>> float(scale.of(0.0)), scale.logit_of(0.5)
    (0.5, 0.0)
    >>> scale.level(0.942), scale.change(-0.2311), scale.level(0.99996)
    ('94.2%', '-23.1 points', '99.996%')
    >>> scale.change(0.2443, error=0.004), scale.change(0.2443, error=0.0004)
    ('+24.4 ± 0.4 points', '+24.43 ± 0.04 points')
    >>> LOGIT.level(2.75), LOGIT.change(-0.5, "+.2f")
    ('+2.7500', '-0.50')
    >>> risk = ExplainedScale("risk")
    >>> risk.level(1.25), risk.change(-0.5), risk.of_output("risk")
    ('1.2500', '-0.5000', 'the risk')
    """

    name: str
    temperature: float = 1.0

    @cached_property
    def link(self) -> Link | None:
        """The function from the logit to this scale; None for the logit itself."""
        links = {"probability": Link("sigmoid", 1 / self.temperature), "risk": Link("exp")}
        return links.get(self.name)

    @property
    def in_percent(self) -> bool:
        """Whether values are written as percentages and changes as percentage points."""
        return self.name == "probability"

    @property
    def threshold(self) -> float:
        """The value between the two sides: 50%, a relative risk of 1, or a logit of 0."""
        return float(self.of(0.0))

    @property
    def unit(self) -> dict[str, Any]:
        """The number format: the factor, the suffixes of a value and a change, and the decimals."""
        if not self.in_percent:
            return {"factor": 1, "level": "", "change": "", "decimals": 4}
        return {"factor": 100, "level": "%", "change": " points", "decimals": 1}

    def of(self, f: Any) -> Array:
        """Convert logits to this scale."""
        if self.link is None:
            return np.asarray(f, dtype=np.float64)
        return self.link(f)

    def logit_of(self, value: float) -> float:
        """Convert a value on this scale to a logit."""
        if self.link is None:
            return float(value)
        if not self.in_percent:
            check("threshold", value > 0, "a risk above 0", repr(value))
            return math.log(value)
        check("threshold", 0 < value < 1, "a probability between 0 and 1", repr(value))
        return self.temperature * (math.log(value) - math.log1p(-value))

    def game(self, game: PooledGame) -> PooledGame | LinkedGame:
        """Convert a game of logits to a game on this scale."""
        if self.link is None:
            return game
        return LinkedGame(game, self.link)

    def level(self, value: float, spec: str = "+.4f") -> str:
        """Format a prediction, such as "94.2%".

        Logits and risks use the format `spec`, risks without a sign.
        """
        if self.in_percent:
            return percent(value)
        if self.link is not None:
            spec = spec.removeprefix("+")
        return format(value, spec)

    def change(self, value: float, spec: str = "+.4f", error: float | None = None) -> str:
        """Format a score or a change of the prediction, such as "+23.1 points"; logits use the
        format `spec`.

        With a standard error, "+23.1 ± 0.4 points".
        """
        if not self.in_percent:
            text = format(value, spec)
            if error is None:
                return text
            return f"{text} ± {format(error, spec.removeprefix('+'))}"
        decimals = 1
        # An error is never written as zero, and the value has the decimals of its error.
        while error and decimals < MOST_DECIMALS and float(f"{100 * error:.{decimals}f}") == 0:
            decimals += 1
        number = f"{100 * value:+.{decimals}f}"
        # What is written as zero has no sign.
        if float(number) == 0:
            number = number[1:]
        if error is not None:
            number += f" ± {100 * error:.{decimals}f}"
        return f"{number} points"

    def tick(self, value: float) -> str:
        """Format a round number on an axis, such as "20%"."""
        return f"{self.unit['factor'] * value:g}{self.unit['level']}"

    def bound(self, value: float, upper: bool) -> str:
        """Format a certified bound.

        Probabilities and risks are rounded such that the written bound holds.
        """
        if self.link is None:
            return f"{value:+.2f}"
        if upper:
            safe = math.ceil(1000 * value) / 1000
        else:
            safe = math.floor(1000 * value) / 1000
        if self.in_percent:
            return percent(safe)
        return f"{safe:.3f}"

    def digits(self, value: float, spec: str) -> str:
        """Format a score for a column whose title has the unit."""
        return format(self.unit["factor"] * value, spec)

    def column(self, value: float) -> str:
        """Format a score with fixed decimals, for a column whose title has the unit; zero has no
        sign.

        >>> (
        ...     ExplainedScale("probability").column(0.0312),
        ...     ExplainedScale("probability").column(-1e-5),
        ... )
        ('+3.1', '0.0')
        """
        text = self.digits(value, f"+.{self.unit['decimals']}f")
        if float(text) == 0:
            return text[1:]
        return text

    def end(self, value: float) -> str:
        """Format the end of a color scale, with its unit."""
        return self.digits(value, ".2g") + str(self.unit["change"])

    def titled(self, title: str) -> str:
        """Add the unit to the title of a column of scores."""
        if self.in_percent:
            return f"{title} (points)"
        return title

    def of_output(self, output: str) -> str:
        """Name the explained quantity, such as "the probability of positive", "the risk" or "the
        value of age".
        """
        if self.name.split("-")[-1] == output:
            return f"the {self.name}"
        return f"the {self.name} of {class_name(output)}"


def class_name(output: str) -> str:
    """Name a class in a sentence, where a class without a name must not read like a number.

    >>> class_name("1"), class_name("positive")
    ('class 1', 'positive')
    """
    if output.isdecimal():
        return f"class {output}"
    return output


def percent(share: float, decimals: int = 1) -> str:
    """Format a share in percent, with more decimals if it would otherwise be rounded to 0 or 100.

    A share that is closer to them than `MOST_DECIMALS` can tell is written as a bound.

    >>> percent(0.5), percent(0.99996), percent(1 - 1e-12), percent(1e-12), percent(1.0)
    ('50.0%', '99.996%', 'over 99.999999%', 'under 0.000001%', '100.0%')
    """
    text = f"{100 * share:.{decimals}f}"
    while 0 < share < 1 and decimals < MOST_DECIMALS and float(text) in (0.0, 100.0):
        decimals += 1
        text = f"{100 * share:.{decimals}f}"
    if share < 1 and float(text) == 100:
        return f"over {100 - 10**-MOST_DECIMALS:.{MOST_DECIMALS}f}%"
    if share > 0 and float(text) == 0:
        return f"under {10**-MOST_DECIMALS:.{MOST_DECIMALS}f}%"
    return f"{text}%"


# The scale without a link, the default of a `Target`.
LOGIT = ExplainedScale("logit")
