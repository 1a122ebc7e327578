"""Shapley values from random orders: against enumeration, with standard errors of the stated
size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form._arrays import all_coalitions
from attn_closed_form.game import orders
from attn_closed_form.game.game_sum import GameSum
from attn_closed_form.game.orders import (
    ClassProbability,
    Controls,
    Level,
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


NOTHING = Controls.of_lines(np.zeros((0, 3)))


def by_all_orders(game: TailGame) -> np.ndarray:
    """Shapley values as means over all d! orders, one coalition at a time."""
    d = game.d
    total = np.zeros(d)
    all_orders = list(permutations(range(d)))
    values = {}
    for order in all_orders:
        mask = np.zeros(d, dtype=bool)
        before = float(game.value(mask[None])[0])
        for player in order:
            mask[player] = True
            key = mask.tobytes()
            if key not in values:
                values[key] = float(game.value(mask[None])[0])
            total[player] += values[key] - before
            before = values[key]
    return total / len(all_orders)


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


def by_all_coalitions(game: TailGame) -> np.ndarray:
    """Shapley values from the values of all coalitions."""
    d = game.d
    masks = all_coalitions(d)
    values = game.value(masks)
    size = masks.sum(axis=1)
    exact = np.zeros(d)
    for j in range(d):
        without = np.flatnonzero(~masks[:, j])
        weights = [1 / (d * math.comb(d - 1, k)) for k in size[without].tolist()]
        exact[j] = weights @ (values[without | (1 << j)] - values[without])
    return exact


@pytest.mark.parametrize("heads", mostly_slow([1, 2], 0))
def test_the_standard_errors_have_the_stated_size(heads: int) -> None:
    """Over 60 games, the errors in units of the standard error have mean 0 and standard deviation
    1.

    Of 600 errors, of which those of one game depend on each other, the standard deviation is known
    to 6% or so.
    """
    scaled = []
    for seed in range(60):
        game = random_game(seed, 10, 4, heads)
        controls = default_controls(game, np.random.default_rng(1000 + seed))
        sample = sample_orders(game, controls, np.inf, 10**9, seed)
        scaled.append((sample.values[0] - by_all_coalitions(game)) / sample.standard_error[0])
    z = np.array(scaled)
    assert 0.8 < np.sqrt((z**2).mean()) < 1.2
    assert abs(z.mean()) < 0.2


@pytest.mark.slow  # two million orders
def test_sizes_of_coalitions_that_are_computed_exactly() -> None:
    """The parts of Shapley values that coalitions of none and of one player make, one at a time."""
    game = random_game(8, 9, 3)
    of_nobody = np.zeros((1, 9), dtype=bool)
    empty = float(game.value(of_nobody)[0])
    singles = game.value(np.eye(9, dtype=bool))
    first = (singles - empty) / 9
    second = np.zeros(9)
    for i in range(9):
        for j in range(9):
            if i == j:
                continue
            both = of_nobody.copy()
            both[0, [i, j]] = True
            second[j] += (float(game.value(both)[0]) - singles[i]) / (9 * 8)
    tail = orders.Remainder(
        game, orders.FittedControls(NOTHING, np.zeros((1, 0)), np.zeros(9), np.zeros(1))
    )
    one = orders.values_of_known_sizes(game, tail, 1)
    np.testing.assert_allclose(one[0], first, rtol=0, atol=1e-14)
    two = orders.values_of_known_sizes(game, tail, 2)
    np.testing.assert_allclose(two[0], first + second, rtol=0, atol=1e-14)


@pytest.mark.parametrize("d", [17, 40, 200, 1000])
@pytest.mark.parametrize("known", [1, 2])
def test_levels_have_every_other_place_once(d: int, known: int) -> None:
    places = [
        place for first, end in orders.places_of_sizes(d, known) for place in range(first, end)
    ]
    assert places == list(range(known, d))


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("d", [24, 31])
def test_windows_of_all_levels_add_up_to_the_value(d: int, absent: bool) -> None:
    """Without any control the means over many orders approach the values of a long, plain run;
    windows that are filled up, and players that are replaced, included.
    """
    game = random_game(9, d, 3)
    if absent:
        rng = np.random.default_rng(1)
        scores = replace(
            game.scores, s_absent=rng.normal(size=(1, d)), v_absent=rng.normal(size=(3, d))
        )
        game = TailGame(scores, game.tail)
    margin = game.direction([1.0, -1.0, 0.0])
    linear = TailGame(game.scores, lambda vectors: vectors[:, 0] - vectors[:, 1])
    sample = sample_orders(linear, None, 0.0, 400_000, 3)
    exact = shapley(margin)
    scaled = (sample.values[0] - exact) / sample.standard_error[0]
    assert np.abs(scaled).max() < 4.5
    assert sample.values.sum() == pytest.approx(exact.sum(), abs=1e-9)
    assert sample.standard_error.max() < 0.02 * np.abs(exact).max()


@pytest.mark.slow  # two million orders
def test_adaptive_samples_agree_with_a_long_run_without_controls() -> None:
    """Orders that are added until the error is small enough, against plain orders."""
    scaled = []
    for seed in range(10):
        game = random_game(seed, 20, 6)
        sample = shapley_sample(game, seed=seed, max_error=2e-4)
        assert sample.standard_error.max() <= 2e-4
        plain = sample_orders(game, None, 0.0, 200_000, 100 + seed)
        error = np.hypot(sample.standard_error, plain.standard_error[0])
        scaled.append((sample.values - plain.values[0]) / error)
    assert 0.7 < np.sqrt(np.square(scaled).mean()) < 1.3


@pytest.mark.parametrize("background", [-np.inf, 0.0])
def test_the_values_of_the_controls_are_exact(background: float) -> None:
    """Lines and units, with and without a background, against all coalitions."""
    scores = random_game(1, 8, 4).scores
    scores = replace(scores, s_background=np.array([background]))
    game = TailGame(scores, ClassProbability(2, temperature=0.7))
    controls = default_controls(game, np.random.default_rng(5))
    assert len(controls.bias) > 8
    coefficients = np.random.default_rng(6).normal(size=(2, controls.count))
    exact, accuracy = controls.exact_values(game, coefficients)
    assert (accuracy < 1e-5).all()
    for q in range(2):

        def weighted(vectors: np.ndarray, q: int = q) -> np.ndarray:
            return controls.weighted(vectors, coefficients)[:, q]

        of_sum = TailGame(scores, weighted)
        error = np.abs(exact[q] - by_all_coalitions(of_sum)).max()
        assert error <= accuracy[q] + 1e-7


def test_units_resemble_the_probability() -> None:
    """Units leave far less to be sampled than the logits alone."""
    ratios = []
    for seed in range(4):
        game = random_game(seed, 30, 8)
        controls = default_controls(game, np.random.default_rng(1000 + seed))
        with_units = sample_orders(game, controls, 0.0, 200_000, 0)
        lines = Controls.of_lines(controls.lines)
        without = sample_orders(game, lines, 0.0, 200_000, 0)
        ratios.append(float(without.standard_error.max() / with_units.standard_error.max()) ** 2)
    # Measured: 4 to 42.
    assert min(ratios) > 2.5


def test_units_without_exact_values_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    game = random_game(2, 20, 5)
    controls = default_controls(game, np.random.default_rng(0))
    lines = Controls.of_lines(controls.lines)
    asked = []

    def refuse(self: GameSum, tol: float) -> bool:
        asked.append(tol)
        return False

    monkeypatch.setattr(GameSum, "can_keep", refuse)
    sample = sample_orders(game, controls, 5e-3, 10**6, 1)
    assert asked == [orders.UNIT_TOL]
    assert sample.standard_error.max() <= 5e-3
    alone = sample_orders(game, lines, 5e-3, 10**6, 2)
    error = np.hypot(sample.standard_error, alone.standard_error)
    assert (np.abs(sample.values - alone.values) < 5 * error).all()


@pytest.mark.usual_errors
def test_units_of_large_logits_are_scaled_into_the_table_of_poles() -> None:
    """The table of poles ends at an argument of 64."""
    game = random_game(3, 12, 4, spread=200.0)
    controls = default_controls(game, np.random.default_rng(0))
    assert len(controls.bias) > 8
    vectors = game.pooled(all_coalitions(12))
    arguments = np.abs(vectors @ controls.weight.T + controls.bias).max(axis=0)
    assert arguments.max() <= 60.0 * (1 + 1e-6)
    # Some were beyond, and now end where the table does.
    assert arguments.max() > 59.0
    exact, accuracy = controls.exact_values(game, np.ones((1, controls.count)))
    assert np.isfinite(exact).all() and accuracy[0] < 1e-4


def test_a_rough_answer_takes_no_exact_values_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its standard error is kept, and it is within a few of them from a finer one."""
    game = random_game(10, 24, 5)
    fine = shapley_sample(game, seed=1, max_error=2e-4)

    def refuse(self: ClassProbability, game: TailGame, rng: np.random.Generator) -> Controls:
        raise AssertionError("units are not wanted")

    monkeypatch.setattr(ClassProbability, "controls", refuse)
    rough = shapley_sample(game, seed=1, max_error=5e-3)
    assert rough.standard_error.max() <= 5e-3
    assert rough.calls < fine.calls
    error = np.hypot(rough.standard_error, fine.standard_error)
    assert (np.abs(rough.values - fine.values) < 5 * error).all()


