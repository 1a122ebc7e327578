"""Exact explanations of models that pool with a softmax, in NumPy alone.

A model becomes a `PooledGame`; from the game come exact Shapley values, LIME's limit and SLALOM scores, and from the
weights of an attention classifier also predictions, attention and gradients. `explain` puts them together for any
explainable model. See README.md for a tour and NOTATION.md for the symbols.
"""

from .explanations.answers import GroupScores, Reasons
from .explanations.evidence import ToleranceWarning
from .explanations.explain import explain, explain_outputs
from .explanations.explanation import Explanation, Explanations
from .explanations.methods import DEFAULT_METHODS, METHODS
from .explanations.settings import Settings
from .files.bags import load_bag
from .files.open_model import from_torch_state_dict, load_demo_model, load_model, load_weights, save_model, save_weights
from .game.budget import ToleranceError
from .game.by_size import expected_value_by_size
from .game.interactions import interactions
from .game.owen import owen
from .game.pooled_game import PooledGame, merge_tokens
from .game.values import banzhaf, beta_shapley, leave_one_out, semivalue, shapley, weighted_banzhaf
from .lime.limit import LimeCoefficients, lime_features, lime_limit
from .lime.sampled import LimeSample, lime_sample, lime_samples_needed
from .lime.theory import lime_first_order, lime_mean_field, lime_theorem_5_1
from .models.bag import Bag
from .models.bag_classifier import BagClassifier
from .models.black_box import game_from_black_box
from .models.classifier.attention import alpha_avg, alpha_max, attention, attention_matrices
from .models.classifier.gradient import (
    IntegratedGradients,
    classifier_lrp,
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    integrated_gradients_report,
)
from .models.classifier.predict import TruncationWarning, pooled_game, predict, predict_many, random_weights
from .models.classifier.weights import AttentionWeights, sinusoidal_positions
from .models.mean_text import MeanPooledText
from .models.protocol import Model, Units
from .models.score_table import ScoreTable
from .models.text import Vocabulary, tokenize
from .models.text_classifier import TextClassifier
from .models.transformer_classifier import TransformerClassifier
from .reasons.bounds import Bounds, bounds
from .reasons.reasons import ContrastiveReason, SufficientReason, contrastive_reason, sufficient_reason
from .show.plots import heat_map
from .slalom import Slalom, SlalomWarning, fit_slalom

__version__ = "0.2.0"

__all__ = [
    "DEFAULT_METHODS",
    "METHODS",
    "AttentionWeights",
    "Bag",
    "BagClassifier",
    "Bounds",
    "ContrastiveReason",
    "Explanation",
    "Explanations",
    "GroupScores",
    "IntegratedGradients",
    "LimeCoefficients",
    "LimeSample",
    "MeanPooledText",
    "Model",
    "PooledGame",
    "Reasons",
    "ScoreTable",
    "Settings",
    "Slalom",
    "SlalomWarning",
    "SufficientReason",
    "TextClassifier",
    "ToleranceError",
    "ToleranceWarning",
    "TransformerClassifier",
    "TruncationWarning",
    "Units",
    "Vocabulary",
    "alpha_avg",
    "alpha_max",
    "attention",
    "attention_matrices",
    "banzhaf",
    "beta_shapley",
    "bounds",
    "classifier_lrp",
    "contrastive_reason",
    "expected_value_by_size",
    "explain",
    "explain_outputs",
    "fit_slalom",
    "from_torch_state_dict",
    "game_from_black_box",
    "gradient",
    "gradient_l1",
    "gradient_l2",
    "gradient_mean",
    "gradient_times_input",
    "heat_map",
    "integrated_gradients",
    "integrated_gradients_report",
    "interactions",
    "leave_one_out",
    "lime_features",
    "lime_first_order",
    "lime_limit",
    "lime_mean_field",
    "lime_sample",
    "lime_samples_needed",
    "lime_theorem_5_1",
    "load_bag",
    "load_demo_model",
    "load_model",
    "load_weights",
    "merge_tokens",
    "owen",
    "pooled_game",
    "predict",
    "predict_many",
    "random_weights",
    "save_model",
    "save_weights",
    "semivalue",
    "shapley",
    "sinusoidal_positions",
    "sufficient_reason",
    "tokenize",
    "weighted_banzhaf",
]
