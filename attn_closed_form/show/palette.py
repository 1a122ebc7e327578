"""The one colour scale of terminal, report, page and plots.

Vermilion raises the prediction and blue lowers it, as in shap and lime; grey has no sign. The two are Okabe and Ito's,
which stay apart for every common kind of colour blindness. Strengths are cut into five levels, so that players can also
be marked without any colour: +, ++, +++, ++++.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._types import Array

# Red, green, blue of full strength.
FOR = (213, 94, 0)
AGAINST = (0, 114, 178)
UNSIGNED = (110, 110, 110)

# A strength at or above LEVELS[i] has level i + 1. Below 1/8 of the strongest word a word is left plain.
LEVELS = (0.125, 0.3, 0.5, 0.75)
# Opacity of each level over the page.
OPACITY = (0.0, 0.16, 0.30, 0.45, 0.62)
# The same levels among the 256 colours of a terminal, from light to strong; black text reads on each.
TERMINAL = {"for": (223, 216, 209, 202), "against": (195, 153, 111, 75), "unsigned": (254, 251, 248, 245)}


def levels(strength: Array) -> NDArray[np.int_]:
    """Level -4..4 of each strength in [-1, 1].

    >>> levels(np.array([0.05, 0.2, -0.6, -1.0]))
    array([ 0,  1, -3, -4])
    """
    return np.sign(strength).astype(int) * np.searchsorted(LEVELS, np.abs(strength), side="right")


def css(colour: tuple[int, int, int], opacity: float | None = None) -> str:
    """A colour as CSS writes it.

    >>> css((0, 114, 178)), css((0, 114, 178), 0.5)
    ('rgb(0,114,178)', 'rgba(0,114,178,0.5)')
    """
    red, green, blue = colour
    return f"rgb({red},{green},{blue})" if opacity is None else f"rgba({red},{green},{blue},{opacity:g})"
