"""Samples for a SLALOM fit: sums over the tokens of each sample, and what follows from them at once.

A sample i is a sequence in which token j occurs n_ij times and has the weight
alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k}. All solvers need only products of such tables. `LongSamples` keeps them
dense, (n, V); `ShortSamples` keeps the L places of each sample, (n, L), which makes SLALOM-eff independent of V. An
"entry" below is either: a number for a sample and a token, or for a sample and a place in it. A background is one more
token, the last one, which occurs once in every sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids

# Up to this length a sequence is stored as indices, and a sample costs its length squared; else as a row of counts.
SHORT = 4


class Solution(NamedTuple):
    """What a solver found.

    Attributes
    ----------
    s, v : (V,) importances and (V, C) values; with a background both have one more row, the last
    mse : weighted mean squared error on the samples
    iterations : number of steps
    converged : whether it stopped by itself
    background : whether the last row of s and v is a background
    penalty : with which the fit was made
    undetermined : (V,) whether an importance comes from the penalty rather than from the samples
    """

    s: Array
    v: Array
    mse: float
    iterations: int
    converged: bool
    background: bool = False
    penalty: float = 0.0
    undetermined: NDArray[np.bool_] | None = None


class Samples(Protocol):
    """Sums over the tokens of each sample; an array of entries has one row per sample."""

    V: int

    def alpha(self, s: Array) -> Array:
        """Softmax weights as entries."""

    def at(self, x: Array) -> Array:
        """(V,) numbers, one per token, at every entry."""

    def gram(self, x: Array, y: Array) -> Array:
        """(V, V) products x^T y of entry arrays."""

    def columns(self, x: Array, r: Array) -> Array:
        """(V,) products x^T r with one number per sample, (n,)."""

    def rows(self, x: Array, v: Array) -> Array:
        """(n, C) products of entries with numbers per token, (V, C)."""

    def counts(self) -> Array:
        """Entries of the counts n_ij."""

    def take(self, rows: Ids) -> Samples:
        """Some of the samples."""

    def with_background(self) -> Samples:
        """The same samples with one more token, which occurs once in each."""


def count_tokens(ids: Ids, sequences: Sequence[Ids]) -> Samples:
    """Samples of sequences whose tokens are all among the sorted `ids`."""
    lengths = np.array([len(sequence) for sequence in sequences])
    index = np.searchsorted(ids, np.concatenate(list(sequences)))
    if lengths.max() <= SHORT and (lengths == lengths[0]).all():
        return ShortSamples(index.reshape(len(sequences), -1), ids.size)
    cells = np.repeat(np.arange(len(sequences)), lengths) * ids.size + index
    counts = np.bincount(cells, minlength=len(sequences) * ids.size)
    return LongSamples(counts.reshape(-1, ids.size).astype(np.float64))


class LongSamples:
    """Samples as a dense (n, V) table of counts."""

    def __init__(self, n: Array) -> None:
        self.n, self.V = n, n.shape[1]

    def alpha(self, s: Array) -> Array:
        """Rows whose tokens all have tiny masses are saved by a shift of their own."""
        mass = self.n * np.exp(s - s.max())
        total = mass.sum(axis=1)
        if (total < 1e-200).any():
            shift = np.where(self.n > 0, s, -np.inf).max(axis=1)
            mass = np.where(self.n > 0, self.n * np.exp(np.minimum(s - shift[:, None], 0.0)), 0.0)
            total = mass.sum(axis=1)
        return mass / total[:, None]

    def at(self, x: Array) -> Array:
        """One row for all samples."""
        return x[None]

    def gram(self, x: Array, y: Array) -> Array:
        """A matrix product."""
        return x.T @ y

    def columns(self, x: Array, r: Array) -> Array:
        """A matrix product."""
        return r @ x

    def rows(self, x: Array, v: Array) -> Array:
        """A matrix product."""
        return x @ v

    def counts(self) -> Array:
        """The table."""
        return self.n

    def take(self, rows: Ids) -> LongSamples:
        """Rows of the table."""
        return LongSamples(self.n[rows])

    def with_background(self) -> LongSamples:
        """A column of ones."""
        return LongSamples(np.column_stack([self.n, np.ones(len(self.n))]))


class ShortSamples:
    """Samples of one short length as (n, L) indices: every product costs n L^2, whatever V is."""

    def __init__(self, index: Ids, V: int) -> None:
        self.index, self.V = index, V

    def alpha(self, s: Array) -> Array:
        """Softmax of each row."""
        score = s[self.index]
        mass = np.exp(score - score.max(axis=1, keepdims=True))
        return mass / mass.sum(axis=1, keepdims=True)

    def at(self, x: Array) -> Array:
        """A gather."""
        return x[self.index]

    def gram(self, x: Array, y: Array) -> Array:
        """A scatter of all pairs of places."""
        flat = self.index[:, :, None] * self.V + self.index[:, None, :]
        products = x[:, :, None] * y[:, None, :]
        total: Array = np.bincount(flat.ravel(), products.ravel(), self.V**2).astype(np.float64, copy=False)
        return total.reshape(self.V, self.V)

    def columns(self, x: Array, r: Array) -> Array:
        """A scatter."""
        return np.bincount(self.index.ravel(), (x * r[:, None]).ravel(), self.V).astype(np.float64, copy=False)

    def rows(self, x: Array, v: Array) -> Array:
        """A gather, and sums over the places."""
        return np.stack([(x * column[self.index]).sum(axis=1) for column in v.T], axis=1)

    def counts(self) -> Array:
        """One per place."""
        return np.ones(self.index.shape)

    def take(self, rows: Ids) -> ShortSamples:
        """Rows of the index."""
        return ShortSamples(self.index[rows], self.V)

    def with_background(self) -> ShortSamples:
        """One more place."""
        return ShortSamples(np.column_stack([self.index, np.full(len(self.index), self.V)]), self.V + 1)


def values_for(
    samples: Samples, f: Array, weight: Array, s: Array, ridge: float = 0.0, target: Array | float = 0.0
) -> Array:
    """Best values for given importances, Eq. 74: (V, C). With a ridge, `ridge` |v - target|^2 is added to the MSE."""
    root = np.sqrt(weight)[:, None]
    return values_from(samples, samples.alpha(s) * root, f * root, ridge, target)


def values_from(samples: Samples, alpha: Array, f: Array, ridge: float, target: Array | float) -> Array:
    """The same from softmax weights and outputs that are multiplied by the roots of the samples' weights."""
    H = samples.gram(alpha, alpha)
    rhs = np.stack([samples.columns(alpha, column) for column in f.T], axis=1) + ridge * target
    scale = np.sqrt(np.diag(H))
    scale = np.where(scale > 0, scale, 1.0)
    H = H / scale / scale[:, None]
    H.flat[:: len(H) + 1] += 1e-13 + ridge / scale**2
    return np.linalg.solve(H, rhs / scale[:, None]) / scale[:, None]


def outputs(samples: Samples, s: Array, v: Array) -> Array:
    """(n, C) outputs of the SLALOM."""
    return samples.rows(samples.alpha(s), v)


def mean_squared_error(samples: Samples, f: Array, weight: Array, s: Array, v: Array) -> float:
    """Weighted mean over samples, summed over classes: what both of P2's algorithms are meant to minimise."""
    r = f - outputs(samples, s, v)
    return float(weight @ (r * r).sum(axis=1))
