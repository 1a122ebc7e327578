"""How far are sampled Shapley values from the exact ones, and how long do they take?

Opponents from the `shap` package, as a user would call them on a document: KernelExplainer
(2,048 + 2d and 20,000 samples, no feature selection) and PermutationExplainer (10 and 50 rounds),
once through the model (`predict_many` on masked documents) and once through `game.value`, the
cheapest function that there is. Then our own growth with d, with the memory of a fresh process. Run
with `python -m benchmarks.shapley` (`--quick`: the 106 tokens alone).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from attn_closed_form import PooledGame, interactions, shapley
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game, predict_many

from .harness import Bar, best_of, relative_error, report
from .models import benchmark_model, random_document

SEED = 0
LENGTHS = (55, 106, 240)
SCALING = (100, 1_000, 3_000, 10_000, 30_000, 100_000)
# The exact values that errors are measured from; our timed runs use the default 1e-10.
WITNESS_TOL = 1e-12

Function = Callable[[Array], Array]


def kernel_shap(function: Function, d: int, samples: int | str) -> Array:
    import shap

    explainer = shap.KernelExplainer(function, np.zeros((1, d)), silent=True)
    return np.asarray(
        explainer.shap_values(np.ones((1, d)), nsamples=samples, l1_reg=0, silent=True)
    ).reshape(d)


def permutation_shap(function: Function, d: int, rounds: int) -> Array:
    import shap

    explainer = shap.PermutationExplainer(function, np.zeros((1, d)), seed=SEED)
    values = explainer.shap_values(np.ones((1, d)), npermutations=rounds, silent=True)
    return np.asarray(values).reshape(d)


def our_seconds(d: int) -> float:
    """Exact Shapley values from token ids, game included."""
    weights, _ = benchmark_model(SEED)
    tokens = random_document(weights, d, SEED + d)
    return best_of(lambda: shapley(pooled_game(weights, tokens)), repeats=120).best


def document_rows(d: int, ours: float) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Every method on one document of d tokens, [UNK] in place of what is absent; `ours` are our
    seconds.
    """
    weights, _ = benchmark_model(SEED)
    tokens = random_document(weights, d, SEED + d)
    game = pooled_game(weights, tokens)
    exact = shapley(game, WITNESS_TOL)

    def through_model(masks: Array) -> Array:
        return predict_many(weights, np.where(masks > 0.5, tokens, weights.unk))[:, 0]

    def through_game(masks: Array) -> Array:
        return game.value(masks > 0.5)

    rows: list[dict[str, Any]] = [
        {
            "tokens": d,
            "method": "exact (ours)",
            "through": "",
            "error": relative_error(shapley(game), exact),
            "seconds": ours,
            "times ours": 1.0,
        }
    ]
    for name, explain, size in (
        ("KernelSHAP", kernel_shap, 2048 + 2 * d),
        ("KernelSHAP", kernel_shap, 20_000),
        ("permutation SHAP", permutation_shap, 10),
        ("permutation SHAP", permutation_shap, 50),
    ):
        for through, function in (("model", through_model), ("game.value", through_game)):
            seconds = np.inf
            values = exact
            for _ in range(2):  # the first call warms caches and compiles numba code
                np.random.seed(SEED)  # noqa: NPY002  # shap draws from the global state
                start = time.perf_counter()
                values = explain(function, d, size)
                seconds = min(seconds, time.perf_counter() - start)
            rows.append(
                {
                    "tokens": d,
                    "method": f"{name}, {size}",
                    "through": through,
                    "error": relative_error(values, exact),
                    "seconds": seconds,
                    "times ours": seconds / ours,
                }
            )
            print(f"  {d} tokens: {rows[-1]['method']} through {through} done", file=sys.stderr)
    if d != 106:
        return rows, []
    kernel = {row["through"]: row for row in rows if row["method"] == "KernelSHAP, 20000"}
    return rows, [
        Bar("d = 106: our error", rows[0]["error"], "<=", 1e-10),
        Bar(
            "d = 106: error of KernelSHAP with 20,000 samples", kernel["model"]["error"], ">=", 1e-3
        ),
        Bar(
            "d = 106: KernelSHAP through the model, times ours",
            kernel["model"]["times ours"],
            ">=",
            1200.0,
        ),
        Bar(
            "d = 106: KernelSHAP through game.value, times ours",
            kernel["game.value"]["times ours"],
            ">=",
            600.0,
        ),
    ]


