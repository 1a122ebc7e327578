"""Errors that several folders raise, and how warnings reach the user's line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from traceback import walk_stack

# Lines in this folder are ours, not the user's.
PACKAGE = Path(__file__).parent


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning about the first line outside the package, which called it."""
    level = 1
    for frame, _ in walk_stack(sys._getframe()):
        if not Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            break
        level += 1
    warnings.warn(message, category, stacklevel=level)


class CostError(ValueError):
    """Error for a computation that was not started, because it would take too long.

    The message names the cost and what makes it smaller. `seconds` is the predicted time on one
    core.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[CostError], tuple[str, float]]:
        return type(self), (str(self), self.seconds)
