"""Networks with layers after the pooling, against torch and against the enumeration of all
coalitions.
"""

from __future__ import annotations

import functools
import math
import pickle
from typing import Any

import numpy as np
import pytest

from attn_closed_form.app.explanations.explain import explain_logit
from attn_closed_form.app.models.bag import Bag
from attn_closed_form.app.models.bag_classifier import BagClassifier
from attn_closed_form.app.models.bag_network import Attention, BagNetwork
from attn_closed_form.app.models.layers import ACTIVATIONS, Layer
from attn_closed_form.app.models.protocol import NotPooledError
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.models.tail import (
    Elementwise,
    LayeredTail,
    Residual,
    Standardize,
    UnitLength,
)
from attn_closed_form.app.show.exports import row
from attn_closed_form.app.show.maps import columns, player_table, runner_up_sentence

D = 5
N = 7
K = 3


def steps(rng: np.random.Generator, classes: int = 2) -> dict[str, list[Any]]:
    """One list of steps for each kind of tail."""
    first = Layer(rng.normal(size=(K, D)), rng.normal(size=K))
    last = Layer(rng.normal(size=(classes, K)), rng.normal(size=classes))
    wide = Layer(rng.normal(size=(classes, D)), rng.normal(size=classes))
    norm = Standardize(rng.normal(size=D), rng.normal(size=D))
    inner = [norm, first, "gelu", Layer(rng.normal(size=(D, K)))]
    return {
        "linear": [first, last],
        "tanh": [first, "tanh", "dropout", last],
        "relu": [first, "relu", last],
        "deep": [
            first,
            "silu",
            Layer(rng.normal(size=(K, K))),
            Elementwise("leaky_relu", 0.2),
            last,
        ],
        "norm": [norm, wide],
        "unit": [UnitLength(), wide],
        "residual": [Residual(inner), wide],
        "sigmoid": [wide, "sigmoid"],
    }


KINDS = list(steps(np.random.default_rng(0)))


def pooling(rng: np.random.Generator, heads: int = 1) -> BagNetwork:
    """A network whose pooled vector has the means of D features, each by one of the heads."""
    head = np.arange(D) % heads
    return BagNetwork(Attention(rng.normal(size=(heads, D))), np.eye(D), np.zeros(D), None, head)


def by_hand(network: BagNetwork, tail: list[Any], x: np.ndarray) -> np.ndarray:
    """Compute the logits of a bag one number at a time; the empty bag has a pooled vector of
    zeros.
    """
    h = np.zeros(D)
    for i in range(D):
        if len(x):
            assert network.value_head is not None
            mass = np.exp(x @ network.attention.w[network.value_head[i]])
            h[i] = (mass * x[:, i]).sum() / mass.sum()
    for step in LayeredTail(tail).steps:
        h = step(h[None])[0]
    return h


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_layers(kind: str, heads: int) -> None:
    rng = np.random.default_rng(3)
    tail = steps(rng)[kind]
    network = pooling(rng, heads)
    model = BagClassifier(network.then(tail))
    assert (model.tail is None) == (kind == "linear")
    for size in (1, 2, N):
        x = rng.normal(size=(size, D))
        np.testing.assert_allclose(
            model.predict_logits([x])[0], by_hand(network, tail, x), atol=1e-12
        )


def test_a_tail_is_described_by_its_steps() -> None:
    rng = np.random.default_rng(0)
    first = Layer(rng.normal(size=(K, D)))
    last = Layer(rng.normal(size=(2, D)))
    norm = Standardize(np.ones(D), np.zeros(D))
    tail = LayeredTail(
        [norm, Residual([first, "gelu", Layer(rng.normal(size=(D, K)))]), UnitLength(), last]
    )
    assert repr(tail) == (
        "LayeredTail(LayerNorm, residual [Linear 5 -> 3, gelu, Linear 3 -> 5], L2 norm, "
        "Linear 5 -> 2)"
    )


