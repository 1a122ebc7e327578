"""Documents per second: prediction, gradient, a training step, exact Shapley values and exact LIME, on each device.

`make bench-device` runs it. One of each kind of device that JAX finds is measured, and has a separate file,
`results/device-KIND.json`; devices without a file were not measured, which `benchmarks/DEVICES.md` states. For
comparison: the NumPy core on one document at a time, and the peers (autodiff for the gradient, KernelSHAP and lime for
the explanations) on a few documents. `gradient` looks at one document or block of documents after the other and keeps
none; `gradient, kept` ends with all of them in memory, as one NumPy array. Every row of a device has the largest
difference to the results of the core, relative to the largest of these, and the seconds of its first call beyond a
later one, which are the compilation. Further rows show how Shapley values grow with the number of documents and of
words. Run with `python -m benchmarks.device --data aclImdb_v1.tar.gz` for real reviews, or without for Zipf's words.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import attn_closed_form as acf
from attn_closed_form.attention import pooled_game, predict_many
from attn_closed_form.attention.predict import pad
from attn_closed_form.game.links import LinkedGame
from jax_model import params_from_weights
from jax_model.device import documents as batched
from jax_model.device import linked
from jax_model.witness import oracle

from .harness import Bar, best_of, report
from .models import benchmark_model, p1_model, random_document
from .shapley import kernel_shap

SEED = 0
DOCUMENTS = 256
# Numbers of documents, and lengths of documents in words, for the growth of the cost.
GROWTH_DOCUMENTS = (16, 64, 256)
GROWTH_WORDS = (30, 60, 120, 240)
PEER_DOCUMENTS = 2
# What float32 can promise for most documents; LIME's regression multiplies an error by about six.
FLOAT32_TOL = 5e-3
PROBABILITY = "Shapley of probabilities, shipped model"
TASKS = (
    "prediction",
    "gradient",
    "gradient, kept",
    "Shapley",
    PROBABILITY,
    "LIME",
    "training step, batch 64",
)


def load_documents(path: str | None, count: int) -> list[NDArray[np.intp]]:
    """Token ids of test reviews, or of made-up documents of like lengths."""
    weights, _ = benchmark_model(SEED)
    if path is None:
        lengths = np.random.default_rng(SEED).integers(60, int(weights.room), count)
        return [random_document(weights, int(n), SEED + i) for i, n in enumerate(lengths)]
    vocabulary = (p1_model() or acf.load_demo_model()).vocabulary
    return [vocabulary.encode(text)[: int(weights.room)] for text in load_texts(path, count)]


@lru_cache(maxsize=1)
def load_texts(path: str, count: int) -> list[str]:
    """Test reviews, evenly spaced."""
    from jax_model.training.imdb import load_imdb

    texts = load_imdb(path, "test").texts
    return texts[:: max(1, len(texts) // count)][:count]


def probability_games(path: str | None, count: int) -> list[LinkedGame]:
    """Games of the probability that the shipped model, which has one head, gives to the same kind of documents."""
    model = acf.load_demo_model()
    if path is None:
        lengths = np.random.default_rng(SEED).integers(60, 250, count)
        documents = [
            random_document(model.weights, int(n), SEED + i) for i, n in enumerate(lengths)
        ]
    else:
        documents = [model.vocabulary.encode(text) for text in load_texts(path, count)]
    return [
        pooled_game(model.weights, d, "words").through("sigmoid", 1 / model.temperature)
        for d in documents
    ]


def training_step(weights: acf.AttentionWeights, ids: NDArray[np.intp]) -> Callable[[], Any]:
    """One step of the trainer's loop."""
    from jax_model.training.config import P1, Config
    from jax_model.training.loop import Optimizer, State, take_step
    from jax_model.training.text_model import start_arrays, text_loss

    sizes = {
        "T_max": weights.T_max,
        "D": weights.D,
        "d_e": weights.d_e,
        "K": weights.K,
        "d_att": weights.d_att,
    }
    config = Config(**P1 | sizes)
    fixed, trained = start_arrays(config, weights.D, weights.C, weights.cls, weights.unk)
    batch = (
        fixed,
        np.int32(weights.cls),
        np.ones(2, np.float32),
        jnp.asarray(ids, jnp.int32),
        jnp.arange(len(ids)) % 2,
    )
    state = jax.tree.map(jnp.array, State.start(trained))

    def step() -> Any:
        nonlocal state
        state = take_step(text_loss, True, state, Optimizer(ema=0.998).rates(0, 1000), *batch)
        return state

    return step


