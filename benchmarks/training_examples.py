"""Values of training examples: the exact values of a kernel predictor beside KNN-Shapley, sampling and pyDVL.

Four questions, on scikit-learn's digits, breast cancer and diabetes:

1. *Flipped labels.* A tenth of the labels is wrong; the examples with the lowest values should be these. The measure
   is the area under the ROC curve. KNN-Shapley (Jia et al. 2019, theorem 1) is for k hard, unweighted neighbors and
   costs a sort.
2. *Time and error.* Permutation sampling of the same game, and truncated Monte Carlo (TMC, Ghorbani and Zou 2019), get
   as much processor time as the exact values take, and ten and a hundred times as much.
3. *Regression and log-loss*, where KNN-Shapley has no answer: values exist, add up, and rank examples; the measure is
   the test loss after the worst examples are removed.
4. *Cost of a wide spread.* 50,000 deleted players with log-masses spread evenly over 300, beside a spread of 30.

    python -m benchmarks.training_examples [--quick] [--pydvl]

With --pydvl the values are compared with those of pyDVL 0.10, which needs an environment of its own with NumPy 1.
OpenDataVal 1.3 needs torch 2.1 and was not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attn_closed_form import KernelPredictor, PooledGame, shapley
from attn_closed_form._types import Array, Ids

from .harness import Bar, relative_error, report

SEED = 0
FLIPPED = 0.1
# Weight of the prior: the log-loss needs more than 1e-4 of what all examples weigh together.
PRIOR = 0.1
NEIGHBORS = (5, 10)
TOL = 1e-8
LINKS: dict[str, Callable[[Array], Array]] = {
    "probability": lambda p: p,
    "log_loss": lambda p: np.log(p),
    "squared_error": lambda p: -((p - 1) ** 2),
}
PLAYERS = 50_000
WIDE = 300.0
NARROW = 30.0


def knn_shapley(X: Array, y: Any, X_test: Array, y_test: Any, k: int) -> Array:
    """Exact Shapley values of k unweighted neighbors, summed over test points (Jia et al. 2019, theorem 1).

    With the examples sorted by distance, s_n = 1[y_n = y] / n and
    s_i = s_(i+1) + (1[y_i = y] - 1[y_(i+1) = y]) / k min(k, i) / i.
    """
    n = len(X)
    total = np.zeros(n)
    i = np.arange(1, n)
    for x, label in zip(X_test, y_test, strict=True):
        order = np.argsort(np.square(X - x).sum(axis=1), kind="stable")
        hit = (y[order] == label).astype(float)
        steps = (hit[:-1] - hit[1:]) / k * np.minimum(k, i) / i
        last = hit[-1] * min(k, n) / (k * n)
        total[order] += last + np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    return total


def area_under_curve(suspicion: Array, wrong: Array) -> float:
    """Area under the ROC curve, ties counted as half: the chance that a wrong example is more suspicious."""
    from scipy.stats import rankdata

    ranks = rankdata(suspicion)
    positives = int(wrong.sum())
    return float(
        (ranks[wrong].sum() - positives * (positives + 1) / 2)
        / (positives * (len(wrong) - positives))
    )


def permutation_values(
    game: PooledGame, seconds: float, seed: int, truncate: float | None = None
) -> tuple[Array, int]:
    """Permutation sampling for so much processor time: one vectorized pass of running sums per order.

    With `truncate` (TMC), an order stops once its value is within this share of the range from that of everybody.
    """
    rng = np.random.default_rng(seed)
    d = game.d
    mass = game.masses.present[0]
    weighted = game.masses.present[0] * game.v[0]
    everybody = float(game.value(np.ones(d, dtype=bool)))
    total = np.zeros(d)
    orders = 0
    start = time.process_time()
    while time.process_time() - start < seconds or orders == 0:
        order = rng.permutation(d)
        value = np.cumsum(weighted[order]) / np.maximum(
            np.cumsum(mass[order]), np.finfo(float).tiny
        )
        change = np.diff(value, prepend=game.empty_value)
        if truncate is not None:
            close = np.flatnonzero(np.abs(value - everybody) <= truncate)
            change[int(close[0]) + 1 :] = 0.0
        total[order] += change
        orders += 1
    return total / orders, orders


def _seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result and its processor time."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def split(name: str, tests: int) -> tuple[Array, Any, Array, Any]:
    """Training and test examples of a data set of scikit-learn, in units of a feature's spread."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name != "digits":
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    else:
        X = X / 16
    order = np.random.default_rng(SEED).permutation(len(X))
    train = order[: int(0.8 * len(X))]
    test = order[int(0.8 * len(X)) :][:tests]
    return X[train], y[train], X[test], y[test]


