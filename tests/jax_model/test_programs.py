"""Every program of the device package and the training step: lowered for CUDA and TPU, and right on four devices."""

import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import attn_closed_form as acf
from jax_model.device import documents as batched
from jax_model.device import tables
from jax_model.device.programs import TASKS, programs

MODEL = acf.random_weights(3, D=31, d_e=7, T_max=41, K=3, d_att=5, d_out=2, C=2, score_scale=2.0, biases=True)
RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, MODEL.D, size=n).tolist() for n in (1, 7, 30, 12, 33, 2, 20, 9, 40)]
PLATFORMS = ("cuda", "tpu")
QUICK = "jax_disable_most_optimizations"


@pytest.fixture(scope="module", params=[(jnp.float64, 1e-10), (jnp.float32, 1e-2)], ids=["float64", "float32"])
def made(request):
    dtype, tol = request.param
    # What is run here is small, and most of its time is compilation.
    jax.config.update(QUICK, True)
    yield np.dtype(dtype).name, programs(MODEL, DOCUMENTS, dtype, tol)
    jax.config.update(QUICK, False)


def test_every_program_is_lowered_for_cuda_and_tpu(made):
    dtype, found = made
    kind = {"float64": "f64", "float32": "f32"}[dtype]
    for name, program in found.items():
        lowered = export.export(program.function, platforms=PLATFORMS)(*program.arguments)
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


def test_tasks_name_programs(made):
    _, found = made
    assert {name for names in TASKS.values() for name in names} <= set(found)
    assert all(program.documents >= 1 for program in found.values())


def test_a_loop_is_what_its_program_runs(made):
    """The body that is costed apart, run `more + 1` times, makes the program's own sums."""
    dtype, found = made
    program = found["LIME"]
    (loop,) = program.loops
    shared, batch, p, w_E, w_D = program.arguments
    level, changes = program.function(shared, batch, p, jnp.ones_like(w_E), jnp.ones_like(w_D))
    at, total, half, *weights = loop.arguments
    for _ in range(loop.more + 1):
        total = loop.function(at, total, half, *weights)
    by_hand = (at.sign * (total[1] * at.G + total[2] * at.S)).sum(axis=(1, 2))
    n = program.documents
    tolerance = {"float64": 1e-12, "float32": 1e-4}[dtype]
    assert np.abs(by_hand - changes[:n]).max() <= tolerance * np.abs(changes[:n]).max()
    assert np.abs(total[0] - level[:n]).max() <= tolerance * np.abs(level[:n]).max()


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
FEW = [text for text in DOCUMENTS if len(text) <= batched.BUCKET]


def sharded(mesh):
    """Results of every public function of many documents, as lists, each cut over the devices of the mesh."""
    blocks = list(tables.gradient_blocks(MODEL, FEW, batch=4, mesh=mesh))
    assert [len(block) for block in blocks] == [4, 3]
    assert len(blocks[0].sharding.device_set) == mesh.size
    bucket = next(batched.game_buckets(MODEL, FEW, mesh=mesh))
    assert bucket.games.s.sharding.shard_shape(bucket.games.s.shape)[0] * mesh.size == len(bucket.games.s)
    found = {
        "prediction": tables.predict(MODEL, FEW, batch=6, mesh=mesh),
        "attention": tables.attention(MODEL, FEW, batch=6, mesh=mesh),
        "gradient": tables.gradient(MODEL, FEW, batch=4, mesh=mesh),
        "Shapley": batched.shapley(MODEL, FEW, mesh=mesh).values,
        "LIME": [[*x.coef, x.intercept] for x in batched.lime(MODEL, FEW, mesh=mesh).values],
    }
    assert np.array_equal(np.concatenate(blocks), found["gradient"])
    return {name: [np.asarray(x).tolist() for x in values] for name, values in found.items()}


def test_four_devices_give_what_one_and_the_core_give():
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        QUICK.upper(): "1",
    }
    run = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    one, four = json.loads(run.stdout)
    games = [acf.pooled_game(MODEL, text, "words") for text in FEW]
    limits = [acf.lime_limit(game) for game in games]
    core = {
        "prediction": acf.predict_many(MODEL, FEW),
        "attention": [acf.attention(MODEL, text) for text in FEW],
        "gradient": [acf.gradient(MODEL, text) for text in FEW],
        "Shapley": [acf.shapley(game) for game in games],
        "LIME": [[*limit.coef, limit.intercept] for limit in limits],
    }
    assert core.keys() == one.keys() == four.keys()
    for name, values in core.items():
        for ours, alone, theirs in zip(four[name], one[name], values, strict=True):
            assert np.abs(np.subtract(ours, alone)).max() <= 1e-13 * np.abs(alone).max(), name
            assert np.abs(np.subtract(ours, theirs)).max() <= 1e-10, name
