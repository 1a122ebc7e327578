"""`explain`: from a model and an input to explanations by several methods, for one output or
several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..._arrays import usual_float_errors
from ..._errors import warn_user
from ...attention.predict import TruncationWarning
from ...game.engine.budget import ToleranceError
from ...game.links import LinkedGame
from ..models.protocol import Model, NotPooledError
from ..models.units import Units
from .evidence import Evidence, Scored
from .explanation import Explanation, Explanations
from .methods import Method, as_methods, default_methods
from .settings import Settings


@usual_float_errors
def explain(
    model: Model, raw: Any, methods: str | Iterable[str] | None = None, **settings: Any
) -> Explanations:
    """Explain one input by several methods.

    Parameters
    ----------
    model : an explainable model, such as `load_demo_model()`, a `TextClassifier`, a `BagClassifier`
        or `ScoreTable()`
    raw : the input in the form that the model reads: a text, a bag, a table of scores. Tokens
        beyond the model's last position are not read (`TruncationWarning`)
    methods : one name, several, or "all"; None for all methods of the model that do not sample. See
        `METHODS`
    **settings : players, absent, output, tol, seed, scale; see `Settings`. If float64 cannot
        guarantee `tol`, it is loosened by powers of ten with a `ToleranceWarning`, and
        `Explanation.error` is the bound that holds

    Returns
    -------
    Explanations, a dict from method name to `Explanation`, in the order of `methods`

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> explanations = explain(load_demo_model(), "A fine film", ["shapley", "alpha-mean"])
    >>> [(name, e.scores.shape) for name, e in explanations.items()]
    [('shapley', (3,)), ('alpha-mean', (3,))]
    >>> explanations.output, round(explanations.probabilities["positive"], 2)
    ('positive', 0.61)
    """
    output = settings.pop("output", None)
    if isinstance(model, Model):
        # A language model becomes a classifier of the continuations that the output names.
        model, output = model.asked(raw, output)
    (explanations,) = explain_outputs(model, raw, methods, outputs=[output], **settings).values()
    return explanations


def for_output(explanations: Explanations, output: str) -> Explanations:
    """Return Shapley values of the same input for another output, cached: exact ones if that output
    has them, otherwise sampled ones.
    """
    evidence = explanations.evidence
    if output == explanations.output and evidence.headline in explanations:
        return explanations

    def compute() -> Explanations:
        # The units keep what was computed from them, so the input is not read or scored again.
        settings = _settings_for(evidence, output)
        methods = as_methods(evidence.headline)
        other = gather_evidence(evidence.model, evidence.units, settings, methods)
        return explain_evidence(other, as_methods(other.headline))

    return evidence.cached(("output", output), compute)


def runner_up_of(explanations: Explanations) -> tuple[str, str] | None:
    """Return the predicted class of three or more and its runner-up, if certified reasons exist."""
    evidence = explanations.evidence
    chances = explanations.probabilities or {}
    if len(chances) < 3 or evidence.model.loss != "softmax" or not evidence.has_reasons:
        return None
    best, second = sorted(chances, key=lambda name: -chances[name])[:2]
    if explanations.output != best:
        return None
    if "," in best + second:  # the name of a margin is split at its comma
        return None
    return best, second


def against_runner_up(explanations: Explanations) -> Explanations:
    """Return Shapley values of the predicted one of three or more classes against its runner-up.

    The logit of one class is defined only up to a shift that all classes share. Its difference to
    another one has a meaning, and for one head the probability of the class where only these two
    are possible has exact values.
    """
    pair = runner_up_of(explanations)
    if pair is None:
        return explanations
    best, second = pair
    return for_output(explanations, f"margin:{best},{second}")


def _settings_for(evidence: Evidence, output: str) -> Settings:
    """Return the settings that explain another output in the same way."""
    target = evidence.target
    if target.scale.link is None and not target.note:
        scale = "logit"
    elif target.exact:
        # Another output may have exact probabilities where this one has none, and the other way
        # round.
        scale = None
    else:
        scale = "probability"
    return Settings(
        players=target.players,
        absent=target.absent,
        output=output,
        tol=target.tol,
        seed=target.seed,
        scale=scale,
        max_error=target.max_error,
    )


def is_mirrored(explanations: Explanations, output: str) -> bool:
    """Return whether the scores of another output are the same with the opposite sign.

    That is so for the other one of two classes, because their probabilities add up to 1.
    """
    target = explanations.evidence.target
    model = explanations.evidence.model
    two_classes = len(model.outputs) == 2 and model.loss == "softmax"
    return two_classes and target.scale.in_percent and output != explanations.output


def explain_logit(explanations: Explanations, method: str) -> Explanations | None:
    """Return the explanation of the logit by one method, cached; None if the logit is explained
    already.
    """
    evidence = explanations.evidence
    logit = evidence.target.logit
    if logit is None:
        return None
    if not evidence.is_pooled and method == evidence.headline:
        # Behind one hidden layer the logit has exact values where the probability has none.
        method = evidence.on(logit).headline
    return evidence.cached(
        ("logit", method), lambda: explain_evidence(evidence.on(logit), as_methods(method))
    )


def explain_units(
    model: Model,
    units: Units,
    methods: Iterable[Method] | None,
    settings: Settings,
    strict: bool = False,
) -> Explanations:
    """Explain an input that the model has read.

    With `strict`, a method that the model lacks is an error.
    """
    evidence = gather_evidence(model, units, settings, methods)
    return explain_evidence(evidence, methods, strict)


def gather_evidence(
    model: Model, units: Units, settings: Settings, methods: Iterable[Method] | None = None
) -> Evidence:
    """Return the evidence for an input that the model has read, with all settings resolved.

    By default the probability is explained. Methods that were asked for by name and need exact
    values are computed from the logit where the probability has no exact values.
    """
    logits = model.logits(units)
    target = settings.resolve(model, logits, units, exact=need_exact_values(methods))
    return within_reach(Evidence(model, units, target, logits), settings)


def within_reach(evidence: Evidence, settings: Settings) -> Evidence:
    """Return the evidence, on the logit scale if the logits are too large for exact values of the
    link.

    An explicitly requested scale is kept, and so are its errors.
    """
    logit = evidence.target.logit
    if settings.scale is not None or logit is None or not evidence.exact:
        return evidence
    if not isinstance(evidence.game, LinkedGame):
        return evidence
    # The poles of a link are a table up to some modulus, and this is the cheapest request that
    # raises an error beyond it.
    try:
        # The largest tolerance that can be requested: beyond it nothing is guaranteed.
        loosest_tol = 1.0
        evidence.game.engine_game(loosest_tol)
    except ToleranceError as error:
        return evidence.on(replace(logit, note=str(error)))
    return evidence


def need_exact_values(methods: Iterable[Method] | None) -> bool:
    """Return whether one of the methods, which were asked for by name, needs exact values."""
    return any(method.needs == "game" for method in methods or ())


def explain_evidence(
    evidence: Evidence, methods: Iterable[Method] | None, strict: bool = False
) -> Explanations:
    """Explain with all settings resolved; None selects the default methods."""
    explanations = Explanations(evidence)
    if methods is None:
        methods = default_methods(evidence)
    for method in methods:
        try:
            scored = method.score(evidence)
        except NotPooledError:
            # "all" leaves out what this model does not have.
            if strict:
                raise
            continue
        if scored is not None:
            explanations[method.name] = _explanation(evidence, method, scored)
        elif strict:
            raise ValueError(
                f"methods: {method.name!r} needs attention or gradients, which {evidence.model!r} "
                "does not provide"
            )
    return explanations


def _explanation(evidence: Evidence, method: Method, scored: Scored) -> Explanation:
    """Return the explanation by one method. Calls of the model only count if nothing is exact."""
    calls = None
    if not evidence.exact:
        calls = scored.model_calls
        # One fit serves all of these methods, so its calls are those of each.
        if method.needs == "game" and evidence.fit is not None:
            calls = evidence.fit.model_calls
    return Explanation(
        method=method.name,
        scores=np.asarray(scored.scores, dtype=np.float64),
        baseline=scored.baseline,
        error=scored.error,
        evidence=evidence,
        standard_error=scored.standard_error,
        model_calls=calls,
    )


def explain_outputs(
    model: Model,
    raw: Any,
    methods: str | Iterable[str] | None = None,
    outputs: Iterable[str | int | None] | None = None,
    **settings: Any,
) -> dict[str, Explanations]:
    """Explain one input for several outputs, such as one map of a slide per class: `Explanations`
    by output.

    Parameters
    ----------
    model, raw, methods, **settings : as in `explain`, except for `output`
    outputs : names of classes or margins ("margin:A,B"); default: every class. A model with one
        logit has one output, because the scores for its other class only differ in sign

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> several = explain_outputs(
    ...     load_demo_model(), "A fine film", "shapley", outputs=["negative", "positive"]
    ... )
    >>> {name: bool(each["shapley"].scores[1] > 0) for name, each in several.items()}
    {'negative': False, 'positive': True}
    """
    if not isinstance(model, Model):
        raise TypeError(
            "model: expected an explainable model, such as load_demo_model(), got "
            f"{type(model).__name__}; a function of token ids is fitted with fit_slalom, one of "
            "bags with game_from_black_box"
        )
    if settings.pop("output", None) is not None:
        raise TypeError("output: expected `outputs`, a list of names")
    # Names and settings are checked before the model reads the input, which may take long.
    chosen = None if methods is None else as_methods(methods)
    shared = Settings.from_options(settings)
    # A method that was named and is missing is an error; the default set and "all" leave it out.
    strict = methods is not None and methods != "all"
    units = model.read(raw)
    if units.unseen:
        seen = len(units.labels)
        unseen = len(units.unseen)
        text = (
            f"text of {seen + unseen} tokens: the model has room for {seen}; the last {unseen} are "
            "not read"
        )
        warn_user(text, TruncationWarning)
    if outputs is None:
        outputs = model.outputs
        if len(model.logits(units)) == 1:
            outputs = model.outputs[-1:]
    several = [
        explain_units(
            model, units, methods=chosen, settings=replace(shared, output=name), strict=strict
        )
        for name in outputs
    ]
    return {explanations.output: explanations for explanations in several}