def deletion_game(d: int) -> PooledGame:
    rng = np.random.default_rng(SEED)
    return PooledGame.from_scores(rng.normal(size=d), rng.normal(size=d))


def measure_one(d: int) -> None:
    """Print seconds, efficiency error and the resident memory of this very process."""
    game = deletion_game(d)
    timing = best_of(lambda: shapley(game), repeats=3 if d > 1_000 else 9)
    change = game.value(np.ones(d, dtype=bool)) - game.value(np.zeros(d, dtype=bool))
    print(timing.best, abs(shapley(game).sum() - change), peak_memory())


def peak_memory() -> float:
    """Largest resident memory of this process, in MB; getrusage would count what the parent had
    before.
    """
    with open("/proc/self/status", encoding="utf-8") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def scaling_rows() -> tuple[list[dict[str, Any]], list[Bar]]:
    """Deleted players, one head: each size in a fresh process, so that its memory is its own."""
    rows: list[dict[str, Any]] = []
    for d in SCALING:
        command = [sys.executable, "-m", "benchmarks.shapley", "--one", str(d)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, residual, memory = map(float, out.split())
        rows.append(
            {
                "players": d,
                "method": "exact (ours)",
                "efficiency error": residual,
                "seconds": seconds,
                "MB": memory,
            }
        )
    at = {row["players"]: row for row in rows}
    growth = np.log(at[100_000]["seconds"] / at[1_000]["seconds"]) / np.log(100)
    return rows, [
        Bar("10,000 deleted players, seconds", at[10_000]["seconds"], "<=", 0.3),
        Bar("10,000 deleted players, MB resident", at[10_000]["MB"], "<=", 100.0),
        Bar("100,000 deleted players, seconds", at[100_000]["seconds"], "<=", 4.0),
        Bar("100,000 deleted players, MB resident", at[100_000]["MB"], "<=", 300.0),
        Bar("growth exponent from 1,000 to 100,000 players", growth, "<=", 1.1),
    ]


def interaction_row() -> tuple[dict[str, Any], Bar]:
    weights, _ = benchmark_model(SEED)
    game = pooled_game(weights, random_document(weights, 240, SEED))
    seconds = best_of(lambda: interactions(game), repeats=5).best
    row = {"players": 240, "method": f"all pairs, {weights.K} heads", "seconds": seconds}
    return row, Bar("interactions at d = 240, seconds", seconds, "<=", 2.0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapley", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the document of 106 tokens")
    parser.add_argument("--one", type=int, metavar="D", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        measure_one(args.one)
        return 0
    warnings.filterwarnings("ignore", module="shap")
    weights, name = benchmark_model(SEED)
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    # Ours first: shap leaves threads and compiled code behind that slow down whatever runs after
    # it.
    ours = {d: our_seconds(d) for d in ((106,) if args.quick else LENGTHS)}
    for d, seconds in ours.items():
        more_rows, more_bars = document_rows(d, seconds)
        rows = rows + more_rows
        bars = bars + more_bars
    settings = {"model": name, "K": weights.K, "T_max": weights.T_max, "absent": "[UNK]"}
    good = report("shapley", rows, seed=SEED, settings=settings, bars=bars)
    if not args.quick:
        rows, bars = scaling_rows()
        row, bar = interaction_row()
        good &= report(
            "shapley_scaling", [*rows, row], seed=SEED, settings={"heads": 1}, bars=[*bars, bar]
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
