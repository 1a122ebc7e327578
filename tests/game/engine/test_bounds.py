"""The bound of a term on ellipses around an interval of p is a bound, and not an absurd one."""

import numpy as np
import pytest

from attn_closed_form.game.engine.bounds import (
    THETA,
    WHOLE,
    Interval,
    complex_term_sums,
    log_bound,
    term_sums,
)
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.terms import terms_of
from tests.problems import random_game

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
SOME_THETA = np.geomspace(0.2, THETA[-1], 8)


def on_ellipse(terms, p):
    """|E_p[f]|, largest |Delta_j| and |I_ij| of every term at complex p (r,), straight from the
    formulas.
    """
    x = terms.factor[:, 0]
    y = terms.factor[:, 1]
    p = p[:, None]
    Y = p * x + (1 - p) * y
    sigma = 1 / Y
    P = terms.weight * np.prod(Y, axis=1)
    num = terms.n_0 + (sigma * (p * terms.T[:, 0] + (1 - p) * terms.T[:, 1])).sum(axis=1)
    X = terms.difference * sigma
    Z = terms.S * sigma**2
    delta = np.abs(P[:, None] * (X * num[:, None] + Z)).max(axis=1)
    i = 0
    j = x.shape[1] - 1
    if i < j:
        pair = np.abs(P * (num * X[:, i] * X[:, j] + X[:, i] * Z[:, j] + Z[:, i] * X[:, j]))
    else:
        pair = 0 * delta
    return np.abs(P * num), delta, pair


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("d", "spread", "end"),
    [(1, 2.0, 1.0), (2, 4.0, 0.5), (7, 10.0, 1.0), (40, 1.0, 1.0), (60, 6.0, 0.2)],
)
def test_terms_stay_below_their_bound(kind, d, spread, end):
    game = random_game(d, d, 2, kind, spread)
    for terms in terms_of(game, budget(game, 1e-8)):
        interval = Interval(np.zeros(terms.weight.size), np.full(terms.weight.size, end))
        bounds = [
            log_bound(terms.sums, interval, differences, SOME_THETA)
            for differences in (False, True)
        ]
        largest = np.full((2, terms.weight.size, SOME_THETA.size), -np.inf)
        for k, theta in enumerate(SOME_THETA):
            for phi in np.linspace(0, np.pi, 25):
                z = np.cosh(theta) * np.cos(phi) + 1j * np.sinh(theta) * np.sin(phi)
                mean, delta, pair = on_ellipse(terms, np.full(terms.weight.size, end / 2 * (1 + z)))
                with np.errstate(divide="ignore"):
                    largest[0, :, k] = np.maximum(
                        largest[0, :, k], np.log(np.maximum(mean, np.maximum(delta, pair)))
                    )
                    largest[1, :, k] = np.maximum(largest[1, :, k], np.log(np.maximum(delta, pair)))
        for bound, found in zip(bounds, largest, strict=True):
            assert (found <= bound).all()
        assert (bounds[1] <= bounds[0] + np.log(3)).all()


def test_the_bound_is_within_a_few_powers_of_e():
    game = random_game(3, 40, 1, "deleted+background", 2.0)
    (terms,) = terms_of(game, budget(game, 1e-8))
    interval = Interval(np.zeros(terms.weight.size), np.ones(terms.weight.size))
    theta = SOME_THETA[5:6]
    bound = log_bound(terms.sums, interval, True, theta)[:, 0]
    _, delta, _ = on_ellipse(terms, np.full(terms.weight.size, (1 - np.cosh(theta[0])) / 2 + 0j))
    assert (bound - np.log(delta) < 9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_holds_around_any_interval(kind):
    game = random_game(4, 12, 1, kind, 5.0)
    for terms in terms_of(game, budget(game, 1e-8)):
        r = terms.weight.size
        for first, last in [(0.0, 1.0), (0.0, 0.3), (0.6, 1.0)]:
            bound = log_bound(
                terms.sums, Interval(np.full(r, first), np.full(r, last)), True, SOME_THETA
            )
            for k, theta in enumerate(SOME_THETA):
                for phi in np.linspace(0, np.pi, 13):
                    z = np.cosh(theta) * np.cos(phi) + 1j * np.sinh(theta) * np.sin(phi)
                    _, delta, pair = on_ellipse(
                        terms, np.full(r, (first + last) / 2 + (last - first) / 2 * z)
                    )
                    with np.errstate(divide="ignore"):
                        assert (np.log(np.maximum(delta, pair)) <= bound[:, k] + 1e-9).all()


def test_three_players_without_a_product_are_allowed_for():
    """Near p = 1 three players have factors next to 0, and the fourth always has 1.

    A second difference leaves three of them out, two with a change of 1 and one with a numerator of
    1, so it is 1 there; the product of all four would be far below.
    """
    factor = np.ones((1, 2, 4), dtype=complex)
    factor[0, 0, :3] = 1e-9
    T = np.zeros((1, 2, 4), dtype=complex)
    T[0, 0, 2] = 1.0
    one = np.ones(1)
    sums = complex_term_sums(one, 0 * one, factor, T, one, 0 * one, 1.0)
    interval = Interval(np.array([0.999]), np.array([1.0]))
    bound = np.exp(log_bound(sums, interval, True, np.array([0.02])))
    assert 1 <= float(bound[0, 0]) <= 4


def test_the_largest_player_of_a_difference_counts():
    """Nearly equal masses with different values: the first difference is next to 1, and its change
    of mass to 0.
    """
    change = 1e-9
    factor = np.ones((1, 2, 1))
    factor[0, 0] = 1 - change
    T = np.array([[[1.0], [0.0]]])
    one = np.ones(1)
    sums = term_sums(one, 0 * one, factor, T, change * one, 0 * one, 1.0)
    bound = np.exp(log_bound(sums, WHOLE, True, np.array([0.02])))
    # Twice as much as needed, by design: one sum of both players' numerators would do.
    assert 1 <= float(bound[0, 0]) <= 2.01
