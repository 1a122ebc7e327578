"""SLALOM fits on subsets that were not fitted: ours at its defaults against slalom-explanations
0.1.2 at its best.

The black box is P1's model, the documents are a text of 28 tokens and test reviews of IMDB. Every
fit is asked for the same fresh subsets of each document: with 1 to 5 random tokens deleted, and
with any number of them deleted. The package samples deletions and trains by Adam; its best is, for
each document and each kind of subset, the smallest error of all its numbers of epochs, so that it
may choose after the fact, and differently for the two kinds. Ours has one fit per document for
both. Both get the same number of samples: 1,000 on reviews, on the text 1,000 and 5,000.

The package's epochs are trained by its loop in NumPy (`slalom_package.py`), and on some of the
reviews by the package itself as well: a row says how far the errors of the two are apart, and
another compares the processor time of the fits. On the text there are five seeds of ours, because
there the two errors can only be traded for each other: see the rows "front", in which the weight of
the subsets of any size is varied.

    python -m benchmarks.slalom_fresh --data FOLDER [--work FOLDER] [--documents 200]

With `--work` the errors are kept in that folder, and a run that was cut off goes on from there;
ours under a name that changes with the code of the fit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import attn_closed_form.slalom as slalom_package
from attn_closed_form import Slalom, SlalomWarning, fit_slalom
from attn_closed_form.attention import predict_many
from attn_closed_form.slalom import Deletions
from jax_model.training.imdb import load_imdb

from .harness import RESULTS, Bar, report
from .models import needed_p1_model
from .slalom import Box, Ids
from .slalom_package import agreement, package_fit, package_samples, trained

SEED = 0
TEXT = """I went in expecting very little and came out pleasantly surprised. The plot is thin, and the first twenty
minutes drag, but the two leads are wonderful together."""
FRESH = 1000
FRESH_TEXT = 10000
FEW = 5
SAMPLES = 1000
SAMPLES_TEXT = (1000, 5000)
SEEDS_TEXT = 5
EPOCHS = [60, 600, 3000]
FRONT = (0.0, 0.0003, 0.001, 0.002, 0.003, 0.005, 0.01, 0.03, 0.1, 1.0)
# On so many reviews the package itself is run, too.
PACKAGE_ITSELF = {60: 30, 600: 10, 3000: 2}
NEAR = "mse, up to 5 deletions"
FAR = "mse, any size"
Errors = dict[str, float]


class Subsets(NamedTuple):
    """Fresh subsets of a document and the model's outputs for them."""

    near: list[Ids]
    f_near: Any
    far: list[Ids]
    f_far: Any

    def errors(self, slalom: Slalom) -> Errors:
        """Mean squared errors of a surrogate."""
        return {
            NEAR: float(np.mean((self.f_near - slalom.predict_many(self.near)) ** 2)),
            FAR: float(np.mean((self.f_far - slalom.predict_many(self.far)) ** 2)),
        }

    @property
    def range(self) -> float:
        """Largest minus smallest output."""
        return float(np.ptp(np.r_[self.f_near, self.f_far]))


def draw(f: Box, document: Ids, rng: np.random.Generator, count: int = FRESH) -> Subsets:
    """Fresh subsets; the number of deleted tokens is uniform."""
    kinds = []
    for most in (min(FEW, document.size - 1), document.size - 1):
        gone = rng.integers(1, most + 1, size=count)
        kinds.append([np.delete(document, rng.permutation(document.size)[:k]) for k in gone])
    near, far = kinds
    return Subsets(near, f(near), far, f(far))


def package_errors(f: Box, document: Ids, fresh: Subsets, samples: int) -> dict[str, Any]:
    """Errors of the package's loop by epochs, and its model calls."""
    drawn = package_samples(f, document, samples)
    ends = trained(drawn, EPOCHS)
    return {
        "calls": drawn.calls,
        "epochs": {str(count): fresh.errors(ends[count]) for count in EPOCHS},
    }


def itself(f: Box, document: Ids, fresh: Subsets, samples: int, epochs: int) -> dict[str, Any]:
    """Errors of the package's explainer, and the processor time of its fit without the model."""
    timed = Timed(f)
    start = time.process_time()
    slalom, _ = package_fit(timed, document, epochs, samples)
    return {
        "errors": fresh.errors(slalom),
        "fit alone": time.process_time() - start - timed.seconds,
    }


