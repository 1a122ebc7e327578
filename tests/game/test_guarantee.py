"""|error| <= tol max|f|, or ToleranceError with a tol that works: the violations of 0.1, one by
one, then random games.

The oracle is an enumeration in extended precision and ball arithmetic
(`benchmarks/guarantee_oracle.py`) that imports nothing from the core. `python -m
benchmarks.guarantee` runs 100,000 games of the same families.
"""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    ToleranceError,
    banzhaf,
    expected_value_by_size,
    interactions,
    leave_one_out,
    shapley,
)
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.terms import terms_of

pytest.importorskip("flint")

from benchmarks.guarantee import judge
from benchmarks.guarantee_games import FAMILIES, Trial, random_trial
from benchmarks.guarantee_oracle import ball_values, largest_ratio
from tests.profiles import at_least

G = PooledGame.from_scores
FUNCTIONS = ("shapley", "banzhaf", "interactions", "by size")


def check(what, game, tol=1e-10):
    """The answer is within tol, or refused with a tol that works; no warning on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict, ratio = judge(what, Trial("", game, tol), ())
    assert verdict in ("within", "refused", "refused, no tol named"), (verdict, ratio)
    return verdict


def check_all(game, tol=1e-10):
    for what in FUNCTIONS:
        check(what, game, tol)


@pytest.mark.subnormals
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e-100, 1e100, 1e160, 1e300])
def test_v1_values_of_any_size(scale):
    game = G([0.0, 1.0], [scale, 2 * scale], s_background=0.0, v_background=0.0)
    assert check("shapley", game) == ("within" if scale > 1e-305 else "refused")
    check_all(game)
    plain = G([0.0, 1.0], [1.0, 2.0], s_background=0.0, v_background=0.0)
    if scale > 1e-300:
        np.testing.assert_allclose(shapley(game) / scale, shapley(plain), rtol=1e-12)


def test_v2_values_times_masses_beyond_float64():
    game = G([0.0, 500.0, 499.0], [1e100, -0.5e100, 0.3e100])
    assert np.isfinite(shapley(game)).all()
    check_all(game)


@pytest.mark.parametrize("masked", [-1e4, -65504.0, -1e6, -1e9, -3.4e38])
@pytest.mark.usual_errors
def test_v3_masked_scores_cost_nothing(masked):
    game = G([0.0, 1.0, masked], [1.0, 2.0, 3.0])
    assert check("shapley", game) == "within"
    check_all(game)
    assert sum(rows.weight.size for rows in terms_of(game, budget(game, 1e-10))) < 60


@pytest.mark.parametrize(
    ("offset", "tol"), [(1e4, 1.9e-13), (1e8, 1e-10), (1e8, 1e-12), (1e12, 1e-12), (-1e15, 1e-12)]
)
def test_v4_offsets_of_the_scores(offset, tol):
    game = G(
        offset + np.array([0, 1, 2, 0.5]),
        [1, -1, 0.5, 2],
        offset + np.array([0.1, 0.5, 0.2, 1]),
        [0.3, 0.2, -0.5, 0.1],
    )
    check_all(game, tol)


def test_v5_constants_that_cancel():
    game = G([0.0, 0.0], [-1e16, -1e16], bias=1e16, empty_value=1.0)
    np.testing.assert_array_equal(shapley(game), [-0.5, -0.5])
    check_all(game)
    check_all(
        G([0.0, 0.3], [-1e8 + 0.25, -1e8 + 0.75], s_background=0.0, v_background=-1e8, bias=1e8)
    )


def test_v8_the_named_tol_works():
    for game in (
        G([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]),
        G([[0.0] * 3] * 2, [[1e9, 2e9, 3e9], [-1e9, -2e9, -3e9]], bias=1.0),
        G([0.0, -300.0, 5.0], [1.0, -2.0, 1e-3], s_background=1.0, v_background=0.0),
    ):
        for what in FUNCTIONS:
            assert check(what, game, 1e-17) == "refused"


@pytest.mark.usual_errors
def test_v9_wide_ranges():
    check_all(G([0.0, 1.0, -65504.0], [1.0, 2.0, 3.0]), 1e-13)
    check_all(G([0.0, -30.0, -60.0, -90.0, -120.0], [1.0, 2.0, 3.0, -1.0, 0.5]), 1e-12)
    assert check("shapley", G(np.arange(8) * -100.0, np.arange(8.0) - 3), 1e-11) == "within"


@pytest.mark.parametrize(("d", "tol"), [(10**4, 1e-12), (10**5, 7e-13)])
@pytest.mark.usual_errors
def test_v10_many_equal_players(d, tol):
    """Equal factors round alike.

    Banzhaf of player 0 by the binomial distribution of the others, all of mass 1.
    """
    s = np.zeros(d)
    v = np.zeros(d)
    s[0] = 11.9
    v[0] = 1.0
    n = d - 1
    k = np.arange(n + 1, dtype=np.longdouble)
    steps = np.log((n - k[:-1]) / (k[:-1] + 1))
    middle = n // 2
    log_weight = np.concatenate([[np.longdouble(0)], np.cumsum(steps)])
    weight = np.exp(log_weight - log_weight[middle])
    mass = np.exp(np.longdouble(11.9))
    exact = float((weight * mass / (mass + k)).sum() / weight.sum())
    assert abs(banzhaf(G(s, v), tol)[0] - exact) <= tol


def test_v11_a_tol_below_what_float64_has():
    game = G([0.0, 0.5], [0.1, 0.1000001], [0.3, 0.2], [0.1, 0.1], 0.0, 0.1)
    for what in FUNCTIONS:
        assert check(what, game, 1e-19) == "refused"
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        shapley(G([0.0, 1.0], [1.0, 1.0]), 1e-17)
    assert 1e-17 < caught.value.smallest < 1


def test_v12_masses_at_the_edge_of_float64():
    game = G([0.0, 0.0], [1e-100, 2e-100], [-590.0, -590.5], [3e-100, -1e-100])
    assert expected_value_by_size(game)[-1] == pytest.approx(1.49e-100, rel=1e-2, abs=0)
    check_all(game, 1e-12)
    lone = leave_one_out(G([0.0, -740.0, -741.0], [1.0, 2.0, 3.0]))
    rest = (2 + 3 * np.exp(-1)) / (1 + np.exp(-1))
    assert lone[0] == pytest.approx(1 - rest, rel=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usual_errors
def test_every_family(family):
    rng = np.random.default_rng(sum(map(ord, family)))
    done = 0
    while done < 12:
        trial = random_trial(rng, 7)
        if trial.family == family:
            check(FUNCTIONS[done % 4], trial.game, trial.tol)
            done += 1


@given(st.integers(0, 2**32), st.sampled_from(FUNCTIONS))
@at_least(150)
@pytest.mark.usual_errors
def test_random_games(seed, what):
    trial = random_trial(np.random.default_rng(seed))
    check(what, trial.game, trial.tol)


def test_the_oracle_can_fail():
    game = G([0.0, 1.0, -2.0], [1.0, -1.0, 4.0], s_background=0.5, v_background=0.0)
    f = ball_values(game)
    phi = shapley(game)
    assert largest_ratio("shapley", f, phi, 1e-10) <= 1
    assert largest_ratio("shapley", f, phi + 2e-9, 1e-10) > 1
    assert largest_ratio("shapley", f, phi[::-1].copy(), 1e-10) > 1
    table = interactions(game)[np.triu_indices(3, 1)]
    assert (
        largest_ratio("interactions", f, table, 1e-10)
        <= 1
        < largest_ratio("interactions", f, -table, 1e-10)
    )


def test_the_message_names_what_was_asked():
    with pytest.raises(ToleranceError) as caught:
        interactions(G([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), tol=1e-15)
    assert re.match(
        r"tol: 1e-15 cannot be guaranteed .* the smallest possible tol is \d\.\de-1\d$",
        str(caught.value),
    )
