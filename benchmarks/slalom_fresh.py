"""SLALOM fits on subsets that were not fitted: ours at its defaults against slalom-explanations 0.1.2 at its best.

The black box is the shipped model, the documents are a text of 28 tokens and test reviews of IMDB. Every fit is asked
for the same fresh subsets of each document: with 1 to 5 random tokens deleted, and with any number of them deleted.
The package samples deletions and trains by Adam; its best is, for each document and each kind of subset, the smallest
error of all its numbers of epochs, so that it may choose after the fact, and differently for the two kinds. Ours has
one fit per document for both. On reviews both get 1,000 samples.

The last bar asks that no value is further from zero than ten times the range of the model's outputs.

    python -m benchmarks.slalom_fresh --data FOLDER [--documents 200] [--epochs 60 600]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from attn_closed_form import Slalom, SlalomWarning, load_demo_model, predict_many, slalom_fit_fidel
from attn_closed_form.evaluate.datasets import load_imdb
from attn_closed_form.slalom.solvers import Optimum

from .harness import RESULTS, Bar, report
from .slalom import Box, Ids, TorchBox

SEED = 0
TEXT = """I went in expecting very little and came out pleasantly surprised. The plot is thin, and the first twenty
minutes drag, but the two leads are wonderful together."""
FRESH = 1000
FEW = 5
SAMPLES = 1000
NEAR, FAR = "mse, up to 5 deletions", "mse, any size"


class Subsets(NamedTuple):
    """Fresh subsets of a document and the model's outputs for them."""

    near: list[Ids]
    f_near: Any
    far: list[Ids]
    f_far: Any

    def errors(self, slalom: Slalom) -> dict[str, float]:
        """Mean squared errors of a surrogate."""
        return {
            NEAR: float(np.mean((self.f_near - slalom.predict_many(self.near)) ** 2)),
            FAR: float(np.mean((self.f_far - slalom.predict_many(self.far)) ** 2)),
        }

    @property
    def range(self) -> float:
        """Largest minus smallest output."""
        return float(np.ptp(np.r_[self.f_near, self.f_far]))


def draw(f: Box, document: Ids, rng: np.random.Generator) -> Subsets:
    """Fresh subsets; the number of deleted tokens is uniform."""
    kinds = []
    for most in (min(FEW, document.size - 1), document.size - 1):
        gone = rng.integers(1, most + 1, size=FRESH)
        kinds.append([np.delete(document, rng.permutation(document.size)[:k]) for k in gone])
    near, far = kinds
    return Subsets(near, f(near), far, f(far))


def package_fit(f: Box, document: Ids, epochs: int) -> tuple[Slalom, int]:
    """The package's fit on deletions, by its explainer."""
    import contextlib
    import io

    from slalom_explanations import SLALOMLocalExplanantions

    from .slalom import FIRST_ID

    box = TorchBox(f)
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  # the package draws from NumPy's global generator
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        explainer = SLALOMLocalExplanantions(
            box,
            n_samples=SAMPLES,
            device="cpu",
            modes=["value", "imp"],
            sampling_strategy="deletion",
            fit_sgd=True,
            sgd_epochs=epochs,
        )
        v, s = explainer.get_signed_importance_for_tokens((document + FIRST_ID).tolist())
    ids, first = np.unique(document, return_index=True)
    return Slalom(ids, s[first].astype(float), v[first].astype(float)), box.calls


def rows_of(case: str, f: Box, document: Ids, epochs: list[int], samples: int, seed: int) -> list[dict[str, Any]]:
    """Two rows for our fit, at its defaults and without background, one for each number of the package's epochs."""
    fresh = draw(f, document, np.random.default_rng([SEED, seed]))
    rows: list[dict[str, Any]] = []

    def add(method: str, slalom: Slalom, calls: int, seconds: float) -> None:
        values = float(np.abs(slalom.v).max()) / fresh.range
        rows.append(
            {"case": case, "method": method, "calls": calls, "seconds": seconds}
            | fresh.errors(slalom)
            | {"largest value / range": values}
        )

    for name, solver in (("ours", Optimum()), ("ours, no background", Optimum(background=False))):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlalomWarning)  # which importances are undetermined is not the question
            fit = slalom_fit_fidel(f, document, num_samples=samples, solver=solver, seed=seed, progress=False)
        add(name, fit.slalom, fit.model_calls, time.perf_counter() - start)
    for count in epochs:
        start = time.perf_counter()
        slalom, calls = package_fit(f, document, count)
        add(f"package, {count} epochs", slalom, calls, time.perf_counter() - start)
    return rows


