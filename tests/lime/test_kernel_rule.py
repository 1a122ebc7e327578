"""The rule in p: its moments, its exactness, and whether its error bound tells the truth."""

from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest

from attn_closed_form.game.by_size import centred_moments
from attn_closed_form.game.engine import blocks, flip, heads, log_bound
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
    (mean,), present = centred_moments(game, q[None], 1e-13)
    if game.can_be_empty:
        mean -= q[d] * (game.empty_value - game.bias - (game.v.max() + game.v.min()) / 2)
    head = heads(game)[0]
    pieces = list(blocks(head, 1e-13))
    bound = log_bound(head, pieces)
    bounds, errors = [], []
    for m in (2, 4, 7, 11, 17, 26, 40):
        rule = size_rule(d, kernel_width, m)
        E, moment = 0.0, np.zeros(d)
        for piece in pieces:
            at = flip(head, piece, rule.p)
            level = (at.P * at.num).sum(axis=1)
            delta = ((at.P[:, :, None] * at.Z).sum(axis=1) * at.dV) + ((at.P * at.num)[:, :, None] * at.X).sum(axis=1)
            delta = np.where(head.present_is_light, delta, -delta)
            E += rule.weights @ level
            moment += (rule.weights * rule.p) @ (level[:, None] + (1 - rule.p)[:, None] * delta)
        bounds.append(size_error(rule, bound, head.half_range))
        errors.append(max(abs(E - mean), np.abs(moment - present).max()))
    rounding = 1e-13 * head.half_range
    assert (np.array(errors) <= np.array(bounds) + rounding).all()
    assert errors[0] > 1e-9, "so easy that any bound holds"
    assert min(bounds) < 1e-9, "a bound that never gets small"


def test_no_rule_beyond_the_moments():
    assert size_rule(1000, 25.0, 900) is None
