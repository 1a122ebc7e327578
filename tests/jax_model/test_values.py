"""Shapley values and LIME of batches against the core and against enumeration, in float64 and in float32."""

import re
from itertools import product
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import PooledGame
from jax_model.device.games import game_batch, value_of
from jax_model.device.values import lime_limit, shapley
from tests.problems import games, random_game

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
# The core's own tolerance is 1e-11 here; the two may differ by the sum of both guarantees.
AGREE = 1e-10


def by_heads():
    """The table of games, grouped by number of heads, without the ranges that plain float64 cannot hold."""
    groups = {}
    for name, game in games().items():
        if (
            "1e4" not in name
            and name not in ("one player holds all", "masses 1e-300")
            and game.H in (1, 3)
        ):
            groups.setdefault(game.H, []).append(game)
    return groups


@pytest.mark.parametrize(("H", "batch"), by_heads().items())
def test_agrees_with_the_core(H, batch):
    d = 2 + max(game.d for game in batch)
    ours, problems, *_ = shapley(game_batch(batch, d=d), 1e-10)
    assert len(problems) < len(batch) / 4 and ours.shape == (len(batch), d)
    for i, (row, game) in enumerate(zip(ours, batch, strict=True)):
        if i in problems:
            assert np.isnan(row).all()
            continue
        core = acf.shapley(game, 1e-10)
        size = np.abs(game.value(np.ones((1, game.d), bool))).max() + np.abs(core).max()
        assert np.abs(row[: game.d] - core).max() <= 2 * AGREE * size
        assert not row[game.d :].any()


def test_long_documents():
    """Of every kind, in one batch: a batch is compiled once."""
    sizes = enumerate((150, 97, 211))
    batch = [random_game(seed, d, 2, kind, 5.0, offset=0.5) for seed, d in sizes for kind in KINDS]
    ours, problems, *_ = shapley(game_batch(batch), chunk=3)
    assert not problems
    for row, game in zip(ours, batch, strict=True):
        assert np.abs(row[: game.d] - acf.shapley(game)).max() <= 2e-10 * np.abs(game.v).max() * 2


def enumerated(game):
    """Shapley values by all coalitions, and max|f|: nothing of the core but `value`."""
    d = game.d
    masks = np.array(list(product([False, True], repeat=d)))
    f = dict(zip(map(tuple, masks.tolist()), game.value(masks), strict=True))
    phi = np.zeros(d)
    for S in f:
        for i in range(d):
            if not S[i]:
                with_i = tuple(x or k == i for k, x in enumerate(S))
                phi[i] += (f[with_i] - f[S]) / (d * comb(d - 1, sum(S)))
    return phi, max(map(abs, f.values()))


