"""The rule in p: its moments, its exactness, and whether its error bound tells the truth."""

from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest

from attn_closed_form.game.budget import Budget
from attn_closed_form.game.by_size import centred_moments
from attn_closed_form.game.engine import integrate, rows_of
from attn_closed_form.game.node_counts import fixed_plan, total_log_bound
from attn_closed_form.lime.kernel_rule import kernel, size_error, size_moments, size_rule
from tests.lime_games import score_game


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize("d", [1, 2, 7, 20])
def test_moments_in_exact_arithmetic(d, kernel_width):
    """nu_n from P_n(1 - 2p) = sum_k (-1)^k C(n,k) C(n+k,k) p^k and p^k -> (s)_k / (d)_k."""
    q = [Fraction(float(x)) / d for x in kernel(d, kernel_width)]
    moments = size_moments(d, kernel_width)
    assert moments.nu.size == d + 1
    for n in range(d + 1):
        exact = sum(
            (-1) ** k * comb(n, k) * comb(n + k, k) * q[s] * Fraction(comb(s, k), comb(d, k))
            for k in range(n + 1)
            for s in range(d + 1)
        )
        assert abs(moments.nu[n] - float(exact)) <= 1e-16 + moments.loss[n] * moments.nu[0]


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize(("d", "m"), [(5, 2), (5, 6), (50, 7), (106, 12), (106, 40), (1000, 9)])
def test_polynomials_of_low_degree_are_exact(d, m, kernel_width):
    rule = size_rule(d, kernel_width, m)
    q = kernel(d, kernel_width) / d
    s = np.arange(d + 1)
    product = np.ones(d + 1)
    for k in range(m):
        # (d-s)_k / (d)_k is what p^k, p the probability of being present, stands for.
        np.testing.assert_allclose(rule.weights @ rule.p**k, q @ product, rtol=1e-12, atol=1e-14)
        product = product * (d - s - k) / max(d - k, 1)
    assert ((rule.p >= 0) & (rule.p <= 1)).all()


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("kernel_width", [25.0, 5.0])
def test_the_bound_holds_and_means_something(kind, kernel_width):
    d = 60
    game = score_game(d, H=1, kind=kind, spread=0.7)
    q = kernel(d, kernel_width) / d
    goal = Budget(eps=1e-13, p_error=1.0, scale=1.0, spread=1.0, precise=False)
    (mean,), present = centred_moments(game, q[None], goal)
    mean -= q[d] * game.empty_excess
    (rows,) = rows_of(game, goal)
    B = float(np.ldexp(game.half_range[0], game.exponent))
    bound = total_log_bound(rows.sums) + game.exponent * np.log(2)
    bounds, errors = [], []
    for m in (2, 4, 7, 11, 17, 26, 40):
        rule = size_rule(d, kernel_width, m)
        p, w = rule.p, rule.weights
        (E, level), (delta,) = integrate(game, goal, fixed_plan(p, [w, w * p], [w * p * (1 - p)]))
        bounds.append(size_error(rule, bound, B))
        errors.append(max(abs(E - mean), np.abs(level + delta - present).max()))
    rounding = 1e-13 * B
    assert (np.array(errors) <= np.array(bounds) + rounding).all()
    assert errors[0] > 1e-9, "so easy that any bound holds"
    assert min(bounds) < 1e-9, "a bound that never gets small"


def test_no_rule_beyond_the_moments():
    assert size_rule(1000, 25.0, 900) is None
