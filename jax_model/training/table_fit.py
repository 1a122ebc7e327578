"""The fit of the tables of `word_tables.py`, from a convex start.

Both steps use L-BFGS, without random numbers, so that the same texts give the same tables:

1. s_w is the logarithm of the inverse document frequency. f is linear in v, so this is multinomial
   logistic regression on TF-IDF features that add up to one, a convex problem.
2. s, s_0 and v together, from there, with the penalty |v|^2 / (2 C k^2) of step 1, with
   lam |s - log idf|^2, and with rho times the deletion penalty. The factor k^2, the inverse of the
   mean square of the features, makes one strength C suit texts of all lengths.

The deletion penalty is the mean increase of the loss if words are lost at random, to second order:

    sum over texts and classes of p (1 - p) V / 2,    V = sum_w (c_w e^(s_w) / D)^2 (v_w - f + b)^2,

with D the denominator of f. V is the variance of f if words are lost independently at a rate of one
half. This is dropout in closed form (Wager, Wang, Liang, Dropout Training as Adaptive
Regularization, NeurIPS 2013), and suits a model whose explanations remove words. Departure: with
three and more classes, the covariances between classes are left out.

A sparse model has words of mass zero, to which every explanation gives exactly zero. From the
tables of step 1, each mass is multiplied by a gate g_w between 0 and 1, with the penalty

    GATE sum_w (1 - g_w)^2 + 2 g_w q_w / q,    q_w the share of the texts with the word.

Gates of words without evidence close if the words are in more than the share q of the texts: they
only dilute the evidence of the others. Nothing can be known about a rare word, which keeps its
mass. So does a word that tells the classes apart, even if other words of the same texts do it as
well: one whose texts have other classes than all texts, by more than EVIDENCE. Words whose gate
ends at zero are left out, and both steps are fitted to the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from .scores import Labels, log_probabilities
from .word_tables import MASSLESS, Counts, Floats, WordTables, prior_logits

# Tuning: the share of its texts that would have to change their class for a word to have the
# classes of all texts. Function words of reviews reach 0.06, and of the 25 most
# frequent words of Yelp reviews only "not" and "!" are above the limit.
EVIDENCE = 0.1
# Tuning: the loss, summed over the texts, that decides about a gate. With 1 instead of 10, the
# loss of Rotten Tomatoes is larger for as many words of mass zero; 5 and 20 are as good as 10.
GATE = 10.0


class TableSettings(NamedTuple):
    """What is chosen on texts that were not used in the fit; the letters are those of the module
    docstring.
    """

    once: bool  # whether a text counts every word once
    strength: float  # C
    background: float  # mass of the background over the median mass of a text
    penalty: float = math.inf  # lam; infinity is step 1 alone
    deletion: float = 0.0  # rho
    sparse_from: float | None = None  # q of a sparse model; None closes no gate


class LossAndSlopes(NamedTuple):
    """A loss, its derivatives by the values (W, K), and by the masses (W + 1,), the last one of
    which is that of the background.
    """

    value: float
    by_values: Floats
    by_masses: Floats


class DataLoss(NamedTuple):
    """The cross-entropy, its derivative by the evidence (n, K), and the probabilities of the K
    outputs (n, K).
    """

    value: float
    by_evidence: Floats
    probabilities: Floats


class DeletionPenalty(NamedTuple):
    """The deletion penalty, with its derivatives by the evidence (n, K), the total masses (n, 1),
    the values (W, K) and the masses (W,).
    """

    value: float
    by_evidence: Floats
    by_total: Floats
    by_values: Floats
    by_mass: Floats


class TableProblem:
    """The fit of one set of texts: everything that does not depend on the settings is computed
    once.
    """

    def __init__(
        self, counts: Counts, labels: Labels, classes: int, weights: Floats | None = None
    ) -> None:
        self.matrix = counts.matrix
        # Products with the transposed matrix take most of the time; rows are read faster.
        self.transposed = counts.matrix.T.tocsr()
        self.squared = counts.matrix.multiply(counts.matrix).tocsr()
        self.squared_transposed = self.squared.T.tocsr()
        self.log_idf = np.log(counts.idf)
        self.classes = classes
        # Two classes share one logit, as in P1.
        self.outputs = 1 if classes == 2 else classes
        self.prior = prior_logits(labels, classes, weights)
        self.labels = labels
        if weights is None:
            weights = np.ones(len(labels))
        self.weights = weights
        self.mass_of_texts = self.matrix @ counts.idf

    def background(self, share: float) -> float:
        """Return the log-mass of a background with this share of the median mass of a text."""
        filled = self.mass_of_texts[self.mass_of_texts > 0]
        if not filled.size:
            return math.log(share)
        return math.log(share * float(np.median(filled)))

    def feature_size(self, share: float) -> float:
        """Return the mean square of the features of step 1, 1 / k^2 of the module docstring."""
        total = self.mass_of_texts + math.exp(self.background(share))
        squares_of_counts = self.matrix.multiply(self.matrix)
        squares = squares_of_counts @ np.exp(2 * self.log_idf)
        size = float((squares / total**2).mean())
        # Texts without words have no features, and any size does.
        return size or 1.0

    def fit(self, settings: TableSettings, start: WordTables | None = None) -> WordTables:
        """Fit step 1, the gates of a sparse model, and step 2 unless its penalty is infinite.

        `start` is a solution of step 1 with similar settings.
        """
        tables = self.convex(settings.strength, settings.background, start)
        if settings.sparse_from is not None:
            closed = self.gates(tables, settings.sparse_from, settings) <= 0
            settings = settings._replace(sparse_from=None)
            if closed.any():
                tables = self.without(closed).fit(settings, tables)
                masses = np.where(closed, MASSLESS, tables.s)
                values = np.where(closed[:, None], 0.0, tables.v)
                return tables._replace(s=masses, v=values)
        if math.isinf(settings.penalty):
            return tables
        return self.both(tables, settings)

    def convex(self, strength: float, share: float, start: WordTables | None = None) -> WordTables:
        """Fit step 1: the values for log-masses log idf."""
        words = self.log_idf.size
        s_background = self.background(share)
        mass = np.exp(self.log_idf)
        total = (self.matrix @ mass + math.exp(s_background))[:, None]
        ridge = self.feature_size(share) / strength

        def loss(flat: Floats) -> tuple[float, Floats]:
            values = flat.reshape(words, self.outputs)
            evidence = (self.matrix @ (mass[:, None] * values)) / total
            data = self._data_loss(evidence)
            by_values = mass[:, None] * (self.transposed @ (data.by_evidence / total))
            by_values += ridge * values
            return data.value + ridge / 2 * float(flat @ flat), by_values.ravel()

        if start is None:
            first = np.zeros(words * self.outputs)
        else:
            first = start.v.ravel()
        values = _minimum(loss, first).reshape(words, self.outputs)
        return WordTables(s=self.log_idf, v=values, s_background=s_background, prior=self.prior)

    def both(self, start: WordTables, settings: TableSettings) -> WordTables:
        """Fit step 2: log-masses and values together, from the tables of step 1."""
        words = self.log_idf.size
        numbers = words * self.outputs
        target = np.append(self.log_idf, self.background(settings.background))
        ridge = self.feature_size(settings.background) / settings.strength

        def loss(flat: Floats) -> tuple[float, Floats]:
            values = flat[:numbers].reshape(words, self.outputs)
            s = flat[numbers:]
            masses = np.exp(s)
            found = self.loss(values, masses, settings.deletion)
            distance = s - target
            value = found.value
            value += ridge / 2 * float((values * values).sum())
            value += settings.penalty * float(distance @ distance)
            by_values = found.by_values + ridge * values
            by_s = masses * found.by_masses + 2 * settings.penalty * distance
            return value, np.concatenate([by_values.ravel(), by_s])

        first = np.concatenate([start.v.ravel(), start.s, [start.s_background]])
        flat = _minimum(loss, first)
        values = flat[:numbers].reshape(words, self.outputs)
        s = flat[numbers:]
        return WordTables(s=s[:-1], v=values, s_background=float(s[-1]), prior=self.prior)

    def gates(self, start: WordTables, sparse_from: float, settings: TableSettings) -> Floats:
        """Fit a gate between 0 and 1 for the mass of every word (W,), together with the values."""
        words = self.log_idf.size
        numbers = words * self.outputs
        ridge = self.feature_size(settings.background) / settings.strength
        open_masses = np.exp(start.s)
        background = math.exp(start.s_background)
        share_of_texts = np.bincount(self.matrix.indices, minlength=words) / len(self.labels)
        price = 2 * GATE * share_of_texts / sparse_from

        def loss(flat: Floats) -> tuple[float, Floats]:
            values = flat[:numbers].reshape(words, self.outputs)
            gates = flat[numbers:]
            closed = 1 - gates
            masses = np.append(gates * open_masses, background)
            found = self.loss(values, masses, 0.0)
            value = found.value
            value += ridge / 2 * float((values * values).sum())
            value += float(price @ gates) + GATE * float(closed @ closed)
            by_values = found.by_values + ridge * values
            by_gates = open_masses * found.by_masses[:-1] + price - 2 * GATE * closed
            return value, np.concatenate([by_values.ravel(), by_gates])

        first = np.concatenate([start.v.ravel(), np.ones(words)])
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * numbers
        for evidence in self.evidence():
            if evidence > EVIDENCE:
                bounds.append((1.0, 1.0))
            else:
                bounds.append((0.0, 1.0))
        return _minimum(loss, first, bounds)[numbers:]

    def evidence(self) -> Floats:
        """Return, for every word (W,), the distance (total variation) between the classes of its
        texts and those of all texts.
        """
        of_texts = np.zeros((len(self.labels), self.classes))
        of_texts[np.arange(len(self.labels)), self.labels] = self.weights
        occurs = (self.transposed > 0).astype(np.float64)
        of_words = occurs @ of_texts
        # A word that occurs in no text of a fold keeps its mass.
        total = np.maximum(of_words.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        difference = of_words / total - of_texts.sum(axis=0) / of_texts.sum()
        return np.abs(difference).sum(axis=1) / 2

    def without(self, left_out: NDArray[np.bool_]) -> TableProblem:
        """Return the problem in which some words (W,) occur in no text."""
        kept = sparse.diags(np.where(left_out, 0.0, 1.0))
        matrix = (self.matrix @ kept).tocsr()
        matrix.eliminate_zeros()
        counts = Counts(words=(), matrix=matrix, idf=np.exp(self.log_idf))
        return TableProblem(counts, self.labels, self.classes, self.weights)

    def loss(self, values: Floats, masses: Floats, deletion: float) -> LossAndSlopes:
        """Return the cross-entropy plus rho times the deletion penalty, and the derivatives.

        Parameters
        ----------
        values : (W, K) values of the words
        masses : (W + 1,) masses, not logarithms; the last one is that of the background
        deletion : rho
        """
        mass = masses[:-1, None]
        # One product with the matrix gives the denominator and the numerators of f.
        sums = self.matrix @ np.hstack([mass, mass * values])
        total = sums[:, :1] + masses[-1]
        evidence = sums[:, 1:] / total
        data = self._data_loss(evidence)
        value = data.value
        by_evidence = data.by_evidence
        by_total = np.zeros_like(total)
        by_values = np.zeros_like(values)
        by_masses = np.zeros_like(masses)
        if deletion > 0:
            penalty = self._deletion_penalty(values, mass, total, evidence, p=data.probabilities)
            value += deletion * penalty.value
            by_evidence += deletion * penalty.by_evidence
            by_total += deletion * penalty.by_total
            by_values += deletion * penalty.by_values
            by_masses[:-1] += deletion * penalty.by_mass
        # A mass moves its text towards its own value, and away from the present evidence.
        by_total -= (by_evidence * evidence).sum(axis=1, keepdims=True) / total
        # One product with the transposed matrix carries both derivatives back to the words.
        back = self.transposed @ np.hstack([by_evidence / total, by_total])
        by_numerators = back[:, :-1]
        by_denominator = back[:, -1]
        by_values += mass * by_numerators
        by_masses[:-1] += (values * by_numerators).sum(axis=1) + by_denominator
        by_masses[-1] += by_total.sum()
        return LossAndSlopes(value, by_values, by_masses)

    def _data_loss(self, evidence: Floats) -> DataLoss:
        """Return the weighted cross-entropy of prior plus evidence (n, K)."""
        log_p = log_probabilities(self.prior + evidence)
        rows = np.arange(len(self.labels))
        value = -float(self.weights @ log_p[rows, self.labels])
        probabilities = np.exp(log_p)
        # The derivative of a cross-entropy by the logits: the probabilities minus the labels.
        slope = probabilities.copy()
        slope[rows, self.labels] -= 1
        slope *= self.weights[:, None]
        # One output is the logit of the second class.
        return DataLoss(
            value=value,
            by_evidence=slope[:, -self.outputs :],
            probabilities=probabilities[:, -self.outputs :],
        )

    def _deletion_penalty(
        self, values: Floats, mass: Floats, total: Floats, evidence: Floats, p: Floats
    ) -> DeletionPenalty:
        """Return the deletion penalty of the module docstring.

        The variance is (Q_2 - 2 e Q_1 + e^2 Q_0) / D^2, where Q_j sums the squared masses of a text
        times the j-th power of the values, and e is the evidence.
        """
        outputs = self.outputs
        square = mass * mass
        moments = self.squared @ np.hstack([square, square * values, square * values * values])
        zeroth = moments[:, :1]
        first = moments[:, 1 : 1 + outputs]
        second = moments[:, 1 + outputs :]
        spread = second - 2 * evidence * first + evidence**2 * zeroth
        variance = spread / total**2
        weights = self.weights[:, None]
        curvature = weights * p * (1 - p) / 2
        penalties = curvature * variance
        value = float(penalties.sum())

        # The evidence enters through p, a logistic function or a softmax, and through the variance.
        by_p = weights * (1 - 2 * p) / 2 * variance
        if outputs == 1:
            by_evidence = p * (1 - p) * by_p
        else:
            by_evidence = p * (by_p - (p * by_p).sum(axis=1, keepdims=True))
        by_second = curvature / total**2
        by_evidence += 2 * by_second * (evidence * zeroth - first)
        by_total = -2 * penalties.sum(axis=1, keepdims=True) / total

        # Back to the words, through the three moments at once.
        by_zeroth = (by_second * evidence**2).sum(axis=1, keepdims=True)
        by_first = -2 * by_second * evidence
        back = self.squared_transposed @ np.hstack([by_zeroth, by_first, by_second])
        back_zeroth = back[:, 0]
        back_first = back[:, 1 : 1 + outputs]
        back_second = back[:, 1 + outputs :]
        by_values = square * (back_first + 2 * values * back_second)
        through_values = values * back_first + values * values * back_second
        by_square = back_zeroth + through_values.sum(axis=1)
        by_mass = 2 * mass[:, 0] * by_square
        return DeletionPenalty(value, by_evidence, by_total, by_values, by_mass)


def _minimum(
    loss: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> Floats:
    """Minimize a function with its gradient by L-BFGS, within bounds."""
    # Tuning: iterations of L-BFGS. Step 1 ends after 5 to 60 of them. Step 2 reaches the limit, and
    # its accuracy is the same with 60 and with 100.
    iterations = 60
    # Tuning: losses are sums over texts, so these ends are far below what a text adds.
    options = {"maxiter": iterations, "gtol": 1e-3, "ftol": 1e-7}
    # The vectors are too short for several threads of BLAS, which would wait for each other: on a
    # machine that is busy, they make the fit of a few hundred texts take ten times as long.
    with threadpool_limits(1, user_api="blas"):
        return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
