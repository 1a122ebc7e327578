"""Mean values of a pooled game by size of the coalition: a stable recursion, O(L d^2), and its
adjoint.

With 1/D = sum_l w_l e^(-lam_l D) (`exponential_sums.py`) a coalition's value is a sum of products
over players: a factor x_k for player k present, y_k for k absent, and a numerator that gains A_k or
B_k. Let P_s and N_s be the means, over the subsets of the first k players with s of them absent, of
the product and of product times numerator. A uniform subset of k players with s absent leaves out
player k with probability s/k, and is uniform on the others either way, so

    P_s <- (k-s)/k x_k P_s             + s/k y_k P_{s-1}
    N_s <- (k-s)/k x_k (N_s + A_k P_s) + s/k y_k (N_{s-1} + B_k P_{s-1}),

and E[f | s absent] = sum_l w_l N_s after the last player. Every step is a convex combination of
products with factors in [0, 1]: no binomial coefficient appears, nothing cancels, nothing
overflows.

A weight q_s on the sizes makes Phi = sum_s q_s E[f | s absent] a number, and its derivative with
respect to a factor on x_j is sum_s q_s E[f 1{j present} | s absent]: one backward pass over the
same recursion gives it for every j.

`lime/moments.py` reaches the same two moments through a rule in p, in O(L m d), and compares with
this module in tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._arrays import usual_float_errors
from .._errors import CostError
from .._types import Array
from .engine.budget import Budget, Computation
from .engine.engine_game import EngineGame, Game
from .engine.kernels import sum_in_pairs
from .engine.terms import Terms, terms_of


class StepSeconds(NamedTuple):
    """The seconds of one step on one core of a laptop of 2022, calibrated on games of 100 to 3,000
    players.
    """

    real: float
    complex: float  # for the terms of a link

    def of(self, game: EngineGame) -> float:
        """Return the seconds of one step for the terms of a game."""
        if game.positive:
            return self.real
        return self.complex


# Tuning: one step of the recursion is a term for a pair of players.
RECURSION_SECONDS = StepSeconds(real=4e-8, complex=6e-8)
# Tuning: predicted seconds beyond which a computation is not started. Nobody waits longer for one
# explanation.
MOST_SECONDS = 60.0


@usual_float_errors
def expected_value_by_size(game: Game, tol: float = 1e-10) -> Array:
    """Compute E[f | s players absent] for s = 0..d over uniform coalitions, within tol * max|f|, in
    O(L d^2).

    Parameters
    ----------
    game : PooledGame or LinkedGame of d players
    tol : guaranteed accuracy, relative to max|f|; a looser one is faster

    Returns
    -------
    (d + 1,) float64
        mean of f over all coalitions with s = 0, 1, ..., d players absent: how fast the prediction
        fades as players are removed at random

    Raises
    ------
    ToleranceError
        if `tol` cannot be guaranteed in float64 for this game
    CostError
        if the recursion would take more than a minute; it is raised before the recursion starts

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> expected_value_by_size(game).round(6)  # 4/3; the mean of 1/2 and 3/2; 0
    array([1.333333, 1.      , 0.      ])
    """
    computation = Computation(game, tol, plain=True)
    check_size_cost(computation.engine, computation.budget)

    def means(terms: Terms) -> Array:
        *_, last = _forward(_factors(terms))
        return (terms.weight @ last.N).real

    chunks = terms_of(computation.engine, computation.budget)
    sums = sum_in_pairs(map(means, chunks), np.zeros(game.d + 1))
    out = computation.finish(sums, constant_mass=1.0)
    grand = np.ones(game.d, dtype=bool)
    out[[0, -1]] = game.value(np.stack([grand, ~grand]))
    return out


def check_size_cost(game: EngineGame, goal: Budget) -> None:
    """Raise a CostError if the recursion over sizes would take too long: the terms are counted,
    which takes O(L d).
    """
    number = 0
    seconds_per_term = float(game.d) ** 2 * RECURSION_SECONDS.of(game)
    # Tuning: more terms than a game has; below the limit with so many of them, nothing is counted.
    surely_enough_terms = 20_000
    # Games whose cost is clear without counting: a game has some thousands of terms at most.
    if seconds_per_term * surely_enough_terms <= MOST_SECONDS:
        return
    for terms in terms_of(game, goal):
        number += terms.weight.size
        seconds = number * seconds_per_term
        if seconds > MOST_SECONDS:
            raise CostError(
                f"game: the recursion over the sizes of coalitions of {game.d:,} players would "
                f"take more than {MOST_SECONDS:.0f} seconds. Use a larger tol or fewer players",
                seconds,
            )


def centered_moments(game: EngineGame, weights: Array, goal: Budget) -> tuple[Array, Array]:
    """Sum q_s E[f | s absent] and, for every player j, q_s E[f 1{j present} | s absent] over sizes,
    in O(L d^2).

    f enters with its `base` subtracted, in units of 2^exponent, without the part of `empty_value`.
    `weights` (n, d+1) has q in its first row; the first moments of the others are returned as well:
    (n,), (d,).
    """

    def moments(terms: Terms) -> Array:
        factors = _factors(terms)
        states = list(_forward(factors))
        by_size = terms.weight @ states[-1].N
        present = terms.weight @ _backward(factors, states, weights[0])
        return np.concatenate([weights @ by_size, present]).real

    n = len(weights)
    # Tuning: elements of the forward states that the backward pass keeps, for one block of nodes
    # lam: 32 MB.
    moment_elements = 1 << 21
    chunks = terms_of(game, goal, moment_elements // (game.d + 1))
    sums = sum_in_pairs(map(moments, chunks), np.zeros(n + game.d))
    return sums[:n], sums[n:]


class _Factors(NamedTuple):
    """x, y, A, B (r, d) of the module docstring, and the numerator n_0 (r,) of the background."""

    x: Array
    y: Array
    A: Array
    B: Array
    n_0: Array


class _Means(NamedTuple):
    """P and N (r, k + 1) of the module docstring after k players."""

    P: Array
    N: Array


def _factors(terms: Terms) -> _Factors:
    """Return the factors of the terms."""
    V = terms.masses.V[terms.piece_of]
    return _Factors(
        x=terms.factor[:, 0],
        y=terms.factor[:, 1],
        A=V[:, 0],
        B=V[:, 1],
        n_0=terms.n_0,
    )


def _forward(factors: _Factors) -> Iterator[_Means]:
    """Yield the states after k = 0..d players."""
    x, y, A, B, n_0 = factors
    P = np.ones((n_0.size, 1), dtype=x.dtype)
    N = n_0[:, None]
    yield _Means(P, N)
    for k in range(1, x.shape[1] + 1):
        stay, leave = _shares(k)
        player = slice(k - 1, k)
        present = x[:, player] * stay
        absent = y[:, player] * leave
        P_present = P * present
        P_absent = P * absent
        N_present = N * present + P_present * A[:, player]
        N_absent = N * absent + P_absent * B[:, player]
        P = _shifted_sum(P_present, P_absent)
        N = _shifted_sum(N_present, N_absent)
        yield _Means(P, N)


def _shifted_sum(present: Array, absent: Array) -> Array:
    """Return the sum (r, k + 1) of states (r, k) that keep their number of absent players and of
    those that gain one.
    """
    r, k = present.shape
    out = np.empty((r, k + 1), dtype=present.dtype)
    out[:, :k] = present
    out[:, k] = 0.0
    out[:, 1:] += absent
    return out


def _backward(factors: _Factors, states: list[_Means], q: Array) -> Array:
    """Compute the (r, d) derivatives of sum_s q_s N_s with respect to a factor on x_j."""
    x, y, A, B, _ = factors
    r, d = x.shape
    out = np.empty((r, d), dtype=x.dtype)
    # Derivatives with respect to P and N.
    dP = np.zeros((r, d + 1))
    dN = np.broadcast_to(q, (r, d + 1))
    for k in range(d, 0, -1):
        stay, leave = _shares(k)
        P, N = states[k - 1]
        player = slice(k - 1, k)
        present = x[:, player] * stay
        absent = y[:, player] * leave
        dN_present = dN[:, :k] * present
        dN_absent = dN[:, 1:] * absent
        through_P = dP[:, :k] * present
        through_N = dN_present * A[:, player]
        dP_present = through_P + through_N
        through_P = dP[:, 1:] * absent
        through_N = dN_absent * B[:, player]
        dP_absent = through_P + through_N
        through_P = np.einsum("ls,ls->l", dP_present, P)
        through_N = np.einsum("ls,ls->l", dN_present, N)
        out[:, k - 1] = through_P + through_N
        dP = dP_present + dP_absent
        dN = dN_present + dN_absent
    return out


def _shares(k: int) -> tuple[Array, Array]:
    """Return the probabilities, for s = 0..k-1, that player k joins a state with s absent as
    present and as absent.

    As present s stays and (k-s)/k is its share; as absent it becomes s+1, whose share is (s+1)/k.
    """
    s = np.arange(k)
    return (k - s) / k, (s + 1) / k
