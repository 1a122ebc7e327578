"""Probability of a model with six heads: how much variance do the control variates of
`shapley_sample` remove?

The probability of a model with several heads has no exact Shapley values here, so they are sampled:
`shapley_sample` with fitted games as control variates, next to plain paired permutation sampling at
the same number of model calls. The model is P1's (one layer, six heads, positions), the texts are
test reviews of IMDB, and the variance is measured, not estimated by the method itself: each method
runs several times with different seeds, and the variance between the runs is summed over the words.
The same runs show whether the reported standard errors are right.

    python -m benchmarks.papers.retrained --data FOLDER            # trains the model first
    python -m benchmarks.sampled_probability --data aclImdb_v1.tar.gz
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from attn_closed_form import PooledGame
from attn_closed_form.attention import pooled_game
from attn_closed_form.game.sampled import ShapleySample, shapley_sample
from jax_model.training.imdb import load_imdb

from .harness import Bar, report
from .models import needed_p1_model
from .permutations import permutation_sample

SEED = 0
REVIEWS = 100
RUNS = 2
CALLS_PER_WORD = 10
METHODS: dict[str, Callable[..., ShapleySample]] = {
    "fitted games as control variates": shapley_sample,
    "permutation sampling": permutation_sample,
}
REDUCTION = 100.0


def variances(
    game: PooledGame, calls: int, runs: int, method: Callable[..., ShapleySample]
) -> dict[str, float]:
    """Variance between runs and mean squared standard error, both summed over the players, and
    calls of one run.
    """
    samples = [method(game, calls, seed=SEED + run, link="sigmoid") for run in range(runs)]
    return {
        "variance": float(np.var([sample.values for sample in samples], axis=0, ddof=1).sum()),
        "reported": float(np.mean([np.square(sample.standard_error).sum() for sample in samples])),
        "calls": float(samples[0].calls),
    }


def measure(games: list[PooledGame], runs: int) -> list[dict[str, Any]]:
    """One row per game."""
    rows = []
    for number, game in enumerate(games):
        fitted, plain = (
            variances(game, CALLS_PER_WORD * game.d, runs, method) for method in METHODS.values()
        )
        row = {
            "review": number,
            "words": game.d,
            "calls": int(fitted["calls"]),
            "calls of permutation sampling": int(plain["calls"]),
            "standard deviation": np.sqrt(fitted["variance"] / game.d),
            "standard deviation of permutation sampling": np.sqrt(plain["variance"] / game.d),
            "variance ratio": plain["variance"] / fitted["variance"],
            "reported over measured variance": fitted["reported"] / fitted["variance"],
        }
        rows.append(row)
        print(
            f"{number + 1} of {len(games)}: {row['variance ratio']:.0f}",
            file=sys.stderr,
            flush=True,
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sampled_probability",
        description=(__doc__ or "").split("\n\n")[0],
    )
    parser.add_argument("--data", required=True, help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument(
        "--reviews", type=int, default=REVIEWS, help="test reviews (default: %(default)s)"
    )
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="runs per review and method (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    model = needed_p1_model()
    texts = load_imdb(args.data, "test").texts
    chosen = np.random.default_rng(SEED).permutation(len(texts))[: args.reviews]
    games = [pooled_game(model.weights, model.read(texts[i]).data) for i in chosen]
    rows = measure(games, args.runs)
    ratios = [row["variance ratio"] for row in rows]
    median = float(np.median(ratios))
    # Summed over the words, the variance between a few runs scatters by some ten percent, and its
    # median less.
    honest = float(np.median([row["reported over measured variance"] for row in rows]))
    bars = [
        Bar(
            "variance of permutation sampling over that with control variates, median",
            median,
            ">=",
            REDUCTION,
        ),
        Bar("the same, smallest of all reviews", min(ratios), ">=", 1.0),
        Bar("reported over measured variance, median", honest, ">=", 0.8),
        Bar("reported over measured variance, median (upper limit)", honest, "<=", 1.25),
    ]
    settings = {
        "reviews": len(rows),
        "words": f"{min(row['words'] for row in rows)} to {max(row['words'] for row in rows)}",
        "calls": f"{CALLS_PER_WORD} per word",
        "runs": args.runs,
        "model": "P1's, six heads, positions",
    }
    if report("sampled_probability", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
