"""The two rules on their own: their stated errors hold, and a worse rule would be seen."""

import numpy as np
import pytest

from attn_closed_form.game.quadrature import (
    EPS_MIN,
    ToleranceError,
    lambda_rule,
    lambda_segments,
    legendre_count,
    legendre_error,
    legendre_rule,
)


def largest_error(lam, w, log_range):
    """max |D sum w e^(-lam D) - 1| for ln D on a fine grid, in extended precision."""
    D = np.exp(np.linspace(0, log_range, max(200, int(40 * log_range))).astype(np.longdouble))[:, None]
    return float(np.abs((w.astype(np.longdouble) * D * np.exp(-lam.astype(np.longdouble) * D)).sum(axis=1) - 1).max())


RANGES = [0.0, 1e-3, 0.1, 0.7, 2.3, 7.0, 13.8, 14.1, 30.0, np.log(1e30), 400.0]


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-8, 1e-10, 1e-12, 1e-13, EPS_MIN])
@pytest.mark.parametrize("log_range", RANGES)
def test_lambda_rule_keeps_its_word(log_range, eps):
    assert largest_error(*lambda_rule(log_range, eps), log_range) <= eps


def test_lambda_rule_error_is_seen():
    for log_range in (2.3, 40.0):
        lam, w = lambda_rule(log_range, 1e-10)
        assert largest_error(lam, w * (1 + 1e-9), log_range) > 1e-10
        assert largest_error(lam[1:], w[1:], log_range) > 1e-13
        assert largest_error(lam[:-1], w[:-1], log_range) > 1e-13


def test_lambda_rule_is_not_wasteful():
    """Half of what a trapezoidal rule takes where the table reaches, 24 + 5 ln R beyond; fewer the looser eps is."""
    counts = [lambda_rule(np.log(1e6), eps)[0].size for eps in (1e-4, 1e-8, 1e-12, EPS_MIN)]
    assert counts == sorted(counts)
    assert counts[-1] <= 24 + 5 * np.log(1e6)
    assert lambda_rule(0.0, EPS_MIN)[0].size <= 26
    assert lambda_rule(np.log(6), 1.5e-10)[0].size <= 11
    assert lambda_rule(400.0, EPS_MIN)[0].size <= 24 + 5 * 400


@pytest.mark.parametrize("eps", [1e-4, 1e-12, EPS_MIN])
def test_segments_are_the_rule(eps):
    log_range = 500.0
    lam, w = lambda_rule(log_range, eps)
    pieces = lambda_segments(log_range, eps)
    assert len(pieces) > 1
    assert np.allclose(np.sort(np.concatenate([x * np.exp(-shift) for shift, x, _ in pieces])), lam, rtol=1e-13)
    assert np.isclose(sum((x * np.exp(-shift)).sum() for shift, _, x in pieces), w.sum(), rtol=1e-13)


@pytest.mark.parametrize("eps", [EPS_MIN / 2, 0.2, 0.0, -1.0, np.nan])
def test_lambda_rule_refuses_impossible_eps(eps):
    with pytest.raises(ToleranceError, match="eps"):
        lambda_rule(1.0, eps)


@pytest.mark.parametrize("log_range", [-1.0, np.inf, np.nan, 1e4])
def test_lambda_rule_refuses_bad_range(log_range):
    with pytest.raises(ValueError, match="log_range"):
        lambda_rule(log_range, 1e-10)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 12])
def test_legendre_rule_is_exact_to_degree_2m_minus_1(m):
    p, w = legendre_rule(m)
    for degree in range(2 * m):
        assert w @ p**degree == pytest.approx(1 / (degree + 1), rel=1e-13)
    assert abs(w @ p ** (2 * m) - 1 / (2 * m + 1)) > 1e-16 * 4 ** (-m)


@pytest.mark.parametrize("pole", [-0.01, -0.3, 1.2, 4.0])
@pytest.mark.parametrize("m", [4, 10, 25])
def test_legendre_error_is_a_bound(pole, m):
    """1/(p - pole): the largest modulus on an ellipse is known, the error must stay below the bound."""
    edge = np.arccosh(abs(2 * pole - 1))  # the ellipse through the pole
    theta = edge * np.array([0.5, 0.8, 0.9, 0.95])
    distance = abs(pole - 0.5) - np.cosh(theta) / 2
    bound = legendre_error(-np.log(distance), theta, m)
    p, w = legendre_rule(m)
    exact = np.log(abs(1 - pole)) - np.log(abs(pole))
    error = abs(w @ (1 / (p - pole)) - exact)
    assert error <= bound + 1e-14
    assert bound <= 1e4 * error + 1e-12  # and not absurdly large


def test_legendre_count_meets_its_error():
    theta = np.array([0.3, 1.0])
    log_bound = np.array([1.0, 30.0])
    m = legendre_count(log_bound, theta, 1e-9)
    assert legendre_error(log_bound, theta, m) <= 1e-9 < legendre_error(log_bound, theta, m - 1)


@pytest.mark.parametrize("m", [1, 2, 5, 24, 63])
def test_legendre_rule_to_the_last_bit(m):
    """Against roots of P_m refined in ball arithmetic."""
    flint = pytest.importorskip("flint")
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        p, w = legendre_rule(m)
        for i in range(m):
            x, weight = flint.arb.legendre_p_root(m, m - 1 - i, weight=True)
            assert abs(p[i] - float((1 + x) / 2)) <= 2**-53 * p[i] and abs(w[i] - float(weight / 2)) <= 2**-53 * w[i]
    finally:
        flint.ctx.prec = before
