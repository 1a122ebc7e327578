"""SLALOM (P2): importance and value of every token, recovered, fitted to any black box, or read off weights."""

from typing import TYPE_CHECKING, Any

from .fit import SlalomFit, SlalomWarning, fit_slalom, fit_slalom_classes
from .least_squares import Optimum
from .recover import slalom_recover
from .slalom import Slalom, slalom_linearized

if TYPE_CHECKING:
    from ..models.classifier.readoff import SlalomReadoff, slalom_from_weights, slalom_to_weights

__all__ = [
    "Optimum",
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


def __getattr__(name: str) -> Any:
    """Import conversions of weights on first use, because the models are built on this folder."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..models.classifier import readoff

    return getattr(readoff, name)
