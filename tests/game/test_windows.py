"""Windows: the numbers that their bound rests on, what they leave out of a coalition's mean, and answers within tol."""

import math

import numpy as np
import pytest

from attn_closed_form import PooledGame, banzhaf, shapley
from attn_closed_form.game import terms
from attn_closed_form.game.budget import budget
from attn_closed_form.game.canonical import Piece
from attn_closed_form.game.exponential_sums import EPS_MIN, _rounded, _trapezoid
from attn_closed_form.game.terms import windows_of
from attn_closed_form.game.values import beta_shapley
from tests import enumeration

EPS = [EPS_MIN, 1e-12, 5e-9, 1e-5, 0.01]
RANGES = [12.5, 48.0, 300.0, 2000.0]


def spread_game(seed, d, spread, background=None, H=1):
    rng = np.random.default_rng(seed)
    s = spread * rng.random((H, d))
    v = rng.normal(size=(H, d))
    if background is None:
        more = {}
    else:
        more = {"s_background": background, "v_background": 0.3}
    return PooledGame.from_scores(s, v, empty_value=0.0 if background is not None else 0.7, **more)


@pytest.fixture
def always(monkeypatch):
    """Windows in games of any size."""
    monkeypatch.setattr(terms, "LEAST_PLAYERS", 1)
    monkeypatch.setattr(terms, "LEAST_RANGE", 0.0)


@pytest.fixture
def never(monkeypatch):
    def set_never():
        monkeypatch.setattr(terms, "LEAST_PLAYERS", 10**9)

    return set_never


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("log_range", RANGES)
def test_the_numbers_that_the_bound_rests_on(eps, log_range):
    log_range, eps = _rounded(log_range, eps)
    t, squeeze, h = _trapezoid(log_range, eps)
    assert (1 + squeeze).max() <= 37 and h * (1 + squeeze).max() <= 10
    assert (t - squeeze).max() <= math.log(40)
    theta = terms.HEAVY - math.log(eps)
    assert (1.2 * theta + 1) * math.exp(-theta) < eps / 40
    assert h * (1 + math.exp(0.5) / theta) < 1.2
    tau = eps / (terms.LIGHT * (log_range + terms.LIGHT_RANGE))
    assert 15.1 * tau * (2 + math.log(40) + log_range - math.log(tau)) < eps / 40


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("kind", ["even", "many light", "ties"])
def test_what_is_left_out_of_a_coalition(eps, kind):
    """The mean of each coalition with windows is within eps B / 20 of the one without."""
    rng = np.random.default_rng(3)
    d = 60
    s = np.sort({"even": np.linspace(0, 200, d), "many light": np.r_[np.zeros(d - 5), [30, 60, 90, 120, 150]]}.get(
        kind, np.repeat(np.linspace(0, 200, d // 6), 6)))  # fmt: skip
    a = np.exp(s)
    v = rng.choice([-1.0, 1.0], size=d)
    log_range = math.log(a.sum())
    t, squeeze, h = _trapezoid(*_rounded(log_range, eps))
    lam = np.exp(t - squeeze)
    w = h * lam * (1 + squeeze)
    first, last = terms._bounds(a, Piece(0, 0.0, lam, w, log_range), eps)
    k = np.arange(d)
    light = k < first[:, None]
    heavy = k >= last[:, None]
    assert light.any() and heavy.any()
    worst = 0.0
    for _ in range(300):
        S = rng.random(d) < rng.random()
        S &= k <= rng.integers(d)
        if not S.any():
            continue
        whole = w * np.exp(-lam * a[S].sum()) * (a * v)[S].sum()
        kept = np.where(light, 0.0, S * a)
        part = w * np.exp(-lam * kept.sum(axis=1)) * (kept * v).sum(axis=1)
        part[(heavy & S).any(axis=1)] = 0.0
        worst = max(worst, abs(float(whole.sum() - part.sum())))
    assert worst <= eps / 20 + 1e-15


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-11])
@pytest.mark.parametrize("background", [None, 0.0, 20.0, 60.0])
@pytest.mark.parametrize("spread", [20.0, 70.0, 290.0, 600.0])
def test_values_of_small_games_are_those_of_enumeration(always, tol, background, spread):
    game = spread_game(5, 11, spread, background)
    assert (windows_of(game, budget(game, tol)) is not None) == (background != 60.0 or spread > 60)
    scale = np.abs(enumeration.values(game)).max()
    for ours, theirs in ((shapley, enumeration.shapley), (banzhaf, enumeration.banzhaf)):
        assert np.abs(ours(game, tol) - theirs(game)).max() <= tol * scale


@pytest.mark.parametrize("H", [1, 3])
@pytest.mark.parametrize("background", [None, 40.0])
def test_values_of_large_games_are_those_without_windows(never, H, background):
    game = spread_game(7, 1500, 290.0, background, H)
    assert windows_of(game, budget(game, 1e-11)) is not None
    with_windows = [shapley(game, 1e-11), beta_shapley(game, 2, 3, 1e-11), banzhaf(game, 1e-11)]
    never()
    without = [shapley(game, 1e-11), beta_shapley(game, 2, 3, 1e-11), banzhaf(game, 1e-11)]
    scale = np.abs(game.v).max() * H
    for one, other in zip(with_windows, without, strict=True):
        assert np.abs(one - other).max() <= 2e-11 * scale


def test_tiers_and_ties_in_windows(always):
    s = np.r_[np.zeros(3), 20.0, np.full(3, 60.0), [200.0, 260.0, 265.0]]
    game = PooledGame.from_scores(s, np.random.default_rng(1).normal(size=s.size), empty_value=-1.0)
    scale = np.abs(enumeration.values(game)).max()
    assert np.abs(shapley(game, 1e-12) - enumeration.shapley(game)).max() <= 1e-12 * scale


def test_windows_are_small():
    """At each node only players within about 45 of each other in log-mass are in the window."""
    game = spread_game(0, 3000, 400.0)
    for window in windows_of(game, budget(game, 1e-8)):
        inside = game.s[0, window.inside]
        assert inside.max() - inside.min() < 45 + np.ptp(np.log(window.terms.lam))
        assert window.inside.size + window.beyond.size <= game.d


def test_replaced_players_have_no_windows():
    game = PooledGame.from_scores(
        np.linspace(0, 300, 400), np.ones(400), s_absent=0.0, v_absent=0.0
    )
    assert windows_of(game, budget(game, 1e-8)) is None


def test_a_window_that_is_too_small_is_seen(always, monkeypatch):
    game = spread_game(5, 11, 70.0)
    exact = enumeration.shapley(game)
    for name, wrong in (("HEAVY", -17.0), ("LIGHT", 1e-9)):
        with monkeypatch.context() as patch:
            patch.setattr(terms, name, wrong)
            assert np.abs(shapley(game, 1e-8) - exact).max() > 1e-8 * np.abs(game.v).max()
