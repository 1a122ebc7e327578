"""The cost of LIME's limit: close to what is done, found quickly, and an error instead of hours."""

import pickle

import numpy as np
import pytest

from attn_closed_form import PooledGame, ToleranceError, lime_limit
from attn_closed_form._errors import CostError
from attn_closed_form.lime import cost as costs
from attn_closed_form.lime import lime_cost, lime_features
from attn_closed_form.lime.kernel import LimeSettings
from attn_closed_form.lime.moments import plan_rules
from attn_closed_form.lime.regression import regression
from tests.lime_games import score_game


def nodes_in_use(game, tol=1e-10):
    settings = LimeSettings(25.0, 1.0, 5000)
    plan = plan_rules(game, regression(game.d, settings, game.d), settings, tol)
    return sum(assignment.nodes for assignment in plan.assignments)


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("d", [20, 90, 400])
@pytest.mark.parametrize("link", [None, "sigmoid"])
@pytest.mark.usual_errors
def test_the_predicted_steps_are_those_that_are_taken(d, kind, link):
    game = score_game(d, H=1, kind=kind)
    if link:
        game = game.through(link)
    cost = lime_cost(game)
    assert cost.route == "rule"
    assert 0.6 < cost.steps / (nodes_in_use(game) * d) < 1.6


def test_the_recursion_costs_pairs_of_players():
    cost = lime_cost(score_game(30), kernel_width=0.1)
    assert cost.route == "recursion"
    assert cost.steps == cost.terms * 30**2


def test_thousands_of_replaced_words_are_cheap():
    game = score_game(20_000, H=1)
    assert lime_cost(game).seconds < 2.0


@pytest.mark.slow
def test_thousands_of_deleted_words_are_refused_before_they_are_computed(monkeypatch):
    """The message names what to do, and no rule and no sum is computed."""

    def never(*args):
        raise AssertionError("computed after all")

    def only_short_rules(*args, **groups):
        assert groups, "long rules are built"
        return plan_rules(*args, **groups)

    d = 20_000
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(
        rng.normal(size=d), 3 * rng.normal(size=d), s_background=0.0, v_background=0.0
    ).through("sigmoid")
    assert lime_cost(game, tol=1e-7).seconds > costs.MOST_SECONDS
    monkeypatch.setattr("attn_closed_form.lime.limit.plan_rules", only_short_rules)
    monkeypatch.setattr("attn_closed_form.lime.limit.moments_by_recursion", never)
    with pytest.raises(CostError, match="game") as caught:
        lime_limit(game, tol=1e-7)
    assert caught.value.seconds > costs.MOST_SECONDS
    with pytest.raises(CostError):
        lime_features(game, tol=1e-7)


def test_a_plan_that_fails_after_all_does_not_start_an_expensive_recursion(monkeypatch):
    rng = np.random.default_rng(1)
    d = 2_000
    game = PooledGame.from_scores(
        rng.normal(size=d), 3 * rng.normal(size=d), s_background=0.0, v_background=0.0
    ).through("sigmoid")
    monkeypatch.setattr("attn_closed_form.lime.limit.check_cost", lambda *args: "rule")
    monkeypatch.setattr("attn_closed_form.lime.limit.plan_rules", lambda *args, **groups: None)
    with pytest.raises(CostError):
        lime_limit(game, tol=1e-8)


def test_sums_that_take_too_long_are_not_started(monkeypatch):
    """100,000 replaced words have short rules, whose cost is known when the sums are about to
    begin.
    """
    monkeypatch.setattr(costs, "MOST_SECONDS", 1e-3)
    monkeypatch.setattr("attn_closed_form.lime.limit.moments_by_rule", None)
    with pytest.raises(CostError):
        lime_limit(score_game(3_000, H=1))


def test_an_impossible_tolerance_has_no_cost():
    with pytest.raises(ToleranceError):
        lime_cost(score_game(300), tol=1e-17)


def test_a_single_player_costs_nothing():
    assert lime_cost(score_game(1)).seconds == 0.0


def test_the_error_survives_a_process():
    error = pickle.loads(pickle.dumps(CostError("game: too large", 99.0)))
    assert error.seconds == 99.0 and str(error) == "game: too large"
