"""Owen values: Shapley values over the orders in which the players of a group (the words of a
sentence) are adjacent.

Owen (1977) lets the groups arrive in a uniform order, and within each group its members: each of
the other groups is present as a whole or not at all. In coin flips, every other group is present
with probability p, and every other member of j's own group with probability q, both uniform on [0,
1]. With 1/D = sum_l w_l e^(-lam_l D) the mean of a product is the product of the means; p occurs
only in the other groups and q only in the group of j. So the double integral separates into one
over p, which leaves two numbers per group and node lam, and one over q, which is that of
`evaluate.py` for the members of the group:

    Y_T(p) = p a_T + (1-p) b_T,            n_T(p) = p a_T alpha_T + (1-p) b_T beta_T
    Q_g = int_0^1 prod_{T != g} Y_T dp,    R_g = int_0^1 sum_{T != g} n_T prod_{U != g, T} Y_U dp
    Owen_j = sum_l int_0^1 [ Delta_j of the engine for the members of g alone, with the probability q,
                             the weight w e^(-lam D_0) Q_g, and N_0 + R_g / Q_g in place of N_0 ] dq

with a_T and b_T the product of e^(-lam gap) over the members of T that are heavy when present, or
when absent, and alpha_T, beta_T what those members' heavy states add to the numerator. All of it
costs O(L (m_p M + m_q d)) for M groups.

Nodes: prod Y_T has degree M - 1 in p, so ceil(M/2) Gauss-Legendre nodes are exact; for q the bound
of `terms.py`, applied to the members of the group with |N_0 + R_g/Q_g| as the background, or
ceil(n_g/2), which is exact.

The members of a group add up to the group's Shapley value in the game of groups,
`game.merge(groups)`.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import check, usual_float_errors
from .._legendre import legendre_rule
from .._types import Array, Ids
from .engine.budget import Computation
from .engine.engine_game import Game
from .engine.evaluate import weighted_first_differences
from .engine.kernels import products_of_others, sum_in_pairs
from .engine.laws import UNIFORM
from .engine.rounding import OWEN_PER_GROUP, PRECISE
from .engine.terms import Terms, terms_of
from .game_sum import GameSum

# Minimum of |Q|, so small that no digit of a value changes, and R / Q does not overflow. A term
# changes by at most this times its weight, so anything up to 1e-20 would do, too: harmless by
# design.
LEAST_Q = 1e-150


@usual_float_errors
def owen(
    game: Game | GameSum, groups: Sequence[Sequence[int]] | ArrayLike, tol: float = 1e-10
) -> Array:
    """Compute the (d,) Owen values of a partition of the players, with |error| <= tol * max|f|
    guaranteed.

    Parameters
    ----------
    groups : a partition of the players such as [[0, 2], [1]], or the group number of each player
        such as [0, 1, 0]
    tol : relative accuracy; a looser one is faster

    Returns
    -------
    (d,) float64
        Owen value of each player: those of a group add up to the group's Shapley value in the game
        of groups

    Examples
    --------
    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores(
    ...     [0.0, 1.0, -1.0], [1.0, -1.0, 4.0], s_background=0.5, v_background=0.0
    ... )
    >>> owen(game, [[0, 2], [1]]).round(6)
    array([ 0.247433, -0.742397,  0.451935])
    >>> shapley(game.merge([[0, 2], [1]])).round(6)  # the groups: members add up to them
    array([ 0.699368, -0.742397])
    """
    members = as_groups(groups, game.d)
    if isinstance(game, GameSum):
        # Every value is a mean of differences of two values of the game.
        return game.combine(
            lambda part, part_tol: owen(part, members, part_tol),
            of_constant=np.zeros(game.d),
            growth=2.0,
            tol=tol,
        )
    M = len(members)
    # The product over groups adds rounding to that of the engine.
    amplification = 1 + OWEN_PER_GROUP * M / PRECISE
    computation = Computation(game, tol, amplification)
    goal = computation.budget
    order = np.concatenate(members)
    starts = np.cumsum([0, *map(len, members)])

    def sums_of(terms: Terms) -> Array:
        Q, R = _other_groups(terms, order, starts)
        out = np.zeros(game.d)
        for g, group in enumerate(members):
            inner = _members_alone(terms, group, Q=Q[:, g], R=R[:, g])
            batches = UNIFORM.batches(inner, goal.p_error)
            parts = (weighted_first_differences(inner, batch, goal.precise) for batch in batches)
            of_members = sum_in_pairs(parts, np.zeros(group.size))
            out[group] = of_members.real
        return out

    chunks = terms_of(computation.engine, goal)
    sums = sum_in_pairs(map(sums_of, chunks), np.zeros(game.d))
    # The probability of coming first: of M groups, then of the members of the group.
    first = np.empty(game.d)
    for group in members:
        first[group] = 1 / (M * group.size)
    return computation.finish(sums, empty_mass=-first)


def as_groups(groups: Sequence[Sequence[int]] | ArrayLike, d: int) -> list[Ids]:
    """Return a partition of d players as index arrays, from lists of players or from group
    numbers.
    """
    given: list[Any] = list(groups)  # type: ignore[arg-type]
    if given and all(np.ndim(entry) == 0 for entry in given):
        numbers = np.asarray(given)
        fits = numbers.shape == (d,) and numbers.dtype.kind in "iu"
        received = f"{len(given)} of {numbers.dtype}"
        check("groups", fits, f"{d} group numbers, one per player", received)
        return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    members = [np.asarray(entry, dtype=np.intp).reshape(-1) for entry in given]
    lists = [group.tolist() for group in members]
    listed = sorted(player for group in lists for player in group)
    is_partition = listed == list(range(d)) and all(lists)
    shown = str(lists)[:200]
    check("groups", is_partition, f"each player 0..{d - 1} in exactly one group", shown)
    return members


def _other_groups(terms: Terms, order: Ids, starts: Ids) -> tuple[Array, Array]:
    """Compute Q and R of every term and group, (r, M)."""
    M = starts.size - 1
    nodes, weights = legendre_rule((M + 1) // 2)
    a, alpha = _whole_groups(terms, order, starts, state=0)
    b, beta = _whole_groups(terms, order, starts, state=1)
    p = nodes[:, None, None]
    Q = np.empty_like(a)
    R = np.empty_like(a)
    # Tuning: elements of one working array of the integral over p, 8 MB.
    elements = 1 << 20
    step = max(1, elements // (p.size * M))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        present = a[part]
        absent = b[part]
        Y = p * present + (1 - p) * absent
        n_present = p * (present * alpha[part])
        n_absent = (1 - p) * (absent * beta[part])
        n = n_present + n_absent
        products, sums = products_of_others(Y, n)
        Q[part] = np.einsum("m,mrg->rg", weights, products)
        R[part] = np.einsum("m,mrg->rg", weights, sums)
    return Q, R


def _whole_groups(terms: Terms, order: Ids, starts: Ids, state: int) -> tuple[Array, Array]:
    """Return the factor and numerator (r, M) of every group as a whole: present (state 0) or absent
    (state 1).
    """
    masses = terms.masses
    gap = masses.gap * (1 - masses.lighter[:, state])
    V = masses.V[:, state]
    first_members = starts[:-1]
    group_gap = np.add.reduceat(gap[:, order], first_members, axis=1)
    group_V = np.add.reduceat(V[:, order], first_members, axis=1)
    exponent = -terms.lam[:, None] * group_gap[terms.piece_of]
    return np.exp(exponent), group_V[terms.piece_of]


def _members_alone(terms: Terms, group: Ids, Q: Array, R: Array) -> Terms:
    """Return the terms for the members of one group, with the other groups as part of the
    background.
    """
    Q = np.where(np.abs(Q) < LEAST_Q, LEAST_Q, Q)
    return terms.of_players(group, terms.weight * Q, terms.n_0 + R / Q)
