"""LIME's kernel as a law: every term has the error of its own rule, and the errors add up to what
is allowed.
"""

from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game.engine.bounds import log_bound
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.terms import terms_of
from attn_closed_form.lime import law as law_module
from attn_closed_form.lime.law import Assignment, KernelLaw, largest_on_reals
from attn_closed_form.lime.rules import ladder, rule_errors
from tests.lime_games import score_game


def assignments(game, width, allowed):
    law = KernelLaw(game.d, width)
    for terms in terms_of(game, budget(game, 1e-9)):
        yield terms, law.assign(terms, allowed)


@pytest.mark.parametrize("width", [25.0, 10.0])
@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("d", [17, 81, 150])
@pytest.mark.usual_errors
def test_errors_are_those_of_the_rules_and_add_up_to_no_more_than_allowed(d, kind, width):
    allowed = 1e-7
    total = 0.0
    for terms, assignment in assignments(score_game(d, kind=kind), width, allowed):
        assert assignment.is_accurate
        bounds = log_bound(terms.sums)[assignment.terms]
        real = largest_on_reals(terms)
        for k in np.unique(assignment.rule_of).tolist():
            group = assignment.rule_of == k
            errors = rule_errors(assignment.rules[k], bounds[group], real[assignment.terms][group])
            # A bound has two forms; the assignment may have kept the larger one.
            assert (errors <= assignment.errors[group] * (1 + 1e-12)).all()
        omitted = np.delete(real, assignment.terms)
        weight = KernelLaw(d, width).total_weight
        total += assignment.errors.sum() + weight * omitted.sum()
    assert total <= allowed * (1 + 1e-9)


def test_groups_of_equal_players_whose_longer_rule_is_worse():
    """81 equal players with a background: the game that a joined group once put outside the
    guarantee.
    """
    game = PooledGame.from_scores(
        np.full(81, 1.1010088502450999),
        np.full(81, 2.775600151996036),
        s_background=0.2614857280911401,
        v_background=1.6982106303929836,
        empty_value=1.0,
    )
    for allowed in np.geomspace(1e-14, 1e-8, 25):
        for _, assignment in assignments(game, 10.0, allowed):
            if assignment.is_accurate:
                limit = assignment.allowed * assignment.terms.size
                assert assignment.errors.sum() <= limit * (1 + 1e-12)


def test_an_assignment_that_is_not_accurate_is_not_used():
    game = score_game(30, kind="deleted")
    for terms, assignment in assignments(game, 25.0, 1e-30):
        assert not assignment.is_accurate
        with pytest.raises(ValueError, match="terms"):
            KernelLaw(30, 25.0).batches(terms, 1e-30)


def test_terms_together_may_have_what_one_exceeds():
    _, assignment = next(assignments(score_game(30), 25.0, 1e-9))
    errors = np.zeros(assignment.errors.size)
    errors[0] = assignment.allowed * errors.size
    assert replace(assignment, errors=errors).is_accurate
    assert not replace(assignment, errors=errors * 1.01).is_accurate


@pytest.mark.parametrize(("factor", "joins"), [(0.9, True), (1.1, False), (5.0, False)])
def test_a_group_joins_a_longer_rule_only_within_the_allowed_error(factor, joins, monkeypatch):
    """Two terms with two rules; the error of the first one on the longer rule is a multiple of what
    both may have.
    """
    law = KernelLaw(30, 25.0)
    rules = ladder(30, 25.0, (4, 6)).rules
    allowed = 1e-6
    assignment = Assignment(np.arange(2), rules, np.array([0, 1]), np.zeros(2), allowed)

    def errors(rule, log_bound, B):
        return np.full(len(B), 2 * allowed * factor)

    monkeypatch.setattr(law_module, "rule_errors", errors)
    joined = law.with_joined_rules(assignment, np.zeros((2, 16)), np.ones(2))
    assert joined.rule_of.tolist() == ([1, 1] if joins else [0, 1])
