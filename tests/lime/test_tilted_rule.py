"""The rule for one lambda: against sums over sizes in exact order, equal players, and its own bound."""

from math import exp, fsum, lgamma

import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit
from attn_closed_form.lime.kernel import Settings, kernel
from attn_closed_form.lime.moments import moments_by_recursion, moments_by_rule
from attn_closed_form.lime.regression import regression
from attn_closed_form.lime.rules import TiltedTerm, tilted_rule


def by_size(E, A):
    """Means over the coalitions of m players of prod E_k times the sum of A_k, m = 0..d: the plain recursion."""
    P = np.array([1.0])
    N = np.array([0.0])
    for k, (x, a) in enumerate(zip(E, A, strict=True), start=1):
        m = np.arange(k + 1)
        stay = (k - m) / k
        join = m / k
        before_P = np.append(P, 0.0)
        before_N = np.append(N, 0.0)
        P_in = np.append(0.0, P)
        N_in = np.append(0.0, N)
        P = stay * before_P + join * x * P_in
        N = stay * before_N + join * x * (N_in + a * P_in)
    return N


@pytest.mark.parametrize("kernel_width", [25.0, np.inf])
@pytest.mark.parametrize("lam", [0.01, 0.05, 0.2, 0.7, 2.0, 9.0, 40.0])
def test_its_error_is_what_it_was_allowed(lam, kernel_width):
    d = 700
    allowed = 1e-9
    rng = np.random.default_rng(int(10 * lam))
    mass = np.exp(rng.normal(size=d))
    value = rng.uniform(-1, 1, d)
    E = np.exp(-lam * mass)
    t = E.mean()
    term = TiltedTerm(t, ((E / t - 1) ** 2).sum(), E.max() / t, 0.0, 0.0, mass @ E, 1.0)
    q = kernel(d, kernel_width)[::-1] / d
    p, weights = tilted_rule(q, term, allowed)
    assert p.size <= 16
    Y = 1 - p[:, None] * (1 - E)
    h = np.exp(np.log(Y).sum(axis=1)) * p * ((mass * value * E) / Y).sum(axis=1)
    exact = q @ by_size(E, mass * value)
    assert abs(weights @ h - exact) <= allowed
    fewer = tilted_rule(q, term, 1e3 * abs(exact))
    assert fewer is None or fewer[0].size <= p.size


@pytest.mark.parametrize("spread", [0.5, 3.0])
@pytest.mark.parametrize("background", [None, 2.0])
def test_the_recursion_agrees_at_six_hundred_deleted_players(spread, background):
    rng = np.random.default_rng(0)
    d = 600
    game = PooledGame.from_scores(
        rng.normal(size=d) * spread,
        rng.normal(size=d) + 1,
        s_background=background,
        v_background=None if background is None else 0.3,
    )
    settings = Settings(25.0, 1.0, 5000)
    found = regression(d, settings, d)
    fast = found.solve(moments_by_rule(game, found, settings, 1e-10), np.arange(d))
    slow = found.solve(moments_by_recursion(game, found, 1e-6), np.arange(d))
    scale = np.abs(game.value(np.ones(d, dtype=bool)))
    assert np.abs(fast[0] - slow[0]).max() < 1e-6 * scale
    assert abs(fast[1] - slow[1]) < 1e-6 * scale
    assert np.abs(slow[0]).max() > 1e-4 * scale


@pytest.mark.parametrize(
    ("d", "kernel_width"), [(1_000, 5.0), (2_000, 25.0), (3_000, 3.0), (20_000, 25.0)]
)
def test_one_of_two_values_among_thousands_of_equal_players(d, kernel_width):
    """A share of the players has value 1, the rest 0, all the same mass: f of m present is hypergeometric.

    E[f | m] = r / d for every m > 0, with r players of value 1, and E[f Z_j | m] = ((m-1)/(d-1) (r - y_j) + y_j) / d.
    So the coefficients are those of a linear function of the Z_j / m, which are sums over m of known weights. With a
    narrow kernel the tilt of some terms would leave float64.
    """
    ones = d // 4
    y = np.repeat([1.0, 0.0], [ones, d - ones])
    game = PooledGame.from_scores(np.full(d, 0.7), y)
    limit = lime_limit(game, kernel_width)
    n = 5000
    m = np.arange(d + 1)
    pi = kernel(d, kernel_width)[::-1]
    q = (n - 1) / (n * d) * pi
    q[d] = 1 / n
    f = np.where(m > 0, ones / d, 0.0)
    total = fsum(q)
    share = fsum(q * m / d) / fsum(q)
    shared = fsum(q * (m / d - share) * f)
    B = fsum(q * m * (d - m)) / (d * (d - 1))
    V = fsum(q * (m / d - share) ** 2)
    # E[f (Z_j - Z_bar) | m] = (y_j - ones/d) (1 - (m-1)/(d-1)) / d for m > 0.
    individual = fsum(np.where(m > 0, q * (1 - (m - 1) / (d - 1)), 0.0)) / d * (y - ones / d)
    slope = shared / (d * V + 1 / n)
    expected = individual / (B + 1 / n) + slope
    assert np.abs(limit.coef - expected).max() <= 1e-10
    assert abs(limit.intercept - (fsum(q * f) / total - share * d * slope)) <= 1e-10
    assert np.ptp(expected) > 1e-6


def test_a_term_without_any_factor_left():
    """E_k = 0 for all players: only the empty coalition counts."""
    q = np.full(11, 0.1)
    p, weights = tilted_rule(q, TiltedTerm(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0), 1e-10)
    assert p.tolist() == [0.0] and weights.tolist() == [0.1]


def test_binomial_identity_behind_the_tilt():
    """h~(p) = (1 - p + p/t)^d E_p'[h] for a function of the size alone."""
    d = 12
    t = 0.3
    p = 0.2
    A = np.cos(np.arange(d + 1.0))

    def mean(p, A):
        return fsum(
            exp(lgamma(d + 1) - lgamma(m + 1) - lgamma(d - m + 1))
            * p**m
            * (1 - p) ** (d - m)
            * A[m]
            for m in range(d + 1)
        )

    moved = (p / t) / (1 - p + p / t)
    assert mean(p, A / t ** np.arange(d + 1)) == pytest.approx(
        (1 - p + p / t) ** d * mean(moved, A), rel=1e-12
    )
