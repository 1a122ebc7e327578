"""The array types that all modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.intp]
Masks = NDArray[np.bool_]
Tokens = Sequence[int] | NDArray[Any]
Span = tuple[int, int]
# The label of a class, as training data and JSON have it.
Label = bool | int | float | str
