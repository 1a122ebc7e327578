"""The table model: one log-mass and one value per word, fitted directly from a convex start.

With one head and no positions, P1's classifier is two tables. A text with counts c_w has the logits

    f = b + sum_w c_w e^(s_w) v_w / (e^(s_0) + sum_w c_w e^(s_w)),

with b the logits of the class prior and s_0 the log-mass of a background that has the value 0. A
text without words therefore has the prior as its prediction, whatever the fit does; b is not a
parameter.

The fit has two steps, both by L-BFGS, without random numbers (the same texts give the same tables):

1. s_w is the logarithm of the inverse document frequency. f is linear in v, so this is multinomial
   logistic regression on TF-IDF features that add up to one, a convex problem.
2. s, s_0 and v together, from there, with the penalty |v|^2 / (2 C k^2) of step 1 and lam |s - log
   idf|^2. The factor k^2, the inverse of the mean square of the features, makes one strength C suit
   texts of all lengths.

Words of a single training text are unknown to all the others. They count as [UNK], whose mass and
values are fitted like those of any word; words outside the vocabulary receive them. A text counts
every word once or as often as it occurs.

Counting, C, lam and the background are chosen by the loss on texts that were not used in the fit,
either in cross-validation or on held-out texts: the strongest penalties whose loss is within one
standard error of the best. There the temperature is fitted, too: it divides the values, so that the
model that is saved has the temperature 1 and its baseline remains the prior.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from attn_closed_form import AttentionWeights
from attn_closed_form.app.models.text import CLS, UNK, Vocabulary

from .scores import COLDEST, Labels, log_probabilities

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Words = Sequence[str]
Item = TypeVar("Item")

# Tuning: strengths C of step 1. Reviews (IMDB, Rotten Tomatoes) are best at 1 to 10, Reuters R8 at
# 10 to 300.
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Tuning: more penalized fits that are tried first if texts have weights, since a rare class then
# has few, heavy texts.
STRENGTHS_OF_WEIGHTED = (0.03, 0.1, 0.3)
# Tuning: background mass over the median mass of a text. Short texts stay near the prior with a
# large background. Around 0.3 the accuracy of long texts is flat from 0.03 to 1; with a hundred
# texts, 3 is better.
BACKGROUNDS = (0.3, 3.0)
# Tuning: penalties lam of step 2. Infinity is step 1 alone, which is best for a few hundred texts.
PENALTIES = (math.inf, 10.0, 3.0, 1.0)
# Tuning: iterations of L-BFGS. Step 1 ends after 5 to 60 of them. Step 2 with weak penalties
# reaches the limit, and its accuracy does not improve beyond it.
ITERATIONS = 100
# Largest temperature. A larger one would mean that the evidence of the words is hardly worth
# anything, and predict the most frequent class for all texts; stronger penalties do that better.
HOTTEST_EVIDENCE = 2.0
# Words of fewer texts count as [UNK].
LEAST_TEXTS = 2


class TableSettings(NamedTuple):
    """What is chosen on texts that were not used in the fit; the letters are those of the module
    docstring.
    """

    once: bool  # whether a text counts every word once
    strength: float  # C
    background: float  # mass of the background over the median mass of a text
    penalty: float  # lam


class Counts(NamedTuple):
    """Texts as counts of words: vocabulary, counts (n, words + 1) with [UNK] in column 0, and idf
    (words + 1,).
    """

    words: tuple[str, ...]
    matrix: sparse.csr_matrix
    idf: Floats

    def once(self) -> Counts:
        """Return the same texts with every word counted once."""
        matrix = self.matrix.copy()
        matrix.data[:] = 1.0
        return self._replace(matrix=matrix)


class WordTables(NamedTuple):
    """A fitted model: log-masses (W,), values (W, K), log-mass of the background, and the prior's
    logits (K,).

    K is 1 for two classes (the log-odds of the second class), otherwise the number of classes.
    """

    s: Floats
    v: Floats
    s_background: float
    prior: Floats

    def logits(self, matrix: sparse.csr_matrix) -> Floats:
        """Return the (n, K) logits of texts given as counts."""
        mass = np.exp(self.s)
        total = matrix @ mass + math.exp(self.s_background)
        return self.prior + (matrix @ (mass[:, None] * self.v)) / total[:, None]


def choose_words(documents: Sequence[Words], size: int) -> tuple[str, ...]:
    """Return the `size` words that occur in the most texts, at least two; ties are broken
    alphabetically.

    >>> choose_words([["a", "film"], ["a", "play"], ["film"], ["a"]], size=9)
    ('a', 'film')
    """
    frequency: Counter[str] = Counter()
    for document in documents:
        frequency.update(set(document))
    ranked = sorted((-count, word) for word, count in frequency.items() if count >= LEAST_TEXTS)
    return tuple(word for _, word in ranked[:size])


def count_words(documents: Sequence[Words], words: Sequence[str]) -> sparse.csr_matrix:
    """Return the (n, words + 1) counts of words in texts; column 0 counts words outside the
    vocabulary.
    """
    column = {word: i + 1 for i, word in enumerate(words)}
    columns = [column.get(word, 0) for document in documents for word in document]
    starts = np.concatenate([[0], np.cumsum([len(document) for document in documents])])
    shape = (len(documents), len(words) + 1)
    matrix = sparse.csr_matrix((np.ones(len(columns)), columns, starts), shape=shape)
    matrix.sum_duplicates()
    return matrix


def training_counts(documents: Sequence[Words], size: int) -> Counts:
    """Return the counts of training texts, with the vocabulary that is chosen on them."""
    words = choose_words(documents, size)
    matrix = count_words(documents, words)
    frequency = np.bincount(matrix.indices, minlength=len(words) + 1)
    idf = np.log((1 + len(documents)) / (1 + frequency)) + 1
    return Counts(words, matrix, idf)


def prior_logits(labels: Labels, classes: int, weights: Floats | None = None) -> Floats:
    """Return the logits of the (weighted) shares of the classes: (1,) for two classes, otherwise
    (classes,).

    A class without texts, which a fold of a rare class may have, counts as half a text.

    >>> prior_logits(np.array([0, 1, 1, 1]), 2).round(4)
    array([1.0986])
    """
    shares = np.bincount(labels, weights, minlength=classes).astype(np.float64)
    smallest = 0.5 * (1.0 if weights is None else float(weights.min()))
    logs = np.log(np.maximum(shares, smallest) / shares.sum())
    if classes == 2:
        return logs[1:] - logs[:1]
    return logs - logs.mean()


class TableProblem:
    """The fit of one set of texts: everything that does not depend on the settings is computed
    once.
    """

    def __init__(
        self, counts: Counts, labels: Labels, classes: int, weights: Floats | None = None
    ) -> None:
        self.matrix = counts.matrix
        self.transposed = counts.matrix.T.tocsr()
        self.log_idf = np.log(counts.idf)
        self.classes = classes
        self.outputs = 1 if classes == 2 else classes
        self.prior = prior_logits(labels, classes, weights)
        self.labels = labels
        self.weights = np.ones(len(labels)) if weights is None else weights
        self.mass_of_texts = self.matrix @ counts.idf

    def background(self, share: float) -> float:
        """Return the log-mass of a background with this share of the median mass of a text."""
        filled = self.mass_of_texts[self.mass_of_texts > 0]
        median = float(np.median(filled)) if filled.size else 1.0
        return math.log(share * median)

    def feature_size(self, share: float) -> float:
        """Return the mean square of the features of step 1, 1 / k^2 of the module docstring."""
        total = self.mass_of_texts + math.exp(self.background(share))
        squares = self.matrix.multiply(self.matrix) @ np.exp(2 * self.log_idf)
        return float((squares / total**2).mean()) or 1.0

    def convex(self, strength: float, share: float, start: WordTables | None = None) -> WordTables:
        """Fit step 1: the values for log-masses log idf."""
        words = self.log_idf.size
        s_background = self.background(share)
        mass = np.exp(self.log_idf)
        total = (self.matrix @ mass + math.exp(s_background))[:, None]
        penalty = self.feature_size(share) / strength

        def loss(flat: Floats) -> tuple[float, Floats]:
            v = flat.reshape(words, self.outputs)
            evidence = (self.matrix @ (mass[:, None] * v)) / total
            data_loss, slope = self._data_loss(evidence)
            gradient = mass[:, None] * (self.transposed @ (slope / total)) + penalty * v
            return data_loss + penalty / 2 * float(flat @ flat), gradient.ravel()

        first = np.zeros(words * self.outputs) if start is None else start.v.ravel()
        v = _minimum(loss, first).reshape(words, self.outputs)
        return WordTables(self.log_idf, v, s_background, self.prior)

    def both(self, start: WordTables, settings: TableSettings) -> WordTables:
        """Fit step 2: log-masses and values together, from the tables of step 1."""
        words = self.log_idf.size
        numbers = words * self.outputs
        target = np.append(self.log_idf, self.background(settings.background))
        ridge = self.feature_size(settings.background) / settings.strength

        def loss(flat: Floats) -> tuple[float, Floats]:
            v = flat[:numbers].reshape(words, self.outputs)
            s = flat[numbers:]
            mass = np.exp(s[:-1])
            background = math.exp(s[-1])
            total = (self.matrix @ mass + background)[:, None]
            evidence = (self.matrix @ (mass[:, None] * v)) / total
            data_loss, slope = self._data_loss(evidence)
            by_v = mass[:, None] * (self.transposed @ (slope / total))
            # A mass moves its text towards its own value, and away from the present evidence.
            away = (slope * evidence).sum(axis=1, keepdims=True) / total
            by_s = (v * by_v).sum(axis=1) - mass * (self.transposed @ away)[:, 0]
            by_background = -background * float(away.sum())
            distance = s - target
            value = data_loss + ridge / 2 * float((v * v).sum())
            value += settings.penalty * float(distance @ distance)
            by_masses = np.append(by_s, by_background) + 2 * settings.penalty * distance
            return value, np.concatenate([(by_v + ridge * v).ravel(), by_masses])

        first = np.concatenate([start.v.ravel(), start.s, [start.s_background]])
        flat = _minimum(loss, first)
        v = flat[:numbers].reshape(words, self.outputs)
        return WordTables(flat[numbers:-1], v, float(flat[-1]), self.prior)

    def fit(self, settings: TableSettings, start: WordTables | None = None) -> WordTables:
        """Fit both steps, or step 1 alone if the penalty is infinite; `start` is a solution of step
        1.
        """
        tables = self.convex(settings.strength, settings.background, start)
        if math.isinf(settings.penalty):
            return tables
        return self.both(tables, settings)

    def _data_loss(self, evidence: Floats) -> tuple[float, Floats]:
        """Return the weighted cross-entropy of prior plus evidence, and its derivative by the
        evidence (n, K).
        """
        log_p = log_probabilities(self.prior + evidence)
        rows = np.arange(len(self.labels))
        loss = -float(self.weights @ log_p[rows, self.labels])
        slope = np.exp(log_p)
        slope[rows, self.labels] -= 1
        slope *= self.weights[:, None]
        return loss, slope[:, -self.outputs :]


def _minimum(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    """Minimize a function with its gradient by L-BFGS."""
    options = {"maxiter": ITERATIONS, "gtol": 1e-3, "ftol": 1e-7}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


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
        self.held_out: dict[bool, list[sparse.csr_matrix]] = {True: [], False: []}
        for fold in folds:
            counts = training_counts([documents[i] for i in fold.training], size)
            held_out = [documents[i] for i in fold.held_out]
            seen = counts._replace(matrix=count_words(held_out, counts.words))
            fold_labels = labels[fold.training]
            fold_weights = None if weights is None else weights[fold.training]
            self.problems[True].append(
                TableProblem(counts.once(), fold_labels, classes, fold_weights)
            )
            self.problems[False].append(TableProblem(counts, fold_labels, classes, fold_weights))
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

    def both(self, settings: TableSettings, starts: Sequence[WordTables]) -> list[WordTables]:
        """Fit step 2 in every fold, from the tables of step 1."""
        problems = self.problems[settings.once]
        return [
            problem.both(start, settings) for problem, start in zip(problems, starts, strict=True)
        ]

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
        return Selection(settings, calibrated, self.rows, temperature, losses)


def select(
    documents: Sequence[Words],
    labels: Labels,
    classes: int,
    folds: Sequence[Fold],
    size: int,
    weights: Floats | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Selection:
    """Choose the settings by the loss on texts that were not used in the fit.

    Counting, strength and background are chosen for step 1, which is cheap, and then the penalty of
    step 2. The parameters are those of `Trials`; `progress` is called with the number of trials
    that are done, and the number of all of them.
    """
    trials = Trials(documents, labels, classes, folds, size, weights)
    strengths = STRENGTHS if weights is None else (*STRENGTHS_OF_WEIGHTED, *STRENGTHS)
    total = 2 * len(BACKGROUNDS) * len(strengths) + len(PENALTIES) - 1

    convex: list[tuple[Selection, list[WordTables]]] = []
    for once in (True, False):
        for background in BACKGROUNDS:
            starts: Sequence[WordTables | None] = [None] * len(folds)
            means: list[float] = []
            for strength in strengths:
                settings = TableSettings(once, strength, background, math.inf)
                tables = trials.convex(settings, starts)
                starts = tables
                selection = trials.judged(settings, tables)
                convex.append((selection, tables))
                progress(len(convex), total)
                # The loss has one minimum along the strengths; two larger ones in a row are beyond
                # it.
                means.append(float(selection.losses.mean()))
                if len(means) > 2 and means[-1] > means[-2] > means[-3]:
                    break
    # Strong penalties come first: `simplest` takes the first of those that are as good as the best.
    ranked = sorted(convex, key=lambda pair: pair[0].settings.strength)
    first, first_tables = simplest(ranked, lambda pair: pair[0].losses)

    candidates = [first]
    for penalty in PENALTIES[1:]:
        settings = first.settings._replace(penalty=penalty)
        candidates.append(trials.judged(settings, trials.both(settings, first_tables)))
        progress(total - len(PENALTIES) + len(candidates), total)
    return simplest(candidates, lambda selection: selection.losses)


def simplest(candidates: Sequence[Item], losses: Callable[[Item], Floats]) -> Item:
    """Return the first candidate whose mean loss is within one standard error of the best one's.

    The standard error is that of the difference on the same texts, so that many texts leave little
    choice.

    >>> simplest(["simple", "best"], {"simple": np.array([1.1, 0.9]), "best": np.array([0.9, 1.0])}.get)
    'simple'
    """
    best = min(candidates, key=lambda candidate: float(losses(candidate).mean()))
    for candidate in candidates:
        difference = losses(candidate) - losses(best)
        standard_error = float(difference.std()) / math.sqrt(len(difference))
        if float(difference.mean()) <= standard_error:
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
    n = len(labels)
    classes = max(outputs, 2)
    miss = 1 / (n + 2)
    target = np.full((n, classes), miss / (classes - 1))
    target[np.arange(n), labels] = 1 - miss
    each = np.ones((n, 1)) if weights is None else weights[:, None]
    low = 1 / HOTTEST_EVIDENCE
    high = 1 / COLDEST
    # The loss is convex in 1/T: bisection on the sign of its slope, on a logarithmic scale.
    for _ in range(60):
        beta = math.sqrt(low * high)
        p = np.exp(log_probabilities(prior + beta * evidence))
        slope = float((each * (p - target)[:, -outputs:] * evidence).sum())
        if slope > 0:
            high = beta
        else:
            low = beta
    return 1 / math.sqrt(low * high)


def fit_tables(
    documents: Sequence[Words],
    labels: Labels,
    classes: int,
    selection: Selection,
    size: int,
    weights: Floats | None = None,
) -> tuple[tuple[str, ...], WordTables]:
    """Fit the tables to all texts with the selected settings, and divide the values by the
    temperature.
    """
    counts = training_counts(documents, size)
    if selection.settings.once:
        counts = counts.once()
    problem = TableProblem(counts, labels, classes, weights)
    tables = problem.fit(selection.settings)
    return counts.words, tables._replace(v=tables.v / selection.temperature)


def attention_weights(tables: WordTables) -> AttentionWeights:
    """Return the tables as P1's classifier with one head and no positions, whose [CLS] is the
    background.

    A word's embedding is its log-mass followed by its values; the query is 1, the key reads the
    first number of an embedding, and the value the others.
    """
    words, outputs = tables.v.shape
    embeddings = np.zeros((words + 1, 1 + outputs))
    embeddings[0, 0] = tables.s_background
    embeddings[1:, 0] = tables.s
    embeddings[1:, 1:] = tables.v
    identity = np.eye(1 + outputs)
    # Files store float32; the model that is returned has the same numbers as the file.
    embeddings = embeddings.astype(np.float32).astype(np.float64)
    prior = tables.prior.astype(np.float32).astype(np.float64)
    return AttentionWeights(
        W_e=embeddings,
        W_p=None,
        W_q=np.zeros((1, 1, 1 + outputs)),
        W_k=identity[None, :1],
        W_v=identity[None, 1:],
        W_l=np.eye(outputs)[None],
        b_q=np.ones((1, 1)),
        b_l=prior,
        cls=0,
        unk=1,
    )


def vocabulary_of(words: Sequence[str]) -> Vocabulary:
    """Return the vocabulary of tables: [CLS], [UNK] and the words.

    >>> list(vocabulary_of(("a", "film")))
    ['[CLS]', '[UNK]', 'a', 'film']
    """
    return Vocabulary([CLS, UNK, *words])


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
