"""Exact explanations of models that pool with a softmax, with NumPy only.

A model is converted to a `PooledGame`, which gives exact Shapley values, LIME's limit and SLALOM scores. From the
weights of an attention classifier, predictions, attention and gradients are also computed. `explain` works for any
model. The names here are the ones that most users need; the subpackages have the others: `attn_closed_form.game`,
`.lime`, `.reasons`, `.slalom` and `.models.classifier`. See README.md for a tour and NOTATION.md for the symbols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .explanations.evidence import ToleranceWarning
from .explanations.explain import explain
from .explanations.explanation import Explanation, Explanations
from .explanations.methods import METHODS
from .explanations.settings import Settings
from .files.bags import load_bag
from .files.open_model import load_demo_model, load_model, save_model
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
from .game.budget import ToleranceError
from .lime import lime_limit, lime_sample
from .models.bag import Bag
from .models.bag_classifier import BagClassifier
from .models.black_box import game_from_black_box
from .models.classifier import AttentionWeights, attention, gradient, predict
from .models.classifier.predict import TruncationWarning
from .models.heads import head_games
from .models.kernel import KernelPredictor
from .models.mean_text import MeanPooledText
from .models.score_table import ScoreTable
from .models.text_classifier import TextClassifier
from .models.transformer import TransformerClassifier
from .reasons import bounds, bounds_by_size, contrastive_reason, sufficient_reason
from .slalom import Slalom, SlalomWarning, fit_slalom

if TYPE_CHECKING:
    from .run.table import explain_table

__version__ = "0.3.0"

__all__ = [
    "METHODS",
    "AttentionWeights",
    "Bag",
    "BagClassifier",
    "Explanation",
    "Explanations",
    "KernelPredictor",
    "MeanPooledText",
    "PooledGame",
    "ScoreTable",
    "Settings",
    "Slalom",
    "SlalomWarning",
    "TextClassifier",
    "ToleranceError",
    "ToleranceWarning",
    "TransformerClassifier",
    "TruncationWarning",
    "attention",
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
    "head_games",
    "interactions",
    "leave_one_out",
    "lime_limit",
    "lime_sample",
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
    """Import `explain_table` on first use, because the runner is needed for nothing else."""
    if name == "explain_table":
        from .run.table import explain_table

        return explain_table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
