"""Does SLALOM explain a model that is no transformer? P2 Table 12: a feed-forward network on
TF-IDF, trained on IMDB.

python -m benchmarks.papers.other_model --data PATH [--quick]
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
from attn_closed_form._types import Array
from jax_model.training.imdb import load_imdb
from jax_model.training.loop import Optimizer, TrainingProgress, cross_entropy, fit

from ..faithfulness import removal
from .paper_tables import TABLE_12
from .reproduction import Run, claim, mean_row
from .reviews import imdb_documents, removal_scores
from .reviews_rows import AUTHORS, OTHER_MEASURE
from .rivals import explanations
from .text_models import Ids, Subject

OWN = (
    "reviews of 32 to 63 tokens, 500 samples per surrogate (paper: 5,000); network of 64 and 32 "
    "hidden units"
)


def tf_idf(documents: list[Ids], idf: Array) -> tuple[Ids, Array]:
    """Distinct ids of the documents, (V,), and their normalised TF-IDF features, (n, V); an empty
    document is zero.
    """
    sizes = [len(document) for document in documents]
    ids, column = np.unique(
        np.concatenate([*documents, np.zeros(0, np.intp)]).astype(np.intp), return_inverse=True
    )
    cells = np.repeat(np.arange(len(documents)), sizes) * ids.size + column
    x = (
        np.bincount(cells, minlength=len(documents) * ids.size).reshape(len(documents), ids.size)
        * idf[ids]
    )
    return ids, x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def network(params: Any, hidden: Any) -> Any:
    """Log-odds from the first layer's sums: two more layers, ReLU."""
    (_, b1), (W2, b2), (w3, b3) = params
    return jax.nn.relu(jax.nn.relu(hidden + b1) @ W2 + b2) @ w3 + b3


def loss(params: Any, x: Any, labels: Any) -> Any:
    return cross_entropy(network(params, x @ params[0][0]), labels).mean()


def train(encoded: list[Ids], labels: Array, idf: Array, steps: int, size: int = 64) -> Any:
    rng = np.random.default_rng(0)
    D = idf.size

    def layer(n: int, *m: int, scale: float) -> tuple[Any, Any]:
        return (rng.normal(size=(n, *m)) * scale).astype(np.float32), np.zeros(m, np.float32)

    def batch(step: int) -> tuple[Any, Any]:
        rows = rng.integers(len(encoded), size=size)
        # Random deletions, as the transformers have them, keep shortened reviews in distribution.
        some = [encoded[i][rng.random(len(encoded[i])) >= rng.uniform(0, 0.9)] for i in rows]
        ids, features = tf_idf(some, idf)
        x = np.zeros((size, D), np.float32)
        x[:, ids] = features
        return x, labels[rows].astype(np.float32)

    start = [layer(D, 64, scale=0.3), layer(64, 32, scale=0.15), layer(32, scale=0.2)]
    progress = TrainingProgress(1, steps, name="feed-forward:")
    return fit(
        loss, start, batch, steps, Optimizer(3e-3, weight_decay=0.01), progress=progress
    ).params


def removals(
    subject: Subject, tokens: Ids, label: int, samples: int, seed: int
) -> dict[str, dict[str, float]]:
    """Areas of deletion and insertion of every method's scores, by both measures."""
    found = explanations(subject, tokens, samples, seed=seed)
    return {
        name: removal_scores(subject, tokens, one.scores, label)
        for name, one in found.items()
        if not name.endswith(", s")
    }


def table_12(
    run: Run, found: dict[str, list[dict[str, float]]], measure: str, count: int
) -> dict[str, tuple[float, float]]:
    """Rows and claim of one measure; the paper's numbers stand next to the authors' measure, which
    they are.
    """
    mean: dict[str, tuple[float, float]] = {}
    for name, many in found.items():
        down = [one[f"deletion{measure}"] for one in many]
        up = [one[f"insertion{measure}"] for one in many]
        mean[name] = (float(np.mean(down)), float(np.mean(up)))
        insertion, deletion = TABLE_12.get(name, (None, None))
        if name not in TABLE_12:
            differs = "not in the paper"
        else:
            differs = OWN
        if not measure:
            insertion, deletion = (None, None)
            differs += OTHER_MEASURE
        for kind, better, values, paper in (
            ("insertion", "low", up, insertion),
            ("deletion", "high", down, deletion),
        ):
            case = f"{name}: {kind} AOPC{measure} ({better} is good)"
            run.rows.append(mean_row("P2 Table 12", case, values, paper, differs, "reviews"))
    lin = mean["SLALOM-eff, lin."]
    text = (
        "linearized SLALOM-eff is at least as good as LIME and as SHAP (0.005), deletion and "
        "insertion"
    )
    holds = [
        better
        for name in ("LIME", "SHAP")
        for better in (lin[0] >= mean[name][0] - 0.005, lin[1] <= mean[name][1] + 0.005)
    ]
    why = "this network is nearly additive in its words, which is what LIME and SHAP assume"
    result = "P2 Table 12 (authors' measure)" if measure else "P2 Table 12"
    run.rows.append(claim(result, text, holds, OWN, why, f"comparisons of {count} reviews"))
    return mean


def main(argv: list[str] | None = None) -> int:
    run = Run("other_model", __doc__ or "", argv, data=True)
    warnings.filterwarnings("ignore", module="shap")
    if run.quick:
        steps, count, samples = (60, 2, 200)
    else:
        steps, count, samples = (400, 100, 500)
    count = run.wanted(count)
    vocabulary = load_demo_model().vocabulary
    reviews = load_imdb(run.imdb, "train")
    encoded = [vocabulary.encode(text) for text in reviews.texts]
    seen = np.bincount(np.concatenate([np.unique(d) for d in encoded]), minlength=len(vocabulary))
    idf = np.log((1 + len(encoded)) / (1 + seen)) + 1
    held = imdb_documents(run, vocabulary, count)
    params = jax.tree.map(np.asarray, train(encoded, reviews.labels.astype(float), idf, steps))

    def f(many: list[Ids]) -> Array:
        ids, x = tf_idf(many, idf)
        return np.asarray(network(params, (x @ params[0][0][ids]).astype(np.float32)), dtype=float)

    subject = Subject("TF-IDF network", "Table 12", f, lambda tokens: removal(f, tokens), {})
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number, (tokens, label) in enumerate(zip(held.documents, held.labels, strict=True)):
        settings = {"steps": steps, "samples": samples, "measures": "both"}
        compute = partial(removals, subject, tokens, label, samples, number)
        for name, areas in run.part(f"review-{number:03d}", settings, compute).items():
            found[name].append(areas)
    right = (f(held.test) > 0) == (held.test_labels > 0)
    case = "TF-IDF network: accuracy on IMDB"
    run.rows.append(mean_row("P2 Table 12", case, right, None, "the paper does not say", "reviews"))
    means = {measure: table_12(run, found, measure, count) for measure in ("", AUTHORS)}
    figure, axes = run.figure(figsize=(8, 5))
    for name, (down_mean, up_mean) in means[AUTHORS].items():
        axes.plot(up_mean, down_mean, "o")
        axes.annotate(name, (up_mean, down_mean), xytext=(5, 3), textcoords="offset points")
    # Room for the names on the right.
    axes.margins(x=0.25, y=0.1)
    axes.set(
        xlabel="insertion, authors' measure (low is good)",
        ylabel="deletion, authors' measure (high is good)",
        title="P2 Table 12",
    )
    run.save(figure)
    return run.finish({"steps": steps, "reviews": count, "samples": samples})


if __name__ == "__main__":
    sys.exit(main())
