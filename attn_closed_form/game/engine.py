"""Mean values of a pooled game when every player is present with probability p, independently: exact, in O(L m d).

This is the engine behind Shapley values, other semivalues, interactions and the limit of LIME. In a head (see
`heads.py`) let x = e^(-lam excess) of a player when present and y the same when absent (one of the two is 1), A and B
its mass times value when present and when absent, and

    Y = p x + (1 - p) y,   sigma = 1/Y,   T = (x A, y B),   S = x y (A - B).

With 1/D = sum_l w_l e^(-lam_l D) (`quadrature.py`), P = w e^(-lam D_0) prod_k Y_k, D_0 the mass that is always there,
and n_0 the mass times value of the background,

    num       = n_0 + sum_k sigma_k (p x_k A_k + (1 - p) y_k B_k)
    E_p[f]    = sum_l P num
    Delta_j   = E_p[f | j present] - E_p[f | j absent] = sum_l P [ X_j num + Z_j ],   X = (x - y) sigma,   Z = S sigma^2
    I_ij      = second difference in i, j = sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ].

x, y, T and S do not depend on p, and num takes one sum over the players. Values are centred in each head first.

One node lam of one head is a **row** (`rows.py`); rows of all heads go through together, as an array axis, in chunks.
What is summed over p is up to a **plan**: from what is known of the rows (`RowSums`) it makes batches of rows with
nodes p and weights. `node_counts.py` has the plans: `uniform_plan` integrates over p with a rule of its own for every
row, `fixed_plan` takes given nodes and weights, `shared_plan` asks for one rule per chunk of rows. Rows of more than a
thousand players at small p are summed by series in p instead of node by node (`power_series.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .._types import Array, Ids
from .arithmetic import BATCH_ELEMENTS, add_nodes, contract, mix, precise_product, product, workspace
from .budget import Budget
from .merging import times_power
from .pooled_game import PooledGame
from .power_series import evaluate_series, terms_needed
from .rows import Rows, RowSums, rows_of


class Batch(NamedTuple):
    """Rows (indices into a chunk) with m nodes each, and any number of weights for E_p[f] and for Delta_j.

    p : (m, r) or (m, 1); w_mean : (a, m, r) or (a, m, 1); w_delta : (b, m, r) or (b, m, 1)
    """

    rows: Ids | slice
    p: Array
    w_mean: Array
    w_delta: Array

    def part(self, rows: slice, nodes: slice) -> Batch:
        """Some of the batch's own rows, some of its nodes."""
        arrays = (self.p[nodes], self.w_mean[:, nodes], self.w_delta[:, nodes])
        return Batch(rows, *(x if x.shape[-1] == 1 else x[..., rows] for x in arrays))


Plan = Callable[[RowSums], list[Batch]]


class Flips(NamedTuple):
    """Rows at nodes p: P, num (m, r), and sigma (m, r, d)."""

    P: Array
    num: Array
    sigma: Array


def flip(rows: Rows, p: Array, precise: bool) -> Flips:
    """Evaluate the formulas of the module docstring at nodes p (m, r) or (m, 1).

    sigma lies in memory that the next call of this thread uses again.
    """
    some_light = rows.masses.some_light
    r, _, d = rows.factor.shape
    points = np.empty((r, len(p), 2))
    points[:, :, 0] = p.T
    np.subtract(1.0, points[:, :, 0], out=points[:, :, 1])
    Y, spare = workspace((r, len(p), d))
    mix(points, rows.factor, some_light, Y, spare)
    if precise and rows.less is not None:
        every = precise_product(points, rows.less, some_light, Y)
    else:
        every = product(Y, spare)
    every *= rows.weight[:, None]
    sigma = np.divide(1.0, Y, out=Y)
    sums = contract(sigma, rows.T, precise)
    sums *= points
    num = sums[:, :, 0] + sums[:, :, 1]
    num += rows.n_0[:, None]
    return Flips(every.T, num.T, sigma.transpose(1, 0, 2))


