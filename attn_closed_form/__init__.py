"""Exact explanations of softmax-attention classifiers, in NumPy alone.

From the raw weights of an attention classifier: predictions, attention, exact gradients. See README.md for a tour and
NOTATION.md for the symbols.
"""

from .attention import alpha_avg, alpha_max, attention, attention_matrices
from .by_size import expected_value_by_size
from .collapse import TruncationWarning
from .game import PooledGame, merge_tokens, pooled_game
from .gradient import (
    IntegratedGradients,
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    integrated_gradients_report,
)
from .lime import LimeCoefficients, lime_features, lime_limit
from .lime_sample import LimeSample, lime_sample, lime_samples_needed
from .lime_theory import lime_first_order, lime_mean_field, lime_theorem_5_1
from .model import predict, predict_many, random_weights
from .model_file import load_demo_model, load_model, save_model
from .positions import sinusoidal_positions
from .quadrature import ToleranceError
from .shapley import banzhaf, leave_one_out, shapley, shapley_interactions
from .slalom import Slalom, slalom_linearized, slalom_recover
from .slalom_fit import SlalomFit, SlalomWarning, slalom_fit_eff, slalom_fit_fidel
from .slalom_weights import SlalomReadoff, slalom_from_weights, slalom_to_weights
from .text import Vocabulary, tokenize
from .weights import AttentionWeights
from .weights_io import from_torch_state_dict, load_weights, save_weights

__version__ = "0.1.0"

__all__ = [
    "AttentionWeights",
    "IntegratedGradients",
    "LimeCoefficients",
    "LimeSample",
    "PooledGame",
    "Slalom",
    "SlalomFit",
    "SlalomReadoff",
    "SlalomWarning",
    "ToleranceError",
    "TruncationWarning",
    "Vocabulary",
    "alpha_avg",
    "alpha_max",
    "attention",
    "attention_matrices",
    "banzhaf",
    "expected_value_by_size",
    "from_torch_state_dict",
    "gradient",
    "gradient_l1",
    "gradient_l2",
    "gradient_mean",
    "gradient_times_input",
    "integrated_gradients",
    "integrated_gradients_report",
    "leave_one_out",
    "lime_features",
    "lime_first_order",
    "lime_limit",
    "lime_mean_field",
    "lime_sample",
    "lime_samples_needed",
    "lime_theorem_5_1",
    "load_demo_model",
    "load_model",
    "load_weights",
    "merge_tokens",
    "pooled_game",
    "predict",
    "predict_many",
    "random_weights",
    "save_model",
    "save_weights",
    "shapley",
    "shapley_interactions",
    "sinusoidal_positions",
    "slalom_fit_eff",
    "slalom_fit_fidel",
    "slalom_from_weights",
    "slalom_linearized",
    "slalom_recover",
    "slalom_to_weights",
    "tokenize",
]
