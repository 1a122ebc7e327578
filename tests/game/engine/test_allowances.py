"""The shares of tol, cuts and factors of the engine, each in a case that uses it up."""

import importlib
import math

import numpy as np
import pytest

from attn_closed_form import PooledGame, ToleranceError
from attn_closed_form._legendre import legendre_rule
from attn_closed_form.game.engine import exponential_sums
from attn_closed_form.game.engine.bounds import THETA, log_bound
from attn_closed_form.game.engine.budget import POLE_SHARE, budget, guaranteed_error
from attn_closed_form.game.engine.evaluate import FIRST, PAIRS, evaluate, row
from attn_closed_form.game.engine.exponential_sums import (
    EPS_MIN,
    lambda_rule,
    read_table,
    sector_segments,
)
from attn_closed_form.game.engine.laws import (
    OUTSIDE,
    UNIFORM,
    Density,
    legendre_count,
    log_legendre_factor,
)
from attn_closed_form.game.engine.pieces import TIER_GAP
from attn_closed_form.game.engine.rounding import FACTOR, LINK_RANGE_ROOM, OUTPUT, PRECISE, ULP
from attn_closed_form.game.engine.terms import terms_of
from tests.problems import random_game

# --- the rule for 1/D -----------------------------------------------------------------------------


def test_nodes_of_a_heavier_tier_are_nothing_to_a_lighter_one():
    """Their weights add up to less than 100 over the least mass, which is e^TIER_GAP times as large
    as D.
    """
    _, table = read_table("exponential_sums.npz", "log_range")
    largest = max(float(w.sum()) for entries in table.values() for _, _, w in entries)
    for log_range in (13.0, 40.0, 250.0):
        largest = max(largest, float(lambda_rule(log_range, EPS_MIN)[1].sum()))
    assert 20 < largest < 100
    # Of the smallest eps, it is less than a thousandth.
    assert EPS_MIN / 14_000 < 100 * math.exp(-TIER_GAP) < EPS_MIN / 5000


@pytest.mark.parametrize("log_range", [13.0, 60.0])
def test_no_node_is_dropped_that_matters(log_range):
    """The nodes next to both ends are beyond the cuts that the proof of the trapezoidal rule has,
    for every eps.
    """
    for k in range(8, 110):
        eps = 10 ** (-k / 8)
        nodes = exponential_sums.trapezoid_of(log_range, eps)
        before = nodes.t[0] - nodes.h
        after = nodes.t[-1] + nodes.h
        t0 = 0.5 - log_range
        log_cut = math.log(8 / eps)
        assert after - math.exp(t0 - after) > math.log(log_cut + math.log(log_cut))
        squeeze = math.exp(t0 - before)
        log_weight = before - squeeze + math.log(nodes.h * (1 + squeeze))
        assert log_weight + log_range < math.log(eps / 16)


def test_a_range_is_rounded_up_and_its_error_down():
    for log_range in (13.01, 20.2, 20.7):
        for eps in (3e-7, 1.1e-12):
            rounded, smaller = exponential_sums.rounded_arguments(log_range, eps)
            assert log_range <= rounded <= log_range + 0.5
            assert eps / 1.4 < smaller <= eps


@pytest.mark.parametrize("angle", [0.2, 0.9, 1.4])
@pytest.mark.parametrize("eps", [1e-4, 1e-9, 1e-13])
def test_the_step_of_a_sector_is_the_one_of_its_bound(angle, eps):
    """2 N / (e^(2 pi a / h) - 1) is at most eps / 2 for some line Im t = a, and no step is much
    smaller than needed.
    """
    ((_, lam, _),) = sector_segments(60.0, eps, angle)
    h = math.log(lam.max() / np.sort(lam)[-2])
    a = (math.pi / 2 - angle) * np.linspace(0.5, 0.99, 200)
    N = np.exp(math.exp(0.5) * np.sin(a) / math.cos(angle)) / (np.cos(a) * np.cos(angle + a))
    step_error = float((2 * N / np.expm1(2 * math.pi * a / h)).min())
    assert step_error <= 0.5 * eps
    # The angle and eps are rounded, each by up to a third.
    assert step_error > 0.5 * eps / 20


