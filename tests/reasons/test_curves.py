"""Deletion and insertion curves: equal to the values of nested coalitions, within the bounds, and
with fair shares.
"""

import itertools

import numpy as np
import pytest

from attn_closed_form import BagClassifier, PooledGame, contrastive_reason, shapley
from attn_closed_form.reasons.by_size import bounds_by_size
from attn_closed_form.reasons.curves import flip_order, removal_curves
from tests import enumeration
from tests.oracles import checks
from tests.problems import random_game
from tests.profiles import mostly_slow

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]


def logistic(f):
    return 1 / (1 + np.exp(-np.asarray(f)))


@checks(removal_curves, by="enumeration")
@pytest.mark.parametrize("spread", [3.0, 900.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("H", [1, 3])
def test_curves_are_values_of_nested_coalitions_and_stay_within_the_bounds(kind, H, spread):
    game = random_game(7, 11, H, kind, spread)
    scores = np.random.default_rng(1).integers(0, 4, 11).astype(float)  # with ties
    order = sorted(range(11), key=lambda j: -scores[j])
    curves = removal_curves(game, scores, scale=logistic)
    for i, k in enumerate(curves.absent):
        without = [~np.isin(np.arange(11), part) for part in (order[:k], order[11 - k :])]
        expected = logistic(enumeration.values(game, np.array(without)).astype(float))
        np.testing.assert_allclose([curves.deletion[i], curves.insertion[i]], expected, rtol=1e-12)
    for curve in (curves.deletion, curves.insertion):
        assert (curve >= curves.bounds.proved_min - 1e-13).all() and (
            curve <= curves.bounds.proved_max + 1e-13
        ).all()
    # Not a number where no coalition has a lower prediction, or a higher one.
    assert not curves.deletion_share > 1 + 1e-12 and not curves.insertion_share > 1 + 1e-12


def test_some_sizes_give_the_points_of_all():
    game = random_game(2, 40, 2, "deleted", 3.0)
    scores = shapley(game)
    every = removal_curves(game, scores)
    some = removal_curves(game, scores, absent=[0, 10, 40])
    np.testing.assert_allclose(some.deletion, every.deletion[[0, 10, 40]], rtol=1e-13)
    np.testing.assert_allclose(some.insertion, every.insertion[[0, 10, 40]], rtol=1e-13)
    assert (some.whole, some.empty, some.players) == (every.whole, every.empty, 40)


@pytest.mark.slow  # all orders of six players
def test_the_best_order_of_all_has_the_largest_share_and_flip_order_is_near_it():
    """All 720 orders of six players: none is above 1, and the largest mean fall is nearly that of
    flip_order.
    """
    near = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        game = PooledGame.from_scores(
            s=2 * rng.normal(size=6), v=2 * rng.normal(size=6) + 3, bias=0.2, empty_value=0.2
        )
        limits = bounds_by_size(game)

        def share(scores, game=game, limits=limits):
            return removal_curves(game, scores, scale=logistic, bounds=limits).deletion_share

        best = max(share(np.array(order)) for order in itertools.permutations(range(6)))
        found = share(flip_order(game, scale=logistic))
        if np.isnan(best):  # no coalition has a lower prediction
            continue
        assert found <= best + 1e-12 <= 1 + 2e-12
        assert share(-flip_order(game, scale=logistic)) < best
        near.append(found / best)
    assert len(near) >= 4 and np.mean(near) > 0.97


def test_nothing_to_gain_has_no_share():
    game = PooledGame.from_scores(s=[0.0, 0.0], v=[1.0, 1.0], empty_value=1.0)
    curves = removal_curves(game, [1.0, 2.0])
    assert np.isnan(curves.deletion_share) and np.isnan(curves.insertion_share)


@pytest.mark.parametrize("scores", [np.zeros(3), np.full(4, np.nan)])
def test_scores_are_checked(scores):
    with pytest.raises(ValueError, match="scores"):
        removal_curves(random_game(0, 4, 1, "deleted", 1.0), scores)


@pytest.mark.parametrize("H", mostly_slow([2, 1], 1))
def test_flip_order_keeps_its_first_crossing(H):
    """Searching for a lower threshold never needs one player more to change the call."""
    for seed in range(30):
        game = random_game(seed, 23, H, "deleted", 2.0, bias=0.3)
        if game.value(np.ones(23, dtype=bool)) <= 0:
            continue
        first = flip_order(game, candidates=0)
        searched = flip_order(game, scale=logistic)
        crossings = [
            np.argmax(removal_curves(game, scores, absent=np.arange(24)).deletion < 0)
            for scores in (first, searched)
        ]
        assert crossings[1] <= crossings[0]


def test_an_explanation_has_curves_on_its_scale():
    rng = np.random.default_rng(0)
    model = BagClassifier.from_attention(rng.normal(size=150), rng.normal(size=(150, 2)))
    e = model.explain(model.bag, "shapley", output=1)["shapley"]
    curves = e.removal_curves()
    assert len(curves.absent) == 101 and curves.whole == pytest.approx(e.prediction)
    assert 0 < curves.bounds.proved_min.min() < curves.deletion.min() and curves.deletion_share < 1


def test_the_positive_scores_are_a_smallest_set_that_changes_the_call():
    """One head, as many players as the contrastive reason; the rest follows with scores of at most
    0.
    """
    changed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        game = PooledGame.from_scores(
            s=2 * rng.normal(size=40), v=rng.normal(size=40) + 1, bias=-0.2, empty_value=-0.2
        )
        reason = contrastive_reason(game)
        if reason.players is None or reason.prediction < 0:
            continue
        first = flip_order(game, scale=logistic) > 0
        assert first.sum() == reason.size and game.value(~first) < 0
        changed += 1
    assert changed > 5
