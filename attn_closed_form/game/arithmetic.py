"""The inner loops of the engine on arrays (rows, nodes, players): factors, their products, sums over players and nodes.

Up to MATRIX_PLAYERS players the work is done by small matrix products, which NumPy hands to BLAS one by one: they are
several times as fast as broadcasting, and too small for any BLAS to start threads for them. Beyond, plain array
operations serve, which never start threads either.

Rounding, in ulps: a factor Y is right to 7, and a plain product of d factors to 8 d. Through logarithms the error of a
factor 1 - x is relative to x, so that of the product does not depend on d. A sum over players costs d ulps as a matrix
product and about 20 as NumPy's pairwise sum, which is taken where the budget asks for precision.
"""

from __future__ import annotations

import math
import threading

import numpy as np

from .._types import Array

# Elements of one working array with nodes p: about what a core's caches hold.
BATCH_ELEMENTS = 1 << 17
# Up to this many players matrix products are used: small ones are fast, and no BLAS makes threads for them.
MATRIX_PLAYERS = 1024
# A product of factors is halved down to this length, which vectorises, before it is taken one by one.
PRODUCT_AT_ONCE = 16

_memory = threading.local()


def workspace(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Two uninitialised arrays. Small ones are kept per thread: fresh memory costs more than the arithmetic on it."""
    size = math.prod(shape)
    if size > 2 * BATCH_ELEMENTS:
        return np.empty(shape), np.empty(shape)
    kept: Array | None = getattr(_memory, "arrays", None)
    if kept is None or kept.shape[1] < size:
        kept = _memory.arrays = np.empty((2, max(size, BATCH_ELEMENTS)))
    return kept[0, :size].reshape(shape), kept[1, :size].reshape(shape)


def mix(points: Array, factor: Array, some_light: bool, out: Array, spare: Array) -> None:
    """Y into `out` (r, m, d): p x + (1 - p) y from points (r, m, 2) and factors (r, 2, d). Nothing cancels."""
    if out.shape[2] <= MATRIX_PLAYERS:
        np.matmul(points, factor, out=out)
        return
    np.multiply(points[:, :, :1], factor[:, :1], out=out)
    if some_light:
        out += np.multiply(points[:, :, 1:], factor[:, 1:], out=spare)
    else:  # y is 1
        out += points[:, :, 1:]


def product(Y: Array, spare: Array) -> Array:
    """Product over the last axis: of a transposed copy where it is short, of ever shorter halves where it is long."""
    r, m, d = Y.shape
    if d <= MATRIX_PLAYERS:
        # Two players at a time, as one complex number, are moved to a transposed copy.
        pairs = d // 2
        across = spare.reshape(-1)[: 2 * pairs * r * m].view(np.complex128).reshape(pairs, r * m)
        np.copyto(across, Y.reshape(r * m, d)[:, : 2 * pairs].view(np.complex128).T)
        both = np.multiply.reduce(across.view(np.float64).reshape(pairs, 2 * r * m), axis=0)
        every = (both[0::2] * both[1::2]).reshape(r, m)
        if d % 2:
            every *= Y[:, :, -1]
        return every
    while Y.shape[-1] > PRODUCT_AT_ONCE:
        half = Y.shape[-1] // 2
        shorter = Y[..., :half] * Y[..., half : 2 * half]
        if Y.shape[-1] % 2:
            shorter[..., 0] *= Y[..., -1]
        Y = shorter
    return np.multiply.reduce(Y, axis=-1)


def precise_product(points: Array, less: Array, some_light: bool, Y: Array) -> Array:
    """The same through log1p(Y - 1): its rounding is relative to the logarithm, not to the number of players."""
    change = points[:, :, :1] * less[:, :1]
    if some_light:
        change += points[:, :, 1:] * less[:, 1:]  # one of the two is 0
    large = change < -0.5
    logs = np.log1p(change, out=change)
    if large.any():
        logs[large] = np.log(Y[large])
    return np.exp(np.add.reduce(logs, axis=-1))


def contract(x: Array, y: Array, precise: bool) -> Array:
    """Sums over players: (r, m, d) with (r, 2, d) -> (r, m, 2). NumPy's own sum is pairwise, the others are not."""
    r, m, d = x.shape
    if not precise and d <= MATRIX_PLAYERS:
        return np.matmul(x, y.transpose(0, 2, 1))
    out = np.zeros((r, m, 2))
    for k in (0, 1):
        if y[:, k].any():
            out[:, :, k] = (
                np.add.reduce(x * y[:, k, None, :], axis=-1) if precise else np.einsum("rmd,rd->rm", x, y[:, k])
            )
    return out


def add_nodes(w: Array, x: Array) -> Array:
    """Weighted sum over nodes: (m, r) with (m, r, d) -> (r, d)."""
    if x.shape[2] > MATRIX_PLAYERS:
        return np.einsum("mr,mrd->rd", w, x)
    return np.matmul(w.T[:, None, :], x.transpose(1, 0, 2))[:, 0]
