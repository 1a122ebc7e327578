"""The sequences on which a SLALOM is fitted: the samples of P2's Algorithms 1 and 2.

Algorithm 1 (SLALOM-eff, `ShortSequences`) draws n tokens, with replacement, from the distinct
tokens of the document; Algorithm 2 (SLALOM-fidel, `Deletions`) deletes up to 5 positions of it.
`design="uniform"` is both as printed. The default, `design="balanced"`, draws from the same
populations without replacement, in rounds that treat all tokens equally:

- short sequences: a random circle of the V tokens, and one shift vector per round; one round has
  every token once in each place. The first round repeats one token n times, which shows its value
  (P2, Eq. 44); the second joins neighbors of the circle, which links all importances (Eq. 52).
- deletions: the whole document once. One round splits a random order of the T positions into blocks
  of k, and deletes a block at a time. Every size k has one round before any has two; then the sizes
  even out.

Subsets of any size (`any_size`), which P2 does not use, show the effect of a token when few others
are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import check, choice, number, whole
from .._types import Array, Ids, Masks

DESIGNS = ("balanced", "uniform")  # balanced rounds, or independent draws as printed in P2
# Tuning: one in this many samples is held out to measure the error; 500 of the default 5,000 give
# it to about 6%.
HELD_OUT_ONE_IN = 10


class Samples(NamedTuple):
    """Sequences to fit with their weights (n,), which sum to one, and held-out ones of two
    kinds.
    """

    fitted: list[Ids]
    weight: Array
    held_out: list[Ids]  # drawn as in the paper's algorithm
    held_out_any_size: list[Ids]
    ids: Ids  # the distinct tokens that get scores
    # Whether all sequences have one length, so that every token can take its share of a background.
    one_length: bool


@dataclass(frozen=True)
class ShortSequences:
    """Samples of SLALOM-eff: short sequences of the document's tokens (P2, Algorithm 1).

    About 2 V samples are needed to determine everything.

    Parameters
    ----------
    length : n of Algorithm 1, 2 in the paper
    design : "balanced", or "uniform" for independent draws, as printed

    Examples
    --------
    >>> samples = ShortSequences().draw(np.array([7, 5, 7]), 5, np.random.default_rng(0))
    >>> samples.ids, len(samples.fitted), [sequence.size for sequence in samples.fitted]
    (array([5, 7]), 4, [2, 2, 2, 2])
    """

    length: int = 2
    design: str = "balanced"

    def __post_init__(self) -> None:
        whole("length", self.length)
        choice("design", self.design, DESIGNS)

    def draw(self, document: Ids, num_samples: int, rng: np.random.Generator) -> Samples:
        """Draw the sequences for a document."""
        ids = np.unique(document)
        held_out = num_samples // HELD_OUT_ONE_IN
        fitted = short_sequences(ids.size, num_samples - held_out, self.length, self.design, rng)
        fresh = short_sequences(ids.size, held_out, self.length, design="uniform", rng=rng)
        weight = np.full(len(fitted), 1 / len(fitted))
        return Samples(
            fitted=list(ids[fitted]),
            weight=weight,
            held_out=list(ids[fresh]),
            held_out_any_size=[],
            ids=ids,
            one_length=True,
        )


@dataclass(frozen=True)
class Deletions:
    """Samples of SLALOM-fidel: the document with tokens deleted (P2, Algorithm 2), and subsets of
    any size.

    Parameters
    ----------
    max_deletions : maximum number of tokens deleted at a time, 5 in the paper; one token always
        remains
    any_size : weight of subsets of any size in the mean squared error, from 0, which is Algorithm
        2, to 1
    replacement : id of a token, such as [MASK] or [PAD], that takes the place of a deleted token;
        the fit then gives this id an importance and a value. None deletes
    design : "balanced", or "uniform" for independent draws, as printed

    Examples
    --------
    >>> samples = Deletions(replacement=9).draw(np.array([7, 5, 7]), 20, np.random.default_rng(0))
    >>> samples.ids, samples.fitted[0], float(samples.weight.sum().round(9))
    (array([5, 7, 9]), array([7, 5, 7]), 1.0)
    """

    max_deletions: int = 5
    any_size: float = 0.0025
    replacement: int | None = None
    design: str = "balanced"

    def __post_init__(self) -> None:
        whole("max_deletions", self.max_deletions)
        number("any_size", self.any_size, "a weight from 0 to 1", lambda x: 0 <= x <= 1)
        choice("design", self.design, DESIGNS)
        is_id = isinstance(self.replacement, int | np.integer)
        is_bool = isinstance(self.replacement, bool)
        fits = self.replacement is None or (is_id and not is_bool)
        check("replacement", fits, "the id of a token or None", repr(self.replacement))

    def draw(self, document: Ids, num_samples: int, rng: np.random.Generator) -> Samples:
        """Draw the sequences for a document."""
        T = document.size
        num_held_out = num_samples // HELD_OUT_ONE_IN
        num_fitted = num_samples - num_held_out
        num_near = self._num_deletions(document, num_fitted)
        num_far = num_fitted - num_near
        near = deletions(T, num_near, self.max_deletions, self.design, rng)
        far = any_size(T, num_far, rng)
        num_held_out_far = 0
        if self.any_size > 0:
            num_held_out_far = num_held_out // 2
        held_out_far = any_size(T, num_held_out_far, rng)
        num_held_out_near = num_held_out - num_held_out_far
        held_out_near = deletions(
            T, num_held_out_near, self.max_deletions, design="uniform", rng=rng
        )
        # Without subsets of any size, deletions have all of the weight.
        share = self.any_size if num_far > 0 else 0.0
        near_weight = np.full(num_near, (1 - share) / num_near)
        far_weight = np.full(num_far, share / max(num_far, 1))
        # Both kinds are spread evenly, so that every stretch of the samples has its share of each.
        places = np.r_[_even_places(num_near), _even_places(num_far)]
        order = np.argsort(places)
        fitted = np.concatenate([near, far])[order]
        if self.replacement is None:
            ids = document
        else:
            ids = np.r_[document, self.replacement]
        return Samples(
            fitted=self._sequences(document, fitted),
            weight=np.r_[near_weight, far_weight][order],
            held_out=self._sequences(document, held_out_near),
            held_out_any_size=self._sequences(document, held_out_far),
            ids=np.unique(ids),
            one_length=self.replacement is not None,
        )

    def _num_deletions(self, document: Ids, num_fitted: int) -> int:
        """Return how many of the samples to fit are deletions; the others are subsets of any
        size.
        """
        if self.any_size == 0:
            return num_fitted
        half = num_fitted - num_fitted // 2
        # Tuning: this many deletions per distinct token are enough, because a balanced round
        # deletes each token once. The remaining samples are subsets of any size, which get at least
        # a fifth and at most half of all samples.
        per_token = 10
        enough = max(per_token * np.unique(document).size, half)
        return min(enough, num_fitted - num_fitted // 5)

    def _sequences(self, document: Ids, present: Masks) -> list[Ids]:
        """Return the document with the absent positions deleted or replaced."""
        if self.replacement is None:
            return [document[row] for row in present]
        return list(np.where(present, document, self.replacement))


def _even_places(n: int) -> Array:
    """Return the middles of n equal parts of [0, 1]."""
    return (np.arange(n) + 0.5) / max(n, 1)


def short_sequences(
    V: int, num_samples: int, length: int, design: str, rng: np.random.Generator
) -> Ids:
    """Draw samples of Algorithm 1: (n, length) indices of tokens, with n at most the population."""
    if design == "uniform":
        return rng.integers(V, size=(num_samples, length)).astype(np.intp)
    rounds = -(-num_samples // V)
    shifts = np.zeros((rounds, length), dtype=np.intp)
    population = V ** (length - 1)
    # More shift vectors than this are drawn at random instead of listed; repetitions are then
    # unlikely.
    listed_shifts = 1 << 20
    if population <= listed_shifts:
        # A shift vector is a number in base V: 0 repeats a token, 1 joins neighbors, the others
        # come in any order.
        others = rng.permutation(max(population - 2, 0))
        codes = np.r_[0:2, 2 + others]
        codes = codes[: min(rounds, population)]
        powers = V ** np.arange(length - 1)
        digits = codes[:, None] // powers % V
        shifts = np.zeros((len(codes), length), dtype=np.intp)
        shifts[:, 1:] = digits
    else:
        drawn = max(rounds - 2, 0)
        shifts[2:, 1:] = rng.integers(V, size=(drawn, length - 1))
        shifts[1:2, 1] = 1
    circle = rng.permutation(V)
    starts = np.arange(V)
    places = (starts[:, None] + shifts[:, None, :]) % V
    sequences = circle[places].reshape(-1, length)
    return sequences[:num_samples]


def deletions(
    T: int, num_samples: int, max_deletions: int, design: str, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw samples of Algorithm 2: (num_samples, T) masks, True for kept positions (at least
    one).
    """
    largest = min(max_deletions, T - 1)
    keep = np.ones((num_samples, T), dtype=bool)
    if design == "uniform" or largest == 0:
        deleted = rng.integers(largest + 1, size=num_samples)
        order = rng.random((num_samples, T)).argsort(axis=1)
        np.put_along_axis(keep, order, np.arange(T) >= deleted[:, None], axis=1)
        return keep
    drawn = np.zeros(largest, dtype=np.intp)  # samples with 1, 2, ... deletions so far
    row = 1
    fresh = list(range(largest))
    while row < num_samples:
        if fresh:
            at = fresh.pop(0)
        else:
            at = int(drawn.argmin())
        size = at + 1
        order = rng.permutation(T)
        block = [order[i : i + size] for i in range(0, T, size)]
        # The last block borrows from the first, so that all have the same size.
        block[-1] = np.concatenate([block[-1], order[: size - len(block[-1])]])
        for positions in block[: num_samples - row]:
            keep[row, positions] = False
            row += 1
        drawn[at] += len(block)
    return keep


