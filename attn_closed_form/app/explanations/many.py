"""Explanations of many inputs by one method: scores as arrays, effects of words, and plots of all
inputs at once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..._arrays import choice, usual_float_errors
from ..._types import Array
from ..models.protocol import Model
from ..models.units import Units
from .explain import explain_evidence, gather_evidence
from .explanation import Explanation
from .methods import METHODS, as_methods
from .settings import Settings
from .word_effects import ORDERS, WordEffect, word_effect


class ManyExplanations(Sequence[Explanation]):
    """Explanations of several inputs by one method, in the order of the inputs.

    A sequence of `Explanation`. The arrays of scores of different inputs differ in length, as those
    of shap do.

    Attributes
    ----------
    method : name of the method, see `METHODS`
    values : (n,) object array of the scores of each input
    labels : for each input, the names of its players
    baselines : (n,) baselines of the scores
    predictions : (n,) explained outputs of the whole inputs, on the scale of the scores
    outputs : (n,) names of the explained outputs

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> many = load_demo_model().explain_many(["A fine film.", "Dull."], output="positive")
    >>> many
    ManyExplanations(2 inputs, Shapley: positive 2)
    >>> many.labels[1], [round(float(scores.sum()), 3) for scores in many.values]
    (('dull',), [0.113, -0.444])
    >>> [(effect.word, round(effect.mean, 2)) for effect in many.effects("positive", n=2)]
    [('dull', -0.44), ('fine', 0.11)]
    """

    def __init__(self, method: str, explanations: Iterable[Explanation]) -> None:
        self.method = method
        self._explanations = tuple(explanations)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...

    @overload
    def __getitem__(self, index: slice) -> ManyExplanations: ...

    def __getitem__(self, index: int | slice) -> Explanation | ManyExplanations:
        """Return the explanation of one input, or of several."""
        if isinstance(index, slice):
            return ManyExplanations(self.method, self._explanations[index])
        return self._explanations[index]

    def __len__(self) -> int:
        return len(self._explanations)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {n:,}" for name, n in Counter(self.outputs).most_common())
        return f"ManyExplanations({len(self):,} inputs, {METHODS[self.method].label}: {counts})"

    @property
    def values(self) -> NDArray[np.object_]:
        """The (n,) object array of the scores of each input."""
        # `np.array` of arrays of equal length would be a matrix.
        scores = np.empty(len(self), dtype=object)
        for i, explanation in enumerate(self):
            scores[i] = explanation.scores
        return scores

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The names of the players of each input."""
        return tuple(explanation.labels for explanation in self)

    @property
    def baselines(self) -> Array:
        """The (n,) baselines."""
        return np.array([explanation.baseline for explanation in self])

    @property
    def predictions(self) -> Array:
        """The (n,) explained outputs, on the scale of the scores."""
        return np.array([explanation.prediction for explanation in self])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the explained outputs."""
        return tuple(explanation.output for explanation in self)

    def of_output(self, output: str) -> ManyExplanations:
        """Return the explanations of one output."""
        choice("output", output, dict.fromkeys(self.outputs))
        return ManyExplanations(self.method, (each for each in self if each.output == output))

    def effects(self, output: str, n: int = 20, by: str = "total") -> list[WordEffect]:
        """Return the n words with the strongest effects on an output, strongest first.

        `by` is "total", the sum of the scores of a word over the inputs, or "mean", their mean over
        those with the word.
        """
        choice("by", by, ORDERS)
        choice("output", output, dict.fromkeys(self.outputs))
        scores_of: dict[str, list[float]] = {}
        rows_of: dict[str, list[int]] = {}
        documents = 0
        for row, explanation in enumerate(self):
            if explanation.output != output:
                continue
            documents += 1
            for word, score in word_scores(explanation).items():
                scores_of.setdefault(word, []).append(score)
                rows_of.setdefault(word, []).append(row)
        effects = []
        for word, scores in scores_of.items():
            # The example is the input in which the word has its largest score.
            strongest = int(np.argmax(np.abs(scores)))
            effect = word_effect(
                word=word,
                documents=len(scores),
                total=float(np.sum(scores)),
                squares=float(np.sum(np.square(scores))),
                all_documents=documents,
                example=rows_of[word][strongest],
                example_score=scores[strongest],
            )
            effects.append(effect)
        effects.sort(key=lambda effect: -abs(effect.ordered_by(by).value))
        return effects[:n]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per input and player; needs pandas."""
        from ..show.exports import frame_of_many

        return frame_of_many(self)

    def to_shap(self) -> Any:
        """Convert to a `shap.Explanation` of several texts, for `shap.plots.text`; needs the
        `interop` extra.
        """
        from ..show.exports import many_to_shap

        return many_to_shap(self)

    def plot_bar(
        self, path: str | os.PathLike[str] | None = None, n: int = 20, by: str = "total"
    ) -> Any:
        """Draw the mean effects of the n strongest words with 95% intervals, one panel per output.

        Returns the matplotlib Figure, and saves it if `path` is given.
        """
        from ..show.plots import plot_bar

        return plot_bar(self, path, n, by)

    def plot_beeswarm(
        self, path: str | os.PathLike[str] | None = None, n: int = 15, by: str = "total"
    ) -> Any:
        """Draw the score of each of the n strongest words in each input as a dot, one panel per
        output.
        """
        from ..show.plots import plot_beeswarm

        return plot_beeswarm(self, path, n, by)


