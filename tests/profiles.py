"""How many examples a property is tried on: those of the profile (tests/conftest.py), or more where
it needs them.
"""

from hypothesis import settings


def at_least(examples):
    """Decorator for a property that needs more examples than the profile "dev" gives; larger
    profiles keep theirs.
    """
    return settings(max_examples=max(examples, settings.default.max_examples))
