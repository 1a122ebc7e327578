"""The choice of features: the rule of the lime package, by exhaustive fits and by the package
itself.
"""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit
from attn_closed_form.lime import lime_features, limit
from attn_closed_form.lime.kernel import kernel
from tests.lime_games import score_game
from tests.oracles import checks


def rows(game, num_samples=5000, kernel_width=25.0):
    """All coalitions, their expected weights in LIME's sample, and their values."""
    d = game.d
    masks = np.array(
        [
            [j not in absent for j in range(d)]
            for s in range(d + 1)
            for absent in combinations(range(d), s)
        ]
    )
    absent = d - masks.sum(axis=1)
    q = (num_samples - 1) / (num_samples * d) * kernel(d, kernel_width)
    q[0] = 1 / num_samples
    return masks, np.array([q[s] / comb(d, s) for s in absent]), game.value(masks)


def forward(game, count):
    """Forward selection by least squares over all coalitions."""
    masks, w, f = rows(game)
    chosen = []
    for _ in range(count):
        left = {}
        for j in set(range(game.d)) - set(chosen):
            X = np.c_[np.ones(len(masks)), masks[:, [*chosen, j]]] * np.sqrt(w)[:, None]
            left[j] = np.linalg.lstsq(X, f * np.sqrt(w), rcond=None)[1][0]
        chosen.append(min(left, key=left.__getitem__))
    return chosen


def strongest(game, count, ridge, num_samples=5000):
    """Players with the largest coefficients of a ridge regression over all coalitions."""
    masks, w, f = rows(game, num_samples)
    X = masks - w @ masks / w.sum()
    gram = (X * w[:, None]).T @ X + ridge / num_samples * np.eye(game.d)
    coef = np.linalg.solve(gram, (X * w[:, None]).T @ (f - w @ f / w.sum()))
    return np.argsort(-np.abs(coef), kind="stable")[:count].tolist()


@checks(lime_features, by="enumeration", through=forward)
@pytest.mark.parametrize("count", [1, 4, 6])
def test_forward_selection(count):
    game = score_game(8, kind="deleted", spread=2.0)
    assert lime_features(game, count).tolist() == forward(game, count)


@checks(lime_features, by="enumeration", through=strongest)
def test_the_largest_coefficients():
    game = score_game(9)
    assert lime_features(game, 7).tolist() == strongest(game, 7, 0.01)
    assert lime_features(game, 20).size == 9


def torn(count):
    """A game of which forward selection and the largest coefficients list `count` features
    differently.
    """
    for seed in range(200):
        game = score_game(8, kind="deleted", spread=2.5, seed=seed)
        if forward(game, count) != strongest(game, count, 0.01):
            return game
    raise AssertionError("no such game among 200")


def test_six_are_chosen_one_by_one_and_seven_are_not():
    six = torn(6)
    assert lime_features(six, 6).tolist() == forward(six, 6)
    seven = torn(7)
    assert lime_features(seven, 7).tolist() == strongest(seven, 7, 0.01)


@pytest.mark.parametrize("other", [0.5, 0.02, 0.005])
def test_the_ridge_of_the_choice_is_a_hundredth(other):
    """With few samples the ridge decides between players: the order changes between 0.01 and
    another.
    """
    for seed in range(1000):
        game = score_game(8, kind="unk", spread=2.0, seed=seed)
        if strongest(game, 8, 0.01, 20) != strongest(game, 8, other, 20):
            break
    assert strongest(game, 8, 0.01, 20) != strongest(game, 8, other, 20)
    assert lime_features(game, 8, num_samples=20).tolist() == strongest(game, 8, 0.01, 20)


@checks(lime_features, by="another package")
@pytest.mark.slow  # runs of the package
def test_the_package_itself():
    """The constants are the package's: its own choice on the rows of an infinite sample."""
    lime_base = pytest.importorskip("lime.lime_base", reason="pip install lime")
    masks, w, f = rows(game := torn(6))
    base = lime_base.LimeBase(lambda distances: distances)
    for count in (5, 6, 7, 8):
        # Weights as they are: n rows of weight 1/n are what the package's sums over rows converge
        # to.
        theirs = base.feature_selection(masks.astype(float), f, 5000 * w, count, "auto").tolist()
        assert lime_features(game, count).tolist() == theirs
    assert limit.FORWARD_FEATURES == 6


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", None, True])
def test_bad_numbers_of_features(count):
    with pytest.raises(ValueError, match=r"^num_features: "):
        lime_features(score_game(3), count)


def test_one_player():
    game = PooledGame.from_scores([0.0], [1.0], s_background=0.0, v_background=0.5)
    assert lime_features(game, 3).tolist() == [0]
    assert lime_limit(game, features=[0]).coef.shape == (1,)
