"""Exact explanations of models that pool with a softmax, with NumPy only.

The package has two floors. The mathematics (`attention`, `game`, `lime`, `slalom`, `reasons`): a
model is converted to a `PooledGame`, which gives exact Shapley values, LIME's limit and SLALOM
scores, and the weights of an attention classifier give predictions, attention and gradients. The
product (`app`): models, files, explanations, views, runs, the page and the command line. `import
attn_closed_form` loads attention and games; all other names are loaded on first use.

The names here are the ones that most users need; the subpackages of the mathematics have the
others. See README.md for a tour, NOTATION.md for the symbols and ARCHITECTURE.md for the plan of
the house.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._errors import CostError
from .attention import AttentionWeights, alpha, gradient, predict
from .attention.predict import TruncationWarning
from .game import (
    PooledGame,
    banzhaf,
    expected_value_by_size,
    interactions,
    leave_one_out,
    owen,
    semivalue,
    shapley,
)
from .game.engine.budget import ToleranceError

if TYPE_CHECKING:
    from .app.explanations.evidence import ToleranceWarning
    from .app.explanations.explain import explain
    from .app.explanations.explanation import Explanation, Explanations
    from .app.explanations.methods import METHODS
    from .app.explanations.settings import Settings
    from .app.files.bags import load_bag
    from .app.files.open_model import load_demo_model, load_model, save_model
    from .app.models.bag import Bag
    from .app.models.bag_classifier import BagClassifier
    from .app.models.black_box import game_from_black_box
    from .app.models.mean_text import MeanPooledText
    from .app.models.probe import Activations, ProbeClassifier
    from .app.models.score_table import ScoreTable
    from .app.models.text_classifier import TextClassifier
    from .app.models.transformer import TransformerClassifier
    from .app.run.table import explain_table
    from .lime import lime_limit, lime_sample
    from .reasons import bounds, bounds_by_size, contrastive_reason, sufficient_reason
    from .slalom import Slalom, SlalomWarning, fit_slalom

__version__ = "0.4.0.dev0"

# The module that defines each public name that is imported on first use.
_LOADED_ON_USE = {
    "Bag": "app.models.bag",
    "Activations": "app.models.probe",
    "BagClassifier": "app.models.bag_classifier",
    "ProbeClassifier": "app.models.probe",
    "load_activations": "app.files.activations",
    "Explanation": "app.explanations.explanation",
    "Explanations": "app.explanations.explanation",
    "METHODS": "app.explanations.methods",
    "MeanPooledText": "app.models.mean_text",
    "ScoreTable": "app.models.score_table",
    "Settings": "app.explanations.settings",
    "Slalom": "slalom",
    "SlalomWarning": "slalom",
    "TextClassifier": "app.models.text_classifier",
    "ToleranceWarning": "app.explanations.evidence",
    "TransformerClassifier": "app.models.transformer",
    "bounds": "reasons",
    "bounds_by_size": "reasons",
    "contrastive_reason": "reasons",
    "explain": "app.explanations.explain",
    "explain_table": "app.run.table",
    "fit_slalom": "slalom",
    "game_from_black_box": "app.models.black_box",
    "lime_limit": "lime",
    "lime_sample": "lime",
    "load_bag": "app.files.bags",
    "load_demo_model": "app.files.open_model",
    "load_model": "app.files.open_model",
    "save_model": "app.files.open_model",
    "sufficient_reason": "reasons",
}
# Subpackages that are imported on first use, too.
_SUBPACKAGES = ("app", "lime", "reasons", "slalom")

__all__ = [
    "METHODS",
    "Activations",
    "AttentionWeights",
    "Bag",
    "BagClassifier",
    "CostError",
    "Explanation",
    "Explanations",
    "MeanPooledText",
    "PooledGame",
    "ProbeClassifier",
    "ScoreTable",
    "Settings",
    "Slalom",
    "SlalomWarning",
    "TextClassifier",
    "ToleranceError",
    "ToleranceWarning",
    "TransformerClassifier",
    "TruncationWarning",
    "alpha",
    "banzhaf",
    "bounds",
    "bounds_by_size",
    "contrastive_reason",
    "expected_value_by_size",
    "explain",
    "explain_table",
    "fit_slalom",
    "game_from_black_box",
    "gradient",
    "interactions",
    "leave_one_out",
    "lime_limit",
    "lime_sample",
    "load_activations",
    "load_bag",
    "load_demo_model",
    "load_model",
    "owen",
    "predict",
    "save_model",
    "semivalue",
    "shapley",
    "sufficient_reason",
]


def __getattr__(name: str) -> object:
    """Import a name on first use (PEP 562), and keep it."""
    if name in _SUBPACKAGES:
        return importlib.import_module(f".{name}", __name__)
    module = _LOADED_ON_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that are imported on first use, too."""
    return sorted({*globals(), *__all__, *_SUBPACKAGES})
