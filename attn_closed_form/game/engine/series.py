"""Power series in p for terms of thousands of players, all of which are heavy when present
(deletions above all).

There only small p count, and with g = 1 - x, q = p max(g) is small. Every player's factor is Y = 1
- p g, so

    sum_k log Y_k  = - sum_i p^i G_i / i,          G_i = sum_k g_k^i
    sigma_k        = sum_i p^i g_k^i               sigma_k^2 = sum_i (i + 1) p^i g_k^i
    num            = n_0 + sum_i p^i [ p sum_k g_k^i T_k,present + (1 - p) sum_k g_k^i T_k,absent ].

With J powers the players are gone through twice J times instead of once for every node. All terms
are positive, and J is such that the omitted part is at most an eighth of an ulp
(docs/theory/bounds-of-the-engine.md, "Power series").
"""

from __future__ import annotations

import numpy as np

from ..._types import Array
from .rounding import SERIES_REMAINDER, SERIES_ROOM
from .terms import Terms

# Tuning: largest q of a power series. Beyond it, J is as large as the number of nodes
# (benchmarks/bag_speed).
LARGEST_Q = 0.2


def series_length(terms: Terms, p: Array) -> int:
    """Return J for these terms at nodes p (m, r) or (m, 1), or 0 if evaluating the nodes one by one
    is cheaper.
    """
    if terms.masses.some_light:
        return 0
    largest_p = np.max(p, axis=0)
    q = float(np.max(largest_p * terms.largest_change)) * SERIES_ROOM
    J = count_powers(q)
    # Tuning: powers that cost as much as one node (benchmarks/bag_speed).
    powers_per_node = 2.0
    if powers_per_node * len(p) >= J:
        return J
    return 0


def count_powers(q: float) -> int:
    """Return the smallest J for this q, or a very large number if q is too large."""
    if not q <= LARGEST_Q:
        # More powers than any number of nodes is worth.
        return 1 << 30
    J = 2
    while _remainder(q, J) > SERIES_REMAINDER:
        J += 1
    return J


def _remainder(q: float, J: int) -> float:
    """Return the largest part, relative to the whole, that J powers leave out of sigma^2 and of the
    logarithm.
    """
    of_square = (J + 1) * q**J / (1 - q) ** 2
    of_logarithm = q ** (J - 1) / (J * (1 - q))
    return max(of_square, of_logarithm)


def sums_by_series(
    terms: Terms, p: Array, mean_weights: Array | None, first_weights: Array | None, J: int
) -> tuple[Array, Array]:
    """Compute the result of `evaluate.weighted_sums` for terms at these nodes by J powers."""
    P, num, powers = _at_probability(terms, p, J)
    P_num = P * num
    mean = np.zeros(0)
    if mean_weights is not None:
        by_node = np.add.reduce(mean_weights * P_num, axis=2)
        mean = np.add.reduce(by_node, axis=1)
    if first_weights is None:
        return mean, np.zeros(0)
    # (b, J, r) coefficients of the polynomials in g that X and Z are.
    by_X = np.einsum("bmr,jmr->bjr", first_weights * P_num, powers)
    by_Z = np.einsum("bmr,jmr->bjr", first_weights * P, powers)
    of_square = np.arange(1.0, J + 1)
    by_Z = by_Z * of_square[:, None]
    d = terms.factor.shape[2]
    first = np.empty((len(by_X), d), dtype=terms.factor.dtype)
    for block in _blocks(terms):
        g = -terms.difference[:, block]
        S = terms.S[:, block]
        for k in range(len(by_X)):
            change = _polynomial(by_Z[k], g)
            change *= S
            of_X = _polynomial(by_X[k], g)
            of_X *= g
            change -= of_X  # X is -g sigma
            np.add.reduce(change, axis=0, out=first[k, block])
    return mean, first


def _at_probability(terms: Terms, p: Array, J: int) -> tuple[Array, Array, Array]:
    """Compute P and num at nodes p (m, r) or (m, 1), (m, r) each, and the powers p^0, ..., p^(J-1),
    (J, m, r).
    """
    r = len(terms.lam)
    m = len(p)
    powers = np.ones((J, m, r))
    repeated = np.broadcast_to(p, (J - 1, m, r))
    np.multiply.accumulate(repeated, axis=0, out=powers[1:])
    # Players present, and players absent unless they add nothing.
    states = 2 if terms.masses.some_absent_value else 1
    blocks = _blocks(terms)
    # One entry per block, so that they are added up in pairs: the sums G, then those with T.
    shape = (1 + states, J, r, len(blocks))
    sums = np.empty(shape, dtype=terms.factor.dtype)
    for b, block in enumerate(blocks):
        g = -terms.difference[:, block]
        T = terms.T[:, :states, block]
        power = np.ones_like(g)
        spare = np.empty_like(g)
        for i in range(J):
            np.add.reduce(power, axis=1, out=sums[0, i, :, b])
            for state in range(states):
                np.multiply(power, T[:, state], out=spare)
                np.add.reduce(spare, axis=1, out=sums[1 + state, i, :, b])
            power *= g
    totals = np.add.reduce(sums, axis=3)
    G = totals[0]
    power_numbers = np.arange(1.0, J)
    coefficients = G[1:] / power_numbers[:, None]
    log_product = np.einsum("jmr,jr->mr", powers[1:], coefficients)
    num = p * np.einsum("jmr,jr->mr", powers, totals[1])
    if states == 2:
        num += (1 - p) * np.einsum("jmr,jr->mr", powers, totals[2])
    num = num + terms.n_0
    P = terms.weight * np.exp(-log_product)
    return P, num, powers


def _polynomial(coefficients: Array, g: Array) -> Array:
    """Compute sum_i c_i g^i by Horner's rule: (J, r) at (r, n)."""
    columns = coefficients[:, :, None]
    out = np.multiply(g, columns[-1])
    for c in columns[-2:0:-1]:
        out += c
        out *= g
    out += columns[0]
    return out


def _blocks(terms: Terms) -> list[slice]:
    """Return parts of the players whose arrays fit into a cache."""
    r, _, d = terms.factor.shape
    # Tuning: elements (terms times players) of one working array of a series: a few of them fit
    # into a core's cache (benchmarks/bag_speed).
    series_elements = 1 << 15
    step = max(1, series_elements // r)
    return [slice(start, start + step) for start in range(0, d, step)]
