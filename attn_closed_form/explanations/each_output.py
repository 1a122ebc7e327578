"""One explanation per output of a model: the input is read once, so only the games differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..models.protocol import Model
from .explain import explain_units
from .explanation import Explanations
from .methods import as_methods
from .settings import Settings


def explain_outputs(
    model: Model,
    raw: Any,
    methods: str | Iterable[str] | None = None,
    outputs: Iterable[str] | None = None,
    **settings: Any,
) -> dict[str, Explanations]:
    """Explain one input for several outputs, such as one map of a slide per class.

    Parameters
    ----------
    model, raw, methods, **settings : as in `explain`, but for `output`
    outputs : names of classes or margins ("margin:A,B"); default: every class. A model with one logit has one output
        to explain, because the scores for its other class are the same with the sign turned

    Returns
    -------
    dict from the name of the output to `Explanations`

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> found = explain_outputs(load_demo_model(), "A fine film", "shapley", outputs=["negative", "positive"])
    >>> {name: bool(each["shapley"].scores[1] > 0) for name, each in found.items()}
    {'negative': False, 'positive': True}
    """
    if settings.pop("output", None) is not None:
        raise TypeError("output: expected `outputs`, a list of names")
    chosen, wanted = as_methods(methods), Settings.from_options(settings)
    units = model.read(raw)
    names = list(outputs) if outputs is not None else _all_outputs(model, units)
    strict = methods is not None and methods != "all"
    found = (explain_units(model, units, chosen, replace(wanted, output=name), strict) for name in names)
    return {each.output: each for each in found}


def _all_outputs(model: Model, units: Any) -> list[str]:
    return list(model.outputs[-1:]) if len(model.logits(units)) == 1 else list(model.outputs)
