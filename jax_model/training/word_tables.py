"""The table model: one log-mass and one value per word, fitted directly from a convex start.

With one head and no positions, P1's classifier is two tables. A text with counts c_w has the logits

    f = b + sum_w c_w e^(s_w) v_w / (e^(s_0) + sum_w c_w e^(s_w)),

with b the logits of the class prior and s_0 the log-mass of a background that has the value 0. A
text without words therefore has the prior as its prediction, whatever the fit does; b is not a
parameter.

The fit has two steps, both by L-BFGS, without random numbers (the same texts give the same tables):

1. s_w is the logarithm of the inverse document frequency. f is linear in v, so this is multinomial
   logistic regression on TF-IDF features that add up to one, a convex problem.
2. s, s_0 and v together, from there, with the penalty |v|^2 / (2 C k^2) of step 1, with lam |s - log
   idf|^2, and with rho times the deletion penalty. The factor k^2, the inverse of the mean square of
   the features, makes one strength C suit texts of all lengths.

The deletion penalty is the mean increase of the loss if words are lost at random, to second order:

    sum over texts and classes of p (1 - p) V / 2,    V = sum_w (c_w e^(s_w) / D)^2 (v_w - f + b)^2,

with D the denominator of f. V is the variance of f if words are lost independently at a rate of one
half. This is dropout in closed form (Wager, Wang, Liang, Dropout Training as Adaptive
Regularization, NeurIPS 2013), and suits a model whose explanations remove words. Departure: with
three and more classes, the covariances between classes are left out.

Words of a single training text are unknown to all the others. They count as [UNK], whose mass and
values are fitted like those of any word; words outside the vocabulary receive them. A text counts
every word once or as often as it occurs.

A sparse model has words of mass zero, to which every explanation gives exactly zero. Each mass is
multiplied by a gate between 0 and 1, with the penalty mu times the sum of all gates, from the tables
of step 1. Words whose gate ends at zero are left out, and both steps are fitted to the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from attn_closed_form import AttentionWeights
from attn_closed_form.app.models.text import CLS, UNK, Vocabulary

from .scores import Labels, log_probabilities

Floats = NDArray[np.float64]
Words = Sequence[str]

# Tuning: iterations of L-BFGS. Step 1 ends after 5 to 60 of them. Step 2 reaches the limit, and its
# accuracy is the same with 60 and with 100.
ITERATIONS = 60
# Log-mass of a word without mass: e to this power is zero in float64, in the numerator and the
# denominator of f. It is finite, because files of weights contain finite numbers only.
MASSLESS = -1e4
# Words of fewer texts count as [UNK].
LEAST_TEXTS = 2


class TableSettings(NamedTuple):
    """What is chosen on texts that were not used in the fit; the letters are those of the module
    docstring.
    """

    once: bool  # whether a text counts every word once
    strength: float  # C
    background: float  # mass of the background over the median mass of a text
    penalty: float = math.inf  # lam; infinity is step 1 alone
    deletion: float = 0.0  # rho
    sparsity: float = 0.0  # mu


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


class FittedTables(NamedTuple):
    """Tables with their words; the first row of the tables is [UNK]."""

    words: tuple[str, ...]
    tables: WordTables

    def scores_of(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the log-masses (W,) minus that of the background, and the values (W, K), of any words."""
        row = {word: i + 1 for i, word in enumerate(self.words)}
        rows = np.array([row.get(word, 0) for word in words], dtype=np.intp)
        return self.tables.s[rows] - self.tables.s_background, self.tables.v[rows]


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
        self.squared = counts.matrix.multiply(counts.matrix).tocsr()
        self.squared_transposed = self.squared.T.tocsr()
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
            data_loss, slope, _ = self._data_loss(evidence)
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
            masses = np.exp(s)
            value, by_v, by_masses = self.loss(v, masses, settings.deletion)
            distance = s - target
            value += ridge / 2 * float((v * v).sum())
            value += settings.penalty * float(distance @ distance)
            by_s = masses * by_masses + 2 * settings.penalty * distance
            return value, np.concatenate([(by_v + ridge * v).ravel(), by_s])

        first = np.concatenate([start.v.ravel(), start.s, [start.s_background]])
        flat = _minimum(loss, first)
        v = flat[:numbers].reshape(words, self.outputs)
        return WordTables(flat[numbers:-1], v, float(flat[-1]), self.prior)

    def gates(self, start: WordTables, settings: TableSettings) -> Floats:
        """Fit a gate between 0 and 1 for the mass of every word (W,), together with the values."""
        words = self.log_idf.size
        numbers = words * self.outputs
        ridge = self.feature_size(settings.background) / settings.strength
        open_masses = np.exp(start.s)
        background = math.exp(start.s_background)

        def loss(flat: Floats) -> tuple[float, Floats]:
            v = flat[:numbers].reshape(words, self.outputs)
            gates = flat[numbers:]
            masses = np.append(gates * open_masses, background)
            value, by_v, by_masses = self.loss(v, masses, 0.0)
            value += ridge / 2 * float((v * v).sum()) + settings.sparsity * float(gates.sum())
            by_gates = open_masses * by_masses[:-1] + settings.sparsity
            return value, np.concatenate([(by_v + ridge * v).ravel(), by_gates])

        first = np.concatenate([start.v.ravel(), np.ones(words)])
        bounds = [(None, None)] * numbers + [(0.0, 1.0)] * words
        return _minimum(loss, first, bounds)[numbers:]

    def without(self, left_out: NDArray[np.bool_]) -> TableProblem:
        """Return the problem in which some words (W,) occur in no text."""
        kept = sparse.diags(np.where(left_out, 0.0, 1.0))
        matrix = (self.matrix @ kept).tocsr()
        matrix.eliminate_zeros()
        counts = Counts((), matrix, np.exp(self.log_idf))
        return TableProblem(counts, self.labels, self.classes, self.weights)

    def fit(self, settings: TableSettings, start: WordTables | None = None) -> WordTables:
        """Fit step 1, the gates of a sparse model, and step 2 unless its penalty is infinite.

        `start` is a solution of step 1 with similar settings.
        """
        tables = self.convex(settings.strength, settings.background, start)
        if settings.sparsity > 0:
            closed = self.gates(tables, settings) <= 0
            tables = self.without(closed).fit(settings._replace(sparsity=0.0), tables)
            masses = np.where(closed, MASSLESS, tables.s)
            return tables._replace(s=masses, v=np.where(closed[:, None], 0.0, tables.v))
        if math.isinf(settings.penalty):
            return tables
        return self.both(tables, settings)

    def loss(self, v: Floats, masses: Floats, deletion: float) -> tuple[float, Floats, Floats]:
        """Return the cross-entropy plus rho times the deletion penalty, and the derivatives.

        Parameters
        ----------
        v : (W, K) values of the words
        masses : (W + 1,) masses, not logarithms; the last one is that of the background
        deletion : rho

        Returns
        -------
        the loss, its derivatives by the values (W, K) and by the masses (W + 1,)
        """
        mass = masses[:-1, None]
        sums = self.matrix @ np.hstack([mass, mass * v])
        total = sums[:, :1] + masses[-1]
        evidence = sums[:, 1:] / total
        value, by_evidence, p = self._data_loss(evidence)
        by_total = np.zeros_like(total)
        by_v = np.zeros_like(v)
        by_masses = np.zeros_like(masses)
        if deletion > 0:
            penalty = self._deletion_penalty(v, mass, total, evidence, p)
            value += deletion * penalty.value
            by_evidence += deletion * penalty.by_evidence
            by_total += deletion * penalty.by_total
            by_v += deletion * penalty.by_v
            by_masses[:-1] += deletion * penalty.by_mass
        # A mass moves its text towards its own value, and away from the present evidence.
        by_total -= (by_evidence * evidence).sum(axis=1, keepdims=True) / total
        back = self.transposed @ np.hstack([by_evidence / total, by_total])
        by_v += mass * back[:, :-1]
        by_masses[:-1] += (v * back[:, :-1]).sum(axis=1) + back[:, -1]
        by_masses[-1] += by_total.sum()
        return value, by_v, by_masses

    def _data_loss(self, evidence: Floats) -> tuple[float, Floats, Floats]:
        """Return the weighted cross-entropy of prior plus evidence, its derivative by the evidence
        (n, K), and the probabilities of the K outputs (n, K).
        """
        log_p = log_probabilities(self.prior + evidence)
        rows = np.arange(len(self.labels))
        loss = -float(self.weights @ log_p[rows, self.labels])
        probabilities = np.exp(log_p)
        slope = probabilities.copy()
        slope[rows, self.labels] -= 1
        slope *= self.weights[:, None]
        return loss, slope[:, -self.outputs :], probabilities[:, -self.outputs :]

    def _deletion_penalty(
        self, v: Floats, mass: Floats, total: Floats, evidence: Floats, p: Floats
    ) -> DeletionPenalty:
        """Return the deletion penalty of the module docstring.

        The variance is (Q_2 - 2 e Q_1 + e^2 Q_0) / D^2, where Q_j sums the squared masses of a text
        times the j-th power of the values, and e is the evidence.
        """
        outputs = self.outputs
        square = mass * mass
        moments = self.squared @ np.hstack([square, square * v, square * v * v])
        zeroth = moments[:, :1]
        first = moments[:, 1 : 1 + outputs]
        second = moments[:, 1 + outputs :]
        variance = (second - 2 * evidence * first + evidence**2 * zeroth) / total**2
        weights = self.weights[:, None]
        curvature = weights * p * (1 - p) / 2
        value = float((curvature * variance).sum())

        # The evidence enters through p, a logistic function or a softmax, and through the variance.
        by_p = weights * (1 - 2 * p) / 2 * variance
        if outputs == 1:
            by_evidence = p * (1 - p) * by_p
        else:
            by_evidence = p * (by_p - (p * by_p).sum(axis=1, keepdims=True))
        by_second = curvature / total**2
        by_evidence += 2 * by_second * (evidence * zeroth - first)
        by_total = -2 * (curvature * variance).sum(axis=1, keepdims=True) / total

        by_zeroth = (by_second * evidence**2).sum(axis=1, keepdims=True)
        by_first = -2 * by_second * evidence
        back = self.squared_transposed @ np.hstack([by_zeroth, by_first, by_second])
        back_zeroth = back[:, 0]
        back_first = back[:, 1 : 1 + outputs]
        back_second = back[:, 1 + outputs :]
        by_v = square * (back_first + 2 * v * back_second)
        by_square = back_zeroth + (v * back_first + v * v * back_second).sum(axis=1)
        by_mass = 2 * mass[:, 0] * by_square
        return DeletionPenalty(value, by_evidence, by_total, by_v, by_mass)


class DeletionPenalty(NamedTuple):
    """The deletion penalty, with its derivatives by the evidence (n, K), the total masses (n, 1), the
    values (W, K) and the masses (W,).
    """

    value: float
    by_evidence: Floats
    by_total: Floats
    by_v: Floats
    by_mass: Floats


def _minimum(
    loss: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> Floats:
    """Minimize a function with its gradient by L-BFGS, within bounds."""
    options = {"maxiter": ITERATIONS, "gtol": 1e-3, "ftol": 1e-7}
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


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
