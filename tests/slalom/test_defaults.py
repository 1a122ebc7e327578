"""What a caller gets who says nothing: the defaults that the documentation names."""

import inspect

import numpy as np
import pytest

from attn_closed_form.models.classifier.readoff import SlalomReadoff, slalom_from_weights, slalom_to_weights
from attn_closed_form.slalom.fit import slalom_fit_classes, slalom_fit_eff, slalom_fit_fidel
from attn_closed_form.slalom.fitted import fit_sequences
from attn_closed_form.slalom.least_squares import Problem
from attn_closed_form.slalom.paper_solvers import alternate, sgd
from attn_closed_form.slalom.recover import slalom_recover
from attn_closed_form.slalom.samples import Solution, values_for
from attn_closed_form.slalom.slalom import Slalom, slalom_linearized
from attn_closed_form.slalom.solvers import Alternation, Optimum, Sgd

DEFAULTS = [
    (slalom_fit_eff, {"num_samples": 5000, "length": 2, "gamma": 0.0, "centred": False, "seed": 0}),
    (
        slalom_fit_fidel,
        {"num_samples": 5000, "max_deletions": 5, "any_size": 0.0025, "gamma": 0.0, "centred": False, "seed": 0},
    ),
    (slalom_fit_classes, {"fit": slalom_fit_fidel}),
    (fit_sequences, {"gamma": 0.0, "seed": 0}),
    (slalom_from_weights, {"gamma": 0.0, "num_samples": 2000, "max_deletions": 5, "max_spread": 30.0, "seed": 0}),
    (slalom_to_weights, {"T_max": 256, "d_att": 4}),
    (SlalomReadoff.sequence, {"cls": True}),
    (slalom_recover, {"gamma": 0.0}),
    (Slalom, {"gamma": 0.0, "s_background": -np.inf, "v_background": 0.0}),
    (Slalom.game, {"output": 0, "empty_value": 0.0}),
    (slalom_linearized, {"as_printed": False, "output": 0}),
    (Optimum, {"max_spread": 30.0, "max_iter": 200, "tol": 1e-6}),
    (Sgd, {"learning_rate": 0.5, "batch_size": 128, "steps": 2400}),
    (sgd, {"learning_rate": 0.5, "batch_size": 128, "steps": 2400}),
    (Alternation, {"rounds": 20}),
    (alternate, {"rounds": 20}),
    (Problem, {"background": False, "penalty": 0.0}),
    (Solution, {"background": False, "penalty": 0.0}),
    (values_for, {"ridge": 0.0, "target": 0.0}),
]


@pytest.mark.parametrize(("function", "expected"), DEFAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_defaults(function, expected):
    given = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in expected} == expected