def best_of_package(rows: list[dict[str, Any]], kind: str) -> float:
    """The package's smallest error for one kind of subset."""
    return min(row[kind] for row in rows if row["method"].startswith("package"))


def summary(documents: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Medians over documents, one row per method."""
    table = []
    for method in (row["method"] for row in documents[0]):
        own = [row for rows in documents for row in rows if row["method"] == method]
        case = f"{len(documents)} reviews, median"
        table.append(
            {"case": case, "method": method}
            | {key: float(np.median([row[key] for row in own])) for key in own[0] if key not in ("case", "method")}
        )
    return table


def bars_of(text: list[dict[str, Any]], documents: list[list[dict[str, Any]]]) -> list[Bar]:
    """The promises: smaller errors than the package's best for both kinds of subsets, and values of a sensible size."""
    bars = []
    for kind in (NEAR, FAR):
        bars.append(
            Bar(f"28 tokens, {kind}: ours / package's best", text[0][kind] / best_of_package(text, kind), "<=", 1)
        )
        ratios = np.array([rows[0][kind] / best_of_package(rows, kind) for rows in documents])
        bars.append(Bar(f"reviews, {kind}: median of ours / package's best", float(np.median(ratios)), "<=", 1))
        bars.append(
            Bar(f"reviews, {kind}: share of documents where ours is smaller", float((ratios < 1).mean()), ">=", 0.5)
        )
    largest = max(rows[0]["largest value / range"] for rows in [text, *documents])
    return [*bars, Bar("largest |v| of ours / range of the outputs", largest, "<=", 10)]


def main(argv: list[str] | None = None) -> int:
    command = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    command.add_argument("--data", type=Path, required=True, help="folder with aclImdb_v1.tar.gz")
    command.add_argument("--documents", type=int, default=200)
    command.add_argument("--epochs", type=int, nargs="+", default=[60, 600], help="of the package, on reviews")
    command.add_argument("--text-epochs", type=int, nargs="+", default=[60, 600, 3000], help="the same, on the text")
    command.add_argument("--out", type=Path, default=RESULTS, help="folder for slalom_fresh.json")
    options = command.parse_args(argv)
    torch.set_num_threads(1)
    model = load_demo_model()

    def f(sequences: list[Ids]) -> Any:
        return predict_many(model.weights, sequences)[:, 0]

    document = model.vocabulary.encode(TEXT)
    text = rows_of("28 tokens", f, document, options.text_epochs, 5000, SEED)
    reviews = load_imdb(options.data / "aclImdb_v1.tar.gz", "test")
    picked = np.random.default_rng(SEED).choice(len(reviews.texts), size=options.documents, replace=False)
    documents = []
    for number, index in enumerate(picked):
        document = model.vocabulary.encode(reviews.texts[index])[: model.weights.T_max - 1]
        documents.append(rows_of(f"review {index}", f, document, options.epochs, SAMPLES, int(index)))
        errors = ", ".join(f"{row['method']}: {row[NEAR]:.3g}, {row[FAR]:.3g}" for row in documents[-1])
        print(f"{number + 1} of {len(picked)} reviews; {errors}", file=sys.stderr, flush=True)
    settings = {"package": "slalom-explanations 0.1.2", "samples on reviews": SAMPLES, "reviews": len(documents)}
    rows = text + (summary(documents) if documents else [])
    kept = report("slalom_fresh", rows, seed=SEED, settings=settings, bars=bars_of(text, documents), folder=options.out)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