def any_size(T: int, num_samples: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw subsets of uniform size: (num_samples, T) masks with 1 to T - 1 kept positions (one if T
    is 1).
    """
    numbers = rng.permutation(np.arange(num_samples))
    kept = 1 + np.floor(numbers * max(T - 1, 1) / max(num_samples, 1))
    shuffled = rng.random((num_samples, T)).argsort(axis=1)
    order = shuffled.argsort(axis=1)
    mask: NDArray[np.bool_] = order < kept[:, None]
    return mask


def counts(ids: Ids, sequences: Sequence[Ids]) -> Array:
    """Count how often each of the sorted `ids` occurs in each sequence, (n, V); all tokens must be
    among them.

    >>> counts(np.array([3, 5]), [np.array([5, 3, 5]), np.array([3])])
    array([[1., 2.],
           [1., 0.]])
    """
    n = len(sequences)
    V = ids.size
    lengths = [len(sequence) for sequence in sequences]
    rows = np.repeat(np.arange(n), lengths)
    columns = np.searchsorted(ids, np.concatenate(list(sequences)))
    table = np.bincount(rows * V + columns, minlength=n * V)
    return table.reshape(-1, V).astype(np.float64)


def distinct(sequences: list[Ids]) -> tuple[list[Ids], NDArray[np.intp]]:
    """Return the distinct sequences in order of appearance, and the index of each sequence among
    them.

    >>> distinct([np.array([1, 2]), np.array([3]), np.array([1, 2])])
    ([array([1, 2]), array([3])], array([0, 1, 0]))
    """
    seen: dict[bytes, int] = {}
    numbers = [seen.setdefault(sequence.tobytes(), len(seen)) for sequence in sequences]
    which = np.array(numbers, dtype=np.intp)
    _, first = np.unique(which, return_index=True)
    return [sequences[i] for i in first], which
