"""The classifier of Lopardo et al. 2024: weights, predictions, attention, gradients, LRP, documents
as games.
"""

from .gradient import (
    classifier_lrp,
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
)
from .predict import (
    alpha,
    alpha_avg,
    alpha_max,
    attention_matrices,
    pooled_game,
    predict,
    predict_many,
    random_weights,
)
from .weights import AttentionWeights, sinusoidal_positions

__all__ = [
    "AttentionWeights",
    "alpha",
    "alpha_avg",
    "alpha_max",
    "attention_matrices",
    "classifier_lrp",
    "gradient",
    "gradient_l1",
    "gradient_l2",
    "gradient_mean",
    "gradient_times_input",
    "integrated_gradients",
    "pooled_game",
    "predict",
    "predict_many",
    "random_weights",
    "sinusoidal_positions",
]
