"""Owen values of a review's sentences and semivalues: their cost beside Shapley values, and shap's
partition explainer.

The document has 240 words in 12 sentences; absent words become [UNK]. shap's PartitionExplainer
gets the same function (`game.value`, the cheapest there is) and a binary tree over the words: pairs
of neighbors up to the sentence, then pairs of sentences. Its values are Owen values along that
tree, cut off at `max_evals`, so its sentences differ from ours by definition (a tree of pairs is no
list of 12 sentences) and by the cut-off; we print both.

    python -m benchmarks.owen [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np

from attn_closed_form import PooledGame, owen, shapley
from attn_closed_form._types import Array, Ids
from attn_closed_form.attention import pooled_game
from attn_closed_form.game import beta_shapley, weighted_banzhaf

from .harness import Bar, best_of, relative_error, report
from .models import benchmark_model, random_document

SEED = 0
WORDS = 240
SENTENCES = 12
WITNESS_TOL = 1e-12


def sentence_tree(numbers: Ids) -> Array:
    """A scipy linkage: neighbors in pairs within each sentence, then the sentences in pairs."""
    rows: list[list[float]] = []
    size = dict.fromkeys(range(numbers.size), 1)

    def join(nodes: list[int]) -> int:
        while len(nodes) > 1:
            paired = []
            for first, second in zip(nodes[::2], nodes[1::2], strict=False):
                new = numbers.size + len(rows)
                size[new] = size[first] + size[second]
                rows.append([first, second, len(rows) + 1.0, size[new]])
                paired.append(new)
            nodes = paired + nodes[len(nodes) - len(nodes) % 2 :]
        return nodes[0]

    join([join(np.flatnonzero(numbers == m).tolist()) for m in np.unique(numbers)])
    return np.array(rows)


def partition_rows(
    game: PooledGame, numbers: Ids, exact: Array, ours: float
) -> list[dict[str, Any]]:
    """Shap's partition explainer with its default number of evaluations and with forty times as
    many.
    """
    import shap

    calls = 0

    def value(masks: Array) -> Array:
        nonlocal calls
        calls += len(masks)
        return game.value(masks > 0.5)

    masker = shap.maskers.Partition(np.zeros((1, game.d)), clustering=sentence_tree(numbers))
    explainer = shap.explainers.Partition(value, masker)
    rows = []
    for evaluations in (500, 20_000):
        seconds = np.inf
        for _ in range(3):
            calls = 0
            start = time.perf_counter()
            found = explainer(np.ones((1, game.d)), max_evals=evaluations, silent=True).values[0]
            seconds = min(seconds, time.perf_counter() - start)
        sums = np.bincount(numbers, weights=found)
        rows.append(
            {
                "case": "Owen values, 240 words in 12 sentences",
                "method": f"shap partition, max_evals {evaluations}",
                "difference of sentences": relative_error(
                    sums, np.bincount(numbers, weights=exact)
                ),
                "difference of words": relative_error(found, exact),
                "model calls": calls,
                "seconds": seconds,
                "times ours": seconds / ours,
            }
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.owen", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="without shap")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore", module="shap")
    weights, name = benchmark_model(SEED)
    game = pooled_game(weights, random_document(weights, WORDS, SEED))
    numbers = np.arange(WORDS) // (WORDS // SENTENCES)
    exact = owen(game, numbers, WITNESS_TOL)
    seconds = {
        "Owen values": best_of(lambda: owen(game, numbers), repeats=20).best,
        "Shapley values": best_of(lambda: shapley(game), repeats=40).best,
        "Beta(16, 1)": best_of(lambda: beta_shapley(game, 16, 1), repeats=40).best,
        "Beta(2, 2)": best_of(lambda: beta_shapley(game, 2, 2), repeats=40).best,
        "weighted Banzhaf, p = 0.3": best_of(lambda: weighted_banzhaf(game, 0.3), repeats=40).best,
    }
    errors = {
        "Owen values": relative_error(owen(game, numbers), exact),
        "Shapley values": relative_error(shapley(game), shapley(game, WITNESS_TOL)),
        "Beta(16, 1)": relative_error(
            beta_shapley(game, 16, 1), beta_shapley(game, 16, 1, WITNESS_TOL)
        ),
        "Beta(2, 2)": relative_error(
            beta_shapley(game, 2, 2), beta_shapley(game, 2, 2, WITNESS_TOL)
        ),
        "weighted Banzhaf, p = 0.3": relative_error(
            weighted_banzhaf(game, 0.3), weighted_banzhaf(game, 0.3, WITNESS_TOL)
        ),
    }
    shapley_seconds = seconds["Shapley values"]
    rows: list[dict[str, Any]] = [
        {
            "case": case,
            "method": "ours",
            "error": errors[case],
            "seconds": s,
            "times Shapley": s / shapley_seconds,
        }
        for case, s in seconds.items()
    ]
    sums = np.bincount(numbers, weights=owen(game, numbers))
    merged = shapley(
        game.merge([np.flatnonzero(numbers == m).tolist() for m in range(SENTENCES)]), WITNESS_TOL
    )
    bars = [
        Bar("Owen values, 240 words in 12 sentences, seconds", seconds["Owen values"], "<=", 0.05),
        Bar("Owen values, error", errors["Owen values"], "<=", 1e-9),
        Bar(
            "words of a sentence against its Shapley value, error",
            relative_error(sums, merged),
            "<=",
            1e-9,
        ),
        Bar(
            "Beta(16, 1), times the cost of Shapley values",
            seconds["Beta(16, 1)"] / shapley_seconds,
            "<=",
            4.0,
        ),
    ]
    if not args.quick:
        rows += partition_rows(game, numbers, exact, seconds["Owen values"])
    settings = {
        "model": name,
        "K": weights.K,
        "words": WORDS,
        "sentences": SENTENCES,
        "absent": "[UNK]",
    }
    if report("owen", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
