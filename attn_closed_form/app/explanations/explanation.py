"""The results of `explain`: scores of players, and everything that a view needs.

An `Explanation` is plain data with exports: `to_dict`, `to_shap`, `to_lime`, `to_shapiq` (see
`show/exports.py`) and `_repr_html_` (see `show/html.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._arrays import plain
from ..._shapes import set_fields
from ..._types import Array, Span
from ...game.interactions import interactions
from ...game.links import LinkedGame
from ...game.pooled_game import PooledGame
from ...reasons.curves import RemovalCurves
from ..models.fit_report import FitReport
from ..models.protocol import NOT_POOLED, NotPooledError
from ..models.scale import LOGIT, ExplainedScale
from ..models.target import Target
from .answers import GroupScores, Reasons, checked_sets, group_scores, reasons, removal_curves_of
from .evidence import Evidence
from .methods import METHODS, Family, Method, find_method

if TYPE_CHECKING:
    from .comparison import Comparison


class Occurrence(NamedTuple):
    """The position of a unit in the text, `text[start:end]`, and its player."""

    start: int
    end: int
    player: int


def _shared(path: str) -> Any:
    """Define a property that reads an attribute of the evidence."""
    return property(attrgetter(f"evidence.{path}"))


class OfEvidence:
    """The attributes that all explanations of one input share.

    Attributes
    ----------
    target : what is explained, see `Target`
    output : the explained output: a class, or the margin of two classes
    scale : the explained scale, see `ExplainedScale`
    prediction : the explained output of the whole input on that scale: a probability, a logit, or
        the margin of two
    probabilities : the probability of each class; None for a model with one output
    game : the game of the players on that scale
    labels : names of the d players as the model reads them, so "[UNK]" for a word outside its
        vocabulary
    spans : for each of the d players, the character spans where it occurs in `text`
    text : the text as given; for other inputs, the labels separated by spaces
    unknown : flags that are True for players outside the vocabulary
    unseen : spans that the model does not read
    """

    evidence: Evidence
    target: Target = _shared("target")
    output: str = _shared("target.output")
    scale: ExplainedScale = _shared("scale")
    prediction: float = _shared("prediction")
    probabilities: dict[str, float] | None = _shared("probabilities")
    game: PooledGame | LinkedGame = _shared("game")
    labels: tuple[str, ...] = _shared("labels")
    spans: tuple[tuple[Span, ...], ...] = _shared("spans")
    text: str = _shared("units.shown_text")
    unknown: tuple[bool, ...] = _shared("unknown")
    unseen: tuple[Span, ...] = _shared("units.unseen")

    @property
    def explained(self) -> str:
        """A sentence that states what is explained, and why it is not the probability if one might
        expect that.
        """
        from ..show.sentences import explained_sentence

        return explained_sentence(self.evidence.target)


@dataclass(frozen=True, eq=False)
class Explanation(OfEvidence):
    """Scores of the players of one input by one method.

    Attributes
    ----------
    method : name in `METHODS`
    scores : (d,) float64, read-only
    baseline : reference value of the scores: the prediction with every player absent, the
        intercept for LIME, or the prediction itself for a derivative
    scale : scale of the scores, the prediction and the baseline: the explained scale, or the
        logit for attention, derivatives and SLALOM, which are always computed from it
    error : guaranteed bound on the error of each score; None for a method without one (see
        `METHODS[method].accuracy`: closed forms round like any float64, estimates and samples are
        not bounded)
    evidence : the model, the input and the game behind it
    standard_error : (d,) standard errors of a method that samples, otherwise None
    model_calls : number of evaluations of a model whose game is fitted to it, otherwise None

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> e = load_demo_model().explain("A fine, fine film", "shapley")["shapley"]
    >>> e.labels, e.spans[1]
    (('a', 'fine', 'film'), ((2, 6), (8, 12)))
    >>> e.scores.round(3), round(e.baseline, 3), round(e.prediction, 3)
    (array([0.   , 0.207, 0.   ]), 0.5, 0.707)
    """

    method: str
    scores: Array
    baseline: float
    error: float | None
    evidence: Evidence = field(repr=False)
    standard_error: Array | None = None
    model_calls: int | None = None

    def __post_init__(self) -> None:
        if self.scores.shape != (self.evidence.d,):
            raise ValueError(
                f"scores: expected shape ({self.evidence.d},), got {self.scores.shape}"
            )
        # The arrays of an explanation are shared by its exports and views.
        self.scores.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)

    def __repr__(self) -> str:
        # Tuning: the number of players in the `repr` of an explanation, about one line.
        named_in_repr = 5
        strongest = [f"{label} {score:+.3g}" for label, score in self.top(named_in_repr)]
        if len(self.labels) > named_in_repr:
            strongest.append("...")
        level = self.scale.level(self.prediction, "+.4g")
        return f"Explanation({self.title} of {self.output} {level}: {', '.join(strongest)})"

    @property
    def scale(self) -> ExplainedScale:  # type: ignore[override]
        """The scale of the scores: the explained scale, or the logit for a method that is computed
        from it.
        """
        if self.on_logits:
            return LOGIT
        return self.evidence.scale

    @property
    def prediction(self) -> float:  # type: ignore[override]
        """The explained output of the whole input, on the scale of the scores."""
        if self.on_logits:
            return self.evidence.logit
        return self.evidence.prediction

    @property
    def of_fit(self) -> bool:
        """Whether these are scores of a game that is only fitted to the model."""
        return self.evidence.model.surrogate is not None and self.info.needs == "game"

    @property
    def trusted(self) -> bool:
        """False for scores of a game that fits the model poorly, which views show in gray."""
        return not self.of_fit or self.evidence.fit is None or self.evidence.fit.grade != "poor"

    @property
    def family(self) -> Family:
        """The family of the method; the scores of a fitted SLALOM are a separate family."""
        if self.of_fit:
            return "slalom"
        return self.info.family

    @property
    def on_logits(self) -> bool:
        """Whether the scores are of the logit even if the probability is explained."""
        return self.of_fit or self.info.on_logits

    @property
    def info(self) -> Method:
        """The method's entry in the table: label, kind, accuracy, summary."""
        return METHODS[self.method]

    @property
    def title(self) -> str:
        """The method's label, with the name of the surrogate if the game is fitted to the model."""
        surrogate = self.evidence.model.surrogate
        if surrogate is None:
            return self.info.label
        return f"{self.info.label} of the {surrogate if self.of_fit else 'model'}"

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every unit that the model reads, in the order of the text, with its player."""
        return tuple(
            # Tuples are sorted by their start, so this is the order of the text.
            sorted(Occurrence(*span, j) for j, spans in enumerate(self.spans) for span in spans)
        )

    @cached_property
    def strength(self) -> Array:
        """The (d,) strengths of the colors: the scores scaled to [-1, 1], see `Method.strength`."""
        return self.info.strength(self.scores)

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n strongest players, strongest first, with their scores.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start, but a wonderful film.", "shapley")
        >>> [(word, round(share, 3)) for word, share in result["shapley"].top(2)]
        [('wonderful', 0.437), ('slow', -0.147)]
        """
        # Logarithms of weights are compared after scaling, because their sign has no meaning.
        order = np.argsort(-np.abs(self.strength), kind="stable")[:n]
        return [(self.labels[j], float(self.scores[j])) for j in order]

    def interactions(self, tol: float = 1e-10) -> Array:
        """Compute the (d, d) Shapley interactions of the same players (see `interactions`).

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start, but a wonderful film.", "shapley")
        >>> pairs = result["shapley"].interactions()
        >>> print(result["shapley"].labels[1], result["shapley"].labels[5], pairs[1, 5].round(4))
        slow film 0.0
        """
        if not self.evidence.is_pooled:
            raise NotPooledError(f"interactions: {NOT_POOLED}")
        return interactions(self.game, tol=tol)

    def removal_curves(self) -> RemovalCurves:
        """Compute the prediction as players are removed or added in the order of these scores, with
        certified bounds.

        `deletion_share` and `insertion_share` of the result are shares of the best possible; see
        `RemovalCurves`.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start, but a wonderful film.", "shapley")
        >>> curves = result["shapley"].removal_curves()
        >>> curves.deletion.round(3)
        array([0.741, 0.271, 0.271, 0.271, 0.271, 0.317, 0.5  ])
        >>> round(curves.deletion_share, 3)
        1.0
        """
        return removal_curves_of(self.evidence, self.scores)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, ready for `json.dumps`."""
        return {"method": self.method, **shared_dict(self.evidence, self.of_fit), **self.own_dict()}

    def own_dict(self) -> dict[str, Any]:
        """Return the part of `to_dict` that differs between methods."""
        numbers = {
            "label": self.title,
            "accuracy": self.info.accuracy,
            "scale": self.scale.name,
            "scores": plain(self.scores),
            "baseline": plain(self.baseline),
            "error": plain(self.error),
        }
        if self.standard_error is not None:
            numbers["standard_error"] = plain(self.standard_error)
        if self.model_calls is not None:
            numbers["model_calls"] = plain(self.model_calls)
        return numbers

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the scores, so that `np.asarray(explanation)` and NumPy's functions work."""
        return np.array(self.scores, dtype=dtype, copy=copy)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per player; needs pandas.

        Its columns are `player` (the name), `score`, `standard_error` (if the method samples),
        `occurrences`, and `start` and `end` of the first occurrence in the text.
        """
        from ..show.exports import frame_of

        return frame_of({"score": self}, self.evidence)

    def to_shap(self) -> Any:
        """Convert to a `shap.Explanation`, for shap's plots; needs the `interop` extra."""
        from ..show.exports import to_shap

        return to_shap(self)

    def to_lime(self) -> Any:
        """Convert to a lime `Explanation`, for `as_list`, `as_html`, `as_pyplot_figure`; needs the
        `interop` extra.
        """
        from ..show.exports import to_lime

        return to_lime(self)

    def to_shapiq(self, order: int = 1, index: str | None = None) -> Any:
        """Convert to a `shapiq.InteractionValues` of order 1 or 2; needs the `interop` extra."""
        from ..show.exports import to_shapiq

        return to_shapiq(self, order, index)

    def _repr_html_(self) -> str:
        return Explanations(self.evidence, {self.method: self})._repr_html_()