def device_rows(
    device: Any,
    documents: Sequence[NDArray[np.intp]],
    games: Sequence[LinkedGame],
    core: dict[str, Any],
) -> list[dict[str, Any]]:
    """Everything on one device, in float64 and float32 where both make sense; `core` has the core's results by task."""
    weights, _ = benchmark_model(SEED)
    name = f"{device.platform}: {device.device_kind}"
    rows: list[dict[str, Any]] = []

    def add(task: str, dtype: str, run: Callable[[], Any], repeats: int = 3) -> None:
        start = time.perf_counter()
        found = run()
        first = time.perf_counter() - start
        seconds = best_of(run, repeats=repeats).best
        row = {
            "task": task,
            "method": f"twin, {dtype}",
            "device": name,
            "documents/s": len(documents) / seconds,
        }
        if task in core:
            row["error"] = _difference(found, core[task])
        rows.append({**row, "compilation, s": max(0.0, first - seconds)})
        print(f"  {name}: {task}, {dtype} done", file=sys.stderr)

    ids = pad(weights, [np.asarray(d) for d in documents])
    with jax.default_device(device):
        for dtype in ("float64", "float32"):
            tol = 1e-10 if dtype == "float64" else FLOAT32_TOL
            add("prediction", dtype, partial(batched.predict, weights, documents, dtype))
            add("gradient", dtype, partial(_one_by_one, weights, documents, dtype))
            add("gradient, kept", dtype, partial(batched.gradient, weights, documents, dtype=dtype))
            add(
                "Shapley",
                dtype,
                partial(batched.shapley, weights, documents, tol=tol, dtype=dtype),
                2,
            )
            add(PROBABILITY, dtype, partial(linked.shapley, games, tol, dtype), 2)
            add(
                "LIME",
                dtype,
                partial(batched.lime, weights, documents, tol=10 * tol, dtype=dtype),
                2,
            )
        add("training step, batch 64", "float32", training_step(weights, ids[:64]))
        rows[-1]["documents/s"] *= 64 / len(documents)
        return rows + growth_rows(weights, documents, name)


def growth_rows(
    weights: acf.AttentionWeights, documents: Sequence[NDArray[np.intp]], name: str
) -> list[dict[str, Any]]:
    """Shapley values in float64 of more and more documents, and of longer and longer ones."""
    cases: dict[str, Sequence[NDArray[np.intp]]] = {
        f"Shapley, {n} documents": documents[:n] for n in GROWTH_DOCUMENTS if n <= len(documents)
    }
    for words in GROWTH_WORDS:
        made = [2 + np.random.default_rng(i).permutation(weights.D - 2)[:words] for i in range(64)]
        cases[f"Shapley, 64 documents of {words} different words"] = made
    rows = []
    for task, texts in cases.items():
        seconds = best_of(partial(batched.shapley, weights, texts, dtype="float64"), repeats=2).best
        row = {
            "task": task,
            "method": "twin, float64",
            "device": name,
            "documents/s": len(texts) / seconds,
        }
        rows.append(
            {
                **row,
                "documents": len(texts),
                "words": float(np.mean([len(np.unique(x)) for x in texts])),
            }
        )
        print(f"  {name}: {task} done", file=sys.stderr)
    return rows


def _difference(ours: Any, core: Any) -> float:
    """The largest difference over all documents, relative to the largest number of the core."""
    ours = getattr(ours, "values", ours)
    pairs = [
        (getattr(a, "coef", a), getattr(b, "coef", b)) for a, b in zip(ours, core, strict=True)
    ]
    worst = max(
        float(np.abs(np.asarray(a)[..., : len(b), :] - b if b.ndim > 1 else a - b).max())
        for a, b in pairs
    )
    return worst / max(float(np.abs(b).max()) for _, b in pairs)


def _one_by_one(
    weights: acf.AttentionWeights, documents: Sequence[NDArray[np.intp]], dtype: str
) -> None:
    """Every block of gradients is waited for, and dropped."""
    for block in batched.gradient_blocks(weights, documents, dtype=dtype):
        block.block_until_ready()


