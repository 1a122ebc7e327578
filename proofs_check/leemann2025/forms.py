"""Brute force for P2 in the indexing of the paper: SLALOM, Shapley values, and the transformer of
Appendix B.1.

| paper | here |
|---|---|
| token tau in V | an int, index into `g` and `v` |
| exp(s(tau)), v(tau) | ``g[tau]``, ``v[tau]``, both ``Fraction`` |
| t = [t_1, ..., t_n] | a tuple of ints |
| H^(l), A^(l), s_i | rows of longdouble arrays, one loop a layer |

Plain transcriptions, slow on purpose; nothing of the core is imported.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

Tokens = tuple[int, ...]

#: A vocabulary of four tokens: masses exp(s) and values v. Tokens 0 and 2 share their value, so
#: that the second case of the recovery (Eq. 56) occurs, and one value is negative.
MASSES = (Fraction(3, 2), Fraction(2, 5), Fraction(1), Fraction(7, 3))
VALUES = (Fraction(1), Fraction(-2), Fraction(1), Fraction(1, 2))


def worst(differences: Iterable[Fraction | float | np.floating]) -> float:
    """Largest magnitude, as a float (0.0 means exactly zero when the differences are fractions).

    >>> worst([Fraction(1, 4), Fraction(-1, 2)])
    0.5
    """
    sizes = [abs(float(difference)) for difference in differences]
    # max() alone can lose a NaN.
    return math.nan if any(math.isnan(size) for size in sizes) else max(sizes)


def sequences(vocabulary: int, longest: int, shortest: int = 1) -> Iterator[Tokens]:
    """Every sequence of tokens 0 .. vocabulary-1 with a length between the two bounds.

    >>> list(sequences(2, 2))
    [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    """
    for length in range(shortest, longest + 1):
        yield from itertools.product(range(vocabulary), repeat=length)


def slalom(tokens: Sequence[int], g: Sequence[Fraction], v: Sequence[Fraction]) -> Fraction:
    """Eq. 4: the mean of the values, weighted by the masses.

    >>> slalom((0, 1), (Fraction(3), Fraction(1)), (Fraction(1), Fraction(0)))
    Fraction(3, 4)
    """
    total = sum((g[t] for t in tokens), Fraction(0))
    return sum((g[t] / total * v[t] for t in tokens), Fraction(0))


def slalom_game(
    g: Sequence[Fraction], v: Sequence[Fraction], empty: Fraction = Fraction(0)
) -> Callable[[Iterable[int]], Fraction]:
    """Coalition value F(S) of the players 0 .. n-1, which are tokens that may be deleted; F of
    nobody is `empty`.
    """

    def value(coalition: Iterable[int]) -> Fraction:
        present = tuple(coalition)
        return slalom(present, g, v) if present else empty

    return value


def subsets(players: Sequence[int]) -> Iterator[Tokens]:
    """Every subset, the empty one first."""
    for size in range(len(players) + 1):
        yield from itertools.combinations(players, size)


def shapley_by_orders(value: Callable[[Iterable[int]], Fraction], n: int) -> list[Fraction]:
    """Shapley values from their definition: the mean marginal contribution over all n! orders of
    arrival.

    >>> shapley_by_orders(slalom_game((Fraction(1), Fraction(1)), (Fraction(1), Fraction(0))), 2)
    [Fraction(3, 4), Fraction(-1, 4)]
    """
    phi = [Fraction(0)] * n
    for order in itertools.permutations(range(n)):
        for place, player in enumerate(order):
            phi[player] += value(order[: place + 1]) - value(order[:place])
    return [total / math.factorial(n) for total in phi]


def matrix_rank(rows: Iterable[Sequence[Fraction]]) -> int:
    """Rank by exact Gaussian elimination.

    >>> matrix_rank([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]])
    1
    """
    left = [list(row) for row in rows]
    rank = 0
    for column in range(len(left[0])):
        pivot = next((i for i in range(rank, len(left)) if left[i][column] != 0), None)
        if pivot is None:
            continue
        left[rank], left[pivot] = left[pivot], left[rank]
        for i in range(rank + 1, len(left)):
            factor = left[i][column] / left[rank][column]
            if factor:
                left[i] = [a - factor * b for a, b in zip(left[i], left[rank], strict=True)]
        rank += 1
    return rank


def slalom_jacobian_row(
    tokens: Sequence[int], g: Sequence[Fraction], v: Sequence[Fraction]
) -> list[Fraction]:
    """Derivatives of Eq. 4 by s(0), ..., s(V-1), v(0), ..., v(V-1): alpha_k (v_k - F) and alpha_k,
    alpha_k summed over the occurrences of token k.
    """
    total = sum((g[t] for t in tokens), Fraction(0))
    share = [g[k] * tokens.count(k) / total for k in range(len(g))]
    out = slalom(tokens, g, v)
    return [a * (v_k - out) for a, v_k in zip(share, v, strict=True)] + share


@dataclass(frozen=True)
class Head:
    """One attention head of Eq. 7 to 12; W_* are (d, d_h), b_* (d_h,), P (d_h, d)."""

    W_Q: np.ndarray
    b_Q: np.ndarray
    W_K: np.ndarray
    b_K: np.ndarray
    W_V: np.ndarray
    b_V: np.ndarray
    P: np.ndarray


@dataclass(frozen=True)
class Layer:
    """Heads whose outputs are added to the skip connection, then `ffn` on each row."""

    heads: tuple[Head, ...]
    ffn: Callable[[np.ndarray], np.ndarray]


def attention_matrix(H: np.ndarray, head: Head, causal: bool) -> np.ndarray:
    """Eq. 7, 8, 10: A = rowsoftmax(Q K^T / sqrt(d_h)), entries j > i masked for a decoder; (n,
    n).
    """
    queries = H @ head.W_Q + head.b_Q
    keys = H @ head.W_K + head.b_K
    scores = queries @ keys.T / np.sqrt(np.longdouble(keys.shape[1]))
    A = np.zeros_like(scores)
    for i in range(len(H)):
        reach = i + 1 if causal else len(H)
        weights = np.exp(scores[i, :reach] - scores[i, :reach].max())
        A[i, :reach] = weights / weights.sum()
    return A


def hidden_states(
    embeddings: np.ndarray, layers: Sequence[Layer], causal: bool
) -> list[np.ndarray]:
    """H^(0), ..., H^(L) of Eq. 3 and 12, each (n, d)."""
    states = [embeddings]
    for layer in layers:
        H = states[-1]
        inner = H.copy()
        for head in layer.heads:
            inner = inner + attention_matrix(H, head, causal) @ (H @ head.W_V + head.b_V) @ head.P
        states.append(np.array([layer.ffn(row) for row in inner]))
    return states


def log_odds(
    embeddings: np.ndarray, layers: Sequence[Layer], W_class: np.ndarray, causal: bool
) -> np.longdouble:
    """F(t) of Eq. 13: difference of the two logits at r = 1 (encoder) or r = |t| (decoder)."""
    last = hidden_states(embeddings, layers, causal)[-1]
    logits = W_class @ last[-1 if causal else 0]
    return logits[1] - logits[0]


def random_transformer(
    seed: int, vocabulary: int, depth: int, heads: int, d: int = 5, d_h: int = 3
) -> tuple[np.ndarray, list[Layer], np.ndarray]:
    """Embeddings (V, d), layers with a tanh network and its own skip connection as ffn, W_class (2,
    d); longdouble.
    """
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.longdouble)

    def feed_forward() -> Callable[[np.ndarray], np.ndarray]:
        W_1 = draw(7, d)
        b_1 = draw(7)
        W_2 = draw(d, 7) / 3
        return lambda z: z + W_2 @ np.tanh(W_1 @ z + b_1)

    layers = [
        Layer(
            tuple(
                Head(
                    draw(d, d_h),
                    draw(d_h),
                    draw(d, d_h),
                    draw(d_h),
                    draw(d, d_h),
                    draw(d_h),
                    draw(d_h, d),
                )
                for _ in range(heads)
            ),
            feed_forward(),
        )
        for _ in range(depth)
    ]
    return draw(vocabulary, d), layers, draw(2, d)
