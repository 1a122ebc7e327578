"""P2's comparisons on a real pre-trained transformer: MiniLM, fine-tuned on IMDB
(`finetune_minilm.py`).

P2 Tables 1, 2, 9, 10, 11, 13 and Fig. 6 with 100 documents each: deletion and insertion AOPC,
fidelity under removals, rank correlation with Naive Bayes, agreement with human attention
(Yelp-HAT), and cost in model calls and processor seconds. Every method that asks the model gets the
same budget of model calls (`minilm_rivals.py`). What has been measured is kept in the folder
`--work`, shared with `minilm_fit`, whose fits are used here too.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.papers.minilm --model FOLDER --data FOLDER --work
    FOLDER
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form._arrays import spearman
from attn_closed_form._types import Array, Masks
from benchmarks.papers.correlations import auroc
from jax_model.training.imdb import load_imdb

from ..faithfulness import (
    Value,
    aopc,
    class_probability,
    deletion_curve,
    insertion_curve,
    naive_bayes_scores,
    removal,
    strict_fidelity,
)
from ..harness import report
from .minilm_fit import all_fits, fit_stage, open_store, parser, reviews
from .minilm_inside import Inside
from .minilm_model import Document, Transformer, kept, load_transformer, yelp_documents
from .minilm_rivals import FITS, PACKAGE, UNSIGNED, Found, fit, rivals, scores_of, surrogate_of
from .minilm_rows import Measured, all_rows
from .reproduction import ARCHIVE

REMOVALS = (1, 2, 3, 5, 7, 10)
# Points of a curve of deletions or insertions, besides its start.
POINTS = 10
FIDELITY_SAMPLES = 20
# Scores without sign: they say how much a token matters, not for which class.
MAGNITUDES = (*UNSIGNED, *(f"{name}, s" for name in FITS))
# Training reviews for the Naive Bayes scores.
BAYES = 10_000


class Memo:
    """A function of masks that asks for every mask once."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.known = dict[bytes, float]()

    def __call__(self, masks: Masks) -> Array:
        """(n,) outputs."""
        new = {mask.tobytes(): mask for mask in masks if mask.tobytes() not in self.known}
        if new:
            self.known.update(
                zip(new, self.value(np.array(list(new.values()))).tolist(), strict=True)
            )
        return np.array([self.known[mask.tobytes()] for mask in masks])


def thinned(value: Value) -> Value:
    """A function of nested masks, asked at every tenth of them and interpolated between."""

    def some(masks: Masks) -> Array:
        at = np.unique(np.linspace(0, len(masks) - 1, POINTS + 1).round().astype(int))
        return np.interp(np.arange(len(masks)), at, value(masks[at]))

    return some


def explain(
    transformer: Transformer,
    inside: Inside,
    names: tuple[str, ...],
    samples: int,
    number: int,
    document: Document,
    without: Sequence[str] = (),
) -> dict[str, Found]:
    """The named fits and the rivals for one document."""
    fits = {name: fit(name, transformer.f, document.ids, samples, seed=number) for name in names}
    return fits | rivals(transformer, inside, document, samples, number, without)


def all_scores(found: dict[str, Found], document: Document) -> dict[str, Array]:
    """Token scores by name."""
    return {
        label: scores
        for name, one in found.items()
        for label, scores in scores_of(name, one, document.ids).items()
    }


def areas(
    transformer: Transformer, found: dict[str, Found], document: Document
) -> dict[str, list[float]]:
    """Deletion and insertion AOPC of the scores that have a sign, in the probability of the
    predicted class.
    """
    every = Memo(removal(transformer.f, document.ids))
    positive = bool(every(np.ones((1, len(document.ids)), dtype=bool))[0] > 0)
    value = thinned(every)
    out = {}
    for name, scores in all_scores(found, document).items():
        if name.endswith(", s") or (name.startswith(PACKAGE) and not name.endswith("lin.")):
            continue  # importances have no sign, and of the package the linear scores are what P2 compares
        if positive or name in MAGNITUDES:
            towards = scores
        else:
            towards = -scores
        down = class_probability(deletion_curve(value, towards), positive)
        up = class_probability(insertion_curve(value, towards), positive)
        out[name] = [aopc(down), aopc(up, full=float(up[-1]))]
    return out


def fidelity(
    transformer: Transformer,
    found: dict[str, Found],
    number: int,
    document: Document,
    removals: Sequence[int] = REMOVALS,
) -> dict[str, list[float]]:
    """MSE of the predicted change by method, for each number of removed tokens."""
    signed = {
        name: surrogate_of(one, document.ids) for name, one in found.items() if name not in UNSIGNED
    }
    errors = strict_fidelity(
        removal(transformer.f, document.ids),
        len(document.ids),
        signed.values(),
        removals,
        samples=FIDELITY_SAMPLES,
        seed=number,
    )
    return {name: error.tolist() for name, error in zip(signed, errors, strict=True)}


