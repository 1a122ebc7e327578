"""Shapley values of probabilities, risks and losses in batches: against enumeration, and against the core."""

import jax.numpy as jnp
import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import PooledGame
from jax_model.device import linked
from tests.jax_model.test_values import KINDS, enumerated
from tests.problems import random_game

AGREE = 1e-9


def few_players():
    """Games of all kinds and links that enumeration can check, by name."""
    games = {}
    for seed, kind in enumerate(KINDS):
        for link, offset in (("sigmoid", 0.5), ("exp", 0.0)):
            games[f"{link}, {kind}"] = random_game(
                seed, 7, 1, kind, 6.0, offset, empty_value=0.3
            ).through(link)
    games["steep"] = random_game(9, 6, 1, "replaced+background").through("sigmoid", scale=6.0)
    games["wide"] = random_game(9, 5, 1, "deleted", 40.0).through("sigmoid")
    games["masked"] = PooledGame.from_scores([0.0, 1.0, -1e9], [1.0, -2.0, 3.0]).through("sigmoid")
    games["constant"] = PooledGame.from_scores(
        [0.0, 1.0], [2.0, 2.0], s_background=0.0, v_background=2.0
    ).through("exp")
    games["one player"] = PooledGame.from_scores([0.0], [2.0]).through("sigmoid")
    return games


@pytest.mark.parametrize(("dtype", "tol"), [(jnp.float64, 1e-11), (jnp.float32, 2e-2)])
def test_the_guarantee_game_by_game(dtype, tol):
    games = few_players()
    found = linked.shapley(list(games.values()), tol, dtype)
    assert len(found.problems) < len(games) / 3
    for i, (name, game) in enumerate(games.items()):
        if i in found.problems:
            assert np.isnan(found.values[i]).all() and np.isnan(found.errors[i])
            continue
        truth, largest = enumerated(game)
        assert np.abs(found.values[i] - truth).max() <= tol * largest, name
        assert found.errors[i] <= tol * largest * (1 + 1e-12)
        assert found.bases[i] == pytest.approx(float(game.value(np.zeros(game.d, bool))))


def test_many_players_as_the_core(monkeypatch):
    """Sizes of several blocks, intervals shorter than [0, 1], and factors that vanish, which the core computes."""
    exact = []
    monkeypatch.setattr(
        linked,
        "_vanishing",
        lambda *given, by_core=linked._vanishing: exact.extend(by_core(*given)) or exact,
    )
    sizes = zip((31, 33, 120, 200), KINDS, strict=True)
    games = [random_game(d, d, 1, kind, 5.0, 0.5).through("sigmoid", 4.0) for d, kind in sizes]
    found = linked.shapley(games)
    assert not found.problems and exact
    for ours, game in zip(found.values, games, strict=True):
        assert np.abs(ours - acf.shapley(game)).max() <= AGREE
        assert ours.sum() == pytest.approx(
            np.diff(game.value([[False] * game.d, [True] * game.d]))[0], abs=AGREE
        )


def test_one_bad_game_does_not_spoil_the_others(monkeypatch):
    good = random_game(0, 7, 1, "deleted").through("sigmoid")
    steep = random_game(0, 7, 1, "deleted").through("sigmoid", 1e4)
    found = linked.shapley([steep, good])
    assert set(found.problems) == {0} and "modulus of" in found.problems[0]
    assert np.isnan(found.values[0]).all() and np.isfinite(found.values[1]).all()
    assert "smallest possible tol" in linked.shapley([good], 1e-16).problems[0]
    monkeypatch.setattr(linked, "MOST_LOTS", 1)
    assert "too many terms" in linked.shapley([good]).problems[0]
    assert linked.shapley([]).values == []


def test_cosine_and_sine():
    t = np.concatenate(
        [
            np.linspace(-20, 20, 4001),
            np.array([1, -1]) * linked.LARGEST_PHASE,
            np.pi / 4 * np.arange(-9, 9),
        ]
    )
    cos, sin = linked._cos_sin(jnp.asarray(t))
    assert max(np.abs(cos - np.cos(t)).max(), np.abs(sin - np.sin(t)).max()) <= 3 * 2.0**-53
