"""The bound of a row on ellipses around an interval of p is a bound, and not an absurd one."""

import math

import numpy as np
import pytest

from attn_closed_form.game import node_counts, row_bounds
from attn_closed_form.game import rows as rows_module
from attn_closed_form.game.budget import budget
from attn_closed_form.game.engine import rows_of
from attn_closed_form.game.node_counts import (
    BATCH_COST,
    MOST_THETA,
    OUTSIDE,
    Interval,
    batches,
    legendre_counts,
    log_bound,
    relevant_interval,
    row_thetas,
)
from attn_closed_form.game.quadrature import log_legendre_factor
from tests.problems import random_game

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
SOME_THETA = np.geomspace(0.2, MOST_THETA, 8)


def on_ellipse(rows, p):
    """|E_p[f]|, largest |Delta_j| and |I_ij| of every row at complex p (r,), straight from the formulas."""
    x, y = rows.factor[:, 0], rows.factor[:, 1]
    p = p[:, None]
    Y = p * x + (1 - p) * y
    sigma = 1 / Y
    P = rows.weight * np.prod(Y, axis=1)
    num = rows.n_0 + (sigma * (p * rows.T[:, 0] + (1 - p) * rows.T[:, 1])).sum(axis=1)
    X, Z = rows.difference * sigma, rows.S * sigma**2
    delta = np.abs(P[:, None] * (X * num[:, None] + Z)).max(axis=1)
    i, j = 0, x.shape[1] - 1
    pair = np.abs(P * (num * X[:, i] * X[:, j] + X[:, i] * Z[:, j] + Z[:, i] * X[:, j])) if i < j else 0 * delta
    return np.abs(P * num), delta, pair


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("d", "spread", "end"), [(1, 2.0, 1.0), (2, 4.0, 0.5), (7, 10.0, 1.0), (40, 1.0, 1.0), (60, 6.0, 0.2)]
)
def test_rows_stay_below_their_bound(kind, d, spread, end):
    game = random_game(d, d, 2, kind, spread)
    for rows in rows_of(game, budget(game, 1e-8)):
        interval = Interval(np.zeros(rows.weight.size), np.full(rows.weight.size, end))
        bounds = [log_bound(rows.sums, interval, SOME_THETA, differences) for differences in (False, True)]
        largest = np.full((2, rows.weight.size, SOME_THETA.size), -np.inf)
        for k, theta in enumerate(SOME_THETA):
            for phi in np.linspace(0, np.pi, 25):
                z = np.cosh(theta) * np.cos(phi) + 1j * np.sinh(theta) * np.sin(phi)
                mean, delta, pair = on_ellipse(rows, np.full(rows.weight.size, end / 2 * (1 + z)))
                with np.errstate(divide="ignore"):
                    largest[0, :, k] = np.maximum(largest[0, :, k], np.log(np.maximum(mean, np.maximum(delta, pair))))
                    largest[1, :, k] = np.maximum(largest[1, :, k], np.log(np.maximum(delta, pair)))
        for bound, found in zip(bounds, largest, strict=True):
            assert (found <= bound).all()
        assert (bounds[1] <= bounds[0] + np.log(3)).all()


