"""Settings check themselves, and choose the output that they name."""

import numpy as np
import pytest

from attn_closed_form import Settings, TextClassifier, load_demo_model
from attn_closed_form.app.explanations.settings import choose_output
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.attention import random_weights

CLASSES = ("sport", "trade", "crops")
LOGITS = np.array([0.1, 2.0, -1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "^tol: "),
        ({"tol": float("nan")}, "^tol: "),
        ({"tol": "x"}, "^tol: "),
        ({"tol": 2.0}, "^tol: "),
        ({"seed": -1}, "^seed: "),
        ({"seed": 1.5}, "^seed: "),
        ({"output": True}, "^output: "),
        ({"output": 1.0}, "^output: "),
    ],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_an_unknown_setting_is_an_error():
    with pytest.raises(TypeError, match=r"^color: "):
        load_demo_model().explain("film", color="red")


@pytest.mark.parametrize(
    ("output", "name", "coefficients"),
    [
        (None, "trade", (0, 1, 0)),
        ("crops", "crops", (0, 0, 1)),
        (0, "sport", (1, 0, 0)),
        ("2", "crops", (0, 0, 1)),
        ("margin:sport,crops", "sport - crops", (1, 0, -1)),
        ("margin: 0, 1", "sport - trade", (1, -1, 0)),
    ],
)
def test_an_output_is_a_class_an_index_or_a_margin(output, name, coefficients):
    assert choose_output(CLASSES, LOGITS, output) == (name, coefficients)


def test_a_class_whose_name_is_a_number_is_found_by_its_name():
    assert choose_output(("1", "2", "0"), LOGITS, "margin:1,2") == ("1 - 2", (1, -1, 0))
    assert choose_output(("1", "2", "0"), LOGITS, "0") == ("0", (0, 0, 1))
    assert choose_output(("1", "2", "0"), LOGITS, 0) == ("1", (1, 0, 0))


@pytest.mark.parametrize(
    "output", ["tennis", 3, -1, "margin:sport", "margin:sport,sport", "margin:sport,tennis"]
)
def test_what_is_no_output_is_an_error_that_names_the_classes(output):
    with pytest.raises(ValueError, match=r"^output: "):
        choose_output(CLASSES, LOGITS, output)


@pytest.mark.parametrize(
    ("output", "sign"), [("yes", 1), ("no", -1), ("margin:no,yes", -1), (0, -1), ("odds:yes", 1)]
)
def test_one_logit_is_the_log_odds_of_the_second_class(output, sign):
    assert choose_output(("no", "yes"), np.array([-3.0]), output)[1] == (sign,)


@pytest.mark.parametrize(
    ("logit", "name", "sign"), [(-3.0, "no", -1), (0.0, "no", -1), (3.0, "yes", 1)]
)
def test_the_predicted_class_of_one_logit_is_explained(logit, name, sign):
    assert choose_output(("no", "yes"), np.array([logit])) == (name, (sign,))


def test_a_single_output_is_explained_as_it_is():
    assert choose_output(("risk",), np.array([-3.0])) == ("risk", (1.0,))


def test_a_margin_is_the_difference_of_two_explanations():
    words = ["[CLS]", "[UNK]", "a", "fine", "dull", "film"]
    model = TextClassifier(random_weights(seed=1, D=6, C=3), Vocabulary(words), CLASSES)
    scores = {
        output: model.explain(
            "a fine dull film",
            ["shapley", "gradient-x-input", "integrated-gradients"],
            output=output,
        )
        for output in ("sport", "crops", "margin:sport,crops")
    }
    for method in ("shapley", "gradient-x-input", "integrated-gradients"):
        both = scores["sport"][method].scores - scores["crops"][method].scores
        np.testing.assert_allclose(
            scores["margin:sport,crops"][method].scores, both, rtol=0, atol=1e-9
        )
    assert (
        scores["sport"].output == "sport" and scores["margin:sport,crops"].output == "sport - crops"
    )
