"""The rules in p: their moments, their exactness, and whether their error bounds tell the truth."""

from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest

from attn_closed_form.game.budget import budget
from attn_closed_form.game.by_size import centred_moments
from attn_closed_form.game.laws import Batch
from attn_closed_form.game.terms import log_bound, terms_of
from attn_closed_form.lime import rules
from attn_closed_form.lime.kernel import kernel, log_kernel
from attn_closed_form.lime.moments import _largest, rule_sums
from attn_closed_form.lime.rules import ladder, size_moments, size_rule
from tests.lime_games import score_game


def exact_moment(q, n):
    """nu_n from P_n(1 - 2p) = sum_k (-1)^k C(n,k) C(n+k,k) p^k and p^k -> (s)_k / (d)_k."""
    d = len(q) - 1
    return sum(
        (-1) ** k * comb(n, k) * comb(n + k, k) * q[s] * Fraction(comb(s, k), comb(d, k))
        for k in range(n + 1)
        for s in range(d + 1)
    )


def rational(x):
    """An extended-precision number as a fraction."""
    high = float(x)
    return Fraction(high) + Fraction(float(x - high))


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize("d", [1, 2, 7, 26])
def test_moments_in_exact_arithmetic(d, kernel_width):
    q = [rational(x) for x in np.exp(log_kernel(d, kernel_width)) / d]
    moments = size_moments(d, kernel_width)
    left = sum(x * x for x in q)
    for n in range(moments.nu.size):
        exact = exact_moment(q, n)
        assert abs(rational(moments.nu[n]) - exact) <= moments.error[n]
        norm = Fraction(d + 1, 2 * n + 1)
        for k in range(1, n + 1):
            norm *= Fraction(d + 1 + k, d + 1 - k)
        left -= exact**2 / norm
        assert float(norm) == pytest.approx(np.exp(2 * moments.log_norm[n]), rel=1e-12)
    assert moments.residual >= 0.999 * float(left) ** 0.5
    assert moments.residual <= 1.001 * float(left) ** 0.5 + 1e-15


@pytest.mark.parametrize("kernel_width", [25.0, 4.0])
@pytest.mark.parametrize("d", [120, 250])
def test_the_two_ways_to_the_moments_agree_within_their_errors(d, kernel_width):
    q = np.exp(log_kernel(d, kernel_width)) / d
    exact, extended = rules._exact(q, 96), rules._extended(q, 96)
    N = min(exact[0].size, extended[0].size)
    assert (np.abs(exact[0][:N] - extended[0][:N]) <= exact[1][:N] + extended[1][:N]).all()
    assert extended[1][20] < 1e-14, "a bound that says something"
    # What is left after a few degrees, which is no rounding.
    left = [way(q, 4)[2] for way in (rules._exact, rules._extended)]
    assert left[0] * (1 - 1e-6) <= left[1] <= left[0] * (1 + 1e-6) + 1e-12
    assert left[0] > 1e-9


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize(("d", "m"), [(5, 2), (5, 6), (50, 7), (106, 12), (106, 30), (1000, 9)])
def test_polynomials_of_low_degree_are_exact(d, m, kernel_width):
    rule = size_rule(d, kernel_width, m)
    q = kernel(d, kernel_width) / d
    s = np.arange(d + 1)
    product = np.ones(d + 1)
    for k in range(m):
        # (d-s)_k / (d)_k is what p^k, p the probability of being present, stands for.
        np.testing.assert_allclose(rule.weights @ rule.p**k, q @ product, rtol=1e-13, atol=1e-15)
        product = product * (d - s - k) / max(d - k, 1)
    assert ((rule.p >= 0) & (rule.p <= 1)).all()


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("kernel_width", [25.0, 5.0])
def test_the_bound_holds_and_means_something(kind, kernel_width):
    d = 60
    game = score_game(d, H=1, kind=kind, spread=0.7)
    q = kernel(d, kernel_width) / d
    goal = budget(game, 1e-11, plain=True)
    (mean,), present = centred_moments(game, q[None], goal)
    steps = ladder(d, kernel_width)
    (terms,) = terms_of(game, goal)
    chosen = [ladder(d, kernel_width, (m,)) for m in steps.counts.tolist()]
    bounds = [one.choose(log_bound(terms.sums), _largest(terms), 0.0)[1].sum() for one in chosen]
    errors = []
    for rule in steps.rules:
        p, w = rule.p[:, None], rule.weights[:, None]
        level, _, *delta = rule_sums(0.0, terms, Batch(slice(None), p, w), False)
        by_p = rule_sums(0.0, terms, Batch(slice(None), p, w * p), False)[0]
        errors.append(max(abs(level - mean), np.abs(by_p + np.array(delta) - present).max()))
    rounding = 1e-11 * float(game.half_range.sum())
    assert (np.array(errors) <= np.array(bounds) + rounding).all()
    assert errors[0] > 1e-10, "so easy that any bound holds"
    assert min(bounds) < 1e-9, "a bound that never gets small"


def test_no_rule_beyond_the_moments():
    assert size_rule(1000, 25.0, 900) is None
