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
from numpy.typing import NDArray

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


def factors(E: Array, G: Array, light: NDArray[np.bool_] | None, p: Array, out: Array) -> None:
    """Y into `out` (r, m, d), without cancellation, so that it keeps its digits where it is small."""
    if light is None:
        _lines(1 - p, G, E, out)
        return
    # Being absent is the state with factor 1 for a heavy player, being present for a light one. Where p is not near 1
    # (not near 0) a line in p (in 1 - p) will do for both, since nothing cancels.
    signed = np.where(light, G, -G)
    below = np.maximum.reduce(p, axis=0) <= 0.75
    low = below.size if below.all() else int(below.argmin())
    if low:
        _lines(p[:, :low], signed, np.where(light, E, 1.0), out[:, :low])
    if low == below.size:
        return
    if p[:, low:].min() >= 0.25:
        _lines(p[:, low:] - 1, signed, np.where(light, 1.0, E), out[:, low:])
    else:
        np.multiply(
            np.where(light[:, None, :], p[:, low:, None], 1 - p[:, low:, None]), G[:, None, :], out=out[:, low:]
        )
        out[:, low:] += E[:, None, :]


def _lines(t: Array, slope: Array, start: Array, out: Array) -> None:
    """Start + t slope for every row, node and player: t (r, m), slope and start (r, d), out (r, m, d)."""
    if out.shape[2] > MATRIX_PLAYERS:
        np.multiply(t[:, :, None], slope[:, None, :], out=out)
        out += start[:, None, :]
    else:
        points, lines = np.ones((*t.shape, 2)), np.empty((len(slope), 2, slope.shape[1]))
        points[:, :, 0] = t
        lines[:, 0], lines[:, 1] = slope, start
        np.matmul(points, lines, out=out)


def product(Y: Array, spare: Array) -> Array:
    """Product over the last axis: of a transposed copy where it is short, of ever shorter halves where it is long."""
    r, m, d = Y.shape
    if d <= MATRIX_PLAYERS:
        across = spare.reshape(d, r * m)
        np.copyto(across, Y.reshape(r * m, d).T)
        return np.multiply.reduce(across, axis=0).reshape(r, m)
    while Y.shape[-1] > PRODUCT_AT_ONCE:
        half = Y.shape[-1] // 2
        shorter = Y[..., :half] * Y[..., half : 2 * half]
        if Y.shape[-1] % 2:
            shorter[..., 0] *= Y[..., -1]
        Y = shorter
    return np.multiply.reduce(Y, axis=-1)


def precise_product(Y: Array, G: Array, light: NDArray[np.bool_] | None, p: Array) -> Array:
    """The same through log1p(-q G): its rounding is relative to the logarithm, not to the number of players."""
    x = (p if light is None else np.where(light[:, None, :], 1 - p, p)) * G[:, None, :]
    large = x > 0.5
    logs = np.log1p(np.negative(x, out=x), out=x)
    if large.any():
        logs[large] = np.log(Y[large])
    return np.exp(np.add.reduce(logs, axis=-1))


def contract(x: Array, y: Array, precise: bool) -> Array:
    """Sum over players: (r, m, d) with (r, d) -> (r, m). NumPy's own sum is pairwise, the others are not."""
    if precise:
        return np.add.reduce(x * y[:, None, :], axis=-1)
    if x.shape[2] > MATRIX_PLAYERS:
        return np.einsum("rmd,rd->rm", x, y)
    return np.matmul(x, y[:, :, None])[:, :, 0]


def add_nodes(w: Array, x: Array) -> Array:
    """Weighted sum over nodes: (m, r) with (m, r, d) -> (r, d)."""
    if x.shape[2] > MATRIX_PLAYERS:
        return np.einsum("mr,mrd->rd", w, x)
    return np.matmul(w.T[:, None, :], x.transpose(1, 0, 2))[:, 0]
