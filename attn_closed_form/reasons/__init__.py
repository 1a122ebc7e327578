"""Certified reasons: bounds of a prediction, sets of players that suffice, sets whose removal flips
it.
"""

from .bounds import Bounds, bounds
from .by_size import BoundsBySize, bounds_by_size
from .curves import RemovalCurves, removal_curves
from .reasons import (
    ContrastiveReason,
    SufficientReason,
    contrastive_reason,
    contrastive_reason_of_any,
    sufficient_reason,
    sufficient_reason_of_all,
)
from .search import UndecidedError

__all__ = [
    "Bounds",
    "BoundsBySize",
    "ContrastiveReason",
    "RemovalCurves",
    "SufficientReason",
    "UndecidedError",
    "bounds",
    "bounds_by_size",
    "contrastive_reason",
    "contrastive_reason_of_any",
    "removal_curves",
    "sufficient_reason",
    "sufficient_reason_of_all",
]