def integrate(game: PooledGame, goal: Budget, plan: Plan) -> tuple[Array, Array]:
    """Weighted sums over p of E_p[f] - base and of Delta_j(p) (present minus absent), all heads together.

    f of a coalition without any mass counts as `game.base`: the caller puts that right (`game.empty_excess`).

    Parameters
    ----------
    game : PooledGame
    goal : from `budget`
    plan : nodes and weights in p, see the module docstring

    Returns
    -------
    (a,), (b, d) : one entry per set of weights for means, one row per set of weights for differences

    Examples
    --------
    >>> from .budget import budget
    >>> from .node_counts import fixed_plan
    >>> game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> half = fixed_plan([0.5], w_mean=[[1.0]], w_delta=[[1.0]])
    >>> mean, delta = integrate(game, budget(game, 1e-10), half)
    >>> float(mean[0] + game.base).__round__(6), delta.round(6)      # the mean of 0, 1/2, 3/2, 4/3; Banzhaf values
    (0.833333, array([[0.166667, 1.166667]]))
    """
    mean: Array = np.zeros(0)
    delta: Array = np.zeros((0, game.d))
    for rows in rows_of(game, goal):
        for batch in plan(rows.sums):
            if not delta.shape[0] and not mean.size:
                mean, delta = np.zeros(len(batch.w_mean)), np.zeros((len(batch.w_delta), game.d))
            one_mean, one_delta = evaluate(rows, batch, goal.precise)
            mean += one_mean
            delta += one_delta
    return times_power(mean, game.exponent), times_power(delta, game.exponent)


def parts(rows: Rows, batch: Batch) -> Iterator[tuple[Rows, Batch]]:
    """The batch with its own rows in parts of few rows, or of one row and few nodes: a working array stays small."""
    here = rows.pick(batch.rows)
    m, (r, _, d) = len(batch.p), here.factor.shape
    if r * m * d <= BATCH_ELEMENTS:
        yield here, batch
        return
    some, nodes = max(1, BATCH_ELEMENTS // (m * d)), max(1, BATCH_ELEMENTS // d)
    for first in range(0, r, some):
        which = slice(first, first + some)
        one = here.pick(which)
        for start in range(0, m, nodes):
            yield one, batch.part(which, slice(start, start + nodes))


def evaluate(rows: Rows, batch: Batch, precise: bool) -> tuple[Array, Array]:
    """The sums of `integrate` over one batch of the rows."""
    here = rows.pick(batch.rows)
    terms = terms_needed(here, batch.p)
    if terms:
        return evaluate_series(here, batch.p, batch.w_mean, batch.w_delta, terms)
    mean, delta = np.zeros(len(batch.w_mean)), np.zeros((len(batch.w_delta), rows.factor.shape[2]))
    for some, part in parts(here, batch._replace(rows=slice(None))):
        P, num, sigma = flip(some, part.p, precise)
        Pn = P * num
        if len(part.w_mean):
            mean += np.add.reduce(np.add.reduce(part.w_mean * Pn, axis=2), axis=1)
        if len(part.w_delta):
            delta += change(some, part.w_delta * Pn, part.w_delta * P, sigma)
    return mean, delta


def change(rows: Rows, by_X: Array, by_Z: Array, sigma: Array) -> Array:
    """(b, d) sums over nodes and rows of by_X X_j + by_Z Z_j, both weights (b, m, r). `sigma` is squared in place."""
    X = [add_nodes(one, sigma) for one in by_X]
    sigma *= sigma
    out = np.empty((len(by_X), sigma.shape[2]))
    for k, one in enumerate(by_Z):
        Z = add_nodes(one, sigma)
        Z *= rows.S
        X[k] *= rows.difference
        Z += X[k]
        np.add.reduce(Z, axis=0, out=out[k])
    return out
