"""Games of few types of players: the oracle that counts them, and the values of the library against
it.

`benchmarks/guarantee_types.py` reaches thousands of players. For few players it must agree with the
enumeration of all coalitions (`benchmarks/guarantee_oracle.py`), which shares no formula with it
but the link's.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    banzhaf,
    expected_value_by_size,
    interactions,
    owen,
    semivalue,
    shapley,
)
from attn_closed_form.game import beta_shapley, weighted_banzhaf
from attn_closed_form.game.links import Link, LinkedGame
from tests.oracles import checks
from tests.profiles import at_least, mostly_slow

pytest.importorskip("flint")

from benchmarks import guarantee_oracle, guarantee_types
from benchmarks.guarantee import GOOD, judge
from benchmarks.guarantee_functions import SHARES, answer, random_settings
from benchmarks.guarantee_type_games import random_recipe

VALUES = [
    "shapley",
    "banzhaf",
    "weighted banzhaf",
    "beta shapley",
    "semivalue",
    "by size",
    "interactions",
    "index",
    "owen",
]


def small_game(rng):
    """Up to six players of two types, and a link for games with one head."""
    d = int(rng.integers(2, 7))
    H = int(rng.integers(1, 3))
    member = rng.integers(0, 2, d)
    s, v, s_absent, v_absent = rng.normal(size=(4, H, 2))[:, :, member]
    others = {}
    if rng.random() < 0.5:
        others |= {"s_absent": s_absent, "v_absent": v_absent}
    if rng.random() < 0.5:
        others |= {"s_background": rng.normal(size=H), "v_background": rng.normal(size=H)}
    game = PooledGame.from_scores(s, v, bias=1.5, empty_value=2.5, **others)
    links = [None] if H > 1 else [None, ("sigmoid", 2.0), ("exp", 0.5)]
    return game, links[int(rng.integers(len(links)))]


def by_enumeration(what, game, link, settings):
    """All numbers of an answer, as balls, from the definition: a weighted sum over all coalitions
    for each.
    """
    if link is None:
        values = guarantee_oracle.ball_values(game)
    else:
        values = guarantee_oracle.linked_ball_values(game, *link, bits=2000)
    return guarantee_oracle.exact_answers(what, values, settings)


@pytest.mark.parametrize("what", list(SHARES))
@pytest.mark.parametrize("seed", range(6))
def test_counting_agrees_with_enumeration(what, seed):
    rng = np.random.default_rng([seed, len(what)])
    game, link = small_game(rng)
    settings = random_settings(rng, what, game.d)
    if what == "owen":
        settings = tuple(rng.integers(0, 3, game.d).tolist())
    expected = by_enumeration(what, game, link, settings)
    of_link = None if link is None else guarantee_types.Link(*link)
    found = guarantee_types.exact_answers(what, game, of_link, settings, bits=4000)
    assert len(found) == len(expected)
    for number, exact in zip(found, expected, strict=True):
        assert float(abs(number - exact).upper()) < 1e-75


@pytest.mark.parametrize("what", ["lime", "lime, odd settings", *VALUES])
def test_the_error_of_the_estimate_is_bounded(what):
    """The bound is what lets an answer pass without balls."""
    for seed in range(8):
        recipe = random_recipe(np.random.default_rng([seed, 1]), what, longest=60)
        what, trial, settings = recipe.question()
        link = None
        if trial.link is not None:
            link = guarantee_types.Link(trial.link.name, trial.link.scale)
        question = guarantee_types.question_of(what, trial.game, settings)
        exact = guarantee_types.exact_answers(what, trial.game, link, settings, bits=4000)
        ours = np.array([float(x.mid()) for x in exact]) + trial.tol
        estimate = guarantee_types.estimated_ratio(question, trial.game, link, ours, trial.tol)
        decided = guarantee_types.decided_ratio(question, trial.game, link, ours, trial.tol)
        # The second ratio is rounded up by at most a thousandth.
        assert abs(decided - estimate.ratio) <= estimate.doubt + 2e-3 * decided


@given(st.integers(0, 2**32), st.sampled_from(VALUES))
@at_least(40)
def test_games_of_few_types(seed, what):
    recipe = random_recipe(np.random.default_rng(seed), what, longest=130)
    verdict, largest = judge(*recipe.question(), attack="types")
    assert verdict in GOOD, (recipe, verdict, largest)


FUNCTIONS = {
    "shapley": shapley,
    "banzhaf": banzhaf,
    "weighted banzhaf": weighted_banzhaf,
    "beta shapley": beta_shapley,
    "semivalue": semivalue,
    "by size": expected_value_by_size,
    "interactions": interactions,
    "index": interactions,
    "owen": owen,
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=checks(FUNCTIONS[what], by="more digits")) for what in VALUES]
)
@pytest.mark.usual_errors
def test_one_wrong_number_is_seen(what):
    rng = np.random.default_rng(len(what))
    recipe = random_recipe(rng, what, longest=40)._replace(tol=1e-6)
    what, trial, settings = recipe.question()
    link = None
    if trial.link is not None:
        link = guarantee_types.Link(trial.link.name, trial.link.scale)
    types = guarantee_types.question_of(what, trial.game, settings).types
    largest = guarantee_types.values_by_counts(trial.game, types, link).largest
    right = answer(what, trial.asked, trial.tol, settings)

    def ratio(ours):
        return guarantee_types.largest_ratio(what, trial.game, link, ours, trial.tol, settings)

    assert ratio(right) < 1
    for number in {0, right.size // 2, right.size - 1}:
        wrong = right.copy()
        wrong[number] += 2 * trial.tol * largest
        assert ratio(wrong) > 1


@pytest.mark.parametrize("name", list(guarantee_types.LINKS))
def test_links_are_those_of_the_library(name):
    game = PooledGame.from_scores([0.0, 1.0, -0.5], [4.0, -3.0, 0.7], empty_value=0.2)
    linked = LinkedGame(game, Link(name, 0.8))
    types = guarantee_types.types_of(game)
    values = guarantee_types.values_by_counts(game, types, guarantee_types.Link(name, 0.8), 200)
    for counts in np.ndindex(types.shape):
        present = np.zeros(3, dtype=bool)
        present[types.first] = np.array(counts, dtype=bool)
        assert float(values.f[counts].mid()) == pytest.approx(linked.value(present), rel=1e-13)


@pytest.mark.parametrize("name", list(guarantee_types.LINKS))
@pytest.mark.parametrize("what", mostly_slow(["lime", "shapley", "beta shapley", "owen"], 2))
def test_the_named_tol_works_with_its_own_poles(name, what):
    """Poles depend on the tolerance: those for a larger one are fewer, and may lose more digits."""
    rng = np.random.default_rng([len(name), len(what)])
    for _ in range(4):
        recipe = random_recipe(rng, what, longest=40)
        while recipe.s.shape[0] > 1:
            recipe = random_recipe(rng, what, longest=40)
        recipe = recipe._replace(link=name, scale=1 / np.abs(recipe.v).max(), tol=1e-16)
        verdict, _ = judge(*recipe.question(), attack="types")
        assert verdict in GOOD, (recipe, verdict)


def test_thousands_of_equal_players_share_what_there_is():
    d = 5000
    game = PooledGame.from_scores(
        np.full(d, 0.3), np.full(d, 2.0), s_background=4.0, v_background=-1.0
    )
    phi = shapley(game)
    assert guarantee_types.largest_ratio("shapley", game, None, phi, 1e-10, ()) <= 1
    exact = guarantee_types.exact_answers("shapley", game, None, ())
    everyone, empty = game.value([[True] * d, [False] * d])
    assert float(exact[0].mid()) == pytest.approx((everyone - empty) / d, rel=1e-12, abs=0)


def test_values_of_a_constant_game_are_exactly_zero():
    """The weights of present and of absent players cancel."""
    game = PooledGame.from_scores([0.5, 0.5, 2.0], [3.0, 3.0, 3.0], empty_value=3.0)
    for what in ("shapley", "banzhaf"):
        for number in guarantee_types.exact_answers(what, game, None, ()):
            assert number == 0
