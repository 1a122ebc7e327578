"""Batches on a device against the core, their derivatives, and the programs as they are lowered for
CUDA and TPU.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import attn_closed_form as acf
from attn_closed_form import PooledGame
from attn_closed_form.attention import predict_many, random_weights
from jax_model import device
from jax_model.training.config import Config
from jax_model.training.loop import Optimizer, TrainingState, take_step
from jax_model.training.text_model import Baseline, start_arrays, text_loss
from tests.problems import games, random_game
from tests.profiles import mostly_slow

SIZES = {"D": 31, "d_e": 7, "K": 3, "d_att": 5, "d_out": 2, "C": 2, "biases": True}
MODELS = {
    "positions": random_weights(3, T_max=41, score_scale=2.0, **SIZES),
    "no positions": random_weights(3, T_max=None, score_scale=2.0, **SIZES),
}
RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, 31, size=n).tolist() for n in (1, 7, 40, 12)]
KINDS = ("deleted", "deleted+background", "replaced", "replaced+background")
# The core and the device are both within 1e-10 of the truth, relative to values of at most 10.
AGREE = 1e-9
ARRAYS = ("s", "v", "s_absent", "v_absent", "s_background", "v_background")


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-5)])
@pytest.mark.parametrize("name", mostly_slow(MODELS, 0))
def test_predictions_and_gradients(name, dtype, tolerance):
    model = MODELS[name]
    tables = device.device_tables(model, dtype)
    texts = [*DOCUMENTS, []]
    ids = device.padded_ids(model, texts)
    predictions = device.predict(tables, ids)
    assert predictions.dtype == dtype
    assert np.abs(predictions - predict_many(model, texts)).max() <= tolerance
    rows = device.gradient(tables, ids, jnp.array([0.5, -2.0], dtype))
    for row, text in zip(rows, texts, strict=True):
        core = acf.gradient(model, text, output=[0.5, -2.0])
        assert np.abs(row[: len(core)] - core).max() <= tolerance
        assert not row[len(core) :].any()


def table_of_games(head_count):
    """The games with known properties that have this many heads and a range that float32 could
    hold.
    """
    selected = []
    for name, game in games().items():
        wide = "1e4" in name or name in ("one player holds all", "masses 1e-300")
        if head_count == game.H and not wide:
            selected.append(game)
    return selected


@pytest.mark.parametrize("heads", mostly_slow([2, 1, 3], 1))
def test_shapley_values_agree_with_the_core(heads):
    sizes = enumerate((1, 2, 5, 11))
    batch = [random_game(seed, d, heads, kind, offset=0.5) for seed, d in sizes for kind in KINDS]
    batch += table_of_games(heads)
    stacked = device.stack_games(batch)
    values = device.shapley(stacked, device.fixed_rule(stacked))
    for row, game in zip(values, batch, strict=True):
        size = max(1.0, np.abs(game.value(np.ones(game.d, bool))), np.abs(game.v).max())
        assert np.abs(row[: game.d] - acf.shapley(game, 1e-11)).max() <= AGREE * size
        assert not row[game.d :].any()


@pytest.mark.slow
def test_float32():
    batch = [random_game(seed, 7, 2, kind) for seed in range(3) for kind in KINDS]
    stacked = device.stack_games(batch, "float32")
    values = device.shapley(stacked, device.fixed_rule(stacked, 1e-6))
    assert values.dtype == np.float32
    for row, game in zip(values, batch, strict=True):
        assert np.abs(row - acf.shapley(game)).max() <= 1e-4 * np.abs(game.v).max()


@pytest.mark.slow
def test_the_number_of_games_at_once_changes_nothing():
    stacked = device.stack_games([random_game(seed, 6, 2, "replaced") for seed in range(5)])
    rule = device.fixed_rule(stacked)
    together = device.shapley(stacked, rule, at_once=5)
    assert np.abs(together - device.shapley(stacked, rule, at_once=2)).max() <= 1e-13


@pytest.mark.parametrize("kind", mostly_slow(KINDS, 0))
def test_derivatives_in_reverse_mode(kind):
    """Against differences of the core, for a combination of all Shapley values."""
    game = random_game(1, 5, 1, kind, offset=0.5)
    stacked = device.stack_games([game])
    rule = device.fixed_rule(stacked)
    weights = np.arange(1.0, 6.0)

    def combination(arrays):
        return device.shapley(stacked._replace(**arrays), rule)[0] @ weights

    given = {name: getattr(stacked, name) for name in ARRAYS}
    derivatives = jax.grad(combination)(given)

    def difference(name, player, step):
        arrays = {each: getattr(game, each).copy() for each in ARRAYS}
        values = []
        for sign in (1, -1):
            moved = arrays | {name: arrays[name] + sign * step * (np.arange(5) == player)}
            moved_game = PooledGame(
                **moved, bias=game.bias, empty_value=game.empty_value, labels=game.labels
            )
            values.append(acf.shapley(moved_game, 1e-12) @ weights)
        return (values[0] - values[1]) / (2 * step)

    for name in ("s", "v", "s_absent", "v_absent"):
        for player in (0, 3):
            if kind.startswith("deleted") and name.endswith("absent"):
                assert derivatives[name][0, 0, player] == 0
                continue
            expected = difference(name, player, 1e-5)
            assert abs(derivatives[name][0, 0, player] - expected) <= 1e-7, (name, player)


def test_bad_batches():
    narrow = random_game(0, 5, 1, "deleted")
    wide = PooledGame.from_scores([0.0, 1e4], [1.0, 2.0])
    with pytest.raises(ValueError, match="games"):
        device.stack_games([narrow, random_game(0, 5, 2, "deleted")])
    with pytest.raises(ValueError, match="games"):
        device.stack_games([])
    with pytest.raises(ValueError, match="games"):
        device.fixed_rule(device.stack_games([narrow, wide]))


def programs(dtype):
    """Every function that the device module and the trainer compile: (jitted function, arguments)
    by name.
    """
    model = MODELS["positions"]
    tables = device.device_tables(model, dtype)
    ids = device.padded_ids(model, DOCUMENTS)
    stacked = device.stack_games([random_game(0, 4, 2, "replaced")], dtype)
    rule = device.fixed_rule(stacked, 1e-6)

    @jax.jit
    def derivative(stacked, rule):
        def total(v):
            return device.shapley(stacked._replace(v=v), rule)[0, 0]

        return jax.grad(total)(stacked.v)

    return {
        "prediction": (device.predict, (tables, ids)),
        "gradient": (device.gradient, (tables, ids, jnp.ones(2, dtype))),
        "Shapley values": (device.shapley, (stacked, rule)),
        "derivative of Shapley values": (derivative, (stacked, rule)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "kind"), [("float64", "f64"), ("float32", "f32")])
def test_every_program_is_lowered_for_cuda_and_tpu(dtype, kind):
    for name, (function, arguments) in programs(dtype).items():
        lowered = export.export(function, platforms=("cuda", "tpu"))(*arguments)
        text = lowered.mlir_module()
        products = re.findall(r"stablehlo\.dot_general.*", text)
        assert all("precision = [HIGHEST, HIGHEST]" in product for product in products), name
        floats = set(re.findall(r"x(f\d\d)>", text))
        assert kind in floats, (name, floats)
        if kind == "f32":
            assert "f64" not in floats, (name, floats)


def test_the_training_step_is_lowered_for_cuda_and_tpu():
    model = MODELS["positions"]
    ids = np.asarray(device.padded_ids(model, DOCUMENTS), np.int32)
    config = Config(T_max=41, D=31, d_e=7, K=3, d_att=5)
    fixed, trained = start_arrays(config, 31, 2, model.cls, model.unk)
    baseline = Baseline(logits=np.zeros(2, np.float32), filler=np.int32(model.unk))
    labels = np.zeros(len(ids), np.int32)
    batch = (fixed, np.int32(model.cls), np.ones(2, np.float32), baseline, ids, labels)
    step = jax.jit(partial(take_step, text_loss, True))
    arguments = (TrainingState.start(trained), Optimizer(ema=0.9).rates(3, 10), *batch)
    text = export.export(step, platforms=("cuda", "tpu"))(*arguments).mlir_module()
    assert set(re.findall(r"x(f\d\d)>", text)) == {"f32"}
