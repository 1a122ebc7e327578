"""What a caller gets who says nothing: the defaults that the documentation names."""

import inspect

import pytest

from attn_closed_form.game.by_size import expected_value_by_size, moments_by_size
from attn_closed_form.game.indices import interactions
from attn_closed_form.game.interactions import interactions_of, shapley_interactions
from attn_closed_form.game.owen import owen
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.game.semivalues import semivalue, semivalue_by_size, weighted_banzhaf
from attn_closed_form.game.shapley import banzhaf, shapley
from attn_closed_form.reasons.reasons import contrastive_reason, sufficient_reason

DEFAULTS = [
    (shapley, {"tol": 1e-10}),
    (banzhaf, {"tol": 1e-10}),
    (interactions, {"tol": 1e-10}),
    (shapley_interactions, {"tol": 1e-10}),
    (interactions_of, {"tol": 1e-10}),
    (owen, {"tol": 1e-10}),
    (expected_value_by_size, {"tol": 1e-10}),
    (moments_by_size, {"tol": 1e-10}),
    (semivalue_by_size, {"tol": 1e-10}),
    (semivalue, {"alpha": 1.0, "beta": 1.0, "tol": 1e-10}),
    (weighted_banzhaf, {"p": 0.5, "tol": 1e-10}),
    (PooledGame.from_scores, {"bias": 0.0, "empty_value": 0.0}),
    (sufficient_reason, {"threshold": 0.0}),
    (contrastive_reason, {"threshold": 0.0}),
]


@pytest.mark.parametrize(("function", "expected"), DEFAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_defaults(function, expected):
    given = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in expected} == expected
