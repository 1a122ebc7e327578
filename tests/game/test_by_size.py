"""Means by size: the recursion and its adjoint against every subset, counted one by one."""

from itertools import combinations

import numpy as np
import pytest

from attn_closed_form import CostError, PooledGame, ToleranceError, expected_value_by_size
from attn_closed_form.game import semivalue
from attn_closed_form.game.by_size import centered_moments
from attn_closed_form.game.engine.budget import budget
from tests.oracles import checks

# The guaranteed bound at the default tol.
TOL = 1e-10


def moments_by_size(game, q, tol=1e-10):
    """Sums over sizes of q_s E[f | s absent] and of q_s E[f 1{j present} | s absent], with f's
    constant and nobody.
    """
    d = game.d
    sums = centered_moments(game, np.asarray(q)[None], budget(game, tol, plain=True))
    (mean,), present = (np.ldexp(x, game.exponent) for x in sums)
    mean = mean + q[-1] * game.empty_excess + game.base * q.sum()
    return float(mean), present + game.base * (q @ (d - np.arange(d + 1))) / d


def make_game(d: int, H: int, kind: str, seed: int = 0, spread: float = 1.5) -> PooledGame:
    rng = np.random.default_rng([seed, d, H])
    s = rng.normal(size=(H, d)) * spread
    v = rng.normal(size=(H, d)) + 0.3
    if kind == "unk":
        extra = {"s_absent": rng.normal(size=(H, d)) * spread, "v_absent": rng.normal(size=(H, d))}
        return PooledGame.from_scores(
            s, v, **extra, s_background=rng.normal(size=H), v_background=0.2, bias=0.7
        )
    if kind == "deleted":
        return PooledGame.from_scores(
            s, v, s_background=rng.normal(size=H), v_background=rng.normal(size=H), bias=-0.4
        )
    return PooledGame.from_scores(s, v, bias=0.3, empty_value=-1.1)


def brute_force(game: PooledGame) -> tuple[np.ndarray, np.ndarray]:
    """E[f | s absent] (d+1,) and E[f 1{j present} | s absent] (d+1, d), subset by subset."""
    d = game.d
    mean = np.zeros(d + 1)
    present = np.zeros((d + 1, d))
    for s in range(d + 1):
        masks = [[j not in absent for j in range(d)] for absent in combinations(range(d), s)]
        values = [float(game.value(mask)) for mask in masks]
        mean[s] = sum(values) / len(masks)
        for value, mask in zip(values, masks, strict=True):
            present[s] += value * np.array(mask) / len(masks)
    return mean, present


@checks(expected_value_by_size, by="enumeration", through=brute_force)
@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize(("d", "H"), [(1, 2), (2, 1), (5, 3), (7, 2)])
@pytest.mark.usual_errors
def test_against_enumeration(kind: str, d: int, H: int) -> None:
    game = make_game(d, H, kind)
    mean, present = brute_force(game)
    scale = np.abs(game.value(np.eye(d, dtype=bool))).max()
    assert np.abs(expected_value_by_size(game) - mean).max() < TOL * scale
    q = np.random.default_rng(d).normal(size=d + 1)
    got_mean, got_present = moments_by_size(game, q)
    assert abs(got_mean - q @ mean) < TOL * scale
    assert np.abs(got_present - q @ present).max() < TOL * scale


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.usual_errors
def test_each_size_by_itself(kind: str) -> None:
    """With q a unit vector the moment is that of one size, so a shift of sizes by one cannot
    pass.
    """
    game = make_game(5, 2, kind)
    mean, present = brute_force(game)
    for s in range(6):
        got = moments_by_size(game, np.eye(6)[s])
        np.testing.assert_allclose(got[0], mean[s], rtol=0, atol=1e-10)
        np.testing.assert_allclose(got[1], present[s], rtol=0, atol=1e-10)


@pytest.mark.parametrize("spread", [30.0, 400.0])
@pytest.mark.usual_errors
def test_huge_scores(spread: float) -> None:
    for kind in ("unk", "deleted"):
        game = make_game(6, 2, kind, spread=spread)
        mean, present = brute_force(game)
        np.testing.assert_allclose(expected_value_by_size(game), mean, rtol=0, atol=1e-9)
        q = np.arange(1.0, 8.0)
        got = moments_by_size(game, q)
        np.testing.assert_allclose(got[0], q @ mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(got[1], q @ present, rtol=0, atol=1e-8)


def test_large_games_keep_their_identities() -> None:
    """The mean over j of E[f 1{j present} | s] is (d-s)/d E[f | s], at a size where enumeration is
    out of reach.
    """
    game = make_game(83, 2, "unk")
    by_size = expected_value_by_size(game)
    share = (83 - np.arange(84)) / 83
    for s in (1, 41, 82):
        mean, present = moments_by_size(game, np.eye(84)[s])
        np.testing.assert_allclose(mean, by_size[s], rtol=0, atol=1e-11)
        np.testing.assert_allclose(present.mean(), share[s] * by_size[s], rtol=0, atol=1e-11)
    np.testing.assert_allclose(
        by_size[1], game.value(~np.eye(83, dtype=bool)).mean(), rtol=0, atol=1e-11
    )


def test_constant_game() -> None:
    game = PooledGame.from_scores(
        [0.0, 3.0, 1.0], [2.0, 2.0, 2.0], s_background=1.0, v_background=2.0, bias=0.5
    )
    np.testing.assert_allclose(expected_value_by_size(game), 2.5, rtol=1e-15)


def test_errors() -> None:
    game = make_game(3, 1, "unk")
    with pytest.raises(ToleranceError, match="tol"):
        expected_value_by_size(game, tol=1e-18)


def test_a_recursion_that_would_take_too_long_is_not_started():
    """Thousands of players through a link: the cost is known before anything is summed."""
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=20_000), rng.normal(size=20_000))
    linked = game.through("sigmoid")
    with pytest.raises(CostError) as refusal:
        expected_value_by_size(linked, 1e-3)
    assert refusal.value.seconds > 60
    with pytest.raises(CostError):
        semivalue(linked, np.full(20_000, 1 / 20_000), 1e-2)
    few = PooledGame.from_scores(rng.normal(size=300), rng.normal(size=300))
    assert expected_value_by_size(few, 1e-6).shape == (301,)
