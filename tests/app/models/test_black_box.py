from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier, game_from_black_box, shapley
from attn_closed_form.slalom.recover import recover

Pool = Callable[[list[Any]], Any]


def pooled(s: Any, v: Any, dtype: Any = np.float64) -> Pool:
    """A softmax mean of rows v (n, C), written out."""
    s = np.asarray(s, dtype=dtype)
    v = np.asarray(v, dtype=dtype)

    def f(bags: list[Any]) -> Any:
        rows = []
        for bag in bags:
            mass = np.exp(s[bag] - s[bag].max())
            rows.append((mass[:, None] * v[bag].reshape(len(bag), -1)).sum(axis=0) / mass.sum())
        return np.array(rows, dtype=dtype)

    return f


def random_bag(n: int, C: int, spread: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=n), rng.normal(size=(n, C))


@pytest.mark.parametrize("C", [1, 3])
def test_finds_the_game_in_2n_minus_1_queries(C: int) -> None:
    s, v = random_bag(23, C)
    asked = 0

    def counted(bags: list[Any]) -> Any:
        nonlocal asked
        asked += len(bags)
        return pooled(s, v)(bags)

    game = game_from_black_box(counted, 23, output=C - 1, checks=17, batch_size=5)
    assert game.queries == 45 and asked == 45 + 17
    assert game.deviation < 1e-12
    assert np.abs((game.s[0] - game.s[0, 0]) - (s - s[0])).max() < 1e-10
    assert np.abs(game.v[0] - v[:, C - 1]).max() == 0
    assert "deviation" in repr(game) and shapley(game).shape == (23,)


def test_importances_far_apart_are_refined() -> None:
    """50 log units apart: 2n - 1 queries beside two references show some of them not at all."""
    s, v = random_bag(60, 2, spread=12.0)
    coarse = recover(pooled(s, v), np.arange(60), refine=False)
    fine = recover(pooled(s, v), np.arange(60))

    def error(found: Any) -> float:
        return float(np.abs((found - found[0]) - (s - s[0])).max())

    assert error(coarse[0]) > 1e-3 and error(fine[0]) < 1e-4
    assert coarse[2] == 119 < fine[2] < 400


def test_float32_is_good_to_its_digits() -> None:
    s, v = random_bag(40, 2, spread=2.0)
    game = game_from_black_box(pooled(s, v, np.float32), 40)
    assert 0 < game.deviation < 1e-4


def test_one_instance_and_constant_models() -> None:
    assert game_from_black_box(lambda bags: np.full(len(bags), 2.0), 1).v.tolist() == [[2.0]]
    game = game_from_black_box(lambda bags: np.full(len(bags), 2.0), 5)
    assert game.queries == 5 and game.deviation == 0


def relu_after(bags: list[Any]) -> Any:
    s, v = random_bag(20, 4)
    return np.maximum(pooled(s, v)(bags), 0).sum(axis=1)


def largest(bags: list[Any]) -> Any:
    return np.array([random_bag(20, 1)[1][bag].max() for bag in bags])


def summed(bags: list[Any]) -> Any:
    return np.array([random_bag(20, 1)[1][bag].sum() for bag in bags])


def two_heads(bags: list[Any]) -> Any:
    (s, v) = random_bag(20, 1, 2.0)
    (r, w) = random_bag(20, 1, 2.0, seed=1)
    return pooled(s, v)(bags) + pooled(r, w)(bags)


