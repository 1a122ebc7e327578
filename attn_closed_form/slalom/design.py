"""The sequences on which a SLALOM is fitted: the samples of P2's Algorithms 1 and 2.

Algorithm 1 (SLALOM-eff) draws n tokens, with replacement, from the distinct tokens of the document; Algorithm 2
(SLALOM-fidel) deletes up to 5 positions of it. `design="uniform"` is both as printed. The default, `design="balanced"`,
draws from the same populations without replacement, in rounds that treat all tokens equally:

- short sequences: a random circle of the V tokens, and one shift vector per round; one round has every token once in
  each place. The first round repeats one token n times, which shows its value (P2, Eq. 44); the second joins neighbors
  of the circle, which links all importances (Eq. 52).
- deletions: the whole document once. One round splits a random order of the T positions into blocks of k, and deletes a
  block at a time. Every size k has one round before any has two; then the sizes even out.

Subsets of any size (`any_size`), which P2 does not use, show the effect of a token when few others are left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._types import Ids

DESIGNS = ("balanced", "uniform")


def short_sequences(
    V: int, num_samples: int, length: int, design: str, rng: np.random.Generator
) -> Ids:
    """Draw samples of Algorithm 1: (n, length) indices of tokens, with n at most the population."""
    if design == "uniform":
        return rng.integers(V, size=(num_samples, length)).astype(np.intp)
    rounds = -(-num_samples // V)
    shifts = np.zeros((rounds, length), dtype=np.intp)
    if V ** (length - 1) <= 1 << 20:
        # A shift vector is a number in base V: 0 repeats a token, 1 joins neighbors, the others come in any order.
        codes = np.r_[0:2, 2 + rng.permutation(max(V ** (length - 1) - 2, 0))][
            : min(rounds, V ** (length - 1))
        ]
        shifts = np.zeros((len(codes), length), dtype=np.intp)
        shifts[:, 1:] = codes[:, None] // V ** np.arange(length - 1) % V
    else:  # too many to list, so repetitions are very unlikely
        shifts[2:, 1:] = rng.integers(V, size=(max(rounds - 2, 0), length - 1))
        shifts[1:2, 1] = 1
    circle = rng.permutation(V)
    return circle[(np.arange(V)[:, None] + shifts[:, None, :]) % V].reshape(-1, length)[
        :num_samples
    ]


def deletions(
    T: int, num_samples: int, max_deletions: int, design: str, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw samples of Algorithm 2: (num_samples, T) masks, True for kept positions (at least one)."""
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
    """Draw subsets of uniform size: (num_samples, T) masks with 1 to T - 1 kept positions (one if T is 1)."""
    kept = 1 + np.floor(
        rng.permutation(np.arange(num_samples)) * max(T - 1, 1) / max(num_samples, 1)
    )
    order = rng.random((num_samples, T)).argsort(axis=1).argsort(axis=1)
    mask: NDArray[np.bool_] = order < kept[:, None]
    return mask


def distinct(sequences: list[Ids]) -> tuple[list[Ids], NDArray[np.intp]]:
    """Return the distinct sequences in order of appearance, and the index of each sequence among them.

    >>> distinct([np.array([1, 2]), np.array([3]), np.array([1, 2])])
    ([array([1, 2]), array([3])], array([0, 1, 0]))
    """
    seen: dict[bytes, int] = {}
    which = np.array(
        [seen.setdefault(sequence.tobytes(), len(seen)) for sequence in sequences], dtype=np.intp
    )
    return [sequences[i] for i in np.unique(which, return_index=True)[1]], which
