"""The batched twin of the exact engine against the core."""

import jax.numpy as jnp
import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import PooledGame, ToleranceError
from jax_model.device import exact
from jax_model.device.game_batch import game_batch
from tests.problems import games, random_game

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
QUANTITIES = ["shapley", "banzhaf", "shapley_interactions", "leave_one_out", "expected_value_by_size"]
# The core's own tolerance is 1e-11 here; the two may differ by the sum of both guarantees.
AGREE = 1e-10


def by_heads():
    """The table of games, grouped by number of heads, without the ranges that plain float64 cannot hold."""
    groups = {}
    for name, game in games().items():
        if "1e4" not in name and name not in ("one player holds all", "masses 1e-300") and game.H in (1, 3):
            groups.setdefault(game.H, []).append(game)
    return groups


@pytest.mark.parametrize(("H", "batch"), by_heads().items())
@pytest.mark.parametrize(
    "name", ["shapley", "banzhaf", "shapley_interactions", "leave_one_out", "expected_value_by_size"]
)
def test_agrees_with_the_core(name, H, batch):
    d = 2 + max(game.d for game in batch)
    options = () if name == "leave_one_out" else (1e-11,)
    ours = getattr(exact, name)(game_batch(batch, d=d), *options)
    for row, game in zip(ours, batch, strict=True):
        core = getattr(acf, name)(game, *options)
        size = np.abs(game.value(np.ones((1, game.d), bool))).max() + np.abs(core).max()
        assert np.abs(row[tuple(slice(n) for n in core.shape)] - core).max() <= AGREE * size
        assert not row[core.shape[0] :].any()
        assert row.shape == tuple(n + d - game.d for n in core.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_long_documents(kind):
    batch = [random_game(seed, d, 2, kind, 5.0, offset=0.5) for seed, d in enumerate((150, 97, 211))]
    ours = exact.shapley(game_batch(batch), chunk=2)
    for row, game in zip(ours, batch, strict=True):
        assert np.abs(row[: game.d] - acf.shapley(game)).max() <= 2e-10 * np.abs(game.v).max() * 2


def test_float32_keeps_its_tolerance():
    batch = [random_game(seed, 60, 2, "replaced+background", offset=0.5) for seed in range(3)]
    ours = exact.shapley(game_batch(batch, dtype=jnp.float32), tol=1e-5)
    assert ours.dtype == np.float32
    for row, game in zip(ours, batch, strict=True):
        assert np.abs(row - acf.shapley(game)).max() <= 2e-5 * np.abs(game.v).max() * 2


def test_value():
    batch = [random_game(1, 5, 2, "deleted"), random_game(2, 3, 2, "replaced+background")]
    present = np.array([[True, False, True, True, False], [False, True, True, False, False]])
    ours = exact.value(game_batch(batch), present)
    assert ours == pytest.approx([game.value(row[: game.d]) for game, row in zip(batch, present, strict=True)])


def test_refuses_what_it_cannot_keep():
    games32 = game_batch([random_game(0, 5, 1, "deleted")], dtype=jnp.float32)
    with pytest.raises(ToleranceError, match="float32"):
        exact.shapley(games32, tol=1e-8)
    wide = game_batch([PooledGame.from_scores([0.0, 1e4], [1.0, 2.0])])
    with pytest.raises(ToleranceError, match="span"):
        exact.shapley(wide)
    with pytest.raises(ValueError, match="tol"):
        exact.shapley(games32, tol=-1.0)


def test_bad_batches():
    one, two = random_game(0, 5, 1, "deleted"), random_game(0, 5, 2, "deleted")
    with pytest.raises(ValueError, match="at least one game"):
        game_batch([])
    with pytest.raises(ValueError, match="heads"):
        game_batch([one, two])
    with pytest.raises(ValueError, match="d: expected at least 5"):
        game_batch([one], d=4)
    with pytest.raises(ValueError, match="chunk"):
        exact.shapley(game_batch([one]), chunk=0)
