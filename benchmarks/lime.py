"""LIME's limit against the official lime package: `python -m benchmarks.lime`.

The package explains a document of 106 words with 1,000, 5,000 and 50,000 samples, its default
kernel and ridge, `bow=False` and a mask, all features; `classifier_fn` is the model's own
prediction, or `game.value` on the mask, which is as cheap as a classifier gets. The error is the
largest deviation from the limit over the largest coefficient; the limit here comes by the recursion
over sizes, a route that the fast path does not share. The spread is the same between two runs. The
ratio is the smaller one of wall-clock times and of processor times: on a busy machine a long run
waits more often than a short one, and the first alone would flatter us.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, PooledGame, lime_limit, lime_sample
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game, predict_many, random_weights
from attn_closed_form.game.links import LinkedGame
from attn_closed_form.lime import (
    lime_first_order,
    lime_mean_field,
    lime_samples_needed,
    lime_theorem_5_1,
)
from attn_closed_form.lime.kernel import LimeSettings
from attn_closed_form.lime.moments import moments_by_recursion
from attn_closed_form.lime.regression import regression
from attn_closed_form.lime.rules import ladder

from .harness import Bar, Row, best_of, relative_error, report
from .models import benchmark_model, random_document

SEED = 0
WORDS = 106
RUNS = {1000: 5, 5000: 5, 50_000: 2}
MASK = "UNKWORDZ"


def main() -> int:
    weights, model = benchmark_model(SEED)
    tokens = random_document(weights, WORDS, SEED)
    case = f"d = {WORDS}, K = {weights.K}"
    game = pooled_game(weights, tokens)
    fast = best_of(lambda: lime_limit(game), repeats=30)
    fast_processor = min(processor_seconds(lambda: lime_limit(game))[0] for _ in range(30))
    rows: list[Row] = [
        {
            "case": case,
            "method": "lime_limit",
            "error": relative_error(lime_limit(game).coef, reference(game, 5000)),
            "seconds": fast.best,
            "median seconds": fast.median,
        },
        {"case": case, "method": "lime_limit, nothing cached", "seconds": cold(game)},
    ]
    bars = []
    for name, classifier_fn, times in (
        ("prediction", prediction(weights, tokens), 100.0),
        ("game.value", on_masks(game, tokens), 300.0),
    ):
        for n, runs in RUNS.items():
            seconds, processor, coefs = official(tokens, classifier_fn, n, runs)
            ratio = min(seconds / fast.best, processor / fast_processor)
            limit = reference(game, n)
            errors = [relative_error(coef, limit) for coef in coefs]
            rows.append(
                {
                    "case": case,
                    "method": f"lime package, {n:,} samples, {name}",
                    "error": float(np.mean(errors)),
                    "seconds": seconds,
                    "spread": float(
                        np.mean([relative_error(a, b) for a, b in combinations(coefs, 2)])
                    ),
                    "ratio": ratio,
                }
            )
            if n == 5000:
                bars.append(Bar(f"times faster than 5,000 samples with {name}", ratio, ">=", times))
                bars.append(Bar(f"error of lime with {name}", float(np.mean(errors)), ">=", 0.01))
    bars.insert(0, Bar("error of lime_limit", rows[0]["error"], "<=", 1e-10))
    ours = best_of(lambda: lime_sample(game, 5000, seed=0), repeats=3)
    rows.append(
        {
            "case": case,
            "method": "lime_sample, 5,000 samples",
            "error": relative_error(lime_sample(game, 5000, seed=0).coef, reference(game, 5000)),
            "seconds": ours.best,
            "ratio": ours.best / fast.best,
        }
    )
    for name, large in large_games().items():
        timing = best_of(lambda large=large: lime_limit(large), repeats=7)  # type: ignore[misc]
        error = relative_error(lime_limit(large).coef, reference(large, 5000))
        rows.append(
            {
                "case": f"d = 1,000, {name}",
                "method": "lime_limit",
                "error": error,
                "seconds": timing.best,
            }
        )
        if name == "[UNK]":
            bars.append(Bar("milliseconds at d = 1,000, one head", 1e3 * timing.best, "<=", 50.0))
    theory_rows, theory_bars = theory()
    needed = {
        f"{accuracy:.1%}": lime_samples_needed(game, accuracy) for accuracy in (0.1, 0.01, 0.001)
    }
    met = report(
        "lime",
        [*rows, *theory_rows],
        seed=SEED,
        settings={
            "model": model,
            "K": weights.K,
            "T_max": weights.T_max,
            "words": WORDS,
            "samples that lime needs for an error of": needed,
        },
        bars=[*bars, *theory_bars],
    )
    return 0 if met else 1


def processor_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of `function()`, and what it returns."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def reference(game: PooledGame | LinkedGame, num_samples: int) -> Array:
    """The limit by the recursion over sizes."""
    found = regression(game.d, LimeSettings(25.0, 1.0, num_samples), game.d)
    return found.solve(moments_by_recursion(game, found, 1e-10), np.arange(game.d))[0]


def cold(game: PooledGame) -> float:
    """First call for a new number of players: the rule in p is made anew."""
    times = []
    for _ in range(5):
        ladder.cache_clear()
        start = time.perf_counter()
        lime_limit(game)
        times.append(time.perf_counter() - start)
    return min(times)


def prediction(weights: AttentionWeights, tokens: NDArray[np.intp]) -> Callable[[list[str]], Array]:
    """The model on strings of words."""
    ids = {f"word{token}": int(token) for token in tokens} | {MASK: weights.unk}
    return lambda texts: predict_many(
        weights, [[ids[word] for word in text.split()] for text in texts]
    )


def on_masks(game: PooledGame, tokens: NDArray[np.intp]) -> Callable[[list[str]], Array]:
    """The game itself: a word is present or it is not."""
    return lambda texts: game.value(
        np.array([[word != MASK for word in text.split()] for text in texts])
    )[:, None]


def official(
    tokens: NDArray[np.intp],
    classifier_fn: Callable[[list[str]], Array],
    num_samples: int,
    runs: int,
) -> tuple[float, float, list[Array]]:
    """Seconds of the fastest run of the package by the clock and by the processor, and the
    coefficients of each.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lime.lime_text import LimeTextExplainer
    text = " ".join(f"word{token}" for token in tokens)
    times = []
    processor = []
    coefs = []
    for seed in range(runs):
        explainer = LimeTextExplainer(
            bow=False, mask_string=MASK, feature_selection="none", random_state=seed
        )

        def run(explainer: Any = explainer) -> Any:
            return explainer.explain_instance(
                text, classifier_fn, labels=(0,), num_features=len(tokens), num_samples=num_samples
            )

        start = time.perf_counter()
        spent, explanation = processor_seconds(run)
        times.append(time.perf_counter() - start)
        processor.append(spent)
        coef = np.empty(len(tokens))
        for j, coefficient in explanation.local_exp[0]:
            coef[j] = coefficient
        coefs.append(coef)
    return min(times), min(processor), coefs


