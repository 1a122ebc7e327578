"""The minimum of a head: rounding in exact arithmetic on constructed worst cases, and the smallest
mean.
"""

import sys
from itertools import permutations

import mpmath
import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game.engine.rounding import EXTREMUM_LOST, ULP
from attn_closed_form.game.extrema import (
    Gains,
    States,
    head_minima,
    log_exchange_error,
    relative_error,
    smallest_mean,
)
from tests import enumeration
from tests.problems import random_game


def all_states(game):
    everybody = np.ones(game.d, dtype=bool)
    return States.of(game, everybody, everybody)


def no_slip(game):
    return np.full(game.H, -np.inf)


def test_the_error_of_a_term_in_ball_arithmetic():
    """A light player whose log-mass lies 512 to 600 below a background whose term is zero.

    The difference of the log-masses is rounded by up to 512 ulps there, and everything else adds a
    few. So the margin of 2 * 2 * 751 ulps is at most six times what is needed, and a tenth of it is
    not enough.
    """
    largest = 0.0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        s = -float(rng.uniform(513, 600))
        s_background = float(rng.uniform(0.0, 1.0))
        v = float(rng.normal())
        game = PooledGame.from_scores([s], [v], s_background=s_background, v_background=0.0)
        step = all_states(game).at(np.zeros((1, 2), dtype=bool), np.zeros(1), no_slip(game))
        with mpmath.workprec(400):
            mass = mpmath.exp(mpmath.mpf(s) - mpmath.mpf(s_background))
            error = abs(mpmath.mpf(float(step.excess[0])) - mass * v / (1 + mass))
            largest = max(largest, float(error / mpmath.mpf(float(step.margin[0]))))
            assert error <= float(step.margin[0])
    assert largest > 1 / 8  # so a tenth of the margin fails


def test_a_margin_counts_terms_that_cancel():
    game = PooledGame.from_scores(
        [0.0, 0.0, 0.0], [1e6, -1e6, 1.0], s_background=0.0, v_background=0.0
    )
    step = all_states(game).at(np.zeros((1, 4), dtype=bool), np.zeros(1), no_slip(game))
    size = np.abs(game.v).sum() / 4
    assert step.excess[0] == pytest.approx((game.v.sum()) / 4)
    # Four players, with the background.
    assert step.margin[0] == pytest.approx(2 * relative_error(4) * size, rel=1e-12, abs=0)


def test_the_relative_error_has_its_parts():
    """745 ulps of a rounded difference, 4 of `exp` and one of the product with a value, and d of
    the sum: twice that, by design.
    """
    for d in (0, 1000):
        count = 745 + 4 + 1 + d
        assert relative_error(d) == pytest.approx(2 * count * ULP, rel=1e-12, abs=0)


@pytest.mark.usual_errors
def test_what_underflows_is_counted():
    """Each of d masses and products loses at most the smallest normal number; games have up to 10^9
    players.
    """
    assert 10**9 * 2 * sys.float_info.min <= EXTREMUM_LOST
    game = PooledGame.from_scores([-744.0], [-1.0], s_background=0.0, v_background=0.0)
    step = all_states(game).at(np.zeros((1, 2), dtype=bool), np.zeros(1), no_slip(game))
    with mpmath.workprec(300):
        exact = -mpmath.exp(-744) / (1 + mpmath.exp(-744))
        assert abs(step.excess[0] - exact) <= step.margin[0]
    # Here e^-744 has lost half of its last digit, which is far more than the relative error of a
    # normal number.
    assert abs(step.excess[0] - exact) > 100 * relative_error(1) * abs(exact)


def most_that_rounding_costs(gain, error, count):
    """The largest loss in the sum of the gains when the `count` largest rounded gains are taken,
    over all true gains.

    The true gains are anywhere within the error of the rounded ones: at the bottom for the chosen
    players, and at the top for all others.
    """
    order = np.argsort(-gain, kind="stable")
    chosen = order[:count]
    true = gain + error
    true[chosen] = gain[chosen] - error[chosen]
    return np.sort(true)[::-1][:count].sum() - true[chosen].sum()


