"""The inner loops of the engine, each against the plain formula: short and long rows, even and odd ones."""

import numpy as np
import pytest

from attn_closed_form.game.arithmetic import MATRIX_PLAYERS, add_nodes, contract, mix, precise_product, product

LENGTHS = [1, 2, 3, 16, 17, 107, MATRIX_PLAYERS, MATRIX_PLAYERS + 1, MATRIX_PLAYERS + 2, 2061]
RNG = np.random.default_rng(0)


def arrays(d, r=3, m=4):
    p = RNG.uniform(0.0, 1.0, (r, m))
    factor = np.ones((r, 2, d))
    heavy = RNG.random(d) < 0.7
    factor[:, 0, heavy] = np.exp(-RNG.exponential(1 / d, (r, heavy.sum())))
    factor[:, 1, ~heavy] = np.exp(-RNG.exponential(1 / d, (r, (~heavy).sum())))
    return np.stack([p, 1 - p], axis=2), factor


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
    x, y, w = RNG.normal(size=(3, 4, d)), RNG.normal(size=(3, 2, d)), RNG.normal(size=(4, 3))
    sums = (x[:, :, None] * y[:, None]).sum(axis=-1)
    for precise in (False, True):
        np.testing.assert_allclose(contract(x, y, precise), sums, rtol=0, atol=1e-12 * d)
    np.testing.assert_allclose(
        add_nodes(w, x.transpose(1, 0, 2)), (w.T[:, :, None] * x).sum(axis=1), rtol=0, atol=1e-14
    )
