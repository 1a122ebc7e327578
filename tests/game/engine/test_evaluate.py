"""The driver's arithmetic: products and sums over players, sums in pairs, and power series against single nodes."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from attn_closed_form import PooledGame, lime_limit, shapley
from attn_closed_form.game.engine import evaluate
from attn_closed_form.game.engine.budget import ULP, budget
from attn_closed_form.game.engine.evaluate import (
    LARGEST_Q,
    MATRIX_PLAYERS,
    add_nodes,
    contract,
    count_powers,
    mix,
    precise_product,
    product,
    products_of_others,
    series_length,
    sum_in_pairs,
    sums_by_series,
    weighted_sums,
)
from attn_closed_form.game.engine.laws import Batch
from attn_closed_form.game.engine.terms import terms_of

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
    x = RNG.normal(size=(3, 4, d))
    y = RNG.normal(size=(3, 2, d))
    w = RNG.normal(size=(4, 3))
    sums = (x[:, :, None] * y[:, None]).sum(axis=-1)
    for precise in (False, True):
        np.testing.assert_allclose(contract(x, y, precise), sums, rtol=0, atol=1e-12 * d)
    np.testing.assert_allclose(
        add_nodes(w, x.transpose(1, 0, 2)), (w.T[:, :, None] * x).sum(axis=1), rtol=0, atol=1e-14
    )


def test_sums_in_pairs_lose_no_more_than_their_depth():
    """A running sum of a million numbers loses hundreds of ulps; in pairs it is log2 of their number at the most."""
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


def deleted(d, seed=0, spread=1.0, **background):
    rng = np.random.default_rng(seed)
    return PooledGame.from_scores(spread * rng.normal(size=d), rng.normal(size=d), **background)


def replaced(d, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=d)
    return PooledGame.from_scores(
        s, rng.normal(size=d), s - rng.exponential(size=d), rng.normal(size=d)
    )


GAMES = {
    "deleted": deleted(3000),
    "with a background": deleted(3000, 1, s_background=3.0, v_background=-2.0),
    "two heads": PooledGame.from_scores(*np.random.default_rng(2).normal(size=(2, 2, 3000))),
    "replaced by lighter ones": replaced(3000, 3),
    "values of 1e200": PooledGame.from_scores(
        *(np.random.default_rng(4).normal(size=(2, 3000)) * [[1.0], [1e200]])
    ),
}


def two_sets(p, weights):
    return np.stack([weights, weights * np.sin(9 * p)])


@pytest.mark.parametrize("tol", [1e-6, 1e-11])  # plain products, and products through logarithms
@pytest.mark.parametrize("name", GAMES)
def test_series_are_what_the_nodes_give(name, tol, monkeypatch):
    goal = budget(GAMES[name], tol)
    for terms in terms_of(GAMES[name], goal):
        p = (
            np.array([[0.1], [0.5], [0.9]]) * 0.1 / np.maximum(terms.largest_change, 0.1)
        )  # q is 0.09 at most
        weights = np.random.default_rng(5).normal(size=(3, p.shape[1]))
        batch = Batch(slice(None), p, weights)
        J = series_length(terms, np.repeat(p, 10, axis=0))
        assert J
        found = sums_by_series(terms, p, two_sets(p, weights), two_sets(p, weights)[::-1], J)
        with monkeypatch.context() as patch:
            patch.setattr(evaluate, "series_length", lambda terms, p: 0)
            witness = weighted_sums(
                terms, batch, goal.precise, two_sets, lambda p, w: two_sets(p, w)[::-1]
            )
        for one, other in zip(found, witness, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=3e-12 * np.abs(other).max())


@pytest.mark.parametrize("q", [1e-9, 1e-3, 0.02, 0.1, LARGEST_Q])
def test_what_is_left_out_is_below_an_ulp(q):
    ctx.prec = 200
    J = count_powers(q)
    x = arb(q)
    sigma = 1 / (1 - x)
    of_sigma = sum((x**i for i in range(J)), arb(0))
    of_square = sum(((i + 1) * x**i for i in range(J)), arb(0))
    of_log = sum((x**i / i for i in range(1, J)), arb(0))
    for kept, whole in ((of_sigma, sigma), (of_square, sigma**2), (of_log, -(1 - x).log())):
        assert abs(1 - kept / whole) < arb(ULP) / 4
    # One term less would not do.
    fewer = J - 1
    worst = max(
        float((fewer + 1) * x**fewer / (1 - x) ** 2), float(x ** (fewer - 1) / (fewer * (1 - x)))
    )
    assert fewer < 2 or worst > evaluate.LEFT_OUT


def test_a_large_q_is_left_to_the_nodes():
    game = deleted(2000)
    terms = next(iter(terms_of(game, budget(game, 1e-8))))
    assert count_powers(1.01 * LARGEST_Q) > 10_000 and count_powers(float("nan")) > 10_000
    assert series_length(terms, np.full((50, 1), 0.9)) == 0
    assert series_length(terms, np.full((50, 1), 1e-4)) > 0
    assert series_length(terms, np.full((1, 1), 1e-4)) == 0  # one node costs less than the terms


def test_players_that_are_light_when_present_are_left_to_the_nodes():
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(
        rng.normal(size=2000), rng.normal(size=2000), rng.normal(size=2000), np.zeros(2000)
    )
    terms = next(iter(terms_of(game, budget(game, 1e-8))))
    assert series_length(terms, np.full((50, 1), 1e-4)) == 0


@pytest.mark.parametrize("game", [deleted(20_000), deleted(20_000, 1, 2.5), replaced(20_000, 2)])
def test_shapley_values_of_many_players(game, monkeypatch):
    taken = []
    monkeypatch.setattr(
        evaluate,
        "series_length",
        lambda terms, p: taken.append(series_length(terms, p)) or taken[-1],
    )
    phi = shapley(game, 1e-11)
    assert any(taken)
    monkeypatch.setattr(evaluate, "series_length", lambda terms, p: 0)
    largest = max(
        abs(game.value(np.ones(game.d, dtype=bool))), abs(game.value(np.zeros(game.d, dtype=bool)))
    )
    assert np.abs(phi - shapley(game, 1e-11)).max() <= 1e-13 * largest


def test_lime_of_many_players(monkeypatch):
    game = deleted(20_000)
    beta = lime_limit(game).coef
    monkeypatch.setattr(evaluate, "series_length", lambda terms, p: 0)
    np.testing.assert_allclose(beta, lime_limit(game).coef, rtol=0, atol=1e-12 * np.abs(beta).max())


def test_too_few_terms_are_seen(monkeypatch):
    """The comparison above can fail: with half of the terms the Shapley values are wrong."""
    game = deleted(20_000)
    exact = shapley(game)
    monkeypatch.setattr(evaluate, "series_length", lambda terms, p: series_length(terms, p) // 3)
    assert np.abs(shapley(game) - exact).max() > 1e-9 * np.abs(exact).max()


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
    np.testing.assert_allclose(product(Y, np.empty((2, 3, 2 * d))), np.prod(Y, axis=2), rtol=1e-12)
