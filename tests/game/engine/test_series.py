"""Power series in p against single nodes."""

import numpy as np
import pytest
from flint import arb, ctx

from attn_closed_form import PooledGame, lime_limit, shapley
from attn_closed_form.game.engine import evaluate
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.evaluate import weighted_sums
from attn_closed_form.game.engine.laws import Batch
from attn_closed_form.game.engine.rounding import SERIES_REMAINDER, ULP
from attn_closed_form.game.engine.series import (
    LARGEST_Q,
    count_powers,
    series_length,
    sums_by_series,
)
from attn_closed_form.game.engine.terms import terms_of


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
        # Q is 0.09 at most.
        p = np.array([[0.1], [0.5], [0.9]]) * 0.1 / np.maximum(terms.largest_change, 0.1)
        weights = np.random.default_rng(5).normal(size=(3, p.shape[1]))
        batch = Batch(slice(None), p, weights)
        J = series_length(terms, np.repeat(p, 10, axis=0))
        assert J
        found = sums_by_series(terms, p, two_sets(p, weights), two_sets(p, weights)[::-1], J)
        with monkeypatch.context() as patch:
            patch.setattr(evaluate, "series_length", lambda terms, p: 0)
            witness = weighted_sums(
                terms, batch, goal.precise, two_sets(p, weights), two_sets(p, weights)[::-1]
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
    assert fewer < 2 or worst > SERIES_REMAINDER


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


@pytest.mark.slow
def test_lime_of_many_players(monkeypatch):
    game = deleted(3_000)
    tol = 1e-8  # rules for so many players keep no more digits
    beta = lime_limit(game, tol=tol).coef
    monkeypatch.setattr(evaluate, "series_length", lambda terms, p: 0)
    without = lime_limit(game, tol=tol).coef
    np.testing.assert_allclose(beta, without, rtol=0, atol=1e-12 * np.abs(beta).max())


def test_too_few_terms_are_seen(monkeypatch):
    """The comparison above can fail: with half of the terms the Shapley values are wrong."""
    game = deleted(20_000)
    exact = shapley(game)
    monkeypatch.setattr(evaluate, "series_length", lambda terms, p: series_length(terms, p) // 3)
    assert np.abs(shapley(game) - exact).max() > 1e-9 * np.abs(exact).max()