def large_games() -> dict[str, PooledGame]:
    """One head, 1,000 players: replaced by [UNK], or deleted with nothing else there, which needs
    the most nodes.
    """
    rng = np.random.default_rng(SEED)
    s, v, s_absent, v_absent = rng.normal(size=(4, 1000))
    return {
        "[UNK]": PooledGame.from_scores(s, v + 1, s_absent, v_absent + 1, 3.0, 1.0),
        "deleted": PooledGame.from_scores(s, v + 1),
    }


def theory() -> tuple[list[Row], list[Bar]]:
    """P1's theorem on random models with spread attention, T = 99 of 256, values of mean 4."""
    errors: dict[str, list[float]] = {
        "mean field": [],
        "first order": [],
        "Theorem 5.1 as printed": [],
    }
    for seed in range(5):
        weights = random_weights(
            seed, D=400, d_e=64, T_max=256, K=6, d_att=16, d_out=16, score_scale=0.3
        )
        arrays = weights.arrays()
        arrays["b_v"] = np.stack([row[0] * 4 / (row[0] @ row[0]) for row in weights.W_l])
        tokens = np.random.default_rng(seed).choice(np.arange(2, 400), 99, replace=False)
        game = pooled_game(AttentionWeights(**arrays), tokens)  # type: ignore[arg-type]
        limit = lime_limit(game, np.inf, num_samples=None).coef
        errors["mean field"].append(relative_error(lime_mean_field(game), limit))
        errors["first order"].append(relative_error(lime_first_order(game), limit))
        errors["Theorem 5.1 as printed"].append(relative_error(lime_theorem_5_1(game), limit))
    rows: list[Row] = [
        {"case": "T = 99 of 256, largest of 5 models", "method": name, "error": max(values)}
        for name, values in errors.items()
    ]
    bars = [
        Bar("error of the mean field, largest", max(errors["mean field"]), "<=", 0.003),
        Bar(
            "error of the theorem as printed, smallest",
            min(errors["Theorem 5.1 as printed"]),
            ">=",
            1.0,
        ),
    ]
    return rows, bars


if __name__ == "__main__":
    sys.exit(main())