def flip(y: Any, seed: int) -> tuple[Any, Array]:
    """The labels with a tenth of them wrong, and which those are."""
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), int(FLIPPED * len(y)), replace=False)] = True
    classes = np.unique(y)
    other = (np.searchsorted(classes, y) + rng.integers(1, len(classes), size=len(y))) % len(
        classes
    )
    return np.where(wrong, classes[other], y), wrong


def flipped_labels(name: str, bandwidth: float, tests: int) -> list[dict[str, Any]]:
    """Question 1 on one data set."""
    X, y, X_test, y_test = split(name, tests)
    noisy, wrong = flip(y, SEED)
    predictor = KernelPredictor(bandwidth=bandwidth, prior=PRIOR, task="classification").fit(
        X, noisy
    )
    methods: dict[str, Callable[[], Array]] = {
        f"KNN-Shapley, k = {k}": partial(knn_shapley, X, noisy, X_test, y_test, k)
        for k in NEIGHBORS
    }
    for utility in LINKS:
        methods[f"exact, {utility}"] = partial(
            predictor.data_values, X_test, y_test, utility, 1e-6, progress=False
        )
    rows = []
    for method, values in methods.items():
        found, seconds = _seconds(values)
        rows.append(
            {
                "comparison": f"Flipped labels, {name}: {len(X):,} training and {len(X_test)} test examples",
                "method": method,
                "area under the ROC curve": area_under_curve(-found, wrong),
                "seconds per test point": seconds / len(X_test),
            }
        )
    return rows


def sampling(name: str, bandwidth: float) -> list[dict[str, Any]]:
    """Question 2: one test point, the same game."""
    X, y, X_test, y_test = split(name, 1)
    predictor = KernelPredictor(bandwidth=bandwidth, task="classification").fit(X, y)
    units = predictor.model_.read(X_test[0])
    row = int(np.flatnonzero(predictor.classes_ == y_test[0])[0])
    game = predictor.model_.game_of(units, np.eye(len(predictor.classes_))[row])
    exact, seconds = min(
        (_seconds(lambda: shapley(game, TOL)) for _ in range(3)), key=lambda found: found[1]
    )
    title = f"Sampling the same game, {name}: {game.d:,} training examples, one test point"
    gap = abs(exact.sum() - (float(game.value(np.ones(game.d, dtype=bool))) - game.empty_value))
    rows = [
        {"comparison": title, "method": "exact", "error": 0.0, "gap error": gap, "seconds": seconds}
    ]
    for times in (1, 10, 100):
        for method, truncate in (("permutations", None), ("TMC, 1 %", 0.01)):
            found, orders = permutation_values(game, times * seconds, SEED, truncate)
            label = f"{method}, {times} times the time ({orders:,} orders)"
            rows.append(
                {
                    "comparison": title,
                    "method": label,
                    "error": relative_error(found, exact),
                    "seconds": times * seconds,
                }
            )
    return rows


