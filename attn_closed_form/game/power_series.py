"""Rows of many players in a fraction of the time: power series in p, whose coefficients do not depend on the node.

Where thousands of players are heavy when present (deletions above all), only small p count (`node_counts.py`, "Short
intervals"), and with g = 1 - x, q = p max(g) is small. Every player's factor is Y = 1 - p g, so

    sum_k log Y_k  = - sum_i p^i G_i / i,          G_i = sum_k g_k^i
    sigma_k        = sum_i p^i g_k^i               sigma_k^2 = sum_i (i + 1) p^i g_k^i
    num            = n_0 + sum_i p^i [ p sum_k g_k^i T_k,present + (1 - p) sum_k g_k^i T_k,absent ].

With J terms the players are gone through J times, once for the sums and once for the two polynomials in g that Delta_j
is made of, instead of once for every node. All terms of each series are positive. Left out are, relative to the whole,
less than q^J of sigma, (J + 1) q^J / (1 - q)^2 of sigma^2, and q^(J-1) / (1 - q) of the logarithm, which is at most
-X / (1 - q), X = p G_1, so that e^-X X <= 1/e bounds its error as it does that of its rounding. J makes the largest of
these an eighth of an ulp.
"""

from __future__ import annotations

import numpy as np

from .._types import Array
from .arithmetic import MATRIX_PLAYERS
from .rows import Rows

# Largest q: beyond, J is as large as the number of nodes.
LARGEST_Q = 0.2
# What the terms that are left out may make, relative to what is kept: an eighth of an ulp.
LEFT_OUT = 2.0**-56
# Terms that cost as much as one node.
TERMS_PER_NODE = 2.0
# Elements (rows times players) of one working array: a few of them fit into a core's cache.
BLOCK_ELEMENTS = 1 << 15


def terms_needed(rows: Rows, p: Array) -> int:
    """J for these rows at nodes p (m, r) or (m, 1); 0 if going through the nodes one by one costs less.

    Up to MATRIX_PLAYERS players matrix products do.
    """
    if rows.masses.some_light or rows.factor.shape[2] <= MATRIX_PLAYERS:
        return 0
    q = float(np.max(np.max(p, axis=0) * rows.largest_change)) * (1 + 1e-12)
    J = count_terms(q)
    return J if TERMS_PER_NODE * len(p) >= J else 0


def count_terms(q: float) -> int:
    """The smallest J for this q; as large as can be if q is too large.

    >>> count_terms(0.01), count_terms(0.1)
    (9, 19)
    """
    if not q <= LARGEST_Q:
        return 1 << 30
    J = 2
    while max((J + 1) * q**J / (1 - q) ** 2, q ** (J - 1) / (J * (1 - q))) > LEFT_OUT:
        J += 1
    return J


def evaluate_series(rows: Rows, p: Array, w_mean: Array, w_delta: Array, J: int) -> tuple[Array, Array]:
    """What `engine.evaluate` returns for rows with these nodes and weights (as in `engine.Batch`), by J terms."""
    P, num, powers = _flip(rows, p, J)
    Pn = P * num
    mean = np.add.reduce(np.add.reduce(w_mean * Pn, axis=2), axis=1)
    # (b, J, r): what the polynomials in g have for coefficients.
    by_X = np.einsum("bmr,jmr->bjr", w_delta * Pn, powers)
    by_Z = np.einsum("bmr,jmr->bjr", w_delta * P, powers) * np.arange(1.0, J + 1)[:, None]
    delta = np.empty((len(by_X), rows.factor.shape[2]))
    for block in _blocks(rows):
        g, S = -rows.difference[:, block], rows.S[:, block]
        for k, (X, Z) in enumerate(zip(by_X, by_Z, strict=True)):
            change = _polynomial(Z, g)
            change *= S
            of_X = _polynomial(X, g)
            of_X *= g
            change -= of_X
            np.add.reduce(change, axis=0, out=delta[k, block])
    return mean, delta


def _flip(rows: Rows, p: Array, J: int) -> tuple[Array, Array, Array]:
    """P and num as in `engine.flip`, (m, r) each, and the powers p^0, ..., p^(J-1), (J, m, r)."""
    r = len(rows.lam)
    powers = np.ones((J, len(p), r))
    np.multiply.accumulate(np.broadcast_to(p, (J - 1, len(p), r)), axis=0, out=powers[1:])
    kinds = 2 if rows.masses.some_absent_value else 1
    blocks = list(_blocks(rows))
    # One entry per block, so that they are added up in pairs: G_0, G_1, ..., then the sums with T.
    sums = np.empty((1 + kinds, J, r, len(blocks)))
    for b, block in enumerate(blocks):
        g, T = -rows.difference[:, block], rows.T[:, :kinds, block]
        power, spare = np.ones_like(g), np.empty_like(g)
        for i in range(J):
            np.add.reduce(power, axis=1, out=sums[0, i, :, b])
            for kind in range(kinds):
                np.add.reduce(np.multiply(power, T[:, kind], out=spare), axis=1, out=sums[1 + kind, i, :, b])
            power *= g
    G, *N = np.add.reduce(sums, axis=3)
    log_product = np.einsum("jmr,jr->mr", powers[1:], G[1:] / np.arange(1.0, J)[:, None])
    num = p * np.einsum("jmr,jr->mr", powers, N[0])
    if kinds == 2:
        num += (1 - p) * np.einsum("jmr,jr->mr", powers, N[1])
    return rows.weight * np.exp(-log_product), num + rows.n_0, powers


def _polynomial(coefficients: Array, g: Array) -> Array:
    """sum_i c_i g^i by Horner's rule: (J, r) at (r, n)."""
    out = np.multiply(g, coefficients[-1][:, None])
    for c in coefficients[-2:0:-1]:
        out += c[:, None]
        out *= g
    out += coefficients[0][:, None]
    return out


def _blocks(rows: Rows) -> list[slice]:
    r, _, d = rows.factor.shape
    step = max(1, BLOCK_ELEMENTS // r)
    return [slice(start, start + step) for start in range(0, d, step)]
