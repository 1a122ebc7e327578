"""Documents per second: prediction, gradient, Shapley values and their derivative, and a training
step, on each device.

`make bench-device` runs it. One of each kind of device that JAX finds is measured and has a
separate file, `results/device-KIND.json`; devices without a file were not measured, which
`benchmarks/DEVICES.md` states. Every row of a device has the largest difference from the NumPy
core, relative to the core's largest number, and the time by which the first call is longer than a
later one, which is the compilation. The core explains one document after the other.

A run with `--quick` uses fewer documents and writes to `results/quick`, so that it never replaces
stored results.

    python -m benchmarks.device [--data aclImdb_v1.tar.gz] [--quick]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import attn_closed_form as acf
from attn_closed_form.attention import pooled_game, predict_many
from jax_model import device, params_from_weights
from jax_model.witness import oracle

from .harness import RESULTS, best_of, report
from .models import benchmark_model, p1_model, random_document

SEED = 0
DOCUMENTS = 256
# With `--quick`.
FEW_DOCUMENTS = 32
# Documents of a training step.
TRAINING_BATCH = 64
# Accuracy of the rule for 1/D in each floating-point type; float32 has 7 digits.
TOLS = {"float64": 1e-11, "float32": 1e-6}
TASKS = (
    "prediction",
    "gradient",
    "Shapley",
    "derivative of Shapley values",
    f"training step, batch {TRAINING_BATCH}",
)


def model_or_random() -> tuple[acf.AttentionWeights, str]:
    """P1's weights, or Gaussian weights of the same size, and what they are. The time depends on
    the sizes alone.
    """
    return benchmark_model(SEED, random=p1_model() is None)


def load_documents(path: str | None, count: int) -> list[NDArray[np.intp]]:
    """Token ids of test reviews, or of made-up documents of similar lengths."""
    weights, _ = model_or_random()
    if path is None:
        lengths = np.random.default_rng(SEED).integers(60, int(weights.room), count)
        return [random_document(weights, int(n), SEED + i) for i, n in enumerate(lengths)]
    from jax_model.training.imdb import load_imdb

    texts = load_imdb(path, "test").texts
    vocabulary = (p1_model() or acf.load_demo_model()).vocabulary
    spread = texts[:: max(1, len(texts) // count)][:count]
    return [vocabulary.encode(text)[: int(weights.room)] for text in spread]


def training_step(weights: acf.AttentionWeights, ids: NDArray[np.intp]) -> Callable[[], Any]:
    """One step of the trainer's loop."""
    from jax_model.training.config import P1, Config
    from jax_model.training.loop import Optimizer, TrainingState, take_step
    from jax_model.training.text_model import start_arrays, text_loss

    names = ("T_max", "D", "d_e", "K", "d_att")
    config = Config(**P1 | {name: getattr(weights, name) for name in names})
    fixed, trained = start_arrays(config, weights.D, weights.C, weights.cls, weights.unk)
    labels = jnp.arange(len(ids)) % 2
    batch = (fixed, np.int32(weights.cls), np.ones(2, np.float32), jnp.asarray(ids, jnp.int32))
    state = jax.tree.map(jnp.array, TrainingState.start(trained))
    rates = Optimizer(ema=0.998).rates(0, 1000)

    def step() -> Any:
        nonlocal state
        state = take_step(text_loss, True, state, rates, *batch, labels)
        return state

    return step


def device_rows(
    place: Any, documents: Sequence[NDArray[np.intp]], core: dict[str, Any]
) -> list[dict[str, Any]]:
    """All tasks on one device, in float64 and in float32; `core` has the results of the core by
    task.
    """
    weights, _ = model_or_random()
    name = f"{place.platform}: {place.device_kind}"
    games = [pooled_game(weights, document, "words") for document in documents]
    ids = device.padded_ids(weights, documents)
    rows: list[dict[str, Any]] = []

    def add(task: str, dtype: str, run: Callable[[], Any], count: int = len(documents)) -> None:
        start = time.perf_counter()
        result = jax.block_until_ready(run())
        first = time.perf_counter() - start
        seconds = best_of(run, repeats=3).best
        row = {
            "task": task,
            "method": f"twin, {dtype}",
            "device": name,
            "documents/s": count / seconds,
        }
        if task in core:
            row["error"] = difference(result, core[task])
        row["compilation, s"] = max(0.0, first - seconds)
        rows.append(row)
        print(f"  {name}: {task}, {dtype} done", file=sys.stderr)

    with jax.default_device(place):
        for dtype, tol in TOLS.items():
            tables = device.device_tables(weights, dtype)
            row_ids = jnp.asarray(ids)
            batch = device.stack_games(games, dtype)
            rule = device.fixed_rule(batch, tol)
            first_output = jnp.eye(weights.C, dtype=dtype)[0]
            add("prediction", dtype, partial(device.predict, tables, row_ids))
            add("gradient", dtype, partial(device.gradient, tables, row_ids, first_output))
            add("Shapley", dtype, partial(device.shapley, batch, rule))
            add("derivative of Shapley values", dtype, partial(_derivative, batch, rule))
        few = ids[:TRAINING_BATCH]
        add(TASKS[-1], "float32", training_step(weights, few), len(few))
    return rows


