"""How the settings of the table model are chosen: by the loss on texts that were not used in the
fit.

Counting, C and the background are chosen for step 1, which is cheap: the strongest penalty whose
loss is within one standard error of the smallest. A large background has to be better than a small
one by more than that. Then lam and rho of step 2 follow a path of growing deletion penalties, as
long as the loss falls. `trials` more settings are drawn around the chosen ones. Last, a sparse
model closes the gates of more and more words, as long as this hardly costs loss.

On the same texts the temperature is fitted: it divides the values, so that the model that is saved
has the temperature 1 and its baseline remains the prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from .scores import COLDEST, Labels, log_probabilities, root, smoothed_targets
from .table_fit import TableProblem, TableSettings
from .word_tables import (
    FittedTables,
    Floats,
    Words,
    WordTables,
    count_words,
    prior_logits,
    training_counts,
)

Rows = NDArray[np.intp]
Item = TypeVar("Item")

# Tuning: strengths C of step 1. Reviews (IMDB, Rotten Tomatoes) are best at 1 to 10, Reuters R8 at
# 10 to 300.
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Tuning: background mass over the median mass of a text. The accuracy of long texts is flat from
# 0.03 to 1. A larger one, which keeps short texts near the prior, is tried as well, with step 1.
BACKGROUNDS = (0.3, 3.0)
# Tuning: lam of step 2; the accuracy of 300 to 4,000 reviews is flat from 1 to 10. The second one
# is tried if step 1 is better than step 2, as it is for Reuters R8.
PENALTIES = (3.0, 30.0)
# Tuning: rho of step 2, tried in this order. With 300 reviews 3 is best, with 4,000 it is 1.
DELETIONS = (1.0, 3.0, 10.0)
# Tuning: q of sparse models, tried in this order. The share of the tokens that get exactly zero
# grows from a third to a half along it.
SPARSE_FROM = (0.7, 0.5, 0.35, 0.25)
# Tuning: what a sparse model may add to the mean loss of a text, with one standard error. This is
# less than 0.1 points of accuracy on average (`benchmarks/LEARNING_CURVES.md`).
COST_OF_SPARSE = 0.002


class Fold(NamedTuple):
    """Rows of the texts to fit, and of those to judge the fit on."""

    training: Rows
    held_out: Rows


class Selection(NamedTuple):
    """The chosen settings, and calibrated logits (m, K) of texts that were not used in the fit,
    with their rows (m,).
    """

    settings: TableSettings
    logits: Floats
    rows: Rows
    temperature: float
    losses: Floats


class Trials:
    """Fits with several settings, each judged by the losses of texts that were not used in the fit.

    Parameters
    ----------
    documents, labels : n texts as words, and their classes (n,)
    folds : each is fitted and judged in turn
    size : largest number of words
    weights : (n,) weights of the texts, or None
    """

    def __init__(
        self,
        documents: Sequence[Words],
        labels: Labels,
        classes: int,
        folds: Sequence[Fold],
        size: int,
        weights: Floats | None,
    ) -> None:
        self.rows = np.concatenate([fold.held_out for fold in folds])
        self.labels = labels[self.rows]
        self.weights = np.ones(len(self.rows)) if weights is None else weights[self.rows]
        # The folds of a rare class have slightly different priors; that of all texts stands for
        # them.
        self.prior = prior_logits(labels, classes, weights)
        # For both ways of counting: the problem of every fold, and the counts of the texts that
        # judge it.
        self.problems: dict[bool, list[TableProblem]] = {True: [], False: []}
        self.held_out: dict[bool, list[csr_matrix]] = {True: [], False: []}
        for fold in folds:
            counts = training_counts([documents[i] for i in fold.training], size)
            held_out = [documents[i] for i in fold.held_out]
            seen = counts._replace(matrix=count_words(held_out, counts.words))
            fold_labels = labels[fold.training]
            fold_weights = None if weights is None else weights[fold.training]
            self.problems[True].append(
                TableProblem(
                    counts=counts.once(), labels=fold_labels, classes=classes, weights=fold_weights
                )
            )
            self.problems[False].append(
                TableProblem(
                    counts=counts, labels=fold_labels, classes=classes, weights=fold_weights
                )
            )
            self.held_out[True].append(seen.once().matrix)
            self.held_out[False].append(seen.matrix)

    def convex(
        self, settings: TableSettings, starts: Sequence[WordTables | None]
    ) -> list[WordTables]:
        """Fit step 1 in every fold, from the tables of a similar fit."""
        problems = self.problems[settings.once]
        return [
            problem.convex(settings.strength, settings.background, start)
            for problem, start in zip(problems, starts, strict=True)
        ]

    def fit(self, settings: TableSettings, starts: Sequence[WordTables | None]) -> Selection:
        """Fit with the settings in every fold, from similar solutions of step 1, and judge the
        fits.
        """
        problems = self.problems[settings.once]
        tables = [
            problem.fit(settings, start) for problem, start in zip(problems, starts, strict=True)
        ]
        return self.judged(settings, tables)

    def judged(self, settings: TableSettings, tables: Sequence[WordTables]) -> Selection:
        """Return the calibrated logits of the texts that were left out, and their losses."""
        matrices = self.held_out[settings.once]
        evidence = np.concatenate(
            [
                fitted.logits(matrix) - fitted.prior
                for fitted, matrix in zip(tables, matrices, strict=True)
            ]
        )
        logits = self.prior + evidence
        temperature = evidence_temperature(logits, self.prior, self.labels, self.weights)
        calibrated = self.prior + (logits - self.prior) / temperature
        losses = self.weights * text_losses(calibrated, self.labels)
        return Selection(
            settings=settings,
            logits=calibrated,
            rows=self.rows,
            temperature=temperature,
            losses=losses,
        )


def select(
    documents: Sequence[Words],
    labels: Labels,
    classes: int,
    folds: Sequence[Fold],
    size: int,
    weights: Floats | None = None,
    *,
    sparse: bool = False,
    trials: int = 0,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Selection:
    """Choose the settings, as the module docstring says.

    The first parameters are those of `Trials`.

    Parameters
    ----------
    sparse : whether words may lose their mass
    trials : number of further settings to try, drawn with `seed`
    progress : called with the number of trials that are done, and the largest number of all of them
    """
    fits = Trials(
        documents=documents, labels=labels, classes=classes, folds=folds, size=size, weights=weights
    )
    # Tuning: more penalized fits that are tried first if texts have weights, since a rare class
    # then has few, heavy texts.
    strengths_of_weighted = (0.03, 0.1, 0.3)
    strengths = STRENGTHS if weights is None else (*strengths_of_weighted, *STRENGTHS)
    total = 2 * len(strengths) + 1 + len(DELETIONS) + 1 + trials
    if sparse:
        total += len(SPARSE_FROM)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    # Step 1 with all strengths, then step 2 from the best of them.
    small, starts = _choose_convex(fits, strengths, step)
    large = fits.fit(small.settings._replace(background=BACKGROUNDS[1]), starts)
    step()
    penalized = _choose_penalties(fits, small, starts, step)
    best = simplest([penalized, large], lambda selection: selection.losses)
    # Trials are the only random choice, and have their own seed.
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        candidate = fits.fit(varied(best.settings, rng), starts)
        best = min(best, candidate, key=mean_loss)
        step()
    if sparse:
        best = _choose_sparse(fits, best, starts, step)
    progress(total, total)
    return best


def _choose_convex(
    fits: Trials, strengths: Sequence[float], step: Callable[[], None]
) -> tuple[Selection, list[WordTables]]:
    """Choose counting and C of step 1; return them with the tables of every fold."""
    tried: list[tuple[Selection, list[WordTables]]] = []

    for once in (True, False):
        # Each fit starts from the one before, whose penalty is a little stronger.
        starts: Sequence[WordTables | None] = [None] * len(fits.problems[once])
        means: list[float] = []
        for strength in strengths:
            settings = TableSettings(once=once, strength=strength, background=BACKGROUNDS[0])
            tables = fits.convex(settings, starts)
            tried.append((fits.judged(settings, tables), tables))
            starts = tables
            step()
            # The loss has one minimum along the strengths; two larger ones in a row are beyond it.
            means.append(mean_loss(tried[-1][0]))
            if len(means) > 2 and means[-1] > means[-2] > means[-3]:
                break
    # Strong penalties come first: `simplest` takes the first of those that are as good as the best.
    ranked = sorted(tried, key=lambda pair: pair[0].settings.strength)
    return simplest(ranked, lambda pair: pair[0].losses)


def _choose_penalties(
    fits: Trials, first: Selection, starts: Sequence[WordTables], step: Callable[[], None]
) -> Selection:
    """Choose lam and rho of step 2, or step 1 alone."""
    best = first
    for deletion in DELETIONS:
        settings = first.settings._replace(penalty=PENALTIES[0], deletion=deletion)
        candidate = fits.fit(settings, starts)
        step()
        if mean_loss(candidate) >= mean_loss(best):
            break
        best = candidate
    if best is first:
        settings = first.settings._replace(penalty=PENALTIES[1], deletion=DELETIONS[0])
        best = min(first, fits.fit(settings, starts), key=mean_loss)
        step()
    return best


def _choose_sparse(
    fits: Trials, dense: Selection, starts: Sequence[WordTables], step: Callable[[], None]
) -> Selection:
    """Choose the sparsest of the models that cost little against the best one, or the dense one."""
    chosen = dense
    best = dense
    for share in SPARSE_FROM:
        candidate = fits.fit(dense.settings._replace(sparse_from=share), starts)
        step()
        # On the same texts, so the standard error is that of the difference.
        difference = candidate.losses - best.losses
        cost = float(difference.mean()) + standard_error(difference)
        if cost > COST_OF_SPARSE:
            break
        chosen = candidate
        best = min(best, candidate, key=mean_loss)
    return chosen


def varied(settings: TableSettings, rng: np.random.Generator) -> TableSettings:
    """Return settings near the given ones, for one more trial; step 2 is always part of them.

    >>> settings = TableSettings(once=True, strength=10.0, background=0.3)
    >>> other = varied(settings, np.random.default_rng(0))
    >>> 2.5 < other.strength < 40, other.penalty < math.inf
    (True, True)
    """
    if math.isinf(settings.penalty):
        settings = settings._replace(penalty=PENALTIES[0], deletion=DELETIONS[0])
    # Tuning: further trials multiply or divide C, the background, lam and rho by up to this number.
    reach = 4.0
    strength, background, penalty, deletion = np.exp(
        math.log(reach) * rng.uniform(-1, 1, size=4)
    ).tolist()
    return settings._replace(
        once=bool(rng.random() < 0.5),
        strength=settings.strength * strength,
        background=settings.background * background,
        penalty=settings.penalty * penalty,
        deletion=settings.deletion * deletion,
    )


def mean_loss(selection: Selection) -> float:
    """Return the mean loss of the texts that were left out."""
    return float(selection.losses.mean())


def standard_error(differences: Floats) -> float:
    """Return the standard error of the mean of differences (n,)."""
    return float(differences.std()) / math.sqrt(len(differences))


def simplest(candidates: Sequence[Item], losses: Callable[[Item], Floats]) -> Item:
    """Return the first candidate whose mean loss is within one standard error of the best one's.

    The standard error is that of the difference on the same texts, so that many texts leave little
    choice.

    >>> simplest(
    ...     ["simple", "best"], {"simple": np.array([1.1, 0.9]), "best": np.array([0.9, 1.0])}.get
    ... )
    'simple'
    """
    best = min(candidates, key=lambda candidate: float(losses(candidate).mean()))
    for candidate in candidates:
        difference = losses(candidate) - losses(best)
        if float(difference.mean()) <= standard_error(difference):
            return candidate
    return best


def text_losses(logits: Floats, labels: Labels) -> Floats:
    """Return the (n,) cross-entropies of texts."""
    return -log_probabilities(logits)[np.arange(len(labels)), labels]


def evidence_temperature(
    logits: Floats, prior: Floats, labels: Labels, weights: Floats | None = None
) -> float:
    """Return T with the smallest loss of prior + (logits - prior) / T; the baseline does not depend
    on it.

    As in `fit_temperature`, the target of a text is not 1 for its class, as in Platt's scaling, so
    that a small held-out part without errors does not give T = 0.

    >>> rng = np.random.default_rng(0)
    >>> evidence = rng.normal(size=(4000, 1))
    >>> labels = (rng.random(4000) < 1 / (1 + np.exp(-3 * evidence[:, 0]))).astype(int)
    >>> round(evidence_temperature(evidence, np.zeros(1), labels), 1)
    0.3
    """
    evidence = logits - prior
    outputs = evidence.shape[1]
    target = smoothed_targets(labels, max(outputs, 2))
    if weights is None:
        weights = np.ones(len(labels))

    def slope(beta: float) -> float:
        """Return the derivative by beta = 1/T of the loss, which is convex in beta."""
        p = np.exp(log_probabilities(prior + beta * evidence))
        # One output is the logit of the second class.
        by_logits = (p - target)[:, -outputs:]
        return float((weights[:, None] * by_logits * evidence).sum())

    # Largest temperature. A larger one would mean that the evidence of the words is hardly worth
    # anything, and predict the most frequent class for all texts; stronger penalties do that
    # better.
    hottest_evidence = 2.0
    return 1 / root(slope, 1 / hottest_evidence, 1 / COLDEST)


def fit_tables(
    documents: Sequence[Words],
    labels: Labels,
    classes: int,
    selection: Selection,
    size: int,
    weights: Floats | None = None,
) -> FittedTables:
    """Fit the tables to all texts with the selected settings, and divide the values by the
    temperature.
    """
    counts = training_counts(documents, size)
    if selection.settings.once:
        counts = counts.once()
    problem = TableProblem(counts, labels, classes, weights)
    tables = problem.fit(selection.settings)
    return FittedTables(counts.words, tables._replace(v=tables.v / selection.temperature))


def cross_validation(labels: Labels, classes: int, count: int, seed: int) -> list[Fold]:
    """Return folds with about equal shares of every class.

    >>> [fold.held_out.tolist() for fold in cross_validation(np.array([0, 0, 1, 1]), 2, 2, seed=0)]
    [[0, 2], [1, 3]]
    """
    rng = np.random.default_rng([seed, len(labels)])
    number = np.empty(len(labels), dtype=np.intp)
    first = 0
    for c in range(classes):
        members = rng.permutation(np.flatnonzero(labels == c))
        # Classes continue where the last one ended, so that folds of many rare classes have equal
        # sizes.
        number[members] = (first + np.arange(len(members))) % count
        first += len(members)
    return [Fold(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(count)]
