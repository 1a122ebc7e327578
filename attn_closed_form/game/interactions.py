"""Interaction indices of pairs of players: the whole table, or the row of one player at the cost of
Shapley values.

With I_ij(p) the mean second difference f(S + i + j) - f(S + i) - f(S + j) + f(S) when every other
player is present with probability p, and Delta_i(p) the mean first difference (`evaluate.py`), each
index is an integral over p with a polynomial weight:

| index | pairs | single players |
|---|---|---|
| SII, Shapley interaction (Grabisch and Roubens, 1999) | int I_ij dp | Shapley values, int Delta_i dp |
| BII, Banzhaf interaction (same) | I_ij(1/2) | Banzhaf values, Delta_i(1/2) |
| STII, Shapley-Taylor (Sundararajan et al., 2020) | int 2 (1-p) I_ij dp | f(i) - f(empty) |
| FSII, faithful Shapley (Tsai et al., 2023) | int 6 p (1-p) I_ij dp | int (4 - 6 p) Delta_i dp |
| FBII, faithful Banzhaf (same) | I_ij(1/2) | Delta_i(1/2) - 1/2 sum_j I_ij(1/2) |

The papers print sums over coalitions. The integrals follow from the Moebius coefficients m(T) of
the game, in which Delta_i(p) is sum over T with i of m(T) p^(t-1): for STII, 2 t! (n-1-t)! / n! is
int 2 (1-p) p^t (1-p)^(n-2-t) dp; for FSII the printed coefficient of m(T) for a single player is -2
(t-2) / (t (t+1)) = 4/t - 6/(t+1), and for a pair 6 / (t (t+1)). FBII is the best approximation of
order two over all coalitions, which is the projection on products of x_i - 1/2. STII and FSII add
up: f(empty) plus all singles plus all pairs is f(all).
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from .._arrays import usual_float_errors
from .._errors import CostError
from .._types import Array
from .by_size import MOST_SECONDS, StepSeconds
from .engine.budget import Computation
from .engine.engine_game import Game
from .engine.evaluate import FIRST, MEAN, PAIRS, Statistic, evaluate, row
from .engine.laws import UNIFORM, Density, Law, Point
from .engine.terms import terms_of
from .values import single_changes

# The law of Banzhaf values: every coalition is equally likely.
HALF = Point(0.5)
# The laws of the table above, for pairs.
PAIR_LAWS: dict[str, Law] = {
    "SII": UNIFORM,
    "BII": HALF,
    "STII": Density(((2, 0, 1),)),
    "FSII": Density(((6, 1, 1),)),
    "FBII": HALF,
}
# 4 - 6 p = 4 (1 - p) - 2 p, whose modulus has the integral 5/3.
SINGLE_LAWS: dict[str, Law] = {**PAIR_LAWS, "FSII": Density(((4, 0, 1), (-2, 1, 0)), total=5 / 3)}
# Tuning: one step of a table is a term at a node for two players.
PAIR_SECONDS = StepSeconds(real=3e-10, complex=6e-10)
# The names of all indices.
INDICES = tuple(PAIR_LAWS)


@usual_float_errors
def interactions(
    game: Game, index: str = "SII", player: int | None = None, tol: float = 1e-10
) -> Array:
    """Compute an interaction index of all pairs or of one player's pairs, with single players on
    the diagonal.

    Parameters
    ----------
    index : "SII" (Shapley interaction), "BII" (Banzhaf), "STII" (Shapley-Taylor), "FSII" (faithful
        Shapley) or "FBII" (faithful Banzhaf). STII and FSII add up to the prediction minus the
        baseline
    player : compute only the row of this player, in O(L m d) instead of O(L m d^2)
    tol : |error| <= tol * max|f| for every number

    Returns
    -------
    (d, d) float64, symmetric; or (d,), the row of `player`

    Raises
    ------
    CostError
        if the table would take more than a minute, which is possible from about 1,500 players on

    Examples
    --------
    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> interactions(game).round(6)  # 4/3 - 1/2 - 3/2 + 0 off the diagonal, Shapley values on it
    array([[ 0.166667, -0.666667],
           [-0.666667,  1.166667]])
    >>> interactions(game, "FBII", player=1).round(6)
    array([-0.666667,  1.5     ])
    """
    if index not in INDICES:
        raise ValueError(f"index: expected one of {', '.join(INDICES)}, got {index!r}")
    if player is not None and not 0 <= player < game.d:
        raise ValueError(f"player: expected an index in 0..{game.d - 1}, got {player}")
    # Pairs come first: they need more of `tol` than singles, so the tol named in their error works
    # for both.
    statistic: Statistic = PAIRS
    if player is not None:
        statistic = row(player)
    # Singles of FBII have half the sum of d - 1 pairs: (d-1)/d of `tol` is for them, 1/d for first
    # differences.
    factor = 1.0
    if index == "FBII":
        factor = max(1.0, game.d / 2)
    if player is None:
        check_table_cost(game, PAIR_LAWS[index], tol, factor)
    pairs = evaluate(game, PAIR_LAWS[index], statistic, tol, amplification=factor)
    if player is None:
        np.fill_diagonal(pairs, 0.0)
        np.fill_diagonal(pairs, _singles(game, index, pairs, tol))
    else:
        pairs[player] = 0.0
        pairs[player] = _singles(game, index, pairs, tol)[player]
    return pairs


def check_table_cost(game: Game, law: Law, tol: float, amplification: float) -> None:
    """Raise a CostError if a table of all pairs would take too long: terms and nodes are counted,
    which takes O(L d).
    """
    # Tuning: more nodes, of all terms together, than nearly every game has; below the limit with so
    # many of them, nothing is counted.
    surely_enough_nodes = 50_000
    pairs = float(game.d) ** 2
    if pairs * PAIR_SECONDS.complex * surely_enough_nodes <= MOST_SECONDS:
        return
    amplification *= law.total * PAIRS.amplification
    computation = Computation(game, tol, amplification, extra_ulps=law.extra_ulps)
    seconds_per_node = pairs * PAIR_SECONDS.of(computation.engine)
    seconds = 0.0
    for terms in terms_of(computation.engine, computation.budget):
        for which, p, _ in law.batches(terms, computation.budget.p_error, True):
            seconds += terms.weight[which].size * len(p) * seconds_per_node
        if seconds > MOST_SECONDS:
            raise CostError(
                f"game: the interactions of all pairs of {game.d:,} players would take more than "
                f"{MOST_SECONDS:.0f} seconds. Use a larger tol, fewer players, or the row of one "
                "player (player=...)",
                seconds,
            )


def _singles(game: Game, index: str, pairs: Array, tol: float) -> Array:
    """Return the (d,) index of the single players; `pairs` (d, d), or (d,) of one player, have a
    zero diagonal.
    """
    if index == "STII":
        return single_changes(game)
    if index == "FBII":
        banzhaf = evaluate(game, HALF, FIRST, tol, amplification=float(game.d))
        return banzhaf - pairs.sum(axis=-1) / 2
    return evaluate(game, SINGLE_LAWS[index], FIRST, tol)


def constant_of(game: Game, index: str, table: Array, tol: float = 1e-10) -> float:
    """Return the constant that belongs to a table of `interactions`: f(empty), or that of the fit
    for "FBII".

    The constant of "FBII" is a sum over all pairs, so its error is d times as large.

    >>> from attn_closed_form import PooledGame
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> table = interactions(game, "FSII")
    >>> whole = constant_of(game, "FSII", table) + np.triu(table).sum()
    >>> bool(np.isclose(whole, game.value([True, True])))
    True
    """
    if index != "FBII":
        return float(game.value(np.zeros(game.d, dtype=bool)))
    mean = float(evaluate(game, HALF, MEAN, tol, amplification=float(game.d)))
    singles = float(np.trace(table))
    pairs = float(np.triu(table, 1).sum())
    return mean - singles / 2 - pairs / 4
