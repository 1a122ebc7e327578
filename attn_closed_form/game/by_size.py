"""Mean values of a pooled game by size of the coalition: a stable recursion, O(L d^2), and its adjoint.

With 1/D = sum_l w_l e^(-lam_l D) (`exponential_sums.py`) a coalition's value is a sum of products over players: a
factor x_k for player k present, y_k for k absent, and a numerator that gains A_k or B_k. Let P_s and N_s be the means,
over the subsets of the first k players with s of them absent, of the product and of product times numerator. A uniform
subset of k players with s absent leaves out player k with probability s/k, and is uniform on the others either way, so

    P_s <- (k-s)/k x_k P_s             + s/k y_k P_{s-1}
    N_s <- (k-s)/k x_k (N_s + A_k P_s) + s/k y_k (N_{s-1} + B_k P_{s-1}),

and E[f | s absent] = sum_l w_l N_s after the last player. Every step is a convex combination of products with factors
in [0, 1]: no binomial coefficient appears, nothing cancels, nothing overflows.

A weight q_s on the sizes makes Phi = sum_s q_s E[f | s absent] a number, and its derivative with respect to a factor
on x_j is sum_s q_s E[f 1{j present} | s absent]: one backward pass over the same recursion gives it for every j.

`lime/moments.py` reaches the same two moments through a rule in p, in O(L m d), and compares with this module in tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._types import Array
from .engine.budget import Budget, budget
from .engine.evaluate import Game, sum_in_pairs
from .engine.terms import Terms, terms_of
from .links import PoleGame
from .pooled_game import PooledGame, finite

# Elements of the forward states that the backward pass keeps, for one block of nodes lam: 32 MB.
KEPT_ELEMENTS = 1 << 21


def expected_value_by_size(game: Game, tol: float = 1e-10) -> Array:
    """Compute E[f | s players absent] for s = 0..d over uniform coalitions, within tol * max|f|, in O(L d^2).

    Parameters
    ----------
    game : PooledGame or LinkedGame of d players
    tol : guaranteed accuracy, relative to max|f|; a looser one is faster

    Returns
    -------
    (d + 1,) float64

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0)
    >>> expected_value_by_size(game).round(6)      # 4/3; the mean of 1/2 and 3/2; 0
    array([1.333333, 1.      , 0.      ])
    """
    engine = game.within(tol)
    goal = budget(engine, tol, plain=True)

    def means(terms: Terms) -> Array:
        *_, (_, N) = _forward(*_factors(terms))
        return (terms.weight @ N).real

    in_units = sum_in_pairs(map(means, terms_of(engine, goal)), np.zeros(game.d + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        out = finite(engine.base + np.ldexp(in_units, engine.exponent))
    out[[0, -1]] = game.value([[True] * game.d, [False] * game.d])
    return out


def centered_moments(
    game: PooledGame | PoleGame, weights: Array, goal: Budget
) -> tuple[Array, Array]:
    """Sum q_s E[f | s absent] and, for every player j, q_s E[f 1{j present} | s absent] over sizes, in O(L d^2).

    f enters with its `base` subtracted, in units of 2^exponent, without the part of `empty_value`. `weights` (n, d+1)
    has q in its first row; the first moments of the others are returned as well: (n,), (d,).
    """

    def moments(terms: Terms) -> Array:
        factors = _factors(terms)
        states = list(_forward(*factors))
        present = terms.weight @ _backward(*factors[:-1], states, weights[0])
        return np.concatenate([weights @ (terms.weight @ states[-1][1]), present]).real

    chunks = terms_of(game, goal, KEPT_ELEMENTS // (game.d + 1))
    sums = sum_in_pairs(map(moments, chunks), np.zeros(len(weights) + game.d))
    return sums[: len(weights)], sums[len(weights) :]


def _factors(terms: Terms) -> tuple[Array, Array, Array, Array, Array]:
    """Return x, y, A, B (r, d) of the module docstring, and the numerator n_0 (r,) of the background."""
    V = terms.masses.V[terms.own]
    return terms.factor[:, 0], terms.factor[:, 1], V[:, 0], V[:, 1], terms.n_0


def _forward(x: Array, y: Array, A: Array, B: Array, n0: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the states (P, N), each (l, k+1), after k = 0..d players."""
    P = np.ones((n0.size, 1), dtype=x.dtype)
    N = n0[:, None]
    yield P, N
    for k in range(1, x.shape[1] + 1):
        stay, leave = _shares(k)
        a = x[:, k - 1, None] * stay
        b = y[:, k - 1, None] * leave
        Pa = P * a
        Pb = P * b
        Na = N * a + Pa * A[:, k - 1, None]
        Nb = N * b + Pb * B[:, k - 1, None]
        P, N = (np.empty((n0.size, k + 1), dtype=x.dtype) for _ in range(2))
        for new, one, other in ((P, Pa, Pb), (N, Na, Nb)):
            new[:, :k] = one
            new[:, k] = 0.0
            new[:, 1:] += other
        yield P, N


def _backward(
    x: Array, y: Array, A: Array, B: Array, states: list[tuple[Array, Array]], q: Array
) -> Array:
    """Compute the (l, d) derivatives of sum_s q_s N_s with respect to a factor on x_j."""
    rows, d = x.shape
    out = np.empty((rows, d), dtype=x.dtype)
    gP = np.zeros((rows, d + 1))
    gN = np.broadcast_to(q, (rows, d + 1))
    for k in range(d, 0, -1):
        stay, leave = _shares(k)
        P, N = states[k - 1]
        a = x[:, k - 1, None] * stay
        b = y[:, k - 1, None] * leave
        gN_a = gN[:, :k] * a
        gN_b = gN[:, 1:] * b
        gP_a = gP[:, :k] * a + gN_a * A[:, k - 1, None]
        gP_b = gP[:, 1:] * b + gN_b * B[:, k - 1, None]
        out[:, k - 1] = np.einsum("ls,ls->l", gP_a, P) + np.einsum("ls,ls->l", gN_a, N)
        gP = gP_a + gP_b
        gN = gN_a + gN_b
    return out


def _shares(k: int) -> tuple[Array, Array]:
    """Return the probabilities, for s = 0..k-1, that player k joins a state with s absent as present and as absent.

    As present s stays and (k-s)/k is its share; as absent it becomes s+1, whose share is (s+1)/k.
    """
    s = np.arange(k)
    return (k - s) / k, (s + 1) / k