def test_the_logit_is_explained_by_the_method_that_was_asked_for() -> None:
    """Only the method that views show first may be another one for the logit."""
    rng = np.random.default_rng(5)
    model = BagClassifier(pooling(rng).then(steps(rng)["tanh"]))
    found = model.explain(Bag(rng.normal(size=(3, D))), ["leave-one-out"])
    logit = explain_logit(found, "leave-one-out")
    assert logit is not None
    assert list(logit) == ["leave-one-out"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "linear"])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_values_agree_with_the_enumeration_of_all_coalitions(kind: str, scale: str) -> None:
    rng = np.random.default_rng(5)
    network = pooling(rng)
    tail = steps(rng)[kind]
    model = BagClassifier(network.then(tail))
    x = rng.normal(size=(N, D))

    @functools.cache  # every coalition once
    def f(*members: int) -> float:
        logits = by_hand(network, tail, x[list(members)])
        if scale == "logit":
            return float(logits[1])
        return float(1 / (1 + np.exp(logits[0] - logits[1])))

    exact = np.zeros(N)
    for j in range(N):
        others = [i for i in range(N) if i != j]
        for number in range(1 << (N - 1)):
            members = [i for k, i in enumerate(others) if number >> k & 1]
            weight = 1 / (N * math.comb(N - 1, len(members)))
            exact[j] += weight * (f(*sorted([*members, j])) - f(*members))
    found = model.explain(x, output="1", scale=scale)
    e = found[found.evidence.headline]
    assert abs(e.baseline - f()) < 1e-12
    assert abs(e.prediction - f(*range(N))) < 1e-12
    if kind == "tanh" and scale == "logit":
        assert e.method == "shapley" and e.error is not None
        assert np.abs(e.scores - exact).max() <= e.error
    else:
        assert e.method == "shapley-sampled" and e.standard_error is not None
        assert np.abs(e.scores - exact).max() <= 5 * e.standard_error.max() + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_differences(kind: str) -> None:
    rng = np.random.default_rng(7)
    model = BagClassifier(pooling(rng, 2).then(steps(rng)[kind]))
    x = rng.normal(size=(N, D))
    scores = model.explain(x, "gradient-x-input", output="1", scale="logit")[
        "gradient-x-input"
    ].scores
    step = 1e-6
    for j in range(N):
        moved = [x.copy(), x.copy()]
        moved[0][j] *= 1 + step
        moved[1][j] *= 1 - step
        up, down = model.predict_logits(moved)[:, 1]
        assert abs(scores[j] - (up - down) / (2 * step)) < 1e-6


def test_any_function_is_a_tail() -> None:
    rng = np.random.default_rng(0)
    network = BagNetwork(
        Attention(rng.normal(size=(1, D))), np.eye(D), np.zeros(D), tail=lambda h: h[:, :2] ** 2
    )
    model = BagClassifier(network, ("a", "b"))
    found = model.explain(rng.normal(size=(N, D)))
    assert list(found)[:2] == ["shapley-sampled", "leave-one-out"]
    assert "gradient-l1" not in found
    e = found["shapley-sampled"]
    assert abs(e.baseline + e.scores.sum() - e.prediction) < 1e-9
    with pytest.raises(ValueError, match=r"^methods: "):
        model.explain(rng.normal(size=(N, D)), "gradient-l1")


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (lambda h: h[:, 0], "^tail: "),
        (lambda h: h @ np.ones((3, 2)), "^tail: "),
        (lambda h: h[:, :2] / 0, "^tail: "),
        (["tahn"], "^tail: "),
        ([7], "^tail: "),
        ([Residual([Layer(np.ones((2, D)))])], "^tail: "),
    ],
)
def test_what_is_not_a_tail_is_refused(tail: Any, message: str) -> None:
    attention = Attention(np.ones((1, D)))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        BagNetwork(attention, np.eye(D), np.zeros(D), tail=tail)


def test_what_needs_a_pooled_game_is_refused_with_the_reason() -> None:
    rng = np.random.default_rng(0)
    model = BagClassifier(pooling(rng).then(steps(rng)["norm"]), ("a", "b"))
    bag = Bag(rng.normal(size=(N, D)), coords=256.0 * np.indices((N, 1)).reshape(2, N).T)
    found = model.explain(bag)
    for method in ("shapley", "lime", "banzhaf", "slalom-value", "flip-order"):
        with pytest.raises(NotPooledError, match="a nonlinear layer follows the pooling"):
            model.explain(bag, method)
    for ask in (
        found.reasons,
        lambda: found.grouped("instances"),
        found["shapley-sampled"].interactions,
        found["shapley-sampled"].removal_curves,
    ):
        with pytest.raises(NotPooledError, match="a nonlinear layer follows the pooling"):
            ask()
    assert set(model.explain(bag, "all")) > set(found)
    page = found.report()
    assert "there are no certified reasons" in page
    assert "no exact values" in str(found)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_elementwise_steps_are_the_activations(name: str) -> None:
    h = np.linspace(-3, 3, 12).reshape(3, 4)
    np.testing.assert_array_equal(Elementwise(name)(h), ACTIVATIONS[name].function(h))