class Timed:
    """A black box that counts its own processor time."""

    def __init__(self, f: Box) -> None:
        self.f = f
        self.seconds = 0.0

    def __call__(self, sequences: list[Ids]) -> Any:
        """Outputs of f."""
        start = time.process_time()
        out = self.f(sequences)
        self.seconds += time.process_time() - start
        return out


def ours(
    f: Box, document: Ids, fresh: Subsets, samples: int, seed: int, **options: Any
) -> dict[str, Any]:
    """A row of our fit."""
    timed = Timed(f)
    start = time.process_time()
    with warnings.catch_warnings():
        # Which importances are undetermined is not the question.
        warnings.simplefilter("ignore", SlalomWarning)
        fit = fit_slalom(timed, document, num_samples=samples, seed=seed, progress=False, **options)
    alone = time.process_time() - start - timed.seconds
    largest = float(np.abs(fit.slalom.v).max()) / fresh.range
    row = {"calls": fit.model_calls} | fresh.errors(fit.slalom)
    return row | {"largest value / range": largest, "seconds of the fit alone": alone}


def best(package: dict[str, Any], kind: str) -> float:
    """The package's smallest error for one kind of subset."""
    return min(errors[kind] for errors in package["epochs"].values())


def kept(folder: Path | None, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` returns, from the file of an earlier run if there is one."""
    path = folder / f"{name}.json" if folder else None
    if path is None or not path.exists():
        made = make()
        if path is None:
            return made
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made), encoding="utf-8")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def fingerprint() -> str:
    """Changes with the code of the fit."""
    files = sorted(Path(slalom_package.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def text_part(f: Box, document: Ids, work: Path | None) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Rows and bars of the text of 28 tokens."""
    fresh = draw(f, document, np.random.default_rng([SEED, SEED]), FRESH_TEXT)
    rows: list[dict[str, Any]] = []
    bars = []
    for samples in SAMPLES_TEXT:
        case = f"28 tokens, {samples} samples"
        package = kept(
            work, f"text-{samples}", partial(package_errors, f, document, fresh, samples)
        )
        for count, errors in package["epochs"].items():
            rows.append(
                {"case": case, "method": f"package, {count} epochs", "calls": package["calls"]}
                | errors
            )
        fits = [ours(f, document, fresh, samples, seed) for seed in range(SEEDS_TEXT)]
        rows += [
            {"case": case, "method": f"ours, seed {seed}"} | row for seed, row in enumerate(fits)
        ]
        for kind in (NEAR, FAR):
            measured = fits[SEED][kind] / best(package, kind)
            bars.append(Bar(f"{case}, {kind}: ours / package's best", measured, "<=", 1))
        worst = [max(row[kind] / best(package, kind) for kind in (NEAR, FAR)) for row in fits]
        bars.append(
            Bar(
                f"{case}: the worse of both, median of {SEEDS_TEXT} seeds",
                float(np.median(worst)),
                "<=",
                1,
            )
        )
    for weight in FRONT:
        row = ours(f, document, fresh, SAMPLES_TEXT[-1], SEED, kind=Deletions(any_size=weight))
        rows.append({"case": "28 tokens, front", "method": f"ours, any_size={weight:g}"} | row)
    return rows, bars


def review_part(
    f: Box, reviews: list[tuple[int, Ids]], work: Path | None
) -> tuple[list[dict[str, Any]], list[Bar]]:
    """Rows and bars of the reviews."""
    packages = []
    mine = []
    checks = {count: [] for count in PACKAGE_ITSELF}  # type: ignore[var-annotated]
    for number, (index, document) in enumerate(reviews):
        fresh = draw(f, document, np.random.default_rng([SEED, index]))
        package = kept(
            work, f"review-{index}", partial(package_errors, f, document, fresh, SAMPLES)
        )
        for count in [count for count, most in PACKAGE_ITSELF.items() if number < most]:
            run = kept(
                work,
                f"itself-{index}-{count}",
                partial(itself, f, document, fresh, SAMPLES, count),
            )
            run["apart"] = agreement(run["errors"], package["epochs"][str(count)])
            checks[count].append(run)
        name = f"ours-{index}-{fingerprint()}"
        row = kept(work, name, partial(ours, f, document, fresh, SAMPLES, index))
        packages.append(package)
        mine.append(row)
        ratios = ", ".join(f"{row[kind] / best(package, kind):.3g}" for kind in (NEAR, FAR))
        print(
            f"{number + 1} of {len(reviews)}: {document.size} tokens, ratios {ratios}",
            file=sys.stderr,
            flush=True,
        )
    return summary(packages, mine, checks), review_bars(packages, mine, checks)


def summary(
    packages: list[Any], mine: list[Any], checks: dict[int, list[Any]]
) -> list[dict[str, Any]]:
    """Medians over reviews, one row per method."""
    case = f"{len(mine)} reviews, median"
    rows: list[dict[str, Any]] = [{"case": case, "method": "ours"}]
    rows[0] |= {key: float(np.median([row[key] for row in mine])) for key in mine[0]}
    for count in map(str, EPOCHS):
        errors = {
            kind: float(np.median([package["epochs"][count][kind] for package in packages]))
            for kind in (NEAR, FAR)
        }
        calls = float(np.median([package["calls"] for package in packages]))
        rows.append({"case": case, "method": f"package, {count} epochs", "calls": calls} | errors)
    for epochs, runs in checks.items():
        if runs:
            row: dict[str, Any] = {
                "case": f"{len(runs)} reviews",
                "method": f"package itself, {epochs} epochs",
            }
            row["largest difference to its loop in NumPy"] = max(run["apart"] for run in runs)
            row["seconds of the fit alone"] = float(np.median([run["fit alone"] for run in runs]))
            rows.append(row)
    return rows


def review_bars(packages: list[Any], mine: list[Any], checks: dict[int, list[Any]]) -> list[Bar]:
    """The promises: smaller errors than the package's best for both kinds of subsets, values of a
    sensible size.
    """
    bars = []
    ratios = {
        kind: np.array(
            [row[kind] / best(package, kind) for row, package in zip(mine, packages, strict=True)]
        )
        for kind in (NEAR, FAR)
    }
    for kind, ratio in ratios.items():
        bars.append(
            Bar(
                f"reviews, {kind}: median of ours / package's best",
                float(np.median(ratio)),
                "<=",
                1,
            )
        )
        bars.append(
            Bar(f"reviews, {kind}: largest of ours / package's best", float(ratio.max()), "<=", 1)
        )
    both = (ratios[NEAR] < 1) & (ratios[FAR] < 1)
    bars.append(
        Bar(
            f"share of {len(mine)} reviews where ours is smaller in both",
            float(both.mean()),
            ">=",
            1,
        )
    )
    calls = max(
        row["calls"] / package["calls"] for row, package in zip(mine, packages, strict=True)
    )
    bars.append(Bar("model calls, largest of ours / package's", calls, "<=", 1))
    largest = max(row["largest value / range"] for row in mine)
    bars.append(Bar("largest |v| of ours / range of the outputs", largest, "<=", 10))
    if checks[EPOCHS[0]]:
        own = np.median([row["seconds of the fit alone"] for row in mine[: len(checks[EPOCHS[0]])]])
        theirs = np.median([run["fit alone"] for run in checks[EPOCHS[0]]])
        bars.append(
            Bar(
                "processor time of the fit alone, ours / package with 60 epochs",
                float(own / theirs),
                "<=",
                1,
            )
        )
    return bars


def main(argv: list[str] | None = None) -> int:
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    command.add_argument("--data", type=Path, required=True, help="folder with aclImdb_v1.tar.gz")
    command.add_argument("--documents", type=int, default=200)
    command.add_argument("--work", type=Path, help="folder that keeps the errors of the package")
    command.add_argument("--out", type=Path, default=RESULTS, help="folder for slalom_fresh.json")
    options = command.parse_args(argv)
    torch.set_num_threads(1)
    model = needed_p1_model()

    def f(sequences: list[Ids]) -> Any:
        return predict_many(model.weights, sequences)[:, 0]

    texts = load_imdb(options.data / "aclImdb_v1.tar.gz", "test").texts
    picked = np.random.default_rng(SEED).choice(len(texts), size=options.documents, replace=False)
    reviews = [
        (int(i), model.vocabulary.encode(texts[i])[: int(model.weights.room)]) for i in picked
    ]
    rows, bars = text_part(f, model.vocabulary.encode(TEXT), options.work)
    more_rows, more_bars = review_part(f, reviews, options.work)
    settings = {
        "package": "slalom-explanations 0.1.2",
        "samples on reviews": SAMPLES,
        "reviews": len(reviews),
    }
    met = report(
        "slalom_fresh",
        rows + more_rows,
        seed=SEED,
        settings=settings,
        bars=bars + more_bars,
        folder=options.out,
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