@pytest.mark.parametrize("f", [relu_after, largest, summed, two_heads])
def test_what_is_no_pooled_game_raises(f: Pool) -> None:
    with pytest.raises(ValueError, match=r"^f: "):
        game_from_black_box(f, 20)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda bags: np.zeros(3), "^f: "),
        (lambda bags: np.full(len(bags), np.nan), "^f: "),
    ],
)
def test_wrong_outputs_are_named(f: Pool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        game_from_black_box(f, 20)


def test_wrong_arguments_are_named() -> None:
    f = pooled(*random_bag(4, 2))
    for options, message in [
        ({"n": 0}, "n: "),
        ({"output": 2}, "output: "),
        ({"batch_size": 0}, "batch_size: "),
    ]:
        with pytest.raises(ValueError, match=message):
            game_from_black_box(f, **{"n": 4, **options})


class TestFromAttention:
    def test_agrees_and_explains(self) -> None:
        s, v = random_bag(9, 3)
        coords = np.arange(18).reshape(9, 2)
        model = BagClassifier.from_attention(
            s, v, pooled(s, v), outputs=["a", "b", "c"], coords=coords
        )
        assert model.deviation is not None and model.deviation < 1e-14
        assert np.allclose(
            model.predict_logits([model.bag])[0], pooled(s, v)([np.arange(9)])[0], atol=1e-13
        )
        found = model.explain(model.bag, ["shapley", "alpha-mean"], output="b")
        assert np.isclose(found["shapley"].scores.sum(), model.predict_logits([model.bag])[0][1])
        assert np.allclose(found["alpha-mean"].scores, np.exp(s) / np.exp(s).sum())
        assert "within" in repr(model)

    def test_the_bias_is_the_empty_bag(self) -> None:
        s, v = random_bag(6, 2)
        model = BagClassifier.from_attention(s, v, pooled(s, v), bias=[0.5, -0.25])
        found = model.explain(model.bag, "shapley", output=1, scale="logit")
        assert found["shapley"].baseline == -0.25
        assert np.isclose(
            found["shapley"].scores.sum(), model.predict_logits([model.bag])[0][1] + 0.25
        )

    def test_one_attention_per_class(self) -> None:
        s = np.random.default_rng(1).normal(size=(2, 7))
        v = random_bag(7, 2)[1]

        def f(bags: list[Any]) -> Any:
            return np.concatenate([pooled(s[c], v[:, c])(bags) for c in range(2)], axis=1)

        model = BagClassifier.from_attention(s, v, f)
        assert model.deviation is not None and model.deviation < 1e-14 and model.network.H == 2

    def test_attention_after_its_softmax_is_noticed(self) -> None:
        s, v = random_bag(12, 2)
        alpha = np.exp(s) / np.exp(s).sum()
        with pytest.raises(ValueError, match=r"^f: "):
            BagClassifier.from_attention(alpha, v, pooled(s, v))

    def test_unchecked_is_reported(self) -> None:
        s, v = random_bag(5, 1)
        model = BagClassifier.from_attention(s, v[:, 0])
        assert model.deviation is None and "one softmax over the instances (not checked)" in repr(
            model
        )
        with pytest.raises(ValueError, match="raw_attention"):
            BagClassifier.from_attention(s[:4], v)


@pytest.mark.parametrize(
    ("link", "name"),
    [
        (lambda z: 1 / (1 + np.exp(-z)), "the logistic function"),
        (np.tanh, "the hyperbolic tangent"),
        (np.exp, "the exponential"),
    ],
)
def test_a_function_of_pooled_logits_is_named_and_the_sampler_is_offered(link, name):
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=7), rng.normal(size=7)
    f = lambda bags: [link(np.exp(s[b]) @ v[b] / np.exp(s[b]).sum()) for b in bags]  # noqa: E731
    with pytest.raises(ValueError, match=f"pooled, with a nonlinear tail: {name}.*shapley_sample"):
        game_from_black_box(f, 7)


def test_probabilities_of_several_classes_are_a_softmax_of_pooled_logits():
    rng = np.random.default_rng(1)
    s, v = rng.normal(size=6), rng.normal(size=(6, 3))

    def f(bags):
        logits = np.array([np.exp(s[b]) @ v[b] / np.exp(s[b]).sum() for b in bags])
        masses = np.exp(logits)
        return masses / masses.sum(axis=1, keepdims=True)

    with pytest.raises(ValueError, match="nonlinear tail: the softmax of pooled logits"):
        game_from_black_box(f, 6)


def test_other_functions_are_not_called_pooled():
    v = np.random.default_rng(2).normal(size=7)
    with pytest.raises(ValueError, match=r"Possible reasons.*shapley_sample") as caught:
        game_from_black_box(lambda bags: [np.prod(1 + v[b]) for b in bags], 7)
    assert "nonlinear tail:" not in str(caught.value)