def shared_dict(evidence: Evidence, fitted: bool = False) -> dict[str, Any]:
    """Return the data that the explanations of one input share, with the fit if its scores are
    shown.
    """
    from ..show.sentences import explained_sentence

    units = evidence.units
    target = evidence.target
    shared = {
        "text": units.text,
        "labels": evidence.labels,
        # The spans of an input without a text refer to text that only the views make.
        "spans": None if units.spans is None else evidence.spans,
        "unknown": evidence.unknown,
        "unseen": units.unseen,
        "output": target.output,
        "scale": target.scale.name,
        "scale_note": explained_sentence(target),
        "prediction": evidence.prediction,
        "baseline": evidence.baseline,
        "logit": evidence.logit,
        "logits": evidence.logits,
        "probabilities": evidence.probabilities,
        "players": target.players,
        "absent": target.absent,
    }
    if fitted and evidence.fit is not None:
        shared["surrogate"] = evidence.fit.to_dict()
    if evidence.model.doubts:
        shared["assumed"] = evidence.model.doubts
    return plain(shared)


class Explanations(OfEvidence, dict[str, Explanation]):
    """Explanations of one input by method name: a dict that a notebook displays as a report."""

    def __init__(
        self, evidence: Evidence, explanations: dict[str, Explanation] | tuple[()] = ()
    ) -> None:
        super().__init__(explanations)
        self.evidence = evidence

    def __str__(self) -> str:
        """Return the answer as a terminal shows it, without color."""
        from ..show.terminal import answer

        return answer(self) if self else "{}"

    def __missing__(self, name: str) -> Explanation:
        """Return the explanation by a method's short name, such as "loo" for "leave-one-out"."""
        method = find_method(name)
        # A full name that is missing was not computed; looking it up again would never end.
        if method is None or method.name == name:
            raise KeyError(name)
        return self[method.name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, with the fields that all methods share listed once."""
        shared = shared_dict(self.evidence, self.fit is not None)
        return {**shared, "methods": {name: e.own_dict() for name, e in self.items()}}

    @property
    def fit(self) -> FitReport | None:
        """How well the fitted game matches the model, or None if no score belongs to a fitted
        game.
        """
        if any(e.of_fit for e in self.values()):
            return self.evidence.fit
        return None

    def reasons(self, threshold: float | None = None) -> Reasons:
        """Find certified sets that suffice for the prediction, or whose removal flips it; see
        `Reasons`.

        `threshold` is on the explained scale: by default 50%, or a logit of 0. The sets are
        computed once for the probability and its logit.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start, but a wonderful film.", "shapley")
        >>> found = result.reasons()
        >>> [result["shapley"].labels[j] for j in found.sufficient.players]
        ['wonderful']
        >>> print(found.sentences()[0])  # doctest: +ELLIPSIS
        “wonderful” alone is enough: whichever of the other 5 words are removed, the prediction ...
        """
        return reasons(self.evidence, threshold)

    def checked_reasons(self) -> list[str]:
        """Describe sets of players that change or keep the prediction, each evaluated by the
        model.
        """
        from ..show.sentences import checked_sentences

        headline = self.get(self.evidence.headline)
        if headline is None:
            return []
        # The model runs once for each candidate set, so the answer is kept.
        sets = self.evidence.cached(
            "checked sets", lambda: checked_sets(self.evidence, headline.scores)
        )
        return checked_sentences(self.evidence, sets)

    def sentences(self) -> GroupScores:
        """Compute the scores of the sentences of a text, to which the scores of their words add
        up.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start. A wonderful end.", "shapley")
        >>> sentences = result.sentences()
        >>> list(zip(sentences.labels, sentences.scores.round(3).tolist()))
        [('A slow start.', -0.189), ('A wonderful end.', 0.435)]
        """
        return self.grouped("sentences")

    def grouped(self, grouping: str) -> GroupScores:
        """Compute the scores of groups such as "regions", to which the scores of their units add
        up.
        """
        return self.evidence.cached(
            ("groups", grouping), lambda: group_scores(self.evidence, grouping)
        )

    def compare(self, other: Explanations, names: tuple[str, str] | None = None) -> Comparison:
        """Compare with the explanation of another text, or by another model; see `Comparison`.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> model = load_demo_model()
        >>> first = model.explain("A dull film", "shapley")
        >>> second = model.explain("A fine film", "shapley")
        >>> comparison = first.compare(second)
        >>> round(comparison.second.prediction - comparison.first.prediction, 3)
        -0.557
        """
        from .comparison import compare

        return compare(self, other, names)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per player and one column per method; needs
        pandas.
        """
        from ..show.exports import frame_of

        return frame_of(self, self.evidence)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as one HTML page, and write it to `path` if given.

        Examples
        --------
        >>> from attn_closed_form import load_demo_model
        >>> result = load_demo_model().explain("A slow start, but a wonderful film.", "shapley")
        >>> page = result.report()
        >>> page[:15], "wonderful" in page
        ('<!doctype html>', True)
        """
        from ..show.html import report
        from ..show.page import write_page

        page = report(self)
        if path is not None:
            write_page(path, page)
        return page

    def plot(self, path: str | os.PathLike[str] | None = None, figure: str = "table") -> Any:
        """Draw one of the figures as a matplotlib Figure, and save it to `path` if given."""
        from ..show.plots import make_figure

        return make_figure(self, figure, path)

    def _repr_html_(self) -> str:
        from ..show.html import notebook

        return notebook(self)
