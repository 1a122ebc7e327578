"""Every program of the device package and the training step: lowered for CUDA and TPU, and right on four devices."""

import json
import os
import re
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import attn_closed_form as acf
from attn_closed_form.attention import pooled_game, predict_many, random_weights
from attn_closed_form.attention.predict import pad
from jax_model.device import budgets, games, linked, values
from jax_model.device import documents as batched
from jax_model.training.config import Config
from jax_model.training.loop import Optimizer, State, take_step
from jax_model.training.text_model import start_arrays, text_loss

MODEL = random_weights(
    3, D=31, d_e=7, T_max=41, K=3, d_att=5, d_out=2, C=2, score_scale=2.0, biases=True
)
RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, MODEL.D, size=n).tolist() for n in (1, 7, 30, 12, 33, 2, 20, 9, 40)]
PLATFORMS = ("cuda", "tpu")
QUICK = "jax_disable_most_optimizations"


def programs(dtype, tol):
    """Every function that the device package and the trainer compile: (jitted function, arguments) by name."""
    bucket = max(
        batched.game_buckets(MODEL, DOCUMENTS, dtype=dtype), key=lambda bucket: len(bucket.places)
    )
    batch = bucket.games
    texts = [DOCUMENTS[place] for place in bucket.places]
    ids = jnp.asarray(pad(MODEL, [np.asarray(text) for text in texts]))
    tables = batched.device_tables(MODEL, dtype)
    goals = budgets.plan_batch(batch, tol)
    rule = (goals.lam, goals.w)
    B = len(batch.players)
    p = jnp.full((B, 1, 16), 0.5, batch.s.dtype)
    w_E = jnp.zeros((B, 1, 16, 2), batch.s.dtype)
    c = jnp.ones((len(texts), MODEL.C), batch.s.dtype)

    def zeros(*shape):
        return jnp.zeros((8, *shape), batch.s.dtype)

    lots = linked.Lots(*[zeros(64)] * 2, zeros(64) > 0, *[zeros(64)] * 2, jnp.ones(8, int))
    row = zeros(linked.ROWS)
    nodes = zeros(linked.NODES, linked.ROWS)
    blocks = (np.int32(2),)
    pair = zeros(2, linked.NODES, linked.ROWS)

    def jitted(function, *static):
        return jax.jit(partial(function, *static))

    def each(function):
        return jitted(games._each_game, function, games.games_at_once(batch, None), None)

    return {
        "prediction": (jitted(batched._each, batched._predict), (tables, ids)),
        "gradient": (jitted(batched._each, batched._gradient), (tables, ids, c)),
        "gradient scores": (jitted(batched._each, batched._gradient_scores), (tables, ids, c)),
        "summaries": (budgets._summary, (batch,)),
        "sums for bounds": (each(games.row_sums), (rule, batch)),
        "Shapley values": (
            each(values.shapley_of),
            ((budgets.shapley_groups(batch, goals, None),), batch),
        ),
        "LIME": (
            each(values.weighted_sums),
            ((rule[0][None], rule[1][None], jnp.array([16])), batch, p, w_E, p),
        ),
        "sums for bounds of poles": (each(linked.bound_sums), (blocks, lots, row)),
        "Shapley values of probabilities": (
            each(linked.first_differences),
            (blocks, lots, row, pair[:, :, 0], row[:, 0], pair, nodes),
        ),
        "training step": training_step(ids),
    }


def training_step(ids):
    config = Config(T_max=MODEL.T_max, D=MODEL.D, d_e=MODEL.d_e, K=MODEL.K, d_att=MODEL.d_att)
    fixed, trained = start_arrays(config, MODEL.D, MODEL.C, MODEL.cls, MODEL.unk)
    batch = (fixed, np.int32(MODEL.cls), np.ones(MODEL.C, np.float32), np.asarray(ids, np.int32))
    labels = np.zeros(len(ids), np.int32)
    step = jax.jit(partial(take_step, text_loss, True))
    return step, (State.start(trained), Optimizer(ema=0.9).rates(3, 10), *batch, labels)


@pytest.mark.parametrize(
    ("dtype", "kind", "tol"), [(jnp.float64, "f64", 1e-10), (jnp.float32, "f32", 1e-2)]
)
def test_every_program_is_lowered_for_cuda_and_tpu(dtype, kind, tol):
    # What is run here is small, and most of its time is compilation.
    before = jax.config.read(QUICK)
    jax.config.update(QUICK, True)
    try:
        compiled = programs(dtype, tol)
    finally:
        jax.config.update(QUICK, before)
    for name, (function, arguments) in compiled.items():
        lowered = export.export(function, platforms=PLATFORMS)(*arguments)
        assert lowered.platforms == PLATFORMS, name
        text = lowered.mlir_module()
        floats = set(re.findall(r"x(f\d\d)>", text))
        if name == "training step":
            assert floats == {"f32"}
            continue
        # A matrix product of float32 in fewer digits would break the guarantee, and is what a GPU does unasked.
        products = re.findall(r"stablehlo\.dot_general.*", text)
        assert all("precision = [HIGHEST, HIGHEST]" in product for product in products), name
        assert kind in floats and (kind == "f64" or "f64" not in floats), (name, floats)


SHARDED = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from jax.sharding import Mesh
from tests.jax_model.test_programs import sharded
assert len(jax.devices()) == 4
json.dump([sharded(Mesh(np.array(jax.devices()[:n]), ("documents",))) for n in (1, 4)], sys.stdout)
"""
# Of one bucket, so that little is compiled; their number is no multiple of the devices.
FEW = [text for text in DOCUMENTS if len(text) <= 32]


def sharded(mesh):
    """Results of every public function of many documents, as lists, each cut over the devices of the mesh."""
    blocks = list(batched.gradient_blocks(MODEL, FEW, batch=4, mesh=mesh))
    assert [len(block) for block in blocks] == [4, 3]
    assert len(blocks[0].sharding.device_set) == mesh.size
    bucket = next(batched.game_buckets(MODEL, FEW, mesh=mesh))
    assert bucket.games.s.sharding.shard_shape(bucket.games.s.shape)[0] * mesh.size == len(
        bucket.games.s
    )
    results = {
        "prediction": batched.predict(MODEL, FEW, batch=6, mesh=mesh),
        "gradient": batched.gradient(MODEL, FEW, batch=4, mesh=mesh),
        "Shapley": batched.shapley(MODEL, FEW, mesh=mesh).values,
        "LIME": [[*x.coef, x.intercept] for x in batched.lime(MODEL, FEW, mesh=mesh).values],
    }
    assert np.array_equal(np.concatenate(blocks), results["gradient"])
    return {name: [np.asarray(x).tolist() for x in rows] for name, rows in results.items()}


@pytest.mark.slow
def test_four_devices_give_what_one_and_the_core_give():
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        QUICK.upper(): "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    one, four = json.loads(run.stdout)
    games = [pooled_game(MODEL, text, "words") for text in FEW]
    limits = [acf.lime_limit(game) for game in games]
    core = {
        "prediction": predict_many(MODEL, FEW),
        "gradient": [acf.gradient(MODEL, text) for text in FEW],
        "Shapley": [acf.shapley(game) for game in games],
        "LIME": [[*limit.coef, limit.intercept] for limit in limits],
    }
    assert core.keys() == one.keys() == four.keys()
    for name, rows in core.items():
        for ours, alone, theirs in zip(four[name], one[name], rows, strict=True):
            assert np.abs(np.subtract(ours, alone)).max() <= 1e-13 * np.abs(alone).max(), name
            assert np.abs(np.subtract(ours, theirs)).max() <= 1e-10, name
