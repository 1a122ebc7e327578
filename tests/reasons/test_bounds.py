"""Bounds of a game: nothing is outside, something attains them, and one head leaves no gap."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    bounds,
    bounds_by_size,
    contrastive_reason,
    sufficient_reason,
)
from attn_closed_form.game.extrema import head_minima
from attn_closed_form.reasons.heads import mirrored, proved_above, total, value_error
from tests import enumeration
from tests.oracles import checks
from tests.problems import games, random_game

GAMES = games()
KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
# Share of max|v| that a proved bound may lie outside of the exact one: margins of rounding
# (`game/extrema.py`).
SLACK = 1e-11


@pytest.fixture(params=list(GAMES), scope="module")
def game(request):
    return GAMES[request.param]


def size(game):
    return (
        max(np.abs(game.v).max(), np.abs(game.v_absent).max(), np.abs(game.v_background).max())
        * game.H
    )


def check(game, found):
    f = enumeration.values(game)
    assert found.proved_min <= f.min() and f.max() <= found.proved_max
    assert found.attained_min == game.value(found.min_present)
    assert found.attained_max == game.value(found.max_present)
    if found.exact:
        assert abs(found.attained_min - f.min()) <= SLACK * size(game)
        assert abs(found.attained_max - f.max()) <= SLACK * size(game)


@checks(bounds, by="enumeration")
def test_by_enumeration(game):
    found = bounds(game)
    check(game, found)
    assert found.exact


def test_by_enumeration_without_enumerating_inside(game, monkeypatch):
    """The proofs for several heads, which small games would not need."""
    monkeypatch.setattr(sys.modules[bounds.__module__], "ENUMERATED", 0)
    found = bounds(game)
    check(game, found)
    assert found.exact or game.H > 1


@given(seed=st.integers(0, 10**6), d=st.integers(1, 8), kind=st.sampled_from(KINDS))
def test_one_head_is_exact(seed, d, kind):
    rng = np.random.default_rng(seed)
    spread = float(rng.choice([0.1, 5.0, 80.0, 3000.0]))
    found = bounds(
        game := random_game(seed, d, 1, kind, spread, bias=rng.normal(), empty_value=rng.normal())
    )
    assert found.exact
    check(game, found)


def test_ties_do_not_hide_the_light_players():
    """A great mass at exactly the running minimum: leaving it out lets a light player be heard."""
    game = PooledGame.from_scores(
        [0.0, -28.0], [1.0, 1.0 - 1e-5], s_background=-28.0, v_background=1.0 - 1e-5
    )
    found = bounds(game)
    assert found.exact
    assert found.attained_min == pytest.approx(1.0 - 1e-5, abs=1e-12)


def test_a_wrong_bound_is_seen(game):
    found = bounds(game)
    shifted = replace(found, proved_min=found.proved_min + 1e-6 * (1 + abs(found.proved_min)))
    with pytest.raises(AssertionError):
        check(game, shifted)


@pytest.mark.parametrize("kind", KINDS)
def test_limits_by_enumeration(kind):
    """At most k players leave a coalition: exact for one head."""
    d = 7
    masks = enumeration.coalitions(d)
    for seed in range(12):
        game = random_game(seed, d, 1, kind, 5.0, bias=0.2)
        base = masks[37 * seed % 128 or 127]
        movable = np.random.default_rng(seed).random(d) < 0.8
        moved = masks ^ base
        allowed = ~(moved & ~movable).any(axis=1) & (masks.any(axis=1) | (not game.can_be_empty))
        f = enumeration.values(game)
        for k in (1, 2, 4):
            exact = f[allowed & (moved.sum(axis=1) <= k)].min()
            found = total(game, head_minima(game, base, movable, k).bound)
            assert exact - SLACK <= found <= exact


@pytest.mark.parametrize("kind", KINDS)
def test_joint_proofs_are_true_and_go_further(kind):
    """No goal above the minimum is ever proved; goals below the sum of the heads' minima are not
    the only ones.
    """
    d = 9
    further = 0
    everybody = np.ones(d, dtype=bool)
    masks = enumeration.coalitions(d)
    for seed in range(25):
        base = random_game(seed, d, 1, kind, 2.0)
        noise = np.random.default_rng(seed).normal(scale=0.1, size=(3, d))
        game = replace(base, **_three_heads(base, noise))
        f = enumeration.values(game)
        for limit in (None, 3):
            near = masks.sum(axis=1) >= (0 if limit is None else d - limit)
            if game.can_be_empty:
                near = near & masks.any(axis=1)
            least = float(f[near].min())
            heads = float(total(game, head_minima(game, everybody, everybody, limit).bound))
            assert not proved_above(game, everybody, everybody, least + 1e-9, limit)
            if least - heads > 1e-3:
                further += proved_above(
                    game, everybody, everybody, heads + (least - heads) / 4, limit
                )
    assert further >= 1


def _three_heads(game, noise):
    rows = {
        name: np.repeat(getattr(game, name), 3, axis=0)
        for name in ("s", "v", "s_absent", "v_absent")
    }
    rows |= {name: np.repeat(getattr(game, name), 3) for name in ("s_background", "v_background")}
    return rows | {"v": rows["v"] + noise}


def test_many_players_and_many_heads():
    game = random_game(0, 500, 3, "replaced+background", 4.0, bias=1.0)
    found = bounds(game)
    values = game.value(np.random.default_rng(0).random((500, 500)) < 0.5)
    assert (
        found.proved_min <= found.attained_min <= values.min()
        and values.max() <= found.attained_max <= found.proved_max
    )


def test_mirrored_is_the_opposite_game(game):
    masks = enumeration.coalitions(game.d)
    assert (np.abs(mirrored(game).value(masks) + game.value(masks)) <= 2 * value_error(game)).all()


def test_to_dict_is_plain():
    import json

    found = bounds(random_game(1, 5, 2, "deleted", 2.0))
    assert set(json.loads(json.dumps(found.to_dict()))) >= {
        "attained_min",
        "attained_max",
        "proved_min",
        "proved_max",
        "exact",
    }


@pytest.mark.parametrize(
    "function", [bounds, bounds_by_size, sufficient_reason, contrastive_reason]
)
def test_a_linked_game_is_refused_with_what_to_pass(function):
    game = PooledGame.from_scores([0.0, 1.0], [3.0, -1.0], s_background=0.0, v_background=0.0)
    with pytest.raises(TypeError, match="game"):
        function(game.through("sigmoid"))
    with pytest.raises(TypeError, match="game"):
        function([1.0, 2.0])


def test_both_sides_must_be_exact():
    """All heads have their minimum at player 0, and their maxima at different players."""
    v = np.zeros((2, 14))
    v[:, 0] = -5.0
    v[0, 1] = v[1, 2] = 3.0
    v[1, 1] = v[0, 2] = -3.0
    game = PooledGame.from_scores(np.zeros((2, 14)), v)
    for found in (bounds(game), bounds(mirrored(game))):
        assert not found.exact
    low = bounds(game)
    assert low.attained_min - low.proved_min <= 8 * value_error(game)
    assert low.proved_max - low.attained_max > 1e-3


@pytest.mark.parametrize(("errors", "exact"), [(0, True), (7.5, True), (9, False), (40, False)])
def test_exact_means_within_the_rounding_of_a_value(errors, exact, monkeypatch):
    """Attained and proved minimum this many rounding errors of a value apart."""
    game = PooledGame.from_scores([0.0, 0.0], [1.0, -1.0], s_background=0.0, v_background=0.0)

    def apart(game):
        return -1.0 - errors * value_error(game), np.ones(2, dtype=bool), -1.0

    monkeypatch.setattr(sys.modules["attn_closed_form.reasons.bounds"], "minimum", apart)
    assert bounds(game).exact is exact