def test_orders_are_added_until_the_error_is_small_enough() -> None:
    game = random_game(5, 24, 5)
    loose = shapley_sample(game, seed=1, max_error=1e-3)
    tight = shapley_sample(game, seed=1, max_error=1e-4)
    assert loose.standard_error.max() <= 1e-3
    assert tight.standard_error.max() <= 1e-4
    assert tight.calls > loose.calls
    again = shapley_sample(game, seed=1, max_error=1e-4)
    assert (again.values == tight.values).all()
    stopped = shapley_sample(game, seed=1, max_error=1e-9, most_calls=20_000)
    assert stopped.standard_error.max() > 1e-9
    ends = game.value([[False] * 24, [True] * 24])
    assert tight.values.sum() == pytest.approx(ends[1] - ends[0], abs=1e-9)


def test_a_tail_that_is_its_own_control_is_exact() -> None:
    """The logit of a class is a control; as a tail it leaves nothing to be sampled."""
    scores = random_game(6, 20, 3).scores
    game = TailGame(scores, lambda vectors: vectors[:, 1])
    sample = sample_orders(game, Controls.of_lines(np.array([[0.0, 1.0, 0.0]])), 1e-9, 10**6, 0)
    exact = shapley(scores.game([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(sample.values[0], exact, atol=1e-7)
    assert sample.standard_error.max() < 1e-9


def test_with_one_rival_a_unit_is_the_probability() -> None:
    """With two classes, the probability against the rival is the probability itself."""
    game = random_game(7, 30, 2)
    plain = sample_orders(game, None, np.inf, 10**9, 0)
    controls = default_controls(game, np.random.default_rng(1000))
    controlled = sample_orders(game, controls, np.inf, 10**9, 0)
    # What is left is the accuracy of the exact values.
    assert controlled.standard_error.max() < 1e-3 * plain.standard_error.max()
    margin = game.direction(np.array([1.0, -1.0]) / 0.8)
    exact = shapley(margin.through("sigmoid"))
    assert np.abs(controlled.values[0] - exact).max() <= controlled.standard_error.max()


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


def test_batches_of_orders_add_up_to_the_mean_and_variance_of_all() -> None:
    changes = np.random.default_rng(0).normal(size=(30, 2, 4)) + 100
    level = Level(first=0, length=4, rows_of_order=10)
    for batch in np.split(changes, [1, 8, 20]):
        level.add(batch)
    assert level.count == 30
    np.testing.assert_allclose(level.mean, changes.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(level.variance, changes.var(axis=0, ddof=1), rtol=1e-12)
