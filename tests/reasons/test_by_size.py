"""Bounds by number of absent players: one head equals enumeration, several heads enclose it."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, bounds_by_size, shapley
from attn_closed_form.game.extrema import States
from attn_closed_form.reasons.by_size import HeadsBySize, exchange_error
from tests import enumeration
from tests.oracles import checks
from tests.problems import games, random_game
from tests.profiles import mostly_slow

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
# Share of the largest value that a bound may lie outside of the exact one: margins of rounding
# (`game/extrema.py`).
SLACK = 1e-11


def check(game, found):
    size = (
        max(np.abs(game.v).max(), np.abs(game.v_absent).max(), np.abs(game.v_background).max())
        * game.H
    )
    slack = SLACK * (size + abs(game.empty_value) + abs(game.bias))
    f = enumeration.values(game)
    absent = game.d - enumeration.coalitions(game.d).sum(axis=1)
    for k, low, high, proved_low, proved_high in zip(*found, strict=True):
        least = f[absent == k].min()
        most = f[absent == k].max()
        assert proved_low <= least <= low + slack and high - slack <= most <= proved_high
        if game.H == 1:
            assert low - least <= slack and most - high <= slack
            assert least - proved_low <= slack and proved_high - most <= slack


@checks(bounds_by_size, by="enumeration")
@pytest.mark.parametrize("part", mostly_slow(range(6), 2))
def test_300_random_games_by_enumeration(part):
    for seed in range(50 * part, 50 * part + 50):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 15 if seed % 10 == 0 else 11))
        H = 1 if seed % 2 else int(rng.integers(2, 5))
        spread = float(rng.choice([0.1, 5.0, 80.0, 3000.0]))
        check(
            game := random_game(
                seed,
                d,
                H,
                KINDS[seed // 2 % 4],
                spread,
                bias=rng.normal(),
                empty_value=rng.normal(),
            ),
            bounds_by_size(game),
        )


@pytest.mark.parametrize("name", games())
def test_the_edges_by_enumeration(name):
    check(game := games()[name], bounds_by_size(game))


def test_a_wrong_bound_is_seen():
    found = bounds_by_size(game := random_game(3, 8, 1, "deleted", 5.0))
    with pytest.raises(AssertionError):
        check(game, found._replace(proved_min=found.proved_min + 1e-6))
    with pytest.raises(AssertionError):
        check(game, found._replace(attained_max=found.attained_max - 1e-6))


def test_no_order_leaves_the_bounds():
    game = random_game(5, 300, 1, "deleted", 4.0)
    found = bounds_by_size(game)
    rank = np.argsort(np.argsort(-shapley(game)))
    curve = game.value(rank >= np.arange(301)[:, None])
    assert (found.proved_min <= curve).all() and (curve <= found.proved_max).all()


def test_many_players_have_shares_and_sizes_are_checked():
    game = random_game(1, 6000, 1, "replaced+background", 4.0)
    found = bounds_by_size(game)
    assert len(found.absent) == 201 and found.absent[-1] == 6000
    some = bounds_by_size(game, [30, 3000])
    assert some.attained_min[0] == pytest.approx(found.attained_min[1], abs=1e-11)
    for wrong in ([-1], [6001], [0.5]):
        with pytest.raises(ValueError, match="integers"):
            bounds_by_size(game, wrong)
    masked = np.ma.masked_array([30, 3000], mask=[False, True])
    for wrong in ([True, False], ["30"], masked):
        with pytest.raises(ValueError, match="absent"):
            bounds_by_size(game, wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_the_linear_form_has_the_value_and_the_slope_of_the_game(kind):
    """The value of a coalition without the bias, and the effect of a player of little mass, which
    is linear.
    """
    game = random_game(4, 9, 3, kind, 2.0, bias=0.7)
    heads = HeadsBySize(game)
    for mask in enumeration.coalitions(9)[1::37]:
        value, effects = heads.linearized(mask)
        assert value == pytest.approx(float(game.value(mask)) - 0.7, abs=1e-12)
        for j in range(9):
            light = np.array(game.s)
            light[:, j] -= 12.0
            light_absent = np.array(game.s_absent)
            light_absent[:, j] -= 12.0
            small = PooledGame.from_scores(
                light,
                game.v,
                light_absent,
                game.v_absent,
                game.s_background,
                game.v_background,
            )
            with_j = mask.copy()
            with_j[j] = True
            without_j = mask.copy()
            without_j[j] = False
            if not without_j.any() and game.can_be_empty:
                continue
            change = float(small.value(with_j) - small.value(without_j))
            _, slopes = HeadsBySize(small).linearized(mask)
            assert slopes[j] == pytest.approx(change, rel=1e-3, abs=1e-12)
        assert effects.shape == (9,)


def test_a_proof_allows_for_exchanged_players():
    """Two players with equal gains: the margin of a proof has their errors, that of a search does
    not need them.
    """
    game = PooledGame.from_scores(
        np.zeros(4), [1.0, 1.0, -1.0, 0.5], s_background=0.0, v_background=0.0
    )
    heads = HeadsBySize(game)
    theta = np.zeros(1)
    loose = heads.step(1, theta, certify=True)
    tight = heads.step(1, theta)
    assert loose.margin[0] > tight.margin[0] and (loose.choice == tight.choice).all()


def test_exchanged_players_are_counted():
    """Gains whose true order is in doubt, at worst: chosen ones lowest, all others highest, within
    their errors.
    """
    ratios = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        gain = rng.choice([1.0, 1.5, 2.0], 8)
        error = rng.choice([1e-9, 1e-6, 1e-3], 8)
        absent = np.zeros(8, dtype=bool)
        absent[np.argsort(-gain, kind="stable")[:3]] = True
        true = np.where(absent, gain - error, gain + error)
        loss = np.sort(true)[::-1][:3].sum() - true[absent].sum()
        allowed = exchange_error(gain, error, absent)
        if allowed == 0:
            assert loss <= 1e-15
        else:
            ratios.append(loss / allowed)
    assert 0.05 <= max(ratios) <= 0.75  # half of it fails


@pytest.mark.parametrize("k", [0, 3, 9])
def test_the_margin_by_size_is_that_of_a_minimum(k):
    """The same sum of terms as in `game/extrema.py`, with the same rounding, when no players are
    exchanged.
    """
    game = random_game(4, 9, 2, "replaced+background", 1.0)
    everybody = np.ones(9, dtype=bool)
    theta = np.array([0.1, -0.2])
    by_size = HeadsBySize(game).step(k, theta)
    flipped = np.column_stack([~by_size.choice, np.zeros(2, dtype=bool)])
    states = States.of(game, everybody, everybody)
    alone = states.at(flipped, theta, np.full(2, -np.inf))
    np.testing.assert_allclose(by_size.value, alone.value, rtol=1e-12)
    # One of both counts the background as a player.
    np.testing.assert_allclose(by_size.margin, alone.margin, rtol=0.01)
