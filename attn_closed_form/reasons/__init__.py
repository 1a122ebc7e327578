"""Certified reasons: bounds of a prediction, sets of players that suffice, sets whose removal flips it."""

from .bounds import Bounds, bounds
from .reasons import ContrastiveReason, SufficientReason, contrastive_reason, sufficient_reason

__all__ = ["Bounds", "ContrastiveReason", "SufficientReason", "bounds", "contrastive_reason", "sufficient_reason"]
