"""Values of players: the mean effect of a player that joins a coalition, with any weighting of the
coalitions.

A semivalue (Dubey, Neyman and Weber, 1981) draws the size of a coalition S of the others from some
law, then S uniformly:

    phi_j = sum_s q_s E[ f(S + j) - f(S) | |S| = s ],        s = 0 .. d-1.

If q is a mixture of binomial laws, q_s = int C(d-1, s) p^s (1-p)^(d-1-s) rho(p) dp, this is int
Delta_j(p) rho(p) dp, and `evaluate.py` computes it in O(L m d), L nodes in lambda and m in p, where
P2 (appendix B.7) calls the sum over 2^d coalitions intractable. Each is the first difference under
a law:

| value | law |
|---|---|
| Shapley (1953) | p uniform on [0, 1] |
| Banzhaf (1965) | p = 1/2 |
| weighted Banzhaf | one p; 1 is leave-one-out |
| Beta Shapley (Kwon and Zou, 2022) | the density of Beta(beta, alpha), proportional to p^(beta-1) (1-p)^(alpha-1) |

Any other weights of sizes go through the recursion over sizes, O(L d^2) (`by_size.py`). The
guarantee is described in `docs/what-tol-guarantees.md`.
"""  # noqa: E501

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import check, number, real, usual_float_errors
from .._types import Array
from .by_size import centered_moments, check_size_cost
from .engine.budget import Computation, budget, finite
from .engine.engine_game import Game
from .engine.evaluate import FIRST, evaluate
from .engine.laws import UNIFORM, Density, Point
from .game_sum import GameSum

# Tuning: players of one block of single-player coalitions.
SINGLES = 1_000


@usual_float_errors
def shapley(game: Game | GameSum, tol: float = 1e-10) -> Array:
    """Compute the (d,) Shapley values, with |error| <= tol * max|f| guaranteed, or raise a
    ToleranceError.

    Parameters
    ----------
    game : PooledGame, LinkedGame or GameSum of d players
    tol : guaranteed accuracy, relative to max|f|; a looser one is faster

    Returns
    -------
    (d,) float64
        Shapley value of each player, in the order of `game.labels`; they add up to f(all) - f(none)

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     [0.0, 1.0, -2.0], [1.0, -1.0, 4.0], s_background=0.5, v_background=0.0
    ... )
    >>> shapley(game).round(6)  # they add up to f(all) - f(none)
    array([ 0.307802, -0.71077 ,  0.18907 ])
    >>> round(float(game.value([True] * 3) - game.value([False] * 3)), 6)
    -0.213898
    """
    return evaluate(game, UNIFORM, FIRST, tol)


@usual_float_errors
def banzhaf(game: Game | GameSum, tol: float = 1e-10) -> Array:
    """Compute the (d,) Banzhaf values Delta_j(1/2), the mean change over all coalitions, within tol
    * max|f|.

    Parameters
    ----------
    game : PooledGame or LinkedGame of d players
    tol : guaranteed accuracy, relative to max|f|; a looser one is faster

    Returns
    -------
    (d,) float64
        Banzhaf value of each player; they do not add up to the prediction, and favor no coalition
        size

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> banzhaf(game).round(6)  # ((1/2 - 0) + (4/3 - 3/2)) / 2, ((3/2 - 0) + (4/3 - 1/2)) / 2
    array([0.166667, 1.166667])
    """
    return evaluate(game, Point(0.5), FIRST, tol)


