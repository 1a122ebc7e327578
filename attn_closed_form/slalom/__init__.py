"""SLALOM (P2): importance and value of every token, recovered, fitted to any black box, or read off
weights.
"""

from .design import Deletions, ShortSequences
from .fit import SlalomFit, SlalomWarning, fit_slalom, fit_slalom_classes
from .optimum import Optimum
from .readoff import SlalomReadoff, slalom_from_weights, slalom_to_weights
from .recover import slalom_recover
from .slalom import Slalom, slalom_linearized

__all__ = [
    "Deletions",
    "Optimum",
    "ShortSequences",
    "Slalom",
    "SlalomFit",
    "SlalomReadoff",
    "SlalomWarning",
    "fit_slalom",
    "fit_slalom_classes",
    "slalom_from_weights",
    "slalom_linearized",
    "slalom_recover",
    "slalom_to_weights",
]