@jax.jit
def _derivative(batch: device.Games, rule: device.Rule) -> jax.Array:
    """The derivative of the sum of squares of all Shapley values, as a penalty in training needs
    it.
    """

    def loss(v: jax.Array) -> jax.Array:
        return (device.shapley(batch._replace(v=v), rule) ** 2).sum()

    return jax.grad(loss)(batch.v)


def difference(results: Any, core: Sequence[Any]) -> float:
    """The largest difference over all documents, relative to the largest number of the core.

    >>> difference(np.array([[1.0, 2.0, 0.0]]), [np.array([1.0, 2.5])])
    0.2
    """
    largest = max(float(np.abs(row).max()) for row in core)
    errors = []
    for row, expected in zip(np.asarray(results), core, strict=True):
        errors.append(float(np.abs(row[: len(expected)] - expected).max()))
    return max(errors) / largest


def core_rows(
    documents: Sequence[NDArray[np.intp]],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The NumPy core, and the gradient of the twin's plain model by autodiff: rows, and the core's
    results by task.
    """
    weights, _ = model_or_random()
    params = params_from_weights(weights)

    def autodiff() -> None:
        for document in documents:
            ids = oracle.pad_ids(document.tolist(), weights.T_max)
            jax.block_until_ready(oracle.gradient(params, ids))

    tasks: dict[tuple[str, str], Callable[[], Any]] = {
        ("prediction", "NumPy core"): lambda: predict_many(weights, documents),
        ("gradient", "NumPy core"): lambda: [acf.gradient(weights, d) for d in documents],
        ("gradient", "autodiff of the plain model"): autodiff,
        ("Shapley", "NumPy core"): lambda: [
            acf.shapley(pooled_game(weights, d, "words")) for d in documents
        ],
    }
    rows = []
    results = {}
    for (task, method), run in tasks.items():
        seconds = best_of(run, repeats=2).best
        speed = len(documents) / seconds
        rows.append({"task": task, "method": method, "device": "cpu", "documents/s": speed})
        if method == "NumPy core":
            results[task] = run()
        print(f"  {method}: {task} done", file=sys.stderr)
    return rows, results


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--data", metavar="PATH", help="aclImdb_v1.tar.gz, for real reviews")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{FEW_DOCUMENTS} documents instead of {DOCUMENTS}, into results/quick",
    )
    args = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    count = FEW_DOCUMENTS if args.quick else DOCUMENTS
    folder = RESULTS / "quick" if args.quick else RESULTS
    documents = load_documents(args.data, count)
    kinds = {place.device_kind: place for place in reversed(jax.devices())}
    if {place.platform for place in kinds.values()} == {"cpu"}:
        print("no accelerator found: the numbers are for the CPU alone", file=sys.stderr)
    settings = {
        "model": model_or_random()[1],
        "documents": len(documents),
        "mean tokens": round(float(np.mean([len(d) for d in documents])), 1),
    }
    compared, results = core_rows(documents)
    for place in kinds.values():
        rows = [*compared, *device_rows(place, documents, results)]
        rows.sort(key=lambda row: TASKS.index(row["task"]))
        report(file_name(place), rows, seed=SEED, settings=settings, folder=folder)
    return 0


def file_name(place: Any) -> str:
    """The name of a device's results.

    >>> from types import SimpleNamespace
    >>> file_name(SimpleNamespace(device_kind="NVIDIA A100-SXM4-80GB"))
    'device-nvidia-a100-sxm4-80gb'
    """
    return "device-" + re.sub(r"[^a-z0-9]+", "-", place.device_kind.lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