def word_scores(explanation: Explanation) -> dict[str, float]:
    """Return the score of each word: the sum over the players with its name."""
    scores: dict[str, float] = {}
    for word, score in zip(explanation.labels, explanation.scores.tolist(), strict=True):
        # A word that occurs twice has two players if the players are tokens.
        scores[word] = scores.get(word, 0.0) + score
    return scores


@usual_float_errors
def explain_many(
    model: Model, inputs: Iterable[Any], method: str | None = None, **settings: Any
) -> ManyExplanations:
    """Explain several inputs by one method. They are read, predicted and prepared together.

    Parameters
    ----------
    model : an explainable model
    inputs : the inputs, in the form that the model reads
    method : one name in `METHODS`; by default Shapley values, which are sampled if no exact ones
        exist
    **settings : as in `explain`. Without `output`, the predicted class of each input is explained;
        a fixed output makes the scores of all inputs comparable

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> many = explain_many(load_demo_model(), ["A fine film.", "Dull."], "leave-one-out")
    >>> many.outputs, [explanation.scores.size for explanation in many]
    (('positive', 'negative'), [3, 1])
    """
    shared = Settings.from_options(settings)
    raws = list(model.several(inputs))
    if not raws:
        raise ValueError("inputs: expected at least one input, got none")
    explanations = []
    # Many models compute the logits of several inputs faster in one pass.
    units = _read(model, raws)
    model.prepare_logits(units)
    for raw, each in zip(raws, units, strict=True):
        asked, output = model.asked(raw, shared.output)
        named = None
        if method is not None:
            named = as_methods(method)
        evidence = gather_evidence(
            asked, each, settings=replace(shared, output=output), methods=named
        )
        methods = named or as_methods(evidence.headline)
        if len(methods) != 1:
            raise ValueError(f"method: expected one name, got {method!r}")
        (explanation,) = explain_evidence(evidence, methods, strict=True).values()
        explanations.append(explanation)
    return ManyExplanations(explanations[0].method, explanations)


def _read(model: Model, raws: Sequence[Any]) -> list[Units]:
    """Read all inputs together; an error names the number of its input."""
    read = []
    for number, (raw, units) in enumerate(zip(raws, model.read_many(raws), strict=True)):
        if units is not None:
            read.append(units)
            continue
        try:
            read.append(model.read(raw))
        except ValueError as error:
            raise ValueError(f"inputs[{number}]: {error}") from None
    return read
