"""What a caller gets who says nothing: the defaults that the documentation names."""

import inspect

import pytest

from attn_closed_form.files.open_model import from_torch_state_dict
from attn_closed_form.models.classifier.gradient import (
    classifier_lrp,
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    integrated_gradients_report,
)
from attn_closed_form.models.classifier.predict import pooled_game, random_weights
from attn_closed_form.models.classifier.weights import AttentionWeights

DEFAULTS = [
    (pooled_game, {"output": 0}),
    (gradient, {"output": 0}),
    (gradient_mean, {"output": 0}),
    (gradient_l1, {"output": 0}),
    (gradient_l2, {"output": 0}),
    (gradient_times_input, {"output": 0}),
    (classifier_lrp, {"output": 0}),
    (integrated_gradients, {"output": 0, "tol": 1e-10}),
    (integrated_gradients_report, {"output": 0, "tol": 1e-10}),
    (
        random_weights,
        {"D": 50, "d_e": 16, "T_max": 32, "K": 2, "d_att": 8, "d_out": 8, "C": 1, "score_scale": 1.0, "biases": False},
    ),
    (from_torch_state_dict, {"base": 10000.0, "cls": 0, "unk": 1, "scale": True, "pos": True, "cls_position": 0}),
    (AttentionWeights, {"cls": 0, "unk": 1}),
]


@pytest.mark.parametrize(("function", "expected"), DEFAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_defaults(function, expected):
    given = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in expected} == expected