def core_rows(
    documents: Sequence[NDArray[np.intp]], games: Sequence[LinkedGame]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The NumPy core, a document at a time: rows, and results by task."""
    weights, _ = benchmark_model(SEED)
    tasks: dict[str, Callable[[], Any]] = {
        "prediction": lambda: predict_many(weights, documents),
        "gradient": lambda: [acf.gradient(weights, d)[0, 0] for d in documents],
        "gradient, kept": lambda: np.stack([acf.gradient(weights, d) for d in documents]),
        "Shapley": lambda: [acf.shapley(pooled_game(weights, d, "words")) for d in documents],
        PROBABILITY: lambda: [acf.shapley(game) for game in games],
        "LIME": lambda: [acf.lime_limit(pooled_game(weights, d, "words")) for d in documents],
    }
    rows = []
    for task, run in tasks.items():
        seconds = best_of(run, repeats=2).best
        rows.append(
            {
                "task": task,
                "method": "NumPy core",
                "device": "cpu",
                "documents/s": len(documents) / seconds,
            }
        )
        print(f"  core: {task} done", file=sys.stderr)
    return rows, {task: run() for task, run in tasks.items() if task != "gradient"}


def _present(game: acf.PooledGame, masks: NDArray[np.float64]) -> NDArray[np.float64]:
    return game.value(masks > 0.5)


def peer_rows(documents: Sequence[NDArray[np.intp]]) -> list[dict[str, Any]]:
    """Autodiff of the twin, KernelSHAP (20,000 samples) and lime (5,000) on a few of the documents."""
    from lime.lime_text import LimeTextExplainer

    weights, _ = benchmark_model(SEED)
    params = params_from_weights(weights)
    few = documents[:PEER_DOCUMENTS]

    def autodiff() -> None:
        for document in few:
            jax.block_until_ready(
                oracle.gradient(params, oracle.pad_ids(document.tolist(), weights.T_max))
            )

    def shap_values() -> None:
        for document in few:
            game = pooled_game(weights, document, "words")
            kernel_shap(partial(_present, game), game.d, 20_000)

    def lime_values() -> None:
        explainer = LimeTextExplainer(
            bow=False, mask_string=str(weights.unk), split_expression=r"\s+", random_state=0
        )
        for document in few:

            def classify(texts: list[str]) -> NDArray[np.float64]:
                f = predict_many(weights, [[int(i) for i in text.split()] for text in texts])
                return np.concatenate([-f, f], axis=1)

            text = " ".join(map(str, document))
            explainer.explain_instance(text, classify, num_features=len(document), num_samples=5000)

    rows = []
    for task, method, run in (
        ("gradient", "autodiff of the twin", autodiff),
        ("Shapley", "KernelSHAP, 20,000 samples of game.value", shap_values),
        ("LIME", "lime, 5,000 samples", lime_values),
    ):
        run()
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        rows.append(
            {"task": task, "method": method, "device": "cpu", "documents/s": len(few) / seconds}
        )
        print(f"  {method} done", file=sys.stderr)
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--data", metavar="PATH", help="aclImdb_v1.tar.gz, for real reviews")
    parser.add_argument("--quick", action="store_true", help=f"64 documents instead of {DOCUMENTS}")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore")
    jax.config.update("jax_enable_x64", True)
    _, name = benchmark_model(SEED)
    count = 64 if args.quick else DOCUMENTS
    documents = load_documents(args.data, count)
    games = probability_games(args.data, count)
    devices = jax.devices()
    if {device.platform for device in devices} == {"cpu"}:
        print("no accelerator found: the numbers are for the CPU alone", file=sys.stderr)
    first = {device.device_kind: device for device in reversed(devices)}  # one of each kind
    settings = {
        "model": name,
        "documents": len(documents),
        "mean tokens": round(float(np.mean([len(d) for d in documents])), 1),
    }
    compared, results = core_rows(documents, games)
    compared += peer_rows(documents)
    met = True
    for device in first.values():
        rows = [*compared, *device_rows(device, documents, games, results)]
        rows.sort(key=lambda row: TASKS.index(row["task"]) if row["task"] in TASKS else len(TASKS))
        met &= report(
            file_name(device),
            rows,
            seed=SEED,
            settings=settings,
            bars=bars_of(device.platform, rows),
        )
    return 0 if met else 1


def file_name(device: Any) -> str:
    """The name of a device's results.

    >>> from types import SimpleNamespace
    >>> file_name(SimpleNamespace(device_kind="NVIDIA A100-SXM4-80GB"))
    'device-nvidia-a100-sxm4-80gb'
    """
    return "device-" + re.sub(r"[^a-z0-9]+", "-", device.device_kind.lower()).strip("-")


def bars_of(platform: str, rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """On a CPU the twin is to be at least as fast as the core; of other devices nothing is promised."""
    if platform != "cpu":
        return []
    speed = {(row["task"], row["method"]): row["documents/s"] for row in rows}
    return [
        Bar(
            f"{task}: twin / core on the CPU",
            speed[task, "twin, float64"] / speed[task, "NumPy core"],
            ">=",
            1.0,
        )
        for task in TASKS[:-1]
    ]


if __name__ == "__main__":
    sys.exit(main())
