"""LIME for pooled games: the exact limit, the sampler, and the theorems of Lopardo et al. 2024."""

from .cost import LimeCost, lime_cost
from .limit import LimeCoefficients, lime_features, lime_limit
from .sampled import LimeSample, lime_sample, lime_samples_needed
from .theory import lime_first_order, lime_mean_field, lime_theorem_5_1

__all__ = [
    "LimeCoefficients",
    "LimeCost",
    "LimeSample",
    "lime_cost",
    "lime_features",
    "lime_first_order",
    "lime_limit",
    "lime_mean_field",
    "lime_sample",
    "lime_samples_needed",
    "lime_theorem_5_1",
]
