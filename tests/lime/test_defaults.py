"""What a caller gets who says nothing: the defaults that the documentation names."""

import inspect

import numpy as np
import pytest

from attn_closed_form.lime.features import lime_features
from attn_closed_form.lime.limit import lime_limit
from attn_closed_form.lime.sampled import lime_sample, lime_samples_needed
from attn_closed_form.lime.theory import lime_mean_field

DEFAULTS = [
    (lime_features, {"num_features": 10, "kernel_width": 25.0, "num_samples": 5000, "tol": 1e-10}),
    (lime_limit, {"kernel_width": 25.0, "ridge": 1.0, "num_samples": 5000, "tol": 1e-10}),
    (lime_sample, {"num_samples": 5000, "kernel_width": 25.0, "ridge": 1.0, "seed": None}),
    (lime_samples_needed, {"kernel_width": 25.0, "ridge": 1.0, "seed": 0}),
    (lime_mean_field, {"kernel_width": np.inf}),
]


@pytest.mark.parametrize(("function", "expected"), DEFAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_defaults(function, expected):
    given = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in expected} == expected
