"""Mean values of a pooled game under a law, within `tol`: exact, in O(L m d).

Every value of the library that has a guarantee comes from here, except for the recursion over sizes (`by_size.py`) and
Owen values. With the letters of `terms.py`, every player present with probability p, independently, and

    Y = p x + (1 - p) y,   sigma = 1/Y,   P = w e^(-lam D_0) prod_k Y_k,
    num       = n_0 + sum_k sigma_k (p x_k A_k + (1 - p) y_k B_k),

1/D = sum_l w_l e^(-lam_l D) (`exponential_sums.py`) makes

    E_p[f]    = sum_l P num
    Delta_j   = E_p[f | j present] - E_p[f | j absent] = sum_l P [ X_j num + Z_j ],   X = (x - y) sigma,   Z = S sigma^2
    I_ij      = second difference in i, j = sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ].

A **statistic** is one of these, and a **law** (`laws.py`) what is done with it as a function of p. `evaluate` is the
one place where a game's units, its budget and its empty coalition are dealt with. Values are centered in each head, and
the sums count f of a coalition without any mass as `game.base`. What is missing is `empty_excess` times the
probability that all players are absent but the k players of a k-th difference, with the sign of a difference: (-1)^k
alone(d - k).

**Arithmetic.** Up to MATRIX_PLAYERS players the work is done by small matrix products, which are several times as fast
as broadcasting and too small for any BLAS to start threads for them. Beyond, plain array operations do it. The rounding
of products and sums is step 7 of docs/what-tol-guarantees.md.

**Power series.** Where thousands of players are heavy when present (deletions above all), only small p count, and with
g = 1 - x, q = p max(g) is small. Every player's factor is Y = 1 - p g, so

    sum_k log Y_k  = - sum_i p^i G_i / i,          G_i = sum_k g_k^i
    sigma_k        = sum_i p^i g_k^i               sigma_k^2 = sum_i (i + 1) p^i g_k^i
    num            = n_0 + sum_i p^i [ p sum_k g_k^i T_k,present + (1 - p) sum_k g_k^i T_k,absent ].

With J powers the players are gone through twice J times instead of once for every node. All terms are positive, and J
is such that the omitted part is at most an eighth of an ulp (docs/theory/bounds-of-the-engine.md, "Power series").
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._types import Array, Ids
from ..game_sum import GameSum
from ..links import LinkedGame, PoleGame
from ..pooled_game import PooledGame, finite, times_power
from .budget import ULP, Budget, budget
from .laws import Batch, Law, Nodes
from .terms import MOST_TERMS, Terms, terms_of

# Elements of one working array with nodes p, which about fits into a core's caches.
BATCH_ELEMENTS = 1 << 17
# The same for complex terms, of which several working arrays are alive at once.
COMPLEX_ELEMENTS = 1 << 16
# Up to this many players matrix products are used: small ones are fast, and no BLAS makes threads for them.
MATRIX_PLAYERS = 1024
# OpenBLAS starts threads for a complex vector times a matrix of more elements; on a busy machine, waiting for them may
# take thousands of times as long as the product.
COMPLEX_PRODUCT = 4095
# A product of factors is halved down to this length, which vectorizes, before it is taken one by one.
PRODUCT_AT_ONCE = 16
# No complex term is divided by a |Y| below this, because the term of that player, which cancels, would lose its digits.
LEAST_FACTOR = 0.05
# Nor by one below this, next to which the square of 1/Y would leave float64.
LEAST_MODULUS = 1e-100
# Largest q of a power series; beyond it, J is as large as the number of nodes.
LARGEST_Q = 0.2
# Limit on the omitted powers relative to those that are kept: an eighth of an ulp.
LEFT_OUT = 2.0**-56
# Powers that cost as much as one node.
POWERS_PER_NODE = 2.0
# Elements (terms times players) of one working array of a series: a few of them fit into a core's cache.
BLOCK_ELEMENTS = 1 << 15

_memory = threading.local()


Game = PooledGame | LinkedGame


class Statistic(NamedTuple):
    """The quantity that is averaged: a k-th difference of E_p[f].

    players : k, the players that are fixed
    axes : of players that the result has
    amplification : factor by which an error of a mean difference is multiplied
    sums : from terms, a batch of nodes and whether products go through logarithms, to weighted sums over the nodes
    """

    players: int
    axes: int
    amplification: float
    sums: Callable[[Terms, Batch, bool], Array]


def evaluate(
    game: Game | GameSum, law: Law, statistic: Statistic, tol: float, amplification: float = 1.0
) -> Array:
    """Compute the statistic's mean under the law, with |error| <= tol / amplification * max|f| or a ToleranceError.

    Parameters
    ----------
    game : PooledGame
    law : the law over p
    statistic : MEAN, FIRST, PAIRS or `row(player)`
    tol : relative accuracy
    amplification : factor by which the caller multiplies the result's error

    Returns
    -------
    () for MEAN, (d,) for FIRST and a row, (d, d) for PAIRS; the diagonal of second differences has no meaning

    Examples
    --------
    >>> from .laws import Point
    >>> game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> round(float(evaluate(game, Point(0.5), MEAN, 1e-10)), 6)      # the mean of 0, 1/2, 3/2, 4/3
    0.833333
    >>> evaluate(game, Point(0.5), FIRST, 1e-10).round(6)             # Banzhaf values
    array([0.166667, 1.166667])
    """
    if isinstance(game, GameSum):
        return game.combine(
            lambda part, part_tol: evaluate(part, law, statistic, part_tol),
            of_constant=law.alone(0) if statistic.players == 0 else 0.0,
            tol=tol / amplification,
        )
    k = statistic.players
    d = game.d
    amplification *= law.total * statistic.amplification
    engine = game.within(tol / amplification)
    goal = budget(engine, tol, amplification, doubt=ULP * law.rounding)
    sums = np.zeros((d,) * statistic.axes)
    if k > d:
        return sums
    parts = batch_sums(engine, goal, law, statistic.sums, differences=k > 0)
    sums = sum_in_pairs(parts, sums)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = times_power(sums, engine.exponent)
        if k == 0:
            sums = sums + engine.base * law.alone(0)
        if engine.can_be_empty:
            sums = sums + (-1) ** k * engine.empty_excess * law.alone(d - k)
    return finite(sums)


def batch_sums(
    game: PooledGame | PoleGame,
    goal: Budget,
    law: Nodes,
    sums: Callable[[Terms, Batch, bool], Array],
    differences: bool = True,
) -> Iterator[Array]:
    """Yield the sums of every batch of every chunk of terms, in units of 2^exponent."""
    for terms in terms_of(game, goal):
        for batch in law.batches(terms, goal.p_error, differences):
            yield sums(terms, batch, goal.precise).real


def sum_in_pairs(arrays: Iterable[Array], nothing: Array) -> Array:
    """Sum n arrays pairwise, with log2(n) roundings each instead of n; return `nothing` if there are none."""
    sums: list[tuple[int, Array]] = []  # numbers of arrays, powers of two that fall, and their sums
    for array in arrays:
        count = 1
        total = array
        while sums and sums[-1][0] == count:
            count = 2 * count
            total = _added(sums.pop()[1], total)
        sums.append((count, total))
    while len(sums) > 1:
        count, total = sums.pop()
        sums[-1] = (sums[-1][0], _added(sums[-1][1], total))
    return sums[0][1] if sums else nothing


def _added(total: Array, more: Array) -> Array:
    total += more
    return total


# --- terms at nodes ---------------------------------------------------------------------------------------------


Flips = tuple[Array, Array, Array, NDArray[np.bool_] | None]


def flip(terms: Terms, p: Array, precise: bool) -> Flips:
    """Compute P, num (m, r) and sigma (m, r, d) of the module docstring at nodes p (m, r) or (m, 1).

    sigma is in memory that the next call of this thread reuses. For complex terms, all three are 0 at nodes where
    p x and (1 - p) y of some player nearly cancel; the last result marks them, (r, m) or None.
    """
    some_light = terms.masses.some_light
    r, _, d = terms.factor.shape
    points = np.empty((r, len(p), 2))
    points[:, :, 0] = p.T
    np.subtract(1.0, points[:, :, 0], out=points[:, :, 1])
    if np.iscomplexobj(terms.factor):
        return _complex_flip(terms, points)
    Y, spare = workspace((r, len(p), d))
    mix(points, terms.factor, some_light, Y, spare)
    if precise and terms.less is not None:
        every = precise_product(points, terms.less, some_light, Y)
    else:
        every = product(Y, spare)
    every *= terms.weight[:, None]
    sigma = np.divide(1.0, Y, out=Y)
    sums = contract(sigma, terms.T, precise)
    sums *= points
    num = sums[:, :, 0] + sums[:, :, 1]
    num += terms.n_0[:, None]
    return every.T, num.T, sigma.transpose(1, 0, 2), None


def _complex_flip(terms: Terms, points: Array) -> Flips:
    r, m, d = *points.shape[:2], terms.factor.shape[2]
    numbers, spare = workspace((r, m, 2 * d))
    # Real and imaginary parts side by side: p is real, and numbers of one kind multiply several times as fast.
    np.matmul(points, np.ascontiguousarray(terms.factor).view(np.float64), out=numbers)
    Y: Any = numbers.view(np.complex128)
    every = product(Y, spare)
    every *= terms.weight[:, None]
    # 1/Y is the conjugate of Y over |Y|^2, several times as fast as a complex division.
    np.multiply(numbers, numbers, out=spare)
    squares = spare[:, :, 0::2] + spare[:, :, 1::2]
    left_out = None
    if np.minimum.reduce(squares, axis=None) < LEAST_FACTOR**2:
        left_out = np.minimum.reduce(squares, axis=2) < LEAST_FACTOR**2
        term, node = np.nonzero(left_out)
        moduli = (points[term, node, :, None] * np.abs(terms.factor[term])).sum(axis=1)
        least = np.maximum(LEAST_FACTOR * moduli, LEAST_MODULUS)
        left_out[term, node] = (np.abs(Y[term, node]) < least).any(axis=1)
        every[left_out] = 0.0
        Y[left_out] = 0.0
        squares[left_out] = 1.0
    np.divide(1.0, squares, out=squares)
    spare[:, :, 0::2] = squares
    np.negative(squares, out=spare[:, :, 1::2])
    numbers *= spare
    sums = np.matmul(Y, terms.T.transpose(0, 2, 1))
    sums *= points
    num = sums[:, :, 0] + sums[:, :, 1]
    num += terms.n_0[:, None]
    return every.T, num.T, Y.transpose(1, 0, 2), left_out


class Vanishing(NamedTuple):
    """Nodes of complex terms at which some Y nearly cancels: weights w, factors and masses of n of them."""

    node: Ids  # (n,) indices of nodes
    term: Ids  # (n,) indices of terms
    weight: Array  # (n,) of the terms
    p: Array  # (n,)
    factor: Array  # (n, 2, d) x and y
    V: Array  # (n, 2, d) masses
    n_0: Array  # (n,)

    def products(self) -> tuple[Array, Array]:
        """Compute P num (n,) and P [X_j num + Z_j] (n, d) from products of all other players, without division."""
        share = np.stack([self.p, 1 - self.p], axis=1)[:, :, None]
        Y = (share * self.factor).sum(axis=1)
        T = (share * self.factor * self.V).sum(axis=1)
        Q, R = products_of_others(Y, T)
        R += Q * self.n_0[:, None]
        x = self.factor[:, 0]
        y = self.factor[:, 1]
        first = (x - y) * R + (x * self.V[:, 0] - y * self.V[:, 1]) * Q
        return self.weight * (R[:, 0] * Y[:, 0] + Q[:, 0] * T[:, 0]), self.weight[:, None] * first

    def second(self, i: int) -> Array:
        """Compute P [num X_i X_j + X_i Z_j + Z_i X_j] (n, d), the change of first differences when i is present."""
        changes = []
        for k in (0, 1):
            fixed = self.factor.copy()
            V = self.V.copy()
            weight = self.weight * fixed[:, k, i]
            n_0 = self.n_0 + V[:, k, i]
            fixed[:, :, i] = 1.0
            V[:, :, i] = 0.0
            changes.append(self._replace(factor=fixed, V=V, weight=weight, n_0=n_0).products()[1])
        return changes[0] - changes[1]


def products_of_others(Q: Array, R: Array) -> tuple[Array, Array]:
    """Compute for each entry of the last axis the product of all other factors Q with numerators R, both (..., n).

    A pair (Q, R) is a product of factors and the sum of the same with one numerator in place of its factor, so pairs
    multiply as (Q, R) (Q', R') = (Q Q', Q R' + R Q'). Neighbors are multiplied, and the others of a factor are those of
    its pair times its neighbor: nothing is divided.

    >>> products_of_others(np.array([2.0, 3.0, 5.0]), np.array([1.0, 0.0, 0.0]))
    (array([15., 10.,  6.]), array([0., 5., 3.]))
    """
    n = Q.shape[-1]
    if n == 1:
        return np.ones_like(Q), np.zeros_like(R)
    if n % 2:
        one = np.ones_like(Q[..., :1])
        Q = np.concatenate([Q, one], axis=-1)
        R = np.concatenate([R, 0 * one], axis=-1)
    near = Q[..., 0::2]
    far = Q[..., 1::2]
    near_R = R[..., 0::2]
    far_R = R[..., 1::2]
    of_pairs, of_pairs_R = products_of_others(near * far, near * far_R + near_R * far)
    others = np.empty_like(Q)
    others_R = np.empty_like(R)
    for k, (neighbor, neighbor_R) in enumerate(((far, far_R), (near, near_R))):
        others[..., k::2] = of_pairs * neighbor
        others_R[..., k::2] = of_pairs * neighbor_R + of_pairs_R * neighbor
    return others[..., :n], others_R[..., :n]


def vanishing(terms: Terms, p: Array, left_out: NDArray[np.bool_] | None) -> Vanishing | None:
    """Return the nodes p (m, r) or (m, 1) of complex terms that `flip` has omitted."""
    if left_out is None or not left_out.any():
        return None
    term, node = np.nonzero(left_out)
    p = np.broadcast_to(p, left_out.T.shape)[node, term]
    V = terms.masses.V[terms.own[term]]
    return Vanishing(node, term, terms.weight[term], p, terms.factor[term], V, terms.n_0[term])


def flips_of(
    terms: Terms, batch: Batch, precise: bool
) -> Iterator[tuple[Terms, Array, Array, Flips]]:
    """Split the batch into parts of few terms, or of one term and few nodes, so that working arrays stay small.

    Yields the terms, nodes p, weights and flips of each part.
    """
    terms = terms.pick(batch.terms)
    m = len(batch.p)
    (r, _, d) = terms.factor.shape
    if np.iscomplexobj(terms.factor):
        most = COMPLEX_ELEMENTS
    else:
        most = BATCH_ELEMENTS
    some = min(r, MOST_TERMS, most // (m * d))
    nodes = m if m * d <= most else most // d
    for first in range(0, r, max(1, some)):
        if some < r:
            which = slice(first, first + max(1, some))
        else:
            which = slice(None)
        few = terms.pick(which)
        for start in range(0, m, max(1, nodes)):
            part = slice(start, start + max(1, nodes))
            p, weights = (
                x[part] if x.shape[1] == 1 else x[part, which] for x in (batch.p, batch.weights)
            )
            yield few, p, weights, flip(few, p, precise)


def weighted_sums(
    terms: Terms, batch: Batch, precise: bool, for_mean: Weights, for_first: Weights
) -> tuple[Array, Array]:
    """Sum E_p[f] (a,) and Delta_j (b, d) over terms and nodes.

    `for_mean` and `for_first` make a and b sets of weights of the batch's nodes and weights: (a, m, r) and (b, m, r).
    """
    terms = terms.pick(batch.terms)
    batch = batch._replace(terms=slice(None))
    J = series_length(terms, batch.p)
    if J:
        return sums_by_series(
            terms, batch.p, for_mean(batch.p, batch.weights), for_first(batch.p, batch.weights), J
        )
    mean = np.zeros(0)
    first = np.zeros(0)
    for few, p, weights, (P, num, sigma, left_out) in flips_of(terms, batch, precise):
        Pn = P * num
        w_mean = for_mean(p, weights)
        w_first = for_first(p, weights)
        part = np.add.reduce(np.add.reduce(w_mean * Pn, axis=2), axis=1)
        exact = vanishing(few, p, left_out)
        if exact is not None:
            of_mean, of_first = exact.products()
            part = (
                part
                + np.broadcast_to(w_mean, (len(w_mean), *P.shape))[:, exact.node, exact.term]
                @ of_mean
            )
        mean = mean + part if mean.size else part
        if len(w_first):
            change = changes(few, w_first * Pn, w_first * P, sigma)
            if exact is not None:
                chosen = np.broadcast_to(w_first, (len(w_first), *P.shape))[
                    :, exact.node, exact.term
                ]
                change += chosen @ of_first
            if first.size:
                first = np.add(first, change, out=change)
            else:
                first = change
    return mean, first


Weights = Callable[[Array, Array], Array]


def no_weights(p: Array, weights: Array) -> Array:
    """Return no set of weights."""
    return np.zeros((0, *weights.shape))


def plain_weights(p: Array, weights: Array) -> Array:
    """Return the weights of the law as the only set of weights."""
    return weights[None]


def changes(terms: Terms, by_X: Array, by_Z: Array, sigma: Array) -> Array:
    """Return (b, d) sums over nodes and terms of by_X X_j + by_Z Z_j, weights (b, m, r); squares `sigma` in place."""
    X = [add_nodes(weights, sigma) for weights in by_X]
    sigma *= sigma
    out = np.empty((len(by_X), sigma.shape[2]), dtype=sigma.dtype)
    for k, weights in enumerate(by_Z):
        Z = add_nodes(weights, sigma)
        Z *= terms.S
        X[k] *= terms.difference
        Z += X[k]
        np.add.reduce(Z, axis=0, out=out[k])
    return out


# --- statistics ---------------------------------------------------------------------------------------------------


def _mean(terms: Terms, batch: Batch, precise: bool) -> Array:
    return weighted_sums(terms, batch, precise, plain_weights, no_weights)[0][0]


def first_differences(terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return the (d,) weighted sums of Delta_j."""
    return weighted_sums(terms, batch, precise, no_weights, plain_weights)[1][0]


def _pairs(terms: Terms, batch: Batch, precise: bool) -> Array:
    """Return the (d, d) weighted sums of I_ij, half of them by a matrix product and the rest by symmetry."""
    d = terms.factor.shape[2]
    half, added = (np.zeros((d, d), dtype=terms.factor.dtype) for _ in range(2))
    for few, p, weights, (P, num, sigma, left_out) in flips_of(terms, batch, precise):
        exact = vanishing(few, p, left_out)
        if exact is not None:
            chosen = np.broadcast_to(weights, P.shape)[exact.node, exact.term]
            added += np.stack([chosen @ exact.second(i) for i in range(d)])
        P = P * weights
        X = few.difference * sigma
        right = few.S * sigma * sigma
        right *= P[:, :, None]
        right += X * (P * num / 2)[:, :, None]
        part = np.zeros_like(half)
        for left, other in zip(
            X, right, strict=True
        ):  # node by node, then part by part: long sums would lose digits
            part += left.T @ other
        half += part
    half += half.T
    return half + added


def row(player: int) -> Statistic:
    """Return the statistic of the (d,) second differences of one player with every other player."""

    def sums(terms: Terms, batch: Batch, precise: bool) -> Array:
        total = np.zeros(terms.factor.shape[2], dtype=terms.factor.dtype)
        for few, p, weights, (P, num, sigma, left_out) in flips_of(terms, batch, precise):
            exact = vanishing(few, p, left_out)
            if exact is not None:
                chosen = np.broadcast_to(weights, P.shape)[exact.node, exact.term]
                total += chosen @ exact.second(player)
            P = P * weights
            own = sigma[:, :, player]
            X = few.difference[:, player] * own
            Z = few.S[:, player] * own * own
            total += changes(few, (P * (num * X + Z))[None], (P * X)[None], sigma)[0]
        return total

    return Statistic(2, 1, 2.0, sums)


MEAN = Statistic(0, 0, 1.0, _mean)
FIRST = Statistic(1, 1, 1.0, first_differences)
# A second difference has twice the terms of a first one.
PAIRS = Statistic(2, 2, 2.0, _pairs)


# --- arithmetic on arrays (terms, nodes, players) ------------------------------------------------------------------


def workspace(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return two uninitialized arrays. Small ones are reused per thread, because new memory is slow."""
    size = math.prod(shape)
    if size > 2 * BATCH_ELEMENTS:
        return np.empty(shape), np.empty(shape)
    arrays: Array | None = getattr(_memory, "arrays", None)
    if arrays is None or arrays.shape[1] < size:
        arrays = _memory.arrays = np.empty((2, max(size, BATCH_ELEMENTS)))
    return arrays[0, :size].reshape(shape), arrays[1, :size].reshape(shape)


def mix(points: Array, factor: Array, some_light: bool, out: Array, spare: Array) -> None:
    """Write Y = p x + (1 - p) y to `out` (r, m, d), from points (r, m, 2) and factors (r, 2, d). Nothing cancels."""
    if out.shape[2] <= MATRIX_PLAYERS:
        np.matmul(points, factor, out=out)
        return
    np.multiply(points[:, :, :1], factor[:, :1], out=out)
    if some_light:
        out += np.multiply(points[:, :, 1:], factor[:, 1:], out=spare)
    else:  # y is 1
        out += points[:, :, 1:]


def product(Y: Array, spare: Array) -> Array:
    """Multiply over the last axis: a transposed copy if it is short, or repeated halving if it is long."""
    r, m, d = Y.shape
    if d <= MATRIX_PLAYERS:
        if np.iscomplexobj(Y):
            across = spare.reshape(-1).view(np.complex128).reshape(d, r * m)
            np.copyto(across, Y.reshape(r * m, d).T)
            return np.multiply.reduce(across, axis=0).reshape(r, m)
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
    """Multiply through log1p(Y - 1), whose rounding is relative to the logarithm, not to the number of players."""
    change = points[:, :, :1] * less[:, :1]
    if some_light:
        change += points[:, :, 1:] * less[:, 1:]  # one of the two is 0
    large = change < -0.5
    logs = np.log1p(change, out=change)
    if large.any():
        logs[large] = np.log(Y[large])
    return np.exp(np.add.reduce(logs, axis=-1))


def contract(x: Array, y: Array, precise: bool) -> Array:
    """Sum over players: (r, m, d) with (r, 2, d) -> (r, m, 2). NumPy's sum is pairwise; the others are not."""
    r, m, d = x.shape
    if not precise and d <= MATRIX_PLAYERS:
        return np.matmul(x, y.transpose(0, 2, 1))
    out = np.zeros((r, m, 2))
    for k in (0, 1):
        if y[:, k].any():
            if precise:
                out[:, :, k] = np.add.reduce(x * y[:, k, None, :], axis=-1)
            else:
                out[:, :, k] = np.einsum("rmd,rd->rm", x, y[:, k])
    return out


def add_nodes(w: Array, x: Array) -> Array:
    """Compute the weighted sum over nodes: (m, r) with (m, r, d) -> (r, d)."""
    m, _, d = x.shape
    if d > MATRIX_PLAYERS:
        return np.einsum("mr,mrd->rd", w, x)
    if np.iscomplexobj(x):
        step = max(1, COMPLEX_PRODUCT // d)
    else:
        step = m
    weights = w.T[:, None, :]
    x = x.transpose(1, 0, 2)
    total: Array = np.matmul(weights[:, :, :step], x[:, :step])[:, 0]
    for start in range(step, m, step):
        total += np.matmul(weights[:, :, start : start + step], x[:, start : start + step])[:, 0]
    return total


# --- power series in p -----------------------------------------------------------------------------------------


def series_length(terms: Terms, p: Array) -> int:
    """Return J for these terms at nodes p (m, r) or (m, 1), or 0 if evaluating the nodes one by one is cheaper.

    Up to MATRIX_PLAYERS players, matrix products are used.
    """
    if terms.masses.some_light or terms.factor.shape[2] <= MATRIX_PLAYERS:
        return 0
    q = float(np.max(np.max(p, axis=0) * terms.largest_change)) * (1 + 1e-12)
    J = count_powers(q)
    return J if POWERS_PER_NODE * len(p) >= J else 0


def count_powers(q: float) -> int:
    """Return the smallest J for this q, or the maximum if q is too large."""
    if not q <= LARGEST_Q:
        return 1 << 30
    J = 2
    while max((J + 1) * q**J / (1 - q) ** 2, q ** (J - 1) / (J * (1 - q))) > LEFT_OUT:
        J += 1
    return J


def sums_by_series(
    terms: Terms, p: Array, w_mean: Array, w_first: Array, J: int
) -> tuple[Array, Array]:
    """Compute the result of `weighted_sums` for terms with these nodes and weights by J powers."""
    P, num, powers = _flip_by_series(terms, p, J)
    Pn = P * num
    mean = np.add.reduce(np.add.reduce(w_mean * Pn, axis=2), axis=1)
    # (b, J, r) coefficients of the polynomials in g.
    by_X = np.einsum("bmr,jmr->bjr", w_first * Pn, powers)
    by_Z = np.einsum("bmr,jmr->bjr", w_first * P, powers) * np.arange(1.0, J + 1)[:, None]
    first = np.empty((len(by_X), terms.factor.shape[2]), dtype=terms.factor.dtype)
    for block in _blocks(terms):
        g = -terms.difference[:, block]
        S = terms.S[:, block]
        for k, (X, Z) in enumerate(zip(by_X, by_Z, strict=True)):
            change = _polynomial(Z, g)
            change *= S
            of_X = _polynomial(X, g)
            of_X *= g
            change -= of_X
            np.add.reduce(change, axis=0, out=first[k, block])
    return mean, first


def _flip_by_series(terms: Terms, p: Array, J: int) -> tuple[Array, Array, Array]:
    """Compute P and num as in `flip`, (m, r) each, and the powers p^0, ..., p^(J-1), (J, m, r)."""
    r = len(terms.lam)
    powers = np.ones((J, len(p), r))
    np.multiply.accumulate(np.broadcast_to(p, (J - 1, len(p), r)), axis=0, out=powers[1:])
    kinds = 2 if terms.masses.some_absent_value else 1
    blocks = list(_blocks(terms))
    # One entry per block, so that they are added up in pairs: G_0, G_1, ..., then the sums with T.
    sums = np.empty((1 + kinds, J, r, len(blocks)), dtype=terms.factor.dtype)
    for b, block in enumerate(blocks):
        g = -terms.difference[:, block]
        T = terms.T[:, :kinds, block]
        power = np.ones_like(g)
        spare = np.empty_like(g)
        for i in range(J):
            np.add.reduce(power, axis=1, out=sums[0, i, :, b])
            for kind in range(kinds):
                np.add.reduce(
                    np.multiply(power, T[:, kind], out=spare), axis=1, out=sums[1 + kind, i, :, b]
                )
            power *= g
    G, *N = np.add.reduce(sums, axis=3)
    log_product = np.einsum("jmr,jr->mr", powers[1:], G[1:] / np.arange(1.0, J)[:, None])
    num = p * np.einsum("jmr,jr->mr", powers, N[0])
    if kinds == 2:
        num += (1 - p) * np.einsum("jmr,jr->mr", powers, N[1])
    return terms.weight * np.exp(-log_product), num + terms.n_0, powers


def _polynomial(coefficients: Array, g: Array) -> Array:
    """Compute sum_i c_i g^i by Horner's rule: (J, r) at (r, n)."""
    out = np.multiply(g, coefficients[-1][:, None])
    for c in coefficients[-2:0:-1]:
        out += c[:, None]
        out *= g
    out += coefficients[0][:, None]
    return out


def _blocks(terms: Terms) -> list[slice]:
    r, _, d = terms.factor.shape
    step = max(1, BLOCK_ELEMENTS // r)
    return [slice(start, start + step) for start in range(0, d, step)]
