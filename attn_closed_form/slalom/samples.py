"""Samples for a SLALOM fit: sums over the tokens of each sample, and what follows from them at once.

A sample i is a sequence in which token j occurs n_ij times and has the weight
alpha_ij = n_ij e^{s_j} / sum_k n_ik e^{s_k}. Both solvers (`slalom_solvers.py`, `slalom_paper.py`) need only products
of such tables. `LongSamples` keeps them dense, (n, V); `ShortSamples` keeps the L places of each sample, (n, L), which
makes SLALOM-eff independent of V: "entries" below are either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from .._types import Array, Ids

Progress = Callable[[str, int, int], None]


class Solution(NamedTuple):
    """s (V,), v (V, C), the weighted MSE, the number of steps, and whether it stopped by itself."""

    s: Array
    v: Array
    mse: float
    iterations: int
    converged: bool


class Samples(Protocol):
    """Sums over the tokens of each sample; an entry array has a row a sample."""

    V: int

    def alpha(self, s: Array) -> Array:
        """Softmax weights as entries."""

    def at(self, x: Array) -> Array:
        """(V,) numbers a token, where they meet the entries."""

    def gram(self, x: Array, y: Array) -> Array:
        """(V, V) products x^T y of entry arrays."""

    def columns(self, x: Array, r: Array) -> Array:
        """(V,) products x^T r with (n,) numbers a sample."""

    def counts(self) -> Array:
        """Entries of the counts n_ij."""

    def take(self, rows: Ids) -> Samples:
        """Some of the samples."""


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

    def counts(self) -> Array:
        """The table."""
        return self.n

    def take(self, rows: Ids) -> LongSamples:
        """Rows of the table."""
        return LongSamples(self.n[rows])


class ShortSamples:
    """Samples of one short length as (n, L) indices: every product costs n L^2, whatever V is."""

    def __init__(self, index: Ids, V: int) -> None:
        self.index, self.V = index, V

    def alpha(self, s: Array) -> Array:
        """Softmax a row."""
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

    def counts(self) -> Array:
        """One a place."""
        return np.ones(self.index.shape)

    def take(self, rows: Ids) -> ShortSamples:
        """Rows of the index."""
        return ShortSamples(self.index[rows], self.V)


def values_for(samples: Samples, f: Array, weight: Array, s: Array) -> Array:
    """Best values for given importances, Eq. 74: (V, C)."""
    root = np.sqrt(weight)[:, None]
    alpha = samples.alpha(s) * root
    H = samples.gram(alpha, alpha)
    rhs = np.stack([samples.columns(alpha, column) for column in (f * root).T], axis=1)
    scale = np.sqrt(np.diag(H))
    scale = np.where(scale > 0, scale, 1.0)
    H = H / scale / scale[:, None]
    H[np.diag_indices_from(H)] += 1e-13
    return np.linalg.solve(H, rhs / scale[:, None]) / scale[:, None]


def outputs(samples: Samples, s: Array, v: Array) -> Array:
    """(n, C) outputs of the SLALOM."""
    alpha = samples.alpha(s)
    return np.stack([(alpha * samples.at(column)).sum(axis=1) for column in v.T], axis=1)


def mean_squared_error(samples: Samples, f: Array, weight: Array, s: Array, v: Array) -> float:
    """Weighted mean over samples, summed over classes: what both of P2's algorithms are meant to minimise."""
    r = f - outputs(samples, s, v)
    return float(weight @ (r * r).sum(axis=1))
