"""Exact explanations of models that pool with a softmax, in NumPy alone.

A model becomes a `PooledGame`; from the game come exact Shapley values, LIME's limit and SLALOM scores, and from the
weights of an attention classifier also predictions, attention and gradients. `explain` puts them together for any
explainable model. See README.md for a tour and NOTATION.md for the symbols.
"""

from .classifier.attention import alpha_avg, alpha_max, attention, attention_matrices
from .classifier.document_game import pooled_game
from .classifier.files import load_weights, save_weights
from .classifier.gradient import (
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
)
from .classifier.integrated_gradients import IntegratedGradients, integrated_gradients, integrated_gradients_report
from .classifier.lrp import classifier_lrp
from .classifier.positions import sinusoidal_positions
from .classifier.predict import predict, predict_many, random_weights
from .classifier.score_tables import TruncationWarning
from .classifier.torch_state import from_torch_state_dict
from .classifier.weights import AttentionWeights
from .explainable.bag import Bag
from .explainable.bag_classifier import BagClassifier
from .explainable.bag_files import load_bag
from .explainable.black_box import game_from_black_box
from .explainable.mean_text import MeanPooledText
from .explainable.model_file import load_demo_model, load_model, save_model
from .explainable.protocol import Explainable, Units
from .explainable.scores import Scores
from .explainable.settings import Settings
from .explainable.text import Vocabulary, tokenize
from .explainable.text_classifier import TextClassifier
from .explainable.transformer_classifier import TransformerClassifier
from .explanations.answers import GroupScores, Reasons
from .explanations.each_output import explain_outputs
from .explanations.evidence import ToleranceWarning
from .explanations.explain import explain
from .explanations.explanation import Explanation, Explanations
from .explanations.methods import DEFAULT_METHODS, METHODS
from .game.by_size import expected_value_by_size
from .game.indices import Interactions, interactions
from .game.interactions import interactions_of, shapley_interactions
from .game.owen import owen
from .game.pooled_game import PooledGame, merge_tokens
from .game.quadrature import ToleranceError
from .game.reasons.bounds import Bounds, bounds
from .game.reasons.reasons import ContrastiveReason, SufficientReason, contrastive_reason, sufficient_reason
from .game.semivalues import semivalue, semivalue_by_size, weighted_banzhaf
from .game.shapley import banzhaf, leave_one_out, shapley
from .lime.features import lime_features
from .lime.limit import LimeCoefficients, lime_limit
from .lime.sampled import LimeSample, lime_sample, lime_samples_needed
from .lime.theory import lime_first_order, lime_mean_field, lime_theorem_5_1
from .show.heat_map import heat_map
from .slalom.fit import slalom_fit_classes, slalom_fit_eff, slalom_fit_fidel
from .slalom.fitted import SlalomFit, SlalomWarning
from .slalom.readoff import SlalomReadoff, slalom_from_weights, slalom_to_weights
from .slalom.recover import slalom_recover
from .slalom.slalom import Slalom, slalom_linearized

__version__ = "0.2.0"

__all__ = [
    "DEFAULT_METHODS",
    "METHODS",
    "AttentionWeights",
    "Bag",
    "BagClassifier",
    "Bounds",
    "ContrastiveReason",
    "Explainable",
    "Explanation",
    "Explanations",
    "GroupScores",
    "IntegratedGradients",
    "Interactions",
    "LimeCoefficients",
    "LimeSample",
    "MeanPooledText",
    "PooledGame",
    "Reasons",
    "Scores",
    "Settings",
    "Slalom",
    "SlalomFit",
    "SlalomReadoff",
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
    "bounds",
    "classifier_lrp",
    "contrastive_reason",
    "expected_value_by_size",
    "explain",
    "explain_outputs",
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
    "interactions_of",
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
    "semivalue_by_size",
    "shapley",
    "shapley_interactions",
    "sinusoidal_positions",
    "slalom_fit_classes",
    "slalom_fit_eff",
    "slalom_fit_fidel",
    "slalom_from_weights",
    "slalom_linearized",
    "slalom_recover",
    "slalom_to_weights",
    "sufficient_reason",
    "tokenize",
    "weighted_banzhaf",
]
