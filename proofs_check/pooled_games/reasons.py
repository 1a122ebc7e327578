"""Linear forms, greedy reasons, and the bounds for several heads."""

from __future__ import annotations

import cmath
import itertools
import math
from fractions import Fraction

from proofs_check.leemann2025.forms import worst
from proofs_check.pooled_games.games import (
    DELETED,
    HEADS,
    REPLACED,
    SECOND,
    THRESHOLDS,
    F,
    Head,
    N,
    coalitions,
)
from proofs_check.registry import OURS, Outcome, one_plus, statement
from proofs_check.tolerances import EXACT, INEQUALITY

EVERYBODY = frozenset(range(N))
ALL = list(coalitions(range(N)))


def _effects(head: Head, theta: Fraction) -> list[Fraction]:
    """r_j = a_j (v_j - theta) - b_j (w_j - theta)."""
    return [p.a * (p.v - theta) - p.b * (p.w - theta) for p in head.players]


def _lowest(head: Head, theta: Fraction) -> Fraction:
    """C (u - theta) + sum_j min(x_j, y_j)."""
    terms = (min(p.a * (p.v - theta), p.b * (p.w - theta)) for p in head.players)
    return head.c * (head.u - theta) + sum(terms, F(0))


@statement(
    paper=OURS,
    ref="Linear form of one head",
    claim=(
        "f(S) - theta is [c (u - theta) + sum_present a (v - theta) + sum_absent b (w - theta)] / "
        "D(S), D(S) > 0"
    ),
    method="exact rational enumeration",
)
def linear(perturb: float = 0.0) -> Outcome:
    """Every coalition, five thresholds, three games."""
    gaps = []
    for head, theta, S in itertools.product(HEADS, THRESHOLDS, ALL):
        N_theta, D = head.terms(S, theta)
        gaps.append(one_plus(perturb) * N_theta / D - (head.value(S) - theta))
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Least value of one head",
    claim=(
        "c (u - theta) + sum_j min(x_j, y_j) is zero at theta = min f, positive below and negative "
        "above"
    ),
    method="exact rational enumeration",
)
def least_value(perturb: float = 0.0) -> Outcome:
    """The root, and the sign on both sides of it."""
    gaps = []
    for head in HEADS:
        least = min(map(head.value, ALL))
        gaps.append(_lowest(head, one_plus(perturb) * least))
        gaps += [min(F(0), _lowest(head, least - step)) for step in (F(1, 9), F(2))]
        gaps += [max(F(0), _lowest(head, least + step)) for step in (F(1, 9), F(2))]
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Smallest sufficient set",
    claim=(
        "the best k players to keep have the largest positive effects: the worst case rises by "
        "their sum"
    ),
    assumptions=(
        "one head; the worst case is the least linear form over all coalitions that contain the set"
    ),
    method="exact rational enumeration",
)
def sufficient(perturb: float = 0.0) -> Outcome:
    """For every k the largest worst case over all sets of k players, by enumeration, against the
    greedy sum.
    """
    gaps = []
    for head, theta in itertools.product(HEADS, THRESHOLDS):
        gains = sorted((max(r, F(0)) for r in _effects(head, theta)), reverse=True)
        for k in range(N + 1):
            best = max(
                min(head.terms(S, theta)[0] for S in ALL if frozenset(R) <= S)
                for R in itertools.combinations(range(N), k)
            )
            gaps.append(one_plus(perturb) * (_lowest(head, theta) + sum(gains[:k], F(0))) - best)
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Smallest set that flips",
    claim=(
        "the best k players to remove are those with the largest effects: the linear form falls by "
        "their sum"
    ),
    assumptions="one head",
    method="exact rational enumeration",
)
def contrastive(perturb: float = 0.0) -> Outcome:
    """For every k the least linear form after removing k players, by enumeration."""
    gaps = []
    for head, theta in itertools.product(HEADS, THRESHOLDS):
        effects = sorted(_effects(head, theta), reverse=True)
        whole = head.terms(EVERYBODY, theta)[0]
        for k in range(N + 1):
            least = min(
                head.terms(EVERYBODY - set(R), theta)[0]
                for R in itertools.combinations(range(N), k)
            )
            gaps.append(one_plus(perturb) * (whole - sum(effects[:k], F(0))) - least)
    return Outcome(worst(gaps), EXACT)


