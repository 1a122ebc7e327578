"""Errors that several folders raise."""

from __future__ import annotations


class CostError(ValueError):
    """Error for a computation that was not started, because it would take too long.

    The message names the cost and what makes it smaller. `seconds` is the predicted time on one core.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[CostError], tuple[str, float]]:
        return type(self), (str(self), self.seconds)
