"""LIME's kernel as a law: each term of a game gets a rule in p that is accurate enough for it.

An `Assignment` keeps every term's rule together with the proved error of that rule for that term,
up to the point where nodes and weights are handed to the engine. A term that moves to another rule
gets the error of that rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from .._types import Array, Ids
from ..game.engine.bounds import log_bound
from ..game.engine.laws import Batch
from ..game.engine.rounding import MOST_NODES
from ..game.engine.terms import Terms
from .kernel import relative_kernel
from .rules import GROUPS, SizeRule, ladder, longest_of, rule_errors
from .size_moments import last_degree

# With two players left out of it, a product over players is at most e^2 e^(-p G) (see
# `largest_on_reals`). Generous by a factor of 14 at least: p e^(-p (G - 2)) <= 1 / (e (G - 2)), and
# this only counts where G > e^2.
DECAY = math.exp(2)


@dataclass(frozen=True)
class Assignment:
    """A rule for each term of a chunk that matters, and the proved error of the rule for this term.

    Attributes
    ----------
    terms : (n,) indices of the terms; those that are left out are smaller than their share of the
        error
    rules : all rules that were considered, shortest first
    rule_of : (n,) index of the rule of each term
    errors : (n,) error of this rule for this term
    allowed : error that each term may have on average
    """

    terms: Ids
    rules: tuple[SizeRule, ...]
    rule_of: Ids
    errors: Array
    allowed: float

    @property
    def is_accurate(self) -> bool:
        """Whether the errors add up to no more than all terms may have together.

        A term may exceed its share if others compensate for it.
        """
        if self.terms.size == 0:
            return True
        mean = np.add.reduce(self.errors) / self.errors.size
        return bool(mean <= self.allowed)

    @property
    def nodes(self) -> int:
        """The number of nodes of all terms together, which the cost is proportional to."""
        return sum(self.rules[k].p.size for k in self.rule_of.tolist())

    def batches(self) -> list[Batch]:
        """Return the nodes and weights of every group of terms with the same rule, at most
        MOST_NODES at a time.
        """
        batches = []
        for k in numbers_used(self.rule_of):
            which = self.terms[self.rule_of == k]
            p = self.rules[k].p[:, None]
            weights = self.rules[k].weights[:, None]
            for start in range(0, len(p), MOST_NODES):
                part = slice(start, start + MOST_NODES)
                batches.append(Batch(terms=which, p=p[part], weights=weights[part]))
        return batches


@dataclass(frozen=True)
class KernelLaw:
    """LIME's weights of s absent players, `relative_kernel`, as nodes and weights in p."""

    d: int
    width: float

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all sizes."""
        return _total_weight(self.d, self.width)

    def assign(
        self, terms: Terms, allowed: float, groups: tuple[tuple[int, ...], ...] = GROUPS
    ) -> Assignment:
        """Return the shortest rule of each term that is accurate enough for E_p[f], E_p[f Z_j] and
        Delta_j.

        `allowed` is the error of all terms of the game together, of which this chunk has its share.
        `groups` are those of `rules.py` that are tried. If no rule is accurate enough for some
        term, it has the best one, and the assignment is not accurate.
        """
        allowed = allowed * terms.sums.share / terms.sums.weight.size
        real = largest_on_reals(terms)
        which = np.flatnonzero(self.total_weight * real > allowed)
        log_bounds = log_bound(terms.sums)[which]
        real = real[which]
        rule_of = np.full(which.size, -1)
        errors = np.full(which.size, np.inf)
        rules = list[SizeRule]()
        for counts in groups:
            (waiting,) = (errors > allowed).nonzero()
            longest = last_degree(self.d, longest_of(counts)) + 1
            if not waiting.size or counts[0] > longest:
                break
            group = ladder(self.d, self.width, counts)
            choice, error = group.choose(log_bounds[waiting], real[waiting], allowed)
            better = error < errors[waiting]
            rule_of[waiting[better]] = len(rules) + choice[better]
            errors[waiting[better]] = error[better]
            rules += group.rules
        assignment = Assignment(
            terms=which, rules=tuple(rules), rule_of=rule_of, errors=errors, allowed=allowed
        )
        if not assignment.is_accurate:
            return assignment
        return self.with_joined_rules(assignment, log_bounds, real)

    def batches(self, terms: Terms, allowed: float, differences: bool = False) -> list[Batch]:
        """Return the nodes and weights of `assign`, for a game whose terms all have an accurate
        rule.
        """
        assignment = self.assign(terms, allowed)
        if not assignment.is_accurate:
            raise ValueError("terms: expected terms that have a rule in p, got some without")
        return assignment.batches()

    def with_joined_rules(
        self, assignment: Assignment, log_bounds: Array, real: Array
    ) -> Assignment:
        """Return an assignment of fewer groups: one of few terms joins the group with the next
        longer rule.

        The error of a longer rule is not always smaller: from the point where a Gauss rule no
        longer exists, rules have Gauss-Legendre nodes, which are exact to half the degree. So
        errors are those of the joined rule, and a group only joins if the sum of all errors stays
        within the allowed one.
        """
        rules = assignment.rules
        rule_of = assignment.rule_of.copy()
        errors = assignment.errors
        total = np.add.reduce(errors)
        allowed_together = assignment.allowed * rule_of.size
        # Tuning: elements (terms times players times nodes) that cost as much as one more call of
        # the engine. A group of terms joins the group with the next longer rule if that adds fewer
        # (benchmarks/lime).
        group_elements = 6_000
        for k, longer in pairwise(numbers_used(rule_of)):
            (group,) = (rule_of == k).nonzero()
            more_nodes = rules[longer].p.size - rules[k].p.size
            if group.size * self.d * more_nodes > group_elements:
                continue
            joined = errors.copy()
            joined[group] = rule_errors(rules[longer], log_bounds[group], real[group])
            total_joined = np.add.reduce(joined)
            if total_joined <= max(allowed_together, total):
                rule_of[group] = longer
                errors = joined
                total = total_joined
        return Assignment(assignment.terms, rules, rule_of, errors, assignment.allowed)


def numbers_used(numbers: Ids) -> list[int]:
    """Return the different small numbers, ascending.

    >>> numbers_used(np.array([3, 1, 3]))
    [1, 3]
    """
    # Much faster than `np.unique` for a few hundred terms.
    (used,) = np.bincount(numbers).nonzero()
    return used.tolist()


@lru_cache(maxsize=64)
def _total_weight(d: int, width: float) -> float:
    """Return the sum of the weights of all sizes."""
    from_smallest = np.ascontiguousarray(relative_kernel(d, width)[::-1])
    return float(from_smallest.sum())


def largest_on_reals(terms: Terms) -> Array:
    """Return a (r,) bound on each term of E_p[f] and of E_p[f Z_j] for p in [0, 1], and on its
    means over any size.

    The product over players is at most 1. If all players are heavier when present, it is at most
    e^2 e^(-p G), G the sum of 1 - E, even with two players left out of it; x A comes with a factor
    p, and p e^(-p G) <= 1/G. For m present players the product is at most t^m by Maclaurin's
    inequality, and m/d has the place of p.
    """
    sums = terms.sums
    if terms.masses.some_light:
        return sums.weight * (sums.background + sums.players)
    absent_of_piece = np.add.reduce(np.abs(terms.masses.V[:, 1]), axis=1)
    absent = absent_of_piece[terms.piece_of]
    present = np.maximum(sums.players - absent, 0.0)
    # Smaller sums of 1 - E count as this, so that nothing is divided by zero; e^2 over it is above
    # 1 in any case.
    least_decay = 1e-300
    # G = 0 makes it irrelevant.
    G = np.maximum(sums.heavy, least_decay)
    decay = np.minimum(1.0, DECAY / G)
    numerator = sums.background + absent + present * decay
    return sums.weight * numerator
