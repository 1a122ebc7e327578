"""The cost of an explanation, P2 Tables 2 and 13: seconds per method, six-layer transformer and
P1's classifier.

The transformer has random weights, as the time does not depend on them. Each method runs once to
compile, then it is timed on other documents, in processor seconds, which other work on the machine
disturbs least; ratios carry over to other machines.

    python -m benchmarks.papers.cost [--quick]
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from functools import partial
from typing import Any

import jax
import numpy as np

from attn_closed_form import load_demo_model
from benchmarks.papers.transformers.transformer import Config, init_transformer

from ..models import random_document
from .paper_tables import TABLE_2, TABLE_13
from .reproduction import Run, claim, mean_row
from .reviews_rows import ratio_row
from .rivals import explanations
from .text_models import Subject, classifier, transformer_subject

LENGTH = 60
OWN = (
    "processor time on two CPU cores, width 32, 60 tokens (paper: DistilBERT on an A100); compare "
    "ratios"
)


def times(subject: Subject, documents: list[np.ndarray], samples: int) -> dict[str, list[float]]:
    """Seconds of each method, one number per document; the first document only compiles."""
    found: dict[str, list[float]] = defaultdict(list)
    for number, tokens in enumerate(documents):
        seconds = {
            name.split(",")[0]: one.seconds
            for name, one in explanations(subject, tokens, samples, 0).items()
        }
        for name, value in seconds.items():
            if number:
                found[name].append(value)
    return found


def main(argv: list[str] | None = None) -> int:
    run = Run("cost", __doc__ or "", argv, data=False)
    warnings.filterwarnings("ignore", module="shap")
    sizes, repeats = ((200,), 3) if run.quick else ((1000, 5000), 10)
    repeats = run.wanted(repeats)
    model = load_demo_model()
    weights = model.weights
    vocabulary = model.vocabulary
    documents = [random_document(weights, LENGTH, seed=seed) for seed in range(repeats + 1)]
    config = Config(len(vocabulary), d=32, L=6, H=2, d_ff=64, T_max=64)
    params = init_transformer(jax.random.key(0), config)
    subjects = [
        transformer_subject(params, config, vocabulary, "encoder, L = 6"),
        classifier(weights),
    ]
    measured: dict[tuple[str, int], dict[str, Any]] = {}
    for number, subject in enumerate(subjects):
        for samples in sizes:
            settings = {"repeats": repeats, "length": LENGTH}
            compute = partial(times, subject, documents, samples)
            many = run.part(f"subject-{number}-{samples}", settings, compute)
            measured[subject.name, samples] = {
                name: np.array(values) for name, values in many.items()
            }
    for (name, samples), seconds in measured.items():
        table, result = (
            (TABLE_2, "P2 Tables 2, 13") if samples == 5000 else (TABLE_13, "P2 Table 13")
        )
        for method, values in sorted(seconds.items(), key=lambda pair: float(pair[1].mean())):
            paper = table.get(method) if "encoder" in name and samples in (1000, 5000) else None
            case = f"{name}, {method}, {samples} samples: seconds"
            own = "not in the paper: no samples needed" if "exact" in method else OWN
            run.rows.append(mean_row(result, case, values, paper, own, "documents"))
        for fast, slow in (("SLALOM-eff", "SHAP"), ("SLALOM-eff", "LIME")):
            if "encoder" in name:
                printed = table[slow][0] / table[fast][0]
                case = f"{name}, {samples} samples: time of {slow} over that of {fast}"
                row = ratio_row(result, case, seconds[slow], seconds[fast])
                run.rows.append(row._replace(paper=printed, differs=OWN, of="documents"))
    # One case per number of samples and document.
    encoder = [
        {method: float(values[i]) for method, values in seconds.items()}
        for (name, _), seconds in measured.items()
        if "encoder" in name
        for i in range(repeats)
    ]
    run.rows += [
        claim(
            "P2 Tables 2, 13",
            "SLALOM-eff is the fastest surrogate",
            [s["SLALOM-eff"] < min(s["SLALOM-fidel"], s["LIME"], s["SHAP"]) for s in encoder],
            OWN,
            "its fit to the optimum costs more than its short sequences save on a model this small",
            "timings",
        ),
        claim(
            "P2 Tables 2, 13",
            "SHAP is the slowest",
            [s["SHAP"] >= max(s[name] for name in SURROGATES) for s in encoder],
            OWN,
            "SLALOM-fidel is fitted to its optimum here, and KernelSHAP's own regression is small "
            "at 60 tokens",
            "timings",
        ),
        claim(
            "P2 Tables 2, 13",
            "Grad and LRP are far cheaper than surrogates (ten times)",
            [10 * max(s["Grad"], s["LRP"]) < cheapest_surrogate(s) for s in encoder],
            OWN,
            "SLALOM-eff evaluates a small model on pairs",
            "timings",
        ),
        claim(
            "P2 Tables 2, 13",
            "IG is far cheaper than surrogates (ten times)",
            [10 * s["IG"] < cheapest_surrogate(s) for s in encoder],
            OWN,
            "IG takes 32 backward passes here, and SLALOM-eff evaluates a small model on pairs",
            "timings",
        ),
    ]
    draw(run, measured)
    return run.finish({"tokens": LENGTH, "samples": list(sizes), "documents": repeats})


# P2's surrogates.
SURROGATES = ("SLALOM-eff", "SLALOM-fidel", "LIME", "SHAP")


def cheapest_surrogate(seconds: dict[str, float]) -> float:
    """Time of the fastest of P2's surrogates."""
    return min(seconds[name] for name in SURROGATES)


def draw(run: Run, measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Mean times of all methods, one panel per model and number of samples."""
    figure, axes = run.figure(
        nrows=2, ncols=(len(measured) + 1) // 2, figsize=(10, 6), squeeze=False
    )
    for at, ((name, samples), seconds) in zip(axes.ravel(), measured.items(), strict=False):
        pairs = sorted(
            ((method, float(values.mean())) for method, values in seconds.items()),
            key=lambda pair: pair[1],
        )
        at.barh([method for method, _ in pairs], [s for _, s in pairs])
        at.set(xscale="log", xlabel="processor seconds")
        at.set_title(f"{name}, {samples:,} samples", fontsize=9)
    run.save(figure)


if __name__ == "__main__":
    sys.exit(main())