@statement(
    paper=OURS,
    ref="Reasons of several heads",
    claim=(
        "R fails to suffice if f(M + R) <= theta for one M; its maximum over R is at most the sum "
        "of the heads'"
    ),
    assumptions="|R| <= k; each head's maximum over R taken on its own",
    method="exact rational enumeration",
)
def several_heads(perturb: float = 0.0) -> Outcome:
    """The two heads that nearly agree, every M and k; equality occurs, so one per cent less must
    fail.
    """
    gaps = []
    slack = []
    heads = (REPLACED, SECOND)
    for M, k in itertools.product(ALL, range(3)):
        sets = [M | set(R) for R in itertools.combinations(range(N), k)]
        joint = max(sum((head.value(S) for head in heads), F(0)) for S in sets)
        apart = sum((max(map(head.value, sets)) for head in heads), F(0))
        bound = apart - Fraction(str(perturb)) * abs(apart)
        gaps.append(max(F(0), joint - bound))
        slack.append(apart - joint)
    return Outcome(worst(gaps), INEQUALITY, detail=f"largest gap {float(max(slack)):.3g}")


@statement(
    paper=OURS,
    ref="Bounds of a ratio (McCormick)",
    claim="rho <= X/D and D <= U give X/D >= rho + (X - rho D)/U",
    method="exact rational enumeration",
)
def ratio_bounds(perturb: float = 0.0) -> Outcome:
    """With the sharp rho and U of each game; the line touches, so one per cent more must fail."""
    gaps = []
    for head, theta in itertools.product(HEADS, THRESHOLDS):
        points = [head.terms(S, theta) for S in ALL]
        low = min(X / D for X, D in points)
        U = max(D for _, D in points)
        for X, D in points:
            line = low + (X - low * D) / U
            gaps.append(max(F(0), line + Fraction(str(perturb)) * abs(line) - X / D))
    return Outcome(worst(gaps), INEQUALITY)


@statement(
    paper=OURS,
    ref="Greatest mass below a value (dual)",
    claim=(
        "min over mu >= 0 of max_S [D - mu (N - tau D)] is at least the greatest D(S) with f(S) <= "
        "tau"
    ),
    method="exact rational enumeration",
)
def dual(perturb: float = 0.0) -> Outcome:
    """Five multipliers beside zero; at the heaviest coalition the bound for mu = 0 is sharp."""
    gaps = []
    for head, tau in itertools.product((REPLACED, DELETED, SECOND), (*THRESHOLDS, F(5))):
        allowed = [head.terms(S)[1] for S in ALL if head.value(S) <= tau]
        if not allowed:
            continue
        bound = min(
            max(head.terms(S)[1] - mu * head.terms(S, tau)[0] for S in ALL)
            for mu in (F(0), F(1, 8), F(1, 2), F(1), F(3), F(20))
        )
        gaps.append(max(F(0), one_plus(perturb) * max(allowed) - bound))
    return Outcome(worst(gaps), INEQUALITY)


@statement(
    paper=OURS,
    ref="Densities on an ellipse",
    claim=(
        "on the Bernstein ellipse e^theta around [0, 1], |p| and |1 - p| are at most (1 + cosh "
        "theta)/2 <= e^theta"
    ),
    method="algebra",
)
def ellipse(perturb: float = 0.0) -> Outcome:
    """A thousand points on each of five ellipses; the right end attains the bound."""
    gaps = []
    for theta in (0.02, 0.3, 1.0, 2.0, 3.2):
        most = (1 + math.cosh(theta)) / 2
        for k in range(1000):
            z = cmath.exp(complex(theta, 2 * math.pi * k / 1000))
            p = (1 + (z + 1 / z) / 2) / 2
            gaps += [max(0.0, (1 + perturb) * abs(x) - most) for x in (p, 1 - p)]
        gaps.append(max(0.0, most - math.exp(theta)))
    return Outcome(worst(gaps), INEQUALITY)