def agreement(found: dict[str, Found], document: Document, truth: Array) -> dict[str, float]:
    """Spearman correlation with the Naive Bayes scores (their size, for scores without sign)."""
    return {
        name: float(spearman(scores, np.abs(truth) if name in MAGNITUDES else truth))
        for name, scores in all_scores(found, document).items()
    }


def human(found: dict[str, Found], document: Document) -> dict[str, float]:
    """AU-ROC of what all annotators chose by the size of the scores."""
    return {
        name: float(auroc(document.chosen, scores if name in MAGNITUDES else np.abs(scores)))
        for name, scores in all_scores(found, document).items()
    }


def bayes_scores(path: Path, tokenizer: Any, keep: Path | None) -> Array:
    """Naive Bayes scores of the tokenizer's vocabulary, from training reviews."""
    if keep is None:
        file = None
    else:
        file = keep / "bayes.npy"
    if file is not None and file.exists():
        return np.load(file)
    reviews = load_imdb(path, "train")
    picked = np.random.default_rng(0).permutation(len(reviews.texts))[:BAYES]
    encoded = tokenizer([reviews.texts[i] for i in picked], add_special_tokens=False)["input_ids"]
    scores = naive_bayes_scores(
        [np.array(ids) for ids in encoded], reviews.labels[picked], len(tokenizer)
    )
    if file is not None:
        np.save(file, scores)
    return scores


def measure_all(args: argparse.Namespace, transformer: Transformer) -> Measured:
    """Everything, document by document; what is in the store is not measured again."""
    inside = Inside(transformer.model, transformer.tokenizer)
    store = open_store(args)
    samples = args.samples
    imdb = reviews(transformer, args)
    yelp = kept(
        args.work and args.work / f"yelp_{args.yelp_documents}.json",
        lambda: yelp_documents(args.data, transformer.tokenizer, args.yelp_documents),
    )
    rest = ("SLALOM-eff", f"{PACKAGE} eff")
    stages = [fit_stage(args), f"explain {samples}", f"areas {samples}", f"fidelity {samples}"]
    on_yelp = f"yelp {args.yelp_samples}"
    if args.as_is:
        imdb = imdb[: store.done(stages)]
        yelp = yelp[: store.done([on_yelp])]
    fits = all_fits(store, transformer, imdb, args)
    more = store.each(stages[1], imdb, partial(explain, transformer, inside, rest, samples))
    found: list[dict[str, Found]] = []
    removed = store.each(stages[2], imdb, lambda i, d: areas(transformer, found[i], d))
    predicted = store.each(stages[3], imdb, lambda i, d: fidelity(transformer, found[i], i, d))
    measured = Measured(found=found, samples=samples)
    for one, two in zip(fits, more, strict=True):  # all of one document before the next one
        found.append({name: one[name] for name in FITS if name in one} | two)
        measured.areas.append(next(removed))
        measured.fidelity.append(next(predicted))
    human_attention = partial(
        explain, transformer, inside, ("SLALOM-eff",), args.yelp_samples, without=("IG",)
    )
    measured.yelp.extend(store.each(on_yelp, yelp, human_attention))
    bayes = bayes_scores(args.data / ARCHIVE, transformer.tokenizer, args.work)
    measured.bayes.extend(
        agreement(one, document, bayes[document.ids])
        for one, document in zip(found, imdb, strict=True)
    )
    measured.human.extend(
        human(one, document) for one, document in zip(measured.yelp, yelp, strict=True)
    )
    measured.right.extend(right(transformer, documents) for documents in (imdb, yelp))
    return measured


def right(transformer: Transformer, documents: list[Document]) -> list[bool]:
    """Whether the model's class is the label of each document."""
    outputs = transformer.f([document.ids for document in documents])
    return [
        (output > 0) == (document.label > 0)
        for output, document in zip(outputs, documents, strict=True)
    ]


def main(argv: list[str] | None = None) -> int:
    command = parser("minilm", __doc__ or "")
    command.add_argument("--yelp-documents", type=int, default=100)
    command.add_argument(
        "--yelp-samples", type=int, default=208, help="budget of model calls on Yelp-HAT"
    )
    command.add_argument(
        "--as-is", action="store_true", help="measure nothing: report what the work folder has"
    )
    args = command.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="shap")
    measured = measure_all(args, load_transformer(args.model))
    rows = [
        {key: value for key, value in row._asdict().items() if value is not None}
        for row in all_rows(measured)
    ]
    settings = {
        "documents": len(measured.found),
        "Yelp-HAT documents": len(measured.yelp),
        "model calls per method": args.samples,
        "model calls on Yelp-HAT": args.yelp_samples,
        "points of a curve": POINTS,
        "removals": list(REMOVALS),
        "threads": 1,
    }
    if report("minilm", rows, seed=0, settings=settings, folder=args.out):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
