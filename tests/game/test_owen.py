"""Owen values: all orders, the sum over sets, and the Shapley values of the game of groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, ToleranceError, shapley
from attn_closed_form.game.owen import as_groups, owen
from tests import enumeration
from tests.oracles import checks
from tests.problems import games, random_game
from tests.profiles import mostly_slow

GAMES = games()
KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]


def scale(game):
    return max(float(np.abs(enumeration.values(game)).max()), 1e-300)


@checks(owen, by="enumeration")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "groups", [[[0, 3], [1], [2, 4, 5]], [[0, 1], [2, 3], [4, 5]], [[5, 0, 1, 2, 3, 4]]]
)
def test_all_orders(kind, groups):
    game = random_game(3, 6, 2, kind, 4.0, bias=0.3, empty_value=0.7)
    exact = enumeration.owen_by_orders(game, groups)
    # 720 orders are added up one after the other; where long double is float64 that is more than
    # 1e-15.
    rounding = 720 * float(np.finfo(enumeration.LD).eps)
    assert np.abs(exact - enumeration.owen(game, groups)).max() <= max(1e-15, rounding)
    assert np.abs(owen(game, groups) - exact).max() <= 1e-10 * scale(game)


@checks(owen, by="enumeration")
@pytest.mark.parametrize("tol", mostly_slow([1e-10, 1e-5], 1))
@pytest.mark.parametrize("name", list(GAMES))
def test_by_enumeration(name, tol):
    game = GAMES[name]
    rng = np.random.default_rng(0)
    for M in {1, 2, min(4, game.d), game.d}:
        numbers = rng.integers(0, M, game.d)
        numbers[: min(M, game.d)] = np.arange(M)[: game.d]
        groups = as_groups(numbers, game.d)
        if sum(2 ** len(group) for group in groups) * 2 ** len(groups) < 40_000:
            exact = enumeration.owen(game, groups)
            assert np.abs(owen(game, numbers, tol) - exact).max() <= tol * scale(game), M


@given(seed=st.integers(0, 10**6), d=st.integers(1, 25), kind=st.sampled_from(KINDS))
def test_members_add_up_to_their_group(seed, d, kind):
    rng = np.random.default_rng(seed)
    game = random_game(
        seed, d, 2, kind, float(rng.choice([1.0, 10.0, 200.0])), empty_value=rng.normal()
    )
    numbers = np.unique(rng.integers(0, rng.integers(1, d + 1), d), return_inverse=True)[1]
    phi = owen(game, numbers, 1e-9)
    merged = shapley(game.merge(as_groups(numbers, d)), 1e-9)
    largest = max(np.abs(game.v).max(), np.abs(game.v_absent).max(), abs(game.empty_value))
    assert np.abs(np.bincount(numbers, weights=phi) - merged).max() <= 1e-9 * 2 * largest * (d + 1)


def test_one_group_and_groups_of_one_are_shapley_values():
    game = random_game(5, 200, 3, "replaced+background", 6.0)
    for groups in ([range(200)], [[j] for j in range(200)]):
        assert np.abs(owen(game, groups) - shapley(game)).max() <= 2e-10 * 4


def test_groups_make_a_difference():
    game = random_game(3, 6, 1, "deleted", 4.0)
    assert np.abs(owen(game, [0, 0, 0, 1, 1, 1]) - shapley(game)).max() > 1e-3


def test_a_wrong_partition_is_seen():
    game = random_game(3, 6, 1, "deleted", 4.0)
    exact = enumeration.owen(game, [[0, 1, 2], [3, 4, 5]])
    assert np.abs(owen(game, [[0, 1], [2, 3, 4, 5]]) - exact).max() > 1e-3


@pytest.mark.parametrize(
    "groups", [[[0, 1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [], [0, 1], [0.0, 1.0, 2.0]]
)
def test_errors(groups):
    with pytest.raises(ValueError, match=r"^groups: "):
        owen(PooledGame.from_scores([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), groups)


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(ToleranceError, match=r"^tol: "):
        owen(PooledGame.from_scores([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), [0, 0, 1], tol=1e-17)