@usual_float_errors
def weighted_banzhaf(game: Game, p: float = 0.5, tol: float = 1e-10) -> Array:
    """Compute weighted Banzhaf values, with every other player present with probability p, within
    tol * max|f|.

    Parameters
    ----------
    p : 0 means that j joins the empty coalition, 1/2 gives Banzhaf values, 1 gives leave-one-out
        differences

    Returns
    -------
    (d,) float64
        value of each player when every other one is present with probability p

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> weighted_banzhaf(game, 0.0), weighted_banzhaf(game, 0.5).round(6)
    (array([0.5, 1.5]), array([0.166667, 1.166667]))
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p: expected a probability, got {p}")
    if 0 < p < 1:
        return evaluate(game, Point(float(p)), FIRST, tol)
    # Both ends are differences of two values, which are plain sums over d players, and are rounded
    # by up to LINK_VALUE = 16 ulps of max|f| each in a linked game: 4 times CONSTANTS.
    engine = game.engine_game(tol)
    budget(engine, tol, plain=True, constants=4 * engine.scale)
    if p == 1:
        return leave_one_out(game)
    return single_changes(game)


@usual_float_errors
def beta_shapley(game: Game | GameSum, alpha: int = 1, beta: int = 1, tol: float = 1e-10) -> Array:
    """Compute Beta(alpha, beta)-Shapley values (Kwon and Zou, 2022), with |error| <= tol * max|f|
    guaranteed.

    The weight of size s is B(s + beta, d - 1 - s + alpha) / B(alpha, beta) for each coalition. A
    large alpha puts the weight on small coalitions, as in their Beta(16, 1), and a large beta on
    large ones.

    Parameters
    ----------
    alpha, beta : integers of at least 1, so that the density is a polynomial in p; (1, 1) gives
        Shapley values

    Returns
    -------
    (d,) float64
        value of each player; use a large alpha if the first words that enter should count most

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> (
    ...     beta_shapley(game, 1, 1).round(6),
    ...     beta_shapley(game, 16, 1).round(6),
    ... )  # joins nobody more often: 1/2, 3/2
    (array([0.166667, 1.166667]), array([0.460784, 1.460784]))
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        number(name, value, "an integer of at least 1", lambda x: x >= 1 and x.is_integer())
    a = int(beta) - 1
    b = int(alpha) - 1
    # Largest alpha + beta; beyond it, the density's constant, about 2^(alpha + beta), leaves
    # float64 together with its powers.
    largest_sum = 512
    if a + b + 2 > largest_sum:
        raise ValueError(f"alpha, beta: expected a sum of at most {largest_sum}, got {a + b + 2}")
    # One over the integral of p^a (1 - p)^b.
    factor = (a + b + 1) * math.comb(a + b, a)
    return evaluate(game, Density(((factor, a, b),)), FIRST, tol)


@usual_float_errors
def semivalue(game: Game, weights: ArrayLike, tol: float = 1e-10) -> Array:
    """Compute the semivalue with any weights of sizes in O(L d^2), within tol * max|f| *
    sum|weights|.

    With M_j(a) = E[f 1{j present} | a absent] and M(a) = E[f | a absent] a coalition of s others
    that j joins has d - s - 1 absent of d, so E[f(S + j)] = M_j(d-s-1) d/(s+1), and E[f(S)] =
    (M(d-s) - M_j(d-s)) d/(d-s).

    Parameters
    ----------
    weights : (d,) weight of each number s = 0 .. d-1 of others that are present; any sign, any sum

    Returns
    -------
    (d,) float64
        semivalue of each player, for weights that no other function of this module has

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> semivalue(game, [1.0, 0.0]), semivalue(game, [0.5, 0.5]).round(6)
    (array([0.5, 1.5]), array([0.166667, 1.166667]))
    """
    d = game.d
    q = real("weights", weights).astype(np.float64)
    fits = q.shape == (d,) and bool(np.isfinite(q).all())
    expected = f"{d} finite numbers, for 0..{d - 1} other players present"
    check("weights", fits, expected, f"shape {q.shape}")
    size = float(np.abs(q).sum())
    if size == 0:
        return np.zeros(d)
    s = np.arange(d)
    share = q / size * d
    joined = np.zeros(d + 1)
    before = np.zeros(d + 1)
    joined[d - 1 - s] = share / (s + 1)
    before[d - s] = share / (d - s)
    # M_j(a) carries the probability that j is present, so only the difference M - M_j is multiplied
    # up in the end.
    amplification = 1 + float(np.abs(before).sum())
    computation = Computation(game, tol, amplification, plain=True)
    sizes = np.stack([joined + before, before])
    check_size_cost(computation.engine, computation.budget)
    mean, present = centered_moments(computation.engine, sizes, computation.budget)
    changes = computation.finish(present - mean[1], -before[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        return finite(size * changes)


def single_changes(game: Game) -> Array:
    """Compute f({j}) - f(empty), (d,), to a few times d ulps."""
    out = np.empty(game.d)
    players = np.arange(game.d)
    for start in range(0, game.d, SINGLES):
        block = players[start : start + SINGLES]
        out[block] = game.value(block[:, None] == players)
    return out - game.value(np.zeros(game.d, dtype=bool))


@usual_float_errors
def leave_one_out(game: Game | GameSum) -> Array:
    """Compute f(all) - f(all but j) for each player, (d,), in O(d), to a few times d ulps.

    Parameters
    ----------
    game : PooledGame, LinkedGame or GameSum of d players

    Returns
    -------
    (d,) float64
        what is lost if this player alone is removed; two players that repeat each other both get
        about 0

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 3.0])
    >>> leave_one_out(game)
    array([-1.,  1.])
    """
    return game.leave_one_out()