@pytest.mark.parametrize("mode", ["at_most", "exactly"])
def test_exchanged_players_are_counted(mode):
    """Gains with errors that overlap: the allowance is between 4/3 and a few times what rounding
    can cost.
    """
    ratios = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(3, 9))
        count = int(rng.integers(1, d))
        gain = rng.choice([1.0, 1.5, 2.0], d) + (0.0 if mode == "at_most" else -1.6)
        error = rng.choice([1e-9, 1e-6, 1e-3], d)
        if mode == "exactly":
            gain[gain == 0] = 0.1
        ones = np.ones((1, d + 1), dtype=bool)
        last = np.append(gain, -9.0)[None]
        gains = Gains(np.zeros((1, d + 1)), last, np.append(error, 0.0)[None], last > 0, ones)
        chosen, log_error = getattr(gains, mode)(count)
        assert chosen[0, :-1].sum() == count
        loss = most_that_rounding_costs(gain, error, count)
        if np.isneginf(log_error[0]):
            assert loss <= 1e-15  # no order is in doubt
        else:
            ratios.append(loss / np.exp(log_error[0]))
    assert max(ratios) <= 0.75  # a factor of 1 instead of 2 fails
    assert max(ratios) >= 0.05


def test_the_worst_rival_counts():
    """One chosen player, two rivals that may outrank it, of which one has a large error."""
    rank = np.array([[2.0, 1.999, 1.998]])
    error = np.array([[1e-3, 1e-3, 1.0]])
    chosen = np.array([[True, False, False]])
    log_error = log_exchange_error(chosen, ~chosen, rank - error, rank + error, np.log(error))
    assert np.exp(log_error[0]) >= 1.0


@pytest.mark.parametrize("background", [True, False])
def test_the_smallest_mean_by_enumeration(background):
    for seed in range(20):
        kind = "replaced+background" if background else "replaced"
        game = random_game(seed, 7, 1, kind, 3.0)
        a = np.exp(game.s[0])
        b = np.exp(game.s_absent[0])
        c_0 = float(np.exp(game.s_background[0]))
        least = smallest_mean(a, game.v[0], b, game.v_absent[0], c_0, float(game.v_background[0]))
        exact = (enumeration.values(game) - game.bias).min()
        assert least == pytest.approx(float(exact), abs=1e-12)


def test_exactly_some_players_change_sides():
    """The choice in the log domain, by enumeration, where masses are plain and where they are
    not.
    """
    for seed in range(10):
        for spread in (3.0, 400.0):
            game = random_game(seed, 6, 2, "replaced+background", spread)
            everybody = np.ones(6, dtype=bool)
            masks = enumeration.coalitions(6)
            for k in (1, 3, 6):
                minima = head_minima(game, everybody, everybody, k, exactly=True)
                assert ((~minima.present).sum(axis=1) == k).all()
                for h in range(2):
                    head = PooledGame.from_scores(
                        game.s[h], game.v[h], game.s_absent[h], game.v_absent[h],
                        game.s_background[h], game.v_background[h],
                    )  # fmt: skip
                    values = head.value(masks)[masks.sum(axis=1) == 6 - k]
                    scale = np.abs(game.v).max() + np.abs(game.v_absent).max()
                    assert minima.bound[h] <= values.min() + 1e-13 * scale
                    assert minima.bound[h] >= values.min() - 1e-9 * scale


def test_the_reference_of_the_exchanges_is_right():
    """By all orders of three players: the loss is that of the best set."""
    gain = np.array([1.0, 0.999, 0.5])
    error = np.array([0.01, 0.01, 0.0])
    true = np.array([0.99, 1.009, 0.5])
    best = max(true[list(order[:1])].sum() for order in permutations(range(3)))
    assert most_that_rounding_costs(gain, error, 1) == pytest.approx(best - true[0])


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("kind", ["replaced", "replaced+background"])
def test_the_minima_of_heads_by_enumeration(kind, limit):
    """The bound is below every coalition that differs from the base in at most some players, and
    next to the least.
    """
    for seed in range(10):
        game = random_game(seed, 6, 1, kind, 3.0)
        everybody = np.ones(6, dtype=bool)
        minima = head_minima(game, everybody, everybody, limit)
        masks = enumeration.coalitions(6)
        near = (~masks).sum(axis=1) <= (6 if limit is None else limit)
        exact = float((enumeration.values(game) - game.bias)[near].min())
        assert exact - 1e-9 <= minima.bound[0] <= exact
