"""Interaction indices of order two: shapiq's exact computer, and the fits that the faithful ones
are defined as.
"""

import itertools
import math

import numpy as np
import pytest

from attn_closed_form import CostError, PooledGame, ToleranceError
from attn_closed_form.game.by_size import MOST_SECONDS
from attn_closed_form.game.interactions import INDICES, constant_of, interactions
from tests import enumeration
from tests.oracles import checks
from tests.problems import games, random_game
from tests.tolerances import QUADRATURE

GAMES = {name: game for name, game in games().items() if 3 <= game.d <= 9}


def fit(game, index):
    """The best approximation of order two: least squares over all coalitions, or as KernelSHAP
    weights them.
    """
    d = game.d
    masks = enumeration.coalitions(d)
    f = enumeration.values(game).astype(float)
    sets = [(), *((i,) for i in range(d)), *itertools.combinations(range(d), 2)]
    A = np.stack([masks[:, list(S)].all(axis=1) for S in sets], axis=1).astype(float)
    if index == "FBII":
        return dict(zip(sets, np.linalg.lstsq(A, f, rcond=None)[0], strict=True))
    size = masks.sum(axis=1)
    w = np.array([(d - 1) / (math.comb(d, k) * k * (d - k)) if 0 < k < d else 0.0 for k in size])
    ends = A[[0, -1]]  # nobody and everybody are met exactly
    system = np.block([[A.T @ (w[:, None] * A), ends.T], [ends, np.zeros((2, 2))]])
    solved = np.linalg.solve(system, np.concatenate([A.T @ (w * f), f[[0, -1]]]))
    return dict(zip(sets, solved[: len(sets)], strict=True))


def assert_same(game, table, expected, tol):
    bound = tol * float(np.abs(enumeration.values(game)).max())
    pairs = itertools.combinations(range(game.d), 2)
    assert max(abs(table[pair] - expected[pair]) for pair in pairs) <= bound
    assert max(abs(table[i, i] - expected[(i,)]) for i in range(game.d)) <= bound
    assert (table == table.T).all()


@checks(interactions, by="enumeration")
@pytest.mark.parametrize("index", ["FSII", "FBII"])
@pytest.mark.parametrize("name", list(GAMES))
def test_faithful_indices_are_the_best_fit(name, index):
    game = GAMES[name]
    table = interactions(game, index)
    expected = fit(game, index)
    assert_same(game, table, expected, 1e-10)
    assert (
        abs(constant_of(game, index, table) - expected[()])
        <= 1e-10 * game.d * np.abs(enumeration.values(game)).max()
    )


@pytest.mark.slow
@checks(interactions, by="another package")
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("name", [name for name in GAMES if "spread 2" in name or "model" in name])
def test_shapiq(name, index):
    exact = pytest.importorskip("shapiq.game_theory.exact", reason="needs the extra 'interop'")
    game = GAMES[name]
    expected = exact.ExactComputer(
        n_players=game.d, game=lambda masks: game.value(np.asarray(masks, dtype=bool))
    )
    # shapiq meets the two ends of FSII by a large weight, to about 1e-9.
    assert_same(
        game,
        interactions(game, index),
        expected(index, order=2),
        1e-8 if index == "FSII" else 1e-10,
    )


@pytest.mark.parametrize("index", ["STII", "FSII"])
@pytest.mark.parametrize("name", list(GAMES))
def test_efficiency(name, index):
    game = GAMES[name]
    table = interactions(game, index)
    total = constant_of(game, index, table) + np.triu(table).sum()
    assert (
        abs(total - game.value(np.ones(game.d, dtype=bool)))
        <= 1e-9 * np.abs(enumeration.values(game)).max()
    )


@pytest.mark.parametrize("index", INDICES)
def test_small_games(index):
    one = interactions(PooledGame.from_scores([1.0], [2.0], empty_value=-4.0), index)
    assert one == pytest.approx(np.array([[6.0]]))
    game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    assert interactions(game, index)[0, 1] == pytest.approx(4 / 3 - 1 / 2 - 3 / 2)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize(
    "kind", ["deleted", "deleted+background", "replaced", "replaced+background"]
)
def test_the_interactions_of_one_player_are_a_row_of_the_table(kind, index):
    game = random_game(3, 7, 2, kind, 3.0, offset=0.7)
    np.testing.assert_allclose(
        interactions(game, index, 2), interactions(game, index)[2], rtol=0, atol=10 * QUADRATURE
    )


def test_a_row_where_the_empty_coalition_has_its_own_value():
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), empty_value=0.7)
    np.testing.assert_allclose(
        interactions(game, player=2), interactions(game)[2], rtol=0, atol=1e-9
    )
    exact = enumeration.interactions(game)
    np.testing.assert_allclose(interactions(game), exact.astype(float), rtol=0, atol=1e-9)


def test_a_wrong_index_is_seen():
    game = GAMES["deleted, 5 heads, spread 0.1"]
    with pytest.raises(AssertionError):
        assert_same(game, interactions(game, "BII"), fit(game, "FBII"), 1e-10)


def test_errors():
    game = PooledGame.from_scores([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"^index: "):
        interactions(game, "sii")
    with pytest.raises(ValueError, match=r"^player: "):
        interactions(game, player=3)
    for index in INDICES:
        with pytest.raises(ToleranceError, match=r"^tol: "):
            interactions(game, index, tol=1e-17)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("index", INDICES)
def test_the_named_tol_works_for_singles_and_pairs(index, d):
    game = random_game(3, d, 1, "deleted", offset=0.5)
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        interactions(game, index, tol=1e-16)
    interactions(game, index, tol=float(str(caught.value).rsplit(maxsplit=1)[-1]))


def test_a_table_that_would_take_minutes_is_refused():
    rng = np.random.default_rng(0)
    for d, link in ((8000, "sigmoid"), (30_000, None)):
        game = PooledGame.from_scores(rng.normal(size=d), 3 * rng.normal(size=d))
        asked = game if link is None else game.through(link)
        with pytest.raises(CostError, match="player=") as refusal:
            interactions(asked, tol=1e-6)
        assert refusal.value.seconds > MOST_SECONDS
        assert interactions(game, player=0, tol=1e-6).shape == (d,)  # a row is computed
