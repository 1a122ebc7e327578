"""Array arithmetic of the engine: mixtures and products of factors, sums over players, over nodes
and over batches.

Arrays have the axes (terms r, nodes m, players d). Each trick has its reason at the line;
tests/game/engine/ test_kernels.py compares every kernel with plain NumPy. The rounding of products
and sums is step 7 of docs/what-tol-guarantees.md.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterable

import numpy as np

from ..._types import Array

# Tuning: elements of one working array with nodes p, which about fits into a core's caches
# (benchmarks/shapley).
BATCH_ELEMENTS = 1 << 17
# Tuning: up to this many players matrix products are used. Small ones are several times as fast as
# broadcasting, and no BLAS starts threads for them (benchmarks/shapley).
MATRIX_PLAYERS = 1024

_memory = threading.local()


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep memory that is freed, up to some 32 MB.

    glibc returns freed arrays of more than 128 KB to the system, which clears every page when the
    memory is needed again. For the terms of linked games that took several times as long as the
    arithmetic on them. An array of 16 MB that is freed once, and never written to, raises the limit
    to its size (mallopt(3), "Dynamic mmap threshold"). Other C libraries do not mind.
    """
    elements = 1 << 21
    np.empty(elements)


def workspace(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return two uninitialized arrays, which the next call in the same thread returns again if they
    are small.

    New memory costs as much as the arithmetic on it, because the system clears each page. Only
    `at_probability` asks for it, and what it returns is used up before it is called again.
    """
    size = math.prod(shape)
    if size > 2 * BATCH_ELEMENTS:
        return np.empty(shape), np.empty(shape)
    arrays: Array | None = getattr(_memory, "arrays", None)
    if arrays is None or arrays.shape[1] < size:
        arrays = np.empty((2, max(size, BATCH_ELEMENTS)))
        _memory.arrays = arrays
    first, second = arrays[:, :size]
    return first.reshape(shape), second.reshape(shape)


def points_of(p: Array, r: int) -> Array:
    """Return p and 1 - p side by side, (r, m, 2), for nodes p (m, r) or (m, 1)."""
    points = np.empty((r, len(p), 2))
    present = points[:, :, 0]
    absent = points[:, :, 1]
    present[:] = p.T
    np.subtract(1.0, present, out=absent)
    return points


def mix(points: Array, factor: Array, some_light: bool, out: Array, spare: Array) -> None:
    """Write Y = p x + (1 - p) y to `out` (r, m, d), from points (r, m, 2) and factors (r, 2, d).
    Nothing cancels.
    """
    if out.shape[2] <= MATRIX_PLAYERS:
        np.matmul(points, factor, out=out)
        return
    p = points[:, :, :1]
    q = points[:, :, 1:]
    x = factor[:, :1]
    y = factor[:, 1:]
    np.multiply(p, x, out=out)
    if some_light:
        out += np.multiply(q, y, out=spare)
    else:  # y is 1
        out += q


def product(Y: Array, spare: Array) -> Array:
    """Multiply real factors (r, m, d) over the players; `spare` is memory of the same size.

    NumPy multiplies over the last axis one by one, and over the first axis several columns at a
    time. So few players are transposed first, two at a time as one complex number, because half as
    many numbers move twice as fast. Many players are halved instead, which needs no transpose.
    """
    r, m, d = Y.shape
    if d > MATRIX_PLAYERS:
        return _product_by_halves(Y)
    pairs = d // 2
    columns = r * m
    memory = spare.reshape(-1)[: 2 * pairs * columns]
    across = memory.view(np.complex128).reshape(pairs, columns)
    rows = Y.reshape(columns, d)
    paired = rows[:, : 2 * pairs].view(np.complex128)
    np.copyto(across, paired.T)
    # Read as real numbers again, the columns are the products over the players 0, 2, 4, ... and
    # over 1, 3, 5, ...
    both = np.multiply.reduce(memory.reshape(pairs, 2 * columns), axis=0)
    even = both[0::2]
    odd = both[1::2]
    result = (even * odd).reshape(r, m)
    if d % 2:
        result *= Y[:, :, -1]
    return result


def complex_product(Y: Array, spare: Array) -> Array:
    """Multiply complex factors (r, m, d) over the players; `spare` has as many bytes as Y.
    Transposed as in `product`.
    """
    r, m, d = Y.shape
    if d > MATRIX_PLAYERS:
        return _product_by_halves(Y)
    memory = spare.reshape(-1).view(np.complex128)
    across = memory.reshape(d, r * m)
    rows = Y.reshape(r * m, d)
    np.copyto(across, rows.T)
    return np.multiply.reduce(across, axis=0).reshape(r, m)


def complex_exponential(x: Array) -> Array:
    """Compute e^x of complex numbers, through t = tan(Im x / 2).

    cos and sin are (1 - t^2) / (1 + t^2) and 2 t / (1 + t^2), so one real exponential and one
    tangent take the place of NumPy's complex exponential, which is 10 to 20 times as slow. The
    modulus of the error is at most 11.1 ulps: an angle with the 4 of the tangent, a modulus with 7
    (4 of the exponential, 3 of 1 + t^2 and the quotient), and 3 of the two products.
    """
    t = np.tan(x.imag / 2)
    square = t * t
    size = np.exp(x.real)
    size /= 1 + square
    out = np.empty_like(x)
    np.multiply(1 - square, size, out=out.real)
    t *= 2
    np.multiply(t, size, out=out.imag)
    return out


def _product_by_halves(Y: Array) -> Array:
    """Multiply over the last axis: the first half times the second one, until few are left."""
    # Tuning: a product of factors is halved down to this length, which vectorizes, before it is
    # taken one by one.
    product_at_once = 16
    while Y.shape[-1] > product_at_once:
        half = Y.shape[-1] // 2
        first = Y[..., :half]
        second = Y[..., half : 2 * half]
        shorter = first * second
        if Y.shape[-1] % 2:
            shorter[..., 0] *= Y[..., -1]
        Y = shorter
    return np.multiply.reduce(Y, axis=-1)


def precise_product(points: Array, less: Array, some_light: bool, Y: Array) -> Array:
    """Multiply through log1p(Y - 1), whose rounding is relative to the logarithm, not to the number
    of players.
    """
    p = points[:, :, :1]
    q = points[:, :, 1:]
    change = p * less[:, :1]
    if some_light:
        # One of the two is 0.
        change += q * less[:, 1:]
    # A factor below 1/2 has all of its digits in Y itself.
    large = change < -0.5
    logs = np.log1p(change, out=change)
    if large.any():
        logs[large] = np.log(Y[large])
    return np.exp(np.add.reduce(logs, axis=-1))


def contract(x: Array, y: Array, precise: bool) -> Array:
    """Sum over players: (r, m, d) with (r, 2, d) -> (r, m, 2). NumPy's sum is pairwise; the others
    are not.
    """
    r, m, d = x.shape
    if not precise and d <= MATRIX_PLAYERS:
        return np.matmul(x, y.transpose(0, 2, 1))
    out = np.zeros((r, m, 2))
    for k in (0, 1):
        of_state = y[:, k]
        if not of_state.any():
            continue
        if precise:
            products = x * of_state[:, None, :]
            out[:, :, k] = np.add.reduce(products, axis=-1)
        else:
            out[:, :, k] = np.einsum("rmd,rd->rm", x, of_state)
    return out


def add_nodes(w: Array, x: Array) -> Array:
    """Compute the weighted sum over nodes: (m, r) with (m, r, d) -> (r, d)."""
    if x.shape[2] > MATRIX_PLAYERS:
        return np.einsum("mr,mrd->rd", w, x)
    rows = w.T[:, None, :]
    by_term = x.transpose(1, 0, 2)
    return np.matmul(rows, by_term)[:, 0]


def add_complex_nodes(w: Array, x: Array) -> Array:
    """Compute `add_nodes` of complex numbers, in matrix products that are too small for threads."""
    m, _, d = x.shape
    if d > MATRIX_PLAYERS:
        return np.einsum("mr,mrd->rd", w, x)
    # OpenBLAS starts threads for a complex vector times a matrix of more elements; on a busy
    # machine, waiting for them may take thousands of times as long as the product.
    largest_product = 4095
    step = max(1, largest_product // d)
    rows = w.T[:, None, :]
    by_term = x.transpose(1, 0, 2)
    total: Array | None = None
    for start in range(0, m, step):
        nodes = slice(start, start + step)
        part: Array = np.matmul(rows[:, :, nodes], by_term[:, nodes])[:, 0]
        total = part if total is None else total + part
    assert total is not None  # there is a node
    return total


def products_of_others(Q: Array, R: Array) -> tuple[Array, Array]:
    """Compute for each entry of the last axis the product of all other factors Q with numerators R,
    both (..., n).

    A pair (Q, R) is a product of factors and the sum of the same with one numerator in place of its
    factor, so pairs multiply as (Q, R) (Q', R') = (Q Q', Q R' + R Q'). Neighbors are multiplied,
    and the others of a factor are those of its pair times its neighbor: nothing is divided.

    >>> products_of_others(np.array([2.0, 3.0, 5.0]), np.array([1.0, 0.0, 0.0]))
    (array([15., 10.,  6.]), array([0., 5., 3.]))
    """
    n = Q.shape[-1]
    if n == 1:
        return np.ones_like(Q), np.zeros_like(R)
    if n % 2:
        neutral = np.ones_like(Q[..., :1])
        Q = np.concatenate([Q, neutral], axis=-1)
        R = np.concatenate([R, 0 * neutral], axis=-1)
    even = (Q[..., 0::2], R[..., 0::2])
    odd = (Q[..., 1::2], R[..., 1::2])
    pairs = products_of_others(*_pair_product(even, odd))
    others_Q = np.empty_like(Q)
    others_R = np.empty_like(R)
    for first, neighbor in ((0, odd), (1, even)):
        of_others, numerator = _pair_product(pairs, neighbor)
        others_Q[..., first::2] = of_others
        others_R[..., first::2] = numerator
    return others_Q[..., :n], others_R[..., :n]


def _pair_product(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Multiply two pairs (Q, R) of `products_of_others`."""
    Q, R = first
    other_Q, other_R = second
    return Q * other_Q, Q * other_R + R * other_Q


def sum_in_pairs(arrays: Iterable[Array], zero: Array) -> Array:
    """Sum n arrays pairwise, with log2(n) roundings each instead of n; return `zero` if there are
    none.

    As a binary counter: a sum of 2^k arrays waits for another one of the same size. Arrays are
    added in place.
    """
    # Numbers of arrays, falling powers of two, and their sums.
    waiting: list[tuple[int, Array]] = []
    for array in arrays:
        count = 1
        total = array
        while waiting and waiting[-1][0] == count:
            count = 2 * count
            total = _added(waiting.pop()[1], total)
        waiting.append((count, total))
    if not waiting:
        return zero
    while len(waiting) > 1:
        _, total = waiting.pop()
        count, larger = waiting.pop()
        waiting.append((count, _added(larger, total)))
    return waiting[0][1]


def _added(total: Array, more: Array) -> Array:
    """Add in place; a 0-dimensional sum is a NumPy scalar and becomes a new one."""
    total += more
    return total
