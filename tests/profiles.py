"""How many examples a property is tried on: those of the profile (tests/conftest.py), or more where
it needs them.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def at_least(examples):
    """Decorator for a property that needs more examples than the profile "dev" gives; larger
    profiles keep theirs.
    """
    return settings(max_examples=max(examples, settings.default.max_examples))


def mostly_slow(values: Iterable[Any], keep: int) -> list[Any]:
    """Parameters of a test: `make test` tries the first ones, and `make test-all` all of them."""
    values = list(values)
    slow = [pytest.param(*as_tuple(value), marks=pytest.mark.slow) for value in values[keep:]]
    return values[:keep] + slow


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Several parameters as they are, and one parameter as a tuple."""
    return value if isinstance(value, tuple) else (value,)
