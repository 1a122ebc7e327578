"""Warnings are about the line of the user, wherever inside the package they are issued."""

import warnings

import numpy as np
import pytest

from attn_closed_form import fit_slalom, gradient, load_demo_model, predict
from attn_closed_form.attention import alpha, pooled_game, predict_many, random_weights
from tests.texts import model_for

WEIGHTS = random_weights(0, D=9, T_max=4)
LONG = [3, 4, 5, 6, 7]
CALLS = {
    "predict": lambda: predict(WEIGHTS, LONG),
    "many": lambda: predict_many(WEIGHTS, [LONG]),
    "alpha": lambda: alpha(WEIGHTS, LONG),
    "gradient": lambda: gradient(WEIGHTS, LONG),
    "game": lambda: pooled_game(WEIGHTS, LONG),
    "fit": lambda: fit_slalom(lambda ids: np.zeros(len(ids)), range(20), num_samples=5),
    "tolerance": lambda: load_demo_model().explain("a fine film", "shapley", tol=1e-17),
    "text": lambda: model_for("a fine film").explain("a " * 99, "leave-one-out"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_names_the_line_of_the_user(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    assert [warning.filename for warning in caught] == [__file__] * len(caught) != []
