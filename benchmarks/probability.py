"""What do exact Shapley values on the probability scale cost, beside the logit's and beside what
others sample?

Three questions, all in one run:

1. The probability against the logit, one head, d = 106, tol 1e-8: replaced and deleted players,
   ranges of the logit from 1 to 30. The poles of the logistic function and the nodes of each pole
   set the price, and both grow with the range.
2. Many players: 10,000 and 100,000 deleted ones.
3. The shipped model on a text: shap's KernelExplainer with 20,000 samples and the lime package with
   5,000 on the same probability, time and error. The error of LIME is that against its own exact
   limit.

Run with `python -m benchmarks.probability`; it needs the extra interop.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from attn_closed_form import PooledGame, lime_limit, load_demo_model, shapley

from .harness import Bar, Row, best_of, relative_error, report
from .lime_defaults import TEXTS, package_runs, word_game

D = 106
TOL = 1e-8
RANGES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
# The ranges of texts of the shipped model are of this size; the bars are for these.
ORDINARY = 4.0


def random_game(rng: np.random.Generator, d: int, kind: str, reach: float) -> PooledGame:
    """One head; log-masses as those of a text, and values such that the logit ranges over about
    +-reach.
    """
    s = 1.3 * rng.normal(size=d)
    v = rng.uniform(-1, 1, d)
    if kind == "deleted":
        game = PooledGame.from_scores(s, v, s_background=0.0, v_background=0.0)
    else:
        game = PooledGame.from_scores(s, v, np.zeros(d), np.full(d, 0.02), 2.0, 0.0)
    largest = max(map(abs, game.through("sigmoid").range))
    factor = reach / largest
    return replace(game, v=factor * game.v, v_absent=factor * game.v_absent)


def scales() -> tuple[list[Row], list[Bar]]:
    """Question 1."""
    rows: list[Row] = []
    ratios: dict[tuple[str, float], float] = {}
    for kind in ("replaced", "deleted"):
        for reach in RANGES:
            times = []
            for seed in range(3):
                game = random_game(np.random.default_rng(seed), D, kind, reach)
                linked = game.through("sigmoid")
                times.append(
                    [best_of(partial(shapley, either, TOL)).best for either in (game, linked)]
                )
            logit, probability = np.median(times, axis=0)
            ratios[kind, reach] = probability / logit
            row = {"players": kind, "d": D, "range": reach, "seconds": probability}
            rows.append({**row, "over the logit": probability / logit})
    bars = [
        Bar(
            f"{kind} players, range {ORDINARY:g}: probability over logit",
            ratios[kind, ORDINARY],
            "<=",
            limit,
        )
        for kind, limit in (("replaced", 12.0), ("deleted", 25.0))
    ]
    return rows, bars


def many_players() -> tuple[list[Row], list[Bar]]:
    """Question 2."""
    rows: list[Row] = []
    bars = []
    for d, limit in ((10_000, 3.0), (100_000, 30.0)):
        game = random_game(np.random.default_rng(0), d, "deleted", ORDINARY)
        linked = game.through("sigmoid")
        start = time.perf_counter()
        values = shapley(linked, TOL)
        seconds = time.perf_counter() - start
        change = float(linked.value(np.ones(d, dtype=bool)) - linked.value(np.zeros(d, dtype=bool)))
        row = {"players": "deleted", "d": d, "range": ORDINARY, "seconds": seconds}
        rows.append({**row, "error": abs(values.sum() - change)})
        bars.append(Bar(f"{d:,} deleted players, seconds", seconds, "<=", limit))
    return rows, bars


def rivals() -> list[Row]:
    """Question 3."""
    import shap

    model = load_demo_model()
    text = " ".join(dict.fromkeys(" ".join(TEXTS[:10]).split()))
    game, words = word_game(model, text)
    rows: list[Row] = []

    def add(method: str, seconds: float, error: float) -> None:
        rows.append(
            {"players": "words", "d": game.d, "method": method, "seconds": seconds, "error": error}
        )

    exact = shapley(game, TOL)
    limit = lime_limit(game, tol=TOL)
    add("shapley", best_of(lambda: shapley(game, TOL)).best, TOL)
    add("lime_limit", best_of(lambda: lime_limit(game, tol=TOL)).best, TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)  # noqa: NPY002, the generator that shap draws from
        explainer = shap.KernelExplainer(lambda z: game.value(z > 0.5), np.zeros((1, game.d)))
        start = time.perf_counter()
        sampled = explainer.shap_values(np.ones(game.d), nsamples=20_000, silent=True, l1_reg=0)
        seconds = time.perf_counter() - start
    add("KernelSHAP, 20,000", seconds, relative_error(sampled, exact))
    start = time.perf_counter()
    runs, _ = package_runs(model, text, words, 1, 10)
    seconds = (time.perf_counter() - start) / 2
    add("lime, 5,000", seconds, relative_error(runs[0], limit.coef))
    return rows


def main() -> int:
    rows, bars = scales()
    more, more_bars = many_players()
    rows += more + rivals()
    if report("probability", rows, seed=0, settings={"tol": TOL}, bars=bars + more_bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