# --- the rule in p --------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 5, 12])
def test_chebyshev_polynomials_use_the_theorem_up(m):
    """Of degree 2 m, the first that m nodes do not integrate: the error is three quarters of the
    bound.
    """
    p, w = legendre_rule(m)
    error = abs(w @ np.cos(2 * m * np.arccos(2 * p - 1)) - 1 / (1 - 4 * m**2))
    theta = 3.0
    bound = math.cosh(2 * m * theta) * math.exp(float(log_legendre_factor(theta)) - 2 * m * theta)
    assert bound / 2 < error <= bound


def test_what_is_outside_an_interval_has_its_share():
    """Outside of the intervals of `legendre_count` the terms of second differences add up to
    OUTSIDE of the error.
    """
    game = random_game(5, 600, 1, "deleted", 8.0)
    allowed = 1e-12
    reached = []
    for terms in terms_of(game, budget(game, 1e-10)):
        sums = terms.sums
        interval, _ = legendre_count(sums, 599, allowed, True)
        log_size = 3 + np.log(np.maximum(sums.weight * (sums.background + sums.players), 1e-300))
        for end in (interval.first, interval.last):
            cut = (end > 1e-6) & (end < 1 - 1e-6)
            decay = end * sums.heavy + (1 - end) * sums.light
            each = np.exp(log_size - decay)[cut]
            limit = OUTSIDE * allowed * sums.share / sums.weight.size
            assert (each <= limit * (1 + 1e-5)).all()
            reached += (each / limit).tolist()
    assert max(reached) > 0.9


def test_the_coefficients_of_a_density_tighten_the_allowed_error():
    """The bound of the terms times that of the density, at the nodes that the law takes, stays
    below the allowed one.
    """
    law = Density(((2_000_000, 2, 2), (-1_999_000, 2, 2)))
    size = 3_999_000
    degree = 4
    game = random_game(3, 40, 1, "deleted+background", 12.0)
    allowed = 1e-6
    for terms in terms_of(game, budget(game, 1e-8)):
        sums = terms.sums
        batches = law.batches(terms, allowed)
        m = sum(len(batch.p) for batch in batches)
        interval, counts = legendre_count(sums, 39, allowed / size, True)
        assert m == counts[0] + (degree + 1) // 2 < 20
        length = interval.last - interval.first
        log_error = log_bound(sums, interval, True) + np.log(length)[:, None]
        log_error += math.log(size) + degree * THETA + log_legendre_factor(THETA) - 2 * THETA * m
        assert np.exp(log_error.min(axis=1)).sum() <= 2 * allowed * sums.share


def test_the_rounding_of_a_density_is_in_the_budget():
    """A density of degree 1000 has 4016 ulps more, which the smallest tol shows."""
    game = PooledGame.from_scores([0.0, 1.0, 0.5], [1.0, -1.0, 0.3])
    law = Density(((1001, 1000, 0),))
    smallest = []
    for of_law in (law, UNIFORM):
        with pytest.raises(ToleranceError) as error:
            evaluate(game, of_law, FIRST, 1e-17)
        smallest.append(error.value.smallest)
    ratio = (EPS_MIN + ULP * (PRECISE + 4016)) / (EPS_MIN + ULP * PRECISE)
    assert smallest[0] / smallest[1] == pytest.approx(ratio, rel=0.06)


def test_the_shares_of_the_chunks_add_up_to_one():
    game = random_game(1, 40, 20, "replaced+background", 3.0)
    goal = budget(game, 1e-10)
    chunks = list(terms_of(game, goal, elements=400))
    assert len(chunks) > 5
    assert sum(terms.sums.share for terms in chunks) == pytest.approx(1.0, rel=1e-12)


# --- the budget of linked games and of others -----------------------------------------------------


def test_the_poles_and_the_engine_share_tol():
    """Two means of poles, the engine's parts and the last additions are at most tol times the
    scale.
    """
    game = random_game(2, 8, 1, "replaced+background", 1.0).through("sigmoid")
    for tol in (1e-4, 1e-7, 1e-9):
        poles = game.engine_game(tol)
        goal = budget(poles, tol)
        assert poles.poles.error <= POLE_SHARE * tol * game.scale
        rounding = ULP * (PRECISE + FACTOR * game.d + poles.extra_ulps)
        inside = 2 * goal.spread * (goal.eps + rounding) + goal.p_error
        total = inside + OUTPUT * ULP * game.scale + 2 * POLE_SHARE * tol * game.scale
        assert total <= tol * game.scale * (1 + 1e-9)


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_the_guaranteed_error_is_tol_times_the_largest_value(size):
    game = PooledGame.from_scores([0.0, 0.5], [3 * size, 2 * size])
    assert guaranteed_error(game, 1e-8) == pytest.approx(3e-8 * size, rel=1e-12, abs=0)


