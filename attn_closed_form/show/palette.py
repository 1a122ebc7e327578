"""The one colour scale of terminal, report and plots: blue for, orange against, purple where there is no sign.

Blue and orange stay apart for every common kind of colour blindness, unlike P1's green and red. Strengths are cut into
five levels, so that words can also be marked without any colour: +, ++, +++, ++++.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._types import Array

# Red, green, blue of full strength.
FOR = (33, 113, 181)
AGAINST = (217, 95, 2)
UNSIGNED = (117, 107, 177)

# A strength at or above LEVELS[i] has level i + 1. Below 1/8 of the strongest word a word is left plain.
LEVELS = (0.125, 0.3, 0.5, 0.75)
# Opacity of each level over the page.
OPACITY = (0.0, 0.16, 0.30, 0.45, 0.62)


def levels(strength: Array) -> NDArray[np.int_]:
    """Level -4..4 of each strength in [-1, 1].

    >>> levels(np.array([0.05, 0.2, -0.6, -1.0]))
    array([ 0,  1, -3, -4])
    """
    return np.sign(strength).astype(int) * np.searchsorted(LEVELS, np.abs(strength), side="right")


def mix(colour: tuple[int, int, int], opacity: float, ground: int = 255) -> tuple[int, int, int]:
    """A colour over a grey ground (255 is white).

    >>> mix((0, 100, 200), 0.5)
    (128, 178, 228)
    """
    red, green, blue = (round(c * opacity + ground * (1 - opacity)) for c in colour)
    return red, green, blue