def test_the_bound_is_within_a_few_powers_of_e():
    game = random_game(3, 40, 1, "deleted+background", 2.0)
    (rows,) = rows_of(game, budget(game, 1e-8))
    interval = Interval(np.zeros(rows.weight.size), np.ones(rows.weight.size))
    theta = SOME_THETA[5:6]
    bound = log_bound(rows.sums, interval, theta, True)[:, 0]
    _, delta, _ = on_ellipse(rows, np.full(rows.weight.size, (1 - np.cosh(theta[0])) / 2 + 0j))
    assert (bound - np.log(delta) < 9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_cannot_matter(kind):
    game = random_game(5, 300, 1, kind, 8.0)
    log_allowed = np.log(1e-12)
    cut = 0
    for rows in rows_of(game, budget(game, 1e-8)):
        first, last = relevant_interval(rows.sums, log_allowed)
        for p in np.linspace(1e-6, 1 - 1e-6, 41):
            outside = (p < first) | (p > last)
            _, delta, _ = on_ellipse(rows, np.full(rows.weight.size, p + 0j))
            assert (delta[outside] <= 1e-12).all()
            cut += int(outside.sum())
    assert cut > 0 or kind == "replaced+background"


def test_a_second_difference_leaves_out_three_players():
    """Players i and j of I_ij, and k of the sum over players in the numerator."""
    assert row_bounds.LEFT_OUT == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_nodes_of_all_rows_make_no_more_than_the_allowed_error(kind):
    """The bounds of all rows at their numbers of nodes, and what is outside of the intervals, add up to `allowed`.

    In some game they come near to it: the last node is taken only where it is needed.
    """
    share_used = []
    for d, spread in [(6, 1.0), (15, 6.0), (40, 2.0), (40, 12.0)]:
        game = random_game(d, d, 2, kind, spread)
        for rows in rows_of(game, budget(game, 1e-8)):
            sums, r = rows.sums, rows.weight.size
            for allowed in np.geomspace(1e-10, 1e-3, 15):
                interval, counts = legendre_counts(sums, d, allowed)
                length = interval.last - interval.first
                theta = row_thetas(sums, length)
                with np.errstate(divide="ignore"):
                    log_error = log_bound(sums, interval, theta, True) + np.log(length)[:, None]
                made = np.exp(log_error + log_legendre_factor(theta) - 2 * theta * counts[:, None]).min(axis=1)
                made[(counts >= (d + 1) // 2) | (counts == 0)] = 0.0
                total = made.sum() + (OUTSIDE * allowed * sums.share if (length < 1).any() else 0.0)
                assert total <= allowed * sums.share * (1 + 1e-9)
                share_used.append(total / (allowed * sums.share) if (made > 0).sum() > r / 2 else 0.0)
    assert max(share_used) > 0.7


def test_both_ways_to_the_bound_are_taken():
    """One player after the other where light players hardly change, both groups together where they do."""
    found = set()
    for spread in (0.05, 3.0):
        game = random_game(1, 30, 1, "replaced+background", spread)
        for rows in rows_of(game, budget(game, 1e-8)):
            assert rows.masses.some_light
            found.add(rows.sums.light_squares is None)
    assert found == {True, False}


@pytest.mark.parametrize("closer", [0.0, np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_either_way_to_the_bound_holds_for_any_rows(kind, closer, monkeypatch):
    monkeypatch.setattr(rows_module, "CLOSER", closer)
    game = random_game(4, 12, 1, kind, 5.0)
    for rows in rows_of(game, budget(game, 1e-8)):
        r = rows.weight.size
        for first, last in [(0.0, 1.0), (0.0, 0.3), (0.6, 1.0)]:
            bound = log_bound(rows.sums, Interval(np.full(r, first), np.full(r, last)), SOME_THETA, True)
            for k, theta in enumerate(SOME_THETA):
                for phi in np.linspace(0, np.pi, 13):
                    z = np.cosh(theta) * np.cos(phi) + 1j * np.sinh(theta) * np.sin(phi)
                    _, delta, pair = on_ellipse(rows, np.full(r, (first + last) / 2 + (last - first) / 2 * z))
                    with np.errstate(divide="ignore"):
                        assert (np.log(np.maximum(delta, pair)) <= bound[:, k] + 1e-9).all()


def test_batches_have_every_row_once_with_enough_nodes():
    counts = np.array([3, 0, 9, 4, 9, 3])
    interval = Interval(np.zeros(6), np.where(counts > 0, 0.5, 0.0))
    for d, levels in [(BATCH_COST, [3, 4, 9]), (1, [9]), (BATCH_COST // 12, [4, 9])]:
        found = batches(interval, counts, d)
        assert [len(batch.p) for batch in found] == levels
        rows = np.concatenate([batch.rows for batch in found])
        assert sorted(rows.tolist()) == [0, 2, 3, 4, 5]
        for batch in found:
            assert (counts[batch.rows] <= len(batch.p)).all()
            assert np.allclose(batch.w_delta[0].sum(axis=0), 0.5)


def test_more_nodes_where_the_guess_of_the_ellipse_is_far_off():
    """A bound holds on any ellipse, so a poor guess costs nodes, never digits; the usual one is near the best."""
    game = random_game(3, 106, 2, "replaced+background", 1.0)
    (rows,) = rows_of(game, budget(game, 1e-10))
    length = np.ones(rows.weight.size)
    theta = row_thetas(rows.sums, length)
    dense = np.broadcast_to(np.geomspace(0.1, MOST_THETA, 200), (rows.weight.size, 200))
    whole = Interval(0 * length, length)
    guessed, best = (
        ((log_bound(rows.sums, whole, t, True) + log_legendre_factor(t) + 25) / (2 * t)).min(axis=1)
        for t in (theta, dense)
    )
    assert (best <= guessed + 1e-9).all()
    assert (guessed < best + 0.7).all()


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_rows_that_are_given_more_parts_make_no_more_than_their_error(fraction):
    """Where every row would make nearly all of several parts, rounding up must not be given away."""
    rate = np.full(40, 2.0)
    needed = np.arange(40.0) % 20 + 3 + math.log(node_counts.MORE_PARTS) / rate - 1 + fraction
    counts = node_counts._rounded_up(needed, rate, 1000, 10**9)
    assert np.exp(rate * (needed - counts)).sum() <= needed.size
    assert np.unique(counts).size > 1, "rows have numbers of their own"