def test_steps_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="the layers are compared with torch (extra bench)")
    rng = np.random.default_rng(1)
    h = rng.normal(size=(4, D))
    weight, bias = rng.normal(size=(2, D))
    F = torch.nn.functional
    tensors = [torch.tensor(array) for array in (h, weight, bias)]
    expected = F.layer_norm(tensors[0], (D,), tensors[1], tensors[2], 1e-3)
    np.testing.assert_allclose(Standardize(weight, bias, 1e-3)(h), expected.numpy(), atol=1e-14)
    np.testing.assert_allclose(UnitLength()(h), F.normalize(tensors[0]).numpy(), atol=1e-14)
    assert not UnitLength()(np.zeros((1, D))).any()
    leaky = F.leaky_relu(tensors[0], 0.3).numpy()
    np.testing.assert_allclose(Elementwise("leaky_relu", 0.3)(h), leaky, atol=1e-14)


def test_a_model_with_a_tail_can_be_pickled() -> None:
    rng = np.random.default_rng(0)
    model = BagClassifier(pooling(rng).then(steps(rng)["residual"]))
    x = rng.normal(size=(N, D))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_logits([x]), model.predict_logits([x]))


def large_tanh_model() -> BagClassifier:
    """One hidden layer whose first unit has arguments of both signs beyond every pole."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(K, D))
    weight[0] *= 200
    network = pooling(rng).then([Layer(weight), "tanh", Layer(rng.normal(size=(2, K)))])
    return BagClassifier(network, ("no", "yes"))


def test_a_logit_that_no_poles_reach_is_sampled_and_its_report_is_written() -> None:
    model = large_tanh_model()
    bag = np.random.default_rng(1).normal(size=(N, D))
    logits = model.explain(bag, scale="logit")
    assert not logits.evidence.exact and "shapley" not in logits
    sampled = logits["shapley-sampled"]
    assert np.isclose(sampled.baseline + sampled.scores.sum(), logits.prediction)
    assert "Shapley (sampled)" in model.explain(bag).report()
    with pytest.raises(NotPooledError, match="shapley-sampled"):
        model.explain(bag, "shapley", scale="logit")


def test_sampled_scores_keep_their_standard_errors_where_exact_ones_exist() -> None:
    rng = np.random.default_rng(2)
    model = BagClassifier(
        BagNetwork(Attention(rng.normal(size=(1, D))), rng.normal(size=(2, D)), [0.0, 0.5])
    )
    found = model.explain(rng.normal(size=(20, D)), ["shapley", "shapley-sampled"])
    table = columns(found)
    assert "shapley_standard_error" not in table
    assert np.array_equal(
        table["shapley-sampled_standard_error"], found["shapley-sampled"].standard_error
    )
    titles, rows = player_table(found, np.arange(3))
    assert titles[-1] == "±" and not rows[0][1][-1].startswith("+")
    assert row(found)["method"] == "shapley" and row(found)["standard_error"] is None


def test_one_of_several_classes_is_shown_against_its_runner_up() -> None:
    rng = np.random.default_rng(3)
    names = ("aster", "birch", "cedar", "daisy")
    network = BagNetwork(Attention(rng.normal(size=(1, D))), rng.normal(size=(4, D)), np.zeros(4))
    found = BagClassifier(network, names).explain(rng.normal(size=(9, D)))
    best, second = sorted(names, key=lambda name: -found.probabilities[name])[:2]
    margin = found.probabilities[best] / (found.probabilities[best] + found.probabilities[second])
    sentence = runner_up_sentence(found)
    assert f"the probability of {best} is {percent(margin)} (exact values" in sentence
    assert f"{best} against the runner-up {second}" in found.report()
    assert row(found)["standard_error"] == float(found["shapley-sampled"].standard_error.max())
