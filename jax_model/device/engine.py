"""The engine of `attn-closed-form corpus run --engine jax`: explanations of many texts at once, on any device.

The runner (`attn_closed_form/app/run/task.py`) reads texts and passes them in batches. The engine predicts, and
computes Shapley values of probabilities and logits, LIME's limit of logits, and scores from gradients. The core
computes the rest: other methods and models, LIME's limit of probabilities, and documents that cannot keep `tol` on the
device.

**Floating type.** It is float64, which keeps the tolerances of the core, unless `tol` is at least FLOAT32_TOL and
the device is an accelerator; then it is float32, with the budget of `budgets.py`. Predictions are always computed in
float64.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

# On a CPU the workers provide the parallelism; on an accelerator several of them share its memory.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np

from attn_closed_form._types import Array
from attn_closed_form.app.explanations.evidence import Evidence, Scored
from attn_closed_form.app.explanations.explain import gather_evidence
from attn_closed_form.app.explanations.settings import Settings
from attn_closed_form.app.models.protocol import Model, Units
from attn_closed_form.app.models.text_classifier import TextClassifier
from attn_closed_form.attention import predict_many

from .budgets import power_of_two
from .documents import GRADIENT_SCORES, gradient_scores, lime, predict, shapley
from .linked import shapley as linked_shapley

# The least `tol` for which an accelerator computes in float32.
FLOAT32_TOL = 5e-3
GAMES = ("shapley", "lime")


def has_accelerator() -> bool:
    """Whether JAX finds a device other than the CPU."""
    return any(device.platform != "cpu" for device in jax.devices())


class Engine:
    """Batches of texts on JAX's default device."""

    def __init__(self) -> None:
        jax.config.update("jax_enable_x64", True)
        self.accelerated = has_accelerator()

    def refusal(self, model: Model, methods: Sequence[str], settings: Settings) -> str:
        """Return the reason why nothing of a run would be computed on the device, or "" if something is."""
        able = (*GAMES, *GRADIENT_SCORES)
        if not isinstance(model, TextClassifier):
            return f"the device explains attention classifiers of texts, but this model is a {type(model).__name__}"
        if not set(methods) & set(able):
            return f"the device computes {', '.join(able)}, but none of them was requested"
        word = next(
            word
            for word in model.vocabulary
            if word not in (model.vocabulary.cls, model.vocabulary.unk)
        )
        try:
            linked = gather_evidence(model, model.read(word), settings).scale.link is not None
        except ValueError:  # a tokenizer that does not read the word; rows decide
            linked = False
        if linked and not set(methods) & {"shapley", *GRADIENT_SCORES}:
            return "the device computes LIME only of logits, but this run explains probabilities; add --scale logit"
        return ""

    def logits(self, model: Any, units: Sequence[Units]) -> Array:
        """Return the (n, C) logits of n inputs of a `TextClassifier`; on a CPU by the core, without compilation."""
        if not self.accelerated:
            return predict_many(model.weights, [one.data for one in units])
        out = np.empty((len(units), model.weights.C))
        for places in _by_length(units):
            out[places] = predict(model.weights, [units[i].data for i in places], "float64")
        return out

    def scored(
        self, evidences: Sequence[Evidence], methods: Sequence[str]
    ) -> list[dict[str, Scored]]:
        """Return scores by method of inputs that share model and settings; missing methods are left to the core."""
        found: list[dict[str, Scored]] = [{} for _ in evidences]
        for name in (name for name in methods if name in GAMES):
            for linked in (False, True) if name == "shapley" else (False,):
                places = [
                    i
                    for i, evidence in enumerate(evidences)
                    if evidence.exact
                    and not evidence.settings.rest
                    and (evidence.scale.link is not None) == linked
                ]
                some = [evidences[i] for i in places]
                for i, scored in zip(
                    places, _of_games(name, some, linked) if some else (), strict=True
                ):
                    if scored is not None:
                        found[i][name] = scored
        names = [name for name in methods if name in GRADIENT_SCORES]
        for places in _by_length([evidence.units for evidence in evidences]) if names else ():
            few = [evidences[i] for i in places]
            for i, rows in zip(places, _gradients(few), strict=True):
                for name in names:
                    tokens = rows[GRADIENT_SCORES.index(name), 1 : 1 + evidences[i].units.data.size]
                    found[i][name] = Scored(evidences[i].pool(tokens), evidences[i].absent_logit)
        return found


def _by_length(units: Sequence[Units]) -> list[list[int]]:
    """Group the indices of inputs by the length of their rows of ids."""
    places: dict[int, list[int]] = {}
    for i, one in enumerate(units):
        places.setdefault(power_of_two(1 + one.data.size), []).append(i)
    return list(places.values())


def _gradients(evidences: Sequence[Evidence]) -> Array:
    model: Any = evidences[0].model
    ids = [evidence.units.data for evidence in evidences]
    output = np.array([evidence.on_logit.settings.coefficients for evidence in evidences])
    return gradient_scores(model.weights, ids, output, dtype="float64")


def _of_games(name: str, evidences: Sequence[Evidence], linked: bool) -> list[Scored | None]:
    """Compute Shapley values or LIME's limit; None for a document that the device cannot explain within `tol`."""
    model: Any = evidences[0].model
    settings = evidences[0].settings
    options: dict[str, Any] = {
        "tol": settings.tol,
        "dtype": "float32" if settings.tol >= FLOAT32_TOL and has_accelerator() else "float64",
    }
    if linked:
        games: Any = [evidence.game for evidence in evidences]
        found = linked_shapley(games, **options)
    else:
        found = (shapley if name == "shapley" else lime)(
            model.weights,
            [evidence.units.data for evidence in evidences],
            settings.players,
            settings.absent,
            np.array([evidence.settings.coefficients for evidence in evidences]),
            core=False,
            **options,
        )
    return [
        None
        if i in found.problems
        else Scored(
            np.asarray(getattr(value, "coef", value), np.float64), float(base), float(error)
        )
        for i, (value, base, error) in enumerate(
            zip(found.values, found.bases, found.errors, strict=True)
        )
    ]
