"""The default set of methods: LIME is in it as long as it is quick."""

import pytest

from attn_closed_form.app.explanations import methods
from attn_closed_form.app.explanations.methods import METHODS, as_methods
from tests.texts import model_for

WORDS = " ".join(f"word{i}" for i in range(1200))


@pytest.fixture(scope="module")
def long_text():
    """Many deleted words, on the probability scale."""
    return model_for(WORDS, T_max=None, K=1)


def test_lime_of_a_long_text_is_not_among_the_defaults(long_text):
    found = long_text.explain(WORDS)
    assert list(found) == [name for name in map(str, METHODS) if name in found]
    assert "shapley" in found
    assert "lime" not in found


def test_lime_of_a_short_text_is_among_the_defaults(long_text):
    assert "lime" in long_text.explain(" ".join(WORDS.split()[:50]))


def test_the_limit_is_a_time(long_text, monkeypatch):
    monkeypatch.setattr(methods, "LIME_SECONDS", 0.0)
    text = " ".join(WORDS.split()[:50])
    assert "lime" not in long_text.explain(text)
    assert "lime" in long_text.explain(text, methods="lime"), "asked for by name"


def test_names_alone_do_not_depend_on_an_input():
    assert "lime" in [method.name for method in as_methods(None)]
