"""Two explanations side by side: two texts under one model, or one text under two models.

The scores of both add up to their predictions, so their differences add up to the difference of the
predictions:

    f(second) - f(first) = base(second) - base(first) + sum_words (score in second - score in first)

where a word that a text does not have has the score 0.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import check
from ..._types import Array
from ..models.scale import ExplainedScale
from .explain import for_output, runner_up_of
from .explanation import Explanation, Explanations


class WordChange(NamedTuple):
    """The scores of a word in both explanations, None where it does not occur."""

    word: str
    first: float | None
    second: float | None

    @property
    def change(self) -> float:
        """The score in the second explanation minus that in the first."""
        return (self.second or 0.0) - (self.first or 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two explanations of one output by the same method.

    Attributes
    ----------
    first, second : the explanations
    names : what to call the two, such as ("first text", "second text")

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> comparison = compare(
    ...     model.explain("A fine film", "shapley"), model.explain("A dull film", "shapley")
    ... )
    >>> print(comparison)  # doctest: +ELLIPSIS
    The probability of positive falls from 61.3% to 5.6% (-55.7 points)
    ...
    >>> [(change.word, round(change.change, 2)) for change in comparison.changes[:2]]
    [('dull', -0.44), ('fine', -0.11)]
    """

    first: Explanation
    second: Explanation
    names: tuple[str, str] = ("first text", "second text")

    @property
    def scale(self) -> ExplainedScale:
        """The scale of both predictions."""
        return self.first.scale

    @property
    def change(self) -> float:
        """The prediction of the second minus that of the first."""
        return self.second.prediction - self.first.prediction

    @property
    def baseline_change(self) -> float:
        """The difference of the baselines, which is 0 for one model unless it reads positions."""
        return self.second.baseline - self.first.baseline

    @cached_property
    def changes(self) -> tuple[WordChange, ...]:
        """The words of both, those with the largest difference first."""
        scores = [dict(zip(_words(e), e.scores.tolist(), strict=True)) for e in self._both]
        first, second = scores
        # A dict keeps the order of the words, unlike a set.
        words = dict.fromkeys([*first, *second])
        changes = [
            WordChange(word=word, first=first.get(word), second=second.get(word)) for word in words
        ]
        return tuple(sorted(changes, key=lambda change: -abs(change.change)))

    @property
    def values(self) -> Array:
        """The differences of `changes`."""
        return np.array([change.change for change in self.changes])

    @cached_property
    def standard_errors(self) -> Array:
        """The standard errors of `values`, as of independent estimates; zero for exact scores."""
        squares: dict[str, float] = {}
        for e in self._both:
            if e.standard_error is None:
                continue
            for word, error in zip(_words(e), e.standard_error.tolist(), strict=True):
                squares[word] = squares.get(word, 0.0) + error**2
        return np.sqrt([squares.get(change.word, 0.0) for change in self.changes])

    @property
    def _both(self) -> tuple[Explanation, Explanation]:
        return self.first, self.second

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, ready for `json.dumps`."""
        return {
            "output": self.first.output,
            "scale": self.scale.name,
            "names": list(self.names),
            "predictions": [e.prediction for e in self._both],
            "baselines": [e.baseline for e in self._both],
            "change": self.change,
            "words": [
                {**word._asdict(), "change": word.change, "standard_error": error}
                for word, error in zip(self.changes, self.standard_errors.tolist(), strict=True)
            ],
            "explanations": [e.to_dict() for e in self._both],
        }

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with both scores of each word and their difference."""
        from ..show.exports import frame_of_comparison

        return frame_of_comparison(self)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return both texts side by side as one HTML page, and write it to `path` if given."""
        from ..show.comparison_report import comparison_report
        from ..show.page import write_page

        page = comparison_report(self)
        if path is not None:
            write_page(path, page)
        return page

    def __str__(self) -> str:
        """Return the comparison as a terminal shows it, without color."""
        from ..show.terminal import comparison_text

        return comparison_text(self)

    def __repr__(self) -> str:
        change = self.scale.change(self.change)
        return f"Comparison({self.first.output}: {change}, {len(self.changes)} words)"

    def _repr_html_(self) -> str:
        from ..show.comparison_report import comparison_cell

        return comparison_cell(self)


def _words(e: Explanation) -> tuple[str, ...]:
    """Return a different name for each player, by which players of two texts are matched."""
    return e.evidence.names


def compare(
    first: Explanations, second: Explanations, names: tuple[str, str] | None = None
) -> Comparison:
    """Compare two explanations: of two texts by one model, or of one text by two models.

    Parameters
    ----------
    first, second : results of `explain`. The second is explained for the output of the first, by
        Shapley values; of three classes and more, for its predicted class against the runner-up
    names : what to call the two; by default "first text" and "second text", or "first model" and
        "second model"

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> compare(model.explain("A fine film"), model.explain("A dull film"))
    Comparison(positive: -55.7 points, 4 words)
    """
    pair = runner_up_of(first)
    output = first.output
    if pair is not None:
        output = f"margin:{','.join(pair)}"
    # The second text is explained for the output of the first, which it may not be predicted as.
    both = [for_output(first, output), for_output(second, output)]
    leading = [explanations[explanations.evidence.headline] for explanations in both]
    first_scale, second_scale = (e.scale.name for e in leading)
    check(
        "second",
        first_scale == second_scale,
        f"an explanation on the scale {first_scale!r}",
        second_scale,
    )
    # Two models may have different names for their classes.
    first_output, second_output = (e.output for e in leading)
    check("second", first_output == second_output, f"the output {first_output!r}", second_output)
    if names is None:
        thing = "text"
        if first.evidence.model is not second.evidence.model and first.text == second.text:
            thing = "model"
        names = (f"first {thing}", f"second {thing}")
    return Comparison(leading[0], leading[1], names)
