"""Gauss-Legendre rules: their exactness, and every digit."""

import pytest

from attn_closed_form._legendre import legendre_rule


@pytest.mark.parametrize("m", [1, 2, 3, 7, 12])
def test_legendre_rule_is_exact_to_degree_2m_minus_1(m):
    p, w = legendre_rule(m)
    for degree in range(2 * m):
        assert w @ p**degree == pytest.approx(1 / (degree + 1), rel=1e-13)
    assert abs(w @ p ** (2 * m) - 1 / (2 * m + 1)) > 1e-16 * 4 ** (-m)


@pytest.mark.parametrize("m", [1, 2, 5, 24, 63])
def test_legendre_rule_to_the_last_bit(m):
    """Against roots of P_m refined in ball arithmetic."""
    flint = pytest.importorskip("flint")
    before = flint.ctx.prec
    flint.ctx.prec = 300
    try:
        p, w = legendre_rule(m)
        for i in range(m):
            x, weight = flint.arb.legendre_p_root(m, m - 1 - i, weight=True)
            assert (
                abs(p[i] - float((1 + x) / 2)) <= 2**-53 * p[i]
                and abs(w[i] - float(weight / 2)) <= 2**-53 * w[i]
            )
    finally:
        flint.ctx.prec = before
