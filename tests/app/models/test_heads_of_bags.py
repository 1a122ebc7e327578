"""Heads of bag networks: labels, ordered grades, regression and survival, by enumeration and in
every view.
"""

import math

import numpy as np
import pytest

from attn_closed_form import Bag, BagClassifier
from tests.enumeration import coalitions
from tests.profiles import mostly_slow

N = 9
D = 7


def state(C, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {
        "linear_layers.0.0": (5, D),
        "attention.0": (3, 5),
        "attention.2": (1, 3),
        "classifier": (C, 5),
    }
    arrays = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    return {**arrays, "classifier.bias": rng.normal(size=C)}


@pytest.fixture
def bag():
    rng = np.random.default_rng(1)
    return Bag(rng.normal(size=(N, D)), coords=256 * np.array([[i % 3, i // 3] for i in range(N)]))


def by_enumeration(model, bag, output, function):
    """Shapley values of a function of the logits, from the logits of all sub-bags."""
    empty = model.network.bias
    masks = coalitions(N)
    rows = [model.predict_logits([bag.subset(mask)])[0] if mask.any() else empty for mask in masks]
    f = function(np.array(rows)[:, output])
    size = masks.sum(axis=1)
    weight = np.array([1 / (N * math.comb(N - 1, k)) for k in range(N)])
    without = [np.flatnonzero(~masks[:, j]) for j in range(N)]
    return [(weight[size[w]] * (f[w | (1 << j)] - f[w])).sum() for j, w in enumerate(without)]


def logistic(f):
    return 1 / (1 + np.exp(-f))


@pytest.mark.parametrize(
    ("head", "C", "function", "scale"),
    mostly_slow(
        [
            ("survival", 1, np.exp, "risk"),
            ("survival", 2, np.exp, "risk"),
            ("regression", 1, np.asarray, "value"),
            ("regression", 3, np.asarray, "value"),
            ("labels", 1, logistic, "probability"),
            ("labels", 3, logistic, "probability"),
            ("ordinal", 2, logistic, "probability"),
        ],
        3,
    ),
)
def test_shapley_values_equal_enumeration(head, C, function, scale, bag):
    model = BagClassifier.from_state_dict(state(C), head=head)
    for output in range(C):
        explanations = model.explain(bag, "shapley", output=output)
        e = explanations["shapley"]
        np.testing.assert_allclose(
            e.scores, by_enumeration(model, bag, output, function), atol=1e-8, rtol=0
        )
        assert explanations.scale.name == scale
        assert e.baseline == pytest.approx(float(function(model.network.bias[output])))
        assert e.prediction == pytest.approx(e.baseline + e.scores.sum())


def test_a_risk_is_called_a_risk_in_every_view(bag):
    model = BagClassifier.from_state_dict(state(1), head="survival")
    explanations = model.explain(bag, ["shapley", "alpha-mean"])
    risk = explanations.prediction
    assert model.outputs == ("risk",) and explanations.probabilities is None
    assert explanations.explained == "Explained: the risk."
    page = explanations.report()
    assert (
        "Explained: the risk." in page
        and f"The risk is {risk:.4f}" in page
        and "Show log-risks" in page
    )
    body = page.partition("</style>")[2]
    assert "probability" not in page.lower() and "percentage" not in page
    # Attention has percentages, a risk has none.
    assert f"{100 * risk:.1f}%" not in body
    assert explanations.to_dict()["scale"] == "risk"
    sufficient, contrastive = explanations.reasons().sentences()
    assert "1.0000" in sufficient + contrastive and "positive" not in sufficient + contrastive
    on_log = model.explain(bag, "shapley", scale="logit")
    assert on_log.scale.name == "log-risk" and on_log.prediction == pytest.approx(np.log(risk))
    assert "the log-risk." in on_log.report()


def test_a_regression_is_a_value_and_never_a_logit(bag):
    model = BagClassifier.from_state_dict(state(2), head="regression", outputs=["age", "purity"])
    page = model.explain(bag, "shapley", output="age").report().partition("</style>")[2]
    assert (
        "Explained: the value of age." in page and "logit" not in page and "probability" not in page
    )
    alone = BagClassifier.from_state_dict(state(1), outputs=["age"])  # one name: no probability
    assert "the value of age" in alone.explain(bag, "shapley").explained
    for wrong in ("probability", "risk"):
        with pytest.raises(ValueError, match="scale"):
            model.explain(bag, "shapley", scale=wrong)


def test_ordered_grades_are_cumulative(bag):
    model = BagClassifier.from_state_dict(state(2), head="ordinal", outputs=["G1", "G2", "G3"])
    assert model.outputs == ("above G1", "above G2")
    logits = model.predict_logits([bag])[0]
    np.testing.assert_allclose(model.predict_proba([bag])[0], logistic(logits))
    assert (
        "the probability of above G2" in model.explain(bag, "shapley", output="above G2").report()
    )


def test_several_heads_explain_the_log_risk_and_say_why(bag):
    rng = np.random.default_rng(0)
    model = BagClassifier.from_state_dict(
        {
            "attention.0.weight": rng.normal(size=(3, D)),
            "attention.2.weight": rng.normal(size=(2, 3)),
            "classifier.0.weight": rng.normal(size=(1, 2 * D)),
        },
        layout="abmil",
        head="survival",
    )
    explanations = model.explain(bag, "shapley")
    assert (
        explanations.scale.name == "log-risk"
        and "exact risks need one head" in explanations.report()
    )
    with pytest.raises(ValueError, match=r"^scale: "):
        model.explain(bag, "shapley", scale="risk")


def test_the_names_and_heads_are_checked():
    with pytest.raises(ValueError, match="head"):
        BagClassifier.from_state_dict(state(1), head="cox")
    with pytest.raises(ValueError, match="outputs"):
        BagClassifier.from_state_dict(state(1), head="survival", outputs=["low", "high"])


def test_a_check_keeps_the_head(bag):
    arrays = state(1)
    yours = BagClassifier.from_state_dict(arrays, activation="relu")
    bags = [bag, bag.subset(np.arange(5))]
    result = BagClassifier.from_state_dict(arrays, head="survival").check(
        bags, yours.predict_logits(bags)
    )
    assert result.model.loss == "exp" and result.model.outputs == ("risk",)