def test_the_guaranteed_error_of_a_linked_game():
    game = PooledGame.from_scores([0.0, 0.5], [3.0, -2.0]).through("exp")
    assert guaranteed_error(game, 1e-8) == pytest.approx(1e-8 * math.exp(3.0), rel=1e-12)


@pytest.mark.parametrize("link", ["sigmoid", "exp"])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-0.1, 0.2), (0.0, 5.0)])
def test_the_slope_of_a_link_is_a_bound(link, low, high):
    """Of a game with the range [low, high]: no difference quotient is larger, and the largest is
    near.
    """
    game = PooledGame.from_scores([0.0], [high], [0.0], [low]).through(link)
    f = np.linspace(low, high, 2001)
    steepest = float((np.diff(game.link(f)) / np.diff(f)).max())
    assert steepest * (1 - 1e-9) <= game.largest_slope <= 1.03 * steepest


def test_the_range_of_a_linked_game_has_room():
    """f is -1 without the player and 1 with it, and the values spread over 4."""
    game = PooledGame.from_scores([0.0], [3.0], s_background=0.0, v_background=-1.0)
    low, high = game.through("sigmoid").range
    assert low == pytest.approx(-1 - 4 * LINK_RANGE_ROOM, abs=1e-13)
    assert high == pytest.approx(1 + 4 * LINK_RANGE_ROOM, abs=1e-13)


# --- callers that multiply errors -----------------------------------------------------------------


@pytest.mark.parametrize("player", [None, 2])
def test_singles_of_fbii_share_tol_with_their_pairs(player, monkeypatch):
    """A single is a first difference minus half the sum of d - 1 pairs: both errors together are at
    most tol.
    """
    factors = {}
    module = importlib.import_module("attn_closed_form.game.interactions")
    original = module.evaluate

    def recorded(game, law, statistic, tol, amplification=1.0):
        factors[statistic.players] = amplification
        return original(game, law, statistic, tol, amplification)

    monkeypatch.setattr(module, "evaluate", recorded)
    game = random_game(0, 7, 1, "deleted", 1.0)
    module.interactions(game, "FBII", player)
    assert 1 / factors[1] + (game.d - 1) / 2 / factors[2] <= 1 + 1e-12
    assert factors[2] >= 1


def test_owen_values_have_the_rounding_of_every_group(monkeypatch):
    """8 ulps per group next to the 400 of the engine."""
    amplifications = []
    module = importlib.import_module("attn_closed_form.game.owen")
    original = module.Computation

    def recorded(game, tol, amplification):
        amplifications.append(amplification)
        return original(game, tol, amplification)

    monkeypatch.setattr(module, "Computation", recorded)
    module.owen(random_game(0, 50, 1, "deleted", 1.0), np.arange(50))
    assert amplifications == [pytest.approx((400 + 8 * 50) / 400)]


# --- what is subtracted from the largest known value ----------------------------------------------


@pytest.mark.parametrize("base", [0.0, 0.5])
def test_the_scale_is_below_a_value_by_its_whole_rounding(base):
    """4 (d + 8) ulps of the spread, two of the base and four of the value itself, which half of
    them is not.
    """
    d = 200
    v = np.where(np.arange(d) < d / 2, 1.0, -1.0)
    game = PooledGame.from_scores(np.zeros(d), v, bias=base)
    values = np.abs(game.value(game.extreme_coalitions()))
    below = (float(values.max()) - math.ldexp(game.scale, game.exponent)) / ULP
    count = 4 * (d + 8) + 2 * base + 4 * float(values.max())
    assert abs(below - count) <= 8


