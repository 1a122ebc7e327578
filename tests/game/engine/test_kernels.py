"""The engine's array arithmetic against plain NumPy: products, sums over players and over nodes,
sums in pairs.
"""

import math

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form.game.engine.kernels import (
    BATCH_ELEMENTS,
    MATRIX_PLAYERS,
    add_complex_nodes,
    add_nodes,
    complex_product,
    contract,
    mix,
    precise_product,
    product,
    products_of_others,
    sum_in_pairs,
    workspace,
)
from attn_closed_form.game.engine.rounding import ULP

LENGTHS = [1, 2, 3, 16, 17, 107, MATRIX_PLAYERS, MATRIX_PLAYERS + 1, MATRIX_PLAYERS + 2, 2061]
RNG = np.random.default_rng(0)


def arrays(d, r=3, m=4):
    p = RNG.uniform(0.0, 1.0, (r, m))
    factor = np.ones((r, 2, d))
    heavy = RNG.random(d) < 0.7
    factor[:, 0, heavy] = np.exp(-RNG.exponential(1 / d, (r, heavy.sum())))
    factor[:, 1, ~heavy] = np.exp(-RNG.exponential(1 / d, (r, (~heavy).sum())))
    return np.stack([p, 1 - p], axis=2), factor


def test_the_workspace_grows_and_is_used_again():
    small, _ = workspace((3, 5))
    large, other = workspace((BATCH_ELEMENTS + 1,))
    assert small.shape == (3, 5)
    assert large.shape == other.shape == (BATCH_ELEMENTS + 1,)
    assert not np.shares_memory(large, other)
    again, _ = workspace((7,))
    assert np.shares_memory(again, large)
    huge, _ = workspace((2 * BATCH_ELEMENTS + 1,))
    assert not np.shares_memory(huge, large)


@pytest.mark.parametrize("d", LENGTHS)
def test_products_of_factors(d):
    points, factor = arrays(d)
    Y, spare = np.empty((2, 3, 4, d))
    mix(points, factor, True, Y, spare)
    np.testing.assert_allclose(Y, points @ factor, rtol=1e-15)
    plain = np.array([[np.prod(row) for row in rows] for rows in Y])
    np.testing.assert_allclose(precise_product(points, factor - 1, True, Y), plain, rtol=1e-12)
    np.testing.assert_allclose(product(Y.copy(), spare), plain, rtol=1e-13)


@pytest.mark.parametrize("d", LENGTHS)
def test_sums_over_players_and_over_nodes(d):
    x = RNG.normal(size=(3, 4, d))
    y = RNG.normal(size=(3, 2, d))
    w = RNG.normal(size=(4, 3))
    sums = (x[:, :, None] * y[:, None]).sum(axis=-1)
    for precise in (False, True):
        np.testing.assert_allclose(contract(x, y, precise), sums, rtol=0, atol=1e-12 * d)
    np.testing.assert_allclose(
        add_nodes(w, x.transpose(1, 0, 2)), (w.T[:, :, None] * x).sum(axis=1), rtol=0, atol=1e-14
    )


@pytest.mark.slow  # a million arrays
def test_sums_in_pairs_lose_no_more_than_their_depth():
    """A running sum of a million numbers loses hundreds of ulps; in pairs it is log2 of their
    number at the most.
    """
    n = 1_000_003
    numbers = np.random.default_rng(0).uniform(size=n)
    exact = math.fsum(numbers)
    found = float(sum_in_pairs((np.array(x) for x in numbers), np.zeros(())))
    assert abs(found - exact) <= np.ceil(np.log2(n)) * ULP * exact
    running = 0.0
    for x in np.full(n, 0.1):
        running += x
    assert abs(running / (0.1 * n) - 1) > 1000 * ULP


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 100])
def test_sums_in_pairs_have_every_array_once(n):
    arrays = [np.array([2.0**k, 1.0]) for k in range(n) if k < 50]
    found = sum_in_pairs((array.copy() for array in arrays), np.zeros(2))
    assert found.tolist() == [2.0 ** len(arrays) - 1, len(arrays)]
    assert sum_in_pairs([], np.zeros(2)).tolist() == [0.0, 0.0]


def test_many_heads_are_added_in_pairs():
    """Equal heads round alike, so that a running sum over their chunks would show."""
    rng = np.random.default_rng(1)
    s, v = rng.normal(size=(2, 1, 6))
    H = 3000
    single = shapley(PooledGame.from_scores(s, v), 1e-12)
    many = shapley(PooledGame.from_scores(np.repeat(s, H, axis=0), np.repeat(v, H, axis=0)), 1e-12)
    assert np.abs(many / H - single).max() <= 60 * ULP * np.abs(v).max()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 107])
def test_products_of_all_others_against_products_one_by_one(n):
    """With factors that vanish, by which nothing could be divided."""
    Q = RNG.normal(size=(3, n)) + 1j * RNG.normal(size=(3, n))
    Q /= np.abs(Q)
    Q[1, 0] = Q[2, n // 2] = 0.0
    R = RNG.normal(size=(3, n)) + 0j
    products, sums = products_of_others(Q, R)
    for j in range(n):
        others = [k for k in range(n) if k != j]
        np.testing.assert_allclose(products[:, j], np.prod(Q[:, others], axis=1), atol=1e-12)
        each = [R[:, k] * np.prod(Q[:, [i for i in others if i != k]], axis=1) for k in others]
        np.testing.assert_allclose(sums[:, j], np.sum(each, axis=0) if each else 0.0, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 107, MATRIX_PLAYERS + 1])
def test_products_of_complex_factors(d):
    Y = np.exp(1j * RNG.uniform(0, 6, (2, 3, d)))
    spare = np.empty((2, 3, 2 * d))
    np.testing.assert_allclose(complex_product(Y, spare), np.prod(Y, axis=2), rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 107, 900, MATRIX_PLAYERS + 1])
def test_sums_of_complex_numbers_over_nodes(d):
    """Also in several small products, which only as many players need."""
    x = RNG.normal(size=(3, 12, d)) + 1j * RNG.normal(size=(3, 12, d))
    w = RNG.normal(size=(12, 3)) + 1j * RNG.normal(size=(12, 3))
    exact = (w.T[:, :, None] * x).sum(axis=1)
    found = add_complex_nodes(w, x.transpose(1, 0, 2))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-13)
