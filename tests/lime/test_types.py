"""LIME's limit of games with few types of players, up to hundreds of them, against
`benchmarks/guarantee_types.py`.

The oracle counts how many players of each type are present, in ball arithmetic. It found what the
enumeration of 2^d coalitions could not reach: until version 0.3 a small group of terms of a game
could move to a longer rule in p whose error nobody had looked at.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, ToleranceError, lime_limit
from attn_closed_form.game.engine.poles import PoleGame
from attn_closed_form.game.links import Link
from tests.profiles import at_least

pytest.importorskip("flint")

from benchmarks import guarantee_types
from benchmarks.guarantee import GOOD, judge
from benchmarks.guarantee_functions import DEFAULTS, answer
from benchmarks.guarantee_games import Trial
from benchmarks.guarantee_type_games import random_recipe


def game_of_types(counts, s, v, **others):
    member = np.repeat(np.arange(len(counts)), counts)
    return PooledGame.from_scores(np.array(s)[member], np.array(v)[member], **others)


def ratio(game, link, tol, settings):
    """Largest error over what is promised."""
    asked = game if link is None else game.through(*link)
    ours = answer("lime", asked, tol, settings)
    of_link = None if link is None else guarantee_types.Link(*link)
    return guarantee_types.largest_ratio("lime", game, of_link, ours, tol, settings)


# The game, its link, the tolerance and the settings (width, ridge, number of samples, features),
# and how many times the error of 0.3 was outside.
OUTSIDE_IN_0_3 = {
    "equal players, 762 times": (
        game_of_types(
            [81],
            [1.1010088502450999],
            [2.775600151996036],
            s_background=0.2614857280911401,
            v_background=1.6982106303929836,
            empty_value=1.0,
        ),
        None,
        9.6e-12,
        (10.0, 0.01, 1000, ()),
    ),
    "54 players, 7 times": (
        game_of_types(
            [1, 1, 52],
            [0.4517338174793941, -0.12411998796258539, 0.2860592765972506],
            [-3.485950347148801, 5.691434408066092, 5.463158835898103],
            empty_value=6.0,
        ),
        ("sigmoid", 1.0),
        1.2e-11,
        (100.0, 1.0, 5000, ()),
    ),
    "68 players, 34 times": (
        game_of_types(
            [1, 1, 66],
            [-0.25370265633670597, 0.41468939852660447, -0.11219707015728009],
            [-2.1452803808533036, 0.5503860347969614, 2.0826138553544133],
            s_background=1.3585092401275827,
            v_background=0.5524521840075511,
            empty_value=6.0,
        ),
        ("sigmoid", 1.0),
        1.08e-10,
        (10.0, 1.0, 5000, ()),
    ),
    "92 players, every default, 13 times": (
        game_of_types([17, 37, 38], [0.1, -0.4, 0.0], [0.3, -2.8, 0.4]),
        ("sigmoid", 1.0),
        1e-10,
        DEFAULTS,
    ),
    "92 players of equal masses, every default, 9 times": (
        game_of_types([37, 25, 30], [0.0, 0.0, 0.0], [0.5, 1.2, -3.8]),
        ("exp", 0.5),
        1e-10,
        DEFAULTS,
    ),
}


@pytest.mark.parametrize("name", OUTSIDE_IN_0_3)
def test_games_that_were_outside(name):
    """At which tolerances near the given one they were outside depends on the last bit of a group's
    size. If a smaller one is refused, the one that is named has to work.
    """
    game, link, tol, settings = OUTSIDE_IN_0_3[name]
    assert ratio(game, link, tol, settings) <= 1
    for factor in (0.5, 0.7, 1.4, 2.0):
        asked = factor * tol
        try:
            found = ratio(game, link, asked, settings)
        except ToleranceError as error:
            assert factor < 1
            found = ratio(game, link, error.smallest, settings)
        assert found <= 1


# Constant games, and those with a distant empty coalition, whose values of g are computed once: until
# 0.4 only 8 ulps of them were counted.
OUTSIDE_UNTIL_0_4 = {
    "a constant small probability": (
        game_of_types(
            [98], [0.0], [-2.0566404847807895], bias=0.273985578206463, empty_value=-2.5945
        ),
        Link("sigmoid", 5.819885178653635),
        ["lime", "by size"],
    ),
    "one player and a large risk of nobody": (
        game_of_types([1], [0.0], [4.198], empty_value=52.5),
        Link("exp", 5.9134164014875825),
        ["shapley", "by size", "owen"],
    ),
    "two players and a larger risk of nobody": (
        game_of_types([1, 1], [0.0, 1.0], [4.1, 4.198], empty_value=52.50020496350667),
        Link("exp", 5.9134164014875825),
        ["lime"],
    ),
    "two players and a large risk of nobody": (
        game_of_types([1, 1], [0.0, 1.0], [1.0, 1.1], empty_value=47.3),
        Link("exp", 3.7),
        ["lime", "shapley", "by size", "owen"],
    ),
}


@pytest.mark.parametrize("name", OUTSIDE_UNTIL_0_4)
def test_known_values_are_counted_at_the_smallest_tol(name):
    game, link, functions = OUTSIDE_UNTIL_0_4[name]
    for what in functions:
        settings = {"lime": DEFAULTS, "owen": tuple(range(game.d))}.get(what, ())
        verdict, _ = judge(what, Trial(name, game, 1e-17, link), settings, attack="types")
        assert verdict == "refused"  # and the tolerance that is named works


def test_the_value_of_the_grand_coalition_is_counted(monkeypatch):
    """It may be off by its whole bound, also where the spread of the values is tiny."""

    def grand_means(self):
        grand = float(self.linked.value(np.ones(self.d, dtype=bool)))
        return np.array([grand + self.grand_error - self.base])

    monkeypatch.setattr(PoleGame, "grand_means", property(grand_means))
    game = game_of_types([1, 1, 9], [0.0, 1.0, 0.5], [0.01, 0.01 + 1e-12, 0.01], empty_value=0.01)
    trial = Trial("", game, 1e-17, Link("exp"))
    verdict, _ = judge("lime, odd settings", trial, (1.5, 0.01, 5000, ()), attack="types")
    assert verdict == "refused"


def test_every_tolerance_of_a_game_that_was_outside():
    """The error of 0.3 was inside at 1e-8 and at 1e-12, and outside in between."""
    game, link, _, settings = OUTSIDE_IN_0_3["equal players, 762 times"]
    for tol in np.geomspace(1e-8, 1e-12, 25):
        assert ratio(game, link, float(tol), settings) <= 1


@pytest.mark.parametrize("d", [46, 54, 92, 110])
@pytest.mark.parametrize("link", [("sigmoid", 1.0), ("exp", 0.5)])
def test_lengths_at_which_rules_change_their_kind(d, link):
    """From such lengths on the longest rules have Gauss-Legendre nodes, which are exact to half the
    degree.
    """
    game = game_of_types([d // 3, d // 3, d - 2 * (d // 3)], [0.0, -0.4, 0.2], [0.3, -2.8, 0.9])
    assert ratio(game, link, 1e-10, DEFAULTS) <= 1


@given(st.integers(0, 2**32), st.sampled_from(["lime", "lime, odd settings"]))
@at_least(40)
def test_games_of_few_types(seed, what):
    recipe = random_recipe(np.random.default_rng(seed), what, longest=130)
    verdict, largest = judge(*recipe.question(), attack="types")
    assert verdict in GOOD, (recipe, verdict, largest)


def test_the_oracle_refuses_what_is_wrong_by_twice_the_tolerance():
    game, link, tol, settings = OUTSIDE_IN_0_3["92 players, every default, 13 times"]
    found = lime_limit(game.through(*link), tol=tol)
    right = np.append(found.coef, found.intercept)
    largest = float(game.through(*link).value([True] * 17 + [False] * 75))
    for number in (17, 92):
        wrong = right.copy()
        wrong[number] += 2 * tol * largest
        of_link = guarantee_types.Link(*link)
        assert guarantee_types.largest_ratio("lime", game, of_link, wrong, tol, settings) > 1
