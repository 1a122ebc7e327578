"""Interactions of one player are a row of the matrix of all pairs."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley_interactions
from attn_closed_form.game.interactions import interactions_of
from tests.problems import random_game
from tests.tolerances import QUADRATURE


@pytest.mark.parametrize("kind", ["deleted", "deleted+background", "replaced", "replaced+background"])
def test_a_row_of_the_matrix(kind):
    game = random_game(3, 7, 2, kind, 3.0)
    row, expected = interactions_of(game, 2), shapley_interactions(game)[2]
    np.testing.assert_allclose(np.delete(row, 2), np.delete(expected, 2), rtol=0, atol=10 * QUADRATURE)
    assert row[2] == 0


def test_where_the_empty_coalition_has_a_value_of_its_own():
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), empty_value=0.7)
    expected = shapley_interactions(game)[2]
    np.testing.assert_allclose(np.delete(interactions_of(game, 2), 2), np.delete(expected, 2), rtol=0, atol=1e-9)


def test_a_single_player_has_none():
    assert interactions_of(PooledGame.from_scores([0.0], [1.0]), 0).tolist() == [0.0]
