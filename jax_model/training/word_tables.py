"""The two tables of the table model: texts as counts of words, masses and values, and files of
them.

With one head and no positions, P1's classifier is two tables: a log-mass s_w and values v_w per
word. A text with counts c_w has the logits

    f = b + sum_w c_w e^(s_w) v_w / (e^(s_0) + sum_w c_w e^(s_w)),

with b the logits of the class prior and s_0 the log-mass of a background that has the value 0. A
text without words therefore has the prior as its prediction, whatever the fit does; b is not a
parameter. `table_fit.py` fits the tables.

Words of a single training text are unknown to all the others. They count as [UNK], whose mass and
values are fitted like those of any word; words outside the vocabulary receive them. A text counts
every word once or as often as it occurs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from attn_closed_form import AttentionWeights
from attn_closed_form.app.models.text import CLS, UNK, Vocabulary

from .scores import Labels

Floats = NDArray[np.float64]
Words = Sequence[str]

# Log-mass of a word without mass: e to this power is zero in float64, in the numerator and the
# denominator of f. It is finite, because files of weights contain finite numbers only. The bound on
# the rounding of e^s grows with |s|, so that a larger number would cost accuracy.
MASSLESS = -1e3


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
        # The stored entries of a sparse matrix, of which none is zero.
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
        pooled = matrix @ (mass[:, None] * self.v)
        return self.prior + pooled / total[:, None]


class FittedTables(NamedTuple):
    """Tables with their words; the first row of the tables is [UNK]."""

    words: tuple[str, ...]
    tables: WordTables

    def scores_of(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return the log-masses (W,) minus that of the background, and the values (W, K), of any
        words.
        """
        # Row 0 is [UNK], which stands for all words outside the vocabulary.
        row = {word: i + 1 for i, word in enumerate(self.words)}
        rows = np.array([row.get(word, 0) for word in words], dtype=np.intp)
        return self.tables.s[rows] - self.tables.s_background, self.tables.v[rows]

    def massless(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each of some words (W,) has no mass.

        Words that the tables do not know may have one, even if [UNK] has none.
        """
        found = self.tables.s <= MASSLESS
        names = {word for word, without in zip(self.words, found[1:], strict=True) if without}
        if found[0]:
            names.add(UNK)
        return np.array([word in names for word in words])


def choose_words(documents: Sequence[Words], size: int) -> tuple[str, ...]:
    """Return the `size` words that occur in the most texts, at least two; ties are broken
    alphabetically.

    >>> choose_words([["a", "film"], ["a", "play"], ["film"], ["a"]], size=9)
    ('a', 'film')
    """
    frequency: Counter[str] = Counter()
    for document in documents:
        frequency.update(set(document))
    # Words of fewer texts count as [UNK].
    least_texts = 2
    frequent = [(-count, word) for word, count in frequency.items() if count >= least_texts]
    return tuple(word for _, word in sorted(frequent)[:size])


def count_words(documents: Sequence[Words], words: Sequence[str]) -> sparse.csr_matrix:
    """Return the (n, words + 1) counts of words in texts; column 0 counts words outside the
    vocabulary.
    """
    column = {word: i + 1 for i, word in enumerate(words)}
    columns = [column.get(word, 0) for document in documents for word in document]
    lengths = [len(document) for document in documents]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shape = (len(documents), len(words) + 1)
    ones = np.ones(len(columns))
    matrix = sparse.csr_matrix((ones, columns, starts), shape=shape)
    # A word that occurs several times has several entries, which add up to its count.
    matrix.sum_duplicates()
    return matrix


def training_counts(documents: Sequence[Words], size: int) -> Counts:
    """Return the counts of training texts, with the vocabulary that is chosen on them."""
    words = choose_words(documents, size)
    matrix = count_words(documents, words)
    frequency = np.bincount(matrix.indices, minlength=len(words) + 1)
    # The smooth form of scikit-learn, which is at least 1.
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
    lightest = 1.0
    if weights is not None:
        lightest = float(weights.min())
    logs = np.log(np.maximum(shares, 0.5 * lightest) / shares.sum())
    if classes == 2:
        return logs[1:] - logs[:1]
    # A softmax defines its logits up to a shift; these add up to zero.
    return logs - logs.mean()


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