def hard_games(seed, count=40, d=5):
    """Games of the kinds that a guarantee has to survive: spreads, offsets, heads that cancel, sizes."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        s = rng.normal(size=(2, d)) * rng.choice([0.3, 3.0, 8.0]) + rng.choice([0.0, 1000.0])
        v = rng.normal(size=(2, d)) + rng.choice([0.0, 1.0])
        if i % 4 == 1:
            v[1] = -v[0] + 1e-3 * rng.normal(size=d)
        size = 10.0 ** rng.choice([-30, 0, 0, 30])
        if i % 2:
            more = {"s_background": s.max(axis=1), "v_background": rng.normal(size=2) * size}
        else:
            more = {}
        if i % 3 == 0:
            more |= {
                "s_absent": s[:, ::-1] + rng.normal(size=(2, d)),
                "v_absent": rng.normal(size=(2, d)) * size,
            }
        found.append(PooledGame.from_scores(s, v * size, bias=float(rng.normal() * size), **more))
    return found


@pytest.mark.parametrize(("dtype", "tol"), [(jnp.float64, 1e-11), (jnp.float32, 3e-3)])
def test_the_guarantee_game_by_game(dtype, tol):
    """Every row within tol * max|f| or a reason; and the tol that a reason names works."""
    hard = hard_games(1)
    batch = game_batch(hard, dtype=dtype)
    values, problems, *_ = shapley(batch, tol)
    assert len(problems) < len(hard) * 0.6
    for i, game in enumerate(hard):
        if i in problems:
            assert np.isnan(values[i]).all()
            continue
        truth, largest = enumerated(game)
        assert np.abs(values[i] - truth).max() <= tol * largest, i
    named = [re.search(r"tol is (\S+)", reason) for reason in problems.values()]
    if any(named):
        works = max(float(match.group(1)) for match in named if match)
    else:
        works = tol
    assert not [
        reason
        for reason in shapley(batch, works).problems.values()
        if "smallest possible" in reason
    ]
    limits, problems, *_ = lime_limit(batch, tol=10 * tol)
    for i, game in enumerate(hard):
        if i not in problems:
            core = acf.lime_limit(game, tol=1e-9)
            largest = enumerated(game)[1]
            assert np.abs(limits[i].coef - core.coef).max() <= (10 * tol + 1e-9) * largest
            assert abs(limits[i].intercept - core.intercept) <= (10 * tol + 1e-9) * largest


PLAIN = random_game(0, 5, 1, "deleted", offset=0.5)


def five(*games, dtype=None):
    """A batch of five games of five players, the last ones plain: small batches of one size share their programs."""
    return game_batch([*games, *[PLAIN] * (5 - len(games))], d=5, dtype=dtype)


def test_one_bad_game_does_not_spoil_the_others():
    good = [PLAIN, *(random_game(seed, 5, 1, "deleted", offset=0.5) for seed in range(1, 3))]
    wide = PooledGame.from_scores([0.0, 1e4], [1.0, 2.0])
    cancelling = PooledGame.from_scores([0.0, 1.0], [1e9, -1e9], [0.5, 0.1], [-1e9, 1e9], bias=1e-3)
    values, problems, *_ = shapley(five(good[0], wide, good[1], cancelling, good[2]))
    assert "span" in problems[1] and "e^10000" in problems[1]
    assert np.isnan(values[1]).all()
    alone, none, *_ = shapley(five(*good))
    assert not none and set(problems) <= {1, 3}
    np.testing.assert_allclose(values[[0, 2, 4]], alone[:3], atol=1e-9)


def test_value():
    batch = [random_game(1, 5, 2, "deleted"), random_game(2, 3, 2, "replaced+background")]
    present = np.array([[True, False, True, True, False], [False, True, True, False, False]])
    padded = game_batch(batch)
    ours = np.ldexp(jax.vmap(value_of)(padded, present), padded.exponent)
    assert ours == pytest.approx(
        [game.value(row[: game.d]) for game, row in zip(batch, present, strict=True)]
    )


def test_float32_refuses_what_it_cannot_keep():
    games32 = five(dtype=jnp.float32)
    values, problems, *_ = shapley(games32, tol=1e-8)
    assert values.dtype == np.float32 and np.isnan(values).all()
    assert "float32" in problems[0] and "smallest possible tol" in problems[0]
    with pytest.raises(ValueError, match="tol"):
        shapley(games32, tol=-1.0)


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_float32_does_not_leave_its_range(size):
    """Sums are in units of the values, but results are not."""
    other = PooledGame.from_scores(np.zeros(5), np.arange(5) * size)
    values, problems, *_ = shapley(five(PLAIN, other, dtype=jnp.float32), tol=1e-2)
    assert set(problems) == {1} and np.isfinite(values[0]).all()


def test_float32_sees_that_its_values_were_rounded():
    """A bias of 1e16 takes the values away: nothing of f is left in float32."""
    game = PooledGame.from_scores(
        [0.0], [-1e16 + 4.0], bias=1e16, s_background=0.0, v_background=-1e16
    )
    assert set(shapley(five(game, dtype=jnp.float32), tol=1e-2).problems) == {0}


def test_lime_leaves_one_player_to_the_core():
    batch = [PLAIN, random_game(1, 1, 1, "replaced")]
    limits, problems, *_ = lime_limit(five(*batch))
    assert set(problems) == {1} and "attn_closed_form" in problems[1]
    assert np.isnan(limits[1].coef).all() and limits[1].coef.shape == (1,)
    np.testing.assert_allclose(limits[0].coef, acf.lime_limit(batch[0]).coef, atol=1e-9)


def test_lime_with_a_narrow_kernel_is_left_to_the_core():
    """Its weights leave float64, which is a problem of the game and no crash of the batch."""
    limits, problems, *_ = lime_limit(five(), kernel_width=0.2)
    assert "attn_closed_form" in problems[0] and np.isnan(limits[0].coef).all()


def test_bad_batches():
    one = random_game(0, 5, 1, "deleted")
    two = random_game(0, 5, 2, "deleted")
    with pytest.raises(ValueError, match="at least one game"):
        game_batch([])
    with pytest.raises(ValueError, match="heads"):
        game_batch([one, two])
    with pytest.raises(ValueError, match="d: expected at least 5"):
        game_batch([one], d=4)
    with pytest.raises(ValueError, match="chunk"):
        shapley(game_batch([one]), chunk=0)
