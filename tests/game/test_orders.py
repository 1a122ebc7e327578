"""Shapley values from random orders: against enumeration, with standard errors of the stated
size.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form.game.orders import (
    ClassProbability,
    Control,
    default_controls,
    sample_orders,
)
from attn_closed_form.game.sampled import shapley_sample
from attn_closed_form.game.scores import PooledScores
from attn_closed_form.game.tails import TailGame
from tests.oracles import checks
from tests.profiles import mostly_slow


def random_game(seed: int, d: int, C: int, heads: int = 1, spread: float = 3.0) -> TailGame:
    """A classifier of C classes over d players."""
    rng = np.random.default_rng(seed)
    scores = PooledScores(
        s=rng.normal(size=(heads, d)),
        v=spread * rng.normal(size=(heads * C, d)),
        bias=rng.normal(size=C),
        head=np.repeat(np.arange(heads), C),
        output=np.tile(np.arange(C), heads),
        s_background=np.zeros(heads),
        v_background=np.zeros(heads * C),
    )
    return TailGame(scores, ClassProbability(0, temperature=0.8))


def by_all_orders(game: TailGame) -> np.ndarray:
    """Shapley values as means over all d! orders, one coalition at a time."""
    d = game.d
    total = np.zeros(d)
    orders = list(permutations(range(d)))
    values = {}
    for order in orders:
        mask = np.zeros(d, dtype=bool)
        before = float(game.value(mask[None])[0])
        for player in order:
            mask[player] = True
            key = mask.tobytes()
            if key not in values:
                values[key] = float(game.value(mask[None])[0])
            total[player] += values[key] - before
            before = values[key]
    return total / len(orders)


def test_a_class_probability_is_the_softmax() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 4)) * 30
    exponentials = np.exp((logits - logits.max(axis=1, keepdims=True)) / 2.0)
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    for c in range(4):
        np.testing.assert_allclose(ClassProbability(c, 2.0)(logits), expected[:, c], rtol=1e-12)


@checks(shapley_sample, by="enumeration", through=by_all_orders)
def test_few_players_are_enumerated() -> None:
    game = random_game(3, 6, 4)
    sample = shapley_sample(game, seed=0)
    np.testing.assert_allclose(sample.values, by_all_orders(game), atol=1e-13)
    assert not sample.standard_error.any()


@pytest.mark.parametrize("heads", mostly_slow([1, 2], 0))
def test_the_standard_errors_have_the_stated_size(heads: int) -> None:
    """Over 60 games, the errors in units of the standard error have mean 0 and standard deviation
    1.

    Of 300 errors, of which those of one game depend on each other, the standard deviation is known
    to 8% or so.
    """
    scaled = []
    for seed in range(60):
        game = random_game(seed, 5, 4, heads)
        controls = default_controls(game, np.random.default_rng(seed))
        sample = sample_orders(game, controls, np.inf, 10**9, seed)
        scaled.append((sample.values[0] - by_all_orders(game)) / sample.standard_error[0])
    z = np.array(scaled)
    assert 0.75 < np.sqrt((z**2).mean()) < 1.25
    assert abs(z.mean()) < 0.25


def test_orders_are_added_until_the_error_is_small_enough() -> None:
    game = random_game(5, 24, 5)
    loose = shapley_sample(game, seed=1, max_error=2e-3)
    tight = shapley_sample(game, seed=1, max_error=5e-4)
    assert loose.standard_error.max() <= 2e-3
    assert tight.standard_error.max() <= 5e-4
    assert tight.calls > loose.calls
    again = shapley_sample(game, seed=1, max_error=5e-4)
    assert (again.values == tight.values).all()
    stopped = shapley_sample(game, seed=1, max_error=1e-9, most_calls=20_000)
    assert stopped.standard_error.max() > 1e-9
    ends = game.value([[False] * 24, [True] * 24])
    assert tight.values.sum() == pytest.approx(ends[1] - ends[0], abs=1e-7)


def test_a_tail_that_is_its_own_control_is_exact() -> None:
    """The logit of a class is a control; as a tail it leaves nothing to be sampled."""
    scores = random_game(6, 20, 3).scores
    game = TailGame(scores, lambda vectors: vectors[:, 1])
    sample = sample_orders(game, [Control(np.array([0.0, 1.0, 0.0]))], 1e-9, 10**6, 0)
    exact = shapley(scores.game([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(sample.values[0], exact, atol=1e-7)
    assert sample.standard_error.max() < 1e-9


def test_a_rival_reduces_the_error() -> None:
    """With two classes, a control is the probability itself."""
    game = random_game(7, 30, 2)
    plain = sample_orders(game, [], np.inf, 10**9, 0)
    controls = default_controls(game, np.random.default_rng(0))
    controlled = sample_orders(game, controls, np.inf, 10**9, 0)
    assert controlled.standard_error.max() < 1e-6 * plain.standard_error.max()


@pytest.mark.slow
def test_refinement_of_pairs_of_coalitions() -> None:
    """A game that only answers masks is evaluated again until its error is small enough."""
    inner = PooledGame.from_scores(
        np.random.default_rng(0).normal(size=(3, 18)), np.random.default_rng(1).normal(size=(3, 18))
    )
    sample = shapley_sample(inner, 60, seed=0, link="sigmoid", max_error=2e-3)
    assert sample.standard_error.max() <= 2e-3
    assert sample.calls > 60
    long = shapley_sample(inner, 6_000, seed=9, link="sigmoid")
    error = np.hypot(sample.standard_error, long.standard_error)
    assert (np.abs(sample.values - long.values) < 5 * error).all()


@pytest.mark.slow
@checks(shapley_sample, by="another package")
def test_few_players_agree_with_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq.game_theory.exact", reason="needs the extra 'interop'")
    game = random_game(9, 6, 3)
    computer = shapiq.ExactComputer(
        n_players=6, game=lambda masks: game.value(np.asarray(masks, dtype=bool))
    )
    theirs = computer("SV", order=1)
    sample = shapley_sample(game, seed=0)
    np.testing.assert_allclose(sample.values, [theirs[(j,)] for j in range(6)], atol=1e-12)