@pytest.mark.parametrize("link", ["sigmoid", "exp"])
def test_the_scale_of_a_linked_game_is_below_a_value_by_its_whole_rounding(link):
    """The rounding of f and of the argument, times the slope of the link, 16 ulps of the value, and
    48 of the value of the empty coalition, g(0).
    """
    d = 400
    v = np.where(np.arange(d) < d / 2, 1.0, -1.0)
    game = PooledGame.from_scores(np.zeros(d), v).through(link)
    slope = {"sigmoid": 0.25, "exp": math.e}[link]
    largest = float(np.abs(game.value(game.game.extreme_coalitions())).max())
    below = (largest - game.scale) / ULP
    of_nobody = 48 * {"sigmoid": 0.5, "exp": 1.0}[link]
    count = slope * (4 * (d + 8) + 4) + 16 * largest + of_nobody
    assert below == pytest.approx(count, rel=0.01)


# --- rounding of masses in a linked game ----------------------------------------------------------


@pytest.mark.parametrize("link", ["sigmoid", "exp"])
def test_masses_of_a_linked_game_have_their_ulps(link, monkeypatch):
    """Every mass off by 21 ulps, in the direction that moves f: the change of g(f), in ball
    arithmetic, and its bound.
    """
    flint = pytest.importorskip("flint")
    poles = importlib.import_module("attn_closed_form.game.engine.poles")
    low = -0.01
    high = 0.01

    def counted(ulps):
        monkeypatch.setattr(poles, "MASSES", ulps)
        game = PooledGame.from_scores([0.0, 0.0], [low, high]).through(link)
        approximation = game.engine_game(1e-8)
        return approximation.extra_ulps * float(approximation.half_range.sum())

    allowed = counted(poles.MASSES) - counted(0)
    flint.ctx.prec = 200
    delta = flint.arb(21) * ULP
    g = {"sigmoid": lambda x: 1 / (1 + (-x).exp()), "exp": lambda x: x.exp()}[link]
    heavy = 1 + delta
    light = 1 - delta
    mean = (light * low + heavy * high) / (light + heavy)
    change = float((g(mean) - g((flint.arb(low) + high) / 2)) / ULP)
    # A centered mean moves by at most 2 delta times the spread; two equal masses reach a quarter of
    # that, which is the most that two masses can do.
    assert change == pytest.approx(allowed / 4, rel=0.05)
    flint.ctx.prec = 53


# --- what a rule for a sector drops ---------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.3, 1.1])
def test_dropped_nodes_of_a_sector_leave_room_for_its_steps(angle, monkeypatch):
    """At w = R e^(i angle) on the left and 1 on the right, where they matter most; the steps have
    half of eps.
    """
    eps = 1e-8
    log_range = 60.0
    make = exponential_sums.computed_sector_segments.__wrapped__
    ((_, lam, _),) = make(log_range, eps, angle)
    cut = exponential_sums.SECTOR_CUT
    monkeypatch.setattr(exponential_sums, "SECTOR_CUT", 0.0)
    ((_, every_lam, every_w),) = make(log_range, eps, angle)
    low = every_lam < lam.min()
    high = every_lam > lam.max()
    # |w| is Re w / cos.
    left = float(every_w[low].sum()) * math.exp(log_range) / math.cos(angle)
    right = float((every_w[high] * np.exp(-every_lam[high])).sum()) / math.cos(angle)
    assert 0.5 * eps + left + right <= eps
    assert 0.5 + 2 * cut <= 1
    assert max(left, right) > cut * eps / 20


# --- amplifications -------------------------------------------------------------------------------


def test_second_differences_have_twice_the_terms_of_first_ones():
    """An error of every value of a coalition counts by the moduli of the weights: four against
    two.
    """
    of_first = sum(abs(weight) for weight in (1, -1))
    of_second = sum(abs(weight) for weight in (1, -1, -1, 1))
    assert FIRST.amplification == 1
    assert PAIRS.amplification == of_second / of_first
    assert row(2).amplification == of_second / of_first


@pytest.mark.parametrize("amplification", [0.5, 1.0, 7.0])
def test_the_least_tol_of_poles_gives_them_their_share(amplification):
    game = random_game(2, 8, 1, "replaced+background", 1.0).through("sigmoid")
    poles = game.engine_game(1e-7)
    least = poles.least_tol(amplification)
    share = POLE_SHARE * least * poles.scale / amplification
    assert share == pytest.approx(poles.poles.error, rel=1e-12, abs=0)
