"""The parts of the search for reasons: the margin for rounding, and where masses leave float64."""

import numpy as np
import pytest

from attn_closed_form import PooledGame, contrastive_reason, sufficient_reason
from attn_closed_form.game.extrema import head_minima
from attn_closed_form.reasons import UndecidedError
from attn_closed_form.reasons.heads import proved_above, total
from attn_closed_form.reasons.search import SufficientSearch
from tests.problems import random_game


@pytest.mark.parametrize("reason", [sufficient_reason, contrastive_reason])
@pytest.mark.parametrize("seed", range(6))
def test_a_reason_names_the_prediction_and_the_threshold(reason, seed):
    game = random_game(seed, 7, 2, "replaced+background")
    found = reason(game, threshold=0.05)
    assert found.prediction == pytest.approx(float(game.value([True] * 7)), rel=1e-14)
    assert found.threshold == 0.05


def test_nobody_is_needed_where_every_coalition_agrees():
    game = PooledGame.from_scores(
        [0.0] * 20, np.linspace(1, 2, 20), s_background=0.0, v_background=1.0
    )
    found = sufficient_reason(game)
    assert (found.players, found.size, found.lower_bound, found.minimal) == ((), 0, 0, True)


@pytest.mark.parametrize(("lightest", "proved"), [(-20.0, True), (-400.0, False)])
def test_masses_that_leave_float64_are_not_taken_as_plain_numbers(lightest, proved):
    rng = np.random.default_rng(0)
    s = np.append(rng.normal(size=9), lightest)
    v = rng.normal(size=10) + rng.normal(scale=0.1, size=(3, 10))
    game = PooledGame.from_scores([s] * 3, v, s_background=0.0, v_background=0.0)
    everybody = np.ones(10, dtype=bool)
    heads = total(game, head_minima(game, everybody, everybody).bound)
    assert proved_above(game, everybody, everybody, heads - 1e-9)
    assert proved_above(game, everybody, everybody, heads + 1e-3) == proved


@pytest.mark.parametrize("reason", [sufficient_reason, contrastive_reason])
def test_with_one_head_the_smallest_reason_is_found_and_proved(reason):
    results = [reason(random_game(seed, 20, 1, "replaced+background")) for seed in range(8)]
    assert all(result.minimal for result in results)
    assert sum(result.players is not None and result.size > 1 for result in results) >= 2


def test_the_minima_over_a_set_are_computed_once(monkeypatch):
    rng = np.random.default_rng(2)
    sets = []

    def counted(game, base, movable, limit=None):
        sets.extend([] if limit is not None else [movable.tobytes()])
        return head_minima(game, base, movable, limit)

    monkeypatch.setattr("attn_closed_form.reasons.search.head_minima", counted)
    sufficient_reason(
        PooledGame.from_scores(rng.normal(size=(4, 30)), rng.normal(size=(4, 30)) + 0.3)
    )
    assert len(sets) == len(set(sets)) > 3


def one_supporter(d=13):
    """Player 0 alone supports the prediction; without it every value is exactly 0."""
    v = np.zeros(d)
    v[0] = 1.0
    return PooledGame.from_scores(np.zeros(d), v, s_background=0.0, v_background=0.0)


@pytest.mark.parametrize("d", [5, 13])
def test_a_flip_within_rounding_is_not_claimed(d):
    """The value without player 0 is below the threshold, but by less than the rounding error of a
    value.
    """
    flip = contrastive_reason(one_supporter(d), threshold=1e-14)
    assert flip.players is None and not flip.minimal
    assert flip.lower_bound == 1  # nor is it excluded


@pytest.mark.parametrize("reason", [sufficient_reason, contrastive_reason])
def test_a_prediction_within_rounding_of_the_threshold_is_on_neither_side(reason):
    game = random_game(0, 13, 2, "replaced+background")
    prediction = float(game.value([True] * 13))
    for threshold in (prediction, prediction * (1 + 1e-14), prediction * (1 - 1e-14)):
        with pytest.raises(UndecidedError, match="threshold"):
            reason(game, threshold)


@pytest.mark.parametrize("smallest", range(6))
def test_the_lower_bound_is_the_first_size_that_is_not_impossible(smallest):
    search = SufficientSearch.of(one_supporter(), 0.1)
    assert search.lower_bound(lambda size: size < smallest, 5) == min(smallest, 5)