def removal(
    name: str, bandwidth: float, utility: str, tests: int, share: float = 0.1
) -> list[dict[str, Any]]:
    """Question 3: half of the test points value the examples; the loss is that of the other half."""
    X, y, X_test, y_test = split(name, 2 * tests)
    rng = np.random.default_rng(SEED)
    if name == "diabetes":
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
        y = np.where(rng.random(len(y)) < FLIPPED, rng.permutation(y), y)
    else:
        y, _ = flip(y, SEED)
    if name == "diabetes":
        kind = "regression"
    else:
        kind = "classification"
    make = KernelPredictor(bandwidth=bandwidth, prior=PRIOR, task=kind)
    predictor = make.fit(X, y)
    asked = slice(None, len(X_test) // 2)
    held = slice(len(X_test) // 2, None)
    values, seconds = _seconds(
        lambda: predictor.data_values(X_test[asked], y_test[asked], utility, 1e-6, progress=False)
    )

    def loss(keep: Ids) -> float:
        fitted = KernelPredictor(**make.get_params()).fit(X[keep], y[keep])
        if utility == "squared_error" and kind == "regression":
            return float(np.square(fitted.predict(X_test[held]) - y_test[held]).mean())
        chance = fitted.predict_proba(X_test[held])
        hit = chance[np.arange(len(chance)), np.searchsorted(fitted.classes_, y_test[held])]
        return float(-np.log(hit).mean())

    n = int(share * len(X))
    title = f"Removing a tenth of the examples, {name}, {utility}: loss on held-out test points"
    choices = {
        "nothing removed": np.arange(len(X)),
        "lowest values removed": np.sort(np.argsort(values)[n:]),
        "random ones removed": np.sort(rng.permutation(len(X))[n:]),
        "highest values removed": np.sort(np.argsort(values)[:-n]),
    }
    rows = [
        {"comparison": title, "method": name, "loss": loss(keep)} for name, keep in choices.items()
    ]
    rows[1]["seconds per test point"] = seconds / len(X_test[asked])
    return rows


def wide_spread(players: int = PLAYERS) -> list[dict[str, Any]]:
    """Question 4: the least processor time of five runs."""
    rows = []
    for spread in (WIDE, NARROW):
        rng = np.random.default_rng(SEED)
        # At the query 0, log-weights -x^2 / 2 are spread evenly.
        X = np.sqrt(2 * rng.permutation(np.linspace(0, spread, players)))[:, None]
        y = rng.integers(0, 2, size=players)
        predictor = KernelPredictor(task="classification").fit(X, y)
        query = np.zeros((1, 1))
        measured = partial(predictor.data_values, query, [1], tol=TOL, progress=False)
        runs = [_seconds(measured) for _ in range(5)]
        gap = abs(runs[0][0].sum() - (predictor.predict_proba(query)[0, 1] - 0.5))
        times = [t for _, t in runs]
        rows.append(
            {
                "comparison": f"Spread of log-masses, {players:,} training examples, tol {TOL:g}",
                "method": f"spread {spread:g}",
                "gap error": gap,
                "seconds": min(times),
            }
        )
    return rows


def pydvl_rows() -> list[dict[str, Any]]:
    """PyDVL's exact values (all subsets) of our utilities at ten examples."""
    from pydvl.valuation import Dataset
    from pydvl.valuation.methods import ShapleyValuation
    from pydvl.valuation.samplers import DeterministicUniformSampler
    from pydvl.valuation.stopping import NoStopping
    from pydvl.valuation.utility.base import UtilityBase

    X, y, X_test, y_test = split("breast_cancer", 3)
    X = X[:10]
    y = y[:10]
    prior = 0.1
    predictor = KernelPredictor(bandwidth=2.0, prior=prior, task="classification").fit(X, y)
    masses = np.exp([predictor.model_.read(x).data[1] for x in X_test])
    hits = y == y_test[:, None]

    class Utility(UtilityBase):
        def __init__(self, link: Callable[[Array], Array]) -> None:
            self.link = link

        def __call__(self, sample: Any) -> float:
            if sample is None:
                chosen = []
            else:
                chosen = list(sample.subset)
            total = masses[:, chosen].sum(axis=1) + prior
            return float(
                self.link(((masses * hits)[:, chosen].sum(axis=1) + prior / 2) / total).sum()
            )

    rows = []
    for name, link in LINKS.items():
        sampler = DeterministicUniformSampler()
        theirs = (
            ShapleyValuation(Utility(link), sampler, NoStopping(sampler), progress=False)
            .fit(Dataset(X, y))
            .result
        )
        values = np.empty(len(X))
        values[theirs.indices] = theirs.values
        ours = predictor.data_values(X_test, y_test, name, progress=False)
        title = "pyDVL's exact values of the same utility: 10 training and 3 test examples"
        rows.append({"comparison": title, "method": name, "error": relative_error(ours, values)})
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training_examples", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="few test points")
    parser.add_argument(
        "--pydvl", action="store_true", help="compare with pyDVL alone, which needs NumPy 1"
    )
    args = parser.parse_args(argv)
    if args.pydvl:
        rows = pydvl_rows()
        bars = [Bar("largest difference from pyDVL", max(row["error"] for row in rows), "<=", TOL)]
        if report("training_examples_pydvl", rows, seed=SEED, settings={"tol": TOL}, bars=bars):
            return 0
        return 1
    tests = 5 if args.quick else 60
    rows = wide_spread()
    bars = [
        Bar(
            "seconds per test point, 50,000 training examples, spread 300",
            rows[0]["seconds"],
            "<=",
            0.4,
        ),
        Bar(
            "time with a spread of 300 over that with 30",
            rows[0]["seconds"] / rows[1]["seconds"],
            "<=",
            2.0,
        ),
        Bar("efficiency gap over tol", rows[0]["gap error"] / TOL, "<=", 1.0),
    ]
    rows += flipped_labels("digits", 0.6, 4 * tests) + flipped_labels("breast_cancer", 1.0, tests)
    rows += sampling("digits", 0.6) + sampling("breast_cancer", 1.0)
    rows += removal("diabetes", 1.0, "squared_error", tests // 2) + removal(
        "breast_cancer", 1.0, "log_loss", tests // 2
    )
    settings = {"test points": tests, "tol": TOL, "flipped": FLIPPED}
    if report("training_examples", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
